"""An index of cap records in a bucket: by the cap's actor, and by the cap that it came from.

A bucket finds objects by the beginning of their names only. So each record has empty marker objects beside it, in the
same commit and the same log entry, whose names lead to it:

    vault/caps/of/<tag of an actor, or "scopes">/<link>     a cap of this actor; a cap of a scope
    vault/caps/from/<root>/<link>                           a cap that came from this first one, at any distance

With it, a revocation or an erasure reads only the records that concern it. All records are read where the index cannot
help: for a link without a record, and in a vault of an earlier version until a revocation by the owner has made the
index. A vault in a file needs none, because reading all records is one query there.
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
"""If this object exists, the index is complete: it was made with the vault, or all older records have been added."""
_OF, _FROM = f"{CAPS}of/", f"{CAPS}from/"
_SCOPES = "scopes"
_LINK = 64
"""Characters of a link id."""
_PAGE = 1000
_SAMPLE = 32
"""How many records of any actor an erasure looks at, to remove those of caps that ended long ago."""
Records = Iterator[tuple[Object, CapRecord]]


class CapIndex:
    """Finds records of caps in one vault. `tag` marks an actor without naming it."""

    def __init__(self, store: Store, tag: Callable[[str], str], opened: Callable[[Object], CapRecord]) -> None:
        self._store = store
        self._tag = tag
        self._opened = opened

    def is_made(self) -> bool:
        """Whether the index is complete, as of the last reading of the vault."""
        return isinstance(self._store, FleetStore) and self._store.get(INDEXED) is not None

    def _is_kept(self) -> bool:
        """Whether records get markers: also in a file that came from a bucket, because it may go back."""
        return isinstance(self._store, FleetStore) or self._store.get(INDEXED) is not None

    # Writing.

    def markers(self, record: CapRecord) -> list[PutNew]:
        """The markers to create with a new record."""
        return [PutNew(name, b"") for name in self._names(record)] if self._is_kept() else []

    def removal(self, thing: Object, record: CapRecord) -> list[Delete]:
        """The deletions of a record and its markers."""
        removed = [Delete(thing.name, thing.version)]
        if not self._is_kept():
            return removed
        beside = map(self._store.get, self._names(record))
        return removed + [Delete(one.name, one.version) for one in beside if one is not None and one.body is not None]

    def missing(self, records: Iterable[CapRecord]) -> Iterator[PutNew]:
        """The markers missing for a complete index, given all records."""
        for record in records:
            yield from (PutNew(name, b"") for name in self._names(record) if self._store.get(name) is None)

    def _names(self, record: CapRecord) -> list[str]:
        whose = _SCOPES if record.actor.endswith("/") else self._tag(f"{_OF}{record.actor}")
        names = [f"{_OF}{whose}/{record.link}"]
        return [*names, f"{_FROM}{record.parents[0]}/{record.link}"] if record.parents else names

    # Finding.

    def of(self, actor: Actor, beside: Collection[str] = ()) -> Records:
        """The records of an actor's caps and of scopes' caps, without those named in `beside`."""
        links = [*self._links(f"{_OF}{self._tag(_OF + actor)}/"), *self._links(f"{_OF}{_SCOPES}/")]
        return self.read(name for link in links if (name := CAPS + link) not in beside)

    def family(self, link: LinkId) -> Records | None:
        """The records of all caps with the same root as this one. None if it has no readable record."""
        own = next((record for _, record in self.read([CAPS + link])), None)
        if own is None:
            return None
        root = own.parents[0] if own.parents else link
        return self.read(CAPS + one for one in self._links(f"{_FROM}{root}/"))

    def sample(self) -> Records:
        """Some random records of any actor."""
        page = self._store.names(CAPS, random_start(), _SAMPLE) if isinstance(self._store, FleetStore) else ()
        names = [one.name for one in page if is_record(one.name)]
        if len(names) < _SAMPLE and isinstance(self._store, FleetStore):
            first = self._store.names(CAPS, "", _SAMPLE - len(names))
            names += [one.name for one in first if is_record(one.name) and one.name not in names]
        return self.read(names)

    def _links(self, prefix: str) -> list[str]:
        """The last parts of the names below a prefix, without tombstones."""
        found: list[str] = []
        after = ""
        while page := self._store.names(prefix, after, _PAGE):
            found += [one.name.rpartition("/")[2] for one in page if one.body is not None]
            after = page[-1].name
        return found

    def read(self, names: Iterable[str]) -> Records:
        """The records of these names, without those that are gone or do not open.

        One that does not open is not a record, or was destroyed. It must not stop every revocation; verification
        reports it.
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
    """Whether a name below `vault/caps/` can be a record's, and not a marker's."""
    return len(name) == len(CAPS) + _LINK and "/" not in name[len(CAPS) :]


def random_start() -> str:
    """A random name among the records of caps, after which a sample begins."""
    return CAPS + os.urandom(8).hex()
