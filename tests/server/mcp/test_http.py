"""MCP over HTTP, by hand: what the server's own checks refuse, and what each protocol era gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import anyio
import pytest
from mcp import Client

import strongroom
from strongroom import Token, Vault
from strongroom.server.mcp import on_threads, server_for
from tests.conftest import NAMESPACES
from tests.server.conftest import QUIET
from tests.server.mcp.clients import reason
from tests.server.mcp.conftest import TOOL_OPS
from tests.server.mcp.messages import ACCEPT, MODERN, tool_call
from tests.server.running import Running, serving_in_thread


@pytest.fixture
def server(vault: Vault) -> Iterator[Running]:
    with serving_in_thread(vault, replace(QUIET, mcp=True)) as running:
        yield running


@pytest.mark.requirement("mcp-http")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("token", "outcome"),
    [(None, (401, "cap_missing")), ("garbage", (401, "cap_malformed"))],
)
def test_request_without_a_valid_cap_never_reaches_the_protocol(
    server: Running, era: str, token: str | None, outcome: tuple[int, str]
) -> None:
    body, headers = tool_call(era=era)
    assert server.ask("POST", "/mcp", token, body, headers=headers).outcome == outcome


@pytest.mark.requirement("mcp-http")
def test_revoked_cap_gets_401(server: Running, vault: Vault, cap: Token) -> None:
    body, headers = tool_call()
    assert server.ask("POST", "/mcp", cap, body, headers=headers).status == 200
    vault.revoke(cap)
    assert server.ask("POST", "/mcp", cap, body, headers=headers).outcome == (401, "cap_revoked")


@pytest.mark.requirement("mcp-http")
def test_page_of_another_origin_and_a_foreign_host_are_refused(server: Running, cap: Token) -> None:
    body, headers = tool_call()
    page = {**headers, "Origin": "https://evil.example"}
    host = {**headers, "Host": "evil.example"}
    assert server.ask("POST", "/mcp", cap, body, headers=page).outcome == (403, "origin_refused")
    assert server.ask("POST", "/mcp", cap, body, headers=host).outcome == (421, "host_refused")


@pytest.mark.requirement("mcp-http")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_anything_but_a_post_is_refused_at_once(server: Running, cap: Token, method: str) -> None:
    answer = server.ask(method, "/mcp", cap, headers=ACCEPT)
    assert answer.outcome == (405, "method_refused")
    assert answer.headers["allow"] == "POST"


@pytest.mark.requirement("mcp-http")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_request_id_stands_in_the_audit_log(server: Running, vault: Vault, cap: Token, era: str) -> None:
    body, headers = tool_call("memory_put", era=era, text="kept", namespace="work")
    answer = server.ask("POST", "/mcp", cap, body, headers={**headers, "X-Request-Id": f"my-{era}"})
    assert answer.status == 200
    assert answer.json["result"]["isError"] is False
    assert answer.headers["x-request-id"] == f"my-{era}"
    entries = [entry for _, entry in vault.audit.entries() if entry is not None]
    assert [entry.op for entry in entries if entry.request == f"my-{era}"] == ["put"]


@pytest.mark.requirement("mcp-http")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_denial_by_the_gate_is_a_tool_result_with_its_reason(server: Running, vault: Vault, era: str) -> None:
    token = vault.mint(actor="local/alice", ops=["get"], namespaces=NAMESPACES)
    body, headers = tool_call("memory_put", era=era, text="SECRET", namespace="work")
    answer = server.ask("POST", "/mcp", token, body, headers=headers)
    assert answer.status == 200
    assert answer.json["result"]["isError"] is True
    assert answer.json["result"]["structuredContent"]["reason"] == "cap_op_mismatch"
    assert b"SECRET" not in answer.body


@pytest.mark.requirement("mcp-http", "gate-no-actor")
def test_two_caps_on_one_server_reach_two_memories(server: Running, vault: Vault, cap: Token) -> None:
    other = vault.mint(actor="local/bob", ops=TOOL_OPS, namespaces=NAMESPACES)
    body, headers = tool_call("memory_put", text="alice only", namespace="work")
    server.ask("POST", "/mcp", cap, body, headers=headers)
    body, headers = tool_call("memory_get", query="alice only")
    mine = server.ask("POST", "/mcp", cap, body, headers=headers).json["result"]["structuredContent"]
    theirs = server.ask("POST", "/mcp", other, body, headers=headers).json["result"]["structuredContent"]
    assert [len(one["lines"]) for one in (mine, theirs)] == [1, 0]


@pytest.mark.requirement("mcp-client")
def test_tools_run_on_a_client_of_a_server_with_the_same_reasons(server: Running, vault: Vault, cap: Token) -> None:
    assert not isinstance(server.address, str)
    memory = strongroom.connect("http://{}:{}".format(*server.address), cap)

    async def main() -> None:
        async with Client(server_for(on_threads(memory._door))) as client:
            put = await client.call_tool("memory_put", {"text": "kept", "namespace": "work"})
            got = await client.call_tool("memory_get", {"query": "kept"})
            assert [one["id"] for one in got.structured_content["lines"]] == [put.structured_content["id"]]
            assert (
                reason(await client.call_tool("memory_put", {"text": "x", "actor": "local/bob"})) == "invalid_request"
            )
            await anyio.to_thread.run_sync(vault.revoke, cap)
            assert reason(await client.call_tool("memory_list", {})) == "cap_revoked"

    with closing(memory):
        anyio.run(main)


NO_MESSAGES = [b"", b"{", b"[]", b'"SECRET"', b'{"jsonrpc": "2.0", "SECRET": 1}', b"\xffSECRET"]


@pytest.mark.requirement("mcp-http", "secrets-hidden")
@pytest.mark.parametrize("version", ["2025-06-18", MODERN])
def test_body_that_is_no_message_is_a_protocol_error_that_repeats_nothing(
    server: Running, cap: Token, version: str
) -> None:
    for raw in NO_MESSAGES:
        answer = server.ask("POST", "/mcp", cap, raw=raw, headers={**ACCEPT, "MCP-Protocol-Version": version})
        assert 400 <= answer.status < 500, raw
        assert set(answer.json["error"]) == {"code", "message"}
        assert b"SECRET" not in answer.body
        assert b"Traceback" not in answer.body
        assert b"pydantic" not in answer.body


@pytest.mark.requirement("mcp-http", "secrets-hidden")
def test_body_that_is_nested_too_deep_is_refused_before_the_protocol(server: Running, cap: Token) -> None:
    answer = server.ask("POST", "/mcp", cap, raw=b"[" * 100_000, headers=ACCEPT)
    assert answer.outcome == (400, "invalid_request")


@pytest.mark.requirement("mcp-http")
def test_unknown_protocol_version_is_told_which_ones_there_are(server: Running, cap: Token) -> None:
    body, headers = tool_call()
    answer = server.ask("POST", "/mcp", cap, body, headers={**headers, "MCP-Protocol-Version": "1999-01-01"})
    assert answer.status == 400
    assert answer.json["error"]["code"] < 0


@pytest.mark.requirement("mcp-http", "server-bad-bodies")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("padding", [0, 100_000])
def test_message_with_a_key_twice_is_refused(server: Running, cap: Token, era: str, padding: int) -> None:
    body, headers = tool_call(era=era)
    doubled = json.dumps(body).replace('"name": ', f'"name": "{"x" * padding}", "name": ').encode()
    answer = server.ask("POST", "/mcp", cap, raw=doubled, headers={"Content-Type": "application/json", **headers})
    assert answer.outcome == (400, "invalid_request")
