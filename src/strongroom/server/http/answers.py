"""Answers of the HTTP server, including refusals."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from strongroom import api
from strongroom.errors import RateLimited, ServerUnavailable, StrongroomError

UNPROVEN = 401
"""The HTTP status of a request that is refused because it shows no valid cap."""

KEEP_OUT = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
"""The headers that every answer has."""

_JSON = (b"content-type", b"application/json")
encode = msgspec.json.Encoder().encode
Headers = tuple[tuple[bytes, bytes], ...]


class HttpAnswer(NamedTuple):
    """An HTTP answer."""

    status: int
    body: bytes
    headers: Headers = ()
    kind: tuple[bytes, bytes] = _JSON


def refusal(error: StrongroomError) -> HttpAnswer:
    """The answer to a refused request, in the shape that all errors have."""
    status = api.STATUS[error.reason]
    headers: list[tuple[bytes, bytes]] = []
    if status == UNPROVEN:
        headers.append((b"www-authenticate", b"Bearer"))
    elif status in (408, 413, 431):
        headers.append((b"connection", b"close"))  # the rest of the request is not read
    elif status in (429, 503):
        wait = error.wait if isinstance(error, RateLimited) else 1
        headers.append((b"retry-after", str(wait).encode()))
    return HttpAnswer(status, encode(api.Refusal.of(error)), tuple(headers))


def stopping() -> ServerUnavailable:
    return ServerUnavailable("the server is stopping", hint="try again in a moment")


def slow_down(wait: float) -> RateLimited:
    """The refusal for a caller that must wait for this number of seconds."""
    error = RateLimited("too many requests", hint="wait for the seconds in the Retry-After header, then try again")
    error.wait = max(1, round(wait + 0.5))
    return error
