"""The vocabulary of causes: every kind, its family, what it means, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SHAPE: Final = "shape"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of cause.

    Attributes:
        name: as recordings spell it.
        family: shape, layout, tensor, value, container, object, attribute, ambient or last resort.
        meaning: what the guard checks, and why it failed.
        advice: one line; ``{source}`` stands for the guarded value. A test applies it and sees the recompile gone.
    """

    name: str
    family: str
    meaning: str
    advice: str

    @property
    def shape_driven(self) -> bool:
        """Whether a graph that is general in its shapes would have avoided a recompile of this kind."""
        return self.family == SHAPE


_KINDS: Final = (
    Kind(
        "size",
        SHAPE,
        "The entry was compiled for one value of this size, and the new input has a different one.",
        "compile with dynamic=True, or call torch._dynamo.mark_dynamic on this dimension (and on every "
        "dimension of equal size) before the first call; neither helps for a Parameter, for a size that the code needs "
        "as a constant, or for 0 and 1",
    ),
    Kind(
        "zero_one",
        SHAPE,
        "Sizes 0 and 1 each get their own graph, even when the dimension is dynamic.",
        "call torch._dynamo.decorators.mark_unbacked on this dimension if nothing branches on the size; or call "
        "mark_dynamic under torch.fx.experimental._config.backed_size_oblivious = True (with an empty Inductor cache); "
        "or keep 0 and 1 out of the compiled code: a 0 in any dimension but the first always has its own graph",
    ),
    Kind(
        "rank",
        SHAPE,
        "The number of dimensions differs; each graph is compiled for one rank.",
        "give the input the same rank in every call, for example with unsqueeze or flatten before the compiled call",
    ),
    Kind(
        "duck_size",
        SHAPE,
        "Two sizes were equal when the entry was compiled, so Dynamo gave them one symbol; now they differ.",
        "set torch.fx.experimental._config.use_duck_shape = False, or make the first call with unequal sizes",
    ),
    Kind(
        "divisibility",
        SHAPE,
        "The traced code checks whether a size is divisible by a constant, and the answer changed.",
        "pad the input to a multiple, or remove the branch on the remainder",
    ),
    Kind(
        "bound",
        SHAPE,
        "The traced code compares a size with a constant, and the answer changed.",
        "keep the input on one side of the bound, or remove the branch on the size",
    ),
    Kind(
        "shape_relation",
        SHAPE,
        "The traced code relies on a relation between sizes that the new input does not satisfy.",
        "keep the relation between the inputs, or remove the branch that needs it",
    ),
    Kind(
        "stride",
        "layout",
        "The shape is the same, but the memory layout differs: the input is a slice, a transpose or an expanded view.",
        "call .contiguous() on {source} before the compiled call",
    ),
    Kind(
        "view_base",
        "layout",
        "The entry was compiled for an input that is a view of another tensor, and the new input is not.",
        "run under torch.inference_mode(), where views have no base, or .clone() the view",
    ),
    Kind(
        "storage_offset",
        "layout",
        "The input starts at a different offset in its storage.",
        "pass {source} at the same offset in every call, or expect one graph for each result of the check on it",
    ),
    Kind(
        "memory_format",
        "layout",
        "The input changed between contiguous and channels-last.",
        "convert {source} to one memory_format before the compiled call",
    ),
    Kind("dtype", "tensor", "The input has a different dtype.", "cast {source} to one dtype before the compiled call"),
    Kind(
        "device",
        "tensor",
        "The input is on a different device.",
        "move {source} to one device before the compiled call",
    ),
    Kind(
        "requires_grad",
        "tensor",
        "The input's requires_grad changed; Dynamo guards on it even under no_grad.",
        "pass {source}.detach() if it needs no gradient, or set requires_grad before the first call",
    ),
    Kind(
        "inference_tensor",
        "tensor",
        "Only one of the two inputs, old and new, was created under torch.inference_mode().",
        "create all inputs under inference_mode, or none",
    ),
    Kind(
        "dispatch_keys",
        "tensor",
        "The input's dispatch keys differ (conjugate, negative, functorch, a Python mode).",
        "call resolve_conj() or resolve_neg() on {source}, or leave the mode before the compiled call",
    ),
    Kind(
        "tensor_type",
        "tensor",
        "The input's Python class differs (Tensor, Parameter, a subclass).",
        "pass the same class of tensor for {source} in every call",
    ),
    Kind(
        "subclass_metadata",
        "tensor",
        "A tensor subclass has different metadata from when the entry was compiled.",
        "keep the subclass's metadata constant, or mark it as dynamic in the subclass",
    ),
    Kind(
        "dim_marking",
        "tensor",
        "mark_dynamic, mark_static or mark_unbacked was applied to only one of the two tensors, old and new.",
        "apply the same marks to {source} before every call",
    ),
    Kind(
        "python_int",
        "value",
        "A Python int has a different value, and the graph was specialised on the old one.",
        "compile with dynamic=True, or pass {source} as a tensor; neither helps where the code branches on it or needs "
        "it as a constant, such as the length of a loop",
    ),
    Kind(
        "python_float",
        "value",
        "A Python float has a different value, and the graph was specialised on the old one.",
        "compile with dynamic=True, or pass {source} as a tensor, unless the code branches on it",
    ),
    Kind(
        "python_bool",
        "value",
        "A Python bool changed; each side of the branch needs its own graph.",
        "one graph for each value is expected; a bool that never changes can be a constant",
    ),
    Kind(
        "python_str",
        "value",
        "A string has a different value; strings are always constants in the graph.",
        "one graph for each value is expected; keep free-form strings out of the compiled code",
    ),
    Kind(
        "none_vs_value",
        "value",
        "A value is None now and was not before, or the reverse: an optional argument or part of a module.",
        "always give {source} a value (for example an all-true mask), or expect one graph with it and one without",
    ),
    Kind(
        "python_value",
        "value",
        "A Python constant (a tuple, an enum, a dtype) has a different value.",
        "keep {source} constant, or expect one graph for each value",
    ),
    Kind(
        "list_length",
        "container",
        "A list or tuple has a different length; Dynamo unrolls it.",
        "pad {source} to one length, or stack it into one tensor",
    ),
    Kind(
        "dict_keys",
        "container",
        "A dict has different keys.",
        "pass {source} with the same keys in every call",
    ),
    Kind(
        "dict_order",
        "container",
        "A dict has the same keys in a different order, and the traced code iterates over it.",
        "build {source} in the same order every time",
    ),
    Kind(
        "dict_length",
        "container",
        "A dict has a different number of keys.",
        "pass {source} with the same keys in every call",
    ),
    Kind(
        "module_type",
        "object",
        "A submodule has a different class: blocks that share their code contain different modules.",
        "one graph for each class of {source} is expected; using one class everywhere avoids the recompile",
    ),
    Kind("type", "object", "A value has a different Python class.", "pass the same class for {source} in every call"),
    Kind(
        "object_id",
        "object",
        "The graph was compiled for one particular object, and a different object is there now.",
        "share one object for {source} between the callers; if one tensor is passed for two arguments, .clone() one",
    ),
    Kind(
        "function_id",
        "object",
        "The graph was compiled for one function, and a different function is there now.",
        "one graph for each function is expected; if exec or a class body creates it on every call, create it once",
    ),
    Kind(
        "closure",
        "object",
        "A variable captured by a closure differs: functions made by one factory share their code object.",
        "compile with dynamic=True if {source} is a number used only in arithmetic, or expect one graph for each value",
    ),
    Kind(
        "module_attr_int",
        "attribute",
        "An int attribute of a module has a different value (a layer index, a call counter).",
        "set torch._dynamo.config.allow_unspec_int_on_nn_module = True with dynamic=True, or hold {source} in a buffer "
        "if the code does not branch on it",
    ),
    Kind(
        "module_attr",
        "attribute",
        "An attribute of a module has a different value.",
        "give {source} one value in all modules that share this code, or expect one graph for each value",
    ),
    Kind(
        "module_training",
        "attribute",
        "train() or eval() was called since the entry was compiled.",
        "one graph for each mode is expected; for inference only, call eval() before the first compiled call",
    ),
    Kind(
        "attr_added",
        "attribute",
        "An attribute was added or removed since the entry was compiled.",
        "set {source} before the first compiled call",
    ),
    Kind(
        "attr_changed",
        "attribute",
        "An attribute of a plain object has a different value.",
        "keep {source} constant, or compile with dynamic=True if it is a number used only in arithmetic",
    ),
    Kind(
        "attr_str",
        "attribute",
        "A string attribute has a different value; strings are constants in the graph.",
        "keep {source} constant, or expect one graph for each value",
    ),
    Kind(
        "global",
        "ambient",
        "A module-level variable that the traced code reads has a different value.",
        "pass {source} as an argument, or do not change it after the first call",
    ),
    Kind(
        "global_state",
        "ambient",
        "Process-wide torch state differs (grad mode, autocast, default dtype, threads, deterministic algorithms).",
        "set {source} once, before the first compiled call, and run every call under it",
    ),
    Kind(
        "torch_function_mode",
        "ambient",
        "A different stack of torch-function modes is active.",
        "enter the same modes around every compiled call",
    ),
    Kind(
        "default_device",
        "ambient",
        "The default device (torch.set_default_device) differs.",
        "set the default device once, before the first compiled call",
    ),
    Kind(
        "backend",
        "ambient",
        "The same code was compiled with a different backend; backends do not share entries.",
        "use one backend for each function",
    ),
    Kind(
        "invalidated",
        "ambient",
        "Dynamo discarded the entry because an object that it guarded was freed.",
        "keep the object alive as long as the compiled code is called",
    ),
    Kind(
        "concurrent",
        "ambient",
        "Another thread compiled the same code for the same inputs while this thread waited to compile it.",
        "call the compiled code once in one thread before the other threads start",
    ),
    Kind(
        "guard_error",
        "last resort",
        "The guard raised an exception instead of returning a result; its expression is shown.",
        "read the expression: it cannot be evaluated on this input",
    ),
    Kind(
        "unknown",
        "last resort",
        "compilescope does not know this type of guard; the text is Dynamo's.",
        "please report it and attach the recording",
    ),
)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType({kind.name: kind for kind in _KINDS})
"""Every kind by its name."""
