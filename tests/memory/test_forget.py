"""Forget and erase: gone from every answer, every file and every key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, errors
from strongroom.crypto import chunked_aead, line_encryption
from strongroom.errors import Tampered
from strongroom.model import actor_path
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ALICE = actor_path("local", "alice")


def _texts(vault: Vault, cap: Token) -> set[str]:
    return {hit.text for hit in vault.memory(cap).get("", k=20)}


def _bodies(vault: Vault) -> list[bytes]:
    return [
        thing.body
        for thing in vault._state.records.objects("actors/")
        if thing.body is not None and "/lines/" in thing.name
    ]


def _files(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.fixture
def filled(vault: Vault, cap: Token, clock: Clock) -> dict[str, str]:
    """Six lines: their text by id."""
    memory = vault.memory(cap)
    guest = vault.memory(strongroom.attenuate(cap, namespaces=["work"], now=clock))
    lines = {}
    for day, (namespace, session) in enumerate(
        [("work", "s1"), ("work", "s2"), ("travel", "s1"), ("travel", "s3"), ("personal", "s3")], 1
    ):
        when = datetime(2026, 5, day, tzinfo=UTC)
        lines[memory.put(f"line {day}", namespace=namespace, session=session, time=when).id] = f"line {day}"
    lines[guest.put("line 6", session="s9", time=datetime(2026, 5, 6, tzinfo=UTC)).id] = "line 6"
    return {str(line): text for line, text in lines.items()}


def _id(filled: dict[str, str], text: str) -> str:
    return next(line for line, said in filled.items() if said == text)


@pytest.mark.requirement("forget-selectors")
def test_forget_without_saying_what_is_refused(vault: Vault, cap: Token, filled: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).forget()
    assert len(_texts(vault, cap)) == 6


@pytest.mark.requirement("erase-scope")
def test_travel_cap_forgets_and_erases_nothing_else(vault: Vault, cap: Token, filled: dict[str, str]) -> None:
    travel = vault.memory(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"]))
    forgotten = travel.forget(ids=[_id(filled, "line 5"), _id(filled, "line 3")])
    assert forgotten.ids == (_id(filled, "line 3"),)
    assert forgotten.missing == (_id(filled, "line 5"),)
    travel.forget(session="s3")
    assert _texts(vault, cap) == {"line 1", "line 2", "line 5", "line 6"}
    with pytest.raises(errors.CapNamespaceDenied):
        travel.erase(everything=True)
    travel.erase()
    assert _texts(vault, cap) == {"line 1", "line 2", "line 5", "line 6"}


@pytest.mark.requirement("forget-selectors")
def test_forget_by_ids_session_namespace_and_time(vault: Vault, cap: Token, filled: dict[str, str]) -> None:
    memory = vault.memory(cap)
    assert memory.forget(ids=[_id(filled, "line 1")]).ids == (_id(filled, "line 1"),)
    assert _texts(vault, cap) == {"line 2", "line 3", "line 4", "line 5", "line 6"}
    memory.forget(session="s1")
    assert _texts(vault, cap) == {"line 2", "line 4", "line 5", "line 6"}
    memory.forget(since=datetime(2026, 5, 4, tzinfo=UTC), until=datetime(2026, 5, 5, tzinfo=UTC))
    assert _texts(vault, cap) == {"line 2", "line 5", "line 6"}
    memory.forget(namespaces=["personal"])
    assert _texts(vault, cap) == {"line 2", "line 6"}
    assert memory.forget(session="s2", namespaces=["travel"]).ids == ()
    assert vault.audit.verify().ok


@pytest.mark.requirement("forget-selectors", "put-provenance")
def test_forget_by_link_takes_what_that_cap_and_its_descendants_wrote(
    vault: Vault, cap: Token, clock: Clock, filled: dict[str, str]
) -> None:
    links = vault.memory(cap).get(ids=[_id(filled, "line 6")])[0].provenance.links
    assert len(links) == 2
    vault.memory(cap).forget(link=links[1])
    assert _texts(vault, cap) == {f"line {n}" for n in range(1, 6)}
    other = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(other).put("line 7", namespace="work")
    vault.memory(other).forget(link=links[0])
    assert _texts(vault, cap) == {"line 7"}
    with pytest.raises(errors.InvalidRequest):
        vault.memory(other).forget(link="nonsense")


def test_session_cap_forgets_lines_of_its_session_only(
    vault: Vault, cap: Token, clock: Clock, filled: dict[str, str]
) -> None:
    bound = vault.memory(strongroom.attenuate(cap, session="s1", now=clock))
    assert bound.forget(ids=[_id(filled, "line 1"), _id(filled, "line 2")]).missing == (_id(filled, "line 2"),)
    with pytest.raises(errors.CapLimitExceeded):
        bound.forget(session="s2")
    assert "line 2" in _texts(vault, cap)


@pytest.mark.requirement("forget-other-process")
def test_second_handle_no_longer_returns_what_the_first_forgot(
    vault: Vault, cap: Token, filled: dict[str, str], reopen: Callable[[], Vault]
) -> None:
    other = reopen()
    assert len(_texts(other, cap)) == 6
    vault.memory(cap).forget(session="s1")
    assert _texts(other, cap) == {"line 2", "line 4", "line 5", "line 6"}
    with pytest.raises(errors.LineNotFound):
        other.memory(cap).get(ids=[_id(filled, "line 1")])


def test_forgetting_twice_is_no_error(vault: Vault, cap: Token, filled: dict[str, str]) -> None:
    memory = vault.memory(cap)
    memory.forget(ids=[_id(filled, "line 1")])
    again = memory.forget(ids=[_id(filled, "line 1")])
    assert (again.ids, again.missing) == ((), (_id(filled, "line 1"),))


@pytest.mark.requirement("residue")
def test_forgotten_ciphertext_is_in_no_file(vault: Vault, cap: Token, tmp_path: Path) -> None:
    memory = vault.memory(cap)
    receipt = memory.put("to be forgotten", namespace="work")
    (body,) = _bodies(vault)
    assert body[5:] in _files(tmp_path)
    assert memory.forget(ids=[receipt.id]).scrubbed
    assert body[5:60] not in _files(tmp_path)


@pytest.mark.requirement("erase-keys", "residue")
def test_keys_that_remain_after_an_erase_do_not_open_the_ciphertext(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys
) -> None:
    receipt = vault.memory(cap).put("to be erased", namespace="work")
    state = vault._state
    (body,) = _bodies(vault)
    stored = state.store.get(state.slots.keys(ALICE))
    held = state.keys_of(ALICE)
    assert stored is not None
    assert stored.body is not None
    assert held is not None
    place = line_encryption.LinePlace(vault.id, ALICE, receipt.namespace)
    (namespace_key,) = [key for epochs in held.keys.namespaces.values() for key in epochs.values()]
    assert line_encryption.open_line(body, receipt.id, place, {1: namespace_key}).text == "to be erased"

    erased = vault.erase("local/alice")

    assert (erased.objects, erased.pending) == (2, False)
    files = _files(tmp_path)
    for gone in (body[5:60], stored.body, held.keys.actor_key, held.keys.tag_key, namespace_key):
        assert gone not in files
    secrets = state.records.secrets
    remaining = [*keys.load().keys.values(), keys.issuer()]
    remaining += [secrets.name_key, secrets.record_key, secrets.tag_key, secrets.log_seed]
    for key in remaining:
        with pytest.raises(Tampered):
            line_encryption.open_line(body, receipt.id, place, {1: key})
        with pytest.raises(Tampered):
            chunked_aead.unseal(key, body[5:], place.context("strongroom/line", receipt.id, 1))


@pytest.mark.requirement("erase-void")
def test_old_caps_cannot_recreate_an_erased_actor_and_new_ones_start_afresh(
    vault: Vault, cap: Token, clock: Clock, filled: dict[str, str]
) -> None:
    narrowed = strongroom.attenuate(cap, namespaces=["work"], now=clock)
    vault.erase("local/alice")
    for token in (cap, narrowed):
        with pytest.raises(errors.CapRevoked):
            vault.memory(token).put("back again", namespace="work")
        with pytest.raises(errors.CapRevoked):
            vault.memory(token).get("line")
    fresh = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    assert _texts(vault, fresh) == set()
    vault.memory(fresh).put("a new life", namespace="work", id=_id(filled, "line 1"))
    assert _texts(vault, fresh) == {"a new life"}
    assert vault.audit.verify().ok


@pytest.mark.requirement("erase-copies")
def test_earlier_copy_opens_with_the_root_that_stayed(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.memory(cap).put("in the copy", namespace="work")
    vault.scrub()
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    vault.erase("local/alice")
    with strongroom.open(tmp_path / "copy", keys=keys, now=clock) as copy:
        assert _texts(copy, cap) == {"in the copy"}


@pytest.mark.requirement("erase-copies")
def test_earlier_copy_is_dead_once_the_root_was_rotated(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.memory(cap).put("in the copy", namespace="work")
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(bob).put("bob's own", namespace="work")
    vault.scrub()
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    assert not vault.erase("local/alice", rotate_root=True).pending
    with pytest.raises(errors.KeyUnavailable):
        strongroom.open(tmp_path / "copy", keys=keys, now=clock)
    assert _texts(vault, bob) == {"bob's own"}
    assert vault.audit.verify().ok


@pytest.mark.requirement("erase-scope")
def test_erasing_a_namespace_leaves_the_others_and_can_be_used_again(
    vault: Vault, cap: Token, filled: dict[str, str], reopen: Callable[[], Vault]
) -> None:
    other = reopen()
    assert len(_texts(other, cap)) == 6
    vault.memory(cap).set_profile("at work", namespace="work")
    assert vault.memory(cap).erase(["work"]).objects == 4
    for handle in (vault, other):
        assert _texts(handle, cap) == {"line 3", "line 4", "line 5"}
        assert handle.memory(cap).profile("work").text == ""
    other.memory(cap).put("anew", namespace="work")
    assert "anew" in _texts(vault, cap)
    assert vault.audit.verify().ok


def test_erase_of_everything_and_of_some_at_once_is_refused(vault: Vault, cap: Token) -> None:
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).erase(["work"], everything=True)


def test_erasing_an_actor_that_never_put_voids_its_caps(vault: Vault, cap: Token) -> None:
    assert vault.erase("local/alice").objects == 0
    with pytest.raises(errors.CapRevoked):
        vault.memory(cap).put("x", namespace="work")
    assert vault.audit.verify().ok


@pytest.mark.requirement("erase-scope", "store-changes")
def test_namespace_erased_and_used_again_between_two_looks_shows_nothing_old(
    vault: Vault, cap: Token, filled: dict[str, str], reopen: Callable[[], Vault]
) -> None:
    other = reopen()
    assert len(_texts(other, cap)) == 6
    vault.memory(cap).erase(["work"])
    vault.memory(cap).put("anew", namespace="work")
    assert _texts(other, cap) == {"line 3", "line 4", "line 5", "anew"}


@pytest.mark.requirement("erase-void", "store-changes")
def test_actor_erased_and_back_between_two_looks_shows_nothing_old(
    vault: Vault, cap: Token, filled: dict[str, str], reopen: Callable[[], Vault]
) -> None:
    other = reopen()
    assert len(_texts(other, cap)) == 6
    vault.erase("local/alice")
    fresh = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(fresh).put("anew", namespace="work")
    assert _texts(other, fresh) == {"anew"}
    with pytest.raises(errors.CapRevoked):
        other.memory(cap).get("line")


@pytest.mark.requirement("residue")
def test_reader_elsewhere_leaves_the_scrub_pending_and_nothing_undone(vault: Vault, cap: Token, tmp_path: Path) -> None:
    memory = vault.memory(cap)
    receipt = memory.put("to be forgotten", namespace="work")
    reader = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM objects").fetchall()
    assert not memory.forget(ids=[receipt.id]).scrubbed
    assert memory.get("forgotten") == []
    reader.execute("COMMIT")
    reader.close()
    assert vault.scrub()
