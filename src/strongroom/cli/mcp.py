"""mcp: serve memory to one MCP client, which starts this process. stdout belongs to the protocol.

The agent can do everything that its cap allows. Without a cap nothing is served; the owner's own cap is used only with
--as-owner.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import click

from strongroom.api import Transport
from strongroom.caps.chain import Token
from strongroom.cli import installed_extras, output, remote_memory
from strongroom.cli.app import command
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.client.cap_holder import CapHolder
from strongroom.errors import CapMissing, Denied, StrongroomError
from strongroom.vault import owner_cap

_MINT = "strongroom cap mint --ops put,get,list,snapshot,renew --namespaces work,travel --ttl 30d --out agent.cap"


@command(
    examples=[
        "strongroom mcp --cap-file agent.cap",
        "strongroom mcp --cap-file agent.cap --url https://memory.example.org",
        "claude mcp add --transport stdio strongroom -- strongroom mcp --cap-file /path/to/agent.cap",
    ]
)
@click.option("--as-owner", is_flag=True, help="Use your own cap: the agent may then read and erase all your memory.")
@memory_options
@pass_run
def mcp(run: Run, as_owner: bool) -> None:
    """Serve memory to an MCP client such as Claude Code, Codex or Cursor, which starts this command itself.

    The agent may do everything that its cap allows. Mint a cap for the agent with `strongroom cap mint --out FILE`.
    With --url the vault is behind a server, and this process never holds its keys. The process ends when the client
    closes stdin.
    """
    installed_extras.require("mcp")
    from strongroom.server.mcp import run_stdio

    _check_stdin(run)
    if run.given is None and not as_owner:
        raise CapMissing(
            "an agent needs a cap of its own, and none was given",
            hint=f"mint a cap and name its file with --cap-file: {_MINT}",
        )
    if run.given is not None and as_owner:
        raise click.UsageError("--as-owner uses your own cap, but another cap was given: use one of the two")
    door, close = _door(run)
    _warn(run)
    try:
        run_stdio(door)
    finally:
        close()


def _warn(run: Run) -> None:
    """Warn at the start if the cap has ended. MCP clients show the output that a server prints at its start."""
    try:
        left = owner_cap.read_unverified(run.token()).exp - time.time()
    except Denied:
        return  # the first call reports what is wrong with it
    if left <= 0:
        run.note(
            f"warning: the cap ended {output.in_words(left)}, so every call will be refused:"
            " ask the vault's owner for a new one"
        )


def _check_stdin(run: Run) -> None:
    """Refuse to read a secret from stdin, which belongs to the MCP client."""
    secrets = (run.cap_place, run.passphrase_file, os.environ.get("STRONGROOM_PASSPHRASE_FILE"))
    if "-" in secrets:
        raise click.UsageError("stdin belongs to the MCP client: give the cap and the passphrase as files")


def _door(run: Run) -> tuple[Transport, Callable[[], None]]:
    token = run.token()
    if run.server is not None:
        return remote_memory.door_to(run, run.server, token)
    return run.vault().door(_fresh(run, token), source="mcp"), lambda: None


def _fresh(run: Run, token: Token) -> Token:
    """The cap to use. A cap that ends soon is renewed, and the new cap is also written to its file.

    With --url, the client renews the cap and this function does not.
    """
    if run.cap_place is None or not CapHolder(token).is_due(time.time()):
        return token
    try:
        new = run.vault().memory(token, source="mcp").renew()
    except StrongroomError:
        return token  # the first call reports what is wrong with it
    remote_memory.keep(run, new)
    return new
