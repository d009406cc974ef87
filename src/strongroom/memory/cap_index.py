"""An index of the stored records of caps in a bucket: by the cap's actor, and by the cap from which it was made.

In a bucket, objects can be found only by the beginning of their names. So each record has empty marker objects, which
are written in the same commit and named in the same log entry. The name of a marker ends in the link id of the record:

    vault/caps/of/<tag of an actor>/<link>     a cap of this actor
    vault/caps/of/scopes/<link>                a cap for a scope, that is for all actors below a path
    vault/caps/from/<root>/<link>              a cap that was made, directly or not, from the cap `root`

With the index, a revocation or an erasure reads only the records that it needs. All records are read in two cases: for
a link without a record, and in a vault of an earlier version that has no index yet. A revocation by the owner creates
the missing index. A vault in a file needs no index, because one query reads all records.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator

from strongroom.errors import Tampered
from strongroom.model import Actor, CapRecord, LinkId
from strongroom.store import Delete, Object, PutNew, Store
from strongroom.store.fleet_contract import FleetStore

CAPS = "vault/caps/"
INDEXED = "vault/indexed"
"""The name of an object that exists only if the index is complete.

The index is complete from the start in a new vault, and in an older vault once all earlier records were added.
"""
_OF, _FROM = f"{CAPS}of/", f"{CAPS}from/"
_SCOPES = "scopes"
_LINK = 64
"""The length of a link id in characters."""
_PAGE = 1000
_SAMPLE = 32
"""How many random records an erasure reads, to remove those of caps that ended long ago, whichever actor they have."""
Records = Iterator[tuple[Object, CapRecord]]


class CapIndex:
    """Finds the records of caps in one vault. `tag` computes a pseudonym of an actor, for names of objects."""

    def __init__(self, store: Store, tag: Callable[[str], str], opened: Callable[[Object], CapRecord]) -> None:
        self._store = store
        self._tag = tag
        self._opened = opened

    def is_made(self) -> bool:
        """Whether the index is complete, by the last state of the vault that this process has read."""
        return isinstance(self._store, FleetStore) and self._store.get(INDEXED) is not None

    def _is_kept(self) -> bool:
        """Whether new records get markers for the index.

        In a vault in a file, they get markers only if the vault came from a bucket, because it may go back there.
        """
        return isinstance(self._store, FleetStore) or self._store.get(INDEXED) is not None

    # Writing.

    def markers(self, record: CapRecord) -> list[PutNew]:
        """The effects that create the markers of a new record."""
        return [PutNew(name, b"") for name in self._names(record)] if self._is_kept() else []

    def removal(self, thing: Object, record: CapRecord) -> list[Delete]:
        """The effects that delete a record and its markers."""
        removed = [Delete(thing.name, thing.version)]
        if not self._is_kept():
            return removed
        beside = map(self._store.get, self._names(record))
        return removed + [Delete(one.name, one.version) for one in beside if one is not None and one.body is not None]

    def missing(self, records: Iterable[CapRecord]) -> Iterator[PutNew]:
        """The effects that create the missing markers of all `records`, which completes the index."""
        for record in records:
            yield from (PutNew(name, b"") for name in self._names(record) if self._store.get(name) is None)

    def _names(self, record: CapRecord) -> list[str]:
        whose = _SCOPES if record.actor.endswith("/") else self._tag(f"{_OF}{record.actor}")
        names = [f"{_OF}{whose}/{record.link}"]
        return [*names, f"{_FROM}{record.parents[0]}/{record.link}"] if record.parents else names

    # Finding.

    def of(self, actor: Actor, beside: Collection[str] = ()) -> Records:
        """The records of an actor's caps and of the caps for scopes, without the records named in `beside`."""
        links = [*self._links(f"{_OF}{self._tag(_OF + actor)}/"), *self._links(f"{_OF}{_SCOPES}/")]
        return self.read(name for link in links if (name := CAPS + link) not in beside)

    def family(self, link: LinkId) -> Records | None:
        """The records of all caps that were made from the same first cap as the cap `link`.

        Returns None if `link` has no readable record.
        """
        own = next((record for _, record in self.read([CAPS + link])), None)
        if own is None:
            return None
        root = own.parents[0] if own.parents else link
        return self.read(CAPS + one for one in self._links(f"{_FROM}{root}/"))

    def sample(self) -> Records:
        """Some random records of caps, whichever actor they have."""
        page = self._store.names(CAPS, random_start(), _SAMPLE) if isinstance(self._store, FleetStore) else ()
        names = [one.name for one in page if is_record(one.name)]
        if len(names) < _SAMPLE and isinstance(self._store, FleetStore):
            first = self._store.names(CAPS, "", _SAMPLE - len(names))
            names += [one.name for one in first if is_record(one.name) and one.name not in names]
        return self.read(names)

    def _links(self, prefix: str) -> list[str]:
        """The last parts of the names of all objects below a prefix. Tombstones are left out."""
        found: list[str] = []
        after = ""
        while page := self._store.names(prefix, after, _PAGE):
            found += [one.name.rpartition("/")[2] for one in page if one.body is not None]
            after = page[-1].name
        return found

    def read(self, names: Iterable[str]) -> Records:
        """The records with these names. Records that are gone or do not open are left out.

        An object that does not open is no record, or was damaged. It must not stop every revocation, so it is skipped
        here; `audit verify` reports it.
        """
        wanted = list(names)
        for thing in self._store.get_many(wanted) if isinstance(self._store, FleetStore) and wanted else ():
            if thing is None or thing.body is None:
                continue
            try:
                record = self._opened(thing)
            except Tampered:
                continue
            yield thing, record


def is_record(name: str) -> bool:
    """Whether a name below `vault/caps/` is that of a cap's record, and not of an empty marker in the index."""
    return len(name) == len(CAPS) + _LINK and "/" not in name[len(CAPS) :]


def random_start() -> str:
    """A random name among the names of records. A sample takes the records after this name."""
    return CAPS + os.urandom(8).hex()
