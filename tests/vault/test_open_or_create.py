"""`strongroom.open(path, create=True)`: what it refuses, what it leaves, and several processes that do it at once."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, private_files
from strongroom.errors import StrongroomError
from strongroom.store.sqlite import SqliteStore
from strongroom.vault import create_open
from strongroom.vault.create_open import identify
from tests.store.children import Process


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the keys of the vaults of these tests are, each vault's in a directory of its own."""
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "vault"


def _refusal(place: Path | str, **given: Any) -> StrongroomError:
    with pytest.raises(StrongroomError) as raised:
        strongroom.open(place, create=True, **given)
    return raised.value


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# What is refused.


@pytest.mark.requirement("bad-open-create")
def test_open_without_create_makes_nothing(place: Path, tmp_path: Path) -> None:
    with pytest.raises(StrongroomError) as raised:
        strongroom.open(place)
    assert raised.value.reason == "vault_missing"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("bad-open-create")
def test_open_or_create_of_a_file_is_refused_and_leaves_it_and_no_keys(place: Path, keys: Path) -> None:
    place.write_text("something else")
    refused = _refusal(place)
    assert refused.reason == "store_unavailable"
    assert "directory" in refused.hint
    assert place.read_text() == "something else"
    assert _files(keys) == {}


@pytest.mark.requirement("bad-open-create")
@pytest.mark.parametrize("content", [b"", b"a text file\n" * 500])
def test_open_or_create_of_a_damaged_vault_is_tampered_and_makes_no_keys(
    place: Path, tmp_path: Path, content: bytes
) -> None:
    place.mkdir()
    (place / "vault.db").write_bytes(content)
    assert _refusal(place).reason == "tampered"
    assert (place / "vault.db").read_bytes() == content
    assert not (tmp_path / "keys").exists()


@pytest.mark.requirement("bad-open-create")
def test_open_or_create_beside_the_journal_of_a_lost_vault_is_tampered_and_keeps_it(
    place: Path, tmp_path: Path
) -> None:
    place.mkdir()
    (place / "vault.db-wal").write_bytes(b"lines that were not yet in the file")
    assert _refusal(place).reason == "tampered"
    assert _files(tmp_path) == {"vault/vault.db-wal": b"lines that were not yet in the file"}


@pytest.mark.requirement("bad-open-create", "keys-never-new")
@pytest.mark.parametrize("lost", ["all", "root.keyring"])
def test_open_or_create_without_the_vaults_keys_never_makes_new_ones(
    place: Path, tmp_path: Path, keys: Path, lost: str
) -> None:
    with strongroom.open(place, create=True) as vault:
        own = keys / vault.id
    if lost == "all":
        own.rename(tmp_path / "elsewhere")
    else:
        (own / lost).unlink()
    before = _files(tmp_path)
    assert _refusal(place).reason == "key_unavailable"
    assert _files(tmp_path) == before


@pytest.mark.requirement("bad-open-create")
def test_open_or_create_where_nothing_can_be_written_is_unavailable(keys: Path) -> None:
    assert _refusal("/proc/strongroom").reason == "store_unavailable"
    assert _files(keys) == {}


@pytest.mark.requirement("bad-open-create")
def test_open_or_create_where_no_keys_can_be_written_makes_no_vault(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_KEYS", "/proc/strongroom")
    assert _refusal(place).reason == "key_unavailable"
    assert not (place / "vault.db").exists()


@pytest.mark.requirement("bad-open-create")
@pytest.mark.parametrize("full", ["root.keyring", "issuer.key", "vault.db"])
def test_open_or_create_on_a_full_disk_leaves_neither_keys_nor_vault(
    place: Path, keys: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    fill = SqliteStore._fill

    def on_a_full_disk(path: Path, data: bytes, *, new: bool) -> None:
        if path.name == full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        private_files.write_file(path, data, new=new)

    def fill_a_full_disk(*given: Any) -> None:
        fill(*given)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("strongroom.keys.sources.write_file", on_a_full_disk)
    if full == "vault.db":
        monkeypatch.setattr(SqliteStore, "_fill", fill_a_full_disk)
    assert _refusal(place).reason == ("store_unavailable" if full == "vault.db" else "key_unavailable")
    assert _files(keys) == {}
    assert not (place / "vault.db").exists()
    monkeypatch.undo()
    strongroom.open(place, create=True, keys=FileKeys(keys / "own")).close()


# What is made.


@pytest.mark.requirement("open-create")
def test_open_or_create_makes_a_vault_once_and_opens_it_from_then_on(place: Path, keys: Path) -> None:
    with strongroom.open(place, create=True) as made:
        assert made.audit.verify().ok
    with strongroom.open(place, create=True) as opened:
        assert opened.id == made.id
    assert [path.name for path in keys.iterdir()] == [made.id]


@pytest.mark.requirement("open-create")
def test_open_or_create_after_a_maker_was_killed_makes_the_vault(place: Path) -> None:
    place.mkdir()
    (place / ".new-0011223344556677.db").write_bytes(b"a draft")
    strongroom.open(place, create=True).close()
    assert (place / "vault.db").exists()


def _overtake(monkeypatch: pytest.MonkeyPatch, other: Callable[[], None]) -> None:
    """Let another maker finish just before this one publishes its vault."""
    fill = SqliteStore._fill

    def overtaken(*given: Any) -> None:
        fill(*given)
        monkeypatch.setattr(SqliteStore, "_fill", fill)
        other()

    monkeypatch.setattr(SqliteStore, "_fill", overtaken)


@pytest.mark.requirement("open-create")
def test_create_that_loses_a_race_leaves_no_keys_of_its_own(
    place: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _overtake(monkeypatch, lambda: strongroom.create(place).close())
    with pytest.raises(StrongroomError) as raised:
        strongroom.create(place)
    assert raised.value.reason == "vault_exists"
    assert [path.name for path in keys.iterdir()] == [identify(place)]


@pytest.mark.requirement("open-create")
def test_open_or_create_that_loses_a_race_opens_the_winners_vault(
    place: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _overtake(monkeypatch, lambda: strongroom.create(place).close())
    with strongroom.open(place, create=True) as vault:
        assert [path.name for path in keys.iterdir()] == [vault.id]
        assert vault.audit.verify().ok


@pytest.mark.requirement("open-create")
def test_open_or_create_gives_up_on_a_lock_that_a_stopped_process_holds(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(create_open, "_MAKERS_SECONDS", 0.0)
    place.mkdir()
    held = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        strongroom.open(place, create=True).close()
    finally:
        os.close(held)


def _open_when_told(pipe: Connection, place: Path, keys: Path, shared: bool) -> None:
    os.environ["STRONGROOM_KEYS"] = str(keys)
    pipe.send("ready")
    while True:
        name = pipe.recv()
        try:
            source = FileKeys(keys / name) if shared else None
            with strongroom.open(place / name, create=True, keys=source) as vault:
                cap = vault.mint(actor="local/alice", ops=["put"], namespaces=["travel"])
                vault.memory(cap).put("a trip")
                pipe.send(vault.id)
        except StrongroomError as error:
            pipe.send(error.reason)


@pytest.mark.requirement("open-create")
@pytest.mark.parametrize("shared", [False, True], ids=["keys by vault", "one key directory"])
def test_processes_that_open_or_create_at_once_share_one_vault_and_its_keys(
    tmp_path: Path, keys: Path, shared: bool
) -> None:
    makers = [Process(_open_when_told, tmp_path, keys, shared) for _ in range(2)]
    try:
        for maker in makers:
            assert maker.pipe.recv() == "ready"
        made = set()
        for name in ("first", "second", "third"):
            for maker in makers:
                maker.pipe.send(name)
            ids = {maker.pipe.recv() for maker in makers}
            source = FileKeys(keys / name) if shared else None
            with strongroom.open(tmp_path / name, keys=source) as vault:
                assert ids == {vault.id}
                cap = vault.mint(actor="local/alice", ops=["list"], namespaces=["travel"])
                assert len(vault.memory(cap).list().lines) == 2
            made.add(name if shared else vault.id)
        assert {path.name for path in keys.iterdir()} >= made
        assert {path.parent.name for path in keys.glob("*/root.keyring")} == made
    finally:
        for maker in makers:
            maker.kill()
