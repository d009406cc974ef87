"""The content of a page of the cache: the lines of one batch, with the values that they share in it once."""

from __future__ import annotations

import msgspec

from strongroom.memory.line_cache.cache import Batch
from strongroom.model import Kind, Line, LineId, Millis, Namespace, Provenance


class _Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A line whose shared values are replaced by numbers."""

    id: LineId
    time: Millis
    kind: Kind
    session: int
    author: int
    origin: int
    text: str


class CachePage(msgspec.Struct, array_like=True, frozen=True):
    """The content of a page. Names and origins that lines share are in it once."""

    names: list[str]
    origins: list[Provenance]
    records: list[_Record]
    readings: bytes

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
        return cls(list(names), list(origins), records, batch.readings)

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
            )
            for one in self.records
        ]
        return Batch(lines, self.readings)


decode_page = msgspec.msgpack.Decoder(CachePage).decode
