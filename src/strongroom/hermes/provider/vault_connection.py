"""The connection to the vault that a home's policy names. All agents in a process share one connection per vault.

An embedded vault is opened once. For a server there are two sets of connections: one with a short timeout for calls
that a turn waits for, and one with a long timeout for writes that must not be lost. After a failed connection the
server is not called for a few seconds (circuit breaker), so that a dead server does not delay the turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from strongroom import settings
from strongroom.caps.chain import Token
from strongroom.client import connect
from strongroom.errors import KeyUnavailable, ServerUnavailable
from strongroom.hermes.policy import Policy
from strongroom.memory import Memory
from strongroom.store.sqlite_copy import DATABASE
from strongroom.vault.vault import Vault

T = TypeVar("T")

SOURCE = "hermes"
PATIENT = 3.0
"""Maximum seconds for storing a turn at a server. After that the turn is spooled."""
_PAUSE = 3.0
_doorways: dict[tuple[str, ...], VaultConnection] = {}
_guard = threading.Lock()


class VaultConnection:
    """The connection to one vault, embedded or behind a server. Thread-safe."""

    def __init__(self, policy: Policy) -> None:
        self._vault_place, self._url, self._ca_file = policy.vault, policy.url, policy.ca_file or None
        self._file = os.path.join(policy.vault, DATABASE)
        self._hasty_timeout = policy.recall.timeout
        self._lock = threading.Lock()
        self._vault: Vault | None = None
        self._opened = (0, 0)
        self._patient: Memory | None = None
        self._hasty: Memory | None = None
        self._rest_until = 0.0
        self._last: tuple[Vault, Token, Memory] | None = None

    def __repr__(self) -> str:
        return f"<doorway to {self.place}>"

    @property
    def place(self) -> str:
        """The vault's path or the server's address, for people."""
        return self._url or self._vault_place

    @property
    def is_embedded(self) -> bool:
        return not self._url

    def vault(self) -> Vault:
        """The embedded vault, opened at the first call."""
        with self._lock:
            found = self._found()
            if self._vault is not None and found != self._opened:
                # Restored or replaced while it was open: what goes into the old one would be lost.
                self._vault = self._last = None
            if self._vault is None:
                self._vault = settings.open_vault(settings.find(self._vault_place), _passphrase)
                self._opened = self._found()
            return self._vault

    def _found(self) -> tuple[int, int]:
        """The device and inode of the vault's file, by which a replaced vault is noticed. Zeros if there is no file."""
        try:
            status = os.stat(self._file)
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino

    def check(self, token: Token) -> None:
        """Check that the vault opens, or that the server's address is valid. The server is not called."""
        if self.is_embedded:
            self.vault()
        else:
            self._connected(token, hasty=False)

    def ask(self, token: Token, use: Callable[[Memory], T], *, hasty: bool = False) -> T:
        """Use the memory with a cap. If a server cannot be reached, it is not called again for a few seconds."""
        if not self._url:
            return use(self._memory(token))
        if time.monotonic() < self._rest_until:
            raise ServerUnavailable(
                "the server could not be reached a moment ago",
                hint="wait; memory tries the server again in a few seconds",
            )
        try:
            answer = use(self._connected(token, hasty=hasty).with_cap(token))
        except ServerUnavailable:
            self._rest_until = time.monotonic() + _PAUSE
            raise
        self._rest_until = 0.0
        return answer

    def _memory(self, token: Token) -> Memory:
        """The memory of the embedded vault. The memory of the last call is cached."""
        vault, last = self.vault(), self._last
        if last is not None and last[0] is vault and last[1] == token:
            return last[2]
        memory = vault.memory(token, source=SOURCE)
        with self._lock:
            if self._vault is vault:  # otherwise it was replaced meanwhile, and must not be kept open
                self._last = (vault, token, memory)
        return memory

    def settle(self) -> None:
        """Prepare the embedded vault for the next question after lines were stored. A server prepares itself."""
        vault = self._vault
        if vault is not None:
            vault.settle()

    def _connected(self, token: Token, *, hasty: bool) -> Memory:
        with self._lock:
            if self._patient is None or self._hasty is None:
                self._patient = self._connect(token, PATIENT, retries=1)
                self._hasty = self._connect(token, self._hasty_timeout, retries=0)
            return self._hasty if hasty else self._patient

    def _connect(self, token: Token, timeout: float, *, retries: int) -> Memory:
        return connect(self._url, token, timeout=timeout, retries=retries, renew=False, ca_file=self._ca_file)


def open_connection(policy: Policy) -> VaultConnection:
    """The connection to the vault or server that a policy names, shared by the whole process."""
    key = (str(os.getpid()), policy.vault, policy.url, policy.ca_file, str(policy.recall.timeout))
    with _guard:
        if key not in _doorways:
            _doorways[key] = VaultConnection(policy)
        return _doorways[key]


def _passphrase() -> str:
    """The passphrase of a vault whose keys are encrypted. It comes from a file, because an agent cannot ask for it."""
    place = os.environ.get("STRONGROOM_PASSPHRASE_FILE", "")
    try:
        return Path(place).read_text().strip("\r\n") if place else _refuse("none was given")
    except (OSError, UnicodeDecodeError) as error:
        return _refuse(type(error).__name__)


def _refuse(why: str) -> str:
    raise KeyUnavailable(
        f"the vault's keys are locked with a passphrase, and the passphrase file cannot be read: {why}",
        hint="name the passphrase file in STRONGROOM_PASSPHRASE_FILE, or serve the vault and run "
        "`strongroom wire hermes --url URL`",
    )
