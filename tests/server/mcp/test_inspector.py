"""A client that is not ours and not Python: the MCP inspector's command line, from npm, over stdio and HTTP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strongroom import Token, Vault
from strongroom.server.mcp import TOOLS
from tests.server.conftest import QUIET
from tests.server.mcp.clients import ROOT, stdio_command
from tests.server.running import serving_in_thread

PACKAGE = "@modelcontextprotocol/inspector"
VERSIONS = ["0.17.5", "2.12.0"]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "strongroom-tests"
PATIENCE = 300
"""Seconds after which a program counts as hanging."""

Ask = Callable[..., Any]

pytestmark = pytest.mark.long


@pytest.fixture(params=VERSIONS)
def inspector(request: pytest.FixtureRequest) -> str:
    """The program, installed once into a cache outside the repository."""
    version: str = request.param
    place = CACHE / f"inspector-{version}"
    program = place / "node_modules" / ".bin" / "mcp-inspector"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.fail("the MCP inspector needs npm and Node 20 or later, and there is no npm on this machine")
        place.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(place), f"{PACKAGE}@{version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        if done.returncode or not program.exists():
            pytest.fail(f"npm could not install {PACKAGE}@{version}: {done.stderr[-2000:]}")
    return str(program)


@pytest.fixture(params=["stdio", "http"])
def ask(request: pytest.FixtureRequest, inspector: str, vault: Vault, cap: Token, tmp_path: Path) -> Iterator[Ask]:
    """Runs the inspector with a method and more options, and gives what it printed."""
    if request.param == "http":
        with serving_in_thread(vault, replace(QUIET, mcp=True)) as running:
            assert not isinstance(running.address, str)
            url = "http://{}:{}/mcp".format(*running.address)
            header = f"Authorization: Bearer {cap}"
            yield _asking([inspector, "--cli", url, "--transport", "http", "--header", header])
        return
    started = stdio_command(tmp_path, cap)
    told = [part for name, value in (started.env or {}).items() for part in ("-e", f"{name}={value}")]
    yield _asking([inspector, "--cli", *told, started.command, *started.args])


def _asking(command: list[str]) -> Ask:
    def asked(method: str, *options: str) -> Any:
        # A refused tool call may end it with an error code; what it printed says more.
        whole = [*command, "--method", method, *options]
        done = subprocess.run(whole, capture_output=True, text=True, timeout=PATIENCE, cwd=ROOT, check=False)
        assert done.stdout, done.stderr[-2000:]
        return json.loads(done.stdout)

    return asked


@pytest.mark.requirement("mcp-inspector")
def test_inspector_lists_and_calls_every_tool_and_reads_the_profile(ask: Ask) -> None:
    def call(name: str, *pairs: str) -> Any:
        options = [part for pair in pairs for part in ("--tool-arg", pair)]
        return ask("tools/call", "--tool-name", name, *options)

    assert {tool["name"] for tool in ask("tools/list")["tools"]} == set(TOOLS)
    put = call("memory_put", "text=Trip to Chengdu", "namespace=travel")
    line = put["structuredContent"]["id"]
    got = call("memory_get", "query=Chengdu")
    assert [one["id"] for one in got["structuredContent"]["lines"]] == [line]
    assert got["structuredContent"]["mark"] in got["content"][0]["text"]
    assert len(call("memory_list")["structuredContent"]["lines"]) == 1
    assert call("memory_snapshot")["structuredContent"]["profiles"] == []
    assert call("memory_forget", f'ids=["{line}"]')["structuredContent"]["ids"] == [line]
    line = call("memory_put", "text=Train at nine", "namespace=travel")["structuredContent"]["id"]
    corrected = call("memory_replace", f"id={line}", "text=Bus at ten", "namespace=travel")["structuredContent"]["id"]
    assert [one["id"] for one in call("memory_list")["structuredContent"]["lines"]] == [corrected]
    at = ("key=notes/trip.md", "namespace=travel")
    version = call("memory_write_document", *at, "text=Train at nine")["structuredContent"]["version"]
    assert "Train at nine" in call("memory_read_document", *at)["structuredContent"]["text"]
    assert call("memory_list_documents")["structuredContent"]["documents"][0]["version"] == version
    moved = call("memory_rename_document", *at, "new_key=trip.md")["structuredContent"]
    deleted = call("memory_delete_document", "key=trip.md", "namespace=travel")["structuredContent"]
    assert deleted["ids"] == [moved["version"]]
    refused = call("memory_get", "query=Chengdu", "actor=local/bob")
    assert refused["isError"] is True
    assert refused["structuredContent"]["reason"] == "invalid_request"
    assert ask("resources/list")["resources"][0]["uri"] == "strongroom://profile"
    assert "no profile" in ask("resources/read", "--uri", "strongroom://profile")["contents"][0]["text"]
