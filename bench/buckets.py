"""A vault in a bucket to measure, the same bucket bare, and a count of requests.

The server is SeaweedFS on loopback, as the tests install and start it.
"""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import obstore
from obstore.store import S3Store as Obstore
from tests.s3 import servers
from tests.s3.install import CannotInstall
from tests.s3.servers import BUCKET, Server

import strongroom
from bench.measure import Run
from strongroom import FileKeys, Vault
from strongroom.store.s3 import S3Store
from strongroom.store.s3.bucket import PAGE, Bucket, Found, Listed, S3Bucket
from strongroom.store.s3.probe import Probe

_DELETES = 1000


class Counting:
    """A bucket that counts what it asks the server for, pages of lists and batches of deletes each for one."""

    def __init__(self, bucket: S3Bucket) -> None:
        self._bucket = bucket
        self._guard = threading.Lock()
        self.requests = 0
        self.rewritten = 0
        """Bytes that were written over packs, and over claims of such."""
        self.time = 0
        self.keeps_versions = False

    @property
    def quoted(self) -> bool:
        return self._bucket.quoted

    @quoted.setter
    def quoted(self, value: bool) -> None:
        self._bucket.quoted = value

    def _count(self, things: int = 1, in_one: int = 1) -> None:
        with self._guard:
            self.requests += max(1, -(-things // in_one))

    def get(self, name: str) -> Found | None:
        self._count()
        return self._bucket.get(name)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        found = self._bucket.list(prefix, after, limit)
        self._count(len(found), limit or PAGE)
        return found

    def folders(self, prefix: str) -> Sequence[str]:
        found = self._bucket.folders(prefix)
        self._count(len(found), PAGE)
        return found

    def create(self, name: str, body: bytes) -> str:
        self._count()
        return self._bucket.create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        self._count()
        if "/packs/" in name:
            with self._guard:
                self.rewritten += len(body)
        return self._bucket.swap(name, body, etag)

    def delete(self, names: Sequence[str]) -> None:
        self._count(len(names), _DELETES)
        self._bucket.delete(names)


class Bare:
    """Calls of obstore on the same server, with the settings that it has by itself."""

    def __init__(self, server: Server, prefix: str) -> None:
        where = server.access(prefix)
        self._store = Obstore(BUCKET, config=where.config(), client_options={"allow_http": True})  # type: ignore[arg-type]
        self._prefix = prefix

    def create(self, body: bytes) -> None:
        obstore.put(self._store, f"{self._prefix}-bare/{secrets.token_hex(13)}", body, mode="create")

    def list(self, below: str) -> int:
        return sum(len(page) for page in obstore.list(self._store, f"{self._prefix}/{below}", chunk_size=PAGE))


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix of the bucket, and where the keys of its vault are."""

    server: Server
    prefix: str
    keys: Path

    def create(self) -> tuple[Vault, Counting]:
        return self._with(strongroom.create)

    def open(self) -> tuple[Vault, Counting]:
        """The vault once more, as another worker has it: with connections of its own, and nothing held."""
        return self._with(strongroom.open)

    def _with(self, make: object) -> tuple[Vault, Counting]:
        counting = Counting(S3Bucket(self.server.access(self.prefix)))

        def bucket(_: str, *, at_once: bool = True) -> Bucket:
            Probe(counting, secrets.token_hex(8)).check(at_once=at_once)  # type: ignore[arg-type]
            return counting

        # The trial beside the work would be counted with the work.
        with patch("strongroom.store.s3.bucket_at", bucket), patch.object(S3Store, "race_later"):
            vault = make(f"s3://{BUCKET}/{self.prefix}", keys=FileKeys(self.keys))  # type: ignore[operator]
        return vault, counting

    def bare(self) -> Bare:
        return Bare(self.server, self.prefix)


@contextmanager
def served(run: Run) -> Iterator[Place | None]:
    """A place on a server that runs until the block ends; None, with a word on stderr, if none can be installed."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(servers.running("seaweedfs"))
        except CannotInstall as error:
            print(f"bench: {error}", file=sys.stderr)
            yield None
        else:
            yield Place(server, f"bench/{secrets.token_hex(8)}", run.scratch / "keys")


def pack_nothing(vault: Vault) -> None:
    """Have nothing packed in the background from now on."""
    background = store_of(vault)._background
    if background is not None:
        background.close()


def store_of(vault: Vault) -> S3Store:
    store = vault.store
    if not isinstance(store, S3Store):
        raise TypeError("this vault is in no bucket")
    return store
