"""Where our host calls a provider otherwise than Hermes 0.19 does, and why. Tests compare each row with real runs.

`event`, `hermes` and `host` are worded by `compare.differences`; `why` is for readers. Nothing else may differ.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    event: str
    hermes: str
    host: str
    why: str


DIFFERENCES: tuple[Row, ...] = ()
