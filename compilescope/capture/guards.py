"""Walks a guard tree: every guard of an entry that is false, or raises, for a frame's locals.

Dynamo itself stops at the first failing guard. Here every leaf is asked on its own, with the value
that stands at its source; what merely follows from a failing ancestor is kept apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from compilescope.capture import _torch, describe, expressions, leaves, misses
from compilescope.capture.asked import Asked
from compilescope.record import EntryMiss, Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType

    from compilescope.capture.call import CompileCall, Entry

# When one of these fails, what lies below was compiled for another value altogether.
_GATES: Final = frozenset({"TYPE_MATCH", "ID_MATCH", "NONE_MATCH", "NOT_NONE", "FAKE_SCRIPT_TYPE_MATCH"})
# When one of these fails, what lies below may be missing, but what is there answers for itself.
_LENGTHS: Final = frozenset(
    {"LENGTH_CHECK", "DICT_LENGTH", "TUPLE_ITERATOR_LEN", "MAPPING_KEYS_MATCH", "DICT_CONTAINS"}
)


# These are read as a whole: asked alone, with the value at one place, they answer nonsense.
_TOGETHER: Final = _torch.RELATIONAL_GUARDS | _torch.EXPRESSION_GUARDS
_PASSED: Final = "passed"
_REFUSED: Final = ""


class _Unreached:
    """Stands for a value that was not reached."""


_MISSING: Final = _Unreached()
"""The frame has no such value."""
_UNSEEN: Final = _Unreached()
"""We do not know how to reach it, so nothing is said about what lies below."""


@dataclass(frozen=True, slots=True)
class _Above:
    """What the managers above found: sources of a failed gate and of a failed length check."""

    gate: str | None = None
    length: str | None = None
    missing: bool = False


@dataclass(slots=True)
class _Walk:
    """One walk over the tree of one entry."""

    scope: dict[str, Any]
    code: CodeType
    found: list[Failure] = field(default_factory=list)
    asked_relations: list[Any] = field(default_factory=list)
    seen_expressions: set[str] = field(default_factory=set)

    def visit(self, manager: Any, source: str, value: object, above: _Above) -> None:  # noqa: ANN401 (a C object)
        if value is _UNSEEN:
            return
        if value is _MISSING:
            above = self._note_missing(source, above)
        else:
            above = self._check_leaves(manager, source, value, above)
        for accessor, child in zip(manager.get_accessors(), manager.get_child_managers(), strict=False):
            child_source = child.get_source()
            self.visit(child, child_source, self._resolve(source, value, child_source, accessor), above)
        if isinstance(manager, _torch.DICT_MANAGER):
            self._visit_items(manager, value, above)

    def _check_leaves(self, manager: Any, source: str, value: object, above: _Above) -> _Above:  # noqa: ANN401
        found = list(self._ask_in_turn(manager, source, value))
        if not found:
            return above
        gate = next((failure for failure in found if failure.guard_type in _GATES), None)
        for failure in found:
            # What fails beside a gate at one value follows from it, whichever was asked first.
            follows = above.gate or (describe.source(source) if gate is not None and failure is not gate else None)
            self.found.append(_following(failure, follows) if follows else failure)
            if failure.guard_type in _LENGTHS:
                above = replace(above, length=failure.source)
        return above if gate is None or above.gate else replace(above, gate=describe.source(source))

    def _ask_in_turn(self, manager: Any, source: str, value: object) -> Iterator[Failure]:  # noqa: ANN401 (a C object)
        """Ask the leaves in Dynamo's order, and none after a gate has said no.

        The later ones are written for a value that passed it, and some read its memory unchecked: asked about
        another sort of value they may crash the process.
        """
        if isinstance(manager, _torch.DICT_MANAGER):
            for failure in self._dict_itself(manager, source, value):
                yield failure
                if failure.guard_type in _GATES:
                    return
        for leaf in manager.get_leaf_guards():
            guard_type = type(leaf).__name__
            raised = None if guard_type in _TOGETHER else _refusal(leaf, value)
            if raised is _PASSED:
                continue
            closed = False
            for failure in self._read(leaf, guard_type, source, value, raised):
                yield failure
                closed = closed or failure.guard_type in _GATES
            if closed:
                return

    def _dict_itself(self, manager: Any, source: str, value: object) -> Iterator[Failure]:  # noqa: ANN401 (a C object)
        """Check what the manager of a dict whose order matters checks by itself: its class and its length."""
        want = manager.get_type_of_guarded_value()
        keys = manager.get_key_value_managers()
        guard_type, text = "", ""
        if type(value) is not want:
            guard_type, text = "TYPE_MATCH", f"type({source}), type={want}"
        elif keys and sorted(keys) == list(range(len(keys))) and len(value) != len(keys):  # type: ignore[arg-type]
            guard_type, text = "DICT_LENGTH", f"len({source}) == {len(keys)}"
        if guard_type:
            yield from leaves.failures(Asked(guard_type, [text], source, value, self.scope, self.code, None))

    def _read(
        self,
        leaf: Any,  # noqa: ANN401 (a C object)
        guard_type: str,
        source: str,
        value: object,
        raised: str | None,
    ) -> Iterable[Failure]:
        if guard_type in _torch.RELATIONAL_GUARDS:
            return self._relation(leaf)
        if guard_type in _torch.EXPRESSION_GUARDS:
            return self._expressions(leaf.verbose_code_parts(), guard_type)
        asked = Asked(guard_type, leaf.verbose_code_parts(), source, value, self.scope, self.code, raised or None)
        return leaves.failures(asked)

    def _relation(self, leaf: Any) -> Iterator[Failure]:  # noqa: ANN401 (a C object)
        # One relation hangs as the same leaf at each of its values, and its text names them all.
        if any(leaf is asked for asked in self.asked_relations):
            return
        self.asked_relations.append(leaf)
        for text in leaf.verbose_code_parts():
            yield from misses.relation(text, self.scope)

    def _expressions(self, texts: Iterable[str], guard_type: str) -> Iterator[Failure]:
        for text in texts:
            if text not in self.seen_expressions:
                self.seen_expressions.add(text)
                failure = expressions.check(text, guard_type, self.scope, self.code)
                if failure is not None:
                    yield failure

    def epilogue(self, leafs: Iterable[Any]) -> None:
        """Check the symbolic shape guards, which speak of several values at once."""
        for leaf in leafs:
            for failure in self._expressions(leaf.verbose_code_parts(), type(leaf).__name__):
                gate = self._gate_over(failure)
                self.found.append(_following(failure, gate) if gate else failure)

    def _gate_over(self, failure: Failure) -> str | None:
        """Return the failed gate that one of the expression's values lies under."""
        for root in self.found:
            # Where a dict has other keys, an expression that asks for one of the old raises.
            if failure.raised or root.guard_type in _GATES or root.part == "class" or root.guard_type == "MISSING":
                for name in failure.symbols:
                    if name == root.source or name.startswith((f"{root.source}.", f"{root.source}[")):
                        return root.source
        return None

    def _note_missing(self, source: str, above: _Above) -> _Above:
        if above.missing:
            return above
        name = describe.source(source)
        member, instead = misses.member_instead(source, self.scope) or (None, None)
        failure = Failure(
            source=name,
            guard=f"{name} is a {member}" if member else f"{name} exists",
            expected=f"a {member}" if member else "present",
            actual=describe.value(instead) if member else "absent",
            guard_type="MISSING",
            part=member or "missing",
            actual_type=describe.type_name(instead) if member else None,
            holder=expressions.holder(source, self.scope, self.code),
        )
        cause = above.gate or above.length
        self.found.append(_following(failure, cause) if cause else failure)
        return replace(above, missing=True, gate=above.gate or failure.source)

    def _visit_items(self, manager: Any, value: object, above: _Above) -> None:  # noqa: ANN401 (a C object)
        """Visit keys and values by position: where the key there is another, its value answers for nothing."""
        items = list(dict.items(value)) if isinstance(value, dict) else []
        over_keys = replace(above, gate=above.gate or above.length)
        for index, (key_manager, value_manager) in manager.get_key_value_managers().items():
            key, item = items[index] if index < len(items) else (_MISSING, _MISSING)
            over_value, known = above, len(self.found)
            if key_manager is not None:
                self.visit(key_manager, key_manager.get_source(), key, over_keys)
            if len(self.found) > known:
                over_value = replace(above, gate=above.gate or describe.source(manager.get_source()))
            if value_manager is not None:
                self.visit(value_manager, value_manager.get_source(), item, over_value)

    def _resolve(self, above: str, value: object, source: str, accessor: Any) -> object:  # noqa: ANN401 (a C object)
        """Reach a child's value: from its parent's where its source extends the parent's, else from the frame's locals.

        From the parent it also works where the source cannot be written as Python
        (``[<AttentionBackendName.NATIVE: 'native'>]``), which says nothing about the guard.
        """
        if isinstance(value, _Unreached):
            return value
        suffix = source.removeprefix(above) if source.startswith(above) else None
        code = expressions.compiled(f"P{suffix}") if suffix else None
        if code is not None:
            return _evaluate(code, {"P": value})
        code = expressions.compiled(source)
        if code is not None:
            return _evaluate(code, self.scope)
        return _by_key(value, source, accessor)


def _refusal(leaf: Any, value: object) -> str:  # noqa: ANN401 (a C object)
    """Ask a leaf: ``_PASSED``, ``_REFUSED``, or the text of what it raised."""
    try:
        return _PASSED if leaf(value) else _REFUSED
    except Exception as error:  # noqa: BLE001 (a guard may raise anything; that is a finding, not ours to hide)
        return f"{type(error).__name__}: {describe.shorten(str(error))}"


def _evaluate(code: CodeType, scope: dict[str, Any]) -> object:
    try:
        return eval(code, scope)  # noqa: S307 (Dynamo's own source text)
    except NameError:
        return _UNSEEN
    except Exception:  # noqa: BLE001 (user objects may raise anything on access; the value is then out of reach)
        return _MISSING


def _by_key(parent: object, source: str, accessor: Any) -> object:  # noqa: ANN401 (a C object)
    """Reach an item whose key cannot be written as Python, by the key's repr; attributes in a ``__dict__`` by name."""
    if not isinstance(parent, dict):
        return _UNSEEN
    name = source.rpartition(".")[2]
    if name in parent:
        return parent[name]
    text = accessor.repr()
    matches = [item for key, item in dict.items(parent) if repr(key) in text]
    return matches[0] if len(matches) == 1 else _UNSEEN


def _following(failure: Failure, cause: str) -> Failure:
    return msgspec.structs.replace(failure, consequence_of=failure.consequence_of or cause)


def examine(entry: Entry, call: CompileCall) -> EntryMiss:
    """Return every guard of ``entry`` that the new frame fails, roots told from consequences."""
    manager = entry.manager
    reason = _torch.invalidation(manager)
    if reason is not None:
        return EntryMiss(id=entry.id, failing=(misses.invalidated(reason),))
    walk = _Walk(scope=_torch.guard_scope(manager, call.locals), code=call.code)
    walk.scope.setdefault("__builtins__", __builtins__)
    walk.visit(manager.root, manager.root.get_source(), call.locals, _Above())
    walk.epilogue(manager.root.get_epilogue_lambda_guards())
    found = [_located(failure, manager.root) for failure in walk.found]
    if not any(failure.consequence_of is None for failure in found):
        found = [*found, *_nothing_failed(entry, call)]
    return EntryMiss(id=entry.id, failing=tuple(sorted(found, key=_in_order_of(call.code))))


def _in_order_of(code: CodeType) -> Callable[[Failure], tuple[int, str]]:
    """Sort by the position of the argument that a failure speaks of: Dynamo's own order changes as guards fail."""
    names = (*code.co_varnames, *code.co_freevars)
    position = {name: index for index, name in enumerate(names)}

    def key(failure: Failure) -> tuple[int, str]:
        root = re.split(r"[.\[,]", failure.source, maxsplit=1)[0]
        return position.get(root, len(names)), failure.source

    return key


def _located(failure: Failure, root: Any) -> Failure:  # noqa: ANN401 (a C object)
    """Give a shape guard that names no line the line of the tensor that it speaks of."""
    if failure.where is not None or not failure.symbols:
        return failure
    tensors = {
        symbol.partition("._base")[0].partition(".size()")[0].partition(".stride()")[0] for symbol in failure.symbols
    }
    pending = [root]
    while pending:
        node = pending.pop()
        if describe.source(node.get_source()) in tensors:
            for leaf in node.get_leaf_guards():
                for text in leaf.verbose_code_parts():
                    where = describe.location_in(expressions.split(text)[1])
                    if where is not None:
                        return msgspec.structs.replace(failure, where=where)
        pending.extend(_below(node))
    return failure


def _nothing_failed(entry: Entry, call: CompileCall) -> Iterator[Failure]:
    """Explain an entry none of whose guards was found to fail: another backend, or a guard of an unknown sort."""
    if _torch.innermost_backend(entry.backend) is not call.backend:
        yield misses.other_backend(entry.backend, call.backend)
        return
    verdict = entry.manager.check_verbose(call.locals)
    text = "; ".join(verdict.verbose_code_parts) if not verdict.result else ""
    yield misses.unknown(text)


def leaf_count(manager: Any) -> int:  # noqa: ANN401 (version dependent)
    """Return how many leaf guards the tree of an entry holds; the expressions over sizes come on top of these."""
    total = 0
    pending = [manager.root]
    while pending:
        node = pending.pop()
        total += len(node.get_leaf_guards())
        pending.extend(_below(node))
    return total


def _below(manager: Any) -> Iterator[Any]:  # noqa: ANN401 (a C object)
    yield from manager.get_child_managers()
    if isinstance(manager, _torch.DICT_MANAGER):
        for pair in manager.get_key_value_managers().values():
            yield from (child for child in pair if child is not None)
