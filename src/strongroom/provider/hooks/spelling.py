"""How a shell would read a text, as far as that can be told without one: homes, variables, quotes, patterns. Pure.

What cannot be known (an unset variable, the output of a command) becomes `*`, so that it counts as anything. This sees
through carelessness and simple disguise only: a command that decodes a name or runs a script it wrote earlier is not
seen through. Against that, only a vault served under another user is a wall.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

# Every pattern takes linear time: another could hold up the whole process, and a hook that is late is ignored.
_VARIABLE = re.compile(r"\$(?:\{(\w++)[^{}]*+\}|(\w++))")
_COMMAND = re.compile(r"\$\([^()]*\)|`[^`]*`")
_BRACES = re.compile(r"\{[^{}\s]*+\}")
_HOME = re.compile(r"(?<![\w./*~-])~([\w.-]*)(?=/|$|[^\w.-])")
_QUOTES = re.compile(r"[\"'\\]")
_SLASHES = re.compile(r"/(?:\.?/)+")
_BETWEEN = re.compile(r"[\s;|&<>(),=:`]+")
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a command would run: its directory, the homes that `~` may mean, the variables it sees."""

    cwd: str
    homes: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)


def texts(value: object) -> Iterator[str]:
    """Every text in the arguments of a tool, names included."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            waiting += one


def spellings(text: str, around: Surroundings) -> set[str]:
    """What a text may mean: one for each home that `~` and `$HOME` may stand for."""
    found = {_plain(text, home, around) for home in around.homes or ("*",)}
    if "%" in text:
        found |= {_plain(unquote(text), home, around) for home in around.homes or ("*",)}
    return found


def words(spelling: str) -> set[str]:
    """What may be a path in it."""
    return {word for word in _BETWEEN.split(spelling) if word}


def _plain(text: str, home: str, around: Surroundings) -> str:
    def variable(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return home if name == "HOME" else around.variables.get(name, "*")

    def owners(found: re.Match[str]) -> str:
        return home if not found[1] or home.rsplit("/", 1)[-1] == found[1] else found[0]

    text = text.replace("\\\n", "").replace("file://", " ")
    for _ in range(_DEPTH):  # they may stand in each other
        before, text = text, _COMMAND.sub("*", text)
        if text == before:
            break
    text = _VARIABLE.sub(variable, text)
    text = _HOME.sub(owners, text)
    text = _QUOTES.sub("", text)
    for _ in range(_DEPTH if "{" in text else 0):
        text = _BRACES.sub(lambda found: "*" if "," in found[0] or ".." in found[0] else found[0], text)
    return _SLASHES.sub("/", text)
