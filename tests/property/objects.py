"""Plain objects and arrays of numpy: their class, which attributes they have, what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import NONE, Thing, same, texts
from .tensors import size_kinds, tensor_kinds

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from .parts import Ground

_NOT_WITH_ARRAYS: Final = frozenset({"inference mode", "default device"})
"""Under these torch cannot compile what reads an array: its own guards fail, or devices differ."""
_CLASSES: Final = """
class Doubler{name}:
    def __init__(self, **attributes):
        self.factor = 2
        vars(self).update(attributes)

    def apply(self, one):
        return one * self.factor


class Halver{name}:
    def __init__(self):
        self.divisor = 2

    def apply(self, one):
        return one / self.divisor
"""


def object_class(draw: DrawFn, ground: Ground) -> Thing:
    """An object of another class, with other attributes and another method behind the same name."""
    before, after = draw(st.permutations([f"Doubler{ground.name}", f"Halver{ground.name}"]))
    return Thing(
        sort="class of an object",
        before=f"{before}()",
        after=f"{after}()",
        reading="outs.append({v}.apply(one))",
        kinds=same("type"),
        expected=texts(before),
        actual=texts(after),
        definitions=_CLASSES.format(name=ground.name),
    )


def optional_object(draw: DrawFn, ground: Ground) -> Thing:
    """An object or None."""
    before, after = draw(st.permutations([f"Doubler{ground.name}()", "None"]))
    return Thing(
        sort="None or object",
        before=before,
        after=after,
        reading="outs.append(one.cos() if {v} is None else {v}.apply(one))",
        kinds=same("none_vs_value"),
        expected=NONE if before == "None" else None,
        actual=NONE if after == "None" else None,
        definitions=_CLASSES.format(name=ground.name),
    )


def attribute(draw: DrawFn, ground: Ground) -> Thing:
    """An attribute that comes or goes."""
    with_it, without = f"Doubler{ground.name}(extra={ground.old})", f"Doubler{ground.name}()"
    came = draw(st.booleans())
    reading = draw(
        st.sampled_from(
            [
                'outs.append(one * 2 if hasattr({v}, "extra") else one.sin())',
                'outs.append(one * getattr({v}, "extra", 3))',
            ]
        )
    )
    return Thing(
        sort=f"attribute of an object: {'came' if came else 'went'}",
        before=without if came else with_it,
        after=with_it if came else without,
        reading=reading,
        kinds=same("attr_added"),
        suffixes=(".extra",),
        definitions=_CLASSES.format(name=ground.name),
    )


def array(draw: DrawFn, ground: Ground) -> Thing:
    """An array of another size or dtype."""
    if draw(st.booleans()):
        return Thing(
            sort="array: size",
            before=f"np.ones(({ground.old}, 3))",
            after=f"np.ones(({ground.new}, 3))",
            reading="outs.append(one * {v}.sum())",
            avoids=_NOT_WITH_ARRAYS,
            kinds=size_kinds(ground, ground.old, ground.new),
            suffixes=(".size()[0]", ".shape[0]"),
            expected=texts(ground.old),
            actual=texts(ground.new),
            shape=True,
        )
    before, after = draw(st.permutations(["float64", "float32", "int64"]))[:2]
    return Thing(
        sort="array: dtype",
        before=f"np.ones(({ground.old}, 3), dtype=np.{before})",
        after=f"np.ones(({ground.old}, 3), dtype=np.{after})",
        reading="outs.append(one * {v}.sum())",
        avoids=_NOT_WITH_ARRAYS,
        kinds=tensor_kinds("dtype"),
        suffixes=(".dtype",),
        expected=texts(f"torch.{before}", f"np.{before}", before),
        actual=texts(f"torch.{after}", f"np.{after}", after),
    )


def scalar(draw: DrawFn, ground: Ground) -> Thing:
    """A scalar of numpy, or a plain number in its place."""
    values = {"float64": f"np.float64({ground.old}.5)", "float": f"{ground.old}.5", "int64": f"np.int64({ground.old})"}
    before, after = draw(st.permutations(list(values)))[:2]
    return Thing(
        sort=f"numpy scalar: {before} -> {after}",
        before=values[before],
        after=values[after],
        reading="outs.append(one * {v})",
        avoids=_NOT_WITH_ARRAYS,
        # Told as another class, another dtype or another value: all are so.
        kinds=same("dtype", "type", "python_value", "python_float", "attr_changed", "module_attr"),
        suffixes=("", ".dtype"),
        expected=texts(values[before], before, *(f"{module}.{before}" for module in ("np", "numpy", "torch"))),
        actual=texts(values[after], after, *(f"{module}.{after}" for module in ("np", "numpy", "torch"))),
    )


THINGS: Final = (object_class, optional_object, attribute, array, scalar)
