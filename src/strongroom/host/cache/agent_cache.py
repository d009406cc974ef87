"""A cache of a gateway's agents between messages, and the rules for building an agent anew.

A chat's agent is reused as long as it would be built the same way: with the same runtime settings, for the same user,
with the same settings of its memory provider. The cache asks the provider for a signature of its settings
(`cache_busting_signature`), once for each message. This module knows no provider and opens no file.

Rules:

- Each key has one agent, which handles one message at a time; a second message waits. Different keys never wait for
  each other, neither while an agent is built nor while it is ended.
- Each agent is ended once: when it is replaced, discarded or idle for too long, when there are too many agents, or when
  the cache is closed. An error at its end is logged. The next agent of the key is built only after this end.
- The cache has no thread. `sweep` ends agents that are idle or too many. Every lease calls `sweep` after it has given
  its agent back, so send the answer before the lease ends.
- At most `capacity` agents are kept, apart from agents in use. There are as many agents in use as messages that the
  runtime handles at once. A chat is never turned away, and never waits because other chats are busy.
- Only a keyed hash of the settings is kept.

The provider's first signature after the build is compared with its later signatures. If the provider reads its settings
file again for the signature, an edit during the build is noticed only at the next edit. If the signature comes from the
settings that `initialize` read, no edit is missed. None, an error, or an answer that is not a mapping of JSON values
counts as no change.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from strongroom.errors import InvalidRequest
from strongroom.host.cache.key_lock import KeyLocks
from strongroom.host.cache.settings_fingerprint import Fingerprint, fingerprint

_log = logging.getLogger("strongroom.host")


class AgentMemory(Protocol):
    """The part of an agent's memory that the cache needs. `MemoryManager` has it."""

    def cache_busting_signature(self) -> Mapping[str, Any] | None: ...


class Agent(Protocol):
    """The part of a runtime's agent that the cache needs."""

    @property
    def memory(self) -> AgentMemory: ...

    def end(self) -> None:
        """End the provider's session: `memory.end(messages)`. Called once, on any thread; must return eventually."""


A = TypeVar("A", bound=Agent)
Runtime = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class User:
    """The speaker, as the platform names them. The session id must not stand here, because it identifies nobody."""

    id: str = ""
    id_alt: str = ""


Build = Callable[[str, Runtime, User], A]
"""A function that makes the agent for a key. It may be slow, and must not lease the same key."""


@dataclass(slots=True)
class _Kept(Generic[A]):
    agent: A
    made_for: Fingerprint
    used: float
    said: Fingerprint | None = None
    """The hash of the provider's first signature, with which later signatures are compared."""


class AgentCache(Generic[A]):
    """A cache of agents by session key. It ends agents that are idle for too long or least recently used."""

    def __init__(
        self,
        build: Build[A],
        *,
        capacity: int = 128,
        idle: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if capacity < 1 or not idle > 0:
            raise InvalidRequest("a cache needs a capacity of 1 or more, and an idle time above 0 seconds")
        self._build = build
        self._capacity = capacity
        self._idle = idle
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._turns = KeyLocks()
        # Least recently used first. Changed only by the holder of the key's turn, under the lock of the turns.
        self._kept: OrderedDict[str, _Kept[A]] = OrderedDict()
        self._unwanted: set[str] = set()
        self._complained: set[str] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._kept)

    @contextmanager
    def agent(self, key: str, *, runtime: Runtime, user: User) -> Iterator[A]:
        """Lease the agent of a key for one message. An agent is built if no cached agent fits.

        `runtime` is everything that the agent was built from, as JSON values; leave out settings that change without a
        rebuild. An error from the build goes to the caller and leaves the key without an agent.

        Raises InvalidRequest if a thread asks twice for a key, or if threads would wait for each other in a circle.
        Raises ProviderUnavailable if the cache is closed.
        """
        made_for = fingerprint({"runtime": runtime, "user": [user.id, user.id_alt]}, self._key)
        self._turns.take(key)
        try:
            agent = self._fitting(key, made_for)
            yield self._built(key, made_for, runtime, user) if agent is None else agent
        finally:
            self._give_back(key)
            self.sweep()

    def discard(self, key: str) -> None:
        """End the agent of a key. An agent in use is ended when its lease ends; this call does not wait for that."""
        with self._turns.changed:
            if not self._turns.try_take(key):
                self._unwanted.add(key)
                return
        self._end_and_give(key)

    def sweep(self) -> None:
        """End the agents that were unused for `idle` seconds, and the least recently used agents beyond `capacity`."""
        while (key := self._take_one_to_end()) is not None:
            self._end_and_give(key)

    def close(self, wait: float = 10.0) -> bool:
        """Refuse further messages and end every agent. Returns True if all agents are ended.

        Agents that are not in use are ended here, one after the other. Then this call waits up to `wait` seconds for
        the agents in use. Each agent in use is ended when its lease ends, even if that is later. A lease of this thread
        is not waited for.
        """
        with self._turns.changed:
            self._closed = True
            self._turns.close()
        self.sweep()
        with self._turns.changed:
            self._turns.changed.wait_for(self._turns.only_mine, wait)
            return not len(self._turns)

    # One message. This thread has the key's turn.

    def _fitting(self, key: str, made_for: Fingerprint) -> A | None:
        """The cached agent, if it would be built the same way now. Otherwise the cached agent is ended, and None is
        returned.
        """
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.made_for == made_for and not self._is_over(kept) and self._says_the_same(kept):
            return kept.agent
        self._end(key)
        return None

    def _built(self, key: str, made_for: Fingerprint, runtime: Runtime, user: User) -> A:
        agent = self._build(key, runtime, user)
        kept = _Kept(agent, made_for, self._clock())
        with self._turns.changed:
            self._kept[key] = kept
        kept.said = self._ask(agent)
        return agent

    def _says_the_same(self, kept: _Kept[A]) -> bool:
        says = self._ask(kept.agent)
        if kept.said is None:
            kept.said = says
        return says is None or says == kept.said

    def _ask(self, agent: A) -> Fingerprint | None:
        try:
            said = agent.memory.cache_busting_signature()
            if said is None:
                return None
            if not isinstance(said, Mapping):
                raise InvalidRequest(f"a signature must be a mapping, not a {type(said).__name__}")
            return fingerprint(said, self._key)
        except Exception as error:  # noqa: BLE001 - a provider's fault never breaks a turn
            self._complain(agent, type(error).__name__)
            return None

    def _complain(self, agent: A, kind: str) -> None:
        """Warn once for each provider, not for each message. The text of the error is left out: it could hold a
        setting.
        """
        name = _provider_of(agent)
        if name not in self._complained:
            self._complained.add(name)
            _log.warning("%s: cache_busting_signature failed (%s), so its settings count as unchanged", name, kind)

    # Ending.

    def _give_back(self, key: str) -> None:
        with self._turns.changed:
            kept = self._kept.get(key)
            if kept is None or (key not in self._unwanted and not self._closed):
                self._touch(key, kept)
                self._unwanted.discard(key)
                self._turns.give(key)
                return
        self._end_and_give(key)

    def _touch(self, key: str, kept: _Kept[A] | None) -> None:
        if kept is not None:
            kept.used = self._clock()
            self._kept.move_to_end(key)

    def _end_and_give(self, key: str) -> None:
        try:
            self._end(key)
        finally:
            with self._turns.changed:
                self._unwanted.discard(key)
                self._turns.give(key)

    def _end(self, key: str) -> None:
        """Remove the key's agent from the cache, then end it. In this order it cannot be ended twice."""
        with self._turns.changed:
            kept = self._kept.pop(key, None)
        if kept is None:
            return
        try:
            kept.agent.end()
        except Exception as error:  # noqa: BLE001 - a provider's fault never breaks a turn
            _log.warning("%s: the end of a session failed (%s)", _provider_of(kept.agent), type(error).__name__)

    def _take_one_to_end(self) -> str | None:
        with self._turns.changed:
            for key, kept in self._kept.items():
                if not (self._closed or len(self._kept) > self._capacity or self._is_over(kept)):
                    return None  # the later ones were used more recently
                if self._turns.try_take(key):
                    return key
            return None

    def _is_over(self, kept: _Kept[A]) -> bool:
        return self._clock() - kept.used >= self._idle


def _provider_of(agent: Agent) -> str:
    """The name of the agent's provider for the log, or the agent's class if there is no such name."""
    name = getattr(agent.memory, "external_name", "")
    return name or type(agent).__name__
