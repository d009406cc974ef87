"""Sends one call to a server as an HTTP request, and turns the answer or the failure into a result.

A call is never sent twice here: `http_transport` decides about retries. The module uses the transport of httpx without
httpx.Client, because redirects, cookies, proxies and environment variables could send a cap to another place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import httpx
import msgspec

from strongroom import api
from strongroom.api import A, Call, Refusal
from strongroom.client.deadline import Deadline
from strongroom.client.server_address import Address
from strongroom.client.validate_answer import is_sound
from strongroom.errors import RateLimited, ServerDefect, ServerUnavailable, StrongroomError

ANSWER_BYTES = 64 * 1024 * 1024
"""Maximum size of an answer, in bytes. A larger answer is not read to its end, and counts as a failure."""

_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_PASSING = frozenset({"server_unavailable", "audit_unavailable", "store_unavailable", "rate_limited"})
_PASSING_STATUS = frozenset({429, 502, 503, 504})

_WHICH = "check that the URL is that of a Strongroom server"
_MORE = "`strongroom doctor --url ...` shows more"
_NO_TLS = "there is no TLS on this port: write http:// for loopback, or check the port"
_ADVICE = (
    ("WRONG_VERSION_NUMBER", _NO_TLS),
    ("RECORD_LAYER_FAILURE", _NO_TLS),
    ("Hostname mismatch", "use the name in its certificate"),
    ("IP address mismatch", "use the name in its certificate"),
    ("certificate has expired", "its operator has to renew the certificate"),
    ("certificate is not yet valid", "check this machine's clock"),
    (
        "[Errno 13]",
        "you may not connect to that socket: its operator can start the server with --socket-mode 0660 and add you to"
        " the socket's group; then log in again",
    ),
    ("CERTIFICATE_VERIFY_FAILED", "for a private certificate, name its CA with ca_file"),
)
"""Parts of the texts of connection errors, each with the hint to give. The first part that matches counts."""

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_encode = msgspec.json.Encoder().encode
_refusal = msgspec.json.Decoder(Refusal).decode


@dataclass(frozen=True, slots=True)
class ExchangeFailure:
    """A failed attempt to send a call: the error to raise, and facts that a retry needs.

    - `unclear`: the server may have carried out the call.
    - `passing`: a later attempt may succeed.
    - `wait`: the seconds that the server asked to wait (Retry-After).
    """

    error: StrongroomError
    unclear: bool
    passing: bool = False
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """Sends calls to one server, each call once. Thread-safe."""

    address: Address
    clock: Callable[[], float]

    def once(
        self, transport: httpx.BaseTransport, call: Call[A], token: str, request_id: str, timeout: float
    ) -> A | ExchangeFailure:
        """Send a call once and read its answer, within `timeout` seconds. A failure is returned, and not raised."""
        allowance = Deadline(timeout, self.clock)
        try:
            response = transport.handle_request(self._request(call, token, request_id, allowance))
            try:
                body = self._body(response, allowance)
            finally:
                response.close()
        except httpx.TransportError as error:
            return self._broken(error)
        if isinstance(body, ExchangeFailure):
            return body
        if response.status_code == HTTPStatus.OK:
            return self._answer(call, body)
        return self._refused(response, body)

    def _request(self, call: Call[Any], token: str, request_id: str, allowance: Deadline) -> httpx.Request:
        params, conditions, content = _parts(call)
        return httpx.Request(
            call.method,
            self.address.base + call.path,
            params=params,
            content=content,
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity",  # compressed, an answer could grow beyond ANSWER_BYTES
                "Authorization": f"Bearer {token}",
                "User-Agent": _agent(),
                "X-Request-Id": request_id,
                **({} if content is None else {"Content-Type": "application/json"}),
                **conditions,
            },
            extensions=allowance.extension(),
        )

    def _body(self, response: httpx.Response, allowance: Deadline) -> bytes | ExchangeFailure:
        body = bytearray()
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > ANSWER_BYTES:
                return ExchangeFailure(self._no_strongroom("sent a much longer answer than expected"), unclear=True)
            if allowance.left() < 0:
                raise httpx.ReadTimeout("")
        return bytes(body)

    def _broken(self, error: httpx.TransportError) -> ExchangeFailure:
        """The failure for a connection error. The error of httpx itself is not passed on."""
        what = "closed the connection without an answer"
        if isinstance(error, httpx.ConnectError):
            what = f"cannot be reached: {error}"
        elif isinstance(error, httpx.TimeoutException):
            what = "did not answer in time"
        found = ServerUnavailable(f"the server at {self.address.shown} {what}", hint=_advice(error))
        return ExchangeFailure(found, unclear=not isinstance(error, _UNSENT), passing=True)

    def _answer(self, call: Call[A], body: bytes) -> A | ExchangeFailure:
        try:
            answer: A = _decoder(type(call))(body)
            if is_sound(answer):
                return answer
        except _UNREADABLE:
            pass
        if not _is_json(body):
            return ExchangeFailure(self._no_strongroom("is not a Strongroom server"), unclear=True)
        error = ServerDefect(f"the server at {self.address.shown} sent an answer that cannot be decoded", hint=_WHICH)
        return ExchangeFailure(error, unclear=True)

    def _refused(self, response: httpx.Response, body: bytes) -> ExchangeFailure:
        status = response.status_code
        wait = _seconds(response.headers.get("Retry-After", ""))
        try:
            refused = _refusal(body).raised()
        except _UNREADABLE:
            return self._foreign(status, wait)
        # If a server answers 4xx, including 429, it has not begun the call.
        unclear = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return ExchangeFailure(refused, unclear=unclear, passing=refused.reason in _PASSING, wait=wait)

    def _foreign(self, status: int, wait: float | None) -> ExchangeFailure:
        """The failure for an error that no strongroom server sent, but a proxy or another service."""
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            return ExchangeFailure(RateLimited("too many requests"), unclear=False, passing=True, wait=wait)
        if status in _PASSING_STATUS:
            error = ServerUnavailable(
                f"a proxy at {self.address.shown} cannot reach the server (HTTP {status})", hint="try again later"
            )
            return ExchangeFailure(error, unclear=True, passing=True, wait=wait)
        if 300 <= status < 400:
            error = self._no_strongroom(
                f"redirects to another address (HTTP {status})", hint="use the URL to which it redirects"
            )
            return ExchangeFailure(error, unclear=False)
        return ExchangeFailure(self._no_strongroom(f"is not a Strongroom server (HTTP {status})"), unclear=True)

    def _no_strongroom(self, what: str, hint: str = _WHICH) -> ServerUnavailable:
        return ServerUnavailable(f"the service at {self.address.shown} {what}", hint=hint)


def _advice(error: httpx.TransportError) -> str:
    """The hint for a connection that failed."""
    found = next((hint for part, hint in _ADVICE if part in str(error)), "check that it is running, and the address")
    if isinstance(error, httpx.ReadError | httpx.RemoteProtocolError):
        found = "if the server uses TLS, write https:// instead of http://"
    return f"{found}; {_MORE}"


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except _UNREADABLE:
        return False
    return True


def _parts(call: Call[Any]) -> tuple[dict[str, str] | None, dict[str, str], bytes | None]:
    """Distribute the fields of a call to the parts of the request. Returns query parameters, headers and body."""
    if not isinstance(call, api.ReadProfile | api.WriteProfile):
        return None, {}, None if call.method == "GET" else _encode(call)
    params = None if call.namespace is None else {"namespace": call.namespace}
    if isinstance(call, api.ReadProfile):
        return params, {}, None
    condition = {"If-Match": f'"{call.version}"'} if call.version else {"If-None-Match": "*"}
    return params, condition, _encode({"text": call.text})


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


_building = threading.Lock()


def _decoder(kind: type[Call[Any]]) -> Callable[[bytes], Any]:
    # Decoders are built one at a time: msgspec can crash when two threads inspect a type for the first time.
    with _building:
        return _built(kind)


@cache
def _built(kind: type[Call[Any]]) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind.answer).decode


@cache
def _agent() -> str:
    return f"strongroom/{version('strongroom')}"
