"""Opens stored lines, and other objects of a namespace, with keys that another process may have rotated meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from strongroom import model
from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import InvalidRequest, Tampered
from strongroom.memory.replica import Replica
from strongroom.model import Actor, Line, LineId, Namespace
from strongroom.store import Object

T = TypeVar("T")


def open_line(state: Replica, actor: Actor, namespace: Namespace, thing: Object | None) -> Line | None:
    """Open a stored line; None for a tombstone or nothing."""
    if thing is None or thing.body is None:
        return None
    place = LinePlace(state.vault_id, actor, namespace)

    def opened(body: bytes, keys: Mapping[int, bytes]) -> Line:
        return line_encryption.open_line(body, line_id_of(thing.name), place, keys)

    return open_object(state, actor, namespace, thing, opened)


def open_object(
    state: Replica, actor: Actor, namespace: Namespace, thing: Object, use: Callable[[bytes, Mapping[int, bytes]], T]
) -> T | None:
    """Open a stored object with its namespace's keys; None if it, or they, are gone.

    An object that does not open may have been sealed with keys rotated since ours were read, so it is tried again.
    """
    body = thing.body
    for last in (False, True):
        held = state.keys_of(actor)
        if body is None or held is None:
            return None
        try:
            return use(body, held.keys.namespaces.get(state.slots.namespace(actor, namespace), {}))
        except Tampered:
            renewed = not last and state.renew_keys(held)
            again = _again(state, thing.name)
            if not renewed and (last or again == body):
                raise
        body = again
    return None


def _again(state: Replica, name: str) -> bytes | None:
    """The body of an object as it is now."""
    if not state.store.is_whole:
        state.store.version(state.store.scope(name))
    found = state.store.get(name)
    return None if found is None else found.body


def line_id_of(name: str) -> LineId:
    """The id in a line's name. Anything else in its place is Tampered."""
    try:
        return model.line_id(name.rsplit("/", 1)[1])
    except InvalidRequest:
        raise Tampered(
            "an object with an invalid name is stored among the lines", hint="vault.audit.verify() names what is wrong"
        ) from None
