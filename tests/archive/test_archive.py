"""The portable archive: what it refuses, what it never reveals or revives, and that lines come through unchanged."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, archive
from strongroom.archive import Archive, ArchivedLine, ArchivedProfile, Header, archive_file
from strongroom.archive import archive_format as written
from strongroom.archive.archive_format import pack, unpack
from strongroom.crypto import passphrase_file
from strongroom.errors import StrongroomError
from strongroom.model import K_LIMIT, Hit, Kind, LineId, Millis, Namespace, Provenance, moment
from tests import age
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.store.children import Place, Process, reason_of

PASSPHRASE = "correct horse battery"
SECRET = "the-peanut-secret"


def line(number: int, namespace: str = "travel", text: str = "", **fields: object) -> ArchivedLine:
    made = ArchivedLine(
        id=LineId(f"01JABCDEFGHJKMNPQRSTV{number:05}"),
        time=Millis(1_779_000_000_000 + number),
        kind=Kind.NOTE,
        namespace=Namespace(namespace),
        session="s1",
        author="alice",
        text=text or f"line {number}",
        provenance=Provenance((), "", "test", Millis(5)),
    )
    return msgspec.structs.replace(made, **fields)


def archive_of(*lines: ArchivedLine, profiles: tuple[ArchivedProfile, ...] = ()) -> Archive:
    ordered = sorted(lines, key=lambda one: (one.id, one.namespace))
    return Archive(Header(vault="a" * 16, actor="local/alice", exported=Millis(7)), tuple(ordered), profiles)


def exported(vault: Vault, token: str, **options: object) -> Archive:
    named = {"vault": vault.id, "actor": "local/alice", "now": Millis(7)} | options
    return archive.export_lines(vault.memory(token), **named)  # type: ignore[arg-type]


def imported(vault: Vault, token: str, what: Archive, **options: object) -> archive.ImportResult:
    memory = vault.memory(token, source="import")
    return archive.import_lines(memory, what, **options)  # type: ignore[arg-type]


def held(vault: Vault, token: str) -> dict[str, str]:
    """Every line that a cap reaches: namespace and id to text."""
    return {f"{one.namespace}/{one.id}": one.text for one in exported(vault, token, profiles=False).lines}


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> Iterator[Vault]:
    """Another vault, with other keys."""
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other-keys"), now=clock) as made:
        yield made


@pytest.fixture
def other_cap(other: Vault) -> Token:
    return other.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)


# What a cap does not cover.


@pytest.mark.requirement("archive-gate")
def test_export_under_a_travel_cap_holds_nothing_personal(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put(f"allergic: {SECRET}", namespace="personal", author=SECRET, session=SECRET)
    memory.set_profile(f"profile: {SECRET}", namespace="personal")
    memory.put("a trip", namespace="travel")
    memory.set_profile("likes trains", namespace="travel")
    travel = strongroom.attenuate(cap, namespaces=["travel"], now=vault._clerk.now)
    found = exported(vault, travel)
    assert [one.text for one in found.lines] == ["a trip"]
    assert [one.text for one in found.profiles] == ["likes trains"]
    assert SECRET.encode() not in pack(found)
    assert SECRET.encode() in pack(exported(vault, cap)), "the scan must be able to find it"


@pytest.mark.requirement("archive-gate")
@pytest.mark.parametrize(
    ("ops", "namespaces", "reason"),
    [
        (["get"], None, "cap_op_mismatch"),
        (["list"], None, "cap_op_mismatch"),
        (["list", "get"], ["personal"], "cap_namespace_denied"),
        (["list", "get"], ["travel", "personal"], "cap_namespace_denied"),
    ],
)
def test_export_beyond_the_cap_is_denied_and_on_record(
    vault: Vault, cap: Token, ops: list[str], namespaces: list[str] | None, reason: str
) -> None:
    vault.memory(cap).put("a trip", namespace="travel")
    less = vault.mint(actor="local/alice", ops=ops, namespaces=["travel"])
    assert reason_of(exported, vault, less, namespaces=namespaces, profiles=False) == reason
    (*_, (_, last)) = vault.audit.entries()
    assert last is not None
    assert last.reason == reason


@pytest.mark.requirement("archive-gate")
def test_export_names_every_line_in_the_log(vault: Vault, cap: Token) -> None:
    ids = {vault.memory(cap).put(f"line {number}", namespace="travel").id for number in range(45)}
    before = vault.audit.size()
    exported(vault, cap)
    gets = [entry for _, entry in vault.audit.entries(before) if entry is not None and entry.op == "get"]
    assert {one for entry in gets for one in entry.lines} == ids
    assert max(len(entry.lines) for entry in gets) <= K_LIMIT


@pytest.mark.requirement("archive-gate")
def test_import_into_a_namespace_outside_the_cap_is_denied_before_anything_is_written(vault: Vault, cap: Token) -> None:
    less = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"])
    lines = [line(number) for number in range(600)] + [line(999, "personal")]
    assert reason_of(imported, vault, less, archive_of(*lines)) == "cap_namespace_denied"
    profiles = (ArchivedProfile(namespace=Namespace("work"), text="x"),)
    assert reason_of(imported, vault, less, archive_of(line(1), profiles=profiles)) == "cap_namespace_denied"
    assert held(vault, cap) == {}


@pytest.mark.requirement("archive-gate")
def test_import_under_a_session_cap_refuses_other_sessions_before_anything_is_written(vault: Vault, cap: Token) -> None:
    bound = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], session="s1")
    lines = [line(number) for number in range(600)] + [line(999, session="s2")]
    assert reason_of(imported, vault, bound, archive_of(*lines), profiles=False) == "cap_limit_exceeded"
    assert held(vault, cap) == {}
    assert imported(vault, bound, archive_of(*lines[:-1]), profiles=False).put == 600


@pytest.mark.requirement("archive-gate")
def test_import_without_put_is_denied(vault: Vault) -> None:
    less = vault.mint(actor="local/alice", ops=["list", "get"], namespaces=["travel"])
    assert reason_of(imported, vault, less, archive_of(line(1)), profiles=False) == "cap_op_mismatch"


# Damage.

SMALL = archive_of(
    line(1, text="où va-t-on"),
    line(1, "work"),
    line(2),
    profiles=(ArchivedProfile(namespace=Namespace("travel"), text="likes trains"),),
)


@pytest.mark.requirement("archive-whole")
def test_edited_byte_anywhere_is_refused() -> None:
    data = pack(SMALL)
    assert unpack(data) == SMALL
    for at in range(len(data)):
        for bit in (1, 0x20, 0x80):
            edited = bytearray(data)
            edited[at] ^= bit
            assert reason_of(unpack, bytes(edited)) in ("tampered", "invalid_request"), (at, bit)


@pytest.mark.requirement("archive-whole")
def test_cut_archive_is_refused_wherever_it_is_cut() -> None:
    data = pack(SMALL)
    starts = [0, *(hit.end() for hit in re.finditer(b"\n", data))]
    for stop in range(len(data)):
        assert reason_of(unpack, data[:stop]) in ("tampered", "invalid_request"), stop
    for stop in starts[1:-1]:  # whole lines: only the end can tell
        assert reason_of(unpack, data[:stop]) == "tampered"
    assert reason_of(unpack, data + b"\n") == "tampered"
    assert reason_of(unpack, data + data) == "tampered"


@pytest.mark.requirement("archive-whole")
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_age_file_edited_or_cut_anywhere_is_refused(data: st.DataObject) -> None:
    sealed = age.encrypt(pack(SMALL), PASSPHRASE)
    assert unpack(passphrase_file.unlock(sealed, PASSPHRASE)) == SMALL
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(sealed) - 1))
        edited = bytearray(sealed)
        edited[at] ^= 1 << data.draw(st.integers(0, 7))
        damaged = bytes(edited)
    else:
        damaged = sealed[: data.draw(st.integers(0, len(sealed) - 1))]
    reasons = {"tampered", "invalid_request", "key_unavailable"}
    assert reason_of(lambda: unpack(passphrase_file.unlock(damaged, PASSPHRASE))) in reasons


@pytest.mark.requirement("archive-whole")
def test_wrong_passphrase_is_named() -> None:
    sealed = age.encrypt(pack(SMALL), PASSPHRASE)
    assert reason_of(passphrase_file.unlock, sealed, PASSPHRASE + "x") == "key_unavailable"
    assert reason_of(passphrase_file.unlock, sealed, "") == "key_unavailable"


@pytest.mark.requirement("archive-whole")
def test_payload_that_was_cut_is_damage_and_no_wrong_passphrase() -> None:
    sealed = age.encrypt(pack(SMALL) * 2000, PASSPHRASE)
    assert len(sealed) > 2 * 65536
    for cut in (1, 17, 65_000, 66_000, 130_000):
        assert reason_of(passphrase_file.unlock, sealed[:-cut], PASSPHRASE) == "tampered"


@pytest.mark.requirement("archive-whole")
def test_file_that_asks_for_years_of_work_is_refused_at_once() -> None:
    sealed = age.encrypt(b"x", PASSPHRASE)
    assert b" 4\n" in sealed
    assert reason_of(passphrase_file.unlock, sealed.replace(b" 4\n", b" 40\n"), PASSPHRASE) == "invalid_request"


def raw(*records: object, lines: int = 0, profiles: int = 0) -> bytes:
    """An archive with any records in it, and an end that is right about their bytes."""
    body = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    sha = hashlib.sha256(body).hexdigest()
    return body + msgspec.json.encode({"record": "end", "lines": lines, "profiles": profiles, "sha256": sha}) + b"\n"


HEADER = {
    "record": "header",
    "format": "strongroom-archive",
    "v": 1,
    "vault": "0" * 16,
    "actor": "local/alice",
    "exported": 1,
}
LINE = msgspec.to_builtins(line(1))
PROFILE = {"record": "profile", "namespace": "work", "text": "p"}


@pytest.mark.requirement("archive-whole")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (raw(HEADER, LINE), "tampered"),
        (raw(HEADER, LINE, lines=2), "tampered"),
        (raw(HEADER, LINE, LINE, lines=2), "tampered"),
        (raw(HEADER, LINE, {**LINE, "text": "another"}, lines=2), "tampered"),
        (raw(HEADER, msgspec.to_builtins(line(2)), LINE, lines=2), "tampered"),
        (raw(HEADER, PROFILE, LINE, lines=1, profiles=1), "tampered"),
        (raw(HEADER, PROFILE, PROFILE, profiles=2), "tampered"),
        (raw(HEADER, HEADER), "tampered"),
        (raw(HEADER, {**LINE, "extra": 1}, lines=1), "tampered"),
        (raw(HEADER, {**LINE, "kind": "spell"}, lines=1), "tampered"),
        (raw(HEADER, {**LINE, "record": "program"}, lines=1), "tampered"),
        (raw({**HEADER, "v": 4}), "invalid_request"),
        (raw({**HEADER, "actor": "\x1b[2Jlocal/alice"}), "invalid_request"),
        (raw({**HEADER, "vault": "../../keys"}), "invalid_request"),
        (raw({**HEADER, "exported": 10**17}), "invalid_request"),
        (raw({**HEADER, "format": "other-archive"}), "invalid_request"),
        (raw(HEADER, {**LINE, "id": "../../etc/passwd"}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "namespace": "No Such"}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "text": "x" * 32769}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "text": "bell \x07"}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "text": "  "}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "author": "a\nb"}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "session": "s" * 257}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "time": -1}, lines=1), "invalid_request"),
        (raw(HEADER, {**LINE, "time": 10**17}, lines=1), "invalid_request"),
        (raw(HEADER, {**PROFILE, "text": "x" * 8193}, profiles=1), "invalid_request"),
        (b"", "invalid_request"),
        (b"PK\x03\x04 a zip", "invalid_request"),
        (b"[" * 100_000, "invalid_request"),
        (b'{"record":"header","format":"strongroom-archive","v":' + b"[" * 100_000, "tampered"),
    ],
)
def test_archive_that_is_not_right_in_itself_is_refused_as_a_whole(data: bytes, reason: str) -> None:
    assert unpack(raw(HEADER, LINE, PROFILE, lines=1, profiles=1)).lines[0].text == "line 1"
    assert reason_of(unpack, data) == reason


@pytest.mark.requirement("archive-whole")
def test_huge_file_is_refused_without_being_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(archive_file._AGE_LIMIT + 1)
    monkeypatch.setattr(archive_file, "_AGE_LIMIT", 1000)
    assert reason_of(archive.read_archive, huge, lambda: "") == "body_too_large"
    monkeypatch.setattr(written, "ARCHIVE_LIMIT", 1000)
    assert reason_of(unpack, b"x" * 1001) == "body_too_large"
    assert reason_of(pack, archive_of(*map(line, range(20)))) == "body_too_large"


# Forgotten, there already, in conflict.


@pytest.mark.requirement("archive-forgotten", "forget-stays")
def test_import_does_not_revive_what_was_forgotten(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    kept, gone = (memory.put(text, namespace="travel").id for text in ("kept", SECRET))
    saved = exported(vault, cap)
    memory.forget(ids=[gone])
    outcome = imported(vault, cap, saved)
    assert (outcome.put, outcome.there, outcome.forgotten) == (0, 1, 1)
    assert held(vault, cap) == {f"travel/{kept}": "kept"}
    assert reason_of(memory.get, ids=[gone]) == "not_found"


@pytest.mark.requirement("archive-idempotent")
def test_import_run_again_changes_nothing(other: Vault, other_cap: Token) -> None:
    profiles = (ArchivedProfile(namespace=Namespace("work"), text="likes tea"),)
    what = archive_of(*(line(number, NAMESPACES[number % 4]) for number in range(300)), profiles=profiles)
    first = imported(other, other_cap, what)
    assert (first.put, first.there, first.profiles_put, first.whole) == (300, 0, 1, True)
    before = held(other, other_cap)
    again = imported(other, other_cap, what)
    assert (again.put, again.there, again.profiles_put, again.profiles_there) == (0, 300, 0, 1)
    assert held(other, other_cap) == before
    assert other.audit.verify().ok


@pytest.mark.requirement("archive-conflict")
def test_line_whose_id_another_line_has_is_reported_and_the_others_go_on(other: Vault, other_cap: Token) -> None:
    imported(other, other_cap, archive_of(line(7, text="the vault's own"), line(250, text="mine too")))
    outcome = imported(other, other_cap, archive_of(*map(line, range(300))))
    assert outcome.conflicts == [("travel", line(7).id), ("travel", line(250).id)]
    assert (outcome.put, outcome.there, outcome.whole) == (298, 0, False)
    found = held(other, other_cap)
    assert found[f"travel/{line(7).id}"] == "the vault's own"
    assert len(found) == 300


@pytest.mark.requirement("archive-conflict")
def test_another_profile_of_the_vault_stays(other: Vault, other_cap: Token) -> None:
    other.memory(other_cap).set_profile("mine", namespace="work")
    profiles = tuple(ArchivedProfile(namespace=Namespace(name), text="theirs") for name in ("travel", "work"))
    outcome = imported(other, other_cap, archive_of(profiles=profiles))
    assert (outcome.profiles_put, outcome.profile_conflicts, outcome.whole) == (1, ["work"], False)
    assert other.memory(other_cap).profile("work").text == "mine"
    assert other.memory(other_cap).profile("travel").text == "theirs"


@pytest.mark.requirement("archive-conflict")
def test_cap_without_profile_leaves_the_profiles_and_says_so(other: Vault) -> None:
    less = other.mint(actor="local/alice", ops=["put"], namespaces=["work"])
    profiles = (ArchivedProfile(namespace=Namespace("work"), text="likes tea"),)
    outcome = imported(other, less, archive_of(line(1, "work"), profiles=profiles), profiles=False)
    assert (outcome.put, outcome.profiles_put, outcome.profiles_left) == (1, 0, 1)


@pytest.mark.requirement("archive-idempotent")
def test_namespaces_can_be_renamed_on_the_way_in(other: Vault, other_cap: Token) -> None:
    what = archive_of(line(1, "journeys"), line(2, "work"))
    assert reason_of(imported, other, other_cap, what, renamed={"trips": "travel"}) == "invalid_request"
    assert reason_of(imported, other, other_cap, what, renamed={"journeys": "No Such"}) == "invalid_request"
    assert held(other, other_cap) == {}
    assert imported(other, other_cap, what, renamed={"journeys": "travel"}).put == 2
    assert set(held(other, other_cap)) == {f"travel/{line(1).id}", f"work/{line(2).id}"}


@pytest.mark.requirement("archive-conflict")
def test_two_namespaces_renamed_into_one_meet_as_a_conflict_or_a_duplicate(other: Vault, other_cap: Token) -> None:
    what = archive_of(line(1, "a"), line(1, "b"), line(2, "a", "one"), line(2, "b", "two"))
    outcome = imported(other, other_cap, what, renamed={"a": "travel", "b": "travel"})
    assert (outcome.put, outcome.there, outcome.conflicts) == (2, 1, [("travel", line(2).id)])


# Round trips.


@pytest.mark.requirement("archive-portable")
def test_every_field_of_a_line_comes_through(vault: Vault, cap: Token, other: Vault, other_cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put(
        "à Chengdu\n\t, 成都", namespace="travel", session="s 1", author="Zoë", kind="fact", time=moment(Millis(9))
    )
    memory.put("x" * 32_768, namespace="work")
    memory.set_profile("likes trains", namespace="travel")
    saved = unpack(pack(exported(vault, cap)))
    imported(other, other_cap, saved)
    back = exported(other, other_cap)
    without = [msgspec.structs.replace(one, provenance=saved.lines[0].provenance) for one in back.lines]
    assert without == [msgspec.structs.replace(one, provenance=saved.lines[0].provenance) for one in saved.lines]
    assert back.profiles == saved.profiles
    assert (saved.header.vault, saved.header.actor) == (vault.id, "local/alice")
    assert saved.lines[0].provenance.source == "python"
    assert {one.provenance.source for one in back.lines} == {"import"}


@pytest.mark.requirement("archive-portable")
def test_lines_too_large_for_one_answer_are_all_exported(vault: Vault, cap: Token) -> None:
    big = [NewLine(text=f"{number}" * 30_000, namespace="work") for number in range(7)]
    vault.memory(cap).put_many(big)
    vault.memory(cap).put_many([NewLine(text=f"small {number}", namespace="work") for number in range(50)])
    assert len(exported(vault, cap).lines) == 57


@pytest.mark.requirement("archive-portable")
def test_cap_with_a_small_max_k_exports_in_smaller_pages(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put_many([NewLine(text=f"line {number}", namespace="work") for number in range(9)])
    less = strongroom.attenuate(cap, max_k=2, now=vault._clerk.now)
    assert reason_of(exported, vault, less) == "cap_limit_exceeded"
    assert len(exported(vault, less, page=2).lines) == 9


@pytest.mark.requirement("archive-portable")
def test_one_id_in_two_namespaces_is_two_lines(vault: Vault, cap: Token) -> None:
    for name in NAMESPACES:
        vault.memory(cap).put_many(
            [NewLine(text=f"{name} {number}", namespace=name, id=line(number).id) for number in range(30)]
        )
    found = exported(vault, cap)
    assert len(found.lines) == 120
    assert unpack(pack(found)) == found


@pytest.mark.requirement("archive-portable")
def test_line_forgotten_while_the_export_runs_is_left_out(
    vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [vault.memory(cap).put(f"line {number}", namespace="travel").id for number in range(25)]
    get = Memory.get

    def forgetting(self: Memory, *args: object, **named: object) -> list[Hit]:
        monkeypatch.setattr(Memory, "get", get)
        vault.memory(cap).forget(ids=[ids[3], ids[24]])
        return get(self, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Memory, "get", forgetting)
    found = {one.id for one in exported(vault, cap).lines}
    assert found == set(ids) - {ids[3], ids[24]}


@pytest.mark.requirement("archive-portable")
def test_profiles_that_do_not_fit_one_snapshot_are_exported_all_the_same(vault: Vault, cap: Token) -> None:
    for name in ("travel", "work"):
        single = vault.mint(actor="local/alice", ops=["profile"], namespaces=[name])
        vault.memory(single).set_profile("x" * 8000, namespace=name)
    assert vault.memory(cap).snapshot().left_out
    assert [one.namespace for one in exported(vault, cap).profiles] == ["travel", "work"]


SPEC = Path(__file__).parents[2] / "docs" / "spec" / "archive.md"


@pytest.mark.requirement("archive-portable", "project-docs")
def test_example_of_the_specification_is_an_archive() -> None:
    example = SPEC.read_text().split("```text\n")[1].split("```")[0].encode()
    found = unpack(example)
    assert [one.text for one in found.lines] == ["Trip to Chengdu, May 25-29"]
    assert pack(found) == example


@pytest.mark.requirement("archive-portable", "project-docs")
def test_specification_names_every_member_and_the_limits() -> None:
    text = SPEC.read_text()
    for record in (Header, ArchivedLine, ArchivedProfile, written._End, Provenance):
        assert [name for name in record.__struct_fields__ if f"`{name}`" not in text] == []
    assert f"{written.ARCHIVE_LIMIT:,}" in text
    assert f"at least {passphrase_file.PASSPHRASE_LEAST} characters" in text


@pytest.mark.requirement("archive-forgotten")
def test_erased_namespace_has_no_tombstones_so_an_import_brings_its_lines_back(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("a trip", namespace="travel")
    saved = exported(vault, cap)
    vault.memory(cap).erase(["travel"])
    assert imported(vault, cap, saved).put == 1


# The file.


@pytest.mark.requirement("archive-sealed")
def test_encrypted_file_shows_no_text_and_another_age_reader_opens_it(vault: Vault, cap: Token, tmp_path: Path) -> None:
    vault.memory(cap).put(f"allergic: {SECRET}", namespace="personal", author="someone", session="monday")
    saved = exported(vault, cap)
    path = tmp_path / "lines.age"
    archive.write_archive(path, saved, PASSPHRASE)
    data = path.read_bytes()
    for word in (SECRET, "someone", "monday", "personal", "local/alice", vault.id, saved.lines[0].id):
        assert word.encode() not in data
        assert word.encode() in pack(saved)
    assert age.decrypt(data, PASSPHRASE) == pack(saved)
    assert archive.read_archive(path, lambda: PASSPHRASE) == saved
    assert path.stat().st_mode & 0o777 == 0o600
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")], "no draft is left"


@pytest.mark.requirement("archive-sealed")
@pytest.mark.parametrize("passphrase", ["", "short", "seven77"])
def test_empty_or_short_passphrase_is_refused(tmp_path: Path, passphrase: str) -> None:
    assert reason_of(archive.write_archive, tmp_path / "x", SMALL, passphrase) == "invalid_request"
    assert os.listdir(tmp_path) == []


@pytest.mark.requirement("archive-sealed")
def test_file_that_is_there_is_not_overwritten_by_default(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"mine")
    assert reason_of(archive.write_archive, path, SMALL, None) == "invalid_request"
    assert path.read_bytes() == b"mine"
    archive.write_archive(path, SMALL, None, force=True)
    assert archive.read_archive(path, lambda: "") == SMALL
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("archive-sealed")
def test_file_that_appears_while_the_archive_is_made_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"

    def slow(what: Archive) -> bytes:
        path.write_bytes(b"mine")
        return pack(what)

    monkeypatch.setattr(archive_file, "pack", slow)
    assert reason_of(archive.write_archive, path, SMALL, None) == "invalid_request"
    assert path.read_bytes() == b"mine"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.requirement("archive-sealed")
def test_disk_without_hard_links_gets_the_whole_file_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "no links here")

    monkeypatch.setattr(os, "link", refused)
    archive.write_archive(tmp_path / "x", SMALL, None)
    assert archive.read_archive(tmp_path / "x", lambda: "") == SMALL
    assert reason_of(archive.write_archive, tmp_path / "x", SMALL, None) == "invalid_request"


@pytest.mark.requirement("archive-sealed")
def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    assert reason_of(archive.read_archive, tmp_path / "none", lambda: "") == "not_found"
    assert reason_of(archive.read_archive, tmp_path, lambda: "") == "store_unavailable"
    assert reason_of(archive.write_archive, tmp_path / "no" / "dir", SMALL, None) == "store_unavailable"


# Several processes.


def _import(pipe: Connection, place: Place, token: str, path: Path, wait_at: int) -> None:
    """Import in a process of its own, saying after each batch how far it is; stop and wait at one of them."""
    with place.open() as vault:
        pipe.send("open")
        pipe.recv()

        def told(done: int, _: int) -> None:
            pipe.send(done)
            if done == wait_at:
                pipe.recv()

        what = archive.read_archive(path, lambda: PASSPHRASE)
        try:
            outcome = archive.import_lines(vault.memory(token, source="import"), what, progress=told)
            pipe.send(outcome)
        except StrongroomError as error:
            pipe.send(error.reason)


def _until(process: Process, wanted: Callable[[object], bool]) -> object:
    while True:
        said = process.pipe.recv()
        if wanted(said):
            return said


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """An archive of ten batches."""
    path = tmp_path / "large.age"
    path.write_bytes(age.encrypt(pack(archive_of(*map(line, range(2560)))), PASSPHRASE))
    return path


@pytest.mark.requirement("archive-idempotent", "store-crash")
def test_import_killed_halfway_goes_on_when_it_is_run_again(
    tmp_path: Path, vault: Vault, cap: Token, clock: Clock, large: Path
) -> None:
    place = Place(tmp_path / "vault", tmp_path / "keys", clock.millis)
    process = Process(_import, place, cap, large, 2048)
    assert process.pipe.recv() == "open"
    process.pipe.send("go")
    _until(process, lambda said: said == 512)
    process.kill()
    there = len(held(vault, cap))
    assert 512 <= there <= 2048
    assert there % 256 == 0, "a batch is whole or absent"
    outcome = imported(vault, cap, archive.read_archive(large, lambda: PASSPHRASE))
    assert (outcome.put, outcome.there, outcome.whole) == (2560 - there, there, True)
    assert len(held(vault, cap)) == 2560
    assert vault.audit.verify().ok


@pytest.mark.requirement("archive-idempotent", "bad-race")
def test_each_line_is_written_once_by_two_imports_at_once(
    tmp_path: Path, vault: Vault, cap: Token, clock: Clock, large: Path
) -> None:
    place = Place(tmp_path / "vault", tmp_path / "keys", clock.millis)
    two = [Process(_import, place, cap, large, -1) for _ in range(2)]
    try:
        for process in two:
            assert process.pipe.recv() == "open"
        for process in two:
            process.pipe.send("go")
        outcomes = [_until(process, lambda said: not isinstance(said, int)) for process in two]
    finally:
        for process in two:
            process.kill()
    assert all(isinstance(outcome, archive.ImportResult) for outcome in outcomes), outcomes
    assert sum(outcome.put for outcome in outcomes if isinstance(outcome, archive.ImportResult)) == 2560
    assert sum(outcome.there for outcome in outcomes if isinstance(outcome, archive.ImportResult)) == 2560
    assert len(held(vault, cap)) == 2560
    assert vault.audit.verify().ok
