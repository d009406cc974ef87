"""What every part of the suite stands on: stores to test, and what they promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from strongroom.crypto import merkle_log
from strongroom.store import Backend, Effect, PutNew, Store
from strongroom.store.conformance.helpers import FORMAT, NOW, SuiteMac

Test = TypeVar("Test", bound=Callable[..., None])


def only(**properties: bool) -> Callable[[Test], Test]:
    """A test for stores whose suite has these properties; the suite of another store does not have it."""

    def marked(test: Test) -> Test:
        vars(test)["only"] = properties
        return test

    return marked


class Suite:
    """Where stores come from, and what they promise."""

    is_whole = True
    """Whether a commit is all there or not at all, and each of its conditions holds at that one moment."""

    one_log = True
    """Whether all who open a store write one log; else each has its own, which its `head` and `entries` are of."""

    archives = True
    """Whether entries of the log can be dropped; else `archive` is refused."""

    copies = True
    """Whether the backend has `copy`."""

    clock_leeway = 30_000
    """How far, in ms, the backend lets a commit's time lie before the log's latest."""

    threads = 8
    """How many threads race for one name: fewer where who loses has to wait long."""

    turns = 10
    """How often they do."""

    mac = SuiteMac()

    def backend(self) -> Backend:
        """The backend under test."""
        raise NotImplementedError

    def location(self) -> str:
        """A place that was empty when the test began; the same one at every call of that test."""
        raise NotImplementedError

    # What the tests use.

    def new(self, entries: Sequence[bytes] = (b"made",), effects: Sequence[Effect] = (), time: int = NOW) -> Store:
        """A store just made, with the keys open. Its first commit makes the format record too, as a vault's does."""
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
