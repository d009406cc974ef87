"""Journals that dead hosts left behind: found, locked, read, and removed after their turns were handed over."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from strongroom.errors import Tampered
from strongroom.host.turn_journal.journal_files import DRAFT, SUFFIX, log, open_locked, read_whole, write_whole
from strongroom.host.turn_journal.record_format import Record, TakenTurn, Turn, frame, frames, turn_name
from strongroom.private_files import write_file

_DAMAGED = ".damaged"
_OLD_DRAFT = 3600.0


class Remains:
    """The journal of a dead host, with its turns in order. It is locked until `finish`."""

    def __init__(self, path: Path, file: int, key: bytes) -> None:
        self.path = path
        self._file = file
        self._key = key
        self._run = path.name.removesuffix(SUFFIX)
        self._last = 0
        self.turns: dict[int, Turn] = {}
        """The turns that no provider has taken, by number."""
        self.damage: Tampered | None = None
        """Why a part of the file cannot be read. The rest of the file is good. None if all of it can be read."""
        self._fixed = False
        """True if the file must not be changed, because it is damaged and could not be copied."""
        self._spoilt = False
        """True if the file has records that do not open. Then it is renamed at the end, and not removed."""
        self._read()

    def name_of(self, number: int) -> str:
        """The name of a turn. It stays the same if the turn is delivered again."""
        return turn_name(self._run, number)

    def taken(self, number: int) -> None:
        """Mark a turn as taken."""
        self.turns.pop(number, None)
        self._last += 1
        if self._fixed:
            return
        with suppress(OSError):
            write_whole(self._file, frame(self._key, self._run, self._last, TakenTurn(number)))

    def finish(self) -> None:
        """Close the file, and remove it if all its turns were taken."""
        try:
            if not self.turns and self._spoilt:
                self.path.rename(_aside(self.path))
            elif not self.turns and not self._fixed:
                self.path.unlink(missing_ok=True)
                self.path.with_suffix(DRAFT).unlink(missing_ok=True)
        except OSError as error:
            log.error("the journal %s cannot be removed: %s", self.path.name, error.strerror)
        finally:
            os.close(self._file)

    def _read(self) -> None:
        end = 0
        try:
            for number, record, place in frames(read_whole(self._file), self._key, self._run):
                self._last, end = number, place
                self._take(number, record)
        except Tampered as error:
            self.damage = error
            self._fixed = not _copied(self.path)
        if not self._fixed:
            os.ftruncate(self._file, end)  # a frame that is cut short was never acknowledged

    def _take(self, number: int, record: Record | Tampered) -> None:
        if isinstance(record, Turn):
            self.turns[number] = record
        elif isinstance(record, TakenTurn):
            self.turns.pop(record.number, None)
        else:
            self.damage, self._spoilt = record, True


@contextmanager
def find_left_behind(directory: Path, key: bytes) -> Iterator[list[Remains]]:
    """The journals of dead hosts, oldest first. On exit, a journal is removed if all its turns were taken."""
    found: list[Remains] = []
    try:
        for draft in directory.glob("*" + DRAFT):
            _remove_left(draft)
        paths = sorted(directory.glob("*" + SUFFIX))
        found += filter(None, (_remains(path, key) for path in paths))
        yield found
    finally:
        for one in found:
            one.finish()


def _remains(path: Path, key: bytes) -> Remains | None:
    """The content of a file that no process holds, or None. A file that cannot be read does not stop the reading of
    other files.
    """
    file = open_locked(path)
    if file is None:
        return None
    try:
        return Remains(path, file, key)
    except OSError as error:
        os.close(file)
        log.error("the journal %s cannot be read: %s", path.name, error.strerror)
        return None


def _remove_left(draft: Path) -> None:
    """Remove an old draft whose host was killed while it made a journal. A new draft may be in use."""
    file = open_locked(draft)
    if file is not None:
        with suppress(OSError):
            if time.time() - os.fstat(file).st_mtime > _OLD_DRAFT:
                draft.unlink(missing_ok=True)
        os.close(file)


def _copied(path: Path) -> bool:
    """Copy a damaged file to another name, for people to look at. Returns True if that worked."""
    try:
        write_file(_aside(path), path.read_bytes(), new=True)
    except OSError as error:
        log.error("the damaged journal %s cannot be set aside: %s", path.name, error.strerror)
        return False
    return True


def _aside(path: Path) -> Path:
    """A free name for a damaged file that is copied or renamed."""
    names = (path.with_suffix(f"{_DAMAGED}{number or ''}") for number in count())
    return next(name for name in names if not name.exists())
