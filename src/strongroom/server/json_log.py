"""The server's own log: one JSON object per line on stderr, with requests, outcomes and kinds of errors.

The number of lines about refusals is limited to a few each second. Refusals beyond that are counted, and the counts are
logged. The log never holds a cap, a text, a query, a namespace or an actor: the decisions about these are in the audit
log, under the same request id.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import msgspec

from strongroom.server.rate_limits import Buckets

LINES_A_SECOND = 5
"""The most lines per second about refused requests with one outcome."""

_BURST_SECONDS = 10

LOGGER = logging.getLogger("strongroom.server")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, event and its fields."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        document |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            # Only the kind: a foreign exception's message may hold a line's text.
            document["error"] = record.exc_info[0].__name__
        return msgspec.json.encode(document).decode()


def to_stderr(level: int = logging.INFO) -> None:
    """Send this server's events, and those of the HTTP library below it, to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("strongroom.server", "uvicorn", "mcp"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level if name == "strongroom.server" else logging.ERROR)  # they warn of odd requests


def event(message: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Write one event with its fields to the log."""
    LOGGER.log(level, message, extra={"fields": fields})


def defect(error: BaseException, **fields: Any) -> None:
    """Log an unexpected exception: its type and its place in the code, never its message."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f"{place.tb_frame.f_globals.get('__name__', '?')}:{place.tb_lineno}"
    event("defect", level=logging.ERROR, kind=type(error).__name__, where=where, **fields)


class Sample:
    """Limits the log lines of each outcome, and counts the lines that it suppresses. For use on one thread."""

    def __init__(self) -> None:
        self._lines = Buckets(LINES_A_SECOND, _BURST_SECONDS)
        self._withheld: Counter[str] = Counter()
        self.suppressed = 0
        """The number of lines suppressed since the server began."""

    def takes(self, outcome: str, now: float) -> bool:
        """Whether a line about this outcome may be written now.

        `outcome` comes from a fixed set, never from a request.
        """
        if self._lines.wait(outcome, now) > 0:
            self._withheld[outcome] += 1
            self.suppressed += 1
            return False
        self._lines.take(outcome, now)
        return True

    def tell(self) -> None:
        """Log how many lines of each outcome were suppressed since the last call."""
        withheld, self._withheld = self._withheld, Counter()
        for outcome, number in withheld.items():
            event("requests not logged", outcome=outcome, count=number)
