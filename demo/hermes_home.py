"""Hermes in the demonstration: a home of its own, wired to a vault or a server, and the processes that live in it.

Everything is the real Hermes but two things: the model, which is a script on loopback and keeps what reached it, and
the chat platform, which has no network. `driver` hands messages to Hermes' gateway; it is run by Hermes' own Python.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from demo.os_users import User
from demo.partner import Partner
from demo.report import Skipped
from demo.scripted_model import Model
from demo.stage import Stage
from strongroom.cli.demo_stage import PATIENCE, Done, Unexpected, answered, expect
from strongroom.hermes import policy as policies
from strongroom.hermes.policy import Policy

EMBEDDED, SERVED = "embedded", "served"
PROFILE = "hermes/default/"
OWNER = f"{PROFILE}owner"
MY_ID = "7"
NAMESPACES = "personal,family,work,travel"
RUNTIME_OPS = "put,get,list,snapshot,forget,renew"
COMMENT = "# What the owner wrote stays as it is."
_DRIVER = Path(__file__).parent / "programs" / "driver.py"
_DRIVER_MODULE = "demo.programs.driver"
_GATEWAY = {"GATEWAY_ALLOW_ALL_USERS": "true", "TELEGRAM_HOME_CHANNEL": "1"}
_NOT_FOR_HERMES = ("PYTHONPATH", "PYTHONHOME")
"""They are about the Python that runs the demonstration."""
_CONFIG = f"""\
{COMMENT}
model:
  default: scripted
  provider: custom
  base_url: {{url}}
  api_key: none-is-needed
  context_length: 131072
memory: {{{{nudge_interval: 0}}}}
compression: {{{{enabled: true, protect_first_n: 1, protect_last_n: 2}}}}
platforms:
  telegram: {{{{enabled: true, token: no-token, typing_indicator: false}}}}
platform_toolsets: {{{{telegram: [terminal], cli: [memory]}}}}
approvals: {{{{destructive_slash_confirm: false}}}}  # nobody is there to confirm /new
security: {{{{allow_lazy_installs: false, tirith_enabled: false}}}}
skills: {{{{creation_nudge_interval: 0}}}}
kanban: {{{{dispatch_in_gateway: false}}}}  # it waits for any child, and takes a command's exit code
"""

Message = dict[str, Any]
Shown = tuple[str, ...] | None


def person(name: str, number: str = "", **chat: str) -> Message:
    """Somebody in a chat, by default a direct one."""
    return {"from": name, "id": number or name, "chat": number or name, **chat}


ME = person("ann", MY_ID)
"""The owner, on a phone."""


class Chats:
    """A gateway process."""

    def __init__(self, partner: Partner, model: Model) -> None:
        self._partner, self._model = partner, model
        self.until("ready")

    def say(self, who: Message, text: str, reply: str = "I see.") -> None:
        """One message, until it is dealt with and what it caused in memory is written. The model replies so."""
        self._model.answers(text, reply)
        self.together({**who, "text": text})

    def together(self, *messages: Message) -> None:
        """Several messages at once."""
        self._heard(self._partner.ask(json.dumps({"together": messages})), "done")

    def deliver(self, who: Message, text: str) -> Any:
        """One message, until the reply is delivered and no longer."""
        return self._heard(self._partner.ask(json.dumps({"together": [{**who, "text": text}]})), "delivered")

    def until(self, name: str) -> Any:
        """Hear on, to the next line that has this name in it."""
        return self._heard(self._partner.hear(), name)

    def _heard(self, line: Any, name: str) -> Any:
        while name not in line:
            if "failed" in line:
                raise Unexpected("Hermes to take a message", str(line["failed"]).strip()[-200:])
            line = self._partner.hear()
        return line

    def end(self) -> None:
        """End it as a signal would, in order."""
        process = self._partner.process
        if process.stdin is not None:
            process.stdin.close()
        expect("the gateway to end in order", 0, process.wait(PATIENCE))

    def kill(self) -> None:
        """kill -9, at this very moment."""
        expect("the gateway killed", -9, self._partner.end())


class Home:
    """A home of Hermes, who holds the keys of its memory, and the model that it talks to."""

    def __init__(
        self, stage: Stage, name: str, python: Path, *, root: Path | None = None, user: User | None = None
    ) -> None:
        self.stage, self.name, self.python, self.user = stage, name, python, user
        self.root = root or stage.scratch / f"hermes-{name}"
        self.place = self.root / "hermes"
        self.keeper = self.root / ("keeper" if name == SERVED else "user")
        """The home directory of whoever holds the keys."""
        self.url = ""
        self.trip = ""
        self._starting: Partner | None = None
        self._chats: Chats | None = None
        for directory in (self.place, self.root / "user", self.root / "tmp", self.root / "work"):
            directory.mkdir(parents=True)
        self.model = Model()
        stage.closing.callback(self.model.start().stop)
        (self.place / "config.yaml").write_text(_CONFIG.format(url=self.model.url))

    @property
    def policy(self) -> Policy:
        return policies.read(policies.path_of(self.place).read_text())

    @property
    def vault(self) -> Path:
        return next(iter(self.keeper.rglob("vault.db"))).parent

    @property
    def reach(self) -> tuple[str, ...]:
        """What tells a command where the memory is, beside a cap."""
        return ("--url", self.url) if self.url else ()

    # Processes.

    def environment(self, home: Path | None = None) -> dict[str, str]:
        """That of the user of Hermes, or of whoever has this home directory: nothing names a vault, a key or a cap."""
        kept = {name: value for name, value in self.stage.environment().items() if not name.startswith("STRONGROOM")}
        own = {"HOME": str(home or self.root / "user"), "TMPDIR": str(self.root / "tmp")}
        return {**kept, **own, "NO_PROXY": "*"}

    def hermes_environment(self) -> dict[str, str]:
        """The same for programs of Hermes' Python."""
        given = {name: value for name, value in self.environment().items() if name not in _NOT_FOR_HERMES}
        path = os.pathsep.join((str(self.python.parent), given.get("PATH", os.defpath)))
        return {**given, **_GATEWAY, "HERMES_HOME": str(self.place), "PATH": path}

    def hermes(self, *arguments: str) -> str:
        """The `hermes` command, in a fresh process."""
        done = self._in_hermes("hermes_cli.main", *arguments)
        if done.code != 0:
            raise Unexpected("hermes to end with 0", f"{done.code}: {done.err.strip()[-200:]}")
        return done.out

    def strongroom(self, *arguments: str) -> Done:
        """The `strongroom` command, as it is installed beside Hermes."""
        return self._in_hermes("strongroom", *arguments, "--json")

    def wire(self, *options: str) -> Any:
        """What `strongroom wire hermes` answers; it has to succeed, or the step that failed is told."""
        done = self.strongroom("wire", "hermes", "--python", str(self.python), *options)
        failed = [f"{step['name']}: {step['message']}" for step in done.json["steps"] if step["state"] == "fail"]
        expect("no step of it to fail", [], failed)
        return answered(done)

    def _in_hermes(self, module: str, *arguments: str) -> Done:
        surroundings = {"cwd": self.root / "work", "env": self.hermes_environment()}
        return self.stage.run([str(self.python), "-m", module, *arguments], "", surroundings)

    def chat(self, text: str, reply: str) -> None:
        """One question with `hermes chat`: a session of its own, in a process of its own."""
        self.stage.tell("hermes chat")
        self.model.answers(text, reply)
        self.hermes("chat", "-Q", "-q", text)

    def start(self) -> Partner:
        """Start the gateway; whoever needs it waits until it is ready."""
        self.stage.tell("Hermes' gateway starts")
        self._starting = self.stage.beside(f"hermes-{self.name}", *self._gateway())
        return self._starting

    def chats(self) -> Chats:
        """The gateway; it is started if it does not run."""
        if self._chats is None:
            self._chats = Chats(self._starting or self.start(), self.model)
            self._starting = None
        return self._chats

    def _gateway(self) -> tuple[list[str], dict[str, Any]]:
        surroundings: dict[str, Any] = {"cwd": self.root / "work", "env": self.hermes_environment()}
        if self.user is None:
            return [str(self.python), "-P", str(_DRIVER)], surroundings
        known = {**self.hermes_environment(), **self.user.python}
        return self.user.command(_DRIVER_MODULE), {**self.user.surroundings, **surroundings, "env": known}

    def leave(self) -> Chats:
        """The gateway, for whoever ends it."""
        chats, self._chats = self.chats(), None
        return chats

    # Whoever holds the keys.

    def keys_work(self, *arguments: str) -> Any:
        """What a command of whoever holds the keys answers."""
        return answered(self.by_keeper([sys.executable, "-m", "strongroom", *arguments, "--json"]))

    def by_keeper(self, command: list[str]) -> Done:
        surroundings = {"cwd": self.root, "env": self.environment(self.keeper)}
        return self.stage.run(command, "", surroundings)

    def minted(self, name: str, *claims: str, ops: str, namespaces: str = NAMESPACES) -> str:
        """A new file with a cap."""
        out = str(self.root / name)
        self.keys_work("cap", "mint", *claims, "--ops", ops, "--namespaces", namespaces, "--ttl", "1d", "--out", out)
        return out

    def lines(self) -> list[dict[str, str]]:
        """All that is kept, of everybody."""
        found: list[dict[str, str]] = answered(self.by_keeper(self.stage.program("player", "lines")))
        return found

    @contextmanager
    def with_cap_for(self, namespace: str) -> Iterator[None]:
        """For a while, Hermes' cap covers one namespace only."""
        place = self.policy.cap
        own = place.read_bytes()
        narrow = Path(self.minted(f"{namespace}.cap", "--scope", PROFILE, ops=RUNTIME_OPS, namespaces=namespace))
        narrow.replace(place)
        try:
            yield
        finally:
            narrow.touch(0o600)
            narrow.write_bytes(own)
            narrow.replace(place)


def python_of(stage: Stage) -> Path:
    """The Python that runs Hermes; without one the step is left out, or fails where it has to be there."""
    if stage.hermes is not None:
        return Path(os.path.abspath(stage.hermes))
    if find_spec("hermes_cli") is not None:
        return Path(sys.executable)
    if stage.require_extras:
        raise Unexpected("a Hermes that is installed", "none: --hermes names the Python of an environment with one")
    raise Skipped("no_hermes")


def in_home(name: str, act: Callable[[Home], Shown]) -> Callable[[Stage], Shown]:
    """A step that happens in a home which an earlier one has wired."""

    @wraps(act)
    def attempt(stage: Stage) -> Shown:
        python_of(stage)
        if name not in stage.homes:
            raise Unexpected("a home that is wired", "none")
        return act(stage.homes[name])

    return attempt
