"""The options of a server: the hosts and origins it answers, and its limits on size, speed and time."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Options:
    """The limits of one server. Sizes in bytes, times in seconds, rates in requests per second (0: no limit)."""

    hosts: frozenset[str] = LOOPBACK
    """Accepted names in the Host header.

    A request with another name may come from a web page that uses DNS rebinding.
    """
    origins: frozenset[str] = frozenset()
    """Origins of web pages that may call the server. A request without an Origin header does not come from a page."""
    body_limit: int = 16 * 1024 * 1024
    """The most bytes of a request's body. A batch of 4 MiB of text fits, even if JSON escapes every character."""
    bodies_limit: int = 128 * 1024 * 1024
    """The most bytes of all large bodies that are in RAM at the same time."""
    unproven_limit: int = 64 * 1024
    """The most bytes of a body that are read before its cap is verified."""
    header_limit: int = 32 * 1024
    head_seconds: float = 10
    """The most seconds for sending a request's head, counted from its first byte or from opening the connection."""
    body_seconds: float = 30
    idle_seconds: int = 30
    stop_seconds: int = 30
    """The most seconds that requests in flight may take once the server is stopping."""
    connections: int = 4096
    slow: int = 0
    """The number of threads for slow work. With 0 the server uses two, or eight for a vault in a bucket."""
    waiting: int = 1024
    """The most calls that may be under way or waiting. Further calls are refused."""
    holder_rate: float = 500
    address_rate: float = 1000
    burst_seconds: float = 4
    """The length of a burst: a caller may at once use the requests and the time of this many seconds."""
    checkpoint_seconds: float = 3600
    """Seconds between two signed checkpoints of the log, which are stored beside the keys; 0: never."""
    maintenance_seconds: float = 60
    """Seconds between two checks for an unfinished scrub (removal of deleted bytes), to finish it; 0: never.

    The sweep for ended lines and documents rests at least as long between two portions; 0: no sweep either.
    """
    mcp: bool = True
    log_requests: bool = False
    """Log every request, including successful ones."""


DEFAULT = Options()
