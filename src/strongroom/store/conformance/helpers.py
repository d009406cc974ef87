"""Helpers of the suite: names as a vault makes them, a MAC for log heads, and ways to read a store."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from strongroom.errors import Tampered
from strongroom.store import Head, Lost, Object, Runs, Stale, Store, Version

NOW = 1_779_440_000_000

FORMAT = "vault/format"
ALICE = "actors/" + "a1" * 16
BOB = "actors/" + "b2" * 16
TRAVEL = f"{ALICE}/memory/{'c3' * 16}/"
WORK = f"{ALICE}/memory/{'d4' * 16}/"
BOBS = f"{BOB}/memory/{'e5' * 16}/"
PROFILE = TRAVEL + "profile"
DERIVED = TRAVEL + "derived/"
_DONE = b"done "


def line(number: int, shelf: str = TRAVEL) -> str:
    """The name of a line, as a vault makes it."""
    return f"{shelf}lines/01{'K' * 20}{number:04}"


def standing(number: int) -> str:
    """The name of one of the vault's own objects, outside any actor."""
    return f"vault/standing/{number:032x}"


def cap(number: int) -> str:
    return f"vault/caps/{number:032x}"


def unordered(names: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of sibling names whose order differs between stores, such as `a` (a directory) and `a-b`.

    One name is the beginning of the other, and the next character of the longer one sorts before "/".
    """
    levels = {tuple(name.split("/")[:depth]) for name in names for depth in range(1, name.count("/") + 2)}
    return [
        ("/".join(one), "/".join(two))
        for one, two in pairwise(sorted(levels, key=lambda level: (level[:-1], level[-1])))
        if one[:-1] == two[:-1] and two[-1].startswith(one[-1]) and two[-1][len(one[-1])] < "/"
    ]


def asked_for(store: Store) -> list[bytes]:
    """The log's entries, without those in which a worker states which entries it carried out."""
    found = [entry or b"" for _, _, entry in store.entries(0, store.head().size)]
    return [entry for entry in found if not entry.startswith(_DONE)]


class SuiteMac:
    """Makes MACs over log heads with a fixed key, as a vault does with its own key."""

    def __init__(self, key: bytes = b"the suite's key") -> None:
        self._key = key

    def sign(self, size: int, peaks: bytes, time: int) -> bytes:
        return hmac.digest(self._key, b"%d %d " % (size, time) + peaks, "sha256")

    def check(self, head: Head) -> None:
        if not hmac.compare_digest(self.sign(head.size, head.peaks, head.time), head.mac):
            raise Tampered("the log's head was not signed with this key")

    def certify(self, worker: str, public: bytes) -> bytes:
        return hmac.digest(self._key, worker.encode() + public, "sha256")

    def done(self, done: Runs, undone: Runs, time: int) -> bytes:
        return _DONE + b"%d %a %a" % (time, [*done], [*undone])


@contextmanager
def refused(*kinds: type[Exception]) -> Iterator[None]:
    """Fail if the block does not raise an error of one of the `kinds`."""
    try:
        yield
    except kinds:
        return
    raise AssertionError(f"{kinds[0].__name__} was not raised")


@contextmanager
def stale() -> Iterator[list[Stale]]:
    """Fail if the block does not raise Stale. After the block, the yielded list holds the error."""
    found: list[Stale] = []
    try:
        yield found
    except Stale as error:
        found.append(error)
        return
    raise AssertionError("Stale was not raised")


@contextmanager
def lost(name: str) -> Iterator[None]:
    """Fail if the block does not raise Lost for the object of this name."""
    try:
        yield
    except Lost as error:
        if error.name == name:
            return
    raise AssertionError(f"Lost was not raised for {name}")


@contextmanager
def unchanged(store: Store) -> Iterator[None]:
    """Fail if the block changes anything in the store."""
    before = everything(store)
    yield
    assert everything(store) == before


Everything = tuple[list[Object], dict[str, Version], Head, list[tuple[int, bytes, bytes | None]]]


def everything(store: Store) -> Everything:
    """Everything readable in a store: objects, the version of each scope, the log."""
    objects = look(store)
    scopes = sorted({store.scope(name) for name in (FORMAT, *(thing.name for thing in objects))})
    head = store.head()
    log = list(store.entries(0, head.size + 1))
    return objects, dict(zip(scopes, store.versions(scopes), strict=True)), head, log


def look(store: Store) -> list[Object]:
    """Every object of the store, read after a refresh of each scope."""
    for scope in {store.scope(name) for name in (FORMAT, TRAVEL + "profile", BOBS + "profile")}:
        store.version(scope)
    return pages(store, "")


def pages(store: Store, prefix: str, limit: int = 1000) -> list[Object]:
    """Every object whose name starts with `prefix`, read page by page."""
    found: list[Object] = []
    after = ""
    while page := store.list(prefix, after, limit):
        assert len(page) <= limit
        found += page
        after = page[-1].name
    return found


def followed(store: Store, scope: str, after: Version, limit: int = 1000) -> list[Object]:
    """The changes in a scope, as a follower reads them: a refresh, then page by page."""
    store.version(scope)
    found: list[Object] = []
    while page := store.changes(after, limit, scope):
        assert len(page) <= limit
        found += page
        after = page[-1].version
    return found


def version_of(store: Store, name: str) -> int:
    found = store.get(name)
    assert found is not None
    return found.version


def body_of(store: Store, name: str) -> bytes | None:
    found = store.get(name)
    return None if found is None else found.body


def names_of(things: Iterable[Object]) -> list[str]:
    return [thing.name for thing in things]


def in_threads(work: Sequence[Callable[[], None]]) -> None:
    """Run all functions at once, each in a thread. If some fail, raises one of their errors."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(work))

    def run(one: Callable[[], None]) -> None:
        try:
            start.wait()
            one()
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
