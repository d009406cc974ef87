"""What the tests of our provider in Hermes share: a wired home, a server beside it, and what the vault's owner sees.

    with Model() as model:
        home = wired(tmp_path, model)                       # `strongroom wire hermes`, embedded
        home = served(tmp_path, model)                      # the same with --url: a real `strongroom serve`
        with rig_agent.start(home.rig) as process: ...
        home.owner.lines()                                  # all that is kept, of everybody
        home.write("[keep]", replies=False)                 # the owner edits the policy

What a model was told is asked of the model, never of its replies.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault
from strongroom.hermes import policy as policies
from strongroom.hermes.install import toml_edit
from strongroom.hermes.policy import Policy
from strongroom.model import BATCH_LIMIT, K_LIMIT, LIST_LIMIT, Hit
from tests.hermes import rigs
from tests.hermes.rig_model import Model

OWNER = "hermes/default/owner"
PATIENCE = 60
"""Seconds after which a process counts as stuck."""
_OPS = ("put", "get", "list", "snapshot", "profile", "forget")
_ID = re.compile(r"\[([0-9A-HJKMNP-TV-Z]{26})\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it is kept, and whose it is."""

    actor: str
    hit: Hit

    @property
    def text(self) -> str:
        return self.hit.text


@dataclass(frozen=True, slots=True)
class Owner:
    """Whoever holds the keys. `data` is the directory for the data of that user."""

    data: Path

    @property
    def place(self) -> Path:
        return self.data / "strongroom" / "vault"

    @contextmanager
    def vault(self) -> Iterator[Vault]:
        (keys,) = (self.data / "strongroom" / "keys").iterdir()
        with strongroom.open(self.place, keys=FileKeys(keys)) as vault:
            yield vault

    @contextmanager
    def memory(self, actor: str = OWNER) -> Iterator[Memory]:
        with self.vault() as vault:
            yield vault.memory(vault.mint(actor=actor, ops=_OPS, namespaces=vault.namespaces, ttl=600))

    def put(self, texts: Iterable[str], namespace: str = "personal", actor: str = OWNER) -> None:
        lines = [NewLine(text=text, namespace=namespace, author="user") for text in texts]
        with self.memory(actor) as memory:
            for start in range(0, len(lines), BATCH_LIMIT):
                memory.put_many(lines[start : start + BATCH_LIMIT])

    def lines(self, actor: str | None = None) -> list[Line]:
        """What is kept, the oldest first: of one actor, or of everybody."""
        with self.vault() as vault:
            actors = [str(one) for one in vault.actors()] if actor is None else [actor]
            found = [Line(one, hit) for one in actors for hit in _all(vault, one)]
        return sorted(found, key=lambda line: line.hit.id)

    def texts(self, actor: str | None = None) -> list[str]:
        return [line.text for line in self.lines(actor)]

    def revoke_runtime(self) -> None:
        """Revoke every cap that a runtime holds."""
        with self.vault() as vault:
            for record in [one for one in vault.caps() if str(one.label or "").startswith("hermes")]:
                vault.revoke(record.link)


def _all(vault: Vault, actor: str) -> Iterator[Hit]:
    memory = vault.memory(vault.mint(actor=actor, ops=["get", "list"], namespaces=vault.namespaces, ttl=60))
    after: str | None = None
    while True:
        page = memory.list(limit=LIST_LIMIT, after=after)
        ids = [info.id for info in page.lines]
        for start in range(0, len(ids), K_LIMIT):
            yield from memory.get(ids=ids[start : start + K_LIMIT])
        after = page.next
        if after is None:
            return


@dataclass(slots=True)
class Server:
    """`strongroom serve` on a unix socket, with data of its own: what it runs as cannot be reached by its clients."""

    data: Path
    socket: Path
    process: subprocess.Popen[str] | None = None
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    def command(self, *words: str) -> None:
        """A command of whoever runs the server."""
        done = subprocess.run(
            [sys.executable, "-m", "strongroom", *words],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"

    def start(self) -> None:
        """Start it. It listens when this returns."""
        command = [sys.executable, "-m", "strongroom", "serve", "--json", "--socket", str(self.socket)]
        log = self.data / "server.log"
        with log.open("a") as stderr:
            self.process = subprocess.Popen(
                command, env=self._environment, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        assert self.process.stdout is not None
        assert json.loads(self.process.stdout.readline())["url"] == self.url, log.read_text()

    def stop(self, how: int = signal.SIGKILL) -> None:
        """End it, if it runs."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(PATIENCE)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


@dataclass(frozen=True, slots=True)
class Wired:
    """A home that remembers through the gate."""

    rig: rigs.Rig
    owner: Owner
    server: Server | None = None

    @property
    def policy(self) -> Policy:
        return policies.read(self._policy_file.read_text())

    @property
    def _policy_file(self) -> Path:
        return policies.path_of(self.rig.home.hermes)

    def write(self, table: str = "", **values: toml_edit.Value) -> None:
        """Edit the policy, as its owner would."""
        text = self._policy_file.read_text()
        for key, value in values.items():
            text = toml_edit.set_key(text, table, key, value)
        policies.read(text)
        self._policy_file.write_text(text)

    def show_more(self) -> None:
        """Have as much recalled as the policy can say, however busy the machine is."""
        text = self._policy_file.read_text()
        text = re.sub(r"^lines = 3\b", "lines = 20", text, flags=re.MULTILINE)
        text = re.sub(r"^characters = 2000\b", "characters = 20000", text, flags=re.MULTILINE)
        text = re.sub(r"^patience = 0\.3\b", "patience = 5", text, flags=re.MULTILINE)
        self._policy_file.write_text(text)
        assert self.policy.recall.patience == 5
        assert (self.policy.recall.lines, self.policy.recall.characters) == (20, 20_000)

    def wire(self, *words: str) -> str:
        """Wire it again."""
        return self.rig.command("strongroom", "wire", "hermes", *words).stdout

    def waiting(self) -> list[Path]:
        """The turns that wait in the spool, the oldest first."""
        return sorted(self.policy.spool.glob("*.turn"))

    def told(self, said: str) -> str:
        """What was recalled for the turn in which this was said."""
        return self.rig.model.seen(said).recalled


def wired(where: Path, model: Model, *words: str, settings: Sequence[rigs.Settings] = ()) -> Wired:
    """A home with a vault in Hermes' own process, wired by the command."""
    made: list[Wired] = []

    def wire(rig: rigs.Rig) -> None:
        made.append(Wired(rig, Owner(rig.home.root / "user" / "data")))
        made[0].wire(*words)

    rigs.make(where, model, settings=settings, wire=wire)
    return made[0]


@contextmanager
def served(where: Path, model: Model, *words: str, settings: Sequence[rigs.Settings] = ()) -> Iterator[Wired]:
    """A home that asks a server with a cap that the server's owner gave, wired by the command."""
    with tempfile.TemporaryDirectory(prefix="sr-") as short:  # a socket's path has an end
        server = _server(where.parent / f"{where.name}-server", Path(short) / "socket")
        try:
            yield _wired_to(where, model, server, words, settings)
        finally:
            server.stop()


def _server(place: Path, socket: Path) -> Server:
    place.mkdir(mode=0o700)
    own = {f"XDG_{name}_HOME": str(place) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    server = Server(place, socket, None, {"HOME": str(place), "PATH": "/usr/bin:/bin", **own})
    server.command("init")
    ops = "put,get,list,snapshot,forget,renew"
    namespaces = "personal,family,work,travel"
    given = ("--ops", ops, "--namespaces", namespaces, "--ttl", "30d", "--label", "hermes")
    server.command("cap", "mint", "--scope", "hermes/default/", *given, "--out", str(place / "hermes.cap"))
    server.start()
    return server


def _wired_to(
    where: Path, model: Model, server: Server, words: Sequence[str], settings: Sequence[rigs.Settings]
) -> Wired:
    made: list[Wired] = []

    def wire(rig: rigs.Rig) -> None:
        made.append(Wired(rig, Owner(server.data), server))
        made[0].wire("--url", server.url, "--cap-file", str(server.data / "hermes.cap"), *words)

    rigs.make(where, model, settings=settings, wire=wire)
    return made[0]


def ids(recalled: str) -> list[str]:
    """The ids of recalled lines, in their order."""
    return _ID.findall(recalled)


def in_clear(words: Iterable[str], *places: Path) -> list[tuple[str, str]]:
    """Which of the words stand in clear in a file below these places, by their raw bytes, and in which."""
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    forms = [(word, form) for word in words for form in _forms(word)]
    return [(word, path.name) for path in files for word, form in forms if form in path.read_bytes()]


def _forms(word: str) -> tuple[bytes, ...]:
    return word.encode(), word.encode("utf-16-le"), json.dumps(word).encode()[1:-1]


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait for what a thread of Hermes' process does when it comes to it. Only a hang ends the patience."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, f"it did not come about: {what}"
        threading.Event().wait(0.02)


def database(rig: rigs.Rig, query: str) -> list[Any]:
    """What Hermes' own database holds."""
    with closing(sqlite3.connect(rig.home.hermes / "state.db")) as connection:
        return connection.execute(query).fetchall()
