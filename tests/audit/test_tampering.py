"""Somebody edits the vault's file behind its back: verify names what was done, and nothing else.

The editor has the file and not the keys. Each test makes one edit of the closed vault's database and compares the
whole set of flaws.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault
from strongroom.audit import Flaw, VerificationReport, Witness
from strongroom.audit.entry import decode_entry
from strongroom.caps.chain import parse
from strongroom.crypto import merkle_log
from strongroom.errors import Tampered
from tests.audit.tools import copy, edit, entry_numbers, flaws, named, query, reason, restore, stored_entries
from tests.audit.tools import stored_objects as objects
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.crypto.test_chunked_aead import flips


@dataclass
class Closed:
    """A closed vault with a history: where it is, what its entries are, and how to open it."""

    place: Path
    keys: FileKeys
    clock: Clock
    listed: int
    """The index of an entry without objects, neither first nor last."""
    put: int
    """The index of an entry that put a line and made its keys."""
    size: int
    line: str
    """The name of a line's object."""
    tombstone: str
    revoked: str

    def open(self) -> Vault:
        return strongroom.open(self.place, keys=self.keys, now=self.clock)

    def verify(self) -> VerificationReport:
        with self.open() as vault:
            return vault.audit.verify()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Closed:
    """The vault that every test here edits a copy of."""
    directory, clock = tmp_path_factory.mktemp("template"), Clock()
    place, keys = directory / "vault", FileKeys(directory / "keys")
    with strongroom.create(place, keys=keys, now=clock) as vault:
        alice = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
        bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES)
        memory = vault.memory(alice)
        memory.put("Trip to Chengdu", namespace="travel")
        doomed = memory.put("to be forgotten", namespace="travel")
        vault.memory(bob).put("Bob's own", namespace="work")
        memory.list()
        memory.set_profile("likes tea", namespace="personal")
        memory.forget(ids=[doomed.id])
        vault.revoke(bob)
        memory.list()
        listed, *_ = entry_numbers(vault, "list")
        put, *_ = entry_numbers(vault, "put")
        size = vault.audit.size()
    alices = "/".join(next(name for name, body in objects(place).items() if body is None).split("/")[:4])
    return Closed(
        place=place,
        keys=keys,
        clock=clock,
        listed=listed,
        put=put,
        size=size,
        line=next(name for name, body in objects(place).items() if name.startswith(f"{alices}/lines/") and body),
        tombstone=next(name for name, body in objects(place).items() if body is None),
        revoked=f"vault/revoked/{parse(bob).links[0].id}",
    )


@pytest.fixture
def closed(template: Closed, tmp_path: Path) -> Closed:
    shutil.copytree(template.place, tmp_path / "vault")
    shutil.copytree(template.keys.directory, tmp_path / "keys")
    return replace(template, place=tmp_path / "vault", keys=FileKeys(tmp_path / "keys"), clock=Clock())


def _rewritten(place: Path, number: int) -> bytes:
    """Another entry in the place of one: well formed, and saying something else."""
    said = stored_entries(place)[number]
    changed = said.replace(b'"op":"list"', b'"op":"lost"').replace(b'"op":"put"', b'"op":"pet"')
    assert changed != said
    decode_entry(changed)
    return changed


@pytest.mark.requirement("audit-verify")
def test_untouched_vault_has_no_flaw(closed: Closed) -> None:
    report = closed.verify()
    assert report.findings == ()
    assert report.size == closed.size
    assert report.objects == len(objects(closed.place))
    assert report.root == merkle_log.tree_hash(map(merkle_log.leaf_hash, stored_entries(closed.place))).hex()


# Entries.


@pytest.mark.requirement("audit-verify", "audit-bits")
def test_edited_entry_is_named(closed: Closed) -> None:
    edit(
        closed.place,
        "UPDATE entries SET entry = ? WHERE number = ?",
        _rewritten(closed.place, closed.listed),
        closed.listed,
    )
    (finding,) = closed.verify().findings
    assert (finding.flaw, finding.entry) == (Flaw.ENTRY_EDITED, closed.listed)


@pytest.mark.requirement("audit-verify")
def test_edited_entry_about_objects_leaves_those_objects_unexplained(closed: Closed) -> None:
    edit(
        closed.place, "UPDATE entries SET entry = ? WHERE number = ?", _rewritten(closed.place, closed.put), closed.put
    )
    report = closed.verify()
    assert flaws(report) == {Flaw.ENTRY_EDITED, Flaw.OBJECT_EXTRA}
    assert [finding.entry for finding in report.findings if finding.flaw == Flaw.ENTRY_EDITED] == [closed.put]
    assert closed.line in named(report, Flaw.OBJECT_EXTRA)


@pytest.mark.requirement("audit-verify", "audit-bits")
@pytest.mark.parametrize("step", [97, pytest.param(7, marks=pytest.mark.long)])
def test_flipped_bit_of_any_stored_entry_is_found(closed: Closed, step: int) -> None:
    whole = stored_entries(closed.place)
    with closed.open() as vault:
        for number, data in enumerate(whole):
            for edited in flips(data, step + number):
                edit(closed.place, "UPDATE entries SET entry = ? WHERE number = ?", edited, number)
                found = vault.audit.verify().findings
                assert (Flaw.ENTRY_EDITED, number) in {(one.flaw, one.entry) for one in found}
            edit(closed.place, "UPDATE entries SET entry = ? WHERE number = ?", data, number)
        assert vault.audit.verify().ok


def _edit_with_leaf(closed: Closed) -> None:
    said = _rewritten(closed.place, closed.listed)
    edit(
        closed.place,
        "UPDATE entries SET entry = ?, leaf = ? WHERE number = ?",
        said,
        merkle_log.leaf_hash(said),
        closed.listed,
    )


@pytest.mark.requirement("audit-verify")
def test_entry_edited_together_with_its_hash_does_not_add_up_to_the_head(closed: Closed) -> None:
    _edit_with_leaf(closed)
    assert flaws(closed.verify()) == {Flaw.LOG_EDITED}


@pytest.mark.requirement("audit-verify")
def test_entry_edited_together_with_its_hash_is_no_continuation_of_what_was_seen(closed: Closed) -> None:
    with closed.open() as vault:
        vault.audit.checkpoint()
    _edit_with_leaf(closed)
    assert flaws(closed.verify()) == {Flaw.LOG_EDITED, Flaw.LOG_FORKED}


@pytest.mark.requirement("audit-verify")
def test_edited_hash_is_found(closed: Closed) -> None:
    edit(closed.place, "UPDATE entries SET leaf = ? WHERE number = ?", bytes(32), closed.listed)
    assert flaws(closed.verify()) == {Flaw.ENTRY_EDITED, Flaw.LOG_EDITED}


@pytest.mark.requirement("audit-verify")
def test_two_entries_that_changed_places_are_found(closed: Closed) -> None:
    one, two = closed.listed, closed.size - 1
    assert stored_entries(closed.place)[one] != stored_entries(closed.place)[two]
    for here, there in ((one, -1), (two, one), (-1, two)):
        edit(closed.place, "UPDATE entries SET number = ? WHERE number = ?", there, here)
    assert flaws(closed.verify()) == {Flaw.LOG_EDITED}


@pytest.mark.requirement("audit-verify")
def test_missing_last_entry_is_a_truncation(closed: Closed) -> None:
    edit(closed.place, "DELETE FROM entries WHERE number = ?", closed.size - 1)
    (finding,) = closed.verify().findings
    assert (finding.flaw, finding.entry) == (Flaw.LOG_TRUNCATED, closed.size - 1)


@pytest.mark.requirement("audit-verify")
def test_missing_entry_in_the_middle_is_named(closed: Closed) -> None:
    edit(closed.place, "DELETE FROM entries WHERE number = ?", closed.listed)
    (finding,) = closed.verify().findings
    assert (finding.flaw, finding.entry) == (Flaw.ENTRY_MISSING, closed.listed)


@pytest.mark.requirement("audit-verify")
def test_emptied_entry_that_was_never_archived_is_missing(closed: Closed) -> None:
    edit(closed.place, "UPDATE entries SET entry = NULL WHERE number = ?", closed.listed)
    (finding,) = closed.verify().findings
    assert (finding.flaw, finding.entry) == (Flaw.ENTRY_MISSING, closed.listed)


@pytest.mark.requirement("audit-verify")
def test_entry_behind_the_end_is_extra(closed: Closed) -> None:
    said = stored_entries(closed.place)[closed.listed]
    edit(closed.place, "INSERT INTO entries VALUES (?, ?, ?)", closed.size, merkle_log.leaf_hash(said), said)
    (finding,) = closed.verify().findings
    assert (finding.flaw, finding.entry) == (Flaw.ENTRY_EXTRA, closed.size)


@pytest.mark.requirement("audit-verify")
def test_entry_far_behind_the_end_is_extra(closed: Closed) -> None:
    said = stored_entries(closed.place)[closed.listed]
    edit(closed.place, "INSERT INTO entries VALUES (?, ?, ?)", closed.size + 7, merkle_log.leaf_hash(said), said)
    assert flaws(closed.verify()) == {Flaw.ENTRY_EXTRA}


# The head.


def _forge_head(place: Path, size: int) -> None:
    """Shorten the log and make the head fit it in everything but the MAC, which needs a key."""
    query(place, "DELETE FROM entries WHERE number >= ?", size)
    edge = merkle_log.Range()
    for data in stored_entries(place):
        edge.append(merkle_log.leaf_hash(data))
    edit(place, "UPDATE head SET size = ?, peaks = ?", size, edge.packed())


@pytest.mark.requirement("audit-verify", "bad-object")
def test_vault_whose_head_was_forged_while_it_was_closed_does_not_open(closed: Closed) -> None:
    _forge_head(closed.place, closed.size - 1)
    assert reason(closed.open) == "tampered"


@pytest.mark.requirement("audit-verify")
def test_head_forged_under_an_open_vault_is_named(closed: Closed) -> None:
    with closed.open() as vault:
        _forge_head(closed.place, closed.size - 1)
        assert flaws(vault.audit.verify()) == {Flaw.HEAD_FORGED}


@pytest.mark.requirement("audit-verify")
def test_head_whose_size_does_not_fit_its_hashes_is_named_and_not_only_refused(closed: Closed) -> None:
    with closed.open() as vault:
        edit(closed.place, "UPDATE head SET size = size - 1")
        assert Flaw.HEAD_FORGED in flaws(vault.audit.verify())


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("column", ["mac = zeroblob(32)", "time = time + 1", "version = version - 1"])
def test_edited_head_is_named(closed: Closed, column: str) -> None:
    with closed.open() as vault:
        edit(closed.place, f"UPDATE head SET {column}")
        assert flaws(vault.audit.verify()) == {Flaw.HEAD_FORGED}


@pytest.mark.requirement("audit-verify")
def test_forged_head_is_never_signed(closed: Closed, tmp_path: Path) -> None:
    """A signature on it would make the forgery good for everybody else."""
    said = _rewritten(closed.place, closed.listed)
    with closed.open() as vault:
        query(closed.place, "INSERT INTO entries VALUES (?, ?, ?)", closed.size, merkle_log.leaf_hash(said), said)
        _forge_head(closed.place, closed.size + 1)
        witnessed = (closed.keys.directory / "checkpoint").read_text()
        assert reason(vault.audit.checkpoint) == "tampered"
        assert reason(lambda: vault.audit.prove(closed.size)) == "tampered"
        assert reason(lambda: vault.audit.export(tmp_path / "exported")) == "tampered"
        assert (closed.keys.directory / "checkpoint").read_text() == witnessed
        assert not (tmp_path / "exported" / "checkpoint").exists()


@pytest.mark.requirement("audit-verify")
def test_nothing_is_written_on_top_of_a_forged_head(closed: Closed) -> None:
    with closed.open() as vault:
        _forge_head(closed.place, closed.size - 1)
        before = query(closed.place, "SELECT * FROM entries")
        assert reason(lambda: vault.mint(actor="local/x", ops=["get"], namespaces=["work"])) == "tampered"
        assert query(closed.place, "SELECT * FROM entries") == before


@pytest.mark.requirement("audit-verify")
def test_older_head_of_its_own_leaves_entries_and_objects_behind_its_end(closed: Closed, tmp_path: Path) -> None:
    copy(closed.place, tmp_path / "older")
    with closed.open() as vault:
        vault.audit.checkpoint()
        token = vault.mint(actor="local/eve", ops=["put"], namespaces=["work"])
        vault.memory(token).put("written later")
    for old in query(tmp_path / "older", "SELECT version, size, peaks, time, mac FROM head"):
        edit(closed.place, "UPDATE head SET version = ?, size = ?, peaks = ?, time = ?, mac = ?", *old)
    assert flaws(closed.verify()) >= {Flaw.ENTRY_EXTRA, Flaw.OBJECT_EXTRA}


# Objects.


@pytest.mark.requirement("audit-verify")
def test_deleted_object_is_missing(closed: Closed) -> None:
    edit(closed.place, "DELETE FROM objects WHERE name = ?", closed.line)
    assert flaws(closed.verify()) == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("audit-verify")
def test_object_turned_into_a_tombstone_is_missing(closed: Closed) -> None:
    edit(closed.place, "UPDATE objects SET body = NULL WHERE name = ?", closed.line)
    report = closed.verify()
    assert flaws(report) == {Flaw.OBJECT_MISSING}
    assert named(report, Flaw.OBJECT_MISSING) == [closed.line]


@pytest.mark.requirement("audit-verify", "bad-object")
def test_altered_object_is_named(closed: Closed) -> None:
    body = objects(closed.place)[closed.line]
    assert body is not None
    edit(closed.place, "UPDATE objects SET body = ? WHERE name = ?", body[:-1] + bytes([body[-1] ^ 1]), closed.line)
    report = closed.verify()
    assert flaws(report) == {Flaw.OBJECT_ALTERED}
    assert named(report, Flaw.OBJECT_ALTERED) == [closed.line]


@pytest.mark.requirement("audit-verify", "seal-slot")
def test_two_objects_that_changed_places_are_altered(closed: Closed) -> None:
    one, two = sorted(name for name, body in objects(closed.place).items() if "/lines/" in name and body)
    bodies = objects(closed.place)
    edit(closed.place, "UPDATE objects SET body = ? WHERE name = ?", bodies[one], two)
    edit(closed.place, "UPDATE objects SET body = ? WHERE name = ?", bodies[two], one)
    report = closed.verify()
    assert flaws(report) == {Flaw.OBJECT_ALTERED}
    assert named(report, Flaw.OBJECT_ALTERED) == [one, two]


def _next_id(name: str) -> str:
    # Not the last character: ids of one moment count up, so that one may be taken.
    return name[:-4] + ("Y" if name[-4] == "Z" else "Z") + name[-3:]


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize(
    ("name", "flaw"),
    [
        (_next_id, Flaw.OBJECT_EXTRA),
        (lambda _: "vault/caps/" + "0" * 64, Flaw.OBJECT_EXTRA),
        (lambda _: "vault/stray", Flaw.OBJECT_EXTRA),
        (lambda _: "stray", Flaw.OBJECT_EXTRA),
        (lambda _: "actors/" + "0" * 32 + "/memory/x/lines/y", Flaw.OBJECT_EXTRA),
        (lambda _: "actors/" + "0" * 32 + "/keys", Flaw.OBJECT_ALTERED),
    ],
    ids=["a line", "a cap", "of the vault", "of nobody", "of an unknown actor", "keys that do not open"],
)
def test_added_object_is_named(closed: Closed, name: Callable[[str], str], flaw: Flaw) -> None:
    added = name(closed.line)
    edit(closed.place, "INSERT INTO objects SELECT -1, ?, body FROM objects WHERE name = ?", added, closed.line)
    (finding,) = closed.verify().findings
    assert (finding.flaw, finding.object) == (flaw, added)


@pytest.mark.requirement("audit-verify", "forget-stays")
def test_forgotten_line_that_is_back_is_named(closed: Closed) -> None:
    edit(closed.place, "UPDATE objects SET body = x'01' WHERE name = ?", closed.tombstone)
    report = closed.verify()
    assert flaws(report) == {Flaw.OBJECT_REVIVED}
    assert named(report, Flaw.OBJECT_REVIVED) == [closed.tombstone]


@pytest.mark.requirement("audit-verify", "forget-stays")
def test_removed_tombstone_is_missing(closed: Closed) -> None:
    edit(closed.place, "DELETE FROM objects WHERE name = ?", closed.tombstone)
    assert flaws(closed.verify()) == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("audit-verify")
def test_removed_revocation_is_missing(closed: Closed) -> None:
    edit(closed.place, "DELETE FROM objects WHERE name = ?", closed.revoked)
    assert flaws(closed.verify()) == {Flaw.OBJECT_MISSING}


@pytest.mark.requirement("audit-verify")
def test_revocation_that_nobody_logged_is_extra(closed: Closed) -> None:
    edit(closed.place, "INSERT INTO objects VALUES (-1, ?, x'')", "vault/revoked/" + "0" * 64)
    assert flaws(closed.verify()) == {Flaw.OBJECT_EXTRA}


@pytest.mark.requirement("audit-verify")
def test_edited_format_record_is_altered(closed: Closed) -> None:
    record = json.loads(objects(closed.place)["vault/format"] or b"")
    body = json.dumps(record | {"created": 1}).encode()
    edit(closed.place, "UPDATE objects SET body = ? WHERE name = 'vault/format'", body)
    assert named(closed.verify(), Flaw.OBJECT_ALTERED) == ["vault/format"]


def _altered(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"actor_key": json.loads(body)["tag_key"]}).encode()


def _of_another_root(body: bytes) -> bytes:
    return json.dumps(json.loads(body) | {"root": "0" * 16}).encode()


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("damage", [_altered, _of_another_root, lambda _: b"", lambda _: None])
def test_actors_keys_that_do_not_open_are_altered_and_verify_goes_on(
    closed: Closed, damage: Callable[[bytes], bytes | None]
) -> None:
    name = "/".join(closed.line.split("/")[:2]) + "/keys"
    body = objects(closed.place)[name]
    assert body is not None
    edit(closed.place, "UPDATE objects SET body = ? WHERE name = ?", damage(body), name)
    edit(closed.place, "UPDATE entries SET leaf = ? WHERE number = ?", bytes(32), closed.listed)
    report = closed.verify()
    assert flaws(report) == {Flaw.OBJECT_ALTERED, Flaw.ENTRY_EDITED, Flaw.LOG_EDITED}
    assert named(report, Flaw.OBJECT_ALTERED) == [name]


@pytest.mark.requirement("audit-verify")
def test_removed_keys_of_an_actor_are_missing_and_its_objects_unexplained(closed: Closed) -> None:
    name = "/".join(closed.line.split("/")[:2]) + "/keys"
    edit(closed.place, "DELETE FROM objects WHERE name = ?", name)
    assert flaws(closed.verify()) == {Flaw.OBJECT_MISSING, Flaw.OBJECT_EXTRA}


@pytest.mark.requirement("audit-verify")
def test_head_set_back_to_an_older_version_hides_no_edited_object(closed: Closed) -> None:
    """What changed after the head's version counts as changed meanwhile, and is left to the next run."""
    edit(closed.place, "UPDATE head SET version = 0")
    edit(closed.place, "UPDATE objects SET body = x'01' WHERE name = ?", closed.line)
    edit(closed.place, "UPDATE objects SET body = x'01' WHERE name = ?", closed.tombstone)
    edit(closed.place, "INSERT INTO objects VALUES (99, 'vault/stray', x'01')")
    try:
        assert not closed.verify().ok
    except Tampered:
        return  # not opening it at all is as good


@pytest.mark.requirement("audit-verify")
def test_derived_data_is_not_a_matter_of_the_log(closed: Closed) -> None:
    name = "/".join(closed.line.split("/")[:4]) + "/derived/index"
    edit(closed.place, "INSERT INTO objects VALUES (-1, ?, x'00')", name)
    assert closed.verify().ok


# An older copy.


def _lived_on(closed: Closed, tmp_path: Path) -> None:
    """Keep a copy, go on, look at the log, and put the copy back."""
    copy(closed.place, tmp_path / "backup")
    with closed.open() as vault:
        token = vault.mint(actor="local/eve", ops=["put"], namespaces=["work"])
        vault.memory(token).put("written after the backup")
        assert vault.audit.verify().ok
    restore(tmp_path / "backup", closed.place)


@pytest.mark.requirement("audit-verify")
def test_older_copy_of_the_whole_vault_is_a_rollback(closed: Closed, tmp_path: Path) -> None:
    _lived_on(closed, tmp_path)
    report = closed.verify()
    assert flaws(report) == {Flaw.LOG_ROLLED_BACK}
    assert report.size == closed.size
    with closed.open() as vault:
        assert reason(vault.audit.checkpoint) == "tampered"


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("more", [2, 3, 9])
def test_older_copy_that_grew_past_what_was_seen_is_a_fork(closed: Closed, tmp_path: Path, more: int) -> None:
    """The lost part was two entries long, so the first case is exactly as long as what was seen."""
    _lived_on(closed, tmp_path)
    with closed.open() as vault:
        for number in range(more):
            vault.mint(actor=f"local/other{number}", ops=["get"], namespaces=["work"])
        report = vault.audit.verify()
        assert flaws(report) == {Flaw.LOG_FORKED}
        assert report.findings[0].entry == closed.size + 1
        assert reason(vault.audit.checkpoint) == "tampered"


# What was seen.


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("content", [b"", b"garbage", b"\xff\xfe", b"a\n1\nAAAA\n\n\xe2\x80\x94 a AAAA\n"])
def test_witness_that_is_no_checkpoint_is_named_and_left_alone(closed: Closed, content: bytes) -> None:
    path = closed.keys.directory / "checkpoint"
    path.write_bytes(content)
    assert flaws(closed.verify()) == {Flaw.WITNESS_INVALID}
    assert path.read_bytes() == content


@pytest.mark.requirement("audit-verify", "audit-bits")
def test_every_flipped_bit_of_the_witness_is_named(closed: Closed) -> None:
    path = closed.keys.directory / "checkpoint"
    note = path.read_bytes()
    with closed.open() as vault:
        for edited in flips(note, 11):
            path.write_bytes(edited)
            assert flaws(vault.audit.verify()) == {Flaw.WITNESS_INVALID}
            assert path.read_bytes() == edited
        path.write_bytes(note)
        assert vault.audit.verify().ok


@pytest.mark.requirement("audit-verify")
def test_witness_of_another_vault_is_named(closed: Closed, tmp_path: Path, clock: Clock) -> None:
    strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other keys"), now=clock).close()
    path = closed.keys.directory / "checkpoint"
    path.write_bytes((tmp_path / "other keys" / "checkpoint").read_bytes())
    assert flaws(closed.verify()) == {Flaw.WITNESS_INVALID}


def test_clean_verification_is_what_was_seen_from_then_on(closed: Closed) -> None:
    path = closed.keys.directory / "checkpoint"
    assert path.read_text().split("\n")[1] == "1"
    report = closed.verify()
    assert path.read_text().split("\n")[1] == str(report.size)
    assert path.stat().st_mode & 0o777 == 0o600


def test_verification_with_findings_is_not_what_was_seen(closed: Closed) -> None:
    path = closed.keys.directory / "checkpoint"
    before = path.read_bytes()
    edit(closed.place, "DELETE FROM objects WHERE name = ?", closed.line)
    assert not closed.verify().ok
    assert path.read_bytes() == before


def test_witness_can_be_kept_anywhere_outside_the_vault(closed: Closed, tmp_path: Path) -> None:
    elsewhere = Witness(tmp_path / "a" / "b" / "seen")
    with strongroom.open(closed.place, keys=closed.keys, witness=elsewhere, now=closed.clock) as vault:
        vault.audit.checkpoint(first=True)
        assert vault.audit.verify().ok
        seen = elsewhere.read()
        assert seen is not None
        assert merkle_log.open_checkpoint(seen, vault.audit.origin, vault._state.log.public_key).size == closed.size


@pytest.mark.requirement("audit-verify")
def test_vault_that_does_not_open_can_still_be_verified(closed: Closed) -> None:
    witnessed = (closed.keys.directory / "checkpoint").read_bytes()
    assert strongroom.verify(closed.place, keys=closed.keys).ok
    _forge_head(closed.place, closed.size - 1)
    assert reason(closed.open) == "tampered"
    assert flaws(strongroom.verify(closed.place, keys=closed.keys)) == {Flaw.HEAD_FORGED}
    assert (closed.keys.directory / "checkpoint").read_bytes() == witnessed


@pytest.mark.requirement("pages-derived", "bad-object")
def test_object_planted_for_an_actor_that_never_was_is_named_and_stops_no_rotation(
    vault: Vault, cap: Token, keys: FileKeys, clock: Clock, tmp_path: Path
) -> None:
    vault.memory(cap).put_many([NewLine(text="a line", namespace="travel")])
    planted = f"actors/{'a' * 32}/memory/{'b' * 32}/derived/x"
    (found,) = tmp_path.rglob("vault.db")
    with apsw.Connection(str(found)) as connection:
        connection.execute("INSERT INTO objects (version, name, body) VALUES (-1, ?, x'00')", (planted,))
    report = vault.audit.look()
    assert [finding.flaw.value for finding in report.findings] == ["object_extra"]
    vault.rotate_root()
    assert [hit.text for hit in vault.memory(cap).get("a line")] == ["a line"]
