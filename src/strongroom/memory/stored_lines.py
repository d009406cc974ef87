"""Opens stored lines, and other objects of a namespace.

If an object does not open, the keys are read again once, because another process may have changed them.
"""

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
    """Open a stored line. Returns None if `thing` is None or a tombstone, which is left by a forgotten line."""
    if thing is None or thing.body is None:
        return None
    place = LinePlace(state.vault_id, actor, namespace)

    def opened(body: bytes, keys: Mapping[int, bytes]) -> Line:
        return line_encryption.open_line(body, line_id_of(thing.name), place, keys)

    return open_object(state, actor, namespace, thing, opened)


def open_object(
    state: Replica, actor: Actor, namespace: Namespace, thing: Object, use: Callable[[bytes, Mapping[int, bytes]], T]
) -> T | None:
    """Open a stored object with the keys of its namespace. Returns None if the object or the keys are gone.

    An object that does not open may be sealed with newer keys than this process has read. So the keys and the object
    are read again once, before Tampered is raised.
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
    """The present body of an object, read from the store again."""
    if not state.store.is_whole:
        state.store.version(state.store.scope(name))
    found = state.store.get(name)
    return None if found is None else found.body


def line_id_of(name: str) -> LineId:
    """The line id at the end of an object's name. Raises Tampered if the name does not end in a valid id."""
    try:
        return model.line_id(name.rsplit("/", 1)[1])
    except InvalidRequest:
        raise Tampered(
            "an object with an invalid name is stored among the lines",
            hint="run vault.audit.verify(), which names the damaged objects",
        ) from None
