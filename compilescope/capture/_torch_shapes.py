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
    for symbol, sources in environment.var_to_sources.items():
        if not environment.replace(symbol).is_number:
            continue
        places = [place for place in _places(environment, symbol) if place]
        # One symbol may stand for another, which became the constant: the last line of the chain did it.
        yield tuple(_name(source) for source in sources), places[-1] if places else None


def _places(environment: Any, symbol: Any) -> Iterator[str | None]:  # noqa: ANN401 (a ShapeEnv and a sympy symbol)
    target = environment.replacements.get(symbol)
    if target is None:
        return
    place = environment.replacements_slocs.get(symbol)
    yield None if place is None or place.maybe_user_loc is None else str(place.maybe_user_loc)
    for free in target.free_symbols:
        yield from _places(environment, free)


def _name(source: Any) -> str:  # noqa: ANN401 (a Source, whose name is a method before 2.13)
    return str(source.name() if callable(source.name) else source.name)
