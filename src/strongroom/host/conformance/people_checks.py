"""Checks that people cannot read the lines of others: two people, ten people at once, and chats with similar keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from strongroom.host.agent_session import AgentSession
from strongroom.host.conformance.call_checks import together
from strongroom.host.conformance.check_stage import ALICE, BICYCLE, BOB, LOCKER, CheckStage, numbered, person
from strongroom.host.conformance.scripted_agent import SpokenLine, TestedAgent
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable

_MANY = 10
_LONG = "room:" + "0123456789" * 30
_ALIKE = (
    *(("webui:用户一", "webui:客户二"), ("team:alpha", "team-alpha"), ("用户", "客户"), ("!!!", "???")),
    *((f"{_LONG}-one", f"{_LONG}-two"), ("room:AbCdEf", "room:aBcDeF")),
)
_PAIRS = (
    ("", ALICE, BOB),
    (", where only the user ids differ", ALICE, replace(ALICE, user_id=BOB.user_id)),
)
_CAROL = person("carol")
_DIFFERENT = ("webui:user-42", "webui:user-99")


def two_users(stage: CheckStage) -> str:
    """Store a line as Alice and search for it as Bob. Both use the same session id, as two API users can."""
    stage.needs_memory()
    for where, one, other in _PAIRS:
        leaks = _leaks(stage, replace(one, id="api-1"), replace(other, id="api-1"))
        if leaks:
            raise Failed(f"what one user said is {' and '.join(leaks)}{where}")
    group = _in_a_group(stage)
    return f"what one user said came back to that user and not to the other, in {len(_PAIRS)} ways to be another{group}"


def _in_a_group(stage: CheckStage) -> str:
    """Check that lines said in a group stay apart from lines said in private.

    Each person may have a memory of their own in the group. Or the group may have one memory, which all members read:
    it must hold no private line, and its lines must not be recalled outside the group.
    """
    alice, carol = _in_choir(ALICE), _in_choir(_CAROL)
    leaks = _leaks(stage, replace(alice, id="api-1"), replace(carol, id="api-1"))
    if not leaks:
        return ", and not in a group"
    if stage.reads(_CAROL, LOCKER):
        raise Failed("what one user said in a group is recalled for another in a chat of their own")
    _tell_and_wait(stage, stage.started(ALICE), BICYCLE)
    if stage.reads(carol, BICYCLE) or stage.reads(alice, BICYCLE):
        raise Failed(f"what one user said in private is recalled in a group, where it is {' and '.join(leaks)}")
    return ", and a group has a memory of its own"


def _in_choir(one: AgentSession) -> AgentSession:
    """The person's session in a group, where the runtime has a session for each member."""
    key = f"agent:main:telegram:group:chat-choir:{one.user_id}"
    return replace(one, chat_id="chat-choir", chat_name="Choir", chat_type="group", gateway_session_key=key)


def _leaks(stage: CheckStage, one: AgentSession, other: AgentSession) -> list[str]:
    """The places where the second person can read the line that the first person said."""
    alice, bob = stage.started(one), stage.started(other)
    _tell_and_wait(stage, alice)
    alice.call("queue_prefetch", LOCKER.question, session_id=alice.session.id)
    shown = {
        "recalled for another": f"{bob.recall(LOCKER.question)}\n{stage.fresh(other).recall(LOCKER.question)}",
        "in another's system prompt": str(bob.call("system_prompt_block")),
        "kept at another's compression": str(bob.call("on_pre_compress", [{"role": "user", "content": "Hello"}])),
    }
    leaks = [where for where, text in shown.items() if LOCKER.answer in text]
    alice.stop()
    if not leaks and stage.reads(other, LOCKER):
        return ["recalled for another, once the session has ended"]
    return leaks


def ten_at_once(stage: CheckStage) -> str:
    """Run ten agents of ten people at once, each on a thread of its own."""
    stage.needs_memory()
    apart = not _is_shared(stage, person, "first", "second")
    people = [stage.started(person(f"person{number}")) for number in range(_MANY)]

    def speak(number: int) -> bool:
        people[number].turn(numbered(number).said)
        if stage.way != "sync_turn":
            stage.tell(people[number], numbered(number))
        return stage.keeps(people[number], numbered(number))

    kept = together(*(partial(speak, number) for number in range(_MANY)))
    mixed = sum(_hears_others(people[number], number) for number in range(_MANY)) if apart else 0
    together(*(agent.stop for agent in people))
    if not all(kept):
        raise Failed(f"of {_MANY} agents at once, {kept.count(False)} did not recall their own line")
    if mixed:
        raise Failed(f"of {_MANY} agents at once, {mixed} recalled another's line, which they do not one by one")
    return f"{_MANY} agents at once each recalled their own line"


def _hears_others(agent: TestedAgent, number: int) -> bool:
    lines = [numbered(other) for other in range(_MANY) if other != number]
    return any(line.answer in agent.recall(line.question) for line in lines)


def alike_keys(stage: CheckStage) -> str:
    """Use chats that are identified by their keys alone, with keys that many programs would turn into the same name."""
    stage.needs_memory()
    by = {what: made for what, made in _KNOWN_BY.items() if not _is_shared(stage, made, *_DIFFERENT)}
    if not by:
        raise NotApplicable("chats and users share one memory, whatever their keys")
    mixed = {what: sum(_is_shared(stage, made, *pair) for pair in _ALIKE) for what, made in by.items()}
    told = [f"{count} of {len(_ALIKE)} pairs of {what}" for what, count in mixed.items() if count]
    if told:
        raise Failed(f"{' and '.join(told)} that look alike read each other's lines")
    return f"{len(_ALIKE)} pairs of {' and of '.join(by)} that look alike stayed apart"


def _is_shared(stage: CheckStage, made: Callable[[str], AgentSession], one: str, other: str) -> bool:
    _tell_and_wait(stage, stage.started(made(one)))
    return stage.reads(made(other), LOCKER)


def _tell_and_wait(stage: CheckStage, agent: TestedAgent, line: SpokenLine = LOCKER) -> None:
    stage.tell(agent, line)
    if not stage.keeps(agent, line):
        raise Failed("a line that was told did not come back to who told it")


def _chat(key: str) -> AgentSession:
    return AgentSession(id="api-2", platform="api_server", gateway_session_key=key)


def _user(key: str) -> AgentSession:
    return AgentSession(id="api-3", platform="api_server", user_id=key)


_KNOWN_BY: dict[str, Callable[[str], AgentSession]] = {"chat keys": _chat, "user ids": _user}

CHECKS = (
    Check(
        "two-users",
        "What one user says is not shown to another",
        "Two users with one session id in one process: one says something, and the other asks for it. Then two of one "
        "name in one chat, whose user ids alone differ, and two in one group, who may share what is said there and "
        "nothing else.",
        "Gateways serve many people with one process. Session ids do not tell them apart; user ids and chat keys do.",
        two_users,
    ),
    Check(
        "ten-at-once",
        "Ten agents at once each recall their own line",
        "Ten agents of ten people, each on a thread of its own, keep a turn and recall it; then look for the others'.",
        "A gateway has many agents alive at once; locked databases and shared variables show only then.",
        ten_at_once,
    ),
    Check(
        "alike-keys",
        "Chats and users whose keys look alike stay apart",
        "Pairs of chat keys, then of user ids, that become one name if signs, letters, case or a long end are dropped.",
        "Names made from keys by replacing signs collide: two people who write in Chinese get one memory.",
        alike_keys,
        seconds=120,
    ),
)
