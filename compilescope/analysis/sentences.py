"""Every sentence of advice, by name. A table in the tests holds programs that must get it and that must not.

The words in braces are filled in by :mod:`compilescope.analysis.advice`: ``{source}`` is the guarded value,
``{dims}`` the dimensions to mark, ``{place}`` a line of code.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_OBLIVIOUS: Final = "torch.fx.experimental._config.backed_size_oblivious = True"
_UNSPEC: Final = "torch._dynamo.config.allow_unspec_int_on_nn_module = True"

SHAPES: Final = {
    "dynamic": (
        "compile with dynamic=True, or call torch._dynamo.mark_dynamic on {dims} before the first call; "
        "0 and 1 keep their own graph"
    ),
    "dynamic_instead": (
        "dynamic=False keeps every size static: compile with dynamic=True, "
        "or call torch._dynamo.mark_dynamic on {dims} before the first call"
    ),
    "static_parameter": (
        "Parameters and buffers keep static sizes whatever dynamic= is set to: give {source} one size in all modules "
        "that share this code, or expect one graph for each size; "
        "torch._dynamo.config.force_parameter_static_shapes = False with dynamic=True makes them dynamic"
    ),
    "lora_rank": (
        "call enable_lora_hotswap(target_rank=<the largest rank>) before the first adapter is loaded: it pads every "
        "adapter to one rank; Parameters keep static sizes whatever dynamic= is set to"
    ),
    "pinned": (
        "{place} fixes this size{quoted}: dynamic=True does not help, and mark_dynamic raises "
        "ConstraintViolationError; do this step outside the compiled code and pass the result in, "
        "or expect one graph for each size"
    ),
    "pinned_compared": (
        "expected: {place} tests this size{quoted}, so there is one graph for each outcome, whatever the settings; "
        "do the test outside the compiled code and pass the result in, or keep to one outcome"
    ),
    "pinned_by_chance": (
        "{place} fixes this size, or {others}, which was also {size} and so shares its symbol{quoted}: if the line "
        "needs only the other, torch.fx.experimental._config.use_duck_shape = False, or mark_dynamic on this "
        "dimension, makes this one dynamic; if it needs this size, neither helps"
    ),
    "pinned_somewhere": (
        "it was compiled with dynamic=True, but some line still fixed this size: TORCH_LOGS=dynamic names it "
        "(eval ... == {expected}); do that step outside the compiled code, or expect one graph for each size"
    ),
    "zero_one": (
        "call torch._dynamo.decorators.mark_unbacked on {dims}{or_spec}; if the code branches on the "
        f"size, the frame then fails or runs eagerly: set {_OBLIVIOUS} instead "
        "and call mark_dynamic on {them}{inductor}{broadcast}"
    ),
    "zero_one_cached": (
        "backed_size_oblivious is set, but a graph that Inductor cached on disk without it still checks the "
        "size: empty that cache (the folder TORCHINDUCTOR_CACHE_DIR); or, if nothing branches on the size, call "
        "torch._dynamo.decorators.mark_unbacked on {dims}{or_spec}"
    ),
    "zero_one_of_library": (
        "pad {source} so that 0 and 1 do not occur, or expect a graph for each: mark_unbacked and "
        "backed_size_oblivious help only if {library} neither branches on the size nor broadcasts it"
    ),
    "zero_one_branched": (
        f"set {_OBLIVIOUS} and call mark_dynamic on {{dims}}{{inductor}}{{broadcast}}, or pad {{source}} so "
        "that 0 and 1 do not occur; mark_unbacked does not help, since the code branches on this size"
    ),
    "zero_one_expected": (
        "expected: the code treats 0 or 1 differently from other sizes; pad {source} so that they do not occur, "
        "or expect a graph for each"
    ),
    "zero_inside": (
        "expected: an empty tensor has the strides of size 1, so a 0 in any dimension but the first keeps its own "
        "graph, whatever the settings; pad {source}, skip the call if it is empty, or expect that graph"
    ),
    "rank": "give {source} the same rank in every call, for example with unsqueeze or flatten before the compiled call",
    "duck_size": (
        "set torch.fx.experimental._config.use_duck_shape = False before the first call, "
        "or make the first call with unequal sizes"
    ),
    "duck_zero_one": (
        "call torch._dynamo.decorators.mark_unbacked on {dims} if nothing branches on the sizes and they "
        "need not be equal; if a size of 1 is broadcast, expect a graph for it"
    ),
    "marked_static": "remove the mark_static on {source}: it keeps this size static even under dynamic=True",
    "divisibility": "pad {source} to a multiple of the divisor at {place}, or expect one graph for each outcome",
    "bound": "keep {source} on one side of the bound at {place}, or expect one graph for each side",
    "shape_relation": "keep the relation that {place} checks in every call, or expect one graph for each outcome",
}
"""What helps against causes of the shape family."""

LAYOUTS: Final = {
    "stride": "call .contiguous() on {source} before every compiled call",
    "view_base": (
        "run under torch.inference_mode(), where views have no base, if no gradient is needed, "
        "or pass {source}.clone() if it is a view"
    ),
    "storage_offset": (
        "pass {source} at the same offset in its storage in every call, "
        "or expect one graph for each result of the check at {place}"
    ),
    "memory_format": "convert {source} to one memory_format before the compiled call",
}

TENSORS: Final = {
    "dtype": "cast {source} to one dtype before the compiled call, or expect one graph for each dtype",
    "device": "move {source} to one device before the compiled call, or expect one graph for each device",
    "requires_grad": (
        "pass {source} with the same requires_grad in every call: .detach() it if no gradient is needed, "
        "or set requires_grad before the first call"
    ),
    "requires_grad_parameter": (
        "expected: one graph for each choice of trained parameters; "
        "call requires_grad_() on {all} before the first compiled call to need only one"
    ),
    "inference_tensor": "create all inputs under inference_mode, or none",
    "dispatch_keys": ("call resolve_conj() or resolve_neg() on {source}, or leave the mode before the compiled call"),
    "tensor_type": "pass the same class of tensor for {source} in every call",
    "subclass_metadata": "keep the metadata of the subclass constant, or expect one graph for each",
    "dim_marking": "apply the same marks to {source} before every call",
}

VALUES: Final = {
    "number": "pass {source} as a tensor, or compile with dynamic=True, which makes sizes dynamic too",
    "number_unread": (
        "if the code uses {source} only in arithmetic, compile with dynamic=True or pass it as a tensor; "
        "if it branches on it, or an operator takes it as a constant, expect one graph for each outcome or value"
    ),
    "number_as_tensor": "pass {source} as a tensor: dynamic=True is set and does not make it dynamic",
    "number_branched": (
        "expected: one graph for each side of the branch on {source}, and no more than that under dynamic=True; "
        "as a tensor or a buffer it would break the graph"
    ),
    "side_expected": (
        "expected: one graph for each side of the branch on {source}; as a tensor or a buffer it would break the graph"
    ),
    "constant_expected": (
        "expected: one graph for each value, since the code needs {source} as a constant{at} (a loop, an index, a "
        "lookup, a string): neither dynamic=True nor a tensor helps"
    ),
    "number_compared": (
        "expected: {place} tests {source}{quoted}, so there is one graph for each outcome; "
        "as a tensor or a buffer it would break the graph"
    ),
    "number_type": "pass {source} as the same type of number in every call, for example float({source})",
    "bool_expected": (
        "expected: one graph for each value of {source}, True and False; "
        "as a tensor or a buffer it would break the graph"
    ),
    "string_expected": (
        "expected: one graph for each value of {source}; keep free-form strings out of the compiled code"
    ),
    "value_expected": "expected: one graph for each value of {source}",
    "optional_argument": ("give {source} a value in every call{for_mask}, or expect one graph with it and one without"),
    "optional_part": "expected: one graph for modules with {source} and one for those without",
    "learning_rate": (
        "make the learning rate a tensor: lr=torch.tensor(...); Adam and its variants also need capturable=True under "
        "foreach=True"
    ),
    "lora_scaling": (
        "call enable_lora_hotswap(target_rank=...) before the first adapter is loaded: it makes the scalings tensors"
    ),
}

OBJECTS: Final = {
    "list_length": (
        "give {source} the same length in every call, or expect one graph for each length; "
        "pad the list to a fixed number of tensors, or stack them into one"
    ),
    "dict_key": (
        "pass {source} with this key in every call, or without it, or expect one graph with the key and one without"
    ),
    "dict_keys": "pass {source} with the same keys in every call, or expect one graph for each set of keys",
    "dict_order": "build {source} in the same order every time",
    "module_type": (
        "expected: one graph for each class of {source}; "
        "using one class in all modules that share this code avoids the recompile"
    ),
    "shared_code": (
        "{owners} run through one function and share its entries and its limit: "
        "torch.compile(..., isolate_recompiles=True) gives each compiled module its own"
    ),
    "shared_code_before_isolation": (
        "{owners} run through one function and share its entries and its limit: "
        "compile the module that calls them instead of each of them"
    ),
    "attention_processor": (
        "give all layers one class of attention processor, for example with set_attn_processor(...) on the whole model"
    ),
    "type": "pass the same class for {source} in every call, or expect one graph for each class",
    "aliasing": "pass one tensor for both of {source} in every call, or in no call: .clone() one of them",
    "object_id": "share one object for {source} between the calls, or expect one graph for each object",
    "function": ("expected: one graph for each function at {source}; if each call creates a new one, create it once"),
    "constant_or_tensor": (
        "expected: one graph for each value of {source}; "
        "if the code uses it only in arithmetic, pass it as a tensor argument"
    ),
}

ATTRIBUTES: Final = {
    "module_int": f"set {_UNSPEC}{{and_dynamic}}, or hold {{source}} in a tensor",
    "module_int_unread": (
        f"if the code uses {{source}} only in arithmetic, set {_UNSPEC}{{and_dynamic}}, or hold it in a tensor; "
        "if it branches on it or needs it as a constant, expect one graph for each value"
    ),
    "module_int_branched": (
        f"expected: one graph for each side of the branch on {{source}}, and no more than that if you set {_UNSPEC}"
        "{and_dynamic}; as a tensor or a buffer it would break the graph"
    ),
    "module_training": (
        "expected: one graph for each mode; for inference only, call eval() before the first compiled call"
    ),
    "attr_added": (
        "set {source} before the first compiled call, or never (a hook or a scheduler may set it later), "
        "or expect one graph with it and one without"
    ),
    "global_branched": (
        "expected: one graph for each value of {source}; pass it as an argument{and_dynamic} to have only one for "
        "each side of the branch; as a tensor or a buffer it would break the graph"
    ),
    "global_number": "pass {source} as an argument{and_dynamic}, or make it a tensor",
    "global_state": "set {source} once, before the first compiled call, and run every call under it",
    "torch_function_mode": "enter the same modes around every compiled call",
    "default_device": "set the default device once, before the first compiled call",
    "backend": "use one backend for each function",
    "invalidated": "keep the object alive as long as the compiled code is called",
    "concurrent": "call the compiled code once in one thread before the other threads start",
    "guard_error": "read the expression: it cannot be evaluated on this input",
    "unknown": "please report it and attach the recording",
}

BREAKS: Final = {
    "resumed": "remove the graph break at {place}; then there is no resume function to compile: {remedy}",
    "print": (
        "torch._dynamo.config.reorderable_logging_functions.add({function}) removes all breaks of this kind whose "
        "arguments are plain and positional: the call then runs after the graph; "
        "torch._dynamo.config.ignore_logging_functions.add({function}) removes all of them and drops the calls"
    ),
    "print_ignored": (
        "with these arguments it cannot run after the graph: move {function} from "
        "torch._dynamo.config.reorderable_logging_functions to ignore_logging_functions, "
        "so that compiled code drops the call"
    ),
    "logging": (
        "torch._dynamo.config.ignore_logger_methods.add(logging.Logger.{method}) removes all breaks of this kind: "
        "compiled code then drops the call"
    ),
    "item": "set torch._dynamo.config.capture_scalar_outputs = True if nothing branches on the number",
    "item_branched": "keep the number in a tensor: use torch.where or torch.cond instead of a branch on it",
    "dynamic_shape_op": (
        "set torch._dynamo.config.capture_dynamic_output_shape_ops = True if nothing branches on the size of the "
        "result, or use an operator whose result has a fixed size (torch.where with a default, a mask)"
    ),
    "data_dependent_branch": "use torch.where or torch.cond instead of the branch, or branch outside the compiled code",
    "explicit_graph_break": "remove the call if you want one graph",
    "break_of_library": "expected: {library} breaks the graph there on purpose; call it outside the compiled code",
    "compiler_disable": "expected: the function is disabled on purpose; call it outside the compiled code",
    "no_fake_kernel": "give the operator a fake implementation with torch.library.register_fake",
    "experts": (
        'choose a batched implementation of the experts: experts_implementation="grouped_mm" or "batched_mm" '
        "in from_pretrained, or set_experts_implementation(...) on the model"
    ),
}

ERRORS: Final = {
    "constraint_violation": (
        "{place} makes {source} a constant: if the line makes it equal to another dimension, "
        "mark both with mark_dynamic; if the line needs the number as a constant, remove the mark "
        "(maybe_mark_dynamic does not raise)"
    ),
    "recompile_limit": (
        "follow the advice for each recompile; if the number of graphs is bounded, "
        "raise torch._dynamo.config.recompile_limit to that number"
    ),
    "recompile_forbidden": "make one call with such inputs before you forbid recompiles",
}

SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    SHAPES | LAYOUTS | TENSORS | VALUES | OBJECTS | ATTRIBUTES | BREAKS | ERRORS
)
"""Every sentence by its name."""
