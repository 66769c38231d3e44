"""Lists, tuples, dicts and sets: how many, which keys and members, in which order, of which class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import NONE, Thing, same, texts
from .places import DICT_CLASS, DICTS

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from .parts import Ground

_KEYS: Final = """
class Key{name}(enum.Enum):
    ONE = 1
    TWO = 2
    THREE = 3


class One{name}:
    pass


class Two{name}:
    pass


class Three{name}:
    pass
"""
_SORTS: Final = {
    "str": ("'text'", "'image'", "'mask'"),
    "int": ("4", "8", "12"),
    "enum": ("Key{name}.ONE", "Key{name}.TWO", "Key{name}.THREE"),
    "class": ("One{name}", "Two{name}", "Three{name}"),
}
_WHOLE: Final = ("python_value", "module_attr", "attr_changed")
"""Kinds of a constant that is compared as a whole: of an argument, of a module, of an object."""
_ITERATED: Final = "for key, value in {v}.items():\n    outs.append(value * 2)"


def length(draw: DrawFn, ground: Ground) -> Thing:
    """A list or tuple of another length."""
    before, after = draw(st.permutations(range(4)))[:2]
    opening, closing = draw(st.sampled_from([("[", "]"), ("(", ")")]))
    item = draw(st.sampled_from(["torch.ones(3)", str(ground.old)]))
    # A tuple of numbers is a constant: Dynamo compares the whole.
    constant = opening == "(" and item.isdigit()
    written = [_sequence(opening, [item] * count, closing) for count in (before, after)]
    reading = draw(
        st.sampled_from(["for item in {v}:\n    outs.append(one * item)", "outs.append(one * (len({v}) + 2))"])
    )
    return Thing(
        sort=f"length: {'list' if opening == '[' else 'tuple'}",
        before=written[0],
        after=written[1],
        reading=reading,
        kinds=same("list_length", *_WHOLE) if constant else same("list_length"),
        expected=None if constant else texts(before),
        actual=None if constant else texts(after),
    )


def _sequence(opening: str, items: list[str], closing: str) -> str:
    comma = "," if opening == "(" and len(items) == 1 else ""
    return f"{opening}{', '.join(items)}{comma}{closing}"


def sequence_class(draw: DrawFn, ground: Ground) -> Thing:
    """A list where a tuple was, or the other way about."""
    values = {"list": f"[one, {ground.old}]", "tuple": f"(one, {ground.old})"}
    before, after = draw(st.permutations(list(values)))
    return Thing(
        sort="list or tuple",
        before=values[before],
        after=values[after],
        reading="outs.append({v}[0] * {v}[1])",
        kinds=same("type"),
        expected=texts(before),
        actual=texts(after),
    )


def keys(draw: DrawFn, ground: Ground) -> Thing:
    """A key of a dict that comes or goes, or one that another takes the place of."""
    sort = draw(st.sampled_from(list(_SORTS)))
    first, second, third = (key.format(name=ground.name) for key in _SORTS[sort])
    small, large = [second], [first, second] if draw(st.booleans()) else [second, first]
    case = draw(st.sampled_from(["came", "went", "replaced", "first"]))
    before, after = {
        "came": (small, large),
        "went": (large, small),
        "replaced": (large, [third if key == first else key for key in large]),
        "first": ([], [first]),
    }[case]
    readings = {
        "iterated": _ITERATED,
        "asked": f"outs.append(one * 2 if {first} in {{v}} else one * 3)",
        "got": f"outs.append(one * {{v}}.get({first}, 7))",
        "counted": "outs.append(one * (len({v}) + 2))",
    }
    how = draw(st.sampled_from(list(readings)))
    # Not a defaultdict that loses a key: torch's own guard ``one is v["text"]`` would put the key back as it looks.
    dicts = [each for each in DICTS if case in ("came", "first") or "defaultdict" not in each]
    dict_of = draw(st.sampled_from(dicts)).format(name=ground.name)
    # Where only the number was asked for, or the dict was empty, torch holds the number alone.
    counted = how == "counted" or case == "first"
    return Thing(
        sort=f"dict keys: {sort} {case}, {how}, {dict_of.partition('(')[0].replace(ground.name, '')}",
        before=dict_of.format(items=_dict(before)),
        after=dict_of.format(items=_dict(after)),
        reading=readings[how],
        kinds=same("dict_keys", "dict_length") if counted else same("dict_keys"),
        names=() if counted else (first, third) if case == "replaced" else (first,),
        came={"came": True, "went": False, "replaced": None, "first": True}[case],
        definitions=(_KEYS + DICT_CLASS).format(name=ground.name),
    )


def _dict(written: list[str]) -> str:
    return "{" + ", ".join(f"{key}: one" for key in written) + "}"


def order(draw: DrawFn, ground: Ground) -> Thing:
    """The same keys in another order."""
    sort = draw(st.sampled_from(list(_SORTS)))
    written = [key.format(name=ground.name) for key in _SORTS[sort]]
    before, after = written, draw(st.sampled_from([written[::-1], [written[1], written[0], written[2]]]))
    dict_of = draw(st.sampled_from(DICTS)).format(name=ground.name)
    return Thing(
        sort=f"dict order: {sort}, {dict_of.partition('(')[0].replace(ground.name, '')}",
        before=dict_of.format(items=_dict(before)),
        after=dict_of.format(items=_dict(after)),
        reading=_ITERATED,
        kinds=same("dict_order"),
        definitions=(_KEYS + DICT_CLASS).format(name=ground.name),
    )


def dict_class(draw: DrawFn, ground: Ground) -> Thing:
    """A dict of another class."""
    classes = {"dict": 0, "OrderedDict": 1, "defaultdict": 2, f"Dict{ground.name}": 3}
    before, after = draw(st.permutations(list(classes)))[:2]
    written = [DICTS[classes[cls]].format(name=ground.name).format(items='{"text": one}') for cls in (before, after)]
    return Thing(
        sort="class of a dict",
        before=written[0],
        after=written[1],
        reading=draw(st.sampled_from([_ITERATED, 'outs.append({v}["text"] * 2)'])),
        kinds=same("type"),
        expected=texts(before, f"collections.{before}"),
        actual=texts(after, f"collections.{after}"),
        definitions=DICT_CLASS.format(name=ground.name),
    )


def members(draw: DrawFn, ground: Ground) -> Thing:
    """A member of a set that comes or goes, or one that another takes the place of."""
    sort = draw(st.sampled_from(["str", "int", "enum"]))
    first, second, third = (key.format(name=ground.name) for key in _SORTS[sort])
    case = draw(st.sampled_from(["came", "went", "replaced"]))
    before, after = {
        "came": ([second], [first, second]),
        "went": ([first, second], [second]),
        "replaced": ([first, second], [third, second]),
    }[case]
    cls = draw(st.sampled_from(["set", "frozenset"]))
    readings = {
        "asked": f"outs.append(one * 2 if {first} in {{v}} else one * 3)",
        "counted": "outs.append(one * (len({v}) + 2))",
        "iterated": "for member in {v}:\n    outs.append(one * 2)",
    }
    how = draw(st.sampled_from(list(readings)))
    counted = how != "asked"
    kinds = ("dict_keys", *_WHOLE, "list_length", "dict_length") if counted else ("dict_keys", *_WHOLE)
    return Thing(
        sort=f"set members: {sort} {case}, {how}, {cls}",
        before=f"{cls}([{', '.join(before)}])",
        after=f"{cls}([{', '.join(after)}])",
        reading=readings[how],
        kinds=same(*kinds),
        names=() if counted else (first, third) if case == "replaced" else (first,),
        came={"came": True, "went": False, "replaced": None}[case],
        definitions=_KEYS.format(name=ground.name),
    )


def optional_container(draw: DrawFn, ground: Ground) -> Thing:
    """A list or dict that is given or None."""
    given, use = draw(
        st.sampled_from([("[one, one]", "sum({v})"), ('{"text": one}', '{v}["text"] * 2'), ("(one,)", "{v}[0] * 2")])
    )
    before, after = draw(st.permutations([given, "None"]))
    return Thing(
        sort="None or container",
        before=before,
        after=after,
        reading=f"outs.append(one.cos() if {{v}} is None else {use})",
        kinds=same("none_vs_value"),
        expected=NONE if before == "None" else None,
        actual=NONE if after == "None" else None,
    )


THINGS: Final = (
    length,
    length,
    sequence_class,
    keys,
    keys,
    keys,
    order,
    dict_class,
    members,
    members,
    optional_container,
)
