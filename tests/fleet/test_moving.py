"""Moving a vault between a file and a bucket: refusals first, then interruptions, then what is the same afterwards."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys
from strongroom.audit.entry import Decision, Entry
from strongroom.audit.log import Witness
from strongroom.audit.verifier import Flaw
from strongroom.caps.chain import Token
from strongroom.errors import (
    CapRevoked,
    FormatTooOld,
    InvalidRequest,
    StoreUnavailable,
    StrongroomError,
    Tampered,
    VaultExists,
    VaultMissing,
)
from strongroom.store import Object, Store, backend, is_derived, s3
from strongroom.store.s3 import S3Backend
from strongroom.vault import create_open
from strongroom.vault.migrate import move
from strongroom.vault.migrate.move import Moved, migrate
from strongroom.vault.vault import Vault
from tests.fleet.memory import MemoryBucket
from tests.memory.test_details import LATER, set_format

OPS = ["put", "get", "list", "forget", "erase"]
TARGET = "s3://bucket/vault"
SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(5, 12))]
"""Of two deaths on the way."""


class Killed(BaseException):
    """A process that ends in the middle of things."""


class Mortal(MemoryBucket):
    """A bucket whose user may be killed at a request."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.meanwhile: Callable[[], None] | None = None

    def _count(self, kind: str) -> None:
        super()._count(kind)
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed
        if self.meanwhile is not None and kind == "put":
            other, self.meanwhile = self.meanwhile, None
            other()


@dataclass
class World:
    """Buckets by their place, a directory, and the keys of every vault in it."""

    home: Path
    keys: FileKeys
    buckets: dict[str, Mortal] = field(default_factory=dict)

    def bucket(self, place: str = "bucket/vault") -> Mortal:
        return self.buckets.setdefault(place, Mortal())

    @property
    def file(self) -> Path:
        return self.home / "vault"

    def open(self, place: str | Path) -> Vault:
        return strongroom.open(place, keys=self.keys)

    def move(self, source: str | Path, target: str | Path) -> Moved:
        return migrate(source, target, keys=self.keys)

    def objects(self, place: str | Path) -> dict[str, bytes | None]:
        """Every object by its name, but what is derived."""
        used, where = _backend(str(place))
        store = used.open(where)
        try:
            return {one.name: one.body for one in _all(store) if not is_derived(one.name)}
        finally:
            store.close()


def _backend(place: str) -> tuple[Any, str]:
    """As registered, whether or not this installation knows of it yet."""
    return (S3Backend(), place.removeprefix("s3://")) if place.startswith("s3://") else backend(place)


def _all(store: Store) -> list[Object]:
    found: list[Object] = []
    while page := store.list("", found[-1].name if found else ""):
        found += page
    return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path, FileKeys(tmp_path / "keys"))
    monkeypatch.setattr(s3, "bucket_at", lambda location, **_: made.bucket(location))
    monkeypatch.setattr(s3.S3Store, "race_later", lambda *_: None)

    monkeypatch.setattr(create_open, "backend", _backend)
    monkeypatch.setattr(move, "backend", _backend)
    return made


@pytest.fixture
def cap(world: World) -> Token:
    """A vault with lines, tombstones, an erased namespace and an erased actor, and a cap for it."""
    with strongroom.create(world.file, keys=world.keys) as vault:
        token = vault.mint(actor="a/b", ops=OPS, namespaces=["personal", "travel"], ttl=3000)
        memory = vault.memory(token)
        ids = [memory.put(f"trip number {number}", namespace="travel").id for number in range(40)]
        memory.forget(ids=ids[:3])
        memory.put("soon gone", namespace="personal")
        memory.erase(namespaces=["personal"])
        other = vault.memory(vault.mint(actor="c/d", ops=OPS, namespaces=["travel"], ttl=3000))
        other.put("all of this goes", namespace="travel")
        vault.erase("c/d")
    return token


def lines(vault: Vault, cap: Token) -> set[tuple[str, str]]:
    return {(hit.id, hit.text) for hit in vault.memory(cap).get("trip number", k=20)}


# Refusals.


@pytest.mark.requirement("fleet-migrate-refusals")
def test_two_paths_or_two_buckets_are_refused(world: World, cap: Token) -> None:
    for source, target in ((world.file, world.home / "other"), (TARGET, "s3://bucket/other")):
        with pytest.raises(InvalidRequest):
            world.move(source, target)
    assert not world.buckets
    assert not (world.home / "other").exists()


@pytest.mark.requirement("fleet-migrate-refusals")
def test_source_without_a_vault_is_missing_and_nothing_is_written(world: World) -> None:
    with pytest.raises(VaultMissing):
        world.move(world.home / "none", TARGET)
    with pytest.raises(VaultMissing):
        world.move(TARGET, world.home / "none")
    assert not world.bucket().objects
    assert not list(world.home.iterdir())


@pytest.mark.requirement("fleet-migrate-refusals")
def test_bucket_with_another_vault_is_refused_and_stays_as_it_is(world: World, cap: Token) -> None:
    strongroom.create(TARGET, keys=FileKeys(world.home / "others")).close()
    before = dict(world.bucket().objects)
    with pytest.raises(VaultExists):
        world.move(world.file, TARGET)
    assert world.bucket().objects == before


@pytest.mark.requirement("fleet-migrate-refusals")
def test_rest_of_another_vault_is_refused_and_no_vault_appears(world: World, cap: Token) -> None:
    strongroom.create(TARGET, keys=FileKeys(world.home / "others")).close()
    del world.bucket().objects["vault/format"]
    before = dict(world.bucket().objects)
    with pytest.raises(VaultExists):
        world.move(world.file, TARGET)
    assert world.bucket().objects == before


@pytest.mark.requirement("fleet-migrate-refusals")
def test_stray_object_at_the_target_is_refused_and_no_vault_appears(world: World, cap: Token) -> None:
    world.bucket().objects["vault/stray"] = b"\x01stray"
    with pytest.raises(VaultExists):
        world.move(world.file, TARGET)
    assert "vault/format" not in world.bucket().objects


@pytest.mark.requirement("fleet-migrate-refusals")
def test_path_with_another_vault_is_refused_and_stays_as_it_is(world: World, cap: Token) -> None:
    world.move(world.file, TARGET)
    other = world.home / "other"
    strongroom.create(other, keys=FileKeys(world.home / "others")).close()
    before = world.objects(other)
    with pytest.raises(VaultExists):
        world.move(TARGET, other)
    assert world.objects(other) == before


@pytest.mark.requirement("fleet-migrate-refusals")
def test_source_with_a_flaw_is_tampered_and_nothing_is_written(world: World, cap: Token) -> None:
    world.move(world.file, TARGET)
    place = next(name for name in sorted(world.bucket().objects) if "/lines/" in name and world.bucket().objects[name])
    whole = world.bucket().objects[place]
    world.bucket().objects[place] = whole[:-1] + bytes([whole[-1] ^ 1])
    with pytest.raises(Tampered):
        world.move(TARGET, world.home / "back")
    assert not (world.home / "back").exists()


@pytest.mark.requirement("fleet-migrate-refusals")
def test_source_that_is_written_to_meanwhile_makes_no_vault_in_a_bucket(world: World, cap: Token) -> None:
    def write() -> None:
        with world.open(world.file) as vault:
            vault.memory(cap).put("in between", namespace="travel")

    world.bucket().meanwhile = write
    with pytest.raises((StoreUnavailable, VaultExists, Tampered)):
        world.move(world.file, TARGET)
    assert "vault/format" not in world.bucket().objects
    with pytest.raises(StoreUnavailable):
        world.open(TARGET)


@pytest.mark.requirement("fleet-migrate-refusals")
def test_bucket_that_is_written_to_meanwhile_makes_no_vault_in_a_file(
    world: World, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.move(world.file, TARGET)
    check = move.MigrationOrigin.check_unchanged

    def write(self: move.MigrationOrigin) -> None:
        with world.open(TARGET) as vault:
            vault.memory(cap).put("in between", namespace="travel")
        check(self)

    monkeypatch.setattr(move.MigrationOrigin, "check_unchanged", write)
    with pytest.raises(StoreUnavailable):
        world.move(TARGET, world.home / "back")
    assert not (world.home / "back").exists()


@pytest.mark.requirement("fleet-migrate-refusals")
def test_line_acknowledged_meanwhile_whose_intent_was_there_before_makes_no_vault_in_a_file(
    world: World, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.move(world.file, TARGET)
    check = move.MigrationOrigin.check_unchanged
    with world.open(TARGET) as vault:
        writer = vault._state.store.writer  # type: ignore[attr-defined]
        late: list[Callable[[], object]] = []
        with monkeypatch.context() as patch:
            patch.setattr(writer, "carry_out", _later(late, writer.carry_out))
            with pytest.raises(StoreUnavailable):
                vault.memory(cap).put("on its way", namespace="travel")
        before = set(world.bucket().objects)

        def write(self: move.MigrationOrigin) -> None:
            late[0]()
            check(self)

        monkeypatch.setattr(move.MigrationOrigin, "check_unchanged", write)
        with pytest.raises(StoreUnavailable):
            world.move(TARGET, world.home / "back")
    assert not (world.home / "back").exists()
    assert sum("/lines/" in name for name in set(world.bucket().objects) - before) == 1


def _later(late: list[Callable[[], object]], carry_out: Callable[..., object]) -> Callable[..., object]:
    """Keeps what was to be done, for the caller to do."""

    def kept(*given: object) -> object:
        late.append(lambda: carry_out(*given))
        raise StoreUnavailable("not yet")

    return kept


@pytest.mark.requirement("fleet-migrate-refusals")
def test_vault_that_was_used_in_the_bucket_is_not_moved_over(world: World, cap: Token) -> None:
    world.move(world.file, TARGET)
    with world.open(TARGET) as vault:
        vault.memory(cap).put("only there", namespace="travel")
    before = dict(world.bucket().objects)
    with pytest.raises(VaultExists):
        world.move(world.file, TARGET)
    assert world.bucket().objects == before


@pytest.mark.requirement("fleet-migrate-refusals")
def test_object_that_changes_in_the_bucket_is_found_before_there_is_a_vault(world: World, cap: Token) -> None:
    bucket = world.bucket()

    def alter() -> None:
        bucket.objects["vault/secrets"] = b"\x01other"

    bucket.meanwhile = alter
    with pytest.raises((VaultExists, Tampered)):
        world.move(world.file, TARGET)
    assert "vault/format" not in bucket.objects


# Interruptions.


@pytest.mark.requirement("fleet-migrate-resumes")
def test_vault_moved_in_part_is_neither_opened_nor_written_over_and_the_move_goes_on(world: World, cap: Token) -> None:
    whole = _requests(world, world.file, "s3://bucket/measured", "bucket/measured")
    others = FileKeys(world.home / "others")
    for left in range(0, whole, max(1, whole // 7)):
        world.bucket().left = left
        with suppress(Killed):
            world.move(world.file, TARGET)
        world.bucket().left = None
        before = dict(world.bucket().objects)
        if "vault/format" in before or not before:
            continue
        with pytest.raises(StoreUnavailable) as opening_it:
            world.open(TARGET)
        with pytest.raises(StoreUnavailable) as making_one:
            strongroom.create(TARGET, keys=others)
        assert all("migrate` again" in one.value.hint for one in (opening_it, making_one))
        assert world.bucket().objects == before
        assert not others.directory.exists()
    world.move(world.file, TARGET)
    with world.open(TARGET) as vault:
        assert vault.audit.verify().ok


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.requirement("fleet-migrate-resumes")
def test_killed_at_any_two_requests_it_goes_on_and_ends_equal(world: World, cap: Token, seed: int) -> None:
    whole = _requests(world, world.file, "s3://bucket/measured", "bucket/measured")
    chosen = random.Random(seed)
    world.bucket().left = chosen.randrange(whole)
    with pytest.raises(Killed):
        world.move(world.file, TARGET)
    world.bucket().left = chosen.randrange(whole)
    with suppress(Killed):  # what is left may be less than that
        world.move(world.file, TARGET)
    world.bucket().left = None
    world.move(world.file, TARGET)
    assert world.objects(TARGET) == world.objects(world.file)
    with world.open(TARGET) as vault:
        assert vault.audit.verify().ok


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.requirement("fleet-migrate-resumes")
def test_killed_at_any_two_requests_on_the_way_back_it_ends_equal(world: World, cap: Token, seed: int) -> None:
    world.move(world.file, TARGET)
    whole = _requests(world, TARGET, world.home / "measured", "bucket/vault")
    back, chosen = world.home / "back", random.Random(seed)
    world.bucket().left = chosen.randrange(whole)
    with pytest.raises(Killed):
        world.move(TARGET, back)
    world.bucket().left = chosen.randrange(whole)
    with suppress(Killed):  # what is left may be less than that
        world.move(TARGET, back)
    world.bucket().left = None
    world.move(TARGET, back)
    assert world.objects(back) == world.objects(TARGET)
    with world.open(back) as vault:
        assert vault.audit.verify().ok


def _requests(world: World, source: str | Path, target: str | Path, place: str) -> int:
    """How many requests a whole move takes; what is seen of it is kept apart."""
    before = sum(world.bucket(place).requests.values())
    migrate(source, target, keys=world.keys, witness=Witness(world.home / "measured-seen"))
    return sum(world.bucket(place).requests.values()) - before


@pytest.mark.requirement("fleet-migrate-resumes")
def test_killed_before_the_new_file_counts_as_seen_it_counts_the_next_time(
    world: World, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.move(world.file, TARGET)
    with world.open(world.file) as vault:
        assert vault.audit.verify().ok
    with monkeypatch.context() as patch:
        patch.setattr(move, "_verify", _dies)
        with pytest.raises(Killed):
            world.move(TARGET, world.home / "back")
    assert world.move(TARGET, world.home / "back").already
    assert strongroom.verify(world.home / "back", keys=world.keys).ok
    _cut(world.home / "back", world.keys)
    assert _flaws(world, world.home / "back") == {Flaw.LOG_ROLLED_BACK}


def _dies(*_: object) -> None:
    raise Killed


# What is the same.


@pytest.mark.requirement("fleet-migrate")
def test_lines_ids_caps_and_log_are_the_same_there_and_back(world: World, cap: Token) -> None:
    with world.open(world.file) as vault:
        before, vault_id = lines(vault, cap), vault.id
    moved = world.move(world.file, TARGET)
    with world.open(TARGET) as vault:
        assert (vault.id, moved.vault) == (vault_id, vault_id)
        assert lines(vault, cap) == before
        assert len(before) == 20
        ops = [entry.op for _, entry in vault.audit.entries() if entry is not None]
        assert ops.count("put") == 42
        assert vault.audit.verify().ok
    world.move(TARGET, world.home / "back")
    with world.open(world.home / "back") as vault:
        assert vault.id == vault_id
        assert lines(vault, cap) == before
        found = [entry for _, entry in vault.audit.entries() if entry is not None]
        assert found[0].op == "migrate"
        assert [entry.op for entry in found].count("put") == 42
        assert vault.audit.verify().ok


@pytest.mark.requirement("fleet-migrate", "details-carried")
def test_lines_with_details_are_the_same_there_and_back(world: World, cap: Token) -> None:
    with world.open(world.file) as vault:
        memory = vault.memory(cap)
        memory.put("Hotel", namespace="travel", tags=["trip"], meta={"n": [1, None]}, expires=LATER, turn="t7")
        before = memory.get("hotel", tags=["trip"])
        assert len(before) == 1
    world.move(world.file, TARGET)
    world.move(TARGET, world.home / "back")
    for place in (TARGET, world.home / "back"):
        with world.open(place) as vault:
            assert vault.memory(cap).get("hotel", tags=["trip"]) == before
            assert vault.audit.verify().ok


@pytest.mark.requirement("fleet-migrate", "details-upgrade")
def test_moved_vault_keeps_its_format(world: World, cap: Token) -> None:
    with world.open(world.file) as vault:
        set_format(vault, 1)
    world.move(world.file, TARGET)
    assert create_open.read_format(TARGET).v == 1
    world.move(TARGET, world.home / "back")
    with world.open(world.home / "back") as vault, pytest.raises(FormatTooOld):
        vault.memory(cap).put("x", namespace="travel", tags=["trip"])


@pytest.mark.requirement("fleet-migrate")
def test_migrate_entry_is_the_first_thing_that_is_written(world: World, cap: Token) -> None:
    left = 0
    while not world.bucket().objects:
        world.bucket().left, left = left, left + 1
        with pytest.raises(Killed):
            world.move(world.file, TARGET)
    (only,) = world.bucket().objects.items()
    assert only[0].startswith("logs/m")
    assert b'"op":"migrate"' in only[1]


@pytest.mark.requirement("fleet-migrate")
def test_moving_again_writes_nothing_and_says_so(world: World, cap: Token) -> None:
    assert not world.move(world.file, TARGET).already
    before = dict(world.bucket().objects)
    assert world.move(world.file, TARGET).already
    assert world.bucket().objects == before


@pytest.mark.requirement("fleet-migrate")
def test_source_is_left_as_it_was(world: World, cap: Token) -> None:
    before = world.objects(world.file)
    with world.open(world.file) as vault:
        size = vault.audit.size()
    world.move(world.file, TARGET)
    bucket = dict(world.bucket().objects)
    world.move(TARGET, world.home / "back")
    assert world.bucket().objects == bucket
    assert world.objects(world.file) == before
    with world.open(world.file) as vault:
        assert vault.audit.size() == size


@pytest.mark.requirement("fleet-migrate")
def test_forgotten_line_stays_forgotten_and_cannot_come_back(world: World, cap: Token) -> None:
    world.move(world.file, TARGET)
    gone = [name for name, body in world.objects(TARGET).items() if body is None]
    assert sum("/lines/" in name for name in gone) == 3
    world.move(TARGET, world.home / "back")
    assert [name for name, body in world.objects(world.home / "back").items() if body is None] == gone


@pytest.mark.requirement("fleet-migrate")
def test_intent_that_was_never_carried_out_still_gives_a_log_that_verifies(
    world: World, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.move(world.file, TARGET)
    with world.open(TARGET) as vault:
        memory = vault.memory(cap)
        memory.put("this one counts", namespace="travel")
        with monkeypatch.context() as patch:
            patch.setattr(vault._state.store.writer, "carry_out", _fails)  # type: ignore[attr-defined]
            with pytest.raises(StrongroomError):
                memory.put("this one never was", namespace="travel")
    world.move(TARGET, world.home / "back")
    with world.open(world.home / "back") as vault:
        assert vault.audit.verify().ok
        corrections = [entry for _, entry in vault.audit.entries() if entry is not None and _is_correction(entry)]
        assert corrections


def _fails(*_: object) -> int:
    raise StoreUnavailable("the bucket is out of reach")


def _is_correction(entry: Entry) -> bool:
    return entry.op == "migrate" and entry.decision == Decision.ALLOW and bool(entry.objects)


@pytest.mark.requirement("fleet-migrate")
def test_checkpoint_goes_with_the_vault_so_a_log_cut_short_is_found(world: World, cap: Token) -> None:
    world.move(world.file, TARGET)
    carried = sorted(name for name in world.bucket().objects if name.startswith("logs/s"))
    for name in carried:
        del world.bucket().objects[name]
    with world.open(TARGET) as vault:
        assert {"log_missing", "log_rolled_back"} & {one.flaw.value for one in vault.audit.look().findings}


def _flaws(world: World, place: str | Path) -> set[Flaw]:
    return {one.flaw for one in strongroom.verify(place, keys=world.keys).findings}


def _cut(place: Path, keys: FileKeys) -> None:
    """Put the vault in a file back to what it was before something was seen of it."""
    older = {path.name: path.read_bytes() for path in place.iterdir()}
    with strongroom.open(place, keys=keys) as vault:
        vault.mint(actor="e/f", ops=OPS, namespaces=["travel"], ttl=60)
        assert vault.audit.verify().ok
    for path in place.iterdir():
        path.unlink()
    for name, body in older.items():
        (place / name).write_bytes(body)


@pytest.mark.requirement("fleet-migrate")
def test_checkpoint_of_a_place_counts_for_it_after_a_move_out_of_it(world: World, cap: Token) -> None:
    back = world.home / "back"
    world.move(world.file, TARGET)
    assert not _flaws(world, world.file)
    with world.open(TARGET) as vault:
        vault.memory(cap).put("only there", namespace="travel")
        assert vault.audit.verify().ok
    world.move(TARGET, back)
    for place in (TARGET, back):
        assert not _flaws(world, place)
        with world.open(place) as vault:
            vault.memory(cap).put("once more", namespace="travel")
            assert vault.audit.verify().ok
    last = max(name for name in world.bucket().objects if name.startswith("logs/w"))
    worker = last.split("/")[1]
    world.bucket().delete([f"roster/{worker}", *(name for name in world.bucket().objects if f"/{worker}/" in name)])
    assert Flaw.LOG_ROLLED_BACK in _flaws(world, TARGET)
    assert not _flaws(world, back)


@pytest.mark.requirement("fleet-migrate")
def test_moved_in_and_out_and_in_and_out_again_the_last_two_places_verify(world: World, cap: Token) -> None:
    again, last = "s3://bucket/again", world.home / "last"
    world.move(world.file, TARGET)
    world.move(TARGET, world.home / "back")
    world.move(world.home / "back", again)
    world.move(again, last)
    assert not _flaws(world, again) | _flaws(world, last)
    _cut(last, world.keys)
    assert _flaws(world, last) == {Flaw.LOG_ROLLED_BACK}
    assert not _flaws(world, again)


@pytest.mark.requirement("fleet-migrate")
def test_restated_objects_of_an_actor_are_demanded_in_the_next_bucket(
    world: World, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.move(world.file, TARGET)
    with world.open(TARGET) as vault, monkeypatch.context() as patch:
        patch.setattr(vault._state.store.writer, "carry_out", _fails)  # type: ignore[attr-defined]
        with pytest.raises(StrongroomError):
            vault.memory(cap).put("this one never was", namespace="travel")
    world.move(TARGET, world.home / "back")
    world.move(world.home / "back", "s3://bucket/again")
    assert not _flaws(world, "s3://bucket/again")
    again = world.bucket("bucket/again")
    again.delete([next(name for name in sorted(again.objects) if "/lines/" in name)])
    assert _flaws(world, "s3://bucket/again") == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("fleet-migrate")
def test_abandoned_operation_of_a_worker_is_not_told_as_answered_after_a_move(world: World, cap: Token) -> None:
    world.move(world.file, TARGET)
    with world.open(TARGET) as one, world.open(TARGET) as two:
        for vault in (one, two):
            vault.memory(cap).get("trip")
        two.revoke(cap)
        with pytest.raises(CapRevoked):
            one.memory(cap).get("trip")
    world.move(TARGET, world.home / "back")
    with world.open(world.home / "back") as vault:
        entries = [entry for _, entry in vault.audit.entries() if entry is not None]
    gets = [(str(entry.decision), entry.reason) for entry in entries if entry.op == "get"]
    # Not by their place behind the revocation: another worker's entries of the same millisecond may come before it.
    assert [one for one in gets if one[0] != "allow"] == [("fail", "given_up"), ("deny", "cap_revoked")]
    assert not [entry for entry in entries if entry.op == "done"]


@pytest.mark.requirement("documents-history")
def test_documents_move_into_a_bucket_and_out_with_their_history(world: World, cap: Token) -> None:
    key = "notes/trip.md"
    with world.open(world.file) as vault:
        memory = vault.memory(cap)
        first = memory.write_document(key, "Train at nine", namespace="travel")
        second = memory.write_document(key, "Bus at ten", namespace="travel", version=first.version)
    world.move(world.file, TARGET)
    with world.open(TARGET) as vault:
        memory = vault.memory(cap)
        assert memory.document_history(key, namespace="travel") == [second, first]
        third = memory.write_document(key, "Boat at eleven", namespace="travel", version=second.version)
        assert [hit.text for hit in memory.get("boat", k=1)] == ["Boat at eleven"]
    world.move(TARGET, world.home / "back")
    with world.open(world.home / "back") as vault:
        assert vault.memory(cap).document_history(key, namespace="travel") == [third, second, first]
        assert vault.audit.verify().is_sound
