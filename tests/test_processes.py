"""Several processes on one vault: what one does, the next call of another sees; of two that race, one is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strongroom import NewLine, Token, Vault
from strongroom.model import LineId, Millis
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.store.children import Answer, Child, Place, children, reason_of


@pytest.fixture
def two(tmp_path: Path, vault: Vault, clock: Clock) -> Iterator[tuple[Child, Child]]:
    """Two other processes on the vault of this one."""
    with children(Place(tmp_path / "vault", tmp_path / "keys", clock.millis), 2) as (one, other):
        yield one, other


def _texts(child: Child, cap: str, **named: Any) -> list[str]:
    """What a process recalls; its shelves are in memory afterwards."""
    answer = child.ask(cap, "get", "", k=20, **named)
    assert not answer.reason, answer.reason
    return sorted(hit.text for hit in answer.value)


def _line_id(number: int) -> str:
    return f"01JABCDEFGHJKMNPQRSTV{number:05}"


@pytest.mark.requirement("store-changes")
def test_put_is_seen_by_the_next_get_of_another_process(two: tuple[Child, Child], vault: Vault, cap: Token) -> None:
    one, other = two
    known: list[str] = []
    for number in range(6):
        writer, reader = (one, other) if number % 2 else (other, one)
        known.append(f"line {number}")
        assert writer.ask(cap, "put", known[-1], namespace="travel").reason == ""
        assert _texts(reader, cap) == known
    assert sorted(hit.text for hit in vault.memory(cap).get("", k=20)) == known


@pytest.mark.requirement("forget-other-process", "store-changes")
def test_line_forgotten_by_one_process_is_not_in_the_next_get_of_another(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    one, other = two
    everything = [f"line {number}" for number in range(6)]
    ids = [
        vault.memory(cap).put(text, namespace="travel", session=f"s{number % 2}").id
        for number, text in enumerate(everything)
    ]
    assert _texts(one, cap) == _texts(other, cap) == everything
    assert one.ask(cap, "forget", ids=[ids[0]]).value.ids == (ids[0],)
    assert _texts(other, cap) == everything[1:]
    assert other.ask(cap, "get", ids=[ids[0]]).reason == "not_found"
    assert ids[0] not in {line.id for line in other.ask(cap, "list").value.lines}
    assert other.ask(cap, "forget", session="s1").value.ids == (ids[1], ids[3], ids[5])
    assert _texts(one, cap) == ["line 2", "line 4"]
    assert one.ask(cap, "put", "line 1", namespace="travel", id=ids[1]).value.forgotten
    assert _texts(other, cap) == ["line 2", "line 4"]


@pytest.mark.requirement("store-changes")
def test_profile_written_in_one_process_is_read_and_guarded_in_another(two: tuple[Child, Child], cap: Token) -> None:
    one, other = two
    assert one.ask(cap, "set_profile", "likes tea", namespace="work").reason == ""
    seen = other.ask(cap, "profile", "work").value
    assert seen.text == "likes tea"
    assert other.ask(cap, "set_profile", "likes maté", namespace="work", version=seen.version).reason == ""
    again = one.ask(cap, "set_profile", "likes coffee", namespace="work", version=seen.version)
    assert again.reason == "version_conflict"
    assert [profile.text for profile in one.ask(cap, "snapshot").value.profiles] == ["likes maté"]


@pytest.mark.requirement("cap-revoke", "store-changes")
def test_cap_revoked_in_one_process_is_refused_by_another_that_had_it_cached(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    one, other = two
    kept = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=3600)
    assert _texts(other, cap) == _texts(other, kept) == []
    assert one.ask("", "revoke", cap).reason == ""
    assert other.ask(cap, "get", "").reason == "cap_revoked"
    assert other.ask(cap, "put", "late", namespace="travel").reason == "cap_revoked"
    assert _texts(other, kept) == []
    assert one.ask("", "revoke_actor", "local/alice").reason == ""
    assert other.ask(kept, "get", "").reason == "cap_revoked"


@pytest.mark.requirement("cap-revoke", "keys-rotate-issuer")
def test_issuer_rotated_in_one_process_voids_old_caps_in_another(two: tuple[Child, Child], cap: Token) -> None:
    one, other = two
    assert _texts(other, cap) == []
    assert one.ask("", "rotate_issuer").reason == ""
    assert other.ask(cap, "get", "").reason == "cap_signature_invalid"


@pytest.mark.requirement("store-changes", "erase-void")
def test_lines_erased_by_one_process_leave_the_memory_of_another(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    one, other = two
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(cap).put("a trip", namespace="travel")
    vault.memory(cap).put("a job", namespace="work")
    vault.memory(bob).put("Bob's", namespace="travel")
    assert _texts(other, cap) == ["a job", "a trip"]
    assert _texts(other, bob) == ["Bob's"]
    assert one.ask(cap, "erase", ["travel"]).value.objects == 1
    assert _texts(other, cap) == ["a job"]
    assert other.ask(cap, "put", "a new trip", namespace="travel").reason == ""
    assert _texts(one, cap) == ["a job", "a new trip"]
    assert one.ask("", "erase", "local/alice").reason == ""
    assert other.ask(cap, "get", "").reason == "cap_revoked"
    again = one.ask("", "mint", actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600).value
    assert _texts(other, again) == []
    assert _texts(other, bob) == ["Bob's"]
    assert vault.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root", "store-changes")
def test_keys_rotated_in_one_process_are_followed_by_another(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    one, other = two
    vault.memory(cap).put("first", namespace="travel")
    assert _texts(other, cap) == ["first"]
    for turn, (method, args) in enumerate([("rotate_root", ()), ("rotate_actor", ("local/alice",))] * 2):
        assert one.ask("", method, *args).reason == ""
        assert other.ask(cap, "put", f"turn {turn}", namespace="travel").reason == ""
        assert _texts(other, cap) == _texts(one, cap)
    assert len(_texts(one, cap)) == 5
    assert vault.audit.verify().ok


# Races. Both calls are on their way before either answer is read.


def _race(two: tuple[Child, Child], calls: tuple[tuple[Any, ...], tuple[Any, ...]], **named: Any) -> list[Answer]:
    for child, call in zip(two, calls, strict=True):
        child.begin(*call, **named)
    return [child.end() for child in two]


@pytest.mark.requirement("bad-race", "put-idempotent")
def test_one_of_two_processes_that_put_one_line_writes_and_the_other_has_a_duplicate(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    for number in range(20):
        call = (cap, "put", f"line {number}")
        answers = _race(two, (call, call), namespace="travel", id=_line_id(number))
        assert [answer.reason for answer in answers] == ["", ""]
        assert sorted(answer.value.duplicate for answer in answers) == [False, True]
    assert len(vault.memory(cap).list().lines) == 20
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race")
def test_one_of_two_processes_that_put_other_lines_under_one_id_is_told(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    for number in range(20):
        calls = ((cap, "put", "one"), (cap, "put", "other"))
        answers = _race(two, calls, namespace="travel", id=_line_id(number))
        assert sorted(answer.reason for answer in answers) == ["", "line_conflict"]
        winner = ["one", "other"][[answer.reason for answer in answers].index("")]
        for child in two:
            assert [hit.text for hit in child.ask(cap, "get", ids=[_line_id(number)]).value] == [winner]
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race")
def test_two_processes_that_make_an_actors_first_keys_lose_no_line(two: tuple[Child, Child], vault: Vault) -> None:
    for number in range(10):
        actor = f"local/new{number}"
        cap = vault.mint(actor=actor, ops=ALL_OPS, namespaces=["travel", "work"], ttl=3600)
        one = (cap, "put_many", [NewLine(text="one", namespace="travel")])
        other = (cap, "put_many", [NewLine(text="other", namespace="travel" if number % 2 else "work")])
        assert [answer.reason for answer in _race(two, (one, other))] == ["", ""]
        for child in two:
            assert _texts(child, cap) == ["one", "other"]
        assert sorted(hit.text for hit in vault.memory(cap).get("")) == ["one", "other"]
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race", "forget-stays")
def test_put_that_races_with_a_forget_ends_forgotten_or_is_still_there(
    two: tuple[Child, Child], vault: Vault, cap: Token
) -> None:
    for number in range(15):
        line = _line_id(number)
        vault.memory(cap).put("old", namespace="travel", id=line)
        assert _texts(two[0], cap) == _texts(two[1], cap) == ["old"]
        two[0].begin(cap, "forget", ids=[line])
        two[1].begin(cap, "put", "old", namespace="travel", id=line)
        forgotten, put = two[0].end(), two[1].end()
        assert forgotten.value.ids == (line,)
        assert put.value.duplicate != put.value.forgotten
        assert _texts(two[0], cap) == _texts(two[1], cap) == []
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race", "erase-void")
def test_put_that_races_with_an_erasure_is_erased_or_refused(two: tuple[Child, Child], vault: Vault) -> None:
    for number in range(10):
        actor = f"local/brief{number}"
        cap = vault.mint(actor=actor, ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
        vault.memory(cap).put("first", namespace="travel")
        two[0].begin(cap, "erase", everything=True)
        two[1].begin(cap, "put", "second", namespace="travel")
        erased, put = two[0].end(), two[1].end()
        assert erased.reason == ""
        assert put.reason in ("", "cap_revoked")
        assert actor not in set(vault.actors()), put
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race", "profile-cas")
def test_one_of_two_processes_that_write_a_profile_is_told(two: tuple[Child, Child], vault: Vault, cap: Token) -> None:
    version = ""
    for number in range(10):
        calls = ((cap, "set_profile", f"one {number}"), (cap, "set_profile", f"other {number}"))
        answers = _race(two, calls, namespace="work", version=version)
        assert sorted(answer.reason for answer in answers) == ["", "version_conflict"]
        won = next(answer.value for answer in answers if not answer.reason)
        kept = vault.memory(cap).profile("work")
        assert (kept.text, kept.version) == (won.text, won.version)
        version = kept.version
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race", "keys-rotate-root")
def test_puts_that_race_with_rotations_are_all_readable(two: tuple[Child, Child], vault: Vault, cap: Token) -> None:
    for number, method in enumerate(["rotate_root", "rotate_actor"] * 5):
        if not number:
            vault.memory(cap).put("line 0", namespace="travel")
        two[0].begin("", method, *(["local/alice"] if method == "rotate_actor" else []))
        two[1].begin(cap, "put", f"line {number + 1}", namespace=NAMESPACES[number % 4])
        assert [child.end().reason for child in two] == ["", ""]
    wanted = sorted(f"line {number}" for number in range(11))
    for child in two:
        assert _texts(child, cap) == wanted
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-race", "erase-void")
@pytest.mark.parametrize("loaded", [False, True])
def test_erasure_between_a_puts_admission_and_its_commit_refuses_the_put(
    vault: Vault, reopen: Callable[[], Vault], cap: Token, monkeypatch: pytest.MonkeyPatch, loaded: bool
) -> None:
    vault.memory(cap).put("first", namespace="travel")
    other = reopen()
    if loaded:
        other.memory(cap).get("")
    new_id = other._clerk.new_id

    def erased_meanwhile(place: str, now: Millis) -> LineId:
        monkeypatch.undo()
        vault.memory(cap).erase(everything=True)
        return new_id(place, now)

    monkeypatch.setattr(other._clerk, "new_id", erased_meanwhile)
    assert reason_of(other.memory(cap).put, "second", namespace="travel") == "cap_revoked"
    assert list(vault.actors()) == list(other.actors()) == []
    assert vault.audit.verify().ok
