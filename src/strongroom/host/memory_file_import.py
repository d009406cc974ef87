"""Handing the agent's own memory files to a provider that is new to it: MEMORY.md, USER.md and SOUL.md.

Not under per-session: each run would put the files into a session that nobody comes back to. Under every other strategy
each content is handed over once for each place it goes to (`into`), and a changed file again. A marker in the home
directory remembers that as hashes: neither text nor names, though who holds a text can tell that it was handed over.

All files are read before the first is handed over, and the marker is written after the last. So what is refused changes
nothing, and after a crash or an error everything comes again: `put` must keep a text once. Two processes that begin at
the same moment may both hand over.

The files are the owner's. A runtime that serves several people must not import them into the others' sessions.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from strongroom.errors import InvalidRequest, StoreUnavailable
from strongroom.host.session_name import SessionSettings, Strategy, digest
from strongroom.private_files import write_file

FILES = ("memories/MEMORY.md", "memories/USER.md", "MEMORY.md", "USER.md", "SOUL.md")
"""Below the home directory, by the names under which they are handed over."""
LIMIT = 1 << 18
"""Bytes that each file may have."""
MARKER = ".memory-files-imported"
_MARKER_LIMIT = 1 << 20
_REMEMBERED = 10_000
"""Contents that the marker holds; the oldest go first. 10,000 take 670 kB."""
_writing = threading.Lock()


def migrate_memory_files(
    home: Path, settings: SessionSettings, put: Callable[[str, str], None], *, into: str = "", before: str = ""
) -> tuple[str, ...]:
    """Hand over what is new and return the names. `into` says where it goes: the provider and its session's name.

    `before` is what an earlier version of the caller said for the same place: its marks are taken over, once.
    """
    if settings.strategy is Strategy.PER_SESSION:
        return ()
    done = set(_marks(home))
    new: dict[str, tuple[str, str]] = {}
    former: dict[str, str] = {}
    for name in FILES:
        text = _text(home, name)
        mark, old = _mark(into, name, text), _mark(before, name, text)
        if text.strip() and mark not in done:
            if before and old in done:
                former[mark] = old
            else:
                new.setdefault(mark, (name, text))
    for name, text in new.values():
        put(name, text)
    if new or former:
        _remember(home, [*former, *new], without=frozenset(former.values()))
    return tuple(name for name, _ in new.values())


def forget_marks(home: Path) -> bool:
    """Let everything be handed over again, to wherever; False if nothing was."""
    try:
        (home / MARKER).unlink()
    except FileNotFoundError:
        return False
    return True


def _text(home: Path, name: str) -> str:
    """The text of a file, or nothing if it is not there. What is no readable text file of the home is refused."""
    try:
        text = _bytes(home, name, LIMIT).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise _not_text(name) from None
    if "\0" in text:  # UTF-16 without a byte order mark is valid UTF-8, full of these
        raise _not_text(name)
    return text


def _not_text(name: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is not text in UTF-8", hint="save it in UTF-8 and try again")


def _bytes(home: Path, name: str, limit: int) -> bytes:
    real = Path(os.path.realpath(home / name))
    if not real.is_relative_to(os.path.realpath(home)):
        raise InvalidRequest(f"{name} leads out of the home directory", hint="put the file itself there, not a link")
    try:
        data = _content(real, limit)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read: {error.strerror}", hint="correct or move the file") from None
    if data is None or len(data) > limit:
        raise InvalidRequest(f"{name} is not a file of at most {limit} bytes", hint="shorten it or move it away")
    return data


def _content(path: Path, limit: int) -> bytes | None:
    # A link that took the file's place since is not followed, and a pipe is not waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with open(handle, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(handle)


def _mark(into: str, name: str, text: str) -> str:
    # The last part of the name alone: a file that moved from one place to the other is the same.
    return digest(into, name.rpartition("/")[2], text)


def _marks(home: Path) -> list[str]:
    try:
        marks = json.loads(_bytes(home, MARKER, _MARKER_LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except ValueError:
        marks = None
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        raise InvalidRequest(f"{MARKER} is damaged", hint="remove it; the memory files are then imported again")
    return marks


def _remember(home: Path, marks: list[str], without: Collection[str] = ()) -> None:
    try:
        with _writing:
            before = [mark for mark in _marks(home) if mark not in marks and mark not in without]
            data = json.dumps([*before, *marks][-_REMEMBERED:], separators=(",", ":"))
            write_file(home / MARKER, data.encode(), new=False)
    except OSError as error:
        raise StoreUnavailable(
            f"{MARKER} cannot be written: {error.strerror}",
            hint="the memory files were imported, and are again next time",
        ) from None
