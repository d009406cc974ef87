"""The setting of a check: a private home, people who speak, and agents with the provider.

All texts are fixed, so that two runs ask the same. Lines and questions are made so that plain word search finds them:
each word of a question is in the line, and the answer is not in the question.
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
"""Extra seconds for turns to come back after memory writes already did."""


def numbered(number: int) -> SpokenLine:
    """One of many different lines."""
    place = f"Hall{'abcdefghijklmnopqrstuvwxyz'[number % 26]}wick"
    return SpokenLine(f"The piano of {place} was tuned by badger{number:03}", f"piano of {place}", f"badger{number:03}")


def person(name: str) -> AgentSession:
    """The session of a person who writes from a chat of their own."""
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
    """The same person in the same chat, in a session of another id."""
    return replace(session, id=f"20260523_090000_{name}")


ALICE, BOB = person("alice"), person("bob")


class CheckStage:
    """The tools of a check: its subject, its home, and agents with the provider."""

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
        """A new object of the provider."""
        try:
            return self.factory()
        except ProviderUnavailable as error:
            why = error_location.without_paths(error.message, self.subject.environment.values())
            raise Failed(f"no object could be made: {why}") from error
        except Exception as error:
            raise Failed(f"no object could be made: {type(error).__name__}{error_location.place(error)}") from error

    def agent(self, session: AgentSession = ALICE) -> TestedAgent:
        """An agent that is not started yet."""
        return TestedAgent(self.made(), session, str(self.home), self.subject.patience, self.note)

    def started(self, session: AgentSession = ALICE) -> TestedAgent:
        """An agent whose provider is ready. NotApplicable if the provider is not set up."""
        agent = self.agent(session)
        if not agent.call("is_available"):
            raise NotApplicable(NOT_AVAILABLE)
        return agent.start()

    def fresh(self, session: AgentSession = ALICE) -> TestedAgent:
        """A started agent of the same person in a new session, because some providers show a line once per session."""
        return self.started(later(session, f"fresh-{token_hex(4)}"))

    # Telling

    @cached_property
    def way(self) -> str:
        """The hook through which this provider stores what it can recall later; empty if there is none.

        Known from the probe before the checks, or found out by `learn` before a check does anything that may break the
        provider. Later, a provider that broke would look like one that never stores anything.
        """
        known = self.subject.ways
        ways = self.found_ways(self.started(later(ALICE, "probe"))) if known is None else known
        return ways[0] if ways else ""

    def found_ways(self, agent: TestedAgent, *, whole: bool = False) -> list[str]:
        """The hooks through which lines came back, turns first. By default only up to the first."""
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
        """Whether the probe has shown that nothing stored through this hook is recalled."""
        return self.subject.ways is not None and way not in self.subject.ways

    def learn(self) -> None:
        """Find out now through which hook this provider stores something."""
        _ = self.way

    def needs_memory(self) -> None:
        """Raise NotApplicable for a provider that recalls nothing that was passed to it."""
        if not self.way:
            raise NotApplicable(NOTHING_CAME_BACK)

    def needs_turns(self) -> None:
        """Raise NotApplicable for a provider that stores no turns."""
        if self.way != "sync_turn":
            raise NotApplicable(NO_TURNS)

    def tell(self, agent: TestedAgent, line: SpokenLine) -> None:
        """Give the provider a line, by a hook whose content it stores."""
        tell(agent, line, self.way or "sync_turn")

    def keeps(self, agent: TestedAgent, line: SpokenLine) -> bool:
        """Whether a line comes back to its speaker, in the same session or in a new one of the same person.

        A provider may leave out lines of the current conversation.
        """
        if recalled(line, agent):
            return True
        other = self.fresh(agent.session)
        return wait_until(lambda: recalled(line, agent, other), self.subject.patience)

    def reads(self, session: AgentSession, line: SpokenLine) -> bool:
        """Whether a line is recalled at once in such a session, or in a new one of the same person."""
        return recalled(line, self.started(session), self.fresh(session))

    def expect(self, line: SpokenLine, session: AgentSession, after: str) -> None:
        """Fail if a fresh agent of that person does not recall the line."""
        self.needs_memory()
        if not self.fresh(session).keeps(line):
            raise Failed(f"a line that was told did not come back after {after}")

    def play(self, scene: str, **given: Any) -> isolated_run.Ended:
        """Run a function of the kit in another process, in the same home, and wait for it."""
        return isolated_run.run_in_process(scene, self.subject, self.room, given)


def recalled(line: SpokenLine, *agents: TestedAgent) -> bool:
    """Whether one of these agents recalls a line now."""
    return any(line.answer in agent.recall(line.question) for agent in agents)


def tell(agent: TestedAgent, line: SpokenLine, way: str) -> None:
    """Give the provider a line, by the given hook."""
    if way == "sync_turn":
        agent.keep(line.said)
    else:
        agent.write("add", line.said)
