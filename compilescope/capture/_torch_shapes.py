"""The private names of torch's shape environment that compilescope relies on; tried on torch 2.13, 2.14 and 2.15."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def specialised(environment: Any) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 (a ShapeEnv)
    """Yield every symbol that became a constant while a frame was traced.

    Args:
        environment: the ``ShapeEnv`` of the frame's output graph, once tracing is over.

    Yields:
        The sources of the symbol (``L['x'].size()[0]``), and the place that needed the constant, if the
        environment has it, as torch's own object.
    """
    equations = _equations(environment)
    for symbol, sources in environment.var_to_sources.items():
        places = [*_places(environment, symbol)] if environment.replace(symbol).is_number else equations.get(symbol, [])
        if not places:
            continue
        known = [place for place in places if place is not None]
        # One symbol may be replaced by another, which became the constant: the last line of the chain did it.
        yield tuple(_name(source) for source in sources), known[-1] if known else None


def written(place: Any) -> str | None:  # noqa: ANN401 (a place of torch's)
    """Return a place as torch writes it, ``text  # file:line in function``; None if it names no line."""
    return None if place.maybe_user_loc is None else str(place.maybe_user_loc)


def _places(environment: Any, symbol: Any) -> Iterator[Any]:  # noqa: ANN401 (a ShapeEnv and a sympy symbol)
    target = environment.replacements.get(symbol)
    if target is None:
        return
    yield environment.replacements_slocs.get(symbol)
    for free in target.free_symbols:
        yield from _places(environment, free)


def _equations(environment: Any) -> dict[Any, list[Any]]:  # noqa: ANN401 (a ShapeEnv)
    """Return the places of guards such as ``Eq(s0, 1)``: a size of 1 under oblivious sizes is never replaced."""
    found: dict[Any, list[Any]] = {}
    for guard in environment.guards:
        expression = guard.expr
        if expression.is_Equality and expression.lhs.is_Symbol and expression.rhs.is_number:
            found.setdefault(expression.lhs, []).append(guard.sloc)
    return found


def _name(source: Any) -> str:  # noqa: ANN401 (a Source, whose name is a method before 2.13)
    return str(source.name() if callable(source.name) else source.name)
