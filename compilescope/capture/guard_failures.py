"""What a node of a guard tree refuses, as failures: its own leaf guards, and a missing value."""

from __future__ import annotations

import re
import types
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import torch

from compilescope.capture import _torch, containers, describe, guard_expressions, leaf_guards, members
from compilescope.capture.guard_tree import MISSING, UNSEEN
from compilescope.capture.places import Place
from compilescope.capture.refused_leaf import Asked
from compilescope.record import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compilescope.capture.guard_tree import Node
    from compilescope.capture.refused_leaf import Frame
    from compilescope.record import Location

# When one of these fails, everything below was compiled for a different value.
BLOCKERS: Final = frozenset({"TYPE_MATCH", "ID_MATCH", "NONE_MATCH", "NOT_NONE", "FAKE_SCRIPT_TYPE_MATCH"})
# These are read as a whole: called alone, with one value, they return nonsense.
_TOGETHER: Final = _torch.RELATIONAL_GUARDS | _torch.EXPRESSION_GUARDS
# What Dynamo guards instead of a function, partial or method itself.
_INSIDE_CALLABLE: Final = re.compile(
    r"(?P<owner>.+)\.(?:__code__|__closure__|__defaults__|__kwdefaults__|__func__|__self__)(?:\[\d+\])?"
)
_KEY_AT: Final = re.compile(r"list\(dict\.keys\((?P<owner>.+)\)\)\[\d+\]")
# The latter since torch 2.14, which guards every member by its identity.
_MEMBER_AT: Final = re.compile(r"list\((?P<listed>.+)\)\[\d+\]|___set_getitem\((?P<got>.+), \d+\)")
_CLASS_OF: Final = re.compile(r"type\((?P<owner>.+)\)")
_PASSED: Final = "passed"
_REFUSED: Final = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A failure, with the sources that it is about as Dynamo writes them: the guarded value, or all that it reads.

    ``expression`` distinguishes a shape guard, which reads values, from a guard on a value.
    """

    failure: Failure
    at: tuple[str, ...]
    expression: bool = False

    @property
    def is_root(self) -> bool:
        """Whether it does not follow from another failure."""
        return self.failure.consequence_of is None

    def following(self, cause: str) -> Found:
        """Return it as a consequence of another."""
        told = self.failure.consequence_of or cause
        return Found(msgspec.structs.replace(self.failure, consequence_of=told), self.at, self.expression)


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the refusals of one frame."""

    frame: Frame

    def failures(self, node: Node) -> list[Found]:
        """Return what the leaf guards of a node refuse, or that its value is missing; empty if nothing is found."""
        value = node.value(self.frame.scope)
        if value is UNSEEN:
            return []
        if value is MISSING:
            return [self._missing(node)]
        if value is None and _is_part_that_went(node):
            return [self._missing(node)]
        return one_fact([self._of_owner(node, failure) for failure in self._ask_in_turn(node, value)])

    def _ask_in_turn(self, node: Node, value: object) -> Iterator[Failure]:
        """Check the leaves in Dynamo's order, and none after a blocker has refused.

        The later ones are written for a value that passed it, and some read its memory unchecked: called on
        another kind of value, they may crash the process.
        """
        if node.is_dict:
            for failure in self._dict_itself(node, value):
                yield failure
                if failure.guard_type in BLOCKERS:
                    return
        for leaf in node.manager.get_leaf_guards():
            guard_type = type(leaf).__name__
            if guard_type in _TOGETHER:
                continue
            raised = _refusal(leaf, value)
            if raised is _PASSED:
                continue
            asked = Asked(guard_type, leaf.verbose_code_parts(), node.source, value, self.frame, raised or None)
            closed = False
            for failure in leaf_guards.failures(asked):
                yield failure
                closed = closed or failure.guard_type in BLOCKERS
            if closed:
                return

    def _dict_itself(self, node: Node, value: object) -> Iterator[Failure]:
        """Check what the manager of a dict whose order matters checks by itself: its class and its keys."""
        want = node.manager.get_type_of_guarded_value()
        if type(value) is not want:
            text = f"type({node.source}), type={want}"
            yield from leaf_guards.failures(Asked("TYPE_MATCH", [text], node.source, value, self.frame))
            return
        known = self.frame.was(node.source)
        if known is not None and isinstance(value, dict) and dict.__len__(value) != known.length:
            yield containers.changed(Asked("DICT_LENGTH", [], node.source, value, self.frame))

    def _of_owner(self, node: Node, failure: Failure) -> Found:
        """Report a container, a callable or a class at its own name, not at a key, ``__code__`` or ``type(x)``."""
        position = node.by_position
        told, at = failure, describe.inside_numpy(position) or position
        container = self._container_of(node)
        inside = _callable_of(position) or self._method_before(position)
        owner = _CLASS_OF.fullmatch(node.source)
        if container is not None:
            told, at = self._members(container), container
        elif failure.guard_type in BLOCKERS and inside is not None:
            told, at = self._callable(inside), inside
        elif failure.guard_type in BLOCKERS and owner is not None:
            told, at = self._class(owner["owner"]), owner["owner"]
        return Found(_placed(told, failure.where, failure.torch_where), (at,))

    def _method_before(self, source: str) -> str | None:
        """Return the callable that a source is the object of, if the callable is no longer a method."""
        owner, _, name = source.rpartition(".")
        gone = name == "__self__" and not isinstance(
            guard_expressions.evaluate_or_none(owner, self.frame.scope), types.MethodType
        )
        return owner if gone else None

    def _container_of(self, node: Node) -> str | None:
        """Return the dict whose key, or the set whose member, contains a node; None for any other node."""
        for step in node.path:
            key = _KEY_AT.fullmatch(step.source)
            if key is not None:
                return key["owner"]
            member = _MEMBER_AT.fullmatch(step.source)
            if member is not None:
                name = member["listed"] or member["got"]
                owner = guard_expressions.evaluate_or_none(name, self.frame.scope)
                return name if isinstance(owner, set | frozenset) else None
        return None

    def _members(self, owner: str) -> Failure:
        value = guard_expressions.evaluate_or_none(owner, self.frame.scope)
        return containers.changed(Asked("MAPPING_KEYS_MATCH", [], owner, value, self.frame), "another")

    def _callable(self, owner: str) -> Failure:
        value = guard_expressions.evaluate_or_none(owner, self.frame.scope)
        asked = Asked("ID_MATCH", [f"{owner} is"], owner, value, self.frame)
        was, now = asked.was, describe.value(value)
        expected = "the function that it was compiled with" if was is None else was.text
        return asked.failure(
            expected,
            f"another {now}" if now == expected or was is None else now,
            guard=f"{asked.name} is the same function",
            expected_type="function" if was is None else was.type_name,
            part="callable",
        )

    def _class(self, owner: str) -> Failure:
        value = guard_expressions.evaluate_or_none(owner, self.frame.scope)
        asked = Asked("TYPE_MATCH", [f"type({owner})"], owner, value, self.frame)
        was, now = asked.was, describe.type_name(value)
        expected = "the class that it was compiled with" if was is None else was.type_name
        return asked.failure(
            expected,
            now if now != expected else f"another class {now}",
            guard=f"type({asked.name}) is the same class",
            expected_type=None if was is None else was.type_name.rpartition(".")[2],
            actual_type=type(value).__name__,
            part="module" if isinstance(value, torch.nn.Module) else None,
        )

    # --- what is not there ------------------------------------------------------------------------

    def _missing(self, node: Node) -> Found:
        inside = _INSIDE_CALLABLE.fullmatch(node.by_position)
        container = self._container_of(node)
        if inside is not None:
            owner = _callable_of(f"{inside['owner']}.__code__") or inside["owner"]
            found = Found(self._callable(owner), (owner,))
        elif container is not None:
            found = Found(self._members(container), (container,))
        else:
            found = self._missing_item(node) or Found(self._missing_attribute(node.source), (node.by_position,))
        return replace(found, failure=_placed(found.failure, *self._place_below(node)))

    def _place_below(self, node: Node) -> Place:
        """Return the place of the first guard at a node or below it: torch reached the node there."""
        for step in node.walk():
            for leaf in step.manager.get_leaf_guards():
                place = self.frame.place(step.source, type(leaf).__name__, leaf.verbose_code_parts()[0])
                if place.user is not None:
                    return place
        return Place(None, None)

    def _missing_item(self, node: Node) -> Found | None:
        """Report a missing item by its container: a removed key, or a different length."""
        parent = node.parent
        if parent is None or parent.parent is None:
            return None
        container = parent.value(self.frame.scope)
        if not isinstance(container, dict | list | tuple) or members.is_namespace(parent.source):
            return None
        asked = Asked("MISSING", [f"{node.source} exists"], parent.source, container, self.frame)
        if asked.was is None and isinstance(container, dict):
            suffix = describe.source(node.source).removeprefix(asked.name)
            key = suffix[1:-1] if suffix.startswith("[") else suffix
            return Found(containers.changed(asked, key=key), (parent.by_position,))
        return Found(containers.changed(asked, "another"), (parent.by_position,))

    def _missing_attribute(self, source: str) -> Failure:
        name = self.frame.written(source)
        member, instead = members.instead(source, self.frame.scope) or (None, None)
        became = None if member else members.became(source, self.frame.scope)
        held, now = became or ("attribute", instead)
        there = member is not None or became is not None
        was = self.frame.was(source)
        expected = (f"a {member}" if member else "present") if was is None else was.text
        actual = describe.value(now) if there else "absent"
        tensors = was is not None and was.layout is not None and isinstance(now, torch.Tensor)
        if was is not None and tensors:
            expected, actual = was.type_name, describe.type_name(now)
        same = actual == expected
        if same:
            # The value is the same, but the module keeps it elsewhere.
            expected, actual = f"{member or 'attribute'} {expected}", f"{held} {actual}"
        moved = "registered_tensor" if tensors and not same else member
        return Failure(
            source=name,
            guard=f"{name} is a {member}" if member else f"{name} exists",
            expected=expected,
            actual=actual,
            guard_type="MISSING",
            part=moved or ("registered" if became else "missing"),
            expected_type=None if was is None else was.type_name,
            actual_type=describe.type_name(now) if there else None,
            holder=guard_expressions.holder(source, self.frame.scope, self.frame.code),
        )


def _is_part_that_went(node: Node) -> bool:
    """Whether a node is the closure or the defaults of a function, whose items are guarded: None has no items."""
    inside = _INSIDE_CALLABLE.fullmatch(node.by_position) is not None
    return inside and bool(node.children) and not node.manager.get_leaf_guards()


def _placed(failure: Failure, where: Location | None, torch_where: Location | None) -> Failure:
    if failure.where is not None or where is None:
        return failure
    return msgspec.structs.replace(failure, where=where, torch_where=torch_where)


def _callable_of(source: str) -> str | None:
    """Return the callable that a source is the code or the function of: ``f`` of ``f.__func__.__code__``."""
    owner = source
    while owner.endswith((".__code__", ".__func__")):
        owner = owner.rpartition(".")[0]
    return None if owner == source else owner


def one_fact(found: Iterable[Found]) -> list[Found]:
    """Keep one root for each value: several leaves that refuse a value other than a tensor are one change."""
    roots: set[str] = set()
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: one.failure.guard_type not in BLOCKERS):
        failure = one.failure
        if one.is_root and failure.guard_type not in ("TENSOR_MATCH", "DIMENSION_DYNAMIC_MARKING_GUARD"):
            if failure.source in roots:
                kept.append(one.following(failure.source))
                continue
            roots.add(failure.source)
        kept.append(one)
    return kept


def _refusal(leaf: Any, value: object) -> str:  # noqa: ANN401 (a C object)
    """Check a leaf: ``_PASSED``, ``_REFUSED``, or the text of the exception."""
    try:
        return _PASSED if leaf(value) else _REFUSED
    except Exception as error:  # noqa: BLE001 (a guard may raise anything; that is a finding, not ours to hide)
        return f"{type(error).__name__}: {describe.shorten(str(error))}"
