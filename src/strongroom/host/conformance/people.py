"""Checks of who gets to read what: two people, ten at once, and chats whose keys look alike."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from strongroom.host.conformance.agent import Agent
from strongroom.host.conformance.calls import together
from strongroom.host.conformance.stage import ALICE, BOB, LOCKER, Stage, numbered, person
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable
from strongroom.host.session import AgentSession

_MANY = 10
_ALIKE = (("webui:用户一", "webui:客户二"), ("team:alpha", "team-alpha"), ("用户", "客户"))
_DIFFERENT = ("webui:user-42", "webui:user-99")


def two_users(stage: Stage) -> str:
    """What Alice says, and what Bob gets to read. Both have the same session id, as two API users can."""
    stage.needs_memory()
    alice, bob = stage.started(replace(ALICE, id="api-1")), stage.started(replace(BOB, id="api-1"))
    _tell_and_wait(stage, alice)
    shown = {
        "recalled for another": bob.recall(LOCKER.question),
        "in another's system prompt": str(bob.call("system_prompt_block")),
        "kept at another's compression": str(bob.call("on_pre_compress", [{"role": "user", "content": "Hello"}])),
    }
    leaks = [where for where, text in shown.items() if LOCKER.answer in text]
    if leaks:
        raise Failed(f"what one user said is {' and '.join(leaks)}")
    return "what one user said came back to that user and not to the other"


def ten_at_once(stage: Stage) -> str:
    """Ten agents of ten people, each on a thread of its own."""
    stage.needs_memory()
    people = [stage.started(person(f"person{number}")) for number in range(_MANY)]

    def speak(number: int) -> bool:
        people[number].turn(numbered(number).said)
        if stage.way != "sync_turn":
            stage.tell(people[number], numbered(number))
        return people[number].keeps(numbered(number))

    kept = together(*(partial(speak, number) for number in range(_MANY)))
    together(*(agent.stop for agent in people))
    if not all(kept):
        raise Failed(f"of {_MANY} agents at once, {kept.count(False)} did not recall their own line")
    return f"{_MANY} agents at once each recalled their own line"


def alike_keys(stage: Stage) -> str:
    """Chats that are known by their keys alone, with keys that many programs would make the same name of."""
    stage.needs_memory()
    if _is_shared(stage, *_DIFFERENT):
        raise NotApplicable("chats without a user share one memory, whatever their keys")
    mixed = [pair for pair in _ALIKE if _is_shared(stage, *pair)]
    if mixed:
        raise Failed(f"{len(mixed)} of {len(_ALIKE)} pairs of chats whose keys look alike read each other's lines")
    return f"{len(_ALIKE)} pairs of chats whose keys look alike stayed apart"


def _is_shared(stage: Stage, one: str, other: str) -> bool:
    _tell_and_wait(stage, stage.started(_chat(one)))
    return LOCKER.answer in stage.started(_chat(other)).recall(LOCKER.question)


def _tell_and_wait(stage: Stage, agent: Agent) -> None:
    stage.tell(agent, LOCKER)
    if not agent.keeps(LOCKER):
        raise Failed("a line that was told did not come back to who told it")


def _chat(key: str) -> AgentSession:
    return AgentSession(id="api-2", platform="api_server", gateway_session_key=key)


CHECKS = (
    Check(
        "two-users",
        "What one user says is not shown to another",
        "Two users with one session id in one process: one says something, and the other asks for it.",
        "Gateways serve many people with one process. Session ids do not tell them apart; user ids and chat keys do.",
        two_users,
    ),
    Check(
        "ten-at-once",
        "Ten agents at once each recall their own line",
        "Ten agents of ten people, each on a thread of its own, keep a turn and recall it at the same moment.",
        "A gateway has many agents alive at once; locked databases and shared variables show only then.",
        ten_at_once,
    ),
    Check(
        "alike-keys",
        "Chats whose keys look alike stay apart",
        "Pairs of chats with no user but a key, where both keys become the same name if signs or letters are dropped.",
        "Names made from keys by replacing signs collide: two people who write in Chinese get one memory.",
        alike_keys,
        seconds=120,
    ),
)
