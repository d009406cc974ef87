"""The index of cap records in a bucket: what an attacker can do to it, vaults without one, and vaults that moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.audit.verifier import Flaw
from strongroom.caps.chain import parse
from strongroom.errors import CapRevoked
from strongroom.memory.cap_index import INDEXED
from strongroom.store import backend, s3
from strongroom.vault import create_open
from strongroom.vault.migrate.move import migrate
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
ALICE = "local/alice"
Open = Callable[[], Vault]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    return used_by_vaults(MemoryBucket(), monkeypatch)


@pytest.fixture
def keys(tmp_path: Path) -> FileKeys:
    return FileKeys(tmp_path / "keys")


@pytest.fixture
def vault(bucket: MemoryBucket, keys: FileKeys) -> Iterator[Vault]:
    assert not bucket.objects
    with strongroom.create(PLACE, keys=keys) as made:
        yield made


def minted(vault: Vault, actor: str = ALICE) -> str:
    return str(vault.mint(actor=actor, ops=["put", "get", "renew"], namespaces=vault.namespaces, ttl=3600))


def renewed(vault: Vault, token: str) -> str:
    return str(vault.memory(token).renew())


def is_refused(vault: Vault, token: str) -> bool:
    try:
        vault.memory(token).get("anything")
    except CapRevoked:
        return True
    return False


def link(token: str) -> str:
    return parse(token).links[0].id


def markers(bucket: MemoryBucket) -> list[str]:
    return [name for name in bucket.objects if name.startswith(("caps/of/", "caps/from/"))]


@pytest.mark.requirement("fleet-tampering", "renew-lineage")
@pytest.mark.parametrize("part", ["caps/of/", "caps/from/"])
def test_marker_that_is_deleted_is_missed_by_verification(vault: Vault, bucket: MemoryBucket, part: str) -> None:
    renewed(vault, minted(vault))
    bucket.timers.tick()
    bucket.delete([name for name in markers(bucket) if name.startswith(part)])
    assert {one.flaw for one in vault.audit.look().findings} == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("fleet-tampering", "renew-lineage")
def test_cap_whose_record_does_not_read_takes_its_descendants_along(vault: Vault, bucket: MemoryBucket) -> None:
    first = minted(vault)
    second = renewed(vault, first)
    third = renewed(vault, second)
    bucket.objects[f"caps/{link(second)}"] = b"\x01zz"
    vault.revoke(second)
    assert [is_refused(vault, one) for one in (first, second, third)] == [False, True, True]


@pytest.mark.requirement("renew-lineage")
def test_narrowed_cap_takes_along_what_was_renewed_from_its_own_and_no_more(vault: Vault) -> None:
    first = minted(vault)
    second = renewed(vault, first)
    narrowed = strongroom.attenuate(first, ops=["get"])
    vault.revoke(narrowed)
    assert [is_refused(vault, one) for one in (first, second, str(narrowed))] == [False, False, True]
    vault.revoke(parse(first).links[0].id)
    assert [is_refused(vault, one) for one in (first, second)] == [True, True]


@pytest.mark.requirement("erase-void", "audit-unlinkable")
def test_erasure_leaves_no_name_that_ties_a_link_to_the_actor(vault: Vault, bucket: MemoryBucket) -> None:
    hers = renewed(vault, minted(vault))
    minted(vault, "local/bob")
    vault.memory(hers).put("a trip", namespace="travel")
    vault.erase(ALICE)
    alive = [name for name in markers(bucket) if bucket.objects[name]]
    assert len(alive) == 1, "his"
    assert [one.actor for one in vault.caps()] == ["local/bob"]
    assert vault.audit.look().ok


@pytest.mark.requirement("fleet-many-actors", "renew-lineage")
def test_vault_of_an_earlier_version_is_indexed_by_the_owners_first_revocation(
    bucket: MemoryBucket, keys: FileKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(create_open, "is_bucket", lambda _: False)
        patch.setattr("strongroom.memory.cap_index.CapIndex.markers", lambda *_: [])
        with strongroom.create(PLACE, keys=keys) as old:
            first = minted(old)
            chain = [first, renewed(old, first), minted(old, "local/bob")]
            chain.append(renewed(old, chain[1]))
    assert not markers(bucket)
    with strongroom.open(PLACE, keys=keys) as vault:
        vault.revoke(chain[1])
        assert [is_refused(vault, one) for one in chain] == [False, True, False, True]
        assert INDEXED in bucket.objects
        assert len(markers(bucket)) == 4 + 2
        vault.revoke(chain[0])
        assert is_refused(vault, chain[0])
        assert [one.link for one in vault.caps("local/bob")] == [link(chain[2])]
        assert vault.audit.look().ok


@pytest.mark.requirement("fleet-migrate", "renew-lineage")
def test_cap_minted_in_a_file_between_two_buckets_is_in_the_index(
    vault: Vault, bucket: MemoryBucket, keys: FileKeys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = minted(vault)
    vault.close()
    where = str(tmp_path / "file")
    # A move opens both places by itself, and makes the trials of the server.
    monkeypatch.setattr(s3, "bucket_at", lambda _, **__: bucket)
    monkeypatch.setattr(create_open, "backend", backend)
    migrate(PLACE, where, keys=keys)
    with strongroom.open(where, keys=keys) as file:
        second = renewed(file, first)
        minted(file, "local/bob")
    bucket.objects.clear()
    migrate(where, PLACE, keys=keys)
    with strongroom.open(PLACE, keys=keys) as back:
        assert [one.actor for one in back.caps("local/bob")] == ["local/bob"]
        back.revoke(first)
        assert [is_refused(back, one) for one in (first, second)] == [True, True]
        assert back.audit.look().ok
