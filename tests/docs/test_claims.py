"""Claims of the pages that no other test makes: about the clock, engines, and what a holder of a cap can do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, errors
from strongroom.engines import Ranked
from strongroom.engines.recency import Recency, RecencyIndex
from strongroom.model import Line, LineId, Millis, Namespace
from strongroom.shelves import Shelves
from tests.conftest import Clock


@pytest.mark.requirement("bad-clock")
def test_turning_the_clock_back_does_not_revive_an_expired_cap(vault: Vault, clock: Clock) -> None:
    cap = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=60)
    clock.move(120)
    with pytest.raises(errors.CapExpired):
        vault.memory(cap).get("anything")
    clock.move(-100)
    with pytest.raises(errors.ClockBehind):
        vault.memory(cap).get("anything")


class Widening(Recency):
    """An engine that answers with lines of its own: another namespace's, another text, a line of its own making."""

    def __init__(self) -> None:
        self.changes: dict[str, object] = {}

    def rank(self, query: str, indexes: Sequence[RecencyIndex], k: int, now: Millis) -> Sequence[Ranked]:
        found = super().rank(query, indexes, k, now)
        return [Ranked(msgspec.structs.replace(one.line, **self.changes), one.score) for one in found]


def _line(number: int) -> Line:
    record = {
        "id": LineId(f"01J{number:023d}"),
        "time": number,
        "kind": "note",
        "namespace": Namespace("travel"),
        "session": "",
        "author": "",
        "text": "a line",
        "provenance": {"links": [], "holder": "", "source": "test", "recorded": number},
    }
    return msgspec.convert(record, Line)


@pytest.mark.parametrize("changes", [{}, {"text": "another text"}, {"namespace": "personal"}, {"id": "01J" + "9" * 23}])
def test_an_engine_that_returns_what_it_was_not_given_is_stopped(changes: dict[str, object]) -> None:
    engine = Widening()
    engine.changes = changes
    shelves = Shelves(engine, 1 << 20)
    shelf = shelves.shelf("a/", b"birth", lambda _: None, lambda: [_line(1), _line(2)])
    with pytest.raises(RuntimeError):
        shelves.rank([shelf], "line", 5, Millis(9))


@pytest.mark.requirement("audit-reads", "seed-top-k")
def test_a_holder_can_read_every_line_page_by_page_and_each_page_is_on_record(vault: Vault, cap: Token) -> None:
    for number in range(30):
        vault.memory(cap).put(f"line {number}", namespace="travel")
    reader = vault.memory(vault.mint(actor="local/alice", ops=["get", "list"], namespaces=["travel"]))
    ids = [line.id for line in reader.list().lines]
    before = vault.audit.size()
    texts = [hit.text for at in range(0, 30, 20) for hit in reader.get(ids=ids[at : at + 20])]
    assert sorted(texts) == sorted(f"line {number}" for number in range(30))
    read = [line for _, entry in vault.audit.entries(before) if entry is not None for line in entry.lines]
    assert read == ids


def test_a_rollback_no_further_than_the_last_checkpoint_is_not_found(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.audit.checkpoint()
    assert vault.scrub()
    saved = (tmp_path / "vault" / "vault.db").read_bytes()
    vault.memory(cap).put("lost without a trace", namespace="travel")
    vault.close()
    (tmp_path / "vault" / "vault.db").write_bytes(saved)
    for suffix in ("-wal", "-shm"):
        (tmp_path / "vault" / f"vault.db{suffix}").unlink(missing_ok=True)
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock) as old:
        assert old.memory(cap).get("trace") == []
        assert old.audit.verify().ok, "then the threat model promises too little"
