"""Drive Hermes' terminal, or any number of its agents, step by step. The steps are described in `rig_agent`.

The terminal is the real one (`HermesCLI`), without a screen: what a person types is handed to it. An agent is an
`AIAgent` with arguments of the test's choice, as a gateway or the API server would build one.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from tests.hermes.drive_steps import Outlet, next_step, settle

TERMINAL = "terminal"


class Talk(Protocol):
    @property
    def session_id(self) -> str: ...
    def say(self, text: str) -> str: ...
    def command(self, line: str) -> None: ...
    def compress(self) -> None: ...
    def end(self) -> None: ...


class Terminal:
    def __init__(self, toolsets: list[str]) -> None:
        self._cli = import_module("cli")
        self._terminal = self._cli.HermesCLI(toolsets=toolsets, compact=True)

    @property
    def session_id(self) -> str:
        return str(self._terminal.session_id)

    def say(self, text: str) -> str:
        return str(self._terminal.chat(text) or "")

    def command(self, line: str) -> None:
        assert self._terminal.process_command(line), f"{line} left the terminal"

    def compress(self) -> None:
        self.command("/compress")

    def end(self) -> None:
        self._cli._run_cleanup()


class Agent:
    def __init__(self, outlet: Outlet, database: Any, arguments: Mapping[str, Any]) -> None:
        own = {
            "api_key": "local-dummy",
            "provider": "custom",
            "model": "scripted",
            "enabled_toolsets": ["memory"],
            "quiet_mode": True,
            "platform": "cli",
            "session_db": database,
            "skip_context_files": True,
            "status_callback": lambda kind, text: outlet.tell(status=kind, text=text),
        }
        self._agent = import_module("run_agent").AIAgent(**{**own, **arguments})
        self._history: list[dict[str, Any]] = []

    @property
    def session_id(self) -> str:
        return str(self._agent.session_id)

    def say(self, text: str) -> str:
        result = self._agent.run_conversation(text, conversation_history=self._history)
        self._history = result["messages"]
        return str(result["final_response"] or "")

    def command(self, line: str) -> None:
        raise AssertionError(f"{line} belongs to a surface: use the terminal, or the gateway's rig")

    def compress(self) -> None:
        before = len(self._history)
        self._history, _ = self._agent._compress_context(self._history, None, approx_tokens=120_000, force=True)
        assert len(self._history) < before, "Hermes did not compress"

    def end(self) -> None:
        self._agent.shutdown_memory_provider(self._history)
        self._agent.close()


class Driver:
    def __init__(self, outlet: Outlet, model_url: str) -> None:
        self._outlet, self._model_url = outlet, model_url
        self._talks: dict[str, Talk] = {}
        self._turns = itertools.count(1)
        self._database: Any = None

    def take(self, step: Mapping[str, Any]) -> None:
        name = str(step.get("as", "main"))
        if "open" in step:
            self._talks[name] = self._opened(step["open"])
        elif "say" in step:
            self._say(name, step["say"])
        elif "conversation" in step:
            self._converse(name, step["conversation"], settled=bool(step.get("settle")))
        elif "command" in step:
            self._talks[name].command(step["command"])
        elif "compress" in step:
            self._talks[name].compress()
        elif "end" in step:
            self._talks.pop(name).end()
        else:
            assert "settle" in step, f"no such step: {sorted(step)}"
        settle()
        session = self._talks[name].session_id if name in self._talks else ""
        self._outlet.tell(done=step["number"], session=session)

    def end(self) -> None:
        for talk in self._talks.values():
            talk.end()
        if self._database is not None:
            self._database.close()

    def _opened(self, arguments: Mapping[str, Any]) -> Talk:
        if arguments.get("surface") == TERMINAL:
            return Terminal(list(arguments.get("toolsets", ["memory"])))
        if self._database is None:
            self._database = import_module("hermes_state").SessionDB()
        return Agent(self._outlet, self._database, {"base_url": self._model_url, **arguments})

    def _say(self, name: str, text: str) -> None:
        reply = self._talks[name].say(text)
        session = self._talks[name].session_id
        self._outlet.tell(delivered=reply, said=text, turn=next(self._turns), session=session, **{"as": name})

    def _converse(self, name: str, text: str, *, settled: bool) -> None:
        for number in itertools.count(1):
            self._say(name, text.format(n=number))
            if settled:
                settle()


def main(model_url: str) -> None:
    outlet = Outlet()
    import_module("run_agent")
    # As `hermes -z` declares it: a task that is delegated is then done within the turn.
    import_module("gateway.session_context").declare_stateless_channel()
    driver = Driver(outlet, model_url)
    outlet.tell(ready=True)
    while (step := next_step()) is not None:
        try:
            driver.take(step)
        except Exception:  # noqa: BLE001 -- the parent hears of it and decides
            outlet.failed()
    driver.end()
    outlet.leave()


if __name__ == "__main__":
    main(sys.argv[1])
