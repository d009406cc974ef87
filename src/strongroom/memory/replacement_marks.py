"""Marks of replaced lines. A mark is a sealed object that is named after the old line and holds the new line's id.

A line is replaced by creating its mark. If several writers try, only one of them creates the mark (compare-and-swap).
The new line of a replacement is recalled only if the mark of the old line names this new line.
"""

from __future__ import annotations

from collections.abc import Mapping

from strongroom import model
from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import InvalidRequest, Tampered
from strongroom.memory.replica import Replica
from strongroom.memory.stored_lines import line_id_of, open_object
from strongroom.model import Actor, LineId, Namespace
from strongroom.store import Object, PutNew

_PART = "replaced/"


def mark_name(shelf: str, old: LineId) -> str:
    """The name of a line's mark in the store. `shelf` is the prefix of the line's namespace there."""
    return f"{shelf}{_PART}{old}"


def new_mark(shelf: str, old: LineId, new: LineId, place: LinePlace, epoch: int, key: bytes, salt: bytes) -> PutNew:
    """The effect that creates the mark of a replaced line. It fails if the line was replaced before."""
    sealed = line_encryption.seal_text(new, _PART + old, place, epoch, key, salt)
    return PutNew(mark_name(shelf, old), sealed)


def read_mark(state: Replica, actor: Actor, namespace: Namespace, old: LineId) -> LineId | None:
    """The id of the line that replaced the line `old`, or None if that line was not replaced."""
    return _opened(state, actor, namespace, state.store.get(mark_name(state.slots.shelf(actor, namespace), old)))


def read_marks(state: Replica, actor: Actor, namespace: Namespace) -> dict[LineId, LineId]:
    """All replaced lines of a namespace, each with the line that replaced it."""
    prefix = state.slots.shelf(actor, namespace) + _PART
    found = {line_id_of(one.name): _opened(state, actor, namespace, one) for one in state.records.objects(prefix)}
    return {old: new for old, new in found.items() if new is not None}


def _opened(state: Replica, actor: Actor, namespace: Namespace, mark: Object | None) -> LineId | None:
    if mark is None or mark.body is None:
        return None
    old = line_id_of(mark.name)
    place = LinePlace(state.vault_id, actor, namespace)

    def opened(body: bytes, keys: Mapping[int, bytes]) -> LineId:
        try:
            return model.line_id(line_encryption.open_text(body, _PART + old, place, keys))
        except InvalidRequest:
            raise Tampered("the mark of a replaced line holds no line id") from None

    return open_object(state, actor, namespace, mark, opened)
