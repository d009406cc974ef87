"""A rotation of the root in portions: it ends whatever holders do meanwhile, and goes on where it was killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.errors import StrongroomError
from strongroom.keys import Keyring
from strongroom.store import Commit, Effect, Swap
from strongroom.store.fake import FakeStores
from strongroom.vault import create_open, key_rotation
from tests.conftest import Clock

Reopen = Callable[[], Vault]
ACTORS = [f"local/a{number}" for number in range(7)]


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_rotation, "_PORTION", 2)


@pytest.fixture
def filled(vault: Vault) -> Vault:
    for actor in ACTORS:
        _put(vault, actor)
    return vault


def _put(vault: Vault, actor: str, text: str = "a line") -> None:
    vault.memory(vault.mint(actor=actor, ops=["put"], namespaces=["work"])).put(text)


def _texts(vault: Vault, actor: str) -> set[str]:
    return {hit.text for hit in vault.memory(vault.mint(actor=actor, ops=["get"], namespaces=["work"])).get("")}


def _roots(place: Path) -> list[str]:
    """The root ids that seal the secrets and each actor's keys."""
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        rows: list[Any] = connection.execute(
            "SELECT body FROM objects WHERE name = 'vault/secrets' OR name LIKE '%/keys'"
        ).fetchall()
        return [json.loads(body)["root"] for (body,) in rows]
    finally:
        connection.close()


def _is_finished(place: Path, keys: FileKeys, before: Keyring) -> bool:
    ring = keys.load()
    return set(_roots(place)) == set(ring.keys) and not set(ring.keys) & set(before.keys)


@contextmanager
def _between(vault: Vault, adversary: Callable[[], object], patch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let an adversary act before each commit of a rotation, when all that it depends on was read; their sizes."""
    commit, sizes = vault._state.store.commit, list[int]()

    def contended(entries: Any, effects: list[Effect], *arguments: Any, **named: Any) -> Commit:
        sizes.append(sum(isinstance(effect, Swap) for effect in effects))
        adversary()
        return commit(entries, effects, *arguments, **named)

    with patch.context() as patched:
        patched.setattr(vault._state.store, "commit", contended)
        yield sizes


@pytest.mark.requirement("keys-rotate-root", "rotate-ends")
def test_holder_that_puts_and_erases_before_each_commit_does_not_block_a_rotation(
    filled: Vault, reopen: Reopen, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, other = keys.load(), reopen()
    memory = other.memory(other.mint(actor=ACTORS[3], ops=["put", "erase"], namespaces=["travel"]))

    def adversary() -> None:
        memory.put("in the way")
        memory.erase(["travel"])

    with _between(filled, adversary, monkeypatch) as sizes:
        rotated = filled.rotate_root()
    assert not rotated.pending
    # The secrets, three portions and the last actor; the holder's own keys are lost once, and by then under the root.
    assert len(sizes) <= 1 + 4 + 1
    assert _is_finished(tmp_path / "vault", keys, before)
    assert [_texts(reopen(), actor) for actor in ACTORS] == [{"a line"}] * len(ACTORS)
    assert filled.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root", "rotate-ends")
def test_holders_of_every_actor_at_once_make_a_rotation_lose_each_actor_once(
    filled: Vault, reopen: Reopen, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, other = keys.load(), reopen()
    caps = [other.mint(actor=actor, ops=["put", "erase"], namespaces=["travel"]) for actor in ACTORS]

    def adversaries() -> None:
        for cap in caps:
            other.memory(cap).put("in the way")
            other.memory(cap).erase(["travel"])

    with _between(filled, adversaries, monkeypatch) as sizes:
        filled.rotate_root()
    assert len(sizes) <= 1 + len(ACTORS)
    assert _is_finished(tmp_path / "vault", keys, before)
    assert filled.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root", "rotate-ends")
def test_actors_erased_and_made_between_portions_are_no_hindrance_and_none_is_left_behind(
    filled: Vault, reopen: Reopen, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, other, late = keys.load(), reopen(), list(ACTORS)

    def adversary() -> None:
        if late:
            actor = late.pop()
            other.erase(actor)
            _put(other, actor, "anew")
            _put(other, actor + "0", "new")

    with _between(filled, adversary, monkeypatch):
        filled.rotate_root()
    assert _is_finished(tmp_path / "vault", keys, before)
    assert _texts(reopen(), ACTORS[-1]) == {"anew"}
    assert filled.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root", "keys-rotate-actor")
def test_actor_rotated_by_who_has_not_heard_of_the_new_root_is_not_left_under_the_old_one(
    filled: Vault, reopen: Reopen, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, other, late = keys.load(), reopen(), [filled.rotate_root]
    # The root is rotated when the actor's new keys are sealed and not yet written.
    with _between(other, lambda: late and late.pop()(), monkeypatch) as sizes:
        other.rotate_actor(ACTORS[0])
    assert sizes == [1, 1]
    assert _is_finished(tmp_path / "vault", keys, before)


@pytest.mark.requirement("keys-rotate-root")
def test_rotation_goes_in_portions_and_tells_how_many_actors_it_moved(
    filled: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _between(filled, lambda: None, monkeypatch) as sizes:
        rotated = filled.rotate_root()
    assert sizes == [1, 2, 2, 2, 1]
    assert rotated.actors == len(ACTORS)


KILLED = """
import os, signal, sys
import strongroom
from strongroom import FileKeys
from strongroom.vault import key_rotation

place, keys, now, commits = sys.argv[1:]
key_rotation._PORTION = 2
with strongroom.open(place, keys=FileKeys(keys), now=lambda: int(now)) as vault:
    commit, left = vault._state.store.commit, [None] * int(commits)
    def killing(*arguments, **named):
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left.pop()
        return commit(*arguments, **named)
    vault._state.store.commit = killing
    vault.rotate_root()
"""


def _kill_after(commits: int, tmp_path: Path, clock: Clock) -> None:
    arguments = [str(tmp_path / "vault"), str(tmp_path / "keys"), str(clock.millis), str(commits)]
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.requirement("keys-rotate-root", "rotate-ends")
@pytest.mark.parametrize("commits", [0, 1, 2, 4])
def test_rotation_killed_between_portions_is_told_and_continued(
    filled: Vault, reopen: Reopen, keys: FileKeys, tmp_path: Path, clock: Clock, commits: int
) -> None:
    before = keys.load()
    _kill_after(commits, tmp_path, clock)
    moved = max(commits - 1, 0) * 2
    active = keys.load().active
    assert _roots(tmp_path / "vault").count(active) == moved + (commits > 0)
    for opened in (filled, reopen()):
        assert [_texts(opened, actor) for actor in ACTORS] == [{"a line"}] * len(ACTORS)
        stopped = opened.unfinished_rotation()
        assert stopped is not None
        assert (stopped.roots, stopped.actors) == (2, len(ACTORS) - moved)
    assert reopen().rotate_root(resume=True).actors == len(ACTORS) - moved
    assert keys.load().active == active
    assert _is_finished(tmp_path / "vault", keys, before)
    assert filled.unfinished_rotation() is None
    assert filled.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root", "rotate-ends")
def test_rotation_after_a_killed_one_trusts_neither_of_its_roots(
    filled: Vault, keys: FileKeys, tmp_path: Path, clock: Clock
) -> None:
    _kill_after(2, tmp_path, clock)
    before = keys.load()
    assert filled.rotate_root().actors == len(ACTORS)
    assert _is_finished(tmp_path / "vault", keys, before)
    assert [_texts(filled, actor) for actor in ACTORS] == [{"a line"}] * len(ACTORS)


@pytest.mark.requirement("keys-rotate-root")
def test_continuing_without_a_stopped_rotation_is_refused(filled: Vault, keys: FileKeys) -> None:
    before = keys.load()
    with pytest.raises(StrongroomError) as refused:
        filled.rotate_root(resume=True)
    assert refused.value.reason == "invalid_request"
    assert keys.load() == before
    assert filled.unfinished_rotation() is None


@pytest.mark.requirement("keys-rotate-root", "residue")
def test_journal_that_cannot_be_scrubbed_after_a_rotation_is_told(filled: Vault, tmp_path: Path) -> None:
    reader = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
    with reader:
        reader.execute("SELECT count(*) FROM objects").fetchall()
        assert filled.rotate_root().pending
    reader.close()
    assert filled.scrub()


@pytest.mark.requirement("keys-rotate-root", "rotate-ends")
def test_rotation_in_the_fake_store_ends_under_contention(
    keys: FileKeys, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = FakeStores()
    monkeypatch.setattr(create_open, "backend", lambda location: (stores, location))
    with (
        strongroom.create("here", keys=keys, now=clock) as vault,
        strongroom.open("here", keys=keys, now=clock) as other,
    ):
        for actor in ACTORS:
            _put(vault, actor)
        memory = other.memory(other.mint(actor=ACTORS[0], ops=["put", "erase"], namespaces=["travel"]))
        with _between(vault, lambda: (memory.put("x"), memory.erase(["travel"])), monkeypatch):
            vault.rotate_root()
        documents = [body for name, (_, body) in stores.disks["here"].objects.items() if name.endswith("/keys")]
        assert {json.loads(body or b"")["root"] for body in documents} == set(keys.load().keys)
