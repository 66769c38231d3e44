"""A failing leaf guard as facts: what it expected, what it met, what holds the value, whose line put it there."""

from __future__ import annotations

import enum
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import torch

from compilescope.capture import _torch, ambient, describe, expressions, tensors
from compilescope.capture.asked import Asked, class_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from compilescope.record import Failure

_CONTAINS: Final = re.compile(
    r"^(?P<no>not )?(?:___(?:dict|set)_contains\((?P<key>.+?), (?P<source>.+)|"
    r"set\.__contains__\((?P<set>.+), (?P<member>.+?))\)$",
    re.DOTALL,
)
_KEY_AT: Final = re.compile(r"^list\(dict\.keys\((?P<dict>.+)\)\)\[\d+\]$")
_MARKS: Final = re.compile(r"'(_dynamo_\w+_indices)'")


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


def _type(asked: Asked) -> Iterator[Failure]:
    want = class_in(asked.expression) or "another class"
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


def _identity(asked: Asked) -> Iterator[Failure]:
    kind = (class_in(asked.expression) or "object").rpartition(".")[2]
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


def _marking(asked: Asked) -> Iterator[Failure]:
    wrong = []
    for text in asked.texts:
        expression = expressions.split(text)[0]
        mark = _MARKS.search(expression)
        if mark is not None and hasattr(asked.value, mark[1]) == expression.endswith("== False"):
            wrong.append(mark[1].removeprefix("_dynamo_"))
    have = ", ".join(wrong) or "other dimensions"
    yield asked.failure("the dimension marks it was compiled with", f"differs in {have}")


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
    "GLOBAL_STATE": ambient.global_state,
    "TORCH_FUNCTION_MODE_STACK": ambient.function_modes,
    "DEFAULT_DEVICE": ambient.default_device,
    "DIMENSION_DYNAMIC_MARKING_GUARD": _marking,
}
