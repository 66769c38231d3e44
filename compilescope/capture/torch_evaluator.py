"""Uses torch's own evaluator on parts of an entry: which nodes of its guard tree refuse a frame.

``RootGuardManager.clone_manager`` copies the part of a tree that a filter keeps, and ``check`` of the copy says
whether *that part* accepts the frame. A node refuses by itself if the copy of the path to it is refused and the copy
of the path to its parent is accepted. So no node that torch accepts is reported, and once the copy without
the reported nodes is accepted, nothing was missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from compilescope.capture.guard_tree import Node


@dataclass(slots=True)
class Judge:
    """Torch's evaluator for one entry and one frame.

    Attributes:
        root: the root of the entry's guard tree.
        f_locals: the frame's locals.
        shapes_refuse: whether the symbolic shape guards refuse the frame. Every copy holds them, and checks them last.
    """

    root: Node
    f_locals: dict[str, Any]
    shapes_refuse: bool = field(init=False)
    _shape_texts: list[list[str]] = field(init=False)
    _raised: list[str] | None = field(init=False)

    def __post_init__(self) -> None:
        """Check the shape guards."""
        leaves = self.root.manager.get_epilogue_lambda_guards()
        self.shapes_refuse = any(not leaf(self.f_locals) for leaf in leaves)
        self._shape_texts = [leaf.verbose_code_parts() for leaf in leaves] if self.shapes_refuse else []
        self._raised = self._raised_text() if self.shapes_refuse and self.can_ask else None

    def _raised_text(self) -> list[str] | None:
        """Return what torch says if a shape guard raises: only the exception's text. None if none raises."""
        copy = self._copy(lambda _: False)
        said = copy.check_verbose(self.f_locals)
        in_shapes = not said.result and said.num_guards_executed > len(copy.get_leaf_guards())
        texts = list(said.verbose_code_parts)
        return texts if in_shapes and texts not in self._shape_texts else None

    @property
    def can_ask(self) -> bool:
        """Whether this torch can copy a part of a tree."""
        return hasattr(self.root.manager, "clone_manager")

    def accepts_root(self) -> bool:
        """Whether the guards at the root itself, on ambient state, accept the frame."""
        return self._accepts(lambda _: False)

    def accepts_alone(self, node: Node) -> bool:
        """Whether a node and those above it accept the frame."""
        return self.accepts_only((node,))

    def accepts_only(self, nodes: Iterable[Node]) -> bool:
        """Whether these nodes and those above them accept the frame."""
        wanted = {id(step.manager) for node in nodes for step in node.path}
        return self._accepts(wanted.__contains__)

    def accepts_below(self, node: Node, without: Iterable[Node] = ()) -> bool:
        """Whether a node and all below it, except ``without`` and everything below these, accept the frame."""
        if node.parent is None:
            left_out = {id(other.manager) for other in without}
        else:
            path = node.path
            onto = {id(step.manager) for step in path}
            beside = {id(other.manager) for step in path if step.parent is not None for other in step.parent.children}
            left_out = (beside - onto) | {id(other.manager) for other in without}
        return self._accepts(lambda identity: identity not in left_out)

    def words(self, node: Node) -> list[str]:
        """Return Dynamo's own words for what refuses the frame at a node."""
        wanted = {id(step.manager) for step in node.path}
        return list(self._copy(wanted.__contains__).check_verbose(self.f_locals).verbose_code_parts)

    def words_without(self, nodes: Iterable[Node]) -> list[str]:
        """Return Dynamo's own words for what refuses the frame besides these nodes."""
        left_out = {id(node.manager) for node in nodes}
        copy = self._copy(lambda identity: identity not in left_out)
        return list(copy.check_verbose(self.f_locals).verbose_code_parts)

    def _copy(self, keep: Callable[[int], bool]) -> Any:  # noqa: ANN401 (a C object)
        # By identity: torch hands out one Python object for a node as long as that lives, and two nodes may have one
        # source. The filter is asked about the root too; without it there is nothing to check.
        root = self.root.manager
        return root.clone_manager(lambda manager: manager is root or keep(id(manager)))

    def _accepts(self, keep: Callable[[int], bool]) -> bool:
        copy = self._copy(keep)
        if copy.check(self.f_locals):
            return True
        if not self.shapes_refuse:
            return False
        # The tree is checked first: if the shape guards refuse, the whole tree accepted.
        said = copy.check_verbose(self.f_locals)
        if said.result or said.verbose_code_parts in self._shape_texts:
            return True
        return self._raised is not None and list(said.verbose_code_parts) == self._raised


def refusing_nodes(judge: Judge) -> list[Node]:
    """Return the nodes that refuse the frame by themselves, none below another. The root's own guards must accept.

    Descends only where torch refuses. A relation between several values is at no single one of them: it is left out.
    """
    found: list[Node] = []
    _settle(judge, judge.root, found)
    return found


def _settle(judge: Judge, node: Node, found: list[Node]) -> None:
    """Collect the refusing nodes below ``node``, which accepts by itself."""
    leaves = [child for child in node.children if not child.children]
    inner = [child for child in node.children if child.children]
    found += [child for child in leaves if not judge.accepts_alone(child)]
    if not inner or judge.accepts_below(node, found):
        return
    for child in inner:
        if not judge.accepts_alone(child):
            found.append(child)
        elif len(inner) == 1 or not judge.accepts_below(child, found):
            _settle(judge, child, found)
