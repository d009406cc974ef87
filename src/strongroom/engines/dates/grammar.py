"""A grammar as a table of rules for mentions of time: the possible first words, the pattern, and the days meant.

A rule is tried only where one of its first words stands, so an ordinary line costs little. Every repetition in a
pattern is bounded. Therefore a match takes a bounded number of steps, and a scan takes time linear in the text.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from strongroom.engines.dates.day_arithmetic import Days
from strongroom.engines.dates.moment import Moment

Meaning = Callable[[re.Match[str], Moment], list[Days]]
"""A function that returns the days that a match of a pattern means."""
Rule = tuple[str, str, Meaning]
"""The words with which a mention may begin, its pattern in the lower-case text, and the function for its meaning."""
Found = tuple[int, int, list[Days]]
"""The start and the end of a mention in the text, and the days that it means."""

MOST_READ = 128
"""At how many places of one text rules are applied at most, so that even a hostile text costs milliseconds only."""
FIGURES = "0"
"""Among the first words of a rule, this stands for any number."""
_Entry = tuple[re.Pattern[str], list[tuple[re.Pattern[str], Meaning]]]


class Grammar:
    """A table of rules. If several rules match at one place, the earlier rule wins."""

    def __init__(self, words: str, rules: Sequence[Rule]) -> None:
        """`words` is the regular expression that finds words in a text. Rules are tried at these words."""
        self._words = re.compile(words)
        chosen: dict[str, list[int]] = defaultdict(list)
        for number, (firsts, _, _) in enumerate(rules):
            for first in firsts.split():
                chosen[first].append(number)
        self._rules = rules
        self._chosen = dict(chosen)
        self._compiled: dict[int, re.Pattern[str]] = {}
        self._table: dict[str, _Entry] = {}

    def _entry(self, first: str) -> _Entry | None:
        """The rules of a first word. They are compiled at first use, because compiling all rules takes 0.1 s."""
        if first not in self._chosen:
            return None
        if first not in self._table:
            joint = re.compile(_any([self._rules[at][1] for at in self._chosen[first]]), re.ASCII)
            self._table[first] = joint, [(self._pattern(at), self._rules[at][2]) for at in self._chosen[first]]
        return self._table[first]

    def _pattern(self, number: int) -> re.Pattern[str]:
        if number not in self._compiled:
            self._compiled[number] = re.compile(self._rules[number][1], re.ASCII)
        return self._compiled[number]

    def find(self, moment: Moment) -> Iterator[Found]:
        """All mentions of time in the text, from left to right, without overlaps."""
        at, read, low, chosen = 0, 0, moment.low, self._chosen
        for word in self._words.finditer(low):
            first = word[0]
            if first not in chosen:
                if first[0] not in "0123456789":
                    continue
                first = FIGURES
            entry = self._table.get(first) or self._entry(first)
            start = word.start()
            if entry and start >= at and entry[0].match(low, start):
                read += 1
                if found := _read(moment, start, entry):
                    at = found[1]
                    yield found
                if read == MOST_READ:
                    return


def _any(patterns: Sequence[str]) -> str:
    # Group names may repeat between rules, so the joint pattern has none: it only tells whether a rule matches.
    return "|".join(re.sub(r"\(\?P<\w+>", "(?:", pattern) for pattern in patterns)


def _read(moment: Moment, start: int, entry: _Entry) -> Found | None:
    for pattern, meaning in entry[1]:
        match = pattern.match(moment.low, start)
        if match and (meant := meaning(match, moment)):
            return start, match.end(), meant
    return None
