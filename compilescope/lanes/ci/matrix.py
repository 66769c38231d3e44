"""The combinations of a matrix."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from compilescope.lanes.ci.document import items, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Combination = dict[str, object]


def combinations(axes: Mapping[str, object]) -> Iterator[Combination]:
    """Yield every choice of one value per axis; one empty choice without axes.

    Args:
        axes: each with its values, or a value alone.
    """
    lists = [items(values) for values in axes.values()]
    return (dict(zip(axes, chosen, strict=True)) for chosen in product(*lists))


def without(found: Sequence[Combination], excluded: Sequence[Combination]) -> list[Combination]:
    """Return the combinations that match none of the excluded ones.

    Args:
        found: combinations.
        excluded: parts of combinations.
    """
    return [combination for combination in found if not any(agrees(combination, gone) for gone in excluded)]


def agrees(combination: Combination, part: Mapping[str, object]) -> bool:
    """Whether a combination has every value of a part."""
    return all(name in combination and text(combination[name]) == text(value) for name, value in part.items())


def including(
    found: Sequence[Combination], axes: Mapping[str, object], added: Sequence[Combination]
) -> list[Combination]:
    """Return the combinations with what GitHub's ``include`` adds.

    An entry is added to every combination in which it changes no axis value; an entry that fits none becomes a new
    combination.

    Args:
        found: combinations.
        axes: of the matrix.
        added: the entries.
    """
    result = [dict(combination) for combination in found]
    own: list[Combination] = []
    for entry in added:
        on_axes = {name: value for name, value in entry.items() if name in axes}
        fitting = [combination for combination in result if agrees(combination, on_axes)]
        for combination in fitting:
            combination.update(entry)
        if not fitting:
            own.append(dict(entry))
    return [*result, *own]


def title(name: str, combination: Mapping[str, object]) -> str:
    """Return the name of a job for one combination: ``unit, python=3.12``."""
    return ", ".join([name, *(f"{axis}={text(value)}" for axis, value in combination.items() if _is_short(value))])


def _is_short(value: object) -> bool:
    return not isinstance(value, dict | list)
