"""A vault behind a server: get, put and an MCP call over HTTP on loopback, beside a bare echo on the same software.

Client, server and echo are processes of their own. CPU is the server's alone; rates and latencies are what the client
saw with 32 connections that are always busy. Every turn is checked: each answer was a success, and the audit log grew
by one entry for each request, or by none where the commit is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from statistics import median, quantiles
from time import perf_counter, process_time

import msgspec

from bench import vaults
from bench.lines import after, lines, of_size, questions
from bench.load import Load, Plan, Report, request
from bench.measure import Goal, Row, Run
from bench.server import Server, running
from strongroom import NewLine, Token, Vault, wire

CONNECTIONS = 32
_QUESTIONS = 40
_K = 5
_ECHO = "a bare echo on the same server software"
MCP_HEADERS = ("Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-06-18")


@dataclass(slots=True)
class Side:
    """One thing asked of one server, and what every turn of it took."""

    what: str
    server: Server
    requests: Sequence[bytes]
    count: int
    cpu: list[float] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    asked: int = 0

    def turn(self, load: Load, count: int) -> tuple[float, Report]:
        """Ask `count` times; the server's CPU seconds and what the client saw."""
        before = self.server.cpu()
        report = load.run(Plan(self.server.port, CONNECTIONS, count, self._next(count)))
        if set(report.statuses) != {200}:
            raise RuntimeError(f"{self.what}: not every answer was a success: {report.statuses}")
        return self.server.cpu() - before, report

    def _next(self, count: int) -> list[bytes]:
        """As many of the requests as a turn can use, from where the last turn ended."""
        start = self.asked % len(self.requests)
        self.asked += count
        return [*self.requests[start:], *self.requests[:start]][:count]

    def keep(self, load: Load) -> None:
        cpu, report = self.turn(load, self.count)
        self.cpu.append(cpu)
        self.reports.append(report)

    @property
    def micros(self) -> float:
        """Microseconds of the server's CPU for one request."""
        return median(self.cpu) / self.count * 1e6

    @property
    def rate(self) -> float:
        """Requests in a second."""
        return self.count / median(report.wall for report in self.reports)

    @property
    def busy(self) -> tuple[float, float]:
        """Cores that the server and the client had busy."""
        wall = sum(report.wall for report in self.reports)
        return sum(self.cpu) / wall, sum(report.cpu for report in self.reports) / wall

    def millis(self, percent: int) -> float:
        """Milliseconds within which so many percent of the answers came."""
        taken = [seconds for report in self.reports for seconds in report.latencies]
        return quantiles(taken, n=100)[percent - 1] * 1e3


def take_turns(load: Load, sides: Sequence[Side], repeats: int) -> None:
    """Have every side asked in turns (A B C A B C ...), after a first turn that is not counted."""
    for side in sides:
        side.turn(load, max(side.count // 2, CONNECTIONS))
    for _ in range(repeats):
        for side in sides:
            side.keep(load)


def compared(name: str, side: Side, echo: Side, goal: Goal | None = None) -> Iterator[Row]:
    """The rows of one side."""
    yield Row(name, side.what, "us cpu", side.micros, echo.micros, _ECHO, goal)
    yield Row(name, side.what, "req/s", side.rate, echo.rate, _ECHO)
    for percent in (50, 99):
        yield Row(name, side.what, f"ms p{percent}", side.millis(percent), echo.millis(percent), _ECHO)


def client_row(name: str, side: Side) -> Row:
    """Who was the busier one: if it was the client, the rates say more about it than about the server."""
    return Row(name, f"cores busy: {side.what}", "cores", *side.busy, "the client's process")


def asking(cap: Token, known: Sequence[NewLine]) -> list[bytes]:
    """Questions about some lines, each a request."""
    calls = (wire.Get(query=question, k=_K, now=after(known)) for question in questions(_QUESTIONS))
    return [request(wire.Get.path, msgspec.json.encode(call), cap=cap) for call in calls]


def echoed(requests: Sequence[bytes]) -> list[bytes]:
    """The same requests as an echo gets them: the head is the same, only the address is another."""
    return [asked.replace(wire.Get.path.encode(), b"/echo", 1) for asked in requests]


def filled(vault: Vault, count: int) -> tuple[Token, list[NewLine]]:
    """A cap for an actor who has so many lines, and the lines."""
    cap = vaults.session_cap(vault, f"local/has{count}")
    known = list(lines(count, count))
    vaults.fill(vault.memory(cap), known)
    return cap, known


def _check_log(vault: Vault, before: int, sides: Sequence[Side]) -> None:
    grown, asked = vault.audit.size() - before, sum(side.asked for side in sides)
    if grown != asked:
        raise RuntimeError(f"{asked} requests left {grown} entries in the log")


def get(run: Run) -> Iterator[Row]:
    """A get on a shelf of ten lines and on one of ten thousand, with its log commit and with that left out."""
    with ExitStack() as stack:
        vault = stack.enter_context(vaults.make(run.scratch))
        small, large = (asking(*filled(vault, count)) for count in (10, 10_000))
        load = stack.enter_context(Load())
        bare, logged, unlogged = (
            stack.enter_context(running(kind, run.scratch)) for kind in ("echo", "vault", "unlogged")
        )
        few, many = run.pick(100, 40), run.pick(800, 200)
        echo = Side("echo", bare, echoed(small), run.pick(2000, 400))
        sides = [
            Side("get, 10 lines, commit left out", unlogged, small, many),
            Side("get, 10 lines, logged", logged, small, many),
            Side("get, 10,000 lines, commit left out", unlogged, large, few),
            Side("get, 10,000 lines, logged", logged, large, few),
        ]
        size = vault.audit.size()
        take_turns(load, [echo, *sides], run.pick(7, 3))
        _check_log(vault, size, [side for side in sides if side.server is logged])
    goals = [Goal("ratio", 5, 3), None, None, None]
    for side, goal in zip(sides, goals, strict=True):
        yield from compared("serve.get", side, echo, goal)
    for side in (echo, sides[0]):
        yield client_row("serve.get", side)


def put(run: Run) -> Iterator[Row]:
    """Puts on 32 connections, beside an echo and beside 32 threads on an embedded vault."""
    repeats, each = run.pick(7, 3), run.pick(20, 10)
    count = CONNECTIONS * each
    texts = of_size(2, 200)
    with ExitStack() as stack:
        vault = stack.enter_context(vaults.make(run.scratch))
        cap = vaults.session_cap(vault)
        vaults.fill(vault.memory(cap), lines(1, 1000))
        load = stack.enter_context(Load())
        bare, logged = (stack.enter_context(running(kind, run.scratch)) for kind in ("echo", "vault"))
        embedded = stack.enter_context(_Embedded.made(run, each))
        echo = Side("echo", bare, echoed(asking(cap, list(lines(1, 10)))), run.pick(2000, 400))
        side = Side(f"put, {CONNECTIONS} connections", logged, [], count)
        size = vault.audit.size()
        for turn in range(repeats + 1):
            side.requests = [_putting(cap, text) for text in islice(texts, count)]
            embedded.turn(list(islice(texts, count)))
            for one in (side, echo):
                one.keep(load) if turn else one.turn(load, one.count)
        _check_log(vault, size, [side])
    yield from compared("serve.put", side, echo)
    beside = f"the embedded vault, {CONNECTIONS} threads"
    yield Row("serve.put", side.what, "lines/s", side.rate, count / embedded.wall, beside, Goal("share", 0.5, 1))
    yield Row("serve.put", side.what, "us cpu", side.micros, embedded.cpu / count * 1e6, beside)
    yield client_row("serve.put", side)


def _putting(cap: Token, text: str) -> bytes:
    line = NewLine(text=text, session="chat-1", author="user", kind="turn")
    return request(wire.Put.path, msgspec.json.encode(wire.Put(lines=(line,))), cap=cap)


class _Embedded:
    """The same puts by threads of this process, on a vault of its own."""

    def __init__(self, vault: Vault, each: int) -> None:
        self._vault = vault
        self._memory = vault.memory(vaults.session_cap(vault))
        self._each = each
        self._pool = ThreadPoolExecutor(CONNECTIONS)
        self._costs: list[tuple[float, float]] = []
        vaults.fill(self._memory, lines(1, 1000))

    @classmethod
    def made(cls, run: Run, each: int) -> _Embedded:
        directory = run.scratch / "embedded"
        directory.mkdir()
        return cls(vaults.make(directory), each)

    def __enter__(self) -> _Embedded:
        return self

    def __exit__(self, *failure: object) -> None:
        self._pool.shutdown()
        self._vault.close()

    def turn(self, texts: Sequence[str]) -> None:
        def some(own: Sequence[str]) -> None:
            for text in own:
                self._memory.put(text, session="chat-1", author="user", kind="turn")

        shares = [texts[at : at + self._each] for at in range(0, len(texts), self._each)]
        wall, cpu = perf_counter(), process_time()
        list(self._pool.map(some, shares))
        self._costs.append((perf_counter() - wall, process_time() - cpu))

    @property
    def wall(self) -> float:
        return median(wall for wall, _ in self._costs[1:])

    @property
    def cpu(self) -> float:
        return median(cpu for _, cpu in self._costs[1:])


def mcp(run: Run) -> Iterator[Row]:
    """One tools/call of memory_get over MCP, on a shelf of ten lines."""
    with ExitStack() as stack:
        vault = stack.enter_context(vaults.make(run.scratch))
        cap, known = filled(vault, 10)
        load = stack.enter_context(Load())
        bare, logged = (stack.enter_context(running(kind, run.scratch)) for kind in ("echo", "vault"))
        echo = Side("echo", bare, echoed(asking(cap, known)), run.pick(2000, 400))
        side = Side("MCP tools/call of memory_get, 10 lines", logged, _calling(cap, known), run.pick(200, 100))
        size = vault.audit.size()
        take_turns(load, [echo, side], run.pick(5, 3))
        _check_log(vault, size, [side])
    yield from compared("serve.mcp", side, echo)


def _calling(cap: Token, known: Sequence[NewLine]) -> list[bytes]:
    def body(number: int, question: str) -> bytes:
        arguments = {"query": question, "k": _K, "now": after(known)}
        params = {"name": "memory_get", "arguments": arguments}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    return [
        request("/mcp", body(number, question), cap=cap, headers=MCP_HEADERS)
        for number, question in enumerate(questions(_QUESTIONS))
    ]


def ram(run: Run) -> Iterator[Row]:
    """What the server's process takes while it answers gets, denials and garbage."""
    count = run.pick(200_000, 8_000)
    with ExitStack() as stack:
        vault = stack.enter_context(vaults.make(run.scratch))
        mixed = _mixed(*filled(vault, 10))
        load = stack.enter_context(Load())
        server = stack.enter_context(running("vault", run.scratch))

        def ask(some: int) -> float:
            load.run(Plan(server.port, CONNECTIONS, some, mixed))
            return server.resident() / 1e6

        # What every thread and connection keeps from its first calls on is there after some thousands.
        start = ask(count // 20)
        middle = ask(count // 2 - count // 20)
        end = ask(count // 2)
    for what, size, goal in ((f"{count // 2:,}", middle, None), (f"{count:,}", end, Goal("ratio", 1.05, 1.01))):
        yield Row(
            "serve.ram", f"resident after {what} mixed requests", "MB", size, start, f"after {count // 20:,}", goal
        )


def _mixed(cap: Token, known: Sequence[NewLine]) -> list[bytes]:
    """Of eight requests one is a get, one is denied, which is logged, and six are garbage, which is counted."""
    denied = msgspec.json.encode(wire.Get(query="anything", namespaces=("personal",)))
    logged = [request(wire.Get.path, denied, cap=cap), request(wire.Get.path, b'{"query": "cut o', cap=cap)]
    capless, nowhere = request(wire.Get.path, b"{}"), request("/nowhere", b"{}", cap=cap)
    garbled = [request(wire.Get.path, b"{}", cap=text) for text in ("garbage." + "x" * 500, cap.replace(".", "!", 1))]
    return [
        asked
        for at, get in enumerate(asking(cap, known))
        for asked in (get, capless, garbled[0], nowhere, logged[at % 2], capless, garbled[1], nowhere)
    ]
