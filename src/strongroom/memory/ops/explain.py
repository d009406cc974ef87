"""Explanation of a recall: each candidate with its place in the ranking, its signals, and why it would be left out.

Used by `get`, which admits the request, checks the ids and logs every explained line as read. The engine gets only the
indexes of allowed namespaces, so a denied namespace changes nothing in an explanation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Literal, NamedTuple

import msgspec

from strongroom.engines import Ranked
from strongroom.memory.line_cache.cache import CachedNamespace, LineCache
from strongroom.memory.line_cache.filtered_index import Condition
from strongroom.model import ANSWER_LIMIT, Hit, Line, LineId, Why

CANDIDATES = 100
"""Up to this place in the ranking, the explanation of a line named by its id says which place it has."""

Explained = tuple[Ranked, Why]
_Place = tuple[str, LineId]


class Inquiry(NamedTuple):
    """A question to the lines of some cached namespaces."""

    cache: LineCache
    shelves: Sequence[CachedNamespace]
    text: str
    now: datetime
    condition: Condition | None = None

    def rank(self, k: int) -> Sequence[Ranked]:
        """The best `k` lines. No line is left out, and none has too low a confidence."""
        return self.cache.rank(self.shelves, self.text, k, self.now, condition=self.condition)

    def signals(self, lines: Collection[Line]) -> Mapping[_Place, Mapping[str, float]]:
        """The share of each signal in the scores of these lines, as the engine says."""
        names = frozenset([line.id for line in lines])
        found = self.cache.explain(self.shelves, self.text, self.now, names, self.condition)
        if not all(isfinite(share) for shares in found.values() for share in shares.values()):
            raise RuntimeError("the engine explained a score by a share that is not a finite number")
        return found


def explain_best(inquiry: Inquiry, k: int, shown: Collection[LineId], floor: float) -> list[Explained]:
    """The best `k` lines in the order of their ranks, also those that `shown` or `floor` leaves out."""
    ranked = inquiry.rank(k)
    return list(_explained(inquiry, [*enumerate(ranked, 1)], shown, floor))


def explain_lines(inquiry: Inquiry, lines: Sequence[Line], floor: float) -> list[Explained]:
    """Exactly these lines, in this order. A line that is not among the candidates has a score of 0."""
    places = {_place(one.line): (rank, one) for rank, one in enumerate(inquiry.rank(CANDIDATES), 1)}
    unranked = [(0, Ranked(line, 0.0, 0.0)) for line in lines]
    found = [places.get(_place(one.line), (rank, one)) for rank, one in unranked]
    return list(_explained(inquiry, found, (), floor))


def _explained(
    inquiry: Inquiry, ranked: Sequence[tuple[int, Ranked]], shown: Collection[LineId], floor: float
) -> Iterator[Explained]:
    signals = inquiry.signals([one.line for _, one in ranked])
    for rank, one in ranked:
        cut: Literal["", "floor", "shown"] = ""
        if one.line.id in shown:
            cut = "shown"
        elif one.confidence < floor:
            cut = "floor"
        yield one, Why(signals.get(_place(one.line), {}), rank, cut)


def _place(line: Line) -> _Place:
    return line.namespace, line.id


def cut_to_budget(hits: Sequence[Hit], returned: Collection[Hit]) -> list[Hit]:
    """Mark the hits that an answer has no room for. `returned` are those that a plain recall returns.

    The texts of hits that are cut take the room that is left. A text that does not fit is empty.
    """
    room = ANSWER_LIMIT - sum(len(hit.text.encode()) for hit in returned)
    names = {(hit.namespace, hit.id) for hit in returned}
    marked: list[Hit] = []
    for hit in hits:
        if (hit.namespace, hit.id) in names:
            marked.append(hit)
            continue
        size = len(hit.text.encode())
        text, room = (hit.text, room - size) if size <= room else ("", room)
        why = hit.why
        if why is not None and not why.cut:
            why = msgspec.structs.replace(why, cut="budget")
        marked.append(msgspec.structs.replace(hit, text=text, why=why))
    return marked
