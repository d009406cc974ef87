"""The child's side of a rig: steps come in on standard input, answers go out on what was standard output.

Hermes prints as it likes: all of that goes to standard error. A line is one write to a pipe, so it is with the reader
even if this process is killed the next moment.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import traceback
from importlib import import_module
from typing import Any, NoReturn

from tests.hermes.watch import Watch, scratch

SETTLE_SECONDS = 60


class Outlet:
    """Takes over standard output for JSON lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe = os.dup(1)  # not inherited by what Hermes starts: the reader sees the end when we are gone
        os.dup2(2, 1)
        self._watch = Watch()

    def tell(self, **line: Any) -> None:
        with self._lock:
            os.write(self._pipe, json.dumps(line).encode() + b"\n")

    def failed(self) -> None:
        """The step that is going on ended with an error: where it comes from is for whoever reads the test."""
        self.tell(failed=traceback.format_exc())

    def leave(self) -> NoReturn:
        """Say what this process touched that was not its own, and end as `hermes` does: threads are not waited for."""
        self.tell(left=True, outside=self._watch.outside(scratch()), connected=sorted(self._watch.connected))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def next_step() -> dict[str, Any] | None:
    """The next step, or nothing when there are no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else None


def settle() -> None:
    """Wait until no memory manager of this process has work left. One with work left is never collected."""
    kind = import_module("agent.memory_manager").MemoryManager
    for manager in [one for one in gc.get_objects() if type(one) is kind]:
        assert manager.flush_pending(timeout=SETTLE_SECONDS), "the memory worker is stuck"
