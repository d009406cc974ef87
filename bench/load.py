"""A load: keeps connections to a server busy and takes the time of every answer. Runs as a process of its own.

A plan may also be paced: so many requests a second, however long the answers take. A request that has to wait for a
connection is counted from when it was due, so that a server that stops for a second is not counted as slow only once.

A connection that the server closes is opened again, and what was asked on it is asked once more, in the same time.

No pipelining: a connection asks again when it has its whole answer, as a client that waits does. It parses no more of
an answer than its status and its length, so that the server, and not this, is what is measured; its own CPU time is
reported so that one can see that. Plans come in and reports go out as lines of JSON; it ends when its stdin does.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from math import inf
from time import perf_counter, process_time
from types import TracebackType
from typing import cast

import msgspec
import uvloop

_READ_LIMIT = 1 << 30


class Plan(msgspec.Struct, frozen=True):
    """What to send where: `count` requests, taken from `requests` in turn, on so many connections at once.

    With `pace` one is due every so many seconds. After `seconds` no more are sent (0: all are). Without any to send,
    the connections are only held open.
    """

    port: int
    connections: int
    count: int
    requests: list[bytes]
    pace: float = 0.0
    seconds: float = 0.0


class Report(msgspec.Struct, frozen=True):
    """What came of a plan. Seconds; `statuses` says how many answers had each HTTP status."""

    wall: float
    cpu: float
    statuses: dict[int, int]
    latencies: list[float]


def request(path: str, body: bytes, *, cap: str = "", headers: Sequence[str] = ()) -> bytes:
    """A POST as a client sends it, ready for the wire."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
    if cap:
        head.append(f"Authorization: Bearer {cap}")
    head += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(head).encode() + body


class Load:
    """The process that asks, seen from outside. Connections stay open from one plan to the next."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Load:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, plan: Plan) -> Report:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(plan) + b"\n")
        self._process.stdin.flush()
        told = self._process.stdout.readline()
        if not told:
            raise RuntimeError("the load's process has died; what it said is on stderr")
        return msgspec.json.decode(told, type=Report)


class _Work:
    """What is still to be asked in one plan, and the times of what was."""

    def __init__(self, plan: Plan) -> None:
        self._upcoming: Iterator[bytes] = islice(cycle(plan.requests), plan.count)
        self._pace = plan.pace
        self._due = perf_counter()
        self._end = self._due + plan.seconds if plan.seconds else inf
        self._under_way = 0
        self.latencies = array("d")
        self.statuses: Counter[int] = Counter()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next(self) -> tuple[bytes, float] | None:
        """What to send next, and when; None if nothing is left."""
        now = perf_counter()
        asked = next(self._upcoming, None) if now < self._end else None
        if asked is None:
            if not self._under_way and not self.done.done():
                self.done.set_result(None)
            return None
        self._under_way += 1
        due, self._due = self._due, self._due + self._pace
        return asked, due if self._pace else now

    def answered(self, status: int, seconds: float) -> None:
        self._under_way -= 1
        self.latencies.append(seconds)
        self.statuses[status] += 1

    def failed(self, what: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(what))


class _Connection(asyncio.Protocol):
    """One connection: asks, waits for the whole answer, asks again."""

    def __init__(self) -> None:
        self.is_open = True
        self._work: _Work | None = None
        self._port = 0
        self._asked = b""
        self._sent = 0.0
        self._read = b""
        self._wanted = 0
        self._status = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_open = True
        self._transport = cast(asyncio.Transport, transport)

    def begin(self, work: _Work, port: int) -> None:
        self._work, self._port = work, port
        self._ask(work)

    def _ask(self, work: _Work) -> None:
        upcoming = work.next()
        if upcoming is None:
            self._work = None
            return
        self._asked, self._sent = upcoming
        early = self._sent - perf_counter()
        if early > 0:
            asyncio.get_running_loop().call_later(early, self._send)
        else:
            self._send()

    def _send(self) -> None:
        self._read, self._wanted = b"", 0
        if self.is_open:
            self._transport.write(self._asked)
        else:
            self._again = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        """Ask once more on a new connection, as clients do: a server may close one that is idle."""
        try:
            await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError as error:
            if self._work is not None:
                self._work.failed(f"no connection could be had: {error}")
            return
        self._send()

    def data_received(self, data: bytes) -> None:
        work = self._work
        if work is None:
            return
        self._read = data = self._read + data if self._read else data
        if not self._wanted and not self._head_of(data):
            return
        if len(data) >= self._wanted:
            work.answered(self._status, perf_counter() - self._sent)
            self._ask(work)

    def _head_of(self, data: bytes) -> bool:
        """Whether an answer's head is whole; then it is known how many bytes there are to be."""
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = data[: end + 2].lower()
        at = head.find(b"\r\ncontent-length:")
        if at < 0:
            self._transport.close()
            return False
        self._status = int(head[9:12])
        self._wanted = end + 4 + int(head[at + 17 : head.index(b"\r\n", at + 17)])
        return True

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.is_open = False
        if self._work is not None and perf_counter() >= self._sent:  # else it is sent on a new one when it is due
            self._again = asyncio.ensure_future(self._connect())


class _Crowd:
    """All connections, by the port that they go to."""

    def __init__(self) -> None:
        self._held: dict[int, list[_Connection]] = {}

    async def run(self, plan: Plan) -> Report:
        crowd = await self._connected(plan)
        work = _Work(plan)
        wall, cpu = perf_counter(), process_time()
        for connection in crowd:
            connection.begin(work, plan.port)
        await work.done
        cpu, wall = process_time() - cpu, perf_counter() - wall
        return Report(wall, cpu, dict(work.statuses), work.latencies.tolist())

    async def _connected(self, plan: Plan) -> list[_Connection]:
        """The connections of a plan: those still open from the one before, and new ones for the rest."""
        loop = asyncio.get_running_loop()
        held = [one for one in self._held.get(plan.port, []) if one.is_open]
        while len(held) < plan.connections:
            _, connection = await loop.create_connection(_Connection, "127.0.0.1", plan.port)
            held.append(connection)
        self._held[plan.port] = held
        return held[: plan.connections]


async def main() -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    lines = asyncio.StreamReader(limit=_READ_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    crowd = _Crowd()
    while told := await lines.readline():
        report = await crowd.run(msgspec.json.decode(told, type=Plan))
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main())
