"""The inverted index of one actor's namespace: the words of each line, its neighbours in a session, and its days.

Adding or removing a line changes the entries of its own words only, and never needs a rebuild. Lines are numbered as
they come, but answers never depend on these numbers: only on counts and on the order (session, time, id).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set

from strongroom.engines.lexical.codec import TF_BITS, unpack
from strongroom.engines.lexical.line_features import ASSISTANT, STANDING, Days, LineFeatures, extract, speaker_words
from strongroom.engines.lexical.session_order import SessionOrder
from strongroom.engines.lexical.standing_lines import StandingLines
from strongroom.model import Line, LineId, Millis

_NUMBER_BITS = 32 - TF_BITS
_FIRST, _LAST = Millis(0), Millis(1 << 62)

_WORD_BYTES = 200
"""The RAM in bytes of a word that only one line contains: its text, its place in the table, and its occurrence."""


class LexicalIndex:
    """The index of the lines of one actor's namespace. The number of a line is its position in `lines`."""

    def __init__(self) -> None:
        self.lines: list[Line | None] = []
        self.lengths = array("H")
        self.marks = bytearray()
        self._order = SessionOrder(self.lines, self.lengths)
        self.sessions = self._order.sessions
        self.previous = self._order.previous
        self.next = self._order.next
        self.session_lengths = self._order.lengths
        self.postings: dict[str, array[int] | int] = {}
        """The occurrences of each word, in the order of line numbers.

        An occurrence is one integer: the line's number, and the word's count in that line in the low `TF_BITS` bits.
        Half of all words occur in one line only: these have a plain integer instead of an array.
        """
        self._numbers: dict[LineId, int] = {}
        self.word_count = 0
        self.reply_count = 0
        """How many lines an assistant wrote."""
        self.columns = (
            self.lengths,
            self.sessions,
            self.previous,
            self.next,
            self.marks,
            self.session_lengths,
            self.postings,
            self._numbers,
        )
        """The columns that the compiled ranking (`_kernel.c`) reads."""
        self.calendar = Calendar()
        self._speakers: Counter[str] = Counter()
        """The words of the speakers' names, and how many lines have each word in their speaker's name."""
        self._free_lines: list[int] = []
        self.standing = StandingLines()

    @property
    def line_count(self) -> int:
        return len(self.lines) - len(self._free_lines)

    @property
    def session_count(self) -> int:
        return len(self.session_lengths) - len(self._order.free)

    def add(self, line: Line) -> None:
        self.take(line, extract(line))

    def take(self, line: Line, reading: LineFeatures) -> None:
        """Add a line whose features were extracted already."""
        number = self._numbered(line, reading)
        for word, count in reading.counts.items():
            self._post(word, number << TF_BITS | count)
        self.word_count += reading.length
        self.reply_count += reading.marks & ASSISTANT != 0
        self._order.join(number, line)
        self._count_speaker(line.author, 1)
        if reading.marks & STANDING:
            self.standing.add(number, line)
        self.calendar.add(number, line.time, reading.days)

    def add_read(self, lines: Sequence[Line], readings: bytes) -> None:
        """Add lines by their stored features. If these cannot be used, raises ValueError and adds no line."""
        kept = unpack(readings, len(lines))
        start = len(self.lines)
        for word, occurrences in kept.postings(start):
            if len(occurrences) == 1:
                self._post(word, occurrences[0])
            else:
                self._occurring(word).extend(occurrences)
        self.lines.extend(lines)
        self.lengths.frombytes(kept.lengths)
        self.marks.extend(kept.marks)
        self.word_count += sum(self.lengths[start:])
        self.reply_count += sum([mark & ASSISTANT != 0 for mark in kept.marks])
        self._order.make_room(len(lines))
        for number, line in enumerate(lines, start):
            self._numbers[line.id] = number
            self._order.join(number, line)
            if self.marks[number] & STANDING:
                self.standing.add(number, line)
        for author, count in Counter([line.author for line in lines]).items():
            self._count_speaker(author, count)
        self.calendar.extend(start, lines, kept.spoken())

    def remove(self, line: Line) -> None:
        number = self._numbers.pop(line.id, None)
        if number is None:
            return
        reading = extract(line)
        for word in reading.counts:
            held = self._occurring(word)
            del held[bisect_left(held, number << TF_BITS)]
            if not held:
                del self.postings[word]
        self.word_count -= reading.length
        self.reply_count -= reading.marks & ASSISTANT != 0
        self._order.leave(number, line)
        self._count_speaker(line.author, -1)
        self.standing.remove(number, line)
        self.calendar.remove(number, line.time, reading.days)
        self.lines[number] = None
        self._free_lines.append(number)

    def size(self) -> int:
        return _WORD_BYTES * len(self.postings)

    def _post(self, word: str, occurrence: int) -> None:
        if word in self.postings:
            _insert(self._occurring(word), occurrence)
        else:
            self.postings[word] = occurrence

    def _occurring(self, word: str) -> array[int]:
        """A word's occurrences as an array that the caller may change."""
        held = self.postings.get(word)
        if not isinstance(held, array):
            held = self.postings[word] = array("I", [] if held is None else [held])
        return held

    def line(self, number: int) -> Line:
        found = self.lines[number]
        if found is None:
            raise LookupError("the index refers to a line that was removed from it")
        return found

    def number_of(self, line: Line) -> int | None:
        """The number of a line. None if this index does not hold the line."""
        number = self._numbers.get(line.id)
        return number if number is not None and self.line(number).namespace == line.namespace else None

    def numbers(self, names: Set[LineId]) -> set[int]:
        """The numbers of the given lines. Ids that are not in this index are ignored."""
        return {self._numbers[name] for name in self._numbers.keys() & names}

    def is_speaker(self, names: frozenset[str]) -> bool:
        """Whether one of the words in `names` is part of the name of a speaker in this index."""
        return not names.isdisjoint(self._speakers)

    def _count_speaker(self, author: str, count: int) -> None:
        for word in speaker_words(author):
            self._speakers[word] += count
            if not self._speakers[word]:
                del self._speakers[word]

    def standing_lines(self) -> Iterator[Line]:
        """The standing instructions and preferences."""
        return map(self.line, self.standing)

    def _numbered(self, line: Line, reading: LineFeatures) -> int:
        number = self._free_lines.pop() if self._free_lines else len(self.lines)
        self._numbers[line.id] = number
        if number < len(self.lines):
            self.lines[number], self.lengths[number], self.marks[number] = line, reading.length, reading.marks
            return number
        self.lines.append(line)
        self.lengths.append(reading.length)
        self.marks.append(reading.marks)
        self._order.make_room(1)
        return number


class Calendar:
    """An index of lines by the time when they were written, and by the days that they mention."""

    def __init__(self) -> None:
        self._written: list[int] = []
        """The time and number of every line, as one integer: a tuple would take three times the RAM."""
        self._spoken: dict[Days, array[int]] = {}
        """For each range of days, the numbers of the lines that mention exactly this range, in order."""
        self._days: list[Days] = []
        """All ranges of days that lines mention, in order."""
        self._longest = 0

    def add(self, number: int, time: Millis, days: Iterable[Days]) -> None:
        _insert(self._written, time << _NUMBER_BITS | number)
        for one in days:
            self._speak(number, one)

    def extend(self, start: int, lines: Sequence[Line], days: Iterable[tuple[int, Days]]) -> None:
        """Add many lines, which get the numbers from `start` on.

        `days` are the days that the lines mention, each with a line number that counts from 0.
        """
        self._written += [line.time << _NUMBER_BITS | number for number, line in enumerate(lines, start)]
        self._written.sort()  # two sorted runs: Timsort merges them in one pass
        for number, one in days:
            self._speak(start + number, one)

    def remove(self, number: int, time: Millis, days: Iterable[Days]) -> None:
        del self._written[bisect_left(self._written, time << _NUMBER_BITS | number)]
        for one in days:
            held = self._spoken[one]
            del held[bisect_left(held, number)]
            if not held:
                del self._spoken[one]
                del self._days[bisect_left(self._days, one)]

    def _speak(self, number: int, days: Days) -> None:
        held = self._spoken.get(days)
        if held is None:
            held = self._spoken[days] = array("I")
            insort(self._days, days)
            self._longest = max(self._longest, days.last - days.first)
        _insert(held, number)

    def count(self, start: Millis, end: Millis) -> int:
        """How many lines were written at `start` or later, and before `end`."""
        first, last = self._between(start, end)
        return last - first

    def written(self, start: Millis, end: Millis, most: int) -> Iterable[int]:
        """The numbers of the newest `most` lines that were written at `start` or later, and before `end`.

        Lines with the same time as the oldest of them are returned too.
        """
        first, last = self._between(start, end)
        if last - first > most:
            first = bisect_left(self._written, self._written[last - most] >> _NUMBER_BITS << _NUMBER_BITS)
        return _numbers(self._written[first:last])

    def _between(self, start: Millis, end: Millis) -> tuple[int, int]:
        return bisect_left(self._written, start << _NUMBER_BITS), bisect_left(self._written, end << _NUMBER_BITS)

    def spoken(self, days: Days) -> list[tuple[Days, Sequence[int]]]:
        """The mentioned ranges of days that overlap with `days`, in order, each with the lines that mention it."""
        at = bisect_left(self._days, (days.first - self._longest,))
        end = bisect_left(self._days, (days.last + 1,))
        return [(one, self._spoken[one]) for one in self._days[at:end] if one.last >= days.first]

    def newest(self, k: int) -> Iterable[int]:
        """The numbers of the newest `k` lines, and of all lines with the same time as the oldest of these."""
        return self.written(_FIRST, _LAST, k) if k > 0 else ()


def _numbers(written: Iterable[int]) -> list[int]:
    return [packed & (1 << _NUMBER_BITS) - 1 for packed in written]


def _insert(held: array[int] | list[int], packed: int) -> None:
    """Insert a value into a sorted list. Appending is tried first, because new values are mostly the greatest."""
    if not held or held[-1] < packed:
        held.append(packed)
    else:
        insort(held, packed)
