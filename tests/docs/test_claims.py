"""Claims of the pages that no other test makes: about the clock, engines, and what a holder of a cap can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, errors
from strongroom.engines import Ranked
from strongroom.engines.recency import Recency, RecencyIndex
from strongroom.memory.line_cache.cache import Batch, LineCache
from strongroom.model import Line, LineId, Namespace
from tests.conftest import Clock
from tests.memory.line_cache.shelves import shelf_of


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

    def rank(self, query: str, indexes: Sequence[RecencyIndex], k: int, now: datetime) -> Sequence[Ranked]:
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


class _Lines:
    """Lines that no store holds."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def batches(self) -> Iterator[Batch]:
        yield Batch(self.lines)

    def read(self, name: LineId) -> Line | None:
        return next((line for line in self.lines if line.id == name), None)

    def replacement(self, name: LineId) -> LineId | None:
        return None


@pytest.mark.parametrize("changes", [{}, {"text": "another text"}, {"namespace": "personal"}, {"id": "01J" + "9" * 23}])
def test_engine_that_returns_what_it_was_not_given_is_stopped(changes: dict[str, object]) -> None:
    engine = Widening()
    engine.changes = changes
    shelves = LineCache(engine, 1 << 20)
    shelf = shelf_of(shelves, "a/", b"birth", lambda: _Lines([_line(1), _line(2)]))
    with pytest.raises(RuntimeError):
        shelves.rank([shelf], "line", 5, datetime(2026, 5, 25, tzinfo=UTC))


@pytest.mark.requirement("audit-reads", "seed-top-k")
def test_holder_can_read_every_line_page_by_page_and_each_page_is_on_record(vault: Vault, cap: Token) -> None:
    for number in range(30):
        vault.memory(cap).put(f"line {number}", namespace="travel")
    reader = vault.memory(vault.mint(actor="local/alice", ops=["get", "list"], namespaces=["travel"]))
    ids = [line.id for line in reader.list().lines]
    before = vault.audit.size()
    texts = [hit.text for at in range(0, 30, 20) for hit in reader.get(ids=ids[at : at + 20])]
    assert sorted(texts) == sorted(f"line {number}" for number in range(30))
    read = [line for _, entry in vault.audit.entries(before) if entry is not None for line in entry.lines]
    assert read == ids


def _put_back(tmp_path: Path, saved: bytes) -> None:
    (tmp_path / "vault" / "vault.db").write_bytes(saved)
    for suffix in ("-wal", "-shm"):
        (tmp_path / "vault" / f"vault.db{suffix}").unlink(missing_ok=True)


def test_rollback_to_a_state_after_the_last_checkpoint_is_not_found(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.audit.checkpoint()
    assert vault.scrub()
    saved = (tmp_path / "vault" / "vault.db").read_bytes()
    vault.memory(cap).put("lost without a trace", namespace="travel")
    vault.close()
    _put_back(tmp_path, saved)
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock) as old:
        assert old.memory(cap).get("trace") == []
        assert old.audit.verify().ok, "then the threat model promises too little"


@pytest.mark.requirement("audit-unseen")
def test_rollback_without_the_witness_file_is_not_found_and_not_ruled_out(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    assert vault.scrub()
    saved = (tmp_path / "vault" / "vault.db").read_bytes()
    vault.memory(cap).put("seen", namespace="travel")
    assert vault.audit.verify().ok
    vault.close()
    _put_back(tmp_path, saved)
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock) as old:
        assert not old.audit.verify().ok
        (keys.directory / "checkpoint").unlink()
        for _ in range(2):
            report = old.audit.verify()
            assert report.is_sound, "then the threat model promises too little"
            assert (report.ok, report.seen_before) == (False, None)


@pytest.mark.requirement("audit-verify")
def test_older_secrets_put_back_stop_a_running_process_and_fool_a_new_one_until_verify(
    vault: Vault, cap: Token, tmp_path: Path, reopen: Callable[[], Vault]
) -> None:
    def sql(query: str, *values: bytes) -> list[tuple[object, ...]]:
        with closing(apsw.Connection(str(tmp_path / "vault" / "vault.db"))) as connection:
            return list(connection.execute(query, values))

    ((old,),) = sql("SELECT body FROM objects WHERE name = 'vault/secrets'")
    assert isinstance(old, bytes)
    vault.rotate_issuer()
    with pytest.raises(errors.CapSignatureInvalid):
        vault.memory(cap).get("x")
    valid = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"])
    sql("UPDATE objects SET body = ?, version = (SELECT version + 1 FROM head) WHERE name = 'vault/secrets'", old)
    sql("UPDATE head SET version = version + 1")
    with pytest.raises(errors.Tampered):
        vault.memory(valid).get("x")
    with pytest.raises(errors.CapSignatureInvalid):
        vault.memory(cap).get("x")  # what this process knows of issuers stays in force
    assert reopen().memory(cap).get("x") == [], "then the threat model promises too little"
    assert {finding.object for finding in vault.audit.verify().findings} == {"vault/secrets"}


def test_cap_that_may_only_put_can_confirm_a_guess_of_a_line_whose_id_it_knows(vault: Vault, cap: Token) -> None:
    known = vault.memory(cap).put("the secret", namespace="travel").id
    writer = vault.memory(vault.mint(actor="local/alice", ops=["put"], namespaces=["travel"]))
    before = vault.audit.size()
    with pytest.raises(errors.LineConflict):
        writer.put("a wrong guess", id=known)
    assert writer.put("the secret", id=known).duplicate, "then the threat model promises too little"
    assert vault.audit.size() == before + 2, "each guess is on record"


def test_line_dated_in_the_future_ranks_first_and_says_when_it_was_recorded(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("from a year ahead", namespace="travel", time=datetime(2027, 5, 22, tzinfo=UTC))
    memory.put("of today", namespace="travel")
    first, second = memory.get("")
    assert (first.text, second.text) == ("from a year ahead", "of today")
    assert first.provenance.recorded == second.provenance.recorded
