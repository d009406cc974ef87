"""Loading of cached namespaces in parts, so that other work need not wait until a whole namespace is loaded.

The first caller that needs a namespace begins its load, and all callers that need it meanwhile share this load. One
thread at a time loads the next part: the caller's own thread (`finish`), or a thread of the `Loader`, which takes the
loads in turn. A caller that must not block a thread, such as a server, leaves the load to the `Loader` and gets a
callback at its end (`on_end`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from time import thread_time

from strongroom.errors import StoreUnavailable, StrongroomError
from strongroom.memory.line_cache.cached_namespace import CachedNamespace

_SMALL = 1 << 20
"""A namespace below this size in bytes is loaded even without room, so that it need not wait for larger ones."""


class Load:
    """The loading of one cached namespace. Thread-safe."""

    def __init__(
        self, shelf: CachedNamespace, on_portion: Callable[[Load], None], on_end: Callable[[Load], None]
    ) -> None:
        self.shelf = shelf
        self.is_whole = False
        self.is_in_background = False
        self.failure: BaseException | None = None
        self._seconds = 0.0
        """The CPU time of this load that was not charged to a caller yet."""
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
        """End the load before its next part. Without a `failure`, waiting callers ask for the namespace again."""
        self._stopped_by, self.is_stopped = failure, True

    def advance(self) -> bool:
        """Load the next part. Returns False if the load has ended, or if another thread is loading a part now."""
        if not self._driving.acquire(blocking=False):
            return False
        try:
            return self._advance()
        finally:
            self._driving.release()

    def finish(self) -> None:
        """Load all the rest on this thread, or wait for the thread that does. Raises only a failure on this thread."""
        if self._driving.acquire(blocking=False):
            try:
                while self._advance():
                    pass
            finally:
                self._driving.release()
        self._ended.wait()

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the load, at most for `seconds`. Returns False if the load has not ended by then."""
        return self._ended.wait(seconds)

    def on_end(self, tell: Callable[[], None]) -> None:
        """Call `tell` on the thread that ends the load. If the load has ended already, call `tell` at once."""
        with self._guard:
            if not self._ended.is_set():
                self._told.append(tell)
                return
        tell()

    def charge(self) -> float:
        """The CPU time of this load, for the first call; later calls return 0. Call this after the end of the load.

        All calls must come from one thread.
        """
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def check(self) -> None:
        """Raise the failure of the load, if there is one. Each caller gets a new error, which is then logged."""
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
        except BaseException as error:  # even an interrupt, because no other thread would end this load
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
    """Threads that advance loads, one part in turn for each actor. The threads end when no load is left.

    Without room in RAM (`has_room`), only the oldest load and small loads continue. Otherwise many large namespaces
    would be half loaded at once, which together exceed the limit of RAM.
    """

    def __init__(self, threads: int, has_room: Callable[[], bool]) -> None:
        self._most = threads
        self._has_room = has_room
        self._changed = threading.Condition()
        self._loads: dict[Load, None] = {}
        """The loads that were added and have not ended, oldest first."""
        self._waiting: OrderedDict[str, deque[Load]] = OrderedDict()
        """The loads that no thread is advancing now, by actor. The first actor is the next one to be served."""
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
        """Stop every load and wait for the threads, because a thread that still runs at exit may crash the process."""
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
            except Exception:  # noqa: BLE001 - the callers that wait for the load raise it
                goes_on = False
            with self._changed:
                if goes_on:
                    self._wait(load)
                else:
                    del self._loads[load]
                self._changed.notify_all()

    def _take(self) -> Load | None:
        """The next load to advance. Returns None if no load is left, and then this thread ends."""
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
        """Take a load out of the waiting ones, and move its actor to the end of the queue."""
        loads = self._waiting.pop(_owner(load))
        loads.remove(load)
        if loads:
            self._waiting[_owner(load)] = loads

    def _may_go_on(self, load: Load) -> bool:
        return load.is_stopped or load is next(iter(self._loads)) or load.shelf.bytes < _SMALL or self._has_room()


def _owner(load: Load) -> str:
    """The part of the prefix that all namespaces of one actor share: its first two elements."""
    return "/".join(load.shelf.prefix.split("/", 2)[:2])


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the vault is closed", hint="open the vault again in this process")
