"""One real server for all tests here, and a fresh prefix for each."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from strongroom.store.s3.bucket import S3Bucket
from tests.s3 import servers
from tests.s3.ceph import Ceph
from tests.s3.install import CannotInstall
from tests.s3.servers import BUCKET, Server
from tests.s3.shell import Shell


@contextmanager
def _running(config: pytest.Config, name: str) -> Iterator[Server]:
    """A server; what is installed for it is shown, and what cannot be is a failure in one sentence."""
    capture = config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with ExitStack() as stack:
        try:
            with capture.global_and_fixture_disabled():
                server = stack.enter_context(servers.running(name))
        except CannotInstall as error:
            pytest.fail(str(error), pytrace=False)
        yield server


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
    with _running(pytestconfig, os.environ.get("STRONGROOM_TEST_S3", "seaweedfs")) as server:
        yield server


@pytest.fixture(scope="session")
def ceph(pytestconfig: pytest.Config, s3: Server) -> Iterator[Ceph]:
    """A Ceph whose parts can be killed, whichever server the other tests use."""
    if isinstance(s3, Ceph):
        yield s3
        return
    with _running(pytestconfig, "ceph") as server:
        assert isinstance(server, Ceph)
        yield server


@pytest.fixture(scope="session")
def rclone(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A real server that ignores every condition and says nothing of it."""
    with _running(pytestconfig, "rclone") as server:
        yield server


@pytest.fixture
def prefix() -> str:
    """A place of its own in the bucket."""
    return f"t/{secrets.token_hex(8)}"


@pytest.fixture
def bucket(s3: Server, prefix: str) -> S3Bucket:
    return S3Bucket(s3.access(prefix), quoted=s3.quoted)


@pytest.fixture
def place(prefix: str) -> str:
    """The same as the command line names it."""
    return f"s3://{BUCKET}/{prefix}"


@pytest.fixture
def shell(s3: Server, tmp_path: Path) -> Shell:
    return Shell(s3, tmp_path)
