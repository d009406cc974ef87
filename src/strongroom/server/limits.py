"""How much one caller may ask: a bucket for each key, kept as the moment at which it would be full again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class Buckets:
    """Many buckets of one size, for use on one thread. The least recently used are dropped when there are too many."""

    def __init__(self, rate: float, burst_seconds: float, held: int = 10_000) -> None:
        self._each = 1 / rate if rate > 0 else 0.0
        self._burst = burst_seconds
        self._held = held
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def wait(self, key: Hashable, now: float) -> float:
        """Seconds until `key` may ask again; 0 if it may now."""
        return max(self._full_at.get(key, 0.0) - self._burst - now, 0.0)

    def take(self, key: Hashable, now: float, cost: float = 1) -> None:
        """Count a request of `key`."""
        if not self._each:
            return
        self._full_at[key] = max(self._full_at.get(key, 0.0), now) + cost * self._each
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._held:
            self._full_at.popitem(last=False)
