"""Real servers for the command line: `strongroom serve` as a process, and a peer that is no strongroom."""

from __future__ import annotations

import ipaddress
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cli.conftest import environment

PATIENCE = 60
"""Seconds after which a test gives up on a process: only a hang takes so long."""


@dataclass
class Server:
    """A server process that listens. `told` is what it said with `--json`."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    log: Path

    @property
    def url(self) -> str:
        return str(self.told["url"])

    def events(self) -> list[dict[str, Any]]:
        """What its log holds; a line that is no JSON object fails the test."""
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        assert all(isinstance(one, dict) for one in found)
        return found

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End it, and say with which code it ended."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@contextmanager
def serve(home: Path, *arguments: str) -> Iterator[Server]:
    """`strongroom serve --json` until the context ends; by default on a free port and without MCP."""
    place = () if {"--listen", "--socket"} & set(arguments) else ("--listen", "127.0.0.1:0")
    tools = () if "--mcp" in arguments else ("--no-mcp",)  # a server with MCP takes twice as long to start
    command = [sys.executable, "-W", "error", "-m", "strongroom", "serve", "--json", *place, *tools, *arguments]
    log = home / "server.log"
    with (
        log.open("w") as stderr,
        subprocess.Popen(command, cwd=home, env=environment(), stdout=subprocess.PIPE, stderr=stderr, text=True) as one,
    ):
        assert one.stdout is not None
        first = one.stdout.readline()
        assert first, log.read_text()
        server = Server(one, json.loads(first), log)
        try:
            _wait_for(server.url)
            yield server
        finally:
            code = server.stop()
        assert one.stdout.read() == "", "one document and nothing else"
    assert code == 0, log.read_text()


def _wait_for(url: str) -> None:
    """Until it has answered once: it listens before it has loaded all that it needs."""
    unix = url.removeprefix("unix://") if url.startswith("unix:") else None
    with httpx.Client(transport=httpx.HTTPTransport(uds=unix, verify=False), timeout=PATIENCE) as client:
        assert client.get(f"{'http://localhost' if unix else url}/healthz").status_code == 200


@dataclass
class Peer:
    """Something that speaks HTTP and is no strongroom. `seen` are the requests that came."""

    url: str
    seen: list[tuple[str, dict[str, str]]]


@contextmanager
def peer(status: int = 404, body: bytes = b"not here", headers: dict[str, str] | None = None) -> Iterator[Peer]:
    """A peer that answers everything alike."""
    seen: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the library's names

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Peer(f"http://127.0.0.1:{server.server_port}", seen)
        finally:
            server.shutdown()
            thread.join()


def certificate(home: Path, *, address: str | None = "127.0.0.1", ended: bool = False) -> tuple[str, str]:
    """A certificate that signs itself, and its key, in files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    other = x509.DNSName("memory.example.org")
    known = other if address is None else x509.IPAddress(ipaddress.ip_address(address))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=-1 if ended else 1))
        .add_extension(x509.SubjectAlternativeName([known]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, private = home / "cert.pem", home / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(cert), str(private)
