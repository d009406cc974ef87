"""Which addresses a cap may be sent to."""

from __future__ import annotations

from pathlib import Path

import pytest

import strongroom
from strongroom import errors
from strongroom.client.server_address import Address


@pytest.mark.requirement("client-cleartext")
@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://192.168.1.5:8765",
        "http://10.0.0.1",
        "http://0.0.0.0:8765",
        "http://[::]:8765",
        "http://[fe80::1]:8765",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://127.1",
        "http://2130706433",
        "HTTP://EXAMPLE.ORG",
    ],
)
def test_cap_is_not_sent_in_clear_to_another_machine_unless_that_is_said(url: str) -> None:
    with pytest.raises(errors.InvalidRequest):
        strongroom.connect(url, "cap")
    strongroom.connect(url, "cap", allow_cleartext=True).close()


@pytest.mark.requirement("client-cleartext")
@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://127.0.0.1:8765", "http://127.0.0.1:8765"),
        ("http://127.0.0.2", "http://127.0.0.2"),
        ("http://localhost:8765/", "http://localhost:8765"),
        ("http://LOCALHOST", "http://localhost"),
        ("http://[::1]:8765", "http://[::1]:8765"),
        ("https://example.org", "https://example.org"),
        ("https://example.org/memory/", "https://example.org/memory"),
        ("https://10.0.0.1:8443", "https://10.0.0.1:8443"),
    ],
)
def test_loopback_and_tls_are_taken(url: str, base: str) -> None:
    assert Address.of(url) == Address(base, base)


@pytest.mark.parametrize("url", ["unix:///run/strongroom/socket", "unix:///tmp/with space/and%20sign"])
def test_unix_socket_is_named_by_its_path_as_it_stands(url: str) -> None:
    address = Address.of(url)
    assert (address.shown, address.socket) == (url, url.removeprefix("unix://"))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8765",
        "localhost",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "http://",
        "https://:443",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:-1",
        "http://127.0.0.1:port",
        "http://[::1",
        f"https://{'a' * 64}.example.org",
        "https://a..example.org",
        "http://alice:secret@127.0.0.1",
        "https://cap@example.org",
        "https://example.org/?cap=secret",
        "https://example.org/?",
        "https://example.org/#secret",
        "https://exa\nmple.org",
        "unix:socket",
        "unix://socket",
        "unix:",
        "unix:///run/\x00",
        None,
        5,
        b"http://127.0.0.1",
    ],
)
def test_any_other_address_is_refused_and_not_repeated(url: object) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        strongroom.connect(url, "cap", allow_cleartext=True)  # type: ignore[arg-type]
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8765/mcp",
        "https://example.org/mcp/",
        "https://example.org/memory/mcp",
        "https://example.org/v1",
        "https://example.org/v1/memory/get",
    ],
)
def test_address_of_a_route_is_refused_with_what_to_leave_out(url: str) -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        strongroom.connect(url, "cap")
    assert "leave out /" in refused.value.hint


def test_names_that_only_look_like_routes_are_taken() -> None:
    for url in ("https://mcp.example.org", "https://example.org/mcp/memory", "https://example.org/v1x"):
        assert Address.of(url).base == url
    assert Address.of("unix:///run/mcp").socket == "/run/mcp"


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": -1.0},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": True},
        {"timeout": None},
        {"timeout": "5"},
        {"retries": -1},
        {"retries": 21},
        {"retries": 1.0},
        {"retries": True},
        {"ca_file": "/nowhere/ca.pem"},
        {"ca_file": __file__},
        {"ca_file": 5.5},
    ],
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(errors.InvalidRequest):
        strongroom.connect("https://example.org", "cap", **options)  # type: ignore[arg-type]


def test_certificates_are_for_tls_alone(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1", f"unix://{tmp_path}/socket"):
        with pytest.raises(errors.InvalidRequest):
            strongroom.connect(url, "cap", ca_file=tmp_path / "ca.pem")
