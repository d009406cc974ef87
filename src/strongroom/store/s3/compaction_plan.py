"""The plan of a compaction pass over one namespace of an actor. Pure; `compaction` carries it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from strongroom.store.s3.bucket import BucketListing
from strongroom.store.s3.known_objects import Known, by_itself, in_packs, merge_known
from strongroom.store.s3.packs import MOST, MOST_GONE, Pack, Record

SMALL = 16
"""The number of small packs in one namespace, burials included, that makes a pass worthwhile."""
LARGE = 1 << 18
"""Lines of this size in bytes or more are not packed."""
BYTES = 1 << 23
"""The most bytes of bodies in one pack."""


class NamespaceCensus(NamedTuple):
    """One namespace as listed.

    Lines have their logical names as keys; packs and claims (places reserved for packs) have their places in the
    bucket.
    """

    shelf: str
    place: str
    loose: Mapping[str, BucketListing]
    held: Mapping[str, Pack]
    claims: Mapping[str, BucketListing]
    newest: int

    def place_of(self, name: str) -> str:
        return self.place + name.removeprefix(self.shelf)


class Plan(NamedTuple):
    """The steps of a compaction pass."""

    known: Mapping[str, Known]
    settled: Sequence[str]
    fresh: int
    """The number of those settled lines (old enough to be packed) that are in no pack."""
    small: int
    is_untidy: bool
    """Whether a worker died or lost a race and left copies of lines, or bytes of forgotten lines."""
    absorbed: Mapping[str, Pack]
    unfinished: Mapping[str, Pack]
    """Packs that are not merged into new ones, but still hold bodies of forgotten lines."""
    covered: frozenset[str]
    """Names of lines in packs that are not merged, where the single object of a line is only a copy."""
    chunks: Sequence[Sequence[str]]
    """For each new pack, the names of its lines."""

    def is_worth_it(self, least: int) -> bool:
        return self.is_untidy or self.fresh >= least or self.small >= SMALL


def is_small(pack: Pack) -> bool:
    """Whether a pack should be merged with others: it was never full, or more than half of its bodies are gone."""
    bodies = [len(one.body) for one in pack.records.values() if one.body is not None]
    gone = len(pack.records) - len(bodies)
    is_full = gone >= MOST_GONE // 2 or (len(pack.records) >= MOST and len(bodies) >= gone)
    return not is_full and sum(bodies) < BYTES // 2


def plan_compaction(look: NamespaceCensus, age: int | None, before: str) -> Plan:
    """Plan a compaction pass over one namespace.

    Only packs with places below `before` and lines older than `age` are included. If `age` is None, all packs and lines
    are included.
    """
    alone = {name: by_itself(one) for name, one in look.loose.items()}
    known = merge_known(alone, in_packs(look.held))
    settled = [
        name
        for name, one in look.loose.items()
        if one.size <= LARGE and (age is None or one.modified <= look.newest - age)
    ]
    anywhere = {name for pack in look.held.values() for name in pack.records}
    fresh = sum(name not in anywhere for name in settled)
    small = {at: pack for at, pack in look.held.items() if (age is None or at < before) and is_small(pack)}
    absorbed = small if fresh or len(small) > 1 else {}
    kept = {at: pack for at, pack in look.held.items() if at not in absorbed}
    held = {name for pack in kept.values() for name in pack.records}
    wanted = sorted({*settled, *(name for pack in absorbed.values() for name in pack.records)} - held)
    return Plan(
        known=known,
        settled=settled,
        fresh=fresh,
        small=len(small),
        is_untidy=fresh < len(settled)
        or any(with_tombstones(pack, known) != pack.records for pack in look.held.values()),
        absorbed=absorbed,
        unfinished={at: pack for at, pack in kept.items() if with_tombstones(pack, known) != pack.records},
        covered=frozenset(name for name in held if _agrees(alone.get(name), known[name])),
        chunks=list(_chunks(wanted, look, absorbed)),
    )


def _agrees(alone: Known | None, known: Known) -> bool:
    """Whether a line's single object is only a copy of its record in a pack."""
    return alone is None or known.is_gone or alone.version == known.version


def with_tombstones(pack: Pack, known: Mapping[str, Known]) -> dict[str, Record]:
    """The records of a pack, with a tombstone in place of each forgotten line."""
    return {
        name: Record(known[name].version, None) if known[name].is_gone and one.body is not None else one
        for name, one in pack.records.items()
    }


def _chunks(names: Sequence[str], look: NamespaceCensus, absorbed: Mapping[str, Pack]) -> Iterator[list[str]]:
    """The names in order, split into lists so that no pack gets too large."""
    held = {name: len(one.body or b"") for pack in absorbed.values() for name, one in pack.records.items()}
    chunk: list[str] = []
    size = bodies = 0
    for name in names:
        more = held[name] if name in held else look.loose[name].size
        is_full = bodies == MOST or len(chunk) - bodies == MOST_GONE or size + more > BYTES
        if chunk and is_full:
            yield chunk
            chunk, size, bodies = [], 0, 0
        chunk.append(name)
        size += more
        bodies += more > 0
    if chunk:
        yield chunk


def places_to_delete(look: NamespaceCensus, plan: Plan, proven: set[str]) -> list[str]:
    """The places of the objects that may be deleted, since packs that were read back hold their content."""
    lines = [look.place_of(name) for name in plan.settled if name in proven]
    return lines + [at for at, pack in plan.absorbed.items() if pack.records.keys() <= proven]
