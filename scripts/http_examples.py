"""Requests and answers for docs/http.md: every call, made to a real application on a vault that is thrown away.

The clock stands still. What is random (ids, hashes, caps, signatures) is replaced by something made up of the same
form, the same everywhere it stands, so that the page is the same each time it is written.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

import strongroom
from strongroom import Token, wire
from strongroom.model import Millis
from strongroom.server.app import Application
from strongroom.server.options import DEFAULT

MOMENT = Millis(int(datetime(2026, 5, 20, 9, tzinfo=UTC).timestamp() * 1000))
LINE = "01KS2Q8G00EXAMPLE0TR1P0000"
REQUEST_ID = "trip-planner-17"
SHOWN_HEADERS = ("etag", "retry-after", "www-authenticate")


@dataclass(frozen=True)
class Example:
    """One request and what came back."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: Any
    status: int
    told: Mapping[str, str]
    answer: Any


@dataclass
class Stage:
    """An application, the caps for it, and the examples so far."""

    client: httpx.AsyncClient
    caps: Mapping[str, Token]
    masks: Masks = field(default_factory=lambda: Masks())

    async def ask(
        self, kind: type[wire.Call[Any]], body: Any = None, *, who: str = "agent", query: str = "", **headers: str
    ) -> Example:
        """Make a call as it is and keep it as it may be shown."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.client.request(
            kind.method, kind.path + query, json=body, headers={**sent, "Authorization": f"Bearer {self.caps[who]}"}
        )
        told = {name.title(): response.headers[name] for name in SHOWN_HEADERS if name in response.headers}
        found = Example(kind.method, kind.path + query, sent, body, response.status_code, told, response.json())
        return replace(found, headers=self.masks.of(sent), told=self.masks.of(told), answer=self.masks.of(found.answer))


class Masks:
    """Stand-ins for what is random: numbered, of the same form, the same wherever the same value stands."""

    _FORMS = (
        (re.compile(r"eyJ[\w.~-]{80,}"), lambda number: f"eyJhbGciOiJFZERTQSIs…{number}"),
        (re.compile(r"\b[0-9a-f]{64}\b"), lambda number: f"{number:02x}" * 4 + "…" + f"{number:02x}" * 4),
        (re.compile(r"\b[0-9a-f]{32}\b"), lambda number: f"{number:02x}" * 16),
        (re.compile(r"\b[0-9a-f]{16}\b"), lambda number: f"{number:02x}" * 8),
        (re.compile(r"\b[0-9a-f]{8}\b"), lambda number: f"{number:02x}" * 4),
        (re.compile(r"[A-Za-z0-9+/]{40,}={0,2}"), lambda number: f"…{number}"),
    )
    _FIXED = {"shelf_bytes": 4096, "holder": "…"}
    """Differs between versions of Python, or says nothing."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._FIXED.get(key) if value[key] and key in self._FIXED else self.of(value[key]) for key in value}
        if isinstance(value, list):
            return [self.of(one) for one in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        for pattern, made in self._FORMS:
            text = pattern.sub(lambda found, made=made: self._stand_in(found[0], made), text)  # type: ignore[misc]
        return text

    def _stand_in(self, value: str, made: Any) -> str:
        if value in self._seen.values() or value == LINE:
            return value
        return self._seen.setdefault(value, made(len(self._seen) + 1))


def examples() -> dict[str, Example]:
    """One example for each call, by its name; and one denial and one missing cap."""
    with tempfile.TemporaryDirectory() as scratch:
        keys = strongroom.FileKeys(Path(scratch) / "keys")
        with strongroom.create(Path(scratch) / "vault", keys=keys, now=lambda: MOMENT) as vault:
            return asyncio.run(_performed(vault))


async def _performed(vault: strongroom.Vault) -> dict[str, Example]:
    ops = ["put", "get", "list", "snapshot", "profile", "forget", "erase", "renew"]
    caps = {
        "agent": vault.mint(actor="local/alice", ops=ops, namespaces=["travel", "work"], ttl=30 * 86400, label="agent"),
        "admin": vault.mint(
            actor_scope="local/", data_class="admin", ops=["mint", "revoke", "audit"], namespaces=["travel"], ttl=86400
        ),
    }
    app = Application(vault, replace(DEFAULT, mcp=False, checkpoint_seconds=0))
    await app.start()
    try:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            stage = Stage(client, caps)
            return {**await _memory(stage), **await _administration(stage)}
    finally:
        await app.stop()


async def _memory(stage: Stage) -> dict[str, Example]:
    text, query = "Trip to Chengdu, May 25-29, 2026", "?namespace=travel"
    line = {"id": LINE, "text": text, "namespace": "travel", "session": "monday", "time": "2026-05-20T09:00:00Z"}
    found = {
        "Put": await stage.ask(wire.Put, {"lines": [line]}, X_Request_Id=REQUEST_ID),
        "Get": await stage.ask(wire.Get, {"query": "where am I going next week?", "k": 3}),
        "denied": await stage.ask(wire.Get, {"query": "allergies", "namespaces": ["personal"]}),
        "List": await stage.ask(wire.List, {"namespaces": ["travel"], "limit": 10}),
        "WriteProfile": await stage.ask(wire.WriteProfile, {"text": "Prefers window seats."}, query=query),
        "ReadProfile": await stage.ask(wire.ReadProfile, query=query),
    }
    found["conflict"] = await stage.ask(wire.WriteProfile, {"text": "Prefers the aisle."}, query=query)
    found["TakeSnapshot"] = await stage.ask(wire.TakeSnapshot, {})
    found["Forget"] = await stage.ask(wire.Forget, {"session": "monday"})
    found["Renew"] = await stage.ask(wire.Renew, {})
    return found


async def _administration(stage: Stage) -> dict[str, Example]:
    terms = {"actor": "local/bob", "ops": ["put", "get"], "namespaces": ["travel"], "ttl": 3600, "label": "booking"}
    # The link as it is, before it is masked: the next call needs it.
    response = await stage.client.post(
        wire.Mint.path, json=terms, headers={"Authorization": f"Bearer {stage.caps['admin']}"}
    )
    link = response.json()["link"]
    found = {
        "Mint": Example("POST", wire.Mint.path, {}, terms, response.status_code, {}, stage.masks.of(response.json())),
        "ListCaps": await stage.ask(wire.ListCaps, {}, who="admin"),
        "Revoke": await stage.ask(wire.Revoke, {"link": link}, who="admin"),
        "ReadEntries": await stage.ask(wire.ReadEntries, {"start": 3, "limit": 2}, who="admin"),
        "SignCheckpoint": await stage.ask(wire.SignCheckpoint, {}, who="admin"),
        "Prove": await stage.ask(wire.Prove, {"index": 3}, who="admin"),
        "ReadStatus": await stage.ask(wire.ReadStatus, {}, who="admin"),
        "Erase": await stage.ask(wire.Erase, {"namespaces": ["travel"]}),
    }
    found["Revoke"] = replace(found["Revoke"], body=stage.masks.of({"link": link}))
    return found


def shown(example: Example) -> str:
    """An example as text: the request, an empty line, the answer."""
    lines = [f"{example.method} {example.target}", "Authorization: Bearer <cap>"]
    lines += [f"{name}: {value}" for name, value in example.headers.items()]
    if example.body is not None:
        lines += ["Content-Type: application/json", "", _json(example.body)]
    lines += ["", str(example.status), *(f"{name}: {value}" for name, value in example.told.items())]
    return "\n".join([*lines, "", _json(example.answer)])


def _json(document: Any) -> str:
    """In one line if it fits, else over several."""
    flat = json.dumps(document, ensure_ascii=False)
    return flat if len(flat) <= 110 else json.dumps(document, ensure_ascii=False, indent=2)
