"""Reads ``--input``: ``x=f32[batch,seq,16]``, ``mask=none|bool[batch,seq]``, ``scale=0.5,1.0``. No torch.

A text is one or more assignments in Python's syntax, so Python's parser reads it:

* ``f32[batch,height*width,64]`` is a tensor; a name in brackets is an axis; sizes are sums and products of axes and
  whole numbers;
* ``i64[batch,seq] < 30522`` has values below 30522 (without a bound integers are 0 or 1, as in a mask);
* ``f32[batch,16].slice`` is a slice of a wider tensor, ``.transposed`` has its last two dimensions transposed;
* other values are Python literals, also lists and dicts of tensors: ``shapes=[(1, height, width)]``;
* ``a|b`` and ``a,b`` are alternatives: they make an axis with the name of the input.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, cast

from compilescope.errors import UsageError
from compilescope.wording import guess, listing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from compilescope.record import Scalar

DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "bool",
        "u8": "uint8",
        "i8": "int8",
        "i16": "int16",
        "i32": "int32",
        "i64": "int64",
        "f16": "float16",
        "bf16": "bfloat16",
        "f32": "float32",
        "f64": "float64",
        "c64": "complex64",
    }
)
"""The short name of each dtype, with torch's name."""

Layout = Literal["contiguous", "slice", "transposed"]
_LAYOUTS: Final = ("slice", "transposed")
_WORDS: Final[Mapping[str, Scalar]] = MappingProxyType({"none": None, "true": True, "false": False})
_EMPTY_BRACKETS: Final = re.compile(r"(?<=\w)\[\s*\]")


@dataclass(frozen=True, slots=True)
class Size:
    """A whole number that may depend on axes: a sum, product or difference of names and numbers."""

    node: ast.expr

    def __str__(self) -> str:
        """Return it as it is written."""
        return _text(self.node)

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes in it."""
        return tuple(node.id for node in ast.walk(self.node) if isinstance(node, ast.Name))

    def at(self, values: Mapping[str, Scalar]) -> int:
        """Return the number at a point.

        Raises:
            UsageError: it is negative there, or an axis has a value that is not a whole number.
        """
        found = _number(self.node, values)
        if found < 0:
            msg = f"The size {self} is negative at {_point({name: values[name] for name in self.axes})}."
            raise UsageError(msg)
        return found


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor.

    Attributes:
        dtype: torch's name of it, such as ``float32``.
        sizes: one for each dimension.
        layout: its memory layout.
        below: integers are less than this; None for only 0 and 1. Floating-point values are normally distributed.
    """

    dtype: str
    sizes: tuple[Size, ...]
    layout: Layout = "contiguous"
    below: int | None = None


@dataclass(frozen=True, slots=True)
class DTypeSpec:
    """A dtype as the argument itself, such as ``torch.float16``."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: object


@dataclass(frozen=True, slots=True)
class Several:
    """A list, a tuple or a dict of values; ``keys`` is None for a sequence."""

    kind: Literal["list", "tuple", "dict"]
    items: tuple[ValueSpec, ...]
    keys: tuple[object, ...] = ()


ValueSpec = TensorSpec | Size | DTypeSpec | Constant | Several


@dataclass(frozen=True, slots=True)
class Alternative:
    """One value that an input may have.

    Attributes:
        label: the value of its axis: the literal itself, or its text.
        value: the specification.
    """

    label: Scalar
    value: ValueSpec


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One argument of ``forward``, with its alternatives."""

    name: str
    alternatives: tuple[Alternative, ...]

    def chosen(self, values: Mapping[str, Scalar]) -> ValueSpec:
        """Return the value at a point; for a literal, ``--sweep`` may give any other value.

        Raises:
            UsageError: the point names an unknown alternative.
        """
        if self.name not in values or isinstance(self.alternatives[0].value, Size):
            return self.alternatives[0].value
        wanted = values[self.name]
        for alternative in self.alternatives:
            if repr(alternative.label) == repr(wanted):
                return alternative.value
        if all(isinstance(alternative.value, Constant) for alternative in self.alternatives):
            return Constant(wanted)
        known = listing((str(alternative.label) for alternative in self.alternatives), last="or")
        msg = f"The input {self.name} has no alternative {wanted}: it is {known}."
        raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a model.

    Attributes:
        specs: one per argument.
        axes: name to values; None for an axis without values yet.
    """

    specs: tuple[InputSpec, ...]
    axes: Mapping[str, tuple[Scalar, ...] | None]

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """All tensors in them."""
        return tuple(
            spec
            for given in self.specs
            for alternative in given.alternatives
            for spec in _walk(alternative.value)
            if isinstance(spec, TensorSpec)
        )


def read_inputs(texts: Iterable[str]) -> Inputs:
    """Read each ``--input``.

    Raises:
        UsageError: a text cannot be read; the message names the part and what to write.
    """
    specs: dict[str, InputSpec] = {}
    for text in texts:
        for name, node in _assignments(text):
            if name in specs:
                msg = f"--input gives {name!r} twice; write alternatives as {name}=A|B."
                raise UsageError(msg)
            specs[name] = InputSpec(name, tuple(_alternatives(node, f"--input {name}")))
    return Inputs(tuple(specs.values()), _axes(specs))


def _assignments(text: str) -> Iterator[tuple[str, ast.expr]]:
    where = f"--input {text!r}"
    try:
        tree = ast.parse(_EMPTY_BRACKETS.sub("[()]", text.strip()))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
        msg = f"{where} cannot be read: {said}. An input is NAME=VALUE, such as 'x=f32[batch,16]'."
        raise UsageError(msg) from None
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not all(isinstance(one, ast.Name) for one in statement.targets):
            msg = f"{where} is not of the form NAME=VALUE, such as 'x=f32[batch,16]'."
            raise UsageError(msg)
        for target in statement.targets:
            yield cast("ast.Name", target).id, statement.value
    if not tree.body:
        msg = f"{where} is empty. An input is NAME=VALUE, such as 'x=f32[batch,16]'."
        raise UsageError(msg)


def _alternatives(node: ast.expr, where: str) -> Iterator[Alternative]:
    """Yield the parts between ``|`` and, outside of parentheses, ``,``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _alternatives(node.left, where)
        yield from _alternatives(node.right, where)
        return
    bare = isinstance(node, ast.Tuple) and node.elts and node.elts[0].col_offset == node.col_offset
    if isinstance(node, ast.Tuple) and bare:
        for part in node.elts:
            yield from _alternatives(part, where)
        return
    value = _value(node, where)
    scalar = isinstance(value, Constant) and isinstance(value.value, bool | int | float | str | None)
    yield Alternative(cast("Scalar", value.value) if scalar and isinstance(value, Constant) else _text(node), value)


def _value(node: ast.expr, where: str) -> ValueSpec:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            return Constant(node.value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return Constant(-number)
        case ast.List() | ast.Tuple():
            return Several(
                "list" if isinstance(node, ast.List) else "tuple", tuple(_value(part, where) for part in node.elts)
            )
        case ast.Dict():
            return _dict(node, where)
        case ast.Name(id=name) if name.casefold() in _WORDS:
            return Constant(_WORDS[name.casefold()])
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) if name in DTYPES.values():
            return DTypeSpec(name)
        case ast.Subscript() | ast.Attribute() | ast.Compare():
            return _tensor(node, where)
        case ast.Name(id=name) if name in DTYPES or name in DTYPES.values():
            msg = (
                f"{where}: {name} needs its sizes, such as {name}[batch,16]; the dtype itself is torch.{_dtype(name)}."
            )
            raise UsageError(msg)
        case ast.Name() | ast.BinOp():
            return _size(node, where)
    msg = f"{where}: {_text(node)} is neither a tensor such as f32[batch,16] nor a Python literal."
    raise UsageError(msg)


def _dict(node: ast.Dict, where: str) -> Several:
    keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
    if len(keys) < len(node.keys):
        msg = f"{where}: the keys of {_text(node)} are not all literals."
        raise UsageError(msg)
    return Several("dict", tuple(_value(part, where) for part in node.values), tuple(keys))


def _tensor(node: ast.expr, where: str) -> TensorSpec:
    below: int | None = None
    layout: Layout = "contiguous"
    inner = node
    if isinstance(inner, ast.Compare):
        match inner:
            case ast.Compare(ops=[ast.Lt()], comparators=[ast.Constant(value=int() as bound)]) if bound > 0:
                below, inner = bound, inner.left
            case _:
                msg = f"{where}: {_text(node)} is not of the form i64[batch,seq] < 1000."
                raise UsageError(msg)
    if isinstance(inner, ast.Attribute):
        if inner.attr not in _LAYOUTS:
            said = guess(inner.attr, _LAYOUTS)
            msg = f"{where}: {inner.attr!r} is not a layout; a tensor may be .slice or .transposed.{said}"
            raise UsageError(msg)
        layout, inner = cast("Layout", inner.attr), inner.value
    if not isinstance(inner, ast.Subscript) or not isinstance(inner.value, ast.Name):
        msg = f"{where}: {_text(node)} is neither a tensor such as f32[batch,16] nor a Python literal."
        raise UsageError(msg)
    parts = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
    spec = TensorSpec(_dtype_of(inner.value.id, where), tuple(_size(part, where) for part in parts), layout, below)
    return _checked(spec, _text(node), where)


def _checked(spec: TensorSpec, text: str, where: str) -> TensorSpec:
    if spec.below is not None and (spec.dtype == "bool" or "int" not in spec.dtype):
        msg = f"{where}: only integers have a bound; {text} is {spec.dtype}."
    elif len(spec.sizes) < {"contiguous": 0, "slice": 1, "transposed": 2}[spec.layout]:
        msg = f"{where}: {text} has too few dimensions to be .{spec.layout}."
    else:
        return spec
    raise UsageError(msg)


def _size(node: ast.expr, where: str) -> Size:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return Size(node)
        case ast.Name():
            return Size(node)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=right):
            _size(left, where)
            _size(right, where)
            return Size(node)
        case ast.UnaryOp(op=ast.USub()):
            msg = f"{where}: the size {_text(node)} is negative; a size that varies has a name, such as batch."
        case _:
            msg = f"{where}: {_text(node)} is not a size; sizes are whole numbers, axes, and their sums and products."
    raise UsageError(msg)


def _number(node: ast.expr, values: Mapping[str, Scalar]) -> int:
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            value = values[name]
            if isinstance(value, bool) or not isinstance(value, int):
                msg = f"The axis {name} is a size, and {value!r} is not a whole number."
                raise UsageError(msg)
            return value
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _number(left, values), _number(right, values)
            if isinstance(op, ast.FloorDiv):
                if second == 0:
                    msg = f"The size {_text(node)} divides by 0."
                    raise UsageError(msg)
                return first // second
            return (
                first + second
                if isinstance(op, ast.Add)
                else first - second
                if isinstance(op, ast.Sub)
                else first * second
            )
    raise AssertionError(ast.dump(node))  # _size allows nothing else


def _dtype_of(name: str, where: str) -> str:
    if name not in DTYPES and name not in DTYPES.values():
        known = f" Dtypes are {listing(DTYPES)}."
        msg = f"{where}: {name!r} is not a dtype.{guess(name, [*DTYPES, *DTYPES.values()]) or known}"
        raise UsageError(msg)
    return _dtype(name)


def _dtype(name: str) -> str:
    return DTYPES.get(name, name)


def _axes(specs: Mapping[str, InputSpec]) -> dict[str, tuple[Scalar, ...] | None]:
    """Return every axis: the names in sizes, and the inputs that have alternatives.

    An input of whole numbers with the name of a size is the same axis.
    """
    named = [
        axis
        for spec in specs.values()
        for alternative in spec.alternatives
        for part in _walk(alternative.value)
        for size in (part.sizes if isinstance(part, TensorSpec) else (part,) if isinstance(part, Size) else ())
        for axis in size.axes
    ]
    found: dict[str, tuple[Scalar, ...] | None] = {}
    for spec in specs.values():
        if len(spec.alternatives) > 1 or spec.name in named:
            labels = tuple(alternative.label for alternative in spec.alternatives)
            if spec.name in named and not all(isinstance(one.value, Size | Constant) for one in spec.alternatives):
                msg = (
                    f"--input {spec.name}: {spec.name} is a tensor and the name of an axis; give the axis another name."
                )
                raise UsageError(msg)
            # ``height=height`` passes the axis on, and gives it no values.
            found[spec.name] = None if labels == (spec.name,) else labels
    return {**dict.fromkeys(dict.fromkeys(named)), **found}


def _walk(value: ValueSpec) -> Iterator[ValueSpec]:
    yield value
    if isinstance(value, Several):
        for item in value.items:
            yield from _walk(item)


def _text(node: ast.expr) -> str:
    return (
        ast.unparse(node)
        .replace(", ", ",")
        .replace("[()]", "[]")
        .replace(" * ", "*")
        .replace(" + ", "+")
        .replace(" - ", "-")
    )


def _point(values: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
