"""The rows and columns of the matrix: every route and every MCP tool, and every cap that could be shown to it.

A row says how to ask and what another actor gets; a column makes a cap and says what comes of it.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ulid import ULID

import strongroom
from strongroom import NewLine, Token, Vault, api
from strongroom.caps import chain
from strongroom.crypto import inbox
from strongroom.model import Op
from strongroom.server.mcp import TOOLS
from tests.conftest import Clock
from tests.server.running import Running
from tests.server.talking import Answer

HERE, ELSEWHERE = "travel", "work"
ALICE = "local/alice"
SCOPE = "local/"
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


@dataclass
class Scene:
    """A server and what alice has in it."""

    running: Running
    clock: Clock
    other_vault: Vault

    @property
    def vault(self) -> Vault:
        return self.running.vault

    @property
    def now(self) -> int:
        return self.clock() // 1000

    @cached_property
    def everything(self) -> Token:
        """A cap of alice's for preparing and for looking afterwards."""
        return self.vault.mint(actor=ALICE, ops=list(Op), namespaces=[HERE, ELSEWHERE], ttl=3600)

    def line(self, actor: str = ALICE) -> str:
        """The id of a fresh line."""
        token = self.vault.mint(actor=actor, ops=["put"], namespaces=[HERE], ttl=3600)
        return self.vault.memory(token).put("the boat leaves at dawn", namespace=HERE).id

    def minted(self) -> str:
        """The link of a cap of alice's."""
        return chain.parse(self.vault.mint(actor=ALICE, ops=["get"], namespaces=[HERE], ttl=3600)).links[0].id

    def sealed(self) -> str:
        """A fresh line of alice's, sealed to the inbox, as JSON has it."""
        line = NewLine(text="the boat was late", namespace=HERE, id=str(ULID()))
        bundle = inbox.Bundle(ALICE, (line,))
        return base64.b64encode(inbox.seal(self.vault.memory(self.everything).inbox(), bundle)).decode()

    def document(self) -> strongroom.model.Document:
        """A fresh document of alice's."""
        memory = self.vault.memory(self.everything)
        return memory.write_document(f"notes/{ULID()}.md", "the boat leaves at dawn", namespace=HERE)

    def version(self) -> str:
        """The version of alice's profile, which is written if there is none."""
        memory = self.vault.memory(self.everything)
        found = memory.profile(HERE)
        return found.version or memory.set_profile("likes boats", namespace=HERE).version


@dataclass(frozen=True)
class Asked:
    """What a row sends: a query, a body, headers."""

    body: dict[str, Any] | None = None
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


Outcome = tuple[int, str]


@dataclass(frozen=True)
class Row:
    """One route or tool. `others` is the outcome for another actor, `nothing` that its answer holds nothing of hers."""

    name: str
    method: str
    path: str
    op: Op
    data_class: str
    ask: Callable[[Scene], Asked]
    others: Outcome = (200, "")
    nothing: Callable[[Any], bool] = lambda answer: True
    names_namespace: bool = True
    names_actor: bool = False
    tool: str = ""
    also: tuple[Op, ...] = ()
    """Further operations that the cap must allow."""
    absent: Mapping[str, Any] = field(default_factory=dict)
    """What to ask for to get the answer for a missing one, if that is more than other ids."""

    def cap(self, scene: Scene, **changes: Any) -> Token:
        """The cap that this row needs, with changes."""
        given: dict[str, Any] = {
            "ops": [self.op, *self.also],
            "namespaces": [HERE],
            "ttl": 3600,
            "data_class": self.data_class,
        }
        if self.data_class == "admin":
            given["actor_scope"] = None if "actor" in changes else SCOPE
        else:
            given["actor"] = ALICE
        return scene.vault.mint(**{**given, **changes})

    def others_cap(self, scene: Scene) -> Token:
        """The same cap for an actor that no other row knows."""
        return self.cap(scene, actor=f"local/other-{self.name.lower()}", actor_scope=None)

    def send(self, scene: Scene, token: str | None, asked: Asked, request: str) -> Answer:
        headers = {**asked.headers, "X-Request-Id": request}
        if not self.tool:
            query = f"?{asked.query}" if asked.query else ""
            return scene.running.ask(self.method, self.path + query, token, asked.body, headers=headers)
        params = {"name": self.tool, "arguments": asked.body or {}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return scene.running.ask("POST", self.path, token, call, headers={**MCP_HEADERS, **headers})

    def outcome(self, answer: Answer) -> Outcome:
        """Status and reason; a tool's refusal comes with 200, marked as an error."""
        if not self.tool or answer.status != 200:
            return answer.outcome
        result = answer.json["result"]
        return 200, result["structuredContent"]["reason"] if result["isError"] else ""

    def expected(self, outcome: Outcome) -> Outcome:
        status, reason = outcome
        return (200, reason) if self.tool and status not in (401, 429) else outcome

    def content(self, answer: Answer) -> Any:
        return answer.json["result"]["structuredContent"] if self.tool else answer.json


def _body(**fields: Any) -> Callable[[Scene], Asked]:
    return lambda scene: Asked({name: make(scene) if callable(make) else make for name, make in fields.items()})


def _profile(scene: Scene) -> Asked:
    return Asked(query=f"namespace={HERE}")


def _new_profile(scene: Scene) -> Asked:
    return Asked({"text": "likes trains"}, f"namespace={HERE}", {"If-Match": f'"{scene.version()}"'})


def _document(*names: str, **fields: Any) -> Callable[[Scene], Asked]:
    def ask(scene: Scene) -> Asked:
        held = scene.document()
        return Asked({"namespace": HERE, **{name: getattr(held, name) for name in names}, **fields})

    return ask


def _row(kind: type[api.Call[Any]], ask: Callable[[Scene], Asked], **more: Any) -> Row:
    return Row(kind.__name__, kind.method, kind.path, kind.op, kind.data_class, ask, **more)


def _tool(name: str, ask: Callable[[Scene], Asked], **more: Any) -> Row:
    call = TOOLS[name].call
    return Row(name, "POST", "/mcp", call.op, call.data_class, ask, tool=name, **more)


NOT_FOUND, DENIED_ACTOR = (404, "not_found"), (403, "cap_limit_exceeded")
_IN_HERE = {"namespaces": [HERE]}
_NO_DOCUMENT = {"key": "no/such.md", "namespace": HERE}
_FRESH = {"ids": lambda scene: [scene.line()]}
_ONE_HERE = {"id": lambda scene: scene.line(), "namespace": HERE}
_MINT = {"ops": ["get"], "namespaces": [HERE], "actor": ALICE}


def _nameless(answer: Any) -> bool:
    return "alice" not in str(answer)


CALL_ROWS = (
    _row(api.Put, _body(lines=[{"text": "x", "namespace": HERE}]), nothing=lambda a: not a["receipts"][0]["duplicate"]),
    _row(api.ReadInbox, lambda scene: Asked(), nothing=_nameless, names_namespace=False),
    _row(api.Deliver, _body(sealed=Scene.sealed), others=DENIED_ACTOR),
    _row(api.Observe, _body(what="terminal", digest="0" * 64), nothing=lambda a: a == {}, names_namespace=False),
    _row(api.Get, _body(**_FRESH, **_IN_HERE), others=NOT_FOUND),
    _row(api.List, _body(**_IN_HERE), nothing=lambda a: not a["lines"]),
    _row(api.TakeSnapshot, _body(**_IN_HERE), nothing=lambda a: not a["profiles"]),
    _row(api.ReadProfile, _profile, nothing=lambda a: (a["text"], a["version"]) == ("", "")),
    _row(api.WriteProfile, _new_profile, others=(412, "version_conflict")),
    _row(api.ReadDocument, _document("key"), others=NOT_FOUND, absent=_NO_DOCUMENT),
    _row(api.WriteDocument, _document("key", "version", text="at noon"), others=(412, "version_conflict")),
    _row(api.ListDocuments, _body(**_IN_HERE), nothing=lambda a: not a["documents"]),
    _row(api.DeleteDocument, _document("key", "version"), nothing=lambda a: not a["ids"]),
    _row(
        api.RenameDocument,
        lambda scene: _document("key", "version", new_key=f"moved/{ULID()}.md")(scene),
        others=NOT_FOUND,
        also=(Op.PUT,),
        absent=_NO_DOCUMENT | {"new_key": "moved", "version": "01JABCDEFGHJKMNPQRSTVWXYZ0"},
    ),
    _row(api.ReadDocumentHistory, _document("key"), others=NOT_FOUND, absent=_NO_DOCUMENT),
    _row(api.Forget, _body(**_FRESH, **_IN_HERE), nothing=lambda a: not a["ids"]),
    _row(api.Replace, _body(**_ONE_HERE, text="the boat was early"), others=NOT_FOUND, also=(Op.FORGET,)),
    _row(api.ReadHistory, _body(**_ONE_HERE), others=NOT_FOUND),
    _row(api.Erase, _body(**_IN_HERE), nothing=lambda a: a["objects"] == 0),
    _row(api.Renew, _body(), nothing=lambda a: chain.parse(a["cap"]).first.actor != ALICE, names_namespace=False),
    _row(api.Mint, _body(**_MINT), others=DENIED_ACTOR, names_actor=True),
    _row(api.ListCaps, _body(), nothing=_nameless, names_namespace=False),
    _row(api.Revoke, _body(link=Scene.minted), others=NOT_FOUND, names_namespace=False),
    _row(api.ReadEntries, _body(), nothing=_nameless, names_namespace=False),
    _row(api.SignCheckpoint, _body(), nothing=_nameless, names_namespace=False),
    _row(api.Prove, _body(index=0), nothing=_nameless, names_namespace=False),
    _row(api.ReadStatus, _body(), nothing=_nameless, names_namespace=False),
)

TOOL_ROWS = (
    _tool("memory_put", _body(text="x", namespace=HERE), nothing=lambda a: not a["duplicate"]),
    _tool("memory_get", _body(**_FRESH, **_IN_HERE), others=NOT_FOUND),
    _tool("memory_list", _body(**_IN_HERE), nothing=lambda a: not a["lines"]),
    _tool("memory_forget", _body(**_FRESH, **_IN_HERE), nothing=lambda a: not a["ids"]),
    _tool("memory_snapshot", _body(**_IN_HERE), nothing=lambda a: not a["profiles"]),
    _tool("memory_replace", _body(**_ONE_HERE, text="the boat was early"), others=NOT_FOUND, also=(Op.FORGET,)),
    _tool("memory_read_document", _document("key"), others=NOT_FOUND, absent=_NO_DOCUMENT),
    _tool("memory_list_documents", _body(**_IN_HERE), nothing=lambda a: not a["documents"]),
    _tool("memory_write_document", _document("key", "version", text="noon"), others=(412, "version_conflict")),
    _tool("memory_delete_document", _document("key", "version"), nothing=lambda a: not a["ids"]),
    _tool(
        "memory_rename_document",
        lambda scene: _document("key", "version", new_key=f"moved/{ULID()}.md")(scene),
        others=NOT_FOUND,
        also=(Op.PUT,),
        absent=_NO_DOCUMENT | {"new_key": "moved", "version": "01JABCDEFGHJKMNPQRSTVWXYZ0"},
    ),
)

ROWS = CALL_ROWS + TOOL_ROWS
OPEN = ("/healthz", "/readyz", "/metrics", "/openapi.json")


@dataclass(frozen=True)
class Column:
    """One cap to show. `logged`: link 0 is valid, so that the refusal must be on record."""

    name: str
    make: Callable[[Scene, Row], str | None]
    outcome: Outcome
    logged: bool = True


def _revoked(scene: Scene, row: Row) -> str:
    token = row.cap(scene)
    scene.vault.revoke(token)
    return token


def _signed(scene: Scene, row: Row, **changes: Any) -> Token:
    """A cap signed with the vault's own issuer key, past what its owner's mint would allow."""
    given: dict[str, Any] = {
        "issuer_seed": scene.vault._state.source.issuer(),
        "audience": scene.vault.id,
        "jti": os.urandom(16),
        "holder_seed": None,
        "now": scene.now,
        "ttl": 3600,
        "ops": [row.op],
        "namespaces": [HERE],
        "actor": ALICE,
        "data_class": row.data_class,
    }
    return chain.mint(**{**given, **changes})


def _stripped(scene: Scene, row: Row) -> str:
    first, _, seed = strongroom.attenuate(row.cap(scene), namespaces=[HERE], now=scene.clock).split("~")
    return f"{first}~{seed}"


def _forged(scene: Scene, row: Row) -> str:
    head, payload, signature = row.cap(scene, delegable=False).split(".")
    return f"{head}.{payload}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}"


def _from_other_vault(scene: Scene, row: Row) -> str:
    given: dict[str, Any] = {"actor": ALICE, "ops": [row.op], "namespaces": [HERE], "data_class": row.data_class}
    return scene.other_vault.mint(**given)


def _class_of_the_others(scene: Scene, row: Row) -> str:
    return row.cap(scene, data_class="memory" if row.data_class == "admin" else "admin", actor=ALICE, actor_scope=None)


COLUMNS = (
    Column("no cap", lambda scene, row: None, (401, "cap_missing"), logged=False),
    Column("garbage", lambda scene, row: "garbage", (401, "cap_malformed"), logged=False),
    Column("forged", _forged, (401, "cap_signature_invalid"), logged=False),
    Column("expired", lambda scene, row: _signed(scene, row, now=scene.now - 3600), (401, "cap_expired")),
    Column("future", lambda scene, row: _signed(scene, row, now=scene.now + 31), (401, "cap_not_yet_valid")),
    Column("revoked", _revoked, (401, "cap_revoked")),
    Column("another vault's", _from_other_vault, (401, "cap_audience"), logged=False),
    Column("wrong audience", lambda scene, row: _signed(scene, row, audience="x"), (401, "cap_audience")),
    Column("stripped", _stripped, (401, "cap_holder_proof")),
    Column(
        "wrong op",
        lambda scene, row: row.cap(scene, ops=[op for op in Op if op != row.op]),
        (403, "cap_op_mismatch"),
    ),
    Column(
        "credentials",
        lambda scene, row: row.cap(scene, data_class="credentials", actor=ALICE, actor_scope=None),
        (403, "cap_data_class_mismatch"),
    ),
    Column("the others' class", _class_of_the_others, (403, "cap_data_class_mismatch")),
)
"""Caps that are refused alike by every row. Other namespaces and other actors depend on the row."""
