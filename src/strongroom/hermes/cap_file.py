"""The runtime's cap: its authority, and its file, which only the owner may read, outside Hermes' home."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path

from strongroom.caps.chain import Token
from strongroom.errors import CapMissing, KeyUnavailable
from strongroom.private_files import make_directory, open_file, write_file
from strongroom.vault.vault import Vault

OPS = ("put", "get", "list", "snapshot", "forget", "renew")
"""Never `profile`: the text of a system prompt is the owner's to write. Never `erase`."""
TTL = 30 * 86_400
WARN_BEFORE = 7 * 86_400
RENEW_BEFORE = 10 * 86_400
"""Renewal begins this many seconds before the end: earlier than the warning, which then means that it failed."""
LIMIT = 64 * 1024
"""How many bytes of its file are read."""


def mint(vault: Vault, scope: str, namespaces: tuple[str, ...]) -> Token:
    """Mint a runtime's cap for every actor below `scope`."""
    label = f"hermes {scope.split('/')[1]}"[:64]
    return vault.mint(actor_scope=scope, ops=OPS, namespaces=namespaces, ttl=TTL, label=label)


def read(path: Path, *, waits: bool = False) -> Token:
    """The cap in a file. One that others can read is refused, because they may know it.

    A pipe is read only with `waits`, for a file that a person named: a hook must not hang.
    """
    try:
        with open(path, "rb") if waits else open_file(path) as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise KeyUnavailable(
                    f"{path} can be read by other users",
                    hint=f"`chmod 600 {shlex.quote(str(path))}`, and revoke that cap: `strongroom cap list` shows it",
                )
            return Token(file.read(LIMIT).decode("ascii", "replace").strip())
    except FileNotFoundError:
        raise CapMissing("the runtime's cap is not there", hint="run `strongroom wire hermes` again") from None
    except OSError as error:
        raise KeyUnavailable(f"cannot read {path}: {error.strerror}") from None


def write(path: Path, token: str) -> None:
    """Store a cap atomically, in a file of mode 0600."""
    try:
        make_directory(path.parent)
        write_file(path, str(token).encode() + b"\n", new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot write {path}: {error.strerror}") from None
