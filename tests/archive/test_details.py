"""Archives of lines with tags, meta, expiry and turn: what is refused, and that they come through unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault
from strongroom.archive import archive_format
from strongroom.archive.archive_format import DETAILED, VERSION, ArchivedLine, pack, unpack
from strongroom.model import Millis, millis
from tests.archive.test_archive import HEADER, archive_of, exported, imported, line, raw
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.memory.test_details import DEEP, LATER, set_format
from tests.store.children import reason_of

META = {"city": "成都", "legs": [1, 2.5, True, None], "deep": {"n": {}}}
DETAILS: dict[str, Any] = {"tags": ("paid", "trip"), "meta": META, "expires": millis(LATER), "turn": "t7"}


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> Iterator[tuple[Vault, Token]]:
    """Another vault, with other keys, and a cap for it."""
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other-keys"), now=clock) as made:
        yield made, made.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)


def record(version: int, **members: Any) -> bytes:
    """An archive with one line that has any members."""
    plain = msgspec.to_builtins(line(1))
    return raw({**HEADER, "v": version}, {**plain, **members}, lines=1)


# Refusals.


@pytest.mark.requirement("details-bad", "archive-whole")
@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"tags": [""]}, "invalid_request"),
        ({"tags": ["x" * 65]}, "invalid_request"),
        ({"tags": [f"t{n}" for n in range(17)]}, "invalid_request"),
        ({"tags": "trip"}, "tampered"),
        ({"meta": {"a": "x" * 2048}}, "invalid_request"),
        ({"meta": DEEP}, "invalid_request"),
        ({"meta": {"a": 2**63}}, "invalid_request"),
        ({"meta": [1]}, "tampered"),
        ({"turn": "x" * 257}, "invalid_request"),
        ({"expires": -1}, "invalid_request"),
        ({"expires": 10**18}, "invalid_request"),
        ({"expires": "2999-01-01T00:00:00Z"}, "tampered"),
        ({"replaces": "01JABCDEFGHJKMNPQRSTVWXYZ0"}, "tampered"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_line_with_bad_details_is_refused_with_the_whole_archive(members: dict[str, Any], reason: str) -> None:
    assert reason_of(unpack, record(2, **members)) == reason


@pytest.mark.requirement("details-bad", "archive-whole")
def test_key_that_comes_twice_inside_meta_is_refused() -> None:
    data = record(2, meta={"a": 1, "b": 2}).replace(b'"b":2', b'"a":2')
    body, _, end = data.removesuffix(b"\n").rpartition(b"\n")
    found = msgspec.json.decode(end)
    found["sha256"] = hashlib.sha256(body + b"\n").hexdigest()
    assert reason_of(unpack, body + b"\n" + msgspec.json.encode(found) + b"\n") == "invalid_request"


@pytest.mark.requirement("details-format", "archive-whole")
def test_archive_of_version_1_with_details_and_one_of_a_later_version_are_refused_by_name() -> None:
    assert reason_of(unpack, record(1, tags=["trip"])) == "invalid_request"
    assert reason_of(unpack, record(4)) == "invalid_request"


@pytest.mark.requirement("details-format", "archive-whole")
def test_reader_that_knows_only_version_1_refuses_version_2_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack(archive_of(line(1, tags=("trip",))))
    monkeypatch.setattr(archive_format, "DETAILED", VERSION)
    assert reason_of(unpack, data) == "invalid_request"


@pytest.mark.requirement("details-format", "archive-gate")
def test_import_of_details_into_a_vault_of_format_1_is_refused_before_anything_is_written(
    other: tuple[Vault, Token],
) -> None:
    vault, token = other
    set_format(vault, 1)
    vault._state.records._format = 1  # as in a process that began before it was raised
    plain = [line(number) for number in range(600)] + [line(900, "work", session="s2")]
    what = archive_of(*plain, line(999, tags=("trip",)))
    assert reason_of(imported, vault, token, what) == "format_too_old"
    assert vault.memory(token).list().lines == ()
    assert imported(vault, token, archive_of(*plain)).put == 601


# What comes through.


@pytest.mark.requirement("details-carried", "archive-whole")
def test_details_go_from_one_vault_to_another(vault: Vault, cap: Token, other: tuple[Vault, Token]) -> None:
    memory = vault.memory(cap)
    memory.put("Hotel", namespace="travel", tags=["trip", "paid"], meta=META, expires=LATER, turn="t7")
    memory.put("plain", namespace="work")
    found = unpack(pack(exported(vault, cap)))
    assert found.header.v == DETAILED
    there, token = other
    outcome = imported(there, token, found)
    assert (outcome.put, outcome.expired) == (2, 0)
    (hit,) = there.memory(token).get("hotel", tags=["trip"])
    assert (hit.tags, hit.meta, hit.expires, hit.turn) == (("paid", "trip"), META, LATER, "t7")
    again = imported(there, token, found)
    assert (again.put, again.there) == (0, 2)


@pytest.mark.requirement("details-carried", "archive-whole")
def test_archive_without_details_is_of_version_1_byte_for_byte() -> None:
    data = pack(archive_of(line(1), line(2, "work")))
    header, first, *_ = data.split(b"\n")
    assert msgspec.json.decode(header)["v"] == VERSION
    assert set(msgspec.json.decode(first)) == {"record", *ArchivedLine.__struct_fields__} - set(DETAILS)
    assert hashlib.sha256(data).hexdigest() == "0bcc50d7b6116392e971d0cd43f37ad3fa5dfce5501c9032daa1903e078578fd"
    assert pack(unpack(data)) == data


@pytest.mark.requirement("details-carried", "archive-whole")
def test_archive_with_details_has_them_only_on_the_lines_that_have_them() -> None:
    what = archive_of(line(1), line(2, **DETAILS), line(3, tags=("x",)))
    data = pack(what)
    found = unpack(data)
    assert found.lines == what.lines
    assert pack(found) == data
    _, plain, detailed, tagged, _ = [msgspec.json.decode(one) for one in data.splitlines()]
    assert not set(DETAILS) & set(plain)
    assert set(DETAILS) <= set(detailed)
    assert set(DETAILS) & set(tagged) == {"tags"}


@pytest.mark.requirement("details-carried", "archive-idempotent")
@pytest.mark.parametrize("is_known", [True, False])
def test_expired_line_is_skipped_and_counted_and_the_others_come(
    vault: Vault, cap: Token, clock: Clock, is_known: bool
) -> None:
    gone = [line(number, expires=Millis(clock() - number)) for number in (0, 3, 7)]
    stays = [line(number, expires=Millis(clock() + 1000)) for number in (1, 4)]
    plain = [line(number) for number in (2, 5, 6, 8)]
    now = Millis(clock()) if is_known else None  # else the vault alone says so
    outcome = imported(vault, cap, archive_of(*gone, *stays, *plain), now=now)
    assert (outcome.expired, outcome.put, outcome.whole) == (3, 6, True)
    kept = {one.id for one in vault.memory(cap).list().lines}
    assert kept == {one.id for one in (*stays, *plain)}


@pytest.mark.requirement("details-carried")
def test_tags_are_put_as_new_lines_are(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put_many(
        [
            NewLine(
                text="x", namespace="travel", tags=("b", "a"), expires=datetime.max.replace(tzinfo=UTC, microsecond=0)
            )
        ]
    )
    (one,) = exported(vault, cap).lines
    assert one.tags == ("a", "b")
    assert reason_of(unpack, pack(archive_of(one))) == ""
