"""The store's contract on a real server."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strongroom.store import Backend, Effect, HeadMac
from strongroom.store.conformance import StoreContract
from strongroom.store.s3 import S3Store, create, open_store
from strongroom.store.s3.bucket import S3Bucket
from tests.s3.servers import BUCKET, Server


class OnServer:
    """A backend of the places in one bucket; each store has connections of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def create(
        self, location: str, mac: HeadMac, entries: Sequence[bytes], effects: Sequence[Effect], time: int
    ) -> S3Store:
        return create(self._bucket(location), location, mac, entries, effects, time)

    def open(self, location: str) -> S3Store:
        return open_store(self._bucket(location), location)

    def copy(self, location: str, target: str, progress: object = None) -> None:
        raise AssertionError("a bucket is not copied")

    def _bucket(self, location: str) -> S3Bucket:
        prefix = location.removeprefix(f"{BUCKET}/")
        return S3Bucket(self._server.access(prefix), quoted=self._server.quoted)


@pytest.mark.requirement("store-contract", "s3-contract", "s3-list-order")
class TestS3(StoreContract):
    is_whole = False
    one_log = False
    archives = False
    copies = False
    threads = 4  # who loses a race for one name on SeaweedFS waits a second or more
    turns = 2

    @pytest.fixture(autouse=True)
    def _place(self, s3: Server, prefix: str) -> None:
        self._backend = OnServer(s3)
        self._location = f"{BUCKET}/{prefix}"

    def backend(self) -> Backend:
        return self._backend

    def location(self) -> str:
        return self._location
