"""Checks of how a provider takes its calls: their order, threads and arguments, and a start that fails."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

from strongroom.host.conformance.check_stage import (
    ALICE,
    BOB,
    LOCKER,
    NOT_AVAILABLE,
    CheckStage,
    later,
    numbered,
    recalled,
)
from strongroom.host.conformance.scripted_agent import TestedAgent, wait_until
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable
from strongroom.host.provider_interface import MemoryProvider

_HERE = "strongroom.host.conformance.call_checks"
_ROUNDS = 5
_NOT_PLAIN = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)


def order(stage: CheckStage) -> str:
    """Call every hook in the documented order."""
    asked = stage.agent()  # before any session, as set-up and backups do
    for hook in ("get_config_schema", "backup_paths"):
        if not isinstance(asked.call(hook), list | tuple | None):
            raise Failed(f"{hook} returned something else than a list")
    agent = stage.started()
    _text(agent, "system_prompt_block")
    for number in range(3):
        agent.turn(numbered(number).said)
    agent.write("add", "Tea rather than coffee")
    agent.call("on_delegation", "look something up", "it was found", child_session_id="child-1")
    _text(agent, "on_pre_compress", list(agent.messages))
    _text(agent, "system_prompt_block")
    agent.call("on_session_end", list(agent.messages))
    agent.call("on_session_switch", agent.session.id, parent_session_id=agent.session.id, reason="compression")
    agent.turn(numbered(3).said)
    agent.stop()
    return "each hook was called and none raised"


def concurrent_prefetch(stage: CheckStage) -> str:
    """Call `prefetch` while an earlier turn is still being stored."""
    stage.learn()
    agent = stage.started()
    for number in range(_ROUNDS):
        line = numbered(number)
        together(partial(agent.keep, line.said), partial(agent.prefetch, line.question))
    if stage.way != "sync_turn":
        agent.stop()
        return "neither hook raised"
    lost = [number for number in range(_ROUNDS) if not stage.keeps(agent, numbered(number))]
    agent.stop()
    if lost:
        raise Failed(f"{len(lost)} of {_ROUNDS} turns that were kept while it was asked did not come back")
    return "neither hook raised, and each turn came back"


def any_thread(stage: CheckStage) -> str:
    """Call each hook on a thread of its own, one after the other."""
    stage.learn()
    agent, asking = stage.agent(), stage.agent(later(ALICE))
    if not agent.call("is_available"):
        raise NotApplicable(NOT_AVAILABLE)
    steps: list[Callable[[], Any]] = [
        agent.start,
        asking.start,
        lambda: agent.call("system_prompt_block"),
        lambda: agent.call("on_turn_start", 1, LOCKER.said),
        lambda: agent.recall(LOCKER.question),
        lambda: agent.keep(LOCKER.said),
        lambda: agent.call("queue_prefetch", LOCKER.said, session_id=agent.session.id),
        lambda: agent.write("add", LOCKER.said),
        lambda: _still_keeps(stage, agent, asking),
        lambda: agent.call("on_session_end", list(agent.messages)),
        lambda: agent.call("shutdown"),
    ]
    with ExitStack() as alive:  # the threads stay alive: an ended one's identity could be reused
        for step in steps:
            alive.enter_context(ThreadPoolExecutor(1)).submit(step).result()
    return f"{len(steps)} steps on {len(steps)} threads, and none raised"


def _still_keeps(stage: CheckStage, agent: TestedAgent, asking: TestedAgent) -> None:
    """Fail if a line stored on one thread is not recalled on another.

    The line is asked for by `agent` and by `asking`, an agent of the same person in a new session.
    """
    if stage.way and not wait_until(lambda: recalled(LOCKER, agent, asking), stage.subject.patience):
        raise Failed("a line that was told on one thread did not come back on another")


def plain_functions(stage: CheckStage) -> str:
    """Check that each hook is a plain function, without calling it."""
    agent = stage.agent()
    hooks = [name for name in vars(MemoryProvider) if not name.startswith("_") and name != "name"]
    found = {hook: getattr(agent.provider, hook) for hook in hooks if hasattr(agent.provider, hook)}
    no_function = [hook for hook, method in found.items() if not callable(method)]
    later = [hook for hook, method in found.items() if any(kind(method) for kind in _NOT_PLAIN)]
    if no_function:
        raise Failed(f"{', '.join(no_function)}: not a function")
    if later:
        raise Failed(f"{', '.join(later)}: a function that only runs if somebody awaits it or goes through it")
    return f"plain functions: {len(found)}"


def newer_arguments(stage: CheckStage) -> str:
    """Start the provider with a keyword argument that a later runtime might pass."""
    agent = stage.agent()
    method = agent.provider.initialize
    try:
        method(ALICE.id, **ALICE.told(agent.home), something_newer="x")
    except TypeError:
        raise Failed("initialize does not take a keyword that it does not know") from None
    agent.stop()
    return "initialize takes what it does not know"


def failed_start(stage: CheckStage) -> str:
    """Let `initialize` fail in an unusable home, then start another agent in a usable home."""
    # Found out in another process: in this one, the first start must be the one that fails.
    keeps = stage.play(f"{_HERE}:remembers").answer
    broken = stage.agent(BOB)
    if not _fails_to_start(broken, stage):
        raise NotApplicable("initialize did not fail where its home cannot be used")
    broken.call("get_tool_schemas")
    broken.call("shutdown")
    agent = stage.started()
    agent.turn(LOCKER.said)
    agent.write("add", LOCKER.said)
    if keeps is True and not stage.keeps(agent, LOCKER):
        raise Failed("after a start that failed, another agent remembers nothing")
    return "another agent started" + (" and remembered" if keeps is True else "")


def remembers(stage: CheckStage) -> bool:
    """Scene (run in its own process): True if the provider recalls anything that it stored."""
    return bool(stage.way)


def _fails_to_start(agent: TestedAgent, stage: CheckStage) -> bool:
    """True if `initialize` fails when the home, given as argument and in the environment, is a file."""
    blocked = stage.room.place / "no-home"
    blocked.write_text("a file")
    before = os.environ["HERMES_HOME"]
    os.environ["HERMES_HOME"] = str(blocked)
    try:
        agent.call("initialize", BOB.id, **BOB.told(str(blocked)))
    except Failed:
        return True
    finally:
        os.environ["HERMES_HOME"] = before
    return False


def together(*steps: Callable[[], Any]) -> list[Any]:
    """Run the steps at once, each on a new thread. Raises the first error of any step."""
    gate = threading.Barrier(len(steps))

    def ready(step: Callable[[], Any]) -> Any:
        gate.wait(10)
        return step()

    with ThreadPoolExecutor(len(steps)) as pool:
        return [future.result() for future in [pool.submit(ready, step) for step in steps]]


def _text(agent: TestedAgent, hook: str, *args: Any) -> None:
    found = agent.call(hook, *args)
    if not isinstance(found, str | None):
        raise Failed(f"{hook} returned {type(found).__name__} and not text")


CHECKS = (
    Check(
        "order",
        "All hooks work in the documented order",
        "Builds an agent as Hermes does, has a conversation of four turns with a compression in it, and ends it.",
        "A hook that counts on another order fails in the middle of a chat, where nobody sees why.",
        order,
    ),
    Check(
        "concurrent-prefetch",
        "prefetch works while a turn is being kept",
        f"Calls prefetch and sync_turn at the same moment, {_ROUNDS} times; then looks for each line.",
        "Turns are kept off the turn's thread, so the next question may come before the last turn is kept.",
        concurrent_prefetch,
    ),
    Check(
        "any-thread",
        "Hooks may be called from any thread",
        "Calls each hook on a new thread, one after the other; looks for a line on another thread than it was told on.",
        "Runtimes start, ask, keep and end on different threads; a database handle bound to one of them fails.",
        any_thread,
    ),
    Check(
        "plain-functions",
        "Hooks are plain functions",
        "Looks at each hook of the interface: none may be `async def` or have a `yield` in it.",
        "Runtimes call hooks and do not await them: nothing of such a hook runs, and each turn is lost without a word.",
        plain_functions,
    ),
    Check(
        "newer-arguments",
        "initialize takes keywords that it does not know",
        "Starts a provider with one more keyword than there is today.",
        "Runtimes give more in each version; a provider that refuses it is silently without memory.",
        newer_arguments,
    ),
    Check(
        "failed-start",
        "A start that failed does not harm the next agent",
        "Starts one agent in a home that is a file, and then another in a good one.",
        "One chat with a bad configuration must not take memory away from all others in the process.",
        failed_start,
    ),
)
