"""The queue of hooks for one agent's provider. Hooks run in order, off the turn's thread.

A turn is in the journal before `turn` returns and stays there until the provider has taken it (write-ahead). If the
queue in RAM is full, further turns wait in the journal until a host next starts.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from ulid import ULID

from strongroom.errors import JournalUnavailable
from strongroom.host.agent_session import AgentSession
from strongroom.host.isolation import IsolatedProvider, log
from strongroom.host.provider_interface import Message
from strongroom.host.recall_fence import without_recalled, writable
from strongroom.host.turn_journal.journal import Journal
from strongroom.host.turn_journal.record_format import Turn, pack_messages
from strongroom.host.worker_pool import Lane, Workers

_MESSAGES_BYTES = 1024 * 1024
_MARKS = 64
_MORE = 64
"""How many other events may wait, in addition to the waiting turns."""
_REPEATED = "[only what was recalled]"
_AWAITED = ("on_memory_write", "on_delegation")
"""Hooks that Hermes finishes before the turn goes on. Here, the next call with an answer waits for these hooks."""


class TurnQueue:
    """The queue of hooks for one agent and its provider."""

    def __init__(
        self,
        provider: IsolatedProvider,
        session: AgentSession,
        home: str,
        journal: Journal,
        workers: Workers,
        most: int,
        warn: Callable[[str], None],
    ) -> None:
        self._provider = provider
        self._session = writable(session.id)
        known = session.told(home)
        self._told = {name: writable(value) for name, value in known.items() if isinstance(value, str)}
        """The text arguments of `initialize`, for the journal. Callbacks cannot be stored."""
        self._journal = journal
        self._workers = workers
        self._lane = Lane(workers)
        self._awaited: Future[None] | None = None
        """Completed once the provider has received the latest event of a hook in `_AWAITED`."""
        self._most = most
        self._warn = warn
        self.marks: deque[str] = deque(maxlen=_MARKS)
        """The marks of the fences in which text was last shown to the agent."""
        self._seen = 0
        self._behind = False
        self._over = False

    def tell(self, hook: str, /, *args: Any, **keywords: Any) -> None:
        """Queue a hook. If the queue is full, the hook is dropped with a warning."""
        if len(self._lane) >= self._most + _MORE:
            log.warning("memory provider %s is far behind, so %s is skipped for it", self._provider.name, hook)
            return
        heard: Future[None] = Future()
        if self._lane.submit(partial(self._say, heard, hook, args, keywords)) and hook in _AWAITED:
            self._awaited = heard

    def catch_up(self, seconds: float, most: float) -> float:
        """Wait until the provider has got earlier writes and delegations. Returns the seconds left for a call.

        The wait takes half of the seconds at most, and happens once for each event: a slow provider must not delay
        every call.
        """
        awaited, self._awaited = self._awaited, None
        if awaited is None or awaited.done():
            return seconds
        begun = time.monotonic()
        self._workers.wait(awaited, min(most, seconds / 2))
        if not awaited.done():
            log.warning("memory provider %s is asked before it has received all earlier events", self._provider.name)
        return max(0.0, seconds - (time.monotonic() - begun))

    def turn(self, session_id: str, user: str, assistant: str, messages: Sequence[Message] | None) -> None:
        """Store a turn. It is in the journal when this returns. If the journal fails, the log and the user are told."""
        if not user.strip() or not assistant.strip():
            return  # an interrupted turn
        said = None if messages is None else [self._cleaned(message) for message in messages]
        user, assistant = (without_recalled(text, self.marks).strip() or _REPEATED for text in (user, assistant))
        number, name = self._journalled(session_id, user, assistant, self._fresh(said))
        if self._behind or len(self._lane) >= self._most:
            self._fall_behind(number)
            return
        self._lane.submit(partial(self._hand_over, number, name, session_id, user, assistant, said))

    def anew(self) -> None:
        """Note that the history was replaced: all messages of the next turn count as new."""
        self._seen = 0

    def drained(self, seconds: float) -> bool:
        """Wait until the provider has received every queued hook. False if the time runs out first."""
        return self._lane.drained(seconds)

    def stop(self, seconds: float) -> None:
        """Deliver the queued hooks within this time, then close the queue."""
        if not self._lane.drained(seconds):
            log.warning(
                "memory provider %s did not take everything in time; its turns are in the journal for the next start",
                self._provider.name,
            )
        self._over = True
        self._lane.close()

    def _say(self, heard: Future[None], hook: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self._provider.tell(hook, *args, **keywords)
        heard.set_result(None)

    def _fresh(self, messages: Sequence[Message] | None) -> list[Any] | None:
        """The new messages of this turn: those added since the last turn, or all messages if the history became
        shorter.
        """
        if messages is None:
            return None
        start = self._seen if len(messages) > self._seen else 0
        self._seen = len(messages)
        return list(messages[start:])

    def _cleaned(self, message: Message) -> Message:
        content = message.get("content") if isinstance(message, Mapping) else None
        if not isinstance(content, str) or not any(mark in content for mark in self.marks):
            return message
        return {**message, "content": without_recalled(content, self.marks)}

    def _journalled(self, session_id: str, user: str, assistant: str, fresh: list[Any] | None) -> tuple[int, str]:
        """Append a turn to the journal. Returns its number and its name. The number is 0 if the journal failed."""
        turn = Turn(
            provider=writable(self._provider.name),
            session=self._session,
            told=self._told,
            user=writable(user),
            assistant=writable(assistant),
            current=writable(session_id),
            messages=pack_messages(fresh, _MESSAGES_BYTES),
        )
        try:
            number = self._journal.append(turn)
            return number, self._journal.name_of(number)
        except JournalUnavailable as error:
            log.error("a turn is not in the journal: %s", error.message)
            self._warn("memory: the last turn is not on disk yet; see the runtime's log")
            return 0, str(ULID())

    def _hand_over(
        self, number: int, name: str, session_id: str, user: str, assistant: str, messages: list[Message] | None
    ) -> None:
        extra = {"turn_id": name} if messages is None else {"turn_id": name, "messages": messages}
        if self._provider.tell("sync_turn", user, assistant, session_id=session_id, **extra) and number:
            self._journal.taken(number)
        if not self._over:  # the provider may have been shut down meanwhile
            self._provider.tell("queue_prefetch", user, session_id=session_id)

    def _fall_behind(self, number: int) -> None:
        name = self._provider.name
        if not self._behind:
            log.warning("memory provider %s is far behind; turns wait in the journal for the next start", name)
        self._behind = True
        if not number:
            log.error(
                "memory provider %s: a turn is lost, because neither the provider nor the journal accepts it", name
            )
