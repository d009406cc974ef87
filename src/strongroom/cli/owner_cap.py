"""The owner's own cap: all of `local/owner`, for 30 days, in `owner.cap` beside the keys.

`strongroom init` mints it, and any command that needs it mints it again if it is missing, about to end, void, or does
not cover every namespace. It gives no more access than the keys beside it. It never replaces a cap that was given.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from strongroom.caps.authority import effective
from strongroom.caps.chain import Cap, Token, parse
from strongroom.cli import output
from strongroom.errors import Denied, KeyUnavailable
from strongroom.private_files import make_directory, write_file
from strongroom.vault.vault import Vault

NAME = "owner.cap"
ACTOR = "local/owner"
OPS = ("put", "get", "list", "snapshot", "profile", "forget", "erase")
TTL = 30 * 86_400
RENEW_BEFORE = 7 * 86_400

Say = Callable[[str], None]

VOIDED = frozenset(
    ("cap_malformed", "cap_signature_invalid", "cap_holder_proof", "cap_audience", "cap_expired", "cap_revoked")
)
"""Reasons for a denial that a new owner cap would fix."""


def take(vault: Vault, directory: Path, say: Say) -> Token:
    """The owner's cap, renewed if necessary."""
    token = _read(directory / NAME)
    if token is None:
        return renew(vault, directory, "there was none", say)
    fault = _fault(token, vault)
    return token if fault is None else renew(vault, directory, fault, say)


def renew(vault: Vault, directory: Path, why: str, say: Say) -> Token:
    """Mint a new owner's cap and print why."""
    token = mint(vault, directory)
    say(f"made a new owner cap, because {why}")
    return token


def mint(vault: Vault, directory: Path) -> Token:
    """Mint the owner's cap and write it beside the keys."""
    token = vault.mint(actor=ACTOR, ops=OPS, namespaces=vault.namespaces, ttl=TTL, label="owner")
    try:
        make_directory(directory)
        write_file(directory / NAME, token.encode() + b"\n", new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot write {directory / NAME}: {error.strerror}") from None
    return token


def read_unverified(token: str) -> Cap:
    """Decode a cap without verifying it. Only the shape is checked: verifying needs the vault."""
    return effective(parse(token), "")


def _fault(token: Token, vault: Vault) -> str | None:
    try:
        found = read_unverified(token)
    except Denied:
        return "the old one was damaged"
    left = found.exp - time.time()
    if left < RENEW_BEFORE:
        return "the old one had ended" if left <= 0 else f"the old one ends {output.in_words(left)}"
    return None if found.namespaces >= set(vault.namespaces) else "the old one did not cover every namespace"


def _read(path: Path) -> Token | None:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(1 << 16)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyUnavailable(f"cannot read {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyUnavailable(f"other users can read {path}", hint=f"chmod 600 {path}, or remove it to get a new one")
    return Token(data.decode("utf-8", "replace").strip())
