"""The vocabulary of causes: every kind, its family, what it means, and what helps against it."""

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
        name: as it stands in recordings.
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
        """Whether general shapes alone would have avoided a recompile of this kind."""
        return self.family == SHAPE


_KINDS: Final = (
    Kind(
        "size",
        SHAPE,
        "The entry was compiled for one value of this size, and the new input has another.",
        "compile with dynamic=True, or call torch._dynamo.mark_dynamic on this dimension (on all that are equal) "
        "before the first call; neither helps for a Parameter, for a size that a line needs itself, or for 0 and 1",
    ),
    Kind(
        "zero_one",
        SHAPE,
        "Sizes 0 and 1 get a graph of their own even when the dimension is dynamic.",
        "torch._dynamo.decorators.mark_unbacked on this dimension, where nothing branches on the size; or mark_dynamic "
        "under torch.fx.experimental._config.backed_size_oblivious = True (with an empty Inductor cache); "
        "or keep 0 and 1 off the compiled path: a 0 in any but the first dimension keeps a graph of its own",
    ),
    Kind(
        "rank",
        SHAPE,
        "The number of dimensions differs; a graph is compiled for one rank.",
        "give the input one rank, for example with unsqueeze or flatten before the compiled call",
    ),
    Kind(
        "duck_size",
        SHAPE,
        "Two sizes were equal when the entry was compiled, so Dynamo took them for one; now they differ.",
        "torch.fx.experimental._config.use_duck_shape = False, or make the first call with unequal sizes",
    ),
    Kind(
        "divisibility",
        SHAPE,
        "The traced code asked whether a size is divisible by a constant, and the answer changed.",
        "pad the input to a multiple, or drop the branch on the remainder",
    ),
    Kind(
        "bound",
        SHAPE,
        "The traced code compared a size with a constant, and the answer changed.",
        "keep the input on one side of the bound, or drop the branch on the size",
    ),
    Kind(
        "shape_relation",
        SHAPE,
        "The traced code relies on a relation between sizes that the new input does not keep.",
        "keep the relation between the inputs, or drop the branch that asks for it",
    ),
    Kind(
        "stride",
        "layout",
        "Same shape, other memory layout: the input is a slice, a transpose or an expanded view.",
        "call .contiguous() on {source} before the compiled call",
    ),
    Kind(
        "view_base",
        "layout",
        "The entry was compiled for an input that is a view of another tensor, and the new input is no such view.",
        "run under torch.inference_mode(), where views carry no base, or .clone() the view",
    ),
    Kind(
        "storage_offset",
        "layout",
        "The input starts at another offset of its storage.",
        "pass {source} at one offset in every call, or expect one graph for each answer to the question about it",
    ),
    Kind(
        "memory_format",
        "layout",
        "The input changed between contiguous and channels-last.",
        "convert {source} to one memory_format before the compiled call",
    ),
    Kind("dtype", "tensor", "The input has another dtype.", "cast {source} to one dtype before the compiled call"),
    Kind("device", "tensor", "The input is on another device.", "move {source} to one device before the compiled call"),
    Kind(
        "requires_grad",
        "tensor",
        "The input's requires_grad flipped; Dynamo guards it even under no_grad.",
        "pass {source}.detach() where it needs no gradient, or set requires_grad before the first call",
    ),
    Kind(
        "inference_tensor",
        "tensor",
        "One of the two inputs was made under torch.inference_mode().",
        "make all inputs under inference_mode, or none",
    ),
    Kind(
        "dispatch_keys",
        "tensor",
        "The input's dispatch keys differ (conjugate, negative, functorch, a Python mode).",
        "resolve_conj() or resolve_neg() {source}, or leave the mode before the compiled call",
    ),
    Kind(
        "tensor_type",
        "tensor",
        "The input's Python class differs (Tensor, Parameter, a subclass).",
        "pass one class of tensor for {source}",
    ),
    Kind(
        "subclass_metadata",
        "tensor",
        "A tensor subclass carries other metadata than at compile time.",
        "keep the subclass's metadata constant, or mark it as dynamic in the subclass",
    ),
    Kind(
        "dim_marking",
        "tensor",
        "mark_dynamic, mark_static or mark_unbacked was applied to one of the two tensors and not to the other.",
        "apply the same marks to {source} before every call",
    ),
    Kind(
        "python_int",
        "value",
        "A Python int has another value, and the graph was specialised on it.",
        "compile with dynamic=True, or pass {source} as a tensor; neither where the code branches on it or needs it "
        "itself, as the length of a loop",
    ),
    Kind(
        "python_float",
        "value",
        "A Python float has another value, and the graph was specialised on it.",
        "compile with dynamic=True, or pass {source} as a tensor; not as a tensor where the code branches on it",
    ),
    Kind(
        "python_bool",
        "value",
        "A Python bool flipped; each side of the branch needs its own graph.",
        "expected once for each value; a bool that is always one value may be a constant",
    ),
    Kind(
        "python_str",
        "value",
        "A string has another value; strings are always constants of the graph.",
        "expected once for each value; keep free-form strings off the compiled path",
    ),
    Kind(
        "none_vs_value",
        "value",
        "A value was None on one side and given on the other: an optional argument, or an optional part of a module.",
        "give {source} a value always (an all-true mask, say), or expect one graph for each",
    ),
    Kind(
        "python_value",
        "value",
        "A Python constant (a tuple, an enum, a dtype) has another value.",
        "keep {source} constant, or expect one graph for each value",
    ),
    Kind(
        "list_length",
        "container",
        "A list or tuple has another length; Dynamo unrolls it.",
        "pad {source} to one length, or stack it into one tensor",
    ),
    Kind(
        "dict_keys",
        "container",
        "A dict has other keys.",
        "pass {source} with the same keys at every call",
    ),
    Kind(
        "dict_order",
        "container",
        "A dict has the same keys in another order, and the traced code iterates it.",
        "build {source} in one order",
    ),
    Kind(
        "dict_length",
        "container",
        "A dict has another number of keys.",
        "pass {source} with the same keys at every call",
    ),
    Kind(
        "module_type",
        "object",
        "A submodule is of another class: blocks that share their code differ inside.",
        "expected once for each class of {source}; one class everywhere removes it",
    ),
    Kind("type", "object", "A value is of another Python class.", "pass one class for {source}"),
    Kind(
        "object_id",
        "object",
        "Another object stands where the graph was compiled for one particular object.",
        "share one object for {source} between the callers, or, of one tensor for two arguments, .clone() one",
    ),
    Kind(
        "function_id",
        "object",
        "Another function stands here.",
        "expected once for each function; one that exec or a class body makes for each call is better made once",
    ),
    Kind(
        "closure",
        "object",
        "A variable captured by a closure differs: functions made by one factory share their code object.",
        "compile with dynamic=True where {source} is a number that is only calculated with, "
        "or expect one graph for each",
    ),
    Kind(
        "module_attr_int",
        "attribute",
        "An int attribute of a module has another value (a layer index, a call counter).",
        "torch._dynamo.config.allow_unspec_int_on_nn_module = True with dynamic=True, or hold {source} in a buffer "
        "where the code does not branch on it",
    ),
    Kind(
        "module_attr",
        "attribute",
        "An attribute of a module has another value.",
        "give {source} one value in all modules that share this code, or expect one graph for each value",
    ),
    Kind(
        "module_training",
        "attribute",
        "train() or eval() was called between the calls.",
        "expected once for each mode; call eval() before the first compiled call if only inference is meant",
    ),
    Kind(
        "attr_added",
        "attribute",
        "An attribute exists on one side only: it was added or removed after compilation.",
        "set {source} before the first compiled call",
    ),
    Kind(
        "attr_changed",
        "attribute",
        "An attribute of a plain object has another value.",
        "keep {source} constant, or, where it is a number that is only calculated with, compile with dynamic=True",
    ),
    Kind(
        "attr_str",
        "attribute",
        "A string attribute has another value; strings are constants of the graph.",
        "keep {source} constant, or expect one graph for each value",
    ),
    Kind(
        "global",
        "ambient",
        "A module-level variable that the traced code reads has another value.",
        "pass {source} as an argument, or leave it constant after the first call",
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
        "Another stack of torch-function modes is active.",
        "enter the same modes around every compiled call",
    ),
    Kind(
        "default_device",
        "ambient",
        "torch.set_default_device differs.",
        "set the default device once, before the first compiled call",
    ),
    Kind(
        "backend",
        "ambient",
        "The same code was compiled for another backend, whose entries are not shared.",
        "use one backend for one function",
    ),
    Kind(
        "invalidated",
        "ambient",
        "Dynamo threw the entry away because an object that it was guarding was freed.",
        "keep the object alive for as long as the compiled code is called",
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
        "The guard raised instead of answering; its expression is shown.",
        "read the expression: it cannot be evaluated on this input at all",
    ),
    Kind(
        "unknown",
        "last resort",
        "The guard is of a sort that compilescope does not know; its text is Dynamo's.",
        "please report it with the recording attached",
    ),
)

KINDS: Final[Mapping[str, Kind]] = MappingProxyType({kind.name: kind for kind in _KINDS})
"""Every kind by its name."""
