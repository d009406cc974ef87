"""One agent with one provider, making a runtime's calls directly, without the host.

Checks call the provider itself, because a host tolerates many of the faults that the checks look for. A call that
raises ends the check as failed, with the hook's name and the kind of the error.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from strongroom.host import error_location
from strongroom.host.agent_session import AgentSession
from strongroom.host.call_adapter import fit_arguments
from strongroom.host.conformance import tool_arguments
from strongroom.host.conformance.answer_text import readable
from strongroom.host.conformance.verdict import Failed
from strongroom.host.provider_interface import MemoryProvider, Message

REPLY = "Noted, thank you."
_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class SpokenLine:
    """A sentence that a person says, a question about it, and a word of the sentence that the question does not
    contain.
    """

    said: str
    question: str
    answer: str


def wait_until(true: Callable[[], bool], patience: float) -> bool:
    """Wait until a condition is true. Returns False if it is not true within `patience` seconds."""
    end = time.monotonic() + patience
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(_PAUSE)
    return True


class TestedAgent:
    """An agent for checks: a provider and the session that the provider serves."""

    def __init__(
        self, provider: MemoryProvider, session: AgentSession, home: str, patience: float, note: Callable[[str], None]
    ) -> None:
        self.provider = provider
        self.session = session
        self.home = home
        self.patience = patience
        self.note = note
        self.turns = 0
        self.messages: list[Message] = []

    def call(self, hook: str, *args: Any, **keywords: Any) -> Any:
        """Call a hook with those arguments that it accepts. A missing hook does nothing, as in the interface."""
        method = getattr(self.provider, hook, None)
        if method is None:
            return None
        places, names = fit_arguments(method, args, keywords)
        self.note(hook)
        try:
            answer = method(*places, **names)
        except Exception as error:
            raise Failed(f"{hook} raised {type(error).__name__}{error_location.place(error, self.provider)}") from error
        if inspect.isawaitable(answer):
            if inspect.iscoroutine(answer):
                answer.close()
            raise Failed(f"{hook} returned something to be awaited, which nobody does")
        return answer

    def takes(self, hook: str, keyword: str) -> bool:
        """True if a hook accepts a keyword argument of this name."""
        method = getattr(self.provider, hook, None)
        return method is not None and keyword in fit_arguments(method, (), {keyword: ""})[1]

    # The life of a session

    def start(self) -> TestedAgent:
        """Make the calls that start an agent, in Hermes' order."""
        self.call("is_available")
        self.schemas()
        self.schemas()
        self.call("initialize", self.session.id, **self.session.told(self.home))
        self.schemas()
        return self

    def stop(self) -> None:
        """End the session with the calls `on_session_end` and `shutdown`."""
        self.call("on_session_end", list(self.messages))
        self.call("shutdown")

    def schemas(self) -> list[dict[str, Any]]:
        """The schemas of the provider's tools. A wrapper `{"function": ...}` is taken off."""
        found = self.call("get_tool_schemas")
        if not isinstance(found, list | tuple) or not all(isinstance(one, Mapping) for one in found):
            raise Failed("get_tool_schemas returned something else than a list of schemas")
        return [dict(one["function"]) if isinstance(one.get("function"), Mapping) else dict(one) for one in found]

    # A turn

    def turn(self, said: str, reply: str = REPLY) -> str:
        """Make the calls of a whole turn. Returns the text that was recalled for the turn."""
        self.turns += 1
        self.call("on_turn_start", self.turns, said)
        recalled = self.prefetch(said)
        self.keep(said, reply)
        self.call("queue_prefetch", said, session_id=self.session.id)
        return recalled

    def keep(self, said: str, reply: str = REPLY, extra: Sequence[Message] = (), turn_id: str = "") -> None:
        """Call `sync_turn` with the messages of the whole conversation. By default each turn has a new id."""
        self.messages += [{"role": "user", "content": said}, *extra, {"role": "assistant", "content": reply}]
        known = {"session_id": self.session.id, "turn_id": turn_id or token_hex(16)}
        self.call("sync_turn", said, reply, messages=list(self.messages), **known)

    def write(self, action: str, text: str, *, old: str = "") -> None:
        """Make the call that follows a change of the built-in memory."""
        known = {"write_origin": "assistant_tool", "session_id": self.session.id, "platform": self.session.platform}
        self.call("on_memory_write", action, "user", text, metadata=known | ({"old_text": old} if old else {}))

    # Recall

    def prefetch(self, query: str) -> str:
        """The text that `prefetch` recalls for a query."""
        found = self.call("prefetch", query, session_id="")
        if not isinstance(found, str):
            raise Failed(f"prefetch returned {type(found).__name__} and not text")
        return readable(found)

    def recall(self, query: str) -> str:
        """Every text that a model could read for a query: from `prefetch`, and from tools that look like a search."""
        answers = [self.call("handle_tool_call", *search) for search in self._searches(query)]
        return "\n".join([self.prefetch(query), *(readable(one) for one in answers if isinstance(one, str))])

    def comes_back(self, query: str, wanted: str) -> bool:
        """True if a line is recalled now, or within `patience` for a provider that works in the background."""
        return wait_until(lambda: wanted in self.recall(query), self.patience)

    def keeps(self, line: SpokenLine) -> bool:
        """True if a stored line is recalled, within `patience`."""
        return self.comes_back(line.question, line.answer)

    def _searches(self, query: str) -> list[tuple[str, dict[str, Any]]]:
        """The tools that look like a search by their name, each with arguments for the query."""
        named = [one for one in self.schemas() if tool_arguments.WORDS.search(str(one.get("name")))]
        found = [(str(one["name"]), tool_arguments.arguments(one.get("parameters"), query)) for one in named]
        return [(tool, arguments) for tool, arguments in found if arguments]
