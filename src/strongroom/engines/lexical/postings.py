"""Which lines and sessions hold the words looked for, and how often.

Most hold a word once: only of those that hold it more often is the number kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from strongroom.engines.lexical.codec import TF_BITS, repeated_words
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.term_weights import Term, Terms, rarity

_NONE: Mapping[int, int] = {}


class Holders(msgspec.Struct, frozen=True, gc=False):
    """The occurrences of a word in one shelf; the lines that hold it several times; how often sessions hold it."""

    occurrences: Sequence[int]
    repeated: Sequence[tuple[int, int]] = ()
    sessions: Mapping[int, int] = _NONE


NOBODY_HOLDS = Holders(())


def holders_of(occurrences: Sequence[int], index: LexicalIndex) -> Holders:
    """Who holds a word that occurs so."""
    if not occurrences:
        return NOBODY_HOLDS
    sessions = index.sessions
    counts: dict[int, int] = {}
    for packed in occurrences:
        session = sessions[packed >> TF_BITS]
        counts[session] = counts[session] + 1 if session in counts else 1
    often = repeated_words(occurrences)
    for number, count in often:
        counts[sessions[number]] += count - 1
    return Holders(occurrences, often, counts)


class Sought(msgspec.Struct, frozen=True, gc=False):
    """A word looked for, with who holds it in each index, and what it tells that a session does."""

    term: Term
    session_rarity: float
    holders: list[Holders]

    @classmethod
    def of(cls, term: Term, indexes: Sequence[LexicalIndex], sessions: int) -> Sought:
        if term.common:
            # Nearly every session holds it: counting them would cost more than it tells.
            return cls(term, 0.0, [Holders(place) for place in term.places])
        holders = [holders_of(place, index) for place, index in zip(term.places, indexes, strict=True)]
        return cls(term, rarity(sessions, sum([len(one.sessions) for one in holders])), holders)


def sought_of(terms: Terms, indexes: Sequence[LexicalIndex]) -> list[Sought]:
    return [Sought.of(term, indexes, terms.size.sessions) for term in terms.words]
