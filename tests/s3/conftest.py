"""One real server for all tests here, and a fresh prefix for each."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

from strongroom.store.s3.bucket import S3Bucket
from tests.s3 import servers
from tests.s3.ceph import Ceph
from tests.s3.servers import Server


@pytest.fixture(scope="session", autouse=True)
def _no_aws() -> Iterator[None]:
    """The client reads the environment of this process as well: whoever runs the tests may have an account."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def s3(pytestconfig: pytest.Config) -> Iterator[Server]:
    """The server that STRONGROOM_TEST_S3 names: seaweedfs, unless it says ceph. Installed first, if it is missing."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        starting = servers.running(os.environ.get("STRONGROOM_TEST_S3", "seaweedfs"))
        server = starting.__enter__()
    try:
        yield server
    finally:
        starting.__exit__(None, None, None)


@pytest.fixture
def prefix() -> str:
    """A place of its own in the bucket."""
    return f"t/{secrets.token_hex(8)}"


@pytest.fixture
def bucket(s3: Server, prefix: str) -> S3Bucket:
    return S3Bucket(s3.access(prefix), quoted=s3.quoted)


@pytest.fixture(scope="session")
def ceph(s3: Server) -> Iterator[Ceph]:
    """A Ceph whose parts can be killed, whichever server the other tests use."""
    if isinstance(s3, Ceph):
        yield s3
        return
    with servers.running("ceph") as server:
        assert isinstance(server, Ceph)
        yield server
