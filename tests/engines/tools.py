"""What the tests of the lexical engine share: lines, shelves filled in many ways, and answers that can be compared.

Nothing here knows how the engine works: it adds, removes and asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from strongroom.engines.lexical import Lexical
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.model import Kind, Line, LineId, Millis, Namespace, Provenance, millis

NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
DAY = 86_400_000
ENGINE = Lexical()


class Answer(NamedTuple):
    """One line of an answer. Scores are compared exactly."""

    namespace: str
    id: str
    score: float
    confidence: float = 1.0
    superseded_by: str | None = None
    standing: bool = False


def line(
    number: int,
    text: str,
    *,
    session: str = "",
    author: str = "",
    time: datetime | int | None = None,
    namespace: str = "travel",
) -> Line:
    """A line. Without a time it is one of a long row, a minute each, that ends days before `NOON`."""
    at = millis(NOON) - 9 * DAY + number * 60_000 if time is None else time
    at = millis(at) if isinstance(at, datetime) else at
    return Line(
        id=LineId(f"01J{number:023d}"),
        time=Millis(at),
        kind=Kind.NOTE,
        namespace=Namespace(namespace),
        session=session,
        author=author,
        text=text,
        provenance=Provenance((), "", "test", Millis(at)),
    )


def filled(lines: Iterable[Line]) -> LexicalIndex:
    index = ENGINE.index()
    for one in lines:
        index.add(one)
    return index


def answer(
    query: str,
    *indexes: LexicalIndex,
    k: int = 20,
    now: datetime = NOON,
    without: frozenset[LineId] = frozenset(),
) -> list[Answer]:
    ranked = ENGINE.rank_without(query, indexes, k, now, without)
    return [
        Answer(one.line.namespace, one.line.id, one.score, one.confidence, one.superseded_by, one.standing)
        for one in ranked
    ]


def texts(query: str, *indexes: LexicalIndex, k: int = 20, now: datetime = NOON) -> list[str]:
    return [one.line.text for one in ENGINE.rank(query, indexes, k, now)]


def arrived(lines: Sequence[Line], never: Sequence[Line], chance: Random) -> LexicalIndex:
    """An index of `lines` that had a life: any order, batches of any size, lines that left, some to come again."""
    index = ENGINE.index()
    order = [*lines, *never]
    chance.shuffle(order)
    while order:
        batch = [order.pop() for _ in range(min(chance.randint(1, 4), len(order)))]
        if chance.random() < 0.5:
            index.add_read(batch, ENGINE.readings(batch))
        else:
            for one in batch:
                index.add(one)
        for one in chance.sample(batch, chance.randint(0, len(batch))):
            index.remove(one)
            if one in lines and chance.random() < 0.5:
                index.add(one)
            elif one in lines:
                order.insert(chance.randint(0, len(order)), one)
    for one in never:
        index.remove(one)  # many are gone already: nothing happens
    return index


QUERIES = (
    "when did the blue boat leave the harbour?",
    "where am I going this weekend?",
    "how many lanterns did Ana buy last week",
    "who mentioned the harbour most recently",
    "May 2026",
    "成都へ行く",
    "the of and",
    "parseHTTPResponse",
    "",
    "nothing that is known",
    "what have I bought on my trips",
    "is the boat in the harbour a good present",
    "wo war das Boot",
)
_PIECES = (
    "the blue boat",
    "left the harbour",
    "going this weekend",
    "Ana bought three lanterns",
    "trip to Chengdu, May 25-29",
    "on 2026-05-19",
    "last week",
    "成都旅行 5月25日",
    "parseHTTPResponse(ana@example.com)",
    "I told my sister",
    "blue blue blue",
    "of the",
    "!!!",
    "日本へ行く",
    "🎉",
    "lantern " * 9,
    "always call me Ana",
    "I never eat fish",
    "I moved to Oslo, no longer in Chengdu",
    "das Boot ist in dem Hafen",
)


@st.composite
def shelves(draw: st.DrawFn, most: int = 12) -> list[Line]:
    """Lines with all that could make an order show: equal times, equal texts, sessions in no order, no words."""
    texts_ = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4).map(" ".join)
    parts = st.tuples(
        texts_.flatmap(lambda text: st.sampled_from([text, text + "?"])),
        st.sampled_from(["", "", "s1", "s2"]),
        st.sampled_from(["", "Ana", "assistant", "user"]),
        st.sampled_from([-40, -8, -2, -1, -1, -1, 0, 3]),
    )
    numbers = st.lists(parts, max_size=most)
    return [
        line(number, text, session=session, author=author, time=millis(NOON) + days * DAY)
        for number, (text, session, author, days) in enumerate(draw(numbers))
    ]
