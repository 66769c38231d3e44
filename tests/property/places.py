"""Where a value stands: an argument, an item, an attribute, a captured variable, a global, the same in every layer."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import Change, Part, choice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DrawFn

    from .parts import Ground, Holder, Thing

_LAYERS: Final = 3


def placed(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    """Put a thing somewhere."""
    places = [_argument, _argument, _rest, _option, _listed, _in_dict, _attribute, _deep_attribute, _global]
    if ground.root == "factory":
        places += [_captured, _captured]
    if ground.root == "module":
        places += [_of_self, _of_self, _of_submodule]
    else:
        places.append(_of_module_argument)
    places.append(_of_every_layer)
    return draw(st.sampled_from(places))(draw, ground, thing)


def part_of(
    ground: Ground,
    thing: Thing,
    holder: Holder,
    sources: Iterable[str],
    *,
    making: str,
    reading: str,
    place: str,
    parameter: str | None = None,
    argument: str | None = None,
    cell: str | None = None,
    definitions: str = "",
) -> Part:
    """Put the texts of a thing and of its place together."""
    change = Change(
        kinds=thing.kinds(holder),
        sources=frozenset(f"{source}{suffix}" for source in sources for suffix in thing.suffixes)
        | set(thing.elsewhere),
        expected=thing.expected,
        actual=thing.actual,
        names=thing.names,
        came=thing.came,
        shape=thing.shape,
    )
    return Part(
        name=ground.name,
        sort=f"{thing.sort} | {place}",
        change=change,
        told=f"{min(sources)}: {thing.before} -> {thing.after}",
        making=making,
        parameter=parameter,
        argument=argument,
        cell=cell,
        reading=reading,
        definitions=thing.definitions + definitions,
        avoids=thing.avoids,
    )


def _value(ground: Ground, thing: Thing) -> str:
    return choice(thing.before, thing.after, ground.name)


def _read(thing: Thing, expression: str) -> str:
    return thing.reading.replace("{v}", expression)


def _argument(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "argument",
        [name],
        making=f"{name} = {_value(ground, thing)}",
        reading=_read(thing, name),
        place="argument",
        parameter=name,
        argument=name,
    )


def _rest(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "item",
        [f"{name}[1]"],
        making=f"{name} = (one, {_value(ground, thing)})",
        reading=_read(thing, f"{name}[1]"),
        place="in *args",
        parameter=f"*{name}",
        argument=f"*{name}",
    )


def _option(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "item",
        [f"{name}['given']"],
        making=f'{name} = {{"also": one, "given": {_value(ground, thing)}}}',
        reading=_read(thing, f'{name}["given"]'),
        place="in **options",
        parameter=f"**{name}",
        argument=f"**{name}",
    )


def _listed(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    opening, closing = draw(st.sampled_from(["[]", "()"]))
    return part_of(
        ground,
        thing,
        "item",
        [f"{name}[1]"],
        making=f"{name} = {opening}one, {_value(ground, thing)}{closing}",
        reading=_read(thing, f"{name}[1]"),
        place="in a list",
        parameter=name,
        argument=name,
    )


_KEYS: Final = ('"given"', "4", "Place{name}.GIVEN", "Class{name}")
_KEY_DEFINITIONS: Final = """
class Place{name}(enum.Enum):
    GIVEN = 1
"""
_CLASS_DEFINITIONS: Final = """
class Class{name}:
    pass
"""
DICTS: Final = ("dict({{items}})", "OrderedDict({{items}})", "defaultdict(int, {{items}})", "Dict{name}({{items}})")
DICT_CLASS: Final = """
class Dict{name}(dict):
    pass
"""


def _in_dict(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    key = draw(st.sampled_from(_KEYS)).format(name=name)
    dict_of = draw(st.sampled_from(DICTS)).format(name=name)
    definitions = (_KEY_DEFINITIONS if "." in key else "") + (_CLASS_DEFINITIONS if key.startswith("Class") else "")
    definitions += DICT_CLASS if dict_of.startswith("Dict") else ""
    items = f'{{"also": one, {key}: {_value(ground, thing)}}}'
    return part_of(
        ground,
        thing,
        "item",
        [f"{name}[{key}]".replace('"', "'")],
        making=f"{name} = {dict_of.format(items=items)}",
        reading=_read(thing, f"{name}[{key}]"),
        place=f"in a {dict_of.partition('(')[0].replace(name, '')} by {_sort_of(key)}",
        parameter=name,
        argument=name,
        definitions=definitions.format(name=name),
    )


def _sort_of(key: str) -> str:
    if "." in key:
        return "enum"
    return "str" if key.startswith('"') else "int" if key.isdigit() else "class"


_OBJECTS: Final = {
    "object": """
class Config{name}:
    pass
""",
    "dataclass": """
@dataclass
class Config{name}:
    given: object = None
""",
    "slots": """
class Config{name}:
    __slots__ = ("given",)
""",
}


def _attribute(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    sort = draw(st.sampled_from(list(_OBJECTS)))
    return part_of(
        ground,
        thing,
        "object",
        [f"{name}.given"],
        making=f"{name} = Config{name}()\n{name}.given = {_value(ground, thing)}",
        reading=_read(thing, f"{name}.given"),
        place=f"attribute of a {sort}",
        parameter=name,
        argument=name,
        definitions=_OBJECTS[sort].format(name=name),
    )


def _deep_attribute(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    making = f"{name} = Config{name}()\n{name}.inner = Config{name}()\n{name}.inner.given = {_value(ground, thing)}"
    return part_of(
        ground,
        thing,
        "object",
        [f"{name}.inner.given"],
        making=making,
        reading=_read(thing, f"{name}.inner.given"),
        place="attribute of an attribute",
        parameter=name,
        argument=name,
        definitions=_OBJECTS["object"].format(name=name),
    )


def _global(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name.upper()
    return part_of(
        ground,
        thing,
        "global",
        [name, f"G['{name}']"],
        making=f'globals()["{name}"] = {_value(ground, thing)}',
        reading=_read(thing, name),
        place="global",
    )


def _captured(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "closure",
        [name],
        making=f"{name} = {_value(ground, thing)}",
        reading=_read(thing, name),
        place="captured variable",
        cell=name,
    )


def _of_self(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "module",
        [f"self.{name}"],
        making=f"model.{name} = {_value(ground, thing)}",
        reading=_read(thing, f"self.{name}"),
        place="attribute of self",
    )


LAYER: Final = """
class Layer{name}(nn.Module):
    def forward(self, one, outs):
{reading}
"""


def layer_class(ground: Ground, reading: str) -> str:
    """Write a class of layers that reads what they hold."""
    return LAYER.format(name=ground.name, reading=textwrap.indent(reading, " " * 8))


def _of_submodule(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "module",
        [f"self.{name}.given"],
        making=f"model.{name} = Layer{name}()\nmodel.{name}.given = {_value(ground, thing)}",
        reading=f"self.{name}(one, outs)",
        place="attribute of a submodule",
        definitions=layer_class(ground, _read(thing, "self.given")),
    )


def _of_module_argument(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    name = ground.name
    return part_of(
        ground,
        thing,
        "module",
        [f"{name}.given"],
        making=f"{name} = Layer{name}()\n{name}.given = {_value(ground, thing)}",
        reading=f"{name}(one, outs)",
        place="attribute of a module argument",
        parameter=name,
        argument=name,
        definitions=layer_class(ground, _read(thing, "self.given")),
    )


def _of_every_layer(draw: DrawFn, ground: Ground, thing: Thing) -> Part:
    making = f"for layer in {{layers}}:\n    layer.given = {_value(ground, thing)}"
    part = layers(ground, making, _read(thing, "self.given"))
    sources = [f"{part.layers}[{index}].given" for index in range(_LAYERS)]
    return part_of(
        ground,
        thing,
        "module",
        sources,
        making=part.making,
        reading=part.reading,
        place="attribute of every layer",
        parameter=part.parameter,
        argument=part.parameter,
        definitions=part.definitions,
    )


class Layers:
    """Texts for a list of layers, held by the compiled module or passed to the compiled function."""

    def __init__(self, ground: Ground, making: str, reading: str) -> None:
        name = ground.name
        held = ground.root == "module"
        target = f"model.{name}" if held else name
        self.layers = f"self.{name}" if held else name
        self.parameter = None if held else name
        self.making = f"{target} = nn.ModuleList(Layer{name}() for _ in range({_LAYERS}))\n"
        self.making += making.replace("{layers}", target)
        self.reading = f"for layer in {self.layers}:\n    layer(one, outs)"
        self.definitions = layer_class(ground, reading)


def layers(ground: Ground, making: str, reading: str) -> Layers:
    """Write a list of layers: ``making`` speaks of them as ``{layers}``, and ``reading`` is their forward."""
    return Layers(ground, making, reading)
