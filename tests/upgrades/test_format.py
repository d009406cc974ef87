"""A vault of format 1 that an earlier version wrote: it goes on as it is, and takes details once it is raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Vault, errors
from strongroom.crypto.line_encryption import DETAILED, VERSION
from strongroom.vault.create_open import read_format
from strongroom.vault.vault_format import raise_format
from tests.conftest import Clock
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.memory.test_details import LATER
from tests.upgrades.frozen import Frozen, as_said, lines

pytestmark = pytest.mark.requirement("details-upgrade")

PLACE = "s3://bucket/room"
DETAILS: list[dict[str, Any]] = [{"tags": ["a"]}, {"meta": {"a": 1}}, {"turn": "t1"}, {"expires": LATER}]


@pytest.fixture
def clock(frozen: Frozen) -> Clock:
    return frozen.clock()


@pytest.fixture
def in_file(left: Path, clock: Clock) -> Iterator[Callable[[], Vault]]:
    """Opens the frozen vault in a file."""
    opened: list[Vault] = []

    def reopen() -> Vault:
        opened.append(strongroom.open(left / "vault", keys=FileKeys(left / "keys"), now=clock))
        return opened[-1]

    yield reopen
    for vault in opened:
        vault.close()


@pytest.fixture
def in_bucket(
    frozen: Frozen, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Vault]]:
    """Opens the frozen vault of a fleet, in a bucket in RAM, each time as another worker."""
    bucket = used_by_vaults(MemoryBucket(), monkeypatch)
    keys = tmp_path / "fleet-keys"
    keys.mkdir(mode=0o700)
    for path, body in frozen.files("buckets").items():
        top, _, rest = path.partition("/")
        if top == "bucket":
            bucket.create(rest, body)
        elif top == "bucket-keys":
            (keys / rest).write_bytes(body)
            (keys / rest).chmod(0o600)
    opened: list[Vault] = []

    def reopen() -> Vault:
        opened.append(strongroom.open(PLACE, keys=FileKeys(keys), now=clock))
        opened[-1].accept_clock()  # the bucket's own times are later
        return opened[-1]

    yield reopen
    for vault in opened:
        vault.close()


def check(reopen: Callable[[], Vault], token: str, said: list[dict[str, Any]], archive: Path | None) -> None:
    """The whole way of a vault of format 1, with two processes that have it open."""
    one, other = reopen(), reopen()
    mine, theirs = one.memory(token), other.memory(token)
    before = len(theirs.list(limit=1000).lines)
    namespace = said[0]["namespace"]
    for details in DETAILS:
        with pytest.raises(errors.FormatTooOld):
            mine.put("The lapwing nests", namespace=namespace, **details)
    assert len(theirs.list(limit=1000).lines) == before
    plain = mine.put("The lapwing nests in the meadow", namespace=namespace).id
    assert versions(one, plain) == {VERSION}
    assert (raise_format(one), raise_format(one)) == (1, 2)
    raise_format(other)
    assert len([entry for _, entry in one.audit.entries() if entry and entry.op == "upgrade"]) == 1
    for number, details in enumerate(DETAILS):
        put = theirs.put(f"The lapwing nests {number}", namespace=namespace, **details).id
        assert versions(other, put) == {DETAILED}
        (hit,) = mine.get(ids=[put])
        for name, value in details.items():
            assert getattr(hit, name) == (tuple(value) if name == "tags" else value)
    third = reopen().memory(token)
    assert len(third.list(limit=1000).lines) == before + 1 + len(DETAILS)
    found = {hit.id: hit for hit in lines(third)}
    assert [as_said(found[each["id"]], each) for each in said] == said, "the old lines are as they were"
    assert third.get("lapwing", tags=["a"])[0].tags == ("a",)
    assert one.audit.verify(archive=archive).ok


def versions(vault: Vault, line: str) -> set[int]:
    """The version byte of a line as it is stored."""
    return {one.body[0] for one in vault.store.list("actors/") if one.name.endswith(f"/lines/{line}") and one.body}


def test_vault_of_format_1_in_a_file_takes_plain_lines_and_details_once_raised(
    frozen: Frozen, left: Path, in_file: Callable[[], Vault]
) -> None:
    assert read_format(left / "vault").v == 1
    said = frozen.manifest["vault"]
    check(in_file, said["caps"]["alice"], said["lines"]["alice"], left / "log-archive")
    assert read_format(left / "vault").v == 2


def test_vault_of_format_1_in_a_bucket_takes_plain_lines_and_details_once_raised(
    frozen: Frozen, in_bucket: Callable[[], Vault]
) -> None:
    assert read_format(PLACE).v == 1
    said = frozen.manifest["bucket"]
    check(in_bucket, said["caps"]["alice"], said["lines"]["alice"], None)
    assert read_format(PLACE).v == 2
