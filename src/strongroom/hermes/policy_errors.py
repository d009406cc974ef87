"""Puts a policy's faults into words: the key, the fault, and the values that are allowed. Pure.

The message never repeats the value, because a secret may have been written into the wrong line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

Choices = Mapping[str, Sequence[str]]
"""The allowed words for each key."""
_TYPES = {
    "bool": "true or false",
    "str": "a text in quotes",
    "int": "a whole number",
    "float": "a number",
    "array": 'a list, such as ["a", "b"]',
    "object": "a table of keys and values",
    "null": "nothing",
}
_AT = re.compile(r" - at `(?:key in )?\$?\.?([^`]*)`$")


def plain(said: str, choices: Choices) -> str:
    """Rewrite a parser's message about a value in plain words. A message about the TOML syntax stays as it is."""
    found = _AT.search(said)
    key = found[1].replace("[...]", "") if found else ""
    said = said[: found.start()] if found else said
    for pattern, word in _SENTENCES:
        if match := re.fullmatch(pattern, said):
            return f"{key}: {word(match, choices.get(key, ()))}" if key else word(match, choices.get(key, ()))
    return f"{key}: {said}" if key else said


def _wrong_type(match: re.Match[str], choices: Sequence[str]) -> str:
    if choices:
        return f"it must be one of {_listed(choices)}"
    return f"it must be {_named(match[1])}, and here it is {_named(match[2])}"


def _named(types: str) -> str:
    return " or ".join(_TYPES.get(one.strip(), one.strip()) for one in types.split("|"))


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _bound(match: re.Match[str], _: Sequence[str]) -> str:
    side = "at least" if match[2] == ">=" else "at most"
    return f"it must be {_named(match[1])} of {side} {match[3]}"


_SENTENCES: tuple[tuple[str, Callable[[re.Match[str], Sequence[str]], str]], ...] = (
    (r"Invalid enum value .*", lambda _, choices: f"it must be one of {_listed(choices)}"),
    (r"Expected `([^`]*)`, got `([^`]*)`", _wrong_type),
    (r"Expected `([^`]*)` (>=|<=) (\S+)", _bound),
    (r"Object contains unknown field `([^`]*)`", lambda match, _: f"there is no key {match[1]!r}"),
)
