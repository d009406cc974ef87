"""The host around the provider, for checks of what the two do together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from strongroom.host.conformance.stage import Stage
from strongroom.host.hosting import Host


@contextmanager
def hosting(stage: Stage) -> Iterator[Host]:
    """A host in the check's home, with its keys elsewhere."""
    with Host(stage.home, stage.factory, keys=stage.room.place / "keys") as host:
        yield host
