"""The setting of a check: a private home, people who speak, and agents with the provider.

All texts are fixed, so that two runs ask the same questions. A plain word search can find each line: every word of its
question is in the line. The question does not contain the answer.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

from strongroom.errors import ProviderUnavailable
from strongroom.host import error_location
from strongroom.host.agent_session import AgentSession
from strongroom.host.conformance import isolated_run
from strongroom.host.conformance.provider_files import ProviderFiles
from strongroom.host.conformance.provider_under_test import Factory, Subject, factory_of
from strongroom.host.conformance.scripted_agent import SpokenLine, TestedAgent, wait_until
from strongroom.host.conformance.verdict import Failed, NotApplicable
from strongroom.host.provider_interface import MemoryProvider

NOTHING_CAME_BACK = "nothing that was told came back"
NOT_AVAILABLE = "the provider says that it is not available: it may need to be set up"
NO_TURNS = "it keeps no turns: nothing that sync_turn told came back"

LOCKER = SpokenLine("My locker in Quillmere has the code vermilionotter", "locker in Quillmere", "vermilionotter")
BICYCLE = SpokenLine("The bicycle from Tarnholm is painted cobaltheron", "bicycle from Tarnholm", "cobaltheron")
_TURN = SpokenLine("The soup from Ostwick needs a spoon of saffronlynx", "soup from Ostwick", "saffronlynx")
_WRITE = SpokenLine("The kite over Brenfell was sewn by umbermarten", "kite over Brenfell", "umbermarten")
_GRACE = 1.0
"""Extra seconds to wait for turns, after memory writes have already been recalled."""


def numbered(number: int) -> SpokenLine:
    """A line made from `number`, so that different numbers give different lines."""
    place = f"Hall{'abcdefghijklmnopqrstuvwxyz'[number % 26]}wick"
    return SpokenLine(f"The piano of {place} was tuned by badger{number:03}", f"piano of {place}", f"badger{number:03}")


def person(name: str) -> AgentSession:
    """The session of a person who writes from a private chat."""
    return AgentSession(
        id=f"20260522_101500_{name}",
        platform="telegram",
        agent_identity="default",
        agent_workspace="main",
        user_id=f"user-{name}",
        user_name=name,
        chat_id=f"chat-{name}",
        chat_name=name,
        chat_type="dm",
        gateway_session_key=f"agent:main:telegram:dm:chat-{name}",
    )


def later(session: AgentSession, name: str = "later") -> AgentSession:
    """A session with another id, of the same person in the same chat."""
    return replace(session, id=f"20260523_090000_{name}")


ALICE, BOB = person("alice"), person("bob")


class CheckStage:
    """The tools of a check: the provider under test, its home, and agents that use it."""

    def __init__(self, subject: Subject, room: isolated_run.CheckRoom) -> None:
        self.subject = subject
        self.room = room
        self.files = ProviderFiles(room)

    @property
    def home(self) -> Path:
        return self.room.home

    @cached_property
    def factory(self) -> Factory:
        return factory_of(self.subject, self.home)

    @cached_property
    def _notes(self) -> int:
        return os.open(self.room.last, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)

    def note(self, hook: str) -> None:
        """Record the hook that is called now, so that the report can name it if it never returns."""
        os.pwrite(self._notes, f"{hook:30}".encode(), 0)

    def made(self) -> MemoryProvider:
        """Make a new object of the provider."""
        try:
            return self.factory()
        except ProviderUnavailable as error:
            why = error_location.without_paths(error.message, self.subject.environment.values())
            raise Failed(f"no object could be made: {why}") from error
        except Exception as error:
            raise Failed(f"no object could be made: {type(error).__name__}{error_location.place(error)}") from error

    def agent(self, session: AgentSession = ALICE) -> TestedAgent:
        """An agent that has not been started."""
        return TestedAgent(self.made(), session, str(self.home), self.subject.patience, self.note)

    def started(self, session: AgentSession = ALICE) -> TestedAgent:
        """A started agent. Raises NotApplicable if the provider says that it is not available."""
        agent = self.agent(session)
        if not agent.call("is_available"):
            raise NotApplicable(NOT_AVAILABLE)
        return agent.start()

    def fresh(self, session: AgentSession = ALICE) -> TestedAgent:
        """A started agent of the same person in a new session.

        A new session is needed because some providers show a line only once per session.
        """
        return self.started(later(session, f"fresh-{token_hex(4)}"))

    # Telling

    @cached_property
    def way(self) -> str:
        """The hook through which this provider stores lines that it can recall later. Empty if there is no such hook.

        The probe finds the hook before the checks. Without a probe, a check calls `learn` before it does anything that
        may break the provider: a broken provider would look like a provider that never stores anything.
        """
        known = self.subject.ways
        ways = self.found_ways(self.started(later(ALICE, "probe"))) if known is None else known
        return ways[0] if ways else ""

    def found_ways(self, agent: TestedAgent, *, whole: bool = False) -> list[str]:
        """The hooks through which stored lines came back, `sync_turn` first.

        By default the search ends early: as soon as `sync_turn` is confirmed, or with another hook after a short wait.
        With `whole`, the search waits for both hooks.
        """
        lines = {"sync_turn": _TURN, "on_memory_write": _WRITE}
        for way, line in lines.items():
            tell(agent, line, way)
        others = {way: self.fresh(agent.session) for way in lines}
        begun = time.monotonic()
        seen: set[str] = set()

        def settled() -> bool:
            seen.update(way for way, line in lines.items() if recalled(line, agent, others[way]))
            late = time.monotonic() >= begun + min(_GRACE, self.subject.patience)
            return seen == set(lines) or (not whole and ("sync_turn" in seen or (late and bool(seen))))

        wait_until(settled, self.subject.patience)
        agent.stop()
        return [way for way in lines if way in seen]

    def cannot(self, way: str) -> bool:
        """True if the probe has shown that no line stored through the hook `way` is recalled."""
        return self.subject.ways is not None and way not in self.subject.ways

    def learn(self) -> None:
        """Find out now through which hook this provider stores lines."""
        _ = self.way

    def needs_memory(self) -> None:
        """Raise NotApplicable if the provider recalls nothing that was passed to it."""
        if not self.way:
            raise NotApplicable(NOTHING_CAME_BACK)

    def needs_turns(self) -> None:
        """Raise NotApplicable if the provider stores no turns."""
        if self.way != "sync_turn":
            raise NotApplicable(NO_TURNS)

    def tell(self, agent: TestedAgent, line: SpokenLine) -> None:
        """Give the provider a line, through the hook that it stores from."""
        tell(agent, line, self.way or "sync_turn")

    def keeps(self, agent: TestedAgent, line: SpokenLine) -> bool:
        """True if a line comes back to its speaker, in the same session or in a new session of the same person.

        The new session is tried because a provider may leave out lines of the current conversation.
        """
        if recalled(line, agent):
            return True
        other = self.fresh(agent.session)
        return wait_until(lambda: recalled(line, agent, other), self.subject.patience)

    def reads(self, session: AgentSession, line: SpokenLine) -> bool:
        """True if a line is recalled at once in the given session, or in a new session of the same person."""
        return recalled(line, self.started(session), self.fresh(session))

    def expect(self, line: SpokenLine, session: AgentSession, after: str) -> None:
        """Fail if a new session of the person in `session` does not recall the line."""
        self.needs_memory()
        if not self.fresh(session).keeps(line):
            raise Failed(f"a line that was told did not come back after {after}")

    def play(self, scene: str, **given: Any) -> isolated_run.Ended:
        """Run a function of the kit in another process, in the same home, and wait for it."""
        return isolated_run.run_in_process(scene, self.subject, self.room, given)


def recalled(line: SpokenLine, *agents: TestedAgent) -> bool:
    """True if any of the agents recalls the line now."""
    return any(line.answer in agent.recall(line.question) for agent in agents)


def tell(agent: TestedAgent, line: SpokenLine, way: str) -> None:
    """Give the provider a line through the hook `way`: as a turn, or as a write to the built-in memory."""
    if way == "sync_turn":
        agent.keep(line.said)
    else:
        agent.write("add", line.said)
