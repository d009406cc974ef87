"""What the log gives to others: checkpoints, inclusion proofs and tiles, checked by a second implementation."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.crypto import merkle_log
from tests.audit import rfc
from tests.audit.tools import fill, reason, stored_entries
from tests.conftest import Clock


def _files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


# Inclusion.


@pytest.mark.requirement("audit-prove")
def test_every_entry_is_proven_to_a_second_implementation(vault: Vault, cap: Token, tmp_path: Path) -> None:
    for number in range(20):
        vault.memory(cap).put(f"line {number}", namespace="work")
    entries = stored_entries(tmp_path / "vault")
    tree = rfc.Tree(entries)
    assert len(entries) == vault.audit.size() == 22
    for number, data in enumerate(entries):
        text = vault.audit.prove(number)
        signed = rfc.check_proof(text, data, vault.audit.verifier_key)
        assert signed == rfc.SignedHead(vault.audit.origin, 22, tree.root())
        with pytest.raises(rfc.Refused):
            rfc.check_proof(text, entries[number - 1], vault.audit.verifier_key)
        with pytest.raises(rfc.Refused):
            rfc.check_proof(text, data + b" ", vault.audit.verifier_key)


@pytest.mark.requirement("audit-prove")
def test_only_entry_of_a_new_vault_is_proven(vault: Vault, tmp_path: Path) -> None:
    (first,) = stored_entries(tmp_path / "vault")
    assert rfc.check_proof(vault.audit.prove(0), first, vault.audit.verifier_key).size == 1


@pytest.mark.requirement("audit-prove")
@pytest.mark.parametrize("index", [-1, 1, 2, 10**9])
def test_nothing_outside_the_log_is_proven(vault: Vault, index: int) -> None:
    assert reason(lambda: vault.audit.prove(index)) == "invalid_request"


@pytest.mark.requirement("audit-prove")
def test_proof_stays_good_when_the_log_grows(vault: Vault, tmp_path: Path) -> None:
    fill(vault, 10)
    entries, text = stored_entries(tmp_path / "vault"), vault.audit.prove(3)
    fill(vault, 300)
    assert rfc.check_proof(text, entries[3], vault.audit.verifier_key).size == 11
    assert rfc.check_proof(vault.audit.prove(3), entries[3], vault.audit.verifier_key).size == 311


@pytest.mark.requirement("audit-prove")
def test_proof_of_another_vault_does_not_check_here(vault: Vault, tmp_path: Path, clock: Clock) -> None:
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other keys"), now=clock) as other:
        (first,) = stored_entries(tmp_path / "other")
        text = other.audit.prove(0)
    with pytest.raises(rfc.Refused):
        rfc.check_proof(text, first, vault.audit.verifier_key)


# Checkpoints.


@pytest.mark.requirement("audit-prove")
def test_checkpoints_are_signed_and_each_continues_the_one_before(vault: Vault, tmp_path: Path) -> None:
    log, seen = vault._state.log, list[rfc.SignedHead]()
    for grown in (0, 1, 3, 60, 200, 1):
        fill(vault, grown)
        seen.append(rfc.open_note(vault.audit.checkpoint(), vault.audit.verifier_key))
    tree = rfc.Tree(stored_entries(tmp_path / "vault"))
    for old, new in itertools.pairwise(seen):
        assert old.root == tree.root(old.size)
        proof = log.consistency(old.size, new.size)
        assert proof == tree.proof(old.size, new.size)
        merkle_log.check_consistency(old.size, old.root, new.size, new.root, proof)


def test_checkpoint_is_kept_beside_the_keys(vault: Vault, keys: FileKeys) -> None:
    fill(vault, 3)
    note = vault.audit.checkpoint()
    assert (keys.directory / "checkpoint").read_text(encoding="utf-8") == note
    assert note.split("\n")[:2] == [vault.audit.origin, "4"]
    assert vault.audit.origin == f"strongroom/{vault.id}"


CHILD = """
import sys, strongroom
from strongroom import FileKeys

place, keys, out, now = sys.argv[1:]
with strongroom.open(place, keys=FileKeys(keys), now=lambda: int(now)) as vault:
    report = vault.audit.verify()
    vault.audit.export(out)
    sys.exit(len(report.findings))
"""


def test_witness_and_an_export_do_not_depend_on_the_locale(vault: Vault, tmp_path: Path, clock: Clock) -> None:
    """A note holds a character outside ASCII, and a service often runs under the C locale."""
    arguments = [str(tmp_path / "vault"), str(tmp_path / "keys"), str(tmp_path / "out"), str(clock.millis)]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    child = subprocess.run([sys.executable, "-c", CHILD, *arguments], env=os.environ | plain, check=False)
    assert child.returncode == 0
    note = (tmp_path / "out" / "checkpoint").read_text(encoding="utf-8")
    assert rfc.open_note(note, vault.audit.verifier_key).size == 1


# Tiles.


@pytest.mark.requirement("audit-prove")
@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 512, 700])
def test_export_is_what_tlog_tiles_says(vault: Vault, tmp_path: Path, size: int) -> None:
    fill(vault, size - 1)
    assert vault.audit.export(tmp_path / "out") == size
    entries = stored_entries(tmp_path / "vault")
    expected = rfc.tiles(rfc.Tree(entries)) | rfc.bundles(entries)
    files = _files(tmp_path / "out")
    signed = rfc.open_note(files.pop("checkpoint").decode(), vault.audit.verifier_key)
    assert (signed.size, signed.root) == (size, rfc.Tree(entries).root())
    assert files == {f"tile/{name}": data for name, data in expected.items()}


@pytest.mark.requirement("audit-prove")
def test_export_over_an_older_one_adds_what_is_new(vault: Vault, tmp_path: Path) -> None:
    for grown in (10, 300, 300):
        fill(vault, grown)
        vault.audit.export(tmp_path / "out")
    entries = stored_entries(tmp_path / "vault")
    files = _files(tmp_path / "out")
    for name, data in (rfc.tiles(rfc.Tree(entries)) | rfc.bundles(entries)).items():
        assert files[f"tile/{name}"] == data
    assert rfc.open_note(files["checkpoint"].decode(), vault.audit.verifier_key).size == 611


def test_export_that_cannot_be_written_is_unavailable_and_not_a_bare_error(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the directory should be")
    assert reason(lambda: vault.audit.export(tmp_path / "out")) == "store_unavailable"


@pytest.mark.requirement("audit-prove")
def test_seventy_thousand_entries_make_the_tiles_of_the_specifications_example(vault: Vault, tmp_path: Path) -> None:
    """273 full and one partial tile at level 0, one full and one partial at level 1, one partial at level 2."""
    fill(vault, 69_999)
    assert vault.audit.export(tmp_path / "out") == 70_000
    files = _files(tmp_path / "out")
    entries = stored_entries(tmp_path / "vault")
    expected = rfc.tiles(rfc.Tree(entries)) | rfc.bundles(entries)
    assert {name for name in files if name != "checkpoint"} == {f"tile/{name}" for name in expected}
    assert all(files[f"tile/{name}"] == data for name, data in expected.items())
    assert len([name for name in files if name.startswith("tile/0/")]) == 273 + 1
    assert "tile/0/273.p/112" in files
    assert "tile/1/000" in files
    assert "tile/1/001.p/17" in files
    assert len(files["tile/2/000.p/1"]) == 32
