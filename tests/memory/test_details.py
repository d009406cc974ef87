"""Lines with details: tags, meta, an expiry and a turn, and the vaults that do not have them yet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from strongroom import NewLine, Token, Vault, errors, model
from strongroom.crypto import line_encryption
from strongroom.memory import Memory
from strongroom.memory.vault_records import FORMAT, VaultFormatRecord
from strongroom.model import LineDetails
from strongroom.store import Swap
from strongroom.vault.vault_format import raise_format
from tests.conftest import Clock

Reopen = Callable[[], Vault]
LATER = datetime(2031, 1, 1, tzinfo=UTC)
DEEP: dict[str, Any] = {}
for _ in range(12):
    DEEP = {"a": DEEP}


@pytest.fixture
def memory(vault: Vault, cap: Token) -> Memory:
    return vault.memory(cap)


def set_format(vault: Vault, number: int) -> None:
    """Write another format into the vault's record, as a program of that version would have made it."""
    stored = vault.store.get(FORMAT)
    assert stored is not None
    body = msgspec.json.encode(msgspec.structs.replace(VaultFormatRecord.decoded(stored), v=number))
    vault._clerk.admin.record_owner("upgrade", [Swap(FORMAT, body, stored.version)])


@pytest.mark.requirement("details-format")
@pytest.mark.parametrize(
    "details",
    [{"tags": ["a"]}, {"meta": {"a": 1}}, {"turn": "t1"}, {"expires": LATER}],
    ids=["tags", "meta", "turn", "expires"],
)
def test_details_in_a_vault_of_format_1_are_refused_by_name_until_it_is_raised(
    vault: Vault, reopen: Reopen, cap: Token, details: dict[str, Any]
) -> None:
    assert raise_format(vault) == 2, "new vaults have it"
    set_format(vault, 1)
    older = reopen()
    memory = older.memory(cap)
    with pytest.raises(errors.FormatTooOld) as refused:
        memory.put("Trip to Chengdu", namespace="travel", **details)
    assert "strongroom upgrade" in refused.value.hint
    assert memory.list().lines == ()
    plain = memory.put("a plain line", namespace="travel")
    assert raise_format(vault) == 2, "a running vault never goes back"
    assert raise_format(older) == 1
    assert raise_format(older) == 2
    assert memory.put("Trip to Chengdu", namespace="travel", **details).id > plain.id
    assert older.audit.verify().ok


@pytest.mark.requirement("details-format")
def test_raise_format_is_seen_by_every_process_and_stands_in_the_log(vault: Vault, reopen: Reopen, cap: Token) -> None:
    set_format(vault, 1)
    one, other = reopen(), reopen()
    raise_format(one)
    assert other.memory(cap).put("tagged", namespace="travel", tags=["trip"])
    assert [entry.op for _, entry in one.audit.entries() if entry and entry.op == "upgrade"] == ["upgrade"] * 2


@pytest.mark.requirement("details-format")
def test_plain_line_is_written_as_before_and_a_line_with_details_is_refused_by_version_1(
    vault: Vault, memory: Memory
) -> None:
    memory.put("plain", namespace="travel")
    memory.put("detailed", namespace="travel", tags=["x"])
    lines = [thing for thing in vault.store.list("actors/") if "/lines/" in thing.name]
    assert [thing.body[0] for thing in lines if thing.body] == [line_encryption.VERSION, line_encryption.DETAILED]


@pytest.mark.requirement("details-members")
def test_put_keeps_every_member_across_a_restart_and_in_pages(vault: Vault, reopen: Reopen, cap: Token) -> None:
    memory = vault.memory(cap)
    meta = {"trip": {"legs": [1, 2.5, None, True, "x"]}, "é": "ü"}
    said = memory.put(
        "Trip to Chengdu", namespace="travel", tags=["b", "a", "a"], meta=meta, expires=LATER, turn="turn-7"
    )
    memory.put_many([NewLine(text=f"note {n}", namespace="travel", tags=(f"t{n % 3}",)) for n in range(256)])
    memory.put_many([NewLine(text=f"more {n}", namespace="travel") for n in range(256)])
    memory.get("Chengdu")
    vault.close()
    again = reopen()
    for _ in range(2):
        (hit,) = again.memory(cap).get(ids=[said.id])
        assert (hit.tags, hit.meta, hit.expires, hit.turn) == (("a", "b"), meta, LATER, "turn-7")
        assert len(again.memory(cap).list(tags=["t1"], limit=1000).lines) == 85
    info = again.memory(cap).list(turn="turn-7").lines[0]
    assert (info.tags, info.meta, info.expires, info.turn) == (hit.tags, hit.meta, hit.expires, hit.turn)
    assert any("/derived/" in thing.name for thing in again.store.names("actors/"))
    assert again.audit.verify().ok


@pytest.mark.requirement("details-members")
def test_repeated_put_is_a_duplicate_only_with_the_same_details(memory: Memory) -> None:
    name = "01JABCDEFGHJKMNPQRSTVWXYZ0"
    line: dict[str, Any] = {"namespace": "travel", "id": name, "tags": ["a"], "meta": {"n": 1}}
    memory.put("Chengdu", **line)
    assert memory.put("Chengdu", **line).duplicate
    for other in ({"tags": ["b"]}, {"meta": {"n": 2}}, {"meta": None}, {"turn": "t"}):
        with pytest.raises(errors.LineConflict):
            memory.put("Chengdu", **{**line, **other})


@pytest.mark.requirement("details-bad")
@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"tags": [""]}, "invalid_request"),
        ({"tags": [" "]}, "invalid_request"),
        ({"tags": ["x" * 65]}, "invalid_request"),
        ({"tags": ["two\nlines"]}, "invalid_request"),
        ({"tags": [7]}, "invalid_request"),
        ({"tags": [f"t{n}" for n in range(17)]}, "too_many"),
        ({"meta": {"a": "x" * 2048}}, "line_too_large"),
        ({"meta": {"a": float("nan")}}, "invalid_request"),
        ({"meta": {"a": float("inf")}}, "invalid_request"),
        ({"meta": {"a": b"bytes"}}, "invalid_request"),
        ({"meta": {"a": {1, 2}}}, "invalid_request"),
        ({"meta": {"a": datetime(2026, 1, 1, tzinfo=UTC)}}, "invalid_request"),
        ({"meta": {"a": 2**63}}, "invalid_request"),
        ({"meta": {"a": "\ud800"}}, "invalid_request"),
        ({"meta": {"a": "bell\x07"}}, "invalid_request"),
        ({"meta": {1: "a"}}, "invalid_request"),
        ({"meta": {"\u00e9": 1, "e\u0301": 2}}, "invalid_request"),
        ({"meta": ["a"]}, "invalid_request"),
        ({"meta": DEEP}, "invalid_request"),
        ({"meta": {"a": [[]] * 3000}}, "invalid_request"),
        ({"turn": "x" * 257}, "invalid_request"),
        ({"turn": 7}, "invalid_request"),
        ({"expires": datetime(2020, 1, 1, tzinfo=UTC)}, "invalid_request"),
        ({"expires": datetime(2031, 1, 1)}, "invalid_request"),  # noqa: DTZ001 - that is the fault
        ({"expires": "tomorrow"}, "invalid_request"),
    ],
    ids=str,
)
def test_put_refuses_bad_details_by_name_and_stores_nothing(
    memory: Memory, details: dict[str, Any], reason: str
) -> None:
    with pytest.raises(errors.Invalid) as refused:
        memory.put("Chengdu", namespace="travel", **details)
    assert refused.value.reason == reason
    assert memory.list().lines == ()


@pytest.mark.requirement("details-members")
def test_put_keeps_a_copy_of_meta(memory: Memory) -> None:
    meta: dict[str, Any] = {"list": [1]}
    memory.put("Chengdu", namespace="travel", meta=meta)
    meta["list"].append(2)
    assert memory.get("Chengdu")[0].meta == {"list": [1]}


@pytest.mark.requirement("details-format")
def test_line_with_a_critical_member_of_a_later_version_is_refused_by_name(
    vault: Vault, memory: Memory, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = line_encryption.seal_line

    def later(line: Any, *rest: Any) -> bytes:
        details = LineDetails(critical=("quarantined",), tags=("x",))
        return real(msgspec.structs.replace(line, details=details), *rest)

    monkeypatch.setattr(line_encryption, "seal_line", later)
    memory.put("from the future", namespace="travel", tags=["x"])
    monkeypatch.undo()
    other = reopen().memory(cap)
    with pytest.raises(errors.FormatTooNew):
        other.get("future")
    assert other.list(namespaces=["work"]).lines == ()


@pytest.mark.requirement("details-members")
def test_details_stay_sealed(vault: Vault, memory: Memory) -> None:
    marks = ["tagmark77", "metamark77", "valuemark77", "turnmark77"]
    memory.put("text", namespace="travel", tags=[marks[0]], meta={marks[1]: marks[2]}, turn=marks[3])
    memory.get("text", tags=[marks[0]])
    stored = b"".join((thing.name.encode() + (thing.body or b"")) for thing in vault.store.list(""))
    logged = b"".join(entry or b"" for _, _, entry in vault.store.entries(0, vault.store.head().size))
    assert not [mark for mark in marks if mark.encode() in stored + logged]


@pytest.mark.requirement("details-members")
def test_details_travel_in_a_sealed_bundle(vault: Vault, memory: Memory) -> None:
    from strongroom.crypto import inbox

    line = NewLine(
        text="said offline",
        namespace="travel",
        id="01JABCDEFGHJKMNPQRSTVWXYZ0",
        tags=("x",),
        meta={"n": 1},
        expires=LATER,
        turn="t9",
    )
    sealed = inbox.seal(memory.inbox(), inbox.Bundle(actor="local/alice", lines=(line,)))
    memory.deliver(sealed)
    (hit,) = memory.get("offline")
    assert (hit.tags, hit.meta, hit.expires, hit.turn) == (("x",), {"n": 1}, LATER, "t9")
    assert memory.deliver(sealed)[0].duplicate


@pytest.mark.requirement("details-format")
def test_bundle_with_details_waits_until_the_format_is_raised(vault: Vault, cap: Token, reopen: Reopen) -> None:
    from strongroom.crypto import inbox

    line = NewLine(text="said offline", namespace="travel", id="01JABCDEFGHJKMNPQRSTVWXYZ0", tags=("x",))
    set_format(vault, 1)
    older = reopen()
    memory = older.memory(cap)
    sealed = inbox.seal(memory.inbox(), inbox.Bundle(actor="local/alice", lines=(line,)))
    with pytest.raises(errors.FormatTooOld):
        memory.deliver(sealed)
    assert memory.list().lines == ()
    raise_format(vault)
    raise_format(older)
    assert not memory.deliver(sealed)[0].duplicate
    assert memory.get("offline", tags=["x"])


@pytest.mark.requirement("details-bad")
def test_bundle_with_a_line_that_expired_while_it_waited_is_refused_whole(
    vault: Vault, memory: Memory, clock: Clock
) -> None:
    from strongroom.crypto import inbox

    soon = model.moment(model.Millis(clock() + 1000))
    plain = NewLine(text="said offline", namespace="travel", id="01JABCDEFGHJKMNPQRSTVWXYZ0")
    ends = NewLine(text="ends soon", namespace="travel", id="01JABCDEFGHJKMNPQRSTVWXYZ1", expires=soon)
    sealed = inbox.seal(memory.inbox(), inbox.Bundle(actor="local/alice", lines=(plain, ends)))
    clock.move(2)
    with pytest.raises(errors.InvalidRequest):
        memory.deliver(sealed)
    assert memory.list().lines == ()


@pytest.mark.requirement("details-members")
def test_details_count_towards_the_budget(vault: Vault, memory: Memory, clock: Clock) -> None:
    memory.put_many([NewLine(text="x", namespace="travel") for _ in range(50)])
    memory.get("x")
    before = vault.usage().shelf_bytes
    memory.put_many([NewLine(text="x", namespace="travel", meta={"k": "v" * 2000}) for _ in range(50)])
    memory.get("x")
    assert vault.usage().shelf_bytes - before > 50 * 2000
    clock.move(timedelta(seconds=1).total_seconds())
