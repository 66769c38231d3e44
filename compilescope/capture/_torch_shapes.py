"""The private names of torch's shape environment that compilescope relies on; tried on torch 2.13, 2.14 and 2.15."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def specialised(environment: Any) -> Iterator[tuple[tuple[str, ...], str | None]]:  # noqa: ANN401 (a ShapeEnv)
    """Yield what began as a symbol and ended as a constant while a frame was traced.

    Args:
        environment: the ``ShapeEnv`` of the frame's output graph, once tracing is over.

    Yields:
        The sources of the symbol (``L['x'].size()[0]``), and the place that asked for the constant
        (``text  # file:line in function``) where the environment knows it.
    """
    equations = _equations(environment)
    for symbol, sources in environment.var_to_sources.items():
        places = [*_places(environment, symbol)] if environment.replace(symbol).is_number else equations.get(symbol, [])
        if not places:
            continue
        known = [place for place in places if place]
        # One symbol may stand for another, which became the constant: the last line of the chain did it.
        yield tuple(_name(source) for source in sources), known[-1] if known else None


def _places(environment: Any, symbol: Any) -> Iterator[str | None]:  # noqa: ANN401 (a ShapeEnv and a sympy symbol)
    target = environment.replacements.get(symbol)
    if target is None:
        return
    yield _line(environment.replacements_slocs.get(symbol))
    for free in target.free_symbols:
        yield from _places(environment, free)


def _equations(environment: Any) -> dict[Any, list[str | None]]:  # noqa: ANN401 (a ShapeEnv)
    """Return the places of guards such as ``Eq(s0, 1)``: a size of 1 under oblivious sizes is never replaced."""
    found: dict[Any, list[str | None]] = {}
    for guard in environment.guards:
        expression = guard.expr
        if expression.is_Equality and expression.lhs.is_Symbol and expression.rhs.is_number:
            found.setdefault(expression.lhs, []).append(_line(guard.sloc))
    return found


def _line(place: Any) -> str | None:  # noqa: ANN401 (an SLoc)
    return None if place is None or place.maybe_user_loc is None else str(place.maybe_user_loc)


def _name(source: Any) -> str:  # noqa: ANN401 (a Source, whose name is a method before 2.13)
    return str(source.name() if callable(source.name) else source.name)
