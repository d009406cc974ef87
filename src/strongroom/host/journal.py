"""The journal: turns on their way to a provider, sealed, so that none is lost between a reply and its keeping.

A turn is appended and on disk before the turn's thread goes on, and stays until the provider has taken it. What a
process leaves behind, because it was killed or the provider hung, the next host finds and hands over (`left_behind`).
A turn can therefore reach a provider twice, never not at all.

Each host writes a file of its own and holds a lock on it while it lives, so a file without a lock is left behind. A
file is a row of frames: length, number, a checksum of the two, and the record sealed for its file and number
(docs/spec/journal.md). The key is kept elsewhere. Turns that were taken are marked so, without waiting for the disk: a
mark that is lost means once more, not never. Not responsible for what a turn means, or for asking providers.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from struct import Struct
from typing import Any, TypeAlias

import msgspec

from strongroom import cobblestone
from strongroom.errors import JournalUnavailable, KeyUnavailable, Tampered
from strongroom.files import make_directory, sync_directory, write_file
from strongroom.keys.sources import read_secret

log = logging.getLogger("strongroom.host")

_FORMAT = "strongroom/journal/v1"
_PLACE = Struct(">IQ")
_CHECK = Struct(">I")
_HEAD = _PLACE.size + _CHECK.size
_SUFFIX = ".journal"
_DRAFT = ".draft"
_DAMAGED = ".damaged"
_KEY = "journal.key"
_SHRINK_BYTES = 1024 * 1024


class Turn(msgspec.Struct, frozen=True, tag="turn"):
    """One turn, with all that is needed to hand it over in another process."""

    provider: str
    session: str
    """The session id that the agent began with."""
    told: Mapping[str, Any]
    """What else `initialize` was told, without callbacks."""
    user: str
    assistant: str
    current: str
    """The session id of the turn."""
    messages: bytes | None = None
    """The messages of this turn, where the runtime gave any: MessagePack by itself, since it may nest deeply."""


class Taken(msgspec.Struct, frozen=True, tag="taken"):
    """The turn with this number is the provider's now."""

    number: int


Record: TypeAlias = Turn | Taken

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Turn | Taken).decode


class Journal:
    """The file of one host. Every method may be called from any thread."""

    def __init__(self, directory: Path, key: bytes, run: str, most: int) -> None:
        self._key = key
        self._run = run
        self._most = most
        self._path = directory / (run + _SUFFIX)
        self._file = _locked_new(self._path)
        self._torn = False
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._number = 0
        self._written = 0
        self._synced = 0
        self._size = 0
        self._places: dict[int, tuple[int, int]] = {}
        """Where the frames of turns are that nobody has taken yet."""
        self._needed = 0
        """How many bytes those are."""

    def __len__(self) -> int:
        return len(self._places)

    def append(self, turn: Turn) -> int:
        """Keep a turn and return its number, once it is on disk. Turns of several threads share one sync."""
        with self._writing:
            number = self._write(turn)
            mine = self._written
        try:
            with self._syncing:
                if self._synced < mine:  # else somebody who waited before us has written ours too
                    self._sync()
        except JournalUnavailable:
            self.taken(number)  # who is told that it is not kept must not find it kept
            raise
        return number

    def taken(self, number: int) -> None:
        """Note that a turn has arrived. Frames that nobody needs any more are dropped now and then."""
        with self._writing:
            if self._file < 0 or number not in self._places:
                return
            self._needed -= self._places.pop(number)[1]
            with suppress(JournalUnavailable):  # the turn will be handed over once more, that is all
                self._write(Taken(number))
            with suppress(JournalUnavailable):
                if self._size > max(_SHRINK_BYTES, 4 * self._needed):
                    self._shrink()

    def close(self) -> None:
        """Let go of the file, and remove it if no turn is left in it. Idempotent."""
        with self._writing, self._syncing:
            if self._file < 0:
                return
            if not self._places:
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def _write(self, record: Record) -> int:
        if self._file < 0:
            raise JournalUnavailable("the journal is closed")
        self._number += 1
        frame = _frame(self._key, self._run, self._number, record)
        if self._size + len(frame) > self._most:
            self._make_room(len(frame))
        try:
            if self._torn:  # half a frame would hide those after it
                os.ftruncate(self._file, self._size)
            self._torn = True
            _write_whole(self._file, frame)
            self._torn = False
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise self._unwritable(error) from None
        if isinstance(record, Turn):
            self._places[self._number] = (self._size, len(frame))
            self._needed += len(frame)
        self._size += len(frame)
        self._written += 1
        return self._number

    def _sync(self) -> None:
        upto = self._written
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise self._unwritable(error) from None
        self._synced = upto

    def _make_room(self, length: int) -> None:
        if self._needed + length > self._most:
            raise JournalUnavailable(
                "the journal is full", hint="the provider takes no turns; see the log for what it answers"
            )
        self._shrink()

    def _shrink(self) -> None:
        """Keep only the frames that are still needed, in a new file that takes the place of this one."""
        file = _locked_draft(self._path)
        try:
            places = self._copied_to(file)
            self._path.with_suffix(_DRAFT).rename(self._path)
        except OSError as error:
            os.close(file)
            raise self._unwritable(error) from None
        with self._syncing:
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
            _write_whole(file, os.pread(self._file, length, place))
            places[number] = (size, length)
            size += length
        os.fsync(file)
        return places

    def _unwritable(self, error: OSError) -> JournalUnavailable:
        return JournalUnavailable(f"cannot write the journal {self._path}: {error.strerror}")


class Remains:
    """What another host, which is no more, has left: its turns in order. Held by a lock until it is let go."""

    def __init__(self, path: Path, file: int, key: bytes) -> None:
        self.path = path
        self._file = file
        self._key = key
        self._run = path.name.removesuffix(_SUFFIX)
        self._last = 0
        self.turns: dict[int, Turn] = {}
        """Turns that nobody has taken, by number."""
        self.damage: Tampered | None = None
        """Why a part of the file cannot be read. The rest is good."""
        self._fixed = False
        """Whether the file must stay as it is: it is damaged, and no copy of it could be made."""
        self._spoilt = False
        """Whether there are records in it that do not open: then it is set aside, not removed."""
        self._read()

    def taken(self, number: int) -> None:
        """Note that a turn has arrived."""
        self.turns.pop(number, None)
        self._last += 1
        if self._fixed:
            return
        with suppress(OSError):
            _write_whole(self._file, _frame(self._key, self._run, self._last, Taken(number)))

    def finish(self) -> None:
        """Remove the file if all its turns were taken."""
        try:
            if not self.turns and self._spoilt:
                self.path.rename(_aside(self.path))
            elif not self.turns and not self._fixed:
                self.path.unlink(missing_ok=True)
                self.path.with_suffix(_DRAFT).unlink(missing_ok=True)
        except OSError as error:
            log.error("the journal %s cannot be removed: %s", self.path.name, error.strerror)
        finally:
            os.close(self._file)

    def _read(self) -> None:
        end = 0
        try:
            for number, record, place in _frames(self._file, self._key, self._run):
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
        elif isinstance(record, Taken):
            self.turns.pop(record.number, None)
        else:
            self.damage, self._spoilt = record, True


def packed(messages: list[Any] | None, most: int) -> bytes | None:
    """Messages as they can be written down; None if that cannot be done, or they are too long: a turn goes without."""
    if messages is None:
        return None
    try:
        data = msgspec.msgpack.encode(messages)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
    return data if len(data) <= most else None


def unpacked(data: bytes | None) -> list[Any] | None:
    """The messages again."""
    try:
        return None if data is None else list(msgspec.msgpack.decode(data))
    except (TypeError, RecursionError, msgspec.MsgspecError):
        return None


def open_key(directory: Path, journals: Path, random: bytes) -> bytes:
    """The key of the journals, made of `random` where there is none and nothing that was sealed with one."""
    path = directory / _KEY
    if not path.exists():
        if any(journals.glob("*" + _SUFFIX)) and not path.exists():  # another host may just have made both
            raise KeyUnavailable(
                f"the key {path} is missing, and {journals} holds turns that were sealed with it",
                hint="restore the key, or remove the journals to give those turns up",
            )
        make_directory(directory)
        with suppress(FileExistsError):  # another host was first
            write_file(path, random, new=True)
    key = read_secret(path)
    if len(key) != cobblestone.KEY_SIZE:
        raise KeyUnavailable(f"the key file {path} is damaged", hint="restore it from a backup")
    return key


@contextmanager
def left_behind(directory: Path, key: bytes) -> Iterator[list[Remains]]:
    """The journals of hosts that are gone, oldest first. Those whose turns were all taken meanwhile are removed."""
    found: list[Remains] = []
    try:
        paths = sorted(directory.glob("*" + _SUFFIX))
        found += filter(None, (_remains(path, key) for path in paths))
        yield found
    finally:
        for one in found:
            one.finish()


def _remains(path: Path, key: bytes) -> Remains | None:
    """What is in a file that nobody holds. One that cannot be read does not hold up those beside it."""
    file = _locked_old(path)
    if file is None:
        return None
    try:
        return Remains(path, file, key)
    except OSError as error:
        os.close(file)
        log.error("the journal %s cannot be read: %s", path.name, error.strerror)
        return None


def _frame(key: bytes, run: str, number: int, record: Record) -> bytes:
    sealed = cobblestone.seal(key, _encode(record), _context(run, number), os.urandom(cobblestone.SALT_SIZE))
    place = _PLACE.pack(len(sealed), number)
    return place + _CHECK.pack(zlib.crc32(place)) + sealed


def _frames(file: int, key: bytes, run: str) -> Iterator[tuple[int, Record | Tampered, int]]:
    """Number, record and end of each whole frame; where the record does not open, the error stands in its place.

    Bytes that a crash cut short end it. A head that is damaged raises Tampered: nobody knows where the next one is.
    """
    data = memoryview(_read_whole(file))
    place = last = 0
    while place + _HEAD <= len(data) and any(data[place:]):  # a crash of the machine can leave zeros
        length, number = _PLACE.unpack_from(data, place)
        if (
            number <= last
            or zlib.crc32(data[place : place + _PLACE.size]) != _CHECK.unpack_from(data, place + _PLACE.size)[0]
        ):
            raise Tampered("a frame is damaged")
        end = place + _HEAD + length
        if end > len(data):
            return
        record = _opened(key, bytes(data[place + _HEAD : end]), _context(run, number))
        yield number, record, end
        place, last = end, number


def _opened(key: bytes, sealed: bytes, context: bytes) -> Record | Tampered:
    try:
        record: Record = _decode(cobblestone.unseal(key, sealed, context))
        return record
    except Tampered as error:
        return error
    except (msgspec.MsgspecError, RecursionError):
        return Tampered("a record has another form")


def _context(run: str, number: int) -> bytes:
    return cobblestone.context(_FORMAT, run, number)


def _locked_new(path: Path) -> int:
    """A new file, locked before it has its name: one without a lock would be taken for left behind."""
    try:
        make_directory(path.parent)
    except OSError as error:
        raise JournalUnavailable(f"cannot make {path.parent}: {error.strerror}") from None
    file = _locked_draft(path)
    draft = path.with_suffix(_DRAFT)
    try:
        path.hardlink_to(draft)  # unlike a rename, it refuses a name that is taken
        draft.unlink()
        sync_directory(path.parent)
    except OSError as error:
        os.close(file)
        raise JournalUnavailable(f"cannot make the journal {path}: {error.strerror}") from None
    return file


def _locked_draft(path: Path) -> int:
    draft = path.with_suffix(_DRAFT)
    try:
        draft.unlink(missing_ok=True)
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    except OSError as error:
        raise JournalUnavailable(f"cannot make the journal {path}: {error.strerror}") from None


def _locked_old(path: Path) -> int | None:
    """The file if nobody holds it, and it is still the one of that name."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        log.error("the journal %s cannot be read: %s", path.name, error.strerror)
        return None
    with suppress(OSError):  # somebody holds it, or has removed it
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode) and os.stat(path).st_ino == found.st_ino:
            return file
    os.close(file)
    return None


def _copied(path: Path) -> bool:
    """Keep a copy of a damaged file for people to look at; whether that could be done."""
    try:
        write_file(_aside(path), path.read_bytes(), new=True)
    except OSError as error:
        log.error("the damaged journal %s cannot be set aside: %s", path.name, error.strerror)
        return False
    return True


def _aside(path: Path) -> Path:
    """A free name for what is set aside."""
    names = (path.with_suffix(f"{_DAMAGED}{number or ''}") for number in count())
    return next(name for name in names if not name.exists())


def _read_whole(file: int) -> bytes:
    with os.fdopen(os.dup(file), "rb") as copy:
        copy.seek(0)
        return copy.read()


def _write_whole(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
