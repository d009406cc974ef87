"""Workers over a way to the bucket that loses answers, refuses and cuts, killed meanwhile: every promise holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

import strongroom
from strongroom import Vault
from tests.s3 import workers
from tests.s3.proxy import Proxy, proxied
from tests.s3.servers import BUCKET, Server
from tests.s3.test_fleet import ACTORS, PATIENCE, WORKERS, Crowd, Load, check_logs, texts

pytestmark = pytest.mark.filterwarnings(r"ignore:unclosed <socket.socket fd=\d+:ResourceWarning")


class Fault(NamedTuple):
    """One thing that the way does to the next requests, and how often it has done it so far."""

    cause: Callable[[Proxy, int], None]
    count: Callable[[Proxy], int]


def _refusing(status: int, code: str, only: str = "") -> Fault:
    return Fault(lambda way, count: way.refuse(count, status, code, only=only), lambda way: way.refused)


FAULTS = (
    Fault(lambda way, count: way.lose(count), lambda way: way.lost),
    _refusing(503, "SlowDown"),
    _refusing(500, "InternalError"),
    _refusing(503, "ServiceUnavailable", only="PUT"),
    _refusing(409, "ConditionalRequestConflict", only="PUT"),
)
"""One after the other. The answers to PUTs are lost, with their effect. Between two rounds every connection is cut."""
_EACH = 20
"""Operations between two faults."""


@pytest.fixture
def place(s3: Server, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the vault is. The owner's way to it is sound."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path / "keys"))
    return f"s3://{BUCKET}/{prefix}"


@pytest.fixture
def vault(place: str) -> Iterator[Vault]:
    with strongroom.create(place) as made:
        yield made


def _faults(way: Proxy, fleet: workers.Fleet, load: Load) -> Callable[[Crowd], None]:
    """Faults at the way all along; now and then a worker is killed, and comes up in fair weather.

    Each fault has taken place as often as it should before the next one begins, however fast the machine is.
    """
    chance = random.Random(load.operations)
    steps = load.operations // _EACH - 2
    killed = {steps * (number + 1) // (load.kills + 1) for number in range(load.kills)}

    def cause(crowd: Crowd, fault: Fault) -> None:
        often = chance.randrange(1, 4)
        enough = fault.count(way) + often
        fault.cause(way, often)
        crowd.wait_until(lambda: fault.count(way) >= enough)

    def act(crowd: Crowd) -> None:
        faults = cycle([*FAULTS, None])
        for step in range(steps):
            crowd.wait_until(lambda: crowd.done >= step * _EACH)  # noqa: B023
            if step in killed:
                fleet.replace(chance.randrange(WORKERS))
            elif fault := next(faults):
                cause(crowd, fault)
            else:
                way.cut()

    return act


@pytest.mark.requirement("fleet-killed-workers", "fleet-faulty-way")
@pytest.mark.parametrize(
    "load", [Load(6, 400, 2), pytest.param(Load(16, 10_000, 15), marks=pytest.mark.long)], ids=["small", "whole"]
)
def test_workers_over_a_faulty_way_that_are_killed_lose_nothing_acknowledged_and_leave_nothing_twice(
    s3: Server, place: str, vault: Vault, tmp_path: Path, load: Load
) -> None:
    caps = [
        vault.mint(actor=f"local/a{number}", ops=["put", "get", "list"], namespaces=["travel"], ttl=24 * 3600)
        for number in range(ACTORS)
    ]
    with (
        proxied(s3.endpoints[0]) as way,
        workers.fleet(replace(s3, endpoints=[way.endpoint]), place, tmp_path / "keys", WORKERS) as fleet,
    ):
        crowd = Crowd(fleet, caps, load)
        crowd.run(_faults(way, fleet, load))
        assert crowd.done >= load.operations
        assert way.lost >= load.operations // 200
        assert way.refused > load.operations // 50
        for cap, expected in zip(caps, crowd.kept, strict=True):
            with strongroom.connect(fleet.urls[0], cap, timeout=PATIENCE) as memory:
                assert texts(memory) == expected, "acknowledged and lost, or written twice, or by nobody"
        assert fleet.stop() == [0] * WORKERS
    check_logs(place, vault, fleet.started + 1)
