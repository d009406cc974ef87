"""What a server counts, in Prometheus' form: requests by operation and outcome, how long they took, and the vault's own
figures at the moment of a scrape. No label tells of an actor, a namespace or an address.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from strongroom.vault.owner import Usage, Vault

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server. `count` belongs to the event loop's thread.

    Counted in plain numbers, since every request passes here, and put into Prometheus' form at a scrape.
    """

    def __init__(self, vault: Vault) -> None:
        self._outcomes: dict[tuple[str, str], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(_Requests(self._outcomes, self._times))
        self._registry.register(_VaultFigures(vault))

    def count(self, op: str, outcome: str, seconds: float) -> None:
        """Count one answered request. `op` and `outcome` come from fixed sets, never from a request."""
        key = op, outcome
        self._outcomes[key] = self._outcomes.get(key, 0) + 1
        times = self._times.get(op)
        if times is None:
            times = self._times[op] = ([0] * (len(_SECONDS) + 1), [0.0])
        times[0][bisect_left(_SECONDS, seconds)] += 1
        times[1][0] += seconds

    def text(self) -> bytes:
        """Everything, as a scrape gets it."""
        return generate_latest(self._registry)


class _Requests(Collector):
    """The requests counted so far."""

    def __init__(self, outcomes: dict[tuple[str, str], int], times: dict[str, tuple[list[int], list[float]]]) -> None:
        self._outcomes = outcomes
        self._times = times

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "strongroom_requests", "Requests by operation and outcome.", labels=["op", "outcome"]
        )
        for (op, outcome), number in list(self._outcomes.items()):
            requests.add_metric([op, outcome], number)
        yield requests
        seconds = HistogramMetricFamily("strongroom_request_seconds", "Time to answer.", labels=["op"])
        bounds = [*map(str, _SECONDS), "+Inf"]
        for op, (counts, total) in list(self._times.items()):
            buckets = list(zip(bounds, accumulate(map(float, counts)), strict=True))
            seconds.add_metric([op], buckets=buckets, sum_value=total[0])
        yield seconds


class _VaultFigures(Collector):
    """Reads the vault's own figures when they are asked for."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        usage = self._vault.usage()
        yield GaugeMetricFamily("strongroom_shelves", "Shelves in RAM.", value=usage.shelves)
        yield GaugeMetricFamily("strongroom_shelf_bytes", "About how many bytes they take.", value=usage.shelf_bytes)
        yield CounterMetricFamily("strongroom_shelf_hits", "Shelves found in RAM.", value=usage.shelf_hits)
        yield CounterMetricFamily("strongroom_shelf_misses", "Shelves read from the store.", value=usage.shelf_misses)
        yield GaugeMetricFamily("strongroom_log_entries", "Entries in the audit log.", value=usage.log_size)
        yield CounterMetricFamily(
            "strongroom_garbage_tokens", "Tokens refused before any signature was valid.", value=usage.garbage
        )
        yield CounterMetricFamily(
            "strongroom_logs_taken", "Logs that had something foreign put in their way.", value=usage.taken_logs
        )
        if usage.checkpoint_age is not None:
            yield GaugeMetricFamily(
                "strongroom_checkpoint_age_seconds", "Since a checkpoint was last kept.", value=usage.checkpoint_age
            )
        yield _group_sizes(usage)


def _group_sizes(usage: Usage) -> Metric:
    """Requests in one commit, as a histogram whose buckets are powers of two."""
    total, buckets = 0, []
    for size, count in sorted(usage.group_sizes.items()):
        total += count
        buckets.append((str(float(size)), float(total)))
    return HistogramMetricFamily(
        "strongroom_commit_group_size",
        "Requests that shared one commit.",
        buckets=[*buckets, ("+Inf", float(total))],
        sum_value=float(usage.grouped),
    )
