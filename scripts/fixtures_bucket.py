"""A vault in a bucket of a real S3 server: written by two workers, and one that was moved there from a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from scripts.fixtures_vault import LIFE, Clock, fill
from tests.s3 import servers
from tests.s3.servers import BUCKET, Server

import strongroom
from strongroom import FileKeys, Vault
from strongroom.store import s3
from strongroom.store.s3 import S3Store
from strongroom.store.s3.bucket import S3Bucket
from strongroom.store.s3.compacting import Compactor
from strongroom.vault.moving import migrate

FLEET, MOVED = "fixture/fleet", "fixture/moved"


def make(root: Path, clock: Clock) -> dict[str, Any]:
    """Two vaults in buckets, their objects as files below `bucket` and `moved`, their keys beside."""
    with servers.running("seaweedfs") as server, _server_time(clock):
        os.environ.update({name: value for name, value in server.environment().items() if name.startswith("AWS_")})
        fleet = _fleet(root, clock)
        moved = _moved(root, clock)
        for prefix, name in ((FLEET, "bucket"), (MOVED, "moved")):
            _save(server, prefix, root / name)
    return {"bucket": fleet, "moved": moved}


@contextmanager
def _server_time(clock: Clock) -> Iterator[None]:
    """Take the fixture's time for the server's, which a worker's clock must not lag behind."""
    tried = s3.bucket_at

    def bucket_at(location: str, *, at_once: bool = True) -> S3Bucket:
        bucket = tried(location, at_once=at_once)
        bucket.time = clock()
        return bucket

    with patch.object(s3, "bucket_at", bucket_at):
        yield


def _fleet(root: Path, clock: Clock) -> dict[str, Any]:
    place, keys = f"s3://{BUCKET}/{FLEET}", FileKeys(root / "bucket-keys")
    with (
        strongroom.create(place, keys=keys, now=clock) as vault,
        strongroom.open(place, keys=keys, now=clock) as other,
    ):
        said = fill(vault, clock, many=50, other=other)
        packed = _compact(vault)
        assert packed, "nothing was packed"
        report = vault.audit.verify()
        assert report.ok, report.findings
        vault.audit.checkpoint()
        said["packs"], said["verify"] = packed, {"ok": True, "logs": report.logs, "objects": report.objects}
    return said


def _compact(vault: Vault) -> int:
    """Pack what the background would pack after some minutes."""
    store = vault.store
    assert isinstance(store, S3Store)
    compactor = Compactor(store.reader, os.urandom, settled=-60_000, least=8)
    return sum(compactor.compact(locator).packs for locator in store.reader.locators())


def _moved(root: Path, clock: Clock) -> dict[str, Any]:
    """A small vault that began in a file."""
    place, keys = f"s3://{BUCKET}/{MOVED}", FileKeys(root / "moved-keys")
    text = "The barge was moved to the new harbour"
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "vault"
        with strongroom.create(source, keys=keys, now=clock) as vault:
            terms: dict[str, Any] = {"ops": ["put", "get", "forget"], "namespaces": vault.namespaces, "ttl": LIFE}
            cap = vault.mint(actor="local/alice", **terms)
            memory = vault.memory(cap)
            line = memory.put(text, namespace="travel").id
            gone = memory.put("The barge was sunk", namespace="travel").id
            memory.forget(ids=[gone])
        migrate(source, place, keys=keys, now=clock)
    report = strongroom.verify(place, keys=keys)
    assert report.ok, report.findings
    verify = {"ok": True, "logs": report.logs, "objects": report.objects}
    return {"cap": cap, "id": line, "text": text, "forgotten": gone, "verify": verify}


def _save(server: Server, prefix: str, target: Path) -> None:
    bucket = S3Bucket(server.access(prefix), quoted=server.quoted)
    for one in bucket.list(""):
        found = bucket.get(one.name)
        assert found is not None
        path = target / one.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(found.body)
