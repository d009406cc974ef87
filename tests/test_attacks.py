"""Attacks that once worked, each as the test of its refusal. See docs/threat-model.md for who the attackers are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import apsw
import msgspec
import pytest

import strongroom
from strongroom import EnvironmentKeys, FileKeys, NewLine, PassphraseKeys, Token, Vault, errors
from strongroom.audit import Flaw, Witness
from strongroom.model import actor_path
from strongroom.store import Lost
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def _sql(tmp_path: Path, query: str, *values: str | int | bytes | None) -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
    try:
        return list(connection.execute(query, values))
    finally:
        connection.close()


def _log(vault: Vault) -> list[tuple[str, str]]:
    return [(entry.op, entry.decision) for _, entry in vault.audit.entries() if entry is not None]


# Somebody who can write the vault's files.


@pytest.mark.requirement("bad-vault", "keys-never-new")
@pytest.mark.parametrize("planted", ["../vault/.k", "..", "", "A" * 16, "0" * 15])
def test_format_record_cannot_point_at_other_keys(vault: Vault, tmp_path: Path, keys: FileKeys, planted: str) -> None:
    body = msgspec.json.encode({"v": 1, "vault": planted, "created": 0})
    vault.close()
    _sql(tmp_path, "UPDATE objects SET body = ? WHERE name = 'vault/format'", body)
    with pytest.raises(errors.Tampered):
        strongroom.open(tmp_path / "vault", keys=keys)


@pytest.mark.requirement("forget-stays", "audit-verify")
def test_forgotten_line_put_back_under_a_derived_name_is_found_and_not_returned(
    vault: Vault, cap: Token, tmp_path: Path, reopen: Callable[[], Vault]
) -> None:
    memory = vault.memory(cap)
    memory.put("forgotten", namespace="work", id=ID)
    ((name, body),) = _sql(tmp_path, "SELECT name, body FROM objects WHERE name LIKE '%/lines/%'")
    assert isinstance(name, str)
    assert isinstance(body, bytes)
    memory.forget(ids=[ID])
    planted = name.replace(f"lines/{ID}", f"lines/derived/{ID}")
    _sql(tmp_path, "INSERT INTO objects VALUES (-1, ?, ?)", planted, body)
    other = reopen()
    with pytest.raises(errors.Tampered):
        other.memory(cap).get("forgotten")
    (finding,) = vault.audit.verify().findings
    assert (finding.flaw, finding.object) == (Flaw.OBJECT_EXTRA, planted)


@pytest.mark.requirement("cap-revoke")
def test_older_standing_put_back_revives_no_cap_in_a_running_process(
    vault: Vault, cap: Token, tmp_path: Path, clock: Clock
) -> None:
    vault.revoke_actor("local/alice")
    ((name, old),) = _sql(tmp_path, "SELECT name, body FROM objects WHERE name LIKE 'vault/standing/%'")
    clock.move(60)
    later = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    clock.move(60)
    vault.revoke_actor("local/alice")
    assert isinstance(name, str)
    assert isinstance(old, bytes)
    _sql(tmp_path, "UPDATE objects SET body = ?, version = version + 1 WHERE name = ?", old, name)
    _sql(tmp_path, "UPDATE head SET version = version + 1")
    with pytest.raises(errors.CapRevoked):
        vault.memory(later).get("x")
    assert not vault.audit.verify().ok


@pytest.mark.requirement("audit-verify", "bad-object")
def test_running_process_does_not_write_onto_a_log_that_was_rolled_back(
    vault: Vault, cap: Token, tmp_path: Path
) -> None:
    (head,) = _sql(tmp_path, "SELECT version, size, peaks, time, mac FROM head")
    vault.memory(cap).put("later", namespace="work")
    columns = "version = ?, size = ?, peaks = ?, time = ?, mac = ?"
    _sql(tmp_path, f"UPDATE head SET {columns}", *head)  # type: ignore[arg-type]
    with pytest.raises(errors.Tampered):
        vault.memory(cap).put("on top", namespace="work")


# Somebody with a cap.


@pytest.mark.requirement("cap-revoke", "erase-void")
@pytest.mark.parametrize("first", ["revoke", "erase"])
@pytest.mark.parametrize("second", ["revoke", "erase"])
@pytest.mark.parametrize("step", [0, -20])
def test_voiding_an_actors_caps_twice_within_a_second_voids_the_one_between(
    vault: Vault, clock: Clock, first: str, second: str, step: int
) -> None:
    void: dict[str, Callable[[str], object]] = {"revoke": vault.revoke_actor, "erase": vault.erase}
    old = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    void[first]("local/alice")
    between = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(between).put("x", namespace="work")
    clock.move(step)
    void[second]("local/alice")
    for token in (old, between):
        with pytest.raises(errors.CapRevoked):
            vault.memory(token).put("back", namespace="work")
    assert all(record.revoked for record in vault.caps())
    fresh = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(fresh).put("anew", namespace="work")


class Shifty(str):
    """A text that says one thing to comparisons and is another."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("travel")

    def __str__(self) -> str:
        return "travel"


@pytest.mark.requirement("gate-no-actor", "seed-namespace")
def test_text_that_lies_about_itself_is_taken_at_what_it_is(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("private", namespace="personal")
    travel = vault.memory(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], session="s1"))
    calls: list[Callable[[], object]] = [
        lambda: travel.get("private", namespaces=[Shifty("personal")]),
        lambda: travel.list(namespaces=[Shifty("personal")]),
        lambda: travel.put("x", namespace=Shifty("personal")),
        lambda: travel.put("x", session=Shifty("s2")),
        lambda: travel.forget(session=Shifty("s2")),
        lambda: travel.get("x", session=Shifty("s2")),
    ]
    for call in calls:
        with pytest.raises(errors.Denied):
            call()


@pytest.mark.requirement("put-limits")
def test_stack_of_combining_marks_is_refused_before_it_is_composed(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    stack = "a" + "\u0323\u0307" * 65_000
    for call in (lambda: memory.put(stack, namespace="work"), lambda: memory.get(stack[:30_000])):
        with pytest.raises(errors.Invalid):
            call()
    memory.put("a" + "\u0323" * 30, namespace="work")


@pytest.mark.requirement("gate-max-k")
def test_ids_that_stand_in_several_namespaces_do_not_go_past_max_k(vault: Vault, cap: Token, clock: Clock) -> None:
    for namespace in NAMESPACES:
        vault.memory(cap).put("same id", namespace=namespace, id=ID)
    narrow = vault.memory(strongroom.attenuate(cap, max_k=1, now=clock))
    with pytest.raises(errors.CapLimitExceeded):
        narrow.get(ids=[ID])
    assert len(narrow.get(ids=[ID], namespaces=["work"])) == 1


@pytest.mark.requirement("gate-session", "erase-scope")
def test_session_cap_erases_nothing(vault: Vault, cap: Token, clock: Clock) -> None:
    vault.memory(cap).put("of another session", namespace="work", session="s2")
    bound = vault.memory(strongroom.attenuate(cap, session="s1", now=clock))
    for everything in (False, True):
        with pytest.raises(errors.CapLimitExceeded):
            bound.erase(everything=everything)
    assert len(vault.memory(cap).get("session")) == 1


@pytest.mark.requirement("forget-selectors")
def test_forgetting_the_empty_session_leaves_the_others(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("line of none", namespace="work")
    memory.put("line of one", namespace="work", session="s1")
    memory.forget(session="")
    assert [hit.text for hit in memory.get("line")] == ["line of one"]


@pytest.mark.requirement("gate-same-denial")
def test_ids_of_one_namespace_tell_nothing_of_another(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    ids = [memory.put("x", namespace=namespace).id for namespace in ("personal", "travel") for _ in range(2)]
    assert ids[1] > ids[0]
    assert ids[2][:24] != ids[1][:24]


@pytest.mark.requirement("cap-limits-first")
def test_huge_token_is_refused_by_its_length(vault: Vault) -> None:
    with pytest.raises(errors.CapMalformed):
        vault.memory("x" * 50_000_000).get("x")


@pytest.mark.requirement("audit-reads")
def test_arguments_of_the_wrong_type_are_named_errors(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    calls: list[Callable[[], object]] = [
        lambda: memory.list(limit="5"),  # type: ignore[arg-type]
        lambda: memory.list(limit=1.5),  # type: ignore[arg-type]
        lambda: memory.list(after=5),  # type: ignore[arg-type]
        lambda: memory.get("x", k=True),
        lambda: memory.get("x", namespaces=[None]),  # type: ignore[list-item]
        lambda: memory.get("x", namespaces=[["work"]]),  # type: ignore[list-item]
        lambda: memory.put_many([None]),  # type: ignore[list-item]
        lambda: memory.put("x", namespace=["work"]),  # type: ignore[arg-type]
        lambda: memory.put("x", namespace="work", session=5),  # type: ignore[arg-type]
        lambda: vault.memory(cap, request="x" * 10_000),
    ]
    for call in calls:
        with pytest.raises(errors.Invalid):
            call()


# Races, and what a crash leaves.


@pytest.mark.requirement("erase-void", "bad-race")
@pytest.mark.parametrize("everything", [False, True])
def test_erasure_takes_the_line_that_was_written_just_before_it(
    vault: Vault, cap: Token, reopen: Callable[[], Vault], monkeypatch: pytest.MonkeyPatch, *, everything: bool
) -> None:
    other = reopen()
    commit, late = vault._state.store.commit, [lambda: other.memory(cap).put("just before", namespace="work")]

    def overtaken(*arguments: object, **options: object) -> object:
        while late:
            late.pop()()
        return commit(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(vault._state.store, "commit", overtaken)
    assert vault.memory(cap).erase(everything=everything).objects == (2 if everything else 1)
    fresh = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    assert other.memory(fresh).get("just") == []
    assert vault.audit.verify().ok


@pytest.mark.requirement("erase-void")
def test_actor_with_very_many_caps_can_be_erased(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("x", namespace="work")
    for _ in range(1800):
        vault.mint(actor="local/alice", ops=["get"], namespaces=["work"])
    vault.erase("local/alice")
    assert list(vault.actors()) == []
    assert [record.actor for record in vault.caps()] == []
    assert vault.audit.verify().ok


@pytest.mark.requirement("erase-scope")
def test_text_of_an_erased_line_is_not_kept_for_its_id(vault: Vault, cap: Token, reopen: Callable[[], Vault]) -> None:
    other = reopen()
    vault.memory(cap).put("first", namespace="work")
    assert len(other.memory(cap).get("")) == 1
    vault.memory(cap).put("a foreign write between", namespace="travel")
    other.memory(cap).put("to be erased", namespace="work", id=ID)
    vault.memory(cap).erase(["work"])
    vault.memory(cap).put("another text", namespace="work", id=ID)
    assert [hit.text for hit in other.memory(cap).get(ids=[ID])] == ["another text"]


@pytest.mark.requirement("keys-rotate-actor", "bad-race")
def test_line_sealed_with_keys_newer_than_ours_is_no_tampering(
    vault: Vault, cap: Token, reopen: Callable[[], Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = reopen()
    other.memory(cap).put("old", namespace="work")
    other.memory(cap).set_profile("old", namespace="work")
    vault.memory(cap).get("x")
    held = dict(vault._state._actors)
    other.rotate_actor("local/alice")
    other.memory(cap).put("new", namespace="work")
    version = other.memory(cap).profile("work").version
    other.memory(cap).set_profile("new", namespace="work", version=version)
    vault._state.catch_up()
    vault._state.shelves.drop("actors/")
    vault._state._actors.update(held)  # as if another thread had read them just before the rotation
    assert {hit.text for hit in vault.memory(cap).get("")} == {"old", "new"}
    vault._state._actors.update(held)
    assert vault.memory(cap).snapshot().profiles[0].text == "new"


@pytest.mark.requirement("bad-race", "audit-reads")
def test_refusal_during_a_second_try_is_recorded_once(
    vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.memory(cap).put("x", namespace="work")
    commit = vault._state.store.commit

    def lost(*arguments: object, **options: object) -> object:
        monkeypatch.undo()
        vault.revoke(cap)
        raise Lost("somebody was first")

    monkeypatch.setattr(vault._state.store, "commit", lost)
    with pytest.raises(errors.CapRevoked):
        vault.memory(cap).set_profile("x", namespace="work")
    assert commit is not lost
    assert _log(vault).count(("profile", "deny")) == 1


@pytest.mark.requirement("keys-sources")
def test_keys_are_not_kept_inside_the_vault_nor_behind_an_empty_passphrase(tmp_path: Path) -> None:
    for inside in (tmp_path / "v", tmp_path / "v" / "keys"):
        with pytest.raises(errors.InvalidRequest):
            strongroom.create(tmp_path / "v", keys=FileKeys(inside))
    with pytest.raises(errors.KeyUnavailable):
        strongroom.create(tmp_path / "v", keys=PassphraseKeys(tmp_path / "k", ""))
    assert not (tmp_path / "v").exists()


@pytest.mark.requirement("keys-rotate-root", "residue")
def test_key_file_left_half_written_is_gone_after_the_next_rotation(vault: Vault, keys: FileKeys) -> None:
    left = keys.directory / ".root.keyring-killed"
    left.write_bytes((keys.directory / "root.keyring").read_bytes())
    vault.rotate_root()
    assert not left.exists()


@pytest.mark.requirement("erase-copies")
def test_nothing_is_erased_when_the_root_cannot_be_rotated(tmp_path: Path, clock: Clock) -> None:
    keys = EnvironmentKeys(EnvironmentKeys.generate())
    witness = Witness(tmp_path / "seen")
    with strongroom.create(tmp_path / "vault", keys=keys, witness=witness, now=clock) as vault:
        cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["work"])
        vault.memory(cap).put("kept")
        with pytest.raises(errors.KeyUnavailable):
            vault.erase("local/alice", rotate_root=True)
        assert len(vault.memory(cap).get("kept")) == 1
        vault.erase("local/alice")
        assert list(vault.actors()) == []


@pytest.mark.requirement("shelf-bounded")
def test_shelf_that_is_being_loaded_is_never_taken_for_a_whole_one(
    tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    """Every shelf is dropped as soon as another is used, so threads load the same ones again and again."""
    with strongroom.create(tmp_path / "vault", keys=keys, shelf_bytes=1, now=clock) as vault:
        memories = []
        for number in range(3):
            token = vault.mint(actor=f"local/a{number}", ops=ALL_OPS, namespaces=["work"])
            memories.append(vault.memory(token))
            memories[-1].put_many([NewLine(text=f"line {n}", time=datetime(2026, 1, 1, tzinfo=UTC)) for n in range(40)])
        short: list[int] = []

        def ask(number: int) -> None:
            for turn in range(25):
                found = len(memories[(number + turn) % 3].list().lines)
                if found != 40:
                    short.append(found)

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert short == []


def test_actors_of_other_texts_never_meet() -> None:
    assert actor_path("chat", "-5") != actor_path("chat", "5")


@pytest.mark.requirement("audit-reads")
def test_defect_after_admission_is_on_record(vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.memory(cap).put("x", namespace="work")

    def widened(*_: object) -> None:
        raise RuntimeError("the engine returned a line that it was not given")

    monkeypatch.setattr(vault._state.shelves, "rank", widened)
    with pytest.raises(RuntimeError):
        vault.memory(cap).get("x")
    *_, (_, last) = vault.audit.entries()
    assert last is not None
    assert (last.op, last.decision, last.detail) == ("get", "fail", "RuntimeError")
