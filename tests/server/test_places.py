"""Where a server listens: loopback, unix sockets that nobody else could open, TLS; and what it refuses to do."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import stat
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from strongroom import Token, Vault
from strongroom.errors import InvalidRequest, ServerUnavailable
from strongroom.server.listen import ListenPlace, listen, serve
from tests.server.conftest import QUIET, StartProcess, StartThread
from tests.server.talking import Address, Connection, exchange, request

GET = "/v1/memory/get"
FILES: dict[str, Any] = {"tls_cert": Path("cert.pem"), "tls_key": Path("key.pem")}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


# What may be listened on.


@pytest.mark.requirement("server-public-bind")
@pytest.mark.parametrize(
    "address",
    ["0.0.0.0", "::", "", "192.0.2.1", "2001:db8::1", "10.0.0.1", "169.254.1.1", "example.com", "127.0.0.1.nip.io"],
)
def test_public_address_without_tls_is_refused(vault: Vault, address: str) -> None:
    with pytest.raises(InvalidRequest):
        ListenPlace(address, 0).check()
    with pytest.raises(InvalidRequest):
        serve(vault, ListenPlace(address, 0), QUIET)


@pytest.mark.requirement("server-public-bind")
@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(address: str) -> None:
    ListenPlace(address).check()


@pytest.mark.requirement("server-public-bind")
def test_public_address_is_taken_with_tls_or_when_told_in_so_many_words() -> None:
    ListenPlace("0.0.0.0", **FILES).check()
    ListenPlace("0.0.0.0", plain_public=True).check()


@pytest.mark.requirement("server-public-bind")
@pytest.mark.parametrize("only", FILES)
def test_half_of_the_tls_files_is_refused(only: str) -> None:
    for place in (ListenPlace(**{only: FILES[only]}), ListenPlace("0.0.0.0", plain_public=True, **{only: FILES[only]})):
        with pytest.raises(InvalidRequest):
            place.check()


@pytest.mark.requirement("server-public-bind")
def test_port_in_use_is_named_as_such() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ServerUnavailable):
            listen(ListenPlace(port=taken.getsockname()[1]))


@pytest.mark.requirement("server-public-bind")
def test_server_listens_on_loopback_by_default() -> None:
    assert ListenPlace().address == "127.0.0.1"
    with listen(ListenPlace(port=0)) as bound:
        assert bound.getsockname()[0] == "127.0.0.1"


# Unix sockets.


@pytest.fixture
def births(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The modes that sockets had at the moment they came to be."""
    seen: list[int] = []
    bind = socket.socket.bind

    def watched(self: socket.socket, address: str) -> None:
        bind(self, address)
        seen.append(mode(Path(address)))

    monkeypatch.setattr(socket.socket, "bind", watched)
    return seen


@pytest.mark.requirement("server-unix")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
@pytest.mark.parametrize("wanted", [0o600, 0o660])
def test_unix_socket_is_born_with_its_mode(tmp_path: Path, births: list[int], umask: int, wanted: int) -> None:
    before = os.umask(umask)
    try:
        with listen(ListenPlace(unix=tmp_path / "socket", unix_mode=wanted)):
            assert births == [wanted]
            assert mode(tmp_path / "socket") == wanted
        assert os.umask(umask) == umask
    finally:
        os.umask(before)


@pytest.mark.requirement("server-unix")
def test_unix_socket_is_the_owners_alone_by_default(tmp_path: Path) -> None:
    with listen(ListenPlace(unix=tmp_path / "socket")):
        assert mode(tmp_path / "socket") == 0o600


@pytest.mark.requirement("server-unix")
def test_umask_is_set_back_when_binding_fails(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        for path in (tmp_path / "missing" / "socket", tmp_path / ("x" * 200)):
            with pytest.raises(ServerUnavailable):
                listen(ListenPlace(unix=path))
            assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


@pytest.mark.requirement("server-unix")
def test_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
        path.chmod(0o666)
    with listen(ListenPlace(unix=path)):
        assert mode(path) == 0o600


@pytest.mark.requirement("server-unix")
def test_socket_that_is_listened_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listen(ListenPlace(unix=path)) as first:
        with pytest.raises(InvalidRequest):
            listen(ListenPlace(unix=path))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            first.accept()[0].close()


@pytest.mark.requirement("server-unix")
@pytest.mark.parametrize("what", ["file", "directory", "link to a file", "link to a socket", "dangling link"])
def test_non_socket_is_left_alone(tmp_path: Path, what: str) -> None:
    path, target = tmp_path / "place", tmp_path / "target"
    if what == "file":
        path.write_text("precious")
    elif what == "directory":
        path.mkdir()
    else:
        path.symlink_to(target)
    if what == "link to a file":
        target.write_text("precious")
    if what == "link to a socket":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(target))
    before = path.lstat()
    with pytest.raises(InvalidRequest):
        listen(ListenPlace(unix=path))
    assert path.lstat() == before
    assert what != "file" or path.read_text() == "precious"


@pytest.mark.requirement("server-unix")
def test_server_answers_on_a_unix_socket(start: StartThread, cap: Token, tmp_path: Path) -> None:
    running = start(ListenPlace(unix=tmp_path / "socket"))
    assert running.ask("POST", GET, cap, {}).status == 200
    assert running.ask("GET", "/metrics").status == 200
    assert running.ask("GET", "/healthz", headers={"Host": "evil.example"}).outcome == (421, "host_refused")


@pytest.mark.requirement("server-unix")
def test_server_removes_its_own_socket_and_nobody_elses(
    on_disk: Token, start_process: StartProcess, tmp_path: Path
) -> None:
    path = tmp_path / "socket"
    first = start_process(unix=path)
    assert mode(path) == 0o600
    first.stop()
    assert not path.exists()
    second = start_process(unix=path)
    path.unlink()
    with listen(ListenPlace(unix=path)):  # another server, started while this one stops
        second.stop()
        assert stat.S_ISSOCK(path.lstat().st_mode)


# TLS.


def certificate(place: Path, name: str = "tls") -> tuple[Path, Path]:
    """A certificate for localhost that signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = place / f"{name}-cert.pem", place / f"{name}-key.pem"
    cert_path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    key_path.write_bytes(pem)
    return cert_path, key_path


@pytest.mark.requirement("server-tls")
def test_server_with_tls_files_speaks_tls_only(start: StartThread, cap: Token, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    running = start_tls(start, cert, key)
    trusting = ssl.create_default_context(cafile=cert)
    answer = exchange(running, request("POST", GET, cap, {}), tls=trusting)
    assert answer.status == 200
    with Connection(running) as plain:
        plain.send(request("POST", GET, cap, {}))
        assert plain.ended()
    assert exchange(running, request("GET", "/healthz"), tls=trusting).status == 200


def start_tls(start: StartThread, cert: Path, key: Path) -> Address:
    trusting = ssl.create_default_context(cafile=cert)
    return start(ListenPlace(port=0, tls_cert=cert, tls_key=key), trusting).address


@pytest.mark.requirement("server-tls")
def test_client_that_does_not_know_the_certificate_is_not_fooled(start: StartThread, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    address = start_tls(start, cert, key)
    with pytest.raises(ssl.SSLCertVerificationError):
        Connection(address, tls=ssl.create_default_context())
    with pytest.raises(ssl.SSLCertVerificationError):
        Connection(address, tls=ssl.create_default_context(cafile=cert), name="memory.example")


@pytest.mark.requirement("server-tls")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_versions_of_tls_are_refused(start: StartThread, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    address = start_tls(start, cert, key)
    old = ssl.create_default_context(cafile=cert)
    old.set_ciphers("DEFAULT@SECLEVEL=0")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Connection(address, tls=old)


@pytest.mark.requirement("server-tls")
def test_tls_files_that_cannot_be_used_are_named(vault: Vault, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    _, other = certificate(tmp_path, "other")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
    for files in ((tmp_path / "missing", key), (cert, tmp_path / "missing"), (broken, key), (cert, other), (key, cert)):
        with pytest.raises(InvalidRequest):
            serve(vault, ListenPlace(port=0, tls_cert=files[0], tls_key=files[1]), QUIET)


@pytest.mark.requirement("server-tls", "server-slow")
@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01"])
def test_handshake_that_does_not_come_is_not_waited_for(start: StartThread, tmp_path: Path, begun: bytes) -> None:
    cert, key = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=cert)
    running = start(ListenPlace(port=0, tls_cert=cert, tls_key=key), trusting, head_seconds=0.5)
    with running.connect() as silent:
        silent.send(begun)
        assert silent.ended()


@pytest.mark.requirement("server-tls", "server-logs")
def test_handshake_that_fails_is_no_noise(on_disk: Token, start_process: StartProcess, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    server = start_process(place={"tls_cert": str(cert), "tls_key": str(key)})
    for sent in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", os.urandom(500)):
        with server.connect() as connection:
            connection.send(sent)
            if sent:
                assert connection.ended()
    trusting = ssl.create_default_context(cafile=cert)
    assert exchange(server.address, request("POST", GET, on_disk, {}), tls=trusting).status == 200
    server.stop(signal.SIGTERM)
    assert [event["event"] for event in server.events() if event["level"] == "error"] == []
