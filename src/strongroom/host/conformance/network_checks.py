"""The check that a provider opens no network connection when it is only asked about itself."""

from __future__ import annotations

import threading

from strongroom.host.conformance.check_stage import CheckStage
from strongroom.host.conformance.side_effects import NETWORK, PROCESSES, Watch
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable

_MOMENT = 0.2
_ASKED = (
    *("is_available", "get_tool_schemas", "get_config_schema", "backup_paths"),
    *("cache_busting_signature", "identity_signature"),
)


_ASKED_AGAIN = ("is_available", "get_tool_schemas", "cache_busting_signature", "identity_signature")


def no_network(stage: CheckStage) -> str:
    """Call every hook that runtimes call outside of sessions, with connections refused."""
    network = Watch(NETWORK, refuse=True, everywhere=True)
    with network.looking():
        agent = stage.agent()
    _expect_nothing(network, "making an object")
    watch = Watch(NETWORK | PROCESSES, refuse=True, everywhere=True)
    for hook in _ASKED:
        with watch.looking():
            _ask(agent.call, hook)
            _others_had_their_turn()
        _expect_nothing(watch, hook)
    return f"no connection in {len(_ASKED)} hooks{_once_started(stage)}"


def _once_started(stage: CheckStage) -> str:
    """Call the hooks that a runtime calls for each message, on a started agent. Threads of the provider may connect by
    now.
    """
    try:
        agent = stage.started()
    except (Failed, NotApplicable):
        return ""
    watch = Watch(NETWORK | PROCESSES, refuse=True)
    for hook in _ASKED_AGAIN:
        with watch.looking():
            _ask(agent.call, hook)
        _expect_nothing(watch, f"after initialize, {hook}")
    return f", nor in {len(_ASKED_AGAIN)} after initialize"


def _expect_nothing(watch: Watch, what: str) -> None:
    if watch.seen and watch.seen[0] in PROCESSES:
        raise Failed(f"{what} started a process, which may connect: {watch.seen[0]}")
    if watch.seen:
        raise Failed(f"{what} reached for the network: {watch.seen[0]}")


def _others_had_their_turn() -> None:
    """Wait a moment, so that threads started by a hook can run."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(_MOMENT)


def _ask(call: object, hook: str) -> None:
    """Call a hook and ignore its error: another check reports it, or the refused connection caused it."""
    try:
        call(hook)  # type: ignore[operator]
    except Failed:
        return


CHECKS = (
    Check(
        "no-network",
        "Asking whether it is available, and for what, causes no connection",
        "Refuses connections and new processes, and calls all hooks that are called outside of sessions.",
        "They are called for each message or for each provider in a list: a slow server would hold up every chat.",
        no_network,
    ),
)
