"""`strongroom.local()`: the owner's memory in one line, the same as the command line's."""

from __future__ import annotations

import os
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import EnvironmentKeys, Memory, NewLine, Vault, settings
from strongroom.errors import CapNamespaceDenied, StrongroomError
from strongroom.keys import default_directory
from strongroom.vault import owner_cap
from strongroom.vault.create_open import identify
from tests.cli.conftest import Cli
from tests.store.children import Process

pytestmark = pytest.mark.usefixtures("home")

OUTSIDE = """
[routing]
default = "travel"
[[routing.rules]]
name = "body"
namespace = "health"
words = ["pulse"]
"""
"""A rule for a namespace that new vaults do not have."""
PASSPHRASE = "several unrelated words"


def _reason(attempt: Any, *given: Any, **named: Any) -> str:
    with pytest.raises(StrongroomError) as raised:
        attempt(*given, **named)
    return raised.value.reason


def _key_directories() -> list[str]:
    return sorted(path.parent.name for path in default_directory("").glob("*/root.keyring"))


def _owners_cap() -> Path:
    return default_directory(identify(settings.find().vault)) / owner_cap.NAME


def _vault() -> Vault:
    return strongroom.open(settings.find().vault)


def _write_rules(text: str) -> None:
    path = settings.config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _passphrase_file(home: Path, monkeypatch: pytest.MonkeyPatch, passphrase: str = PASSPHRASE) -> Path:
    path = home / "passphrase"
    path.write_text(passphrase + "\n")
    path.chmod(0o600)
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(path))
    return path


# What is refused.


@pytest.mark.requirement("local-cap")
def test_local_may_neither_erase_nor_edit_a_profile_nor_renew() -> None:
    with strongroom.local() as memory:
        memory.put("a trip")
        refused = [
            _reason(memory.erase),
            _reason(memory.erase, everything=True),
            _reason(memory.profile, "travel"),
            _reason(memory.set_profile, "a text", namespace="travel"),
            _reason(memory.renew),
        ]
        assert set(refused) == {"cap_op_mismatch"}
        assert len(memory.list().lines) == 1


@pytest.mark.requirement("local-routing")
def test_local_put_that_a_rule_leads_outside_the_vault_is_denied_and_stored_nowhere() -> None:
    _write_rules(OUTSIDE)
    with strongroom.local() as memory:
        with pytest.raises(CapNamespaceDenied) as raised:
            memory.put("A resting pulse of 52")
        assert "namespace=" in raised.value.hint
        assert any("namespace=" in note for note in raised.value.__notes__)
        assert _reason(memory.put_many, [NewLine(text="a hotel"), NewLine(text="my pulse")]) == "cap_namespace_denied"
        assert memory.list().lines == ()
        assert memory.put("a hotel").namespace == "travel"


@pytest.mark.requirement("local-routing")
def test_local_put_under_a_narrowed_cap_never_falls_to_a_less_sensitive_namespace() -> None:
    with strongroom.local() as memory, _vault() as vault:
        cap = vault.mint(actor="local/owner", ops=["put", "list"], namespaces=["travel", "work"])
        less = memory.with_cap(cap)
        assert _reason(less.put, "Allergic to peanuts") == "cap_namespace_denied"
        assert less.list().lines == ()
        assert less.put("Trip to Chengdu").namespace == "travel"


@pytest.mark.requirement("local-routing")
def test_put_without_a_namespace_outside_local_is_refused_and_told_how() -> None:
    with strongroom.local() as memory, _vault() as vault:
        cap = vault.mint(actor="local/owner", ops=["put"], namespaces=["travel", "work"])
        with pytest.raises(StrongroomError) as raised:
            vault.memory(cap).put("Trip to Chengdu")
        assert raised.value.reason == "invalid_request"
        assert "strongroom.local()" in raised.value.hint
        assert memory.list().lines == ()


@pytest.mark.requirement("bad-local")
@pytest.mark.parametrize("text", [7, None, b"bytes", ""])
def test_local_put_of_anything_but_text_is_refused_like_any_put(text: Any) -> None:
    with strongroom.local() as memory:
        assert _reason(memory.put, text) == _reason(memory.put, text, namespace="personal") == "invalid_request"


@pytest.mark.requirement("bad-local")
def test_local_put_of_too_many_lines_is_refused_before_any_rule_is_read() -> None:
    _write_rules('[routing]\ndefault = "Not A Name"\n')
    with strongroom.local() as memory:
        assert _reason(memory.put_many, [NewLine(text="x")] * 257) == "too_many"
        assert _reason(memory.put, "x") == "invalid_request"
        assert memory.put("x", namespace="travel").namespace == "travel"


@pytest.mark.requirement("bad-local")
def test_local_with_locked_keys_and_no_passphrase_says_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _passphrase_file(home, monkeypatch)
    strongroom.local().close()
    monkeypatch.delenv("STRONGROOM_PASSPHRASE_FILE")
    with pytest.raises(StrongroomError) as raised:
        strongroom.local()
    assert raised.value.reason == "key_unavailable"
    assert "STRONGROOM_PASSPHRASE_FILE" in raised.value.hint
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(path))
    path.write_text("something else entirely")
    assert _reason(strongroom.local) == "key_unavailable"
    path.chmod(0o644)
    assert _reason(strongroom.local) == "key_unavailable"


@pytest.mark.requirement("bad-local")
def test_local_with_a_short_passphrase_or_without_its_file_makes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _passphrase_file(home, monkeypatch, "short")
    assert _reason(strongroom.local) == "invalid_request"
    path.unlink()
    assert _reason(strongroom.local) == "key_unavailable"
    assert _key_directories() == []
    assert not (Path(settings.find().vault) / "vault.db").exists()


@pytest.mark.requirement("bad-local", "keys-never-new")
def test_local_without_the_keys_of_its_vault_never_makes_new_ones() -> None:
    strongroom.local().close()
    directory = default_directory(identify(settings.find().vault))
    directory.rename(directory.with_name("moved"))
    assert _reason(strongroom.local) == "key_unavailable"
    assert _key_directories() == ["moved"]


@pytest.mark.requirement("bad-local")
def test_local_refuses_an_owners_cap_that_others_can_read_and_closes_the_vault() -> None:
    strongroom.local().close()
    _owners_cap().chmod(0o644)
    assert _reason(strongroom.local) == "key_unavailable"
    _owners_cap().chmod(0o600)
    strongroom.local().close()


@pytest.mark.requirement("bad-local")
def test_local_with_an_empty_path_or_a_file_is_refused(home: Path) -> None:
    assert _reason(strongroom.local, "") == "invalid_request"
    (home / "file").write_text("something else")
    assert _reason(strongroom.local, home / "file") == "store_unavailable"
    assert _key_directories() == []


# The same memory as the command line's.


@pytest.mark.requirement("local")
def test_local_recalls_what_strongroom_put_stored_and_the_reverse(cli: Cli) -> None:
    with strongroom.local() as memory:
        memory.put("Trip to Chengdu, May 25-29")
    assert "Chengdu" in cli("get", "when is the trip?").out
    assert cli("put", "Standup moves to ten").code == 0
    with strongroom.local() as memory:
        assert memory.get("standup")[0].text == "Standup moves to ten"
        assert {line.namespace for line in memory.list().lines} == {"travel", "work"}
        line = memory.get("standup")[0].id
        assert memory.forget(ids=[line]).ids == (line,)
        assert memory.snapshot().profiles == ()


@pytest.mark.requirement("local", "local-routing")
@pytest.mark.parametrize(
    "text", ["Trip to Chengdu, May 25-29", "Allergic to peanuts", "下周去成都旅行", "Standup moves to ten", "Hello"]
)
def test_local_routes_a_text_as_the_command_line_does(cli: Cli, text: str) -> None:
    with strongroom.local() as memory:
        one = memory.put(text).namespace
        (many,) = memory.put_many([NewLine(text=text)])
    assert cli("put", text, "--json").json["lines"][0]["namespace"] == one == many.namespace


@pytest.mark.requirement("local-routing")
def test_local_routes_only_the_lines_without_a_namespace() -> None:
    with strongroom.local() as memory:
        lines = [NewLine(text="Allergic to peanuts", namespace="work"), NewLine(text="Allergic to peanuts")]
        assert [one.namespace for one in memory.put_many(lines)] == ["work", "personal"]


@pytest.mark.requirement("local-routing")
def test_local_puts_everything_into_the_only_namespace_of_a_vault(cli: Cli, home: Path) -> None:
    assert cli("init", str(home / "notes"), "--namespaces", "notes").code == 0
    with strongroom.local(home / "notes") as memory:
        assert memory.put("Allergic to peanuts").namespace == "notes"


@pytest.mark.requirement("local")
def test_local_makes_the_vault_once_with_its_keys_and_cap(home: Path) -> None:
    for _ in range(2):
        with strongroom.local() as memory:
            memory.put("a trip")
    assert _key_directories() == [identify(settings.find().vault)]
    assert _owners_cap().stat().st_mode & 0o777 == 0o600
    with _vault() as vault:
        assert [record.actor for record in vault.caps()] == ["local/owner"]
        assert vault.audit.verify().ok


@pytest.mark.requirement("local")
def test_local_uses_the_vault_that_the_environment_or_its_argument_names(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_VAULT", str(home / "named"))
    monkeypatch.setenv("STRONGROOM_KEYS", str(home / "keys"))
    with strongroom.local() as memory, strongroom.local(home / "other") as other:
        memory.put("a trip")
        assert other.list().lines == ()
    assert sorted(path.name for path in (home / "keys").iterdir()) == sorted(
        [identify(home / "named"), identify(home / "other")]
    )


@pytest.mark.requirement("local")
def test_local_with_a_passphrase_file_makes_locked_keys_and_opens_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _passphrase_file(home, monkeypatch)
    with strongroom.local() as memory:
        memory.put("a trip")
    assert settings.is_locked(default_directory(identify(settings.find().vault)))
    with strongroom.local() as memory:
        assert memory.get("trip")[0].text == "a trip"


@pytest.mark.requirement("local")
def test_local_with_keys_in_the_environment_makes_no_key_files(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in EnvironmentKeys.generate().items():
        monkeypatch.setenv(name, value)
    _passphrase_file(home, monkeypatch)  # of no use here, and no hindrance
    for _ in range(2):
        with strongroom.local() as memory:
            memory.put("a trip")
    assert _key_directories() == []


@pytest.mark.requirement("local")
def test_local_memory_is_closed_with_its_vault() -> None:
    with strongroom.local() as memory:
        assert isinstance(memory, Memory)
    assert _reason(memory.list) == "store_unavailable"
    memory.close()


# The owner's cap.


@pytest.mark.requirement("local-cap")
@pytest.mark.parametrize("damage", ["missing", "garbage", "ending"])
def test_local_renews_an_owners_cap_that_is_no_good(damage: str) -> None:
    with strongroom.local() as memory:
        memory.put("a trip")
    if damage == "missing":
        _owners_cap().unlink()
    elif damage == "garbage":
        _owners_cap().write_text("garbage")
    else:
        with _vault() as vault:
            ends = vault.mint(actor="local/owner", ops=owner_cap.OPS, namespaces=vault.namespaces, ttl=6 * 86_400)
        _owners_cap().write_text(ends)
    before = _owners_cap().read_text() if damage != "missing" else ""
    with strongroom.local() as memory:
        assert memory.get("trip")[0].text == "a trip"
    assert _owners_cap().read_text() != before
    assert _owners_cap().stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("local-cap")
@pytest.mark.parametrize("voided", ["revoked", "actor", "issuer"])
def test_local_goes_on_when_its_cap_is_voided_while_it_is_open(voided: str) -> None:
    with strongroom.local() as memory, _vault() as vault:
        memory.put("a trip")
        if voided == "revoked":
            vault.revoke(_owners_cap().read_text().strip())
        elif voided == "actor":
            vault.revoke_actor("local/owner")
        else:
            vault.rotate_issuer()
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(memory.get("trip")[0].text)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == ["a trip"] * 4
        assert sum(record.void is None for record in vault.caps("local/owner")) == 1, "the threads share one new cap"


@pytest.mark.requirement("local-cap")
def test_local_covers_a_namespace_that_was_added_while_it_is_open() -> None:
    with strongroom.local() as memory, _vault() as vault:
        assert _reason(memory.put, "Blood type O", namespace="health") == "cap_namespace_denied"
        vault.add_namespace("health", before="family")
        assert memory.put("Blood type O", namespace="health").namespace == "health"


# At once.


def _put_when_told(pipe: Connection, home: Path) -> None:
    os.environ.update(HOME=str(home), STRONGROOM_KEYS=str(home / "keys"))
    pipe.send("ready")
    while True:
        place = pipe.recv()
        try:
            with strongroom.local(place) as memory:
                memory.put(f"a line of {os.getpid()}", namespace="travel")
            pipe.send(identify(place))
        except StrongroomError as error:
            pipe.send(error.reason)


@pytest.mark.requirement("local")
def test_processes_that_call_local_first_at_once_share_one_vault_and_lose_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_KEYS", str(home / "keys"))
    first = [Process(_put_when_told, home) for _ in range(3)]
    try:
        for one in first:
            assert one.pipe.recv() == "ready"
        ids = set()
        for place in (home / "one", home / "two"):
            for one in first:
                one.pipe.send(place)
            (vault_id,) = {one.pipe.recv() for one in first}
            with strongroom.local(place) as memory:
                assert len(memory.list().lines) == 3
            ids.add(vault_id)
        assert {path.name for path in (home / "keys").iterdir()} == ids
    finally:
        for one in first:
            one.kill()
