"""Numbers, strings, flags, members of enums, constants: the values that a graph is specialised on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import NONE, Thing, same, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn

    from .parts import Ground, Holder

_ENUM: Final = """
class {name}(enum.Enum):
    FIRST = "first"
    SECOND = "second"
"""


def _kinds(plain: str, module: str, attribute: str) -> Callable[[Holder], frozenset[str]]:
    by_holder: dict[Holder, set[str]] = {
        "argument": {plain},
        "item": {plain},
        "object": {attribute},
        "module": {module},
        "global": {"global"},
        "closure": {"closure"},
    }
    return lambda holder: frozenset(by_holder[holder])


def number(draw: DrawFn, ground: Ground) -> Thing:
    """An int: multiplied with, compared or indexed by."""
    old, new = draw(st.sampled_from([(ground.old, ground.new), (ground.new, 1), (1, ground.old), (0, ground.new)]))
    reading = draw(
        st.sampled_from(
            [
                "outs.append(one * {v})",
                f"outs.append(one.sin() if {{v}} > {min(old, new)} else one.cos())",
                f"outs.append(one.sin() if {{v}} == {old} else one.cos())",
                "for _ in range({v} % 4 + 1):\n    outs.append(one * 2)",
            ]
        )
    )
    return Thing(
        sort="int",
        before=str(old),
        after=str(new),
        reading=reading,
        kinds=_kinds("python_int", "module_attr_int", "attr_changed"),
        expected=texts(old) if ground.dynamic is not True else None,
        actual=texts(new),
    )


def real(draw: DrawFn, ground: Ground) -> Thing:
    """A float: multiplied with or compared."""
    old, new = f"{ground.old}.5", draw(st.sampled_from([f"{ground.new}.5", "0.0", 'float("inf")', 'float("nan")']))
    if draw(st.booleans()):
        old, new = new, old
    reading = draw(st.sampled_from(["outs.append(one * {v})", "outs.append(one.sin() if {v} > 6.0 else one.cos())"]))
    return Thing(
        sort="float",
        before=old,
        after=new,
        reading=reading,
        kinds=_kinds("python_float", "module_attr", "attr_changed"),
        expected=texts(_plain(old)) if ground.dynamic is not True else None,
        actual=texts(_plain(new)),
    )


def _plain(text: str) -> str:
    return text.removeprefix('float("').removesuffix('")')


def text(draw: DrawFn, ground: Ground) -> Thing:
    """A string that is compared, or whose length is used."""
    old, new = draw(st.sampled_from([("sine", "cosine"), ("", "sine"), ("step-202611300000", "step-202611300001")]))
    reading = draw(
        st.sampled_from(
            [f'outs.append(one.sin() if {{v}} == "{old}" else one.cos())', "outs.append(one * (len({v}) + 2))"]
        )
    )
    return Thing(
        sort="str",
        before=f'"{old}"',
        after=f'"{new}"',
        reading=reading,
        kinds=_kinds("python_str", "attr_str", "attr_str"),
        expected=texts(repr(old)),
        actual=texts(repr(new)),
    )


def flag(draw: DrawFn, ground: Ground) -> Thing:
    """A bool that is branched on."""
    old = draw(st.booleans())
    return Thing(
        sort="bool",
        before=str(old),
        after=str(not old),
        reading="outs.append(one.sin() if {v} else one.cos())",
        kinds=_kinds("python_bool", "module_attr", "attr_changed"),
        expected=texts(old),
        actual=texts(not old),
    )


def member(draw: DrawFn, ground: Ground) -> Thing:
    """A member of an enum."""
    name = f"Enum{ground.name}"
    return Thing(
        sort="enum",
        before=f"{name}.FIRST",
        after=f"{name}.SECOND",
        reading=f"outs.append(one.sin() if {{v}} is {name}.FIRST else one.cos())",
        kinds=_kinds("python_value", "module_attr", "attr_changed"),
        expected=texts(f"{name}.FIRST"),
        actual=texts(f"{name}.SECOND"),
        definitions=_ENUM.format(name=name),
    )


def dtype(draw: DrawFn, ground: Ground) -> Thing:
    """A dtype, as a value."""
    return Thing(
        sort="dtype value",
        before="torch.float64",
        after="torch.float16",
        reading="outs.append(one.to({v}))",
        kinds=_kinds("python_value", "module_attr", "attr_changed"),
        expected=texts("torch.float64"),
        actual=texts("torch.float16"),
    )


def pair(draw: DrawFn, ground: Ground) -> Thing:
    """A tuple of numbers, one of which moves."""
    return Thing(
        sort="tuple of ints",
        before=f"({ground.old}, 3)",
        after=f"({ground.new}, 3)",
        reading="outs.append(one * {v}[0] + {v}[1])",
        # Dynamo reads the number, or compares the whole; what holds the number is the tuple.
        kinds=same("python_int", "python_value", "module_attr", "attr_changed", "module_attr_int"),
        suffixes=("[0]", ""),
    )


def optional(draw: DrawFn, ground: Ground) -> Thing:
    """A value that is given or None."""
    given = draw(st.sampled_from([str(ground.old), f"{ground.old}.5", "torch.ones(3)", '"sine"', "True"]))
    use = "one.sin()" if given == '"sine"' else "one * {v}"
    before, after = draw(st.sampled_from([(given, "None"), ("None", given)]))
    return Thing(
        sort="None or value",
        before=before,
        after=after,
        reading=f"outs.append(one.cos() if {{v}} is None else {use})",
        kinds=same("none_vs_value"),
        expected=NONE if before == "None" else None,
        actual=NONE if after == "None" else None,
    )


def retyped(draw: DrawFn, ground: Ground) -> Thing:
    """A number that becomes one of another class."""
    values = {"int": str(ground.old), "float": f"{ground.old}.5", "bool": "True"}
    before, after = draw(st.permutations(list(values)))[:2]
    return Thing(
        sort="class of a number",
        before=values[before],
        after=values[after],
        reading="outs.append(one * {v})",
        # Told as another class or as another value: both are so.
        kinds=same("type", "python_value", *(f"python_{name}" for name in values), "attr_changed", "module_attr"),
        expected=texts(before, values[before]),
        actual=texts(after, values[after]),
    )


THINGS: Final = (number, real, text, flag, member, dtype, pair, optional, retyped)
