"""hook: answer the shell hooks of a runtime, with JSON on stdin and the verdict as JSON on stdout.

The exit code is 0 for every verdict. A runtime takes any other code for a broken hook, and calls the tool anyway. The
whole run ends within four seconds, because Hermes gives up on a slower hook and then calls the tool. So a daemon thread
does the work and is abandoned if it is too slow. Only modules that are needed for an answer are imported before.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strongroom.cli import output
from strongroom.cli.app import Group
from strongroom.errors import StrongroomError

if TYPE_CHECKING:
    from strongroom.hermes.hooks.guarded_home import Bound
    from strongroom.hermes.hooks.hook_payload import Payload

hook = Group("hook", help="Answer the shell hooks of a runtime: JSON on stdin, a verdict on stdout, exit code 0.")

LIMIT = 4.0
"""Seconds for the whole run. Hermes waits five, as `strongroom wire` configures it."""
READING = 1.5
"""Seconds of `LIMIT` that may pass while stdin is read."""

F = TypeVar("F", bound=Callable[..., Any])
Verdict = dict[str, str]
Work = Callable[["Bound", "Payload"], Verdict]
_NOTHING: Verdict = {}
_DOCTOR = "`strongroom doctor` may show why"
_LOOK = "`strongroom wire hermes --check-only` shows it"
_leave = os._exit


def _unchecked(reason: str) -> Verdict:
    return {"decision": "block", "reason": f"Strongroom blocked this tool call: it cannot be checked ({reason})."}


def _ignored(_reason: str) -> Verdict:
    return dict(_NOTHING)


def _options(command: F) -> F:
    as_json = click.option("--json", is_flag=True, expose_value=False, help="No effect: the answer is always JSON.")
    return click.option("--home", metavar="DIR", help="The home directory of Hermes (HERMES_HOME).")(as_json(command))


@hook.command(
    "check", examples=["""echo '{"tool_name": "terminal", "tool_input": {"command": "ls"}}' | strongroom hook check"""]
)
@_options
def check(home: str | None) -> None:
    """Before a tool call (pre_tool_call): allow the call only if it is known to be harmless for the vault.

    The hook blocks a call whose arguments reach for the vault, its keys, or the agent's cap, spool or policy. It also
    blocks if the cap is missing, expired or revoked, and if one of these conditions cannot be checked. A command that
    hides its effect can still get past the hook: only a vault served under another user is out of reach.
    """

    def work(bound: Bound, said: Payload) -> Verdict:
        from strongroom.hermes.hooks import tool_verdict

        if bound.trouble:
            return tool_verdict.block_verdict(bound.trouble)
        return tool_verdict.check(said, bound.reached, bound.standing)

    _answer(home, work, _unchecked)


@hook.command(
    "audit", examples=["""echo '{"tool_name": "terminal", "tool_input": {"command": "ls"}}' | strongroom hook audit"""]
)
@_options
def audit(home: str | None) -> None:
    """After a tool call (post_tool_call): record the tool's name and a hash of the arguments in the log."""

    def work(bound: Bound, said: Payload) -> Verdict:
        from strongroom.hermes.hooks import tool_verdict

        return tool_verdict.audit(said, lambda what, digest: bound.observe(what, digest, said.session))

    _answer(home, work, _ignored)


@hook.command(
    "memory-inject",
    examples=["""echo '{"extra": {"user_message": "when is my trip?"}}' | strongroom hook memory-inject"""],
)
@_options
def memory_inject(home: str | None) -> None:
    """Before a turn (pre_llm_call): give the model the lines that fit the user's message.

    Use this hook only without the memory provider: with the hook and the provider, the model would get every line
    twice.
    """

    def work(bound: Bound, said: Payload) -> Verdict:
        from strongroom.hermes.hooks import tool_verdict

        return tool_verdict.inject(said, bound.recall)

    _answer(home, work, _ignored)


def _answer(home: str | None, work: Work, failed: Callable[[str], Verdict]) -> None:
    """Do the work of a hook within the limit, and print the verdict. If there is no verdict in time, `failed` gives the
    verdict.
    """
    until = time.monotonic() + LIMIT
    found: list[Verdict] = []
    worker = threading.Thread(target=lambda: found.append(_done(home, work, failed)), daemon=True)
    worker.start()
    worker.join(until - time.monotonic())
    if not found:
        _note("timeout", _DOCTOR)
    click.echo(json.dumps(found[0] if found else failed("timeout")))
    sys.stdout.flush()
    if threading.active_count() > 1:  # a thread that is still busy must not delay the runtime
        _leave(0)


def _done(home: str | None, work: Work, failed: Callable[[str], Verdict]) -> Verdict:
    """Run a hook's work and return its verdict. On any error, report the error and return the verdict of `failed`.

    This is the top-level error handler of every hook.
    """
    try:
        said = _told()
        return work(_bound(home), said)
    except StrongroomError as error:
        reason = error.reason
        _note(f"{error.message} [{reason}]", error.hint or _DOCTOR)
    except Exception as error:  # noqa: BLE001 - a hook that breaks must still answer
        reason = type(error).__name__
        _note(reason, _DOCTOR)
    return failed(reason)


def _told() -> Payload:
    from strongroom.hermes.hooks import hook_payload

    return hook_payload.parse(hook_payload.read(0, time.monotonic() + READING))


def _bound(home: str | None) -> Bound:
    from strongroom.hermes import hermes_homes
    from strongroom.hermes.hooks.guarded_home import Bound

    (one,) = hermes_homes.find(home, None, os.environ, Path.home())
    bound = Bound(one.path)
    if bound.is_faulty and not bound.trouble:
        output.say(f"warning: strongroom.toml has an error, so its last valid version is in use ({_LOOK})")
    return bound


def _note(what: str, hint: str) -> None:
    output.say(f"warning: the hook failed: {what}; {hint}")
