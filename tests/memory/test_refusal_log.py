"""Refusals that repeat: the first are written one by one, the others counted, and no count is lost to the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.audit.entry import Decision, Entry
from strongroom.cli.log_view import Filter, _seen, find_entries, seen_row
from strongroom.errors import AuditUnavailable, StrongroomError
from strongroom.memory.refusal_log import EACH, HELD, NAMED, TOTAL, RefusalLog
from strongroom.model import LinkId, Millis
from tests.conftest import Clock


def refused(link: str = "a", reason: str = "cap_revoked", time: int = 0, request: str = "") -> Entry:
    return Entry(
        v=1, time=Millis(time), op="get", decision=Decision.DENY, reason=reason, links=(LinkId(link),), request=request
    )


def denials(vault: Vault, start: int = 0) -> list[Entry]:
    found = [entry for _, entry in vault.audit.entries(start) if entry is not None]
    return [entry for entry in found if entry.decision == Decision.DENY]


def ask_revoked(vault: Vault, token: Token, times: int) -> None:
    for number in range(times):
        with pytest.raises(StrongroomError) as raised:
            vault.memory(token, request=f"r{number}").get("x")
        assert raised.value.reason == "cap_revoked"


def revoked(vault: Vault) -> Token:
    token = vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=3600)
    vault.revoke(token)
    return token


# The rule alone.


@pytest.mark.requirement("audit-refusals")
def test_refusals_of_one_cap_for_one_reason_are_written_so_often_a_minute_and_then_counted() -> None:
    refusals = RefusalLog()
    written = [refusals.take(refused(time=number)) for number in range(EACH + 5)]
    assert [len(entries) for entries in written] == [1] * EACH + [0] * 5
    assert (refusals.counted, refusals.pending) == (5, 5)
    assert refusals.over(Millis(59_999)) == []
    (entry,) = refusals.over(Millis(60_000))
    assert (entry.count, entry.detail, entry.time) == (5, f"repeated {EACH}-{EACH + 4}", 60_000)
    assert refusals.pending == 0
    assert refusals.over(Millis(120_000)) == []


@pytest.mark.requirement("audit-refusals")
def test_another_reason_or_another_cap_is_written_however_much_is_counted() -> None:
    refusals = RefusalLog()
    for _ in range(EACH + 5):
        refusals.take(refused())
    other = refused(reason="cap_namespace_denied")
    assert refusals.take(other) == [other]
    other = refused(link="b")
    assert refusals.take(other) == [other]


@pytest.mark.requirement("audit-refusals")
def test_caps_narrowed_from_one_share_its_count() -> None:
    refusals = RefusalLog()
    for number in range(EACH):
        narrowed = (LinkId("a"), LinkId(f"n{number}"))
        refusals.take(msgspec.structs.replace(refused(), links=narrowed))
    assert refusals.take(refused()) == []


@pytest.mark.requirement("audit-refusals")
def test_many_caps_together_write_so_many_a_second_and_the_first_of_each() -> None:
    refusals = RefusalLog()
    caps = 10
    written = sum(len(refusals.take(refused(link=f"{number % caps}", time=1000))) for number in range(TOTAL * caps))
    assert written == TOTAL + caps
    first = refused(link="new", time=1000)
    assert refusals.take(first) == [first]


@pytest.mark.requirement("audit-refusals")
def test_more_caps_than_are_told_apart_write_no_more_in_any_second() -> None:
    refusals = RefusalLog()
    alone: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for second in range(130):
        for number in range(TOTAL * 3):
            entry = refused(link=f"{second // 2}.{number}", time=second * 1000 + number)  # each cap in two seconds
            for written in refusals.take(entry):
                (sums if written.detail else alone)[second] += 1
    beyond: Counter[int] = Counter()
    for second, number in alone.items():
        beyond[second // 60] += max(number - TOTAL, 0)
    assert max(sums.values()) == TOTAL
    assert max(beyond.values()) <= HELD
    assert len(refusals._windows) + refusals._open + len(refusals._ready) <= 5 * HELD


@pytest.mark.requirement("audit-refusals")
def test_no_refusal_is_lost_however_many_caps_there_are() -> None:
    refusals = RefusalLog()
    told = asked = 0
    for second in range(70):
        for number in range(TOTAL * 3):
            asked += 1
            told += sum(
                max(one.count, 1) for one in refusals.take(refused(link=f"{second}.{number}", time=second * 1000))
            )
    while refusals.pending:
        found = refusals.all(Millis(71_000))
        told += sum(one.count for one in found)
    assert told == asked


@pytest.mark.requirement("audit-refusals")
def test_counted_refusals_are_told_apart_by_actor_and_say_each_namespace() -> None:
    refusals = RefusalLog()
    for number in range(EACH):
        refusals.take(refused(time=number))
    for number, (actor, namespace) in enumerate([("alice", "x"), ("bob", "y"), ("alice", "z"), ("alice", "x")]):
        entry = refused(time=100 + number, request=f"r{number}")
        assert refusals.take(msgspec.structs.replace(entry, actor=actor, namespaces=(namespace,))) == []
    sums = refusals.over(Millis(60_000))
    assert [(one.actor, one.count, one.namespaces, one.detail, one.request) for one in sums] == [
        ("alice", 3, ("x", "z"), "repeated 100-103", "r3"),
        ("bob", 1, ("y",), "repeated 101-101", "r1"),
    ]


@pytest.mark.requirement("audit-refusals")
def test_sum_that_cannot_name_all_says_so() -> None:
    refusals = RefusalLog()
    for number in range(EACH):
        refusals.take(refused(time=number))
    for number in range(HELD):
        refusals.take(msgspec.structs.replace(refused(), actor=f"a{number}"))
    for number in range(NAMED + 1):
        refusals.take(msgspec.structs.replace(refused(reason="other"), namespaces=(f"n{number}",), time=Millis(1)))
    sums = refusals.all(Millis(1_000))
    apart = [one for one in sums if one.actor]
    (several,) = [one for one in sums if not one.actor and one.reason != "other"]
    assert {one.count for one in apart} == {1}
    assert {one.detail for one in apart} == {"repeated 0-0"}
    assert (several.count, several.detail, several.links) == (HELD - len(apart), "repeated 0-0 and others", ("a",))
    assert len(apart) == HELD // 2


@pytest.mark.requirement("audit-refusals")
def test_cap_for_many_actors_leaves_room_for_sums_of_others() -> None:
    refusals = RefusalLog()
    for number in range(EACH + HELD * 2):
        refusals.take(msgspec.structs.replace(refused(), actor=f"a{number}"))
    for _ in range(EACH + 1):
        refusals.take(msgspec.structs.replace(refused(link="other"), actor="victim"))
    (entry,) = [one for one in refusals.all(Millis(1)) if one.links == ("other",)]
    assert (entry.actor, entry.detail) == ("victim", "repeated 0-0")


@pytest.mark.requirement("audit-refusals")
def test_caps_for_which_there_is_no_room_are_counted_together_and_named_by_nobody() -> None:
    refusals = RefusalLog()
    for number in range(HELD * 4):
        refusals.take(refused(link=f"{number}", reason="cap_expired"))
    told = [one for one in refusals.all(Millis(1)) if not one.links]
    assert [(one.reason, one.actor, one.holder) for one in told] == [("cap_expired", "", "")]
    assert told[0].detail.endswith(" and others")


@pytest.mark.requirement("audit-refusals")
def test_sum_tells_the_last_refusal_whole_and_the_next_minute_begins_anew() -> None:
    refusals = RefusalLog()
    for number in range(EACH + 3):
        refusals.take(refused(time=number, request=f"r{number}"))
    entry = refused(time=60_000)
    total, alone = refusals.take(entry)
    assert (total.request, total.count, total.reason) == (f"r{EACH + 2}", 3, "cap_revoked")
    assert alone == entry
    assert len(refusals.take(refused(time=60_001))) == 1


@pytest.mark.requirement("audit-refusals")
def test_clock_that_is_turned_back_ends_a_minute() -> None:
    refusals = RefusalLog()
    for _ in range(EACH + 1):
        refusals.take(refused(time=100_000))
    assert [entry.count for entry in refusals.take(refused(time=5))] == [1, 0]


@pytest.mark.requirement("audit-refusals")
def test_pairs_told_apart_are_bounded_and_no_count_is_dropped() -> None:
    refusals = RefusalLog()
    for _ in range(EACH + 7):
        refusals.take(refused(link="counted"))
    written = [entry for number in range(HELD * 2) for entry in refusals.take(refused(link=str(number)))]
    sums = {entry.links[0]: entry.count for entry in written if entry.detail}
    assert sums[LinkId("counted")] == 7
    assert sum(max(entry.count, 1) for entry in written) + refusals.pending == HELD * 2 + 7
    assert len(refusals._windows) <= HELD + 1


@pytest.mark.requirement("audit-refusals")
def test_failure_is_no_refusal_and_is_always_written() -> None:
    refusals = RefusalLog()
    broken = Entry(v=1, time=Millis(0), op="get", decision=Decision.FAIL, reason="tampered", links=(LinkId("a"),))
    assert [refusals.take(broken) for _ in range(EACH * 2)] == [[broken]] * (EACH * 2)


# In a vault.


@pytest.mark.requirement("audit-refusals")
def test_revoked_cap_that_asks_on_and_on_does_not_fill_the_log(vault: Vault, clock: Clock) -> None:
    token, size = revoked(vault), vault.audit.size()
    ask_revoked(vault, token, EACH + 500)
    assert vault.audit.size() - size == EACH
    assert vault.usage().refusals_pending == 500
    clock.move(61)
    ask_revoked(vault, token, 1)
    *_, total, alone = denials(vault, size)
    assert (total.count, total.reason, total.request) == (500, "cap_revoked", f"r{EACH + 499}")
    assert (alone.count, alone.request) == (0, "r0")
    assert vault.usage().refusals_counted == 500
    assert vault.audit.verify().ok


@pytest.mark.requirement("audit-refusals")
def test_count_precedes_the_next_request(vault: Vault, clock: Clock, cap: Token) -> None:
    token = revoked(vault)
    ask_revoked(vault, token, EACH + 3)
    clock.move(61)
    size = vault.audit.size()
    vault.memory(cap).list()
    found = [entry for _, entry in vault.audit.entries(size) if entry is not None]
    assert [(entry.decision, entry.count) for entry in found] == [(Decision.DENY, 3), (Decision.ALLOW, 0)]


@pytest.mark.requirement("audit-refusals")
def test_admitted_call_is_on_record_however_many_were_refused(vault: Vault, cap: Token) -> None:
    with suppress(StrongroomError):
        for _ in range(EACH + 10):
            with suppress(StrongroomError):
                vault.memory(cap).get("x", namespaces=["nowhere"])
    size = vault.audit.size()
    for _ in range(EACH + 10):
        vault.memory(cap).list()
    assert vault.audit.size() - size == EACH + 10


@pytest.mark.requirement("audit-refusals")
def test_guess_at_an_id_is_on_record_each_time(vault: Vault, cap: Token) -> None:
    """It was admitted: what it found out is no repetition."""
    size = vault.audit.size()
    for _ in range(EACH + 10):
        with pytest.raises(StrongroomError):
            vault.memory(cap).get(ids=["01JABCDEFGHJKMNPQRSTVWXYZ0"])
    assert vault.audit.size() - size == EACH + 10


@pytest.mark.requirement("audit-refusals")
def test_vault_that_is_closed_writes_what_it_counted(vault: Vault, reopen: Callable[[], Vault]) -> None:
    token = revoked(vault)
    ask_revoked(vault, token, EACH + 9)
    vault.close()
    again = reopen()
    assert denials(again)[-1].count == 9
    assert again.audit.verify().ok


@pytest.mark.requirement("audit-refusals")
def test_count_that_cannot_be_written_is_kept(
    vault: Vault, clock: Clock, monkeypatch: pytest.MonkeyPatch, cap: Token
) -> None:
    token = revoked(vault)
    ask_revoked(vault, token, EACH + 4)
    clock.move(61)

    def fails(*_: object, **__: object) -> None:
        raise AuditUnavailable("no room")

    monkeypatch.setattr(vault._state.store, "commit", fails)
    with pytest.raises(AuditUnavailable):
        vault.memory(cap).list()
    monkeypatch.undo()
    assert vault.usage().refusals_pending == 4
    vault.sum_up_refusals(wholly=True)
    assert denials(vault)[-1].count == 4


@pytest.mark.requirement("audit-refusals")
def test_command_line_shows_how_many_more_there_were(vault: Vault) -> None:
    ask_revoked(vault, revoked(vault), EACH + 12)
    vault.sum_up_refusals(wholly=True)
    chosen = Filter.of(vault, ops=(), denied=True, since=None, actor=None, line=None)
    (row,) = map(seen_row, find_entries(vault, chosen, 1)[0])
    assert row[-1] == "12 more"


@pytest.mark.requirement("audit-refusals")
def test_log_says_of_which_actor_and_namespace_counted_refusals_were(vault: Vault) -> None:
    for actor in ("local/alice", "local/bob"):
        vault.memory(vault.mint(actor=actor, ops=["put"], namespaces=["work"], ttl=3600)).put("a boat")
    wide = vault.mint(actor_scope="local/", ops=["get"], namespaces=["work"], ttl=3600)
    own = {name: strongroom.attenuate(wide, actor=f"local/{name}") for name in ("alice", "bob")}
    asked = [("alice", "family")] * (EACH + 20) + [("bob", "travel"), ("bob", "family")]
    size = vault.audit.size()
    for name, namespace in asked:
        with pytest.raises(StrongroomError) as raised:
            vault.memory(own[name]).get("x", namespaces=[namespace])
        assert raised.value.reason == "cap_namespace_denied"
    vault.sum_up_refusals(wholly=True)
    names = vault.names_in_log()
    sums = [entry for entry in denials(vault, size) if entry.count]
    assert [(names[one.actor], one.count, {names.get(tag) for tag in one.namespaces}) for one in sums] == [
        ("local/alice", 20, {"family"}),
        ("local/bob", 2, {"travel", "family"}),
    ]
    assert vault.audit.verify().ok


@pytest.mark.requirement("audit-refusals")
def test_command_line_does_not_take_refusals_of_several_caps_for_the_owners_acts() -> None:
    entry = msgspec.structs.replace(refused(), links=(), count=7, detail="repeated 1-2 and others")
    row = seen_row(_seen(3, entry, "", {}, {}))
    assert "several caps" in row
    assert row[-1] == "7 more, not all of them named"


@pytest.mark.requirement("audit-refusals")
def test_each_process_counts_for_itself(vault: Vault, tmp_path: Path, keys: FileKeys, clock: Clock) -> None:
    token, size = revoked(vault), vault.audit.size()
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock) as other:
        ask_revoked(vault, token, EACH + 1)
        ask_revoked(other, token, EACH + 1)
    assert vault.audit.size() - size == 2 * EACH + 1
