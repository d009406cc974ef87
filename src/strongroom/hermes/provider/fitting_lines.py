"""Chooses which of the recalled lines fit a question well enough to be shown. Pure.

What a model is shown stays before it for the whole conversation, so a line that does not fit costs more than one that
comes a turn later. Each line needs reasons of its own: a search also finds the neighbours of a good match.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from strongroom.engines.dates.parser import dates_in_query
from strongroom.engines.lexical.tokenizer import words
from strongroom.hermes.policy import LINES_LIMIT, Recall
from strongroom.model import Hit
from strongroom.text import UNSPACED

_UNSPACED = re.compile(f"[{UNSPACED}]")
_LESS = 0.5
_NEAR = 0.5
"""A line needs at least this share of the confidence of the best line."""


def floor(question: str, today: date, recall: Recall) -> float | None:
    """The confidence with which a line must answer this question. None if every match is shown.

    In a script without spaces it is half of the policy's: each pair of characters counts as a word there, so even a
    good match holds a smaller share of them. It is half, too, where the question names a time: the days that a line
    has to do with are no words.
    """
    is_half = _UNSPACED.search(question) is not None or bool(dates_in_query(question, today))
    return recall.min_confidence * (_LESS if is_half else 1) or None


def number_of_lines(recall: Recall) -> int:
    """How many lines to ask for, so that standing lines take no other line's place."""
    return min(recall.lines + recall.standing, LINES_LIMIT) if recall.lines else 0


def fitting(hits: Sequence[Hit], question: str, today: date, recall: Recall) -> list[Hit]:
    """The lines that a turn with this question shows: matches up to `lines`, and standing lines up to `standing`.

    Superseded lines come last, so they are left out first. Lines that the policy asks for although nothing matches
    (`unrelated`) stay.
    """
    best = max((hit.confidence for hit in hits if hit.score > 0), default=0.0)
    matches = [hit for hit in hits if not is_standing_only(hit)]
    near = [hit for hit in matches if is_near(hit, best, recall)]
    # A line that fits by its days holds few words of the question, so it is not compared with the best line.
    if len(near) < len(matches) and not dates_in_query(question, today):
        matches = near
    if not recall.neighbours:
        matches = with_own_match(matches, question, today)
    chosen = sorted(matches, key=_is_superseded)[: recall.lines]
    standing = [hit for hit in hits if is_standing_only(hit)][: recall.standing]
    return [*chosen, *standing]


def is_standing_only(hit: Hit) -> bool:
    """Whether a line was found only because it is a standing instruction of the question's kind."""
    return hit.standing and not hit.score


def is_near(hit: Hit, best: float, recall: Recall) -> bool:
    """Whether the confidence of a line is near the best one. Without a floor, every match is near enough."""
    return not recall.min_confidence or hit.confidence >= _NEAR * best


def with_own_match(hits: Sequence[Hit], question: str, today: date) -> list[Hit]:
    """The lines that share a word with the question. The others were found by their neighbours or their session.

    Where the question names a time, a line may match by its days alone, so all lines stay.
    """
    sought = frozenset(words(question))
    own = [hit for hit in hits if not hit.score or not sought.isdisjoint(words(f"{hit.text} {hit.author}"))]
    return own if len(own) == len(hits) or not dates_in_query(question, today) else list(hits)


def _is_superseded(hit: Hit) -> bool:
    return hit.superseded_by is not None
