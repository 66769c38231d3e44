"""Targets: which code objects the user wants to compile, and what happened to them."""

from __future__ import annotations

import fnmatch
import inspect
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING

import torch

from compilescope.capture import _torch, describe, fallbacks
from compilescope.errors import UsageError
from compilescope.record import Target, TargetStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from compilescope.capture.call_sizes import CallSizes
    from compilescope.capture.tap import Attempt


@dataclass(frozen=True, slots=True)
class Selector:
    """One thing that the user wants to compile.

    Attributes:
        label: how reports call it.
        codes: its code objects, if it was given as an object.
        pattern: an ``fnmatch`` pattern over qualified names, if it was given as text.
        owner: what a frame of a shared wrapper must run for to count.
        disabled: whether ``torch.compiler.disable`` keeps it from compiling.
        heirs: for a class that inherits its code, the names of the class and its subclasses: only frames that ran
            for one of these count.
    """

    label: str
    codes: tuple[CodeType, ...] = ()
    pattern: str | None = None
    owner: str | None = None
    disabled: bool = False
    heirs: frozenset[str] = frozenset()

    def matches(self, code: CodeType, owner: str | None = None) -> bool:
        """Whether a code object, run for ``owner``, belongs to the target."""
        if any(code is mine for mine in self.codes):
            return True
        if self.owner is not None and owner == self.owner and "<locals>" in code.co_qualname:
            return True
        if self.pattern is None:
            return False
        names = [code.co_qualname, f"{describe.path(code.co_filename)}:{code.co_qualname}"]
        names += [owner, f"{owner}.{code.co_name}", f"{owner}.forward"] if owner else []
        return any(fnmatch.fnmatchcase(name, form) for name in names for form in (self.pattern, f"*.{self.pattern}"))

    def is_for(self, owner: str | None) -> bool:
        """Whether what a frame ran for belongs to the target: a parent's frames do not count for its heirs."""
        return not self.heirs or owner in self.heirs


def select(target: object) -> Selector:
    """Turn what the user named into a selector.

    Raises:
        UsageError: it has no code that could be compiled.
    """
    if isinstance(target, str):
        return Selector(label=target, pattern=target)
    if isinstance(target, CodeType):
        return Selector(label=target.co_qualname, codes=(target,))
    if isinstance(target, type):
        return _select_class(target)
    if isinstance(target, torch.nn.Module):
        return _select_module(target)
    codes = _layers(target) if callable(target) else ()
    if not codes:
        msg = f"{describe.value(target)} cannot be a target: it has no Python code to compile."
        raise UsageError(msg)
    return Selector(
        label=codes[0].co_qualname,
        codes=codes,
        owner=codes[-1].co_qualname,
        disabled=_torch.is_disabled(target),
    )


def _layers(function: object) -> tuple[CodeType, ...]:
    """Return the code of a function and of what it wraps, outermost first, without what Dynamo never traces.

    A method under ``torch.no_grad()`` is a wrapper of torch's around the user's function.
    """
    found: list[CodeType] = []
    while function is not None:
        code = _torch.target_code(function)
        if isinstance(code, CodeType) and not _torch.is_skip_listed(code):
            found.append(code)
        function = getattr(function, "__wrapped__", None)
    return tuple(found)


def _select_class(cls: type) -> Selector:
    if issubclass(cls, torch.nn.Module):
        functions = [cls.forward]
        label = f"{cls.__qualname__}.forward"
    else:
        functions = [member for member in vars(cls).values() if inspect.isfunction(member)]
        label = cls.__qualname__
    codes = tuple(code for function in functions for code in _own_layers(function))
    # Dynamo only traces the code of torch's own modules inside a wrapper: it counts by its owner.
    if not any(_torch.target_code(function) for function in functions):
        msg = f"class {cls.__qualname__} cannot be a target: it has no method written in Python."
        raise UsageError(msg)
    return Selector(label=label, codes=codes, owner=cls.__qualname__, heirs=_heirs(cls))


def _heirs(cls: type) -> frozenset[str]:
    if not issubclass(cls, torch.nn.Module) or "forward" in vars(cls):
        return frozenset()
    found, pending = set(), [cls]
    while pending:
        one = pending.pop()
        found.add(one.__qualname__)
        pending += one.__subclasses__()
    return frozenset(found)


def _select_module(module: torch.nn.Module) -> Selector:
    original = getattr(module, "_orig_mod", module)
    name = type(original).__qualname__
    codes = _own_layers(original.forward)
    return Selector(label=f"{name}.forward", codes=codes, owner=name, heirs=_heirs(type(original)))


def _own_layers(method: object) -> tuple[CodeType, ...]:
    """Return the code of a method; a decorator's wrapper, which other classes share, counts by its owner instead."""
    layers = _layers(method)
    return tuple(code for code in layers if code is layers[-1] or "<locals>" not in code.co_qualname)


@dataclass(slots=True)
class TargetBook:
    """Determines the status of each selector from the attempts."""

    selectors: tuple[Selector, ...]
    attempts: Sequence[Attempt]
    declined: Iterable[CodeType]
    called: Iterable[CodeType]
    sizes: Mapping[int, CallSizes]
    name: Callable[[CodeType], str]
    _declined: tuple[CodeType, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Store what is iterated more than once."""
        self._declined = tuple(self.declined)

    def targets(self) -> tuple[Target, ...]:
        """Return what happened to each selector."""
        return tuple(self._judge(selector) for selector in self.selectors)

    def _judge(self, selector: Selector) -> Target:
        meant = [a for a in self.attempts if selector.is_for(a.owner)]
        own = [a for a in meant if a.resumes is None and selector.matches(a.code, a.owner)]
        resumed = [a for a in meant if a.resumes is not None and selector.matches(a.resumes, a.owner)]
        inlined_into = self._inlined_into(selector)
        return Target(
            selector=selector.label,
            status=self._status(selector, own, inlined=inlined_into is not None),
            compiles=sum(a.outcome == "compiled" for a in own),
            resumed=sum(a.outcome == "compiled" for a in resumed),
            codes=tuple(dict.fromkeys(self.name(a.code) for a in (*own, *resumed))),
            inlined_into=inlined_into,
            varied=self._varied(own),
        )

    def _varied(self, own: Sequence[Attempt]) -> bool | None:
        """Return False if every call of the target had the same sizes; None if unknown."""
        known = [(a, self.sizes.get(id(a.code))) for a in own]
        same = [sizes is not None and sizes.are_the_same(dynamic=bool(a.dynamic)) for a, sizes in known]
        return False if same and all(same) else None

    def _status(self, selector: Selector, own: Sequence[Attempt], *, inlined: bool) -> TargetStatus:
        if any(a.outcome == "compiled" for a in own):
            return "compiled"
        if inlined:
            return "inlined"
        others = any(selector.matches(a.code, a.owner) and not selector.is_for(a.owner) for a in self.attempts)
        if not others and self._served_from_cache(selector):
            return "cached"
        left_alone = (*self._declined, *fallbacks.never_looked_at(self.attempts, self._declined))
        if own or selector.disabled or any(selector.matches(code) for code in left_alone):
            return "skipped"
        return "never_reached"

    def _served_from_cache(self, selector: Selector) -> bool:
        candidates = (*selector.codes, *(code for code in self.called if selector.matches(code)))
        return any(_torch.entries_of(code) for code in candidates)

    def _inlined_into(self, selector: Selector) -> str | None:
        for attempt in self.attempts:
            if attempt.outcome == "compiled" and any(selector.matches(code) for code in attempt.inlined):
                return self.name(attempt.code)
        return None
