"""Run a server: where it listens, with which TLS files, and how it stops.

The server listens on loopback or on a unix socket. Any other address requires TLS, or an option stating that a proxy in
front of the server does TLS. When the server stops, it finishes the requests in flight. The caller that opened the
vault closes it.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import os
import resource
import signal
import socket
import ssl
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn

from strongroom.errors import InvalidRequest, ServerUnavailable
from strongroom.server import json_log
from strongroom.server.http.application import application
from strongroom.server.http.connection import GuardedProtocol, protocol_class
from strongroom.server.http.connection_limits import SPARE, Connections
from strongroom.server.http.tls_handshake import SecureListener
from strongroom.server.server_options import DEFAULT, Options
from strongroom.vault.vault import Vault

PORT = 8765
_OTHER_FILES = 256


@dataclass(frozen=True, slots=True)
class ListenPlace:
    """The address to listen on: a host and port (0: any free one), or a unix socket."""

    address: str = "127.0.0.1"
    port: int = PORT
    unix: Path | None = None
    unix_mode: int = 0o600
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_public: bool = False
    """Listen without TLS on an address that other machines can reach, because a proxy in front of it does TLS."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses of proxies whose X-Forwarded-For header is trusted."""

    def check(self) -> None:
        """Refuse an address over which caps would travel unencrypted, except with `plain_public`."""
        if (self.tls_cert is None) != (self.tls_key is None):
            raise InvalidRequest("TLS needs a certificate and its key", hint="give both --tls-cert and --tls-key")
        if self.unix is None and not is_loopback(self.address) and self.tls_cert is None and not self.plain_public:
            raise InvalidRequest(
                f"other machines can reach {self.address}, and caps would cross the network unencrypted",
                hint="give --tls-cert and --tls-key, or --plain-public if a proxy in front does TLS",
            )

    def url(self, bound: socket.socket) -> str:
        """The URL that a client connects to."""
        if self.unix is not None:
            return f"unix://{self.unix.resolve()}"
        address, port = bound.getsockname()[:2]
        scheme = "http" if self.tls_cert is None else "https"
        return f"{scheme}://[{address}]:{port}" if ":" in address else f"{scheme}://{address}:{port}"


def is_loopback(address: str) -> bool:
    """Whether an address can only be reached from this machine."""
    if address == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


_SWITCH_SECONDS = 0.0001
"""The most seconds for which a thread keeps the interpreter while another thread waits.

During a put a thread asks for the interpreter some twenty times, each time SQLite has released it. With the usual 5 ms,
or with 1 ms, it would wait that long twenty times.
"""
_COLLECT = (10_000, 20, 200)
"""The threshold of the cycle collector, which makes it run rarely.

A run stops all threads, for up to 50 ms with much in RAM, and cycles are few.
"""


def serve(
    vault: Vault, place: ListenPlace, options: Options = DEFAULT, *, started: Callable[[str], None] | None = None
) -> None:
    """Serve an open vault until SIGTERM or SIGINT, and return after that.

    `started` is called with the URL once the server listens.
    """
    place.check()
    if place.unix is None:
        options = replace(options, hosts=options.hosts | {place.address.lower()})
    allowed = _allow_files(options.connections + SPARE + _OTHER_FILES) - SPARE - _OTHER_FILES
    server = server_for(vault, place, replace(options, connections=max(min(options.connections, allowed), 1)))
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.set_threshold(*_COLLECT)
    bound = listen(place)
    made = None if place.unix is None else _identity(place.unix)
    try:
        with _stopped_by_signals(server):
            url = place.url(bound)
            json_log.event("listening", url=url)
            if started is not None:
                started(url)
            server.run(sockets=[bound])
    except SystemExit:  # how uvicorn reports that it could not start
        raise ServerUnavailable(
            "the server could not start", hint="the lines that the server logged before this one say why"
        ) from None
    finally:
        bound.close()
        if place.unix is not None and _identity(place.unix) == made:  # another server may have replaced the socket
            with suppress(OSError):
                place.unix.unlink()
        json_log.event("stopped")


def _allow_files(count: int) -> int:
    """Raise this process's limit of open files as far as allowed, since each connection needs one.

    Returns how many connections, of the `count` wanted, the process may have open. With more open connections, the
    process could not accept new ones.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return count if soft == resource.RLIM_INFINITY else min(count, soft)


def server_for(vault: Vault, place: ListenPlace, options: Options = DEFAULT) -> uvicorn.Server:
    """Make a server that is ready to be given a socket. `serve` does the rest."""
    places = Connections(options.connections)
    return _Server(_config(vault, place, options, places), places, options.head_seconds)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class _Server(uvicorn.Server):
    """uvicorn's server with two changes.

    After uvicorn's server has stopped, it would raise the signals that stopped it once more, which ends the process.
    uvicorn would also allow a minute for a TLS handshake without counting the connection.
    """

    def __init__(self, config: uvicorn.Config, places: Connections, handshake_seconds: float) -> None:
        super().__init__(config)
        self._places = places
        self._handshake_seconds = handshake_seconds

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if not sockets or self.config.ssl is None:
            await super().startup(sockets)
            return
        await super().startup([])
        loop, context = asyncio.get_running_loop(), self.config.ssl

        def protocol() -> GuardedProtocol:
            made = self.config.http_protocol_class(  # type: ignore[call-arg]
                config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )
            assert isinstance(made, GuardedProtocol)  # noqa: S101 - the configuration's own
            return made

        for bound in sockets:
            listener = SecureListener(bound, context, self._handshake_seconds, self._places, protocol)
            self.servers.append(listener)  # type: ignore[arg-type] # it can be closed, and no more is asked of it


@contextmanager
def _stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Let signals stop the server, from the moment before its URL is announced until it has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, server.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _config(vault: Vault, place: ListenPlace, options: Options, places: Connections) -> uvicorn.Config:
    config = uvicorn.Config(
        application(vault, options, places),
        http=protocol_class(options, places),
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(place.trusted_proxies),
        forwarded_allow_ips=list(place.trusted_proxies),
        timeout_keep_alive=options.idle_seconds,
        timeout_graceful_shutdown=options.stop_seconds,
    )
    config.load()
    if place.tls_cert is not None and place.tls_key is not None:
        config.ssl = _tls(place.tls_cert, place.tls_key)
    return config


def _tls(cert: Path, key: Path) -> ssl.SSLContext:
    for path in (cert, key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise InvalidRequest(
                f"the TLS file {path} cannot be read: {error.strerror}",
                hint="--tls-cert and --tls-key need PEM files that this user can read",
            ) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidRequest(
            f"the TLS files {cert} and {key} cannot be used: {error}",
            hint="both must be PEM files, and the key must belong to the certificate",
        ) from None
    return context


def listen(place: ListenPlace) -> socket.socket:
    """Make a socket that listens at the place."""
    try:
        return _listen_tcp(place) if place.unix is None else _listen_unix(place.unix, place.unix_mode)
    except OSError as error:
        where = place.unix or f"{place.address}:{place.port}"
        raise ServerUnavailable(
            f"cannot listen on {where}: {error.strerror or error}", hint=_listening_hint(place, error)
        ) from None


def _listening_hint(place: ListenPlace, error: OSError) -> str:
    """The hint for a failure to listen, chosen by the system's error."""
    if isinstance(error, socket.gaierror):
        return "the name cannot be resolved: give an IP address of this machine"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address: give one of its own, such as 127.0.0.1"
    if place.unix is None:
        if error.errno == errno.EACCES:
            return "only root may use ports below 1024: choose a higher one"
        return "another server may be using this port: stop it, or choose another one with --listen"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return f"make the directory {place.unix.parent} first"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"you may not write to {place.unix.parent}: name another path"
    if error.errno in (None, errno.ENAMETOOLONG):  # Python's own error has no number
        return "the path of a socket can have at most about 100 bytes: name a shorter one"
    return "another server may be using this socket: stop it, or name another path"


def _listen_tcp(place: ListenPlace) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.address else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((place.address, place.port))
        bound.listen(2048)
    except OSError:
        bound.close()
        raise
    return bound


def _listen_unix(path: Path, mode: int) -> socket.socket:
    """Listen on a unix socket in such a way that no other user can open it before its permissions are set."""
    _clear_stale(path)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)  # so that it never exists with more permissions than it should have
    try:
        bound.bind(os.fspath(path))
    except OSError:
        bound.close()
        raise
    finally:
        os.umask(before)
    bound.listen(2048)
    return bound


def _clear_stale(path: Path) -> None:
    """Remove the socket that a killed server left.

    Raises if a server answers on it, or if the path is not a socket.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise InvalidRequest(f"the file {path} exists and is not a socket", hint="name another path for the socket")
    except FileNotFoundError:
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.settimeout(1)
    try:
        probe.connect(os.fspath(path))
    except ConnectionRefusedError:
        path.unlink()
    except TimeoutError:
        raise InvalidRequest(
            f"another server holds the socket {path} and does not answer", hint="stop that server first"
        ) from None
    else:
        raise InvalidRequest(f"another server is listening on the socket {path}", hint="stop that server first")
    finally:
        probe.close()
