"""Lines in the answers of commands: their JSON form, and their details in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from strongroom.cli import output
from strongroom.model import CERTAIN, Hit, LineInfo, Why, moment

_BEGINNING = 60
"""How many characters of a text a table shows."""
_LEAST = 0.005
"""The least share of a signal that a table shows, because shares are rounded to two digits."""


class LineOrigin(msgspec.Struct, frozen=True):
    """Where a line came from."""

    links: tuple[str, ...]
    holder: str
    source: str
    recorded: datetime


class HitRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A recalled line. A member that has a default value is present only if the line has it."""

    id: str
    namespace: str
    text: str
    time: datetime
    kind: str
    session: str
    author: str
    score: float
    provenance: LineOrigin
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    replaces: str | None = None
    turn: str = ""
    document: str = ""
    confidence: float = CERTAIN
    superseded_by: str | None = None
    standing: bool = False
    why: Why | None = None


class LineRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A listed line. Its text is there only in a listing with texts, a member with a default only if it is set."""

    id: str
    namespace: str
    time: datetime
    kind: str
    session: str
    author: str
    size: int
    provenance: LineOrigin
    text: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    replaces: str | None = None
    turn: str = ""
    document: str = ""


def hit_row(hit: Hit) -> HitRow:
    """The JSON form of a recalled line."""
    return HitRow(**{**msgspec.structs.asdict(hit), "provenance": _origin(hit)})


def line_row(line: LineInfo) -> LineRow:
    """The JSON form of a listed line."""
    return LineRow(**{**msgspec.structs.asdict(line), "provenance": _origin(line)})


def _origin(line: Hit | LineInfo) -> LineOrigin:
    came = line.provenance
    return LineOrigin(came.links, came.holder, came.source, moment(came.recorded))


def details(line: Hit | LineInfo) -> Iterator[str]:
    """The document's key, tags, turn, expiry and meta of a line, each as one line of text."""
    if line.document:
        yield output.one_line(line.document)
    yield from (output.one_line(f"#{tag}") for tag in line.tags)
    if line.turn:
        yield output.one_line(f"turn {line.turn}")
    if line.expires is not None:
        yield f"expires {output.local(line.expires)}"
    if line.meta:
        yield output.one_line(f"meta {msgspec.json.encode(line.meta).decode()}")
    if isinstance(line, Hit):
        if line.standing:
            yield "standing"
        if line.superseded_by is not None:
            yield output.one_line(f"superseded by {line.superseded_by}")


def why_table(hits: Sequence[Hit]) -> list[str]:
    """An explained recall as a table: one row for each candidate, with the beginning of its text.

    Signals whose share rounds to 0 are left out.
    """
    head = ("rank", "confidence", "score", "cut", "id", "text", "signals")
    rows = [_why_row(hit, hit.why) for hit in hits if hit.why is not None]
    return output.table([head, *rows]) if rows else []


def _why_row(hit: Hit, why: Why) -> tuple[str, ...]:
    shares = sorted(why.signals.items(), key=lambda one: (-abs(one[1]), one[0]))
    signals = ", ".join(f"{output.one_line(name)} {share:.2f}" for name, share in shares if abs(share) >= _LEAST)
    text = " ".join(hit.text.split())
    shown = text if len(text) <= _BEGINNING else text[: _BEGINNING - 1] + "\u2026"
    rank = str(why.rank) if why.rank else "-"
    return rank, f"{hit.confidence:.2f}", f"{hit.score:.2f}", why.cut or "-", hit.id, shown, signals or "-"
