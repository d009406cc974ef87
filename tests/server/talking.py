"""HTTP by hand: bytes out, one answer in. A test that sends what no client library would send needs no less."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from strongroom import api

Address = str | tuple[str, int]
"""A unix socket's path, or an address and a port."""

WAIT = 30
"""Seconds after which a read gives up: only a hang takes so long."""


@dataclass(frozen=True)
class Answer:
    """One response. `headers` has the last of each name."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """The reason of a refusal, which must have the one shape; "" for a success."""
        if self.status < 400:
            return ""
        return refusal(self.body, self.status).reason

    @property
    def outcome(self) -> tuple[int, str]:
        return self.status, self.reason


def refusal(body: bytes, status: int) -> api.Refusal:
    """Read a refusal; anything but the one shape fails the test, and so does a status that is not its reason's."""
    document = json.loads(body)
    assert set(document) <= {"error", "reason", "message", "hint"}, document
    assert all(isinstance(value, str) for value in document.values())
    assert api.STATUS[document["reason"]] == status
    assert document["error"]
    assert document["message"]
    assert b"Traceback" not in body
    assert b'.py"' not in body
    return api.Refusal(**document)


class Connection:
    """A socket that speaks HTTP/1.1 only as far as reading answers."""

    def __init__(self, address: Address, *, tls: ssl.SSLContext | None = None, name: str = "localhost") -> None:
        family = (
            socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        )
        plain = socket.socket(family, socket.SOCK_STREAM)
        plain.settimeout(WAIT)
        try:
            plain.connect(address)
            self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=name)
        except OSError:
            plain.close()
            raise
        self._held = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of it, or as much as the other side takes before it hangs up."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def answer(self, *, bodiless: bool = False) -> Answer:
        """The next final response."""
        while True:
            head = self._until(b"\r\n\r\n")
            status_line, *lines = head.decode("latin-1").split("\r\n")[:-2]
            status = int(status_line.split(" ")[1])
            if status >= 200:
                break
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = 0 if bodiless else int(headers.get("content-length", "0"))
        return Answer(status, headers, self._exactly(size))

    def head(self) -> bytes:
        """The next response's head as it came, also one of 1xx."""
        return self._until(b"\r\n\r\n")

    def ended(self) -> bool:
        """Wait until the other side hangs up; False if it says something instead."""
        try:
            return not self._held and not self.socket.recv(1)
        except ConnectionError:
            return True

    def _until(self, end: bytes) -> bytes:
        while end not in self._held:
            self._more()
        found, _, self._held = self._held.partition(end)
        return found + end

    def _exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            self._more()
        found, self._held = self._held[:size], self._held[size:]
        return found

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the server hung up")
        self._held += data


def request(
    method: str,
    path: str,
    cap: str | None = None,
    body: Any = None,
    *,
    headers: Mapping[str, str] | None = None,
    raw: bytes | None = None,
) -> bytes:
    """A well-formed request; `raw` is a body that need not be JSON, and a header of None's value is left out."""
    content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    lines = {"Host": "localhost"}
    if cap is not None:
        lines["Authorization"] = f"Bearer {cap}"
    if content or method in ("POST", "PUT"):
        lines["Content-Length"] = str(len(content))
        lines["Content-Type"] = "application/json"
    lines |= headers or {}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + content


def exchange(address: Address, data: bytes, *, tls: ssl.SSLContext | None = None) -> Answer:
    """Send bytes on a connection of their own and read one answer."""
    with Connection(address, tls=tls) as connection:
        connection.send(data)
        return connection.answer(bodiless=data.startswith(b"HEAD "))
