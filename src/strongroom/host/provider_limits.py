"""How long a provider may take and how much it may say, in one value that a runtime can change."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields

from strongroom.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for each call that somebody waits for, characters, threads and bytes."""

    initialize: float = 10.0
    system_prompt_block: float = 2.0
    on_turn_start: float = 1.0
    prefetch: float = 2.0
    handle_tool_call: float = 60.0
    on_pre_compress: float = 5.0
    cache_busting_signature: float = 1.0
    catching_up: float = 1.0
    """How long a call waits at most until the provider has heard of memory writes and delegations before it."""
    drain: float = 5.0
    """How long the end of a session waits until the provider has been told everything."""
    shutdown: float = 5.0
    recovered_turn: float = 60.0
    """For each turn that an earlier process left; a provider that takes longer gets it again at the next start."""
    recalled: int = 8_000
    """The most characters of recalled text in one turn."""
    prompt_block: int = 16_000
    """The most characters of one provider in the system prompt."""
    compressed: int = 6_000
    """The most characters for the summary of a compression."""
    asking_threads: int = 16
    """Threads for calls that somebody waits for, in the whole host."""
    keeping_threads: int = 8
    """Threads that tell providers what happened, in the whole host."""
    held: float = 1.0
    """How long a call holds a thread until another one may take its place."""
    spare_threads: int = 32
    """How many threads of each kind may be held for so long; beyond that, everybody waits."""
    waiting_turns: int = 256
    """Turns of one agent that wait in RAM for a slow provider; more wait in the journal, until a host next starts."""
    journal_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if not 0 < getattr(self, field.name) <= threading.TIMEOUT_MAX]
        if wrong:
            raise InvalidRequest(f"the limit {wrong[0]} must be more than 0, and less than a clock can count")
