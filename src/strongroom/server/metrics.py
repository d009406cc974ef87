"""Metrics in Prometheus' format: requests by operation and outcome, their times, and figures about the vault.

The vault's figures are read when the metrics are fetched (a scrape). No label names an actor, a namespace or an
address.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from time import monotonic

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from strongroom.server.http.connection_limits import Connections
from strongroom.server.json_log import Sample
from strongroom.vault.health import Upkeep
from strongroom.vault.vault import Usage, Vault

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_UPKEEP_SECONDS = 60.0
_DISTANT_SECONDS = 600.0
"""Seconds for which the vault's own figures are cached if the vault is in a bucket.

Reading the figures costs a request for each cap's record.
"""
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one server.

    `count` must be called on the thread of the event loop. Every request passes here, so it only adds to plain numbers,
    which a scrape converts to Prometheus' format.
    """

    def __init__(self, vault: Vault, places: Connections, lines: Sample) -> None:
        self._outcomes: dict[tuple[str, str], int] = {}
        self._times: dict[str, tuple[list[int], list[float]]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(_Requests(self._outcomes, self._times))
        self._registry.register(_VaultFigures(vault))
        self._registry.register(_ServerFigures(places, lines))

    def count(self, op: str, outcome: str, seconds: float) -> None:
        """Count one answered request and its time. `op` and `outcome` come from fixed sets, never from a request."""
        key = op, outcome
        self._outcomes[key] = self._outcomes.get(key, 0) + 1
        times = self._times.get(op)
        if times is None:
            times = self._times[op] = ([0] * (len(_SECONDS) + 1), [0.0])
        times[0][bisect_left(_SECONDS, seconds)] += 1
        times[1][0] += seconds

    def text(self) -> bytes:
        """All metrics as text in Prometheus' format."""
        return generate_latest(self._registry)


class _Requests(Collector):
    """The requests and their times, counted so far, as metrics."""

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


class _ServerFigures(Collector):
    """The number of open connections, and of the connections and log lines that were dropped to stay within limits."""

    def __init__(self, places: Connections, lines: Sample) -> None:
        self._places = places
        self._lines = lines

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("strongroom_connections", "Open connections.", value=len(self._places))
        yield CounterMetricFamily(
            "strongroom_connections_dropped", "Connections closed to make room for others.", value=self._places.dropped
        )
        yield CounterMetricFamily(
            "strongroom_log_lines_suppressed",
            "Refused requests without a line in the server's log.",
            value=self._lines.suppressed,
        )


class _VaultFigures(Collector):
    """Reads the vault's own figures when the metrics are fetched (a scrape)."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._upkeep: Upkeep | None = None
        self._upkeep_until = 0.0

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        usage = self._vault.usage()
        yield GaugeMetricFamily("strongroom_shelves", "Namespaces of actors cached in RAM.", value=usage.shelves)
        yield GaugeMetricFamily("strongroom_shelf_bytes", "Approximate size of that cache.", value=usage.shelf_bytes)
        yield CounterMetricFamily("strongroom_shelf_hits", "Namespaces found in that cache.", value=usage.shelf_hits)
        yield CounterMetricFamily(
            "strongroom_shelf_misses", "Namespaces read from the store into it.", value=usage.shelf_misses
        )
        yield GaugeMetricFamily("strongroom_log_entries", "Entries in the audit log.", value=usage.log_size)
        yield CounterMetricFamily(
            "strongroom_garbage_tokens", "Tokens refused before any signature was valid.", value=usage.garbage
        )
        yield CounterMetricFamily(
            "strongroom_refusals_counted",
            "Refusals without an entry of their own in the audit log.",
            value=usage.refusals_counted,
        )
        yield GaugeMetricFamily(
            "strongroom_refusals_pending",
            "Counted refusals that the audit log does not sum up yet.",
            value=usage.refusals_pending,
        )
        yield CounterMetricFamily(
            "strongroom_logs_taken",
            "Logs of this worker abandoned because somebody else wrote to their place in the bucket.",
            value=usage.taken_logs,
        )
        if usage.checkpoint_age is not None:
            yield GaugeMetricFamily(
                "strongroom_checkpoint_age_seconds", "Time since the last checkpoint.", value=usage.checkpoint_age
            )
        yield _group_sizes(usage)
        yield from _upkeep(self._looked_after())

    def _looked_after(self) -> Upkeep:
        """The vault's figures for maintenance, cached for a minute or longer.

        Collecting them reads every cap's record, which is too much for every scrape.
        """
        now = monotonic()
        if self._upkeep is None or now >= self._upkeep_until:
            self._upkeep = self._vault.upkeep()
            self._upkeep_until = now + (_DISTANT_SECONDS if self._vault.store.is_distant else _UPKEEP_SECONDS)
        return self._upkeep


def _upkeep(found: Upkeep) -> Iterator[Metric]:
    """The figures for maintenance that an operator must act on. Unknown figures are left out."""
    yield GaugeMetricFamily("strongroom_caps", "Caps that are neither revoked nor expired.", value=found.caps)
    ending = GaugeMetricFamily(
        "strongroom_caps_ending", "Live caps that end within this time and were issued for longer.", labels=["within"]
    )
    ending.add_metric(["1d"], found.within_day)
    ending.add_metric(["7d"], found.within_week)
    yield ending
    if found.soonest is not None:
        yield GaugeMetricFamily(
            "strongroom_cap_ends_seconds", "Time until the first live cap ends.", value=found.soonest
        )
    if found.backup_age is not None:
        yield GaugeMetricFamily("strongroom_backup_age_seconds", "Time since the last backup.", value=found.backup_age)
    yield GaugeMetricFamily(
        "strongroom_scrub_due", "1 while deleted bytes may be in a journal.", value=found.scrub_is_due
    )
    if found.disk is not None:
        yield GaugeMetricFamily("strongroom_disk_bytes", "Size of the vault's file system.", value=found.disk.size)
        yield GaugeMetricFamily("strongroom_disk_free_bytes", "Free space on it.", value=found.disk.free)
        yield GaugeMetricFamily("strongroom_store_bytes", "Size of the vault's files.", value=found.disk.vault)


def _group_sizes(usage: Usage) -> Metric:
    """The number of requests in one commit, as a histogram whose buckets are powers of two."""
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
