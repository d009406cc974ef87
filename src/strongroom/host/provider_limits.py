"""Limits of a provider's time, text, threads and bytes, as one object that a runtime can change."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields

from strongroom.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits in seconds, one for each hook with an answer, and limits on characters, threads and bytes."""

    initialize: float = 10.0
    system_prompt_block: float = 2.0
    on_turn_start: float = 1.0
    prefetch: float = 2.0
    handle_tool_call: float = 60.0
    on_pre_compress: float = 5.0
    cache_busting_signature: float = 1.0
    catching_up: float = 1.0
    """Most seconds that a call waits until the provider has got earlier memory writes and delegations."""
    drain: float = 5.0
    """Most seconds that the end of a session waits until the provider has got everything."""
    shutdown: float = 5.0
    recovered_turn: float = 60.0
    """Most seconds for a turn that an earlier process left. A slower provider gets the turn again at the next start."""
    recalled: int = 8_000
    """Maximum number of characters of recalled text in one turn."""
    prompt_block: int = 16_000
    """Maximum number of characters of one provider in the system prompt."""
    compressed: int = 6_000
    """Maximum number of characters for the summary of a compression."""
    asking_threads: int = 16
    """Number of threads for calls with an answer, in the whole host."""
    keeping_threads: int = 8
    """Number of threads for hooks without an answer, in the whole host."""
    held: float = 1.0
    """Seconds for which a call may hold a thread before a spare thread may be added."""
    spare_threads: int = 32
    """Maximum number of spare threads in each of the two pools. Beyond that, calls wait."""
    waiting_turns: int = 256
    """Maximum number of turns of one agent that wait in RAM for a slow provider. Further turns stay in the journal."""
    journal_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        wrong = [field.name for field in fields(self) if not 0 < getattr(self, field.name) <= threading.TIMEOUT_MAX]
        if wrong:
            raise InvalidRequest(f"the limit {wrong[0]} must be a number above 0 that a clock can count")
