"""serve: serve the vault over HTTP and MCP. This module reads the options; `strongroom.server` has the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from strongroom.cli import installed_extras
from strongroom.cli.app import command
from strongroom.cli.argument_types import ADDRESS, EVERY, HOST_NAME, LISTEN, ORIGIN, WITHIN
from strongroom.cli.run_context import Run, owner_options, pass_run, store_option
from strongroom.store import is_bucket

if TYPE_CHECKING:
    from strongroom.server.listen import ListenPlace
    from strongroom.server.server_options import Options

F = TypeVar("F", bound=Callable[..., Any])
_DISTANT = 32
"""Number of threads for slow calls if the vault is in a bucket, where a call mostly waits for the network."""
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared with, to warn


class Serving(msgspec.Struct, frozen=True):
    """The answer of serve: the URLs of the server. `mcp` is the URL for MCP clients; None if these are not served."""

    url: str
    mcp: str | None
    vault: str
    pid: int


def _place_options(command: F) -> F:
    """Add to a command the options for the address, TLS and trusted proxies."""
    for option in (
        click.option(
            "--trusted-proxy",
            "proxies",
            type=ADDRESS,
            multiple=True,
            help="A proxy whose X-Forwarded-For is trusted; repeatable.",
        ),
        click.option(
            "--plain-public",
            is_flag=True,
            help="Listen on a public address without TLS: a proxy in front of the server does the TLS.",
        ),
        click.option(
            "--tls-key",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="The private key of --tls-cert, in PEM form.",
        ),
        click.option(
            "--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="The TLS certificate, in PEM form."
        ),
        click.option(
            "--socket-mode",
            type=click.Choice(["0600", "0660"]),
            help="Who may connect to the socket: only you (0600, the default), or also its group.",
        ),
        click.option("--socket", type=click.Path(path_type=Path), metavar="PATH", help="Listen on a unix socket."),
        click.option(
            "--listen", type=LISTEN, help="Where to listen; by default 127.0.0.1:8765. Port 0 picks a free port."
        ),
    ):
        command = option(command)
    return command


def _limit_options(command: F) -> F:
    """Add to a command the options for host names, origins, rates and times."""
    for option in (
        click.option("--log-requests", is_flag=True, help="Log every request, not only refused ones."),
        click.option(
            "--mcp/--no-mcp",
            default=None,
            help="Serve MCP clients at /mcp; by default if the packages for MCP are installed.",
        ),
        click.option(
            "--stop-within", type=WITHIN, help="How long to let requests finish when stopping; by default 30s."
        ),
        click.option(
            "--checkpoint-every", type=EVERY, help="How often to sign a checkpoint of the log; by default 1h."
        ),
        click.option(
            "--connections",
            type=click.IntRange(1),
            metavar="COUNT",
            help="How many connections may be open at once; by default 4096.",
        ),
        click.option(
            "--address-rate",
            type=click.FloatRange(0),
            metavar="RATE",
            help="Requests per second from one address without a valid cap; by default 1000, 0 is no limit.",
        ),
        click.option(
            "--holder-rate",
            type=click.FloatRange(0),
            metavar="RATE",
            help="Requests per second with one cap; by default 500, 0 is no limit.",
        ),
        click.option(
            "--origin", "origins", type=ORIGIN, multiple=True, help="A web page that may call this server; repeatable."
        ),
        click.option(
            "--host-name",
            "names",
            type=HOST_NAME,
            multiple=True,
            help="A host name that clients use, without scheme and port; repeatable.",
        ),
    ):
        command = option(command)
    return command


@command(
    examples=[
        "strongroom serve",
        "strongroom serve --socket /run/strongroom/socket --socket-mode 0660",
        "strongroom serve --listen 0.0.0.0:8765 --host-name memory.example.org --tls-cert cert.pem --tls-key key.pem",
        "strongroom serve --listen 127.0.0.1:0 --json",
    ]
)
@_place_options
@_limit_options
@store_option
@owner_options
@pass_run
def serve(run: Run, /, **given: Any) -> None:
    """Serve the vault to anyone who holds a cap: over HTTP, and to MCP clients at /mcp.

    The keys stay on this machine: give other people a cap (`strongroom cap mint --out FILE`) and the URL of this server
    for --url. The server runs until SIGTERM or Ctrl-C, and finishes open requests first. stderr gets one JSON object
    for each event; the event `listening` holds the URL. On a terminal, a message shows the URL too. For a vault in a
    bucket (--store s3://bucket/prefix), any number of servers may run, on any machines that have the keys.
    """
    installed_extras.require("server")
    from strongroom.server import json_log, listen

    place = _place(**{name: given.pop(name) for name in _PLACE})
    place.check()  # before the keys are read
    options = _options(run, **given)
    _warn(run, place, options)
    vault = run.vault()
    json_log.to_stderr()
    listen.serve(vault, place, options, started=lambda url: _tell(run, vault.id, url, mcp=options.mcp))


_PLACE = ("listen", "socket", "socket_mode", "tls_cert", "tls_key", "plain_public", "proxies")


def _place(
    *,
    listen: tuple[str, int] | None,
    socket: Path | None,
    socket_mode: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    plain_public: bool,
    proxies: tuple[str, ...],
) -> ListenPlace:
    from strongroom.server.listen import ListenPlace

    if socket is not None and (listen or tls_cert or tls_key):
        raise click.UsageError("--socket cannot be combined with --listen or TLS: a unix socket is not on a network")
    if socket is None and socket_mode is not None:
        raise click.UsageError("--socket-mode needs --socket")
    address = {} if listen is None else dict(zip(("address", "port"), listen, strict=True))
    return ListenPlace(
        unix=socket,
        unix_mode=int(socket_mode or "0600", 8),
        tls_cert=tls_cert,
        tls_key=tls_key,
        plain_public=plain_public,
        trusted_proxies=proxies,
        **address,  # type: ignore[arg-type]
    )


def _options(
    run: Run,
    *,
    names: tuple[str, ...],
    origins: tuple[str, ...],
    mcp: bool | None,
    log_requests: bool,
    **numbers: float | None,
) -> Options:
    from strongroom.server.server_options import LOOPBACK, Options

    there = installed_extras.is_installed("mcp")
    if mcp:
        installed_extras.require("mcp")
    if mcp is None and not there:
        run.note(
            f"note: MCP clients are not served, because the packages are missing: {installed_extras.install('mcp')}"
        )
    fields = {"checkpoint_every": "checkpoint_seconds", "stop_within": "stop_seconds"}
    slow = {"slow": _DISTANT} if is_bucket(run.settings.vault) else {}
    given: dict[str, Any] = slow | {fields.get(name, name): one for name, one in numbers.items() if one is not None}
    return Options(
        hosts=LOOPBACK | frozenset(names),
        origins=frozenset(origins),
        mcp=there if mcp is None else mcp,
        log_requests=log_requests,
        **given,
    )


def _warn(run: Run, place: ListenPlace, options: Options) -> None:
    from strongroom.server.server_options import LOOPBACK

    if place.unix is None and place.address in _ANYWHERE and options.hosts <= LOOPBACK:
        run.note(
            "warning: requests to any name or address but localhost will be refused with 421: add --host-name NAME for "
            "each name that clients use"
        )


def _tell(run: Run, vault: str, url: str, *, mcp: bool) -> None:
    """Print the URL once the server listens: as a document on stdout with --json, or in a message on a terminal.

    If stderr is not a terminal, it gets only the log. The event `listening` of the log has the URL.
    """
    if run.json:
        run.answer(Serving(url, f"{url}/mcp" if mcp and not url.startswith("unix:") else None, vault, os.getpid()), "")
        return
    if not sys.stderr.isatty():
        return
    run.note(
        f"serving vault {vault} at {url}: mint a cap with `strongroom cap mint ... --out agent.cap`, "
        f"then `strongroom get --url {url} --cap-file agent.cap ...`; Ctrl-C stops it"
    )
