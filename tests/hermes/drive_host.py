"""Drive our host through the script, with the same plugin, in the same environment as Hermes' own agent."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strongroom.host.agent_context import AgentContext
from strongroom.host.agent_session import AgentSession
from strongroom.host.host import Host
from tests.hermes import script
from tests.hermes.runtime import Runtime
from tests.hermes.watch import Watch, scratch

FLUSH_SECONDS = 30
SESSION = AgentSession(
    id=script.SESSIONS[0],
    platform="cli",
    agent_identity="default",
    agent_workspace="hermes",
    warning_callback=lambda _: None,
    status_callback=lambda _: None,
)


def main(model_url: str) -> None:
    watch = Watch()
    host = Host(Path(os.environ["HERMES_HOME"]), "logging_provider", keys=Path(scratch(), "keys"))
    script.mark("build")
    talk = Runtime(host.manager(SESSION), model_url)
    talk.tools["delegate_task"] = _delegation(host, talk, model_url)
    for event, message in script.TURNS:
        _turn(talk, event, message)
    script.mark("compression")
    talk.compress(keep=4)
    _flush(talk)
    _turn(talk, *script.AFTER_COMPRESSION)
    script.mark("/new")
    talk.new(script.SESSIONS[1])
    _flush(talk)
    _turn(talk, *script.AFTER_NEW)
    script.mark("end")
    talk.end()
    host.close()
    script.report(watch.outside(scratch()), watch.connected)


def _turn(talk: Runtime, event: str, message: str) -> None:
    script.mark(event)
    talk.turn(message)
    _flush(talk)


def _flush(talk: Runtime) -> None:
    assert talk.memory.flush(FLUSH_SECONDS)


def _delegation(host: Host, parent: Runtime, model_url: str) -> Any:
    def delegate(arguments: Mapping[str, Any]) -> str:
        """Another agent does the task, without memory of its own; the parent's provider hears of it."""
        session = AgentSession(id="child-session", platform="subagent", context=AgentContext.SUBAGENT)
        child = Runtime(host.manager(session), model_url)
        result = child.turn(arguments["goal"])
        child.end()
        parent.memory.on_delegation(arguments["goal"], result, child_session_id="child-session")
        return json.dumps({"result": result})

    return delegate


if __name__ == "__main__":
    main(sys.argv[1])
