"""Moving a whole vault between a SQLite file and a bucket: the same objects under the same names, and its log.

The vault keeps its id, its keys and its caps. What is moved is verified first, compared object by object afterwards,
and becomes a vault in its new place with the very last write: whoever looks earlier finds none. Interrupted at any
point, the same call goes on. The source is only read, and must not be written to meanwhile: that is checked at the end.

How each kind of target is written is `tobucket`'s and `tofile`'s.
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
from strongroom.audit.verify import Progress
from strongroom.errors import InvalidRequest, StoreUnavailable, Tampered
from strongroom.keys import KeySource
from strongroom.memory import State
from strongroom.shelves import Shelves
from strongroom.store import Object, Store, backend, is_derived
from strongroom.store.fleet import Fleet
from strongroom.vault import opening
from strongroom.vault.opening import Clock, Keys, Location

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
class Origin:
    """The vault that is moved, opened for reading."""

    place: str
    state: State
    entries: int
    logs: int
    mark: str
    """What its logs were when this began."""

    @property
    def store(self) -> Store:
        return self.state.store

    def pages(self) -> Iterator[list[Object]]:
        """Every object and tombstone but what can be derived, with its body, some at a time."""
        for scope in self._scopes():
            names = [one.name for one in self.state.names(scope) if not is_derived(one.name)]
            for at in range(0, len(names), PAGE):
                yield self._read(names[at : at + PAGE])

    def count(self) -> int:
        return sum(not is_derived(one.name) for scope in self._scopes() for one in self.state.names(scope))

    def _scopes(self) -> Iterator[str]:
        """Parts that are listed one by one: each actor is below two digits of its locator."""
        if isinstance(self.store, Fleet):
            yield from self._actors()
        else:
            yield from (f"actors/{number:02x}" for number in range(256))
        yield "vault/"

    def _actors(self) -> Iterator[str]:
        for locator in _in_bucket(self.store).reader.locators():
            yield f"actors/{locator}/"

    def _read(self, names: list[str]) -> list[Object]:
        read = _in_bucket(self.store).reader.threads.map if self.store.is_distant else map
        found = [one for one in read(self.store.get, names) if one is not None]
        if len(found) != len(names):
            raise changed()
        return found

    def check_unchanged(self) -> None:
        """Raise unless the source's logs are what they were."""
        if mark_of(self.store) != self.mark:
            raise changed()


def mark_of(store: Store) -> str:
    """A hash of how far a store's logs go."""
    total = hashlib.sha256()
    if store.is_distant:
        for one in _in_bucket(store).reader.bucket.list("logs/"):
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


def changed() -> StoreUnavailable:
    return StoreUnavailable(
        "the source was written to while it was moved, so the target is no vault",
        hint="stop whatever uses the source, empty the target, and begin again",
    )


def is_bucket(place: str) -> bool:
    return place.startswith("s3://")


def migrate(
    source: Location,
    target: Location,
    *,
    keys: Keys = None,
    witness: Witness | None = None,
    archive: str | os.PathLike[str] | None = None,
    now: Clock = opening._system_clock,
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
    with _opened(places[0], keys, witness, archive, bars) as origin:
        if is_bucket(places[1]):
            from strongroom.vault.tobucket import ToBucket

            moved = ToBucket(origin, places[1], now, bars, None if archive is None else Path(archive)).run()
        else:
            from strongroom.vault.tofile import ToFile

            moved = ToFile(origin, Path(places[1]), now, bars).run()
        _verify(moved, origin.state.source, witness, bars)
    return moved


@contextmanager
def _opened(
    place: str, keys: Keys, witness: Witness | None, archive: str | os.PathLike[str] | None, bars: Bars
) -> Iterator[Origin]:
    """The source, verified."""
    used, where = backend(place)
    store = used.open(where)
    try:
        vault_id = opening._read_format(store)
        held = opening._source(keys, vault_id)
        mark = mark_of(store)
        seen = _seen_of(store, opening._witness(witness, held, vault_id))
        report = opening.verify(place, keys=held, witness=seen, archive=archive, progress=bars("verifying"))
        if not report.ok:
            raise Tampered(f"the source has a flaw, so nothing was moved: {report.findings[0].flaw}")
        state = State(vault_id, store, held, Shelves(engines.load(_ENGINE), 0), os.urandom)
        yield Origin(place, state, report.size, report.logs, mark)
    finally:
        store.close()


def _verify(moved: Moved, keys: KeySource, witness: Witness | None, bars: Bars) -> None:
    """Verify what was written, by itself; then it is what counts as seen, for what was seen before is another log."""
    with tempfile.TemporaryDirectory(prefix="strongroom-") as scratch:
        fresh = Witness(Path(scratch) / "checkpoint")
        with opening.open(moved.target, keys=keys, engine=_ENGINE, witness=fresh) as vault:
            report = vault.audit.verify(progress=bars("verifying again"))
        if not report.ok:
            raise Tampered(f"what was moved does not verify: {report.findings[0].flaw}")
        seen, new = opening._witness(witness, keys, moved.vault), fresh.read() or ""
        before = seen.read()
        is_other = before is None or _is_of_a_fleet(before) != _is_of_a_fleet(new)
        if before is not None and is_other:
            _former(seen).keep(before)
        if is_other or not moved.already:  # else what was seen of the target since must not be lost
            seen.keep(new)


def _seen_of(store: Store, seen: Witness) -> Witness:
    """What was last seen of the source: what was kept aside, once the target's log counts as seen."""
    note = seen.read()
    if note is not None and _is_of_a_fleet(note) != isinstance(store, Fleet) and _former(seen).read() is not None:
        return _former(seen)
    return seen


def _former(seen: Witness) -> Witness:
    return Witness(seen.path.with_name(f"{seen.path.name}.before-migrate"))


def _is_of_a_fleet(note: str) -> bool:
    """Whether checkpoints are of workers' logs: those are called by the vault and the worker."""
    return note.partition("\n")[0].count("/") > 1
