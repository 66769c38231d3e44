"""Recordings on disk: JSON format 1, written completely or not at all, read with one clear sentence on failure."""

from __future__ import annotations

import codecs
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from compilescope.errors import RecordingError
from compilescope.files import write_atomically
from compilescope.record import FORMAT, GraphBreak, Recording

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from compilescope.record import Compilation


_Value = TypeVar("_Value")


class _MetaProbe(msgspec.Struct):
    """The two fields that show whether a file is ours and how new it is."""

    format: int
    compilescope: str


class _Probe(msgspec.Struct):
    meta: _MetaProbe


def encodable(value: _Value) -> _Value:
    r"""Return plain data whose texts UTF-8 can encode: file names, for example, may be any bytes.

    Lone surrogates, which it cannot encode, become their escapes: ``\udce9``.
    """
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return cast("_Value", _escaped(value))
    return value


def _escaped(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(
            value, **{name: _escaped(one) for name, one in msgspec.structs.asdict(value).items()}
        )
    if isinstance(value, dict):
        return {_escaped(key): _escaped(one) for key, one in value.items()}
    if isinstance(value, tuple | list | set):
        return type(value)(_escaped(one) for one in value)
    return value


def to_json(recording: Recording, *, indent: int | None = 1) -> bytes:
    """Return ``recording`` as UTF-8 JSON of format 1, with a final newline."""
    encoded = msgspec.json.encode(encodable(recording))
    if indent is not None:
        encoded = msgspec.json.format(encoded, indent=indent)
    return encoded + b"\n"


def from_json(data: bytes, *, name: str = "the recording") -> Recording:
    """Read a recording.

    Args:
        data: UTF-8 JSON.
        name: what to call the data in an error.

    Raises:
        RecordingError: the data is empty, truncated, foreign, or of a newer format.
    """
    data = data.removeprefix(codecs.BOM_UTF8)  # editors on Windows begin a file with it
    if not data.strip():
        msg = f"{name} is empty."
        raise RecordingError(msg)
    try:
        probe = msgspec.json.decode(data, type=_Probe)
    except msgspec.ValidationError:
        msg = f"{name} is JSON, but not a compilescope recording: it has no meta.format."
        raise RecordingError(msg) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{name} is not a compilescope recording, or was cut short: {error}."
        raise RecordingError(msg) from None
    if probe.meta.format > FORMAT:
        msg = (
            f"{name} has format {probe.meta.format}, written by compilescope {probe.meta.compilescope}; "
            f"this version reads up to format {FORMAT}. Upgrade compilescope to read it."
        )
        raise RecordingError(msg)
    try:
        return msgspec.json.decode(data, type=Recording)
    except msgspec.ValidationError as error:
        msg = f"{name} does not follow recording format {FORMAT}: {error}."
        raise RecordingError(msg) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{name} is a damaged recording: {error}."
        raise RecordingError(msg) from None


def load(path: str | os.PathLike[str]) -> Recording:
    """Read the recording at ``path``.

    Raises:
        RecordingError: as :func:`from_json`, or the file cannot be read.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror or error}."
        raise RecordingError(msg) from None
    return from_json(data, name=str(path))


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write ``recording`` to ``path``, as :func:`compilescope.files.write_atomically` does.

    Raises:
        RecordingError: the place cannot be written.
    """
    write_atomically(Path(path), to_json(recording))


def merge(recordings: Iterable[Recording]) -> Recording:
    """Join recordings of several processes (pytest workers, ranks) into one.

    Code objects are joined by id, graph breaks by site (their events add up); compilations,
    fallbacks, targets, sweeps and findings are all kept. Metadata is the first recording's, except how many recordings
    they are.

    Every process counts its compilations from 0, and so does Dynamo after each reset. As within one recording, ``#n``
    is appended to a repeated id, and the entries that a recompile names are renamed with it.

    Raises:
        ValueError: there is nothing to merge.
    """
    parts = list(recordings)
    if not parts:
        msg = "merge needs at least one recording"
        raise ValueError(msg)
    codes = {code.id: code for part in parts for code in part.code_objects}
    numbers: Counter[str] = Counter()
    return Recording(
        meta=msgspec.structs.replace(parts[0].meta, merged=sum(part.meta.merged for part in parts)),
        code_objects=tuple(codes.values()),
        compilations=tuple(c for part in parts for c in _renumbered(part.compilations, numbers)),
        graph_breaks=merge_breaks(b for part in parts for b in part.graph_breaks),
        fallbacks=tuple(f for part in parts for f in part.fallbacks),
        targets=tuple(t for part in parts for t in part.targets),
        sweeps=tuple(s for part in parts for s in part.sweeps),
        findings=tuple(f for part in parts for f in part.findings),
    )


def _renumbered(compilations: Iterable[Compilation], numbers: Counter[str]) -> Iterator[Compilation]:
    """Yield the compilations of one recording under ids that no other recording has.

    Args:
        compilations: in their order.
        numbers: how often each of Dynamo's ids appeared so far, in all recordings.
    """
    current: dict[str, str] = {}
    awaited: set[str] = set()

    def next_name(identity: str) -> str:
        bare = identity.partition("#")[0]
        numbers[bare] += 1
        current[identity] = bare if numbers[bare] == 1 else f"{bare}#{numbers[bare]}"
        return current[identity]

    def renamed(identity: str) -> str:
        if identity in current:
            return current[identity]
        # Compiled later, or before the recording began; in that case no other recording may reuse its name.
        awaited.add(identity)
        return next_name(identity)

    for compilation in compilations:
        why = compilation.recompile
        if why is not None:
            why = msgspec.structs.replace(
                why,
                entries=tuple(msgspec.structs.replace(miss, id=renamed(miss.id)) for miss in why.entries),
                closest=None if why.closest is None else renamed(why.closest),
                alternatives=tuple(renamed(entry) for entry in why.alternatives),
            )
        name = current[compilation.id] if compilation.id in awaited else next_name(compilation.id)
        awaited.discard(compilation.id)
        yield msgspec.structs.replace(compilation, id=name, recompile=why)


def merge_breaks(breaks: Iterable[GraphBreak]) -> tuple[GraphBreak, ...]:
    """Join breaks of one site, adding up their events; a site skips its frame if any of its events did."""
    sites: dict[tuple[str, int, str], GraphBreak] = {}
    for graph_break in breaks:
        key = (graph_break.file, graph_break.line, graph_break.kind)
        known = sites.get(key)
        sites[key] = (
            graph_break
            if known is None
            else msgspec.structs.replace(
                known,
                events=known.events + graph_break.events,
                skips_frame=known.skips_frame or graph_break.skips_frame,
            )
        )
    return tuple(sites.values())
