"""Computes the possible values of a command's words. Each value is a text with marks for unknown parts.

A word has several values if braces, loop variables or defaults give several. If a word would have more than
VALUES_LIMIT values, a part of it counts as UNKNOWN, so the number stays small.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from strongroom.hermes.hooks.shell_parser import (
    ANY,
    CLOSE,
    COMMA,
    HOME,
    ONE,
    OPEN,
    SPLIT,
    UNKNOWN,
    Arithmetic,
    Literal,
    Part,
    Substitution,
    TooMuch,
    Variable,
    Word,
    replace,
)

VALUES_LIMIT = 64
LENGTH_LIMIT = 1 << 17
"""Maximum length of a value, in characters."""
WORK_LIMIT = 1 << 22
"""Maximum number of characters of all values in a tool call together."""
_BRACES_LIMIT = 32
_LINES_LIMIT = 16
_BRACE = re.compile(f"([{OPEN}{COMMA}{CLOSE}])")
_RANGE = re.compile(r"-?\w+\.\.-?\w+(?:\.\.-?\d+)?")
_PLAIN = str.maketrans({OPEN: "{", COMMA: ",", CLOSE: "}"})
_GLOBS = str.maketrans({"*": ANY, "?": ONE})
_DEFAULT = re.compile(r":?[-=+?]")
_SLICE = re.compile(r":\s*(\d+)(?::\s*(\d+))?$")
_SPACE = re.compile(r"[ \t\n]+")

Values = Sequence[str]
Output = Callable[[Substitution], str | None]
"""Returns the output of a substitution's commands, or the name of a file with the output. None if it is not known."""


@dataclass(slots=True)
class Scene:
    """The state of a shell at one moment: variables, working directories and home directories."""

    cwd: Values
    homes: tuple[str, ...]
    environment: Mapping[str, str]
    variables: dict[str, Values] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    work: int = 0

    def spend(self, amount: int) -> None:
        """Add to the number of characters of the call. Raises TooMuch above the limit."""
        self.work += amount
        if self.work > WORK_LIMIT:
            raise TooMuch


def expand(word: Word, scene: Scene, output: Output) -> list[str]:
    """The values of a word. The mark SPLIT stands where the shell would split a value into several words."""
    found = [""]
    run: list[str] = []
    for part in word:
        values = _values(part, scene, output)
        if len(found) * len(values) > VALUES_LIMIT:
            values = [UNKNOWN]
        scene.spend(sum(map(len, values)))
        if len(values) == 1:
            run.append(values[0])
            continue
        head = "".join(run)
        run = []
        found = [f"{one}{head}{value}" for one in found for value in values]
    tail = "".join(run)
    scene.spend(1 + sum(len(one) + len(tail) for one in found))
    found = [meaning for one in found for meaning in braces(one + tail)]
    if any(len(one) > LENGTH_LIMIT for one in found):
        raise TooMuch
    return list(dict.fromkeys(at_home(found, scene)))[:VALUES_LIMIT]


def at_home(texts: Iterable[str], scene: Scene) -> Iterable[str]:
    """Replace the mark HOME by each home directory."""
    for text in texts:
        if HOME not in text:
            yield text
            continue
        before, _, after = text.partition(HOME)
        name = re.match(r"[\w.-]*", after)
        user = name[0] if name else ""
        after = after.replace(HOME, "~")
        for home in scene.homes or (UNKNOWN,):
            if not user or home.rsplit("/", 1)[-1] == user:
                yield f"{before}{home}{after[len(user) :]}"
            else:
                yield f"{before}~{after}"


def braces(text: str) -> list[str]:
    """Expand the braces of a text, as in `{a,b}`, into several texts."""
    if OPEN not in text:
        return [text.translate(_PLAIN)]
    if text.count(OPEN) > _BRACES_LIMIT:
        return [text.partition(OPEN)[0] + UNKNOWN]
    frames: list[tuple[list[str], list[str]]] = [([], [""])]
    for piece in _BRACE.split(text):
        if piece == OPEN:
            frames.append(([], [""]))
        elif piece == COMMA and len(frames) > 1:
            frames[-1][0].extend(frames[-1][1])
            frames[-1][1][:] = [""]
        elif piece == CLOSE and len(frames) > 1:
            done, last = frames.pop()
            _append(frames[-1][1], [*done, *last] if done else _alone(last))
        else:
            _append(frames[-1][1], [piece.translate(_PLAIN)])
    while len(frames) > 1:
        done, last = frames.pop()
        _append(frames[-1][1], ["{" + ",".join([*done, *last])])
    return frames[0][1]


def _append(ends: list[str], values: list[str]) -> None:
    if len(ends) * len(values) > VALUES_LIMIT:
        values = [UNKNOWN]
    ends[:] = [one + value for one in ends for value in values]


def _alone(values: list[str]) -> list[str]:
    return [ANY if _RANGE.fullmatch(one) else "{" + one + "}" for one in values]


def _values(part: Part, scene: Scene, output: Output) -> Values:
    if isinstance(part, Literal):
        return [part.text]
    if isinstance(part, Arithmetic):
        expand(part.inner, scene, output)
        return [ANY]
    if isinstance(part, Substitution):
        found = output(part)
        value = UNKNOWN if found is None else found.rstrip("\n")
        if part.quoted and "\n" in value and (ANY in value or UNKNOWN in value):
            return value.split("\n")[:_LINES_LIMIT]  # which of the lines is printed is unknown
        return [value if part.quoted else _split(value)]
    values = _variable(part, scene, output)
    return values if part.quoted else [_split(one) for one in values]


def _split(value: str) -> str:
    return _SPACE.sub(SPLIT, value).translate(_GLOBS)


def _variable(part: Variable, scene: Scene, output: Output) -> Values:
    if part.prefix == "#" or part.name in ("#", "?", "$", "!"):
        return [ANY]
    values = _named(part, scene)
    if part.prefix == "!":
        values = [value for name in values or () for value in scene.variables.get(name, [UNKNOWN])]
    if not part.rest:
        return values or [UNKNOWN]
    meanings = expand(part.rest, scene, output)
    changed = [_changed(one, rest) for one in values or [UNKNOWN] for rest in meanings]
    defaults = [rest[found.end() :] for rest in meanings if (found := _DEFAULT.match(rest))]
    if defaults:
        return [*(values or ()), *defaults]
    return list(dict.fromkeys(changed))[:VALUES_LIMIT]


def _named(part: Variable, scene: Scene) -> Values | None:
    """The values of a variable. None if the variable is unknown."""
    name = part.name
    if name in ("@", "*") or part.index is not None:
        values = scene.arrays.get("@" if name in ("@", "*") else name)
        is_joined = name == "*" or part.index == "*"
        if values is None or not is_joined:
            return values
        return [scene.variables.get("IFS", [" "])[0][:1].join(values)]
    if name.isdigit() and name != "0":
        values = scene.arrays.get("@")
        place = int(name) - 1
        return None if values is None or not 0 <= place < len(values) else [values[place]]
    if name in scene.arrays and name not in scene.variables:
        return scene.arrays[name][:1]
    if name == "PWD":
        return scene.cwd
    if name in scene.variables:
        return scene.variables[name]
    if name == "HOME":
        return scene.homes
    return [scene.environment[name]] if name in scene.environment else None


def _changed(value: str, rest: str) -> str:
    """Apply an operator of `${NAME...}` that changes a value."""
    if found := _SLICE.match(rest):
        start = int(found[1])
        return value[start : start + int(found[2])] if found[2] else value[start:]
    if rest.startswith(("^^", ",,", "^", ",", "@")):
        return value.upper() if rest == "^^" else value.lower() if rest == ",," else value
    if rest.startswith("/"):
        pattern, _, instead = rest.lstrip("/").partition("/")
        is_plain = pattern and not set(pattern) & {ANY, ONE, UNKNOWN}
        return replace(value, pattern, instead, -1 if rest.startswith("//") else 1) if is_plain else UNKNOWN
    if rest in ("##" + ANY + "/", "#" + ANY + "/"):
        return value.rpartition("/")[2] if rest.startswith("##") else value.partition("/")[2]
    if rest == "%/" + ANY:
        return value.rpartition("/")[0]
    plain = rest.lstrip("#%")
    if rest.startswith("#"):
        return value.removeprefix(plain) if ANY not in plain else UNKNOWN
    return (value.removesuffix(plain) if ANY not in plain else UNKNOWN) if rest.startswith("%") else value
