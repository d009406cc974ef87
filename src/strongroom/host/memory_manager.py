"""The memory of one agent: the built-in memory, and at most one external provider beside it.

A runtime holds one `MemoryManager` for each agent and calls it at each event of a conversation. The methods are named
after the provider hooks that they call. Hooks with an answer run with a time limit on threads that all agents share.
Other hooks go to the agent's queue and run in order, off the turn's thread. A turn is in the journal before `sync_turn`
returns. Not responsible for choosing the provider, nor for storing anything itself.

A manager serves one conversation: call its methods one at a time, from any thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from strongroom import fence
from strongroom.errors import InvalidRequest, ProviderRefused
from strongroom.host import error_location, home_paths, recall_fence, tool_registry
from strongroom.host.agent_context import AgentContext, Reach, context_of
from strongroom.host.agent_session import AgentSession
from strongroom.host.builtin.builtin_memory import BuiltinMemory, Write
from strongroom.host.cache.settings_fingerprint import plain
from strongroom.host.call_adapter import signature_hooks
from strongroom.host.isolation import FAILED, IsolatedProvider, log
from strongroom.host.provider_interface import MemoryProvider, Message, Schema, Signature
from strongroom.host.provider_limits import Limits
from strongroom.host.turn_journal.journal import Journal
from strongroom.host.turn_queue import TurnQueue
from strongroom.host.worker_pool import Workers

BUILTIN = "builtin"


class Make(Protocol):
    """A function that makes the manager of an agent whose identity is known to be complete. `Host` implements it."""

    def __call__(self, session: AgentSession, reach: Reach | None, notes: Path | None) -> MemoryManager: ...


@dataclass(frozen=True, slots=True)
class Shared:
    """The things that all managers of a host share."""

    home: Path
    limits: Limits
    journal: Journal
    asking: Workers
    keeping: Workers
    make: Make
    reserved: Collection[str] = ()
    """Names of the runtime's own tools, which no provider may take."""


class MemoryManager:
    """The memory of one agent. Made by `Host.manager`, or by hand: `add` the provider, then `initialize`."""

    def __init__(self, shared: Shared, session: AgentSession, reach: Reach, notes: Path | None = None) -> None:
        if reach is Reach.FULL and session.context is not AgentContext.PRIMARY:
            raise InvalidRequest(
                f"an agent of the context {session.context} may not write to a provider",
                hint="give the agent Reach.RECALL, or less",
            )
        self.session = session
        self.reach = reach
        self._notes = notes or home_paths.builtin(shared.home, session)
        self.builtin = None if reach is Reach.NONE else self._made_builtin(self._notes)
        self._shared = shared
        self._limits = shared.limits
        self._session_id = session.id
        self._begun = False
        self._ending = threading.Lock()
        self._ended = False
        self._last_words: list[Message] = []
        self._turn = 0
        self._external: IsolatedProvider | None = None
        self._keeping: TurnQueue | None = None
        """The queue of hooks for the external provider. None if there is no provider, or nothing may be stored."""
        self._inner: list[IsolatedProvider] = self._first()
        self._schemas: list[Schema] = []
        self._routes: dict[str, IsolatedProvider] = {}
        self._signature_hooks: list[str] = []

    # Providers

    @property
    def external(self) -> MemoryProvider | None:
        """The external provider. None if there is none, or if it could not begin."""
        return None if self._external is None else self._external.provider

    @property
    def external_name(self) -> str:
        """The name of the external provider. Empty if there is none, or if it could not begin."""
        return "" if self._external is None else self._external.name

    @property
    def providers(self) -> tuple[MemoryProvider, ...]:
        """The providers in use, the built-in memory first."""
        return tuple(one.provider for one in self._all)

    def add(self, provider: MemoryProvider) -> None:
        """Add the external provider. An agent has at most one external provider. Add it before the session begins, and
        only if `reach` allows it.
        """
        self.take(IsolatedProvider.named(provider, self._shared.asking, self._shared.home, self._limits.initialize))

    def take(self, provider: IsolatedProvider) -> None:
        """Like `add`, for a provider that is isolated already."""
        name = provider.name
        if name.strip().casefold() == BUILTIN:
            raise ProviderRefused(
                f"{BUILTIN} is the name of the built-in memory", hint="give the provider another name"
            )
        if self._external is not None:
            raise ProviderRefused(
                f"{name} is refused: {self._external.name} is the external provider of this agent",
                hint="an agent has only one provider: name it in the runtime's settings",
            )
        if self._begun or self.reach not in (Reach.FULL, Reach.RECALL):
            when = "the session has begun" if self._begun else f"an agent of reach {self.reach.value} has none"
            raise ProviderRefused(f"{name} is refused: {when}")
        self._external = provider
        if self.reach is Reach.FULL:
            self._keeping = TurnQueue(
                self._external,
                self.session,
                str(self._shared.home),
                self._shared.journal,
                self._shared.keeping,
                self._limits.waiting_turns,
                self.warn,
            )

    def remove(self, name: str) -> None:
        """Remove the external provider before the session begins. The built-in memory stays."""
        if name == BUILTIN:
            raise ProviderRefused(
                "the built-in memory cannot be removed", hint="for an agent without memory, use Reach.NONE"
            )
        if self._external is None or self._external.name != name or self._begun:
            raise ProviderRefused(f"there is no external provider {name} to remove")
        self._external = self._keeping = None

    # The session

    def initialize(self) -> None:
        """Begin the session: gather the tools, then initialise each provider. A provider that fails is left out."""
        self._schemas, self._routes = tool_registry.gather_tools(
            self._offering, self._shared.reserved, self._limits.initialize
        )
        self._begun = True
        told = {**self.session.told(str(self._shared.home)), "turn_journal": True}
        for one in list(self._all):
            if one.ask("initialize", self._limits.initialize, FAILED, self.session.id, **told) is FAILED:
                self._lose(one)
        if self._external is not None:
            hooks, limit = partial(signature_hooks, self._external.provider), self._limits.cache_busting_signature
            self._signature_hooks = self._external.run("cache_busting_signature", limit, [], hooks)

    def temporary(self, context: AgentContext, *, reach: Reach | None = None) -> MemoryManager:
        """Make the memory of a short-lived agent beside this one: for a flush, a compression, a review or a task.

        The short-lived agent has this agent's person, chat and profile, and so the same notes. Its reach is `reach`, or
        by default the reach of its context. End the returned memory like any other.
        """
        context = context_of(context)
        if context is AgentContext.PRIMARY:
            raise InvalidRequest(
                "temporary() is not for a conversation's own agent",
                hint="make a conversation's memory with Host.manager",
            )
        return self._shared.make(replace(self.session, id=self._session_id, context=context), reach, self._notes)

    def system_prompt_block(self) -> str:
        """The texts of all providers for the system prompt."""
        said = (self._block(one).strip() for one in self._all)
        return "\n\n".join(block for block in said if block)

    def get_tool_schemas(self) -> list[Schema]:
        """The tools of all providers."""
        return list(self._schemas)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **about: Any) -> str:
        """Run a tool. The answer is always JSON; errors are answered as JSON with the key `error`."""
        provider = self._routes.get(tool_name)
        if provider is None:
            return tool_registry.refusal_answer(f"there is no tool {tool_name}")
        if provider.is_busy("handle_tool_call"):
            return tool_registry.refusal_answer(
                f"memory provider {provider.name} is still busy with an earlier call: {tool_name} was not called; "
                "try again later"
            )
        seconds = self._left(provider, self._limits.handle_tool_call)
        answer = provider.read(
            tool_registry.as_json_answer, "handle_tool_call", seconds, None, tool_name, args, **about
        )
        return answer or tool_registry.refusal_answer(f"{tool_name} did not work; the runtime's log says why")

    # A turn

    def on_turn_start(self, message: str, **about: Any) -> None:
        """Begin a turn with the user's message."""
        self._turn += 1
        if self._external is not None and self._keeping is not None:
            seconds = self._left(self._external, self._limits.on_turn_start)
            self._external.ask("on_turn_start", seconds, None, self._turn, message, **about)

    def prefetch(self, query: str) -> str:
        """Recall lines for a question, as text in a fence for this turn. Empty if nothing is recalled."""
        _check_text(query)
        if self._external is None or not query.strip():
            return ""
        seconds = self._left(self._external, self._limits.prefetch)
        text = self._external.text("prefetch", seconds, query, session_id=self._session_id)
        mark = fence.mark_of(os.urandom(fence.MARK_BYTES))
        if self._keeping is not None:
            self._keeping.marks.append(mark)
        return recall_fence.fence_recall(text, self._limits.recalled, mark)

    def sync_turn(self, user: str, assistant: str, messages: Sequence[Message] | None = None) -> None:
        """Store a complete turn. The turn is on disk when this returns, so that a crash cannot lose it.

        Both texts are needed: a turn without an answer was interrupted and is not stored. If the journal cannot be
        written, the provider still gets the turn, and the log and a notice to the user report the failure. A crash in
        the next moments can then lose the turn.
        """
        _check_text(user, assistant)
        if self._keeping is not None:
            self._keeping.turn(self._session_id, user, assistant, messages)
        elif self._ended:
            log.warning("a turn came after the end of its session and is not stored")

    def on_pre_compress(self, messages: Sequence[Message]) -> str:
        """Ask the providers which text to keep from messages that are about to be summarised."""
        limit = self._limits.on_pre_compress
        said = (one.text("on_pre_compress", self._left(one, limit), list(messages)).strip() for one in self._telling)
        return recall_fence.within("\n\n".join(block for block in said if block), self._limits.compressed)

    # Other events

    def on_delegation(self, task: str, result: str, *, child_session_id: str = "", **about: Any) -> None:
        """Report that a subagent came back with a result."""
        self._tell("on_delegation", task, result, child_session_id=child_session_id, **about)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        reason: str = "",
    ) -> None:
        """Continue under another session id, or with turns taken back."""
        self._session_id = new_session_id
        if reset:
            self._turn = 0
        if self._keeping is not None:
            self._keeping.anew()
        if self.builtin is not None:
            self.builtin.on_session_switch(new_session_id, rewound=rewound)
        extra = {"rewound": True} if rewound else {}
        about = {"parent_session_id": parent_session_id, "reset": reset, "reason": reason, **extra}
        self._tell("on_session_switch", new_session_id, **about)

    def on_session_end(self, messages: Sequence[Message]) -> None:
        """Tell the provider that the conversation is over, or that its messages are dropped. Earlier turns are told
        first.
        """
        self._tell("on_session_end", list(messages))

    def cache_busting_signature(self) -> Signature | None:
        """The external provider's settings as a signature, for `AgentCache`. None if the provider gives none."""
        external = self._external
        if external is None:
            return None
        limit = self._limits.cache_busting_signature
        said = (external.read(_signature, hook, limit, None) for hook in self._signature_hooks)
        return next((given for given in said if given is not None), None)

    def flush(self, seconds: float) -> bool:
        """Wait until the provider has got everything that was queued. False if the time runs out first."""
        return self._keeping is None or self._keeping.drained(seconds)

    def end(self, messages: Sequence[Message] = ()) -> None:
        """End the session and shut the provider down, within the limits. No hook is called afterwards. Idempotent.

        Turns that the provider did not take stay in the journal.
        """
        self._last_words = list(messages)
        end_together([self], self._limits)

    def _say_goodbye(self) -> Callable[[float], None] | None:
        """Queue the hook `on_session_end`. Returns a function that waits for the queue, or None if the session had
        ended before.
        """
        with self._ending:
            ended, self._ended = self._ended, True
            keeping, self._keeping = self._keeping, None
        if ended:
            return None
        if keeping is None:
            return lambda _: None
        keeping.tell("on_session_end", self._last_words)
        return keeping.stop

    def _shut_down(self) -> Callable[[float], object]:
        """Start the shutdown of the provider. Returns a function that waits for it. No hook is called afterwards."""
        external, self._external = self._external, None
        self._routes = {name: one for name, one in self._routes.items() if one is not external}
        return (lambda _: None) if external is None else external.let_go()

    # Internal

    @property
    def _all(self) -> list[IsolatedProvider]:
        return self._inner if self._external is None else [*self._inner, self._external]

    @property
    def _telling(self) -> list[IsolatedProvider]:
        return self._inner if self._keeping is None else self._all

    @property
    def _offering(self) -> list[IsolatedProvider]:
        """The providers whose tools are offered. Tools of the external provider may write, so they need reach FULL."""
        return self._all if self.reach is Reach.FULL else self._inner

    def _made_builtin(self, notes: Path) -> BuiltinMemory:
        return BuiltinMemory(
            notes,
            status=self.session.status_callback,
            on_write=self._written,
            writable=self.reach is not Reach.RECALL,
        )

    def _first(self) -> list[IsolatedProvider]:
        # The built-in memory is our own code: it needs no thread, and must work while providers hold all of them.
        return [] if self.builtin is None else [IsolatedProvider(self.builtin, BUILTIN, None, self._shared.home)]

    def _left(self, provider: IsolatedProvider, seconds: float) -> float:
        """The seconds left for a call, after waiting until the provider has got earlier writes and delegations."""
        if provider is not self._external or self._keeping is None or provider.late:
            return seconds
        return self._keeping.catch_up(seconds, self._limits.catching_up)

    def _lose(self, provider: IsolatedProvider) -> None:
        self._routes = {name: one for name, one in self._routes.items() if one is not provider}
        self._schemas = [schema for schema in self._schemas if schema["name"] in self._routes]
        if provider is self._external:
            provider.let_go()(self._limits.shutdown)
            self._external = self._keeping = None
            self.warn(f"memory provider {provider.name} could not begin; this session goes on without it")

    def _block(self, provider: IsolatedProvider) -> str:
        said = provider.text("system_prompt_block", self._left(provider, self._limits.system_prompt_block))
        return recall_fence.within(said, self._limits.prompt_block)

    def _tell(self, hook: str, /, *args: Any, **keywords: Any) -> None:
        if self._keeping is not None:
            self._keeping.tell(hook, *args, **keywords)

    def _written(self, write: Write) -> None:
        """Tell the external provider of a change that the built-in memory has committed."""
        about = {
            "write_origin": "assistant_tool",
            "execution_context": "foreground",
            "session_id": self._session_id,
            "parent_session_id": self.session.parent_session_id,
            "platform": self.session.platform,
            "tool_name": "memory",
            "old_text": write.old_text,
        }
        metadata = {name: value for name, value in about.items() if value}
        self._tell("on_memory_write", write.action, write.target, write.content, metadata=metadata)

    def warn(self, notice: str) -> None:
        """Show a notice to the user, if the runtime has a callback for notices."""
        if self.session.warning_callback is not None:
            try:
                self.session.warning_callback(notice)
            except Exception as error:  # noqa: BLE001 - the runtime's own fault must not break the turn
                log.warning("the warning callback raised %s", type(error).__name__)


def end_together(managers: Sequence[MemoryManager], limits: Limits) -> None:
    """End several agents within the time limit of one agent. All are told to end first; then all are waited for
    together.
    """
    ending = [(one, stop) for one in managers if (stop := one._say_goodbye()) is not None]
    deadline = time.monotonic() + limits.drain
    for _, stop in ending:
        stop(max(0.0, deadline - time.monotonic()))
    shutting = [one._shut_down() for one, _ in ending]
    deadline = time.monotonic() + limits.shutdown
    for ended in shutting:
        ended(max(0.0, deadline - time.monotonic()))


def _signature(given: object) -> object:
    """A copy of a provider's signature in plain types, because reading the provider's own mapping may run its code."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"a signature must be a mapping, not a {error_location.kind(given)}")
    return plain(given)


def _check_text(*texts: object) -> None:
    for text in texts:
        if not isinstance(text, str):
            raise InvalidRequest(
                f"a turn must consist of texts, not of a {type(text).__name__}",
                hint="join the text parts of each message into one text",
            )
