"""What recall is measured against: SQLite's own full text search, as somebody would set it up with care.

FTS5 with the porter stemmer; the query's stop words are left out and any of the other words may match; by rank.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import apsw

BESIDE = "SQLite FTS5: porter, stop words out, any word"
_TABLE = "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')"
_STOP_WORDS = """
    a about above after again against all also am an and any are aren as at be because been before being below between
    both but by can cannot could couldn d did didn do does doesn doing don done down during each ever few for from
    further get gets got had hadn has hasn have haven having he her here hers herself him himself his how i if in into
    is isn it its itself just ll m me more most much must my myself no nor not now of off on once only or other our
    ours ourselves out over own re s same shall she should shouldn so some such t than that the their theirs them
    themselves then there these they this those through to too under until up us ve very was wasn we were weren what
    when where which while who whom whose why will with won would wouldn you your yours yourself yourselves
"""
_STOPPED = frozenset(_STOP_WORDS.split())


class FullText:
    """Texts by number, in a database in memory or in a file."""

    def __init__(self, file: Path | None = None) -> None:
        self._connection = apsw.Connection(":memory:" if file is None else str(file))

    @classmethod
    def of(cls, texts: Iterable[str], file: Path | None = None) -> FullText:
        """A new database of these texts, numbered from 0."""
        made = cls(file)
        with made._connection as connection:
            connection.execute(_TABLE)
            connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        return made

    def search(self, query: str, k: int) -> list[int]:
        """The numbers of the best texts, best first."""
        found = self._connection.execute(
            "SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (any_word(query), k)
        )
        return [int(str(number)) for (number,) in found]

    def read(self, query: str, k: int) -> list[str]:
        """The best texts themselves, best first."""
        found = self._connection.execute(
            "SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (any_word(query), k)
        )
        return [str(text) for (text,) in found]

    def close(self) -> None:
        self._connection.close()


def any_word(query: str) -> str:
    """A question as an FTS5 query: each word quoted, stop words out unless there is nothing else."""
    words = re.findall(r"\w+", query.lower())
    telling = [word for word in words if word not in _STOPPED]
    return " OR ".join(f'"{word}"' for word in telling or words) or '""'
