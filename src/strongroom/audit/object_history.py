"""The history of a store's objects according to several logs. Pure.

The entries of one worker are in the order in which it began them: it wrote an entry only after checking the conditions
of the earlier ones. Entries of different workers are ordered only by their times, and clocks differ. So statements
within CLOCK_LEEWAY of each other count as simultaneous, and any of them may be the current one. If a worker never
stated an entry as done, the entry may or may not have been carried out. Until its effect has been seen, the effect is
allowed but not required.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from strongroom.audit.entry import Decision, Entry, Mark
from strongroom.store import CLOCK_LEEWAY

VAULT = "vault"
"""The `shelf` of objects that belong to the vault itself and not to an actor."""
RESTATED = "migrate"
"""The op of entries that state anew which objects an actor has. Such an entry replaces all earlier statements."""
_NEVER = -1 << 62


class There:
    """The objects in a store: the digest of each, by the actor's tag ("" for the vault) and the object's tag.

    The digest of a tombstone is "".
    """

    def __init__(self, digests: Mapping[tuple[str, str], str]) -> None:
        self._digests = digests
        self.owners = {owner for owner, _ in digests}

    def digest(self, owner: str, tag: str) -> str | None:
        return self._digests.get((owner, tag))


class ToldEntry(NamedTuple):
    """An entry with its worker and number, and the evidence that it was carried out.

    `said_at` is the number of the `done` entry that states this entry as carried out, or None. The parts of an entry
    are its object states, by index, and last its erasure. `seen` holds the parts whose effect was seen in the store
    although no `done` states them.
    """

    worker: str
    number: int
    entry: Entry
    said_at: int | None = None
    seen: frozenset[int] = frozenset()

    @property
    def parts(self) -> range:
        return range(len(self.entry.objects) + bool(self.entry.erased))

    def is_sure(self, part: int) -> bool:
        return self.said_at is not None or part in self.seen


class ObjectStatement(NamedTuple):
    """What one entry states about an object: its digest ("" = deleted) and the tag of its namespace.

    `is_sure` is true if the entry was certainly carried out.
    """

    time: int
    digest: str
    shelf: str
    worker: str
    number: int
    is_sure: bool


@dataclass(slots=True)
class _Emptied:
    """One worker's erasures of one namespace.

    The fields hold the time, the number and the `done` entry of the latest certain erasure. `perhaps` is the time of
    the latest erasure that was only begun.
    """

    sure: int = _NEVER
    number: int = -1
    said_at: int = -1
    perhaps: int = _NEVER

    def take(self, told: ToldEntry, *, is_sure: bool) -> None:
        if not is_sure:
            self.perhaps = max(self.perhaps, told.entry.time)
            return
        self.sure = max(self.sure, told.entry.time)
        self.number = max(self.number, told.number)
        # Seen, but never stated as done: it may have come after anything that this worker wrote.
        self.said_at = max(self.said_at, 1 << 62 if told.said_at is None else told.said_at)

    def may_follow(self, said: ObjectStatement, *, own: bool) -> bool:
        """Whether one of the erasures may have come after a statement.

        `own` is true if the worker of these erasures also made the statement.
        """
        is_over = own and self.said_at < said.number
        return said.time <= max(self.perhaps, _NEVER if is_over else self.sure) + CLOCK_LEEWAY

    def follows(self, said: ObjectStatement, *, own: bool) -> bool:
        """Whether one of the erasures certainly came after a statement.

        `own` is true if the worker of these erasures also made the statement.
        """
        return said.time < self.sure - CLOCK_LEEWAY or (own and said.number < self.number)


class Statements:
    """The statements of all logs about objects, by the actor's tag and the object's tag.

    Objects that belong to the vault itself have "" in place of an actor's tag.
    """

    def __init__(self) -> None:
        self._said: dict[str, dict[str, list[ObjectStatement]]] = {}
        self._erased: set[str] = set()
        """The tags of actors that were certainly erased.

        A later actor of the same name has other keys, and so another tag.
        """
        self._perhaps_erased: set[str] = set()
        """Actors whose erasure was begun but is not certain. Either all of their objects are gone, or none."""
        self._emptied: dict[tuple[str, str], dict[str, _Emptied]] = {}
        """The erasures of namespaces: by the actor's tag and the namespace's tag, and then by worker."""

    def take(self, told: ToldEntry) -> None:
        """Add the statements of an entry, from any log."""
        entry = told.entry
        if entry.decision != Decision.ALLOW:
            return
        is_sure = told.is_sure(len(entry.objects))
        if entry.erased == "actor" and is_sure:
            self._take_erasure(entry)
        elif entry.erased == "actor":
            self._perhaps_erased.add(entry.actor)
        elif entry.erased == "namespace":
            for shelf in entry.namespaces:
                by_worker = self._emptied.setdefault((entry.actor, shelf), {})
                by_worker.setdefault(told.worker, _Emptied()).take(told, is_sure=is_sure)
        for part, mark in enumerate(entry.objects):
            said = ObjectStatement(entry.time, mark.digest, mark.shelf, told.worker, told.number, told.is_sure(part))
            self._said.setdefault(owner_of(entry, mark), {}).setdefault(mark.tag, []).append(said)

    def _take_erasure(self, entry: Entry) -> None:
        """Record that an actor is erased.

        An entry of a migration instead states anew which objects the actor has.
        """
        if entry.op == RESTATED:
            self._said.pop(entry.actor, None)  # workers' logs are taken later: they began after the migration
        else:
            self._erased.add(entry.actor)

    def knows(self, owner: str, tag: str) -> bool:
        return tag in self._said.get(owner, {})

    def is_erased(self, owner: str) -> bool:
        """Whether an actor was erased, so that none of its objects may exist."""
        return owner in self._erased

    def allowed(self, owner: str, tag: str) -> set[str]:
        """The digests that an object may have. The digest of a tombstone is ""."""
        if owner in self._erased:
            return set()
        said = [one for one in self._about(owner, tag) if not self._is_before_emptying(owner, one)]
        sure = [one for one in said if one.is_sure]
        # A deletion holds for ever, but an erasure of the whole namespace frees the name.
        deleted = max((one.time for one in sure if not one.digest and not self._is_emptied(owner, one)), default=None)
        if deleted is not None:
            return {""} | {one.digest for one in said if one.time > deleted + CLOCK_LEEWAY}
        latest = max((one.time for one in sure), default=_NEVER)
        newest = _newest(sure)
        return {
            one.digest
            for one in said
            if one.time >= latest - CLOCK_LEEWAY and one.number >= newest.get(one.worker, one.number)
        }

    def must_be_there(self, owner: str, tag: str) -> bool:
        """Whether an object or its tombstone must exist."""
        if owner in self._erased:
            return False
        return any(one.is_sure and not self._is_emptied(owner, one) for one in self._about(owner, tag))

    def _about(self, owner: str, tag: str) -> list[ObjectStatement]:
        return self._said.get(owner, {}).get(tag, [])

    def _is_emptied(self, owner: str, said: ObjectStatement) -> bool:
        """Whether the object's namespace may have been erased after this statement."""
        known = self._emptied.get((owner, said.shelf), {})
        return any(one.may_follow(said, own=worker == said.worker) for worker, one in known.items())

    def _is_before_emptying(self, owner: str, said: ObjectStatement) -> bool:
        """Whether the object's namespace was certainly erased after this statement."""
        known = self._emptied.get((owner, said.shelf), {})
        return any(one.follows(said, own=worker == said.worker) for worker, one in known.items())

    def demanded(self, owners: Collection[str]) -> Iterator[tuple[str, str]]:
        """Every object that must exist, by the actor's tag ("" for the vault) and the object's tag.

        `owners` are the tags of all actors that have any object in the store.
        """
        gone = self._perhaps_erased.difference(owners)
        for owner, held in self._said.items():
            yield from ((owner, tag) for tag in held if owner not in gone and self.must_be_there(owner, tag))

    # Whether an entry was carried out.

    def is_effective(self, told: ToldEntry, part: int, there: There) -> bool:
        """Whether the store shows the effect of one part of an entry, or of a later entry.

        If so, the store still passes this check when the part then counts as certainly carried out.
        """
        entry = told.entry
        if part < len(entry.objects):
            mark = entry.objects[part]
            owner = owner_of(entry, mark)
            return self._is_as_left(owner, mark, told, there)
        return all(
            self._is_newer(owner, tag, told, digest)
            for owner, tag in self._touched(entry)
            if (digest := there.digest(owner, tag)) is not None
        )

    def _is_as_left(self, owner: str, mark: Mark, told: ToldEntry, there: There) -> bool:
        about, digest = self._about(owner, mark.tag), there.digest(owner, mark.tag)
        if digest == mark.digest:
            return True
        if digest is None:
            said = ObjectStatement(told.entry.time, mark.digest, mark.shelf, told.worker, told.number, is_sure=False)
            is_gone = owner in self._erased or (owner in self._perhaps_erased and owner not in there.owners)
            return is_gone or self._is_emptied(owner, said)
        if not mark.digest:  # as in `allowed`: a tombstone wins over anything said at the same time
            return any(one.digest == digest and one.time > told.entry.time + CLOCK_LEEWAY for one in about)
        return any(one.digest == digest and _may_follow(one, told) for one in about)

    def _touched(self, entry: Entry) -> Iterator[tuple[str, str]]:
        """The tags of the objects that an entry erases, each with its actor's tag."""
        for tag, about in self._said.get(entry.actor, {}).items():
            if entry.erased == "actor" or any(one.shelf in entry.namespaces for one in about):
                yield entry.actor, tag

    def _is_newer(self, owner: str, tag: str, told: ToldEntry, digest: str) -> bool:
        """Whether the object in the store may have been written after an erasure."""
        if told.entry.erased == "actor":
            return False
        return any(one.digest == digest and _may_follow(one, told) for one in self._about(owner, tag))


def owner_of(entry: Entry, mark: Mark) -> str:
    """The tag of the actor to whom an object belongs; "" if the object belongs to the vault. `mark` is its state."""
    return "" if mark.shelf == VAULT else entry.actor


def _newest(sure: Iterable[ObjectStatement]) -> dict[str, int]:
    """For each worker, the number of its newest statement."""
    newest: dict[str, int] = {}
    for one in sure:
        newest[one.worker] = max(one.number, newest.get(one.worker, one.number))
    return newest


def _may_follow(said: ObjectStatement, told: ToldEntry) -> bool:
    if said.worker == told.worker:
        return said.number > told.number
    return said.time >= told.entry.time - CLOCK_LEEWAY
