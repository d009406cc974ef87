"""Connecting to the real server: sockets, ports, TLS, narrowed caps, and life without httpx."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import strongroom
from strongroom import Memory, Token, Vault, errors
from strongroom.extras import how_to_install
from tests.client.served import served
from tests.conftest import Clock


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.requirement("client-light")
def test_importing_strongroom_loads_neither_httpx_nor_asyncio() -> None:
    found = json.loads(
        _python(
            "import json, sys, strongroom; strongroom.connect; strongroom.AsyncMemory;"
            "print(json.dumps([name in sys.modules for name in ('httpx', 'httpcore', 'asyncio', 'ssl')]))"
        )
    )
    assert found == [False] * 4


@pytest.mark.requirement("client-light")
def test_connecting_without_httpx_says_what_to_install() -> None:
    told = _python(
        "import sys; sys.modules['httpx'] = None\n"
        "import strongroom\n"
        "try: strongroom.connect('http://127.0.0.1:1', 'cap')\n"
        "except strongroom.errors.InvalidRequest as error: print(error.reason, error.hint, error.__context__)"
    )
    assert told.strip() == f"invalid_request {how_to_install('client')} None"


@pytest.mark.parametrize("unix", [True, False])
def test_same_steps_work_over_a_socket_and_over_a_port(unix: bool, vault: Vault, cap: Token, clock: Clock) -> None:
    with served(vault, unix=unix) as url, strongroom.connect(url, cap, now=clock) as memory:
        assert type(memory) is Memory
        receipt = memory.put("Trip to Chengdu, May 25-29", namespace="travel")
        assert [hit.id for hit in memory.get("chengdu")] == [receipt.id]
        assert memory.get("chengdu")[0].provenance.source == "http"
        with pytest.raises(errors.CapNamespaceDenied):
            memory.get("chengdu", namespaces=["nowhere"])


@contextmanager
def _nobody() -> Iterator[None]:
    """As a user whom the modes of files bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.requirement("client-answers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpcore leaves such a socket open
def test_socket_that_one_may_not_connect_to_is_told_apart_from_one_where_nothing_runs(vault: Vault, cap: Token) -> None:
    with served(vault, unix=True) as url:
        Path(url.removeprefix("unix://")).chmod(0)
        with (
            _nobody(),
            strongroom.connect(url, cap, retries=0) as memory,
            pytest.raises(errors.ServerUnavailable) as refused,
        ):
            memory.get("x")
    assert "group" in refused.value.hint
    assert "running" not in refused.value.hint


@pytest.mark.requirement("client-attenuate")
def test_cap_narrowed_offline_opens_what_is_left_of_it(vault: Vault, cap: Token, clock: Clock) -> None:
    with served(vault) as url:
        vault.memory(cap).put("Trip to Chengdu", namespace="travel")
        vault.memory(cap).put("peanut allergy", namespace="personal")
        narrowed = strongroom.attenuate(cap, namespaces=["travel"], ops=["get"], ttl=60, max_k=1, now=clock)
        with strongroom.connect(url, narrowed, now=clock) as memory:
            assert [hit.text for hit in memory.get("allergy or chengdu")] == ["Trip to Chengdu"]
            for call, reason in (
                (lambda: memory.get("x", namespaces=["personal"]), "cap_namespace_denied"),
                (lambda: memory.put("x"), "cap_op_mismatch"),
                (lambda: memory.get("x", k=2), "cap_limit_exceeded"),
            ):
                with pytest.raises(errors.Denied) as refused:
                    call()
                assert refused.value.reason == reason
            clock.move(60)
            with pytest.raises(errors.CapExpired):
                memory.get("x")


@pytest.mark.requirement("client-request")
def test_request_id_of_a_call_stands_in_the_audit_log(vault: Vault, cap: Token, clock: Clock) -> None:
    with served(vault) as url, strongroom.connect(url, cap, now=clock) as memory:
        memory.get("x")
        memory.get("x")
    requests = [entry.request for _, entry in vault.audit.entries() if entry is not None and entry.op == "get"]
    assert len({request for request in requests if len(request) == 24}) == 2


@pytest.mark.requirement("client-threads")
def test_many_threads_share_one_memory_and_lose_nothing(vault: Vault, cap: Token, clock: Clock) -> None:
    found: list[str] = []
    with served(vault) as url, strongroom.connect(url, cap, now=clock) as memory:

        def work(number: int) -> None:
            found.extend(memory.put(f"line {number} {turn}", namespace="work").id for turn in range(4))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(line.id for line in memory.list(limit=1000).lines) == sorted(found)
    assert len(set(found)) == 96


FORKING = """
import json, os, sys
import strongroom
url, cap = sys.argv[1:3]
# A clock that stands still: ids of one millisecond are counted on, which two processes must not do alike.
memory = strongroom.connect(url, cap, now=lambda: 1_779_440_000_000)
memory.put("before", namespace="work")
children = []
for number in range(4):
    child = os.fork()
    if child == 0:
        ids = [memory.put(f"child {number} {turn}", namespace="work").id for turn in range(5)]
        assert memory.get(ids=ids[:1])[0].text == f"child {number} 0"
        os._exit(0)
    children.append(child)
for turn in range(5):
    memory.put(f"parent {turn}", namespace="work")
print(json.dumps([os.waitpid(child, 0)[1] for child in children]))
memory.close()
"""


@pytest.mark.requirement("client-threads")
def test_forked_processes_share_neither_connections_nor_ids(vault: Vault, cap: Token, clock: Clock) -> None:
    with served(vault) as url:
        done = subprocess.run(
            [sys.executable, "-c", FORKING, url, cap], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [0, 0, 0, 0]
    assert len(vault.memory(cap).list(limit=1000).lines) == 26


def _certificate(home: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, private = home / "cert.pem", home / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert, private


@pytest.mark.requirement("client-cleartext")
def test_certificate_must_be_trusted_and_a_private_one_can_be(
    vault: Vault, cap: Token, clock: Clock, tmp_path: Path
) -> None:
    cert, key = _certificate(tmp_path)
    with served(vault, unix=False, tls=(cert, key)) as url:
        assert url.startswith("https://")
        with (
            strongroom.connect(url, cap, now=clock, retries=0) as memory,
            pytest.raises(errors.ServerUnavailable) as refused,
        ):
            memory.get("x")
        assert "ca_file" in refused.value.hint
        with strongroom.connect(url, cap, now=clock, ca_file=cert) as memory:
            assert memory.get("x") == []
        own = ssl.create_default_context(cafile=str(cert))
        with strongroom.connect(url, cap, now=clock, tls=own) as memory:
            assert memory.get("x") == []
        with pytest.raises(errors.InvalidRequest):
            strongroom.connect(url, cap, ca_file=cert, tls=own)


_CROWD = """
import sys, threading
sys.setswitchinterval(1e-6)
import msgspec
from strongroom import api
from strongroom.client.http_exchange import _decoder
body = b'{"receipts":[{"id":"01JABCDEFGHJKMNPQRSTVWXYZ0","namespace":"travel"}]}'
begin = threading.Barrier(32)
def ask():
    begin.wait()
    for kind in (api.Put, api.Get, api.List):
        try:
            _decoder(kind)(body)
        except msgspec.MsgspecError:
            pass
crowd = [threading.Thread(target=ask) for _ in range(32)]
[one.start() for one in crowd]
[one.join() for one in crowd]
"""


@pytest.mark.requirement("client-answers")
def test_many_threads_that_read_their_first_answers_at_once_do_not_crash() -> None:
    for _ in range(12):
        assert subprocess.run([sys.executable, "-c", _CROWD], timeout=60, check=False).returncode == 0
