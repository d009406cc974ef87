"""The plain text of a provider's answer. Tools answer in JSON, in which a letter can be written as an escape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_SPELLED = re.compile(r"(?:\\u[0-9a-fA-F]{4})+")
_MOST_LEVELS = 20


def readable(answer: str) -> str:
    """The texts in a provider's answer: one per line if the answer is JSON, otherwise the answer itself."""
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError):
        return _SPELLED.sub(_letters, answer)
    return "\n".join(_texts(document, _MOST_LEVELS))


def _texts(value: object, levels: int) -> Iterator[str]:
    """Every key and every value of a JSON document, as text. A text that is itself JSON is decoded too."""
    if isinstance(value, str):
        inner = value.lstrip()[:1] in ("{", "[", '"') and levels > 0
        yield readable(value) if inner else value
    elif isinstance(value, dict) and levels:
        for name, one in value.items():
            yield name
            yield from _texts(one, levels - 1)
    elif isinstance(value, list) and levels:
        for one in value:
            yield from _texts(one, levels - 1)
    else:
        yield str(value)


def _letters(hit: re.Match[str]) -> str:
    try:
        said: str = json.loads(f'"{hit[0]}"')
    except ValueError:
        return hit[0]
    return said
