"""Checks of how long hooks take, compared with the host's limits."""

from __future__ import annotations

import threading
from typing import Any

from strongroom.host.conformance.check_stage import ALICE, BICYCLE, LOCKER, CheckStage, later, numbered, recalled
from strongroom.host.conformance.scripted_agent import REPLY, SpokenLine, TestedAgent, wait_until
from strongroom.host.conformance.verdict import Check, Failed
from strongroom.host.provider_limits import Limits

_LINES = 25
_LOOKED_FOR = (0, 12, 24)
_DOCUMENT = "a long document about many things " * 30_000


def in_time(stage: CheckStage) -> str:
    """Time each hook that the host waits for, once there are stored lines."""
    limits, agent = Limits(), stage.agent()
    _timed(agent, limits.initialize, "get_tool_schemas")
    _timed(agent, limits.initialize, "initialize", ALICE.id, **ALICE.told(agent.home))
    for number in range(_LINES):
        agent.messages += [{"role": "user", "content": numbered(number).said}, {"role": "assistant", "content": REPLY}]
        _timed(agent, limits.drain, "sync_turn", numbered(number).said, REPLY, session_id=ALICE.id)
    came_back = _recalled(stage, agent)
    _timed(agent, limits.system_prompt_block, "system_prompt_block")
    _timed(agent, limits.on_turn_start, "on_turn_start", 1, BICYCLE.said)
    _timed(agent, limits.prefetch, "prefetch", BICYCLE.question)
    _timed(agent, limits.on_turn_start, "cache_busting_signature")  # for each message, on the caller's thread
    _timed(agent, limits.drain, "queue_prefetch", BICYCLE.question, session_id=ALICE.id)
    _timed(agent, limits.drain, "on_memory_write", "add", "user", LOCKER.said, metadata={})
    _timed(agent, limits.drain, "on_delegation", "look it up", "found", child_session_id="child-1")
    _timed(agent, limits.on_pre_compress, "on_pre_compress", list(agent.messages))
    _timed(agent, limits.drain, "on_session_switch", ALICE.id, parent_session_id=ALICE.id, reason="compression")
    _timed(agent, limits.drain, "on_session_end", list(agent.messages))
    _timed(agent, limits.shutdown, "shutdown")
    return f"each hook returned within its limit, with {_LINES} turns kept{came_back}"


def _recalled(stage: CheckStage, agent: TestedAgent) -> str:
    """Fail if some of the turns come back and others do not. Returns an empty text if none of them does."""
    asked = {numbered(number): stage.fresh(agent.session) for number in _LOOKED_FOR}
    seen: set[SpokenLine] = set()

    def all_seen() -> bool:
        seen.update(line for line, other in asked.items() if line not in seen and recalled(line, agent, other))
        return len(seen) == len(asked)

    if wait_until(all_seen, agent.patience):
        return ", and the first, the middle and the last came back"
    if seen:
        lost = [str(number + 1) for number in _LOOKED_FOR if numbered(number) not in seen]
        raise Failed(f"of {_LINES} turns, turn {' and '.join(lost)} did not come back, and others did")
    return ""


def long_text(stage: CheckStage) -> str:
    """Pass a document of 1 MB to each hook that takes a text."""
    stage.learn()
    limits, agent = Limits(), stage.started()
    stage.tell(agent, LOCKER)
    _timed(agent, limits.on_turn_start, "on_turn_start", 1, _DOCUMENT)
    _timed(agent, limits.prefetch, "prefetch", _DOCUMENT)
    _timed(agent, limits.drain, "sync_turn", _DOCUMENT, REPLY, session_id=agent.session.id)
    _timed(agent, limits.prefetch, "prefetch", BICYCLE.question)
    if stage.way and not stage.started(later(ALICE)).keeps(LOCKER):
        raise Failed("a line that was told did not come back after a long text")
    return "each hook returned within its limit, with a text of 1 MB"


def _timed(agent: TestedAgent, limit: float, hook: str, *args: Any, **keywords: Any) -> None:
    """Call a hook, and fail if the call takes longer than a host waits."""
    raised: list[Failed] = []

    def call() -> None:
        try:
            agent.call(hook, *args, **keywords)
        except Failed as error:
            raised.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        raise Failed(f"{hook} took longer than the {limit:g} s that a host waits")
    if raised:
        raise raised[0]


CHECKS = (
    Check(
        "in-time",
        "Each hook returns within the host's limit",
        f"Keeps {_LINES} turns, measures each hook that somebody, or the next turn, waits for; asks for three turns.",
        "What is late is left out of the turn, and a provider that is stuck is not asked again until it returns.",
        in_time,
        seconds=180,
    ),
    Check(
        "long-text",
        "A pasted document does not hold it up",
        "Says a text of 1 MB and asks with it; measures each hook against the host's limit.",
        "People paste documents. One that keeps a search busy for minutes takes memory away from the chat.",
        long_text,
    ),
)
