"""Sentences with what should happen to each, labelled before the rules over text were written.

`python -m tests.labels` prints how the rules do, and every row that they get wrong. Rows marked doubtful are shown
apart and count nowhere. What the files are is in the README beside them.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strongroom import routing
from strongroom.hermes.provider import forget_phrases
from strongroom.hermes.provider.secret_mask import Mask

Row = dict[str, Any]
MASK = Mask()
ORDER = ("personal", "family", "work", "travel")
_PART = 8
"""Characters of a secret in a row that are too much of it, if it has more than twelve."""


def rows(name: str, *, doubtful: bool = False) -> list[Row]:
    """The rows of a file that count, or those that do not."""
    with (Path(__file__).parent / f"{name}.jsonl").open(encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    return [row for row in found if row.get("doubtful", False) is doubtful]


def left_of(row: Row) -> list[str]:
    """The secrets of a row of which something is left after masking."""
    masked = _bare(MASK.masked(row["text"])[0])
    return [secret for secret in row["secret"] if any(part in masked for part in _parts(_bare(secret)))]


def _parts(secret: str) -> Iterator[str]:
    yield secret
    if len(secret) > 12:
        yield from (secret[at : at + _PART] for at in range(len(secret) - _PART + 1))


def _bare(text: str) -> str:
    """Without line breaks and characters that show nothing, as the labels are compared."""
    return re.sub(r"\s*\\?\n", "", "".join(one for one in text if unicodedata.category(one) != "Cf"))


def missed_secrets(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if not row.get("optional") and left_of(row)]


def changed(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if MASK.masked(row["text"])[0] != row["text"]]


def routed(row: Row) -> str:
    """Where a row goes; `none` if no rule fits."""
    way = routing.route(row["text"])
    return way.namespace if way.rule else "none"


def leaks(found: Sequence[Row]) -> list[Row]:
    """Rows that land in a less sensitive namespace than they should."""
    return [row for row in found if _place(routing.route(row["text"]).namespace) > _place(row["namespace"])]


def unseen(found: Sequence[Row]) -> list[Row]:
    """Sensitive rows that land in `personal` only because it is the default: with another default they would leak."""
    return [row for row in found if row["namespace"] == "personal" and routed(row) != "personal"]


def nuisances(found: Sequence[Row]) -> list[Row]:
    """Rows that land in a more sensitive namespace than they need; those that need none, where any rule fits."""
    return [row for row in found if _place(landed(row)) < _place(row["namespace"])]


def landed(row: Row) -> str:
    return routed(row) if row["namespace"] == "none" else str(routing.route(row["text"]).namespace)


def _place(namespace: str) -> int:
    return ORDER.index(namespace) if namespace in ORDER else len(ORDER)


def misread_requests(found: Sequence[Row]) -> list[Row]:
    return [row for row in found if forget_phrases.is_forget_request(row["text"]) != row["is_request"]]
