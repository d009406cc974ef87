"""On a real server, with real workers that are killed: what they acknowledged is undone, and verification names it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import strongroom
from strongroom import Memory, Vault
from strongroom.audit.verifier import Flaw
from strongroom.model import Millis
from strongroom.store.s3.bucket import Changed, NameTaken, S3Bucket
from tests.s3 import workers
from tests.s3.servers import BUCKET, Server

# httpcore 1.0 leaves the socket of a refused connection to the collector.
pytestmark = pytest.mark.filterwarnings(r"ignore:unclosed <socket.socket fd=\d+:ResourceWarning")

_LATER = 120_000
"""In ms: by then nothing that was begun can be under way any more."""
Act = Callable[[Vault, Memory, str], object]
"""Something that is acknowledged, by the worker behind a memory or by the owner's process, for a line."""
ACTS: Mapping[str, Act] = {
    "put": lambda vault, memory, line: memory.put("what will be undone"),
    "forget": lambda vault, memory, line: memory.forget(ids=[line]),
    "revoke": lambda vault, memory, line: vault.revoke(next(vault.caps("local/alice")).link),
    "revoke actor": lambda vault, memory, line: vault.revoke_actor("local/alice"),
    "erase namespace": lambda vault, memory, line: memory.erase(["travel"]),
    "erase actor": lambda vault, memory, line: vault.erase("local/alice"),
    "profile": lambda vault, memory, line: _set_profile(memory),
    "rotate": lambda vault, memory, line: vault.rotate_issuer(),
}
"""The same as in `tests.fleet.test_undoing`, which plays them with every fate of a worker and at every time."""
_SMALL = ("put", "forget", "revoke")
_PATIENCE = 300.0
_SAID = 60.0
_OPS = ["put", "get", "list", "profile", "forget", "erase"]


def _set_profile(memory: Memory) -> None:
    memory.set_profile("new", namespace="travel", version=memory.profile("travel").version)


@pytest.fixture
def place(s3: Server, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "keys"))
    return f"s3://{BUCKET}/{prefix}"


@pytest.fixture
def vault(place: str) -> Iterator[Vault]:
    with strongroom.create(place) as made:
        yield made


def _objects(bucket: S3Bucket) -> dict[str, bytes]:
    names = [one.name for one in bucket.list("") if not one.name.startswith(("logs/", "roster/", "probe/"))]
    return {name: found.body for name in names if (found := bucket.get(name)) is not None}


def _undo(bucket: S3Bucket, before: Mapping[str, bytes]) -> None:
    """Put everything but the logs back as it was, as anyone can who writes to the bucket."""
    bucket.delete([name for name in _objects(bucket) if name not in before])
    for name, body in before.items():
        with suppress(NameTaken, Changed):
            found = bucket.get(name)
            if found is None:
                bucket.create(name, body)
            elif found.body != body:
                bucket.swap(name, body, found.etag)


@pytest.mark.requirement("fleet-tampering", "fleet-unsettled")
@pytest.mark.parametrize("what", [pytest.param(one, marks=() if one in _SMALL else pytest.mark.long) for one in ACTS])
def test_undone_acknowledgement_of_a_killed_worker_is_named(
    s3: Server, place: str, vault: Vault, bucket: S3Bucket, tmp_path: Path, what: str
) -> None:
    cap = vault.mint(actor="local/alice", ops=_OPS, namespaces=["travel"], ttl=600)
    with (
        workers.fleet(s3, place, tmp_path / "keys", 1) as fleet,
        strongroom.connect(fleet.urls[0], cap, timeout=_PATIENCE) as memory,
    ):
        line = memory.put("a trip").id
        memory.set_profile("old", namespace="travel")
        before = _objects(bucket)
        ACTS[what](vault, memory, line)
        fleet.kill()
    assert _objects(bucket) != before
    _undo(bucket, before)
    with strongroom.open(place, now=lambda: Millis(time.time_ns() // 1_000_000 + _LATER)) as later:
        report = later.audit.verify()
    assert report.findings or (what == "put" and report.doubtful), report


@pytest.mark.requirement("fleet-tampering", "fleet-done")
def test_put_of_a_worker_that_then_idles_is_said_done_by_its_timer_and_its_undoing_is_a_finding(
    s3: Server, place: str, vault: Vault, bucket: S3Bucket, tmp_path: Path
) -> None:
    cap = vault.mint(actor="local/alice", ops=_OPS, namespaces=["travel"], ttl=600)
    with (
        workers.fleet(s3, place, tmp_path / "keys", 1) as fleet,
        strongroom.connect(fleet.urls[0], cap, timeout=_PATIENCE) as memory,
    ):
        memory.put("the first makes keys")
        before = _objects(bucket)
        memory.put("what will be undone")
        _wait_until_all_is_said_done(vault)
        fleet.kill()
    _undo(bucket, before)
    assert Flaw.OBJECT_MISSING in {one.flaw for one in vault.audit.verify().findings}


def _wait_until_all_is_said_done(vault: Vault) -> None:
    """Nobody asks the worker for anything meanwhile. An entry that is not said done is no longer recent after 90 s."""
    deadline = time.monotonic() + _SAID
    while vault.audit.look().recent:
        assert time.monotonic() < deadline, "the worker idles, and its log does not say what it did"
