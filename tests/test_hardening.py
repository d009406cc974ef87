"""What an attacker's review asked for, where no other test says it: costs that must not explode, traces that must not
stay, and objects planted where the log does not look.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, errors, model
from strongroom.engines.lexical import term_weights
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.query import Question
from strongroom.engines.lexical.session_order import SessionOrder
from strongroom.engines.recency import Recency
from strongroom.memory.line_cache.cache import Batch, LineCache
from strongroom.model import Line, LineId, Millis
from tests.conftest import Clock
from tests.engines.tools import line
from tests.memory.line_cache.shelves import shelf_of


@pytest.mark.requirement("recall-remove")
def test_removing_lines_of_one_moment_looks_at_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else forgetting a diary whose lines all have one date would stop every process for minutes."""
    lines = [line(number, f"entry {number}", time=7, session="diary") for number in range(600)]
    index = LexicalIndex()
    for one in lines:
        index.add(one)
    looked = 0
    original = SessionOrder._moment

    def counted(self: SessionOrder, number: int) -> tuple[Millis, LineId]:
        nonlocal looked
        looked += 1
        return original(self, number)

    monkeypatch.setattr(SessionOrder, "_moment", counted)
    for one in reversed(lines):
        index.remove(one)
    assert index.line_count == 0
    assert len(lines) <= looked < 30 * len(lines)


@pytest.mark.requirement("recall-pruning")
def test_of_a_very_long_query_only_the_rarest_words_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "MOST_WORDS", 3)

    index = LexicalIndex()
    for number in range(20):
        index.add(line(number, "alpha beta gamma delta" if number else "alpha beta gamma delta walrus"))
    question = Question.of("alpha beta gamma delta walrus", datetime(2026, 5, 25, tzinfo=UTC))
    found, _ = term_weights.word_terms(
        question, [index], term_weights.Size.of([index]), term_weights.ENOUGH, term_weights.ENOUGH
    )
    assert len(found) == 3
    assert len(found[0].places[0]) == 1


class _Endless:
    """Lines that never end, as on a very large shelf."""

    def __init__(self) -> None:
        self.started = threading.Event()

    def batches(self) -> Iterator[Batch]:
        while True:
            self.started.set()
            yield Batch(())

    def read(self, name: LineId) -> Line | None:
        return None


@pytest.mark.requirement("recall-patience")
def test_closing_ends_what_loads_in_the_background() -> None:
    """A thread that outlives its vault can crash the process at exit."""
    shelves = LineCache(Recency(), 1 << 20)
    source = _Endless()
    before = threading.active_count()
    shelf_of(shelves, "a/", b"birth", lambda: source, 0.0)
    source.started.wait(60)
    shelves.close()
    assert threading.active_count() == before


@pytest.mark.requirement("pages-derived", "bad-object")
def test_an_object_planted_for_an_actor_that_never_was_is_named_and_stops_no_rotation(
    vault: Vault, cap: Token, keys: FileKeys, clock: Clock, tmp_path: Path
) -> None:
    vault.memory(cap).put_many([NewLine(text="a line", namespace="travel")])
    planted = f"actors/{'a' * 32}/memory/{'b' * 32}/derived/x"
    (found,) = tmp_path.rglob("vault.db")
    with apsw.Connection(str(found)) as connection:
        connection.execute("INSERT INTO objects (version, name, body) VALUES (-1, ?, x'00')", (planted,))
    report = vault.audit.look()
    assert [finding.flaw.value for finding in report.findings] == ["object_extra"]
    vault.rotate_root()
    assert [hit.text for hit in vault.memory(cap).get("a line")] == ["a line"]


def test_a_vault_needs_at_least_one_namespace_and_each_once(tmp_path: Path, keys: FileKeys) -> None:
    for names in ([], ["work", "work"]):
        with pytest.raises(errors.InvalidRequest):
            strongroom.create(tmp_path / "other", keys=keys, namespaces=names)
    assert not (tmp_path / "other").exists()


@pytest.mark.requirement("bad-object")
def test_characters_that_come_apart_into_marks_count_as_marks() -> None:
    for character in "\u0f73\u0f75\u0f81":
        with pytest.raises(errors.InvalidRequest):
            model.clean_text("a" + character * 31)
    assert all(
        unicodedata.combining(character) or character in model._MADE_OF_MARKS
        for character in map(chr, range(0x110000))
        if unicodedata.combining(unicodedata.normalize("NFD", character)[0])
    )
