"""What recall is measured against: two searches by words, as somebody would set them up with care.

SQLite's FTS5 with the porter stemmer; the query's stop words are left out and any of the other words may match; by
rank. And BM25 with stop words left out everywhere and the English Snowball stemmer.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from heapq import nsmallest
from pathlib import Path

import apsw
import Stemmer

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
_WORD = re.compile(r"\w+")
_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""BM25's k1 and b."""


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
        return [number for number, _ in self.score(query, k)]

    def score(self, query: str, k: int) -> list[tuple[int, float]]:
        """The same, each with its score: higher is better."""
        found = self._connection.execute(
            "SELECT rowid, -rank FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (any_word(query), k)
        )
        return [(int(str(number)), float(str(score))) for number, score in found]

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
    words = _WORD.findall(query.lower())
    telling = [word for word in words if word not in _STOPPED]
    return " OR ".join(f'"{word}"' for word in telling or words) or '""'


class Okapi:
    """Texts by number, ranked by BM25 without stop words. Of equal texts the first comes first."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._stem = Stemmer.Stemmer("english").stemWord
        self._stems: dict[str, str] = {}
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._lengths: list[int] = []
        for number, text in enumerate(texts):
            counted = Counter(self._words(text))
            self._lengths.append(counted.total())
            for word, count in counted.items():
                self._counts[word][number] = count

    def score(self, query: str, k: int) -> list[tuple[int, float]]:
        """The numbers of the best texts and their scores, best first."""
        scores: defaultdict[int, float] = defaultdict(float)
        usual = sum(self._lengths) / max(1, len(self._lengths)) or 1
        for word in set(self._words(query)):
            held = self._counts.get(word, {})
            rarity = math.log(1 + (len(self._lengths) - len(held) + 0.5) / (len(held) + 0.5))
            for number, count in held.items():
                length = 1 - _LENGTH_SHARE + _LENGTH_SHARE * self._lengths[number] / usual
                scores[number] += rarity * count * (_SATURATION + 1) / (count + _SATURATION * length)
        return nsmallest(k, scores.items(), key=lambda found: (-found[1], found[0]))

    def _words(self, text: str) -> Iterator[str]:
        for word in _WORD.findall(text.lower()):
            if word not in _STOPPED:
                stem = self._stems.get(word)
                if stem is None:
                    stem = self._stems[word] = self._stem(word)
                yield stem
