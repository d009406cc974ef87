"""Rate limits of each caller (leaky buckets), and the RAM for large bodies. For use on one thread.

A bucket holds requests, or seconds of the server's time. It is stored as the moment at which it will be full again.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from strongroom.errors import ServerUnavailable

LONGEST = 2.0
"""The most seconds for which used server time blocks a caller.

A caller that reloads a large memory uses much time, but is no attacker.
"""


class Buckets:
    """The buckets of many callers, all of one size. The least recently used buckets are dropped."""

    def __init__(self, rate: float, burst_seconds: float, held: int = 10_000) -> None:
        self._each = 1 / rate if rate > 0 else 0.0
        self._burst = burst_seconds
        self._held = held
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, key: Hashable, now: float) -> float:
        """Seconds until the caller `key` may send a request; 0 if that is allowed now."""
        return max(self._full_at.get(key, 0.0) - self._burst - now, 0.0)

    def take(self, key: Hashable, now: float, cost: float = 1) -> None:
        """Count a request of the caller `key`."""
        if self._each:
            self._set(key, max(self._full_at.get(key, 0.0), now) + cost * self._each)

    def charge(self, key: Hashable, now: float, seconds: float) -> None:
        """Take seconds of server time from the bucket of the caller `key`.

        This may block the caller, but never for longer than `LONGEST`.
        """
        if self._each:
            full_at = max(self._full_at.get(key, 0.0), now)
            self._set(key, max(full_at, min(full_at + seconds * self._each, now + self._burst + LONGEST)))

    def _set(self, key: Hashable, full_at: float) -> None:
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._held:
            self._full_at.popitem(last=False)


class Holders:
    """The use of the server by each cap: requests, and seconds of the server's time.

    A cap and all caps narrowed or renewed from it share one limit. Otherwise renewing a cap would multiply its limit.
    """

    def __init__(self, rate: float, share: float, burst_seconds: float, held: int = 10_000) -> None:
        self._requests = Buckets(rate, burst_seconds, held)
        self._times = Buckets(share if rate else 0.0, burst_seconds, held)
        self._held = held
        self._lineages: dict[int, int] = {}
        """The holder of each known cap, by the hash of the text of the cap's first link."""

    def of(self, token: str, lineage: Callable[[], int | None]) -> int:
        """The holder whose limit a token counts against.

        Each invalid token has a limit of its own, so a forged cap uses up nobody else's.
        """
        first = hash(token.partition("~")[0])
        found = self._lineages.get(first)
        if found is None:
            found = lineage()
            if found is None:
                return first
            if len(self._lineages) >= self._held:
                self._lineages.clear()
            self._lineages[first] = found
        return found

    def wait(self, holder: Hashable, now: float) -> float:
        """Seconds until the holder may send a request; 0 if that is allowed now."""
        return max(self._requests.wait(holder, now), self._times.wait(holder, now))

    def take(self, holder: Hashable, now: float) -> None:
        """Count a request of a holder."""
        self._requests.take(holder, now)

    def charge(self, holder: Hashable, now: float, seconds: float) -> None:
        """Count seconds of server time that a holder used."""
        self._times.charge(holder, now, seconds)


class BodyBudget:
    """The RAM for large bodies, shared by all requests.

    A cap may use at most as many bytes as are left for the others.
    """

    def __init__(self, size: int) -> None:
        self._left = size
        self._taken: Counter[Hashable] = Counter()

    @contextmanager
    def place(self, holder: Hashable) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves bytes for one request, or raises if there are too few.

        The bytes are released when the context ends.
        """
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if size > self._left - self._taken[holder]:
                raise ServerUnavailable(
                    "the server is handling as many large requests as it can", hint="try again in a moment"
                )
            self._left -= size
            self._taken[holder] += size
            taken += size

        try:
            yield take
        finally:
            self._left += taken
            self._taken[holder] -= taken
            if not self._taken[holder]:
                del self._taken[holder]
