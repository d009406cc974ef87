"""Checks of a provider's tools: known before the start, well-formed, and answering any arguments with JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from strongroom.host.conformance.check_stage import CheckStage
from strongroom.host.conformance.scripted_agent import TestedAgent
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable
from strongroom.host.tool_registry import flaws

RESERVED = frozenset({"memory"})
"""The names of the built-in memory's tools."""
_NO_TOOLS = "it has no tools"


def before_start(stage: CheckStage) -> str:
    """Compare the tools before `initialize` with the tools after it."""
    agent = stage.agent()
    early = _names(agent)
    late = _names(stage.started())
    added = late - early
    if early - late:
        raise Failed(f"{len(early - late)} of {len(early)} tools are gone after initialize: they are called in vain")
    if added:
        raise Failed(f"{len(added)} of {len(late)} tools appear only after initialize, too late to be offered")
    if not early:
        raise NotApplicable(_NO_TOOLS)
    return f"the tools are known before initialize: {len(early)}"


def schemas(stage: CheckStage) -> str:
    """Check the schema of each tool."""
    found = stage.agent().schemas()
    if not found:
        raise NotApplicable(_NO_TOOLS)
    wrong = [f"tool {number}: {flaw}" for number, one in enumerate(found, 1) for flaw in _flaws(one)]
    names = Counter(str(one.get("name")) for one in found)
    wrong += [f"{count} tools have the same name" for count in names.values() if count > 1]
    if wrong:
        raise Failed("; ".join(wrong))
    return f"well-formed, with names of their own: {len(found)}"


def answers(stage: CheckStage) -> str:
    """Call unknown tools, and known tools with arguments that are missing or of the wrong kind."""
    agent = stage.started()
    known = agent.schemas()
    if not known:
        raise NotApplicable(_NO_TOOLS)
    _answer(agent, "no_such_tool_anywhere", {}, "an unknown tool")
    for schema in known:
        for what, arguments in _bad_arguments(schema):
            _answer(agent, str(schema["name"]), arguments, what)
    return "each call was answered in JSON"


def _answer(agent: TestedAgent, tool: str, arguments: dict[str, Any], what: str) -> None:
    try:
        said = agent.call("handle_tool_call", tool, arguments)
    except Failed as error:
        raise Failed(f"{error} for {what}") from error
    if not isinstance(said, str):
        raise Failed(f"handle_tool_call returned {type(said).__name__} for {what}, and not JSON as text")
    try:
        json.loads(said)
    except ValueError:
        raise Failed(f"handle_tool_call returned text that is no JSON for {what}") from None


def _bad_arguments(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    parameters = schema.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    named = list(properties) if isinstance(properties, Mapping) else []
    yield "no arguments", {}
    yield "arguments that are null", dict.fromkeys(named)
    yield "arguments of the wrong kind", {name: [{"x": 1}] for name in named}
    yield "an argument that it does not know", {"no_such_argument": "x"}


def _flaws(schema: Mapping[str, Any]) -> Iterator[str]:
    """The faults for which a host would leave the tool out, and a missing description."""
    if schema.get("name") in RESERVED:
        yield "its name is that of a tool of the runtime"
    if schema.get("description") in (None, ""):
        yield "it has no description"
    yield from flaws({"description": "", **schema})


def _names(agent: TestedAgent) -> set[str]:
    return {str(one.get("name")) for one in agent.schemas()}


CHECKS = (
    Check(
        "tools-before-start",
        "The tools are known before initialize",
        "Asks an object that was never initialised for its tools, and one that was.",
        "Runtimes gather tools first: one that appears later is offered to nobody, or called in vain.",
        before_start,
    ),
    Check(
        "tool-schemas",
        "Each tool is well-formed and has a name of its own",
        "Looks at names, descriptions and parameters of all tools.",
        "Model APIs refuse a whole request because of one malformed tool.",
        schemas,
    ),
    Check(
        "tool-answers",
        "Tools answer in JSON, whatever they are given",
        "Calls an unknown tool, and each tool with arguments that are missing, null, of the wrong kind or unknown.",
        "Models make such calls. An answer tells them what to do better; an error tells them nothing.",
        answers,
    ),
)
