"""A Hermes home wired to a vault of some lines, and the processes of the real Hermes that use it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

import strongroom
from bench import vaults
from bench.hermes_child import OF_FACTS
from bench.lines import facts, lines
from strongroom import NewLine, routing
from strongroom.hermes import cap_file, runtime_cap

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv-hermes" / "bin" / "python"
SCOPE = "hermes/default/"
OWNER = f"{SCOPE}owner"
_DAY = 24 * 3600
_COMPILED = ROOT / "bench" / "out" / "compiled"
"""Modules as an installed package has them, whatever the environment says about writing them."""
_NUMPY = ROOT / ".cache" / "bench" / "numpy"
"""Not below `bench`, whose Python files are checked."""


@dataclass(frozen=True, slots=True)
class Home:
    """A home below `place`, wired to the vault there."""

    place: Path
    inbox: str
    url: str = ""
    library: Path | None = None
    """A directory of packages that its processes can import besides those of Hermes."""
    of_facts: bool = False
    """Whether its lines are facts worded alike, and not talk."""

    @property
    def path(self) -> Path:
        return self.place / "home"

    def environment(self) -> dict[str, str]:
        """Everything of the user's own is below `place`; nothing of this machine's settings is seen."""
        known = {name: value for name, value in os.environ.items() if not name.startswith(("STRONGROOM", "HERMES"))}
        known.pop("PYTHONDONTWRITEBYTECODE", None)
        if self.library is not None:
            known["PYTHONPATH"] = str(self.library)
        if self.of_facts:
            known[OF_FACTS] = "yes"
        return known | {
            "HOME": str(self.place),
            "XDG_CONFIG_HOME": str(self.place / "config"),
            "XDG_DATA_HOME": str(self.place / "data"),
            "HERMES_HOME": str(self.path),
            "STRONGROOM_KEYS": str(self.place / "keyring"),
            "PYTHONPYCACHEPREFIX": str(_COMPILED),
        }

    def served_at(self, url: str) -> Home:
        """The same home, wired to a server instead."""
        return replace(self, url=url).wired()

    def copy(self, place: Path) -> Home:
        """The same lines once more, in a vault of their own."""
        shutil.copytree(self.place, place)
        return replace(self, place=place).wired()

    def wired(self) -> Home:
        """Write the policy, as `strongroom wire hermes` would."""
        where = {"url": self.url} if self.url else {"vault": str(self.place / "vault")}
        said = where | {"cap": str(self.place / "runtime.cap"), "state": str(self.place / "state"), "inbox": self.inbox}
        self.path.mkdir(exist_ok=True)
        text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items())
        (self.path / "strongroom.toml").write_text(text)
        return self


def make(place: Path, count: int, *, ask: bool = True, of_facts: bool = False) -> Home:
    """A home whose owner has `count` lines. `ask` leaves the pages that a first question leaves."""
    place.mkdir()
    with vaults.make(place) as vault:
        shutil.copytree(place / "keys", place / "keyring" / vault.id)
        runtime = cap_file.mint(vault, SCOPE, vault.namespaces)
        cap_file.write(place / "runtime.cap", runtime)
        owner = strongroom.attenuate(runtime, actor=OWNER, ttl=_DAY)
        vaults.fill(vault.memory(owner), placed(lines(1, count, facts(1) if of_facts else None)))
        inbox = runtime_cap.inbox_of(vault.memory(runtime), runtime, SCOPE)
        home = Home(place, inbox, of_facts=of_facts).wired()
    if ask:
        with vaults.reopen(place) as vault:
            vault.memory(owner).get("Where did I leave the printer?")
    return home


def placed(known: Iterable[NewLine]) -> Iterator[NewLine]:
    """The lines in the namespaces to which the default rules send them."""
    rules = routing.default_rules()
    return (msgspec.structs.replace(line, namespace=routing.route(line.text, rules).namespace) for line in known)


def numpy() -> Path | None:
    """A directory with numpy for Hermes' Python, which has none; None if it cannot be got. Installed once."""
    if not _NUMPY.exists():
        print(f"bench: installing numpy into {_NUMPY}", file=sys.stderr)
        draft = _NUMPY.with_name("numpy-draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.parent.mkdir(parents=True, exist_ok=True)
        command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(draft), "numpy"]
        if subprocess.run(command, check=False).returncode:
            return None
        draft.rename(_NUMPY)
    return _NUMPY


class Child:
    """A process of Hermes that does turns when it is told to."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def turns(self, number: int) -> dict[str, Any]:
        """Have it do so many turns of each of its providers; what they took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"Hermes ended: {self._log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(answer)
        return found


@contextmanager
def child(home: Home, *sides: str) -> Iterator[Child]:
    """A process of Hermes with these providers, gone at the end."""
    log = home.place / "hermes.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*_command("measure"), *sides],
            env=home.environment(),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:
        yield Child(process, log)


def run(home: Home, *args: str) -> str:
    """A process of Hermes that does one thing; what it answers."""
    with (home.place / "hermes.log").open("wb") as errors:
        done = subprocess.run(
            [*_command(args[0]), *args[1:]],
            env=home.environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"Hermes failed: {(home.place / 'hermes.log').read_text()[-2000:]}")
    return done.stdout


def _command(command: str) -> list[str]:
    if not PYTHON.exists():
        raise RuntimeError("Hermes is not installed; `make bench` does that")
    return [str(PYTHON), "-m", "bench.hermes_child", command]
