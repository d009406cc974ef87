"""Operations as generators: an operation yields each commit that it needs, and continues once the commit is durable.

In an embedded vault, `local_transport` runs one operation at a time and waits at each step. A server runs many
operations on one thread and writes their commits together (group commit): no thread waits, and one flush of the disk
serves all of them. An operation holds no lock while it yields.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from strongroom.memory.line_cache.cache import LineCache, Load
from strongroom.store import Commit, Pending

T = TypeVar("T")


class SlowStep(NamedTuple):
    """Yielded before slow work, and between the parts of slow work, so that other operations need not wait.

    `actor` is the actor of the request, once the gate has admitted the request. With it, a server shares its threads
    fairly between actors.
    """

    actor: str = ""


class Loading(NamedTuple):
    """Yielded to wait until the lines of some namespaces are loaded, at most for `patience` seconds.

    Without `patience`, the wait lasts until every load has ended. The operation then checks whether a load failed.
    """

    shelves: LineCache
    loads: Sequence[Load]
    patience: float | None = None

    def begin_in_background(self) -> None:
        """Leave the loads to the threads of the line cache, and do not wait."""
        for load in self.loads:
            self.shelves.load_in_background(load)

    def wait(self) -> None:
        """Wait on this thread. Without `patience`, this thread does the loading itself."""
        if self.patience is None:
            for load in self.loads:
                load.finish()
            return
        end = monotonic() + self.patience
        self.begin_in_background()
        for load in self.loads:
            load.wait(max(end - monotonic(), 0.0))


SLOW_STEP = SlowStep()

AT_ONCE = Commit(0, 0)
"""Sent to an operation after a `SlowStep` if it continues at once, so no time has passed since the step."""

LATER = Commit(-1, -1)
"""Sent to an operation if time has passed since its step, so that its cap may have been revoked meanwhile."""

Step = Pending | SlowStep | Loading
Operation = Generator[Step, Commit, T]
