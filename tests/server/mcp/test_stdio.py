"""MCP over stdin and stdout: the protocol alone on stdout, and a clean end however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp_types import INVALID_REQUEST

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.server.mcp.stdio import MESSAGE_LIMIT
from tests.server.mcp.clients import stdio_command

PATIENCE = 60
"""Seconds after which a test gives up on a process: only a hang takes so long."""

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Server:
    """A process that speaks MCP, spoken to by hand."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Path) -> None:
        self.process = process
        self._errors = errors
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def send(self, *messages: Any) -> None:
        for message in messages:
            self._stdin.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self._stdin.flush()

    def answer(self) -> Any:
        line = self._stdout.readline()
        assert line, self.errors
        return json.loads(line)

    def begin(self) -> None:
        self.send(HELLO)
        assert self.answer()["result"]["serverInfo"]["name"] == "strongroom"
        self.send(READY)

    def call(self, number: int, name: str, **arguments: Any) -> None:
        params = {"name": name, "arguments": arguments}
        self.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})

    def close_stdin(self) -> None:
        self._stdin.close()

    def end(self) -> tuple[int, bytes]:
        """How it ended, and what it still wrote on stdout."""
        rest = self._stdout.read()
        return self.process.wait(PATIENCE), rest

    @property
    def errors(self) -> str:
        return self._errors.read_text()


@contextmanager
def _started(directory: Path, cap: str, **environment: str) -> Iterator[Server]:
    command = stdio_command(directory, cap, **environment)
    with (directory / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [command.command, *command.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=command.cwd,
            env={**os.environ, **(command.env or {})},
        )
    try:
        yield Server(process, directory / "stderr")
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


@pytest.mark.requirement("mcp-stdio")
def test_stdio_server_ends_with_stdin_and_closes_the_vault(vault: Vault, tmp_path: Path, cap: Token) -> None:
    with _started(tmp_path, cap) as server:
        server.begin()
        server.call(2, "memory_put", text="kept", namespace="work")
        assert server.answer()["result"]["isError"] is False
        server.close_stdin()
        assert server.end() == (0, b"")
        assert server.errors == "the vault is closed\n"
    assert [hit.text for hit in vault.memory(cap).get("kept")] == ["kept"]


@pytest.mark.requirement("mcp-stdio")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_while_stdin_stays_open_and_the_vault_is_closed(
    vault: Vault, tmp_path: Path, cap: Token, how: signal.Signals
) -> None:
    with _started(tmp_path, cap) as server:
        server.begin()
        server.process.send_signal(how)
        assert server.end() == (0, b"")
        assert server.errors == "the vault is closed\n"
    with strongroom.open(tmp_path / "vault", keys=FileKeys(tmp_path / "keys")) as again:
        assert again.audit.verify().ok


@pytest.mark.requirement("mcp-stdio")
def test_output_of_a_library_never_reaches_the_protocol(vault: Vault, tmp_path: Path, cap: Token) -> None:
    with _started(tmp_path, cap, PRINT_SOMETHING="1") as server:
        server.begin()
        server.call(2, "memory_list")
        assert server.answer()["id"] == 2
        server.close_stdin()
        assert server.end() == (0, b"")
        assert "this must not reach the protocol" in server.errors
        assert "nor this" in server.errors


@pytest.mark.requirement("mcp-stdio")
def test_lines_that_are_no_messages_are_survived_and_not_repeated(vault: Vault, tmp_path: Path, cap: Token) -> None:
    with _started(tmp_path, cap) as server:
        server.begin()
        server.send(b"SECRET\n", b"\n", b"{\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n", b'{"SECRET": 1}\n')
        server.call(2, "memory_list", SECRET="SECRET")
        server.call(3, "memory_list")
        answers: dict[int, Any] = {}
        while 3 not in answers or 2 not in answers:
            message = server.answer()
            assert "SECRET" not in json.dumps(message)
            answers[message.get("id")] = message
        assert answers[2]["result"]["structuredContent"]["reason"] == "invalid_request"
        assert answers[3]["result"]["isError"] is False
        server.close_stdin()
        assert server.end()[0] == 0
        assert "SECRET" not in server.errors


@pytest.mark.requirement("mcp-stdio")
def test_line_without_end_ends_it_instead_of_filling_memory(vault: Vault, tmp_path: Path, cap: Token) -> None:
    with _started(tmp_path, cap) as server:
        server.begin()
        with suppress(BrokenPipeError):  # it stops reading, which is the point
            server.send(b"x" * (MESSAGE_LIMIT + 1_000_000))
        assert server.end() == (0, b"")


@pytest.mark.requirement("mcp-stdio", "server-bad-bodies")
def test_message_with_a_key_twice_is_answered_with_an_error_and_nothing_is_done(
    vault: Vault, tmp_path: Path, cap: Token
) -> None:
    arguments = b'{"text": "kept", "namespace": "work", "namespace": "travel"}'
    params = b'"params": {"name": "memory_put", "arguments": ' + arguments + b"}"
    with _started(tmp_path, cap) as server:
        server.begin()
        server.send(b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", ' + params + b"}\n")
        answer = server.answer()
        assert (answer["id"], answer["error"]["code"]) == (2, INVALID_REQUEST)
        assert "`namespace`" in answer["error"]["message"]
        server.call(3, "memory_list")
        assert server.answer()["id"] == 3
        server.close_stdin()
        assert server.end() == (0, b"")
    assert vault.memory(cap).get("kept") == []
