"""Modules: the class of a submodule, its flags, its parameters and buffers, and the same in every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import NONE, Change, Part, choice, texts
from .places import Layers, layer_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DrawFn

    from .parts import Ground, Texts

_SUBMODULES: Final = {
    "LayerNorm": "nn.LayerNorm(3)",
    "RMSNorm": "nn.RMSNorm(3)",
    "Linear": "nn.Linear(3, 3)",
    "Identity": "nn.Identity()",
    "GELU": "nn.GELU()",
    "None": "None",
}
_CALL: Final = "outs.append(one.sin() if {v} is None else {v}(one))"


def _spread(
    draw: DrawFn,
    ground: Ground,
    *,
    sort: str,
    making: str,
    reading: str,
    told: str,
    kinds: Iterable[str],
    suffixes: Iterable[str],
    expected: Texts = None,
    actual: Texts = None,
    shape: bool = False,
) -> Part:
    """Put a change into one module or into every layer; ``making`` speaks of ``module``, ``reading`` of ``self``."""
    name = ground.name
    many = draw(st.booleans())
    if many:
        indented = making.replace("\n", "\n    ")
        layers = Layers(ground, f"for module in {{layers}}:\n    {indented}", reading)
        owners = [f"{layers.layers}[{index}]" for index in range(3)]
        text, body, parameter = layers.making, layers.reading, layers.parameter
        definitions = layers.definitions
    else:
        owner = f"self.{name}" if ground.root == "module" else name
        target = f"model.{name}" if ground.root == "module" else name
        owners, parameter = [owner], None if ground.root == "module" else name
        text = f"module = Layer{name}()\n{making}\n{target} = module"
        body, definitions = f"{owner}(one, outs)", layer_class(ground, reading)
    change = Change(
        kinds=frozenset(kinds),
        sources=frozenset(f"{owner}{suffix}" for owner in owners for suffix in suffixes),
        expected=expected,
        actual=actual,
        shape=shape,
    )
    return Part(
        name=name,
        sort=f"{sort} | {'every layer' if many else 'one module'}",
        change=change,
        told=f"{owners[0]}{' and every other layer' if many else ''}: {told}",
        making=text,
        parameter=parameter,
        argument=parameter,
        reading=body,
        definitions=definitions,
    )


def submodule(draw: DrawFn, ground: Ground) -> Part:
    """A submodule of another class, or None."""
    before, after = draw(st.permutations(list(_SUBMODULES)))[:2]
    none = "None" in (before, after)
    return _spread(
        draw,
        ground,
        sort="None or submodule" if none else "class of a submodule",
        making=f"module.inner = {choice(_SUBMODULES[before], _SUBMODULES[after], ground.name)}",
        reading=_CALL.replace("{v}", "self.inner"),
        told=f".inner {before} -> {after}",
        kinds=["none_vs_value"] if none else ["module_type"],
        suffixes=[".inner"],
        expected=(NONE if before == "None" else None) if none else texts(before),
        actual=(NONE if after == "None" else None) if none else texts(after),
    )


def training(draw: DrawFn, ground: Ground) -> Part:
    """train() or eval(), with a submodule that has the flag too."""
    before = draw(st.booleans())
    reading = "outs.append(self.inner(one) * (2 if self.training else 3))"
    return _spread(
        draw,
        ground,
        sort="training",
        making=f"module.inner = nn.Dropout(0.0)\nmodule.train({choice(str(before), str(not before), ground.name)})",
        reading=reading,
        told=f".training {before} -> {not before}",
        kinds=["module_training"],
        suffixes=[".training", ".inner.training"],
        expected=texts(before),
        actual=texts(not before),
    )


def attribute(draw: DrawFn, ground: Ground) -> Part:
    """An attribute that comes or goes."""
    came = draw(st.booleans())
    setting = f'if {"" if came else "not "}("{ground.name}" in changed):\n    module.extra = {ground.old}'
    return _spread(
        draw,
        ground,
        sort=f"attribute of a module {'came' if came else 'went'}",
        making=setting,
        reading='outs.append(one * 2 if hasattr(self, "extra") else one.sin())',
        told=f".extra {'comes' if came else 'goes'}",
        kinds=["attr_added"],
        suffixes=[".extra"],
    )


def weight(draw: DrawFn, ground: Ground) -> Part:
    """A parameter or buffer of another size or dtype, frozen or not, or None."""
    buffer = draw(st.booleans())
    old, new = ground.old, ground.new
    made = "torch.ones({n}, 3{more})"
    case = draw(st.sampled_from(["size", "dtype", "None", *([] if buffer else ["requires_grad"])]))
    grad = "requires_grad={flag}"
    plain, other = made.format(n=old, more=""), made.format(n=new, more="")
    doubled = made.format(n=old, more=", dtype=torch.float64")
    tensor = {
        "size": choice(plain, other, ground.name),
        "dtype": choice(plain, doubled, ground.name),
        "None": plain,
        "requires_grad": plain,
    }[case]
    flag = choice("True", "False", ground.name) if case == "requires_grad" else "False"
    value = f"({tensor})" if buffer else f"nn.Parameter({tensor}, {grad.format(flag=flag)})"
    if case == "None":
        value = choice(value, "None", ground.name)
    register = "register_buffer" if buffer else "register_parameter"
    kind, suffix, expected, actual = {
        "size": ("size", ".weight.size()[0]", texts(old), texts(new)),
        "dtype": ("dtype", ".weight.dtype", texts("torch.float32"), texts("torch.float64")),
        "None": ("none_vs_value", ".weight", None, NONE),
        "requires_grad": ("requires_grad", ".weight.requires_grad", texts("True"), texts("False")),
    }[case]
    return _spread(
        draw,
        ground,
        sort=f"{case} of a {'buffer' if buffer else 'parameter'}",
        making=f'module.{register}("weight", {value})',
        reading="outs.append(one * 2 if self.weight is None else self.weight.sum())",
        told=f".weight, its {case}",
        kinds=[kind],
        suffixes=[suffix],
        expected=expected,
        actual=actual,
        shape=case == "size",
    )


def depth(draw: DrawFn, ground: Ground) -> Part:
    """A list of another number of layers."""
    before, after = draw(st.permutations([1, 2, 3]))[:2]
    name = ground.name
    held = ground.root == "module"
    owner, target = (f"self.{name}", f"model.{name}") if held else (name, name)
    return Part(
        name=name,
        sort="number of layers",
        change=Change(kinds=frozenset({"list_length", "dict_keys", "dict_length"}), sources=frozenset({owner})),
        told=f"{owner}: {before} layers -> {after}",
        making=f"{target} = nn.ModuleList(nn.Identity() for _ in range({choice(str(before), str(after), name)}))",
        parameter=None if held else name,
        argument=None if held else name,
        reading=f"for layer in {owner}:\n    outs.append(layer(one) * 2)",
    )


MAKERS: Final = (submodule, submodule, training, attribute, weight, weight, depth)
