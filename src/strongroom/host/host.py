"""The host: runs memory providers for any number of agents in one process.

The host holds the things that all agents share (threads, the journal, the factory of providers) and makes the memory of
each agent. Before the host makes the first memory, it hands over the turns that an earlier process left in the journal.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path

from ulid import ULID

from strongroom.crypto import chunked_aead
from strongroom.errors import IdentityIncomplete, InvalidRequest, ProviderUnavailable, StrongroomError
from strongroom.host import crash_recovery, error_location, home_paths
from strongroom.host.agent_context import DEFAULT_REACH, AgentContext, Reach, context_of
from strongroom.host.agent_session import AgentSession
from strongroom.host.crash_recovery import Recovered
from strongroom.host.isolation import IsolatedProvider, isolate, log
from strongroom.host.memory_manager import MemoryManager, Shared, end_together
from strongroom.host.plugins import discovery, env_file
from strongroom.host.provider_interface import MemoryProvider
from strongroom.host.provider_limits import Limits
from strongroom.host.turn_journal import journal
from strongroom.host.turn_journal.journal import Journal
from strongroom.host.worker_pool import Workers
from strongroom.keys.sources import default_directory
from strongroom.private_files import make_directory

Factory = Callable[[], MemoryProvider]


class Host:
    """Runs providers for the agents of one process. Every method may be called from any thread.

    `provider` is a name to look up, or a factory of new objects. Without a provider, agents have the built-in memory
    alone. The journal's key is stored in `keys`, a directory outside of `home`, because `home` may be backed up.
    `reserved_tools` are the names of the runtime's own tools, which no provider can take.

    Set-up writes secrets to `home/.env`, and providers look for them in the environment. So variables in that file are
    added to this process's environment if they are not set there. Variables that decide which programs run are left
    out.
    """

    def __init__(
        self,
        home: str | os.PathLike[str],
        provider: str | Factory | None = None,
        *,
        limits: Limits | None = None,
        keys: str | os.PathLike[str] | None = None,
        reserved_tools: Collection[str] = (),
    ) -> None:
        limits = limits or Limits()
        home = Path(home).expanduser().absolute()
        key_directory = default_directory("host") if keys is None else Path(keys).expanduser().absolute()
        _check(home, key_directory, provider)
        make_directory(home)
        if provider is not None:
            env_file.apply(home)
            os.environ.setdefault("HERMES_HOME", str(home))  # for threads that a provider starts itself
        self._make = discovery.load(provider, home) if isinstance(provider, str) else provider
        self._journals = home_paths.journals(home)
        self._key = journal.open_key(key_directory, self._journals, os.urandom(chunked_aead.KEY_SIZE))
        book = Journal(self._journals, self._key, str(ULID()), limits.journal_bytes)
        asking = Workers("memory-asking", limits.asking_threads, limits.spare_threads, limits.held)
        keeping = Workers("memory-keeping", limits.keeping_threads, limits.spare_threads, limits.held)
        self._shared = Shared(home, limits, book, asking, keeping, self._made, frozenset(reserved_tools))
        self._guard = threading.Lock()
        self._recovering = threading.Lock()
        self._recovered: Future[None] | None = None
        self._closed = False
        self._managers: weakref.WeakSet[MemoryManager] = weakref.WeakSet()
        own = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _forked(own()))

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def threads(self) -> int:
        """The present number of worker threads."""
        return self._shared.asking.threads + self._shared.keeping.threads

    def manager(self, session: AgentSession, *, reach: Reach | None = None) -> MemoryManager:
        """Make the memory of a new agent, ready for its first turn. Keep the returned object until you have called its
        `end`.

        A provider that is not available, or cannot begin, is left out. The agent still has its built-in memory, and the
        log and `warning_callback` report the problem.

        For a short-lived agent beside a conversation, use `MemoryManager.temporary` instead. If such an agent is made
        here and uses the built-in memory, its session must say whose notes it is for. Otherwise this raises
        `IdentityIncomplete`.
        """
        if not session.id:
            raise InvalidRequest(
                "a session needs an id", hint="pass any text that names this conversation and no other"
            )
        session = replace(session, context=context_of(session.context))
        reach = DEFAULT_REACH[session.context] if reach is None else reach
        if session.context is not AgentContext.PRIMARY and reach in (Reach.RECALL, Reach.BUILTIN):
            _check_identity(session)
        return self._made(session, reach)

    def _made(self, session: AgentSession, reach: Reach | None, notes: Path | None = None) -> MemoryManager:
        reach = DEFAULT_REACH[session.context] if reach is None else reach
        self._begin(reach)
        manager = self._assembled(session, reach, notes)
        manager.initialize()
        with self._guard:
            self._managers.add(manager)
            closed = self._closed
        if closed:  # closed meanwhile: nobody else would end it
            manager.end()
        return manager

    def recover(self) -> Recovered:
        """Hand over the turns that earlier processes left in their journals.

        The first call of `manager` with reach FULL does this by itself. That call waits for the turns as long as for
        the end of a session.
        """
        with self._recovering:
            return crash_recovery.recover(self._journals, self._key, self._provider, self._shared.limits)

    def close(self) -> None:
        """End every remaining agent, then close the journal and the threads. Idempotent."""
        with self._guard:
            self._closed = True
            managers = list(self._managers)
        end_together(managers, self._shared.limits)
        self._shared.journal.close()
        self._shared.asking.close()
        self._shared.keeping.close()

    def _begin(self, reach: Reach) -> None:
        with self._guard:
            if self._closed:
                raise InvalidRequest(
                    "the host is closed, or was made before this process forked", hint="create a new host"
                )
            # Only a FULL agent starts the recovery, because it opens a provider session, which a short-lived agent must
            # not.
            if self._recovered is None and self._make is not None and reach is Reach.FULL:
                self._recovered = self._shared.keeping.call(self._recover_quietly)
            recovered = self._recovered
        if recovered is not None and reach is Reach.FULL:
            wait((recovered,), self._shared.limits.drain)

    def _recover_quietly(self) -> None:
        try:
            self.recover()
        except Exception as error:  # noqa: BLE001 - what is left behind must not keep anybody from beginning
            log.error("turns left in the journal were not handed over: %s", type(error).__name__, exc_info=error)

    def _assembled(self, session: AgentSession, reach: Reach, notes: Path | None = None) -> MemoryManager:
        manager = MemoryManager(self._shared, session, reach, notes)
        provider = self._provider() if reach in (Reach.FULL, Reach.RECALL) else None
        if provider is not None:
            with isolate(_cannot_be_made):
                manager.take(provider)
        elif self._make is not None and reach in (Reach.FULL, Reach.RECALL):
            manager.warn("the memory provider is not available; this session goes on without it")
        return manager

    def _provider(self) -> IsolatedProvider | None:
        """Make a new object of the provider. None if the object cannot be made or is not available."""
        if self._make is None:
            return None
        made = self._shared.asking.call(self._make)
        self._shared.asking.wait(made, self._shared.limits.initialize)
        error = TimeoutError() if not made.done() or made.cancelled() else made.exception()
        provider = made.result() if error is None else None
        if provider is None:
            _cannot_be_made(error or ProviderUnavailable("the provider's factory returned nothing"))
            return None
        limit = self._shared.limits.initialize
        guarded = IsolatedProvider.named(provider, self._shared.asking, self._shared.home, limit)
        if guarded.available(limit):
            return guarded
        log.warning("memory provider %s is not available: %s", guarded.name, self._why_not(guarded, limit))
        return None

    def _why_not(self, provider: IsolatedProvider, seconds: float) -> str:
        if provider.late:
            return "it did not answer in time"
        make, own = self._make, "it says so itself"
        if not isinstance(make, discovery.Factory):
            return own
        return str(provider.run("unavailable_reason", seconds, own, lambda: make.why_not(provider.provider)))


def _check(home: Path, keys: Path, provider: object) -> None:
    if provider is not None and not isinstance(provider, str) and not callable(provider):
        raise InvalidRequest(
            f"a provider must be a name, a class or a function, not a {type(provider).__name__}",
            hint="pass the class, or a function without arguments: each agent gets an object of its own",
        )
    if keys.is_relative_to(home):
        raise InvalidRequest(
            "the journal's key would be in the home, beside the journal that it encrypts",
            hint="name a directory outside of the home with keys=",
        )


def _forked(host: Host | None) -> None:
    """Disable the host in a forked child process: its threads are gone, and its journal belongs to the parent."""
    if host is not None:
        host._guard = threading.Lock()
        host._closed = True
        host._shared.journal.forked()
        host._shared.asking.forked()
        host._shared.keeping.forked()


def _cannot_be_made(error: BaseException) -> None:
    why = (
        error.message
        if isinstance(error, StrongroomError)
        else f"{type(error).__name__}{error_location.place(error) or error_location.deepest(error)}"
    )
    log.warning("the memory provider cannot be made: %s", why)
    log.debug("the memory provider cannot be made", exc_info=error)


def _check_identity(session: AgentSession) -> None:
    if missing := home_paths.unsaid(session):
        raise IdentityIncomplete(
            f"an agent for {session.context} leaves open whose notes it is for: {', '.join(missing)} missing",
            hint="for a short-lived agent, call temporary() on the conversation's manager;"
            " for the owner at a terminal, pass platform='cli'",
        )
