"""Compares a path, a pattern or a text with unknown parts with the guarded paths.

There are four relations, from the weakest to the strongest:

- APART: none of the following.
- ABOVE: a directory that holds something guarded.
- DEEP: anything below such a directory.
- WITHIN: the guarded path itself, or something in it.

Case is ignored, and links are followed. A path that begins with an unknown part may begin anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase

from strongroom.hermes.hooks.shell_parser import ANY, ONE, UNKNOWN

SETTINGS = "the hooks in the runtime's configuration"

_CONTENTS = ("root.keyring", "issuer.key", "vault.db", "vault.turn", "owner.cap", "runtime.cap")
"""Names of files in guarded directories. A search for such a name would find the guarded file."""
_COMMON = frozenset(("home", "users", "share", "plugins", "config.toml"))
"""Names that are too common to suggest a guarded path if the directory above them is unknown."""
_NAME_LIMIT = 255
_PATH_LIMIT = 4096
"""Maximum length of a path, in characters. No system opens a longer path."""
_DEEP = "**"
_MARKED = re.compile(f"[{ONE}{ANY}{UNKNOWN}]")
_PURE = re.compile(f"[{ANY}{UNKNOWN}]+")
_PROCESS = re.compile(r"/proc/[^/]+/(?:root|task/[^/]+/root)(?=/|$)")
_OWN_CWD = re.compile(r"/proc/[^/]+/cwd(?=/|$)")
_AFTER = re.compile(r"[\w-]|\.\w")
_SLASHES = re.compile(r"/(?:\.?/)+")

Names = Callable[[str], frozenset[str]]
Real = Callable[[str], str]


class Reaches(Exception):
    """Raised if a tool call would access something guarded. `what` describes the guarded thing."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Relation(IntEnum):
    """The relation of a path to a guarded path."""

    APART, ABOVE, DEEP, WITHIN = range(4)


NOWHERE = (Relation.APART, "")


@dataclass(frozen=True, slots=True)
class GuardedPath:
    """A guarded path and its description."""

    name: str
    path: str


class Map:
    """The guarded paths, and how other paths resolve. `names` lists a directory, and `real` resolves links."""

    def __init__(self, guarded: Sequence[GuardedPath], homes: Sequence[str], names: Names, real: Real) -> None:
        linked = [GuardedPath(one.name, there) for one in guarded if (there := _real(real, one.path)) != one.path]
        every = [*guarded, *linked]
        self._guarded = [(one.name, _parts(one.path)) for one in every]
        self._needles = [(one.name, needle) for one in every for needle in _spelled(one.path, homes)]
        self._names = names
        self._real = real
        self._listed: dict[str, frozenset[str]] = {}
        self._seen: dict[str, tuple[Relation, str]] = {}

    def of(self, name: str, path: str) -> Map:
        """Make a map with one other guarded path. The new map resolves paths in the same way as this map."""
        return Map([GuardedPath(name, path)], (), self._names, self._real)

    def mentioned(self, text: str) -> str | None:
        """The description of a guarded path that a text names in full at any place; None if there is none."""
        text = _SLASHES.sub("/", text).casefold()
        return next((name for name, needle in self._needles if needle in text and _stands(needle, text)), None)

    def relation(self, path: str, bases: Iterable[str]) -> tuple[Relation, str]:
        """The strongest relation of a path to a guarded path, with the description of that guarded path.

        A relative path is tried from each of the `bases`.
        """
        if len(path) > _PATH_LIMIT or not path:
            return NOWHERE
        return max((self._absolute(place) for place in self._places(path, bases)), default=NOWHERE)

    def _places(self, path: str, bases: Iterable[str]) -> Iterator[str]:
        """The places that a path may lead to: the path as written, and the path with links resolved."""
        if path.startswith(("/", UNKNOWN)):
            bases = ("/",)
        for base in bases:
            place = os.path.join(base, path) if not path.startswith(UNKNOWN) else path
            place = _OWN_CWD.sub(lambda _, base=base: base, _PROCESS.sub("/", place))  # type: ignore[misc]
            place = f"{UNKNOWN}{os.path.normpath('/' + place[1:])}" if place[0] == UNKNOWN else os.path.normpath(place)
            yield place
            first = path.split("/", 1)[0]
            if path.startswith("/") or first in (".", "..") or _MARKED.search(first) or first in self._in(base):
                yield self._followed(place)

    def _in(self, base: str) -> frozenset[str]:
        if base not in self._listed:
            self._listed[base] = frozenset() if _MARKED.search(base) else self._names(base)
        return self._listed[base]

    def _followed(self, path: str) -> str:
        parts = path.split("/")
        plain = next((place for place, part in enumerate(parts) if _MARKED.search(part)), len(parts))
        if not plain:
            return path
        return os.path.normpath("/".join((_real(self._real, "/".join(parts[:plain]) or "/"), *parts[plain:])))

    def _absolute(self, place: str) -> tuple[Relation, str]:
        if place not in self._seen:
            pattern = _parts(place)
            is_led = place.startswith(UNKNOWN)
            every = ((_relation(pattern, is_led, parts), name) for name, parts in self._guarded)
            self._seen[place] = max(every, default=NOWHERE)
        return self._seen[place]


def without_star(word: str) -> str:
    """The directory of a pattern such as `DIR/*`, for programs that only show names. Any other word is returned
    unchanged.
    """
    place, slash, last = word.rstrip("/").rpartition("/")
    return place if slash and last == ANY else word


def _real(real: Real, path: str) -> str:
    try:
        return real(path)
    except (OSError, ValueError):  # a null byte or a lone surrogate: no system opens it
        return path


def _parts(path: str) -> list[str]:
    """The parts of a path as `fnmatch` patterns. The part `**` stands for any number of parts."""
    return [_pattern(part) for part in path.casefold().split("/") if part]


def _pattern(part: str) -> str:
    if _PURE.fullmatch(part):
        return "*" if part == ANY else _DEEP
    plain = part.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
    return plain.replace(ANY, "*").replace(UNKNOWN, "*").replace(ONE, "?")


def _relation(pattern: list[str], is_led: bool, parts: Sequence[str]) -> Relation:
    """Compare a pattern with a guarded path. The code tracks every position in `parts` that the pattern may have
    reached.
    """
    end = len(parts)
    at = set(range(end)) if is_led else {0}
    is_below, is_deep, is_within = is_led, False, not end
    if is_led:
        while pattern and pattern[0] in ("*", _DEEP):
            pattern = pattern[1:]
        if not pattern or (len(pattern) == 1 and pattern[0] in _COMMON):
            return Relation.APART
    for part in pattern:
        if part == _DEEP:
            is_below = is_deep = bool(at) or is_below
            at = set(range(min(at), end)) if at else at
            continue
        nexts = {place + 1 for place in at if _fits(parts[place], part)}
        is_within = is_within or end in nexts
        is_deep = is_deep and part == "*"
        at = nexts - {end}
    last = pattern[-1] if pattern else ""
    if is_within or (is_below and not is_deep and any(_fits(name, last) for name in _CONTENTS)):
        return Relation.WITHIN
    if is_deep:
        return Relation.DEEP
    return Relation.ABOVE if at else Relation.APART


def _fits(part: str, pattern: str) -> bool:
    if len(pattern) > _NAME_LIMIT:  # no file has such a name; a pattern of that length hides something
        return "*" in pattern
    return fnmatchcase(part, pattern)


def _spelled(path: str, homes: Sequence[str]) -> list[str]:
    """The spellings of a path that a text may contain: the full path, and the path relative to a home directory."""
    below = [path[len(home) :].lstrip("/") for home in homes if home and path.startswith(f"{home.rstrip('/')}/")]
    return [path.casefold(), *(one.casefold() for one in below if "/" in one)]


def _stands(needle: str, text: str) -> bool:
    """Whether a text contains a path as a whole, and not only as a part of a longer name."""
    at = text.find(needle)
    while at >= 0:
        is_whole = needle.startswith("/") or at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_.-")
        if is_whole and not _AFTER.match(text, at + len(needle)):
            return True
        at = text.find(needle, at + 1)
    return False
