"""`strongroom.local()`: opens the user's own memory in one line.

The `strongroom` command uses this memory too: the vault of `strongroom.settings`, the actor `local/owner`, and the
owner's routing rules. The cap is a narrowed copy of the owner's cap, which allows neither `erase` nor `profile`. As
with every embedded vault, this is no protection against code that runs as the same user.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

import msgspec

from strongroom import api, settings
from strongroom.api import A, Call, Transport
from strongroom.errors import CapNamespaceDenied, Denied
from strongroom.keys import default_directory
from strongroom.memory import Memory
from strongroom.memory.local_transport import LocalTransport
from strongroom.model import BATCH_LIMIT, Namespace, NewLine
from strongroom.routing import Route, Rules, route_lines, with_routes
from strongroom.vault.create_open import attenuate
from strongroom.vault.owner_cap import OwnerCap, read_unverified
from strongroom.vault.vault import Vault

OPS = ("put", "get", "list", "forget", "snapshot")
"""The operations that the memory of `local()` allows."""


def local(path: str | os.PathLike[str] | None = None) -> Memory:
    """Open your own memory. Close it after use, or use it as a context manager.

    The vault is at `path`. Without `path`, it is at the path in `STRONGROOM_VAULT`, or in your user data directory. If
    there is no vault, a new vault and its keys are made.

    For a line without a namespace, the owner's routing rules choose one by its text, as with `strongroom put`. If the
    keys of an existing vault are missing or locked, raises `KeyUnavailable`: such a vault never gets new keys.
    """
    found = settings.find(None if path is None else os.fspath(path))
    vault = settings.open_or_create_vault(found)
    try:
        owner = OwnerCap(vault, default_directory(vault.id))
        owner.token()  # an error in the file of the cap is reported now, and not by the first call
        door = RoutedTransport(OwnerTransport(vault, owner), owner.token, cache(found.rules))
    except BaseException:
        vault.close()
        raise
    return Memory(door, close=vault.close)


class OwnerTransport:
    """Carries out calls in an open vault under the owner's cap, narrowed to `OPS`. If the cap is void, renews it."""

    def __init__(self, vault: Vault, owner: OwnerCap) -> None:
        self._vault = vault
        self._owner = owner
        self._last: tuple[str, LocalTransport] | None = None

    def call(self, call: Call[A]) -> A:
        return self._owner.use(lambda token: self._door(token).call(call))

    def with_cap(self, token: str) -> Transport:
        return self._vault.door(token)

    def _door(self, token: str) -> LocalTransport:
        last = self._last
        if last is None or last[0] is not token:
            last = self._last = (token, self._vault.door(attenuate(token, ops=OPS, delegable=False)))
        return last[1]


class RoutedTransport:
    """Passes calls on. For each new line without a namespace, it first chooses one by the owner's routing rules."""

    def __init__(self, door: Transport, token: Callable[[], str], rules: Callable[[], Rules]) -> None:
        self._door = door
        self._token = token
        self._rules = rules
        self._last: tuple[str, frozenset[Namespace]] | None = None

    def call(self, call: Call[A]) -> A:
        if not isinstance(call, api.Put):
            return self._door.call(call)
        routes = self._routes(call.lines)
        routed = call if routes is None else msgspec.structs.replace(call, lines=tuple(with_routes(call.lines, routes)))
        try:
            return self._door.call(cast("Call[A]", routed))
        except CapNamespaceDenied as denial:
            if routes is not None and any(routes):
                names = f": {denial.hint}" if denial.hint else ""
                denial.hint = f"the routing rules chose this namespace; to name another one, pass namespace={names}"
                denial.add_note(denial.hint)
            raise

    def with_cap(self, token: str) -> RoutedTransport:
        return RoutedTransport(self._door.with_cap(token), lambda: token, self._rules)

    def _routes(self, lines: Sequence[NewLine]) -> list[Route | None] | None:
        """The route (chosen namespace) of each line. None if the call must be passed on unchanged, to be refused."""
        if len(lines) > BATCH_LIMIT:
            return None
        token = self._token()
        last = self._last
        if last is None or last[0] is not token:
            try:
                last = self._last = (token, read_unverified(token).namespaces)
            except Denied:
                return None
        return route_lines(lines, last[1], self._rules)
