"""The words of a report beside the kinds of cause: what each of them means, and what to do where something can be done.

A word stands here once for each family that uses it. Renderers take what they print of outcomes from here, and a test
holds every word that they print against the table. Pure; imports no torch.
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
        name: as it stands in recordings, or as a report prints it.
        family: one of :data:`FAMILIES`.
        meaning: what was seen where the word is printed.
        remedy: what to do about it; empty where there is nothing to do.
        shown: what the text report prints of it, where that is not the name.
    """

    name: str
    family: str
    meaning: str
    remedy: str = ""
    shown: str = ""

    @property
    def forms(self) -> tuple[str, ...]:
        """The name, and what is printed in its place."""
        return (self.name, self.shown) if self.shown else (self.name,)


def _of(family: str, rows: Iterable[tuple[str, ...]]) -> tuple[Word, ...]:
    """Return the words of one family; a row is a name, a meaning, and if need be a remedy and what is shown."""
    return tuple(Word(row[0], family, *row[1:]) for row in rows)


_EXPLAIN_ID: Final = "compilescope explain with the break's id, such as GB0170, tells what torch says of it"

_BREAKS: Final = _of(
    BREAK,
    (
        (
            "explicit_graph_break",
            "The code asks for the break itself: torch._dynamo.graph_break(), skip_frame() or the like.",
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
            "A tensor's value is asked for as a Python number: .item(), .tolist(), int(tensor).",
            BREAKS["item"],
        ),
        (
            "data_dependent_branch",
            "A branch depends on a tensor's values, which nobody knows while the code is traced.",
            BREAKS["data_dependent_branch"],
        ),
        (
            "no_fake_kernel",
            "An operator cannot be run with fake tensors: it has no meta kernel or fake implementation.",
            BREAKS["no_fake_kernel"],
        ),
        (
            "dynamic_shape_op",
            "The shape of an operator's result depends on values, as that of nonzero or of a mask as an index.",
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
            "mend the exception, or raise it outside the compiled code",
        ),
        (
            "skipped_function",
            "The traced code calls a function that Dynamo does not trace, most often of a library.",
            "call it outside the compiled code",
        ),
        ("generator", "The traced code uses a generator in a way that Dynamo does not follow.", "build a list instead"),
        ("builtin", "The traced code calls a Python builtin that Dynamo does not know with these arguments."),
        ("other", "The break is of a sort that compilescope has no name for; the reason is Dynamo's.", _EXPLAIN_ID),
    ),
)

_FALLBACKS: Final = _of(
    FALLBACK,
    (
        (
            "recompile_limit",
            "A code object met the recompile limit: whatever fits none of its entries runs eagerly from then on.",
            ERRORS["recompile_limit"],
        ),
        (
            "skipped_frame",
            "Dynamo gave the frame up, so it runs eagerly; the detail says why. No count of graph breaks shows it.",
            "remove the reason that the detail gives; fullgraph=True makes it an error where it happens",
        ),
        (
            "user_exception",
            "The code raised while it was traced, so Dynamo skipped the frame for good.",
            "mend the exception: run the function without torch.compile with the same inputs",
        ),
        (
            "backend_error",
            "The backend failed on the graph, and torch._dynamo.config.suppress_errors let the frame run eagerly.",
            'compare with backend="eager"; the error is the backend\'s own affair',
        ),
        ("unsupported", "Dynamo declines frames of this sort and never tries to compile them, as generators."),
        (
            "stance",
            "The calls were made under torch.compiler.set_stance, which forbids to compile.",
            "leave the stance around the calls that are meant to be compiled",
        ),
        (
            "dispatch_mode",
            "The calls were made under a TorchDispatchMode (a FLOP counter), where Dynamo compiles nothing.",
            "leave the mode around the calls that are meant to be compiled",
        ),
    ),
)

_OUTCOMES: Final = _of(
    OUTCOME,
    (
        ("compiled", "The attempt produced a graph with its guards: an entry of the code's cache."),
        (
            "skipped",
            "Dynamo tried the frame and gave it up, so it runs eagerly.",
            "see the graph breaks and the eager fallbacks of the report",
        ),
        (
            "limit",
            "The recompile limit refused the attempt; the call ran eagerly, or raised under fullgraph.",
            ERRORS["recompile_limit"],
            "refused by the limit",
        ),
        ("failed", "The attempt ended in an error that is shown with it.", "mend the error"),
        (
            "empty",
            "The frame holds nothing to compile, so no graph came of it.",
            "",
            "with nothing to compile",
        ),
        (
            "refused",
            "No entry served the call, and a stance or error_on_recompile forbade to compile another: it raised.",
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
            "remove the mark, or what needs the constant; maybe_mark_dynamic does not raise",
        ),
        ("backend_error", "The backend failed on the graph.", 'compare with backend="eager"'),
        (
            "user_exception",
            "The code raised while it was traced.",
            "run the function without torch.compile with the same inputs",
        ),
        (
            "fake_tensor_error",
            "An operator failed when it was run with fake tensors, most often for wrong shapes or dtypes.",
            "run the function without torch.compile with the same inputs",
        ),
        (
            "no_fake_kernel",
            "An operator cannot be run with fake tensors: it has no meta kernel or fake implementation.",
            BREAKS["no_fake_kernel"],
        ),
        ("numpy_error", "A numpy function that Dynamo traces as torch code failed.", "use the function of torch"),
        (
            "unsupported",
            "Dynamo cannot trace the code, and nothing lets it break the graph there.",
            _EXPLAIN_ID,
        ),
        (
            "recompile_limit",
            "The recompile limit refused the attempt.",
            ERRORS["recompile_limit"],
        ),
        (
            "recompile_forbidden",
            "error_on_recompile or a stance forbids what no entry serves.",
            ERRORS["recompile_forbidden"],
        ),
        ("internal", "Dynamo failed in a way that is none of the other kinds.", "report it to torch"),
    ),
)

_TARGETS: Final = _of(
    TARGET,
    (
        ("compiled", "The target was compiled by itself."),
        (
            "inlined",
            "The target was traced into the graph of another frame and has no graph of its own.",
            "name that frame as the target, or compile the target itself",
        ),
        (
            "cached",
            "An entry that was compiled before the recording began served the target.",
            "begin the recording earlier, or call torch.compiler.reset() before it",
        ),
        (
            "skipped",
            "Dynamo tried the target, or was asked for it, and skipped it: it runs eagerly.",
            "see the graph breaks and the eager fallbacks of the report",
        ),
        (
            "never_reached",
            "The target was never called under torch.compile: it has another name, or nobody calls it compiled.",
            "compare its name with the code objects of the report",
        ),
    ),
)

_AXES: Final = _of(
    AXIS,
    (
        ("free", "Nothing was compiled anew as the axis moved over the values that ran, after the first of them."),
        ("free otherwise", "Nothing was compiled anew at the values that are not named before these words."),
        ("compiles at", "Compilations are laid to these values: nothing else had moved, or a cause names the value."),
        (
            "every value has its own graph",
            "Each value that ran was compiled for, so every new one costs a compilation, up to the recompile limit.",
            "see the cause in brackets: compilescope explain size",
        ),
        (
            "ran eagerly",
            "At every point with this value a compiled callable ran outside any graph; the brackets say why.",
            "see the eager fallbacks of the report",
        ),
        ("raised", "At every point with this value the workload raised, so nothing is known of it."),
        ("not checked", "Nothing was compiled, or code had given up before: silence proves nothing."),
        ("not varied", "The axis had one value only.", "give the axis two values or more"),
        ("changed", "The value of the axis differs from the one that the closest entry was compiled at."),
        (
            "no axis changed",
            "The closest entry was compiled at the same point: another layer, or a state that changed.",
        ),
    ),
)

_ENDINGS: Final = _of(
    ENDING,
    (
        ("ok", "It ended by itself."),
        ("error", "The workload raised at this point of the sweep, which then went on."),
        (
            "raised",
            "The workload raised; what would have come after is unknown.",
            "mend it: run it without compilescope",
        ),
        ("exited", "The workload called sys.exit; a code that is not 0 counts as a failure."),
        ("interrupted", "Ctrl-C or SIGTERM ended it; what was recorded until then is reported."),
    ),
)

_ALARMS: Final = _of(
    ALARM,
    (
        (
            "nothing_compiled",
            "Nothing was compiled, so nothing is known of recompiles, graph breaks and eager calls.",
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
        ("recompile", "A compilation of code that had an entry already, since none of its entries fit the call."),
        ("guard", "A condition of an entry, checked at every call: an entry serves a call if all of them hold."),
        ("entry", "One compiled graph of a code object with its guards; the cache holds as many as the limit allows."),
        ("operators", "Calls that the graph captured."),
        (
            "shape-driven",
            "Nothing but shapes changed since some older entry was compiled: general shapes would have avoided this.",
        ),
        ("not shape-driven", "Every older entry fails on something else than shapes too."),
        ("unclassified", "The cause was not worked out: the recording was not analysed."),
        ("cause unknown", "No guard of the older entries could be examined."),
        ("root", "A failing guard that follows from no other one."),
        ("consequence", "A failing guard that merely follows from another, as inside of a value of another class."),
        ("as close", "An entry that failed by as little as the closest one."),
        ("skips its frame", "The break ends the whole frame, which runs eagerly from its start."),
        ("goes on", "After the break the rest of the frame is compiled as a resume function."),
        ("resume function", "What Dynamo compiles of a function after a graph break in it."),
        ("events", "How often tracing stopped at the place of a graph break."),
        ("parity", "How far the compiled result is from the eager one; measured with --parity alone."),
        ("bitwise equal", "Every byte of the compiled and the eager result is the same, signed zeros counted."),
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
"""What the text report prints of each outcome."""


def folded(text: str) -> str:
    """Return ``text`` without the differences that a reader does not see: case, hyphens, blanks."""
    return "_".join(text.casefold().replace("-", " ").replace("_", " ").split())


def words_called(text: str) -> tuple[Word, ...]:
    """Return every word that a report prints as ``text``, whichever its family."""
    wanted = folded(text)
    return tuple(word for word in WORDS if wanted in map(folded, word.forms))


def kind_family(text: str) -> tuple[str, ...]:
    """Return the kinds of cause in the family called ``text``, such as ``shape``."""
    return tuple(kind.name for kind in KINDS.values() if folded(kind.family) == folded(text))
