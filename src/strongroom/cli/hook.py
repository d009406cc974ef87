"""hook: what a runtime's shell hooks call, with its JSON on stdin and the verdict as JSON on stdout.

The exit code is 0 whatever the verdict: a runtime takes another one for a broken hook and goes on. The whole run ends
within four seconds, since Hermes drops a hook that takes longer and then calls the tool. So the work is done on a
thread that is left behind if it does not end, and only what is needed to say so is imported before.
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

hook = Group("hook", help="What a runtime's shell hooks call: JSON on stdin, a verdict on stdout, exit code 0.")

LIMIT = 4.0
"""Seconds for all of it; Hermes waits for five where `strongroom wire` set the hook up."""
READING = 1.5
"""Seconds of them for reading stdin."""

F = TypeVar("F", bound=Callable[..., Any])
Verdict = dict[str, str]
Work = Callable[["Bound", "Payload"], Verdict]
_NOTHING: Verdict = {}
_DOCTOR = "`strongroom doctor` may say why"
_LOOK = "`strongroom wire hermes --check-only` says which"
_leave = os._exit


def _unchecked(reason: str) -> Verdict:
    return {"decision": "block", "reason": f"Strongroom blocked this tool call: it cannot be checked ({reason})."}


def _ignored(_reason: str) -> Verdict:
    return dict(_NOTHING)


def _options(command: F) -> F:
    as_json = click.option("--json", is_flag=True, expose_value=False, help="Changes nothing: it is JSON anyway.")
    return click.option("--home", metavar="DIR", help="Hermes' home (HERMES_HOME).")(as_json(command))


@hook.command(
    "check", examples=["""echo '{"tool_name": "terminal", "tool_input": {"command": "ls"}}' | strongroom hook check"""]
)
@_options
def check(home: str | None) -> None:
    """Before a tool call (pre_tool_call): block it unless all is well.

    Blocks if the arguments reach for the vault, its keys, the agent's cap, its spool or its policy, if the cap is
    missing, expired or revoked, and if any of that cannot be found out. A command that hides what it does can still
    get past this: only a vault served under another user is a wall.
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
    """After a tool call (post_tool_call): put its name and a hash of its arguments into the log."""

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
    """Before a turn (pre_llm_call): give the model what is remembered about what was said.

    For those who do not use the memory provider: with both, everything would be shown twice.
    """

    def work(bound: Bound, said: Payload) -> Verdict:
        from strongroom.hermes.hooks import tool_verdict

        return tool_verdict.inject(said, bound.recall)

    _answer(home, work, _ignored)


def _answer(home: str | None, work: Work, failed: Callable[[str], Verdict]) -> None:
    """Do the work within the limit and say the verdict; `failed` says what to do without one."""
    until = time.monotonic() + LIMIT
    found: list[Verdict] = []
    worker = threading.Thread(target=lambda: found.append(_done(home, work, failed)), daemon=True)
    worker.start()
    worker.join(until - time.monotonic())
    if not found:
        _note("timeout", _DOCTOR)
    click.echo(json.dumps(found[0] if found else failed("timeout")))
    sys.stdout.flush()
    if threading.active_count() > 1:  # whoever is still at work must not hold up the runtime
        _leave(0)


def _done(home: str | None, work: Work, failed: Callable[[str], Verdict]) -> Verdict:
    """The verdict, whatever happens on the way to it: the one place where a fault of a hook ends."""
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
        output.say(f"warning: strongroom.toml has a fault, and the last good one is in use ({_LOOK})")
    return bound


def _note(what: str, hint: str) -> None:
    output.say(f"warning: this hook could not do its work: {what}; {hint}")
