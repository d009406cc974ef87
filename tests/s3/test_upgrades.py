"""A vault that an earlier version wrote into a bucket, used by this one on a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.errors import StrongroomError
from strongroom.store.s3.bucket import S3Bucket
from tests.s3.servers import Server
from tests.upgrades.frozen import Frozen, as_said, asked, expected, lines, versions

pytestmark = [
    pytest.mark.requirement("upgrade-bucket"),
    pytest.mark.parametrize("frozen", versions(), ids=lambda one: one.place.name),
]


@pytest.fixture
def _login(s3: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)


def _put_back(frozen: Frozen, name: str, bucket: S3Bucket, keys: Path) -> FileKeys:
    """The objects in the bucket again, byte for byte; the keys in a directory."""
    objects = 0
    for path, body in frozen.files("buckets").items():
        top, _, rest = path.partition("/")
        if top == name:
            bucket.create(rest, body)
            objects += 1
        elif top == f"{name}-keys":
            keys.mkdir(exist_ok=True, mode=0o700)
            (keys / rest).write_bytes(body)
            (keys / rest).chmod(0o600)
    assert objects > 5
    return FileKeys(keys)


def _opened(frozen: Frozen, place: str, keys: FileKeys) -> Vault:
    """A worker whose time is that of the fixture, whatever the server's is."""
    vault = strongroom.open(place, keys=keys, now=frozen.clock())
    vault.accept_clock()
    return vault


def _reason(vault: Vault, token: str) -> str:
    with pytest.raises(StrongroomError) as caught:
        vault.memory(token).get("bees")
    return caught.value.reason


@pytest.mark.usefixtures("_login")
def test_fleet_s_bucket_refuses_and_answers_as_before_and_goes_on(
    frozen: Frozen, bucket: S3Bucket, place: str, tmp_path: Path
) -> None:
    keys = _put_back(frozen, "bucket", bucket, tmp_path / "keys")
    said: dict[str, Any] = frozen.manifest["bucket"]
    report = strongroom.verify(place, keys=keys)
    assert {"ok": report.ok, "logs": report.logs, "objects": report.objects} == said["verify"]
    with _opened(frozen, place, keys) as vault:
        assert {name: _reason(vault, said["caps"][name]) for name in said["refused"]} == said["refused"]
        for name, put in said["lines"].items():
            found = {hit.id: hit for hit in lines(vault.memory(said["caps"][name]))}
            assert [as_said(found[one["id"]], one) for one in put] == put
            assert len(found) == len(put)
        assert asked(vault, said) == expected(said)
        memory = vault.memory(said["caps"]["alice"])
        gone = said["forgotten"]["alice"][0]
        assert memory.put(gone["text"], namespace=gone["namespace"], id=gone["id"]).forgotten
        new = memory.put("The lapwing nests in the new meadow", namespace="garden").id
        memory.forget(ids=[said["lines"]["alice"][0]["id"], said["lines"]["alice"][-1]["id"]])
        vault.rotate_actor("local/bob")
        vault.rotate_root()
    with _opened(frozen, place, keys) as other:
        found = {hit.id: hit for hit in lines(other.memory(said["caps"]["alice"]))}
        assert new in found
        assert said["lines"]["alice"][0]["id"] not in found
        assert other.audit.verify().ok


@pytest.mark.usefixtures("_login")
def test_vault_that_was_moved_into_a_bucket_goes_on(
    frozen: Frozen, bucket: S3Bucket, place: str, tmp_path: Path
) -> None:
    keys = _put_back(frozen, "moved", bucket, tmp_path / "keys")
    said: dict[str, Any] = frozen.manifest["moved"]
    report = strongroom.verify(place, keys=keys)
    assert {"ok": report.ok, "logs": report.logs, "objects": report.objects} == said["verify"]
    with _opened(frozen, place, keys) as vault:
        memory = vault.memory(said["cap"])
        assert [hit.id for hit in memory.get("barge")] == [said["id"]]
        assert memory.put("The barge was sunk", namespace="travel", id=said["forgotten"]).forgotten
        memory.put("The barge was painted", namespace="travel")
        assert len(memory.get("barge")) == 2
        assert vault.audit.verify().ok
