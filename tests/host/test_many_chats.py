"""Two hundred chats on one host: no line reaches another chat, and neither threads nor memory grow with the chats.

The provider is written here: one SQLite file for everybody, so that a line which the host gave to the wrong one would
be found there under the wrong name. Limits of time are far away: nothing here passes or fails by the clock.
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import random
import re
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.host import AgentSession, Host, Limits, MemoryManager, MemoryProvider, Recovered
from strongroom.host.provider_interface import Message, Schema

CHATS = 200
DRIVERS = 20
ASKING, KEEPING = 6, 3
FAR = 120.0
LIMITS = Limits(
    initialize=FAR,
    system_prompt_block=FAR,
    on_turn_start=FAR,
    prefetch=FAR,
    handle_tool_call=FAR,
    drain=FAR,
    shutdown=FAR,
    asking_threads=ASKING,
    keeping_threads=KEEPING,
)
RECALLED = 8
"""The last lines that the provider recalls."""
PER_CHAT = 64 * 1024
"""Bytes that a chat may take, its messages and its provider included. Seen are about 20 kB."""
SPEAKER: ContextVar[str] = ContextVar("speaker", default="nobody")
MARKER = re.compile(r"marker-\d{3}-[a-z]{8}")
LINE = re.compile(r"turn (\d+) of (marker-\d{3}-[a-z]{8})")
Row = tuple[str, str, str, str]


class Store:
    """Everybody's lines in one file, in the order in which they came."""

    def __init__(self, path: Path) -> None:
        self._guard = threading.Lock()
        self._database = apsw.Connection(str(path))
        self._database.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE kept (chat, kind, session, speaker, user, assistant)")
        self._database.execute("CREATE INDEX by_chat ON kept (chat, kind)")

    def keep(self, chat: str, kind: str, *row: str) -> None:
        with self._guard:
            self._database.execute("INSERT INTO kept VALUES (?, ?, ?, ?, ?, ?)", (chat, kind, *row))

    def rows(self, chat: str, kind: str = "turn") -> list[Row]:
        """Session, speaker, user and assistant of each."""
        query = "SELECT session, speaker, user, assistant FROM kept WHERE chat = ? AND kind = ? ORDER BY rowid"
        with self._guard:
            return list(self._database.execute(query, (chat, kind)))

    def close(self) -> None:
        self._database.close()


class Filed(MemoryProvider):
    """Keeps what one chat says under that chat's key."""

    name = "filed"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chat = "nobody"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Schema]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._chat = kwargs["gateway_session_key"]

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        self._store.keep(self._chat, "start", str(turn_number), SPEAKER.get(), message, "")

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        rows = self._store.rows(self._chat)[-RECALLED:]
        return "\n".join((f"asked: {query}", *(f"{user} / {assistant}" for _, _, user, assistant in rows)))

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Message] | None = None,
    ) -> None:
        assert messages is not None
        assert messages[-1]["content"] == assistant_content
        self._store.keep(self._chat, "turn", session_id, SPEAKER.get(), user_content, assistant_content)

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: Mapping[str, Any] | None = None
    ) -> None:
        self._store.keep(self._chat, "note", action, SPEAKER.get(), content, "")

    def on_session_end(self, messages: Sequence[Message]) -> None:
        self._store.keep(self._chat, "end", str(len(messages)), SPEAKER.get(), "", "")


class Held(Filed):
    """Does not take its first turn before all are said."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.all_said = threading.Event()

    def sync_turn(self, user_content: str, assistant_content: str, **kwargs: Any) -> None:
        assert not user_content.startswith("turn 1 ") or self.all_said.wait(FAR)
        super().sync_turn(user_content, assistant_content, **kwargs)


class Raising(Filed):
    """Fails wherever it can, every time. What it was given has arrived all the same."""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        raise LookupError(message)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        raise TimeoutError(query)

    def sync_turn(self, user_content: str, assistant_content: str, **kwargs: Any) -> None:
        super().sync_turn(user_content, assistant_content, **kwargs)
        raise SystemExit(user_content)


class Busy:
    """Counts the turns that drivers have begun, so that a provider can be slow without a clock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = 0
        self._over = False

    def begin(self) -> None:
        with self._changed:
            self._begun += 1
            self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def outlast(self, turns: int) -> None:
        """Wait until so many more turns have begun, or until no more will."""
        with self._changed:
            upto = self._begun + turns
            assert self._changed.wait_for(lambda: self._over or self._begun >= upto, FAR)


class Slow(Filed):
    """Takes as long for one turn as all chats together take for some more."""

    def __init__(self, store: Store, busy: Busy) -> None:
        super().__init__(store)
        self._busy = busy

    def sync_turn(self, user_content: str, assistant_content: str, **kwargs: Any) -> None:
        self._busy.outlast(CHATS // 2)
        super().sync_turn(user_content, assistant_content, **kwargs)


@dataclass(slots=True)
class Chat:
    """One conversation. Two neighbours have one session id: it says nothing about who is speaking."""

    number: int
    marker: str
    memory: MemoryManager = field(init=False)
    messages: list[dict[str, str]] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"agent:main:test:dm:{self.number}"

    @property
    def session(self) -> AgentSession:
        return AgentSession(
            f"session-{self.number // 2}",
            platform="test",
            user_id=f"user-{self.number}",
            chat_type="group" if self.number % 3 == 0 else "dm",
            gateway_session_key=self.key,
        )

    def said(self, turn: int) -> tuple[str, str]:
        return f"turn {turn} of {self.marker}", f"reply {turn} to {self.marker}"

    def begin(self, host: Host) -> None:
        self.memory = host.manager(self.session)

    def turn(self) -> None:
        """One turn, as a runtime drives it."""
        user, assistant = self.said(len(self.messages) // 2 + 1)
        self.memory.on_turn_start(user)
        self.recalled.append(self.memory.prefetch(f"about {self.marker}"))
        self.messages += ({"role": "user", "content": user}, {"role": "assistant", "content": assistant})
        self.memory.sync_turn(user, assistant, self.messages)

    def note(self) -> None:
        call = {"action": "add", "target": "memory", "content": f"a note of {self.marker}"}
        assert json.loads(self.memory.handle_tool_call("memory", call))["success"]

    def end(self) -> None:
        self.memory.end(self.messages)


@dataclass(slots=True)
class Peak:
    """The most threads that were seen, of the host and in all."""

    host: Host
    threads: int = 0
    every: int = 0

    def look(self) -> None:
        self.threads = max(self.threads, self.host.threads)
        self.every = max(self.every, threading.active_count())


def _chats(count: int = CHATS) -> list[Chat]:
    letters = random.Random(7)
    return [Chat(one, f"marker-{one:03}-{''.join(letters.choices('abcdefghij', k=8))}") for one in range(count)]


def _everyone(chats: Sequence[Chat], act: Callable[[Chat], object], *, times: int = 1) -> None:
    """Have every chat act so many times, on as many threads as there are drivers, in an order that is mixed anew."""

    def drive(own: Sequence[Chat]) -> None:
        order = random.Random(own[0].number)
        for _ in range(times):
            for chat in order.sample(own, len(own)):
                copy_context().run(_as_speaker, chat, act)

    with ThreadPoolExecutor(DRIVERS) as drivers:
        list(drivers.map(drive, (chats[first::DRIVERS] for first in range(min(DRIVERS, len(chats))))))


def _as_speaker(chat: Chat, act: Callable[[Chat], object]) -> None:
    SPEAKER.set(chat.marker)
    act(chat)


def _flushed(chats: Sequence[Chat]) -> None:
    assert all(chat.memory.flush(FAR) for chat in chats)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "kept.db")
    yield made
    made.close()


@contextmanager
def _host(directory: Path, factory: Callable[[], MemoryProvider]) -> Iterator[Host]:
    with Host(directory / "home", factory, limits=LIMITS, keys=directory / "keys") as host:
        yield host


def _check_kept(chat: Chat, store: Store, turns: int) -> None:
    """Every turn is there, once, in order, under its own session and caused by its own speaker; and nothing else."""
    said = [chat.said(turn) for turn in range(1, turns + 1)]
    assert store.rows(chat.key) == [(chat.session.id, chat.marker, *texts) for texts in said]


def _check_recalled(chat: Chat) -> None:
    """No turn was shown another chat's marker; what it was shown are its own latest turns, in order, none ahead."""
    for turn, text in enumerate(chat.recalled, 1):
        assert set(MARKER.findall(text)) == {chat.marker}
        numbers = [int(number) for number, _ in LINE.findall(text)]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        assert not numbers or numbers[-1] < turn


def _journalled(directory: Path) -> list[Path]:
    return list((directory / "home" / "memory-journal").iterdir())


@pytest.mark.requirement("host-200-chats")
def test_200_chats_at_once_keep_every_line_in_order_and_see_nobody_elses(tmp_path: Path, store: Store) -> None:
    turns, chats = 6, _chats()
    with _host(tmp_path, lambda: Filed(store)) as host:
        _everyone(chats, lambda chat: chat.begin(host))
        _everyone(chats, Chat.turn, times=turns)
        _flushed(chats)
        for chat in chats:
            _check_kept(chat, store, turns)
            _check_recalled(chat)
            assert [row[2] for row in store.rows(chat.key, "start")] == [chat.said(n)[0] for n in range(1, turns + 1)]
            assert len(LINE.findall(chat.memory.prefetch("all"))) == turns
        _everyone(chats, Chat.end)
    assert all(store.rows(chat.key, "end") == [(str(2 * turns), chat.marker, "", "")] for chat in chats)
    assert not _journalled(tmp_path)


@pytest.mark.requirement("host-200-chats")
def test_turns_of_200_chats_stay_in_order_though_the_first_of_each_is_held_up(tmp_path: Path, store: Store) -> None:
    turns, chats = 4, _chats()

    def talk(chat: Chat) -> None:
        chat.begin(host)
        for _ in range(turns):
            chat.turn()
        provider = chat.memory.external
        assert isinstance(provider, Held)
        assert not store.rows(chat.key)
        provider.all_said.set()

    with _host(tmp_path, lambda: Held(store)) as host:
        _everyone(chats, talk)
        _flushed(chats)
        for chat in chats:
            _check_kept(chat, store, turns)


@pytest.mark.requirement("host-200-chats")
def test_threads_are_bounded_by_the_limits_and_not_by_200_chats(tmp_path: Path, store: Store) -> None:
    chats, before = _chats(), threading.active_count()
    with _host(tmp_path, lambda: Filed(store)) as host:
        peak = Peak(host)

        def act(chat: Chat) -> None:
            chat.begin(host)
            peak.look()
            chat.turn()
            peak.look()

        _everyone(chats, act)
        _flushed(chats)
        peak.look()
        assert 1 < peak.threads <= ASKING + KEEPING
        assert peak.every <= before + DRIVERS + ASKING + KEEPING


@pytest.mark.requirement("host-200-chats")
def test_notes_of_200_chats_stay_with_whom_they_are_about(tmp_path: Path, store: Store) -> None:
    chats, blocks = _chats(), dict[int, str]()
    with _host(tmp_path, lambda: Filed(store)) as host:
        _everyone(chats, lambda chat: chat.begin(host))
        _everyone(chats, Chat.note)
        _everyone(chats, Chat.end)
        _everyone(chats, lambda chat: chat.begin(host))
        _everyone(chats, lambda chat: blocks.update({chat.number: chat.memory.system_prompt_block()}))
    for chat in chats:
        assert MARKER.findall(blocks[chat.number]) == [chat.marker]
        assert store.rows(chat.key, "note") == [("add", chat.marker, f"a note of {chat.marker}", "")]


@pytest.mark.requirement("host-200-chats")
def test_chat_that_has_ended_leaves_nothing_in_the_host(tmp_path: Path, store: Store) -> None:
    made: weakref.WeakSet[Filed] = weakref.WeakSet()

    def make() -> Filed:
        provider = Filed(store)
        made.add(provider)
        return provider

    with _host(tmp_path, make) as host:
        chats = _chats()
        _everyone(chats, lambda chat: chat.begin(host))
        _everyone(chats, Chat.turn)
        assert len(made) == CHATS
        _everyone(chats, Chat.end)
        del chats
        gc.collect()
        assert len(made) == 0


def _resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _sizes(directory: Path) -> dict[str, int]:
    """Bytes of a process of its own: resident with 20 chats, 200 and none again; then allocated with 200 and none."""
    store, chats, sizes = Store(directory / "kept.db"), _chats(), dict[str, int]()

    def talk(some: Sequence[Chat]) -> None:
        _everyone(some, lambda chat: chat.begin(host))
        _everyone(some, Chat.turn, times=3)
        _flushed(some)

    with _host(directory, lambda: Filed(store)) as host:
        for name, some in (("20", chats[:20]), ("200", chats[20:])):
            talk(some)
            sizes[name] = _resident()
        _everyone(chats, Chat.end)
        sizes["ended"] = _resident()
        tracemalloc.start()
        chats = some = _chats()
        talk(chats)
        sizes["allocated"] = _allocated()
        _everyone(chats, Chat.end)
        del chats, some
        sizes["left"] = _allocated()
    store.close()
    return sizes


@pytest.mark.requirement("host-200-chats")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the resident size is read from /proc")
def test_memory_grows_by_little_for_each_chat_and_is_given_back_at_its_end(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as child:
        sizes = child.submit(_sizes, tmp_path).result()
    assert sizes["200"] - sizes["20"] < (CHATS - 20) * PER_CHAT
    assert sizes["ended"] - sizes["20"] < (CHATS - 20) * PER_CHAT
    assert sizes["allocated"] < CHATS * PER_CHAT
    assert sizes["left"] < sizes["allocated"] / 4


@pytest.mark.long
@pytest.mark.requirement("host-200-chats")
def test_slow_and_raising_providers_in_a_tenth_of_the_chats_cost_nobody_a_line(
    tmp_path: Path, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "strongroom.host")
    turns, chats, busy = 50, _chats(), Busy()
    bad: dict[int, Callable[[], Filed]] = {5: lambda: Raising(store), 15: lambda: Slow(store, busy)}
    coming: ContextVar[int] = ContextVar("coming")

    def begin(chat: Chat) -> None:
        coming.set(chat.number)
        chat.begin(host)

    def turn(chat: Chat) -> None:
        busy.begin()
        chat.turn()
        peak.look()

    with _host(tmp_path, lambda: bad.get(coming.get() % 20, lambda: Filed(store))()) as host:
        peak = Peak(host)
        _everyone(chats, begin)
        _everyone(chats, turn, times=turns)
        busy.finish()
        _flushed(chats)
        for chat in chats:
            _check_kept(chat, store, turns)
            if chat.number % 20 == 5:
                assert chat.recalled == [""] * turns
            else:
                _check_recalled(chat)
        assert 1 < peak.threads <= ASKING + KEEPING
        _everyone(chats, Chat.end)
    with _host(tmp_path, lambda: Filed(store)) as host:
        assert host.recover() == Recovered(handed_over=turns * CHATS // 20)  # what the raising ones refused
