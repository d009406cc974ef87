"""What a server counts, in Prometheus' form: requests by operation and outcome, how long they took, and the vault's own
figures at the moment of a scrape. No label tells of an actor, a namespace or an address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from strongroom.vault.owner import Usage, Vault

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server. `count` belongs to the event loop's thread."""

    def __init__(self, vault: Vault) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "strongroom_requests", "Requests by operation and outcome.", ["op", "outcome"], registry=self._registry
        )
        self._seconds = Histogram(
            "strongroom_request_seconds", "Time to answer.", ["op"], buckets=_SECONDS, registry=self._registry
        )
        self._registry.register(_VaultFigures(vault))
        self._counters: dict[tuple[str, str], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def count(self, op: str, outcome: str, seconds: float) -> None:
        """Count one answered request. `op` and `outcome` come from fixed sets, never from a request."""
        counter = self._counters.get((op, outcome))
        if counter is None:
            counter = self._counters[op, outcome] = self._requests.labels(op, outcome)
        histogram = self._histograms.get(op)
        if histogram is None:
            histogram = self._histograms[op] = self._seconds.labels(op)
        counter.inc()
        histogram.observe(seconds)

    def text(self) -> bytes:
        """Everything, as a scrape gets it."""
        return generate_latest(self._registry)


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
