"""The page on running a server: its unit, its commands, its figures and its wall are what the code and systemd have."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families

from strongroom import Vault
from strongroom.cli.app import app
from strongroom.cli.argument_types import EVERY
from strongroom.server.http.connection_limits import Connections
from strongroom.server.json_log import Sample
from strongroom.server.listen import PORT
from strongroom.server.metrics import Metrics
from strongroom.server.server_options import DEFAULT
from tests.docs.pages import DOCS, ROOT, blocks, code, rows, section

PAGE = DOCS / "service.md"
UNIT = ROOT / "examples" / "strongroom.service"
USERS = ROOT / "examples" / "strongroom.sysusers"
FIELDS = {
    "--holder-rate": DEFAULT.holder_rate,
    "--address-rate": DEFAULT.address_rate,
    "--connections": DEFAULT.connections,
    "--stop-within": DEFAULT.stop_seconds,
    "--checkpoint-every": DEFAULT.checkpoint_seconds,
}


def unit() -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(strict=True, interpolation=None)
    parsed.optionxform = str  # type: ignore[assignment,method-assign]
    parsed.read_string(UNIT.read_text())
    return parsed


def commands() -> list[list[str]]:
    """Every `strongroom ...` that the page and the unit only show."""
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    lines.append(unit()["Service"]["ExecStart"])
    parts = [shlex.split(part) for line in lines for part in line.split(" | ")]
    return [words[at + 1 :] for words in parts for at in range(len(words)) if _is_program(words, at)]


def _is_program(words: list[str], at: int) -> bool:
    """Whether the word is the program that is run, and not the user or the directory of that name."""
    return words[at].rpartition("/")[2] == "strongroom" and (at == 0 or words[at - 1] == "-H")


def options_of(words: list[str]) -> tuple[str, set[str]]:
    """The command that these words call, and the options it has."""
    command: click.Command = app
    path: list[str] = []
    context = click.Context(app, info_name="strongroom")
    while isinstance(command, click.Group):
        found = command.get_command(context, words[len(path)])
        assert found is not None, words
        path.append(words[len(path)])
        command = found
    return " ".join(path), {name for parameter in command.params for name in parameter.opts}


@pytest.mark.requirement("docs-service")
def test_commands_of_the_page_are_all_looked_at() -> None:
    assert {options_of(words)[0] for words in commands()} == {
        "init",
        "serve",
        "cap mint",
        "cap list",
        "cap revoke",
        "get",
        "restore",
        "audit verify",
        "audit accept-restore",
    }


@pytest.mark.requirement("docs-service")
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_command_that_is_only_shown_uses_options_that_exist(words: list[str]) -> None:
    path, known = options_of(words)
    assert not {word.partition("=")[0] for word in words if word.startswith("--")} - known, path


@pytest.mark.requirement("docs-service")
def test_unit_on_the_page_is_the_file() -> None:
    (shown,) = blocks(PAGE, "ini")
    assert UNIT.read_text().endswith(shown.text)


@pytest.mark.requirement("docs-service")
def test_unit_runs_as_a_user_of_its_own_and_keeps_to_its_places() -> None:
    service = unit()["Service"]
    assert service["User"] not in ("root", "")
    assert f"u {service['User']} " in USERS.read_text()
    assert f"g {service['Group']} " in USERS.read_text()
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "RestrictSUIDSGID"):
        assert service[name] == "yes", name
    assert (service["ProtectSystem"], service["UMask"], service["LimitCORE"]) == ("strict", "0077", "0")
    assert int(service["TimeoutStopSec"]) > DEFAULT.stop_seconds
    assert int(service["LimitNOFILE"]) > DEFAULT.connections
    assert f"--socket /run/{service['RuntimeDirectory']}/socket --socket-mode 0660" in service["ExecStart"]


@pytest.mark.requirement("docs-service")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_unit_is_one_to_systemd(tmp_path: Path) -> None:
    copy = tmp_path / "strongroom.service"
    copy.write_text(UNIT.read_text().replace("/usr/local/bin/strongroom", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert str(copy) not in done.stderr


@pytest.mark.requirement("docs-service")
def test_limits_of_the_page_are_the_servers_own() -> None:
    told = {
        code(option)[0]: _number(value) for option, value, _ in rows(section(PAGE, "## Limits, and how to change them"))
    }
    assert told == FIELDS
    assert set(told) <= options_of(["serve"])[1]


def _number(value: str) -> float:
    """A figure of the page: a number, or a duration as the option takes it."""
    return float(value) if value.isdigit() else EVERY.convert(value, None, None)


@pytest.mark.requirement("docs-service")
def test_proxy_of_the_page_takes_what_the_server_takes_and_keeps_the_metrics_to_itself() -> None:
    (proxy,) = (block.text for block in blocks(PAGE, "nginx"))
    assert f"client_max_body_size {DEFAULT.body_limit >> 20}m;" in proxy
    assert "location = /metrics { return 404; }" in proxy
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in proxy
    assert f"proxy_pass http://127.0.0.1:{PORT};" in proxy


@pytest.mark.requirement("docs-service", "server-metrics")
def test_page_names_every_metric_and_no_other(vault: Vault) -> None:
    metrics = Metrics(vault, Connections(1), Sample())
    metrics.count("memory.get", "ok", 0.001)
    vault.audit.keep_backup(vault.audit.checkpoint())
    vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"])
    text = metrics.text().decode()
    shown = {family.name for family in text_string_to_metric_families(text)}
    told = {
        re.sub(r"_total$", "", name)
        for cells in rows(section(DOCS / "monitoring.md", "## Metrics"))
        for name in code(cells[0])
    }
    assert told == shown


# The wall, as the unit builds it: another user, a group for the socket.


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that other users can walk through, unlike those of the test runner."""
    home = Path(tempfile.mkdtemp(prefix="sr-"))
    home.chmod(0o711)
    yield home
    shutil.rmtree(home)


SERVER_GROUP, AGENT = 54_321, 54_322


def as_agent(*command: str, member: bool) -> subprocess.CompletedProcess[bytes]:
    """Run a program of the system as the agent's user."""
    group = SERVER_GROUP if member else AGENT
    return subprocess.run(
        command, user=AGENT, group=group, extra_groups=[], env={}, capture_output=True, timeout=60, check=False
    )


@pytest.mark.requirement("docs-service", "served-wall")
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("curl") is None, reason="needs root, to become another user")
def test_users_of_the_group_reach_the_socket_and_neither_keys_nor_files(outside: Path) -> None:
    environment = {"HOME": str(outside / "owner"), "PATH": os.environ["PATH"]}
    (outside / "owner").mkdir(mode=0o700)
    (outside / "run").mkdir()
    os.chown(outside / "run", 0, SERVER_GROUP)
    (outside / "run").chmod(0o750)
    run = [sys.executable, "-m", "strongroom"]
    subprocess.run([*run, "init"], env=environment, check=True, capture_output=True, timeout=60)
    address = str(outside / "run" / "socket")
    serve = [*run, "serve", "--socket", address, "--socket-mode", "0660", "--json"]
    with subprocess.Popen(
        serve, env=environment, group=SERVER_GROUP, umask=0o077, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline()
            ask = ("/usr/bin/env", "curl", "-sS", "--unix-socket", address, "http://localhost/healthz")
            assert as_agent(*ask, member=True).stdout == b'{"status":"ok"}'
            assert as_agent(*ask, member=False).returncode != 0
            files = [path for path in (outside / "owner").rglob("*") if path.is_file()]
            assert {"root.keyring", "owner.cap", "vault.db"} <= {path.name for path in files}
            for path in files:
                assert as_agent("/usr/bin/env", "cat", str(path), member=True).returncode != 0, path
        finally:
            server.terminate()
