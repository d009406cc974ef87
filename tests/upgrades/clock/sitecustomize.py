"""Moves the clock of a child process: Python imports this at its start where PYTHONPATH names its directory.

A wired home's cap lasts a month, and a fixture is opened at the time at which it was made.
"""

from __future__ import annotations

import os
import time

_AHEAD = int(os.environ.get("STRONGROOM_TEST_AHEAD", "0"))  # ns
_time, _time_ns = time.time, time.time_ns


def _moved_ns() -> int:
    return _time_ns() + _AHEAD


def _moved() -> float:
    return _time() + _AHEAD / 1e9


time.time, time.time_ns = _moved, _moved_ns
