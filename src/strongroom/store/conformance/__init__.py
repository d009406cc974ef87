"""The store's contract as tests: one suite for every backend (docs/stores.md says how to run it).

Inherit `StoreContract`, give it a backend and a location, and let pytest collect the class. Nothing here imports
pytest, so the package does not depend on it. Some guarantees are optional. Properties of the class state them
(`is_whole`, `one_log`, `archives`, `copies`) and thereby select the tests.

A backend must accept the names that a vault uses, and the suite uses no others:

    vault/format                          in the first commit of every store
    vault/<...>, vault/caps/<id>          `changes` may leave out records of caps: nobody follows them
    actors/<32 hex>/keys
    actors/<32 hex>/memory/<32 hex>/      and below it lines/<ULID>, profile, derived/<...>

A purge removes an actor, a namespace of an actor, or the derived data of a namespace. No object is written twice with
the same bytes, since a vault seals anew each time. So a store may tell versions apart by their bytes.

Stores with directories sort by directory and not by byte, so `a/1` and `a-b` may come in either order. Neither the
suite nor a vault depends on that order. `helpers.unordered` finds such pairs of names.
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
    """The tests that every store must pass.

    A subclass provides the stores to test, and states which guarantees they do not give.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in cls.asked():
            wanted = vars(getattr(cls, name)).get("only", {})
            if any(getattr(cls, one) is not value for one, value in wanted.items()):
                setattr(cls, name, None)

    @classmethod
    def asked(cls) -> list[str]:
        """The names of the tests in this suite."""
        return [name for name in dir(cls) if name.startswith("test_") and callable(getattr(cls, name))]
