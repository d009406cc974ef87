"""The check that whoever only asks what a provider is causes no connection."""

from __future__ import annotations

import threading

from strongroom.host.conformance.stage import Stage
from strongroom.host.conformance.verdict import Check, Failed
from strongroom.host.conformance.watching import NETWORK, Watch

_MOMENT = 0.2
_ASKED = (
    *("is_available", "get_tool_schemas", "get_config_schema", "backup_paths"),
    *("cache_busting_signature", "identity_signature"),
)


def no_network(stage: Stage) -> str:
    """All that is asked outside of sessions, with connections refused."""
    watch = Watch(NETWORK, refuse=True, everywhere=True)
    with watch.looking():
        agent = stage.agent()
    if watch.seen:
        raise Failed(f"making an object reached for the network: {watch.seen[0]}")
    for hook in _ASKED:
        with watch.looking():
            _ask(agent.call, hook)
            _others_had_their_turn()
        if watch.seen:
            raise Failed(f"{hook} reached for the network: {watch.seen[0]}")
    return f"no connection in {len(_ASKED)} hooks"


def _others_had_their_turn() -> None:
    """Wait a moment for threads that a hook started."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(_MOMENT)


def _ask(call: object, hook: str) -> None:
    """An error is for other checks, or comes from the connection that was refused."""
    try:
        call(hook)  # type: ignore[operator]
    except Failed:
        return


CHECKS = (
    Check(
        "no-network",
        "Asking whether it is available, and for what, causes no connection",
        "Refuses connections and calls all hooks that are called outside of sessions.",
        "They are called for each message or for each provider in a list: a slow server would hold up every chat.",
        no_network,
    ),
)
