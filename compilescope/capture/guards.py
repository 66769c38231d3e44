"""Why an entry refused a frame: every guard that failed, each checked with torch's own evaluator.

Dynamo itself stops at the first failing guard. Here, torch says which nodes of the guard tree refuse the frame by
themselves (:mod:`.torch_evaluator`), and only those are reported. If the guards on ambient state refuse, torch checks
nothing else: the leaves below are then checked one by one, and the entry is not marked as confirmed.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compilescope.capture import (
    _torch,
    describe,
    guard_expressions,
    guard_places,
    guard_tree,
    relations,
    shape_guards,
    stack_slots,
)
from compilescope.capture.accepted_elsewhere import Examined
from compilescope.capture.compiled_for import guard_scope
from compilescope.capture.guard_failures import BLOCKERS, Found, Reader
from compilescope.capture.guard_tree import MISSING, UNSEEN
from compilescope.capture.refused_leaf import Frame
from compilescope.capture.torch_evaluator import Judge, refusing_nodes
from compilescope.record import EntryMiss, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from compilescope.capture.compile_call import CompileCall, Entry
    from compilescope.capture.compiled_for import CompiledFor
    from compilescope.capture.guard_tree import Node

# When one of these fails, values below may be missing, but those that exist are checked by themselves.
_LENGTHS: Final = frozenset(
    {"LENGTH_CHECK", "DICT_LENGTH", "TUPLE_ITERATOR_LEN", "MAPPING_KEYS_MATCH", "DICT_CONTAINS", "SET_CONTAINS"}
)
_NOT_NAN: Final = "not math.isnan("
_CONTAINER_PARTS: Final = frozenset({"keys", "order", "dict", "members"})

AMBIENT: Final = "the guards on ambient state refuse the frame, and torch checks nothing after them"
NO_MEANS: Final = "this version of torch cannot check part of an entry"
UNTOLD: Final = "a guard that compilescope cannot read refuses the frame"
NOT_ENOUGH: Final = "without the reported guards, torch still refuses the frame"
SHAPES: Final = "the shape guards refuse the frame, but none of them fails when evaluated alone"
ACCEPTED: Final = "torch accepts the frame when it checks again"
INVALIDATED: Final = "Dynamo discarded the entry"


def examine(entry: Entry, call: CompileCall, compiled_for: CompiledFor | None = None) -> Examined:
    """Return every guard of ``entry`` that the new frame fails, with roots and consequences distinguished.

    Args:
        entry: the older entry.
        call: the call of Dynamo's compile function for the new frame.
        compiled_for: what the entry was compiled for, if that was noted.
    """
    reason = _torch.invalidation(entry.manager)
    if reason is not None:
        return Examined(EntryMiss(id=entry.id, failing=(relations.invalidated(reason),), unconfirmed=INVALIDATED))
    scope = guard_scope(entry.manager, call.locals)
    slots = stack_slots.slots(call.code)
    frame = Frame(scope, call.code, compiled_for, guard_places.of(entry.manager), slots)
    examination = _Examination(entry, call, frame)
    examination.run()
    in_order = _in_order_of(call.code)
    found = sorted(examination.found, key=lambda one: in_order(one.failure))
    miss = EntryMiss(
        id=entry.id,
        failing=tuple(one.failure for one in found),
        recency=entry.recency,
        confirmed=examination.unconfirmed is None or None,
        unconfirmed=examination.unconfirmed,
    )
    return Examined(miss, tuple(one.at for one in found), examination.root)


@dataclass(slots=True)
class _Examination:
    """The examination of one entry for one frame."""

    entry: Entry
    call: CompileCall
    frame: Frame
    root: Node = field(init=False)
    judge: Judge = field(init=False)
    reader: Reader = field(init=False)
    found: list[Found] = field(default_factory=list)
    unconfirmed: str | None = None
    _nodes: dict[str, Node] = field(default_factory=dict)
    """The refusing nodes, by their sources with items by position."""

    def __post_init__(self) -> None:
        self.root = guard_tree.tree(self.entry.manager)
        self.judge = Judge(self.root, self.call.locals)
        self.reader = Reader(self.frame)

    def run(self) -> None:
        """Find what fails, and ask torch whether that is all."""
        # As the cache itself does: two wrappers of one backend are equal and not identical.
        if _torch.innermost_backend(self.entry.backend) != self.call.backend:
            self._add(relations.other_backend(self.entry.backend, self.call.backend))
        if not self.judge.can_ask:
            self._ask_every_leaf(NO_MEANS)
        elif not self.judge.accepts_root():
            self.found += self.reader.failures(self.root)
            self._ask_every_leaf(AMBIENT)
        else:
            self._ask_torch()
        if self.judge.shapes_refuse:
            self._shape_guards()
        self._mark_consequences()
        if not any(one.is_root for one in self.found):
            self._nothing_found()

    def _add(self, failure: Failure, at: tuple[str, ...] = ()) -> None:
        self.found.append(Found(failure, at))

    # --- torch is asked ---------------------------------------------------------------------------

    def _ask_torch(self) -> None:
        nodes = refusing_nodes(self.judge)
        for node in nodes:
            self._nodes[node.by_position] = node
            found = self.reader.failures(node)
            if not found:
                self.unconfirmed = UNTOLD
                found = [Found(relations.unknown("; ".join(self.judge.words(node))), (node.by_position,))]
            self.found += found
            if all(one.failure.guard_type in _LENGTHS for one in found):
                for child in node.children:
                    self._by_leaves(child, _Above(follows=found[0].failure.source))
        # torch cannot check a relation between values that are themselves refused: it is a relation of identity.
        self.found += [Found(failure, at) for at, failure in self._broken_relations(nodes)]
        if not self.judge.accepts_below(self.root, nodes):
            self._relations(nodes)

    def _relations(self, nodes: Sequence[Node]) -> None:
        """Find relations between values, such as two arguments that are one tensor now: no single node holds them."""
        known = {one.at for one in self.found}
        pairs = list(self._broken_relations(self.root.walk()))
        ends = {end for at, _ in pairs for end in at}
        apart = [node for node in self.root.walk() if node.source in ends]
        if apart and not self.judge.accepts_only(apart):
            self.found += [Found(failure, at) for at, failure in pairs if at not in known]
        else:
            # torch sees no relation there: only its own words are left.
            apart = []
        if not self.judge.accepts_below(self.root, (*nodes, *apart)):
            self.unconfirmed = NOT_ENOUGH
            if not apart:
                self._add(relations.unknown("; ".join(self.judge.words_without(nodes))))

    def _broken_relations(self, nodes: Iterable[Node]) -> Iterator[tuple[tuple[str, str], Failure]]:
        # One relation is the same leaf at each of its values, and its text names them all.
        asked: list[Any] = []
        for node in nodes:
            for leaf in node.manager.get_leaf_guards():
                if type(leaf).__name__ in _torch.RELATIONAL_GUARDS and not any(leaf is other for other in asked):
                    asked.append(leaf)
                    for text in leaf.verbose_code_parts():
                        yield from relations.relation(text, self.frame)

    # --- each leaf is asked -----------------------------------------------------------------------

    def _ask_every_leaf(self, reason: str) -> None:
        self.unconfirmed = reason
        for child in self.root.children:
            self._by_leaves(child, _Above())
        self.found += [Found(failure, at) for at, failure in self._broken_relations(self.root.walk())]

    def _by_leaves(self, node: Node, above: _Above) -> None:
        """Ask the leaves of a node and of all below it; what is below a failure follows from it."""
        value = node.value(self.frame.scope)
        if value is UNSEEN or (value is MISSING and above.missing):
            return
        found = self.reader.failures(node)
        cause = above.blocked or (above.follows if value is MISSING else None)
        self.found += [one.following(cause) if cause else one for one in found]
        first = found[0].failure.source if found else None
        blocked = any(one.failure.guard_type in BLOCKERS for one in found) or value is MISSING
        below = _Above(
            blocked=above.blocked or (first if blocked else None),
            follows=first or above.follows,
            missing=above.missing or value is MISSING,
        )
        if found:
            self._nodes[node.by_position] = node
        for child in node.children:
            self._by_leaves(child, below)

    # --- what speaks of several values ------------------------------------------------------------

    def _shape_guards(self) -> None:
        seen: set[str] = set()
        failed: list[Found] = []
        became_nan: dict[str, Failure] = {}
        for leaf in self.root.manager.get_epilogue_lambda_guards():
            for text in leaf.verbose_code_parts():
                if text in seen:
                    continue
                seen.add(text)
                expression = guard_expressions.split(text)[0]
                reads = tuple(symbol.text for symbol in guard_expressions.symbols(expression))
                for failure in shape_guards.failures(text, type(leaf).__name__, self.frame):
                    failed.append(Found(failure, reads, expression=True))
                    if expression.startswith(_NOT_NAN):
                        became_nan[failure.source] = failure
        # Every comparison with nan fails: that the number became nan is the one fact.
        for one in failed:
            fact = became_nan.get(one.failure.source, one.failure)
            self.found.append(one if fact is one.failure else one.following(fact.source))
        if not failed and self.unconfirmed is None:
            self.unconfirmed = SHAPES
            self._add(relations.unknown("; ".join(self.judge.words_without(list(self._nodes.values())))))

    # --- what follows -----------------------------------------------------------------------------

    def _mark_consequences(self) -> None:
        """Mark what follows from a changed class, callable or container, and what reports one of these again."""
        blockers = [one for one in self.found if one.is_root and _blocks(one.failure)]
        seen: set[tuple[str, str | None]] = set()
        marked: list[Found] = []
        for one in self.found:
            failure = one.failure
            cause = next((b.failure.source for b in blockers if _lies_under(one, b)), None) or self._shifted(one)
            if cause is None and one.is_root and _is_whole(failure):
                key = (failure.source, "container" if failure.part in _CONTAINER_PARTS else failure.part)
                cause = failure.source if key in seen else None
                seen.add(key)
            marked.append(one.following(cause) if cause else one)
        self.found = [self._with_device(one) for one in marked]

    def _with_device(self, one: Found) -> Found:
        """Setting the default device pushes a mode for it: different modes then follow from that."""
        device = next((b.failure for b in self.found if b.is_root and b.failure.guard_type == "DEFAULT_DEVICE"), None)
        modes = one.failure.guard_type == "TORCH_FUNCTION_MODE_STACK" and self.frame.entry is not None
        if device is None or not modes or self.frame.entry is None:
            return one
        was, now = (
            [mode for mode in stack if mode != _torch.DEVICE_MODE]
            for stack in (self.frame.entry.modes, _torch.function_modes())
        )
        return one.following(device.source) if was == now else one

    def _shifted(self, one: Found) -> str | None:
        """Return the dict or set that changed, if a failing value is at a position where there was another one."""
        node = self._nodes.get(one.at[0]) if one.at else None
        if node is None or node.parent is None:
            return None
        now = node.parent.value(self.frame.scope)
        if isinstance(now, set | frozenset):
            # Members are in the order of their hashes, so one more shifts the others.
            name = describe.source(node.parent.source)
            return name if any(other.is_root and other.failure.source == name for other in self.found) else None
        if node.key is None or node.is_key:
            return None
        was = self.frame.was(node.parent.source)
        if was is None or was.members is None or not isinstance(now, dict):
            return None
        keys = [describe.key(key) for key in dict.keys(now)]
        same = node.key < len(keys) and node.key < len(was.members) and keys[node.key] == was.members[node.key]
        return None if same else describe.source(node.parent.source)

    def _nothing_found(self) -> None:
        """Explain an entry for which no failing guard was found."""
        verdict = self.entry.manager.check_verbose(self.call.locals)
        if verdict.result and self.frame.entry is not None and self.frame.entry.thread != threading.get_ident():
            self._add(relations.concurrent())
            return
        self.unconfirmed = self.unconfirmed or (ACCEPTED if verdict.result else UNTOLD)
        self._add(relations.unknown("" if verdict.result else "; ".join(verdict.verbose_code_parts)))


@dataclass(frozen=True, slots=True)
class _Above:
    """What the nodes above found, as sources: what blocks all below, and what explains that something is missing."""

    blocked: str | None = None
    follows: str | None = None
    missing: bool = False


def _blocks(failure: Failure) -> bool:
    blocking = failure.guard_type in BLOCKERS or failure.guard_type in ("MISSING", "TORCH_FUNCTION_MODE_STACK")
    return blocking or failure.part in ("class", *_CONTAINER_PARTS) or failure.guard_type in _LENGTHS


def _is_whole(failure: Failure) -> bool:
    """Whether a failure is about a value as a whole, so that a second one about the same value adds nothing."""
    return failure.guard_type in BLOCKERS or failure.part in _CONTAINER_PARTS or failure.guard_type in _LENGTHS


def _lies_under(one: Found, blocker: Found) -> bool:
    """Whether a failure is about something inside a value that was replaced."""
    if one is blocker or not blocker.at:
        return False
    begins = (f"{blocker.at[0]}.", f"{blocker.at[0]}[")
    container = blocker.failure.part in _CONTAINER_PARTS or blocker.failure.guard_type in _LENGTHS
    if container and one.failure.raised is None:
        # Items that are still there are checked by themselves; in a dict with other keys, reading an old one raises.
        return False
    if blocker.failure.guard_type == "TORCH_FUNCTION_MODE_STACK":
        return any(source.startswith(_torch.MODE_STACK_SOURCE) for source in one.at)
    # For a value that is no longer a tensor, nothing else is worth reporting.
    same = one.expression or (blocker.failure.part == "class" and one.failure.guard_type != "TENSOR_MATCH")
    return any(source.startswith(begins) or (same and source == blocker.at[0]) for source in one.at)


def _in_order_of(code: Any) -> Callable[[Failure], tuple[int, str]]:  # noqa: ANN401 (a code object)
    """Sort by the position of the argument that a failure is about: Dynamo's own order changes as guards fail."""
    names = (*code.co_varnames, *code.co_freevars)
    position = {name: index for index, name in enumerate(names)}

    def key(failure: Failure) -> tuple[int, str]:
        root = re.split(r"[.\[,]", failure.source, maxsplit=1)[0]
        return position.get(root, len(names)), failure.source

    return key
