"""A text file that several edit: what cannot be written leaves everything as it was, and nobody's change is lost."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from strongroom.errors import InvalidRequest, StoreUnavailable, VersionConflict
from strongroom.host.builtin.text_file import MOST_BYTES, TextFile
from tests.store.children import CONTEXT, Process

OLD, NEW = "old text", "new text, which is longer"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "notes.md"
    made.write_text(OLD)
    return made


def _names(directory: Path) -> set[str]:
    return {one.name for one in directory.iterdir()}


def _append(word: str) -> Callable[[str], str]:
    return lambda text: f"{text}{word}\n"


# Refused


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_step_that_fails_leaves_the_old_text_and_no_draft(
    path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = getattr(os, step)

    def full(target: object, *args: object) -> object:
        if step == "open" and "draft" not in str(target):
            return real(target, *args)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(StoreUnavailable) as caught:
        TextFile(path).change(lambda _: NEW)
    monkeypatch.undo()
    assert caught.value.hint == "nothing was changed"
    assert path.read_text() == OLD
    assert _names(path.parent) <= {"notes.md", "notes.md.lock"}


def _change_without_room(pipe: Connection, path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        TextFile(path).change(lambda _: "x" * 10_000)
    except StoreUnavailable as error:
        pipe.send(error.reason)


def test_write_that_the_system_cuts_off_leaves_the_old_text(path: Path) -> None:
    child = Process(_change_without_room, path)
    assert child.pipe.recv() == "store_unavailable"
    child.kill()
    assert path.read_text() == OLD
    assert _names(path.parent) == {"notes.md", "notes.md.lock"}


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
def test_non_file_is_named_and_left_alone(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "notes.md")
    file = TextFile(tmp_path / "notes.md")
    with pytest.raises(StoreUnavailable):
        file.read()
    with pytest.raises(StoreUnavailable):
        file.change(lambda _: NEW)
    assert not (tmp_path / "notes.md").is_file()


def test_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "place").write_text("something else")
    file = TextFile(tmp_path / "place" / "notes.md")
    with pytest.raises(StoreUnavailable):
        file.read()
    with pytest.raises(StoreUnavailable):
        file.change(lambda _: NEW)
    assert (tmp_path / "place").read_text() == "something else"


def test_text_that_is_not_utf8_is_left_as_it_is(path: Path) -> None:
    path.write_bytes("Grüße".encode("latin-1"))
    for call in (TextFile(path).read, lambda: TextFile(path).change(lambda _: NEW)):
        with pytest.raises(StoreUnavailable):
            call()
    assert path.read_bytes() == "Grüße".encode("latin-1")


def test_file_that_is_too_large_is_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(InvalidRequest):
        TextFile(path).change(lambda _: NEW)
    assert path.stat().st_size == MOST_BYTES + 1
    path.write_bytes(b"x" * MOST_BYTES)
    assert len(TextFile(path).read()) == MOST_BYTES


def test_edit_that_raises_changes_nothing(path: Path) -> None:
    def edit(_: str) -> str:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        TextFile(path).change(edit)
    assert path.read_text() == OLD
    TextFile(path, patience=0).change(lambda _: NEW)  # and the lock is free again


@pytest.mark.parametrize("save", [lambda path: path.write_text("by hand"), Path.unlink])
def test_text_saved_in_the_meantime_is_not_overwritten(path: Path, save: Callable[[Path], object]) -> None:
    def edit(_: str) -> str:
        save(path)
        return NEW

    with pytest.raises(VersionConflict):
        TextFile(path).change(edit)
    assert TextFile(path).read() in ("by hand", "")
    assert ".notes.md.draft" not in _names(path.parent)


def test_lock_that_is_never_freed_is_not_waited_for_without_end(path: Path) -> None:
    with open(path.with_name("notes.md.lock"), "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable):
            TextFile(path, patience=0).change(lambda _: NEW)
    assert path.read_text() == OLD
    TextFile(path, patience=0).change(lambda _: NEW)
    assert path.read_text() == NEW


def test_rename_that_may_not_last_is_not_called_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync
    calls: list[int] = []

    def second_fails(file: int) -> None:
        calls.append(file)
        if len(calls) == 2:
            raise OSError(errno.EIO, "Input/output error")
        real(file)

    monkeypatch.setattr(os, "fsync", second_fails)
    with pytest.raises(StoreUnavailable):
        TextFile(path).change(lambda _: NEW)
    assert path.read_text() == NEW


# Killed


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killed_at(pipe: Connection, path: Path, step: str, after: bool) -> None:
    real = getattr(os, step)

    def deadly(*args: object) -> object:
        result = real(*args) if after else None
        _die()
        return result

    setattr(os, step, deadly)
    pipe.send("begun")
    TextFile(path).change(lambda _: NEW)
    pipe.send("done")


@pytest.mark.parametrize(
    ("step", "after", "left"),
    [("fsync", False, OLD), ("fsync", True, OLD), ("replace", False, OLD), ("replace", True, NEW)],
)
def test_process_killed_while_it_writes_leaves_the_old_text_or_the_new(
    path: Path, step: str, after: bool, left: str
) -> None:
    child = Process(_killed_at, path, step, after)
    assert child.pipe.recv() == "begun"
    with pytest.raises(EOFError):  # it died before it could say that it was done
        child.pipe.recv()
    child.kill()
    assert path.read_text() == left
    assert (".notes.md.draft" in _names(path.parent)) == (left == OLD)
    TextFile(path, patience=0).change(_append(" and more"))
    assert path.read_text() == f"{left} and more\n"
    assert _names(path.parent) == {"notes.md", "notes.md.lock"}


# Made


def test_files_and_directories_are_for_the_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        TextFile(tmp_path / "above" / "place" / "notes.md").change(lambda _: NEW)
    finally:
        os.umask(before)
    assert {one.name: one.stat().st_mode & 0o777 for one in (tmp_path / "above").rglob("*")} == {
        "place": 0o700,
        "notes.md": 0o600,
        "notes.md.lock": 0o600,
    }
    assert (tmp_path / "above").stat().st_mode & 0o777 == 0o700


def test_open_file_becomes_the_owners_alone_when_it_is_changed(path: Path) -> None:
    path.chmod(0o644)
    TextFile(path).change(lambda _: NEW)
    assert path.stat().st_mode & 0o777 == 0o600


def test_reading_makes_nothing(tmp_path: Path) -> None:
    assert TextFile(tmp_path / "place" / "notes.md").read() == ""
    assert _names(tmp_path) == set()


def test_same_text_is_not_written_again(path: Path) -> None:
    before = path.stat()
    TextFile(path).change(lambda text: text)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_text_comes_back_to_the_letter(path: Path) -> None:
    for text in ("a\r\nb\rc\n\n", "\ufeffx\x00\u202e茶😀", ""):
        TextFile(path).change(lambda _, text=text: text)  # type: ignore[misc]
        assert TextFile(path).read() == text
        assert path.read_bytes() == text.encode()


def test_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real.md").write_text(OLD)
    link = tmp_path / "notes.md"
    link.symlink_to(tmp_path / "elsewhere" / "real.md")
    TextFile(link).change(lambda _: NEW)
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "real.md").read_text() == NEW


def _append_many(pipe: Connection, path: Path, worker: int, count: int) -> None:
    pipe.recv()
    for number in range(count):
        TextFile(path, patience=60).change(_append(f"{worker}.{number}"))
    pipe.send("done")


def test_four_processes_and_four_threads_lose_nothing(path: Path) -> None:
    path.write_text("")
    children = [Process(_append_many, path, worker, 25) for worker in range(4)]
    ours, theirs = zip(*(CONTEXT.Pipe() for _ in range(4)), strict=True)
    threads = [
        threading.Thread(target=_append_many, args=(pipe, path, 4 + place, 10)) for place, pipe in enumerate(theirs)
    ]
    for thread in threads:
        thread.start()
    for pipe in (*(child.pipe for child in children), *ours):
        pipe.send("go")
    assert [child.pipe.recv() for child in children] == ["done"] * 4
    for thread in threads:
        thread.join()
    for child in children:
        child.kill()
    for pipe in (*ours, *theirs):
        pipe.close()
    wanted = [f"{worker}.{number}" for worker in range(8) for number in range(25 if worker < 4 else 10)]
    assert sorted(path.read_text().split()) == sorted(wanted)
