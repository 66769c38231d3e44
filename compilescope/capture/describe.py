"""Values, sources and places in words: short, without memory addresses, equal in every run."""

from __future__ import annotations

import enum
import functools
import inspect
import linecache
import re
import site
import sysconfig
from functools import cache, lru_cache
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import torch

from compilescope.capture import _torch
from compilescope.record import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from traceback import FrameSummary
    from types import CodeType

_LONGEST: Final = 80
_MOST_ITEMS: Final = 8
_ADDRESS: Final = re.compile(r" (?:object )?at 0x[0-9a-fA-F]+")
# Where Dynamo writes the identity of an object: in two of its checks, and in the names of globals that it adds.
_IDENTITY: Final = re.compile(r"(___check_(?:obj|type)_id\([^#]*?, |\bG\['\w*?_|\bids? == )\d{6,}")
# How both begin: most texts contain neither, and every value of every new entry is described.
_SIGNS: Final = (" at 0x", "___check_", "G['", " == ")
# Parentheses within parentheses, as deep as ``dict.__getitem__(d, list(dict.keys(d))[0])`` goes in a dict in a dict.
_BALANCED: Final = functools.reduce(lambda inside, _: rf"(?:[^()]|\({inside}\))*", range(6), r"[^()]*")
_NUMPY: Final = re.compile(rf"___from_numpy\((?P<inside>{_BALANCED})\)")
_DTYPES: Final = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.bool: "bool",
}


def shorten(text: str, longest: int = _LONGEST) -> str:
    """Return ``text`` on one line, without addresses and ids, cut to ``longest`` characters."""
    line = scrub(text).strip()
    if not line.isprintable() or "  " in line:
        line = " ".join(line.split())
    return line if len(line) <= longest else line[: longest - 3] + "..."


def scrub(text: str) -> str:
    """Return ``text`` without memory addresses and the object ids that Dynamo writes; other digits stay."""
    if not any(sign in text for sign in _SIGNS):
        return text
    return _IDENTITY.sub(r"\1<id>", _ADDRESS.sub("", text))


def type_name(value: object) -> str:
    """Return the name of a value's class, with its module where it is not builtin."""
    return class_name(type(value))


def class_name(cls: type) -> str:
    """Return the dotted name of a class; builtins and torch's own tensors and modules by their short name."""
    if cls.__module__ in ("builtins", "__main__") or cls.__module__.split(".")[0] == "torch":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def value(thing: object) -> str:
    """Describe a value in a few words. It keeps nothing alive; the only user code it runs is ``repr`` of constants."""
    for classes, describe_one in _DESCRIBERS:
        if isinstance(thing, classes):
            return describe_one(thing)
    if type(thing) in (list, tuple, set, frozenset):
        return _sequence(thing)  # type: ignore[arg-type]
    if type(thing) is dict and not thing:
        return "empty dict"
    if type(thing) is dict:
        keys = [value(key) for key in list(thing)[:_MOST_ITEMS]]
        return shorten("dict with keys " + ", ".join(keys) + (", ..." if len(thing) > _MOST_ITEMS else ""))
    if type(thing).__repr__ in _PLAIN_REPRS:
        return shorten(repr(thing))
    return f"{type_name(thing)} object"


def key(thing: object) -> str:
    """Write the key of a dict as between brackets: a class by its name."""
    return thing.__qualname__ if isinstance(thing, type) else value(thing)


def function_name(function: object) -> str:
    """Return the qualified name of a function, method or builtin."""
    return str(getattr(function, "__qualname__", type_name(function)))


def builtin_length(container: Any) -> int:  # noqa: ANN401 (any subclass of a builtin container)
    """Return the length of a container by its builtin class: a subclass may run anything."""
    builtin = next(cls for cls in (dict, set, frozenset, list, tuple) if isinstance(container, cls))
    return int(builtin.__len__(container))


# torch's classes whose repr is short, shows the value, and runs no other code.
_PLAIN_REPRS: Final = frozenset(
    {torch.Size.__repr__, type(torch.strided).__repr__, type(torch.preserve_format).__repr__}
)


def _sequence(items: Sequence[object]) -> str:
    described = [value(item) for item in list(items)[:_MOST_ITEMS]]
    if isinstance(items, set | frozenset):
        # The order of a set differs between runs.
        described.sort()
    inside = ", ".join(described) + (", ..." if len(items) > _MOST_ITEMS else "")
    return shorten(f"{type(items).__name__} of {len(items)}: {inside}" if items else f"empty {type(items).__name__}")


def tensor(thing: torch.Tensor) -> str:
    """Describe a tensor: ``f32[1, 77, 3072]``, with its class and device if they are not the usual ones."""
    try:
        # The user's subclasses and modes must not see this read.
        with _torch.no_torch_function():
            kind = _DTYPES.get(thing.dtype, str(thing.dtype).removeprefix("torch."))
            shape = ", ".join(str(size) for size in thing.shape)
            device = "" if thing.device.type == "cpu" else f" on {thing.device}"
    except Exception:  # noqa: BLE001 (a subclass may refuse any of these; a description must not)
        return f"{type_name(thing)} object"
    plain = type(thing) in (torch.Tensor, torch.nn.Parameter)
    return f"{'' if plain else type_name(thing) + ' '}{kind}[{shape}]{device}"


_CONSTANTS: Final = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device)
# The first row that matches: an enum may also be an int.
_DESCRIBERS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (enum.Enum, lambda thing: f"{type(thing).__qualname__}.{thing.name}"),
    (_CONSTANTS, lambda thing: shorten(repr(thing))),
    (torch.Tensor, tensor),
    (torch.nn.Module, lambda thing: f"{type_name(thing)} module"),
    (type, lambda thing: f"class {class_name(thing)}"),
    ((FunctionType, MethodType, BuiltinFunctionType), lambda thing: f"function {function_name(thing)}"),
    (functools.partial, lambda thing: shorten(f"partial of {value(thing.func)}")),
    (ModuleType, lambda thing: f"module {thing.__name__}"),
)


def owner(code: CodeType, f_locals: Mapping[str, object]) -> str | None:
    """Return what a frame runs for, if the frame's own name does not say.

    Wrappers such as ``wrap_inline.<locals>.inner`` and inherited ``forward`` methods are one code
    object for many classes: the class of their module is returned. For a plain function inside
    Dynamo's own wrapper, it is the function's name.
    """
    arguments = f_locals.get("args")
    first = arguments[0] if isinstance(arguments, tuple) and arguments else None
    wrapped = f_locals.get("fn")
    for candidate in (f_locals.get("self"), wrapped, first):
        module = getattr(candidate, "__self__", candidate)
        if isinstance(module, torch.nn.Module):
            cls = type(module)
            return None if code.co_qualname.startswith(f"{cls.__qualname__}.") else cls.__qualname__
    if isinstance(wrapped, FunctionType) and _torch.is_own_wrapper(code):
        return str(inspect.unwrap(wrapped).__qualname__)
    return None


# --- sources --------------------------------------------------------------------------------------

_LOCAL: Final = re.compile(r"\bL\['([^']+)'\]")
_MODULE_DICTS: Final = re.compile(r"\._(?:modules|parameters|buffers)\['([^']+)'\]")
_SUBMODULES: Final = re.compile(r"\._modules(?=$|[),\s])")
_DICT_ATTRIBUTE: Final = re.compile(r"\.__dict__\['([^']+)'\]")
_IMPORTED: Final = re.compile(r"G\['__import_([A-Za-z0-9_]+)'\]")
_CLOSURE: Final = re.compile(r"\.__closure__\[\d+\]\.cell_contents")


@lru_cache(maxsize=16384)
def source(text: str) -> str:
    """Write a guard's source as the user would: ``L['self']._modules['norm'].eps`` is ``self.norm.eps``."""
    pretty = _NUMPY.sub(r"\g<inside>", text) if "___from_numpy" in text else text
    pretty = _LOCAL.sub(r"\1", pretty)
    pretty = _MODULE_DICTS.sub(_member, pretty)
    pretty = _SUBMODULES.sub("", pretty)
    pretty = _DICT_ATTRIBUTE.sub(r".\1", pretty)
    pretty = _IMPORTED.sub(lambda m: m[1].replace("_dot_", "."), pretty)
    return scrub(pretty)


def inside_numpy(text: str) -> str | None:
    """Return the source of the numpy value that Dynamo guards as a tensor; None for another source."""
    found = _NUMPY.fullmatch(text)
    return None if found is None else found["inside"]


def _member(match: re.Match[str]) -> str:
    name = match[1]
    return f".{name}" if name.isidentifier() else f"[{name}]"


# --- places ---------------------------------------------------------------------------------------


@cache
def _library_folders() -> tuple[Path, ...]:
    named = {sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], *site.getsitepackages()}
    return (*sorted(Path(folder).resolve() for folder in named), Path(torch.__file__).parent.parent.resolve())


def path(name: str) -> str:
    """Return a file name relative to site-packages or the working directory if it is under one of them."""
    if name.startswith("<"):
        return name
    try:
        return _relative(name, Path.cwd())
    except OSError:  # the program has deleted its working directory
        return name


@lru_cache(maxsize=1024)
def _relative(name: str, working: Path) -> str:
    absolute = Path(name).resolve()
    for folder in (*_library_folders(), working):
        if absolute.is_relative_to(folder):
            return absolute.relative_to(folder).as_posix()
    return absolute.as_posix()


def absolute(short: str) -> str | None:
    """Undo :func:`path`: return the file that the short name stands for; None if there is none."""
    folders = (Path.cwd(), *_library_folders())
    return next((str(folder / short) for folder in folders if (folder / short).is_file()), None)


@cache
def lengthen(short: str) -> str:
    """Undo the shortening that Dynamo does to file names, which cuts what they share with torch's folder.

    The name was cut at a parent of torch's folder; the right parent is the one under which the file
    exists and would be cut the same way.
    """
    if Path(short).is_absolute() or short.startswith("<"):
        return short
    base = Path(torch.__file__).parent
    for parent in (base, *base.parents):
        candidate = parent / short
        if candidate.is_file():
            return str(candidate)
    # If the common part is the root itself, Dynamo cuts one character too many: "/work/a.py" is "ork/a.py".
    first, _, rest = short.partition("/")
    for folder in Path("/").iterdir():
        if folder.name[1:] == first and (folder / rest).is_file():
            return str(folder / rest)
    return short


_PLACE: Final = re.compile(
    r"#\s(?:(?P<text>.*?)\s{1,2}#\s)?\(?(?P<file>[^#]+?):(?P<line>\d+) in (?P<function>[^\s()]+)"
)


@lru_cache(maxsize=4096)
def location_in(comment: str) -> Location | None:
    """Read the user's line from the comment that Dynamo puts after a guard's expression."""
    found = _PLACE.search(comment)
    if found is None:
        return None
    full = lengthen(found["file"].strip())
    text = (found["text"] or "").strip() or linecache.getline(full, int(found["line"])).strip() or None
    return Location(file=path(full), line=int(found["line"]), text=text, function=found["function"])


def location_of(frame: FrameSummary) -> Location:
    """Return the place of a frame summary."""
    line = frame.lineno or 0
    text = (frame.line or linecache.getline(frame.filename, line)).strip() or None
    return Location(file=path(frame.filename), line=line, text=text, function=frame.name)
