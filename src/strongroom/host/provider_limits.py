"""Limits of a provider's time, text, threads and bytes, in one value that a runtime can change."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields

from strongroom.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for each call that is waited for, and maximum characters, threads and bytes."""

    initialize: float = 10.0
    system_prompt_block: float = 2.0
    on_turn_start: float = 1.0
    prefetch: float = 2.0
    handle_tool_call: float = 60.0
    on_pre_compress: float = 5.0
    cache_busting_signature: float = 1.0
    catching_up: float = 1.0
    """How long a call waits at most for the provider to hear of the memory writes and delegations before it."""
    drain: float = 5.0
    """How long the end of a session waits until the provider has been told everything."""
    shutdown: float = 5.0
    recovered_turn: float = 60.0
    """For each turn that an earlier process left. A provider that takes longer gets it again at the next start."""
    recalled: int = 8_000
    """Maximum number of characters of recalled text in one turn."""
    prompt_block: int = 16_000
    """Maximum number of characters of one provider in the system prompt."""
    compressed: int = 6_000
    """Maximum number of characters for the summary of a compression."""
    asking_threads: int = 16
    """Threads for calls that are waited for, in the whole host."""
    keeping_threads: int = 8
    """Threads for hooks that only tell, in the whole host."""
    held: float = 1.0
    """How many seconds a call may hold a thread before a spare one may be added."""
    spare_threads: int = 32
    """Maximum number of spare threads of each kind. Beyond that, calls wait."""
    waiting_turns: int = 256
    """Turns of one agent that wait in RAM for a slow provider. Further ones stay in the journal."""
    journal_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if not 0 < getattr(self, field.name) <= threading.TIMEOUT_MAX]
        if wrong:
            raise InvalidRequest(f"the limit {wrong[0]} must be more than 0, and less than a clock can count")
