"""Import of the agent's own memory files into a new provider: MEMORY.md, USER.md and SOUL.md.

Under the strategy per-session, nothing is imported: each run would put the files into a session to which nobody
returns. Under every other strategy, a file's content is imported once for each destination (`into`), and again after
the file changed. A marker file in the home records hashes of the imported texts. The marker holds neither text nor
names, but anyone who has a text can test whether it was imported.

All files are read before the first is imported, and the marker is written after the last. So a file that is refused
changes nothing. After a crash or an error everything is imported again: `put` must be idempotent. Two processes that
begin at the same moment may both import.

The files belong to the owner. A runtime that serves several people must not import them into the sessions of other
people.
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
"""Paths of the files, relative to the home directory. The files are imported under these names."""
LIMIT = 1 << 18
"""The size of the largest file that is imported, in bytes."""
MARKER = ".memory-files-imported"
_MARKER_LIMIT = 1 << 20
_REMEMBERED = 10_000
"""The largest number of hashes in the marker; the oldest are dropped first. 10,000 hashes take 670 kB."""
_writing = threading.Lock()


def migrate_memory_files(
    home: Path, settings: SessionSettings, put: Callable[[str, str], None], *, into: str = "", before: str = ""
) -> tuple[str, ...]:
    """Import the files that are new or changed, and return their names.

    `into` is the destination: the provider and the name of its session. `before` is the `into` that an earlier version
    of the provider used for this destination. Files imported under `before` count as imported.
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
    """Remove the marker, so that all files are imported again. False if there was no marker."""
    try:
        (home / MARKER).unlink()
    except FileNotFoundError:
        return False
    return True


def _text(home: Path, name: str) -> str:
    """The text of a file. Empty if there is no such file. InvalidRequest if it is not a text file inside the home."""
    try:
        text = _bytes(home, name, LIMIT).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise _not_text(name) from None
    if "\0" in text:  # UTF-16 without a byte order mark decodes as UTF-8, full of NULs
        raise _not_text(name)
    return text


def _not_text(name: str) -> InvalidRequest:
    return InvalidRequest(f"the file {name} is not UTF-8 text", hint="save the file in UTF-8 and try again")


def _bytes(home: Path, name: str, limit: int) -> bytes:
    real = Path(os.path.realpath(home / name))
    if not real.is_relative_to(os.path.realpath(home)):
        raise InvalidRequest(
            f"the link {name} leads out of the home directory",
            hint="put the file itself into the home directory, not a link",
        )
    try:
        data = _content(real, limit)
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise InvalidRequest(
            f"the file {name} cannot be read: {error.strerror}", hint="make the file readable, or move it away"
        ) from None
    if data is None or len(data) > limit:
        raise InvalidRequest(
            f"the path {name} is not a file of at most {limit} bytes", hint="shorten the file or move it away"
        )
    return data


def _content(path: Path, limit: int) -> bytes | None:
    # O_NOFOLLOW: the file may have been replaced by a link since. O_NONBLOCK: a pipe must not block.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        with open(handle, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(handle)


def _mark(into: str, name: str, text: str) -> str:
    # The last part of the name alone: a file that moved between the listed places is still the same.
    return digest(into, name.rpartition("/")[2], text)


def _marks(home: Path) -> list[str]:
    try:
        marks = json.loads(_bytes(home, MARKER, _MARKER_LIMIT))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except ValueError:
        marks = None
    if not isinstance(marks, list) or not all(isinstance(mark, str) for mark in marks):
        raise InvalidRequest(
            f"the file {MARKER} is damaged", hint="remove the file; then the memory files are imported again"
        )
    return marks


def _remember(home: Path, marks: list[str], without: Collection[str] = ()) -> None:
    try:
        with _writing:
            before = [mark for mark in _marks(home) if mark not in marks and mark not in without]
            data = json.dumps([*before, *marks][-_REMEMBERED:], separators=(",", ":"))
            write_file(home / MARKER, data.encode(), new=False)
    except OSError as error:
        raise StoreUnavailable(
            f"the file {MARKER} cannot be written: {error.strerror}",
            hint="make the home directory writable; until then the memory files are imported again each time",
        ) from None
