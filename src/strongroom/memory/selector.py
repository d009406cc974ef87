"""Selection of lines by their fields, for listing and for forgetting. All conditions must hold."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from strongroom import model
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.model import Kind, Line, LineId, LinkId, Millis


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions on lines. None does not restrict; `until` is the first moment that is excluded."""

    ids: frozenset[LineId] | None = None
    session: str | None = None
    link: LinkId | None = None
    kind: Kind | None = None
    since: Millis | None = None
    until: Millis | None = None

    @classmethod
    def of(
        cls,
        *,
        ids: Collection[str] | None = None,
        session: str | None = None,
        link: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Selector:
        """Check a caller's conditions."""
        return cls(
            ids=None if ids is None else frozenset(map(model.line_id, ids)),
            session=None if session is None else model.clean_field(session, "a session"),
            link=None if link is None else model.link_id(link),
            kind=None if kind is None else model.kind(kind),
            since=None if since is None else model.millis(since),
            until=None if until is None else model.millis(until),
        )

    def page(self, shelves: Sequence[CachedNamespace], after: tuple[str, str], limit: int) -> list[Line]:
        """The first `limit` matching lines after `after`, in order. The cost depends on the page, not on the shelf."""
        with hold_still(shelves):
            ordered = heapq.merge(*(shelf.from_id(after[0]) for shelf in shelves), key=place_of)
            meant = (line for line in ordered if place_of(line) > after and self.means(line))
            return list(islice(meant, limit))

    def among(self, shelves: Sequence[CachedNamespace]) -> list[Line]:
        with hold_still(shelves):
            return [line for shelf in shelves for line in self._candidates(shelf) if self.means(line)]

    def _candidates(self, shelf: CachedNamespace) -> Sequence[Line]:
        if self.ids is None:
            return list(shelf.lines.values())
        return [line for name in self.ids if (line := shelf.lines.get(name)) is not None]

    def means(self, line: Line) -> bool:
        return (
            (self.ids is None or line.id in self.ids)
            and (self.session is None or line.session == self.session)
            and (self.link is None or self.link in line.provenance.links)
            and (self.kind is None or line.kind == self.kind)
            and (self.since is None or line.time >= self.since)
            and (self.until is None or line.time < self.until)
        )


def place_of(line: Line) -> tuple[str, str]:
    """A line's place in a listing. An id is unique within a namespace only."""
    return line.id, line.namespace
