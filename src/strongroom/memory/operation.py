"""Operations in steps: each yields what must be durable before it goes on, and is sent the commit.

An operation is written once, as a generator. Embedded, `local_transport` carries it out and waits at each step. A
server runs many side by side on one thread and makes their commits together: no thread waits, and one flush of the disk
serves all. An operation holds no lock while it yields.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import monotonic
from typing import NamedTuple, TypeVar

from strongroom.memory.line_cache.cache import LineCache, Load
from strongroom.store import Commit, Pending

T = TypeVar("T")


class SlowStep(NamedTuple):
    """Yielded before work that takes long, and between two portions of it: others need not wait for it.

    `actor` is whose memory it works on, once the gate has said so: a server shares its threads out by that.
    """

    actor: str = ""


class Loading(NamedTuple):
    """Yielded to wait until shelves are in RAM, or until `patience`, in seconds, is over.

    Without `patience` each of them has ended then. Whether one failed is for the operation to check.
    """

    shelves: LineCache
    loads: Sequence[Load]
    patience: float | None = None

    def begin_in_background(self) -> None:
        """Leave the loads to the loader's threads."""
        for load in self.loads:
            self.shelves.load_in_background(load)

    def wait(self) -> None:
        """Wait on this thread; without `patience` it does the loading."""
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
"""What is sent for `Long` where the operation goes on at once, and no time has passed."""

LATER = Commit(-1, -1)
"""What is sent where time has passed: the cap may have been revoked meanwhile."""

Step = Pending | SlowStep | Loading
Operation = Generator[Step, Commit, T]
