"""Slow, idle, many and endless: what a server holds for a peer has an end in time, in number and in bytes.

Times are the server's own, set small; the tests wait for what it does, never for a while.
"""

from __future__ import annotations

import os
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from strongroom import Token
from tests.server.conftest import StartProcess, StartThread
from tests.server.running import Child, Running
from tests.server.talking import Answer, Connection, request

GET = "/v1/memory/get"
NEVER = 3600.0
MEGABYTE = 1024 * 1024


def last_word(connection: Connection) -> Answer | None:
    """What the server says before it hangs up; None if it says nothing."""
    try:
        return connection.answer()
    except (EOFError, ConnectionError):
        return None


# Slow.


@pytest.mark.requirement("server-slow")
@pytest.mark.parametrize(
    "begun", [b"", b"G", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: local", b"\r\n"]
)
def test_head_that_does_not_come_is_not_waited_for(start: StartThread, begun: bytes) -> None:
    running = start(head_seconds=0.2)
    with running.connect() as connection:
        connection.send(begun)
        said = last_word(connection)
        assert said is None or said.outcome == (408, "request_too_slow")
        assert connection.ended()


@pytest.mark.requirement("server-slow")
def test_head_that_dribbles_gains_no_time(start: StartThread) -> None:
    """Every byte comes soon, and the whole never does."""
    running = start(head_seconds=0.3)
    with running.connect() as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        dribble(connection, b"X: a\r\n")
        assert connection.ended()


@pytest.mark.requirement("server-slow")
def test_head_of_a_later_request_is_not_waited_for_either(start: StartThread) -> None:
    running = start(head_seconds=0.3, idle_seconds=600)
    with running.connect() as connection:
        connection.send(request("GET", "/healthz"))
        assert connection.answer().status == 200
        connection.send(b"GET /heal")
        assert connection.ended()


@pytest.mark.requirement("server-slow")
def test_half_a_head_behind_a_whole_request_is_not_waited_for(start: StartThread) -> None:
    running = start(head_seconds=0.3, idle_seconds=1)
    with running.connect() as connection:
        connection.send(request("GET", "/healthz") + b"GET /heal")
        assert connection.answer().status == 200
        assert connection.ended()


@pytest.mark.requirement("server-slow")
def test_body_that_does_not_come_is_too_slow(start: StartThread, cap: Token) -> None:
    running = start(body_seconds=0.2)
    for begun in (b"", b'{"query"'):
        with running.connect() as connection:
            connection.send(request("POST", GET, cap, headers={"Content-Length": "100"}) + begun)
            assert connection.answer().outcome == (408, "request_too_slow")
            assert connection.ended()


@pytest.mark.requirement("server-slow")
def test_body_that_dribbles_gains_no_time(start: StartThread, cap: Token) -> None:
    running = start(body_seconds=0.3)
    with running.connect() as connection:
        connection.send(request("POST", GET, cap, headers={"Content-Length": "100000"}))
        dribble(connection, b" ")
        assert connection.answer().outcome == (408, "request_too_slow")


@pytest.mark.requirement("server-slow")
def test_chunks_that_dribble_gain_no_time(start: StartThread, cap: Token) -> None:
    running = start(body_seconds=0.3)
    told = {"Content-Length": "", "Transfer-Encoding": "chunked"}
    head = request("POST", GET, cap, headers=told).replace(b"Content-Length: \r\n", b"")
    with running.connect() as connection:
        connection.send(head)
        dribble(connection, b"1;" + b"x" * 100 + b"\r\n \r\n")
        assert connection.answer().outcome == (408, "request_too_slow")


@pytest.mark.requirement("server-slow")
def test_idle_connection_is_closed(start: StartThread) -> None:
    running = start(idle_seconds=1)
    with running.connect() as connection:
        connection.send(request("GET", "/healthz"))
        assert connection.answer().status == 200
        assert connection.ended()


@pytest.mark.requirement("server-slow")
@pytest.mark.parametrize("cap_shown", [True, False])
@pytest.mark.parametrize("more", [b"", b"x", b"xx"])
def test_body_nobody_waits_for_holds_no_connection(
    start: StartThread, cap: Token, cap_shown: bool, more: bytes
) -> None:
    """The answer came before the body did; the rest of the body is not waited for."""
    running = start(idle_seconds=1, body_seconds=0.5, head_seconds=0.5, unproven_limit=10)
    shown = cap if cap_shown else None
    ask = request("GET", "/healthz", headers={"Content-Length": "100"}) if cap_shown else None
    with running.connect() as connection:
        connection.send(ask or request("POST", GET, shown, headers={"Content-Length": "100"}))
        connection.answer()
        connection.send(more)
        assert connection.ended()


@pytest.mark.requirement("server-slow")
def test_slow_peer_slows_nobody_else(start: StartThread, cap: Token) -> None:
    running = start(body_seconds=NEVER, head_seconds=NEVER)
    with ExitStack() as stack:
        for begun in (request("POST", GET, cap, headers={"Content-Length": "100"}), b"GET /") * 50:
            stack.enter_context(running.connect()).send(begun)
        assert running.ask("POST", GET, cap, {}).status == 200


@pytest.mark.requirement("server-slow")
def test_peer_that_does_not_read_is_not_waited_for(start: StartThread) -> None:
    """Answers that nobody takes: the connection ends by itself, though nobody needs its place."""
    running = start(idle_seconds=1, head_seconds=1, body_seconds=1)
    with running.connect() as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.send(request("GET", "/openapi.json") * 200)
        assert any(held(running) == 1 for _ in range(20_000))


@pytest.mark.requirement("server-slow", "server-logs")
def test_peer_that_leaves_before_its_answers_is_no_error(on_disk: Token, start_process: StartProcess) -> None:
    server = start_process()
    for asked in (request("GET", "/openapi.json"), request("POST", GET, on_disk, {})):
        for _ in range(20):
            with server.connect() as connection:
                connection.send(asked * 50)
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert server.ask("GET", "/healthz").status == 200
    server.stop()
    assert [event for event in server.events() if event["level"] in ("error", "critical")] == []


def held(server: Running | Child) -> int:
    """How many connections the server holds, with the one that asks."""
    text = server.ask("GET", "/metrics").body.decode()
    (line,) = [line for line in text.splitlines() if line.startswith("strongroom_connections ")]
    return int(float(line.split()[1]))


def dribble(connection: Connection, drop: bytes) -> None:
    """Send drops, one after the other with a little time between, until the server has answered or left."""
    connection.socket.settimeout(0.02)
    try:
        for _ in range(1000):
            try:
                connection.socket.sendall(drop)
                if not connection.socket.recv(1, socket.MSG_PEEK):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
            return
    finally:
        connection.socket.settimeout(30)
    pytest.fail("the server took every drop")


# Many.


@contextmanager
def idle_connections(running: Running | Child, count: int) -> Iterator[list[Connection]]:
    with ExitStack() as stack:
        yield [stack.enter_context(running.connect()) for _ in range(count)]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for both ends of 2,000 connections in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 5000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.requirement("server-connections")
@pytest.mark.usefixtures("many_files")
def test_two_thousand_idle_connections_do_not_keep_a_good_client_out(start: StartThread, cap: Token) -> None:
    running = start(connections=2100, head_seconds=NEVER)
    with idle_connections(running, 2000):
        for _ in range(20):
            assert running.ask("POST", GET, cap, {}).status == 200


@pytest.mark.requirement("server-connections")
def test_place_of_a_connection_that_ends_is_free_again(start: StartThread) -> None:
    running = start(connections=5, head_seconds=0.3)
    with idle_connections(running, 5) as idle:
        for connection in idle:
            assert last_word(connection) is None
            assert connection.ended()
        for _ in range(20):
            assert running.ask("GET", "/healthz", headers={"Connection": "close"}).status == 200


@pytest.mark.requirement("server-connections")
def test_calls_beyond_the_bound_are_turned_away_and_the_others_answered(start: StartThread, cap: Token) -> None:
    """Each is answered, whole or with a refusal that says when to come again."""
    running = start(waiting=2)
    with idle_connections(running, 30) as connections:
        for connection in connections:
            connection.send(request("POST", "/v1/memory/put", cap, {"lines": [{"text": "x", "namespace": "work"}]}))
        answers = [connection.answer() for connection in connections]
    outcomes = {answer.outcome for answer in answers}
    assert outcomes <= {(200, ""), (429, "rate_limited")}
    assert (200, "") in outcomes
    assert all("retry-after" in answer.headers for answer in answers if answer.status == 429)
    lines = running.ask("POST", "/v1/memory/list", cap, {"namespaces": ["work"]}).json["lines"]
    assert len(lines) == sum(answer.status == 200 for answer in answers)


# Endless.


def garbage(number: int) -> bytes:
    """Requests of every bad kind, each with something that no other has."""
    token = os.urandom(300).hex()
    kinds = (
        request("POST", GET, token, {}),
        request("POST", GET, f"{token}.{token}.{token}~{token}", {}),
        request("GET", f"/{token}"),
        request("GET", "/healthz", headers={"Host": f"{number}.example"}),
        request("GET", "/healthz", headers={"X-Request-Id": str(number), f"X-{number}": token}),
        request("POST", "/v1/memory/put", token, raw=os.urandom(2000)),
        b"GET /\x00" + token.encode() + b"\r\n\r\n",
        request("POST", GET, None, {"query": token}),
        request("POST", GET, None, headers={"Content-Length": "99999999999"}),
    )
    return kinds[number % len(kinds)]


def send_garbage(server: Child, start: int, count: int) -> None:
    connection = server.connect()
    for number in range(start, start + count):
        sent = garbage(number)
        connection.send(sent)
        try:
            answer = connection.answer()
        except (EOFError, ConnectionError):
            answer = None
        if answer is None or b": 99999999999\r\n" in sent or answer.headers.get("connection") == "close":
            connection.close()
            connection = server.connect()
    connection.close()


@pytest.mark.requirement("server-memory")
def test_garbage_leaves_nothing_in_memory(on_disk: Token, start_process: StartProcess) -> None:
    """5,000 requests after 1,000 that warm it up: at most 8 MiB more, 1.7 KB for each, well below what each sent."""
    server = start_process()
    send_garbage(server, 0, 1000)
    before = server.resident()
    send_garbage(server, 1000, 5000)
    assert server.resident() - before < 8 * MEGABYTE
    assert server.ask("POST", GET, on_disk, {}).status == 200


@pytest.mark.requirement("server-memory")
@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X: " + b"a" * 1000 + b"\r\n",
        ),
        (
            b"POST /v1/memory/get HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"400\r\n" + b"a" * 1024 + b"\r\n",
        ),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999\r\n\r\n", b"a" * 1024),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 1024),
    ],
    ids=["trailers", "chunks", "body of a get", "chunk extension"],
)
def test_endless_request_takes_no_endless_memory(
    on_disk: Token, start_process: StartProcess, head: bytes, drop: bytes
) -> None:
    """64 MiB behind a request that was answered long ago, or never will be: at most 16 MiB are held, or it hangs up."""
    server = start_process()
    server.ask("GET", "/healthz")
    before = server.resident()
    with server.connect() as connection:
        connection.send(head)
        for _ in range(64):
            connection.send(drop * 1024)
        server.ask("GET", "/healthz")
        assert server.resident() - before < 16 * MEGABYTE


@pytest.mark.requirement("server-memory")
def test_connections_that_end_in_the_middle_leave_nothing_behind(on_disk: Token, start_process: StartProcess) -> None:
    server = start_process()
    whole = request("POST", "/v1/memory/put", on_disk, {"lines": [{"text": "x" * 5000, "namespace": "work"}]})
    for _ in range(2):
        before = server.resident()
        for number in range(500):
            with server.connect() as connection:
                connection.send(whole[: 1 + number * len(whole) // 501])
        assert server.ask("GET", "/healthz").status == 200
    assert server.resident() - before < 8 * MEGABYTE
    assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 100
