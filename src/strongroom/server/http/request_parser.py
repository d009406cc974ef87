"""Parsing of a request: its head, cap and body become a call. All of these are untrusted.

A request that cannot be parsed raises Invalid or CapMissing. A request that is too large or too slow is refused before
it is read.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from strongroom import api
from strongroom.api.wrong_field import wrong_field
from strongroom.errors import (
    BodyTooLarge,
    CapMalformed,
    CapMissing,
    HostRefused,
    InvalidRequest,
    MediaTypeRefused,
    OriginRefused,
)
from strongroom.server.http.connection_limits import Asking, Unheld
from strongroom.server.server_options import LOOPBACK, Options
from strongroom.strict_json import check_unique_keys

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CONNECTION = "strongroom.connection"
"""The key under which the state of a request holds the connection over which it came."""

_ONCE = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"if-match", b"x-request-id")
)
_HOST = re.compile(r"(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ETAG = re.compile(rb'"([0-9a-f]{32})"')


class Disconnected(Exception):
    """The peer disconnected before its request was complete, or before it got the answer."""


class HttpRequest:
    """One HTTP request: its head is parsed, and its body can be read."""

    __slots__ = ("_receive", "address", "connection", "headers", "id", "method", "path", "query", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        client = scope["client"]
        self.address: str = "" if client is None else client[0]
        self.connection: Asking = scope.get("state", {}).get(CONNECTION) or Unheld()
        given = self.headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            self.id = given.decode()
        else:
            self.id = secrets.token_hex(8)  # random, because a counter would tell of other requests

    @property
    def is_local(self) -> bool:
        """Whether the request comes from this machine. Requests over a unix socket have no address."""
        return not self.address or self.address in LOOPBACK

    @property
    def neighbourhood(self) -> str:
        """The key that counts requests without a valid cap: the address, or the user at a unix socket."""
        return neighbourhood(self.address) if self.address else self.connection.peer

    def check_head(self, options: Options) -> None:
        """Refuse a head that two parsers could read differently, and a request that a foreign web page sent."""
        if len(self.headers) != len(self.scope["headers"]):
            names = [name for name, _ in self.scope["headers"]]
            if any(names.count(name) > 1 for name in _ONCE):
                raise InvalidRequest("a header that must be unique was sent twice")
        if host_name(self.headers.get(b"host", b"")) not in options.hosts:
            raise HostRefused(
                "this server does not accept that host name",
                hint="the server's operator can allow the name with --host-name",
            )
        origin = self.headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in options.origins:
            raise OriginRefused(
                "this server does not accept calls from web pages of that origin",
                hint="the server's operator can allow the page with --origin",
            )

    def cap(self) -> str:
        """The token in the Authorization header, unverified."""
        given = self.headers.get(b"authorization")
        if not given:
            raise CapMissing("the request has no cap", hint="send a cap as `Authorization: Bearer <cap>`")
        scheme, _, token = given.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise CapMalformed(
                "the Authorization header has no bearer token", hint="send `Authorization: Bearer <cap>`"
            )
        return token

    async def body(self, options: Options, prove: Callable[[int], Awaitable[object]]) -> bytes:
        """Return the whole body.

        Before more than `unproven_limit` bytes are read, `prove` is awaited with the body's size: it checks the cap.
        The connection limits the time (see `connection`).
        """
        told = self.headers.get(b"content-length")
        size = int(told) if told is not None and told.isdigit() else 0
        if size > options.body_limit:
            raise _too_large(options)
        if size > options.unproven_limit:
            await prove(size)
        first = await self._receive()
        if first["type"] == "http.disconnect":
            raise Disconnected
        if not first.get("more_body"):
            return _whole(bytes(first.get("body", b"")), told, options)
        return await self._rest(bytearray(first["body"]), options, prove, proven=size > options.unproven_limit)

    async def _rest(
        self, body: bytearray, options: Options, prove: Callable[[int], Awaitable[object]], *, proven: bool
    ) -> bytes:
        more = True
        while more:
            if len(body) > options.body_limit:
                raise _too_large(options)
            if len(body) > options.unproven_limit and not proven:
                await prove(options.body_limit)  # its length is not declared
                proven = True
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body += message.get("body", b"")
            more = bool(message.get("more_body"))
        return _whole(bytes(body), self.headers.get(b"content-length"), options)

    def check_bodiless(self) -> None:
        """Refuse a body in a request that must have none.

        No code would read such a body, and it would be parsed as the next request.
        """
        if self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers:
            raise InvalidRequest("a GET request must not have a body")

    def check_json(self) -> None:
        """Refuse a body that is not declared as JSON, because a web form can be sent by any page."""
        told = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if told != b"application/json":
            raise MediaTypeRefused("the body must be JSON", hint="send `Content-Type: application/json`")


def neighbourhood(address: str) -> str:
    """The group of addresses that are counted together. An IPv6 address stands for its /64, which one customer has.

    A socket that listens on IPv6 reports IPv4 addresses as IPv6 ones, all in one /64: these are counted as IPv4.
    """
    return address if ":" not in address else _network(address)


@lru_cache(maxsize=1024)
def _network(address: str) -> str:
    try:
        plain = IPv6Address(address.partition("%")[0])
        return str(plain.ipv4_mapped or IPv6Network((plain, 64), strict=False))
    except ValueError:
        return address


def host_name(host: bytes) -> str:
    """The name in a Host header, without the port. Empty if the header holds no valid name."""
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return "" if found is None else found[1] or found[2]


def _whole(body: bytes, told: bytes | None, options: Options) -> bytes:
    """Return a body after a check that it is within the limit and as long as its head says."""
    if len(body) > options.body_limit:
        raise _too_large(options)
    if told is not None and told != b"%d" % len(body):
        raise InvalidRequest("the body's length differs from Content-Length")
    return body


def _too_large(options: Options) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {options.body_limit} bytes", hint="send several smaller requests")


class ProfileText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that writes a profile. The head of the request says which namespace and version."""

    text: str


Reader = Callable[[HttpRequest, bytes], api.Call[Any]]
"""Makes a call from a request and its body. Raises InvalidRequest if that is not possible."""


def reader_of(kind: type[api.Call[Any]]) -> Reader:
    """Return the function that makes this kind of call from a request."""
    if kind is api.ReadProfile:
        return _read_profile
    if kind is api.WriteProfile:
        return _write_profile
    decode = _decoding(kind)

    def read(request: HttpRequest, body: bytes) -> api.Call[Any]:
        if request.query:
            raise InvalidRequest("this path takes no query string", hint="put the fields into the body")
        if not body and kind is api.Erase:
            raise InvalidRequest(
                "the body must say what to erase", hint="send {} to erase everything that the cap covers"
            )
        found: api.Call[Any] = decode(body or b"{}")
        return found

    return read


def _decoding(kind: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    """A decoder of bodies. Its errors name the fields that the body may have, and repeat no part of the input."""
    decoder = msgspec.json.Decoder(kind)
    takes = _takes(kind.__struct_fields__)

    def decode(body: bytes) -> Any:
        try:
            found = decoder.decode(body)
        except msgspec.ValidationError as error:
            said, fields = wrong_field(error, kind)
            raise InvalidRequest(f"the request's body has {said}", hint=_takes(fields)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidRequest("the request's body is not JSON", hint=takes) from None
        check_unique_keys(body)
        return found

    return decode


def _takes(fields: tuple[str, ...]) -> str:
    return f"the fields are {', '.join(fields)}" if fields else "send {}"


def _read_profile(request: HttpRequest, body: bytes) -> api.ReadProfile:  # noqa: ARG001 - it has none
    return api.ReadProfile(namespace=_namespace(request))


_profile_text = _decoding(ProfileText)


def _write_profile(request: HttpRequest, body: bytes) -> api.WriteProfile:
    written: ProfileText = _profile_text(body)
    return api.WriteProfile(text=written.text, namespace=_namespace(request), version=_version(request))


def _namespace(request: HttpRequest) -> str | None:
    try:
        pairs = parse_qsl(request.query.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=2)
    except ValueError:
        pairs = [] if not request.query else [("", "")]
    if not pairs:
        return None
    if len(pairs) > 1 or pairs[0][0] != "namespace":
        raise InvalidRequest("the query string of this path may only be ?namespace=NAME")
    return pairs[0][1]


def _version(request: HttpRequest) -> str:
    """The version that the stored profile must have, from the If-Match header.

    Without If-Match, or with If-None-Match: *, there must be no profile yet.
    """
    given = request.headers.get(b"if-match")
    if given is None:
        if request.headers.get(b"if-none-match", b"*").strip() != b"*":
            raise InvalidRequest(
                "the header If-None-Match can only be *",
                hint="to replace a version of the profile, send its ETag in If-Match instead",
            )
        return ""
    found = _ETAG.fullmatch(given.strip())
    if found is None:
        raise InvalidRequest(
            "the header If-Match must be a single ETag",
            hint='send the ETag from the answer to a GET of this profile, such as "0123…"',
        )
    return found[1].decode()
