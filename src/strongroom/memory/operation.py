"""Operations as generators: each yields what must be durable before it continues, and is sent the commit.

Embedded, `local_transport` runs one and waits at each step. A server runs many on one thread and writes their commits
together (group commit): no thread waits, and one flush of the disk serves all. An operation holds no lock while it
yields.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from strongroom.memory.line_cache.cache import LineCache, Load
from strongroom.store import Commit, Pending

T = TypeVar("T")


class SlowStep(NamedTuple):
    """Yielded before slow work, and between its portions, so that others need not wait.

    `actor` is the owner of the memory, once the gate has admitted the request; a server shares its threads by actor.
    """

    actor: str = ""


class Loading(NamedTuple):
    """Yielded to wait until shelves are loaded, or until `patience`, in seconds, is over.

    Without `patience` every load has ended then. The operation checks for failures.
    """

    shelves: LineCache
    loads: Sequence[Load]
    patience: float | None = None

    def begin_in_background(self) -> None:
        """Leave the loads to the loader's threads."""
        for load in self.loads:
            self.shelves.load_in_background(load)

    def wait(self) -> None:
        """Wait on this thread. Without `patience`, it does the loading itself."""
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
"""Sent for a `SlowStep` if the operation continues at once, so that no time has passed."""

LATER = Commit(-1, -1)
"""Sent if time has passed: the cap may have been revoked meanwhile."""

Step = Pending | SlowStep | Loading
Operation = Generator[Step, Commit, T]
