"""The caps of a home's conversations. Each is narrowed offline from the home's cap, to one actor and five minutes.

The home's cap covers every actor of the home, and is never used by itself. It is read again when its file changes, and
renewed well before it ends. An expired cap is replaced only if the vault is embedded, because its keys are then on this
machine, and only if the cap was not revoked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from strongroom.caps import chain
from strongroom.caps.authority import effective
from strongroom.caps.chain import Cap, Token
from strongroom.errors import CapExpired, CapRevoked, CapSignatureInvalid, InvalidRequest
from strongroom.hermes import cap_file
from strongroom.hermes.provider.vault_connection import VaultConnection
from strongroom.host.cache.settings_file import status_of
from strongroom.model import Actor, Namespace, Op
from strongroom.vault.create_open import attenuate

TTL = 300
"""Lifetime of a conversation's cap, in seconds."""
FRESH = 60
"""Seconds that a cached cap must still be valid. A cap with less time left is made again."""
_NARROWED = 1024
KEEPS = (Op.PUT, Op.GET, Op.LIST, Op.SNAPSHOT, Op.FORGET)
RECALLS = (Op.GET, Op.SNAPSHOT)


RuntimeCap = tuple[Token, Cap]
"""The home's cap, and the authority that it claims."""
_Wanted = tuple[Token, Actor, tuple[Op, ...], tuple[Namespace, ...]]
"""The cache key of a narrowed cap: the home's cap, the actor, the operations and the namespaces."""


class ActorCaps:
    """The caps of one home, shared by the home's agents. Thread-safe."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now
        self._guard = threading.Lock()
        self._read: tuple[tuple[int, ...], Token, Cap] | None = None
        self._narrowed: dict[_Wanted, tuple[Token, float]] = {}

    def __repr__(self) -> str:
        return "<caps of a home>"

    def runtime(self) -> RuntimeCap:
        """Read the home's cap and its authority. The cap is not verified here; the gate verifies it at each call."""
        status = status_of(self.path)
        read = self._read
        if read is None or read[0] != status:
            token = cap_file.read(self.path)
            read = self._read = (status, token, effective(chain.parse(token), ""))
        return read[1], read[2]

    def narrowed(
        self,
        actor: Actor,
        names: Iterable[Namespace],
        ops: Iterable[Op] = KEEPS,
        runtime: RuntimeCap | None = None,
    ) -> Token:
        """A cap for one actor, some namespaces and a few minutes. It is narrowed from `runtime`, by default the home's
        cap.
        """
        token, held = runtime or self.runtime()
        key = (token, actor, tuple(ops), tuple(names))
        with self._guard:
            made, ends = self._narrowed.get(key, (None, 0.0))
            if made is None or ends - self._now() < FRESH:
                made, ends = self._made(held, *key), min(self._now() + TTL, held.exp)
                while len(self._narrowed) >= _NARROWED:
                    del self._narrowed[next(iter(self._narrowed))]
                self._narrowed.pop(key, None)
                self._narrowed[key] = (made, ends)
            return made

    def _made(self, held: Cap, token: Token, actor: Actor, ops: tuple[Op, ...], names: tuple[Namespace, ...]) -> Token:
        wanted = [str(op) for op in ops if op in held.ops]
        allowed = [name for name in names if name in held.namespaces]
        if not wanted:
            raise InvalidRequest(
                "the home's cap allows none of the operations that memory needs",
                hint="run `strongroom wire hermes` again",
            )
        if held.exp <= self._now():
            raise CapExpired(
                "the home's cap has ended", hint="`hermes strongroom status` shows the command for a new cap"
            )
        return attenuate(token, actor=actor, ops=wanted, namespaces=allowed, ttl=TTL, delegable=False)

    def days_left(self) -> float:
        return (self.runtime()[1].exp - self._now()) / 86_400

    # Renewal of the runtime's cap.

    def is_due(self) -> bool:
        """Whether the home's cap should be renewed now."""
        return self.runtime()[1].exp - self._now() < _renewal(self.runtime()[1])

    def renew(self, way: VaultConnection) -> None:
        """Renew the home's cap, and store the new cap."""
        token, held = self.runtime()
        if held.exp > self._now():
            cap_file.write(self.path, way.ask(token, lambda memory: memory.renew()))
        elif way.is_embedded:
            cap_file.write(self.path, self._again(way, held))
        else:
            raise CapExpired(
                "the home's cap has ended, and only the server's owner can mint a new cap",
                hint="`hermes strongroom status` shows the command for a new cap",
            )

    def _again(self, way: VaultConnection, held: Cap) -> Token:
        """Mint a cap in place of an expired one. Raises CapRevoked if the expired cap was also revoked."""
        vault = way.vault()
        known = [record for record in vault.caps() if record.link == held.links[0]]
        if not known:
            raise CapSignatureInvalid(
                "the vault does not know the home's cap", hint="run `strongroom wire hermes` again"
            )
        if any(record.revoked for record in known):
            raise CapRevoked("the home's cap was revoked", hint="to allow Hermes again, run `strongroom wire hermes`")
        names = tuple(name for name in vault.namespaces if name in known[0].namespaces)
        return cap_file.mint(vault, known[0].actor, names)


def _renewal(held: Cap) -> float:
    """Seconds before its end at which a cap is renewed. For a short-lived cap, the value is a third of its life."""
    return min(cap_file.RENEW_BEFORE, (held.exp - held.nbf) / 3)
