"""The standing instructions and preferences of one index, by the kinds of questions that they fit, and by words."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence, Set

from strongroom.engines.lexical.question_kinds import bits_of, kinds_of
from strongroom.engines.lexical.tokenizer import words
from strongroom.model import Line, LineId, Millis

_Place = tuple[Millis, LineId, int]
"""The time, the id and the number of a line."""

_NO_NUMBERS: Set[int] = frozenset()


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

    def kinds_of(self, number: int) -> int | None:
        """The kinds of a line, or None if the line is not a standing line."""
        return self._kinds.get(number)

    def with_word(self, word: str) -> Set[int]:
        """The numbers of the lines that contain a word."""
        return self._by_word.get(word, _NO_NUMBERS)

    def of_kind(self, bit: int) -> Sequence[_Place]:
        """The lines of a kind, oldest first."""
        return self._by_kind.get(bit, ())
