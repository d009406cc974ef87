"""What left a vault of an earlier version, brought back: backups, archives, keys, bundles, turns, proofs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, errors
from strongroom.archive import import_lines, read_archive
from strongroom.audit.log import Witness
from strongroom.host import Recovered
from strongroom.vault.backup import unlock_keys
from tests.host.doubles import Recorder, Seen, hosted
from tests.upgrades.frozen import Frozen, asked, expected, lines


@pytest.mark.requirement("upgrade-backup")
def test_backup_is_restored_with_the_keys_that_were_locked(frozen: Frozen, left: Path, tmp_path: Path) -> None:
    said = frozen.manifest["vault"]
    keys = FileKeys(tmp_path / "keys")
    locked = (left / said["locked_keys"]).read_bytes()
    with pytest.raises(errors.KeyUnavailable):
        unlock_keys(locked, "another passphrase", vault=said["id"], into=keys)
    unlock_keys(locked, frozen.manifest["passphrase"], vault=said["id"], into=keys)
    restored = strongroom.restore(left / "backup", tmp_path / "restored", keys=keys)
    assert (restored.vault, restored.rolled_back) == (said["id"], False)
    assert restored.report is not None
    assert (restored.report.size, restored.report.root) == (said["backup"]["size"], said["backup"]["root"])
    with strongroom.open(tmp_path / "restored", keys=keys, now=frozen.clock()) as vault:
        assert asked(vault, said) == expected(said)


@pytest.mark.requirement("upgrade-backup")
def test_roll_back_to_the_backup_is_known_and_can_be_accepted(frozen: Frozen, left: Path) -> None:
    keys, said, clock = FileKeys(left / "keys"), frozen.manifest["vault"], frozen.clock()
    with strongroom.open(left / "vault", keys=keys, now=clock) as vault:
        vault.memory(said["caps"]["alice"]).put("Written by the newer version", namespace="work")
        vault.audit.checkpoint()
    shutil.rmtree(left / "vault")
    assert strongroom.restore(left / "backup", left / "vault", keys=keys).rolled_back
    with strongroom.open(left / "vault", keys=keys, now=clock) as vault:
        assert vault.audit.accept_restore()
        assert vault.audit.verify().ok
        assert asked(vault, said) == expected(said)


@pytest.mark.requirement("upgrade-archive")
@pytest.mark.parametrize("name", ["alice.age", "alice.jsonl"])
def test_archive_is_imported_into_a_new_vault(frozen: Frozen, left: Path, tmp_path: Path, name: str) -> None:
    said = frozen.manifest["vault"]
    archive = read_archive(left / name, lambda: frozen.manifest["passphrase"])
    assert (len(archive.lines), len(archive.profiles)) == (said["archive"]["lines"], said["archive"]["profiles"])
    with strongroom.create(tmp_path / "new", keys=FileKeys(tmp_path / "new-keys"), now=frozen.clock()) as vault:
        terms: dict[str, Any] = {"ops": ["put", "get", "list", "profile"], "namespaces": vault.namespaces}
        memory = vault.memory(vault.mint(actor="local/anna", **terms))
        outcome = import_lines(memory, archive)
        assert not outcome.profile_conflicts
        texts = {hit.id: hit.text for hit in lines(memory)}
        put = {one["id"]: one["text"] for one in said["lines"]["alice"]}
        assert texts == {line.id: put[line.id] for line in archive.lines}
        assert memory.profile("personal").text == said["profiles"]["alice"]["personal"]


@pytest.mark.requirement("upgrade-archive")
def test_bundle_that_was_sealed_to_its_inbox_is_delivered_once(frozen: Frozen, left: Path) -> None:
    said = frozen.manifest["vault"]
    with strongroom.open(left / "vault", keys=FileKeys(left / "keys"), now=frozen.clock()) as vault:
        sealed = (left / "bundle.age").read_bytes()
        with pytest.raises(errors.CapLimitExceeded):
            vault.memory(said["caps"]["bob"]).deliver(sealed)
        memory = vault.memory(said["caps"]["alice"])
        assert [one.duplicate for one in (*memory.deliver(sealed), *memory.deliver(sealed))] == [False, True]
        (hit,) = memory.get(ids=[said["bundle"]["id"]])
        assert (hit.text, hit.namespace) == (said["bundle"]["text"], said["bundle"]["namespace"])


@pytest.mark.requirement("upgrade-vault")
def test_proof_and_a_checkpoint_of_then_still_count(frozen: Frozen, left: Path) -> None:
    with strongroom.open(left / "vault", keys=FileKeys(left / "keys"), now=frozen.clock()) as vault:
        size = int((left / "checkpoint").read_text().splitlines()[1])
        assert (left / "proof").read_text().splitlines()[-1]
        assert vault.audit.size() > size
    seen = Witness(left / "checkpoint")
    assert strongroom.verify(
        left / "vault", keys=FileKeys(left / "keys"), witness=seen, archive=left / "log-archive"
    ).ok


@pytest.mark.requirement("upgrade-hermes")
def test_turns_in_the_journal_of_a_host_reach_the_provider_in_order(frozen: Frozen, tmp_path: Path) -> None:
    frozen.unpack("journal", tmp_path)
    said, seen = frozen.manifest["journal"], Seen()
    with hosted(tmp_path, lambda: Recorder(seen, name=said["provider"])) as host:
        assert host.recover() == Recovered(handed_over=len(said["turns"]))
    assert seen.turns == said["turns"]
    assert seen.of("initialize")[0][0] == (said["session"],)
