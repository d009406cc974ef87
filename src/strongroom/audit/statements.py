"""What several logs together say about the objects of a store. Pure.

Entries of different workers have no order but their times, and clocks differ. So what is said within the leeway of each
other counts as said at once: each of it may be what is true now. An entry that was not carried out for sure, because
its worker was killed before it could say so, allows what it says and demands nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from strongroom.audit.entry import Decision, Entry, Mark
from strongroom.store import CLOCK_LEEWAY

VAULT = "vault"
"""The shelf mark of objects that belong to the vault and not to an actor."""
RESTATED = "migrate"
"""The op of entries that say what is there of an owner, whatever its log said before."""


class Said(NamedTuple):
    """One statement about an object: when, its digest ("" = deleted), its shelf, and whether it was carried out."""

    time: int
    digest: str
    shelf: str
    is_sure: bool


class Statements:
    """What all logs say, by the owner's tag and the object's."""

    def __init__(self) -> None:
        self._said: dict[str, dict[str, list[Said]]] = {}
        self._erased: set[str] = set()
        """Actors that were erased for sure. Who comes after them under the same name has other keys, so another tag."""
        self._perhaps_erased: set[str] = set()
        """Actors whose erasure was begun: all of theirs is gone, or nothing."""
        self._emptied: dict[tuple[str, str], int] = {}
        """When a namespace was last erased, for sure."""
        self._perhaps: dict[tuple[str, str], int] = {}
        """The same, or was perhaps."""

    def take(self, entry: Entry, *, is_sure: bool) -> None:
        """Take in an entry of any log."""
        if entry.decision != Decision.ALLOW:
            return
        if entry.erased == "actor" and is_sure:
            self._take_erasure(entry)
        elif entry.erased == "actor":
            self._perhaps_erased.add(entry.actor)
        elif entry.erased == "namespace":
            for shelf in entry.namespaces:
                place = entry.actor, shelf
                for known in (self._emptied, self._perhaps) if is_sure else (self._perhaps,):
                    known[place] = max(entry.time, known.get(place, 0))
        for mark in entry.objects:
            self._add(entry, mark, is_sure=is_sure)

    def _take_erasure(self, entry: Entry) -> None:
        """An actor is gone for good. In a log that was moved it may also be that what is there is said anew."""
        if entry.op == RESTATED:
            self._said.pop(entry.actor, None)  # the logs of workers, who came after the move, are taken in later
        else:
            self._erased.add(entry.actor)

    def _add(self, entry: Entry, mark: Mark, *, is_sure: bool) -> None:
        owner = "" if mark.shelf == VAULT else entry.actor
        said = Said(entry.time, mark.digest, mark.shelf, is_sure)
        self._said.setdefault(owner, {}).setdefault(mark.tag, []).append(said)

    def knows(self, owner: str, tag: str) -> bool:
        return tag in self._said.get(owner, {})

    def is_erased(self, owner: str) -> bool:
        """Whether an owner is an actor of which nothing may be there any more."""
        return owner in self._erased

    def allowed(self, owner: str, tag: str) -> set[str]:
        """The digests that an object may have; "" stands for a tombstone."""
        if owner in self._erased:
            return set()
        said = [one for one in self._about(owner, tag) if not self._is_before_emptying(owner, one)]
        sure = [one for one in said if one.is_sure]
        # For ever; but an erasure of the whole namespace lets a name be used anew.
        deleted = max((one.time for one in sure if not one.digest and not self._is_emptied(owner, one)), default=None)
        if deleted is not None:
            return {""} | {one.digest for one in said if one.time > deleted + CLOCK_LEEWAY}
        latest = max((one.time for one in sure), default=0)
        return {one.digest for one in said if one.time >= latest - CLOCK_LEEWAY or not one.is_sure}

    def must_be_there(self, owner: str, tag: str) -> bool:
        """Whether an object, or its tombstone, cannot be missing."""
        if owner in self._erased:
            return False
        return any(one.is_sure and not self._is_emptied(owner, one) for one in self._about(owner, tag))

    def _about(self, owner: str, tag: str) -> list[Said]:
        return self._said.get(owner, {}).get(tag, [])

    def _is_emptied(self, owner: str, said: Said) -> bool:
        """Whether an erasure of its namespace may have come after a statement."""
        return said.time <= self._perhaps.get((owner, said.shelf), -CLOCK_LEEWAY - 1) + CLOCK_LEEWAY

    def _is_before_emptying(self, owner: str, said: Said) -> bool:
        """Whether one has for sure."""
        return said.time < self._emptied.get((owner, said.shelf), 0) - CLOCK_LEEWAY

    def demanded(self, owners: Collection[str]) -> Iterator[tuple[str, str]]:
        """Every object that must be there, by its owner's tag and its own; `owners` are those of which anything is."""
        gone = self._perhaps_erased.difference(owners)
        for owner, held in self._said.items():
            yield from ((owner, tag) for tag in held if owner not in gone and self.must_be_there(owner, tag))
