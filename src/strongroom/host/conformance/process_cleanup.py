"""Ends the processes that a check started, and their descendants, even outside the check's session and group.

On Linux, the process of a check adopts the orphans among its descendants (`adopt`), so that all of them can be found.
Elsewhere only the check's process group is ended, and a helper that left the group keeps running. The same holds if the
process of a check dies by itself.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_ROUNDS = 20
_SUBREAPER = 36


def adopt() -> None:
    """Make this process the parent of descendants whose own parent ended (a subreaper), as `init` does for all
    processes.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def end_below(top: int) -> None:
    """Kill all descendants of a process, in several rounds, because a descendant may start another one meanwhile."""
    for _ in range(_ROUNDS):
        alive = [one for one in _below(top) if not _is_dead(one)]
        for one in alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        if not alive:
            return


def end(leader: int) -> None:
    """Kill the process of a check, the processes of its group and all its descendants."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(leader, signal.SIGSTOP)  # a stopped process starts no others
    end_below(leader)
    end_group(leader)


def end_group(leader: int) -> None:
    """Kill the processes that remain in a group, if any."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _below(top: int) -> list[int]:
    found = _children(top)
    for one in found:  # the list grows during the loop
        found += _children(one)
    return found


def _children(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for path in Path(f"/proc/{process}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found


def _is_dead(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return state[0] in "ZX"
