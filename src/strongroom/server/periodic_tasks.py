"""Background work of a server: records of counted events, checkpoints, scrubs that were put off, lines that ended."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from strongroom.errors import StrongroomError
from strongroom.server import json_log
from strongroom.server.executor import Executor
from strongroom.server.server_options import Options
from strongroom.vault.vault import Vault

_RECORD_SECONDS = 10
"""Seconds between two records of the events that were only counted, in the server's log and in the audit log."""
_SWEEP_SECONDS, _SWEEP_REST = 0.25, 100
"""How long a portion of the sweep for ended lines takes, and how many times as long it rests: 1 % of one thread."""


class PeriodicTasks:
    """The periodic tasks of one server, each a coroutine that runs until it is cancelled."""

    def __init__(self, vault: Vault, options: Options, lines: json_log.Sample, executor: Executor) -> None:
        self._vault = vault
        self._options = options
        self._lines = lines
        self._executor = executor

    def start(self) -> list[asyncio.Task[None]]:
        """Start the tasks that the options ask for, and return them. The caller must cancel them."""
        tasks = [asyncio.create_task(self._keep_counts())]
        if self._options.checkpoint_seconds:
            tasks.append(asyncio.create_task(self._keep_checkpoints()))
        if self._options.maintenance_seconds:
            tasks.append(asyncio.create_task(self._finish_scrubs()))
            tasks.append(asyncio.create_task(self._forget_ended()))
        return tasks

    async def _keep_counts(self) -> None:
        """Periodically record the number of events that were only counted, in the server's log and in the audit log."""
        while True:
            await asyncio.sleep(_RECORD_SECONDS)
            self._lines.tell()
            try:
                await self._executor.run(self._vault.sum_up_refusals)
            except StrongroomError as error:  # the counts are kept for the next time
                json_log.event("refusals not recorded", level=logging.ERROR, reason=error.reason)

    async def _keep_checkpoints(self) -> None:
        while True:
            await asyncio.sleep(self._options.checkpoint_seconds)
            try:
                await self._executor.run(self._vault.audit.checkpoint)
            except StrongroomError as error:
                json_log.event("checkpoint failed", level=logging.ERROR, reason=error.reason)

    async def _finish_scrubs(self) -> None:
        """Periodically retry scrubs (removal of deleted bytes) that a reader in another process held up."""
        while True:
            if self._vault.scrub_is_due():
                with suppress(StrongroomError):
                    done = await self._executor.run(self._vault.scrub)
                    json_log.event("scrub", done=done)
            await asyncio.sleep(self._options.maintenance_seconds)

    async def _forget_ended(self) -> None:
        """Forget lines and documents that have ended, some actors at a time."""
        while True:
            began = time.monotonic()
            try:
                await self._executor.run(lambda: self._vault.ended.forget_some(_SWEEP_SECONDS))
            except StrongroomError as error:  # the next portion goes on behind it
                json_log.event("sweep failed", level=logging.ERROR, reason=error.reason)
            took = time.monotonic() - began
            await asyncio.sleep(max(self._options.maintenance_seconds, _SWEEP_REST * took))
