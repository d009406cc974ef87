"""Operations in steps: each yields what must be durable before it goes on, and is sent the commit.

An operation is written once, as a generator. Embedded, `done` carries it out, waiting for every commit. A server runs
many side by side on one thread and makes their commits together: no thread waits, and one flush of the disk serves
all. An operation holds no lock while it yields.
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Literal, TypeVar

from strongroom.store import Commit, Pending, Store

T = TypeVar("T")


class Pace(Enum):
    """What an operation says of itself."""

    LONG = "long"


LONG = Pace.LONG
"""Yielded before work that takes long, such as reading a shelf from disk: others need not wait for it."""

AT_ONCE = Commit(0, 0)
"""What is sent for it where the operation goes on at once, and no time has passed."""

Step = Pending | Literal[Pace.LONG]
Doing = Generator[Step, Commit, T]


def done(doing: Doing[T], store: Store) -> T:
    """Carry out an operation here and now."""
    try:
        step = next(doing)
        while True:
            if step is LONG:
                step = doing.send(AT_ONCE)
                continue
            try:
                commit = store.commit(step.entries, step.effects, step.time, since=step.since)
            except Exception as error:  # noqa: BLE001 - it is the operation's to deal with
                step = doing.throw(error)
            else:
                step = doing.send(commit)
    except StopIteration as stop:
        answer: T = stop.value
        return answer
