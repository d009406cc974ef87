"""The order of lines within a session: what keeping it costs."""

from __future__ import annotations

import pytest

from strongroom.engines.lexical.index import LexicalIndex
from strongroom.engines.lexical.session_order import SessionOrder
from strongroom.model import LineId, Millis
from tests.engines.tools import line


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
