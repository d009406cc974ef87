"""The server's own log: one JSON object a line on stderr. It names requests, outcomes and kinds of errors.

It never holds a cap, a text, a query, a namespace or an actor: what was decided about whom stands in the audit log,
under the same request id.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

LOGGER = logging.getLogger("strongroom.server")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, event and the fields given with it."""

    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        document |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            # Only the kind: what a foreign exception says may hold a line's text.
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
        logger.setLevel(level if name == "strongroom.server" else logging.ERROR)  # they warn of each odd request


def event(message: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log one event with its fields."""
    LOGGER.log(level, message, extra={"fields": fields})


def defect(error: BaseException, **fields: Any) -> None:
    """Log that something nobody raised on purpose was met: its kind and where, never what it says."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f"{place.tb_frame.f_globals.get('__name__', '?')}:{place.tb_lineno}"
    event("defect", level=logging.ERROR, kind=type(error).__name__, where=where, **fields)
