"""Files that we write: where a path leads, why it cannot be written, and writing it completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from compilescope.errors import RecordingError

if TYPE_CHECKING:
    from collections.abc import Iterator

STDOUT: Final = Path("/proc/self/fd/1")
"""What stdout is as a path."""

_DESCRIPTORS: Final = Path("/proc/self/fd")
_MOST_LINKS: Final = 40
_NOT_REPLACED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""Why a file that can be written cannot be replaced: its folder is closed to us, or something is mounted on it."""
_NO_FILES: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """The end of a path when every link is followed.

    Attributes:
        path: of the file itself.
        status: of what is there; None where nothing is.
        descriptor: the open file of this process that the path means, as ``/dev/stdout`` and ``/dev/fd/63`` do; else
            None.
    """

    path: Path
    status: os.stat_result | None
    descriptor: int | None = None

    @property
    def is_stream(self) -> bool:
        """Whether it can be written and is not a replaceable file: a pipe, a terminal, a device."""
        return (
            self.descriptor is not None
            or _is_within_proc(self.path)
            or (self.status is not None and not stat.S_ISREG(self.status.st_mode))
        )

    @property
    def names(self) -> frozenset[object]:
        """Its identities; two places that share one of them are the same."""
        known: set[object] = {self.path if self.descriptor is None else self.descriptor}
        if self.status is not None and stat.S_ISREG(self.status.st_mode):
            known.add((self.status.st_dev, self.status.st_ino))
        return frozenset(known)


def find(path: Path) -> Place:
    """Follow ``path`` to where it leads.

    Raises:
        OSError: it is a circle of links, leads to a descriptor that is not open, or may not be read.
    """
    here = path.absolute()
    for _ in range(_MOST_LINKS):
        folder = Path(os.path.realpath(here.parent))
        here = folder / here.name
        if folder == Path(os.path.realpath(_DESCRIPTORS)) and here.name.isdecimal():
            descriptor = int(here.name)
            return Place(here, os.fstat(descriptor), descriptor)
        # A link within /proc is more than its text, which need not be a path at all.
        if _is_within_proc(here) or not here.is_symlink():
            return Place(here, _status(here))
        here = folder / here.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _is_within_proc(path: Path) -> bool:
    return path.parts[1:2] == ("proc",)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_same(one: Path, other: Path) -> bool:
    """Whether writing to one of two paths would overwrite the other, however they are spelt."""
    return not _names(one).isdisjoint(_names(other))


def _names(path: Path) -> frozenset[object]:
    try:
        return find(path).names
    except OSError:
        return frozenset({path})


def hindrance(path: Path) -> str | None:
    """Return why ``path`` cannot be written, in a sentence; None if there is no known reason."""
    try:
        place = find(path)
    except OSError as error:
        return f"{path} cannot be reached: {error.strerror}."
    if place.descriptor is not None:
        closed = fcntl.fcntl(place.descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        return f"{path} is not open for writing." if closed else None
    if place.status is None:
        return _hindrance_of_folder(path.parent if not path.is_symlink() else place.path.parent)
    for is_it, name in _NO_FILES:
        if is_it(place.status.st_mode):
            return f"{path} is {name}; give a file."
    return None if os.access(place.path, os.W_OK) else f"{path} is read-only."


def _hindrance_of_folder(folder: Path) -> str | None:
    if not folder.exists():
        return f"The folder {folder} does not exist."
    if not folder.is_dir():
        return f"{folder} is not a folder."
    return None if os.access(folder, os.W_OK | os.X_OK) else f"The folder {folder} cannot be written to."


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others that lock the same file out of the block.

    The folder is locked, so no lock file is left. A file system that cannot lock folders lets everybody in.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            folder = os.open(find(path).path.parent, os.O_RDONLY | os.O_DIRECTORY)
            held.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to a new file and move it to where ``path`` leads: no reader ever sees a half-written file.

    An existing file keeps its mode and, if we may set it, its owner; symbolic links still lead to it, another hard link
    keeps the old data. A pipe, a terminal or another device is written in place, and so is a file in a folder that does
    not allow replacing it.

    Raises:
        RecordingError: the place cannot be written.
    """
    hindered = hindrance(path)
    if hindered is not None:
        msg = f"{path} cannot be written. {hindered}"
        raise RecordingError(msg)
    try:
        place = find(path)
        if place.is_stream:
            _write_into(place, data)
        else:
            _replace(place, data)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror or error}."
        raise RecordingError(msg) from None


def _write_into(place: Place, data: bytes) -> None:
    """Write ``data`` in place."""
    if place.descriptor is None:
        # A pipe or a device exists already: create nothing, and do not take a terminal as ours.
        opened = os.open(place.path, os.O_WRONLY | os.O_TRUNC | os.O_NOCTTY)
    else:
        _flush_own()
        opened = os.dup(place.descriptor)
    with os.fdopen(opened, "wb") as file:
        file.write(data)


def _flush_own() -> None:
    """Flush our own streams, which may share the descriptor, so that the order is kept."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def _replace(place: Place, data: bytes) -> None:
    """Replace the file with one that holds ``data``."""
    # The name is short, however long the file's own is. Until it has the mode of the old file, nobody may read it.
    temporary = place.path.with_name(f".compilescope-{secrets.token_hex(8)}.tmp")
    mode = 0o666 if place.status is None else 0o600
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
        if place.status is not None:
            _make_alike(temporary, place.status)
        temporary.replace(place.path)
    except OSError as error:
        if place.status is None or error.errno not in _NOT_REPLACED:
            raise
        _write_into(place, data)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _make_alike(path: Path, like: os.stat_result) -> None:
    """Give the file at ``path`` the mode and, if allowed, the owner of another."""
    # The group first: a process that gives a file away may not change it afterwards.
    for user, group in ((-1, like.st_gid), (like.st_uid, -1)):
        with contextlib.suppress(PermissionError):
            os.chown(path, user, group)
    path.chmod(stat.S_IMODE(like.st_mode))
