"""A write-ahead journal of turns that wait for a provider. It is sealed, and a crash cannot lose a turn.

A turn is on disk before the turn's thread goes on, and stays in the journal until the provider has taken it. The next
host finds the turns that a killed process or a hanging provider left, and hands them over (`left_behind`). Delivery is
therefore at least once.

Each host writes a file of its own and holds a lock on it while the host runs. So a file without a lock was left behind.
The key is stored in another directory. A turn is marked as taken without waiting for the disk: a lost mark means one
more delivery.

`record_format` is the format, `journal_files` has the locks. This module knows neither the meaning of a turn nor the
providers. It shares no code with the provider's spool (`hermes/provider/offline_spool`). The spool keeps each turn in a
file of its own that only the vault can open; this journal appends to one file per host and reads it back.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from strongroom.crypto import chunked_aead
from strongroom.errors import JournalUnavailable, KeyUnavailable
from strongroom.host.turn_journal.journal_files import DRAFT, SUFFIX, create_locked, create_locked_draft, write_whole
from strongroom.host.turn_journal.record_format import Record, TakenTurn, Turn, frame, turn_name
from strongroom.keys.sources import read_secret
from strongroom.private_files import make_directory, sync_data, sync_directory, write_file

_KEY = "journal.key"
_SHRINK_BYTES = 1024 * 1024


class Journal:
    """The journal file of one host. Every method may be called from any thread."""

    def __init__(self, directory: Path, key: bytes, run: str, most: int) -> None:
        self._key = key
        self._run = run
        self._most = most
        self._path = directory / (run + SUFFIX)
        self._file = create_locked(self._path)
        self._torn = False
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._number = 0
        self._written = 0
        self._synced = 0
        self._lost = 0
        """Number of the last write that a failed sync covered. Turns up to it that are still needed must be written
        anew.
        """
        self._size = 0
        self._places: dict[int, tuple[int, int]] = {}
        """For each turn that the provider has not taken: the place and the length of its frame in the file."""
        self._needed = 0
        """The total length of the frames in `_places`."""

    def __len__(self) -> int:
        return len(self._places)

    def append(self, turn: Turn) -> int:
        """Append a turn and return its number once it is on disk. Concurrent callers share one sync (group commit)."""
        with self._writing:
            number = self._write(turn)
            mine = self._written
        try:
            with self._syncing:
                if self._synced < mine:  # otherwise the sync of another thread covered this write
                    self._sync(mine)
        except JournalUnavailable:
            self.taken(number)  # a turn reported as not stored must not be recovered later
            raise
        return number

    def taken(self, number: int) -> None:
        """Mark a turn as taken. Frames that are no longer needed are dropped now and then."""
        with self._writing:
            if self._file < 0 or number not in self._places:
                return
            self._needed -= self._places.pop(number)[1]
            with suppress(JournalUnavailable):  # a lost mark costs one more delivery
                self._write(TakenTurn(number))
            with suppress(JournalUnavailable):
                if self._size > max(_SHRINK_BYTES, 4 * self._needed):
                    self._shrink()

    def name_of(self, number: int) -> str:
        """The name of a turn. It stays the same if the turn is delivered again."""
        return turn_name(self._run, number)

    def forked(self) -> None:
        """Close the file in a forked child process: the lock and the numbers belong to the parent."""
        self._writing, self._syncing = threading.Lock(), threading.Lock()  # fork: another thread may hold these
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def close(self) -> None:
        """Close the file, and remove it if no turn is left in it. Idempotent."""
        with self._writing, self._syncing:
            if self._file < 0:
                return
            if not self._places:
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def _write(self, record: Record) -> int:
        if self._file < 0:
            raise JournalUnavailable("the journal of waiting turns is closed")
        self._number += 1
        framed = frame(self._key, self._run, self._number, record)
        if self._size + len(framed) > self._most:
            self._make_room(len(framed))
        elif self._lost > self._synced:
            self._shrink()
        try:
            if self._torn:  # half a frame would hide those after it
                os.ftruncate(self._file, self._size)
            self._torn = True
            write_whole(self._file, framed)
            self._torn = False
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise self._unwritable(error) from None
        if isinstance(record, Turn):
            self._places[self._number] = (self._size, len(framed))
            self._needed += len(framed)
        self._size += len(framed)
        self._written += 1
        return self._number

    def _sync(self, mine: int) -> None:
        if mine <= self._lost:
            raise JournalUnavailable(f"cannot write the journal {self._path}: the disk did not store the turn")
        upto = self._written
        try:
            sync_data(self._file)
        except OSError as error:
            # The kernel reports a page that it could not write once, then drops it, so no later sync covers it.
            self._lost = self._written
            raise self._unwritable(error) from None
        self._synced = upto

    def _make_room(self, length: int) -> None:
        if self._needed + length > self._most:
            raise JournalUnavailable(
                "the journal of waiting turns is full",
                hint="the provider does not accept turns; the runtime's log shows why",
            )
        self._shrink()

    def _shrink(self) -> None:
        """Copy the frames that are still needed into a new file, and rename the new file over this one."""
        file = create_locked_draft(self._path)
        try:
            places = self._copied_to(file)
            self._path.with_suffix(DRAFT).rename(self._path)
        except OSError as error:
            os.close(file)
            raise self._unwritable(error) from None
        with self._syncing:  # no other thread may be syncing the file that is closed
            os.close(self._file)
            self._file, self._places, self._synced, self._torn = file, places, self._written, False
            self._size = self._needed
        try:
            sync_directory(self._path.parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def _copied_to(self, file: int) -> dict[int, tuple[int, int]]:
        places: dict[int, tuple[int, int]] = {}
        size = 0
        for number, (place, length) in self._places.items():
            write_whole(file, os.pread(self._file, length, place))
            places[number] = (size, length)
            size += length
        os.fsync(file)  # before the rename: the name must never stand for a part of the turns
        return places

    def _unwritable(self, error: OSError) -> JournalUnavailable:
        return JournalUnavailable(f"cannot write the journal {self._path}: {error.strerror}")


def open_key(directory: Path, journals: Path, random: bytes) -> bytes:
    """Read the journals' key, or make it from `random`. Raises KeyUnavailable if journals exist without their key."""
    path = directory / _KEY
    if not path.exists():
        if any(journals.glob("*" + SUFFIX)) and not path.exists():  # another host may make both
            raise KeyUnavailable(
                f"the key {path} is missing, and {journals} holds turns that were sealed with it",
                hint="restore the key; or remove the journals, and lose their turns",
            )
        make_directory(directory)
        with suppress(FileExistsError):  # another host was first
            write_file(path, random, new=True)
    key = read_secret(path)
    if len(key) != chunked_aead.KEY_SIZE:
        raise KeyUnavailable(f"the key file {path} is damaged", hint="restore the file from a backup")
    return key
