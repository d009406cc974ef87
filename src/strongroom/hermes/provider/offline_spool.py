"""The turns that could not be stored yet. Each turn has a file, sealed to the vault's inbox key.

A file has a short head, which names the actor whose cap delivers it, and a sealed bundle, which no code here can open.
Files are delivered in order. There are three kinds:

- `.turn`: a complete turn that the vault did not take, because it was out of reach or refused the cap.
- `.forget`: ids of lines and names of turns that were undone while the vault was out of reach. It has no text.
- `.draft`: a person's text in a turn under way. The draft is removed when the turn is stored or given up. If the
  process dies, the draft becomes a `.turn`: the reply may have been seen, so the question must not be lost.

A `process_mark` shows that a process is alive. The spool has a size limit. A full spool refuses new turns and keeps the
older ones. Files have mode 0600. Thread-safe; several processes share a spool.

The spool shares no code with the host's journal (`host/turn_journal`). The journal is one file, which its host locks
and can open with a key. The spool has a file for each turn, which nobody here can open.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path

import msgspec
from ulid import ULID

from strongroom.crypto.inbox import SEALED_LIMIT
from strongroom.errors import StoreUnavailable
from strongroom.hermes.provider.process_mark import ALIVE, ProcessMark, lock
from strongroom.model import Actor, Millis
from strongroom.private_files import make_directory, open_file, write_file

FILES_LIMIT = 20_000
_TURN, _DRAFT, _FORGET = ".turn", ".draft", ".forget"
_UNFINISHED = re.compile(r"\..*\.(?:turn|forget)-")
_REFUSED, _DAMAGED = ".refused", ".damaged"
_MAKE_ROOM = (
    "`hermes strongroom status` says why turns wait, and with which command they are delivered; keep.spool_bytes in "
    "strongroom.toml makes the spool larger"
)
_FILE_LIMIT = SEALED_LIMIT + 64 * 1024


class _Head(msgspec.Struct, frozen=True, omit_defaults=True):
    actor: str
    v: int = 1
    ids: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many turns wait in a spool, and how many bytes they take."""

    turns: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SpooledTurn:
    """A waiting entry and its actor. The entry is a sealed turn, or a list of lines and turns to forget."""

    path: Path
    actor: Actor
    sealed: bytes
    ids: tuple[str, ...] = ()
    turns: tuple[str, ...] = ()


class DeliveryResult(Enum):
    """The result of delivering one entry."""

    DONE = "done"
    REFUSED = "refused"
    """The vault will never accept this turn, so the turn is set aside."""
    GONE = "gone"
    """The turn's actor was erased, so the turn is removed too."""
    LATER = "later"
    """This turn and later turns of its actor have to wait."""
    STOP = "stop"
    """No turn can be delivered now."""


class Spool:
    """The spool of one home: a directory of waiting turns."""

    def __init__(self, directory: Path, most: int) -> None:
        self.directory = directory
        self.most = most
        self.process = ProcessMark(directory)
        self.may_wait = True
        """Whether entries may be waiting. If false, only another process may have added entries since."""

    # Storing.

    def add(self, actor: Actor, sealed: bytes, now: Millis) -> Path:
        """Store a turn durably until it can be delivered. Returns its path. Raises StoreUnavailable if the spool is
        full.
        """
        waiting = self.waiting()
        if waiting.bytes + len(sealed) > self.most or waiting.turns >= FILES_LIMIT:
            raise StoreUnavailable(
                f"the spool is full: {waiting.turns} turns in {waiting.bytes} bytes wait",
                hint=_MAKE_ROOM,
            )
        path = self._name(now, _TURN)
        self._write(path, _framed(actor, sealed))
        return path

    def add_forgetting(self, actor: Actor, ids: Iterable[str], now: Millis, turns: Iterable[str] = ()) -> None:
        """Store ids of lines and names of turns that are to be forgotten later."""
        self._write(self._name(now, _FORGET), _framed(actor, b"", ids, turns))

    def draft(self, actor: Actor, sealed: bytes, now: Millis, old: Path | None = None) -> Path:
        """Store the person's text of a turn under way, in place of the draft `old`. The draft stays until `drop`
        removes it.

        If the process ends first, another process adopts the draft.
        """
        try:
            self.process.show()
        except OSError as error:
            raise StoreUnavailable(f"the spool cannot be written: {error.strerror}") from None
        path = self._name(now, _DRAFT)
        try:
            # Not synced: it only has to outlive the process. A turn is synced once it is told.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(_framed(actor, sealed))
            return path.replace(old) if old else path
        except OSError as error:
            self.drop(path)  # half a file is useless, and takes room on a full disk
            raise StoreUnavailable(f"the spool cannot be written: {error.strerror}") from None

    def promote(self, draft: Path) -> Path:
        """Make a draft into a waiting turn. Returns its new path."""
        try:
            turn = draft.rename(draft.with_suffix(_TURN))
            self.may_wait = True
            return turn
        except OSError:
            return draft

    def drop(self, path: Path) -> None:
        """Remove a draft, or a turn that was delivered."""
        with suppress(OSError):
            os.unlink(path)

    def set_aside(self, entry: SpooledTurn) -> None:
        """Set aside a turn that the vault will never accept. The file stays for people to find."""
        with suppress(OSError):
            entry.path.rename(entry.path.with_suffix(_REFUSED))

    def take_up(self) -> None:
        """Put the turns that were set aside back into the queue."""
        for refused in self._files(_REFUSED):
            with suppress(OSError):
                refused.rename(refused.with_suffix(_TURN))
                self.may_wait = True

    # Delivering.

    def entries(self) -> Iterator[SpooledTurn]:
        """The waiting entries, the oldest first.

        The order of entries matters, so an entry that cannot be read now raises StoreUnavailable.
        """
        for path in sorted((*self._files(_TURN), *self._files(_FORGET))):
            try:
                entry = _read(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StoreUnavailable(f"the file {path.name} in the spool cannot be read: {error.strerror}") from None
            if entry is not None:
                yield entry

    def waiting(self) -> Waiting:
        self.may_wait = False  # before reading, so that an entry added meanwhile sets it again
        sizes = [_size(self.directory / name) for name in self._names() if name.endswith((_TURN, _FORGET))]
        if sizes:
            self.may_wait = True
        return Waiting(len(sizes), sum(sizes))

    def aside(self) -> int:
        """The number of turns that are set aside: the vault refused them, or their files are damaged."""
        return len(self._files(_REFUSED)) + len(self._files(_DAMAGED))

    def adopt(self) -> int:
        """Make the drafts of dead processes into waiting turns. Returns the number of drafts."""
        adopted = 0
        for draft in self._files(_DRAFT):
            run = draft.name.rpartition("-")[2].removesuffix(_DRAFT)
            if run != self.process.run and self.process.is_dead(run):
                self.promote(draft)
                adopted += 1
        self._tidy()
        return adopted

    def _tidy(self) -> None:
        """Remove half-written files of dead processes, and then their `.alive` files."""
        for unfinished in self._unfinished():
            run = unfinished.name.partition("-")[2].partition(".")[0]
            if run and run != self.process.run and self.process.is_dead(run):
                self.drop(unfinished)
        for alive in self._files(ALIVE):
            run = alive.name.removesuffix(ALIVE)
            if run != self.process.run:
                self.process.is_dead(run, remove=True)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Take the lock for delivering. Yields whether this process has the lock: two processes would deliver turns
        twice.
        """
        try:
            make_directory(self.directory)
            handle = os.open(self.directory / ".delivering", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            yield False
            return
        try:
            yield lock(handle)
        finally:
            os.close(handle)

    def _unfinished(self) -> list[Path]:
        return [self.directory / name for name in self._names() if _UNFINISHED.match(name)]

    def _files(self, suffix: str) -> list[Path]:
        return [self.directory / name for name in sorted(self._names()) if name.endswith(suffix)]

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)
        except FileNotFoundError:
            return []
        except OSError:
            self.may_wait = True  # unknown
            return []

    def _name(self, now: Millis, suffix: str) -> Path:
        value = now << 80 | int.from_bytes(os.urandom(10), "big")
        return self.directory / f"{ULID.from_int(value)}-{self.process.run}{suffix}"

    def _write(self, path: Path, data: bytes) -> None:
        try:
            make_directory(self.directory)
            write_file(path, data, new=True)
            self.may_wait = True
        except OSError as error:
            raise StoreUnavailable(
                f"the spool cannot be written: {error.strerror}", hint="free space on the spool's disk (see `df`)"
            ) from None


def deliver_waiting(spool: Spool, deliver: Callable[[SpooledTurn], DeliveryResult], most: int | None = None) -> int:
    """Deliver the waiting entries in order. Returns the number of delivered entries.

    If an entry of one actor has to wait, the entries of other actors are still delivered.
    """
    done = 0
    held: set[Actor] = set()
    with spool.alone() as is_alone:
        for entry in islice(spool.entries(), most) if is_alone else ():
            outcome = DeliveryResult.LATER if entry.actor in held else deliver(entry)
            if outcome is DeliveryResult.STOP:
                break
            if outcome is DeliveryResult.LATER:
                held.add(entry.actor)
                continue
            if outcome is DeliveryResult.REFUSED:
                spool.set_aside(entry)
            spool.drop(entry.path)
            done += outcome is DeliveryResult.DONE
    return done


def _framed(actor: Actor, sealed: bytes, ids: Iterable[str] = (), turns: Iterable[str] = ()) -> bytes:
    return msgspec.json.encode(_Head(actor, ids=tuple(ids), turns=tuple(turns))) + b"\n" + sealed


def _read(path: Path) -> SpooledTurn | None:
    """Read the entry in a file. None if the file is foreign or damaged; the file is then set aside."""
    try:
        with open_file(path, follow=False) as file:
            data = file.read(_FILE_LIMIT + 1)
        head, _, sealed = data.partition(b"\n")
        found = msgspec.json.decode(head, type=_Head)
        if len(data) <= _FILE_LIMIT:
            return SpooledTurn(path, Actor(found.actor), sealed, found.ids, found.turns)
    except msgspec.DecodeError:
        pass
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL, errno.ENXIO):  # a link, or not a regular file
            raise
    path.rename(path.with_suffix(_DAMAGED))
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
