"""Every command that a message names exists, with its options; and what the hints about findings say is true."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pyrage  # type: ignore[import-untyped]
import pytest

import strongroom
from strongroom import Memory, settings
from strongroom.cli import archive_options
from strongroom.cli.app import app
from strongroom.errors import Denied
from strongroom.memory.admin_recorder import AdminRecorder
from tests import age
from tests.audit.tools import edit, fill, query
from tests.cli.conftest import Cli, opened, owner_cap

SOURCES = Path(strongroom.__file__).parent
MODULES = [*(SOURCES / "cli").rglob("*.py"), *(SOURCES / "vault").rglob("*.py"), *(SOURCES / "keys").rglob("*.py")]


def _named() -> Iterator[tuple[str, str]]:
    """Each `strongroom ...` in a text of these modules, with what is filled in standing as {}."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            text = ""
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
            yield from ((path.name, words) for words in re.findall(r"`strongroom ([^`]+)`", text))
            is_built = isinstance(node, ast.Call) and ast.unparse(node.func) in ("run.command", "again", "step")
            if is_built and isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                yield path.name, str(node.args[0].value)


MINT = ["cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h"]
NAMED = sorted(set(_named()))


@pytest.mark.requirement("cli-hints")
@pytest.mark.parametrize(("module", "words"), NAMED, ids=[f"{module}: {words}" for module, words in NAMED])
def test_command_that_a_message_names_exists_with_its_options(module: str, words: str) -> None:
    command: click.Command | None = app
    context = click.Context(app)
    rest = [one for one in shlex.split(words) if one not in ("...", "{}", "VERB")]
    if not rest or words.startswith(("{", "VERB", "<", "(")):
        return  # the name itself is filled in
    while rest and isinstance(command, click.Group) and not rest[0].startswith("-"):
        command = command.get_command(context, rest.pop(0))
    assert command is not None
    options = {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | {"--help"}
    assert [one for one in rest if one.startswith("-") and len(one) > 1 and one.split("=")[0] not in options] == []


def test_commands_are_found_at_all() -> None:
    assert {"audit accept-restore", "audit checkpoint --yes", "rotate issuer"} <= {words for _, words in NAMED}


# What the hints of findings say.


def place() -> Path:
    return Path(settings.find().vault)


def _revive(cli: Cli) -> str:
    """Put a forgotten line back into the store, and name it."""
    cli("put", "line one", "-n", "work")
    ((name, body),) = query(place(), "SELECT name, body FROM objects WHERE name LIKE '%/lines/%'")
    (line,) = cli("list", "--json").json["lines"]
    assert cli("forget", line["id"]).code == 0
    edit(place(), "UPDATE objects SET body = ? WHERE name = ?", body, name)
    return str(line["id"])


@pytest.mark.requirement("cli-hints", "cli-audit")
def test_revived_line_is_mended_by_forgetting_it_again(cli: Cli, vault: None) -> None:
    line = _revive(cli)
    done = cli("audit", "verify", "--json")
    assert (done.code, [one["flaw"] for one in done.json["findings"]]) == (6, ["object_revived"])
    assert "forget the line again" in done.json["findings"][0]["hint"]
    assert cli("forget", line).code == 0
    assert cli("audit", "verify").code == 0


def _sql(statement: str) -> Callable[[], object]:
    return lambda: edit(place(), statement)


DAMAGES = {
    "head_forged": _sql("UPDATE head SET mac = x'00'"),
    "log_truncated": _sql("DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)"),
    "entry_edited": _sql("UPDATE entries SET entry = x'00' WHERE number = 1"),
    "log_edited": _sql("UPDATE entries SET leaf = zeroblob(32) WHERE number = 1"),
    "entry_extra": _sql("INSERT INTO entries SELECT max(number) + 1, leaf, entry FROM entries"),
    "entry_missing": _sql("UPDATE entries SET entry = NULL WHERE number = 1"),
    "object_missing": _sql(
        "DELETE FROM objects WHERE name = (SELECT min(name) FROM objects WHERE name LIKE '%/lines/%')"
    ),
    "object_altered": _sql(
        "UPDATE objects SET body = x'00' WHERE name = (SELECT min(name) FROM objects WHERE name LIKE '%/lines/%')"
    ),
    "object_extra": _sql("INSERT INTO objects VALUES (-1, 'vault/stray', x'00')"),
}


@pytest.mark.requirement("cli-hints", "cli-audit")
@pytest.mark.parametrize("what", ["all of it", "the keys alone", "a cap's record alone"])
def test_objects_of_an_erased_actor_that_are_back_are_mended_by_erasing_again(cli: Cli, vault: None, what: str) -> None:
    with opened() as owner:
        cap = owner.mint(actor="local/bob", ops=["put"], namespaces=["work"], ttl=600)
        owner.memory(cap).put("a line")
        kept = dict(query(place(), "SELECT name, body FROM objects"))
        owner.erase("local/bob")
    left = dict(query(place(), "SELECT name, body FROM objects WHERE body IS NOT NULL"))
    back = {name: body for name, body in kept.items() if name not in left}
    if what != "all of it":
        end = "/keys" if "keys" in what else next(name for name in back if name.startswith("vault/caps/"))
        back = {name: body for name, body in back.items() if name.endswith(end)}
    for name, body in back.items():
        edit(place(), "INSERT OR REPLACE INTO objects SELECT min(min(version), 0) - 1, ?, ? FROM objects", name, body)
    done = cli("audit", "verify", "--json")
    assert done.code == 6
    assert all("erase" in one["hint"] for one in done.json["findings"])
    all_of_them = ["--namespaces", "personal,family,work,travel"]
    token = cli("cap", "mint", "--for", "local/bob", "--ops", "erase", "--ttl", "1h", "--json", *all_of_them)
    assert cli("erase", "--everything", "--yes", "--cap-file", "-", stdin=token.json["token"]).code == 0
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-hints", "cli-audit")
def test_vault_without_its_format_record_is_mended_by_a_backup_and_names_no_verify(cli: Cli, vault: None) -> None:
    assert cli("backup", "copy").code == 0
    edit(place(), "UPDATE objects SET body = x'00' WHERE name = 'vault/format'")
    for words in (["audit", "verify"], ["get", "a question"], ["namespaces", "list"]):
        done = cli(*words, "--json")
        assert (done.code, done.reason) == (6, "tampered")
        assert ("backup" in done.error["hint"], "audit verify" in done.error["hint"]) == (True, False)
    assert cli("doctor", "--json").code == 6
    assert cli("restore", "copy", "--move-away").code == 0
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-hints", "cli-audit")
def test_entries_behind_the_end_are_seen_by_doctor_because_they_stop_every_command(cli: Cli, vault: None) -> None:
    assert cli("doctor").code == 0
    DAMAGES["entry_extra"]()
    assert cli("put", "line one", "-n", "work").code == 6
    looked = cli("doctor", "--json")
    (found,) = [one for one in looked.json["checks"] if one["state"] == "fail"]
    assert (looked.code, found["name"], found["reason"]) == (6, "log", "tampered")
    (named,) = re.findall("`strongroom ([^`]+)`", found["hint"])
    assert cli(*named.split()).code == 6


@pytest.mark.requirement("cli-hints", "cli-audit")
def test_older_copy_that_was_used_since_is_accepted_by_the_hinted_command(cli: Cli, vault: None) -> None:
    assert cli("backup", "copy").code == 0
    cli("put", "line one", "-n", "work")
    assert cli("audit", "verify").code == 0
    assert cli("restore", "copy", "--move-away").code == 0
    for text in ("line two", "line three"):
        cli("put", text, "-n", "work")
    done = cli("audit", "verify", "--json")
    assert (done.code, [one["flaw"] for one in done.json["findings"]]) == (6, ["log_forked"])
    looked = [one for one in cli("doctor", "--json").json["checks"] if one["state"] == "fail"]
    hints = [done.json["findings"][0]["hint"], *(one["hint"] for one in looked)]
    assert all("`strongroom audit accept-restore`" in hint for hint in hints)
    assert cli("audit", "accept-restore", "--yes").code == 0
    assert [cli("audit", "verify").code, cli("doctor").code] == [0, 0]


@pytest.mark.requirement("cli-hints", "cli-audit")
def test_damaged_archive_is_mended_by_the_right_directory_or_its_copy(cli: Cli, vault: None, home: Path) -> None:
    with opened() as owner:
        fill(owner, 2 * 256)
        assert owner.audit.archive(home / "old") > 0
    assert cli("audit", "verify", "--archive", "old").code == 0
    bundle = max((home / "old" / "tile" / "entries").rglob("*000"))
    kept = bundle.read_bytes()
    bundle.write_bytes(b"rubbish")
    for directory in ("old", "another"):
        done = cli("audit", "verify", "--archive", directory, "--json")
        assert done.code == 6
        hints = {one["flaw"]: one["hint"] for one in done.json["findings"]}
        assert "--archive" in hints["archive_damaged"]
    bundle.write_bytes(kept)
    assert [cli("audit", "verify", "--archive", "old").code, cli("audit", "verify").code] == [0, 0]


@pytest.mark.requirement("cli-hints", "cli-audit")
@pytest.mark.parametrize("flaw", DAMAGES)
def test_damage_hinted_at_a_backup_is_mended_by_it(cli: Cli, vault: None, flaw: str) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "copy").code == 0
    cli("put", "line two", "-n", "work")
    assert cli("audit", "verify").code == 0
    DAMAGES[flaw]()
    done = cli("audit", "verify", "--json")
    hints = {one["flaw"]: one["hint"] for one in done.json["findings"]}
    assert (done.code, flaw in hints) == (6, True)
    assert "backup" in hints[flaw]
    assert cli("audit", "accept-restore", "--yes", "--json").code == 6, "a flaw is not accepted away"
    assert cli("restore", "copy", "--move-away").code == 0
    rolled = cli("audit", "verify", "--json").json["findings"]
    assert [one["flaw"] for one in rolled] == ["log_rolled_back"]
    (named,) = re.findall("`strongroom ([^`]+)`", rolled[0]["hint"])
    assert cli(*named.split(), "--yes").code == 0
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-hints")
@pytest.mark.parametrize("terms", [{"actor": "local/bob"}, {"actor_scope": "local/"}], ids=["actor", "scope"])
def test_rotation_that_a_holder_keeps_from_ending_ends_after_the_hinted_revocation(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch, terms: dict[str, str]
) -> None:
    with opened() as other:
        token = other.mint(ops=["put", "erase"], namespaces=["work"], ttl=3600, **terms)  # type: ignore[arg-type]
        held = other.memory(strongroom.attenuate(token, actor="local/bob"))
        held.put("a line")
        _keep_from_rotating(monkeypatch, held)
        done = cli("rotate", "actor", "local/bob", "--json")
        assert (done.code, done.reason) == (7, "store_unavailable")
        (named,) = re.findall("`strongroom ([^`]+)`", done.error["hint"])
        assert cli(*named.split()).code == 0
        assert cli("rotate", "actor", "local/bob").code == 0


def _keep_from_rotating(monkeypatch: pytest.MonkeyPatch, held: Memory) -> None:
    """Have a holder put and erase just before each commit of a rotation, for as long as its cap is good."""
    commit = AdminRecorder.record_owner

    def late(recorder: AdminRecorder, op: str, *given: Any, **named: Any) -> object:
        if op == "rotate-actor":
            with suppress(Denied):
                held.put("another line", namespace="work")
                held.erase(namespaces=["work"])
        return commit(recorder, op, *given, **named)

    monkeypatch.setattr(AdminRecorder, "record_owner", late)


# What does not even open: verify is the last to ask, so its hint names no other verb that only says the same.

WRECKS: dict[str, Callable[[], object]] = {
    "secrets damaged": _sql("UPDATE objects SET body = x'00' WHERE name = 'vault/secrets'"),
    "secrets gone": _sql("DELETE FROM objects WHERE name = 'vault/secrets'"),
    "namespaces damaged": _sql("UPDATE objects SET body = x'00' WHERE name = 'vault/namespaces'"),
    "head gone": _sql("DELETE FROM head"),
    "file damaged": lambda: (place() / "vault.db").write_bytes(b"rubbish" * 1000),
}


@pytest.mark.requirement("cli-hints", "cli-audit")
@pytest.mark.parametrize("wreck", WRECKS)
def test_vault_that_does_not_open_is_told_to_restore_a_backup_which_mends_it(cli: Cli, vault: None, wreck: str) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "copy").code == 0
    WRECKS[wreck]()
    for words in (["get", "line"], ["cap", "list"], ["rotate", "issuer", "--yes"], ["backup", "another"]):
        done = cli(*words, "--json")
        assert (done.code, done.reason) == (6, "tampered")
        assert "`strongroom audit verify`" in done.error["hint"] or "backup" in done.error["hint"]
    failed = [one for one in cli("doctor", "--json").json["checks"] if one["state"] == "fail"]
    assert all(one["hint"] for one in failed)
    done = cli("audit", "verify", "--json")
    assert (done.code, done.reason) == (6, "tampered")
    assert ("backup" in done.error["hint"], "`strongroom" in done.error["hint"]) == (True, False)
    assert cli("restore", "copy", "--move-away").code == 0
    assert [cli("audit", "verify").code, cli("get", "line").code] == [0, 0]


# cap, rotate, backup, restore: state, command, and what it says.

OLD_ROOT = ["rotate", "root"]
STATES: dict[str, tuple[list[list[str]], list[str], int, str, str]] = {
    "mint into a file that is there": ([["backup", "f"]], [*MINT, "--out", "f"], 2, "invalid_request", "another file"),
    "mint into no directory": ([], [*MINT, "--out", "no/f"], 2, "invalid_request", "a file in a directory"),
    "attenuate to nothing": ([], ["cap", "attenuate", "--ops", "renew"], 2, "invalid_request", "forget"),
    "renew without a cap": ([], ["cap", "renew"], 3, "cap_missing", "--cap-file"),
    "revoke a short link": ([], ["cap", "revoke", "abc"], 2, "invalid_request", "cap list"),
    "revoke an unknown link": ([], ["cap", "revoke", "0" * 16], 2, "invalid_request", "cap list"),
    "rotate issuer without yes": ([], ["rotate", "issuer"], 2, "usage", ""),
    "rotate an actor of no keys": ([], ["rotate", "actor", "local/nobody"], 2, "invalid_request", ""),
    "rotate root with nothing left": ([], ["rotate", "root", "--continue"], 2, "invalid_request", "begin a new one"),
    "backup over something": ([["backup", "c"]], ["backup", "c"], 2, "vault_exists", "another place"),
    "restore of no backup": ([], ["restore", "nowhere"], 4, "not_found", "strongroom backup"),
    "restore over a vault": ([["backup", "c"]], ["restore", "c"], 2, "vault_exists", "--move-away"),
    "restore of an older root": (
        [["backup", "c"], OLD_ROOT],
        ["restore", "c", "--to", "x"],
        7,
        "key_unavailable",
        "saved with this vault or copy",
    ),
    "a restore that was not rolled back": ([], ["audit", "accept-restore", "--yes"], 2, "invalid_request", ""),
    "prove an entry that is not there": ([], ["audit", "prove", "99"], 2, "invalid_request", ""),
}


@pytest.mark.requirement("cli-hints")
@pytest.mark.parametrize("state", STATES)
def test_each_refusal_of_the_owners_verbs_has_its_reason_code_and_way_on(cli: Cli, vault: None, state: str) -> None:
    before, words, code, reason, says = STATES[state]
    for one in before:
        assert cli(*one).code == 0
    done = cli(*words, "--json")
    assert (done.code, done.reason) == (code, reason), done.err
    assert says in done.error["hint"], done.error


@pytest.mark.requirement("cli-hints")
@pytest.mark.parametrize("what", ["vault", "owner.cap"])
def test_file_that_others_can_read_is_mended_by_the_chmod_that_doctor_hints(cli: Cli, vault: None, what: str) -> None:
    path = place() if what == "vault" else owner_cap()
    path.chmod(0o755 if what == "vault" else 0o644)
    (found,) = [one for one in cli("doctor", "--json").json["checks"] if one["state"] in ("warn", "fail")]
    command, _, _ = found["hint"].partition(",")
    subprocess.run(shlex.split(command), check=True)
    assert "all is well" in cli("doctor").out


@pytest.mark.requirement("cli-hints")
def test_backup_of_an_older_root_opens_with_the_keys_of_its_time_in_another_place_as_hinted(
    cli: Cli, vault: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyrage.passphrase, "encrypt", age.encrypt)
    secret = home / "passphrase"
    secret.write_text("correct horse battery")
    secret.chmod(0o600)
    monkeypatch.setenv(archive_options.VARIABLE, str(secret))
    cli("put", "line one", "-n", "work")
    assert cli("backup", "copy", "--with-keys", "keys.age").code == 0
    assert cli("rotate", "root").code == 0
    done = cli("restore", "copy", "--to", "older", "--json")
    assert (done.reason, "saved with this vault or copy" in done.error["hint"]) == ("key_unavailable", True)
    done = cli("restore", "copy", "--to", "older", "--keys", "keys.age", "--json")
    assert (done.reason, "STRONGROOM_KEYS" in done.error["hint"]) == ("key_unavailable", True)
    assert not (home / "older").exists()
    monkeypatch.setenv("STRONGROOM_KEYS", str(home / "keys of its time"))
    assert cli("restore", "copy", "--to", "older", "--keys", "keys.age").code == 0
    assert "line one" in cli("get", "line", "--vault", "older").out
