"""A failing leaf guard as facts: what it expected, what it met, what holds the value, whose line put it there."""

from __future__ import annotations

import enum
import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.capture import _torch, describe, expressions, tensors
from compilescope.record import Failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType

_CLASS: Final = re.compile(r"type=(?:<class '(?P<name>[^']+)'>|(?P<bare>.+?))(?:\s*$)")
_CONTAINS: Final = re.compile(
    r"^(?P<no>not )?(?:___(?:dict|set)_contains\((?P<key>.+?), (?P<source>.+)|"
    r"set\.__contains__\((?P<set>.+), (?P<member>.+?))\)$",
    re.DOTALL,
)
_CELL: Final = re.compile(r"(?P<function>.+?)\.__closure__\[(?P<index>\d+)\]\.cell_contents(?P<rest>.*)")
_KEY_AT: Final = re.compile(r"^list\(dict\.keys\((?P<dict>.+)\)\)\[\d+\]$")
_ITEM_AT: Final = re.compile(r"\[(list\(dict\.keys\(.+?\)\)\[\d+\])\]")
_ALIASING: Final = re.compile(r"^check_no_aliasing\((?P<sources>.+)\)$", re.DOTALL)
_LENGTH: Final = re.compile(r"^len\((.+)\) != (\d+)$")
_MARKS: Final = re.compile(r"'(_dynamo_\w+_indices)'")


@dataclass(frozen=True, slots=True)
class Asked:
    """A leaf guard that said no: its class, its text, and the value it was asked about."""

    guard_type: str
    texts: list[str]
    source: str
    value: object
    scope: dict[str, Any]
    code: CodeType
    raised: str | None

    @property
    def expression(self) -> str:
        """The guard's expression without Dynamo's comment."""
        return expressions.split(self.texts[0])[0] if self.texts else self.source

    @property
    def comment(self) -> str:
        """Dynamo's comment: the user's line and hints."""
        return expressions.split(self.texts[0])[1] if self.texts else ""

    @property
    def name(self) -> str:
        """The source as the user would write it; a closure's cell by the variable's name."""
        cell = _CELL.match(self.source)
        if cell is None:
            return describe.source(_ITEM_AT.sub(self._key, self.source))
        try:
            function = expressions.evaluate(cell["function"], self.scope)
            variable = function.__code__.co_freevars[int(cell["index"])]  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 (another sort of callable: its cell keeps Dynamo's own name)
            return describe.source(self.source)
        return f"{variable}{describe.source(cell['rest'])}"

    def _key(self, item: re.Match[str]) -> str:
        try:
            return f"[{describe.value(expressions.evaluate(item[1], self.scope))}]"
        except Exception:  # noqa: BLE001 (no such key on this input: Dynamo's own words stay)
            return item[0]

    def failure(self, expected: str, actual: str, **facts: Any) -> Failure:  # noqa: ANN401 (fields of Failure)
        """Build the failure; ``facts`` overrides what is derived here."""
        derived: dict[str, Any] = {
            "source": self.name,
            "guard": describe.shorten(describe.source(self.expression), 200),
            "where": describe.location_in(self.comment),
            "guard_type": self.guard_type,
            "holder": expressions.holder(self.source, self.scope, self.code),
            "actual_type": describe.type_name(self.value),
            "raised": self.raised,
        }
        return Failure(expected=expected, actual=actual, **(derived | facts))


def failures(asked: Asked) -> Iterator[Failure]:
    """Turn a leaf that said no into one failure, or into one for each part that differs."""
    reader = _READERS.get(asked.guard_type, _plain)
    yield from reader(asked)


def _plain(asked: Asked) -> Iterator[Failure]:
    yield asked.failure(describe.source(asked.expression), describe.value(asked.value))


# Guards that Dynamo makes of a Python function, known by how their text begins: their sort, and what they check.
_LAMBDAS: Final[tuple[tuple[str, str, str], ...]] = (
    ("___check_metadata_", "subclass_metadata", "the subclass's metadata is what it was"),
    ("__dtensor_spec_", "subclass_metadata", "the DTensor's placement is what it was"),
    ("___check_opaque_guard_fn_", "opaque", "what the object guards of itself is what it was"),
    (
        "torch._functorch.pyfunctorch.compare_functorch_state",
        "functorch",
        "the functorch transforms are what they were",
    ),
    ("torch._functorch.aot_autograd.utils.top_saved_tensors_hooks", "saved_tensors_hooks", ""),
)


def _lambda(asked: Asked) -> Iterator[Failure]:
    for beginning, part, meaning in _LAMBDAS:
        if asked.expression.startswith(beginning):
            yield _of_function(asked, part, meaning)
            return
    yield from _plain(asked)


def _of_function(asked: Asked, part: str, meaning: str) -> Failure:
    if part == "subclass_metadata":
        metadata = _torch.subclass_metadata(asked.value)
        return asked.failure("the metadata it was compiled with", describe.value(metadata), guard=meaning, part=part)
    if part == "saved_tensors_hooks":
        guard = "the hooks on saved tensors are what they were"
        return asked.failure("the hooks it was compiled under", "others", source=part, guard=guard, part=part)
    if part == "functorch":
        return asked.failure("the transforms it was compiled under", "others", source=part, guard=meaning, part=part)
    return asked.failure("what it was compiled with", describe.value(asked.value), guard=meaning, part=part)


def _tensor(asked: Asked) -> Iterator[Failure]:
    expected = tensors.parse(asked.texts[0]) if asked.texts else None
    if not isinstance(asked.value, torch.Tensor):
        want = "a tensor" if expected is None else expected.class_name
        yield asked.failure(want, describe.value(asked.value), part="class", expected_type=want)
        return
    found = [] if expected is None else tensors.differences(expected, asked.value)
    for one in found:
        if one.part == "inference_mode":
            guard = f"{one.part} == {one.expected}"
            yield asked.failure(one.expected, one.actual, source=one.part, guard=guard, part=one.part, holder="ambient")
            continue
        yield asked.failure(
            one.expected,
            one.actual,
            source=f"{asked.name}{one.suffix}",
            guard=f"{asked.name}{one.suffix} {'==' if one.suffix else 'is'} {one.expected}",
            part=one.part,
            expected_type=expected.class_name if expected else None,
            consequence_of=None if one.follows is None else f"{asked.name}{one.follows}",
        )
    if not found:
        # The leaf compares something that its text does not tell. Autocast adds a key of its own to every tensor.
        autocast = expected is not None and _torch.autocast_differs(asked.texts[0], asked.value)
        follows = {"part": "autocast", "consequence_of": "autocast_state"} if autocast else {"part": "untold"}
        yield asked.failure(describe.source(asked.expression), describe.value(asked.value), **follows)


# 2.11 writes the value itself in the place of its class.
_WRITTEN_VALUES: Final = (
    ("<code object", "code"),
    ("<function", "function"),
    ("<built-in", "builtin_function_or_method"),
    ("<bound method", "method"),
    ("<module", "module"),
)


def _class_of(text: str) -> str | None:
    found = _CLASS.search(text)
    if found is None:
        return None
    if found["name"]:
        return found["name"].removeprefix("builtins.")
    for beginning, name in _WRITTEN_VALUES:
        if found["bare"].startswith(beginning):
            return name
    return None if found["bare"].startswith("<") else found["bare"]


def _type(asked: Asked) -> Iterator[Failure]:
    want = _class_of(asked.expression) or "another class"
    module = isinstance(asked.value, torch.nn.Module)
    yield asked.failure(
        _own_name(want),
        describe.type_name(asked.value),
        guard=f"type({asked.name}) is {_own_name(want)}",
        part="module" if module else None,
        expected_type=want.rpartition(".")[2],
        actual_type=type(asked.value).__name__,
    )


def _own_name(dotted: str) -> str:
    name = dotted.removeprefix("__main__.")
    return name.rpartition(".")[2] if name.startswith("torch.") else name


_SORTS: Final[tuple[tuple[str, str], ...]] = (
    ("<code object", "code"),
    ("<function", "function"),
    ("<bound method", "method"),
    ("<built-in", "builtin_function_or_method"),
)
_INSTANCE: Final = re.compile(r"<(?:[\w.<>]+\.)?(\w+) object at ")


def _sort_of(text: str) -> str:
    """Return the class name that an identity guard tells; torch 2.11 shows the object itself instead."""
    found = _CLASS.search(text)
    if found is None:
        return "object"
    if found["name"]:
        return found["name"].rpartition(".")[2]
    shown = text[found.start() + len("type=") :]
    instance = _INSTANCE.match(shown)
    return instance[1] if instance else next((sort for start, sort in _SORTS if shown.startswith(start)), "object")


def _identity(asked: Asked) -> Iterator[Failure]:
    kind = _sort_of(asked.expression)
    member = _member_meant(asked)
    if member is not None:
        yield asked.failure(
            describe.value(member),
            describe.value(asked.value),
            guard=f"{asked.name} is {describe.value(member)}",
            part="member",
        )
        return
    yield asked.failure(
        f"the {kind} that it was compiled with",
        f"another one: {describe.value(asked.value)}",
        source=asked.name.removesuffix(".__code__"),
        guard=f"{asked.name} is the same {kind}",
        expected_type=kind,
        part="module" if isinstance(asked.value, torch.nn.Module) else None,
    )


def _member_meant(asked: Asked) -> enum.Enum | None:
    """Return the member of an enum that an identity guard stands for; None where it is about something else."""
    if not isinstance(asked.value, enum.Enum):
        return None
    return next((one for one in type(asked.value) if str(id(one)) in asked.expression), None)


def _equals(asked: Asked) -> Iterator[Failure]:
    want = asked.expression.removeprefix(f"{asked.source} == ")
    if want == asked.expression:
        want = asked.expression.rpartition(" == ")[2]
    key = _KEY_AT.match(asked.source)
    if key is not None:
        yield _key_order(asked, key["dict"])
        return
    yield asked.failure(describe.shorten(want), describe.value(asked.value), expected_type=_literal_type(want))


def _key_order(asked: Asked, container: str) -> Failure:
    index, _, want = asked.expression.removeprefix(f"list(dict.keys({container}))").partition(" == ")
    try:
        keys = list(expressions.evaluate(container, asked.scope))  # type: ignore[call-overload]
        have, there = describe.value(keys), any(repr(key) == want for key in keys)
    except Exception:  # noqa: BLE001 (the container may be of another class by now; the key alone is shown)
        have, there = describe.value(asked.value), False
    part = "key" if there else "missing_key"
    return asked.failure(f"key {index} is {want}", have, source=describe.source(container), part=part)


def _literal_type(text: str) -> str | None:
    try:
        return type(expressions.evaluate(text, {})).__name__
    except Exception:  # noqa: BLE001 (no literal, such as an enum member: its type is not told)
        return None


def _none(asked: Asked) -> Iterator[Failure]:
    yield asked.failure("None", describe.value(asked.value), expected_type="NoneType")


def _not_none(asked: Asked) -> Iterator[Failure]:
    yield asked.failure("anything but None", describe.value(asked.value))


def _boolean(asked: Asked) -> Iterator[Failure]:
    want = "True" if asked.guard_type == "TRUE_MATCH" else "False"
    yield asked.failure(want, describe.value(asked.value), expected_type="bool", guard=f"{asked.name} is {want}")


def _not_a_number(asked: Asked) -> Iterator[Failure]:
    want = "float" if asked.guard_type == "FLOAT_IS_NAN" else "complex"
    yield asked.failure("nan", describe.value(asked.value), expected_type=want, guard=f"{asked.name} is nan")


def _length(asked: Asked) -> Iterator[Failure]:
    have = len(asked.value) if hasattr(asked.value, "__len__") else "no length"
    want = asked.expression.rpartition("==")[2].strip() if "==" in asked.expression else "0"
    if "==" not in asked.expression and not asked.expression.startswith("not "):
        want = "not empty"
    part = "dict" if isinstance(asked.value, dict) else None
    yield asked.failure(f"length {want}", f"length {have}", part=part)


def _contains(asked: Asked) -> Iterator[Failure]:
    found = _CONTAINS.match(asked.expression)
    if found is None:
        yield from _plain(asked)
        return
    absent = found["no"] is not None
    key = (found["key"] or found["member"]).strip("'\"")
    container = found["source"] or found["set"]
    attribute = container.endswith(".__dict__")
    owner = describe.source(container.removesuffix(".__dict__"))
    yield asked.failure(
        "absent" if absent else "present",
        "present" if absent else "absent",
        source=f"{owner}.{key}" if attribute else owner,
        guard=f"{owner} has {'no ' if absent else ''}{'attribute' if attribute else 'key'} {key}",
        part=("attribute" if attribute else "key"),
    )


def _no_attribute(asked: Asked) -> Iterator[Failure]:
    if any(_MARKS.search(text) for text in asked.texts):
        # 2.11 has no guard of its own for the marks of dimensions.
        yield from _marking(replace(asked, guard_type="DIMENSION_DYNAMIC_MARKING_GUARD"))
        return
    name = asked.expression.rpartition(", ")[2].strip(")'\"")
    yield asked.failure(
        "absent",
        "present",
        source=f"{asked.name}.{name}",
        guard=f"{asked.name} has no attribute {name}",
        part="attribute",
    )


def _global_state(asked: Asked) -> Iterator[Failure]:
    try:
        want = json.loads(asked.texts[0].partition(" against ")[2])
    except (ValueError, IndexError):
        want = {}
    have = _torch.global_state()
    changed = [name for name, value in want.items() if have.get(name) != value]
    for name in changed:
        old, new = _only_changed(want[name], have.get(name))
        yield asked.failure(old, new, source=name, guard=f"{name} == {old}", part=name, holder="ambient")
    if not changed:
        yield asked.failure(
            "the global state it was compiled under", "another", source="global state", holder="ambient"
        )


def _only_changed(old: object, new: object) -> tuple[str, str]:
    """Describe two values of a state; of compound ones (autocast has a switch for each device) what differs alone."""
    parts = [(f"{path} = {was}", f"{path} = {now}") for path, was, now in _leaves(old, new, "") if was != now and path]
    if not parts:
        return str(old), str(new)
    return describe.shorten(", ".join(was for was, _ in parts)), describe.shorten(", ".join(now for _, now in parts))


def _leaves(old: object, new: object, path: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            yield from _leaves(old[key], new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list):
        for index, (was, now) in enumerate(zip(old, new, strict=False)):
            yield from _leaves(was, now, f"{path}[{index}]")
    else:
        yield path, old, new


def _modes(asked: Asked) -> Iterator[Failure]:
    have = ", ".join(_torch.function_modes()) or "none"
    yield asked.failure(
        "the torch-function modes it was compiled under", have, source="torch-function modes", holder="ambient"
    )


def _device(asked: Asked) -> Iterator[Failure]:
    want = asked.expression.rpartition("==")[2].strip()
    yield asked.failure(want, _torch.default_device(), source="default device", holder="ambient")


def _marking(asked: Asked) -> Iterator[Failure]:
    wrong = []
    for text in asked.texts:
        expression = expressions.split(text)[0]
        mark = _MARKS.search(expression)
        if mark is not None and hasattr(asked.value, mark[1]) == expression.endswith("== False"):
            wrong.append(mark[1].removeprefix("_dynamo_"))
    have = ", ".join(wrong) or "other dimensions"
    yield asked.failure("the dimension marks it was compiled with", f"differs in {have}")


def relation(guard_type: str, text: str, scope: dict[str, Any]) -> Iterator[Failure]:
    """Check a relational guard by identity; storage overlap, which cannot be, is left to the caller's last resort."""
    expression, comment = expressions.split(text)
    found = _ALIASING.match(expression)
    names = [s.text for s in expressions.symbols(expression)]
    try:
        values = [expressions.evaluate(name, scope) for name in names]
    except Exception:  # noqa: BLE001 (a value out of reach is reported where it is missing)
        return
    if found is not None:
        pairs = ((a, b) for i, a in enumerate(names) for b in names[i + 1 :])
        same = [(a, b) for a, b in pairs if values[names.index(a)] is values[names.index(b)]]
        expected, actual = "different tensors", "one tensor for both"
    elif guard_type == "OBJECT_ALIASING" and len(names) == 2:  # noqa: PLR2004 (a relation between two)
        same = [(names[0], names[1])] if values[0] is not values[1] else []
        expected, actual = "one object for both", "two objects"
    else:
        return
    for first, second in same:
        yield Failure(
            source=f"{describe.source(first)}, {describe.source(second)}",
            guard=describe.source(expression),
            expected=expected,
            actual=actual,
            where=describe.location_in(comment),
            guard_type=guard_type,
            part="aliasing",
        )


def invalidated(reason: str) -> Failure:
    """Describe an entry whose guards Dynamo threw away."""
    return Failure(
        source="cache entry",
        guard=describe.shorten(describe.source(reason), 200),
        expected="the guarded object alive",
        actual="freed",
        guard_type="INVALIDATED",
        holder="ambient",
    )


def other_backend(old: object, new: object) -> Failure:
    """Describe an entry that would have served, had the call asked for its backend."""
    return Failure(
        source="backend",
        guard="the backend is the one it was compiled for",
        expected=backend_name(old),
        actual=backend_name(new),
        guard_type="BACKEND_MATCH",
        holder="ambient",
    )


def backend_name(backend: object) -> str:
    """Return the name of a backend: ``eager``, ``inductor``, or that of the user's function."""
    inner = _torch.innermost_backend(backend)
    name = getattr(inner, "compiler_name", None) or getattr(inner, "__qualname__", None)
    return str(name) if name else describe.type_name(inner)


def unknown(text: str) -> Failure:
    """Describe a miss that no guard examined here explains, by Dynamo's own words."""
    expression, comment = expressions.split(text) if text else ("", "")
    length = _LENGTH.match(expression)
    if length is not None:
        # The manager of an empty dict holds no leaf: it says this of itself.
        return Failure(
            source=describe.source(length[1]),
            guard=f"len({describe.source(length[1])}) == {length[2]}",
            expected=f"length {length[2]}",
            actual="another length",
            where=describe.location_in(comment),
            guard_type="DICT_LENGTH",
            part="dict",
        )
    return Failure(
        source=describe.shorten(describe.source(expression)) or "cache entry",
        guard=describe.shorten(describe.source(expression), 200) or "no guard fails when asked again",
        expected="a match",
        actual="no match",
        where=describe.location_in(comment),
        guard_type="UNKNOWN",
    )


_READERS: Final[Mapping[str, Callable[[Asked], Iterator[Failure]]]] = {
    "TENSOR_MATCH": _tensor,
    "LAMBDA_GUARD": _lambda,
    "TYPE_MATCH": _type,
    "FAKE_SCRIPT_TYPE_MATCH": _type,
    "ID_MATCH": _identity,
    "EQUALS_MATCH": _equals,
    "NONE_MATCH": _none,
    "NOT_NONE": _not_none,
    "TRUE_MATCH": _boolean,
    "FALSE_MATCH": _boolean,
    "FLOAT_IS_NAN": _not_a_number,
    "COMPLEX_IS_NAN": _not_a_number,
    "LENGTH_CHECK": _length,
    "DICT_LENGTH": _length,
    "DICT_CONTAINS": _contains,
    "SET_CONTAINS": _contains,
    "NO_HASATTR": _no_attribute,
    "GLOBAL_STATE": _global_state,
    "TORCH_FUNCTION_MODE_STACK": _modes,
    "DEFAULT_DEVICE": _device,
    "DIMENSION_DYNAMIC_MARKING_GUARD": _marking,
}
