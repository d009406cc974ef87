"""The base of every part of the suite: stores to test, and their guarantees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from strongroom.crypto import merkle_log
from strongroom.store import Backend, Effect, PutNew, Store
from strongroom.store.conformance.helpers import FORMAT, NOW, SuiteMac

Test = TypeVar("Test", bound=Callable[..., None])


def only(**properties: bool) -> Callable[[Test], Test]:
    """Mark a test for stores with these properties. Other stores' suites do not have it."""

    def marked(test: Test) -> Test:
        vars(test)["only"] = properties
        return test

    return marked


class Suite:
    """The stores to test, and their guarantees."""

    is_whole = True
    """Whether a commit is atomic, and all of its conditions hold at one moment."""

    one_log = True
    """Whether all processes write one log. Otherwise each has its own, which its `head` and `entries` show."""

    archives = True
    """Whether entries of the log can be dropped. Otherwise `archive` is refused."""

    copies = True
    """Whether the backend has `copy`."""

    clock_leeway = 30_000
    """How far, in ms, a commit's time may lie before the log's latest entry."""

    threads = 8
    """How many threads race for one name. Fewer for a store whose losers wait long."""

    turns = 10
    """How many rounds they race."""

    mac = SuiteMac()

    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError

    def location(self) -> str:
        """A location that was empty when the test began; the same one at every call of that test."""
        raise NotImplementedError

    # Used by the tests.

    def new(self, entries: Sequence[bytes] = (b"made",), effects: Sequence[Effect] = (), time: int = NOW) -> Store:
        """A new store with the keys open. Its first commit creates the format record too, as a vault's does."""
        if not any(isinstance(effect, PutNew) and effect.name == FORMAT for effect in effects):
            effects = [PutNew(FORMAT, b"format"), *effects]
        return self._kept(self.backend().create(self.location(), self.mac, entries, effects, time))

    def another(self) -> Store:
        """The same store opened again, as another process would, with the keys open."""
        store = self.unauthenticated()
        store.authenticate(self.mac)
        return store

    def unauthenticated(self) -> Store:
        return self._kept(self.backend().open(self.location()))

    def root(self, store: Store) -> bytes:
        """The root of its log's tree."""
        head = store.head()
        return merkle_log.Range.of(head.size, head.peaks).root()

    def _kept(self, store: Store) -> Store:
        self.__dict__.setdefault("_stores", []).append(store)
        return store

    def teardown_method(self) -> None:
        for store in self.__dict__.pop("_stores", []):
            store.close()
