"""Kept readings: an index filled from them is the one that read the lines, and damage never gets in half-way."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engines.lexical import codec
from strongroom.engines.lexical.codec import pack, unpack
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.line_features import RULES, Days, extract
from strongroom.engines.lexical.tokenizer import VERSION
from strongroom.model import Line
from tests.engines.tools import ENGINE, NOON, QUERIES, Answer, answer, filled, line, shelves, texts

pytestmark = pytest.mark.requirement("recall-kept")

EXAMPLES = [pytest.param(80, id="some"), pytest.param(800, id="many", marks=pytest.mark.long)]
OLD = [line(1, "the old boat, May 3", session="s"), line(2, "Where is the lamp?", session="s")]
NEW = [line(3, "Ana bought three boats on May 25", session="s", author="Ana"), line(4, "xyzzy 成都")]


def _state(index: LexicalIndex) -> str:
    """Everything an index holds, as text: a list that grew by one number is another text."""
    return f"{vars(index)} {vars(index.calendar)}".replace(repr(index.calendar), "")


def _answers(index: LexicalIndex) -> list[list[Answer]]:
    return [answer(query, index) for query in QUERIES]


def _refused(readings: bytes, lines: list[Line]) -> None:
    """Refused with ValueError, the index as it was, and still of use."""
    index = filled(OLD)
    before, answers = _state(index), _answers(index)
    with pytest.raises(ValueError):
        index.add_read(lines, readings)
    assert _state(index) == before
    assert _answers(index) == answers
    for one in NEW:
        index.add(one)
    assert _answers(index) == _answers(filled([*OLD, *NEW]))


def _changed(change: Callable[[list[Any]], None]) -> bytes:
    columns = msgspec.msgpack.decode(ENGINE.readings(NEW))
    change(columns)
    return msgspec.msgpack.encode(columns)


def _column(name: str) -> int:
    return codec.EncodedFeatures.__struct_fields__.index(name)


# What is of no use changes nothing.


@pytest.mark.parametrize("readings", [b"", b"\x00", b"\xff" * 40, b"{}", msgspec.msgpack.encode([]), b"\x97" * 9])
def test_garbage_is_refused_and_nothing_taken_in(readings: bytes) -> None:
    _refused(readings, NEW)


def test_readings_that_end_anywhere_too_early_are_refused_and_nothing_taken_in() -> None:
    whole = ENGINE.readings(NEW)
    for end in range(len(whole)):
        _refused(whole[:end], NEW)
    _refused(whole + b"\x00", NEW)


@pytest.mark.parametrize("lines", [NEW[:1], [*NEW, line(5, "one more")], []], ids=["fewer", "more", "none"])
def test_readings_of_another_number_of_lines_are_refused_and_nothing_taken_in(lines: list[Line]) -> None:
    _refused(ENGINE.readings(NEW), lines)
    if not lines:
        _refused(ENGINE.readings([]), NEW)


def test_readings_made_by_other_rules_are_refused_and_nothing_taken_in() -> None:
    for version in ("", "0", f"{_version()}1", _version()[:-1]):

        def other(columns: list[Any], version: str = version) -> None:
            columns[_column("version")] = version

        _refused(_changed(other), NEW)


def _version() -> str:
    return unpack(ENGINE.readings(NEW), len(NEW)).version


def test_version_names_the_rules_the_stemmer_and_the_machines_numbers() -> None:
    assert RULES in _version()
    assert VERSION in RULES
    assert sys.byteorder in _version()


def _drop_bytes(name: str, count: int) -> Callable[[list[Any]], None]:
    def change(columns: list[Any]) -> None:
        columns[_column(name)] = columns[_column(name)][:-count]

    return change


def _put(name: str, value: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    def change(columns: list[Any]) -> None:
        columns[_column(name)] = value(columns[_column(name)])

    return change


def _far(occurrences: bytes) -> bytes:
    """The last occurrence in a line that there is not."""
    numbers = array("I", occurrences)
    numbers[-1] = 9 << codec.TF_BITS | 1
    return numbers.tobytes()


DAMAGE = {
    "a word too few": _put("vocabulary", lambda held: held[:-1]),
    "a word too many": _put("vocabulary", lambda held: [*held, "more"]),
    "half a size": _drop_bytes("sizes", 2),
    "a size too few": _drop_bytes("sizes", 4),
    "half an occurrence": _drop_bytes("occurrences", 2),
    "an occurrence too few": _drop_bytes("occurrences", 4),
    "a length too few": _drop_bytes("lengths", 2),
    "half a length": _drop_bytes("lengths", 1),
    "a mark too few": _drop_bytes("marks", 1),
    "an occurrence beyond the lines": _put("occurrences", _far),
    "a day beyond the lines": _put("days", lambda held: [*held, [9, 739_000, 739_000]]),
    "a day before the lines": _put("days", lambda held: [*held, [-1, 739_000, 739_000]]),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE.keys())
def test_columns_that_do_not_fit_are_refused_and_nothing_taken_in(change: Callable[[list[Any]], None]) -> None:
    _refused(_changed(change), NEW)


# What is of use is as good as reading.


@pytest.mark.parametrize("examples", EXAMPLES)
def test_index_filled_from_readings_is_the_one_that_read_the_lines(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves(), st.lists(st.integers(1, 5), max_size=6))
    def prove(lines: list[Line], cuts: list[int]) -> None:
        kept, rest = ENGINE.index(), lines
        for cut in [*cuts, len(lines)]:
            batch, rest = rest[:cut], rest[cut:]
            kept.add_read(batch, ENGINE.readings(batch))
        assert _answers(kept) == _answers(filled(lines))
        for one in lines:
            kept.remove(one)
        assert (kept.line_count, kept.word_count, kept.session_count, kept.postings) == (0, 0, 0, {})

    prove()


@pytest.mark.parametrize("examples", EXAMPLES)
def test_unpacked_readings_are_those_packed(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves())
    def prove(lines: list[Line]) -> None:
        readings = [extract(one) for one in lines]
        kept = unpack(pack(readings), len(lines))
        assert list(kept.marks) == [one.marks for one in readings]
        assert list(array("H", kept.lengths)) == [one.length for one in readings]
        assert kept.spoken() == [(number, days) for number, one in enumerate(readings) for days in one.days]
        counts: list[dict[str, int]] = [{} for _ in readings]
        for word, occurrences in kept.postings(0):
            for packed in occurrences:
                counts[packed >> codec.TF_BITS][word] = packed & 255
        assert counts == [one.counts for one in readings]

    prove()


def test_reading_depends_on_its_line_alone() -> None:
    alone = [ENGINE.readings([one]) for one in NEW]
    filled(OLD)
    answer("boats in may", filled([*OLD, *NEW]))
    assert [ENGINE.readings([one]) for one in NEW] == alone


def test_readings_are_the_same_bytes_each_time() -> None:
    assert ENGINE.readings([*OLD, *NEW]) == ENGINE.readings([*OLD, *NEW])


def test_days_and_marks_are_kept() -> None:
    index = ENGINE.index()
    index.add_read([*OLD, *NEW], ENGINE.readings([*OLD, *NEW]))
    day = NOON.date().replace(day=25).toordinal()
    assert [(days, list(lines)) for days, lines in index.calendar.spoken(Days(day, day))] == [(Days(day, day), [2])]
    assert list(index.marks) == [extract(one).marks for one in (*OLD, *NEW)]
    assert texts("what is on May 25?", index, k=1) == [NEW[0].text]


def test_readings_of_no_lines_add_nothing() -> None:
    index = filled(OLD)
    before = _state(index)
    index.add_read([], ENGINE.readings([]))
    assert _state(index) == before


def test_readings_can_be_added_after_lines_were_removed() -> None:
    """The numbers of lines that left are free, and kept readings must not be laid over them."""
    index = filled([*OLD, line(8, "a passing lamp")])
    index.remove(OLD[0])
    index.add_read(NEW, ENGINE.readings(NEW))
    index.add(OLD[0])
    index.remove(line(8, "a passing lamp"))
    assert _answers(index) == _answers(filled([*OLD, *NEW]))
