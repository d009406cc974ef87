"""A small runtime on `strongroom.host`, run as a program of its own. It has no model, and says what one would be shown.

`talk` holds the conversations of several people at once, `hand_over` keeps a turn and waits for its end, `moments`
builds an agent for each purpose, `chats` keeps an agent for each chat, `suffer` runs providers that are of no use, and
`through_the_gate` asks one question in a home of Hermes. Each takes a home and reads JSON from stdin, one document per
line. The journal's key lies where the environment says.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from strongroom.host import AgentCache, AgentContext, AgentSession, Host, Limits, MemoryManager, MemoryProvider, User
from strongroom.host.plugins.discovery import load

PROVIDER = "diary"
REPLY = "I see."
_PLATFORM = "telegram"
_SOON = 60.0
_HURRY = Limits(
    system_prompt_block=0.1,
    on_turn_start=0.1,
    prefetch=0.1,
    handle_tool_call=0.1,
    on_pre_compress=0.1,
    drain=0.1,
    shutdown=0.1,
)


class Agent:
    """One conversation."""

    def __init__(self, memory: MemoryManager) -> None:
        self.memory = memory
        self._history: list[dict[str, str]] = []
        self._prompt = memory.system_prompt_block()

    def hear(self, message: str) -> str:
        """Take a turn; what the model would be shown in it."""
        self.memory.on_turn_start(message)
        shown = f"{self._prompt}\n\n{self.memory.prefetch(message)}\n\n{message}"
        self._history += ({"role": "user", "content": message}, {"role": "assistant", "content": REPLY})
        self.memory.sync_turn(message, REPLY, messages=self._history)
        return shown

    def note(self, text: str) -> bool:
        """Let the model note something; whether that worked."""
        answer = self.memory.handle_tool_call("memory", {"action": "add", "target": "memory", "content": text})
        return json.loads(answer).get("success") is True

    def end(self) -> None:
        self.memory.end(self._history)


# People.


def talk(home: str) -> None:
    """Hold conversations, all of them open at once; say what the model of each would be shown."""
    told = _heard()
    with Host(Path(home), PROVIDER) as host:
        agents = [Agent(host.manager(_session(one["session"], one["user"]))) for one in told]
        notes = [[agent.note(text) for text in one.get("notes", ())] for agent, one in zip(agents, told, strict=True)]
        shown = [[_kept(agent, text) for text in one["says"]] for agent, one in zip(agents, told, strict=True)]
        hosted = [agent.memory.external is not None for agent in agents]
        for agent in agents:
            agent.end()
    _say({"shown": shown, "notes": notes, "hosted": hosted, "interface": _interface()})


def _kept(agent: Agent, message: str) -> str:
    shown = agent.hear(message)
    if not agent.memory.flush(_SOON):
        raise TimeoutError("the provider took no turn")
    return shown


def _interface() -> str:
    """Where the interface that the provider imported came from."""
    spec = sys.modules["agent.memory_provider"].__spec__
    return "" if spec is None else str(spec.origin)


def hand_over(home: str) -> None:
    """Say that `sync_turn` has returned in the moment in which it has, and wait to be killed."""
    (one,) = _heard()
    host = Host(Path(home), PROVIDER)
    host.manager(_session(one["session"], one["user"])).sync_turn(one["says"][0], REPLY)
    _say("returned")
    sys.stdin.readline()


def through_the_gate(home: str, hermes_home: str) -> None:
    """Let the owner of a home of Hermes ask one question here; say what the model would be shown."""
    from strongroom.provider import StrongroomProvider

    question = _heard()
    with Host(Path(home), lambda: StrongroomProvider(hermes_home)) as host:
        agent = Agent(host.manager(AgentSession("elsewhere-1", platform="cli")))
        _say(_kept(agent, question))
        agent.end()


# Purposes.


def moments(home: str) -> None:
    """Build an agent for each purpose but a conversation, then one for that; count the objects of the provider."""
    told = _heard()
    make, made = load(PROVIDER, Path(home)), list[MemoryProvider]()

    def counted() -> MemoryProvider:
        made.append(make())
        return made[-1]

    with Host(Path(home), counted) as host:
        for context in (one for one in AgentContext if one is not AgentContext.PRIMARY):
            agent = Agent(host.manager(AgentSession(f"{context}-1", platform="cli", context=context)))
            agent.hear(told["aside"])
            if context is AgentContext.FLUSH:
                agent.note(told["note"])
            agent.end()
        before = len(made)
        person = Agent(host.manager(AgentSession("conversation-1")))
        shown = _kept(person, told["said"])
        person.end()
    _say({"for moments": before, "for a conversation": len(made) - before, "shown": shown})


# Chats.


def chats(home: str) -> None:
    """Answer messages, each from some user, until stdin ends; say how many agents were built so far."""
    built: list[str] = []

    def build(key: str, _: object, user: User) -> Agent:
        built.append(key)
        return Agent(host.manager(_session(f"chat-{len(built)}", user.id, key)))

    with Host(Path(home), PROVIDER) as host, closing(AgentCache(build)) as cache:
        for line in sys.stdin:
            user, message = json.loads(line)
            key = f"agent:main:{_PLATFORM}:dm:{user}"
            with cache.agent(key, runtime={"model": "m-1"}, user=User(user)) as agent:
                shown = _kept(agent, message)
            _say({"built": len(built), "shown": shown})


# Trouble.

_TOOL = {"name": "look_up", "description": "Look something up.", "parameters": {"type": "object", "properties": {}}}
_HOOKS = (
    "system_prompt_block",
    "on_turn_start",
    "prefetch",
    "sync_turn",
    "queue_prefetch",
    "handle_tool_call",
    "on_memory_write",
    "on_delegation",
    "on_pre_compress",
    "on_session_switch",
    "on_session_end",
    "shutdown",
)


class Well(MemoryProvider):
    """A provider that recalls one thing."""

    name = "well"

    def is_available(self) -> bool:
        return True

    def get_tool_schemas(self) -> list[Any]:
        return [_TOOL]

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Nothing is needed."""

    def prefetch(self, query: str, *, session_id: str = "") -> str:  # noqa: ARG002
        return "- the heron was fed"

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ARG002
        return '{"found": "the heron"}'


def _with_trouble(trouble: Callable[..., Any]) -> type[Well]:
    """The same provider, with this in the place of every hook of a session."""
    return type("Troubled", (Well,), {"name": "troubled", **dict.fromkeys(_HOOKS, trouble)})


def _raises(*_: Any, **__: Any) -> None:
    raise RuntimeError("no")


def _hangs(*_: Any, **__: Any) -> None:
    threading.Event().wait()


def suffer(home: str) -> None:
    """Have the same conversation with a good provider, one that raises and one that hangs; say what came of each."""
    told = _heard()
    kinds: dict[str, tuple[type[Well], Limits | None]]
    kinds = {"well": (Well, None), "raises": (_with_trouble(_raises), None), "hangs": (_with_trouble(_hangs), _HURRY)}
    _say({kind: _conversation(Path(home) / kind, *given, told) for kind, given in kinds.items()})


def _conversation(home: Path, provider: type[Well], limits: Limits | None, told: dict[str, Any]) -> dict[str, Any]:
    with Host(home, provider, limits=limits) as host:
        agent = Agent(host.manager(AgentSession("conversation-1")))
        noted = agent.note(told["note"])
        looked_up = json.loads(agent.memory.handle_tool_call("look_up", {}))
        shown = [agent.hear(message) for message in told["says"]]
        agent.memory.on_pre_compress([])
        agent.memory.on_delegation("a task", "a result")
        agent.memory.on_session_switch("conversation-2", reset=True)
        agent = Agent(agent.memory)
        shown.append(agent.hear(told["says"][0]))
        agent.end()
    return {"noted": noted, "shown": shown, "looked up": sorted(looked_up)}


def _session(session: str, user: str, key: str = "") -> AgentSession:
    return AgentSession(session, platform=_PLATFORM, user_id=user, chat_type="dm", gateway_session_key=key)


def _heard() -> Any:
    return json.loads(sys.stdin.readline())


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


VERBS: dict[str, Callable[..., None]] = {
    verb.__name__: verb for verb in (talk, hand_over, through_the_gate, moments, chats, suffer)
}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
