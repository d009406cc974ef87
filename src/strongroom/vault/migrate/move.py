"""Move a whole vault between a SQLite file and a bucket: the same objects under the same names, and its log.

The vault keeps its id, its keys and its caps. The source is verified first, and the copy is compared object by object.
The target becomes a vault only with the very last write. After an interruption, the same call continues the move. The
source is only read, and its last seen checkpoint stays valid. At the end, the move fails if any process has written to
the source meanwhile.

`to_bucket` and `to_sqlite` write to the two kinds of target: a bucket and a SQLite file.
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
_ENGINE = "recency"  # nothing is ranked here, and this engine loads fastest
Bars = Callable[[str], Progress]
"""Returns the progress callback for a stage, given the stage's name.

The callback is called with the amount done and the total.
"""


class Moved(msgspec.Struct, frozen=True):
    """A vault that was moved and compared. `already` is true if the target held the whole vault before."""

    vault: str
    source: str
    target: str
    objects: int
    entries: int
    logs: int
    already: bool = False


@dataclass(frozen=True, slots=True)
class MigrationOrigin:
    """The source vault, open for reading."""

    place: str
    state: Replica
    entries: int
    logs: int
    mark: str
    """A hash of the source's state at the start (`mark_of`), to detect writes during the move."""
    seen: SeenOf
    """The last seen checkpoints for the target: those of workers' logs for a bucket, that of one log for a file."""
    is_seen: bool
    """Whether the source had a last seen checkpoint, so that its verification could find a roll-back."""

    @property
    def store(self) -> Store:
        return self.state.store

    def pages(self) -> Iterator[list[Object]]:
        """Pages of all objects and tombstones, with bodies. Derived objects are left out."""
        for scope in self._scopes():
            names = [one.name for one in self.state.records.names(scope) if not is_derived(one.name)]
            for at in range(0, len(names), PAGE):
                yield self._read(names[at : at + PAGE])

    def count(self) -> int:
        return sum(not is_derived(one.name) for scope in self._scopes() for one in self.state.records.names(scope))

    def _scopes(self) -> Iterator[str]:
        """The prefixes that are listed one by one.

        In a file, actors are grouped by the first two digits of their locator.
        """
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
        """Raise `StoreUnavailable` if any process has written to the source since the start."""
        if mark_of(self.store) != self.mark:
            raise changed_meanwhile()

    def set_aside(self) -> None:
        """Rename the file with the checkpoints of an earlier log.

        The moved log does not continue that log.
        """
        if (before := self.seen.read()) is not None:
            Witness(self.seen.path.with_name(f"{self.seen.path.name}.before-migrate")).keep(before)
            self.seen.clear()


def mark_of(store: Store) -> str:
    """A hash that changes with every write to a store.

    For a file, it covers the log's head. For a bucket, it covers every object's name and etag. There the logs alone
    would not do: an entry is written before its object, and the confirmation after it.
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
        raise InvalidRequest("only a vault at a path or in a bucket can be moved")
    return store


def changed_meanwhile() -> StoreUnavailable:
    return StoreUnavailable(
        "the source was written to during the move, so the target was not completed",
        hint="stop every process that uses the source, empty the target, and run migrate again",
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

    Needs the keys, to verify and to sign. `archive` is the directory with the archived entries of the source's log, if
    entries were archived. Raises `VaultExists` if the target holds anything else than this vault. Raises `Tampered` if
    the source has a flaw or a comparison fails.
    """
    places = os.fspath(source), os.fspath(target)
    if is_bucket(places[0]) == is_bucket(places[1]):
        raise InvalidRequest(
            "migrate needs one path and one s3:// address",
            hint="to copy a vault from one path to another, use `strongroom backup`",
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
    """Open and verify the source."""
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
            raise Tampered(
                f"the source has a flaw, so nothing was moved: {report.findings[0].flaw}",
                hint="run `strongroom audit verify`, which lists every fault",
            )
        if report.doubtful:
            raise Tampered(
                "some writes to the source were begun and never confirmed, and their effects are missing",
                hint="run `strongroom audit verify`, which lists these writes; then they count as reported",
            )
        state = Replica(vault_id, store, held, LineCache(engines.load(_ENGINE), 0), os.urandom)
        of_target = SeenOf(seen, is_fleet=is_bucket(target))
        yield MigrationOrigin(place, state, report.size, report.logs, mark, of_target, report.ok)
    finally:
        store.close()


def _verify(moved: Moved, origin: MigrationOrigin, bars: Bars) -> None:
    """Verify the target as a vault of its own.

    If no checkpoint of the target was stored as last seen, the new one is stored.
    """
    with tempfile.TemporaryDirectory(prefix="strongroom-") as scratch:
        fresh = Witness(Path(scratch) / "checkpoint")
        with create_open.open(moved.target, keys=origin.state.source, engine=_ENGINE, witness=fresh) as vault:
            # Without a checkpoint of the source, moving it must not make the copy count as seen.
            report = vault.audit.verify(progress=bars("verifying again"), first=origin.is_seen)
        if not report.is_sound:
            raise Tampered(
                f"the moved vault has a flaw: {report.findings[0].flaw}", hint="continue to use the source vault"
            )
        if (new := fresh.read()) is not None and origin.seen.read() is None:
            origin.seen.keep(new)
