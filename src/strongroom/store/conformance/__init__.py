"""The store's contract as tests: one suite for every backend (docs/stores.md says how to run it).

Inherit `StoreContract`, give it a backend and a location, and let pytest collect the class. Nothing here imports
pytest, so the package does not depend on it. Guarantees that only some stores give are properties of the class
(`is_whole`, `one_log`, `archives`, `copies`), which select the tests that it has.

A backend must accept the names that a vault uses, and the suite uses no others:

    vault/format                          in the first commit of every store
    vault/<...>, vault/caps/<id>          records of caps need not show in `changes`: nobody follows them
    actors/<32 hex>/keys
    actors/<32 hex>/memory/<32 hex>/      and below it lines/<ULID>, profile, derived/<...>

A purge is of an actor, of a namespace below one, or of the derived data of a namespace. No object is given the same
bytes twice, since a vault seals anew each time: a store may tell versions apart by bytes.

Neither the suite nor a vault depends on the order of two siblings of which one is the other and then punctuation (`a/1`
and `a-b`), because stores that keep directories order those by directory and not by byte. `helpers.unordered` finds
such names.
"""

from __future__ import annotations

from strongroom.store.conformance.changes import Following
from strongroom.store.conformance.commits import Committing
from strongroom.store.conformance.concurrency import Racing
from strongroom.store.conformance.copy_and_close import Leaving
from strongroom.store.conformance.create_and_open import Opening
from strongroom.store.conformance.helpers import SuiteMac
from strongroom.store.conformance.ledger import Ledger
from strongroom.store.conformance.objects import Objects
from strongroom.store.conformance.suite import only
from strongroom.store.conformance.tombstones import Purging

__all__ = ["StoreContract", "SuiteMac", "only"]


class StoreContract(Opening, Objects, Purging, Following, Committing, Ledger, Racing, Leaving):
    """The tests that every store must pass. A subclass provides the stores and names missing guarantees."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.asked():
            wanted = vars(getattr(cls, name)).get("only", {})
            if any(getattr(cls, one) is not value for one, value in wanted.items()):
                setattr(cls, name, None)

    @classmethod
    def asked(cls) -> list[str]:
        """The names of the tests that this suite has."""
        return [name for name in dir(cls) if name.startswith("test_") and callable(getattr(cls, name))]
