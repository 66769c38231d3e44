"""Callables as values: functions, lambdas, partials, builtins, objects with ``__call__``, bound methods, None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import NONE, Thing, same, texts

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from .parts import Ground

_DEFINITIONS: Final = """
def double{name}(one):
    return one * 2


def triple{name}(one):
    return one * 3


def scaler{name}(factor):
    return lambda one: one * factor


lambda{name} = lambda one: one * 4


class Callable{name}:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, one):
        return one * self.factor

    def method(self, one):
        return one - self.factor

    def another(self, one):
        return one + self.factor


class Other{name}(Callable{name}):
    pass


partial{name} = partial(double{name})
object{name} = Callable{name}(5)
other{name} = Other{name}(5)
"""
_SORTS: Final = {
    "function": "double{name}",
    "another function": "triple{name}",
    "lambda": "lambda{name}",
    "closure": "scaler{name}(5)",
    "partial": "partial{name}",
    "builtin": "torch.sin",
    "another builtin": "torch.cos",
    "object": "object{name}",
    "another object": "other{name}",
    "method": "object{name}.method",
    "another method": "object{name}.another",
    "None": "None",
}
_FUNCTIONS: Final = ("function", "another function", "lambda", "closure")
_CALL: Final = "outs.append(one - 2 if {v} is None else {v}(one))"


def another(draw: DrawFn, ground: Ground) -> Thing:
    """A callable in whose place another stands, of the same sort or of any other."""
    before, after = draw(st.permutations(list(_SORTS)))[:2]
    none = "None" in (before, after)
    return Thing(
        sort=f"callable: {before} -> {after}",
        before=_SORTS[before].format(name=ground.name),
        after=_SORTS[after].format(name=ground.name),
        reading=_CALL,
        kinds=same("none_vs_value") if none else same("function_id", "object_id", "type"),
        expected=NONE if before == "None" else None,
        actual=NONE if after == "None" else None,
        definitions=_DEFINITIONS.format(name=ground.name),
    )


def captured(draw: DrawFn, ground: Ground) -> Thing:
    """A lambda from the same factory, that captured another number."""
    return Thing(
        sort="captured",
        before=f"scaler{ground.name}({ground.old})",
        after=f"scaler{ground.name}({ground.new})",
        reading="outs.append({v}(one))",
        kinds=same("closure"),
        # The callable is of the same code: the user knows the variable by its own name.
        elsewhere=("factor",),
        expected=texts(ground.old) if ground.dynamic is not True else None,
        actual=texts(ground.new),
        definitions=_DEFINITIONS.format(name=ground.name),
    )


def bound(draw: DrawFn, ground: Ground) -> Thing:
    """A partial, an object with ``__call__`` or a bound method that holds another number."""
    write, suffix, kind = draw(
        st.sampled_from(
            [
                ("partial(torch.mul, {n})", ".args[0]", "python_int"),
                ("partial(torch.add, other={n})", ".keywords['other']", "python_int"),
                (f"Callable{ground.name}({{n}})", ".factor", "attr_changed"),
                (f"Callable{ground.name}({{n}}).method", ".__self__.factor", "attr_changed"),
            ]
        )
    )
    return Thing(
        sort=f"held by a callable: {suffix}",
        before=write.format(n=ground.old),
        after=write.format(n=ground.new),
        reading="outs.append({v}(one))",
        kinds=same(kind, "attr_changed"),
        suffixes=(suffix,),
        expected=texts(ground.old) if ground.dynamic is not True else None,
        actual=texts(ground.new),
        definitions=_DEFINITIONS.format(name=ground.name),
    )


THINGS: Final = (another, another, another, captured, bound)
