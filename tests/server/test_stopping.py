"""Stopping a server process: what was begun is finished or was never begun, and the process ends as asked."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from ulid import ULID

import strongroom
from strongroom import FileKeys, Token
from tests.server.conftest import StartProcess
from tests.server.talking import Answer, Connection, request

PUT, GET = "/v1/memory/put", "/v1/memory/get"
FLIGHTS = 20


def putting(cap: Token, id_: str, number: int) -> bytes:
    line = {"text": f"line {number} " + "x" * 3000, "namespace": "work", "id": id_}
    return request("POST", PUT, cap, {"lines": [line]})


def heard(connection: Connection) -> Answer | None:
    """The answer, or None where the connection was cut."""
    try:
        return connection.answer()
    except (EOFError, ConnectionError):
        return None


@pytest.mark.requirement("server-stop")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_puts_in_flight_are_finished_or_refused(
    on_disk: Token, start_process: StartProcess, tmp_path: Path, how: int
) -> None:
    server = start_process(stop_seconds=20)
    ids = [str(ULID()) for _ in range(FLIGHTS)]
    wholes = [putting(on_disk, id_, number) for number, id_ in enumerate(ids)]
    with ExitStack() as stack:
        flights = [stack.enter_context(server.connect()) for _ in ids]
        for number, (flight, whole) in enumerate(zip(flights, wholes, strict=True)):
            flight.send(whole[: len(whole) * number // FLIGHTS] if number % 2 else whole)
        server.process.send_signal(how)
        for number, (flight, whole) in enumerate(zip(flights, wholes, strict=True)):
            flight.send(whole[len(whole) * number // FLIGHTS :] if number % 2 else b"")
        answers = [heard(flight) for flight in flights]
    assert server.process.wait(60) == 0
    assert all(answer is None or answer.outcome in ((200, ""), (503, "server_unavailable")) for answer in answers)
    acknowledged = {
        id_ for id_, answer in zip(ids, answers, strict=True) if answer is not None and answer.status == 200
    }
    assert stored(tmp_path, on_disk) >= acknowledged
    check_retries(start_process, on_disk, wholes)
    assert stored(tmp_path, on_disk) == set(ids)
    assert verified(tmp_path)


def check_retries(start_process: StartProcess, cap: Token, wholes: list[bytes]) -> None:
    """Sent again, each is written once: what was there is a duplicate of itself, what was not is new."""
    again = start_process()
    for whole in wholes * 2:
        with again.connect() as connection:
            connection.send(whole)
            assert connection.answer().status == 200
    found: dict[str, Any] = again.ask("POST", "/v1/memory/list", cap, {"namespaces": ["work"]}).json
    assert len(found["lines"]) == len({line["id"] for line in found["lines"]}) == len(wholes)
    assert again.stop() == 0


def stored(tmp_path: Path, cap: Token) -> set[str]:
    place = tmp_path / "disk"
    with strongroom.open(place / "vault", keys=FileKeys(place / "keys")) as vault:
        return {line.id for line in vault.memory(cap).list(namespaces=["work"]).lines}


def verified(tmp_path: Path) -> bool:
    place = tmp_path / "disk"
    with strongroom.open(place / "vault", keys=FileKeys(place / "keys")) as vault:
        return vault.audit.verify().ok


@pytest.mark.requirement("server-stop")
def test_idle_and_half_sent_requests_do_not_keep_a_server_from_stopping(
    on_disk: Token, start_process: StartProcess
) -> None:
    server = start_process(stop_seconds=1, body_seconds=3600, head_seconds=3600, idle_seconds=3600)
    with ExitStack() as stack:
        idle, asked, half, body = (stack.enter_context(server.connect()) for _ in range(4))
        asked.send(request("GET", "/healthz"))
        assert asked.answer().status == 200
        half.send(b"GET /heal")
        body.send(request("POST", GET, on_disk, headers={"Content-Length": "100"}))
        assert server.ask("GET", "/healthz").status == 200
        assert server.stop() == 0
        assert all(heard(connection) is None for connection in (idle, asked, half))
        last = heard(body)
        assert last is None or last.status in (408, 503)


@pytest.mark.requirement("server-stop")
def test_stopped_server_has_closed_its_vault_and_said_so(
    on_disk: Token, start_process: StartProcess, tmp_path: Path
) -> None:
    server = start_process()
    server.ask("POST", PUT, on_disk, {"lines": [{"text": "x", "namespace": "work"}]})
    assert server.stop() == 0
    assert [event["event"] for event in server.events()] == ["listening", "stopped"]
    assert not list((tmp_path / "disk" / "vault").glob("*-wal"))


@pytest.mark.requirement("server-stop")
def test_server_that_stops_takes_no_new_connections(on_disk: Token, start_process: StartProcess) -> None:
    server = start_process(stop_seconds=30)
    whole = putting(on_disk, str(ULID()), 1)
    with server.connect() as flight:
        flight.send(whole[:-1])
        server.process.send_signal(signal.SIGTERM)
        while True:
            try:
                server.connect().close()
            except ConnectionError:
                break
        flight.send(whole[-1:])
        answer = heard(flight)
        assert answer is None or answer.outcome in ((200, ""), (503, "server_unavailable"))
        assert answer is None or answer.headers["connection"] == "close"
    assert server.process.wait(60) == 0
