"""Two logs of calls to one provider, made comparable, and what differs between them.

Ids, paths and times are named by what they are. Three things are compared: which methods an event calls and in which
order, what each argument says, and whether a method runs on the agent's own thread.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tests.hermes import script

ABSENT = "not given"
_NAMED = {"child_session_id", "hermes_home", "task_id", "tool_call_id"}
"""Values that no two runs share: only whether there is one is compared."""
_THREADS = {
    frozenset({"main"}): "the agent's",
    frozenset({"other"}): "another",
    frozenset({"main", "other"}): "the agent's or another",
}

Difference = tuple[str, str, str]
"""What it is about, what Hermes does, what our host does."""


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    arguments: Mapping[str, Any]
    thread: str


Log = dict[str, list[Call]]
"""The calls of each event of the script, in order."""


def read(path: Path) -> Log:
    log: Log = {}
    event = "before"
    for line in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        if "event" in line:
            event = line["event"]
            assert event not in log, f"two events are called {event}"
            log[event] = []
        else:
            assert line["instance"] == 1, "one object serves one agent"
            log[event].append(Call(line["method"], _plain(line["arguments"]), line["thread"]))
    return log


def differences(hermes: Log, host: Log) -> set[Difference]:
    """Each once: where one argument differs in several ways, they stand side by side in the order of the script."""
    assert list(hermes) == list(host), "both were to go through the same events"
    pairs: dict[str, dict[tuple[str, str], None]] = {}
    for about, one, other in chain(_calls(hermes, host), _arguments(hermes, host), _threads(hermes, host)):
        pairs.setdefault(about, {})[one, other] = None
    return {
        (about, "; ".join(one for one, _ in seen), "; ".join(other for _, other in seen))
        for about, seen in pairs.items()
    }


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _named(name, value) for name, value in arguments.items()}


def _named(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _plain(value)
    if name == "messages" and value is not None:
        return [_said(message) for message in value]
    return f"<{name}>" if name in _NAMED and value else value


def _said(message: str) -> str:
    """A message, without what each runtime words in its own way: results of tools, and summaries."""
    role, _, text = message.partition(": ")
    if role == "tool":
        return "tool"
    return f"{role}: <summary>" if text.startswith("[CONTEXT COMPACTION") else message


def _calls(hermes: Log, host: Log) -> Iterator[Difference]:
    for event, calls in hermes.items():
        theirs, ours = [one.method for one in calls], [one.method for one in host[event]]
        if theirs != ours:
            yield f"calls at {event}", ", ".join(theirs), ", ".join(ours)


def _arguments(hermes: Log, host: Log) -> Iterator[Difference]:
    for event, calls in hermes.items():
        for method in {one.method for one in calls}:
            theirs = [one.arguments for one in calls if one.method == method]
            ours = [one.arguments for one in host[event] if one.method == method]
            for one, other in zip(theirs, ours, strict=False):
                yield from _told(method, one, other)


def _told(method: str, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[Difference]:
    for name in sorted({*theirs, *ours}):
        one, other = theirs.get(name, ABSENT), ours.get(name, ABSENT)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from _told(f"{method} {name}", one, other)
        elif one != other:
            yield f"{method} {name}", _shown(one), _shown(other)


def _shown(value: Any) -> str:
    if value in script.SESSIONS:
        return "the session's"
    return value if value == ABSENT else json.dumps(value)


def _threads(hermes: Log, host: Log) -> Iterator[Difference]:
    theirs, ours = _by_method(hermes), _by_method(host)
    pairs: dict[tuple[str, str], list[str]] = {}
    for method in sorted(theirs.keys() & ours.keys()):
        if theirs[method] != ours[method]:
            pairs.setdefault((theirs[method], ours[method]), []).append(method)
    for (one, other), methods in pairs.items():
        yield f"thread of {', '.join(methods)}", one, other


def _by_method(log: Log) -> dict[str, str]:
    seen: dict[str, set[str]] = {}
    for calls in log.values():
        for call in calls:
            seen.setdefault(call.method, set()).add(call.thread)
    return {method: _THREADS[frozenset(threads)] for method, threads in seen.items()}
