"""Hosts that are killed and hosts that share a home: every acknowledged turn arrives, in order, and none in clear.

Real processes. The provider's file is outside of the home, so that the home can be searched for what people said.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from strongroom.host import AgentSession, Host, Recovered
from strongroom.host.provider_interface import Message
from tests.host.doubles import LONG, PATIENCE, FileProvider, rows
from tests.store.children import Process

MARK = "plum-harbour-7731"
CHINESE = "机密的港口"
WORDS = [word.encode(form) for word in (MARK, CHINESE) for form in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le")]


@dataclass(frozen=True)
class Place:
    """A home, its keys, and the file that the provider writes."""

    home: Path
    keys: Path
    out: Path

    def host(self, provider: type[FileProvider] = FileProvider) -> Host:
        return Host(self.home, lambda: provider(self.out), limits=LONG, keys=self.keys)

    def shows(self) -> list[str]:
        """Files of the home in which something stands that somebody said."""
        return [str(file) for file in self.home.rglob("*") if _holds(file)]


def _holds(file: Path) -> bool:
    with suppress(OSError):  # journals come and go
        data = file.read_bytes()
        return any(word in data for word in WORDS)
    return False


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "home", tmp_path / "keys", tmp_path / "out")


class Durable(FileProvider):
    """Takes its time with the disk, so that turns wait."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
    ) -> None:
        super().sync_turn(user_content, assistant_content, session_id=session_id, messages=messages)
        for _ in range(5):
            file = os.open(self._path, os.O_RDONLY)
            os.fsync(file)
            os.close(file)


class Stuck(FileProvider):
    """Never returns from a turn that it was told."""

    def sync_turn(self, *args: Any, **kwargs: Any) -> None:
        Connection.poll(_never(), None)


def _never() -> Connection:
    """A connection on which nothing ever comes."""
    ours, theirs = os.pipe()
    _open.append(theirs)
    return Connection(ours, writable=False)


_open: list[int] = []


# What the other processes do


def talk_for_ever(pipe: Connection, place: Place, turn: int, chats: int, seed: int) -> None:
    """Many chats take turns at random; each turn is acknowledged once `sync_turn` has returned."""
    chance = random.Random(seed)
    host = place.host(Durable)
    memories = [host.manager(AgentSession(f"chat{number}", user_id=str(number))) for number in range(chats)]
    counts = [0] * chats
    while True:
        chat = chance.randrange(chats)
        counts[chat] += 1
        said = f"{turn:03} {counts[chat]:05} {MARK} {CHINESE}"
        memories[chat].sync_turn(said, f"re {MARK}", [{"role": "user", "content": said}])
        pipe.send((f"chat{chat}", said))


def talk_once(pipe: Connection, place: Place, said: str) -> None:
    """One turn that no provider will ever take in this process."""
    memory = place.host(Stuck).manager(AgentSession("chat", user_id="1"))
    memory.sync_turn(said, f"re {MARK}")
    pipe.send(said)
    pipe.recv()


def talk_beside(pipe: Connection, place: Place, name: str) -> None:
    """Turns that wait, while another host on the same home looks for what was left behind."""
    host = place.host(Stuck)
    memory = host.manager(AgentSession(name, user_id=name))
    for number in range(5):
        memory.sync_turn(f"{name} {number} {MARK}", "answer")
    pipe.send("waiting")
    pipe.recv()
    pipe.send(host.recover())
    pipe.recv()


# Kills


def _arrived(place: Place) -> dict[str, list[str]]:
    """What each chat's provider was told, each turn where it came first."""
    arrived: dict[str, dict[str, None]] = {}
    for row in rows(place.out):
        arrived.setdefault(row["session"], {})[row["user"]] = None
    return {chat: list(said) for chat, said in arrived.items()}


def _killed_at_random(place: Place, rounds: int, chats: int, most: int) -> None:
    chance = random.Random(7)
    told: dict[str, list[str]] = {}
    for turn in range(rounds):
        process = Process(talk_for_ever, place, turn, chats, chance.random())
        said = []
        for _ in range(chance.randrange(1, most)):
            assert process.pipe.poll(PATIENCE)
            said.append(process.pipe.recv())
            assert place.shows() == []
        said += process.kill()
        assert place.shows() == []
        for chat, text in said:
            told.setdefault(chat, []).append(text)
    with place.host() as host:
        assert host.recover().left == 0
    arrived = _arrived(place)
    for chat, texts in told.items():
        assert [text for text in arrived[chat] if text in texts] == texts
        assert arrived[chat] == sorted(arrived[chat])
        assert len(set(arrived[chat]) - set(texts)) <= rounds  # at most one at each kill that nobody heard of
    assert list((place.home / "memory-journal").iterdir()) == []
    assert MARK in place.out.read_text()


@pytest.mark.requirement("host-sync-durable", "host-journal-sealed")
def test_hosts_killed_at_random_lose_no_acknowledged_turn_and_keep_each_chats_order(place: Place) -> None:
    _killed_at_random(place, rounds=5, chats=4, most=60)


@pytest.mark.long
@pytest.mark.requirement("host-sync-durable", "host-journal-sealed")
def test_many_hosts_killed_at_random_lose_no_acknowledged_turn(place: Place) -> None:
    _killed_at_random(place, rounds=60, chats=12, most=300)


@pytest.mark.requirement("host-sync-durable", "host-journal-sealed")
def test_kill_right_after_sync_turn_returned_loses_nothing(place: Place) -> None:
    said = [f"turn {number} {MARK} {CHINESE}" for number in range(5)]
    for text in said:
        process = Process(talk_once, place, text)
        assert process.pipe.poll(PATIENCE)
        assert process.pipe.recv() == text
        process.kill()
        assert place.shows() == []
        with place.host() as host:
            host.manager(AgentSession("later"))
    assert [row["user"] for row in rows(place.out)] == said
    assert {row["session"] for row in rows(place.out)} == {"chat"}


@pytest.mark.requirement("host-journal-sealed")
def test_search_for_clear_text_finds_it_where_it_is(place: Place) -> None:
    place.home.mkdir()
    for number, word in enumerate(WORDS):
        (place.home / str(number)).write_bytes(b"x" + word)
    assert len(place.shows()) == len(WORDS)


# Side by side


@pytest.mark.requirement("host-sync-durable")
def test_two_hosts_on_one_home_never_hand_over_each_others_live_turns(place: Place) -> None:
    one, other = (Process(talk_beside, place, name) for name in ("one", "other"))
    for process in (one, other):
        assert process.pipe.poll(PATIENCE)
        assert process.pipe.recv() == "waiting"
    for process in (one, other):
        process.pipe.send("recover")
        assert process.pipe.poll(PATIENCE)
        assert process.pipe.recv() == Recovered()
    assert rows(place.out) == []
    one.kill()
    with place.host() as host:
        assert host.recover() == Recovered(handed_over=5)
    assert [row["user"] for row in rows(place.out)] == [f"one {number} {MARK}" for number in range(5)]
    other.kill()
    with place.host() as host:
        assert host.recover() == Recovered(handed_over=5)
    assert {row["session"] for row in rows(place.out)} == {"one", "other"}
    assert place.shows() == []


# The end of a process

_PROGRAM = """
import atexit, sys, threading
from pathlib import Path
from strongroom.host import AgentSession, Host
from tests.host.doubles import LONG, SHORT, FileProvider
from tests.test_host_crash import Stuck

home, keys, out, kind, close = sys.argv[1:]
provider = Stuck if kind == "stuck" else FileProvider
host = Host(Path(home), lambda: provider(Path(out)), limits=SHORT if kind == "stuck" else LONG, keys=Path(keys))
if close == "atexit":
    atexit.register(host.close)
memory = host.manager(AgentSession("chat"))
for number in range(20):
    memory.sync_turn(f"turn {number}", "answer")
if close == "exit":
    sys.exit(0)
"""


def _run(place: Place, kind: str, close: str) -> subprocess.CompletedProcess[str]:
    paths = [str(place.home), str(place.keys), str(place.out)]
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *paths, kind, close], capture_output=True, text=True, timeout=PATIENCE * 3
    )


@pytest.mark.requirement("host-sync-durable", "host-shutdown-bounded")
@pytest.mark.parametrize("close", ["atexit", "exit"])
@pytest.mark.parametrize("kind", ["quick", "stuck"])
def test_process_that_ends_by_itself_loses_nothing_and_is_held_up_by_nobody(
    place: Place, kind: str, close: str
) -> None:
    ended = _run(place, kind, close)
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr
    if (kind, close) == ("quick", "atexit"):
        assert len(rows(place.out)) == 20
    with place.host() as host:
        host.recover()
    users = [json.loads(line)["user"] for line in place.out.read_text().splitlines()]
    assert list(dict.fromkeys(users)) == [f"turn {number}" for number in range(20)]
