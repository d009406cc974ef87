"""Isolation of a provider: an error, a wrong answer or a hang of its code never reaches the agent.

Each fault is logged under the provider's name, and the caller gets a value that means "nothing". The log names the kind
of the error and its place in the code. The error's message may hold words that people said, so it is logged only at
level DEBUG.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from strongroom import fence
from strongroom.host import error_location
from strongroom.host.call_adapter import fit_arguments
from strongroom.host.plugins.hermes_stubs import at_home
from strongroom.host.provider_interface import MemoryProvider
from strongroom.host.recall_fence import writable
from strongroom.host.worker_pool import Workers

log = logging.getLogger("strongroom.host")

_NAME_LENGTH = 64

FAILED = object()
"""A sentinel that stands for a failed call, because None can be a valid answer."""


@contextmanager
def isolate(note: Callable[[BaseException], None]) -> Iterator[None]:
    """Pass an error that is raised inside this context to `note`, except KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a provider's fault ends here, whatever it is
        note(error)


class IsolatedProvider:
    """One provider of one agent, isolated.

    `ask` runs a hook on another thread with a time limit, `tell` runs it on this thread. Without workers, every hook
    runs on this thread: that is for our own providers, which do not hang.
    """

    def __init__(self, provider: MemoryProvider, name: str, workers: Workers | None, home: Path) -> None:
        self.provider = provider
        self.name = name
        self._workers = workers
        self.home = home
        self._late: Future[Any] | None = None
        self._late_in = ""
        """The name of the hook that is still running after its time limit."""
        self._skipped: set[str] = set()
        """Hooks that were skipped because an earlier hook is still running."""
        self._known: set[tuple[str, str]] = set()

    @classmethod
    def named(cls, provider: MemoryProvider, workers: Workers, home: Path, seconds: float) -> IsolatedProvider:
        """Isolate a provider under its own name. If it gives no name in time, its class's name is used."""
        guarded = cls(provider, _neutral(error_location.kind(provider)), workers, home)
        guarded.name = guarded.run("name", seconds, "", lambda: _name_of(provider)) or guarded.name
        return guarded

    def ask(self, hook: str, seconds: float, otherwise: Any, /, *args: Any, **keywords: Any) -> Any:
        """Run a hook on another thread and return its answer, or `otherwise` if it fails or is late.

        The hook is not called while an earlier call to the provider is still running.
        """
        return self.run(hook, seconds, otherwise, lambda: self._call(hook, args, keywords))

    def read(
        self,
        reading: Callable[[Any], Any],
        hook: str,
        seconds: float,
        otherwise: Any,
        /,
        *args: Any,
        **keywords: Any,
    ) -> Any:
        """Like `ask`, but pass the answer through `reading`, on the same thread and within the same time.

        The answer can be an object of any class. Even looking at it may run the provider's code.
        """
        return self.run(hook, seconds, otherwise, lambda: reading(self._call(hook, args, keywords)))

    def text(self, hook: str, seconds: float, /, *args: Any, **keywords: Any) -> str:
        """Like `ask`, for a hook that answers with text."""
        return str(self.read(partial(self._text, hook), hook, seconds, "", *args, **keywords))

    def available(self, seconds: float) -> bool:
        """True if the provider says that it can work."""
        return bool(self.read(bool, "is_available", seconds, False))

    def run(self, what: str, seconds: float, otherwise: Any, call: Callable[[], Any]) -> Any:
        """Like `ask`, for any call that runs the provider's code. `what` is the name of the call in the log."""
        if self._workers is not None:
            return self._started(self._workers, what, otherwise, call)(seconds)
        with isolate(lambda error: self._failed(what, error)):
            return call()
        return otherwise

    def tell(self, hook: str, /, *args: Any, **keywords: Any) -> bool:
        """Run a hook on this thread. Returns True if it succeeded."""
        try:
            self._call(hook, args, keywords)
        except BaseException as error:  # noqa: BLE001 - a provider's fault ends here, whatever it is
            self._failed(hook, error)
            return False
        return True

    @property
    def late(self) -> bool:
        """True while a call that timed out is still running."""
        return self._late is not None and not self._late.done()

    def is_busy(self, hook: str) -> bool:
        """True if a hook must be skipped because an earlier call is still running. Warns once for each hook."""
        if not self.late:
            return False
        level = logging.DEBUG if hook in self._skipped else logging.WARNING
        self._skipped.add(hook)
        log.log(level, "memory provider %s is still busy with %s; %s is skipped", self.name, self._late_in, hook)
        return True

    def let_go(self) -> Callable[[float], Any]:
        """Start the shutdown of the provider, and return a function that waits for it.

        If a call that timed out is still running, the shutdown starts once this call has returned.
        """
        late, workers = self._late, self._workers
        if workers is None:
            return lambda _: self.tell("shutdown")
        if late is None or late.done():
            return self._started(workers, "shutdown", None, lambda: self._call("shutdown", (), {}))
        late.add_done_callback(lambda _: workers.submit(lambda: self.tell("shutdown")))
        return lambda _: None

    def _started(self, workers: Workers, what: str, otherwise: Any, call: Callable[[], Any]) -> Callable[[float], Any]:
        """Start a call on another thread. The returned function takes a number of seconds and waits so long for the
        answer.
        """
        if self.is_busy(what):
            return lambda _: otherwise
        future = workers.call(call)

        def answer(seconds: float) -> Any:
            workers.wait(future, seconds)
            return self._answer(what, future, seconds, otherwise)

        return answer

    def _answer(self, what: str, future: Future[Any], seconds: float, otherwise: Any) -> Any:
        if not future.done() and not future.cancel():
            self._late, self._late_in, self._skipped = future, what, set()
        if not future.done() or future.cancelled():
            log.warning("memory provider %s: %s took more than %g s; going on without it", self.name, what, seconds)
            return otherwise
        error = future.exception()
        if error is not None:
            self._failed(what, error)
            return otherwise
        return future.result()

    def _text(self, hook: str, answer: object) -> str:
        if isinstance(answer, str):
            return writable(answer)
        if answer is not None:
            log.warning(
                "memory provider %s: the hook %s returned a %s and not a text",
                self.name,
                hook,
                error_location.kind(answer),
            )
        return ""

    def _call(self, hook: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        method: Callable[..., Any] | None = getattr(self.provider, hook, None)
        if method is None:
            return getattr(MemoryProvider, hook)(self.provider, *args, **keywords)
        places, named = fit_arguments(method, args, keywords)
        with at_home(self.home):
            answer = method(*places, **named)
        if inspect.isawaitable(answer):
            _discard(answer)
            raise TypeError(f"the hook {hook} is asynchronous; hooks must be plain functions")
        return answer

    def _failed(self, hook: str, error: BaseException) -> None:
        where = error_location.place(error, self.provider) or error_location.deepest(error)
        kind = error_location.kind(error)
        # A hook that fails at every message must not fill the log: one warning for each kind of error, then DEBUG.
        level = logging.DEBUG if (hook, kind) in self._known else logging.WARNING
        self._known.add((hook, kind))
        log.log(level, "memory provider %s: %s raised %s%s", self.name, hook, kind, where)
        log.debug("memory provider %s: %s raised", self.name, hook, exc_info=error)


def _discard(answer: object) -> None:
    close = getattr(answer, "close", None)
    if inspect.iscoroutine(answer) and callable(close):
        close()  # otherwise Python warns that it was never awaited


def _name_of(provider: MemoryProvider) -> str:
    """The name that a provider gives itself. Empty if it gives none."""
    said: object = provider.name
    name = writable(said) if isinstance(said, str) else ""
    return _neutral(name) if name.strip() else ""


def _neutral(name: str) -> str:
    return fence.neutral_field(name)[:_NAME_LENGTH]
