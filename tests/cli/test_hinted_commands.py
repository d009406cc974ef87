"""Every command that a message names exists, with its options; and what the hints about findings say is true."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import strongroom
from strongroom import settings
from strongroom.cli.app import app
from tests.audit.tools import edit, query
from tests.cli.conftest import Cli

SOURCES = Path(strongroom.__file__).parent
MODULES = [*(SOURCES / "cli").glob("*.py"), *(SOURCES / "vault").glob("*.py"), *(SOURCES / "keys").glob("*.py")]


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


NAMED = sorted(set(_named()))


@pytest.mark.requirement("cli-hints")
@pytest.mark.parametrize(("module", "words"), NAMED, ids=[f"{module}: {words}" for module, words in NAMED])
def test_a_command_that_a_message_names_exists_with_its_options(module: str, words: str) -> None:
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
def test_a_revived_line_is_mended_by_forgetting_it_again(cli: Cli, vault: None) -> None:
    line = _revive(cli)
    done = cli("audit", "verify", "--json")
    assert (done.code, [one["flaw"] for one in done.json["findings"]]) == (6, ["object_revived"])
    assert "forget it again" in done.json["findings"][0]["hint"]
    assert cli("forget", line).code == 0
    assert cli("audit", "verify").code == 0


def _sql(statement: str) -> Callable[[], object]:
    return lambda: edit(place(), statement)


DAMAGES = {
    "head_forged": _sql("UPDATE head SET mac = x'00'"),
    "log_truncated": _sql("DELETE FROM entries WHERE number = (SELECT max(number) FROM entries)"),
    "entry_edited": _sql("UPDATE entries SET entry = x'00' WHERE number = 1"),
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
@pytest.mark.parametrize("flaw", DAMAGES)
def test_what_is_to_be_mended_by_a_backup_is_mended_by_it(cli: Cli, vault: None, flaw: str) -> None:
    cli("put", "line one", "-n", "work")
    assert cli("backup", "copy").code == 0
    cli("put", "line two", "-n", "work")
    assert cli("audit", "verify").code == 0
    DAMAGES[flaw]()
    done = cli("audit", "verify", "--json")
    hints = {one["flaw"]: one["hint"] for one in done.json["findings"]}
    assert (done.code, flaw in hints) == (6, True)
    assert "backup" in hints[flaw] or "archived" in hints[flaw]
    assert cli("audit", "accept-restore", "--yes", "--json").code == 6, "a flaw is not accepted away"
    assert cli("restore", "copy", "--move-away").code == 0
    rolled = cli("audit", "verify", "--json").json["findings"]
    assert [one["flaw"] for one in rolled] == ["log_rolled_back"]
    (named,) = re.findall("`strongroom ([^`]+)`", rolled[0]["hint"])
    assert cli(*named.split(), "--yes").code == 0
    assert cli("audit", "verify").code == 0
