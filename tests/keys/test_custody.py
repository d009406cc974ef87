"""Opening a vault with missing, wrong and damaged keys, through the public interface: refused, and nothing is made."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom import EnvironmentKeys, FileKeys, PassphraseKeys, Token, Vault
from strongroom.audit import Witness
from strongroom.errors import StoreUnavailable, StrongroomError
from strongroom.keys import KeySource
from strongroom.store import Object
from tests.conftest import Clock
from tests.keys.test_sources import CheapKeys


@pytest.fixture
def closed(vault: Vault, cap: Token, tmp_path: Path) -> Path:
    """A vault with one line in it, closed. Its keys are in `keys` beside it."""
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    vault.close()
    return tmp_path / "vault"


def _everything(directory: Path) -> dict[str, str]:
    """Every file below a directory and a digest of it."""
    found = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def _reason(attempt: Callable[[], object]) -> str:
    with pytest.raises(StrongroomError) as raised:
        attempt()
    return raised.value.reason


def _unopened(place: Path, keys: KeySource | None, clock: Clock) -> str:
    """Why a vault does not open."""
    return _reason(lambda: strongroom.open(place, keys=keys, now=clock))


@pytest.mark.requirement("keys-never-new")
def test_opening_without_its_keys_is_unavailable_and_makes_nothing(closed: Path, tmp_path: Path, clock: Clock) -> None:
    before = _everything(tmp_path)
    assert _unopened(closed, FileKeys(tmp_path / "nowhere"), clock) == "key_unavailable"
    assert _everything(tmp_path) == before
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.requirement("keys-never-new")
def test_opening_without_keys_in_the_default_place_makes_nothing_there(
    closed: Path, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "default"))
    before = _everything(tmp_path)
    assert _unopened(closed, None, clock) == "key_unavailable"
    assert _everything(tmp_path) == before
    assert not (tmp_path / "default").exists()


@pytest.mark.requirement("keys-never-new")
def test_opening_with_the_keys_of_another_vault_is_unavailable(closed: Path, tmp_path: Path, clock: Clock) -> None:
    others = FileKeys(tmp_path / "other keys")
    strongroom.create(tmp_path / "other", keys=others, now=clock).close()
    before = _everything(tmp_path)
    assert _unopened(closed, others, clock) == "key_unavailable"
    assert _unopened(tmp_path / "other", FileKeys(tmp_path / "keys"), clock) == "key_unavailable"
    assert _everything(tmp_path) == before


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("content", [b"", b"{}", b"garbage", None], ids=["empty", "no keyring", "garbage", "cut"])
def test_opening_with_a_damaged_keyring_is_unavailable_and_leaves_it(
    closed: Path, tmp_path: Path, clock: Clock, content: bytes | None
) -> None:
    ring = tmp_path / "keys" / "root.keyring"
    ring.write_bytes(ring.read_bytes()[:40] if content is None else content)
    before = _everything(tmp_path)
    assert _unopened(closed, FileKeys(tmp_path / "keys"), clock) == "key_unavailable"
    assert _everything(tmp_path) == before


@pytest.mark.requirement("keys-permissions")
def test_opening_with_a_keyring_that_others_can_read_is_unavailable(closed: Path, tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "keys" / "root.keyring").chmod(0o644)
    assert _unopened(closed, FileKeys(tmp_path / "keys"), clock) == "key_unavailable"
    (tmp_path / "keys" / "root.keyring").chmod(0o600)
    strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock).close()


@pytest.mark.requirement("keys-never-new")
def test_opening_with_another_root_under_the_right_name_is_unavailable(
    closed: Path, tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "keys" / "root.keyring"
    file = json.loads(path.read_text())
    other = json.loads(_keyring_of(tmp_path / "other"))
    file["keys"] = {file["active"]: next(iter(other["keys"].values()))}
    path.write_text(json.dumps(file))
    assert _unopened(closed, FileKeys(tmp_path / "keys"), clock) == "key_unavailable"


def _keyring_of(directory: Path) -> str:
    FileKeys(directory).create()
    return (directory / "root.keyring").read_text()


def test_issuer_key_is_needed_to_mint_only(closed: Path, tmp_path: Path, clock: Clock, cap: Token) -> None:
    (tmp_path / "keys" / "issuer.key").rename(tmp_path / "issuer.key")
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        assert [hit.text for hit in vault.memory(cap).get("Chengdu")] == ["Trip to Chengdu"]
        before = _everything(tmp_path / "keys")
        reason = _reason(lambda: vault.mint(actor="local/bob", ops=["get"], namespaces=["travel"]))
        assert reason == "key_unavailable"
        assert _everything(tmp_path / "keys") == before


def test_minting_with_the_issuer_key_of_another_vault_is_unavailable(
    closed: Path, tmp_path: Path, clock: Clock
) -> None:
    FileKeys(tmp_path / "other").create()
    shutil.copy(tmp_path / "other" / "issuer.key", tmp_path / "keys" / "issuer.key")
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        size = vault.audit.size()
        reason = _reason(lambda: vault.mint(actor="local/bob", ops=["get"], namespaces=["travel"]))
        assert reason == "key_unavailable"
        assert vault.audit.size() == size


@pytest.mark.requirement("keys-never-new")
def test_creating_a_vault_over_keys_that_are_there_is_refused_and_makes_no_vault(
    closed: Path, tmp_path: Path, clock: Clock
) -> None:
    before = _everything(tmp_path)
    reason = _reason(lambda: strongroom.create(tmp_path / "second", keys=FileKeys(tmp_path / "keys"), now=clock))
    assert reason == "key_unavailable"
    assert _everything(tmp_path) == before


@pytest.mark.requirement("keys-never-new")
def test_creating_over_a_vault_makes_no_keys(closed: Path, tmp_path: Path, clock: Clock) -> None:
    before = _everything(tmp_path)
    assert _reason(lambda: strongroom.create(closed, keys=FileKeys(tmp_path / "new"), now=clock)) == "vault_exists"
    assert _everything(tmp_path) == before


# Every source opens a vault.


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Witness:
    """Where a vault keeps what it last saw when its keys are in no directory."""
    return Witness(tmp_path / "seen" / "checkpoint")


@pytest.mark.requirement("keys-sources")
def test_vault_behind_a_passphrase_opens_with_it_alone(tmp_path: Path, clock: Clock) -> None:
    with strongroom.create(tmp_path / "vault", keys=CheapKeys(tmp_path / "keys", "sesame"), now=clock) as vault:
        token = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["work"])
        vault.memory(token).put("behind a passphrase")
    with strongroom.open(tmp_path / "vault", keys=CheapKeys(tmp_path / "keys", "sesame"), now=clock) as vault:
        assert [hit.text for hit in vault.memory(token).get("passphrase")] == ["behind a passphrase"]
    before = _everything(tmp_path)
    assert _unopened(tmp_path / "vault", CheapKeys(tmp_path / "keys", "wrong"), clock) == "key_unavailable"
    assert _unopened(tmp_path / "vault", PassphraseKeys(tmp_path / "keys", "sesame"), clock) == "key_unavailable"
    assert _everything(tmp_path) == before


@pytest.mark.requirement("keys-sources")
def test_vault_opens_with_keys_from_the_environment_alone(tmp_path: Path, clock: Clock, elsewhere: Witness) -> None:
    values = EnvironmentKeys.generate()
    place = tmp_path / "vault"
    with strongroom.create(place, keys=EnvironmentKeys(values), witness=elsewhere, now=clock) as vault:
        token = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["work"])
        vault.memory(token).put("from the environment")
    with strongroom.open(place, keys=EnvironmentKeys(values), witness=elsewhere, now=clock) as vault:
        assert [hit.text for hit in vault.memory(token).get("environment")] == ["from the environment"]
        assert _reason(vault.rotate_root) == "key_unavailable"
        assert _reason(vault.rotate_issuer) == "key_unavailable"
        assert vault.audit.verify().ok
    others = EnvironmentKeys(EnvironmentKeys.generate())
    assert _unopened(place, others, clock) == "key_unavailable"
    assert _unopened(place, EnvironmentKeys({}), clock) == "key_unavailable"


# An actor's keys document that cannot be read.


def _rows(place: Path) -> dict[str, bytes | None]:
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        rows: list[Any] = connection.execute("SELECT name, body FROM objects").fetchall()
        return dict(rows)
    finally:
        connection.close()


def _edit(place: Path, query: str, *values: bytes | str) -> None:
    connection = apsw.Connection(str(place / "vault.db"))
    try:
        connection.execute(query, values)
        assert connection.changes() == 1
    finally:
        connection.close()


def _document(place: Path) -> str:
    (name,) = [name for name in _rows(place) if name.endswith("/keys")]
    return name


def _cut(body: bytes) -> bytes:
    return body[: len(body) // 2]


def _other_root(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"root": "0" * 16}).encode()


def _sealed_by_nobody(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"actor_key": json.loads(body)["tag_key"]}).encode()


@pytest.mark.requirement("keys-never-new", "bad-object")
@pytest.mark.parametrize(
    ("damage", "reason"),
    [(_cut, "tampered"), (_sealed_by_nobody, "tampered"), (_other_root, "key_unavailable")],
    ids=["cut", "altered", "another root"],
)
def test_actors_keys_that_do_not_open_are_never_replaced(
    closed: Path, tmp_path: Path, clock: Clock, cap: Token, damage: Callable[[bytes], bytes], reason: str
) -> None:
    name = _document(closed)
    body = _rows(closed)[name]
    assert body is not None
    damaged = damage(body)
    _edit(closed, "UPDATE objects SET body = ? WHERE name = ?", damaged, name)
    before = _rows(closed)
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        memory = vault.memory(cap)
        for attempt in (
            lambda: memory.put("one more", namespace="travel"),
            lambda: memory.put("in a namespace without keys", namespace="work"),
            lambda: memory.set_profile("likes tea", namespace="work"),
            lambda: memory.get("Chengdu"),
            lambda: memory.erase(["travel"]),
            lambda: vault.rotate_actor("local/alice"),
            vault.rotate_root,
        ):
            assert _reason(attempt) == reason
    assert _rows(closed) == before
    _edit(closed, "UPDATE objects SET body = ? WHERE name = ?", body, name)
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        assert [hit.text for hit in vault.memory(cap).get("Chengdu")] == ["Trip to Chengdu"]


@pytest.mark.requirement("keys-never-new")
def test_actors_keys_that_are_a_tombstone_are_never_replaced(
    closed: Path, tmp_path: Path, clock: Clock, cap: Token
) -> None:
    name = _document(closed)
    _edit(closed, "UPDATE objects SET body = NULL WHERE name = ?", name)
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        assert _reason(lambda: vault.memory(cap).put("one more", namespace="travel")) == "tampered"
    assert _rows(closed)[name] is None


class Faulty:
    """A store whose reads of one name fail as a broken disk would."""

    def __init__(self, get: Callable[[str], Object | None]) -> None:
        self._get = get
        self.broken = False

    def __call__(self, name: str) -> Object | None:
        if self.broken and name.endswith("/keys"):
            raise StoreUnavailable("the disk is on fire")
        return self._get(name)


@pytest.mark.requirement("keys-never-new", "store-missing-broken")
def test_read_error_on_an_actors_keys_never_makes_new_ones(
    closed: Path, tmp_path: Path, clock: Clock, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _rows(closed)
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        faulty = Faulty(vault._state.store.get)
        monkeypatch.setattr(vault._state.store, "get", faulty)
        faulty.broken = True
        memory = vault.memory(cap)
        for namespace in ("travel", "work"):
            assert _reason(lambda name=namespace: memory.put("more", namespace=name)) == "store_unavailable"  # type: ignore[misc]
        assert _reason(lambda: memory.get("Chengdu")) == "store_unavailable"
        assert _rows(closed) == before
        faulty.broken = False
        memory.put("more", namespace="travel")
        assert {hit.text for hit in memory.get("Chengdu") + memory.get("more")} == {"Trip to Chengdu", "more"}


@pytest.mark.requirement("keys-never-new")
def test_missing_keys_of_an_actor_are_not_made_anew_while_its_lines_are_there(
    closed: Path, tmp_path: Path, clock: Clock, cap: Token
) -> None:
    name = _document(closed)
    _edit(closed, "DELETE FROM objects WHERE name = ?", name)
    with strongroom.open(closed, keys=FileKeys(tmp_path / "keys"), now=clock) as vault:
        assert _reason(lambda: vault.memory(cap).put("one more", namespace="travel")) == "tampered"
    assert name not in _rows(closed)


@pytest.mark.requirement("keys-never-new", "bad-race")
def test_keys_that_another_process_makes_meanwhile_are_not_taken_for_lost(
    vault: Vault, cap: Token, reopen: Callable[[], Vault], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one makes them right after this one has found none."""
    other = reopen()
    get, late = vault._state.store.get, [lambda: other.memory(cap).put("by the other", namespace="travel")]

    def overtaken(name: str) -> Object | None:
        found = get(name)
        while late and name.endswith("/keys"):
            late.pop()()
        return found

    monkeypatch.setattr(vault._state.store, "get", overtaken)
    vault.memory(cap).put("by this one", namespace="travel")
    assert not late
    assert {hit.text for hit in other.memory(cap).get("")} == {"by the other", "by this one"}


@pytest.mark.requirement("keys-never-new")
def test_keyring_that_cannot_be_read_is_unavailable(closed: Path, tmp_path: Path, clock: Clock) -> None:
    ring = tmp_path / "keys" / "root.keyring"
    ring.rename(tmp_path / "kept")
    ring.mkdir(mode=0o700)
    assert _unopened(closed, FileKeys(tmp_path / "keys"), clock) == "key_unavailable"
    assert list(ring.iterdir()) == []


@pytest.fixture(autouse=True)
def _no_default_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of these tests may ever reach the user's own directories."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    yield
    assert not (tmp_path / "home").exists()
