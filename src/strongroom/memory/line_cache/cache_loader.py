"""Loads: a shelf is filled in portions, so that other work need not wait for all of it.

A load is begun by the first caller who asks for a shelf, and shared by all who ask meanwhile. One thread at a time
advances it by a portion: the caller's own (`finish`), or one of the `Loader`'s, which take the loads in turn. Callers
that must not hold a thread while they wait, such as a server's, leave it to the loader and get a callback (`on_end`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from time import thread_time

from strongroom.errors import StoreUnavailable, StrongroomError
from strongroom.memory.line_cache.cached_namespace import CachedNamespace

_SMALL = 1 << 20
"""A load below this size is finished even without room: small shelves do not wait for large ones."""


class Load:
    """The filling of one shelf. Thread-safe."""

    def __init__(
        self, shelf: CachedNamespace, on_portion: Callable[[Load], None], on_end: Callable[[Load], None]
    ) -> None:
        self.shelf = shelf
        self.is_whole = False
        self.is_in_background = False
        self.failure: BaseException | None = None
        self._seconds = 0.0
        """Its CPU time that was not charged to anybody yet."""
        self.is_stopped = False
        self._stopped_by: StrongroomError | None = None
        self._portions = shelf.portions()
        self._on_portion = on_portion
        self._on_end = on_end
        self._driving = threading.Lock()
        self._ended = threading.Event()
        self._guard = threading.Lock()
        self._told: list[Callable[[], None]] = []

    def stop(self, failure: StrongroomError | None = None) -> None:
        """End the load before its next portion. Without a `failure`, waiting callers look for the shelf again."""
        self._stopped_by, self.is_stopped = failure, True

    def advance(self) -> bool:
        """Load one portion. False if the load has ended, or another thread is advancing it."""
        if not self._driving.acquire(blocking=False):
            return False
        try:
            return self._advance()
        finally:
            self._driving.release()

    def finish(self) -> None:
        """Load all of it on this thread, or wait for the thread that does. Raises this thread's own failure."""
        if self._driving.acquire(blocking=False):
            try:
                while self._advance():
                    pass
            finally:
                self._driving.release()
        self._ended.wait()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the load. False if it takes longer than `seconds`."""
        return self._ended.wait(seconds)

    def on_end(self, tell: Callable[[], None]) -> None:
        """Call `tell` when the load ends, on the thread that ends it; at once if it has ended."""
        with self._guard:
            if not self._ended.is_set():
                self._told.append(tell)
                return
        tell()

    def charge(self) -> float:
        """The CPU time that it has taken, returned to the first caller only. For use on one thread, after its end."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def check(self) -> None:
        """Raise the load's failure as a new error for each caller, because each caller's refusal is logged."""
        failure = self.failure
        if isinstance(failure, StrongroomError):
            raise type(failure)(failure.message, hint=failure.hint) from failure
        if isinstance(failure, Exception):
            raise failure

    def _advance(self) -> bool:
        if self._ended.is_set():
            return False
        began = thread_time()
        try:
            if self.is_stopped:
                self._end(self._stopped_by)
                return False
            next(self._portions)
        except StopIteration:
            self.is_whole = True
            self._end(None)
            return False
        except BaseException as error:  # even an interrupt: no other thread would go on
            self._end(error)
            raise
        finally:
            self._seconds += thread_time() - began
        self._on_portion(self)
        return True

    def _end(self, failure: BaseException | None) -> None:
        self.failure = failure
        self._on_end(self)
        with self._guard:
            self._ended.set()
            told, self._told = self._told, []
        for tell in told:
            tell()


class Loader:
    """Threads that advance loads, a portion in turn for each actor. They live only while there is something to load.

    Without room (`has_room`), only the oldest load and small ones go on. Otherwise many large shelves would be half
    loaded at once, each of them beyond the budget.
    """

    def __init__(self, threads: int, has_room: Callable[[], bool]) -> None:
        self._most = threads
        self._has_room = has_room
        self._changed = threading.Condition()
        self._loads: dict[Load, None] = {}
        """Every load that was added and has not ended, oldest first."""
        self._waiting: OrderedDict[str, deque[Load]] = OrderedDict()
        """The loads that no thread is advancing now, by actor; the actor whose turn is next comes first."""
        self._is_closed = False
        self._threads: set[threading.Thread] = set()

    def add(self, load: Load) -> None:
        """Advance a load in the background until it ends."""
        with self._changed:
            if load in self._loads:
                return
            load.is_in_background = True
            self._loads[load] = None
            self._wait(load)
            if self._is_closed:
                load.stop(_closed())
            if len(self._threads) < self._most:
                thread = threading.Thread(target=self._run, name="strongroom-load", daemon=True)
                self._threads.add(thread)
                thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Stop every load and wait for the threads: one that outlives its vault may crash the process at exit."""
        with self._changed:
            self._is_closed = True
            threads = list(self._threads)
            for load in self._loads:
                load.stop(_closed())
            self._changed.notify_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _run(self) -> None:
        while (load := self._take()) is not None:
            try:
                goes_on = load.advance()
            except Exception:  # noqa: BLE001 - those who wait for the load raise it
                goes_on = False
            with self._changed:
                if goes_on:
                    self._wait(load)
                else:
                    del self._loads[load]
                self._changed.notify_all()

    def _take(self) -> Load | None:
        """The next load to advance. None, which ends this thread, once none is left."""
        with self._changed:
            while self._loads:
                for load in [one for loads in self._waiting.values() for one in loads]:
                    if self._may_go_on(load):
                        self._begin(load)
                        return load
                self._changed.wait()
            self._threads.discard(threading.current_thread())
            return None

    def _wait(self, load: Load) -> None:
        self._waiting.setdefault(_owner(load), deque()).append(load)

    def _begin(self, load: Load) -> None:
        """Take a waiting load. Its actor's next turn is last."""
        loads = self._waiting.pop(_owner(load))
        loads.remove(load)
        if loads:
            self._waiting[_owner(load)] = loads

    def _may_go_on(self, load: Load) -> bool:
        return load.is_stopped or load is next(iter(self._loads)) or load.shelf.bytes < _SMALL or self._has_room()


def _owner(load: Load) -> str:
    """The common part of an actor's shelves: the first two parts of their prefix."""
    return "/".join(load.shelf.prefix.split("/", 2)[:2])


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the vault is closed", hint="open the vault again in this process")
