"""Drive Hermes' own agent through the script, in its own environment. Started by tests with Hermes' interpreter.

Turns, tools, delegation, compression and the end are Hermes' own code. One thing is not: `/new` belongs to its
terminal, so the two calls of it that concern memory are made here as `HermesCLI.new_session` makes them. After each
turn we wait for the memory worker, because Hermes itself leaves open when it catches up.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from tests.hermes import script
from tests.hermes.watch import Watch, scratch

FLUSH_SECONDS = 30


class Conversation:
    def __init__(self, agent: Any) -> None:
        self.agent = agent
        self.history: list[dict[str, Any]] = []

    def turn(self, event: str, message: str) -> None:
        script.mark(event)
        result = self.agent.run_conversation(message, conversation_history=self.history)
        self.history = result["messages"]
        self.flush()

    def compress(self) -> None:
        script.mark("compression")
        before = len(self.history)
        self.history, _ = self.agent._compress_context(self.history, None, approx_tokens=120_000, force=True)
        assert len(self.history) < before, "Hermes did not compress"
        self.flush()

    def new(self) -> None:
        script.mark("/new")
        old, self.agent.session_id = self.agent.session_id, script.SESSIONS[1]
        self.agent.reset_session_state()
        self.agent._invalidate_system_prompt()
        self.agent._memory_manager.commit_session_boundary_async(
            self.history, new_session_id=script.SESSIONS[1], parent_session_id=old, reason="new_session"
        )
        self.history = []
        self.flush()

    def end(self) -> None:
        script.mark("end")
        self.agent.shutdown_memory_provider(self.history)

    def flush(self) -> None:
        assert self.agent._memory_manager.flush_pending(timeout=FLUSH_SECONDS)


def main(model_url: str) -> None:
    watch = Watch()
    # As `hermes -z` declares it: a task that is delegated is then done within the turn.
    import_module("gateway.session_context").declare_stateless_channel()
    database = import_module("hermes_state").SessionDB()
    script.mark("build")
    talk = Conversation(
        import_module("run_agent").AIAgent(
            base_url=model_url,
            api_key="local-dummy",
            provider="custom",
            model="scripted",
            enabled_toolsets=["memory", "delegation"],
            quiet_mode=True,
            platform="cli",
            session_id=script.SESSIONS[0],
            session_db=database,
            skip_context_files=True,
        )
    )
    for event, message in script.TURNS:
        talk.turn(event, message)
    talk.compress()
    talk.turn(*script.AFTER_COMPRESSION)
    talk.new()
    talk.turn(*script.AFTER_NEW)
    talk.end()
    talk.agent.close()
    database.close()
    script.report(watch.outside(scratch()), watch.connected)
    sys.stdout.flush()
    os._exit(0)  # as `hermes` ends: its helper threads are not waited for


if __name__ == "__main__":
    main(sys.argv[1])
