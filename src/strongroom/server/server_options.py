"""The options of a server: whom it answers, how much it accepts, how fast, how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Options:
    """The limits of one server. Sizes in bytes, times in seconds, rates in requests per second (0: no limit)."""

    hosts: frozenset[str] = LOOPBACK
    """Accepted names in the Host header. Any other may come from a web page by DNS rebinding."""
    origins: frozenset[str] = frozenset()
    """Origins of web pages that may call. A request without an Origin header does not come from a page."""
    body_limit: int = 16 * 1024 * 1024
    """Maximum bytes of a request's body. A batch of 4 MiB of text fits, even if JSON escapes every character."""
    bodies_limit: int = 128 * 1024 * 1024
    """Maximum bytes of all large bodies that are in RAM at the same time."""
    unproven_limit: int = 64 * 1024
    """Maximum number of bytes of a body that are read before its cap is verified."""
    header_limit: int = 32 * 1024
    head_seconds: float = 10
    """How long a connection may take to send a request's head, from its first byte or from being opened."""
    body_seconds: float = 30
    idle_seconds: int = 30
    stop_seconds: int = 30
    """How long requests in flight may take when the server stops."""
    connections: int = 4096
    slow: int = 0
    """Threads for slow work; 0: two, or eight for a vault in a bucket."""
    waiting: int = 1024
    """Calls that may be under way or waiting. More are refused."""
    holder_rate: float = 500
    address_rate: float = 1000
    burst_seconds: float = 4
    """A burst may use as much as this many seconds give."""
    checkpoint_seconds: float = 3600
    """How often the log's checkpoint is signed and stored beside the keys; 0: never."""
    maintenance_seconds: float = 60
    """How often to check for an unfinished scrub and finish it; 0: never."""
    mcp: bool = True
    log_requests: bool = False
    """Log every request, not only those that failed."""


DEFAULT = Options()
