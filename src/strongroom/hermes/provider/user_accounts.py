"""People with two kinds of ids: a platform's `user_id`, and a stable id beside it (`user_id_alt`).

The two kinds are never mixed: an id of one kind is never taken for an id of the other. A person with both ids is one
actor, as recorded here. So their memory stays whole if one of the ids appears, changes or vanishes. People with only a
`user_id` need no record. The rules:

- A person who is first met with both ids is the actor of the `user_id`, if no other stable id has that actor already.
- A stable id stays with its actor. A `user_id` follows the stable id with which it was last seen, because numbers are
  reused.
- Until version 0.1 a stable id itself was an actor's name. If such an actor has lines, the stable id keeps that actor
  (`old`), except if a `user_id` with the same name was seen since.

The platform vouches for the ids; they are not checked here. The record holds ids and no texts, in a file of mode 0600.
Thread-safe; several processes share it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from strongroom.errors import KeyUnavailable
from strongroom.private_files import make_directory, read_file, write_file

FILE = "accounts.json"
ID_KEY = "ids.key"
"""The file with the key for line ids, in the same directory. If it exists without a record, version 0.1 made it."""
ALT = "alt"
"""The word before a stable id, in an actor (`.../signal/alt/ID`) and in the owner's policy (`signal:alt:ID`)."""
_ID, _OLD, _OWN = "id", "old", "own"
_LIMIT = 64 << 20
_Names = dict[str, str]
"""The accounts of one platform. Maps `id X` or `alt X` to the name under which that account's memory is stored."""


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    before: bool = False
    """Whether version 0.1 stored turns in this home."""
    platforms: dict[str, _Names] = {}


HasLines = Callable[[str, str], bool | None]
"""Whether an actor of a platform has lines, by its name in version 0.1. None if this cannot be found out now."""


class Accounts:
    """The recorded accounts of one home. Without a `directory`, nothing is recorded."""

    def __init__(self, directory: Path | None = None, has_lines: HasLines = lambda *_: None) -> None:
        self._path = directory / FILE if directory is not None else None
        self._has_lines = has_lines
        self._guard = threading.RLock()
        self._seen = (0, 0, 0)
        self._record = _Record()

    def begin(self) -> None:
        """Create the record of a home in which nothing was stored before."""
        if self._path is not None and not self._path.exists():
            with self._changing(self._path) as record:
                record.before = False

    def person(self, platform: str, user_id: str, alt: str) -> tuple[str, ...]:
        """The end of the actor's name for an account, recorded if it is new. Empty if the account has no ids."""
        if not (user_id or alt):
            return ()
        with self._guard:
            record = self._read()
            names = record.platforms.get(platform, {})
            is_old = self._is_old(record, platform, user_id, alt)
            if is_old is None:
                return _path(_key(_OLD, alt))  # decided and recorded another time
            name, facts = _resolve(names, user_id, alt, is_old=is_old, notes_all=record.before)
            if self._path is not None and any(names.get(key) != value for key, value in facts.items()):
                with self._changing(self._path) as record:
                    record.platforms.setdefault(platform, {}).update(facts)
            return _path(name)

    def named(self, platform: str, person: tuple[str, ...], alt: str) -> tuple[str, ...]:
        """The accounts of one person, as the policy writes them but without the `platform:` prefix."""
        if not person:
            return ()
        record = self._read()
        names = record.platforms.get(platform, {})
        plain = (alt,) if alt and record.before and _key(_ID, alt) not in names else ()  # 0.1 knew no kinds
        return (*plain, *(one for key, name in names.items() if _path(name) == person for one in _written(key)))

    def _is_old(self, record: _Record, platform: str, user_id: str, alt: str) -> bool | None:
        """Whether an unrecorded stable id has an actor of version 0.1. None if this cannot be found out now."""
        names = record.platforms.get(platform, {})
        if not (record.before and alt) or _key(ALT, alt) in names or (alt != user_id and _key(_ID, alt) in names):
            return False
        return self._has_lines(platform, alt)

    def _read(self) -> _Record:
        if self._path is None:
            return self._record
        with self._guard:
            try:
                found = os.stat(self._path)
                seen = (found.st_ino, found.st_mtime_ns, found.st_size)
                if seen != self._seen:
                    self._record = msgspec.json.decode(read_file(self._path, _LIMIT), type=_Record)
                    self._seen = seen
            except FileNotFoundError:
                self._record = _Record(before=self._path.with_name(ID_KEY).exists())
            except OSError as error:
                raise KeyUnavailable(f"cannot read the file {self._path}: {error.strerror}") from None
            except msgspec.DecodeError:
                raise KeyUnavailable(
                    f"the file {self._path} is damaged",
                    hint="restore the file from a backup; without it, a person with two kinds of ids counts as two",
                ) from None
            return self._record

    @contextmanager
    def _changing(self, path: Path) -> Iterator[_Record]:
        """Yield the current record to be changed, under a lock, and write it afterwards."""
        try:
            make_directory(path.parent)
            # A lock file of its own: the record is replaced by a rename, and its lock would go with the old file.
            with open(path.with_name(f".{FILE}.lock"), "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                record = msgspec.convert(msgspec.to_builtins(self._read()), _Record)
                yield record
                write_file(path, msgspec.json.encode(record), new=False)
        except OSError as error:
            raise KeyUnavailable(f"cannot write the file {path}: {error.strerror}") from None


UNRECORDED = Accounts()
"""Accounts that record nothing, for callers that only look up names."""


def names_of(user_id: str, alt: str) -> tuple[str, ...]:
    """An account's ids as the owner's policy writes them. A `user_id` that looks like a stable id is left out."""
    plain = "" if user_id.startswith(f"{ALT}:") else user_id
    return tuple(filter(None, (plain, f"{ALT}:{alt}" if alt else "")))


def _resolve(names: _Names, user_id: str, alt: str, *, is_old: bool, notes_all: bool) -> tuple[str, _Names]:
    """Find the name of an account's memory, and the facts to record about the account."""
    mine, theirs = _key(ALT, alt), _key(_ID, user_id)
    usual = _key(_OWN, user_id) if _key(_OLD, user_id) in names.values() else theirs
    if not alt:
        name = names.get(theirs, usual)
        return name, {theirs: name} if notes_all else {}
    known = names.get(mine)
    if known is None and is_old:
        known = theirs if alt == user_id else _key(_OLD, alt)
    if known is None:
        known = usual if user_id and names.get(theirs, usual) == usual and not _is_held(names, usual) else mine
    facts = {mine: known}
    if user_id and names.get(theirs, usual) != known:
        facts[theirs] = known
    return known, facts


def _is_held(names: _Names, name: str) -> bool:
    """Whether an actor belongs to a stable id. The actor then stays with that person, whoever has the `user_id` now."""
    return any(held == name and key.startswith(f"{ALT} ") for key, held in names.items())


def _key(kind: str, one: str) -> str:
    return f"{kind} {one}"


def _path(name: str) -> tuple[str, ...]:
    kind, _, one = name.partition(" ")
    return {_ID: (one,), _OLD: (one,), ALT: (ALT, one), _OWN: (_ID, one)}[kind]


def _written(key: str) -> tuple[str, ...]:
    kind, _, one = key.partition(" ")
    return names_of(one, "") if kind == _ID else names_of("", one)
