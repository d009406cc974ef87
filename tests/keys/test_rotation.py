"""Replacing keys: other processes follow, an interruption leaves an open vault, and a second run finishes it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.errors import AuditUnavailable, KeyUnavailable, StrongroomError
from strongroom.keys import Keyring
from strongroom.store import Commit
from tests.conftest import ALL_OPS, NAMESPACES, Clock

Reopen = Callable[[], Vault]


def _reason(attempt: Callable[[], object]) -> str:
    with pytest.raises(StrongroomError) as raised:
        attempt()
    return raised.value.reason


def _texts(vault: Vault, token: Token, query: str = "") -> set[str]:
    return {hit.text for hit in vault.memory(token).get(query, k=20)}


def _rows(place: Path, suffix: str) -> dict[str, Any]:
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        rows: list[Any] = connection.execute("SELECT name, body FROM objects").fetchall()
        return {name: body for name, body in rows if suffix in name}
    finally:
        connection.close()


def _roots(place: Path) -> set[str]:
    """The root ids that anything in the vault is sealed by."""
    bodies = [*_rows(place, "vault/secrets").values(), *_rows(place, "/keys").values()]
    return {json.loads(body)["root"] for body in bodies}


def _finished(place: Path, keys: FileKeys, before: Keyring) -> None:
    """The old root is gone from the keyring, and nothing in the vault is sealed by it."""
    ring = keys.load()
    assert len(ring.keys) == 1
    assert not set(before.keys) & set(ring.keys)
    assert _roots(place) == {ring.active}


# The root.


@pytest.mark.requirement("keys-rotate-root")
def test_root_rotation_rewraps_everything_and_drops_the_old_root(
    vault: Vault, cap: Token, keys: FileKeys, tmp_path: Path, clock: Clock
) -> None:
    vault.memory(cap).put("before", namespace="work")
    before, size = keys.load(), vault.audit.size()
    vault.rotate_root()
    _finished(tmp_path / "vault", keys, before)
    vault.memory(cap).put("after", namespace="travel")
    assert _texts(vault, cap) == {"before", "after"}
    entries = [entry for _, entry in vault.audit.entries(size) if entry is not None]
    assert [entry.op for entry in entries[:2]] == ["rotate-root", "rotate-root"]
    assert vault.audit.verify().ok
    vault.close()
    with strongroom.open(tmp_path / "vault", keys=FileKeys(tmp_path / "keys"), now=clock) as again:
        assert _texts(again, cap) == {"before", "after"}
        assert again.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root")
def test_another_open_vault_follows_a_rotated_root(vault: Vault, cap: Token, reopen: Reopen, keys: FileKeys) -> None:
    other = reopen()
    other.memory(cap).put("first", namespace="work")
    assert _texts(vault, cap) == {"first"}
    for _ in range(3):
        vault.rotate_root()
    assert _texts(other, cap) == {"first"}
    other.memory(cap).put("second", namespace="work")
    newcomer = other.mint(actor="local/newcomer", ops=["put", "get"], namespaces=["work"])
    other.memory(newcomer).put("made by who was overtaken")
    other.rotate_actor("local/alice")
    assert _texts(vault, cap) == {"first", "second"}
    assert _texts(vault, newcomer) == {"made by who was overtaken"}
    assert len(keys.load().keys) == 1
    assert other.audit.verify().ok


CHILD = """
import sys
import strongroom
from strongroom import FileKeys

place, keys, token, now = sys.argv[1:]
with strongroom.open(place, keys=FileKeys(keys), now=lambda: int(now)) as vault:
    memory = vault.memory(token)
    print(sorted(hit.text for hit in memory.get("")), flush=True)
    for _ in sys.stdin:
        memory.put("from the child", namespace="travel")
        print(sorted(hit.text for hit in memory.get("")), flush=True)
"""


@pytest.mark.requirement("keys-rotate-root")
def test_another_process_follows_a_rotated_root(
    vault: Vault, cap: Token, keys: FileKeys, tmp_path: Path, clock: Clock
) -> None:
    vault.memory(cap).put("before", namespace="work")
    old = keys.load()
    command = [sys.executable, "-c", CHILD, str(tmp_path / "vault"), str(tmp_path / "keys"), cap, str(clock.millis)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "['before']\n"
        vault.rotate_root()
        child.stdin.write("go on\n")
        child.stdin.flush()
        assert child.stdout.readline() == "['before', 'from the child']\n"
        child.stdin.close()
        assert child.wait(30) == 0
    assert _texts(vault, cap) == {"before", "from the child"}
    _finished(tmp_path / "vault", keys, old)


@pytest.mark.requirement("keys-rotate-root")
def test_rotation_interrupted_before_anything_was_rewrapped_is_finished_by_the_next(
    vault: Vault, cap: Token, reopen: Reopen, keys: FileKeys, tmp_path: Path
) -> None:
    vault.memory(cap).put("before", namespace="work")
    before = keys.load()
    keys.replace(before.adding(bytes(32)))
    for opened in (vault, reopen()):
        assert _texts(opened, cap) == {"before"}
    other = reopen()
    newcomer = other.mint(actor="local/newcomer", ops=["put", "get"], namespaces=["work"])
    other.memory(newcomer).put("sealed below the new root")
    assert _roots(tmp_path / "vault") == set(keys.load().keys)
    assert _texts(vault, newcomer) == {"sealed below the new root"}
    vault.rotate_root()
    _finished(tmp_path / "vault", keys, keys.load().adding(bytes(32)).only_active())
    assert not set(before.keys) & set(keys.load().keys)
    assert _texts(other, cap) == {"before"}
    assert _texts(reopen(), newcomer) == {"sealed below the new root"}


class Interrupted(FileKeys):
    """Key files of which one replacement fails, before or after it is written."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.fails: int | None = None
        self.after = False
        self.count = 0

    def replace(self, ring: Keyring) -> None:
        self._failing(lambda: super(Interrupted, self).replace(ring))

    def replace_issuer(self, seed: bytes) -> None:
        self._failing(lambda: super(Interrupted, self).replace_issuer(seed))

    def _failing(self, write: Callable[[], None]) -> None:
        self.count += 1
        if self.count != self.fails:
            write()
            return
        if self.after:
            write()
        raise KeyUnavailable("the disk is full")


@pytest.fixture
def keys(tmp_path: Path) -> Interrupted:
    """Every vault of this module is made with keys that can be told to fail."""
    return Interrupted(tmp_path / "keys")


@pytest.mark.requirement("keys-rotate-root")
def test_rotation_that_cannot_write_its_new_root_changes_nothing(
    vault: Vault, cap: Token, keys: Interrupted, tmp_path: Path
) -> None:
    vault.memory(cap).put("before", namespace="work")
    ring, sealed = keys.load(), _rows(tmp_path / "vault", "")
    keys.fails = 1
    assert _reason(vault.rotate_root) == "key_unavailable"
    assert keys.load() == ring
    assert _rows(tmp_path / "vault", "") == sealed
    assert _texts(vault, cap) == {"before"}
    vault.rotate_root()
    _finished(tmp_path / "vault", keys, ring)


@pytest.mark.requirement("keys-rotate-root")
@pytest.mark.parametrize(("fails", "after"), [(1, True), (2, False), (2, True)])
def test_rotation_interrupted_at_any_write_leaves_an_open_vault_and_a_second_run_finishes(
    vault: Vault, cap: Token, reopen: Reopen, keys: Interrupted, tmp_path: Path, *, fails: int, after: bool
) -> None:
    vault.memory(cap).put("before", namespace="work")
    other = reopen()
    assert _texts(other, cap) == {"before"}
    ring = keys.load()
    keys.fails, keys.after = fails, after
    assert _reason(vault.rotate_root) == "key_unavailable"
    for opened in (vault, other, reopen()):
        opened.memory(cap).put("while interrupted", namespace="work")
        assert _texts(opened, cap) == {"before", "while interrupted"}
    newcomer = other.mint(actor="local/newcomer", ops=["put", "get"], namespaces=["work"])
    other.memory(newcomer).put("new keys while interrupted")
    reopen().rotate_root()
    _finished(tmp_path / "vault", keys, ring)
    for opened in (vault, other, reopen()):
        assert _texts(opened, cap) == {"before", "while interrupted"}
        assert _texts(opened, newcomer) == {"new keys while interrupted"}
        assert opened.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root")
def test_rotation_whose_commit_fails_leaves_an_open_vault_and_a_second_run_finishes(
    vault: Vault, cap: Token, reopen: Reopen, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.memory(cap).put("before", namespace="work")
    ring, sealed = keys.load(), _rows(tmp_path / "vault", "")

    def refuse(*_: object, **__: object) -> None:
        raise AuditUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(vault._state.store, "commit", refuse)
        assert _reason(vault.rotate_root) == "audit_unavailable"
    assert _rows(tmp_path / "vault", "") == sealed
    assert set(ring.keys) < set(keys.load().keys)
    for opened in (vault, reopen()):
        assert _texts(opened, cap) == {"before"}
    vault.rotate_root()
    _finished(tmp_path / "vault", keys, ring)


@pytest.mark.requirement("keys-rotate-root")
def test_two_rotations_at_once_leave_one_root_that_opens_everything(
    vault: Vault, cap: Token, reopen: Reopen, keys: FileKeys, tmp_path: Path
) -> None:
    vault.memory(cap).put("before", namespace="work")
    before = keys.load()
    handles = [vault, reopen()]
    start = threading.Barrier(2)

    def turn(opened: Vault) -> None:
        start.wait()
        for _ in range(5):
            opened.rotate_root()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(turn, handles)) == [None, None]
    _finished(tmp_path / "vault", keys, before)
    for opened in (*handles, reopen()):
        assert _texts(opened, cap) == {"before"}


@pytest.mark.requirement("keys-rotate-root")
def test_actor_made_just_before_the_rotation_commits_is_not_left_behind(
    vault: Vault, cap: Token, reopen: Reopen, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rotation has read every document by then, and the new one changes nothing that it read."""
    vault.memory(cap).put("before", namespace="work")
    other, before = reopen(), keys.load()
    newcomer = other.mint(actor="local/newcomer", ops=["put", "get"], namespaces=["work"])
    commit, late = vault._state.store.commit, [lambda: other.memory(newcomer).put("just in time")]

    def overtaken(*arguments: Any, **named: Any) -> Commit:
        while late:
            late.pop()()
        return commit(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(vault._state.store, "commit", overtaken)
        vault.rotate_root()
    assert not late
    _finished(tmp_path / "vault", keys, before)
    assert _texts(reopen(), newcomer) == {"just in time"}
    assert _texts(reopen(), cap) == {"before"}


@pytest.mark.requirement("keys-rotate-root")
def test_actors_made_while_the_root_is_rotated_are_not_left_behind(
    vault: Vault, reopen: Reopen, keys: FileKeys, tmp_path: Path
) -> None:
    other, before = reopen(), keys.load()
    tokens = [vault.mint(actor=f"local/a{n}", ops=["put", "get"], namespaces=["work"]) for n in range(30)]

    def fill() -> None:
        for token in tokens:
            other.memory(token).put("a line")

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(fill)
        while not writing.done():
            vault.rotate_root()
        writing.result()
    vault.rotate_root()
    _finished(tmp_path / "vault", keys, before)
    fresh = reopen()
    for token in tokens:
        assert _texts(fresh, token) == {"a line"}
    assert fresh.audit.verify().ok


@pytest.mark.requirement("keys-rotate-root", "erase-copies")
def test_copy_made_before_a_rotation_does_not_open_with_the_new_keyring(
    vault: Vault, cap: Token, keys: FileKeys, tmp_path: Path, clock: Clock
) -> None:
    vault.memory(cap).put("before", namespace="work")
    assert vault.scrub()
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    shutil.copytree(tmp_path / "keys", tmp_path / "old keys")
    vault.rotate_root()
    assert _reason(lambda: strongroom.open(tmp_path / "copy", keys=keys, now=clock)) == "key_unavailable"
    with strongroom.open(tmp_path / "copy", keys=FileKeys(tmp_path / "old keys"), now=clock) as copy:
        assert _texts(copy, cap) == {"before"}


# An actor.


def _epochs(place: Path) -> list[int]:
    """The epochs named by the stored lines, oldest line first."""
    lines = _rows(place, "/lines/")
    return [int.from_bytes(lines[name][1:5], "big") for name in sorted(lines, key=lambda name: name[-26:])]


@pytest.mark.requirement("keys-rotate-actor")
def test_actor_rotation_seals_new_lines_in_a_new_epoch_and_keeps_old_ones_readable(
    vault: Vault, cap: Token, reopen: Reopen, tmp_path: Path, clock: Clock
) -> None:
    memory = vault.memory(cap)
    for number in range(3):
        memory.put(f"line {number}", namespace="work")
        memory.set_profile(f"profile {number}", namespace="work", version=memory.profile("work").version)
        vault.rotate_actor("local/alice")
        clock.move(1)
    memory.put("line 3", namespace="work")
    memory.put("elsewhere", namespace="travel")
    expected = {"line 0", "line 1", "line 2", "line 3", "elsewhere"}
    for opened in (vault, reopen()):
        assert _texts(opened, cap) == expected
        assert opened.memory(cap).profile("work").text == "profile 2"
    assert sorted(_epochs(tmp_path / "vault")) == [1, 1, 2, 3, 4]
    assert vault.audit.verify().ok


@pytest.mark.requirement("keys-rotate-actor")
def test_another_open_vault_seals_in_the_new_epoch_at_once(
    vault: Vault, cap: Token, reopen: Reopen, tmp_path: Path, clock: Clock
) -> None:
    other = reopen()
    other.memory(cap).put("line 0", namespace="work")
    vault.rotate_actor("local/alice")
    clock.move(1)
    other.memory(cap).put("line 1", namespace="work")
    assert _epochs(tmp_path / "vault") == [1, 2]
    assert _texts(vault, cap) == _texts(other, cap) == {"line 0", "line 1"}


@pytest.mark.requirement("keys-rotate-actor")
def test_actor_rotation_keeps_the_actors_audit_tag(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("line 0", namespace="work")
    vault.rotate_actor("local/alice")
    vault.memory(cap).put("line 1", namespace="work")
    puts = [entry for _, entry in vault.audit.entries() if entry is not None and entry.op == "put"]
    assert len({entry.actor for entry in puts}) == 1


def test_actor_without_keys_cannot_be_rotated_and_gets_none(vault: Vault, tmp_path: Path) -> None:
    before, size = _rows(tmp_path / "vault", ""), vault.audit.size()
    assert _reason(lambda: vault.rotate_actor("local/nobody")) == "invalid_request"
    assert _rows(tmp_path / "vault", "") == before
    assert vault.audit.size() == size


# The issuer.


@pytest.mark.requirement("keys-rotate-issuer")
def test_issuer_rotation_voids_the_caps_minted_before_in_every_process(
    vault: Vault, cap: Token, reopen: Reopen, clock: Clock, keys: FileKeys
) -> None:
    other = reopen()
    vault.memory(cap).put("a line", namespace="work")
    assert _texts(other, cap) == {"a line"}
    narrowed = strongroom.attenuate(cap, ops=["get"], now=clock)
    seed = keys.issuer()
    vault.rotate_issuer()
    assert keys.issuer() != seed
    for opened in (vault, other, reopen()):
        for old in (cap, narrowed):
            assert _reason(lambda opened=opened, old=old: _texts(opened, old)) == "cap_signature_invalid"  # type: ignore[misc]
        new = opened.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
        assert _texts(vault, new) == _texts(other, new) == {"a line"}
    assert vault.audit.verify().ok


@pytest.mark.requirement("keys-rotate-issuer")
def test_issuer_rotation_that_cannot_write_its_key_voids_nothing_and_can_be_run_again(
    vault: Vault, cap: Token, reopen: Reopen, keys: Interrupted
) -> None:
    vault.memory(cap).put("a line", namespace="work")
    keys.fails = 1
    assert _reason(vault.rotate_issuer) == "key_unavailable"
    for opened in (vault, reopen()):
        assert _texts(opened, cap) == {"a line"}
        assert _texts(opened, opened.mint(actor="local/alice", ops=["get"], namespaces=["work"])) == {"a line"}
    vault.rotate_issuer()
    assert _reason(lambda: _texts(vault, cap)) == "cap_signature_invalid"
    assert _texts(vault, vault.mint(actor="local/alice", ops=["get"], namespaces=["work"])) == {"a line"}
    assert len(vault._state.records.secrets.issuers) == 1


@pytest.mark.requirement("keys-rotate-issuer")
def test_issuer_rotation_interrupted_after_its_key_was_written_can_be_run_again(
    vault: Vault, cap: Token, reopen: Reopen, keys: Interrupted
) -> None:
    vault.memory(cap).put("a line", namespace="work")
    keys.fails, keys.after = 1, True
    assert _reason(vault.rotate_issuer) == "key_unavailable"
    between = reopen().mint(actor="local/alice", ops=["get"], namespaces=["work"])
    assert _texts(vault, between) == _texts(vault, cap) == {"a line"}
    reopen().rotate_issuer()
    for old in (cap, between):
        assert _reason(lambda old=old: _texts(vault, old)) == "cap_signature_invalid"  # type: ignore[misc]
    assert _texts(vault, vault.mint(actor="local/alice", ops=["get"], namespaces=["work"])) == {"a line"}
