"""Whatever a path leads to is written as it should be, or refused; devices here are of the tests' own making."""

from __future__ import annotations

import contextlib
import os
import pty
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compilescope.errors import RecordingError
from compilescope.files import hindrance, is_same, locked, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOBODY = 65534
NEW = b"new\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that users without any rights reach and may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def without_rights(act: Callable[[], None]) -> None:
    """Run ``act`` in a process of a user to whom the modes of files mean something."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            act()
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(ended) == 0


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# --- files ----------------------------------------------------------------------------------------


def test_new_file_is_readable_as_any_new_file(here: Path) -> None:
    (here / "plain").touch()
    write_atomically(Path("new"), NEW)
    assert (here / "new").read_bytes() == NEW
    assert (here / "new").stat().st_mode == (here / "plain").stat().st_mode
    assert names_in(here) == ["new", "plain"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o755])
def test_file_keeps_its_mode(here: Path, mode: int) -> None:
    (here / "old").touch()
    (here / "old").chmod(mode)
    write_atomically(Path("old"), NEW)
    assert (here / "old").read_bytes() == NEW
    assert stat.S_IMODE((here / "old").stat().st_mode) == mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_file_keeps_its_owner(here: Path) -> None:
    (here / "old").touch()
    os.chown(here / "old", NOBODY, NOBODY)
    write_atomically(Path("old"), NEW)
    assert (here / "old").read_bytes() == NEW
    assert ((here / "old").stat().st_uid, (here / "old").stat().st_gid) == (NOBODY, NOBODY)


def test_file_is_replaced_and_not_overwritten(here: Path) -> None:
    (here / "old").write_text("old")
    with (here / "old").open() as reading:
        write_atomically(Path("old"), NEW)
        assert reading.read() == "old", "whoever reads the old file reads it to its end"


def test_file_with_the_longest_possible_name_is_written(here: Path) -> None:
    write_atomically(Path("n" * 255), NEW)
    assert names_in(here) == ["n" * 255]


def test_file_that_is_read_only_is_refused(open_to_all: Path) -> None:
    (open_to_all / "old").write_text("old")
    (open_to_all / "old").chmod(0o444)

    def act() -> None:
        assert hindrance(open_to_all / "old") == f"{open_to_all / 'old'} is read-only."
        with pytest.raises(RecordingError, match="is read-only"):
            write_atomically(open_to_all / "old", NEW)

    without_rights(act)
    assert (open_to_all / "old").read_text() == "old"


def test_file_that_can_be_written_in_a_folder_that_cannot_is_written_in_place(open_to_all: Path) -> None:
    (open_to_all / "old").write_text("something longer")
    (open_to_all / "old").chmod(0o666)
    open_to_all.chmod(0o555)

    def act() -> None:
        assert hindrance(open_to_all / "old") is None
        write_atomically(open_to_all / "old", NEW)

    without_rights(act)
    assert (open_to_all / "old").read_bytes() == NEW


def test_new_file_in_a_folder_that_cannot_be_written_is_refused(open_to_all: Path) -> None:
    open_to_all.chmod(0o555)

    def act() -> None:
        assert hindrance(open_to_all / "new") == f"The folder {open_to_all} cannot be written to."

    without_rights(act)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (".", ". is a directory; give a file."),
        ("none/new", "The folder none does not exist."),
        ("file/new", "file is not a folder."),
        ("dangling", "The folder {here}/none does not exist."),
        ("circle", "circle cannot be reached: Too many levels of symbolic links."),
        ("circle/new", "circle/new cannot be reached: Too many levels of symbolic links."),
        ("n" * 256, "n" * 256 + " cannot be reached: File name too long."),
        ("/dev/fd/1000000", "/dev/fd/1000000 cannot be reached: Bad file descriptor."),
    ],
)
def test_place_that_is_no_file_is_refused_in_a_sentence(here: Path, path: str, sentence: str) -> None:
    (here / "file").touch()
    (here / "dangling").symlink_to("none/new")
    (here / "circle").symlink_to("circle")
    before = names_in(here)
    assert hindrance(Path(path)) == sentence.format(here=here)
    with pytest.raises(RecordingError, match="cannot be written"):
        write_atomically(Path(path), NEW)
    assert names_in(here) == before


def test_folder_that_is_deleted_is_refused_in_a_sentence(here: Path) -> None:
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    assert hindrance(Path("new")) == "new cannot be reached: No such file or directory."
    with pytest.raises(RecordingError, match="new cannot be written"):
        write_atomically(Path("new"), NEW)


# --- links ----------------------------------------------------------------------------------------


def test_link_stays_and_its_target_is_written(here: Path) -> None:
    (here / "inner").mkdir()
    (here / "inner" / "target").write_text("old")
    (here / "inner" / "second").symlink_to("target")
    (here / "first").symlink_to("inner/second")
    write_atomically(Path("first"), NEW)
    assert (here / "first").is_symlink()
    assert (here / "inner" / "second").is_symlink()
    assert (here / "inner" / "target").read_bytes() == NEW
    assert names_in(here / "inner") == ["second", "target"]


def test_target_of_a_link_need_not_exist(here: Path) -> None:
    (here / "link").symlink_to("target")
    write_atomically(Path("link"), NEW)
    assert (here / "link").is_symlink()
    assert (here / "target").read_bytes() == NEW


# --- pipes, devices and descriptors ---------------------------------------------------------------


def test_named_pipe_is_written_into(here: Path) -> None:
    os.mkfifo("pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((here / "pipe").read_bytes()))
    reader.start()
    assert hindrance(Path("pipe")) is None
    write_atomically(Path("pipe"), NEW)
    reader.join()
    assert read == [NEW]
    assert stat.S_ISFIFO((here / "pipe").stat().st_mode)


def test_terminal_is_written_to(here: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        (here / "link").symlink_to(os.ttyname(theirs))
        assert hindrance(Path("link")) is None
        write_atomically(Path("link"), NEW)
        assert os.read(ours, 100) == b"new\r\n"
        assert (here / "link").is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("linked", [False, True])
def test_device_stays_a_device(here: Path, *, linked: bool) -> None:
    try:
        os.mknod("device", stat.S_IFCHR | 0o666, os.makedev(1, 3))  # what takes everything and keeps nothing
    except PermissionError:
        pytest.skip("only root may make devices")
    if linked:
        (here / "link").symlink_to("device")
    assert hindrance(Path("link" if linked else "device")) is None
    with contextlib.suppress(RecordingError):  # what is mounted may let devices do nothing
        write_atomically(Path("link" if linked else "device"), NEW)
    assert (here / "device").is_char_device()


def test_device_that_is_full_is_told_of(here: Path) -> None:
    try:
        os.mknod("device", stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except PermissionError:
        pytest.skip("only root may make devices")
    with pytest.raises(RecordingError, match=r"device cannot be written: (No space left|Permission denied)"):
        write_atomically(Path("device"), NEW)


def test_socket_is_refused(here: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        assert hindrance(Path("socket")) == "socket is a socket; give a file."


@pytest.mark.parametrize("name", ["/dev/fd", "/proc/self/fd", "/proc/{pid}/fd"])
def test_descriptor_is_written_to_where_it_stands(here: Path, name: str) -> None:
    folder = name.format(pid=os.getpid())
    with (here / "log").open("ab", buffering=0) as log:
        log.write(b"old\n")
        (here / "link").symlink_to(f"{folder}/{log.fileno()}")
        for path in (Path(folder, str(log.fileno())), Path("link")):
            assert hindrance(path) is None
            write_atomically(path, NEW)
        log.write(b"later\n")
    assert (here / "log").read_text() == "old\nnew\nnew\nlater\n"


def test_descriptor_that_is_read_from_is_refused(here: Path) -> None:
    reading, writing = os.pipe()
    assert hindrance(Path(f"/dev/fd/{reading}")) == f"/dev/fd/{reading} is not open for writing."
    assert hindrance(Path(f"/dev/fd/{writing}")) is None
    os.close(reading)
    os.close(writing)


def test_stdout_by_name_comes_behind_what_was_printed_before(here: Path) -> None:
    code = (
        "from pathlib import Path; from compilescope.files import write_atomically; print('first'); "
        "write_atomically(Path('/dev/stdout'), b'second\\n'); print('third')"
    )
    with (here / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True, timeout=120)
    assert (here / "out").read_text() == "first\nsecond\nthird\n"


# --- one place under several names ----------------------------------------------------------------


@pytest.mark.parametrize("other", ["file", "./file", "inner/../file", "link", "folder/file", "hard", "{here}/file"])
def test_one_file_under_another_name_is_the_same(here: Path, other: str) -> None:
    (here / "file").touch()
    (here / "inner").mkdir()
    (here / "folder").symlink_to(".")
    (here / "link").symlink_to("folder/file")
    (here / "hard").hardlink_to("file")
    assert is_same(Path("file"), Path(other.format(here=here)))
    assert not is_same(Path("inner"), Path(other.format(here=here)))


def test_files_that_do_not_exist_yet_are_the_same_under_two_spellings(here: Path) -> None:
    (here / "folder").symlink_to(".")
    assert is_same(Path("new"), Path("folder/new"))
    assert not is_same(Path("new"), Path("newer"))


def test_descriptor_is_the_same_as_its_file(here: Path) -> None:
    with (here / "file").open("wb") as file:
        assert is_same(Path("file"), Path(f"/dev/fd/{file.fileno()}"))


# --- locks ----------------------------------------------------------------------------------------


def test_whoever_asks_for_a_locked_file_waits_under_any_name_of_it(here: Path) -> None:
    (here / "link").symlink_to("file")
    (here / "file").write_text("0")
    names = ("file", "./file", "link", str(here / "file"))
    together = threading.Barrier(len(names))

    def count_up(name: str) -> None:
        together.wait()
        for _ in range(50):
            with locked(Path(name)):
                write_atomically(Path(name), str(int(Path(name).read_text()) + 1).encode())

    threads = [threading.Thread(target=count_up, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (here / "file").read_text() == "200"
    assert names_in(here) == ["file", "link"]


def test_lock_on_what_does_not_exist_is_no_obstacle(here: Path) -> None:
    with locked(Path("none/file")):
        assert names_in(here) == []
