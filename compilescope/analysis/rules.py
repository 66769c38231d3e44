"""The rules behind findings: each has a stable code, a meaning and a remedy.

1xx: nothing was recorded, or not enough to judge. 2xx: compilations. 3xx: graph breaks. 4xx: eager calls.
5xx: size and time. 6xx: the baseline. A code is never reused for another rule.
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
        name: a few hyphenated words.
        meaning: when the rule reports a finding, and why that matters.
        remedy: what to do about it.
        limit: the budget key that sets or lifts it; None if there is no such key.
        acceptable: whether a baseline may accept its findings. Findings about missing data cannot be accepted:
            an accepted gap could hide any later regression.
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
    "Nothing was compiled in the whole run, or in one of its sweeps, each of which starts with an empty cache. "
    "A program that only runs eagerly stays within every other limit.",
    "Call the compiled callable during the run, and make sure that TORCH_COMPILE_DISABLE and TORCHDYNAMO_DISABLE are "
    "unset.",
)
NEVER_REACHED: Final = Rule(
    "CS102",
    "target-never-reached",
    "A target was never called under torch.compile: it was renamed, nothing calls it, or the attribute that "
    "selects it for compilation (such as _repeated_blocks) is empty. A limit on it checks nothing.",
    "Compare its name with the compiled code objects that the message lists, and make sure that the run calls it.",
    limit="allow-uncompiled",
)
INLINED: Final = Rule(
    "CS103",
    "target-inlined",
    "A target was traced into the graph of another frame and has no graph of its own. A limit on it checks nothing.",
    "Name the frame that it was inlined into as the target, or compile the target itself.",
    limit="allow-uncompiled",
)
CACHED: Final = Rule(
    "CS104",
    "target-cached",
    "A cache entry that was compiled before the recording began served a target, so its compilation was not recorded.",
    "Start the recording earlier, or call torch.compiler.reset() before it.",
    limit="allow-uncompiled",
)
SKIPPED: Final = Rule(
    "CS105",
    "target-skipped",
    "Dynamo was asked to compile a target and skipped it: it runs eagerly.",
    "The report's graph breaks and eager fallbacks show why.",
    limit="allow-uncompiled",
)
UNKNOWN_TARGET: Final = Rule(
    "CS106",
    "unknown-target",
    "The budget names a target that is not in the recording. A limit on it checks nothing.",
    "Spell it as in the recording's targets, use a pattern that matches qualified names, or record with --target.",
)
NOT_VARIED: Final = Rule(
    "CS107",
    "nothing-varied",
    "Shape-driven recompiles are forbidden, but the run could not have shown one: every sweep ran a single point, the "
    "cache was cleared between two compilations of a target, or every call of a marked test's target had the same "
    "sizes.",
    "Give an axis at least two values; in a test, also call the target with other sizes; call torch.compiler.reset() "
    "and torch._dynamo.explain() outside the run.",
    limit="no-shape-recompile",
)
OWN_UNSEEN: Final = Rule(
    "CS108",
    "own-code-unseen",
    "Graph breaks in the project's own code are limited, but no code object that Dynamo saw is in the given paths.",
    "Give `own` relative to the folder that compilescope runs in, the way the report shows files.",
    limit="own",
)
RUN_FAILED: Final = Rule(
    "CS110",
    "run-failed",
    "The workload raised, ended with a failing exit code or was interrupted; what it would have done next is unknown.",
    "Run it without compilescope and fix it. The traceback is on stderr.",
)
SWEEP_CUT: Final = Rule(
    "CS111",
    "sweep-incomplete",
    "A sweep did not run all of its points; what the others would have compiled is unknown.",
    "Let it run to the end.",
)
POINT_FAILED: Final = Rule(
    "CS112",
    "sweep-point-failed",
    "The workload raised at a point of the sweep, so that point was not checked.",
    "Fix the workload at this point, or remove the value from its axis.",
)
RUNS_NOT_COUNTED: Final = Rule(
    "CS113",
    "runs-not-counted",
    "Eager fallbacks are forbidden, but runs were not counted, so calls that ran eagerly were not checked.",
    "Record with count_runs=True (the default of `check`), or allow every fallback: allow-fallbacks = ['*'].",
    limit="allow-fallbacks",
)
NOT_ANALYSED: Final = Rule(
    "CS114",
    "shape-driven-unknown",
    "Shape-driven recompiles are forbidden, but whether shapes drove this recompile is unknown.",
    "Record it with compilescope itself: a log from another tool does not hold what is needed.",
    limit="no-shape-recompile",
)
NOT_A_NUMBER: Final = Rule(
    "CS115",
    "impossible-number",
    "A number in the recording is impossible: NaN, infinite, negative, or a count that its own entries contradict. "
    "Comparing a limit with it means nothing.",
    "Record again. A parity of NaN comes from results that contain NaN: check the workload's output.",
)
UNKNOWN_CAUSE: Final = Rule(
    "CS116",
    "unknown-cause",
    "The cause of a recompile is unknown: no guard could be examined, or the guard is of an unknown type or raised.",
    "Read the guard in `compilescope report -v`; please report it and attach the recording.",
    limit="allow-unknown",
)
NOT_COUNTED: Final = Rule(
    "CS117",
    "not-counted",
    "A limit is set on something that was not measured: operators, guards, or the difference from eager.",
    "Measure it (--parity for the difference from eager), or remove the limit.",
)
TOO_MANY_COMPILES: Final = Rule(
    "CS201",
    "too-many-compiles",
    "A target was compiled more often than the budget allows. Its resume functions are counted separately.",
    "See its recompiles in the report, each with its cause and advice.",
    limit="max-compiles",
    acceptable=True,
)
TOO_MANY_RECOMPILES: Final = Rule(
    "CS202",
    "too-many-recompiles",
    "A target was recompiled more often than the budget allows. Kinds with their own limit count only against it.",
    "See the cause in the report, and run `compilescope explain` on its kind.",
    limit="max-recompiles",
    acceptable=True,
)
SHAPE_RECOMPILE: Final = Rule(
    "CS203",
    "shape-recompile",
    "Only shapes caused a recompile: some older entry failed on nothing but shape kinds, so a graph that is general in "
    "its shapes would have avoided it. In production, every new resolution or length pays for another compilation, up "
    "to the recompile limit.",
    "Compile with dynamic=True, mark the dimension, or follow the advice for the kind.",
    limit="no-shape-recompile",
    acceptable=True,
)
RECOMPILE_LIMIT: Final = Rule(
    "CS204",
    "recompile-limit",
    "A code object hit the recompile limit: from then on, a call that matches no entry runs eagerly or raises.",
    "Remove the cause of its recompiles. Raising the limit only postpones the problem.",
    limit="allow-fallbacks",
    acceptable=True,
)
TOO_MANY_OF_KIND: Final = Rule(
    "CS205",
    "too-many-recompiles-of-kind",
    "There are more recompiles of one kind than the budget allows.",
    "`compilescope explain` says what the kind means and what helps.",
    limit="max-recompiles-by-kind",
    acceptable=True,
)
COMPILE_FAILED: Final = Rule(
    "CS206",
    "compile-failed",
    "An attempt to compile failed and raised to the caller. A caller that caught the error went on without a graph.",
    "Fix the error that the message gives.",
    limit="allow-fallbacks",
    acceptable=True,
)
GRAPH_BREAK: Final = Rule(
    "CS301",
    "graph-break",
    "Tracing stopped at more sites than the budget allows. Each site is listed once, however often tracing stopped "
    "there.",
    "`compilescope explain` describes the break's registry id; fullgraph=True turns the break into an error.",
    limit="max-graph-breaks",
    acceptable=True,
)
OWN_GRAPH_BREAK: Final = Rule(
    "CS302",
    "own-graph-break",
    "Tracing stopped at more sites in the project's own code than the budget allows.",
    "`compilescope explain` describes the break's registry id; fullgraph=True turns the break into an error.",
    limit="max-own-graph-breaks",
    acceptable=True,
)
FALLBACK: Final = Rule(
    "CS401",
    "eager-fallback",
    "A frame, or calls of a compiled callable, ran outside any compiled graph. Graph-break counts do not show this.",
    "Remove the reason that the message gives, or allow the fallback by its kind or by the name of its code object.",
    limit="allow-fallbacks",
    acceptable=True,
)
TOO_FEW_OPERATORS: Final = Rule(
    "CS501",
    "too-few-operators",
    "The graphs hold fewer operators than expected: part of the model is no longer compiled.",
    "Look for new graph breaks and eager fallbacks, or lower the limit if the model shrank.",
    limit="min-operators",
    acceptable=True,
)
TOO_MANY_GUARDS: Final = Rule(
    "CS502",
    "too-many-guards",
    "A cache entry checks more guards on every call than the budget allows.",
    "Guards come from what the traced code reads: attributes, globals, containers. Read fewer of them on the hot path.",
    limit="max-guards",
    acceptable=True,
)
TOO_SLOW: Final = Rule(
    "CS503",
    "compile-time",
    "Compiling took longer than the budget allows. Times differ between machines, so a baseline never accepts this.",
    "Remove recompiles first; leave a wide margin in CI.",
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
    "The baseline accepts more than was found, and --strict forbids that: something was fixed, or no longer runs.",
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
    """Return what a baseline calls a finding; None if no baseline may accept it."""
    rule = RULES.get(finding.rule)
    if rule is None or not rule.acceptable or finding.key is None:
        return None
    return f"{finding.rule} {finding.key}"
