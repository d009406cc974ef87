"""The lines of a turn in the vault. They share the turn's name in their ids, and are forgotten together.

Lines of an earlier version have no such name; there, a text and its reply belong together by their times. The cap
decides whose lines are found: another person's name or id finds nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from strongroom import model
from strongroom.hermes.provider import memory_files
from strongroom.hermes.provider.speaker import ASSISTANT
from strongroom.hermes.provider.turn_ids import time_of, turn_of
from strongroom.memory import Memory
from strongroom.model import Hit, Kind, LineId, LineInfo

REPLY = timedelta(milliseconds=1)
"""A reply is dated this much later than the beginning of its turn."""
_LONGEST = timedelta(days=1)
"""The longest duration of a turn. Lines that were written later are not searched."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The forgotten ids, the ids that were missing, and the forgotten notes of the runtime's memory files."""

    ids: tuple[LineId, ...] = ()
    missing: tuple[LineId, ...] = ()
    notes: tuple[Hit, ...] = ()


def find(memory: Memory, ids: Collection[LineId], turns: Collection[str] = ()) -> list[LineInfo]:
    """The lines of the named turns and of the turns in which these ids were written, in the order of ids."""
    since, until = (None, None) if turns or not ids else _span(ids)
    near = list(pages(memory, since, until))
    names = {turn_of(one) for one in ids} | set(turns)
    found = {info.id: info for info in near if turn_of(info.id) in names}
    for one in [info for info in found.values() if info.id in ids and info.kind == Kind.TURN]:
        if not any(turn_of(other) == turn_of(one.id) for other in found if other != one.id):
            found |= {info.id: info for info in near if _is_of(info, one)}
    return [found[one] for one in sorted(found)]


def _is_of(info: LineInfo, one: LineInfo) -> bool:
    """Whether two lines belong to one turn. This is for lines of an earlier version, which stored no turn names."""
    return info.kind == Kind.TURN and info.session == one.session and began(info) == began(one)


def began(info: LineInfo | Hit) -> datetime:
    """The time at which a line's turn began."""
    return info.time - REPLY if info.author == ASSISTANT else info.time


def _span(ids: Collection[LineId]) -> tuple[datetime, datetime]:
    times = [model.moment(time_of(one)) for one in ids]
    return max(min(times) - _LONGEST, model.moment(model.Millis(0))), max(times) + _LONGEST


def pages(memory: Memory, since: datetime | None = None, until: datetime | None = None) -> Iterator[LineInfo]:
    """Every line that a cap covers, without its text, in the order of ids."""
    after = None
    while True:
        page = memory.list(since=since, until=until, limit=model.LIST_LIMIT, after=after)
        yield from page.lines
        after = page.next
        if after is None:
            return


def texts(memory: Memory, ids: Sequence[LineId]) -> list[Hit]:
    """The lines with these ids, with their texts."""
    starts = range(0, len(ids), model.K_LIMIT)
    return [hit for start in starts for hit in memory.get(ids=ids[start : start + model.K_LIMIT])]


def forget(memory: Memory, ids: Collection[LineId], turns: Collection[str] = ()) -> Gone:
    """Forget these lines, everything else written in their turns, and the named turns."""
    return _forget(memory, ids, find(memory, ids, turns))


def forget_alone(memory: Memory, ids: Collection[LineId]) -> tuple[Gone, list[LineInfo]]:
    """Forget only these lines. Also returns the other lines of their turns."""
    found = find(memory, ids)
    gone = _forget(memory, ids, [info for info in found if info.id in ids])
    return gone, [info for info in found if info.id not in ids]


def _forget(memory: Memory, ids: Collection[LineId], found: Collection[LineInfo]) -> Gone:
    wanted = sorted({*ids, *(info.id for info in found)})
    if not wanted:
        return Gone()
    notes = texts(memory, [info.id for info in found if memory_files.is_note(info)])
    done = memory.forget(ids=wanted)
    return Gone(done.ids, done.missing, tuple(notes))
