"""Every sentence of advice, by name. A table in the tests holds programs for each: followed, and not given.

The words in braces are filled in by :mod:`compilescope.analysis.advice`: ``{source}`` is the guarded value,
``{dims}`` the dimensions to mark, ``{place}`` a line of somebody's code.
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
        "0 and 1 keep a graph of their own"
    ),
    "dynamic_instead": (
        "dynamic=False keeps every size static: compile with dynamic=True, "
        "or call torch._dynamo.mark_dynamic on {dims} before the first call"
    ),
    "static_parameter": (
        "Parameters and buffers keep static sizes whatever dynamic= says: give {source} one size in all modules that "
        "share this code, or expect one graph for each size; "
        "torch._dynamo.config.force_parameter_static_shapes = False with dynamic=True frees them"
    ),
    "lora_rank": (
        "call enable_lora_hotswap(target_rank=<the largest rank>) before the first adapter is loaded: it pads every "
        "adapter to one rank; Parameters keep static sizes whatever dynamic= says"
    ),
    "pinned": (
        "{place} fixes this size{quoted}: dynamic=True does not help, and mark_dynamic raises "
        "ConstraintViolationError; do that outside the compiled code and pass the result in, "
        "or expect one graph for each size"
    ),
    "pinned_compared": (
        "expected: {place} decides by this size{quoted}, so there is one graph for each answer, whatever is set; "
        "decide outside the compiled code and pass the result in, or keep to one answer"
    ),
    "pinned_by_chance": (
        "{place} fixes this size, or {others}, which was {size} too and so shares its symbol{quoted}: where the line "
        "needs the other alone, torch.fx.experimental._config.use_duck_shape = False, or mark_dynamic on this "
        "dimension, frees this one; where it needs this size itself, neither does"
    ),
    "pinned_somewhere": (
        "it was compiled with dynamic=True, and some line fixed this size nevertheless: TORCH_LOGS=dynamic names it "
        "(eval ... == {expected}); do what it does outside the compiled code, or expect one graph for each size"
    ),
    "zero_one": (
        "call torch._dynamo.decorators.mark_unbacked on {dims}{or_spec}; where the code branches on the "
        "size, the frame "
        f"then fails or runs eager: set {_OBLIVIOUS} instead and call mark_dynamic on {{them}}{{inductor}}{{broadcast}}"
    ),
    "zero_one_cached": (
        "backed_size_oblivious is set, but a graph that Inductor cached on disk without it asks for the size all the "
        "same: empty that cache (the folder TORCHINDUCTOR_CACHE_DIR); or, where nothing branches on the size, call "
        "torch._dynamo.decorators.mark_unbacked on {dims}{or_spec}"
    ),
    "zero_one_of_library": (
        "pad {source} so that 0 and 1 do not occur, or expect a graph for each: mark_unbacked and "
        "backed_size_oblivious help only where {library} neither branches on the size nor broadcasts it"
    ),
    "zero_one_branched": (
        f"set {_OBLIVIOUS} and call mark_dynamic on {{dims}}{{inductor}}{{broadcast}}, or pad {{source}} so "
        "that 0 and 1 "
        "do not occur; not mark_unbacked, since the code branches on this size"
    ),
    "zero_one_expected": (
        "expected: the code tells 0 or 1 from other sizes itself; pad {source} so that they do not occur, "
        "or expect a graph for each"
    ),
    "zero_inside": (
        "expected: an empty tensor has the strides of size 1, so a 0 in any but the first dimension keeps a "
        "graph of its "
        "own whatever is set; pad {source} or skip the call where it is empty, or expect that graph"
    ),
    "rank": "give {source} one rank, for example with unsqueeze or flatten before the compiled call",
    "duck_size": (
        "set torch.fx.experimental._config.use_duck_shape = False before the first call, "
        "or make the first call with unequal sizes"
    ),
    "duck_zero_one": (
        "call torch._dynamo.decorators.mark_unbacked on {dims}, where nothing branches on the sizes and they "
        "need not be "
        "equal; where a size of 1 is broadcast, expect a graph for it"
    ),
    "marked_static": "leave out the mark_static on {source}, which keeps this size static under dynamic=True as well",
    "divisibility": "pad {source} to a multiple of what {place} asks for, or expect one graph for each answer",
    "bound": "keep {source} on one side of the bound that {place} asks for, or expect one graph for each side",
    "shape_relation": "keep the relation that {place} asks for in every call, or expect one graph for each answer",
}
"""What helps against causes of the shape family."""

LAYOUTS: Final = {
    "stride": "call .contiguous() on {source} before every compiled call",
    "view_base": (
        "run under torch.inference_mode(), where views carry no base, if no gradient is needed, "
        "or pass {source}.clone() where it is a view"
    ),
    "storage_offset": (
        "pass {source} at one offset of its storage in every call, or expect one graph for each answer of {place}"
    ),
    "memory_format": "convert {source} to one memory_format before the compiled call",
}

TENSORS: Final = {
    "dtype": "cast {source} to one dtype before the compiled call, or expect one graph for each dtype",
    "device": "move {source} to one device before the compiled call, or expect one graph for each device",
    "requires_grad": (
        "pass {source} with one requires_grad in every call: .detach() it where no gradient is needed, "
        "or set requires_grad before the first call"
    ),
    "requires_grad_parameter": (
        "expected: one graph for each choice of trained parameters; "
        "call requires_grad_() on {all} before the first compiled call to need only one"
    ),
    "inference_tensor": "make all inputs under inference_mode, or none",
    "dispatch_keys": ("call resolve_conj() or resolve_neg() on {source}, or leave the mode before the compiled call"),
    "tensor_type": "pass one class of tensor for {source}",
    "subclass_metadata": "keep the metadata of the subclass constant, or expect one graph for each",
    "dim_marking": "apply the same marks to {source} before every call",
}

VALUES: Final = {
    "number": "pass {source} as a tensor, or compile with dynamic=True, which makes sizes dynamic too",
    "number_unread": (
        "where the code only calculates with {source}, compile with dynamic=True or pass it as a tensor; where it "
        "branches on it or an operator takes it as a constant, expect one graph for each answer or value"
    ),
    "number_as_tensor": "pass {source} as a tensor: dynamic=True is set and does not free it",
    "number_branched": (
        "expected: one graph for each side of the branch on {source}, and no more under dynamic=True; "
        "as a tensor or a buffer it would break the graph"
    ),
    "side_expected": (
        "expected: one graph for each side of the branch on {source}; as a tensor or a buffer it would break the graph"
    ),
    "constant_expected": (
        "expected: one graph for each value, since the code needs {source} itself{at} (a loop, an index, a lookup, "
        "a text): neither dynamic=True nor a tensor helps"
    ),
    "number_compared": (
        "expected: {place} decides by {source}{quoted}, so there is one graph for each answer; "
        "as a tensor or a buffer it would break the graph"
    ),
    "number_type": "pass {source} as one type of number in every call, for example float({source})",
    "bool_expected": (
        "expected: one graph for each value of {source}, True and False; "
        "as a tensor or a buffer it would break the graph"
    ),
    "string_expected": "expected: one graph for each value of {source}; keep free-form strings off the compiled path",
    "value_expected": "expected: one graph for each value of {source}",
    "optional_argument": ("give {source} a value in every call{for_mask}, or expect one graph with it and one without"),
    "optional_part": "expected: one graph for modules with {source} and one for those without",
    "learning_rate": (
        "make the learning rate a tensor: lr=torch.tensor(...); Adam and its kind also need capturable=True under "
        "foreach=True"
    ),
    "lora_scaling": (
        "call enable_lora_hotswap(target_rank=...) before the first adapter is loaded: it makes the scalings tensors"
    ),
}

OBJECTS: Final = {
    "list_length": (
        "give {source} one length in every call, or expect one graph for each length; "
        "tensors in a list can be padded in number or stacked into one"
    ),
    "dict_key": (
        "pass {source} with this key in every call, or without it, or expect one graph with the key and one without"
    ),
    "dict_keys": "pass {source} with the same keys in every call, or expect one graph for each set of keys",
    "dict_order": "build {source} in one order",
    "module_type": (
        "expected: one graph for each class of {source}; one class in all modules that share this code removes it"
    ),
    "shared_code": (
        "one function stands for {owners}, which share its entries and its limit: "
        "torch.compile(..., isolate_recompiles=True) gives each compiled module its own"
    ),
    "shared_code_before_isolation": (
        "one function stands for {owners}, which share its entries and its limit: "
        "compile the module that calls them instead of each of them"
    ),
    "attention_processor": (
        "give all layers one class of attention processor, for example with set_attn_processor(...) on the whole model"
    ),
    "type": "pass one class for {source}, or expect one graph for each class",
    "aliasing": "pass {source} as one tensor for both in every call, or in none: .clone() one of them",
    "object_id": "share one object for {source} between the calls, or expect one graph for each object",
    "function": (
        "expected: one graph for each function at {source}; where it is made anew for each call, make it once"
    ),
    "constant_or_tensor": (
        "expected: one graph for each value of {source}; "
        "where the code only calculates with it, pass it as a tensor argument"
    ),
}

ATTRIBUTES: Final = {
    "module_int": f"set {_UNSPEC}{{and_dynamic}}, or hold {{source}} in a tensor",
    "module_int_unread": (
        f"where the code only calculates with {{source}}, set {_UNSPEC}{{and_dynamic}}, or hold it in a tensor; "
        "where it branches on it or needs it itself, expect one graph for each value"
    ),
    "module_int_branched": (
        f"expected: one graph for each side of the branch on {{source}}, and no more if you set {_UNSPEC}"
        "{and_dynamic}; as a tensor or a buffer it would break the graph"
    ),
    "module_training": (
        "expected: one graph for each mode; call eval() before the first compiled call if only inference is meant"
    ),
    "attr_added": (
        "have {source} set from the first compiled call on, or never (a hook or a scheduler may set it later), "
        "or expect one graph with it and one without"
    ),
    "global_branched": (
        "expected: one graph for each value of {source}; pass it as an argument{and_dynamic}, and there is one for "
        "each side of the branch; as a tensor or a buffer it would break the graph"
    ),
    "global_number": "pass {source} as an argument{and_dynamic}, or make it a tensor",
    "global_state": "set {source} once, before the first compiled call, and run every call under it",
    "torch_function_mode": "enter the same modes around every compiled call",
    "default_device": "set the default device once, before the first compiled call",
    "backend": "use one backend for one function",
    "invalidated": "keep the object alive for as long as the compiled code is called",
    "concurrent": "call the compiled code once in one thread before the other threads start",
    "guard_error": "read the expression: it cannot be evaluated on this input at all",
    "unknown": "please report it with the recording attached",
}

BREAKS: Final = {
    "resumed": "remove the graph break at {place}, and this function is not compiled at all: {remedy}",
    "print": (
        "torch._dynamo.config.reorderable_logging_functions.add({function}) removes all breaks of this kind that have "
        "plain positional arguments: the call then runs after the graph; "
        "torch._dynamo.config.ignore_logging_functions.add({function}) removes all of them and leaves the calls out"
    ),
    "print_ignored": (
        "these arguments do not let it run after the graph: move {function} from "
        "torch._dynamo.config.reorderable_logging_functions to ignore_logging_functions, "
        "so that compiled code leaves the call out"
    ),
    "logging": (
        "torch._dynamo.config.ignore_logger_methods.add(logging.Logger.{method}) removes all breaks of this kind: "
        "compiled code then leaves the call out"
    ),
    "item": "torch._dynamo.config.capture_scalar_outputs = True, where nothing branches on the number",
    "item_branched": "keep the number a tensor: torch.where or torch.cond instead of a branch on it",
    "dynamic_shape_op": (
        "torch._dynamo.config.capture_dynamic_output_shape_ops = True, where nothing branches on the size of the "
        "result, or an operator of fixed size (torch.where with a default, a mask)"
    ),
    "data_dependent_branch": "torch.where or torch.cond instead of the branch, or branch outside the compiled code",
    "explicit_graph_break": "remove the call where a whole graph is wanted",
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
        "{place} makes {source} a constant: where it is equal to another dimension there, mark both with mark_dynamic; "
        "where the line needs the number itself, leave the mark out (maybe_mark_dynamic does not raise)"
    ),
    "recompile_limit": (
        "remove the recompiles by their own advice; where the number of graphs is bounded, "
        "raise torch._dynamo.config.recompile_limit to it"
    ),
    "recompile_forbidden": "make one call with such inputs before recompiles are forbidden",
}

SENTENCES: Final[Mapping[str, str]] = MappingProxyType(
    SHAPES | LAYOUTS | TENSORS | VALUES | OBJECTS | ATTRIBUTES | BREAKS | ERRORS
)
"""Every sentence by its name."""
