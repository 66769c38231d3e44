"""The private parts of torch that say where a guard, a shape guard and a break come from.

It belongs to :mod:`compilescope.capture._torch`, which is full. Tried on torch 2.13, 2.14 and 2.15.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._dynamo import exc
from torch._dynamo import guards as dynamo_guards
from torch._guards import SLoc, TracingContext
from torch.fx.experimental.symbolic_shapes import ShapeEnv

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from traceback import FrameSummary

TORCH_FOLDER: Final = f"{Path(torch.__file__).parent}/"
TRACER_FOLDER: Final = f"{TORCH_FOLDER}_dynamo/"
"""The folder of Dynamo itself, whose lines replace Python's own builtins and tell the user nothing."""

# What is patched while there is a listener: what builds an entry's guards, what writes their texts, and what notes
# where a size was requested.
GUARD_BUILDER: Final = dynamo_guards.CheckFunctionManager
GUARD_WRITER: Final = dynamo_guards
GUARD_WRITER_NAME: Final = "get_verbose_code_parts"
SHAPE_PLACE: Final = SLoc


def user_stack_now() -> Sequence[FrameSummary]:
    """Return the frame summaries of the code that is being traced, outermost first."""
    return TracingContext.extract_stack()


def guards_of(output_graph: Any) -> Iterator[tuple[Any, str, str]]:  # noqa: ANN401 (version dependent)
    """Yield every guard that a graph asks for, with its source and its type."""
    for guard in output_graph.guards:
        yield guard, guard.name, guard.create_fn_name()


def stack_of(guard: Any) -> Sequence[FrameSummary]:  # noqa: ANN401 (version dependent)
    """Return the frame summaries of the user's code that made Dynamo ask for a guard; empty if no user code did."""
    return getattr(guard, "user_stack", None) or ()


def shape_places(output_graph: Any) -> Iterator[tuple[Any, Any, Any]]:  # noqa: ANN401 (version dependent)
    """Yield what a shape guard is about (a symbol or an expression), with the place of its lower and upper side."""
    environment = output_graph.shape_env
    if environment is None:
        return
    for guard in environment.guards:
        yield guard.expr, guard.sloc, guard.sloc
    for symbol, place in environment.replacements_slocs.items():
        yield symbol, place, place
    for symbol, places in environment.var_to_range_sloc.items():
        yield symbol, places.lower, places.upper


def sources_in(output_graph: Any, expression: Any) -> frozenset[str]:  # noqa: ANN401 (version dependent)
    """Return the sources of the symbols in a shape's expression."""
    known = output_graph.shape_env.var_to_sources
    return frozenset(source.name for symbol in expression.free_symbols for source in known.get(symbol, ()))


def is_user_error(error: BaseException) -> bool:
    """Whether Dynamo attributes an error to the user's code, such as a branch on a data-dependent size."""
    return isinstance(error, exc.UserError)


def specialising_places(error: BaseException) -> Iterator[tuple[Any, str]]:
    """Yield where the user's code pinned a size, for a constraint violation: torch's own object, and its text.

    The error does not say. The shape environment that raised it is still reachable from its traceback,
    and has the line that requested each of its guards.
    """
    step = error.__traceback__
    while step is not None:
        environment = step.tb_frame.f_locals.get("self")
        if isinstance(environment, ShapeEnv):
            for guard in environment.guards:
                if getattr(guard.expr, "is_Equality", False):
                    yield guard.sloc, f"# {guard.sloc.maybe_user_loc or ''}"
            return
        step = step.tb_next
