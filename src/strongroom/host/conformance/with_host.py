"""The host together with the provider, for checks that need host and provider."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from strongroom.host.conformance.check_stage import CheckStage
from strongroom.host.host import Host
from strongroom.host.provider_interface import MemoryProvider


class Stuck:
    """A provider whose `sync_turn` never returns. Its turns stay in the host's journal, the file of waiting turns."""

    def __init__(self, provider: MemoryProvider) -> None:
        self._provider = provider

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def sync_turn(self, *_: Any, **__: Any) -> None:
        threading.Event().wait()


@contextmanager
def hosting(stage: CheckStage, *, stuck: bool = False) -> Iterator[Host]:
    """A host in the check's home. Its keys are in another directory."""
    make = (lambda: cast(MemoryProvider, Stuck(stage.made()))) if stuck else stage.made
    with Host(stage.home, make, keys=stage.room.place / "keys") as host:
        yield host
