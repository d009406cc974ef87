"""Requests and answers for docs/http.md: every call, made to a real application on a vault that is thrown away.

The clock stands still. What is random (ids, hashes, caps, signatures) is replaced by something made up of the same
form, the same everywhere it stands, so that the page is the same each time it is written.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

import strongroom
from strongroom import NewLine, Token, api
from strongroom.crypto import inbox
from strongroom.model import Millis
from strongroom.server.http.application import Application
from strongroom.server.server_options import DEFAULT

LINE = "01KS2Q8G00CHENGDVTR1P00000"
SPOOLED = "01KS2Q8G00CHENGDVTR1P00001"
NEWER = "01KS2QY5M8AB9CDEFGHJKMNPQ2"
_SHOWN = {"etag": "ETag", "retry-after": "Retry-After", "www-authenticate": "WWW-Authenticate"}
_WIDTH = 110


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


class Masks:
    """Stand-ins for what is random: numbered, of the same form, the same wherever the same value stands."""

    _FORMS: Mapping[str, tuple[str, Callable[[int], str]]] = {
        "id": (
            r"\b01(?!KS2Q8G00CHENGDVTR1P)[0-9A-HJKMNP-TV-Z]{24}\b",
            lambda number: f"01KS2Q8G00DCMENT{number:010d}",
        ),
        "cap": (r"eyJ[\w.~-]{80,}", lambda number: f"eyJhbGciOiJFZERTQSIs…{number}"),
        "link": (r"\b[0-9a-f]{64}\b", lambda number: f"{number:02x}" * 4 + "…" + f"{number:02x}" * 4),
        "version": (r"\b[0-9a-f]{32}\b", lambda number: f"{number:02x}" * 16),
        "vault": (r"\b[0-9a-f]{16}\b", lambda number: f"{number:02x}" * 8),
        "rest": (r"[A-Za-z0-9+/_-]{40,}={0,2}", lambda number: f"…{number}"),
        "tag": (r"(?<![\w+/-])[\w-]{22}(?![\w+/=-])", lambda number: f"…{number}"),
    }
    _FIXED: Mapping[str, object] = {
        "shelf_bytes": 4096,
        "holder": "…",
        "sealed": b64encode(b"age-encryption.org/v1\n...").decode(),
    }
    """Differs between versions of Python, or says nothing to a reader."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._any = re.compile("|".join(f"(?P<{name}>{form})" for name, (form, _) in self._FORMS.items()))

    def of(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: self._FIXED[key] if one and key in self._FIXED else self.of(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.of(one) for one in value]
        return self._any.sub(self._stand_in, value) if isinstance(value, str) else value

    def _stand_in(self, found: re.Match[str]) -> str:
        assert found.lastgroup is not None
        _, made = self._FORMS[found.lastgroup]
        return self._seen.setdefault(found[0], made(len(self._seen) + 1))


@dataclass
class Clock:
    """A clock that goes on only when it is told to."""

    moment: int = int(datetime(2026, 5, 20, 9, tzinfo=UTC).timestamp() * 1000)

    def __call__(self) -> Millis:
        return Millis(self.moment)

    def tick(self) -> None:
        self.moment += 1000


@dataclass
class Stage:
    """An application, and the caps for it."""

    client: httpx.AsyncClient
    caps: Mapping[str, Token]
    clock: Clock
    masks: Masks = field(default_factory=Masks)
    asked: int = 0

    async def ask(
        self, kind: type[api.Call[Any]], body: Any = None, *, who: str = "agent", query: str = "", **headers: str
    ) -> Example:
        """Make a call, and give it as it may be shown."""
        response = await self.response(kind, body, who, query, headers)
        told = {_SHOWN[name]: response.headers[name] for name in _SHOWN if name in response.headers}
        parts = self.masks.of([headers, body, told, response.json()])
        return Example(kind.method, kind.path + query, parts[0], parts[1], response.status_code, parts[2], parts[3])

    async def response(
        self, kind: type[api.Call[Any]], body: Any, who: str, query: str, headers: Mapping[str, str]
    ) -> httpx.Response:
        self.clock.tick()
        self.asked += 1
        sent = {"X-Request-Id": f"example-{self.asked}", "Authorization": f"Bearer {self.caps[who]}", **headers}
        return await self.client.request(kind.method, kind.path + query, json=body, headers=sent)


def examples() -> dict[str, Example]:
    """One example for each call, by its name; and one denial and one missing cap."""
    with tempfile.TemporaryDirectory() as scratch:
        clock, keys = Clock(), strongroom.FileKeys(Path(scratch) / "keys")
        with strongroom.create(Path(scratch) / "vault", keys=keys, now=clock) as vault:
            return asyncio.run(_performed(vault, clock))


async def _performed(vault: strongroom.Vault, clock: Clock) -> dict[str, Example]:
    ops = ["put", "get", "list", "snapshot", "profile", "forget", "erase", "renew"]
    agent = vault.mint(actor="local/alice", ops=ops, namespaces=["travel", "work"], ttl=30 * 86400, label="agent")
    clock.tick()
    admin = vault.mint(
        actor_scope="local/", data_class="admin", ops=["mint", "revoke", "audit"], namespaces=["travel"], ttl=86400
    )
    app = Application(vault, replace(DEFAULT, mcp=False, checkpoint_seconds=0))
    await app.start()
    try:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            stage = Stage(client, {"agent": agent, "admin": admin}, clock)
            return {**await _memory(stage), **await _administration(stage)}
    finally:
        await app.stop()


async def _memory(stage: Stage) -> dict[str, Example]:
    text, query = "Trip to Chengdu, May 25-29, 2026", "?namespace=travel"
    line = {"id": LINE, "text": text, "namespace": "travel", "session": "monday", "time": "2026-05-20T09:00:00Z"}
    found = {
        "Put": await stage.ask(api.Put, {"lines": [line]}, **{"X-Request-Id": "trip-planner-17"}),
        "ReadInbox": await stage.ask(api.ReadInbox),
        "Deliver": await stage.ask(api.Deliver, {"sealed": await _sealed(stage)}),
        "Observe": await stage.ask(api.Observe, {"what": "terminal", "digest": sha256(b"ls -l").hexdigest()}),
        "Get": await stage.ask(api.Get, {"query": "where am I going next week?", "k": 3}),
        "denied": await stage.ask(api.Get, {"query": "allergies", "namespaces": ["personal"]}),
        "List": await stage.ask(api.List, {"namespaces": ["travel"], "limit": 10}),
        "WriteProfile": await stage.ask(api.WriteProfile, {"text": "Prefers window seats."}, query=query),
        "ReadProfile": await stage.ask(api.ReadProfile, query=query),
    }
    found["conflict"] = await stage.ask(api.WriteProfile, {"text": "Prefers the aisle."}, query=query)
    found |= await _documents(stage)
    found["TakeSnapshot"] = await stage.ask(api.TakeSnapshot, {})
    corrected = {"id": LINE, "text": text.replace("25-29", "27-31"), "new_id": NEWER}
    found["Replace"] = await stage.ask(api.Replace, corrected)
    found["ReadHistory"] = await stage.ask(api.ReadHistory, {"id": LINE})
    found["Forget"] = await stage.ask(api.Forget, {"session": "monday"})
    return found


async def _documents(stage: Stage) -> dict[str, Example]:
    place = {"key": "notes/2026/trip.md", "namespace": "travel"}
    written = await stage.response(api.WriteDocument, {**place, "text": "Train at nine."}, "agent", "", {})
    version = written.json()["version"]
    found = {
        "WriteDocument": await _as_sent(stage, api.WriteDocument, {**place, "text": "Bus at ten."}, version),
        "ReadDocument": await stage.ask(api.ReadDocument, place),
        "ReadDocumentHistory": await stage.ask(api.ReadDocumentHistory, place),
        "ListDocuments": await stage.ask(api.ListDocuments, {"prefix": "notes/"}),
    }
    held = await stage.response(api.ReadDocument, place, "agent", "", {})
    moved = {**place, "new_key": "archive/trip.md"}
    found["RenameDocument"] = await _as_sent(stage, api.RenameDocument, moved, held.json()["version"])
    found["DeleteDocument"] = await stage.ask(api.DeleteDocument, {"key": "archive/trip.md", "namespace": "travel"})
    return found


async def _as_sent(stage: Stage, kind: type[api.Call[Any]], body: dict[str, Any], version: str) -> Example:
    """A call on one version, as it may be shown."""
    return await stage.ask(kind, {**body, "version": version})


async def _sealed(stage: Stage) -> str:
    """A bundle of one line, as JSON has it."""
    told = await stage.response(api.ReadInbox, None, "agent", "", {})
    line = NewLine(text="Boarding at gate 12", namespace="travel", id=SPOOLED, session="tuesday")
    return b64encode(inbox.seal(told.json()["recipient"], inbox.Bundle("local/alice", (line,)))).decode()


async def _administration(stage: Stage) -> dict[str, Example]:
    terms = {"actor": "local/bob", "ops": ["put", "get"], "namespaces": ["travel"], "ttl": 3600, "label": "booking"}
    response = await stage.response(api.Mint, terms, "admin", "", {})
    minted = stage.masks.of(response.json())
    found = {
        "Mint": Example("POST", api.Mint.path, {}, terms, response.status_code, {}, minted),
        "ListCaps": await stage.ask(api.ListCaps, {}, who="admin"),
        "Revoke": await stage.ask(api.Revoke, {"link": response.json()["link"]}, who="admin"),
        "ReadEntries": await stage.ask(api.ReadEntries, {"start": 3, "limit": 1}, who="admin"),
        "SignCheckpoint": await stage.ask(api.SignCheckpoint, {}, who="admin"),
        "Prove": await stage.ask(api.Prove, {"index": 3}, who="admin"),
        "ReadStatus": await stage.ask(api.ReadStatus, {}, who="admin"),
    }
    found["Renew"] = await stage.ask(api.Renew, {})
    return {**found, "Erase": await stage.ask(api.Erase, {"namespaces": ["travel"]})}


def shown(example: Example) -> str:
    """An example as text: the request, an empty line, the answer."""
    lines = [f"{example.method} {example.target}", "Authorization: Bearer <cap>"]
    lines += [f"{name}: {value}" for name, value in example.headers.items()]
    if example.body is not None:
        lines += ["Content-Type: application/json", "", _json(example.body)]
    lines += ["", str(example.status), *(f"{name}: {value}" for name, value in example.told.items())]
    return "\n".join([*lines, "", _json(example.answer)])


def _json(document: Any, indent: str = "") -> str:
    """Each part in one line if it fits, else over several."""
    flat = json.dumps(document, ensure_ascii=False)
    if len(indent) + len(flat) <= _WIDTH or not isinstance(document, Mapping | list):
        return flat
    deeper = indent + "  "
    if isinstance(document, list):
        parts, ends = [_json(one, deeper) for one in document], "[]"
    else:
        parts, ends = [f"{json.dumps(key)}: {_json(one, deeper)}" for key, one in document.items()], "{}"
    return f",\n{deeper}".join([f"{ends[0]}\n{deeper}{parts[0]}", *parts[1:]]) + f"\n{indent}{ends[1]}"
