"""The weights of a query's words, and how many of them count."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from strongroom.engines.lexical import term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.query import Question
from tests.engines.tools import line


@pytest.mark.requirement("recall-pruning")
def test_only_the_rarest_words_of_a_very_long_query_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "MOST_WORDS", 3)

    index = LexicalIndex()
    for number in range(20):
        index.add(line(number, "alpha beta gamma delta" if number else "alpha beta gamma delta walrus"))
    question = Question.of("alpha beta gamma delta walrus", datetime(2026, 5, 25, tzinfo=UTC))
    found, unknown, _ = term_weights.word_terms(
        question, [index], term_weights.Size.of([index]), term_weights.ENOUGH, term_weights.ENOUGH
    )
    assert len(found) == 3
    assert unknown == 0
    assert len(found[0].places[0]) == 1
