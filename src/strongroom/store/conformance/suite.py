"""The base class of the suite's parts: the stores to test, and the guarantees that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from strongroom.crypto import merkle_log
from strongroom.store import Backend, Effect, PutNew, Store
from strongroom.store.conformance.helpers import FORMAT, NOW, SuiteMac

Test = TypeVar("Test", bound=Callable[..., None])


def only(**properties: bool) -> Callable[[Test], Test]:
    """Mark a test for stores with these properties. The suites of other stores leave the test out."""

    def marked(test: Test) -> Test:
        vars(test)["only"] = properties
        return test

    return marked


class Suite:
    """The stores to test, and the guarantees that they give."""

    is_whole = True
    """Whether a commit is atomic: all of its effects or none, and all of its conditions hold at one moment."""

    one_log = True
    """Whether all processes write one log. Otherwise each process has a log, and `head` and `entries` show only that.
    """

    archives = True
    """Whether entries of the log can be dropped. If not, the store must refuse `archive`."""

    copies = True
    """Whether the backend has the method `copy`."""

    clock_leeway = 30_000
    """The most, in ms, by which a commit's time may be earlier than the time of the log's latest entry."""

    threads = 8
    """The number of threads that race for one name. Choose fewer for a store whose losers wait long."""

    turns = 10
    """The number of rounds of each race between threads."""

    mac = SuiteMac()

    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError

    def location(self) -> str:
        """A location that was empty when the test began; the same location at every call within one test."""
        raise NotImplementedError

    # Used by the tests.

    def new(self, entries: Sequence[bytes] = (b"made",), effects: Sequence[Effect] = (), time: int = NOW) -> Store:
        """A new store with open keys. Its first commit also creates the format record, as in a vault."""
        if not any(isinstance(effect, PutNew) and effect.name == FORMAT for effect in effects):
            effects = [PutNew(FORMAT, b"format"), *effects]
        return self._kept(self.backend().create(self.location(), self.mac, entries, effects, time))

    def another(self) -> Store:
        """The same store opened again with its keys, as another process would open it."""
        store = self.unauthenticated()
        store.authenticate(self.mac)
        return store

    def unauthenticated(self) -> Store:
        return self._kept(self.backend().open(self.location()))

    def root(self, store: Store) -> bytes:
        """The root of the Merkle tree of the store's log."""
        head = store.head()
        return merkle_log.Range.of(head.size, head.peaks).root()

    def _kept(self, store: Store) -> Store:
        self.__dict__.setdefault("_stores", []).append(store)
        return store

    def teardown_method(self) -> None:
        for store in self.__dict__.pop("_stores", []):
            store.close()
