"""Selection of lines by their fields, for listing, forgetting and filtered recalls. A line must meet all conditions."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from strongroom import model
from strongroom.api import LineFilter
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.model import Kind, Line, LineDetails, LineId, LinkId, Millis

_NO_DETAILS = LineDetails()


@dataclass(frozen=True, slots=True)
class Selector:
    """Conditions on lines. A condition that is None is not checked. A line at the moment `until` does not match."""

    ids: frozenset[LineId] | None = None
    session: str | None = None
    link: LinkId | None = None
    kind: Kind | None = None
    author: str | None = None
    turn: str | None = None
    tags: frozenset[str] = frozenset()
    meta: str = "{}"
    """The members of `meta` that a line must have, as JSON text, because a Selector must be hashable."""
    since: Millis | None = None
    until: Millis | None = None

    @classmethod
    def of(
        cls,
        call: LineFilter[Any],
        *,
        ids: Collection[str] | None = None,
        session: str | None = None,
        link: str | None = None,
    ) -> Selector:
        """Check the conditions of a call, and return them as a Selector."""
        return cls(
            ids=None if ids is None else frozenset(map(model.line_id, ids)),
            session=None if session is None else model.clean_field(session, "a session"),
            link=None if link is None else model.link_id(link),
            kind=None if call.kind is None else model.kind(call.kind),
            author=None if call.author is None else model.clean_field(call.author, "an author"),
            turn=None if call.turn is None else model.clean_field(call.turn, "a turn"),
            tags=frozenset(model.clean_tags(call.tags)),
            meta=_canonical({} if call.meta is None else model.clean_meta(call.meta)),
            since=None if call.since is None else model.millis(call.since),
            until=None if call.until is None else model.millis(call.until),
        )

    def page(
        self,
        shelves: Sequence[CachedNamespace],
        after: tuple[str, str],
        limit: int,
        among: Set[tuple[str, LineId]] | None = None,
    ) -> list[Line]:
        """The first `limit` matching lines after the place `after`, in the order of their ids.

        With `among`, only the lines whose namespace and id are in that set.
        The time depends on the length of the page, and not on the number of lines in the namespace.
        """
        with hold_still(shelves):
            ordered = heapq.merge(*(shelf.from_id(after[0]) for shelf in shelves), key=place_of)
            # Documents have a listing of their own. Here they are listed only if the caller asks for this kind.
            shows = self.kind == Kind.DOCUMENT
            meant = (
                line
                for line in ordered
                if place_of(line) > after
                and (among is None or (line.namespace, line.id) in among)
                and (shows or line.kind != Kind.DOCUMENT)
                and self.means(line)
            )
            return list(islice(meant, limit))

    def among(self, shelves: Sequence[CachedNamespace]) -> list[Line]:
        """Every stored line that meets the conditions, for forgetting: also replaced and expired lines."""
        with hold_still(shelves):
            return [line for shelf in shelves for line in self._candidates(shelf) if self.means(line)]

    def _candidates(self, shelf: CachedNamespace) -> Sequence[Line]:
        if self.ids is None:
            return shelf.stored()
        hidden = shelf.states.hidden
        return [line for name in self.ids if (line := shelf.lines.get(name) or hidden.get(name)) is not None]

    def means(self, line: Line) -> bool:
        return (
            (self.ids is None or line.id in self.ids)
            and (self.session is None or line.session == self.session)
            and (self.link is None or self.link in line.provenance.links)
            and (self.kind is None or line.kind == self.kind)
            and (self.author is None or line.author == self.author)
            and (self.since is None or line.time >= self.since)
            and (self.until is None or line.time < self.until)
            and (not self._needs_details or self._means_details(line.details or _NO_DETAILS))
        )

    @property
    def _needs_details(self) -> bool:
        return bool(self.tags) or self.turn is not None or self.meta != "{}"

    def _means_details(self, details: LineDetails) -> bool:
        return (
            (self.turn is None or details.turn == self.turn)
            and self.tags.issubset(details.tags)
            and all(
                name in details.meta and _canonical(details.meta[name]) == _canonical(value)
                for name, value in msgspec.json.decode(self.meta, type=dict[str, Any]).items()
            )
        )


def _canonical(value: object) -> str:
    """A JSON value as text. Equal values have equal texts; 1, 1.0 and true count as three different values."""
    return msgspec.json.encode(value, order="deterministic").decode()


def place_of(line: Line) -> tuple[str, str]:
    """The place of a line in a listing. The namespace is part of it, because ids are unique in one namespace only."""
    return line.id, line.namespace
