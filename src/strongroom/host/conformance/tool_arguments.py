"""Arguments for a search tool: the query, and a fitting value for every other required parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

WORDS = re.compile(r"search|recall|query|find|lookup", re.IGNORECASE)
_MANY = 10
_PLAIN: dict[str, Any] = {"boolean": True, "array": [], "object": {}, "null": None}


def arguments(parameters: object, query: str) -> dict[str, Any]:
    """The arguments for a search tool. Empty if the tool has no parameter for a query."""
    parameters = parameters if isinstance(parameters, Mapping) else {}
    properties, required = parameters.get("properties"), parameters.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list | tuple):
        return {}
    shapes = {str(name): shape for name, shape in properties.items() if isinstance(shape, Mapping)}
    needed = [name for name in shapes if name in required]
    free = [name for name, shape in shapes.items() if _is_free(shape)]
    if not any(name in free for name in needed):  # all are optional: the first is the most likely
        needed += free[:1]
    if not any(name in free for name in needed):
        return {}
    return {name: query if name in free else _fitting(shapes[name]) for name in needed}


def _is_free(shape: Mapping[str, Any]) -> bool:
    return shape.get("type") == "string" and "enum" not in shape and "const" not in shape


def _fitting(shape: Mapping[str, Any]) -> Any:
    """A value that the schema allows. From an enumeration, a value whose name suggests a search is preferred."""
    if "const" in shape:
        return shape["const"]
    if isinstance(shape.get("enum"), list | tuple) and shape["enum"]:
        return next((one for one in shape["enum"] if WORDS.search(str(one))), shape["enum"][0])
    if "default" in shape:
        return shape["default"]
    kind = shape.get("type")
    if kind in ("integer", "number"):
        return _number(shape)
    return _PLAIN.get(kind) if isinstance(kind, str) else None


def _number(shape: Mapping[str, Any]) -> Any:
    most, least = shape.get("maximum", _MANY), shape.get("minimum", 0)
    within = min(_MANY, most) if isinstance(most, int | float) else _MANY
    return max(within, least) if isinstance(least, int | float) else within
