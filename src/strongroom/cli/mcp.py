"""mcp: memory for one MCP client that starts this as its server. stdout belongs to the protocol.

An agent gets what its cap allows and never the owner's own cap unasked: without a cap, nothing is served.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import click

from strongroom.api import Transport
from strongroom.caps.chain import Token
from strongroom.cli import installed_extras, output, owner_cap, remote_memory
from strongroom.cli.app import command
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.client.cap_holder import CapHolder
from strongroom.errors import CapMissing, Denied, StrongroomError

_MINT = "strongroom cap mint --ops put,get,list,snapshot,renew --namespaces work,travel --ttl 30d --out agent.cap"


@command(
    examples=[
        "strongroom mcp --cap-file agent.cap",
        "strongroom mcp --cap-file agent.cap --url https://memory.example.org",
        "claude mcp add --transport stdio strongroom -- strongroom mcp --cap-file /path/to/agent.cap",
    ]
)
@click.option("--as-owner", is_flag=True, help="Use your own cap: the agent may then read and erase all that you may.")
@memory_options
@pass_run
def mcp(run: Run, as_owner: bool) -> None:
    """Serve memory to an MCP client such as Claude Code, Codex or Cursor, which starts this command itself.

    What the agent may do is what its cap says: mint one for it with `strongroom cap mint --out FILE`. With --url the
    vault is behind a server, and this process never holds its keys. It ends when the client closes stdin.
    """
    installed_extras.require("mcp")
    from strongroom.server.mcp import run_stdio

    _check_stdin(run)
    if run.given is None and not as_owner:
        raise CapMissing(
            "an agent gets a cap of its own, and none was given", hint=f"name one with --cap-file: {_MINT}"
        )
    if run.given is not None and as_owner:
        raise click.UsageError("--as-owner means your own cap, and another was given")
    door, close = _door(run)
    _warn(run)
    try:
        run_stdio(door)
    finally:
        close()


def _warn(run: Run) -> None:
    """A client shows what its server says when it starts; that a cap has ended would else only show at a call."""
    try:
        left = owner_cap.read_unverified(run.token()).exp - time.time()
    except Denied:
        return  # its first use says what is wrong with it
    if left <= 0:
        run.note(f"warning: the cap ended {output.in_words(left)}, and every call will be refused: ask for another")


def _check_stdin(run: Run) -> None:
    """Stdin is the client's."""
    secrets = (run.cap_place, run.passphrase_file, os.environ.get("STRONGROOM_PASSPHRASE_FILE"))
    if "-" in secrets:
        raise click.UsageError("stdin belongs to the MCP client: name a file")


def _door(run: Run) -> tuple[Transport, Callable[[], None]]:
    token = run.token()
    if run.server is not None:
        return remote_memory.door_to(run, run.server, token)
    return run.vault().door(_fresh(run, token), source="mcp"), lambda: None


def _fresh(run: Run, token: Token) -> Token:
    """The cap, or a new one that takes its place in its file if its end is near, as the client does with a server."""
    if run.cap_place is None or not CapHolder(token).is_due(time.time()):
        return token
    try:
        new = run.vault().memory(token, source="mcp").renew()
    except StrongroomError:
        return token  # its first use says what is wrong with it
    remote_memory.keep(run, new)
    return new
