"""The memory behind a server, for commands.

This module connects to the server, names options in the hints of errors, and stores renewed caps.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import strongroom
from strongroom.api import A, Call, Transport
from strongroom.caps.chain import Token
from strongroom.cli.run_context import Run
from strongroom.errors import StrongroomError
from strongroom.memory import Memory
from strongroom.private_files import write_file

_WORDS = (("say allow_cleartext=True", "say --allow-cleartext"), ("with ca_file", "with --ca-file"))
_CA_FILE = (("ca_file is not", "what --ca-file names is not"), ("ca_file and tls are", "--ca-file is"))
"""Words for Python callers in errors, each with the option that replaces it."""


class ShellTransport:
    """A transport to a server. Its errors name options instead of Python arguments."""

    def __init__(self, door: Transport) -> None:
        self._door = door

    def call(self, call: Call[A]) -> A:
        try:
            return self._door.call(call)
        except StrongroomError as error:
            raise in_shell_words(error) from None

    def with_cap(self, token: str) -> ShellTransport:
        return ShellTransport(self._door.with_cap(token))


def connect_memory(run: Run, url: str, token: Token) -> Memory:
    """The memory that a cap opens on a server. No request is sent yet."""
    door, close = door_to(run, url, token)
    return Memory(door, close=close)


def door_to(run: Run, url: str, token: Token) -> tuple[Transport, Callable[[], None]]:
    """The transport to a server, and the function that closes it."""
    try:
        memory = strongroom.connect(
            url,
            token,
            ca_file=ca_file(run),
            allow_cleartext=allow_cleartext(run),
            renew=_kept_in(run) is not None,
            on_renew=lambda new: keep(run, new),
        )
    except StrongroomError as error:
        raise in_shell_words(error) from None
    return ShellTransport(memory.door), memory.close


def ca_file(run: Run) -> str | None:
    """The file with the certificates to trust. None if the public certificates are to be trusted."""
    return run.ca_file if run.ca_file is not None else os.environ.get("STRONGROOM_CA_FILE") or None


def allow_cleartext(run: Run) -> bool:
    """True if the user allows http:// to another machine."""
    return run.cleartext or os.environ.get("STRONGROOM_ALLOW_CLEARTEXT") == "1"


def in_shell_words(error: StrongroomError) -> StrongroomError:
    """Change an error so that its message and hint name options instead of Python arguments."""
    for theirs, ours in _WORDS:
        error.hint = error.hint.replace(theirs, ours)
    for theirs, ours in _CA_FILE:
        error.message = error.message.replace(theirs, ours)
    return error


def keep(run: Run, token: Token) -> bool:
    """Write a renewed cap into the file of the old cap. Returns False, and prints a note, if that is not possible."""
    path = _kept_in(run)
    if path is None:
        run.note(
            "note: the cap was renewed, but the new one is not saved, because the old one did not come from a file"
        )
        return False
    try:
        write_file(path, token.encode() + b"\n", new=False)
    except OSError as error:
        run.note(f"warning: the cap was renewed, but the new one is not saved: cannot write {path}: {error.strerror}")
        return False
    run.note(f"note: the cap was renewed; the new one is in {path}")
    return True


def _kept_in(run: Run) -> Path | None:
    """The file from which the cap was read. None for stdin, the environment, and anything but a regular file."""
    return None if run.cap_place in (None, "-") else _regular(Path(run.cap_place or ""))


def _regular(path: Path) -> Path | None:
    """The regular file to which a path leads. A symbolic link is followed, so that the link stays when the file is
    replaced.
    """
    with suppress(OSError):
        found = path.resolve(strict=True)
        if stat.S_ISREG(found.stat().st_mode):
            return found
    return None
