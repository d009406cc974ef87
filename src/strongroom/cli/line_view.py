"""Lines for commands: their JSON form, and paging through those that pass a filter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from strongroom.cli.run_context import Run
from strongroom.model import Hit, LineInfo, Listing, moment


class LineOrigin(msgspec.Struct, frozen=True):
    """Where a line came from."""

    links: tuple[str, ...]
    holder: str
    source: str
    recorded: datetime


class HitRow(msgspec.Struct, frozen=True):
    """A recalled line."""

    id: str
    namespace: str
    text: str
    time: datetime
    kind: str
    session: str
    author: str
    score: float
    provenance: LineOrigin


class LineRow(msgspec.Struct, frozen=True):
    """A line without its text."""

    id: str
    namespace: str
    time: datetime
    kind: str
    session: str
    author: str
    size: int
    provenance: LineOrigin


def hit_row(hit: Hit) -> HitRow:
    """The JSON form of a hit."""
    return HitRow(hit.id, hit.namespace, hit.text, hit.time, hit.kind, hit.session, hit.author, hit.score, _origin(hit))


def _origin(line: Hit | LineInfo) -> LineOrigin:
    came = line.provenance
    return LineOrigin(came.links, came.holder, came.source, moment(came.recorded))


def line_row(line: LineInfo) -> LineRow:
    """The JSON form of a listed line."""
    return LineRow(line.id, line.namespace, line.time, line.kind, line.session, line.author, line.size, _origin(line))


@dataclass(frozen=True, slots=True)
class Filters:
    """Which lines to list. An empty field does not filter."""

    namespaces: tuple[str, ...] = ()
    session: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def page(run: Run, filters: Filters, limit: int, after: str | None) -> Listing:
    """One page of a listing."""
    return run.ask(
        lambda memory: memory.list(
            namespaces=filters.namespaces or None,
            session=filters.session,
            kind=filters.kind,
            since=filters.since,
            until=filters.until,
            limit=limit,
            after=after,
        )
    )
