"""`strongroom.local()`: the memory of the person whose program this is, in one line.

It is the same memory that the `strongroom` command uses: the vault of `strongroom.settings`, the actor `local/owner`,
and the owner's routing rules. Its cap is the owner's, narrowed offline: it neither erases nor edits profiles. Like
every embedded vault, this is no protection against code of the same user.
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
    """Open your own memory, made with its vault and keys at first use. Close it, or use it as a context manager.

    The vault is at `path`, else where `STRONGROOM_VAULT` says, else in your user data directory. Where there is no
    vault, a new one is made. A line without a namespace goes where the owner's rules send its text, as with `strongroom
    put`. Raises `KeyUnavailable` if the keys of an existing vault are missing or locked: it never gets new ones.
    """
    found = settings.find(None if path is None else os.fspath(path))
    vault = settings.open_or_create_vault(found)
    try:
        owner = OwnerCap(vault, default_directory(vault.id))
        owner.token()  # what is wrong with its file is reported now, and not by the first call
        door = RoutedTransport(OwnerTransport(vault, owner), owner.token, cache(found.rules))
    except BaseException:
        vault.close()
        raise
    return Memory(door, close=vault.close)


class OwnerTransport:
    """Carries calls into an open vault under the owner's cap, narrowed to `OPS`. Renews the cap if it is void."""

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
    """Names a namespace for each new line without one, by the owner's rules, and passes every call on."""

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
                denial.hint = f"the routing rules chose this namespace; name another one with namespace={names}"
                denial.add_note(denial.hint)
            raise

    def with_cap(self, token: str) -> RoutedTransport:
        return RoutedTransport(self._door.with_cap(token), lambda: token, self._rules)

    def _routes(self, lines: Sequence[NewLine]) -> list[Route | None] | None:
        """The route of each line; None if the gate or the operation refuses the call as it is."""
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
