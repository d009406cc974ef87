"""Names the wrong field of a call that came from outside, and repeats no value of that call."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import inspect

_PATH = re.compile(r" - at `(\$[^`]{0,80})`")
_UNKNOWN = re.compile(r"unknown field `([A-Za-z0-9_.-]{1,40})`")
_STEP = re.compile(r"\.([A-Za-z_]+)|\[[^\[\]]*\]")


def wrong_field(
    error: Exception, kind: type[msgspec.Struct], noun: str = "field", *, is_named: bool = True
) -> tuple[str, tuple[str, ...]]:
    """Describe the wrong field of a call of type `kind`. Returns the description and the fields that could stand there.

    An unknown field may hold any text, so it is named only if it is a plain word. With `is_named=False` it is never
    named.
    """
    found = _PATH.search(str(error))
    path = "$" if found is None else found[1]
    place = "" if found is None else f" at {path}"
    unknown = _UNKNOWN.search(str(error)) if is_named else None
    said = f"a wrong or missing {noun}" if unknown is None else f"an unknown {noun} `{unknown[1]}`"
    return said + place, _fields(kind, path)


def _fields(kind: type[msgspec.Struct], path: str) -> tuple[str, ...]:
    """The fields of the innermost struct on a path such as `$.lines[0].tags`."""
    here: Any = inspect.type_info(kind)
    names = kind.__struct_fields__
    for step in _STEP.finditer(path):
        here = _inner(here, step[1])
        if isinstance(here, inspect.StructType):
            names = here.cls.__struct_fields__
    return names


def _inner(here: Any, name: str | None) -> Any:
    """The type of the field `name`, or of an item of a list if `name` is None. None if the types do not tell."""
    if isinstance(here, inspect.UnionType):
        here = next((one for one in here.types if not isinstance(one, inspect.NoneType)), None)
    if name is None:
        return getattr(here, "item_type", None)
    if isinstance(here, inspect.StructType):
        return next((one.type for one in here.fields if one.encode_name == name), None)
    return None
