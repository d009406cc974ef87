"""Taking a request apart: its head, its cap, its body, and the call they make. Nothing here trusts anything.

What cannot be read is Invalid or a CapMissing; what is too large or too slow is refused before it is taken in.
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

from strongroom import wire
from strongroom.errors import (
    BodyTooLarge,
    CapMalformed,
    CapMissing,
    HostRefused,
    InvalidRequest,
    MediaTypeRefused,
    OriginRefused,
)
from strongroom.server.connections import Asking, Unheld
from strongroom.server.options import LOOPBACK, Options
from strongroom.unique_keys import check_unique_keys

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CONNECTION = "strongroom.connection"
"""The key in a request's state under which the connection is that it came over."""

_ONCE = frozenset(
    (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"if-match", b"x-request-id")
)
_HOST = re.compile(r"(?:\[([0-9a-f.]*:[0-9a-f:.]*)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_ETAG = re.compile(rb'"([0-9a-f]{32})"')
_WHERE = re.compile(r" - at `(\$[^`]{0,80})`")


class Disconnected(Exception):
    """The peer went away before its request was whole, or before it was answered."""


class Request:
    """One HTTP request: its head, read once, and how to get its body."""

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
            self.id = secrets.token_hex(8)  # a number that counts would tell of other people's requests

    @property
    def is_local(self) -> bool:
        """Whether it comes from this machine; over a unix socket there is no address."""
        return not self.address or self.address in LOOPBACK

    @property
    def neighbourhood(self) -> str:
        """Whose requests without a valid cap are counted together; over a unix socket a user's."""
        return neighbourhood(self.address) if self.address else self.connection.peer

    def check_head(self, options: Options) -> None:
        """Refuse a head that two readers could read in two ways, and one that a web page elsewhere caused."""
        if len(self.headers) != len(self.scope["headers"]):
            names = [name for name, _ in self.scope["headers"]]
            if any(names.count(name) > 1 for name in _ONCE):
                raise InvalidRequest("a header that may come once came twice")
        if host_name(self.headers.get(b"host", b"")) not in options.hosts:
            raise HostRefused(
                "this server does not answer to that Host", hint="its operator can add the name with --host-name"
            )
        origin = self.headers.get(b"origin")
        if origin is not None and origin.decode("latin-1") not in options.origins:
            raise OriginRefused(
                "this server does not answer to web pages of that Origin", hint="its operator can add it with --origin"
            )

    def cap(self) -> str:
        """The token in the Authorization header, unverified."""
        given = self.headers.get(b"authorization")
        if not given:
            raise CapMissing("no cap was shown", hint="send it as `Authorization: Bearer <cap>`")
        scheme, _, token = given.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise CapMalformed("the Authorization header holds no bearer token", hint="send `Bearer <cap>`")
        return token

    async def body(self, options: Options, prove: Callable[[int], Awaitable[object]]) -> bytes:
        """The whole body. `prove` is awaited before more than a little of it is taken in, with how much it may be.

        How long it may take is the connection's business (`protocol`).
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
                await prove(options.body_limit)  # it does not say how long it is
                proven = True
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body += message.get("body", b"")
            more = bool(message.get("more_body"))
        return _whole(bytes(body), self.headers.get(b"content-length"), options)

    def check_bodiless(self) -> None:
        """Refuse a body where none belongs: nobody would read it, and the next request would begin in it."""
        if self.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in self.headers:
            raise InvalidRequest("a GET has no body")

    def check_json(self) -> None:
        """Refuse a body that does not say that it is JSON: a web form can be sent by any page."""
        told = self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if told != b"application/json":
            raise MediaTypeRefused("the body must be JSON", hint="send `Content-Type: application/json`")


def neighbourhood(address: str) -> str:
    """Which addresses count as one: an IPv6 address stands for its /64, which one customer has.

    A socket that listens on IPv6 is told IPv4 addresses as IPv6 ones, all in one /64: they count as what they are.
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
    """The name in a Host header, without its port; empty if it is no name."""
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return "" if found is None else found[1] or found[2]


def _whole(body: bytes, told: bytes | None, options: Options) -> bytes:
    """The body, unless it is too large or not as long as its head says: then nobody knows what was meant."""
    if len(body) > options.body_limit:
        raise _too_large(options)
    if told is not None and told != b"%d" % len(body):
        raise InvalidRequest("the body is not as long as its head says")
    return body


def _too_large(options: Options) -> BodyTooLarge:
    return BodyTooLarge(f"a body is at most {options.body_limit} bytes", hint="send several")


class ProfileText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a profile that is written; its namespace and version stand in the request's head."""

    text: str


Reader = Callable[[Request, bytes], wire.Call[Any]]
"""Makes a call of a request and its body; raises InvalidRequest for what is none."""


def reader_of(kind: type[wire.Call[Any]]) -> Reader:
    """How a request for this kind of call is read."""
    if kind is wire.ReadProfile:
        return _read_profile
    if kind is wire.WriteProfile:
        return _write_profile
    decode = _decoding(kind)

    def read(request: Request, body: bytes) -> wire.Call[Any]:
        if request.query:
            raise InvalidRequest("this route takes no query", hint="put the fields into the body")
        if not body and kind is wire.Erase:
            raise InvalidRequest("say what to erase", hint="send {} for all that the cap covers")
        found: wire.Call[Any] = decode(body or b"{}")
        return found

    return read


def _decoding(kind: type[msgspec.Struct]) -> Callable[[bytes], Any]:
    """A reader of bodies that says what it takes; nothing of what it was given is repeated."""
    decoder = msgspec.json.Decoder(kind)
    takes = f"its fields are {', '.join(kind.__struct_fields__)}" if kind.__struct_fields__ else "it has no fields"

    def decode(body: bytes) -> Any:
        try:
            found = decoder.decode(body)
        except msgspec.ValidationError as error:
            where = _WHERE.search(str(error))
            place = "" if where is None else f" at {where[1]}"
            raise InvalidRequest(f"the body is not what this route takes{place}", hint=takes) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidRequest("the body is not JSON", hint=takes) from None
        check_unique_keys(body)
        return found

    return decode


def _read_profile(request: Request, body: bytes) -> wire.ReadProfile:  # noqa: ARG001 - it has none
    return wire.ReadProfile(namespace=_namespace(request))


_profile_text = _decoding(ProfileText)


def _write_profile(request: Request, body: bytes) -> wire.WriteProfile:
    written: ProfileText = _profile_text(body)
    return wire.WriteProfile(text=written.text, namespace=_namespace(request), version=_version(request))


def _namespace(request: Request) -> str | None:
    try:
        pairs = parse_qsl(request.query.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=2)
    except ValueError:
        pairs = [] if not request.query else [("", "")]
    if not pairs:
        return None
    if len(pairs) > 1 or pairs[0][0] != "namespace":
        raise InvalidRequest("the query is at most ?namespace=NAME")
    return pairs[0][1]


def _version(request: Request) -> str:
    """The version that the profile must still have: If-Match names it, none (or If-None-Match: *) means new."""
    given = request.headers.get(b"if-match")
    if given is None:
        if request.headers.get(b"if-none-match", b"*").strip() != b"*":
            raise InvalidRequest("If-None-Match can only be *", hint="name the version to replace with If-Match")
        return ""
    found = _ETAG.fullmatch(given.strip())
    if found is None:
        raise InvalidRequest('If-Match is one ETag as a GET gave it, such as "0123…"')
    return found[1].decode()
