"""`connect`: makes a Memory from the address of a server and a cap. A vault in this process gives the same class.

`connect` only checks its arguments, and imports httpx. The first call of the memory uses the network first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from strongroom.caps.chain import Token
from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install
from strongroom.memory import Memory
from strongroom.model import Millis

if TYPE_CHECKING:
    import ssl

TIMEOUT = 30.0
RETRIES = 3
_RETRIES_LIMIT = 20
_DAY = 24 * 3600


def _system_clock() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


def connect(
    url: str,
    cap: str,
    *,
    timeout: float = TIMEOUT,
    retries: int = RETRIES,
    renew: bool = True,
    on_renew: Callable[[Token], object] | None = None,
    ca_file: str | os.PathLike[str] | None = None,
    tls: ssl.SSLContext | None = None,
    allow_cleartext: bool = False,
    now: Callable[[], Millis] = _system_clock,
) -> Memory:
    """Connect to a server, and return the memory that a cap opens there.

    `url` is the server's address: `https://host`, `http://127.0.0.1:8765` or `unix:///path/of/socket`. The server
    checks the cap at every call; `connect` itself sends nothing. To close the connections, close the memory or use it
    as a context manager. The memory is thread-safe, and a forked process opens new connections.

    `timeout` is the maximum time of a call in seconds, including repeated attempts. The `patience` of a get is added to
    this time. `retries` is how often a call is sent again after a failure that may pass, if the call can be repeated
    without harm. If all attempts fail, an error such as ServerUnavailable is raised.

    A cap that allows `renew` and was not narrowed is renewed in the last fifth of its life. The memory then uses the
    new cap, and passes it to `on_renew`, which should store it. A renewal that fails is tried again later. If you
    cannot store the new cap, pass `renew=False`.

    `ca_file` names a file of certificates to trust instead of the public ones. `tls` is your own TLS context, for
    example with a client certificate. By default a cap is never sent unencrypted to another machine;
    `allow_cleartext` allows it.
    """
    try:
        from strongroom.client.http_transport import HttpTransport
        from strongroom.client.server_address import Address
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("httpx", "httpcore"):
            raise
    else:
        _check(timeout, retries)
        address = Address.of(url, allow_cleartext=allow_cleartext)
        transport = address.transport_maker(ca_file, tls)
        door = HttpTransport(
            address, cap, transport, timeout=timeout, retries=retries, renew=renew, on_renew=on_renew, now=now
        )
        return Memory(door, close=door.close)
    raise InvalidRequest("connecting to a server needs the package httpx", hint=how_to_install("client"))


def _check(timeout: float, retries: int) -> None:
    if type(timeout) not in (int, float) or not 0 < timeout <= _DAY:
        raise InvalidRequest(f"`timeout` must be a number of seconds above 0 and up to {_DAY}")
    if type(retries) is not int or not 0 <= retries <= _RETRIES_LIMIT:
        raise InvalidRequest(f"`retries` must be a whole number from 0 to {_RETRIES_LIMIT}")
