"""The rules that findings are made by: a stable code each, what it means, and what to do.

1xx: nothing was seen, or not enough to judge. 2xx: compilations. 3xx: graph breaks. 4xx: eager calls.
5xx: size and time. 6xx: the baseline. A code is never given to another rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compilescope.record import Finding


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        code: such as ``CS203``.
        name: a few words with hyphens.
        meaning: when it finds something, and why that matters.
        remedy: what to do about it.
        limit: the key of the budget that sets or lifts it; None where nothing does.
        acceptable: whether a baseline may accept its findings. What could not be seen cannot be accepted:
            the next run might hide anything behind it.
    """

    code: str
    name: str
    meaning: str
    remedy: str
    limit: str | None = None
    acceptable: bool = False


NOTHING_COMPILED: Final = Rule(
    "CS101",
    "nothing-compiled",
    "Nothing was compiled, in the whole run or in one of its sweeps, which each start from an empty cache. "
    "Every other limit would hold for a program that runs eagerly.",
    "Call the compiled callable within the run, and see that TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE are unset.",
)
NEVER_REACHED: Final = Rule(
    "CS102",
    "target-never-reached",
    "A target was never called under torch.compile: it was renamed, is called by nobody, or the attribute that "
    "selects it for compilation (such as _repeated_blocks) is empty. A limit on it holds for nothing.",
    "Compare its name with the code objects that were compiled, which the message lists, and call it.",
    limit="allow-uncompiled",
)
INLINED: Final = Rule(
    "CS103",
    "target-inlined",
    "A target was traced into the graph of another frame and has no graph of its own. Limits on it say nothing.",
    "Name the frame that it was inlined into as the target, or compile the target itself.",
    limit="allow-uncompiled",
)
CACHED: Final = Rule(
    "CS104",
    "target-cached",
    "A target was served by an entry that was compiled before the recording began: its compilations were not seen.",
    "Begin the recording earlier, or call torch.compiler.reset() before it.",
    limit="allow-uncompiled",
)
SKIPPED: Final = Rule(
    "CS105",
    "target-skipped",
    "Dynamo tried a target, or was asked for it, and skipped it: it runs eagerly.",
    "See why under the graph breaks and the eager fallbacks of the report.",
    limit="allow-uncompiled",
)
UNKNOWN_TARGET: Final = Rule(
    "CS106",
    "unknown-target",
    "The budget names a target that the recording does not know. A limit on it holds for nothing.",
    "Spell it as in the recording's targets or as a pattern over qualified names, or record with --target.",
)
NOT_VARIED: Final = Rule(
    "CS107",
    "nothing-varied",
    "Shape-driven recompiles are forbidden, and none could have been seen: every sweep ran a single point, the cache "
    "was emptied between two compilations of a target, or every call of a marked test's target had the same sizes.",
    "Give an axis two values or more; in a test, call the target with other sizes too; call torch.compiler.reset() and "
    "torch._dynamo.explain() outside of the run.",
    limit="no-shape-recompile",
)
OWN_UNSEEN: Final = Rule(
    "CS108",
    "own-code-unseen",
    "Graph breaks in the project's own code are limited, and no code object that Dynamo saw lies in the paths given.",
    "Give `own` relative to the folder that compilescope runs in, as the files are shown in the report.",
    limit="own",
)
RUN_FAILED: Final = Rule(
    "CS110",
    "run-failed",
    "The workload raised, ended with a failing exit code or was interrupted; what would have come after is unknown.",
    "Run it alone and mend it. The traceback is on stderr.",
)
SWEEP_CUT: Final = Rule(
    "CS111",
    "sweep-incomplete",
    "A sweep did not visit all of its points; what the others would have compiled is unknown.",
    "Let it run to its end.",
)
POINT_FAILED: Final = Rule(
    "CS112",
    "sweep-point-failed",
    "The workload raised at a point of the sweep, so that point was not judged.",
    "Mend the workload at this point, or take the point out of its axes.",
)
RUNS_NOT_COUNTED: Final = Rule(
    "CS113",
    "runs-not-counted",
    "Eager fallbacks are forbidden and runs were not counted, so calls that ran eagerly could not be seen.",
    "Record with count_runs=True (the default of `check`), or allow every fallback: allow-fallbacks = ['*'].",
    limit="allow-fallbacks",
)
NOT_ANALYSED: Final = Rule(
    "CS114",
    "shape-driven-unknown",
    "Shape-driven recompiles are forbidden, and of this recompile it was not worked out whether shapes drove it.",
    "Record it with compilescope itself: a log that others wrote does not hold what is needed.",
    limit="no-shape-recompile",
)
NOT_A_NUMBER: Final = Rule(
    "CS115",
    "impossible-number",
    "A number in the recording cannot be: NaN, infinite, less than nothing, or more than the recording holds. "
    "A limit compared with it means nothing.",
    "Record again. A parity of NaN comes from results that hold NaN: look at the workload's output.",
)
UNKNOWN_CAUSE: Final = Rule(
    "CS116",
    "unknown-cause",
    "The cause of a recompile is not known: no guard could be examined, or the guard is of an unknown sort or raised.",
    "Read the guard in `compilescope report -v`; report it with the recording attached.",
    limit="allow-unknown",
)
NOT_COUNTED: Final = Rule(
    "CS117",
    "not-counted",
    "A limit is set on something that was not looked at: operators, guards, or the difference from eager.",
    "Record it (--parity for the difference from eager), or drop the limit.",
)
TOO_MANY_COMPILES: Final = Rule(
    "CS201",
    "too-many-compiles",
    "A target was compiled more often than the budget allows. Its resume functions are counted apart.",
    "See its recompiles in the report: each has its cause and what helps.",
    limit="max-compiles",
    acceptable=True,
)
TOO_MANY_RECOMPILES: Final = Rule(
    "CS202",
    "too-many-recompiles",
    "A target was recompiled more often than the budget allows. Kinds with a limit of their own are counted there.",
    "See its cause in the report, and `compilescope explain` for the kind.",
    limit="max-recompiles",
    acceptable=True,
)
SHAPE_RECOMPILE: Final = Rule(
    "CS203",
    "shape-recompile",
    "A recompile that general shapes alone would have avoided: some older entry failed on shape kinds only. "
    "In production every new resolution or length pays it again, up to the recompile limit.",
    "Compile with dynamic=True, mark the dimension, or see what the kind's advice says.",
    limit="no-shape-recompile",
    acceptable=True,
)
RECOMPILE_LIMIT: Final = Rule(
    "CS204",
    "recompile-limit",
    "A code object met the recompile limit: whatever fits no entry runs eagerly from then on, or raises.",
    "Remove the cause of its recompiles. Raising the limit only moves the day.",
    limit="allow-fallbacks",
    acceptable=True,
)
TOO_MANY_OF_KIND: Final = Rule(
    "CS205",
    "too-many-recompiles-of-kind",
    "Recompiles of one kind are more than the budget allows for it.",
    "`compilescope explain` tells what the kind means and what helps.",
    limit="max-recompiles-by-kind",
    acceptable=True,
)
COMPILE_FAILED: Final = Rule(
    "CS206",
    "compile-failed",
    "An attempt to compile ended in an error that was raised to the caller. Whoever caught it ran without a graph.",
    "Mend the error, which the message gives.",
    limit="allow-fallbacks",
    acceptable=True,
)
GRAPH_BREAK: Final = Rule(
    "CS301",
    "graph-break",
    "Tracing stopped at more sites than the budget allows; every site is listed, each once however often it was met.",
    "`compilescope explain` tells of the break's registry id; fullgraph=True makes it an error where it happens.",
    limit="max-graph-breaks",
    acceptable=True,
)
OWN_GRAPH_BREAK: Final = Rule(
    "CS302",
    "own-graph-break",
    "Tracing stopped at more sites in the project's own code than the budget allows.",
    "`compilescope explain` tells of the break's registry id; fullgraph=True makes it an error where it happens.",
    limit="max-own-graph-breaks",
    acceptable=True,
)
FALLBACK: Final = Rule(
    "CS401",
    "eager-fallback",
    "A frame, or calls of a compiled callable, ran outside any compiled graph. No count of graph breaks shows it.",
    "Remove the reason that the message gives, or allow it by its kind or by the name of its code.",
    limit="allow-fallbacks",
    acceptable=True,
)
TOO_FEW_OPERATORS: Final = Rule(
    "CS501",
    "too-few-operators",
    "The graphs hold fewer operators than expected: part of the model left the compiled code.",
    "Look for new graph breaks and eager fallbacks, or lower the limit if the model shrank.",
    limit="min-operators",
    acceptable=True,
)
TOO_MANY_GUARDS: Final = Rule(
    "CS502",
    "too-many-guards",
    "A compiled entry checks more guards at every call than the budget allows.",
    "Guards come with what traced code reads: attributes, globals, containers. Read fewer of them in the hot path.",
    limit="max-guards",
    acceptable=True,
)
TOO_SLOW: Final = Rule(
    "CS503",
    "compile-time",
    "Compiling took longer than the budget allows. Times differ between machines, so no baseline holds them.",
    "Remove recompiles first; use a wide margin in CI.",
    limit="max-compile-seconds",
)
TOO_FAR: Final = Rule(
    "CS504",
    "differs-from-eager",
    "At a point of the sweep the compiled result is further from the eager one than the budget allows.",
    "Compare the backends (backend='eager', 'aot_eager', 'inductor') to find the stage that differs.",
    limit="max-relative-l2",
)
STALE_BASELINE: Final = Rule(
    "CS601",
    "stale-baseline",
    "The baseline accepts more than was found, and --strict forbids that: something was fixed, or is run no more.",
    "Update the baseline: `check` prints the command.",
)

_RULES: Final = (
    NOTHING_COMPILED,
    NEVER_REACHED,
    INLINED,
    CACHED,
    SKIPPED,
    UNKNOWN_TARGET,
    NOT_VARIED,
    OWN_UNSEEN,
    RUN_FAILED,
    SWEEP_CUT,
    POINT_FAILED,
    RUNS_NOT_COUNTED,
    NOT_ANALYSED,
    NOT_A_NUMBER,
    UNKNOWN_CAUSE,
    NOT_COUNTED,
    TOO_MANY_COMPILES,
    TOO_MANY_RECOMPILES,
    SHAPE_RECOMPILE,
    RECOMPILE_LIMIT,
    TOO_MANY_OF_KIND,
    COMPILE_FAILED,
    GRAPH_BREAK,
    OWN_GRAPH_BREAK,
    FALLBACK,
    TOO_FEW_OPERATORS,
    TOO_MANY_GUARDS,
    TOO_SLOW,
    TOO_FAR,
    STALE_BASELINE,
)

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.code: rule for rule in _RULES})
"""Every rule by its code."""


def entry_of(finding: Finding) -> str | None:
    """Return what a baseline calls a finding; None where its rule lets nobody accept it."""
    rule = RULES.get(finding.rule)
    if rule is None or not rule.acceptable or finding.key is None:
        return None
    return f"{finding.rule} {finding.key}"
