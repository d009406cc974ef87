"""A scripted model that is told its answers as a story goes on, and what reached it.

An answer is chosen by what the user said, never by what was recalled. What Hermes puts around recalled text is known
here, so that the two can be told apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from demo.model_server import (
    ModelServer,
    Reply,
    Request,
    Rule,
    ToolCall,
    last_user_text,
    text_of,
)

_FENCE = re.compile(r"\n\n<memory-context>\n\[System note: [^\]]*\]\n\n(.*)\n</memory-context>", re.DOTALL)

Answer = Callable[[str], str | Reply]
"""What the model says to what the user said."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it reached the model."""

    messages: list[dict[str, Any]]

    @property
    def system(self) -> str:
        return "\n".join(text_of(one) for one in self.messages if one["role"] == "system")

    @property
    def user(self) -> str:
        """The last message of the user, with everything that was added to it."""
        return last_user_text({"messages": self.messages})

    @property
    def recalled(self) -> str:
        """What the provider recalled for the last message of the user, without Hermes' fence and note."""
        found = _FENCE.search(self.user)
        return found[1] if found else ""

    @property
    def everything(self) -> str:
        """Every text of the request: what is not in here did not reach the model."""
        return json.dumps(self.messages, ensure_ascii=False)


class Model(ModelServer):
    """The scripted model, with answers that are added while it runs. The newest answer that fits is given.

    An answer fits by what the user said, never by what was recalled. A request without tools is for a title or a
    summary: it is answered with `summary`.
    """

    def __init__(self, otherwise: Answer = lambda _: "Understood.", *, summary: str = "A summary.") -> None:
        super().__init__(self._scripted)
        self._otherwise, self._summary = otherwise, summary
        self._rules: list[Rule] = []

    def answers(self, when: str, text: str, *calls: ToolCall) -> None:
        """To a message that contains `when`: first each of the tool calls, one after another, then the text."""
        self._rules.append(Rule(when, text, calls))

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def requests_seen(self) -> list[list[dict[str, Any]]]:
        return [request["messages"] for request in list(self.requests)]

    def seen(self, said: str) -> Seen:
        """The last turn in which the user said this, at its first request."""
        turns = [one for one in list(self.requests) if said in _own(one) and one["messages"][-1]["role"] == "user"]
        if not turns:
            raise LookupError(f"the model was never told {said!r}")
        return Seen([one for one in turns if one.get("tools")][-1]["messages"])

    def results(self, said: str) -> list[str]:
        """What tools brought back in the last turn in which the user said this, as far as the model was told."""
        turn = [one for one in list(self.requests) if said in _own(one) and one.get("tools")][-1]["messages"]
        start = max(place for place, one in enumerate(turn) if one["role"] == "user")
        return [text_of(one) for one in turn[start:] if one["role"] == "tool"]

    def _scripted(self, request: Request) -> Reply:
        said, tools = _own(request), bool(request.get("tools"))
        fits = (rule for rule in reversed(self._rules) if (rule.when in said if tools else rule.when == said))
        rule = next(fits, None)
        if rule is None:
            answer = self._otherwise(said) if tools else self._summary
            return answer if isinstance(answer, Reply) else Reply(answer)
        done = _results(request)
        return Reply(calls=(rule.calls[done],)) if done < len(rule.calls) else Reply(rule.text)


def _own(request: Request) -> str:
    """What the user said last, without what was added to it."""
    return _FENCE.sub("", last_user_text(request))


def _results(request: Request) -> int:
    """How many results of tools there are after the last message of the user."""
    results = 0
    for one in reversed(request["messages"]):
        if one["role"] == "user":
            break
        results += one["role"] == "tool"
    return results
