"""Lines with details over HTTP: refusals by name, what is put is recalled, filters, and texts in lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import strongroom
from strongroom import Memory, Token, Vault, errors
from strongroom.model import NewLine
from tests.conftest import ALL_OPS, Clock
from tests.memory.test_details import set_format
from tests.server.conftest import StartThread
from tests.server.running import Running
from tests.server.talking import Answer

LATER = "2999-01-01T00:00:00Z"
WHEN = datetime(2999, 1, 1, tzinfo=UTC)
DEEP = json.loads('{"a":' * 12 + "1" + "}" * 12)
DETAILS: dict[str, Any] = {"tags": ["paid", "trip"], "meta": {"city": "成都", "n": 1}, "expires": LATER, "turn": "t7"}
FILTERS: list[dict[str, Any]] = [
    {"kind": "fact"},
    {"author": "alice"},
    {"tags": ["trip", "paid"]},
    {"meta": {"city": "成都"}},
    {"turn": "t7"},
    {"since": "2026-05-20T00:00:00Z", "until": "2026-05-21T00:00:00Z"},
]


def post(running: Running, path: str, token: str, body: object) -> Answer:
    return running.ask("POST", f"/v1/memory/{path}", token, body)


def put(running: Running, token: str, **line: Any) -> Answer:
    return post(running, "put", token, {"lines": [{"text": "Hotel by the river", "namespace": "travel", **line}]})


def url(running: Running) -> str:
    return f"http://{running.address[0]}:{running.address[1]}"


@pytest.fixture
def running(start: StartThread) -> Running:
    return start()


@pytest.fixture
def lines(running: Running, cap: Token) -> str:
    """A line with every detail among lines without. Returns its id."""
    for text in ("Hotel on the hill", "Hotel at the station"):
        assert put(running, cap, text=text, time="2026-05-24T00:00:00Z").status == 200
    detailed = put(running, cap, **DETAILS, kind="fact", author="alice", session="monday", time="2026-05-20T08:00:00Z")
    return str(detailed.json["receipts"][0]["id"])


@pytest.fixture
def memory(running: Running, cap: Token, clock: Clock) -> Iterator[Memory]:
    """The same memory by the client."""
    with strongroom.connect(url(running), cap, now=clock, retries=0) as made:
        yield made


# Refusals.


@pytest.mark.requirement("details-bad", "server-bad-bodies")
@pytest.mark.parametrize(
    ("details", "reason"),
    [
        ({"meta": {"note": "x" * 2048}}, "line_too_large"),
        ({"meta": DEEP}, "invalid_request"),
        ({"meta": {"n": 99999999999999999999}}, "invalid_request"),
        ({"meta": ["a"]}, "invalid_request"),
        ({"tags": "trip"}, "invalid_request"),
        ({"tags": [7]}, "invalid_request"),
        ({"tags": [f"t{n}" for n in range(17)]}, "too_many"),
        ({"tags": ["x" * 65]}, "invalid_request"),
        ({"turn": 7}, "invalid_request"),
        ({"turn": "x" * 257}, "invalid_request"),
        ({"expires": "2020-01-01T00:00:00Z"}, "invalid_request"),
        ({"expires": "2999-01-01T00:00:00"}, "invalid_request"),
        ({"expires": "soon"}, "invalid_request"),
        ({"expires": 7}, "invalid_request"),
        ({"replaces": "01JABCDEFGHJKMNPQRSTVWXYZ0"}, "invalid_request"),
        ({"details": {"tags": ["x"]}}, "invalid_request"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_details_are_refused_by_name_over_http_and_nothing_is_put(
    running: Running, cap: Token, details: dict[str, Any], reason: str
) -> None:
    assert put(running, cap, **details).outcome == (400, reason)
    assert post(running, "list", cap, {}).json["lines"] == []


@pytest.mark.requirement("details-bad", "server-bad-bodies")
@pytest.mark.parametrize("meta", ['{"a":1,"a":2}', '{"deep":{"a":1,"a":2}}', '{"list":[{"a":1,"a":2}]}'])
def test_key_that_comes_twice_inside_meta_is_refused_by_name(running: Running, cap: Token, meta: str) -> None:
    body = f'{{"lines":[{{"text":"x","namespace":"travel","meta":{meta}}}]}}'.encode()
    answer = running.ask("POST", "/v1/memory/put", cap, raw=body)
    assert answer.outcome == (400, "invalid_request")
    assert "`a`" in answer.json["message"]
    for path in ("get", "list", "forget"):
        body = f'{{"meta":{meta}}}'.encode()
        answer = running.ask("POST", f"/v1/memory/{path}", cap, raw=body)
        assert answer.outcome == (400, "invalid_request")


@pytest.mark.requirement("unknown-fields")
@pytest.mark.parametrize(
    ("path", "body", "unknown", "known", "not_here"),
    [
        ("put", {"lines": [{"text": "x", "metadata": {}}]}, "metadata", {"text", "tags", "meta", "expires"}, "lines"),
        ("put", {"line": {}}, "line", {"lines"}, "tags"),
        ("get", {"query": "x", "filters": {}}, "filters", {"query", "tags", "from_session"}, "after"),
        ("list", {"text": True}, "text", {"texts", "tags", "after"}, "query"),
        ("forget", {"tag": ["x"]}, "tag", {"tags", "link", "turn"}, "query"),
    ],
)
def test_unknown_field_is_named_with_the_fields_that_exist_there(
    running: Running, cap: Token, path: str, body: object, unknown: str, known: set[str], not_here: str
) -> None:
    answer = post(running, path, cap, body)
    assert answer.outcome == (400, "invalid_request")
    assert f"`{unknown}`" in answer.json["message"]
    fields = set(answer.json["hint"].removeprefix("the fields are ").split(", "))
    assert known <= fields
    assert not_here not in fields


@pytest.mark.requirement("unknown-fields", "secrets-hidden")
def test_unknown_field_that_is_no_plain_word_and_every_value_stay_unsaid(running: Running, cap: Token) -> None:
    for body in (
        {"my SECRET": 1},
        {"lines": "SECRET"},
        {"lines": [{"text": "x", "meta": {"SECRET": "SECRET"}, "tags": 1}]},
    ):
        answer = post(running, "put", cap, body)
        assert answer.outcome == (400, "invalid_request")
        assert "SECRET" not in str(answer.json)


@pytest.mark.requirement("filters-bad")
@pytest.mark.parametrize("nothing", [{}, {"meta": {}}, {"tags": []}, {"meta": {}, "tags": []}], ids=str)
def test_forget_by_an_empty_meta_or_no_tags_forgets_nothing(
    running: Running, cap: Token, memory: Memory, lines: str, nothing: dict[str, Any]
) -> None:
    assert post(running, "forget", cap, nothing).outcome == (400, "invalid_request")
    with pytest.raises(errors.InvalidRequest):
        memory.forget(**nothing)
    assert len(memory.list().lines) == 3


@pytest.mark.requirement("filters-denied")
@pytest.mark.parametrize("condition", FILTERS, ids=str)
def test_filter_on_a_denied_namespace_is_denied_over_http(
    running: Running, vault: Vault, lines: str, condition: dict[str, Any]
) -> None:
    family = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["family"], ttl=60)
    for path in ("get", "list", "forget"):
        for more in ({}, {"texts": True}) if path == "list" else ({},):
            answer = post(running, path, family, {"namespaces": ["travel"], **condition, **more})
            assert answer.outcome == (403, "cap_namespace_denied")


@pytest.mark.requirement("list-texts")
@pytest.mark.parametrize("op", ["list", "get"])
def test_texts_over_http_need_a_cap_for_both_operations(
    running: Running, vault: Vault, clock: Clock, lines: str, op: str
) -> None:
    narrow = vault.mint(actor="local/alice", ops=[op], namespaces=["travel"], ttl=60)
    assert post(running, "list", narrow, {"texts": True}).outcome == (403, "cap_op_mismatch")
    with strongroom.connect(url(running), narrow, now=clock, retries=0) as memory, pytest.raises(errors.CapOpMismatch):
        memory.list(texts=True)


@pytest.mark.requirement("details-format")
def test_details_in_a_vault_of_format_1_are_refused_by_name_over_http(
    vault: Vault, start: StartThread, cap: Token, clock: Clock
) -> None:
    set_format(vault, 1)
    vault._state.records._format = 1  # as in a server that began before it was raised
    running = start()
    answer = put(running, cap, tags=["trip"])
    assert answer.outcome == (400, "format_too_old")
    assert "strongroom upgrade" in answer.json["hint"]
    with strongroom.connect(url(running), cap, now=clock) as memory, pytest.raises(errors.FormatTooOld):
        memory.put("x", namespace="travel", turn="t")
    assert put(running, cap).status == 200


# What works.


@pytest.mark.requirement("details-members")
def test_details_are_put_and_recalled_over_http_and_by_the_client(
    running: Running, vault: Vault, cap: Token, memory: Memory, lines: str
) -> None:
    (hit,) = post(running, "get", cap, {"ids": [lines]}).json["lines"]
    (row,) = post(running, "list", cap, {"turn": "t7"}).json["lines"]
    for shown in (hit, row):
        assert {name: shown[name] for name in DETAILS} == DETAILS
    assert memory.get(ids=[lines]) == vault.memory(cap).get(ids=[lines])
    assert memory.list(tags="trip") == vault.memory(cap).list(tags=["trip"])
    (found,) = memory.list(tags=["trip"]).lines
    assert (found.meta, found.expires, found.turn) == (DETAILS["meta"], WHEN, "t7")
    put_there = memory.put_many([NewLine(text="by the client", namespace="work", tags=("x",), meta={"a": [None]})])
    (hit_there,) = vault.memory(cap).get(ids=[put_there[0].id])
    assert (hit_there.tags, hit_there.meta) == (("x",), {"a": [None]})


@pytest.mark.requirement("details-members")
def test_plain_line_has_no_member_more_than_before_over_http(running: Running, cap: Token) -> None:
    put(running, cap)
    (hit,) = post(running, "get", cap, {"query": "hotel"}).json["lines"]
    (row,) = post(running, "list", cap, {}).json["lines"]
    assert set(row) == {"id", "namespace", "time", "kind", "session", "author", "size", "provenance"}
    assert set(hit) - {"confidence"} == set(row) - {"size"} | {"text", "score"}


@pytest.mark.requirement("filters")
@pytest.mark.parametrize("condition", [*FILTERS, {"session": "monday"}], ids=str)
def test_get_list_and_forget_mean_the_same_lines_over_http(
    running: Running, cap: Token, lines: str, condition: dict[str, Any]
) -> None:
    asked = {"from_session": "monday"} if "session" in condition else condition
    assert [hit["id"] for hit in post(running, "get", cap, {"query": "hotel", **asked}).json["lines"]] == [lines]
    assert [row["id"] for row in post(running, "list", cap, condition).json["lines"]] == [lines]
    assert post(running, "forget", cap, condition).json["ids"] == [lines]
    assert len(post(running, "list", cap, {}).json["lines"]) == 2


@pytest.mark.requirement("list-texts")
def test_texts_are_listed_over_http_and_by_the_client_and_on_record_as_reads(
    running: Running, vault: Vault, cap: Token, memory: Memory, lines: str
) -> None:
    before = vault.audit.size()
    page = post(running, "list", cap, {"texts": True, "limit": 2}).json
    assert [row["text"] for row in page["lines"]] == ["Hotel on the hill", "Hotel at the station"]
    rest = memory.list(texts=True, after=page["next"])
    assert [line.text for line in rest.lines] == ["Hotel by the river"]
    entries = [entry for _, entry in vault.audit.entries(before) if entry is not None]
    assert [(entry.op, len(entry.lines)) for entry in entries] == [("get", 2), ("get", 1)]
    assert all("text" not in row for row in post(running, "list", cap, {}).json["lines"])
