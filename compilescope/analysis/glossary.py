"""The words of a report besides the kinds of cause: what each one means and, if there is one, its remedy.

Each word is listed once for each family that uses it. Renderers take the names of outcomes from here, and a test
checks every word that they print against the table. Pure; imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from compilescope.analysis.kinds import KINDS
from compilescope.analysis.sentences import BREAKS, ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BREAK: Final = "kind of graph break"
FALLBACK: Final = "kind of eager fallback"
OUTCOME: Final = "outcome of a compilation"
ERROR: Final = "kind of error"
TARGET: Final = "status of a target"
ENDING: Final = "end of the workload or of a sweep point"
AXIS: Final = "word on an axis"
ALARM: Final = "reason why a run is not valid as it stands"
OTHER: Final = "word of the report"
FAMILIES: Final = (BREAK, FALLBACK, OUTCOME, ERROR, TARGET, AXIS, ENDING, ALARM, OTHER)
"""The families of words, in the order in which ``compilescope explain`` lists them."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of one family.

    Attributes:
        name: as recordings spell it, or as a report prints it.
        family: one of :data:`FAMILIES`.
        meaning: what happened if a report prints the word.
        remedy: what to do about it; empty if there is nothing to do.
        shown: what the text report prints if that is not the name.
    """

    name: str
    family: str
    meaning: str
    remedy: str = ""
    shown: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """The name, and the form printed in its place."""
        return (self.name, self.shown) if self.shown else (self.name,)


def _of(family: str, rows: Iterable[tuple[str, ...]]) -> tuple[Word, ...]:
    """Return the words of one family; a row is a name, a meaning and, optionally, a remedy and the printed form."""
    return tuple(Word(row[0], family, *row[1:]) for row in rows)


_EXPLAIN_ID: Final = "run compilescope explain with the break's id, such as GB0170, for torch's own description"

_BREAKS: Final = _of(
    BREAK,
    (
        (
            "explicit_graph_break",
            "The code makes the break itself: torch._dynamo.graph_break(), skip_frame() or the like.",
            BREAKS["explicit_graph_break"],
        ),
        (
            "logging",
            "The traced code calls a method of a logger.",
            "add the method to torch._dynamo.config.ignore_logger_methods, or log outside the compiled code",
        ),
        ("print", "The traced code prints.", "print outside the compiled code"),
        (
            "compiler_disable",
            "The traced code calls a function that torch.compiler.disable excludes.",
            BREAKS["compiler_disable"],
        ),
        (
            "item",
            "The traced code turns a tensor's value into a Python number: .item(), .tolist(), int(tensor).",
            BREAKS["item"],
        ),
        (
            "data_dependent_branch",
            "A branch depends on a tensor's values, which are unknown while the code is traced.",
            BREAKS["data_dependent_branch"],
        ),
        (
            "no_fake_kernel",
            "An operator cannot be run with fake tensors: it has no meta kernel or fake implementation.",
            BREAKS["no_fake_kernel"],
        ),
        (
            "dynamic_shape_op",
            "The shape of an operator's result depends on values, as with nonzero or a mask used as an index.",
            BREAKS["dynamic_shape_op"],
        ),
        (
            "context_manager",
            "A break happened under a context manager, or the context manager itself cannot be traced.",
            "enter it outside the compiled code",
        ),
        (
            "observed_exception",
            "The traced code raises an exception and does not catch it within the graph.",
            "fix the cause of the exception, or raise it outside the compiled code",
        ),
        (
            "skipped_function",
            "The traced code calls a function that Dynamo does not trace, most often a library's.",
            "call it outside the compiled code",
        ),
        ("generator", "The traced code uses a generator in a way that Dynamo cannot trace.", "build a list instead"),
        ("builtin", "The traced code calls a Python builtin that Dynamo cannot trace with these arguments."),
        ("other", "compilescope has no name for this type of break; the reason is Dynamo's.", _EXPLAIN_ID),
    ),
)

_FALLBACKS: Final = _of(
    FALLBACK,
    (
        (
            "recompile_limit",
            "A code object hit the recompile limit: from then on, a call that matches no entry runs eagerly.",
            ERRORS["recompile_limit"],
        ),
        (
            "skipped_frame",
            "Dynamo skipped the frame, so it runs eagerly; the detail says why. Graph-break counts do not show this.",
            "remove the reason that the detail gives; fullgraph=True turns it into an error",
        ),
        (
            "user_exception",
            "The code raised while it was traced, so Dynamo skipped the frame for good.",
            "fix the exception: run the function without torch.compile on the same inputs",
        ),
        (
            "backend_error",
            "The backend failed on the graph, and torch._dynamo.config.suppress_errors made the frame run eagerly.",
            'compare with backend="eager": if that works, the bug is in the backend',
        ),
        ("unsupported", "Dynamo never tries to compile frames of this type, such as generators."),
        (
            "stance",
            "The calls were made under torch.compiler.set_stance, which forbids compiling.",
            "leave the stance before the calls that should be compiled",
        ),
        (
            "dispatch_mode",
            "The calls were made under a TorchDispatchMode (a FLOP counter), where Dynamo compiles nothing.",
            "leave the mode before the calls that should be compiled",
        ),
    ),
)

_OUTCOMES: Final = _of(
    OUTCOME,
    (
        ("compiled", "The attempt produced a graph with its guards: a cache entry of the code object."),
        (
            "skipped",
            "Dynamo tried to compile the frame and skipped it, so it runs eagerly.",
            "see the graph breaks and the eager fallbacks of the report",
        ),
        (
            "limit",
            "The recompile limit refused the attempt; the call ran eagerly, or raised under fullgraph.",
            ERRORS["recompile_limit"],
            "refused by the limit",
        ),
        ("failed", "The attempt ended in an error, which the report shows.", "fix the error"),
        (
            "empty",
            "The frame holds nothing to compile, so it has no graph.",
            "",
            "with nothing to compile",
        ),
        (
            "refused",
            "No entry matched the call, and a stance or error_on_recompile forbade compiling another: it raised.",
            ERRORS["recompile_forbidden"],
        ),
    ),
)

_ERRORS: Final = _of(
    ERROR,
    (
        (
            "constraint_violation",
            "A dimension was marked dynamic, and the traced code makes it a constant.",
            "remove the mark, or the code that needs the constant; maybe_mark_dynamic does not raise",
        ),
        ("backend_error", "The backend failed on the graph.", 'compare with backend="eager"'),
        (
            "user_exception",
            "The code raised while it was traced.",
            "run the function without torch.compile on the same inputs",
        ),
        (
            "fake_tensor_error",
            "An operator failed when run with fake tensors, most often because of wrong shapes or dtypes.",
            "run the function without torch.compile on the same inputs",
        ),
        (
            "no_fake_kernel",
            "An operator cannot be run with fake tensors: it has no meta kernel or fake implementation.",
            BREAKS["no_fake_kernel"],
        ),
        ("numpy_error", "A numpy function that Dynamo traces as torch code failed.", "use the torch function instead"),
        (
            "unsupported",
            "Dynamo cannot trace the code and is not allowed to break the graph there.",
            _EXPLAIN_ID,
        ),
        (
            "recompile_limit",
            "The recompile limit refused the attempt.",
            ERRORS["recompile_limit"],
        ),
        (
            "recompile_forbidden",
            "No entry matched the call, and error_on_recompile or a stance forbade compiling another.",
            ERRORS["recompile_forbidden"],
        ),
        ("internal", "Dynamo failed in a way that no other kind covers.", "report it to torch"),
    ),
)

_TARGETS: Final = _of(
    TARGET,
    (
        ("compiled", "The target was compiled and has its own graph."),
        (
            "inlined",
            "The target was traced into the graph of another frame and has no graph of its own.",
            "name that frame as the target, or compile the target itself",
        ),
        (
            "cached",
            "An entry that was compiled before the recording began served the target.",
            "start the recording earlier, or call torch.compiler.reset() before it",
        ),
        (
            "skipped",
            "Dynamo was asked to compile the target and skipped it: it runs eagerly.",
            "see the graph breaks and the eager fallbacks of the report",
        ),
        (
            "never_reached",
            "The target was never called under torch.compile: it has another name, or nothing calls it compiled.",
            "compare its name with the code objects in the report",
        ),
    ),
)

_AXES: Final = _of(
    AXIS,
    (
        ("free", "Nothing was compiled again at any value that ran, after the first one."),
        ("free otherwise", "Nothing was compiled again at the values that are not named before these words."),
        (
            "compiles at",
            "Compilations are attributed to these values: nothing else changed, or a cause names it.",
        ),
        (
            "every value has its own graph",
            "Each value that ran needed its own graph, so each new one costs a compilation, up to the recompile limit.",
            "see the cause in brackets: compilescope explain size",
        ),
        (
            "ran eagerly",
            "At every point with this value a compiled callable ran outside any graph; the brackets say why.",
            "see the eager fallbacks of the report",
        ),
        ("raised", "The workload raised at every point with this value, so nothing is known about it."),
        (
            "not checked",
            "Nothing was compiled, or Dynamo had stopped compiling some code: that does not prove it free.",
        ),
        ("not varied", "The axis had only one value.", "give the axis two values or more"),
        ("changed", "The value of the axis differs from the one at which the closest entry was compiled."),
        (
            "no axis changed",
            "The closest entry was compiled at the same point: another layer ran, or some state changed.",
        ),
    ),
)

_ENDINGS: Final = _of(
    ENDING,
    (
        ("ok", "It ended normally."),
        ("error", "The workload raised at this point of the sweep; the sweep continued."),
        (
            "raised",
            "The workload raised; what it would have done next is unknown.",
            "run it without compilescope and fix it",
        ),
        ("exited", "The workload called sys.exit; a code that is not 0 counts as a failure."),
        ("interrupted", "Ctrl-C or SIGTERM ended it; the report shows what was recorded until then."),
    ),
)

_ALARMS: Final = _of(
    ALARM,
    (
        (
            "nothing_compiled",
            "Nothing was compiled, so nothing is known about recompiles, graph breaks and eager calls.",
            "call the compiled callable, and unset TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE",
        ),
        ("target_skipped", "Dynamo skipped a target, which runs eagerly."),
        ("sweep_cut", "A sweep was interrupted: later points were not run."),
        ("points_failed", "The workload raised at points of a sweep."),
    ),
)

_OTHERS: Final = _of(
    OTHER,
    (
        ("recompile", "A compilation of code that already had an entry, because none of its entries matched the call."),
        ("guard", "A condition of an entry, checked on every call: an entry matches a call if all of its guards hold."),
        ("entry", "One compiled graph of a code object with its guards; the cache holds as many as the limit allows."),
        ("operators", "Calls to operators that the graph captured."),
        (
            "shape-driven",
            "Only shapes changed since some older entry was compiled: a graph for general shapes avoids this.",
        ),
        ("not shape-driven", "Every older entry also fails on something other than shapes."),
        ("unclassified", "The cause was not determined: the recording was not analysed."),
        ("cause unknown", "No guard of the older entries could be examined."),
        ("root", "A failing guard that is not the result of another failing guard."),
        (
            "consequence",
            "A failing guard that is only the result of another, such as one inside a value of a different class.",
        ),
        ("as close", "An entry that came as close to matching as the closest one."),
        ("skips its frame", "The break ends compilation of the frame, which runs eagerly from its start."),
        ("goes on", "After the break the rest of the frame is compiled as a resume function."),
        ("resume function", "The part of a function after a graph break, which Dynamo compiles as its own function."),
        ("events", "How often tracing stopped at the place of a graph break."),
        ("parity", "How far the compiled result is from the eager one; only measured with --parity."),
        ("bitwise equal", "Every byte of the compiled and the eager result is the same, including signed zeros."),
        ("relative l2", "The norm of the difference from eager over the norm of the eager result."),
        ("psnr", "Peak signal-to-noise ratio in dB, with the eager result's largest magnitude as the peak."),
        ("FAILED", "The check found something that no baseline accepts, or could not write the baseline."),
        ("passed", "A check found nothing that its baseline does not accept."),
    ),
)

WORDS: Final[tuple[Word, ...]] = (
    *_BREAKS,
    *_FALLBACKS,
    *_OUTCOMES,
    *_ERRORS,
    *_TARGETS,
    *_AXES,
    *_ENDINGS,
    *_ALARMS,
    *_OTHERS,
)
"""Every word, by family in the order of :data:`FAMILIES`."""

OUTCOMES: Final[Mapping[str, str]] = MappingProxyType({word.name: word.shown or word.name for word in _OUTCOMES})
"""What the text report prints for each outcome."""


def folded(text: str) -> str:
    """Return ``text`` without the differences that a reader ignores: case, hyphens, spaces."""
    return "_".join(text.casefold().replace("-", " ").replace("_", " ").split())


def words_called(text: str) -> tuple[Word, ...]:
    """Return every word that a report prints as ``text``, in any family."""
    wanted = folded(text)
    return tuple(word for word in WORDS if wanted in map(folded, word.forms))


def kind_family(text: str) -> tuple[str, ...]:
    """Return the kinds of cause in the family called ``text``, such as ``shape``."""
    return tuple(kind.name for kind in KINDS.values() if folded(kind.family) == folded(text))
