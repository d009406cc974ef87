"""Retention: old entries leave the vault, the tree stays, and everything stays verifiable and provable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.audit import Flaw
from strongroom.audit.entry import decode_entry
from strongroom.crypto import merkle_log
from strongroom.errors import StoreUnavailable, StrongroomError
from tests.audit import rfc
from tests.audit.tools import edit, fill, flaws, named, query, reason, stored_entries, stored_objects
from tests.conftest import Clock
from tests.crypto.test_chunked_aead import flips

Reopen = Callable[[], Vault]
MARKER = "to be found in no file of the vault"


@pytest.fixture
def grown(vault: Vault, cap: Token) -> Vault:
    """A vault whose first bundles tell of lines put, forgotten and erased, with 700 entries in all."""
    memory = vault.memory(cap)
    memory.put("Trip to Chengdu", namespace="travel")
    memory.forget(ids=[memory.put("to be forgotten", namespace="work").id])
    memory.set_profile("likes tea", namespace="work")
    memory.put("to be erased", namespace="family")
    memory.erase(["family"])
    fill(vault, 700 - vault.audit.size(), MARKER)
    return vault


def _archived(vault: Vault) -> int:
    """How many entries have left. They leave from the front."""
    gone = [entry is None for _, entry in vault.audit.entries()]
    assert gone == sorted(gone, reverse=True)
    return sum(gone)


@pytest.mark.requirement("audit-archive")
def test_archived_entries_leave_and_verification_stays(grown: Vault, tmp_path: Path, reopen: Reopen) -> None:
    before = stored_entries(tmp_path / "vault")
    note = rfc.open_note(grown.audit.checkpoint(), grown.audit.verifier_key)
    assert grown.audit.archive(tmp_path / "old") == 512
    assert _archived(grown) == 512
    for opened in (grown, reopen()):
        assert opened.audit.verify().findings == ()
        assert opened.audit.verify(archive=tmp_path / "old").findings == ()
        assert opened.audit.size() == 701
    assert merkle_log.tree_hash(map(merkle_log.leaf_hash, before)) == note.root
    for number in (0, 1):
        bundle = (tmp_path / "old" / "tile" / "entries" / f"00{number}").read_bytes()
        assert bundle == rfc.bundles(before)[f"entries/00{number}"]


@pytest.mark.requirement("audit-archive")
def test_archived_entries_are_in_no_file_of_the_vault(grown: Vault, cap: Token, tmp_path: Path) -> None:
    grown.audit.archive(tmp_path / "old")
    # The youngest, which stay, hold the marker too: make room between them and the archived ones.
    fill(grown, 300, "something else")
    assert grown.audit.archive(tmp_path / "old") == 256
    assert _archived(grown) == 768
    for path in (tmp_path / "vault").iterdir():
        assert MARKER.encode() not in path.read_bytes(), path
    assert any(MARKER.encode() in path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file())


@pytest.mark.requirement("audit-archive")
@pytest.mark.parametrize(
    ("keep", "moved"), [(0, 512), (188, 512), (189, 256), (444, 256), (445, 0), (700, 0), (10**6, 0)]
)
def test_whole_bundles_leave_and_at_least_the_newest_entries_stay(
    grown: Vault, tmp_path: Path, keep: int, moved: int
) -> None:
    assert grown.audit.archive(tmp_path / "old", keep=keep) == moved
    assert _archived(grown) == moved
    assert grown.audit.verify().ok


@pytest.mark.requirement("audit-archive")
def test_negative_number_to_keep_is_refused(grown: Vault, tmp_path: Path) -> None:
    assert reason(lambda: grown.audit.archive(tmp_path / "old", keep=-1)) == "invalid_request"
    assert _archived(grown) == 0
    assert not (tmp_path / "old").exists()


@pytest.mark.requirement("audit-archive")
def test_archiving_again_goes_on_where_it_stopped(grown: Vault, cap: Token, tmp_path: Path) -> None:
    assert grown.audit.archive(tmp_path / "old", keep=300) == 256
    size = grown.audit.size()
    assert grown.audit.archive(tmp_path / "old", keep=300) == 0
    assert grown.audit.size() == size
    grown.memory(cap).put("Hotel in Chengdu", namespace="travel")
    fill(grown, 400)
    assert grown.audit.archive(tmp_path / "old") == 768
    assert _archived(grown) == 1024
    assert grown.audit.verify().findings == ()
    assert grown.audit.verify(archive=tmp_path / "old").findings == ()


@pytest.mark.requirement("audit-archive", "audit-prove")
def test_archived_entries_stay_provable(grown: Vault, tmp_path: Path) -> None:
    entries = stored_entries(tmp_path / "vault")
    grown.audit.archive(tmp_path / "old")
    bundled = (tmp_path / "old" / "tile" / "entries" / "000").read_bytes()
    assert merkle_log.unbundle(bundled) == entries[:256]
    for number in (0, 1, 255, 256, 511, 512, 699, 700):
        data = stored_entries(tmp_path / "vault")[number] if number >= 512 else entries[number]
        assert rfc.check_proof(grown.audit.prove(number), data, grown.audit.verifier_key).size == 701


@pytest.mark.requirement("audit-archive")
def test_life_goes_on_over_archived_entries(
    grown: Vault, cap: Token, tmp_path: Path, reopen: Reopen, clock: Clock
) -> None:
    """What was put before is forgotten, rewritten, rotated and erased after."""
    grown.audit.archive(tmp_path / "old")
    memory = grown.memory(cap)
    profile = memory.profile("work")
    memory.set_profile("likes coffee", namespace="work", version=profile.version)
    grown.rotate_root()
    grown.rotate_actor("local/alice")
    memory.forget(namespaces=["travel"])
    assert grown.audit.verify().findings == ()
    memory.erase(["work"])
    assert reopen().audit.verify(archive=tmp_path / "old").findings == ()
    grown.erase("local/alice")
    assert reopen().audit.verify().findings == ()
    assert reopen().audit.verify(archive=tmp_path / "old").findings == ()


@pytest.mark.requirement("audit-archive")
def test_archived_entries_are_readable_by_their_owner_alone(grown: Vault, tmp_path: Path) -> None:
    grown.audit.archive(tmp_path / "old")
    files = [path for path in (tmp_path / "old").rglob("*") if path.is_file()]
    assert len(files) > 4
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


# Damage after archiving.


def _line(place: Path) -> str:
    return next(name for name, body in stored_objects(place).items() if "/lines/" in name and body)


@pytest.mark.requirement("audit-archive", "audit-verify")
@pytest.mark.parametrize("with_archive", [False, True])
def test_objects_that_only_archived_entries_tell_of_are_still_checked(
    grown: Vault, tmp_path: Path, *, with_archive: bool
) -> None:
    grown.audit.archive(tmp_path / "old")
    place, archive = tmp_path / "vault", tmp_path / "old" if with_archive else None
    line = _line(place)
    (before,) = query(place, "SELECT version, name, body FROM objects WHERE name = ?", line)
    edit(place, "UPDATE objects SET body = x'00' WHERE name = ?", line)
    assert named(grown.audit.verify(archive=archive), Flaw.OBJECT_ALTERED) == [line]
    edit(place, "DELETE FROM objects WHERE name = ?", line)
    assert flaws(grown.audit.verify(archive=archive)) == {Flaw.OBJECT_MISSING}
    edit(place, "INSERT INTO objects VALUES (?, ?, ?)", *before)
    assert grown.audit.verify(archive=archive).ok


@pytest.mark.requirement("audit-archive", "audit-verify")
@pytest.mark.parametrize("with_archive", [False, True])
def test_archived_entry_that_is_back_with_other_words_is_found(
    grown: Vault, tmp_path: Path, *, with_archive: bool
) -> None:
    said = stored_entries(tmp_path / "vault")[3]
    grown.audit.archive(tmp_path / "old")
    archive = tmp_path / "old" if with_archive else None
    other = said.replace(b'"decision":"allow"', b'"decision":"deny"')
    assert decode_entry(other) != decode_entry(said)
    edit(tmp_path / "vault", "UPDATE entries SET entry = ? WHERE number = 3", other)
    report = grown.audit.verify(archive=archive)
    assert (Flaw.ENTRY_EDITED, 3) in {(finding.flaw, finding.entry) for finding in report.findings}


@pytest.mark.requirement("audit-archive", "audit-verify")
def test_altered_hash_of_an_archived_entry_is_found(grown: Vault, tmp_path: Path) -> None:
    grown.audit.archive(tmp_path / "old")
    edit(tmp_path / "vault", "UPDATE entries SET leaf = zeroblob(32) WHERE number = 3")
    assert flaws(grown.audit.verify()) == {Flaw.LOG_EDITED}


@pytest.mark.requirement("audit-archive", "audit-verify")
def test_removed_row_of_an_archived_entry_is_found(grown: Vault, tmp_path: Path) -> None:
    grown.audit.archive(tmp_path / "old")
    edit(tmp_path / "vault", "DELETE FROM entries WHERE number = 3")
    assert Flaw.ENTRY_MISSING in flaws(grown.audit.verify())


def _without_marks(body: bytes) -> bytes:
    summary = json.loads(body)
    summary["owners"] = {}
    return json.dumps(summary).encode()


def _of_less(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"size": 256}).encode()


@pytest.mark.requirement("audit-archive", "audit-verify")
@pytest.mark.parametrize("damage", [_without_marks, _of_less, lambda _: b"garbage", lambda _: b"", lambda _: b"{}"])
def test_altered_summary_of_the_archived_entries_is_named(
    grown: Vault, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    grown.audit.archive(tmp_path / "old")
    body = stored_objects(tmp_path / "vault")["vault/archived"]
    assert body is not None
    edit(tmp_path / "vault", "UPDATE objects SET body = ? WHERE name = 'vault/archived'", damage(body))
    report = grown.audit.verify()
    assert "vault/archived" in named(report, Flaw.OBJECT_ALTERED)
    # The bundles tell the same, so with them nothing but the summary itself is wrong.
    whole = grown.audit.verify(archive=tmp_path / "old")
    assert named(whole, Flaw.OBJECT_ALTERED) == ["vault/archived"]
    assert len(whole.findings) == 1


@pytest.mark.requirement("audit-archive", "audit-verify")
def test_edited_entry_in_an_archived_bundle_is_named(grown: Vault, tmp_path: Path) -> None:
    grown.audit.archive(tmp_path / "old")
    path = tmp_path / "old" / "tile" / "entries" / "001"
    entries = merkle_log.unbundle(path.read_bytes())
    entries[7] = entries[7].replace(b'"op":"note"', b'"op":"nope"')
    path.write_bytes(merkle_log.bundle(entries))
    (finding,) = grown.audit.verify(archive=tmp_path / "old").findings
    assert (finding.flaw, finding.entry) == (Flaw.ENTRY_EDITED, 256 + 7)
    assert grown.audit.verify().ok


@pytest.mark.requirement("audit-archive", "audit-bits")
@pytest.mark.parametrize("step", [2503, pytest.param(101, marks=pytest.mark.long)])
def test_flipped_bit_of_an_archived_bundle_is_found(grown: Vault, tmp_path: Path, step: int) -> None:
    grown.audit.archive(tmp_path / "old")
    path = tmp_path / "old" / "tile" / "entries" / "000"
    whole = path.read_bytes()
    for edited in flips(whole, step):
        path.write_bytes(edited)
        assert not grown.audit.verify(archive=tmp_path / "old").ok
    path.write_bytes(whole)
    assert grown.audit.verify(archive=tmp_path / "old").ok


@pytest.mark.requirement("audit-archive", "audit-verify")
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "too many"])
def test_damaged_bundle_is_named_and_the_vault_itself_is_still_sound(grown: Vault, tmp_path: Path, damage: str) -> None:
    grown.audit.archive(tmp_path / "old")
    path = tmp_path / "old" / "tile" / "entries" / "000"
    whole = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"cut": whole[:-1], "empty": b"", "too many": whole + merkle_log.bundle([b"{}"])}[damage])
    assert Flaw.ARCHIVE_DAMAGED in flaws(grown.audit.verify(archive=tmp_path / "old"))
    assert grown.audit.verify().ok


@pytest.mark.requirement("audit-archive")
def test_archive_of_another_vault_is_found(grown: Vault, tmp_path: Path, clock: Clock) -> None:
    grown.audit.archive(tmp_path / "old")
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other keys"), now=clock) as other:
        fill(other, 700)
        other.audit.archive(tmp_path / "other old")
    assert not grown.audit.verify(archive=tmp_path / "other old").ok


# What stops archiving.


@pytest.mark.requirement("audit-archive")
def test_vault_with_a_flaw_is_not_archived(grown: Vault, tmp_path: Path) -> None:
    edit(tmp_path / "vault", "UPDATE objects SET body = x'00' WHERE name = ?", _line(tmp_path / "vault"))
    before = stored_entries(tmp_path / "vault")
    assert reason(lambda: grown.audit.archive(tmp_path / "old")) == "tampered"
    assert stored_entries(tmp_path / "vault") == before
    assert not (tmp_path / "old").exists()


@pytest.mark.requirement("audit-archive")
def test_entries_stay_when_the_archive_cannot_be_written(grown: Vault, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("a file where the directory should be")
    before = stored_entries(tmp_path / "vault")
    assert reason(lambda: grown.audit.archive(tmp_path / "old")) == "store_unavailable"
    assert stored_entries(tmp_path / "vault") == before
    assert grown.audit.verify().ok


@pytest.mark.requirement("audit-archive")
def test_entries_stay_when_a_bundle_does_not_read_back(
    grown: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored_entries(tmp_path / "vault")
    whole = merkle_log.bundle
    monkeypatch.setattr(merkle_log, "bundle", lambda entries: whole([bytes([one[0] ^ 1]) + one[1:] for one in entries]))
    assert reason(lambda: grown.audit.archive(tmp_path / "old")) == "tampered"
    monkeypatch.undo()
    assert stored_entries(tmp_path / "vault") == before
    assert grown.audit.verify().ok


def _outcome(vault: Vault, directory: Path) -> int | str:
    """How many entries left, or the reason why none did."""
    try:
        return vault.audit.archive(directory)
    except StrongroomError as error:
        return error.reason


@pytest.mark.requirement("audit-archive")
def test_slower_of_two_archivers_at_once_hears_it_in_our_own_words(
    grown: Vault, tmp_path: Path, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is done between this one's reading and its commit."""
    other = reopen()
    export = grown._state.log.export

    def overtaken(directory: Path) -> int:
        assert other.audit.archive(tmp_path / "others") == 512
        return export(directory)

    monkeypatch.setattr(grown._state.log, "export", overtaken)
    assert _outcome(grown, tmp_path / "old") in {0, "store_unavailable", "version_conflict"}
    assert grown.audit.verify().findings == ()
    assert other.audit.verify(archive=tmp_path / "others").findings == ()


@pytest.mark.requirement("audit-archive")
def test_archiving_beside_a_reader_names_what_removes_the_entries_for_good(grown: Vault, tmp_path: Path) -> None:
    grown.audit.archive(tmp_path / "old")
    fill(grown, 300, "something else")
    reader = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM objects").fetchall()
    with pytest.raises(StoreUnavailable) as caught:
        grown.audit.archive(tmp_path / "old")
    assert "vault.scrub()" in caught.value.hint
    assert _archived(grown) == 768
    assert grown.scrub_is_due()
    reader.close()
    assert grown.scrub()
    for path in (tmp_path / "vault").iterdir():
        assert MARKER.encode() not in path.read_bytes(), path


@pytest.mark.requirement("audit-archive")
def test_archiving_interrupted_before_the_entries_left_is_finished_by_the_next(
    grown: Vault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(stop: int) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(grown._state.store, "archive", interrupt)
        with pytest.raises(Interrupted):
            grown.audit.archive(tmp_path / "old")
    assert grown.audit.verify().findings == ()
    assert grown.audit.verify(archive=tmp_path / "old").findings == ()
    grown.audit.archive(tmp_path / "old")
    assert _archived(grown) == 512
    assert grown.audit.verify().findings == ()
