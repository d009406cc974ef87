"""Backup and restore: nothing is overwritten, nothing damaged is kept, and it is known what an old backup revives."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import FileKeys, PassphraseKeys, Token, Vault, errors
from strongroom.audit.log import Witness
from strongroom.crypto import passphrase_file
from strongroom.store.sqlite import SqliteStore
from strongroom.vault import backup
from strongroom.vault.backup import backup_of, lock_keys, move_away, unlock_keys
from strongroom.vault.create_open import identify
from tests import age
from tests.audit.tools import edit, query
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.memory.test_details import LATER, set_format
from tests.store.children import Place, Process, commit_for_ever, reason_of

PASSPHRASE = "correct horse battery"
SECRET = "the-peanut-secret"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """age files that cost no second each; tests/archive/test_archive.py makes real ones."""
    monkeypatch.setattr(backup, "lock", lambda data, passphrase: age.encrypt(data, passphrase))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "vault"


def texts(vault: Vault, token: str) -> list[str]:
    """Every line of a cap, without asking an engine."""
    memory = vault.memory(token)
    return sorted(hit.text for hit in memory.get(ids=[line.id for line in memory.list().lines]))


def back_up(place: Path, target: Path, keys: FileKeys, clock: Clock) -> strongroom.vault.backup.Backup:
    return strongroom.backup(place, target, keys=keys, now=clock)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# What is refused.


@pytest.mark.requirement("backup-never-over")
@pytest.mark.parametrize("what", ["vault", "file", "other"])
def test_neither_backup_nor_restore_overwrites_anything(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, what: str
) -> None:
    taken = tmp_path / "taken"
    if what == "file":
        taken.write_bytes(b"mine")
    else:
        taken.mkdir()
        (taken / ("vault.db" if what == "vault" else "letter.txt")).write_bytes(b"mine")
    before = taken.read_bytes() if what == "file" else contents(taken)
    size = vault.audit.size()
    assert reason_of(back_up, place, taken, keys, clock) == "vault_exists"
    assert vault.audit.size() == size
    back_up(place, tmp_path / "backup", keys, clock)
    assert reason_of(strongroom.restore, tmp_path / "backup", taken, keys=keys) == "vault_exists"
    assert (taken.read_bytes() if what == "file" else contents(taken)) == before
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.requirement("backup-never-over")
def test_place_that_is_taken_while_the_copy_is_made_is_left_alone(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    target = tmp_path / "backup"

    def taken(*_: int) -> None:
        target.mkdir(exist_ok=True)
        (target / "letter.txt").write_bytes(b"mine")

    made = lambda: strongroom.backup(place, target, keys=keys, now=clock, copying=taken)  # noqa: E731
    assert reason_of(made) == "vault_exists"
    assert contents(target) == {"letter.txt": b"mine"}
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.requirement("backup-verified")
@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM objects WHERE name LIKE '%/lines/%'",
        "UPDATE entries SET entry = x'00' WHERE number = 1",
        "UPDATE objects SET body = x'00' WHERE name LIKE '%/lines/%'",
    ],
)
def test_vault_with_a_flaw_gets_no_backup_and_a_backup_with_one_is_not_restored(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, damage: str
) -> None:
    vault.memory(cap).put("a line", namespace="work")
    back_up(place, tmp_path / "good", keys, clock)
    edit(tmp_path / "good", damage)
    assert reason_of(strongroom.restore, tmp_path / "good", tmp_path / "new", keys=keys) == "tampered"
    edit(place, damage)
    assert reason_of(back_up, place, tmp_path / "bad", keys, clock) == "tampered"
    assert sorted(os.listdir(tmp_path)) == ["good", "keys", "vault"]


@pytest.mark.requirement("backup-verified")
def test_database_with_damaged_pages_is_not_copied(vault: Vault, cap: Token, tmp_path: Path, place: Path) -> None:
    for number in range(50):
        vault.memory(cap).put(f"line {number} " * 50, namespace="work")
    vault.close()
    data = bytearray((place / "vault.db").read_bytes())
    root = query(place, "SELECT rootpage FROM sqlite_schema WHERE name = 'objects'")[0][0]
    data[(root - 1) * 4096 : (root - 1) * 4096 + 100] = os.urandom(100)
    (place / "vault.db").write_bytes(data)
    assert reason_of(SqliteStore.copy, str(place), str(tmp_path / "copy")) == "tampered"
    assert not (tmp_path / "copy" / "vault.db").exists()
    (place / "vault.db").write_bytes(b"")
    assert reason_of(SqliteStore.copy, str(place), str(tmp_path / "copy")) == "tampered"


@pytest.mark.requirement("backup-verified")
def test_non_vault_is_neither_backed_up_nor_restored(tmp_path: Path, keys: FileKeys, clock: Clock) -> None:
    (tmp_path / "empty").mkdir()
    for missing in ("empty", "none"):
        assert reason_of(back_up, tmp_path / missing, tmp_path / "backup", keys, clock) == "vault_missing"
        assert reason_of(strongroom.restore, tmp_path / missing, tmp_path / "new", keys=keys) == "vault_missing"
        assert reason_of(move_away, tmp_path / "none", stamp="1") == "vault_missing"
    assert os.listdir(tmp_path) == ["empty"]


@pytest.mark.requirement("backup-verified", "keys-never-new")
def test_backup_without_the_right_keys_is_refused(vault: Vault, tmp_path: Path, place: Path, clock: Clock) -> None:
    strangers = FileKeys(tmp_path / "strangers")
    strongroom.create(tmp_path / "other", keys=strangers, now=clock).close()
    for wrong in (strangers, FileKeys(tmp_path / "none")):
        assert reason_of(back_up, place, tmp_path / "backup", wrong, clock) == "key_unavailable"
        assert reason_of(strongroom.restore, place, tmp_path / "new", keys=wrong) == "key_unavailable"
    assert sorted(os.listdir(tmp_path)) == ["keys", "other", "strangers", "vault"]


# What is in a backup.


@pytest.mark.requirement("backup-no-keys", "residue")
def test_backup_holds_no_key_and_no_text(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.memory(cap).put(f"allergic: {SECRET}", namespace="personal")
    made = back_up(place, tmp_path / "backup", keys, clock)
    ring = keys.load()
    secrets = [*ring.keys.values(), keys.issuer(), SECRET.encode(), b"local/alice", cap.encode()]
    for name, data in contents(tmp_path / "backup").items():
        for secret in secrets:
            assert secret not in data, name
            assert base64.b64encode(secret) not in data, name
    assert sorted(contents(tmp_path / "backup")) == ["checkpoint", "vault.db"]
    assert (made.vault, made.size) == (vault.id, vault.audit.size())
    for path in [tmp_path / "backup", *(tmp_path / "backup").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0


def _watching(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the databases that are opened from now on."""
    opened: list[str] = []
    connection = apsw.Connection

    def watched(name: str, flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) -> apsw.Connection:
        opened.append(name)
        return connection(name, flags=flags)

    monkeypatch.setattr(apsw, "Connection", watched)
    return opened


@pytest.mark.requirement("backup-restore")
@pytest.mark.parametrize("signed", [True, False])
def test_restoring_opens_nothing_in_the_backups_directory(
    vault: Vault,
    tmp_path: Path,
    place: Path,
    keys: FileKeys,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    signed: bool,
) -> None:
    """It may be anybody's: a file beside a database can make SQLite write and delete elsewhere."""
    back_up(place, tmp_path / "backup", keys, clock)
    if not signed:
        (tmp_path / "backup/checkpoint").unlink()
    before = contents(tmp_path / "backup")
    opened = _watching(monkeypatch)
    assert backup_of(tmp_path / "backup") == vault.id
    assert strongroom.restore(tmp_path / "backup", tmp_path / "new", keys=keys).vault == vault.id
    assert contents(tmp_path / "backup") == before
    assert opened
    assert not [name for name in opened if "backup" in name]


@pytest.mark.requirement("backup-restore", "backup-never-over")
@pytest.mark.parametrize("name", ["vault.db-shm", "vault.db-journal", "vault.turn", "vault.lock"])
@pytest.mark.parametrize("how", [os.link, os.symlink])
def test_file_planted_beside_a_backup_reaches_no_other_file(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, name: str, how: Callable[..., None]
) -> None:
    back_up(place, tmp_path / "backup", keys, clock)
    victim = tmp_path / "diary.txt"
    victim.write_text("mine")
    how(victim, tmp_path / "backup" / name)
    strongroom.restore(tmp_path / "backup", tmp_path / "new", keys=keys)
    assert victim.read_text() == "mine"


@pytest.mark.requirement("backup-restore")
@pytest.mark.parametrize("name", ["vault.db", "vault.db-wal", "checkpoint"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "directory"])
def test_backup_of_things_that_are_no_files_is_refused_and_nobody_waits(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, name: str, kind: str
) -> None:
    back_up(place, tmp_path / "backup", keys, clock)
    thing = tmp_path / "backup" / name
    thing.unlink(missing_ok=True)
    {"pipe": os.mkfifo, "endless": lambda path: path.symlink_to("/dev/zero"), "directory": Path.mkdir}[kind](thing)
    if name == "checkpoint":
        assert backup_of(tmp_path / "backup") == vault.id
        return
    with pytest.raises(errors.StoreUnavailable):
        strongroom.restore(tmp_path / "backup", tmp_path / "new", keys=keys)
    assert not (tmp_path / "new").exists()


@pytest.mark.requirement("bad-vault", "bad-disk")
@pytest.mark.parametrize("dangling", [True, False])
def test_rollback_journal_beside_a_vault_is_refused_before_sqlite_sees_it(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, dangling: bool
) -> None:
    vault.close()
    journal = place / "vault.db-journal"
    journal.symlink_to(tmp_path / "nowhere") if dangling else journal.write_bytes(b"x" * 600)
    for call in (
        lambda: strongroom.open(place, keys=keys, now=clock),
        lambda: strongroom.verify(place, keys=keys),
        lambda: strongroom.backup(place, tmp_path / "backup", keys=keys, now=clock),
    ):
        with pytest.raises(errors.Tampered):
            call()


@pytest.mark.requirement("backup-record")
def test_log_says_that_copies_of_the_vault_and_of_its_keys_were_made(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    before = vault.audit.size()
    back_up(place, tmp_path / "backup", keys, clock)
    lock_keys(place, PASSPHRASE, keys=keys, now=clock)
    made = [(entry.op, entry.detail) for _, entry in vault.audit.entries(before) if entry is not None]
    assert made == [("backup", ""), ("backup", "keys")]
    assert vault.audit.verify().ok


@pytest.mark.requirement("backup-live")
def test_backup_of_a_vault_that_another_process_writes_to_is_whole_and_holds_what_was_acknowledged(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    writer = Process(commit_for_ever, Place(place, keys.directory, clock.millis), cap)
    try:
        assert writer.pipe.recv() == "open"
        writer.pipe.send("go")
        for number in range(4):
            for _ in range(20):
                assert writer.pipe.recv() == "put"
            target = tmp_path / f"backup{number}"
            made = back_up(place, target, keys, clock)
            puts = query(target, "SELECT count(*) FROM objects WHERE name LIKE '%/lines/%'")[0][0]
            assert puts >= 20 * (number + 1)
            assert strongroom.verify(target, keys=keys, witness=Witness(target / "checkpoint")).size == made.size
    finally:
        said = writer.kill()
    assert set(said) <= {"put"}, "the writer was never refused"
    assert vault.audit.verify().ok


def _back_up_and_stop(pipe: Connection, place: Path, target: Path, keys: Path, clock: Clock) -> None:
    def stop(*_: int) -> None:
        pipe.send("copying")
        pipe.recv()

    strongroom.backup(place, target, keys=FileKeys(keys), now=clock, copying=stop)


@pytest.mark.requirement("backup-live")
def test_backup_that_is_killed_leaves_none_by_that_name(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    process = Process(_back_up_and_stop, place, tmp_path / "backup", keys.directory, clock)
    assert process.pipe.recv() == "copying"
    process.kill()
    assert not (tmp_path / "backup").exists()
    back_up(place, tmp_path / "backup", keys, clock)
    assert vault.audit.verify().ok


# Restoring.


@pytest.fixture
def lost(vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock) -> Callable[[], Vault]:
    """A vault backed up, then used further, then gone. Returns how to open it once it is restored."""
    memory = vault.memory(cap)
    memory.put("kept", namespace="work")
    gone = memory.put("to be forgotten", namespace="work").id
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(bob).put("Bob's", namespace="work")
    back_up(place, tmp_path / "backup", keys, clock)
    memory.put("lost", namespace="work")
    memory.forget(ids=[gone])
    vault.erase("local/bob")
    vault.revoke(cap)
    assert vault.audit.verify().ok
    vault.close()
    return lambda: strongroom.open(place, keys=keys, now=clock)


@pytest.mark.requirement("backup-restore", "audit-restore")
def test_restored_vault_looks_rolled_back_until_that_is_accepted(
    lost: Callable[[], Vault], tmp_path: Path, place: Path, keys: FileKeys, cap: Token
) -> None:
    assert reason_of(strongroom.restore, tmp_path / "backup", place, keys=keys) == "vault_exists"
    moved = move_away(place, stamp="1")
    assert moved.parent == tmp_path
    assert (moved / "vault.db").exists()
    back = strongroom.restore(tmp_path / "backup", place, keys=keys)
    assert back.rolled_back
    with lost() as vault:
        assert back.vault == vault.id
        assert not vault.audit.verify().ok
        vault.audit.accept_restore()
        assert vault.audit.verify().ok
    assert strongroom.verify(moved, keys=keys, witness=Witness(tmp_path / "none")).is_sound, (
        "the old one is still whole"
    )


@pytest.mark.requirement("backup-restore")
def test_forgets_erasures_and_revocations_since_are_undone_by_a_restore(
    lost: Callable[[], Vault], tmp_path: Path, place: Path, keys: FileKeys, cap: Token
) -> None:
    move_away(place, stamp="1")
    strongroom.restore(tmp_path / "backup", place, keys=keys)
    with lost() as vault:
        vault.audit.accept_restore()
        assert texts(vault, cap) == ["kept", "to be forgotten"]
        assert set(vault.actors()) == {"local/alice", "local/bob"}


@pytest.mark.requirement("backup-restore")
def test_backup_that_is_as_new_as_the_log_is_no_roll_back(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.memory(cap).put("kept", namespace="work")
    back_up(place, tmp_path / "backup", keys, clock)
    vault.close()
    move_away(place, stamp="1")
    assert not strongroom.restore(tmp_path / "backup", place, keys=keys).rolled_back
    with strongroom.open(place, keys=keys, now=clock) as again:
        assert texts(again, cap) == ["kept"]
        assert again.audit.verify().ok


@pytest.mark.requirement("backup-restore", "erase-copies")
def test_backup_from_before_a_rotation_of_the_root_opens_with_the_old_keys_only(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.memory(cap).put("kept", namespace="work")
    back_up(place, tmp_path / "backup", keys, clock)
    saved = lock_keys(place, PASSPHRASE, keys=keys, now=clock)
    vault.rotate_root()
    assert reason_of(strongroom.restore, tmp_path / "backup", tmp_path / "new", keys=keys) == "key_unavailable"
    assert not (tmp_path / "new").exists()
    old = FileKeys(tmp_path / "old-keys")
    unlock_keys(saved, PASSPHRASE, vault=vault.id, into=old)
    assert not strongroom.restore(tmp_path / "backup", tmp_path / "new", keys=old).rolled_back
    with strongroom.open(tmp_path / "new", keys=old, now=clock) as again:
        assert texts(again, cap) == ["kept"]


@pytest.mark.requirement("backup-restore", "keys-rotate-issuer")
def test_restored_vault_knows_the_caps_of_before_an_issuer_rotation_until_it_is_rotated_again(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    back_up(place, tmp_path / "backup", keys, clock)
    vault.rotate_issuer()
    assert reason_of(texts, vault, cap) == "cap_signature_invalid"
    strongroom.restore(tmp_path / "backup", tmp_path / "new", keys=keys)
    with strongroom.open(tmp_path / "new", keys=keys, now=clock) as again:
        assert texts(again, cap) == []
        asked = {"actor": "local/alice", "ops": ["get"], "namespaces": ["work"]}
        assert reason_of(again.mint, **asked) == "key_unavailable"
        again.rotate_issuer()
        assert reason_of(texts, again, cap) == "cap_signature_invalid"
        assert reason_of(again.mint, **asked) == ""


@pytest.mark.requirement("backup-restore")
def test_backup_without_keys_is_restored_as_it_is_and_not_called_verified(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "nothing"))
    back_up(place, tmp_path / "backup", keys, clock)
    back = strongroom.restore(tmp_path / "backup", tmp_path / "new")
    assert (back.vault, back.report, back.rolled_back) == (vault.id, None, False)
    assert strongroom.verify(tmp_path / "new", keys=keys).ok
    assert not (tmp_path / "nothing").exists()


@pytest.mark.requirement("backup-restore")
def test_progress_is_told_of_copying_and_of_verifying(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    told: list[str] = []
    copying, verifying = (lambda *_: told.append("copy")), (lambda *_: told.append("verify"))
    strongroom.backup(place, tmp_path / "b", keys=keys, now=clock, copying=copying, verifying=verifying)
    strongroom.restore(tmp_path / "b", tmp_path / "new", keys=keys, copying=copying, verifying=verifying)
    assert told.index("copy") < told.index("verify") < told.index("copy", told.index("verify"))
    assert told[-1] == "verify"


@pytest.mark.requirement("backup-never-over")
def test_two_that_are_moved_away_at_the_same_second_are_both_kept(tmp_path: Path) -> None:
    for name in ("vault", "vault.before-restore-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "vault.db").write_bytes(name.encode())
    assert reason_of(move_away, tmp_path / "vault", stamp="1") == "invalid_request"
    assert (tmp_path / "vault.before-restore-1" / "vault.db").read_bytes() == b"vault.before-restore-1"


# The keys.


@pytest.mark.requirement("backup-keys", "secrets-hidden")
def test_locked_keys_show_nothing_and_bring_back_all(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    vault.memory(cap).put("kept", namespace="work")
    saved = lock_keys(place, PASSPHRASE, keys=keys, now=clock)
    for key in [*keys.load().keys.values(), keys.issuer()]:
        assert key not in saved
        assert base64.b64encode(key) not in saved
    back = FileKeys(tmp_path / "back")
    unlock_keys(saved, PASSPHRASE, vault=vault.id, into=back)
    assert (back.load(), back.issuer()) == (keys.load(), keys.issuer())
    assert (back.directory / "checkpoint").exists()
    for path in [back.directory, *back.directory.iterdir()]:
        assert path.stat().st_mode & 0o077 == 0
    with strongroom.open(place, keys=back, now=clock) as again:
        assert texts(again, cap) == ["kept"]
        assert again.audit.verify().ok
        again.mint(actor="local/alice", ops=["get"], namespaces=["work"])
    unlock_keys(saved, PASSPHRASE, vault=vault.id, into=back)
    behind = PassphraseKeys(tmp_path / "behind", "another passphrase")
    unlock_keys(saved, PASSPHRASE, vault=vault.id, into=behind)
    assert behind.load() == keys.load()


@pytest.mark.requirement("backup-keys", "keys-never-new")
def test_keys_are_not_brought_back_over_others_nor_for_another_vault_nor_with_a_wrong_passphrase(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    saved = lock_keys(place, PASSPHRASE, keys=keys, now=clock)
    strangers = FileKeys(tmp_path / "strangers")
    strongroom.create(tmp_path / "other", keys=strangers, now=clock).close()
    before = contents(strangers.directory)
    assert reason_of(unlock_keys, saved, PASSPHRASE, vault=vault.id, into=strangers) == "key_unavailable"
    assert contents(strangers.directory) == before
    back = FileKeys(tmp_path / "back")
    other = identify(tmp_path / "other")
    assert reason_of(unlock_keys, saved, PASSPHRASE, vault=other, into=back) == "invalid_request"
    assert reason_of(unlock_keys, saved, "wrong passphrase", vault=vault.id, into=back) == "key_unavailable"
    assert reason_of(unlock_keys, saved[:-3], PASSPHRASE, vault=vault.id, into=back) == "tampered"
    for document in (b"", b"{}", b'{"format":"strongroom-keys"}', b"[" * 100_000):
        sealed = age.encrypt(document, PASSPHRASE)
        assert reason_of(unlock_keys, sealed, PASSPHRASE, vault=vault.id, into=back) == "invalid_request"
    assert not back.directory.exists()


@pytest.mark.requirement("backup-keys")
def test_newer_witness_is_not_replaced_by_that_of_a_backup(
    vault: Vault, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock
) -> None:
    saved = lock_keys(place, PASSPHRASE, keys=keys, now=clock)
    back = FileKeys(tmp_path / "back")
    Witness(back.directory / "checkpoint").keep("newer")
    unlock_keys(saved, PASSPHRASE, vault=vault.id, into=back)
    assert Witness(back.directory / "checkpoint").read() == "newer"


@pytest.mark.requirement("backup-keys")
def test_keys_are_not_locked_behind_a_short_passphrase(vault: Vault, place: Path, keys: FileKeys) -> None:
    with pytest.MonkeyPatch.context() as real:
        real.setattr(backup, "lock", passphrase_file.lock)
        assert reason_of(lock_keys, place, "short", keys=keys) == "invalid_request"


@pytest.mark.requirement("details-carried", "details-upgrade")
@pytest.mark.parametrize("number", [1, 2])
def test_restored_vault_has_the_details_of_its_lines_and_its_format(
    vault: Vault, cap: Token, tmp_path: Path, place: Path, keys: FileKeys, clock: Clock, number: int
) -> None:
    vault.memory(cap).put("Hotel", namespace="travel", tags=["trip"], meta={"n": [1]}, expires=LATER, turn="t7")
    before = vault.memory(cap).get("hotel", tags=["trip"])
    set_format(vault, number)
    back_up(place, tmp_path / "backup", keys, clock)
    strongroom.restore(tmp_path / "backup", tmp_path / "new", keys=keys)
    with strongroom.open(tmp_path / "new", keys=keys, now=clock) as restored:
        memory = restored.memory(cap)
        assert (len(before), memory.get("hotel", tags=["trip"])) == (1, before)
        assert restored._state.records.format == number
        assert memory.list(turn="t7").lines == vault.memory(cap).list(turn="t7").lines
