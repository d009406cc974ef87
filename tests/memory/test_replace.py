"""Replace and history: a line is corrected once, and its past stays readable until it is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from strongroom import NewLine, Token, Vault, errors
from strongroom.caps import chain
from strongroom.memory import Memory
from strongroom.memory.ended_lines import forget_ended
from strongroom.model import Line
from strongroom.store import PutNew
from tests.audit.tools import edit
from tests.conftest import ALL_OPS, Clock

Reopen = Callable[[], Vault]
ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
LATER = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture
def memory(vault: Vault, cap: Token) -> Memory:
    return vault.memory(cap)


def link_of(token: str) -> str:
    return chain.parse(token).links[0].id


def _texts(memory: Memory, query: str = "trip") -> list[str]:
    return [hit.text for hit in memory.get(query, k=20)]


@pytest.mark.requirement("replace-denied")
@pytest.mark.parametrize("ops", [["put"], ["forget"], ["put", "get", "list"], ["get", "forget"]])
def test_replace_needs_a_cap_for_put_and_for_forget(vault: Vault, memory: Memory, ops: list[str]) -> None:
    old = memory.put("trip on May 25", namespace="travel")
    narrow = vault.memory(vault.mint(actor="local/alice", ops=ops, namespaces=["travel"], ttl=60))
    with pytest.raises(errors.CapOpMismatch):
        narrow.replace(old.id, "trip on May 27")
    assert _texts(memory) == ["trip on May 25"]


@pytest.mark.requirement("replace-denied")
def test_replace_and_history_outside_the_cap_are_answered_like_unknown_ids(vault: Vault, memory: Memory) -> None:
    old = memory.put("trip on May 25", namespace="travel")
    bob = vault.memory(vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=["travel", "work"], ttl=60))
    bob.put("a line of bob's", namespace="travel")
    work = vault.memory(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["work"], ttl=60))
    for other in (bob, work):
        found = set()
        for name in (old.id, ID):
            with pytest.raises(errors.LineNotFound) as missing:
                other.replace(name, "x")
            found.add((missing.value.message, missing.value.hint))
            with pytest.raises(errors.LineNotFound) as missing:
                other.history(name)
            found.add((missing.value.message, missing.value.hint))
        assert len(found) == 1
        with pytest.raises(errors.CapNamespaceDenied):
            other.replace(old.id, "x", namespace="personal")
        with pytest.raises(errors.CapNamespaceDenied):
            other.history(old.id, namespace="personal")
    with pytest.raises(errors.CapOpMismatch):
        vault.memory(vault.mint(actor="local/alice", ops=["list"], namespaces=["travel"], ttl=60)).history(old.id)


@pytest.mark.requirement("replace-denied")
def test_replace_under_a_cap_for_one_session_reaches_no_line_of_another(vault: Vault, memory: Memory) -> None:
    old = memory.put("trip", namespace="travel", session="monday")
    bound = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=60, session="sunday")
    with pytest.raises(errors.LineNotFound):
        vault.memory(bound).replace(old.id, "x")


@pytest.mark.requirement("replace")
def test_replace_leaves_only_the_new_line_to_every_reader(
    vault: Vault, memory: Memory, reopen: Reopen, cap: Token
) -> None:
    other = reopen().memory(cap)
    old = memory.put("trip on May 25", namespace="travel", session="s", author="alice", kind="fact", tags=["trip"])
    assert _texts(other) == ["trip on May 25"]
    new = memory.replace(old.id, "trip on May 27")
    for one in (memory, other, reopen().memory(cap)):
        (hit,) = one.get("trip", k=20)
        assert (hit.id, hit.text, hit.replaces) == (new.id, "trip on May 27", old.id)
        assert (hit.session, hit.author, hit.kind, hit.tags) == ("s", "alice", "fact", ("trip",))
        assert [line.id for line in one.list().lines] == [new.id]
        with pytest.raises(errors.LineNotFound):
            one.get(ids=[old.id])
        assert [line.text for line in one.history(old.id)] == ["trip on May 25", "trip on May 27"]
    assert vault.audit.verify().ok


@pytest.mark.requirement("replace")
def test_history_shows_a_chain_from_any_of_its_ids_and_is_on_record_as_a_read(vault: Vault, memory: Memory) -> None:
    ids = [memory.put("version 0", namespace="travel").id]
    for number in range(1, 5):
        ids.append(memory.replace(ids[-1], f"version {number}").id)
    for name in ids:
        assert [hit.text for hit in memory.history(name)] == [f"version {n}" for n in range(5)]
    *_, (_, entry) = [one for one in vault.audit.entries() if one[1] is not None]
    assert entry is not None
    assert (entry.op, list(entry.lines)) == ("get", ids)
    two = vault.memory(vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=60, max_k=2))
    assert [hit.text for hit in two.history(ids[0])] == ["version 3", "version 4"]


@pytest.mark.requirement("replace")
def test_replace_takes_over_what_is_left_out_and_changes_what_is_named(memory: Memory) -> None:
    given: dict[str, Any] = {"tags": ["a"], "meta": {"n": 1}, "expires": LATER, "turn": "t1"}
    old = memory.put("old", namespace="travel", **given)
    new = memory.replace(old.id, "new")
    (hit,) = memory.get(ids=[new.id])
    assert (hit.tags, hit.meta, hit.expires, hit.turn) == (("a",), {"n": 1}, LATER, "t1")
    newer = memory.replace(new.id, "newer", tags=[], meta={}, turn="t2", kind="fact", author="bob", session="s2")
    (hit,) = memory.get(ids=[newer.id])
    assert (hit.tags, hit.meta, hit.expires, hit.turn) == ((), None, LATER, "t2")
    assert (hit.kind, hit.author, hit.session) == ("fact", "bob", "s2")


@pytest.mark.requirement("replace-bad")
def test_replace_of_a_line_that_was_replaced_forgotten_expired_or_never_there_is_refused_by_name(
    memory: Memory, clock: Clock
) -> None:
    replaced, forgotten = memory.put("one", namespace="travel").id, memory.put("two", namespace="travel").id
    expired = memory.put("three", namespace="travel", expires=after(clock, 60)).id
    memory.replace(replaced, "one, corrected")
    memory.forget(ids=[forgotten])
    clock.move(61)
    with pytest.raises(errors.LineReplaced):
        memory.replace(replaced, "again")
    for name in (forgotten, expired, ID):
        with pytest.raises(errors.LineNotFound):
            memory.replace(name, "x")
    kept = memory.put("four", namespace="travel").id
    for text in ("", "  ", "bell\x07"):
        with pytest.raises(errors.InvalidRequest):
            memory.replace(kept, text)
    assert set(_texts(memory, "one two three four")) == {"one, corrected", "four"}


@pytest.mark.requirement("replace-bad")
def test_replace_of_an_id_in_two_namespaces_asks_for_the_namespace(memory: Memory) -> None:
    for namespace in ("travel", "work"):
        memory.put(f"trip for {namespace}", namespace=namespace, id=ID)
    with pytest.raises(errors.InvalidRequest):
        memory.replace(ID, "x")
    memory.replace(ID, "trip, corrected", namespace="work")
    assert sorted(_texts(memory)) == ["trip for travel", "trip, corrected"]
    with pytest.raises(errors.InvalidRequest):
        memory.replace(ID, "x", namespace="travel", new_id=ID)


@pytest.mark.requirement("replace-once")
def test_replace_sent_again_with_its_id_takes_effect_once(memory: Memory) -> None:
    old = memory.put("trip on May 25", namespace="travel")
    first = memory.replace(old.id, "trip on May 27", new_id=ID)
    again = memory.replace(old.id, "trip on May 27", new_id=ID)
    assert (first.duplicate, again.duplicate, again.id) == (False, True, ID)
    assert _texts(memory) == ["trip on May 27"]


@pytest.mark.requirement("replace-once")
def test_correctors_of_one_line_at_once_leave_one_winner_and_nothing_of_the_others(
    vault: Vault, cap: Token, reopen: Reopen
) -> None:
    old = vault.memory(cap).put("trip on May 25", namespace="travel")
    memories = [reopen().memory(cap) for _ in range(3)] + [vault.memory(cap) for _ in range(3)]
    outcomes: list[str] = []
    ready = threading.Barrier(len(memories))

    def correct(number: int, memory: Memory) -> None:
        ready.wait()
        try:
            memory.replace(old.id, f"trip as {number} says")
            outcomes.append("won")
        except errors.LineReplaced:
            outcomes.append("lost")

    threads = [threading.Thread(target=correct, args=one) for one in enumerate(memories)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost"] * 5 + ["won"]
    assert len({tuple(_texts(memory)) for memory in memories}) == 1
    assert len(vault.memory(cap).list().lines) == 1
    assert vault.audit.verify().ok


@pytest.mark.requirement("replace-forget")
def test_forgetting_the_new_line_takes_the_old_texts_along_and_revives_none(
    vault: Vault, memory: Memory, reopen: Reopen, cap: Token
) -> None:
    old = memory.put("the code is 1111", namespace="travel")
    middle = memory.replace(old.id, "the code is 2222")
    new = memory.replace(middle.id, "the code is 3333")
    other = memory.put("another line", namespace="travel")
    gone = memory.forget(ids=[new.id])
    assert set(gone.ids) == {old.id, middle.id, new.id}
    for one in (memory, reopen().memory(cap)):
        assert [line.id for line in one.list().lines] == [other.id]
        for name in gone.ids:
            with pytest.raises(errors.LineNotFound):
                one.history(name)
    bodies = [thing.body for thing in vault.store.list("actors/") if "/lines/" in thing.name and thing.body]
    assert len(bodies) == 1
    assert vault.audit.verify().ok


@pytest.mark.requirement("replace-forget")
def test_forgetting_by_link_leaves_the_lines_of_others_that_the_cap_replaced(
    vault: Vault, memory: Memory, reopen: Reopen, cap: Token
) -> None:
    old = memory.put("the account is 1111", namespace="travel")
    stolen = vault.mint(actor="local/alice", ops=["put", "forget"], namespaces=["travel"], ttl=60)
    false = vault.memory(stolen).replace(old.id, "the account is 6666")
    assert memory.forget(link=link_of(stolen)).ids == (false.id,)
    for one in (memory, reopen().memory(cap)):
        assert one.get("account") == []
        assert [hit.text for hit in one.history(old.id)] == ["the account is 1111"]


@pytest.mark.requirement("replace-forget")
def test_replace_with_forget_keeps_nothing_of_the_old_text(vault: Vault, memory: Memory) -> None:
    old = memory.put("the code is 1111", namespace="travel")
    new = memory.replace(old.id, "the code is 2222", forget=True)
    assert [hit.text for hit in memory.history(new.id)] == ["the code is 2222"]
    bodies = [thing.body for thing in vault.store.list("actors/") if "/lines/" in thing.name and thing.body]
    assert len(bodies) == 1


@pytest.mark.requirement("replace-blind")
def test_replaced_lines_change_no_byte_of_an_answer(vault: Vault, memory: Memory, reopen: Reopen, cap: Token) -> None:
    when = datetime(2026, 5, 1, tzinfo=UTC)
    memory.put_many([NewLine(text=f"trip {n} to Chengdu", namespace="travel", time=when) for n in range(8)])
    alone = memory.get("trip to Chengdu", k=20, now=when)
    old = memory.put("a trip trip trip to Chengdu, and a word found nowhere: wombat", namespace="travel", time=when)
    new = memory.replace(old.id, "x", time=when)
    memory.forget(ids=[new.id])
    kept = memory.put("another wombat", namespace="travel", time=when)
    last = memory.replace(kept.id, "trip 99", time=when)
    beside = [hit for hit in memory.get("trip to Chengdu", k=20, now=when) if hit.id != last.id]
    fresh = [hit for hit in reopen().memory(cap).get("trip to Chengdu", k=20, now=when) if hit.id != last.id]
    assert beside == fresh
    memory.forget(ids=[last.id])
    assert memory.get("trip to Chengdu", k=20, now=when) == alone


@pytest.mark.requirement("replace")
def test_replaced_lines_stay_hidden_when_they_are_loaded_from_pages(vault: Vault, cap: Token, reopen: Reopen) -> None:
    memory = vault.memory(cap)
    receipts = memory.put_many([NewLine(text=f"trip {n}", namespace="travel") for n in range(256)])
    memory.put_many([NewLine(text=f"trip {n}", namespace="travel") for n in range(256, 400)])
    memory.get("trip")
    vault.close()
    again = reopen()
    again.memory(cap).get("trip")
    new = again.memory(cap).replace(receipts[7].id, "trip seven, corrected")
    again.close()
    third = reopen().memory(cap)
    assert len(third.list(limit=1000).lines) == 400
    assert receipts[7].id not in {line.id for line in third.list(limit=1000).lines}
    assert third.get("seven corrected", k=1)[0].id == new.id
    assert [hit.text for hit in third.history(new.id)] == ["trip 7", "trip seven, corrected"]


def after(clock: Clock, seconds: float) -> datetime:
    return datetime.fromtimestamp(clock() / 1000 + seconds, UTC)


@pytest.mark.requirement("expire")
def test_line_is_in_no_answer_from_its_expiry_on_in_any_process(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    other = reopen().memory(cap)
    line = memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    assert len(memory.get("code")) == len(other.get("code")) == 1
    clock.move(59.5)
    assert len(memory.get("code")) == 1
    clock.move(0.5)
    for one in (memory, other, reopen().memory(cap)):
        assert one.get("code") == []
        assert one.list().lines == ()
        assert one.list(texts=True).lines == ()
        with pytest.raises(errors.LineNotFound):
            one.get(ids=[line.id])
        with pytest.raises(errors.LineNotFound):
            one.history(line.id)


@pytest.mark.requirement("expire")
def test_moment_of_a_question_brings_no_expired_line_back_and_ends_none(memory: Memory, clock: Clock) -> None:
    memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    assert memory.get("code", now=datetime(2040, 1, 1, tzinfo=UTC))
    clock.move(61)
    assert memory.get("code", now=datetime(2020, 1, 1, tzinfo=UTC)) == []


@pytest.mark.requirement("expire")
def test_worker_whose_clock_is_behind_goes_by_the_log(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    clock.move(61)
    memory.put("another code", namespace="work")
    clock.move(-20)
    assert [hit.text for hit in reopen().memory(cap).get("code")] == ["another code"]


@pytest.mark.requirement("expire-forgets")
def test_expired_lines_are_forgotten_for_good_once_every_clock_agrees(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    line = memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    memory.put("something else", namespace="travel")
    memory.get("code")
    clock.move(75)
    assert forget_ended(vault._clerk) == 0, "another worker's clock may be 30 s behind"
    clock.move(16)
    assert forget_ended(vault._clerk) == 1
    assert forget_ended(vault._clerk) == 0
    stored = vault.store.get(next(one.name for one in vault.store.list("actors/") if one.name.endswith(line.id)))
    assert stored is not None
    assert stored.body is None
    assert [entry.op for _, entry in vault.audit.entries() if entry and line.id in entry.lines] == [
        "put",
        "get",
        "expire",
    ]
    assert memory.put("x", namespace="travel", id=line.id).forgotten
    assert vault.audit.verify().ok


@pytest.mark.requirement("expire-forgets")
def test_vault_forgets_expired_lines_when_it_settles_and_when_it_closes(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen
) -> None:
    memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    memory.get("code")
    clock.move(100)
    vault.settle()
    assert not [one for one in vault.store.list("actors/") if "/lines/" in one.name and one.body]
    memory.put("the code is 2222", namespace="travel", expires=after(clock, 60))
    memory.get("code")
    clock.move(100)
    vault.close()
    assert not [one for one in reopen().store.list("actors/") if "/lines/" in one.name and one.body]


@pytest.mark.requirement("expire")
def test_expiry_of_a_new_line_does_not_revive_the_one_that_it_replaced(
    memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    old = memory.put("trip on May 25", namespace="travel")
    memory.replace(old.id, "trip on May 27", expires=after(clock, 60))
    clock.move(61)
    for one in (memory, reopen().memory(cap)):
        assert one.get("trip") == []
        assert [hit.text for hit in one.history(old.id)] == ["trip on May 25"]


@pytest.mark.requirement("expire")
def test_expired_lines_can_be_forgotten_and_are_among_those_of_a_session(memory: Memory, clock: Clock) -> None:
    one = memory.put("one", namespace="travel", session="s", expires=after(clock, 60))
    two = memory.put("two", namespace="travel", session="s", expires=after(clock, 60))
    clock.move(61)
    assert memory.forget(ids=[one.id]).ids == (one.id,)
    assert memory.forget(session="s").ids == (two.id,)


@pytest.mark.requirement("replace-once")
def test_replacement_without_its_mark_never_counts_and_is_swept(
    vault: Vault, clock: Clock, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a worker of a fleet leaves that dies between the two writes."""
    cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=86_400)
    memory = vault.memory(cap)
    old = memory.put("trip on May 25", namespace="travel")
    real = vault.store.commit

    def halfway(entries: Any, effects: Any, *rest: Any, **more: Any) -> Any:
        kept = [one for one in effects if not (isinstance(one, PutNew) and "/replaced/" in one.name)]
        real(entries, kept, *rest, **more)
        raise errors.StoreUnavailable("killed")

    with monkeypatch.context() as patch:
        patch.setattr(vault.store, "commit", halfway)
        with pytest.raises(errors.StoreUnavailable):
            memory.replace(old.id, "trip on May 27")
    again = reopen()
    for one in (memory, again.memory(cap)):
        assert _texts(one) == ["trip on May 25"]
        assert len(one.history(old.id)) == 1
    assert sum("/lines/" in one.name for one in vault.store.list("actors/")) == 2
    clock.move(3601)
    assert forget_ended(again._clerk) == 1
    assert _texts(again.memory(cap)) == ["trip on May 25"]
    assert memory.replace(old.id, "trip on May 28").id
    assert _texts(memory) == ["trip on May 28"]


@pytest.mark.requirement("expire-forgets")
def test_upkeep_leaves_a_line_that_was_put_anew_after_an_erasure_elsewhere(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    """What this process has in RAM is out of date, and a line that counts now has the id of an expired one."""
    memory.put("the code is 1111", namespace="travel", id=ID, expires=after(clock, 60))
    memory.get("code")
    other = reopen().memory(cap)
    clock.move(100)
    other.erase(["travel"])
    other.put("the code is for good", namespace="travel", id=ID)
    vault.settle()
    for one in (memory, other):
        assert _texts(one, "code") == ["the code is for good"]


@pytest.mark.requirement("expire-forgets")
def test_upkeep_loses_to_an_erasure_at_the_same_time(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.put("the code is 1111", namespace="travel", id=ID, expires=after(clock, 60))
    memory.get("code")
    other = reopen().memory(cap)
    clock.move(100)
    real = vault._state.held_keys

    def erased_right_after(locator: str) -> Any:
        held = real(locator)
        other.erase(["travel"])
        other.put("the code is for good", namespace="travel", id=ID)
        return held

    with monkeypatch.context() as patch:
        patch.setattr(vault._state, "held_keys", erased_right_after)
        assert forget_ended(vault._clerk) == 0
    for one in (memory, other):
        assert _texts(one, "code") == ["the code is for good"]


@pytest.mark.requirement("replace-forget")
def test_forgetting_reaches_past_a_version_that_is_gone(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    first = memory.put("trip on May 25", namespace="travel")
    second = memory.replace(first.id, "trip on May 26", expires=after(clock, 60))
    third = memory.replace(second.id, "trip on May 27", expires=after(clock, 9000))
    clock.move(100)
    vault.settle()
    again = reopen().memory(cap)
    for one in (memory, again):
        assert [hit.id for hit in one.history(third.id)] == [first.id, third.id]
        assert [hit.id for hit in one.history(first.id)] == [first.id, third.id]
    assert set(again.forget(ids=[third.id]).ids) == {first.id, third.id}
    for one in (memory, again):
        with pytest.raises(errors.LineNotFound):
            one.history(first.id)


@pytest.mark.requirement("replace-forget")
def test_forgetting_a_long_chain_walks_it_once(vault: Vault, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    name = memory.put("trip", namespace="travel", session="s").id
    for number in range(40):
        name = memory.replace(name, f"trip {number}").id
    steps = 0
    (shelf,) = vault._state.shelves.loaded()
    real = shelf.states.earlier

    def counted(line: Line) -> Iterator[Line]:
        nonlocal steps
        for one in real(line):
            steps += 1
            yield one

    monkeypatch.setattr(shelf.states, "earlier", counted)
    assert len(memory.forget(session="s").ids) == 41
    assert steps <= 41


@pytest.mark.requirement("replace-once")
def test_replace_with_an_id_that_was_used_says_so(memory: Memory) -> None:
    old = memory.put("trip on May 25", namespace="travel")
    memory.put("another line", namespace="travel", id=ID)
    with pytest.raises(errors.LineConflict):
        memory.replace(old.id, "trip on May 27", new_id=ID)
    memory.forget(ids=[ID])
    with pytest.raises(errors.LineConflict):
        memory.replace(old.id, "trip on May 27", new_id=ID)
    new = memory.replace(old.id, "trip on May 27")
    with pytest.raises(errors.LineConflict):
        memory.replace(new.id, "trip on May 25", new_id=old.id)


@pytest.mark.requirement("replace-once")
def test_replace_that_forgets_can_be_sent_again(vault: Vault, memory: Memory) -> None:
    old = memory.put("trip on May 25", namespace="travel", session="s")
    for is_again in (False, True):
        done = memory.replace(old.id, "trip on May 27", new_id=ID, forget=True)
        assert (done.id, done.duplicate) == (ID, is_again)
    assert _texts(memory) == ["trip on May 27"]
    bound = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=60, session="other")
    for one, new_id in ((memory, None), (vault.memory(bound), ID)):
        with pytest.raises(errors.LineNotFound):
            one.replace(old.id, "trip on May 27", new_id=new_id, forget=True)


@pytest.mark.requirement("expire")
def test_history_of_a_worker_whose_clock_is_behind_goes_by_the_log(
    memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    old = memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    new = memory.replace(old.id, "the code is 2222", expires=after(clock, 9000))
    clock.move(61)
    memory.put("something else", namespace="work")
    clock.move(-20)
    assert [hit.id for hit in reopen().memory(cap).history(new.id)] == [new.id]


@pytest.mark.requirement("expire", "bad-object")
def test_damaged_line_is_on_record_also_when_another_one_expires(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token, tmp_path: Path
) -> None:
    memory.put("the code is 1111", namespace="travel", expires=after(clock, 60))
    memory.get("code")
    damaged = reopen().memory(cap).put("x", namespace="travel")
    edit(tmp_path / "vault", "UPDATE objects SET body = x'00' WHERE name LIKE ?", f"%/lines/{damaged.id}")
    clock.move(100)
    with pytest.raises(errors.Tampered):
        memory.get("code")
    entries = [entry for _, entry in vault.audit.entries() if entry is not None]
    assert (entries[-1].op, entries[-1].decision, entries[-1].reason) == ("get", "fail", "tampered")


@pytest.mark.requirement("replace")
def test_records_of_lines_that_are_gone_count_towards_the_budget(vault: Vault, memory: Memory, clock: Clock) -> None:
    memory.put("trip", namespace="travel")
    memory.get("trip")
    _, before = vault._state.shelves.usage()
    for _ in range(10):
        old = memory.put("trip on May 25", namespace="travel", expires=after(clock, 9000))
        new = memory.replace(old.id, "trip on May 27", forget=True)
        memory.forget(ids=[new.id])
    memory.get("trip")
    assert vault._state.shelves.usage()[1] - before >= 10 * 700


@pytest.mark.requirement("expire-forgets")
def test_upkeep_forgets_what_an_expired_line_replaced_and_nothing_of_a_line_that_counts(
    vault: Vault, memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    first = memory.put("the code is 1111", namespace="travel")
    second = memory.replace(first.id, "the code is 2222", expires=after(clock, 60))
    kept = memory.put("trip on May 25", namespace="travel")
    middle = memory.replace(kept.id, "trip on May 26", expires=after(clock, 60))
    newest = memory.replace(middle.id, "trip on May 27", expires=after(clock, 9000))
    clock.move(100)
    other = reopen()
    other.memory(cap).get("code")
    assert forget_ended(other._clerk) == 3
    for one in (memory, other.memory(cap)):
        for gone in (first.id, second.id, middle.id):
            with pytest.raises(errors.LineNotFound):
                one.history(gone)
        assert [hit.id for hit in one.history(newest.id)] == [kept.id, newest.id]
    assert vault.audit.verify().ok


@pytest.mark.requirement("replace")
def test_history_is_no_larger_than_any_other_answer(memory: Memory) -> None:
    name = memory.put("0" * 30_000, namespace="travel").id
    for digit in "1234":
        name = memory.replace(name, digit * 30_000).id
    assert [hit.text[0] for hit in memory.history(name)] == ["3", "4"]
