"""Homes wired for the conformance kit, each at its first use: embedded, with every tool, or behind a server.

The kit makes a home of its own for each check and calls a factory without arguments; so a factory finds the home in
the environment and wires it as `strongroom wire hermes` would, once, however many processes the check has. What is not
the home's is put where a person has it: the vault and its keys in the data directory, the cap and the state outside of
the home.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from strongroom import settings
from strongroom.cap import Token
from strongroom.files import make_directory, write_file
from strongroom.provider import StrongroomProvider
from strongroom.vault.owner import Vault
from strongroom.wiring import capfile, policy, runtimecap
from strongroom.wiring.template import Wiring, policy_text

NAMESPACES = policy.SENSITIVITY
SCOPE = "hermes/"
"""What a server's cap covers: the checks have a profile each, and so actors of their own in one vault."""
URL, CAP_FILE, INBOX = "CONFORMANCE_URL", "CONFORMANCE_CAP_FILE", "CONFORMANCE_INBOX"


def embedded() -> StrongroomProvider:
    """A provider whose vault is in the check's own home directory."""
    _wire_once("none")
    return StrongroomProvider()


def with_tools() -> StrongroomProvider:
    """The same, where the model is given every tool."""
    _wire_once("full")
    return StrongroomProvider()


def served() -> StrongroomProvider:
    """A provider that asks the server of the environment."""
    home = _home()
    if not policy.path_of(home).exists():
        cap = capfile.read(Path(os.environ[CAP_FILE]))
        _write(home, cap, profile=home.parents[1].name, url=os.environ[URL], inbox=os.environ[INBOX])
    return StrongroomProvider()


def served_by(vault: Vault, url: str, place: Path) -> Mapping[str, str]:
    """What a check's process must know of a server, with a cap that is minted here."""
    cap = capfile.mint(vault, f"{SCOPE}all/".removesuffix("all/"), NAMESPACES)
    capfile.write(place, cap)
    return {URL: url, CAP_FILE: str(place), INBOX: inbox_of(vault, cap, SCOPE)}


def inbox_of(vault: Vault, cap: Token, scope: str) -> str:
    return runtimecap.inbox_of(vault.memory(cap, source="wire"), cap, scope)


def _home() -> Path:
    return Path(os.environ["HERMES_HOME"])


def _wire_once(tools: str) -> None:
    home = _home()
    if policy.path_of(home).exists():
        return
    found = settings.find()
    with settings.create_vault(found, NAMESPACES, None) as vault:
        scope = f"{SCOPE}default/"
        cap = capfile.mint(vault, scope, NAMESPACES)
        inbox = inbox_of(vault, cap, scope)
    _write(home, cap, vault=found.vault, inbox=inbox, tools=tools)


def _write(
    home: Path, cap: Token, *, inbox: str, vault: str = "", url: str = "", profile: str = "default", tools: str = "none"
) -> None:
    """The cap, the state and last the policy: with that, the home is wired."""
    place = home.parent / ".local" / "share" / "strongroom" / "hermes"
    capfile.write(place / "cap", cap)
    make_directory(place / "state")
    wiring = Wiring(profile, vault, url, "", str(place / "cap"), str(place / "state"), inbox, NAMESPACES)
    write_file(policy.path_of(home), policy_text(wiring, tools=tools).encode(), new=True)
