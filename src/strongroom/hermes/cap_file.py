"""The cap of a Hermes home: its operations, and the file that holds it. Only the owner may read that file."""

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
"""The operations of a home's cap. `profile` is missing because only the owner may write the text of a system prompt,
and `erase` because it cannot be undone.
"""
TTL = 30 * 86_400
WARN_BEFORE = 7 * 86_400
RENEW_BEFORE = 10 * 86_400
"""Seconds before a cap's end at which its renewal begins. The warning begins later, so a warning means that the renewal
failed.
"""
LIMIT = 64 * 1024
"""The maximum number of bytes that are read from a cap's file."""


def mint(vault: Vault, scope: str, namespaces: tuple[str, ...]) -> Token:
    """Mint a home's cap, which covers every actor below `scope`."""
    label = f"hermes {scope.split('/')[1]}"[:64]
    return vault.mint(actor_scope=scope, ops=OPS, namespaces=namespaces, ttl=TTL, label=label)


def read(path: Path, *, waits: bool = False) -> Token:
    """Read the cap in a file. A file that others can read is refused, because they may know the cap.

    A pipe is read only with `waits`, for a path that a person named. A hook must not wait for a pipe.
    """
    try:
        with open(path, "rb") if waits else open_file(path) as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise KeyUnavailable(
                    f"the cap file {path} can be read by other users",
                    hint=f"run `chmod 600 {shlex.quote(str(path))}`, then revoke the cap: others may have read it, "
                    "and `strongroom cap list` shows its link",
                )
            return Token(file.read(LIMIT).decode("ascii", "replace").strip())
    except FileNotFoundError:
        raise CapMissing("the cap of this Hermes home is missing", hint="run `strongroom wire hermes` again") from None
    except OSError as error:
        raise KeyUnavailable(f"cannot read the cap file {path}: {error.strerror}") from None


def write(path: Path, token: str) -> None:
    """Store a cap atomically, in a file of mode 0600."""
    try:
        make_directory(path.parent)
        write_file(path, str(token).encode() + b"\n", new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot write the cap file {path}: {error.strerror}") from None
