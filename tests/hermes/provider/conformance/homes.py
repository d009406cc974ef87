"""Homes wired for the conformance kit, each at its first use: embedded, with every tool, or behind a server.

The kit makes a home of its own for each check and calls a factory without arguments; so a factory finds the home in
the environment and wires it as `strongroom wire hermes` would, once, however many processes the check has. What is not
the home's is put where a person has it: the vault and its keys in the data directory, the cap and the state outside of
the home.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import strongroom
from strongroom import FileKeys, settings
from strongroom.caps.chain import Token
from strongroom.hermes import cap_file, policy, runtime_cap
from strongroom.hermes.install.policy_template import Wiring, policy_text
from strongroom.hermes.provider import StrongroomProvider
from strongroom.host.conformance import Subject
from strongroom.private_files import make_directory, write_file
from strongroom.vault.vault import Vault

ROOT = Path(__file__).parents[4]
PATIENCE = 60
"""Seconds after which a server counts as one that does not start."""
NAMESPACES = policy.SENSITIVITY
SCOPE = "hermes/"
"""What a server's cap covers: the checks have a profile each, and so actors of their own in one vault."""
EMBEDDED, WITH_TOOLS = Subject(f"{__name__}:embedded"), Subject(f"{__name__}:with_tools")
URL, CAP_FILE, INBOX = "CONFORMANCE_URL", "CONFORMANCE_CAP_FILE", "CONFORMANCE_INBOX"


def embedded() -> StrongroomProvider:
    """A provider whose vault is in the check's own home directory."""
    _wire_once("none")
    return StrongroomProvider()


def with_tools() -> StrongroomProvider:
    """The same, where the model is given every tool."""
    _wire_once("full")
    return StrongroomProvider()


def keeps_nothing() -> StrongroomProvider:
    """The same as embedded, where the owner has switched keeping off."""
    place = policy.path_of(_home())
    _wire_once("none")
    write_file(place, place.read_bytes().replace(b"turns = true", b"turns = false"), new=False)
    return StrongroomProvider()


def served() -> StrongroomProvider:
    """A provider that asks the server of the environment."""
    home = _home()
    if not policy.path_of(home).exists():
        cap = cap_file.read(Path(os.environ[CAP_FILE]))
        _write(home, cap, profile=home.parents[1].name, url=os.environ[URL], inbox=os.environ[INBOX])
    return StrongroomProvider()


@contextmanager
def serving(directory: Path, python: str = sys.executable) -> Iterator[Subject]:
    """A server process with a vault of its own, until the context ends; what the kit must know to check against it.

    `python` is the server's: that of a runtime need not have what a server needs.
    """
    with strongroom.create(directory / "vault", keys=FileKeys(directory / "keys"), namespaces=NAMESPACES) as vault:
        cap = cap_file.mint(vault, SCOPE, NAMESPACES)
        inbox = inbox_of(vault, cap, SCOPE)
    cap_file.write(directory / "cap", cap)
    told = json.dumps({"directory": str(directory), "unix": None, "place": {}, "options": {}})
    command = [python, "-m", "tests.server.child", told]
    with (
        (directory / "log").open("wb") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT) as server,
    ):
        try:
            environment = {URL: _first_line(server), CAP_FILE: str(directory / "cap"), INBOX: inbox}
            yield Subject(f"{__name__}:served", environment=environment)
        finally:
            server.kill()


def _first_line(server: subprocess.Popen[bytes]) -> str:
    """Where it listens."""
    assert server.stdout is not None
    ready, _, _ = select.select([server.stdout], [], [], PATIENCE)
    line = server.stdout.readline() if ready else b""
    assert line, "the server did not start"
    return line.decode().strip()


def inbox_of(vault: Vault, cap: Token, scope: str) -> str:
    return runtime_cap.inbox_of(vault.memory(cap, source="wire"), cap, scope)


def _home() -> Path:
    return Path(os.environ["HERMES_HOME"])


def _wire_once(tools: str) -> None:
    home = _home()
    if policy.path_of(home).exists():
        return
    found = settings.find()
    with settings.create_vault(found, NAMESPACES, None) as vault:
        scope = f"{SCOPE}default/"
        cap = cap_file.mint(vault, scope, NAMESPACES)
        inbox = inbox_of(vault, cap, scope)
    _write(home, cap, vault=found.vault, inbox=inbox, tools=tools)


def _write(
    home: Path, cap: Token, *, inbox: str, vault: str = "", url: str = "", profile: str = "default", tools: str = "none"
) -> None:
    """The cap, the state and last the policy: with that, the home is wired."""
    place = home.parent / ".local" / "share" / "strongroom" / "hermes"
    cap_file.write(place / "cap", cap)
    make_directory(place / "state")
    wiring = Wiring(profile, vault, url, "", str(place / "cap"), str(place / "state"), inbox, NAMESPACES)
    write_file(policy.path_of(home), policy_text(wiring, tools=tools).encode(), new=True)
