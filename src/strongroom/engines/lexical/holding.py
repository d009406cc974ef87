"""Which lines and sessions of one shelf hold a word, and how often.

Most hold it once: only of those that hold it more often is the number kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.keeping import TF_BITS, repeated

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
    often = repeated(occurrences)
    for number, count in often:
        counts[sessions[number]] += count - 1
    return Holders(occurrences, often, counts)
