"""When all connections are taken: who goes, who stays, and who is answered all the same. Real sockets, few places."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from strongroom import Token, Vault
from strongroom.server.http.connection_limits import SPARE, Connections
from strongroom.server.listen import ListenPlace, _allow_files
from strongroom.server.server_options import Options
from tests.server.conftest import StartThread
from tests.server.running import Running
from tests.server.talking import Connection, exchange, request
from tests.server.test_places import certificate
from tests.server.test_pressure import held, idle_connections

GET = "/v1/memory/get"
NEVER = 3600.0
FEW = {"connections": 5, "head_seconds": NEVER, "body_seconds": NEVER, "idle_seconds": 3600}


class Fake:
    """A connection as the places see it."""

    def __init__(self, peer: str, *, since: float = 0, waiting: bool = True, proven: bool = False) -> None:
        self.peer = peer
        self.is_proven = proven
        self.is_spare = False
        self.since = since
        self.waiting = waiting
        self.is_dropped = False

    def is_waiting(self) -> bool:
        return self.waiting

    def drop(self) -> None:
        self.is_dropped = True


def filled(*held: Fake) -> Connections:
    places = Connections(len(held))
    for one in held:
        places.add(one)
    return places


# The order alone.


@pytest.mark.requirement("server-places")
def test_connection_without_a_valid_cap_that_waited_longest_goes_first() -> None:
    proven = Fake("a", since=0, proven=True)
    young, old = Fake("a", since=2), Fake("a", since=1)
    places = filled(proven, young, old)
    places.add(Fake("a", since=3))
    assert [one.is_dropped for one in (proven, young, old)] == [False, False, True]


@pytest.mark.requirement("server-places")
def test_peer_with_most_connections_loses_one_first() -> None:
    lone = Fake("b", since=0)
    many = [Fake("a", since=number) for number in range(1, 4)]
    places = filled(lone, *many)
    for number in range(4, 10):
        places.add(Fake("a", since=number))
    assert not lone.is_dropped
    assert all(one.is_dropped for one in many)
    assert len(places) == 4


@pytest.mark.requirement("server-places")
def test_proven_connection_that_is_being_answered_never_goes() -> None:
    busy = [Fake("a", waiting=False, proven=True) for _ in range(3)]
    places = filled(*busy)
    new = Fake("b")
    places.add(new)
    assert new.is_spare
    assert not any(one.is_dropped for one in busy)


@pytest.mark.requirement("server-places")
def test_one_that_is_answered_without_a_cap_goes_last() -> None:
    busy, proven = Fake("a", waiting=False), Fake("a", proven=True)
    places = filled(busy, proven)
    places.add(Fake("b", waiting=False))
    assert (busy.is_dropped, proven.is_dropped) == (False, True)
    places.add(Fake("c", waiting=False))
    assert busy.is_dropped


@pytest.mark.requirement("server-places")
def test_spare_places_are_bounded_and_the_newest_has_one() -> None:
    places = filled(Fake("a", waiting=False, proven=True))
    spare = [Fake("b") for _ in range(SPARE + 3)]
    for one in spare:
        places.add(one)
    assert [one.is_dropped for one in spare] == [True] * 3 + [False] * SPARE
    assert len(places) == 1 + SPARE


@pytest.mark.requirement("server-places", "server-memory")
def test_connection_that_ended_leaves_nothing() -> None:
    places = Connections(2)
    for number in range(1000):
        one = Fake(str(number), waiting=number % 2 == 0)
        places.add(one)
        places.remove(one)
        places.remove(one)
    assert len(places) == 0
    assert not places._peers


# On a server.


@pytest.mark.requirement("server-places", "server-connections")
def test_idle_connections_of_ones_own_address_keep_nobody_out(start: StartThread, cap: Token) -> None:
    running = start(**FEW)
    with idle_connections(running, 50) as idle:
        for _ in range(20):
            assert running.ask("POST", GET, cap, {}).status == 200
            assert running.ask("GET", "/healthz").status == 200
        assert all(connection.ended() for connection in idle[:45])


@pytest.mark.requirement("server-places")
def test_idle_connections_without_a_cap_do_not_push_out_one_with(start: StartThread, cap: Token) -> None:
    running = start(**FEW)
    with running.connect() as good:
        good.send(request("POST", GET, cap, {}))
        assert good.answer().status == 200
        with idle_connections(running, 100):
            assert running.ask("GET", "/healthz").status == 200
            good.send(request("POST", GET, cap, {}))
            assert good.answer().status == 200


@pytest.mark.requirement("server-places")
@pytest.mark.parametrize(
    "begun",
    [
        b"GET /healthz HTTP/1.1\r\nHost: local",
        request("POST", GET, "garbage", headers={"Content-Length": "100"}) + b"{",
        request("GET", "/healthz"),
        request("GET", "/openapi.json") * 200,
    ],
    ids=["half a head", "half a body", "kept alive", "never reads"],
)
def test_connection_that_keeps_the_server_waiting_can_go(start: StartThread, cap: Token, begun: bytes) -> None:
    running = start(**FEW)
    with idle_connections(running, 20) as slow:
        for connection in slow:
            connection.send(begun)
        assert running.ask("POST", GET, cap, {}).status == 200
        assert held(running) <= 5


@pytest.mark.requirement("server-places", "server-tls")
@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01"])
def test_handshakes_that_hang_keep_nobody_out(start: StartThread, cap: Token, tmp_path: Path, begun: bytes) -> None:
    cert, key = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=cert)
    running = start(ListenPlace(port=0, tls_cert=cert, tls_key=key), trusting, **FEW)
    with idle_connections(running, 30) as hanging:
        for connection in hanging:
            connection.send(begun)
        for _ in range(10):
            assert exchange(running.address, request("POST", GET, cap, {}), tls=trusting).status == 200
        assert all(connection.ended() for connection in hanging[:25])


@pytest.mark.requirement("server-tls")
def test_request_in_the_packet_that_ends_the_handshake_is_answered(
    start: StartThread, cap: Token, tmp_path: Path
) -> None:
    cert, key = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=cert)
    running = start(ListenPlace(port=0, tls_cert=cert, tls_key=key), trusting)
    for _ in range(20):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        agreed = trusting.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with running.connect() as connection:
            while True:
                try:
                    agreed.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.send(outgoing.read())
                    incoming.write(connection.socket.recv(65536))
            agreed.write(request("POST", GET, cap, {}))
            connection.send(outgoing.read())
            assert decrypted(connection, agreed, incoming).startswith(b"HTTP/1.1 200 ")


def decrypted(connection: Connection, agreed: ssl.SSLObject, incoming: ssl.MemoryBIO) -> bytes:
    while True:
        try:
            return agreed.read()
        except ssl.SSLWantReadError:
            incoming.write(connection.socket.recv(65536))


@contextmanager
def all_at_work(running: Running, vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every place is taken by a connection with a valid cap whose call does not end before the context does."""
    go, begun = threading.Event(), threading.Semaphore(0)
    real = vault._state.store.commit_all  # type: ignore[attr-defined]

    def waiting(*args: object) -> object:
        begun.release()
        assert go.wait(60)
        return real(*args)

    with ExitStack() as stack:
        connections = [stack.enter_context(running.connect()) for _ in range(5)]
        for connection in connections:
            connection.send(request("POST", GET, cap, {}))
            assert connection.answer().status == 200
        monkeypatch.setattr(vault._state.store, "commit_all", waiting)
        try:
            for connection in connections:
                connection.send(request("POST", GET, cap, {}))
            assert begun.acquire(timeout=60)
            yield
        finally:
            go.set()
            monkeypatch.undo()
        assert [connection.answer().status for connection in connections] == [200] * 5


@pytest.mark.requirement("server-places", "server-ready")
def test_health_and_metrics_alone_are_answered_if_no_connection_can_go(
    start: StartThread, vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(**FEW)
    with all_at_work(running, vault, cap, monkeypatch):
        with idle_connections(running, 2 * SPARE):
            for path in ("/healthz", "/readyz", "/metrics"):
                answer = running.ask("GET", path)
                assert answer.status == 200
                assert answer.headers["connection"] == "close"
        for path, shown in ((GET, cap), (GET, None)):
            answer = running.ask("POST", path, shown, {})
            assert answer.outcome == (503, "server_unavailable")
            assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.requirement("server-places", "server-metrics")
def test_connections_that_went_are_counted(start: StartThread) -> None:
    running = start(**FEW)
    with idle_connections(running, 20):
        text = running.ask("GET", "/metrics").body.decode()
    figures = dict(line.split() for line in text.splitlines() if line.startswith("strongroom_connections"))
    assert float(figures["strongroom_connections"]) == 5
    assert float(figures["strongroom_connections_dropped_total"]) >= 15


@pytest.mark.requirement("server-places")
def test_no_more_connections_are_held_than_files_may_be_open() -> None:
    assert _allow_files(Options().connections) <= Options().connections
    assert _allow_files(10) == 10
