"""The check of how long hooks take, against the limits that a host has for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from strongroom.host.conformance.stage import ALICE, BICYCLE, Stage, numbered
from strongroom.host.conformance.verdict import Check, Failed
from strongroom.host.limits import Limits

_LINES = 25


def in_time(stage: Stage) -> str:
    """Each hook that somebody waits for, once there is something to remember."""
    limits, agent = Limits(), stage.agent()
    late: list[str] = []

    def timed(hook: str, limit: float, call: Callable[[], Any]) -> None:
        begun = time.monotonic()
        call()
        if time.monotonic() - begun > limit:
            late.append(f"{hook} (limit {limit:g} s)")

    told = ALICE.told(agent.home)
    timed("initialize", limits.initialize, lambda: agent.call("initialize", ALICE.id, **told))
    for number in range(_LINES):
        timed("sync_turn", limits.drain, partial(agent.keep, numbered(number).said))
    timed("system_prompt_block", limits.system_prompt_block, lambda: agent.call("system_prompt_block"))
    timed("on_turn_start", limits.on_turn_start, lambda: agent.call("on_turn_start", 1, BICYCLE.said))
    timed("prefetch", limits.prefetch, lambda: agent.prefetch(BICYCLE.question))
    timed("on_pre_compress", limits.on_pre_compress, lambda: agent.call("on_pre_compress", list(agent.messages)))
    timed("on_session_end", limits.drain, lambda: agent.call("on_session_end", list(agent.messages)))
    timed("shutdown", limits.shutdown, lambda: agent.call("shutdown"))
    if late:
        raise Failed(f"later than a host waits: {', '.join(dict.fromkeys(late))}")
    return f"each hook returned within its limit, with {_LINES} turns kept"


CHECKS = (
    Check(
        "in-time",
        "Each hook returns within the host's limit",
        f"Keeps {_LINES} turns and measures each hook that somebody waits for.",
        "What is late is left out of the turn, and a provider that is stuck is not asked again until it returns.",
        in_time,
        seconds=180,
    ),
)
