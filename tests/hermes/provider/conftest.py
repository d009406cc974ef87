"""Wired homes: a vault, a runtime's cap, a policy, and agents that talk; embedded, or behind a real server.

Work that the provider does beside a turn is done at once here, so that nothing has to be waited for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.crypto import inbox
from strongroom.hermes import cap_file
from strongroom.hermes.provider import StrongroomProvider, vault_connection
from strongroom.hermes.provider import provider_home as homes
from strongroom.hermes.provider.provider_home import ProviderHome, home_of
from strongroom.model import Hit
from strongroom.server import listen
from strongroom.server.listen import ListenPlace
from tests.client.served import QUIET

SCOPE = "hermes/default/"
OWNER = f"{SCOPE}owner"
DM: Mapping[str, Any] = {"platform": "telegram", "user_id": "100", "chat_id": "100", "chat_type": "dm"}
GROUP: Mapping[str, Any] = {"platform": "telegram", "user_id": "100", "chat_id": "-5", "chat_type": "group"}
GROUP_ACTOR = strongroom.actor_path("hermes", "default", "telegram", "chat", "-5")
ALLERGY = "I have a peanut allergy"
TRIP = "My trip to Chengdu is on May 25"


AT_WORK = homes._at_work
"""The real threads."""


class AtOnce:
    """Threads that nobody has to wait for."""

    def submit(self, task: Callable[[], object]) -> bool:
        task()
        return True


@dataclass
class Wired:
    """One home, and everything it was wired to."""

    base: Path
    vault: Vault
    url: str = ""
    extra: str = ""
    warnings: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.base / "home"

    @property
    def cap(self) -> Path:
        return self.base / "private" / "runtime.cap"

    @property
    def state(self) -> Path:
        return self.base / "private" / "state"

    @property
    def spool(self) -> Path:
        return self.state / "spool"

    @property
    def home(self) -> ProviderHome:
        return home_of(self.path)

    def write(self, extra: str | None = None, **top: str) -> None:
        """Write the policy: the wiring, keys of the top (as TOML values), and tables."""
        self.extra = self.extra if extra is None else extra
        found = {
            "vault": repr("" if self.url else str(self.base / "vault")),
            "url": repr(self.url),
            "cap": repr(str(self.cap)),
            "state": repr(str(self.state)),
            "inbox": repr(self.inbox()),
            **top,
        }
        text = "".join(f"{name} = {value}\n" for name, value in found.items())
        (self.path / "strongroom.toml").write_text(f"{text}\n{self.extra}\n")

    def inbox(self) -> str:
        token = self.vault.mint(actor=OWNER, ops=["put"], namespaces=["travel"], ttl=60)
        recipient = self.vault.memory(token).inbox()
        assert inbox.is_recipient(recipient)
        return recipient

    def agent(self, session: str = "s1", **told: Any) -> StrongroomProvider:
        """An agent that a runtime built, by default on the command line."""
        made = StrongroomProvider(self.path)
        made.initialize(
            session,
            **{"platform": "cli", "warning_callback": self.warnings.append, **told, "hermes_home": str(self.path)},
        )
        return made

    def forget_process(self) -> None:
        """As after a restart: nothing in memory is known any more."""
        close_all()

    def lines(
        self, actor: str = OWNER, namespaces: Sequence[str] = ("personal", "family", "work", "travel")
    ) -> list[Hit]:
        """Everything that an actor's memory holds, in the order of ids."""
        token = self.vault.mint(actor=actor, ops=["list", "get"], namespaces=namespaces, ttl=600)
        memory = self.vault.memory(token)
        ids = [info.id for info in memory.list(limit=1000).lines]
        return [hit for one in range(0, len(ids), 20) for hit in memory.get(ids=ids[one : one + 20])]

    def texts(self, actor: str = OWNER, *namespaces: str) -> list[str]:
        return [hit.text for hit in self.lines(actor, namespaces or ("personal", "family", "work", "travel"))]

    def put(self, text: str, namespace: str = "travel", actor: str = OWNER, **more: Any) -> str:
        """A line that is there already."""
        token = self.vault.mint(actor=actor, ops=["put"], namespaces=[namespace], ttl=600)
        return str(self.vault.memory(token).put(text, namespace=namespace, **more).id)

    def profile(self, text: str, namespace: str, actor: str = OWNER) -> None:
        token = self.vault.mint(actor=actor, ops=["profile"], namespaces=[namespace], ttl=600)
        memory = self.vault.memory(token)
        memory.set_profile(text, namespace=namespace, version=memory.profile(namespace).version)

    def waiting(self) -> int:
        return self.home.parts.spool.waiting().turns

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.spool.glob(f"*{suffix}"))

    def problems(self) -> dict[str, str]:
        return {work: problem.reason for work, problem in self.home.parts.status.problems.items()}

    def refusals(self) -> list[str]:
        """The reasons of what the log says was refused."""
        return [entry.reason for _, entry in self.vault.audit.entries() if entry is not None and entry.reason]

    def raw(self) -> bytes:
        """Every byte below the home's private directories and the vault."""
        return b"\0".join(path.read_bytes() for path in self.base.rglob("*") if path.is_file())


def say(
    agent: StrongroomProvider,
    user: str,
    reply: str = "Noted.",
    session: str = "",
    messages: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """A whole turn as Hermes drives it; gives what was recalled for it."""
    agent.on_turn_start(1, user)
    shown = agent.prefetch(user)
    agent.sync_turn(user, reply, session_id=session, messages=messages)
    agent.queue_prefetch(user, session_id=session)
    return shown


def history(*said: str) -> list[dict[str, Any]]:
    """A conversation's messages: what a person said and the reply, in turn."""
    return [
        message
        for text in said
        for message in ({"role": "user", "content": text}, {"role": "assistant", "content": "Noted."})
    ]


def close_all() -> None:
    """Let go of every home and of every way to a vault."""
    for way in vault_connection._doorways.values():
        for one in (way._vault, way._patient, way._hasty):
            if one is not None:
                one.close()
    vault_connection._doorways.clear()
    for home in homes._homes.values():
        for parts in home._parts.values():
            if parts.spool.process.handle >= 0:
                os.close(parts.spool.process.handle)
    homes._homes.clear()


@pytest.fixture
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A user's directories of the test's own, and no homes of another test."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME", "HERMES_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "keys"))
    for name in ("STRONGROOM_VAULT", "STRONGROOM_CONFIG", "STRONGROOM_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(homes, "_at_work", AtOnce)
    monkeypatch.setattr("strongroom.hermes.provider.memory_session._tried", {})
    close_all()
    yield
    close_all()


def _wired(base: Path, vault: Vault, url: str = "") -> Wired:
    made = Wired(base, vault, url)
    made.path.mkdir()
    cap_file.write(made.cap, cap_file.mint(vault, SCOPE, vault.namespaces))
    made.write()
    return made


@pytest.fixture
def own_vault(tmp_path: Path, own_process: None) -> Iterator[Vault]:
    """A vault by the machine's own clock, its keys where a process finds them by itself."""
    with strongroom.create(tmp_path / "vault", keys=lambda name: FileKeys(tmp_path / "keys" / name)) as made:
        yield made


@pytest.fixture
def wired(tmp_path: Path, own_vault: Vault) -> Wired:
    """A home whose vault is opened in the agent's own process."""
    return _wired(tmp_path, own_vault)


@dataclass
class Served(Wired):
    """A home whose vault is behind a server that can be stopped, and started again at the same address."""

    servers: ExitStack = field(default_factory=ExitStack)
    port: int = 0

    def stop(self) -> None:
        self.servers.close()

    def start(self) -> None:
        self.port = self.servers.enter_context(_serving(self.vault, self.port))
        self.url = f"http://127.0.0.1:{self.port}"
        self.rest()

    def rest(self) -> None:
        """As if the moment had passed in which a server that was out of reach is left alone."""
        for way in vault_connection._doorways.values():
            way._rest_until = 0.0


@contextmanager
def _serving(vault: Vault, port: int) -> Iterator[int]:
    place = ListenPlace(port=port)
    server = listen.server_for(vault, place, QUIET)
    bound = listen.listen(place)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield int(bound.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


@pytest.fixture
def remote(tmp_path: Path, own_vault: Vault) -> Iterator[Served]:
    """A home that asks a server."""
    with ExitStack() as servers:
        made = Served(tmp_path, own_vault, servers=servers)
        made.path.mkdir()
        cap_file.write(made.cap, cap_file.mint(own_vault, SCOPE, own_vault.namespaces))
        made.start()
        made.write()
        yield made


@pytest.fixture(params=["embedded", "served"])
def either(request: pytest.FixtureRequest) -> Wired:
    """A home of each kind."""
    found = request.getfixturevalue("wired" if request.param == "embedded" else "remote")
    assert isinstance(found, Wired)
    return found
