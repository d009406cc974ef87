"""The encoding of a cache page: a stored copy of many lines that a new process reads at once (`stored_pages.py`)."""

from __future__ import annotations

import msgspec

from strongroom.memory.line_cache.cache import Batch
from strongroom.model import Kind, Line, LineDetails, LineId, Millis, Namespace, Provenance


class _Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A line in a page. Session, author and origin are numbers: positions in the page's lists of these values."""

    id: LineId
    time: Millis
    kind: Kind
    session: int
    author: int
    origin: int
    text: str


class CachePage(msgspec.Struct, array_like=True, frozen=True):
    """The content of a page. A name or an origin that several lines share is stored once."""

    names: list[str]
    origins: list[Provenance]
    records: list[_Record]
    readings: bytes
    details: dict[int, LineDetails] = {}
    """The details of the lines that have details, by the positions of the lines in `records`."""

    @classmethod
    def of(cls, batch: Batch) -> CachePage:
        names: dict[str, int] = {}
        origins: dict[Provenance, int] = {}
        records = [
            _Record(
                line.id,
                line.time,
                line.kind,
                names.setdefault(line.session, len(names)),
                names.setdefault(line.author, len(names)),
                origins.setdefault(line.provenance, len(origins)),
                line.text,
            )
            for line in batch.lines
        ]
        details = {at: line.details for at, line in enumerate(batch.lines) if line.details is not None}
        return cls(list(names), list(origins), records, batch.readings, details)

    def encoded(self) -> bytes:
        """The page as MessagePack. A page without details has exactly the bytes of format 1."""
        parts: list[object] = [self.names, self.origins, self.records, self.readings]
        return msgspec.msgpack.encode([*parts, self.details] if self.details else parts)

    def batch(self, namespace: Namespace) -> Batch:
        names, origins = self.names, self.origins
        lines = [
            Line(
                one.id,
                one.time,
                one.kind,
                namespace,
                names[one.session],
                names[one.author],
                one.text,
                origins[one.origin],
                self.details.get(at),
            )
            for at, one in enumerate(self.records)
        ]
        return Batch(lines, self.readings)


decode_page = msgspec.msgpack.Decoder(CachePage).decode
