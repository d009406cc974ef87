"""The host of memory providers: a turn through it beside direct calls, its journal beside a bare file, many chats.

The providers here do next to nothing, so what is measured is the host. Work that the host does after a turn, on threads
of its own, counts as CPU and not as time of the turn, unless a row says that it waited for it.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from bench.lines import of_size
from bench.measure import Cost, Row, Run, Work, in_turns
from strongroom.host import AgentSession, Host, MemoryManager, MemoryProvider, recall_fence
from strongroom.host.cache.agent_cache import AgentCache, User
from strongroom.host.cache.settings_file import Watched
from strongroom.host.provider_interface import Message, Schema
from strongroom.host.provider_limits import Limits

_THREADS = 32
_CHATS = 200
_PATIENCE = 60.0
_USER, _ASSISTANT = islice(of_size(3, 200), 2)
_RECALLED = "\n".join(islice(of_size(4, 200), 5))


class Idle(MemoryProvider):
    """Does nothing; recalls what it was made with, always the same."""

    def __init__(self, recalled: str = "") -> None:
        self._recalled = recalled

    @property
    def name(self) -> str:
        return "idle"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Schema]:
        return []

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        pass

    def prefetch(self, query: str, *, session_id: str = "") -> str:  # noqa: ARG002
        return self._recalled


class Listing(Idle):
    """Holds every turn in a list, as the least that a provider can keep."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[str] = []

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",  # noqa: ARG002
        messages: Sequence[Message] | None = None,  # noqa: ARG002
    ) -> None:
        self.turns.append(f"{user_content}\n{assistant_content}")


class Waiting(Idle):
    """Takes a turn only when it may, so that the turn alone is in the journal until then."""

    may = threading.Event()

    def sync_turn(self, *_: Any, **__: Any) -> None:
        self.may.wait(_PATIENCE)


class Watching(Idle):
    """Its settings are a file of five keys, which a signature looks at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._settings = Watched(path, lambda text: dict(json.loads(text or "{}")))

    def cache_busting_signature(self) -> Mapping[str, Any]:
        return {f"idle.{key}": value for key, value in self._settings.value.items()}


class BareFile:
    """The least that makes a turn durable: its bytes, and a sync. In clear text, and with nobody to hand it to."""

    def __init__(self, path: Path, size: int) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._bytes = os.urandom(size)
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        self._written = self._synced = 0

    def write(self) -> None:
        os.write(self._file, self._bytes)
        os.fdatasync(self._file)

    def write_grouped(self) -> None:
        """As `write`, for many threads: those who wait for a sync share the next one."""
        with self._writing:
            os.write(self._file, self._bytes)
            self._written += 1
            mine = self._written
        with self._syncing:
            if self._synced < mine:
                upto = self._written
                os.fdatasync(self._file)
                self._synced = upto

    def close(self) -> None:
        os.close(self._file)


@contextmanager
def _host(scratch: Path, provider: Callable[[], MemoryProvider] | None) -> Iterator[Host]:
    with Host(scratch / "home", provider, keys=scratch / "keys") as host:
        yield host


@contextmanager
def _bare(scratch: Path) -> Iterator[BareFile]:
    """A bare file that gets as many bytes for a turn as the journal does."""
    with _host(scratch / "probe", Waiting) as host:
        host.manager(_session(0)).sync_turn(_USER, _ASSISTANT)
        (journal,) = (scratch / "probe" / "home" / "memory-journal").iterdir()
        size = journal.stat().st_size
        Waiting.may.set()
    file = BareFile(scratch / "bare", size)
    yield file
    file.close()


def _session(number: int) -> AgentSession:
    key = f"agent:main:bench:dm:{number}"
    return AgentSession(f"session-{number}", platform="bench", user_id=str(number), gateway_session_key=key)


def _turn(memory: MemoryManager) -> None:
    memory.on_turn_start(_USER)
    memory.prefetch(_USER)
    memory.sync_turn(_USER, _ASSISTANT)


def _called(provider: MemoryProvider) -> None:
    provider.on_turn_start(1, _USER)
    provider.prefetch(_USER, session_id="session-0")
    provider.sync_turn(_USER, _ASSISTANT, session_id="session-0")


def _wall_and_cpu(sides: Sequence[Work], settle: Work, repeats: int, calls: int) -> list[Cost]:
    """Wall time as the caller sees it, and CPU with all that the host does afterwards."""
    seen = in_turns(sides, repeats=repeats, calls=calls, before=settle)

    def settled() -> None:
        sides[0]()
        settle()

    spent = in_turns((settled, *sides[1:]), repeats=repeats, calls=calls)
    return [Cost(one.cpu, other.wall) for one, other in zip(spent, seen, strict=True)]


def turn(run: Run) -> Iterator[Row]:
    with _host(run.scratch, Idle) as host, _bare(run.scratch) as file:
        memory, provider = host.manager(_session(0)), Idle()

        def durable() -> None:
            _called(provider)
            file.write()

        sides = (lambda: _turn(memory), lambda: _called(provider), durable)
        ours, called, written = _wall_and_cpu(sides, lambda: memory.flush(_PATIENCE), run.pick(100, 15), 8)
    what = "a turn, provider does nothing"
    for bare, beside in ((called, "the direct calls"), (written, "the direct calls, write and fdatasync")):
        yield Row("host.turn", what, "us wall", ours.wall * 1e6, bare.wall * 1e6, beside)
        yield Row("host.turn", what, "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)


def sync(run: Run) -> Iterator[Row]:
    with _host(run.scratch, Idle) as host, _bare(run.scratch) as file:
        yield from _sync_of_one(run, host.manager(_session(0)), file)
        yield from _sync_of_many(run, [host.manager(_session(1 + one)) for one in range(_THREADS)], file)


def _sync_of_one(run: Run, memory: MemoryManager, file: BareFile) -> Iterator[Row]:
    sides = (lambda: memory.sync_turn(_USER, _ASSISTANT), file.write)
    ours, bare = _wall_and_cpu(sides, lambda: memory.flush(_PATIENCE), run.pick(150, 30), 8)
    what, beside = "sync_turn, one chat", "write and fdatasync of the same bytes"
    yield Row("host.sync", what, "us wall", ours.wall * 1e6, bare.wall * 1e6, beside)
    yield Row("host.sync", what, "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)


def _sync_of_many(run: Run, memories: Sequence[MemoryManager], file: BareFile) -> Iterator[Row]:
    each = run.pick(20, 10)

    def flush() -> None:
        for memory in memories:
            memory.flush(_PATIENCE)

    with ThreadPoolExecutor(_THREADS) as pool:

        def everybody(work: Callable[[MemoryManager], object]) -> None:
            list(pool.map(lambda memory: [work(memory) for _ in range(each)], memories))

        def ours() -> None:
            everybody(lambda memory: memory.sync_turn(_USER, _ASSISTANT))

        kept, bare = _wall_and_cpu((ours, lambda: everybody(lambda _: file.write_grouped())), flush, run.pick(25, 5), 1)
    count, what, beside = each * len(memories), f"sync_turn, {_THREADS} threads", "write and a shared fdatasync"
    yield Row("host.sync", what, "turns/s", count / kept.wall, count / bare.wall, beside)
    yield Row("host.sync", what, "us cpu", kept.cpu / count * 1e6, bare.cpu / count * 1e6, beside)


def prefetch(run: Run) -> Iterator[Row]:
    provider = Idle(_RECALLED)
    with _host(run.scratch, lambda: Idle(_RECALLED)) as host, ThreadPoolExecutor(1) as pool:
        memory = host.manager(_session(0))
        sides = (
            lambda: memory.prefetch(_USER),
            lambda: provider.prefetch(_USER, session_id="session-0"),
            lambda: pool.submit(provider.prefetch, _USER, session_id="session-0").result(2.0),
            lambda: recall_fence.fence_recall(_RECALLED, Limits().recalled, os.urandom(16).hex()),
        )
        ours, called, pooled, fenced = in_turns(sides, repeats=run.pick(60, 15), calls=100)
    what = f"prefetch of {len(_RECALLED):,} characters"
    for bare, beside in ((called, "the direct call"), (pooled, "the standard library's pool, no fence")):
        yield Row("host.prefetch", what, "us wall", ours.wall * 1e6, bare.wall * 1e6, beside)
        yield Row("host.prefetch", what, "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)
    yield Row("host.prefetch", "of it: the fence", "us cpu", fenced.cpu * 1e6, ours.cpu * 1e6, "the whole prefetch")


# Many chats, each side in processes of its own.


def chats(run: Run) -> Iterator[Row]:
    turns = run.pick(25, 10)
    taken: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
    for number in range(run.pick(3, 1)):
        for side, figures in taken.items():
            scratch = run.scratch / f"{side}-{number}"
            scratch.mkdir()
            figures.append(_child(side, turns, scratch))
    ours, bare = ({name: median(one[name] for one in figures) for name in figures[0]} for figures in taken.values())
    what, count = f"{_CHATS} chats of {turns} turns", _CHATS * turns
    beside = "the direct calls, write and a shared fdatasync"
    yield Row("host.chats", what, "turns/s", count / ours["wall"], count / bare["wall"], beside)
    yield Row("host.chats", what, "us cpu", ours["cpu"] / count * 1e6, bare["cpu"] / count * 1e6, beside)
    yield Row("host.chats", "threads of the host", "threads", ours["threads"], _CHATS, "one for each chat")
    resident, alone, again = (size / _CHATS / 1e3 for size in (ours["grown"], bare["grown"], ours["again"]))
    yield Row("host.chats", "resident, for each chat", "kB", resident, alone, "the providers and their lists alone")
    yield Row("host.chats", f"the same, after {2 * _CHATS} others ended", "kB", again, resident, "the first chats")


def _child(side: str, turns: int, scratch: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.host", side, str(turns), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _resident() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _driven(turns: int, acts: Sequence[Work]) -> None:
    """Have each act done so many times by threads of which each goes round its own share."""

    def drive(own: Sequence[Work]) -> None:
        for _ in range(turns):
            for act in own:
                act()

    with ThreadPoolExecutor(_THREADS) as drivers:
        list(drivers.map(drive, (acts[first::_THREADS] for first in range(min(_THREADS, len(acts))))))


def _through_the_host(turns: int, scratch: Path) -> dict[str, float]:
    with _host(scratch, Listing) as host:
        _driven(2, [partial(_turn, host.manager(_session(_CHATS)))])
        before = _resident()
        figures = _wave(host, turns, before)
        _wave(host, turns, before)
        again = _wave(host, turns, before)["grown"]
        return figures | {"again": again, "threads": host.threads}


def _wave(host: Host, turns: int, before: float) -> dict[str, float]:
    """Begin all chats, have their turns, and end them; what it took, and how much the process has grown meanwhile."""
    memories = [host.manager(_session(number)) for number in range(_CHATS)]
    figures = _timed(turns, [partial(_turn, memory) for memory in memories], memories)
    figures["grown"] = _resident() - before
    for memory in memories:
        memory.end()
    return figures


def _directly(turns: int, scratch: Path) -> dict[str, float]:
    with _bare(scratch) as file:
        before = _resident()
        providers = [Listing() for _ in range(_CHATS)]

        def act(provider: Listing) -> None:
            _called(provider)
            file.write_grouped()

        figures = _timed(turns, [partial(act, one) for one in providers], ())
        return figures | {"grown": _resident() - before}


def _timed(turns: int, acts: Sequence[Work], memories: Sequence[MemoryManager]) -> dict[str, float]:
    wall, cpu = perf_counter(), process_time()
    _driven(turns, acts)
    if not all(memory.flush(_PATIENCE) for memory in memories):
        raise RuntimeError("the providers did not take every turn")
    return {"wall": perf_counter() - wall, "cpu": process_time() - cpu}


# A gateway's cache of agents.


@dataclass(frozen=True, slots=True)
class _Agent:
    memory: MemoryManager

    def end(self) -> None:
        self.memory.end()


_RUNTIME = {
    "model": {"name": "large", "max_tokens": 4096, "base_url": "http://127.0.0.1:8000/v1"},
    "api_key": "sk-" + "0" * 48,
    "tools": [f"tool_{number}" for number in range(24)],
    "settings": {f"setting_{number}": number for number in range(12)},
}


def cache(run: Run) -> Iterator[Row]:
    file = run.scratch / "settings.json"
    keys = ("peer_name", "ai_peer", "pin_user_peer", "user_peer_aliases", "runtime_peer_prefix")
    file.write_text(json.dumps(dict.fromkeys(keys, "as it was")))
    yield _lookup(run, "without", None, lambda: None, "JSON, SHA-256 and a look into a dict")
    yield _lookup(
        run, "with a watched file", lambda: Watching(file), lambda: os.stat(file), "the same, and the file's status"
    )


def _lookup(run: Run, name: str, make: Callable[[], MemoryProvider] | None, look: Work, beside: str) -> Row:
    users = [User(str(number)) for number in range(100)]
    known = {_hashed(user): user for user in users}
    with _host(run.scratch / name, make) as host:
        agents = AgentCache[_Agent](lambda _key, _runtime, user: _Agent(host.manager(_session(int(user.id)))))
        messages, bare = cycle(users), cycle(users)

        def ours() -> None:
            user = next(messages)
            with agents.agent(user.id, runtime=_RUNTIME, user=user):
                pass

        def plain() -> None:
            look()
            known[_hashed(next(bare))]

        for _ in users:
            ours()
        spent, base = in_turns((ours, plain), repeats=run.pick(60, 15), calls=100)
        agents.close()
    what = f"the agent of a message, {name} provider" if make is None else f"the agent of a message, {name}"
    return Row("host.cache", what, "us cpu", spent.cpu * 1e6, base.cpu * 1e6, beside)


def _hashed(user: User) -> bytes:
    return sha256(json.dumps([_RUNTIME, user.id], sort_keys=True).encode()).digest()


def main(side: str, turns: int, scratch: Path) -> None:
    measured = _through_the_host if side == "ours" else _directly
    print(json.dumps(measured(turns, scratch)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
