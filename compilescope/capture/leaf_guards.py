"""A failing leaf guard as facts: what it expected, what it found, what holds the value, which line created it."""

from __future__ import annotations

import enum
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import torch

from compilescope.capture import _torch, containers, describe, global_state, guard_expressions, metadata, tensor_match
from compilescope.capture.compiled_for import layout_of, mark_of, marks_of, registered_as
from compilescope.capture.metadata import GUARD_BEGINNINGS
from compilescope.capture.refused_leaf import Asked, class_in
from compilescope.record import Moved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from compilescope.capture.compiled_for import TensorLayout
    from compilescope.record import Failure

_CONTAINS: Final = re.compile(
    r"^(?P<no>not )?(?:___(?:dict|set)_contains\((?P<key>.+?), (?P<source>.+)|"
    r"set\.__contains__\((?P<set>.+), (?P<member>.+?))\)$",
    re.DOTALL,
)
_MARKS: Final = re.compile(r"'(_dynamo_\w+_indices)'")


def failures(asked: Asked) -> Iterator[Failure]:
    """Turn a failing leaf into one failure, or into one for each part that differs."""
    reader = _READERS.get(asked.guard_type, _plain)
    yield from reader(asked)


def _plain(asked: Asked) -> Iterator[Failure]:
    yield asked.failure(describe.source(asked.expression), describe.value(asked.value))


# Guards that Dynamo makes of a Python function, identified by how their text begins: their kind, and what they check.
_LAMBDAS: Final[tuple[tuple[str, str, str], ...]] = (
    *((beginning, "subclass_metadata", "the subclass's metadata is unchanged") for beginning in GUARD_BEGINNINGS),
    ("___check_opaque_guard_fn_", "opaque", "the state that the object guards is unchanged"),
    (
        "torch._functorch.pyfunctorch.compare_functorch_state",
        "functorch",
        "the functorch transforms are unchanged",
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
        return metadata.changed(asked, meaning)
    if part == "saved_tensors_hooks":
        guard = "the hooks on saved tensors are unchanged"
        return asked.failure("the hooks it was compiled under", "different hooks", source=part, guard=guard, part=part)
    if part == "functorch":
        return asked.failure(
            "the transforms it was compiled under", "different transforms", source=part, guard=meaning, part=part
        )
    expected = "what it was compiled with" if asked.was is None else asked.was.text
    return asked.failure(expected, describe.value(asked.value), guard=meaning, part=part)


def _tensor(asked: Asked) -> Iterator[Failure]:
    expected = tensor_match.parse(asked.texts[0]) if asked.texts else None
    if not isinstance(asked.value, torch.Tensor):
        want = "a tensor" if expected is None else expected.class_name
        noted = asked.frame.was(describe.inside_numpy(asked.source) or asked.source)
        before = want if noted is None else noted.text
        guard = f"{asked.name} is a {want}"
        yield asked.failure(before, describe.value(asked.value), part="class", expected_type=want, guard=guard)
        return
    was = asked.frame.was_layout(asked.source)
    with tensor_match.quiet():
        found = [] if expected is None else tensor_match.differences(expected, asked.value, was)
    sizes = _moved(asked, was)
    for difference in (_of_inference(asked, raw) for raw in found):
        if difference.part == "inference_mode":
            guard = f"{difference.part} == {difference.expected}"
            yield asked.failure(
                difference.expected,
                difference.actual,
                source=difference.part,
                guard=guard,
                part=difference.part,
                holder="ambient",
            )
            continue
        yield asked.failure(
            difference.expected,
            difference.actual,
            source=f"{asked.name}{difference.suffix}",
            guard=f"{asked.name}{difference.suffix} {'==' if difference.suffix else 'is'} {difference.expected}",
            part=difference.part,
            expected_type=expected.class_name if expected else None,
            consequence_of=None if difference.follows is None else f"{asked.name}{difference.follows}",
            moved=_moved_by(difference, asked.name, sizes),
            **_of_size(asked, difference),
        )
    if not found:
        # The leaf compares something that its text does not contain. Autocast adds its own key to every tensor.
        autocast = expected is not None and _torch.autocast_differs(asked.texts[0], asked.value)
        follows = {"part": "autocast", "consequence_of": "autocast_state"} if autocast else {"part": "untold"}
        yield asked.failure(describe.source(asked.expression), describe.value(asked.value), **follows)


def _of_inference(asked: Asked, difference: tensor_match.Difference) -> tensor_match.Difference:
    """Distinguish inference tensors from inference mode, in which an ordinary tensor has the same dispatch keys.

    Which of the two the entry was compiled for is known if it was noted.
    """
    entry, was = asked.frame.entry, asked.was
    if difference.part not in ("inference", "inference_mode") or entry is None or was is None:
        return difference
    now = torch.is_inference_mode_enabled()
    if was.inference != asked.value.is_inference() or entry.inference_mode == now:  # type: ignore[attr-defined]
        return difference
    return tensor_match.Difference("inference_mode", "", str(entry.inference_mode), str(now))


def _moved(asked: Asked, was: TensorLayout | None) -> tuple[Moved, ...]:
    now = layout_of(asked.value) if isinstance(asked.value, torch.Tensor) else None
    if was is None or now is None or len(was.size) != len(now.size):
        return ()
    return tensor_match.moved_sizes(asked.name, was.size, now.size)


def _moved_by(difference: tensor_match.Difference, name: str, sizes: tuple[Moved, ...]) -> tuple[Moved, ...]:
    """Return the sizes that a difference is about: the one that it names, or all if strides follow from them."""
    if difference.part == "size":
        source = f"{name}{difference.suffix}"
        return (Moved(source=source, was=int(difference.expected), now=int(difference.actual)),)
    return sizes if difference.part == "size_stride" else ()


def _of_size(asked: Asked, difference: tensor_match.Difference) -> dict[str, object]:
    """Return what advice on a size needs to know: what pinned it, how it is marked, what holds the tensor."""
    if difference.part != "size":
        return {}
    pin = asked.frame.places.pin(f"{asked.source}{difference.suffix}")
    # What the user has to change is the line that needs the size as a constant, not the first that reads the tensor.
    placed = {"where": pin["pinned_by"], "torch_where": None} if pin else {}
    return (
        placed
        | pin
        | {
            "marked": mark_of(asked.value, int(difference.suffix.rpartition("[")[2].rstrip("]"))),
            "registered": registered_as(asked.source),
        }
    )


def _type(asked: Asked) -> Iterator[Failure]:
    want = class_in(asked.expression) or "another class"
    module = isinstance(asked.value, torch.nn.Module)
    was, now = _own_name(want), describe.type_name(asked.value)
    if asked.was is not None and "NoneType" in (asked.was.type_name, now):
        # If one side is None, the other side's value says more than its class.
        was, now = asked.was.text, describe.value(asked.value)
    yield asked.failure(
        was,
        now,
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
    was, now = asked.was, describe.value(asked.value)
    expected = f"the {kind} that it was compiled with" if was is None else was.text
    yield asked.failure(
        expected,
        f"another {now}" if was is None or now == expected else now,
        guard=f"{asked.name} is the same {kind}",
        expected_type=kind if was is None else was.type_name,
        part="module" if isinstance(asked.value, torch.nn.Module) else None,
    )


def _member_meant(asked: Asked) -> enum.Enum | None:
    """Return the member of an enum that an identity guard stands for; None if it is about something else."""
    if not isinstance(asked.value, enum.Enum):
        return None
    return next((one for one in type(asked.value) if str(id(one)) in asked.expression), None)


def _equals(asked: Asked) -> Iterator[Failure]:
    if isinstance(asked.value, set | frozenset):
        yield containers.changed(asked)
        return
    want = asked.expression.removeprefix(f"{asked.source} == ")
    if want == asked.expression:
        want = asked.expression.rpartition(" == ")[2]
    was, literal = asked.was, _literal_type(want)
    # A literal is what the user wrote; for any other value, what was noted says more than torch's text.
    expected = describe.shorten(want) if was is None or literal is not None else was.text
    actual = describe.value(asked.value)
    if actual == expected:
        # Two values of different classes may have the same text.
        actual = f"{describe.type_name(asked.value)} {actual}"
    yield asked.failure(expected, actual, expected_type=literal if was is None else was.type_name)


def _literal_type(text: str) -> str | None:
    try:
        return type(guard_expressions.evaluate(text, {})).__name__
    except Exception:  # noqa: BLE001 (no literal, such as an enum member: its type is unknown)
        return None


def _none(asked: Asked) -> Iterator[Failure]:
    yield asked.failure("None", describe.value(asked.value), expected_type="NoneType")


def _not_none(asked: Asked) -> Iterator[Failure]:
    expected = "anything but None" if asked.was is None else asked.was.text
    yield asked.failure(expected, describe.value(asked.value))


def _boolean(asked: Asked) -> Iterator[Failure]:
    want = "True" if asked.guard_type == "TRUE_MATCH" else "False"
    yield asked.failure(want, describe.value(asked.value), expected_type="bool", guard=f"{asked.name} is {want}")


def _not_a_number(asked: Asked) -> Iterator[Failure]:
    want = "float" if asked.guard_type == "FLOAT_IS_NAN" else "complex"
    yield asked.failure("nan", describe.value(asked.value), expected_type=want, guard=f"{asked.name} is nan")


def _length(asked: Asked) -> Iterator[Failure]:
    yield containers.changed(asked, _length_wanted(asked.expression))


def _length_wanted(expression: str) -> str:
    if "==" in expression:
        return expression.rpartition("==")[2].strip()
    return "0" if expression.startswith("not ") else "not empty"


def _contains(asked: Asked) -> Iterator[Failure]:
    found = _CONTAINS.match(asked.expression)
    if found is None:
        yield from _plain(asked)
        return
    absent = found["no"] is not None
    container = found["source"] or found["set"]
    key = found["key"] or found["member"]
    if not container.endswith(".__dict__"):
        yield containers.changed(asked, key=key, absent=absent)
        return
    owner, name = describe.source(container.removesuffix(".__dict__")), key.strip("'\"")
    held = asked.value.get(name, "") if type(asked.value) is dict else ""
    there = describe.value(held) if absent and type(asked.value) is dict and name in asked.value else "present"
    yield asked.failure(
        "absent" if absent else "present",
        there if absent else "absent",
        source=f"{owner}.{name}",
        guard=f"{owner} has {'no ' if absent else ''}attribute {name}",
        part="attribute",
    )


def _no_attribute(asked: Asked) -> Iterator[Failure]:
    if any(_MARKS.search(text) for text in asked.texts):
        # torch 2.11 has no guard type for the marks of dimensions.
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
        expression = guard_expressions.split(text)[0]
        mark = _MARKS.search(expression)
        if mark is not None and hasattr(asked.value, mark[1]) == expression.endswith("== False"):
            wrong.append(mark[1].removeprefix("_dynamo_"))
    have = f"differs in {', '.join(wrong) or 'other dimensions'}"
    if asked.was is None or asked.was.marks is None:
        yield asked.failure("the dimension marks it was compiled with", have)
    else:
        yield asked.failure(asked.was.marks, marks_of(asked.value))


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
    "MAPPING_KEYS_MATCH": _length,
    "TUPLE_ITERATOR_LEN": _length,
    "DICT_CONTAINS": _contains,
    "SET_CONTAINS": _contains,
    "NO_HASATTR": _no_attribute,
    "GLOBAL_STATE": global_state.global_state,
    "TORCH_FUNCTION_MODE_STACK": global_state.function_modes,
    "DEFAULT_DEVICE": global_state.default_device,
    "DIMENSION_DYNAMIC_MARKING_GUARD": _marking,
}
