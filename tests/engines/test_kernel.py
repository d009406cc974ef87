"""The compiled ranking: it gives the answers that Python gives, and no column however wrong leads it astray."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.engines.lexical import search, signals, term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.model import Line, LineId
from tests.engines.test_lexical_index import EXAMPLES
from tests.engines.test_score import ASKED, world
from tests.engines.tools import QUERIES, Answer, answer, filled, line, shelves

pytestmark = [pytest.mark.requirement("recall-kernel"), pytest.mark.usefixtures("compiled")]

_ROUNDING = 1e-9
_NO_LINES = frozenset[LineId]()


@pytest.fixture(scope="module")
def compiled() -> None:
    assert search.kernel is not None, "the ranking was not compiled when Strongroom was installed here"


def _in_python(query: str, indexes: Sequence[LexicalIndex], k: int, without: frozenset[LineId]) -> list[Answer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "kernel", None)
        return answer(query, *indexes, k=k, without=without)


def _compare(query: str, indexes: Sequence[LexicalIndex], k: int, without: frozenset[LineId] = _NO_LINES) -> None:
    """The same scores; and the same lines, but that lines as good as each other may change places."""
    ours = answer(query, *indexes, k=k, without=without)
    theirs = _in_python(query, indexes, k, without)
    assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=_ROUNDING)
    assert [one.confidence for one in ours] == pytest.approx([one.confidence for one in theirs], abs=_ROUNDING)
    assert [one.standing for one in ours] == [one.standing for one in theirs]
    least = ours[-1].score + _ROUNDING if ours else 0.0
    for one, other in zip(ours, theirs, strict=True):
        alike = {known[:2] for known in theirs if abs(known.score - one.score) <= _ROUNDING}
        assert one[:2] == other[:2] or one[:2] in alike or one.score <= least


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("k", [1, 5, 20, 10**9])
def test_kernel_answers_as_python_does(seed: int, k: int) -> None:
    indexes, chance = world(seed), Random(seed)
    for query in ASKED:
        _compare(query, indexes, k)
        every = [one.id for one in answer(query, *indexes, k=60)]
        for count in (1, 10, 50):
            _compare(query, indexes, k, frozenset(LineId(one) for one in chance.sample(every, min(count, len(every)))))


@pytest.mark.parametrize("examples", EXAMPLES)
def test_kernel_answers_as_python_does_on_any_shelf(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(shelves(30), shelves(5), st.integers(1, 4))
    def prove(first: list[Line], second: list[Line], k: int) -> None:
        indexes = [filled(first), filled(second), filled([])]
        for query in QUERIES:
            _compare(query, indexes, k)

    prove()


def test_kernel_answers_as_python_does_where_days_have_many_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "THEN", 5)
    for query in ("boat yesterday", "what happened last week", "lantern in May", "May 2026"):
        _compare(query, world(3), 10)


def test_kernel_answers_as_python_does_where_many_words_are_common(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "SURELY", 3)
    monkeypatch.setattr(term_weights, "SHORTLIST", 7)
    for query in ASKED:
        _compare(query, world(5), 10)


def test_kernel_looks_for_as_many_words_as_a_question_may_have() -> None:
    words = [f"word{number:03d}" for number in range(term_weights.MOST_WORDS + 20)]
    chance = Random(1)
    index = filled(line(number, " ".join(chance.sample(words, 60))) for number in range(40))
    _compare(" ".join(words), [index], 10)


@pytest.mark.requirement("recall-pruning")
def test_kernel_leaves_out_most_lines_that_cannot_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests that compare an answer with the first of a longer one would hold for the wrong reason."""
    assert search.kernel is not None
    indexes, returned, kernel = world(1), list[int](), search.kernel

    def counted(*given: Any) -> Any:
        found = kernel(*given)
        returned.append(0 if found is None else len(found[0]))
        return found

    monkeypatch.setattr(search, "kernel", counted)
    for k in (3, 10**9):
        answer("boat harbour lantern rope", *indexes, k=k)
    assert 3 <= returned[0] < returned[1] / 4


# Columns that are wrong.


def _columns() -> list[Any]:
    """Those of three lines in two sessions, of which the first two follow each other; their names, and days."""
    return [
        array("H", [2, 3, 4]),
        array("I", [0, 0, 1]),
        array("i", [-1, 0, -1]),
        array("i", [1, -1, -1]),
        bytearray(3),
        array("I", [5, 4]),
        {"one": 0, "two": 1, "three": 2},
        {},
    ]


def _occurs(*numbers: int, count: int = 1) -> array[int]:
    return array("I", [number << 8 | count for number in numbers])


def _best(
    given: Sequence[Any],
    *places: Any,
    k: int = 5,
    words: Any = None,
    limits: Any = None,
    without: Any = frozenset(["three"]),
) -> list[Any]:
    """Ask for the words that occur in these places."""
    assert search.kernel is not None
    *columns, names, days = given
    postings = {f"word {number:03d}": place for number, place in enumerate(places)}
    found = search.kernel(
        [((*columns, postings, names), days)],
        tuple(postings) if words is None else words,
        without,
        (0.0,) * 128,
        signals.weighing_for(10, 0).substances,
        1,
        k,
        limits or (10**6, 10**6, 128, 100),
        (*(1.0,) * 4, 10.0, 10.0, *(1.0,) * 11),
    )
    assert found is not None
    return found[0]


def _numbers(found: Sequence[tuple[int, int, float, int, int, int]]) -> list[int]:
    """The lines that are wanted: excluded ones may come along, marked."""
    return sorted(number for _, number, _, out, _, _ in found if not out)


def test_lines_below_are_found_if_nothing_is_wrong() -> None:
    """Else the tests below would hold for the wrong reason."""
    assert _numbers(_best(_columns(), _occurs(0, 2), 1 << 8 | 3, without=frozenset())) == [0, 1, 2]
    assert _numbers(_best(_columns(), _occurs(0, 2), 1 << 8 | 3, without=frozenset(["one", "nobody"]))) == [1, 2]


def _put(column: int, place: int, value: int) -> Callable[[list[Any]], None]:
    return lambda columns: columns[column].__setitem__(place, value)


def _replace(column: int, value: Any) -> Callable[[list[Any]], None]:
    return lambda columns: columns.__setitem__(column, value)


@pytest.mark.parametrize(
    "spoil",
    [
        _put(1, 0, 2),
        _put(1, 0, 2**32 - 1),
        _replace(0, array("H", [1, 2])),
        _replace(0, array("I", [1, 2, 3])),
        _replace(1, array("I", [0])),
        _replace(2, array("i", [0] * 4)),
        _replace(3, array("i")),
        _replace(4, b""),
        _replace(4, memoryview(bytearray(9)).cast("B", (3, 3))),
        _replace(5, array("I")),
        _replace(7, {3: 1.0}),
        _replace(7, {-1: 1.0}),
        _replace(7, {0: "much"}),
        _replace(7, {0: 1}),
        _replace(7, {2**70: 1.0}),
        _replace(7, []),
        _replace(6, {"three": 3}),
        _replace(6, {"three": -1}),
        _replace(6, {"three": "two"}),
        _replace(6, []),
        _replace(0, None),
        _replace(0, [1, 2, 3]),
    ],
)
def test_columns_that_do_not_fit_are_refused_and_let_go(spoil: Callable[[list[Any]], None]) -> None:
    columns, occurrences = _columns(), _occurs(0, 2)
    spoil(columns)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        _best(columns, occurrences)
    _are_free(*columns, occurrences)


def _are_free(*columns: Any) -> None:
    for column in columns:
        if isinstance(column, array | bytearray):
            column.append(0)  # BufferError while anybody holds it


@pytest.mark.parametrize(
    "place",
    [
        _occurs(3),
        _occurs(2**24 - 1),
        _occurs(0, count=0),
        array("H", [0]),
        3 << 8 | 1,
        1 << 8,
        2**32,
        2**70,
        -1,
        "one",
        (1 << 8 | 1,),
        None,
    ],
)
def test_words_that_lead_astray_are_refused_and_let_go(place: Any) -> None:
    columns, others = _columns(), _occurs(0, 1, 2)
    with pytest.raises((ValueError, TypeError, OverflowError)):
        _best(columns, others, place)
    _are_free(*columns, others, place)


@pytest.mark.parametrize("neighbour", [3, 2**31 - 1, -2, -(2**31)])
@pytest.mark.parametrize("column", [2, 3])
def test_neighbour_that_is_not_there_is_nobody(column: int, neighbour: int) -> None:
    columns = _columns()
    for place in range(3):
        columns[column][place] = neighbour
    assert _numbers(_best(columns, _occurs(1))) == ([0, 1] if column == 3 else [1])


def test_more_words_than_there_is_room_for_are_left_out_or_refused() -> None:
    many = [_occurs(0)] * 200
    assert _numbers(_best(_columns(), *many)) == [0, 1]
    with pytest.raises(ValueError, match="limit"):
        _best(_columns(), *many, limits=(10**6, 10**6, 129, 100))


class _Word(str):
    """A word whose hash is Python code."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("asked for its hash")


@pytest.mark.parametrize("words", [[], None, ("boat", 1), (b"boat",), "boat", (_Word("boat"),)])
def test_words_that_are_no_words_are_refused(words: Any) -> None:
    columns = _columns()
    with pytest.raises((TypeError, ValueError)):
        _best(columns, words=[] if words is None else words)
    _are_free(*columns)


@pytest.mark.parametrize(
    ("k", "limits"), [(-1, None), (2**62, None), (5, (1, 1, 128, 0)), (5, (1, 1, 128, 2**62)), (5, (1, 1, 2**70, 1))]
)
def test_limits_out_of_bounds_are_refused(k: int, limits: Any) -> None:
    with pytest.raises((ValueError, MemoryError, OverflowError)):
        _best(_columns(), _occurs(0), k=k, limits=limits)


class _Liar(frozenset[str]):
    """A set that says that it is empty."""

    def __len__(self) -> int:
        return 0


class _Meddler(array):  # type: ignore[type-arg]
    """A column that takes another away when it is asked for its length."""

    postings: dict[str, Any]

    def __len__(self) -> int:
        self.postings["word 000"] = 1
        return 1


def test_line_removed_meanwhile_is_still_there() -> None:
    assert search.kernel is not None
    *columns, names, days = _columns()
    meddler = _Meddler("I", _occurs(0))
    postings = meddler.postings = {"word 000": _occurs(0, 1, 2), "word 001": meddler}
    found = search.kernel(
        [((*columns, postings, names), days)],
        ("word 000", "word 001"),
        frozenset(),
        (0.0,) * 128,
        signals.weighing_for(10, 0).substances,
        1,
        5,
        (10**6, 10**6, 128, 100),
        (*(1.0,) * 4, 10.0, 10.0, *(1.0,) * 11),
    )
    assert found is not None
    assert _numbers(found[0]) == [0, 1, 2]


@pytest.mark.parametrize("without", [(), [], {"three"}, None, "three", _Liar(["one", "two", "three"])])
def test_lines_that_are_not_wanted_are_a_frozen_set(without: Any) -> None:
    columns = _columns()
    with pytest.raises(TypeError):
        _best(columns, _occurs(0), without=without)
    _are_free(*columns)


def test_best_of_no_lines_is_empty() -> None:
    assert _best(_columns(), _occurs(0, 1, 2), k=0) == []


def test_kernel_keeps_no_memory() -> None:
    columns, right, wrong = _columns(), _occurs(0, 1), _occurs(3)

    def work() -> None:
        _best(columns, right, 2 << 8 | 1)
        with suppress(ValueError):
            _best(columns, right, wrong)

    work()
    tracemalloc.start()
    try:
        work()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(1000):
            work()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 1000  # not a byte for each
