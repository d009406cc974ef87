"""doctor: each broken thing is found by its check, with what to do, and nothing is changed by looking."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from strongroom import EnvironmentKeys, Vault, settings
from strongroom.caps import chain as caplib
from strongroom.cli.doctor import vault_checks
from strongroom.engines.lexical import search
from strongroom.keys import FileKeys, default_directory
from strongroom.vault.create_open import identify
from tests.audit.tools import edit, query
from tests.cli.conftest import Cli, Done, opened, owner_cap, put_ended

NAMES = [name for name, _ in vault_checks.CHECKS]

Caps = Callable[..., Path]


def place() -> Path:
    return Path(settings.find().vault)


def keys() -> Path:
    return default_directory(identify(str(place())))


def states(done: Done) -> dict[str, str]:
    return {check["name"]: check["state"] for check in done.json["checks"]}


def check_of(done: Done, name: str) -> dict[str, Any]:
    (found,) = [check for check in done.json["checks"] if check["name"] == name]
    return dict(found)


# Each broken thing.


def _no_vault() -> None:
    shutil.rmtree(place())


def _rubbish() -> None:
    for name in ("vault.db-wal", "vault.db-shm"):
        (place() / name).unlink(missing_ok=True)
    (place() / "vault.db").write_bytes(b"rubbish" * 1000)


def _newer() -> None:
    body = query(place(), "SELECT body FROM objects WHERE name = 'vault/format'")[0][0]
    edit(place(), "UPDATE objects SET body = ? WHERE name = 'vault/format'", body.replace(b'"v":2', b'"v":9'))


def _no_root() -> None:
    (keys() / "root.keyring").unlink()


def _open_root() -> None:
    (keys() / "root.keyring").chmod(0o644)


def _no_issuer() -> None:
    (keys() / "issuer.key").unlink()


def _wrong_root() -> None:
    FileKeys(keys().parent / "other").create()
    shutil.copy(keys().parent / "other" / "root.keyring", keys() / "root.keyring")


def _forged_head() -> None:
    edit(place(), "UPDATE head SET mac = x'00'")


def _bad_witness() -> None:
    (keys() / "checkpoint").write_text("rubbish")


def _rolled_back() -> None:
    seen = (keys() / "checkpoint").read_text().split("\n")
    (keys() / "checkpoint").write_text("\n".join([seen[0], "999", *seen[2:]]))


def _bad_config() -> None:
    settings.config_path().parent.mkdir(parents=True, exist_ok=True)
    settings.config_path().write_text("engine = ")


def _unknown_engine() -> None:
    settings.config_path().parent.mkdir(parents=True, exist_ok=True)
    settings.config_path().write_text('engine = "oracle"')


def _bad_rules() -> None:
    settings.config_path().parent.mkdir(parents=True, exist_ok=True)
    settings.config_path().write_text("[routing]\nrubbish = 1\n")


@pytest.mark.requirement("cli-doctor")
@pytest.mark.parametrize(
    ("damage", "check", "code"),
    [
        (_no_vault, "vault", 7),
        (_rubbish, "vault", 6),
        (_newer, "format", 7),
        (_no_root, "key files", 7),
        (_open_root, "key files", 7),
        (_no_issuer, "key files", 7),
        (_wrong_root, "opening", 7),
        (_forged_head, "opening", 6),
        (_bad_witness, "log", 6),
        (_rolled_back, "log", 6),
        (_bad_config, "configuration", 7),
        (_unknown_engine, "engine", 7),
        (_bad_rules, "routing rules", 7),
    ],
)
def test_each_broken_thing_is_found_by_its_check_and_the_others_go_on(
    cli: Cli, vault: None, damage: Callable[[], None], check: str, code: int
) -> None:
    assert cli("doctor").code == 0
    damage()
    done = cli("doctor", "--json")
    found = states(done)
    assert list(found) == NAMES, "every check is made"
    assert (done.code, done.json["ok"], found[check]) == (code, False, "fail")
    first = next(one for one in done.json["checks"] if one["state"] == "fail")
    assert first["name"] == check, "the first fail is the one to mend"
    shown = cli("doctor")
    assert shown.code == code
    assert first["message"] in shown.out
    assert first["hint"] in shown.out


@pytest.mark.requirement("cli-doctor")
def test_keys_inside_the_vault_are_found(cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = place() / "keys"
    shutil.copytree(keys().parent, inside)
    monkeypatch.setenv("STRONGROOM_KEYS", str(inside))
    assert check_of(cli("doctor", "--json"), "key files")["state"] == "fail"


@pytest.mark.requirement("cli-doctor")
def test_clock_behind_the_log_is_found(cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(vault_checks, "time", SimpleNamespace(time=lambda: now - 3600))
    assert check_of(cli("doctor", "--json"), "clock")["state"] == "fail"


@pytest.mark.requirement("cli-doctor")
@pytest.mark.parametrize(("free", "state"), [(10 << 20, "fail"), (500 << 20, "warn"), (50 << 30, "ok")])
def test_disk_that_is_nearly_full_is_found(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch, free: int, state: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert check_of(cli("doctor", "--json"), "disk space")["state"] == state


@pytest.mark.requirement("cli-doctor")
def test_old_library_is_found(cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.40.1")
    monkeypatch.setattr(vault_checks, "sys", SimpleNamespace(version_info=(3, 10, 0)))
    found = states(cli("doctor", "--json"))
    assert (found["SQLite"], found["Python"]) == ("fail", "warn")


@pytest.mark.requirement("cli-doctor")
def test_vault_that_another_process_keeps_busy_or_that_others_can_enter_is_a_warning(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place().chmod(0o755)
    monkeypatch.setattr(Vault, "scrub", lambda _: False)
    done = cli("doctor", "--json")
    assert (done.code, states(done)["vault"], states(done)["store"]) == (0, "warn", "warn")


@pytest.mark.requirement("cli-doctor")
def test_log_that_was_not_verified_for_long_is_a_warning(cli: Cli, vault: None) -> None:
    os.utime(keys() / "checkpoint", (1_600_000_000, 1_600_000_000))
    assert states(cli("doctor", "--json"))["log"] == "warn"


@pytest.mark.requirement("cli-doctor", "audit-unseen")
def test_log_without_a_checkpoint_fails_with_a_code_of_its_own_until_it_is_accepted(cli: Cli, vault: None) -> None:
    (keys() / "checkpoint").unlink()
    done = cli("doctor", "--json")
    assert (done.code, check_of(done, "log")["state"], check_of(done, "log")["reason"]) == (8, "fail", "unseen")
    assert cli("audit", "checkpoint", "--yes").code == 0
    assert cli("doctor", "--json").code == 0


@pytest.mark.requirement("cli-doctor", "audit-unseen")
def test_log_that_was_rewritten_at_the_same_length_is_not_called_seen(cli: Cli, vault: None, home: Path) -> None:
    shutil.copytree(place(), home / "older")
    cli("put", "line one", "-n", "work")
    assert cli("audit", "verify").code == 0
    shutil.rmtree(place())
    shutil.copytree(home / "older", place())
    for number in range(5):
        cli("put", f"line {number}", "-n", "travel")
    done = cli("doctor", "--json")
    assert (done.code, check_of(done, "log")["state"]) == (6, "fail")


# The cap.


def expired() -> str:
    with opened() as vault:
        return caplib.mint(
            issuer_seed=FileKeys(keys()).issuer(),
            audience=vault.id,
            jti=bytes(16),
            holder_seed=None,
            now=1_600_000_000,
            ttl=60,
            actor="local/owner",
            ops=["get"],
            namespaces=["travel"],
        )


@pytest.mark.requirement("cli-doctor", "bad-cap")
def test_given_cap_that_ended_was_revoked_or_is_another_vaults_fails(cli: Cli, caps: Caps) -> None:
    with opened() as vault:
        revoked = vault.mint(actor="local/owner", ops=["get"], namespaces=["travel"], ttl=600)
        vault.revoke(revoked)
        good = vault.mint(actor="local/owner", ops=["get"], namespaces=["travel"], ttl=600)
    assert cli("init", "second").code == 0
    foreign = cli("cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--vault", "second").out.strip()
    tokens = {"expired": expired(), "revoked": revoked, "foreign": foreign, "rubbish": "rubbish"}
    reasons = {
        "expired": "cap_expired",
        "revoked": "cap_revoked",
        "foreign": "cap_audience",
        "rubbish": "cap_malformed",
    }
    for name, token in tokens.items():
        done = cli("doctor", "--cap-file", str(caps(f"{name}.cap", token)), "--json")
        assert (done.code, check_of(done, "cap")["reason"]) == (7, reasons[name])
    done = cli("doctor", "--cap-file", str(caps("good.cap", good)), "--json")
    assert (done.code, check_of(done, "cap")["state"]) == (0, "ok")
    assert good not in done.out


@pytest.mark.requirement("cli-doctor")
def test_own_cap_that_is_missing_or_ended_is_a_warning_and_none_is_made(cli: Cli, vault: None) -> None:
    path = owner_cap()
    path.write_text(expired())
    path.chmod(0o600)
    assert states(cli("doctor", "--json"))["cap"] == "warn"
    path.unlink()
    assert states(cli("doctor", "--json"))["cap"] == "warn"
    assert not path.exists()


@pytest.mark.requirement("cli-doctor", "expire-sweep")
def test_lines_that_have_ended_and_are_stored_are_counted_with_the_command_that_forgets_them(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check_of(cli("doctor", "--json"), "ended lines")["state"] == "ok"
    put_ended(monkeypatch)
    found = check_of(cli("doctor", "--json"), "ended lines")
    assert (found["state"], found["hint"]) == ("warn", "run `strongroom scrub vault`")
    assert found["message"].startswith("1 line and 1 document have ended")
    assert check_of(cli("doctor", "--json"), "ended lines") == found, "looking forgets nothing"
    cli("scrub", "vault")
    assert check_of(cli("doctor", "--json"), "ended lines")["state"] == "ok"


@pytest.mark.requirement("cli-doctor", "expire-sweep")
def test_number_of_memories_that_were_searched_is_said_if_it_is_not_all(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("put", "a trip", "-n", "travel")
    put_ended(monkeypatch)
    monkeypatch.setattr(vault_checks, "_SEARCHED", 1)
    assert check_of(cli("doctor", "--json"), "ended lines")["message"].endswith("(searched: 1 of 2 memories)")


# What is well.


@pytest.mark.requirement("cli-doctor")
def test_sound_vault_is_well_and_looking_changes_nothing(cli: Cli, vault: None) -> None:
    cli("put", "a trip", "-n", "travel")
    before = cli("audit", "show", "--json").json["size"]
    done = cli("doctor", "--json")
    assert (done.code, done.json["ok"], set(states(done).values())) == (0, True, {"ok"})
    assert [check["number"] for check in done.json["checks"]] == list(range(1, len(NAMES) + 1))
    assert cli("audit", "show", "--json").json["size"] == before
    assert "all is well" in cli("doctor").out


@pytest.mark.requirement("cli-doctor")
@pytest.mark.requirement("recall-kernel")
def test_whether_recalls_are_compiled_is_said(cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_of(cli("doctor", "--json"), "engine")["message"] == "the default one loads, compiled"
    monkeypatch.setattr(search, "kernel", None)
    assert "not compiled" in check_of(cli("doctor", "--json"), "engine")["message"]


def test_first_fail_without_any_vault_says_how_to_make_one(cli: Cli, home: Path) -> None:
    done = cli("doctor", "--json")
    assert done.code == 7
    assert "strongroom init" in check_of(done, "vault")["hint"]
    assert sum(check["state"] == "fail" for check in done.json["checks"]) == 1
    assert list(home.iterdir()) == []


@pytest.mark.requirement("cli-doctor")
def test_keys_in_the_environment_are_a_warning(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in EnvironmentKeys.generate().items():
        monkeypatch.setenv(name, value)
    assert cli("init").code == 0
    done = cli("doctor", "--json")
    assert (done.code, states(done)["key files"], states(done)["opening"]) == (0, "warn", "ok")


@pytest.mark.requirement("cli-doctor", "server-scrub")
def test_scrub_that_was_put_off_is_said_while_it_waits_and_done_where_it_can_be(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place() / "vault.scrub").touch()
    with monkeypatch.context() as patch:
        patch.setattr(Vault, "scrub", lambda _: False)
        waiting = check_of(cli("doctor", "--json"), "store")
    assert (waiting["state"], "deleted bytes" in waiting["message"]) == ("warn", True)
    assert check_of(cli("doctor", "--json"), "store")["state"] == "ok"
    assert not (place() / "vault.scrub").exists()
