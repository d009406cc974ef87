"""The standing instructions and preferences of one index, by the kinds of questions that they fit, and by words."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Set

from strongroom.engines.lexical.question_kinds import bits_of, kinds_of
from strongroom.engines.lexical.tokenizer import words
from strongroom.model import Line, LineId, Millis

_Place = tuple[Millis, LineId, int]
"""The time, the id and the number of a line."""


class StandingLines:
    """The standing lines of one index. The number of a line is its number in the index."""

    def __init__(self) -> None:
        self._kinds: dict[int, int] = {}
        """The kinds of each line, one bit for each kind."""
        self._by_kind: dict[int, list[_Place]] = {}
        """The lines of each kind, oldest first. A kind is given by the number of its bit."""
        self._by_word: dict[str, set[int]] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def __iter__(self) -> Iterator[int]:
        return iter(self._kinds)

    def add(self, number: int, line: Line) -> None:
        found = frozenset(words(line.text))
        kinds = self._kinds[number] = kinds_of(found)
        place = line.time, line.id, number
        for bit in bits_of(kinds):
            insort(self._by_kind.setdefault(bit, []), place)
        for word in found:
            self._by_word.setdefault(word, set()).add(number)

    def remove(self, number: int, line: Line) -> None:
        """Remove a line, if it is a standing line."""
        kinds = self._kinds.pop(number, None)
        if kinds is None:
            return
        place = line.time, line.id, number
        for bit in bits_of(kinds):
            places = self._by_kind[bit]
            del places[bisect_left(places, place)]
            if not places:
                del self._by_kind[bit]
        for word in frozenset(words(line.text)):
            self._by_word[word].remove(number)
            if not self._by_word[word]:
                del self._by_word[word]

    def kinds_of(self, number: int) -> int:
        """The kinds of a standing line, one bit for each kind."""
        return self._kinds[number]

    def is_fit(self, number: int, kinds: int, sought: Iterable[str]) -> bool:
        """Whether a line is a standing line that has one of these kinds, or contains one of these words."""
        own = self._kinds.get(number)
        if own is None:
            return False
        return own & kinds != 0 or any(number in self._by_word.get(word, ()) for word in sought)

    def count(self, bits: Iterable[int], sought: Iterable[str]) -> tuple[list[int], list[int]]:
        """How many lines each kind has, and how many lines contain each word."""
        return [len(self._by_kind.get(bit, ())) for bit in bits], [len(self._by_word.get(word, ())) for word in sought]

    def with_words(self, sought: Iterable[str]) -> Counter[int]:
        """The numbers of the lines with any of these words, and how many of them each line contains."""
        return Counter([number for word in sought for number in self._by_word.get(word, ())])

    def newest(self, bits: Iterable[int], most: int, least: int, without: Set[LineId], first: Set[int]) -> set[int]:
        """The newest lines of these kinds: about `most` lines, but at least `least` of each kind.

        The lines that `without` and `first` name, by id and by number, are left out.
        """
        found: set[int] = set()
        for bit in bits:
            left = max(most - len(found), least)
            for _, name, number in reversed(self._by_kind.get(bit, ())):
                if name not in without and number not in first:
                    found.add(number)
                    left -= 1
                    if not left:
                        break
        return found
