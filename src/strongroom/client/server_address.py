"""Addresses of servers: checks whether a cap may be sent to an address, and makes connections."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from strongroom.client.deadline import DeadlineTransport
from strongroom.errors import InvalidRequest

_UNIX = "unix://"
_FORMS = "https://host, http://127.0.0.1:8765 or unix:///run/strongroom/socket"

# More than 64 threads make connections of their own now and then. Idle connections are dropped after 20 s, before our
# server drops them at 30 s: an erase or renewal sent on a connection that is closing fails with its outcome unknown.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=20.0)

Transport = Callable[[], httpx.BaseTransport]
"""A function that makes the connection pool of one process."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address. `shown` is the form for error messages, which contains no secret."""

    base: str
    shown: str
    socket: str | None = None

    @classmethod
    def of(cls, url: str, *, allow_cleartext: bool = False) -> Address:
        """Check an address. Raises InvalidRequest if it is invalid.

        By default, an address of another machine without TLS is refused, because the cap would be sent unencrypted.
        """
        if not isinstance(url, str) or not url.isprintable():
            raise InvalidRequest("a server's address must be a string", hint=_FORMS)
        if url.startswith("unix:"):
            return cls._of_socket(url)
        parsed = _parsed(url)
        if parsed.scheme == "http" and not allow_cleartext and not _is_loopback(parsed.host):
            raise InvalidRequest(
                "over http:// the cap and every line would cross the network unencrypted",
                hint="use https://, or say allow_cleartext=True if the network itself is protected",
            )
        base = str(parsed).rstrip("/")
        return cls(base, base)

    @classmethod
    def _of_socket(cls, url: str) -> Address:
        path = url.removeprefix(_UNIX)
        if not path.startswith("/"):
            raise InvalidRequest(
                "the address of a unix socket must have its absolute path", hint="write unix:///run/strongroom/socket"
            )
        return cls("http://localhost", url, path)

    def transport_maker(self, ca_file: str | os.PathLike[str] | None, tls: ssl.SSLContext | None) -> Transport:
        """A function that makes connection pools to this address. They trust the given certificates."""
        if ca_file is not None and tls is not None:
            raise InvalidRequest("give ca_file or tls, not both")
        secure = self.base.startswith("https:")
        if (ca_file is not None or tls is not None) and not secure:
            raise InvalidRequest("ca_file and tls are for https:// addresses")
        # Without TLS no certificates are loaded: this context trusts none and is cheap to make.
        context = (tls or _trusting(ca_file)) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

        def make() -> httpx.BaseTransport:
            return DeadlineTransport(context, _LIMITS, self.socket)

        return make


def _parsed(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
        parsed.raw_host.decode("ascii").encode("idna")  # as it is resolved: labels neither empty nor too long
    except (httpx.InvalidURL, UnicodeError):
        raise InvalidRequest("this is not the address of a server", hint=_FORMS) from None
    if parsed.scheme not in ("http", "https") or not parsed.host or not 0 < (parsed.port or 80) < 2**16:
        raise InvalidRequest("this is not the address of a server", hint=_FORMS)
    # Addresses appear in errors and settings, so they must hold no secret.
    if parsed.userinfo or parsed.query or parsed.fragment or "?" in url or "#" in url:
        raise InvalidRequest(
            "a server's address must not contain a user, a password, a query or a fragment", hint=_FORMS
        )
    _check_path([part for part in parsed.path.split("/") if part])
    return parsed


def _check_path(parts: list[str]) -> None:
    """Refuse an address that includes the path of a single route, because every call appends its own path."""
    if parts[-1:] == ["mcp"]:
        raise InvalidRequest("this is not the address of a server", hint="leave out /mcp, which is for MCP clients")
    if "v1" in parts:
        raise InvalidRequest("this is not the address of a server", hint="leave out /v1 and everything after it")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _trusting(ca_file: str | os.PathLike[str] | None) -> ssl.SSLContext:
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=os.fspath(ca_file))
    except (OSError, TypeError):
        pass
    raise InvalidRequest("ca_file is not a file of certificates in PEM", hint="pass the file with the server's CA")
