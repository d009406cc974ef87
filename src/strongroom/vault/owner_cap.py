"""The owner's own cap: all of `local/owner`, for 30 days, in `owner.cap` beside the keys.

`strongroom init` mints this cap. `strongroom.local()` and any command that needs the cap mint it again if it is
missing, about to end or void, or if it does not cover every namespace. The cap gives no more access than the keys
beside it. It is not used if the caller gives another cap.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from strongroom.caps.authority import TTL_DEFAULT, effective
from strongroom.caps.chain import Cap, Token, parse
from strongroom.errors import CapNamespaceDenied, Denied, KeyUnavailable
from strongroom.private_files import make_directory, write_file
from strongroom.vault.vault import Vault

NAME = "owner.cap"
ACTOR = "local/owner"
OPS = ("put", "get", "list", "snapshot", "profile", "forget", "erase")
_DAY = 86_400
RENEW_BEFORE = 7 * _DAY

T = TypeVar("T")
Say = Callable[[str], None]

VOIDED = frozenset(
    ("cap_malformed", "cap_signature_invalid", "cap_holder_proof", "cap_audience", "cap_expired", "cap_revoked")
)
"""Those reasons for a denial that a new owner cap removes."""


class OwnerCap:
    """The owner's cap in use for an open vault. Thread-safe.

    If a call shows that the cap no longer works, it is minted again.
    """

    def __init__(self, vault: Vault, directory: Path, say: Say = lambda _: None) -> None:
        self._vault = vault
        self._directory = directory
        self._say = say
        self._lock = threading.Lock()
        self._token: Token | None = None

    def token(self) -> Token:
        """Return the cap. At its first use it is minted again if necessary."""
        with self._lock:
            if self._token is None:
                self._token = take(self._vault, self._directory, self._say)
            return self._token

    def use(self, call: Callable[[Token], T]) -> T:
        """Call a function with the cap.

        If the cap is void, or lacks a namespace that was added since, mint a new one and call the function once more.
        """
        token = self.token()
        try:
            return call(token)
        except Denied as denial:
            why = self._why_renew(token, denial)
            if why is None:
                raise
        return call(self._renewed(token, why))

    def _why_renew(self, token: Token, denial: Denied) -> str | None:
        if isinstance(denial, CapNamespaceDenied):
            denial.hint = f"the vault's namespaces are {', '.join(self._vault.namespaces)}"  # the owner may know them
            return _fault(token, self._vault)
        return "the old one was void" if denial.reason in VOIDED else None

    def _renewed(self, old: Token, why: str) -> Token:
        with self._lock:
            if self._token is old or self._token is None:  # otherwise another thread has renewed it
                self._token = renew(self._vault, self._directory, why, self._say)
            return self._token


def take(vault: Vault, directory: Path, say: Say) -> Token:
    """Return the owner's cap from its file, or mint a new one if necessary."""
    token = read(directory / NAME)
    if token is None:
        return renew(vault, directory, "there was none", say)
    fault = _fault(token, vault)
    return token if fault is None else renew(vault, directory, fault, say)


def renew(vault: Vault, directory: Path, why: str, say: Say) -> Token:
    """Mint a new owner's cap and print the reason."""
    token = mint(vault, directory)
    say(f"made a new owner cap, because {why}")
    return token


def mint(vault: Vault, directory: Path) -> Token:
    """Mint the owner's cap and write it beside the keys."""
    token = vault.mint(actor=ACTOR, ops=OPS, namespaces=vault.namespaces, ttl=TTL_DEFAULT, label="owner")
    try:
        make_directory(directory)
        write_file(directory / NAME, token.encode() + b"\n", new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot write the owner's cap {directory / NAME}: {error.strerror}") from None
    return token


def read_unverified(token: str) -> Cap:
    """Decode a cap without verifying it.

    Only the cap's shape is checked, because verifying needs the vault.
    """
    return effective(parse(token), "")


def _fault(token: Token, vault: Vault) -> str | None:
    try:
        found = read_unverified(token)
    except Denied:
        return "the old one was damaged"
    left = found.exp - time.time()
    if left < RENEW_BEFORE:
        return "the old one had ended" if left <= 0 else f"the old one ends within {int(left // _DAY) + 1} days"
    return None if found.namespaces >= set(vault.namespaces) else "the old one did not cover every namespace"


def read(path: Path) -> Token | None:
    """The cap in a file of the owner; None if there is no such file."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(1 << 16)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KeyUnavailable(f"cannot read the owner's cap {path}: {error.strerror}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyUnavailable(
            f"other users can read the owner's cap {path}",
            hint=f"chmod 600 {path}, or remove the file to get a new cap",
        )
    return Token(data.decode("utf-8", "replace").strip())
