"""Tensors: sizes, ranks, dtypes, layouts, what they are views of, and their class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import NONE, Thing, same, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn

    from .parts import Ground, Holder

STRIDED: Final = """
def strided(size, stride, offset=0):
    # A tensor of that layout which is not a view of another.
    numbers = torch.ones(offset + 1 + sum((n - 1) * step for n, step in zip(size, stride)))
    return torch.empty(0).set_(numbers.untyped_storage(), offset, size, stride)
"""
_TAGGED: Final = """
class Tagged(torch.Tensor):
    pass
"""
_INFERRED: Final = """
def inferred(*size):
    with torch.inference_mode():
        return torch.ones(*size)
"""
_SUM: Final = "outs.append({v}.sum())"
_ZERO_ONE: Final = (0, 1)


def tensor_kinds(*kinds: str) -> Callable[[Holder], frozenset[str]]:
    """Return kinds that are told of a tensor's property, whatever holds the tensor."""
    return lambda _: frozenset(kinds)


def size_kinds(ground: Ground, old: int, new: int) -> Callable[[Holder], frozenset[str]]:
    """Return the kinds of a size that changes: sizes of 0 and 1 have a graph of their own.

    A static entry is off by its size; what has no dynamic sizes at all (a module's own tensors) is static in any case.
    """
    if old in _ZERO_ONE:
        return tensor_kinds("zero_one")
    if new not in _ZERO_ONE:
        return tensor_kinds("size")
    if ground.dynamic is True:
        return lambda holder: frozenset({"zero_one", "size"} if holder == "module" else {"zero_one"})
    return tensor_kinds("zero_one", "size")


def size(draw: DrawFn, ground: Ground) -> Thing:
    """A dimension of another size."""
    old, new = draw(
        st.sampled_from(
            [(ground.old, ground.new), (ground.old, 1), (1, ground.old), (ground.old, 0), (0, ground.new), (0, 1)]
        )
    )
    dim = draw(st.integers(0, 1))
    write = ("torch.ones({n}, 3)", "torch.ones(3, {n})")[dim]
    readings = [_SUM, _SUM, "outs.append({v} * 2)", f"outs.append(one * {{v}}.size({dim}))", "outs.append({v}.t() + 1)"]
    readings.append(f"count = {{v}}.size({dim})\nouts.append(one * len(f'{{count}}'))")
    return Thing(
        sort=f"size {word(old)} -> {word(new)}",
        before=write.format(n=old),
        after=write.format(n=new),
        reading=draw(st.sampled_from(readings)),
        kinds=size_kinds(ground, old, new),
        suffixes=(f".size()[{dim}]",),
        expected=texts(old) if ground.dynamic is not True else None,
        actual=texts(new),
        shape=True,
    )


def word(number: int) -> str:
    """Write a size for the statistics: 0 and 1 are sorts of their own."""
    return str(number) if number in _ZERO_ONE else "n"


def rank(draw: DrawFn, ground: Ground) -> Thing:
    """Another number of dimensions."""
    shapes = [
        f"torch.ones({ground.old}, 3)",
        f"torch.ones({ground.old}, 3, 4)",
        f"torch.ones({ground.old})",
        "torch.ones(())",
    ]
    before, after = draw(st.permutations(shapes))[:2]
    return Thing(
        sort="rank",
        before=before,
        after=after,
        reading=_SUM,
        kinds=tensor_kinds("rank"),
        suffixes=(".dim()",),
        expected=texts(_rank(before)),
        actual=texts(_rank(after)),
        shape=True,
    )


def _rank(written: str) -> int:
    return 0 if "()" in written else written.count(",") + 1


def dtype(draw: DrawFn, ground: Ground) -> Thing:
    """Another dtype."""
    dtypes = ["torch.float32", "torch.float64", "torch.bfloat16", "torch.int64", "torch.bool", "torch.complex64"]
    before, after = draw(st.permutations(dtypes))[:2]
    return Thing(
        sort="dtype",
        before=f"torch.ones({ground.old}, 3, dtype={before})",
        after=f"torch.ones({ground.old}, 3, dtype={after})",
        reading=draw(st.sampled_from([_SUM, "outs.append({v} * 2)"])),
        kinds=tensor_kinds("dtype"),
        suffixes=(".dtype",),
        expected=texts(before),
        actual=texts(after),
    )


def requires_grad(draw: DrawFn, ground: Ground) -> Thing:
    """A leaf of autograd or a constant."""
    before, after = draw(st.sampled_from([(True, False), (False, True)]))
    return Thing(
        sort="requires_grad",
        before=f"torch.ones({ground.old}, 3, requires_grad={before})",
        after=f"torch.ones({ground.old}, 3, requires_grad={after})",
        reading=draw(st.sampled_from([_SUM, "outs.append({v} * 2 if {v}.requires_grad else {v} * 3)"])),
        kinds=tensor_kinds("requires_grad"),
        suffixes=(".requires_grad",),
        expected=texts(before),
        actual=texts(after),
    )


def device(draw: DrawFn, ground: Ground) -> Thing:
    """Another device."""
    before, after = draw(st.sampled_from([("cpu", "meta"), ("meta", "cpu")]))
    return Thing(
        sort="device",
        before=f'torch.ones({ground.old}, 3, device="{before}")',
        after=f'torch.ones({ground.old}, 3, device="{after}")',
        reading=_SUM,
        kinds=tensor_kinds("device"),
        suffixes=(".device",),
        expected=texts(before),
        actual=texts(after),
    )


def subclass(draw: DrawFn, ground: Ground) -> Thing:
    """Another class of tensor."""
    made = f"torch.ones({ground.old}, 3)"
    classes = {
        "Tensor": made,
        "Tagged": f"{made}.as_subclass(Tagged)",
        "Parameter": f"nn.Parameter({made}, requires_grad=False)",
    }
    before, after = draw(st.permutations(list(classes)))[:2]
    return Thing(
        sort="tensor class",
        before=classes[before],
        after=classes[after],
        reading=_SUM,
        kinds=tensor_kinds("tensor_type"),
        expected=texts(before),
        actual=texts(after),
        definitions=_TAGGED,
    )


def inference(draw: DrawFn, ground: Ground) -> Thing:
    """A tensor that was made under inference mode."""
    made = [f"torch.ones({ground.old}, 3)", f"inferred({ground.old}, 3)"]
    before, after = draw(st.permutations(made))
    return Thing(
        sort="inference tensor",
        before=before,
        after=after,
        reading=_SUM,
        kinds=tensor_kinds("inference_tensor"),
        definitions=_INFERRED,
    )


_LAYOUT_SUFFIXES: Final = ("", ".stride()", ".stride()[0]", ".stride()[1]", ".stride()[2]", ".stride()[3]")


def layout(draw: DrawFn, ground: Ground) -> Thing:
    """The same sizes in another memory layout, without a base on either side."""
    rows, step = ground.old, ground.new
    layouts = [f"strided(({rows}, 3), {stride})" for stride in ((3, 1), (step, 1), (1, rows), (2 * step, 2))]
    before, after = draw(st.permutations(layouts))[:2]
    return Thing(
        sort="strides",
        before=before,
        after=after,
        reading=draw(
            st.sampled_from(
                [_SUM, "outs.append({v} * 2)", "outs.append({v}.sin() if {v}.is_contiguous() else {v}.cos())"]
            )
        ),
        kinds=tensor_kinds("stride"),
        suffixes=_LAYOUT_SUFFIXES[1:4],
        definitions=STRIDED,
    )


def memory_format(draw: DrawFn, ground: Ground) -> Thing:
    """Contiguous or channels-last."""
    made = f"torch.ones(2, 3, 4, {ground.old})"
    before, after = draw(st.permutations([made, f"{made}.to(memory_format=torch.channels_last)"]))
    return Thing(
        sort="memory format",
        before=before,
        after=after,
        reading=_SUM,
        kinds=tensor_kinds("memory_format", "stride"),
        suffixes=_LAYOUT_SUFFIXES,
    )


def offset(draw: DrawFn, ground: Ground) -> Thing:
    """The same layout at another place of the storage."""
    before, after = draw(
        st.sampled_from([(ground.other, ground.new), (0, ground.new), (ground.new, 0), (1, ground.new)])
    )
    layouts = [f"strided(({ground.old}, 3), (3, 1), {where})" for where in (before, after)]
    return Thing(
        sort="storage offset",
        before=layouts[0],
        after=layouts[1],
        reading=draw(st.sampled_from([_SUM, "outs.append({v} * 2)", "outs.append({v}.view(-1) + 1)"])),
        kinds=tensor_kinds("storage_offset"),
        suffixes=(".storage_offset()",),
        definitions=STRIDED,
    )


def base(draw: DrawFn, ground: Ground) -> Thing:
    """A view of another tensor, or none, with the same sizes, strides and offset."""
    made = [f"torch.ones({ground.old}, 3)", f"torch.ones({ground.new}, 3)[:{ground.old}]"]
    before, after = draw(st.permutations(made))
    return Thing(
        sort="view base",
        before=before,
        after=after,
        reading=draw(st.sampled_from([_SUM, "outs.append({v} * 2)"])),
        kinds=tensor_kinds("view_base"),
        suffixes=("._base",),
    )


def optional_tensor(draw: DrawFn, ground: Ground) -> Thing:
    """A tensor or None."""
    before, after = draw(st.permutations([f"torch.ones({ground.old}, 3)", "None"]))
    return Thing(
        sort="None or tensor",
        before=before,
        after=after,
        reading="outs.append(one * 2 if {v} is None else {v}.sum())",
        kinds=tensor_kinds("none_vs_value"),
        expected=NONE if before == "None" else None,
        actual=NONE if after == "None" else None,
    )


def _described(ones: str) -> str:
    """Write ``torch.ones(5, 3)`` as a report does."""
    return f"f32[{ones.removeprefix('torch.ones(').removesuffix(')')}]"


def number_or_tensor(draw: DrawFn, ground: Ground) -> Thing:
    """A tensor where a number stood, or the other way about."""
    before, after = draw(st.permutations([f"torch.ones({ground.old}, 3)", f"{ground.new}.5"]))
    number_first = after.startswith("torch")
    # Told as another class or as another value: both are so.
    return Thing(
        sort="number or tensor",
        before=before,
        after=after,
        reading="outs.append({v} * one[0])",
        kinds=same("type", "tensor_type", "python_float", "python_value", "module_attr", "attr_changed"),
        expected=texts("float", before) if number_first else texts("Tensor", _described(before)),
        actual=None if number_first else texts("float", after),
    )


def asked(draw: DrawFn, ground: Ground) -> Thing:
    """A size that only branches of the program ask for: a remainder, a bound."""
    old, new, question, kind = draw(
        st.sampled_from(
            [
                (8 * ground.old, ground.new, "{v}.size(0) % 8 == 0", "divisibility"),
                (ground.new, 8 * ground.old, "{v}.size(0) % 8 == 0", "divisibility"),
                (ground.old, 100 + ground.new, "{v}.size(0) > 100", "bound"),
                (100 + ground.new, ground.old, "{v}.size(0) > 100", "bound"),
                (ground.old, 1, "{v}.size(0) > 100", "zero_one"),
                (ground.old, ground.new, f"{{v}}.size(0) == {ground.old}", "size"),
            ]
        )
    )
    kinds = tensor_kinds(kind) if ground.dynamic is True else size_kinds(ground, old, new)
    return Thing(
        sort=f"size asked for {kind}",
        before=f"torch.ones({old})",
        after=f"torch.ones({new})",
        reading=f"outs.append({{v}}.sin() if {question} else {{v}}.cos())",
        # A module's own tensors may be static under dynamic=True.
        kinds=lambda holder: (
            kinds(holder) | (size_kinds(ground, old, new)(holder) if holder == "module" else frozenset())
        ),
        suffixes=(".size()[0]",),
        shape=True,
    )


THINGS: Final = (
    size,
    size,
    size,
    rank,
    dtype,
    requires_grad,
    device,
    subclass,
    inference,
    layout,
    memory_format,
    offset,
    base,
    optional_tensor,
    number_or_tensor,
    asked,
    asked,
)
