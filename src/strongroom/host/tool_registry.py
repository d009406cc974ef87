"""The tools of all providers as one list: validated, without duplicates, each with its provider.

A single malformed tool makes some model APIs refuse the whole request. So a malformed tool is left out, and the log
names the tool and the reason. The runtime's own tools take precedence, then the built-in memory's, then the external
provider's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from strongroom.host import error_location
from strongroom.host.isolation import IsolatedProvider, isolate, log
from strongroom.host.provider_interface import Schema
from strongroom.host.recall_fence import writable

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}
_MOST_BYTES = 32 * 1024
_MOST_TOOLS = 128


def gather_tools(
    providers: Sequence[IsolatedProvider], reserved: Collection[str], seconds: float = 10.0
) -> tuple[list[Schema], dict[str, IsolatedProvider]]:
    """The schemas of all sound tools, and the provider for each tool's name. If two tools have one name, the first is
    used.
    """
    schemas: list[Schema] = []
    routes: dict[str, IsolatedProvider] = {}
    for provider in providers:
        for schema in provider.read(partial(_taken, provider.name), "get_tool_schemas", seconds, []):
            if isinstance(schema, str):
                log.warning("memory provider %s: a tool is left out: %s", provider.name, schema)
            elif schema["name"] in reserved or schema["name"] in routes:
                log.warning(
                    "memory provider %s: tool %s is left out, because another provider has a tool of that name",
                    provider.name,
                    schema["name"],
                )
            else:
                schemas.append(schema)
                routes[schema["name"]] = provider
    return schemas, routes


def sound(given: object) -> Schema | str:
    """The tool's schema without a `function` wrapper, or a text that says what is wrong with it."""
    if isinstance(given, Mapping) and given.get("type") == "function" and isinstance(given.get("function"), Mapping):
        given = given["function"]
    if not isinstance(given, Mapping):
        return f"a {type(given).__name__} is no schema"
    parameters = given.get("parameters", _NOTHING)
    if isinstance(parameters, Mapping):
        parameters = {"type": "object", **parameters}
    whole = {**given, "description": given.get("description", ""), "parameters": parameters}
    if wrong := next(flaws(whole), ""):
        name = whole.get("name")
        return f"{name}: {wrong}" if isinstance(name, str) and _NAME.fullmatch(name) else wrong
    return dict(json.loads(_written(whole) or "{}"))


def flaws(schema: Mapping[str, Any]) -> Iterator[str]:
    """The faults of a tool's schema. The keys `name`, `description` and `parameters` are required."""
    name, parameters = schema.get("name"), schema.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield "its name is not of 1 to 64 letters, digits, _ and -"
    if not isinstance(schema.get("description"), str):
        yield "its description is not text"
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        yield "its parameters are no JSON schema of an object"
    else:
        yield from _flaws_of(parameters)
    data = _written(schema)
    if data is None:
        yield "it cannot be written as JSON"
    elif len(data) > _MOST_BYTES:
        yield f"it is larger than {_MOST_BYTES} bytes"


def _flaws_of(parameters: Mapping[str, Any]) -> Iterator[str]:
    properties, required = parameters.get("properties", {}), parameters.get("required", [])
    if not isinstance(properties, Mapping):
        yield "its properties are no object"
    elif not all(isinstance(name, str) and isinstance(shape, Mapping) for name, shape in properties.items()):
        yield "one of its properties is no JSON schema"
    if not isinstance(required, list | tuple) or not all(isinstance(name, str) for name in required):
        yield "what it requires is no list of names"
    elif isinstance(properties, Mapping) and set(required) - set(properties):
        yield "it requires what is not among its properties"


def _written(schema: Mapping[str, Any]) -> bytes | None:
    try:
        return json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None


def _sound(given: object) -> Schema | str:
    raised: list[str] = []
    with isolate(lambda error: raised.append(type(error).__name__)):
        return sound(given)
    return f"looking at it raised {raised[0]}"


def _taken(name: str, given: object) -> list[Schema | str]:
    """The tools of a provider, each as a schema or as a text with its fault. See `sound`."""
    if not isinstance(given, list | tuple):
        if given is not None:
            log.warning(
                "memory provider %s: get_tool_schemas returned a %s and not a list", name, error_location.kind(given)
            )
        return []
    found = list(islice(given, _MOST_TOOLS + 1))
    if len(found) > _MOST_TOOLS:
        log.warning("memory provider %s: only the first %d tools are taken", name, _MOST_TOOLS)
    return [_sound(one) for one in found[:_MOST_TOOLS]]


def as_json_answer(given: object) -> str | None:
    """A tool's answer as JSON. Plain text is wrapped in JSON. None if the answer is not text."""
    if not isinstance(given, str):
        return None
    text = writable(given)
    try:
        json.loads(text, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return json.dumps({"result": text}, ensure_ascii=False)
    return text


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def refusal_answer(message: str) -> str:
    """The JSON answer of a tool that reports an error, in the form that models know."""
    return json.dumps({"error": message}, ensure_ascii=False)
