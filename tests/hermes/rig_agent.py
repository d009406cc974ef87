"""The rig of Hermes' terminal and of single agents, in one process.

    with rig_agent.start(rig) as process:
        me = process.terminal()                    # what `hermes chat` is, without the screen
        me.say("I fly to Chengdu on May 25.", "Have a good trip.")
        me.command("/new")                         # also /undo, /compress, /branch NAME, /resume ID
        bob = process.agent("bob", platform="telegram", user_id="2", chat_id="2", chat_type="dm",
                            gateway_session_key="agent:main:telegram:dm:2")
        bob.say("Where does Alice go?")
        process.kill()                             # or leave the block: the clean end

Only one terminal per process, as in Hermes; agents as many as one likes. `say` returns when the reply was delivered
and the memory worker has caught up. To kill right after a reply, use `send` and `until("delivered")`. `converse` says
one thing after another until the process is killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.hermes.model_server import ToolCall
from tests.hermes.rigs import Child, Line, Rig

MODULE = "tests.hermes.drive_agent"


@dataclass(frozen=True, slots=True)
class Talk:
    """One conversation: with the terminal, or with an agent."""

    process: AgentProcess
    name: str

    def say(self, text: str, reply: str | None = None, calls: Sequence[ToolCall] = ()) -> str:
        """One turn, to its end; what was replied. With `reply`, the model is told to answer so, after the calls."""
        if reply is not None:
            self.process.rig.model.answers(text, reply, *calls)
        self._do(say=text)
        return str(self.process.delivered()[-1]["delivered"])

    def memory_tool(self, **arguments: Any) -> str:
        """One turn in which the model calls the built-in memory tool."""
        said = f"Please use the memory tool: {len(self.process.told)}"
        return self.say(said, "It is done.", (ToolCall("memory", arguments),))

    def command(self, line: str) -> str:
        """A command of the terminal; the id of the session after it."""
        return str(self._do(command=line)["session"])

    def compress(self) -> str:
        return str(self._do(compress=True)["session"])

    def end(self) -> None:
        """The clean end of this conversation; the process goes on."""
        self._do(end=True)

    def send(self, text: str) -> None:
        """One turn, without waiting for anything."""
        self.process.send({"say": text, "as": self.name})

    def converse(self, text: str, *, settle: bool = False) -> None:
        """Say it again and again, with the number of the turn for `{n}`, until the process is killed.

        With `settle`, each turn waits for the memory worker of the one before; without, nothing waits.
        """
        self.process.send({"conversation": text, "settle": settle, "as": self.name})

    def _do(self, **step: Any) -> Line:
        return self.process.do({**step, "as": self.name})


class AgentProcess(Child):
    def terminal(self, *, toolsets: Sequence[str] = ("memory",)) -> Talk:
        self.do({"open": {"surface": "terminal", "toolsets": list(toolsets)}, "as": "terminal"})
        return Talk(self, "terminal")

    def agent(self, name: str = "main", **arguments: Any) -> Talk:
        """An agent with these arguments for `AIAgent`."""
        self.do({"open": arguments, "as": name})
        return Talk(self, name)

    def settle(self) -> None:
        """Wait for all memory workers."""
        self.do({"settle": True})


def start(rig: Rig) -> AgentProcess:
    process = AgentProcess(rig, MODULE, rig.model.url)
    process.ready()
    return process
