"""Every route and every MCP tool with every kind of cap, built from the running server: each cell has its outcome.

A route or a tool without a row fails here, and so does a row without one. Each cell is also looked up in the audit
log by its request id: refusals of caps whose link 0 is valid are there, and garbage is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Vault, api
from strongroom.audit import Entry
from strongroom.server.http.application import Application
from strongroom.server.mcp import TOOLS
from tests.conftest import Clock
from tests.server.conftest import QUIET
from tests.server.matrix import ALICE, CALL_ROWS, COLUMNS, ELSEWHERE, HERE, OPEN, ROWS, Asked, Column, Row, Scene
from tests.server.running import serving_in_thread
from tests.server.talking import Answer

BY_ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
_ids = (f"cell-{number}" for number in count())


@pytest.fixture(scope="module")
def scene(module_vault: Vault, module_clock: Clock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    place = tmp_path_factory.mktemp("other")
    other = strongroom.create(place / "vault", keys=FileKeys(place / "keys"), now=module_clock)
    with other, serving_in_thread(module_vault, replace(QUIET, mcp=True)) as running:
        yield Scene(running, module_clock, other)


def cell(scene: Scene, row: Row, token: str | None, asked: Asked | None = None) -> tuple[Answer, list[Entry]]:
    """Ask once, and give the answer together with what the audit log has under the request's id."""
    request, start = next(_ids), scene.vault.audit.size()
    answer = row.send(scene, token, asked or row.ask(scene), request)
    assert answer.headers["x-request-id"] == request
    found = [entry for _, entry in scene.vault.audit.entries(start) if entry is not None]
    return answer, [entry for entry in found if entry.request == request]


@pytest.mark.requirement("server-matrix")
def test_every_route_has_a_row_and_every_row_a_route(module_vault: Vault) -> None:
    routes = Application(module_vault, QUIET).routes
    served = {(method, path) for path, methods in routes.items() for method in methods}
    rows = {(row.method, row.path) for row in CALL_ROWS} | {("GET", path) for path in OPEN}
    assert served == rows
    assert len(CALL_ROWS) == len(api.CALLS) == len({row.name for row in CALL_ROWS})


@pytest.mark.requirement("server-matrix")
def test_every_tool_has_a_row_and_every_row_a_tool(scene: Scene) -> None:
    rows = {row.tool for row in ROWS if row.tool}
    assert rows == set(TOOLS)
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    answer = scene.running.ask("POST", "/mcp", scene.everything, call, headers=headers)
    assert {tool["name"] for tool in answer.json["result"]["tools"]} == rows


@pytest.mark.requirement("server-matrix", "server-audit")
@BY_ROW
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_bad_cap_is_refused_with_its_reason(scene: Scene, row: Row, column: Column) -> None:
    answer, entries = cell(scene, row, column.make(scene, row))
    assert row.outcome(answer) == row.expected(column.outcome)
    assert ("www-authenticate" in answer.headers) == (answer.status == 401)
    recorded = [(entry.decision, entry.reason) for entry in entries]
    assert recorded == ([("deny", column.outcome[1])] if column.logged else [])


@pytest.mark.requirement("server-matrix", "server-audit")
@BY_ROW
def test_another_namespace_is_refused(scene: Scene, row: Row) -> None:
    asked, expected = row.ask(scene), (403, "cap_namespace_denied")
    if not row.names_namespace:  # there is nowhere to name one: the field is as unknown as any
        asked, expected = _with_field(row, asked, "namespaces", [HERE]), (400, "invalid_request")
    answer, entries = cell(scene, row, row.cap(scene, namespaces=[ELSEWHERE]), asked)
    assert row.outcome(answer) == row.expected(expected)
    assert [(entry.decision, entry.reason, entry.data_class) for entry in entries] == [
        ("deny", expected[1], row.data_class)
    ]


@pytest.mark.requirement("server-matrix", "gate-same-denial")
@pytest.mark.parametrize("row", [row for row in ROWS if row.names_namespace], ids=lambda row: row.name)
def test_denied_namespace_is_answered_alike_whether_it_exists_or_not(scene: Scene, row: Row) -> None:
    token = row.cap(scene, namespaces=[ELSEWHERE])
    real, _ = cell(scene, row, token, row.ask(scene))
    unreal, _ = cell(scene, row, token, _renamed(row.ask(scene), HERE, "nowhere"))
    assert (real.status, real.body) == (unreal.status, unreal.body)


@pytest.mark.requirement("server-matrix")
@BY_ROW
def test_another_actor_gets_nothing_of_hers(scene: Scene, row: Row) -> None:
    scene.version()
    answer, entries = cell(scene, row, row.others_cap(scene))
    assert row.outcome(answer) == row.expected(row.others)
    assert len(entries) == 1
    if row.others == (200, ""):
        assert row.nothing(row.content(answer))


@pytest.mark.requirement("server-matrix")
@pytest.mark.parametrize("row", [row for row in ROWS if row.others == (404, "not_found")], ids=lambda row: row.name)
def test_another_actors_line_is_answered_like_a_missing_one(scene: Scene, row: Row) -> None:
    token = row.others_cap(scene)
    hers, _ = cell(scene, row, token)
    asked = row.ask(scene).body or {}
    unknown = {"ids": ["01JABCDEFGHJKMNPQRSTVWXYZ0"], "id": "01JABCDEFGHJKMNPQRSTVWXYZ0", "link": "a" * 64}
    absent = {name: unknown.get(name, value) for name, value in asked.items()}
    nobodys, _ = cell(scene, row, token, Asked({**absent, **row.absent}))
    assert (hers.status, hers.body) == (nobodys.status, nobodys.body)


@pytest.mark.requirement("server-matrix", "gate-no-actor")
@BY_ROW
def test_no_field_can_name_an_actor(scene: Scene, row: Row) -> None:
    asked = row.ask(scene)
    for extra in ("actor", "actor_scope", "holder", "links"):
        if row.names_actor and extra.startswith("actor"):
            continue
        answer, entries = cell(scene, row, row.cap(scene), _with_field(row, asked, extra, ALICE))
        assert row.outcome(answer) == row.expected((400, "invalid_request"))
        assert [entry.reason for entry in entries] == ["invalid_request"]


@pytest.mark.requirement("server-matrix", "server-audit")
@BY_ROW
def test_right_cap_is_answered_and_on_record(scene: Scene, row: Row) -> None:
    answer, entries = cell(scene, row, row.cap(scene))
    assert row.outcome(answer) == (200, "")
    assert {(entry.decision, entry.op, entry.data_class) for entry in entries} == {("allow", row.op, row.data_class)}


@pytest.mark.requirement("server-matrix", "list-texts")
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_list_with_texts_refuses_every_bad_cap_as_a_list_does(scene: Scene, column: Column) -> None:
    row = next(row for row in CALL_ROWS if row.name == "List")
    answer, entries = cell(scene, row, column.make(scene, row), Asked({"namespaces": [HERE], "texts": True}))
    assert row.outcome(answer) == column.outcome
    assert [entry.reason for entry in entries] == ([column.outcome[1]] if column.logged else [])


@pytest.mark.requirement("server-matrix", "list-texts")
def test_list_with_texts_needs_both_operations_and_gives_another_actor_nothing(scene: Scene) -> None:
    row = next(row for row in CALL_ROWS if row.name == "List")
    asked = Asked({"namespaces": [HERE], "texts": True})
    scene.line()
    answer, entries = cell(scene, row, row.cap(scene), asked)
    assert row.outcome(answer) == (403, "cap_op_mismatch")
    assert [(entry.decision, entry.op) for entry in entries] == [("deny", "get")]
    answer, entries = cell(scene, row, row.cap(scene, ops=["list", "get"]), asked)
    assert row.outcome(answer) == (200, "")
    assert [(entry.decision, entry.op) for entry in entries] == [("allow", "get")]
    assert all(line["text"] for line in answer.json["lines"])
    others = row.cap(scene, ops=["list", "get"], actor="local/other-texts", actor_scope=None)
    answer, _ = cell(scene, row, others, asked)
    assert answer.json["lines"] == []


@pytest.mark.requirement("server-matrix")
@pytest.mark.parametrize("path", OPEN)
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_route_without_a_cap_looks_at_none(scene: Scene, path: str, column: Column) -> None:
    token = column.make(scene, CALL_ROWS[1])
    size = scene.vault.audit.size()
    assert scene.running.ask("GET", path, token).status == 200
    assert scene.vault.audit.size() == size


@pytest.mark.requirement("server-matrix")
def test_log_verifies_after_all_of_it(scene: Scene) -> None:
    assert scene.vault.audit.verify().ok


def _with_field(row: Row, asked: Asked, name: str, value: Any) -> Asked:
    """The same question with one more field: in the query of a GET, which has no body."""
    if row.method == "GET":
        return replace(asked, query=f"{asked.query}&{name}={value}".lstrip("&"))
    return replace(asked, body={**(asked.body or {}), name: value})


def _renamed(asked: Asked, old: str, new: str) -> Asked:
    """The same question about another namespace."""
    return Asked(_swapped(asked.body, old, new), asked.query.replace(old, new), asked.headers)


def _swapped(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {name: _swapped(one, old, new) for name, one in value.items()}
    if isinstance(value, list):
        return [_swapped(one, old, new) for one in value]
    return new if value == old else value
