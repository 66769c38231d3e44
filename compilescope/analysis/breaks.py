"""Names the kind of a graph break, based on Dynamo's title for it. Pure; imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from compilescope.record import GraphBreak, Recording

_Rules = tuple[tuple[str, str], ...]

# Specific words that name a kind wherever they occur in Dynamo's message.
_ANYWHERE: Final[_Rules] = (
    ("explicit_graph_break", "torch._dynamo.graph_break()"),
    ("explicit_graph_break", "torch._dynamo.skip_frame()"),
    ("explicit_graph_break", "torch._dynamo.step_unsupported()"),
    ("logging", "logging.logger"),
    ("print", "builtin operator `print`"),
    ("compiler_disable", "torch.compiler.disable()"),
    ("item", "tensor.item()"),
    ("item", "tensor.tolist()"),
    ("item", "_local_scalar_dense"),
)
# Words in Dynamo's titles; the first row that matches wins.
_TITLES: Final[_Rules] = (
    ("print", "reorder a debugging function"),
    ("data_dependent_branch", "data-dependent branching"),
    ("data_dependent_branch", "data-dependent assertion"),
    ("data_dependent_branch", "could not guard on data-dependent expression"),
    ("item", "could not extract specialized integer from data-dependent expression"),
    ("no_fake_kernel", "does not support running with fake tensors"),
    ("no_fake_kernel", "no meta kernel"),
    ("no_fake_kernel", "unsupportedfaketensorexception"),
    ("no_fake_kernel", "missing faketensor"),
    ("dynamic_shape_op", "dynamic shape operator"),
    ("dynamic_shape_op", "dynamic slicing"),
    ("dynamic_shape_op", "data-dependent output shape"),
    ("item", "data dependent operator"),
    ("context_manager", "context manager"),
    ("context_manager", "genericcontextwrappingvariable"),
    ("context_manager", "contextlib"),
    ("observed_exception", "observed exception"),
    ("skipped_function", "function marked as skipped"),
    ("generator", "generator"),
    ("builtin", "builtin op"),
    ("builtin", "repr() on"),
    ("builtin", "str() method"),
    ("builtin", "str() on"),
)


def kind_of(reason: str) -> str:
    """Return the kind of a break with this reason: ``other`` if no rule matches."""
    whole = reason.lower()
    title = whole.partition(" explanation:")[0]
    for text, rules in ((whole, _ANYWHERE), (title, _TITLES)):
        for kind, words in rules:
            if words in text:
                return kind
    return "other"


def classify(graph_break: GraphBreak) -> GraphBreak:
    """Return the break with its kind."""
    return replace(graph_break, kind=kind_of(graph_break.reason))


def explain(recording: Recording) -> Recording:
    """Return the recording with the kind of every graph break."""
    return replace(recording, graph_breaks=tuple(classify(b) for b in recording.graph_breaks))
