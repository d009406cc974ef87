"""A vault in a file that an earlier version wrote: refusals first, then what is in it, then use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

import strongroom
from strongroom import EnvironmentKeys, FileKeys, KeySource, PassphraseKeys, Vault, errors
from strongroom.audit.log import Witness
from strongroom.errors import StrongroomError
from tests.conftest import Clock
from tests.upgrades.frozen import Frozen, as_said, asked, expected, lines

pytestmark = pytest.mark.requirement("upgrade-vault")


@pytest.fixture
def clock(frozen: Frozen) -> Clock:
    return frozen.clock()


@pytest.fixture
def said(frozen: Frozen) -> dict[str, Any]:
    found: dict[str, Any] = frozen.manifest["vault"]
    return found


@pytest.fixture
def vault(left: Path, clock: Clock) -> Iterator[Vault]:
    with strongroom.open(left / "vault", keys=FileKeys(left / "keys"), now=clock) as opened:
        yield opened


def _reason(ask: Callable[[], object]) -> str:
    with pytest.raises(StrongroomError) as caught:
        ask()
    return caught.value.reason


@pytest.mark.requirement("upgrade-refused")
@pytest.mark.parametrize("name", ["vault", "backup"])
def test_vault_of_a_newer_format_is_refused_by_name_and_left_as_it_is(left: Path, tmp_path: Path, name: str) -> None:
    place, keys = left / name, FileKeys(left / "keys")
    with closing(apsw.Connection(str(place / "vault.db"))) as database:
        newer = (
            """UPDATE objects SET body = CAST(replace(body, '"v":1', '"v":3') AS BLOB) WHERE name = 'vault/format'"""
        )
        database.execute(newer)
    before = (place / "vault.db").read_bytes()
    for ask in (strongroom.open, strongroom.verify):
        assert _reason(partial(ask, place, keys=keys)) == "vault_format"
    assert _reason(partial(strongroom.restore, place, tmp_path / "restored", keys=keys)) == "vault_format"
    assert not (tmp_path / "restored").exists()
    assert (place / "vault.db").read_bytes() == before


def test_caps_that_were_void_are_refused_for_the_same_reasons(vault: Vault, said: dict[str, Any]) -> None:
    assert said["refused"]
    found = {name: _reason(partial(vault.memory(said["caps"][name]).get, "bees")) for name in said["refused"]}
    assert found == said["refused"]


def test_caps_admit_what_they_did_and_no_more(vault: Vault, said: dict[str, Any]) -> None:
    caps = {name: vault.memory(token) for name, token in said["caps"].items()}
    assert _reason(lambda: caps["bearer"].get("peanuts", namespaces=["personal"])) == "cap_namespace_denied"
    assert _reason(lambda: caps["bearer"].put("x", namespace="travel")) == "cap_op_mismatch"
    assert _reason(lambda: caps["one session"].put("x", namespace="work", session="sunday")) == "cap_limit_exceeded"
    assert _reason(lambda: caps["two lines"].get("box", k=3)) == "cap_limit_exceeded"
    assert _reason(lambda: caps["scope"].get("box")) == "cap_malformed"
    assert caps["one session"].put("Monday's heron", namespace="work", session="monday").id
    assert caps["renewed"].renew()


def test_forgotten_or_erased_lines_stay_away(vault: Vault, said: dict[str, Any]) -> None:
    for name, gone in said["forgotten"].items():
        memory = vault.memory(said["caps"][name])
        for one in gone:
            assert _reason(partial(memory.get, ids=[one["id"]])) == "not_found"
            assert memory.put(one["text"], namespace=one["namespace"], id=one["id"]).forgotten
            assert one["text"] not in [hit.text for hit in memory.get(one["text"])]
    for name, namespaces in said["erased_namespaces"].items():
        assert vault.memory(said["caps"][name]).list(namespaces=namespaces).lines == ()
    assert not set(map(str, vault.actors())) & set(said["erased_actors"])


def test_every_line_is_there_as_it_was_put(vault: Vault, said: dict[str, Any]) -> None:
    assert said["lines"]
    for name, put in said["lines"].items():
        found = {hit.id: hit for hit in lines(vault.memory(said["caps"][name]))}
        assert found.keys() == {one["id"] for one in put}
        assert [as_said(found[one["id"]], one) for one in put] == put
    assert list(vault.namespaces) == said["namespaces"]


def test_questions_find_what_they_found(vault: Vault, said: dict[str, Any]) -> None:
    assert asked(vault, said) == expected(said)
    for name, profiles in said["profiles"].items():
        told = {one.namespace: one.text for one in vault.memory(said["caps"][name]).snapshot().profiles}
        assert told == profiles


@pytest.mark.parametrize("form", ["file", "passphrase", "environment"])
def test_keys_open_it_in_each_form(frozen: Frozen, left: Path, clock: Clock, form: str) -> None:
    environment = dict(line.split("=", 1) for line in (left / "keys.env").read_text().splitlines())
    sources: dict[str, Callable[[], KeySource]] = {
        "file": lambda: FileKeys(left / "keys"),
        "passphrase": lambda: PassphraseKeys(left / "keys-passphrase", frozen.manifest["passphrase"]),
        "environment": lambda: EnvironmentKeys(environment),
    }
    witness = Witness(left / "keys" / "checkpoint")
    said = frozen.manifest["vault"]
    with strongroom.open(left / "vault", keys=sources[form](), witness=witness, now=clock) as vault:
        assert vault.id == said["id"]
        assert asked(vault, said) == expected(said)


def test_log_of_an_earlier_version_verifies_with_the_same_root_and_continues_what_was_seen(
    left: Path, said: dict[str, Any]
) -> None:
    report = strongroom.verify(left / "vault", keys=FileKeys(left / "keys"), archive=left / "log-archive")
    assert {"ok": report.ok, "size": report.size, "root": report.root, "objects": report.objects} == said["verify"]


def test_log_that_was_put_back_to_then_is_noticed(left: Path, clock: Clock, said: dict[str, Any]) -> None:
    with strongroom.open(left / "vault", keys=FileKeys(left / "keys"), now=clock) as vault:
        vault.memory(said["caps"]["alice"]).put("Seen by the newer version", namespace="work")
        vault.audit.checkpoint()
    (left / "vault" / "vault.db").write_bytes((left / "backup" / "vault.db").read_bytes())
    report = strongroom.verify(left / "vault", keys=FileKeys(left / "keys"), archive=left / "log-archive")
    assert [one.flaw for one in report.findings] == ["log_rolled_back"]


def test_upgraded_vault_takes_lines_forgets_rotates_mints_and_still_verifies(
    left: Path, clock: Clock, said: dict[str, Any]
) -> None:
    keys = FileKeys(left / "keys")
    with strongroom.open(left / "vault", keys=keys, now=clock) as vault:
        memory = vault.memory(said["caps"]["alice"])
        old = said["lines"]["alice"][0]
        new = memory.put("The lapwing nests in the new meadow", namespace="garden").id
        assert memory.get("where does the lapwing nest?")[0].id == new
        assert memory.put(old["text"], **{name: old[name] for name in old if name != "text"}).duplicate
        assert memory.forget(ids=[old["id"]]).ids == (old["id"],)
        profile = memory.profile("personal")
        memory.set_profile("Alice likes maps.", namespace="personal", version=profile.version)
        vault.rotate_actor("local/alice")
        vault.rotate_root()
        vault.memory(said["caps"]["bob"]).erase(namespaces=["personal"])
        assert vault.revoke(said["caps"]["bearer"])
    with strongroom.open(left / "vault", keys=keys, now=clock) as vault:
        found = {hit.id for hit in lines(vault.memory(said["caps"]["alice"]))}
        assert (new in found, old["id"] in found) == (True, False)
        with pytest.raises(errors.CapRevoked):
            vault.memory(said["caps"]["bearer"]).get("Chengdu")
        assert vault.audit.verify(archive=left / "log-archive").ok
