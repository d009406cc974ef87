"""Moving a whole vault between a SQLite file and a bucket: the same objects under the same names, and its log.

The vault keeps its id, its keys and its caps. What is moved is verified first, compared object by object afterwards,
and becomes a vault in its new place with the very last write: whoever looks earlier finds none. Interrupted at any
point, the same call goes on. The source is only read, and must not be written to meanwhile: that is checked at the end.
What was last seen of the source still counts for it afterwards.

How each kind of target is written is `to_bucket`'s and `to_sqlite`'s.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from strongroom import engines
from strongroom.audit.log import Witness
from strongroom.audit.verifier import Progress
from strongroom.errors import InvalidRequest, StoreUnavailable, Tampered
from strongroom.memory import Replica, system_clock
from strongroom.memory.line_cache.cache import LineCache
from strongroom.store import Object, Store, backend, is_bucket, is_derived
from strongroom.store.fleet_contract import FleetStore
from strongroom.vault import create_open
from strongroom.vault.create_open import Clock, Keys, Location
from strongroom.vault.owner_audit import SeenOf

if TYPE_CHECKING:
    from strongroom.store.s3 import S3Store

OP = "migrate"
PAGE = 1000
_ENGINE = "recency"  # nothing is ranked here, so the one that loads fastest
Bars = Callable[[str], Progress]
"""A progress for each stage, by its name: what is done, and what there is to do."""


class Moved(msgspec.Struct, frozen=True):
    """A vault that was moved and compared. `already` says that all of it was there before."""

    vault: str
    source: str
    target: str
    objects: int
    entries: int
    logs: int
    already: bool = False


@dataclass(frozen=True, slots=True)
class MigrationOrigin:
    """The vault that is moved, opened for reading."""

    place: str
    state: Replica
    entries: int
    logs: int
    mark: str
    """What its logs and objects were when this began."""
    seen: SeenOf
    """What was last seen in such a place as the target is."""
    is_seen: bool
    """Whether a roll-back of the source was ruled out."""

    @property
    def store(self) -> Store:
        return self.state.store

    def pages(self) -> Iterator[list[Object]]:
        """Every object and tombstone but what can be derived, with its body, some at a time."""
        for scope in self._scopes():
            names = [one.name for one in self.state.records.names(scope) if not is_derived(one.name)]
            for at in range(0, len(names), PAGE):
                yield self._read(names[at : at + PAGE])

    def count(self) -> int:
        return sum(not is_derived(one.name) for scope in self._scopes() for one in self.state.records.names(scope))

    def _scopes(self) -> Iterator[str]:
        """Parts that are listed one by one: each actor is below two digits of its locator."""
        if isinstance(self.store, FleetStore):
            yield from self.store.scopes()
        else:
            yield from (f"actors/{number:02x}" for number in range(256))
            yield "vault/"

    def _read(self, names: list[str]) -> list[Object]:
        read = _in_bucket(self.store).reader.threads.map if self.store.is_distant else map
        found = [one for one in read(self.store.get, names) if one is not None]
        if len(found) != len(names):
            raise changed_meanwhile()
        return found

    def check_unchanged(self) -> None:
        """Raise unless the source is what it was."""
        if mark_of(self.store) != self.mark:
            raise changed_meanwhile()

    def set_aside(self) -> None:
        """Before the target is a vault: what was seen of another log in such a place is not to be held against it."""
        if (before := self.seen.read()) is not None:
            Witness(self.seen.path.with_name(f"{self.seen.path.name}.before-migrate")).keep(before)
            self.seen.clear()


def mark_of(store: Store) -> str:
    """A hash of how far a store's logs go; and of all else that is in a bucket.

    An intent may be in a log there long before its line is, and that it was carried out is said later still.
    """
    total = hashlib.sha256()
    if store.is_distant:
        bucket = _in_bucket(store).reader.bucket
        for part in ("actors/", "caps/", "logs/", "roster/", "vault/"):
            for one in bucket.list(part):
                total.update(f"{one.name} {one.etag}\n".encode())
    else:
        head = store.head()
        total.update(f"{head.size} {head.peaks.hex()} {head.time}".encode())
    return total.hexdigest()


def _in_bucket(store: Store) -> S3Store:
    from strongroom.store.s3 import S3Store  # needs the extra

    if not isinstance(store, S3Store):
        raise InvalidRequest("a vault is moved out of a path or a bucket, and of nothing else")
    return store


def changed_meanwhile() -> StoreUnavailable:
    return StoreUnavailable(
        "the source was written to while it was moved, so the target is no vault",
        hint="stop whatever uses the source, empty the target, and begin again",
    )


def migrate(
    source: Location,
    target: Location,
    *,
    keys: Keys = None,
    witness: Witness | None = None,
    archive: str | os.PathLike[str] | None = None,
    now: Clock = system_clock,
    bars: Bars = lambda _: lambda *_: None,
) -> Moved:
    """Move a vault from a path to `s3://bucket/prefix`, or back.

    Needs the keys, to verify and to sign. `archive` is where old entries of the source's log were archived to, if some
    were. VaultExists if something else is at the target; Tampered if the source has a flaw, or a comparison fails.
    """
    places = os.fspath(source), os.fspath(target)
    if is_bucket(places[0]) == is_bucket(places[1]):
        raise InvalidRequest(
            "a vault is moved between a path and a bucket", hint="`strongroom backup` copies one path to another"
        )
    with _opened(places, keys, witness, archive, bars) as origin:
        if is_bucket(places[1]):
            from strongroom.vault.migrate.to_bucket import ToBucket

            moved = ToBucket(origin, places[1], now, bars, None if archive is None else Path(archive)).run()
        else:
            from strongroom.vault.migrate.to_sqlite import ToFile

            moved = ToFile(origin, Path(places[1]), now, bars).run()
        _verify(moved, origin, bars)
    return moved


@contextmanager
def _opened(
    places: tuple[str, str],
    keys: Keys,
    witness: Witness | None,
    archive: str | os.PathLike[str] | None,
    bars: Bars,
) -> Iterator[MigrationOrigin]:
    """The source, verified."""
    place, target = places
    used, where = backend(place)
    store = used.open(where)
    try:
        vault_id = create_open._read_format(store)
        held = create_open._source(keys, vault_id)
        mark = mark_of(store)
        seen = create_open._witness(witness, held, vault_id)
        report = create_open.verify(place, keys=held, witness=seen, archive=archive, progress=bars("verifying"))
        if not report.is_sound:
            raise Tampered(f"the source has a flaw, so nothing was moved: {report.findings[0].flaw}")
        if report.doubtful:
            raise Tampered(
                "in the source, entries were begun and never said done, and their effect is not there",
                hint="`strongroom audit verify` names them, and counts them as told from then on",
            )
        state = Replica(vault_id, store, held, LineCache(engines.load(_ENGINE), 0), os.urandom)
        of_target = SeenOf(seen, is_fleet=is_bucket(target))
        yield MigrationOrigin(place, state, report.size, report.logs, mark, of_target, report.ok)
    finally:
        store.close()


def _verify(moved: Moved, origin: MigrationOrigin, bars: Bars) -> None:
    """Verify what was written, by itself; it counts as seen then, unless more was seen of it since."""
    with tempfile.TemporaryDirectory(prefix="strongroom-") as scratch:
        fresh = Witness(Path(scratch) / "checkpoint")
        with create_open.open(moved.target, keys=origin.state.source, engine=_ENGINE, witness=fresh) as vault:
            # Where nothing was seen of the source, the copy is none the more seen for having been moved.
            report = vault.audit.verify(progress=bars("verifying again"), first=origin.is_seen)
        if not report.is_sound:
            raise Tampered(f"what was moved does not verify: {report.findings[0].flaw}")
        if (new := fresh.read()) is not None and origin.seen.read() is None:
            origin.seen.keep(new)
