"""The choices of a recall over HTTP: a floor, the newest lines and an explanation, refusals first."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom import Token, Vault
from tests.server.conftest import StartThread
from tests.server.running import Running

GET = "/v1/memory/get"
UNKNOWN = "01JABCDEFGHJKMNPQRSTVWXYZ9"


@pytest.fixture
def running(start: StartThread) -> Running:
    return start()


@pytest.mark.requirement("recall-confidence-bad", "explain-bad")
@pytest.mark.parametrize(
    "more",
    [
        {"min_confidence": "0.5"},
        {"min_confidence": 1.01},
        {"min_confidence": -1},
        {"min_confidence": True},
        {"or_newest": 1},
        {"or_newest": "yes"},
        {"or_newest": None},
        {"explain": 0},
        {"explain": True, "query": " "},
        {"or_newest": True, "ids": [UNKNOWN]},
        {"min_confidence": 0.5, "ids": [UNKNOWN]},
        {"confidence": 0.5},
    ],
    ids=str,
)
def test_bad_choice_is_refused_and_no_line_is_read(
    running: Running, vault: Vault, cap: Token, more: dict[str, Any]
) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    done = running.ask("POST", GET, cap, {"query": "trip", **more})
    assert (done.status, done.json["reason"]) == (400, "invalid_request")
    assert not [entry for _, entry in vault.audit.entries() if entry is not None and entry.op == "get" and entry.lines]


@pytest.mark.requirement("explain-denied")
def test_explaining_a_line_outside_the_cap_gives_the_bytes_of_an_unknown_id(
    running: Running, vault: Vault, cap: Token
) -> None:
    secret = vault.memory(cap).put("Trip with peanuts", namespace="personal").id
    travel = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=60)
    bodies = {
        (done.status, done.body)
        for name in (secret, UNKNOWN)
        for body in ({"ids": [name]}, {"ids": [name], "query": "trip", "explain": True})
        for done in [running.ask("POST", GET, travel, body)]
    }
    assert {status for status, _ in bodies} == {404}
    assert len(bodies) == 1


@pytest.mark.requirement("explain", "recall-newest")
def test_answer_has_the_reasons_only_if_they_were_asked_for(running: Running, vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    (plain,) = running.ask("POST", GET, cap, {"query": "trip to Chengdu"}).json["lines"]
    assert not {"why", "superseded_by", "standing"} & set(plain)
    (why,) = running.ask("POST", GET, cap, {"query": "trip to Chengdu", "explain": True}).json["lines"]
    assert why["why"]["rank"] == 1
    assert "cut" not in why["why"]
    assert running.ask("POST", GET, cap, {"query": "peanuts"}).json == {"lines": []}
    (newest,) = running.ask("POST", GET, cap, {"query": "peanuts", "or_newest": True}).json["lines"]
    assert (newest["score"], newest["confidence"]) == (0.0, 0.0)
