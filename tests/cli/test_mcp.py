"""mcp: no agent gets a cap unasked, stdout holds the protocol alone, and a real client works in both ways to run it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from strongroom.caps import chain as caplib
from tests.cli.conftest import Cli, environment, opened
from tests.cli.serving import PATIENCE, serve
from tests.cli.test_served import backdated, minted

Caps = Callable[..., Path]
Work = Callable[[Client], Awaitable[None]]


# Refusals.


@pytest.mark.requirement("cli-mcp", "cli-denials")
def test_agent_without_a_cap_gets_nothing_and_not_the_owners_own(
    process: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for more in ([], ["--url", "http://127.0.0.1:9"], ["--url", "http://127.0.0.1:9", "--as-owner"]):
        done = process("mcp", *more, "--json")
        assert (done.code, done.reason, done.out) == (3, "cap_missing", "")
        assert "strongroom cap mint" in done.error["hint"]


@pytest.mark.requirement("cli-mcp")
def test_cap_that_is_none_or_a_place_that_belongs_to_the_client_is_refused(
    cli: Cli, caps: Caps, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("mcp", "--cap-file", "nowhere.cap", "--json").reason == "cap_missing"
    assert cli("mcp", "--cap-file", str(caps("x.cap", "x")), "--json").reason == "cap_malformed"
    assert cli("mcp", "--cap-file", str(caps("open.cap", minted(), mode=0o644)), "--json").reason == "cap_missing"
    assert cli("mcp", "--cap-file", "-", "--json", stdin=minted()).reason == "usage"
    good = str(caps("agent.cap", minted()))
    assert cli("mcp", "--cap-file", good, "--as-owner", "--json").reason == "usage"
    assert cli("mcp", "--cap-file", good, "--passphrase-file", "-", "--json").reason == "usage"
    monkeypatch.setenv("STRONGROOM_CAP_FILE", "-")
    assert cli("mcp", "--json").reason == "usage"


# A real client.


def work_with(home: Path, words: list[str], work: Work, **env: str) -> None:
    """Do something with the SDK's client, which starts `strongroom mcp` itself."""
    command = ["-W", "error", "-m", "strongroom", "mcp", *words]
    start = StdioServerParameters(command=sys.executable, args=command, env=environment(env), cwd=str(home))

    async def main() -> None:
        with (home / "mcp.log").open("w") as errors:
            async with Client(stdio_client(start, errors)) as client:
                await work(client)

    anyio.run(main)


async def remember(client: Client) -> None:
    """Remember, recall, and be denied what the cap does not cover."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert names >= {"memory_put", "memory_get", "memory_list", "memory_forget", "memory_snapshot"}
    put = await client.call_tool("memory_put", {"text": "Trip to Chengdu, May 25-29"})
    assert not put.is_error
    got = await client.call_tool("memory_get", {"query": "chengdu"})
    assert "Trip to Chengdu" in json.dumps(got.structured_content)
    denied: Any = await client.call_tool("memory_get", {"query": "x", "namespaces": ["personal"]})
    assert (denied.is_error, denied.structured_content["reason"]) == (True, "cap_namespace_denied")


@pytest.mark.requirement("cli-mcp")
@pytest.mark.parametrize("where", ["near", "far"])
def test_real_client_remembers_recalls_and_is_denied(cli: Cli, caps: Caps, home: Path, where: str) -> None:
    cap = str(caps("agent.cap", minted()))
    if where == "near":
        work_with(home, ["--cap-file", cap], remember)
    else:
        with serve(home) as server:
            elsewhere = home / "elsewhere"
            elsewhere.mkdir()
            work_with(home, ["--cap-file", cap, "--url", server.url], remember, HOME=str(elsewhere))
            assert list(elsewhere.iterdir()) == [], "it needs neither keys nor a vault"
    (hit,) = cli("get", "chengdu", "--json").json["hits"]
    assert (hit["text"], hit["namespace"]) == ("Trip to Chengdu, May 25-29", "travel")
    assert hit["provenance"]["source"] == ("mcp" if where == "near" else "http")


@pytest.mark.requirement("cli-mcp", "cli-cap-sources")
def test_cap_may_come_from_the_environment_and_the_owners_own_if_told(cli: Cli, caps: Caps, home: Path) -> None:
    work_with(home, [], remember, STRONGROOM_CAP=minted())
    work_with(home, [], remember, STRONGROOM_CAP_FILE=str(caps("agent.cap", minted())))

    async def everything(client: Client) -> None:
        got = await client.call_tool("memory_get", {"query": "x", "namespaces": ["personal"]})
        assert not got.is_error

    work_with(home, ["--as-owner"], everything)


@pytest.mark.requirement("cli-mcp", "cli-renew")
def test_cap_near_its_end_is_renewed_when_the_client_starts_it(cli: Cli, caps: Caps, home: Path) -> None:
    old = backdated(900, 1000, ops=["put", "get", "renew"])
    cap = caps("agent.cap", old)
    work_with(home, ["--cap-file", str(cap)], remember)
    new = cap.read_text().strip()
    assert caplib.parse(new).first.exp > caplib.parse(old).first.exp
    assert cap.stat().st_mode & 0o777 == 0o600
    with opened() as vault:
        vault.revoke(new)
    revoked = backdated(900, 1000, ops=["put", "get", "renew"], label="other")
    with opened() as vault:
        vault.revoke(revoked)
    cap.write_text(revoked)

    async def denied(client: Client) -> None:
        answer: Any = await client.call_tool("memory_get", {"query": "x"})
        assert answer.structured_content["reason"] == "cap_revoked"

    work_with(home, ["--cap-file", str(cap)], denied)
    assert cap.read_text() == revoked


# As a process.


@pytest.mark.requirement("cli-mcp")
def test_cap_that_has_ended_is_told_at_the_start_and_the_client_is_served_all_the_same(
    process: Cli, caps: Caps
) -> None:
    ended = process("mcp", "--cap-file", str(caps("a.cap", backdated(7200, 60))), stdin=json.dumps(HELLO) + "\n")
    assert (ended.code, json.loads(ended.out)["id"]) == (0, 1)
    assert "the cap ended 2 hours ago" in ended.err
    good = process("mcp", "--cap-file", str(caps("b.cap", minted())), stdin=json.dumps(HELLO) + "\n")
    assert (good.code, "the cap ended" in good.err) == (0, False)


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.mark.requirement("cli-mcp")
def test_stdout_holds_the_protocol_alone_and_the_end_of_stdin_ends_it(process: Cli, caps: Caps) -> None:
    cap = str(caps("agent.cap", backdated(900, 1000)))
    for more in ([], ["--json"]):
        done = process("mcp", "--cap-file", cap, *more, stdin=json.dumps(HELLO) + "\nnonsense\n")
        assert done.code == 0, done.err
        told = [json.loads(line) for line in done.out.splitlines()]
        assert told
        assert all(one["jsonrpc"] == "2.0" for one in told)
        assert any(one.get("id") == 1 for one in told)


@pytest.mark.requirement("cli-mcp")
def test_signal_ends_it_well(home: Path, caps: Caps) -> None:
    command = [sys.executable, "-W", "error", "-m", "strongroom", "mcp", "--cap-file", str(caps("a.cap", minted()))]
    with subprocess.Popen(command, env=environment(), stdin=-1, stdout=-1, stderr=-1, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(json.dumps(HELLO) + "\n")
        running.stdin.flush()
        assert json.loads(running.stdout.readline())["id"] == 1
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
