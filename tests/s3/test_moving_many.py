"""Moving a vault of 50,000 lines into a real bucket and back, killed twice each way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import pytest

import strongroom
from strongroom import NewLine, Vault
from strongroom.model import K_LIMIT
from strongroom.store.s3.bucket import S3Bucket
from tests.s3.shell import Shell

LINES = 50_000
_BATCH = 256
_PATIENCE = 900
_SAMPLE = 100
T = TypeVar("T")


def _batches(things: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(things)
    while batch := list(islice(left, size)):
        yield batch


def _texts(vault: Vault) -> dict[str, str]:
    """The ids of all lines, with the texts of some."""
    names = [thing.name for thing in vault._state.records.names("actors/") if "/lines/" in thing.name]
    found = {name.rpartition("/")[2]: "" for name in names}
    memory = vault.memory(vault.mint(actor="local/owner", ops=["get"], namespaces=["travel"], ttl=900))
    for ids in _batches(list(found)[:: LINES // _SAMPLE], K_LIMIT):
        found |= {hit.id: hit.text for hit in memory.get(ids=ids)}
    return found


def _fill(place: Path) -> dict[str, str]:
    with strongroom.create(place, namespaces=["travel"]) as vault:
        memory = vault.memory(vault.mint(actor="local/owner", ops=["put"], namespaces=["travel"], ttl=900))
        for numbers in _batches(range(LINES), _BATCH):
            memory.put_many([NewLine(text=f"trip {number} leaves from pier {number % 97}") for number in numbers])
        return _texts(vault)


def _has_come(bucket: S3Bucket, least: int) -> bool:
    return len(bucket.list("actors/")) >= least


def _has_grown(file: Path, least: int) -> bool:
    return file.exists() and file.stat().st_size > least


def _moved(shell: Shell, source: str, target: str) -> None:
    with shell.start("migrate", source, target, "--json") as child:
        out, err = child.communicate(timeout=_PATIENCE)
        assert child.returncode == 0, err + out


@pytest.mark.long
@pytest.mark.requirement("fleet-migrate-resumes")
def test_fifty_thousand_lines_moved_both_ways_and_killed_twice_each_way_are_the_same(
    shell: Shell, place: str, bucket: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.env["STRONGROOM_KEYS"] = str(shell.home / "keys")
    for name, value in (shell.server.environment() | {"STRONGROOM_KEYS": shell.env["STRONGROOM_KEYS"]}).items():
        monkeypatch.setenv(name, value)
    before = _fill(shell.home / "vault")
    assert len(before) == LINES
    for least in (1_000, 20_000):
        shell.killed(["migrate", "./vault", place], partial(_has_come, bucket, least), _PATIENCE)
        assert bucket.get("vault/format") is None
    _moved(shell, "./vault", place)
    with strongroom.open(place) as vault:
        assert vault.audit.verify().ok
        assert _texts(vault) == before
    draft = shell.home / ".back.migrating" / "vault.db"
    for least in (1 << 20, 1 << 22):
        shell.killed(["migrate", place, "./back"], partial(_has_grown, draft, least), _PATIENCE)
        assert not (shell.home / "back").exists()
    _moved(shell, place, "./back")
    with strongroom.open(shell.home / "back") as vault:
        assert vault.audit.verify().ok
        assert _texts(vault) == before
