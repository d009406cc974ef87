"""Group commit: commits of concurrent threads share one transaction.

The first thread to arrive leads: it takes the waiting requests and writes them. Threads that arrive meanwhile form the
next group, and the first of these leads that group. There is no extra thread and no timer, so a single caller never
waits for others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from strongroom.crypto import merkle_log
from strongroom.errors import AuditUnavailable, StrongroomError
from strongroom.store import ANY, Commit, Effect, Purge, Version, check_effects

_GROUP = 256
"""The most requests in one transaction."""


class CommitRequest:
    """One commit that waits to share a transaction with others.

    Raises ValueError for effects that `check_effects` refuses.
    """

    __slots__ = ("accept_clock", "commit", "effects", "entries", "error", "lead", "leaves", "since", "time", "turn")

    def __init__(
        self,
        entries: Sequence[bytes],
        effects: Sequence[Effect],
        time: int,
        *,
        accept_clock: bool = False,
        since: Mapping[str, Version] = ANY,
    ) -> None:
        if len({effect.name for effect in effects if not isinstance(effect, Purge)}) < len(effects):
            check_effects(effects)  # else each touches an object of its own, and there is nothing to refuse
        self.entries = entries
        self.leaves = [merkle_log.leaf_hash(entry) for entry in entries]
        self.effects = effects
        self.time = time
        self.accept_clock = accept_clock
        self.since = since
        self.commit: Commit | None = None
        self.error: Exception | None = None
        self.lead = False
        # Held from the start. Released when the request is done, or its thread is to lead the next group.
        self.turn = threading.Lock()
        self.turn.acquire()


class GroupCommit:
    """Collects requests into groups and hands each group to `write`.

    `write` sets `commit` or `error` on each request, or raises one error for all of them.
    """

    def __init__(self, write: Callable[[Sequence[CommitRequest]], None]) -> None:
        self._write = write
        self._guard = threading.Lock()
        self._waiting: deque[CommitRequest] = deque()
        self._leading = False
        self.sizes: dict[int, int] = {}
        """The number of groups written, by size rounded up to a power of two."""
        self.grouped = 0

    def submit(self, request: CommitRequest) -> Commit:
        """Write a request, in this thread or in another that leads. Returns its commit or raises its error."""
        try:
            with self._guard:
                self._waiting.append(request)
                request.lead = not self._leading
                self._leading = True
            if not request.lead:
                request.turn.acquire()
            if request.lead:
                self._lead(request)
        except BaseException:
            self._leave(request)
            raise
        outcome = _outcome(request)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def submit_all(self, requests: Sequence[CommitRequest]) -> list[Commit | Exception]:
        """Write several requests of one thread together. Returns the commit or the error of each request."""
        with self._guard:
            self._waiting.extend(requests)
            requests[0].lead = not self._leading
            self._leading = True
        for request in requests:
            # Another thread may lead the group of the first request, or pass it the lead together with the rest.
            if not request.lead and request.commit is None and request.error is None:
                request.turn.acquire()
            if request.lead:
                self._lead(request)
        return [_outcome(request) for request in requests]

    def _lead(self, own: CommitRequest) -> None:
        """Write the waiting group, whose first request is this thread's own, and let the next thread lead."""
        with self._guard:
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), _GROUP))]
        size = 1 << (len(group) - 1).bit_length()
        self.sizes[size] = self.sizes.get(size, 0) + 1
        self.grouped += len(group)
        try:
            self._write(group)
        except BaseException as error:
            # Even for an interrupt, every waiting thread must be woken.
            for request in group:
                request.commit, request.error = None, _again(error)
            if not isinstance(error, Exception):
                raise
        finally:
            with self._guard:
                self._hand_over(own)
            for request in group[1:]:
                request.turn.release()

    def _hand_over(self, leader: CommitRequest) -> None:
        """Let the thread of the first waiting request lead, if there is one. The caller holds the guard."""
        leader.lead = False
        self._leading = bool(self._waiting)
        if self._waiting:
            self._waiting[0].lead = True
            self._waiting[0].turn.release()

    def _leave(self, request: CommitRequest) -> None:
        """Take this thread's request out of the queue after an interrupt (Ctrl-C).

        If the thread kept the lead, all others would wait for ever.
        """
        with self._guard:
            if request in self._waiting:
                self._waiting.remove(request)
            if request.lead:
                self._hand_over(request)


def _outcome(request: CommitRequest) -> Commit | Exception:
    if request.error is not None:
        return request.error
    return request.commit or AuditUnavailable(
        "the thread that wrote this commit was interrupted; the commit may have been made"
    )


def _again(error: BaseException) -> Exception:
    """A copy of an error, to raise in another thread: threads that raise one object would share its traceback."""
    if isinstance(error, StrongroomError):
        return type(error)(error.message, hint=error.hint)
    return (
        error
        if isinstance(error, Exception)
        else AuditUnavailable("the thread that wrote this commit was interrupted; the commit may have been made")
    )
