"""Tensors that have to do with each other: one dimension that several carry, sizes that are compared, aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import Change, Part, choice, texts
from .tensors import size_kinds, word

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from .parts import Ground


def shared(draw: DrawFn, ground: Ground) -> Part:
    """One dimension that two or three tensors carry, under different names and at different places: one change."""
    name = ground.name
    old, new = draw(
        st.sampled_from([(ground.old, ground.new), (ground.old, 1), (1, ground.old), (ground.old, 0), (0, ground.old)])
    )
    n = choice(str(old), str(new), name)
    making = [f"n = {n}", f"{name}a = torch.ones(n, 3)", f"{name}b = torch.ones(3, n)"]
    sources = [f"{name}a.size()[0]", f"{name}b.size()[1]"]
    parameters = [f"{name}a", f"{name}b"]
    reading = draw(
        st.sampled_from(
            [
                f"outs.append({name}a.sum())\nouts.append({name}b.sum())",
                f"outs.append({name}a * 2 + {name}b.t())",
                f"outs.append({name}b @ {name}a)",
            ]
        )
    )
    if draw(st.booleans()):
        making.append(f"{name}c = {{'first': torch.ones(n), 'second': torch.ones(2, n)}}")
        sources += [f"{name}c['first'].size()[0]", f"{name}c['second'].size()[1]"]
        parameters.append(f"{name}c")
        reading += f"\nouts.append({name}c['first'] * {name}c['second'])"
    return Part(
        name=name,
        sort=f"one dimension of several tensors {word(old)} -> {word(new)}",
        change=Change(
            kinds=size_kinds(ground, old, new)("argument"),
            sources=frozenset(sources),
            expected=texts(old) if ground.dynamic is not True else None,
            actual=texts(new),
            shape=True,
        ),
        told=f"{', '.join(sources)}: {old} -> {new}",
        making="\n".join(making),
        parameter=", ".join(parameters),
        argument=", ".join(parameters),
        reading=reading,
    )


def compared(draw: DrawFn, ground: Ground) -> Part:
    """Two sizes that were equal and are no longer, or the other way about; the program asks, or takes them for one."""
    name = ground.name
    equal = draw(st.booleans())
    old, new = (ground.old, ground.new) if equal else (ground.new, ground.old)
    asks = draw(st.booleans())
    question = f"outs.append(one.sin() if {name}a.size(0) == {name}b.size(0) else one.cos())"
    dynamic = ground.dynamic is True
    first, second = f"{name}a.size()[0]", f"{name}b.size()[0]"
    both = {first, second, f"{first}, {second}", f"{second}, {first}"}
    return Part(
        name=name,
        sort=f"sizes {'no longer' if equal else 'now'} equal, {'asked' if asks else 'not asked'}",
        change=Change(
            kinds=frozenset({"duck_size", "shape_relation"} if dynamic else {"size"}),
            sources=frozenset(both if dynamic else {second}),
            expected=None if dynamic else texts(old),
            actual=None if dynamic else texts(new),
            shape=True,
        ),
        told=f"{second}: {old} -> {new}, where {first} is {ground.old}",
        making=f"{name}a = torch.ones({ground.old}, 3)\n{name}b = torch.ones({choice(str(old), str(new), name)}, 3)",
        parameter=f"{name}a, {name}b",
        argument=f"{name}a, {name}b",
        reading=f"outs.append({name}a * 2)\nouts.append({name}b * 2)" + (f"\n{question}" if asks else ""),
    )


def aliased(draw: DrawFn, ground: Ground) -> Part:
    """One tensor for two arguments, or two."""
    name = ground.name
    one_first = draw(st.booleans())
    second = choice(f"{name}a", f"torch.ones({ground.old}, 3)", name)
    if not one_first:
        second = choice(f"torch.ones({ground.old}, 3)", f"{name}a", name)
    return Part(
        name=name,
        sort=f"aliases, {'one' if one_first else 'two'} at first",
        change=Change(kinds=frozenset({"object_id"}), sources=frozenset({f"{name}a, {name}b", f"{name}b, {name}a"})),
        told=f"{name}a and {name}b: {'one tensor -> two' if one_first else 'two tensors -> one'}",
        making=f"{name}a = torch.ones({ground.old}, 3)\n{name}b = {second}",
        parameter=f"{name}a, {name}b",
        argument=f"{name}a, {name}b",
        reading=f"outs.append({name}a + {name}b * 2)",
    )


MAKERS: Final = (shared, shared, compared, aliased)
