"""Whether the arguments of a tool reach for what is the owner's: the vault, its keys, the cap, the spool, the policy.

A path reaches for another if it is that, lies in it, or is a pattern that may match either; also if it leads there by
links or by `..`. A path above it reaches for it only in a command that takes whole trees. Case does not count. Commands
of Strongroom that work with the owner's keys reach for them too. When in doubt it reaches. What this cannot see is said
in `spelling`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import Any

from strongroom.provider.hooks import spelling
from strongroom.provider.hooks.spelling import Surroundings

HARMLESS = frozenset(("-h", "--help", "--version", "completion", "demo", "doctor", "route", "status"))
"""What an agent may ask of the command line: it shows nothing that is remembered, and changes nothing."""
_VERBS = (
    "audit backup cap erase export forget get hook import init list mcp migrate mint namespaces profile provider put "
    "recall restore rotate scrub serve snapshot unwire why wire"
)
OWNERS = frozenset(_VERBS.split())
"""What works with the owner's keys or the owner's cap."""
WORDS_LIMIT = 100_000
"""Different words that are looked at. More are not, and count as reaching."""
TEXT_LIMIT = 1 << 20
"""Characters that are looked at, likewise."""
BASES_LIMIT = 64
"""Directories that a call may go to, likewise."""

_TOO_MUCH = "more than can be looked at"
_NAME_LIMIT = 255
_PATH_LIMIT = 4096
"""Characters of a path: no system opens a longer one."""
_GLOB = re.compile(r"[*?\[]")
_GOING = re.compile(r"(?:^|[\s;|&(])(?:cd|pushd|-C|--directory|--chdir)[ \t=]++([^\s;|&)]++)")
_AFTER = re.compile(r"[\w-]|\.\w")
_COMMANDS = re.compile(r"[;|&\n()`]+")
_OWN_LIBRARY = re.compile(r"\b(?:import|from)\s++strongroom\b|\bimport_module\W++strongroom\b")
_OWN_SECRETS = re.compile(
    r"\bSTRONGROOM_(?:ROOT_KEY|ISSUER_KEY|CAP|PASSPHRASE)\b|/proc/[^/\s]++/(?:environ|mem)\b", re.IGNORECASE
)

# Commands that take whole trees: always, with an option, or as what a list of names is handed to.
_TAKERS = frozenset(
    (
        "tar",
        "bsdtar",
        "zip",
        "7z",
        "7za",
        "7zr",
        "rsync",
        "cpio",
        "pax",
        "mv",
        "shred",
        "ln",
        "docker",
        "podman",
        "mount",
    )
)
_RECURSIVE = frozenset(
    ("cp", "grep", "egrep", "fgrep", "zgrep", "rm", "chmod", "chown", "chgrp", "scp", "diff", "setfacl")
)
_SEARCHERS = frozenset(("find", "fd", "rg", "ag"))
_HANDING_ON = frozenset(("xargs", "parallel", "while", "cpio"))
_TREE_OPTION = re.compile(r"-\w*[rRa]|--recursive|--archive|--dereference-recursive")
_SEARCH_OPTION = re.compile(
    r"-(?:exec|execdir|ok|okdir|delete|fls|fprint|\w*[uU.x])|--hidden|--no-ignore|--unrestricted|--exec"
)

Names = Callable[[str], frozenset[str]]
Real = Callable[[str], str]


class _Relation(IntEnum):
    APART, ABOVE, WITHIN = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Guarded:
    """Something of the owner's: what to call it, and where it is."""

    name: str
    path: str


def reached(
    arguments: Mapping[str, Any],
    guarded: Sequence[Guarded],
    around: Surroundings,
    *,
    names: Names,
    real: Real,
) -> str | None:
    """What the arguments reach for; None if nothing. `names` lists a directory, `real` follows links."""
    said = list(spelling.texts(arguments))
    if sum(map(len, said)) > TEXT_LIMIT:
        return _TOO_MUCH
    if what := next((what for text in said if (what := owners_work(text))), None):
        return what
    means = [one for text in said for one in spelling.spellings(text, around)]
    bases = _bases(means, around)
    if len(bases) > BASES_LIMIT:
        return _TOO_MUCH
    look = _Look([*guarded, *_real(guarded, real)], around, bases, names, real)
    return next((what for one in means if (what := look.at(one))), None)


class _Look:
    """One look at all the texts of a call: what was looked at once is not looked at again."""

    def __init__(
        self, guarded: Sequence[Guarded], around: Surroundings, bases: Sequence[str], names: Names, real: Real
    ) -> None:
        self._guarded = [(one.name, _parts(one.path)) for one in guarded]
        self._plain = [(one.name, _spelled(one.path, around.homes)) for one in guarded]
        self._bases = [(base, names(base)) for base in bases]
        self._real = real
        self._seen: dict[str, tuple[_Relation, str]] = {}

    def at(self, text: str) -> str | None:
        """What one text reaches for."""
        folded = text.casefold()
        named = next((name for name, needles in self._plain if any(_stands(one, folded) for one in needles)), None)
        return named or owners_work(text) or self._by_words(text)

    def _by_words(self, text: str) -> str | None:
        words = spelling.words(text)
        if len(self._seen) + len(words) > WORDS_LIMIT:
            return _TOO_MUCH
        least = _Relation.ABOVE if takes_trees(text) else _Relation.WITHIN
        for word in words:
            if word not in self._seen:
                self._seen[word] = max((self._relation(place) for place in self._places(word)), default=_NOWHERE)
            relation, name = self._seen[word]
            if relation >= least:
                return name
        return None

    def _places(self, word: str) -> Iterator[str]:
        """Where a word may lead, as it is written and with links followed."""
        if len(word) > _PATH_LIMIT:
            return
        if word.startswith("/"):
            yield os.path.normpath(word)
            yield self._followed(word)
            return
        first = word.split("/", 1)[0]
        for base, names in self._bases:
            is_there = first in names or first in (".", "..") or _GLOB.search(first) is not None
            if is_there or "/" in word:
                yield os.path.normpath(os.path.join(base, word))
            if is_there:
                yield self._followed(os.path.join(base, word))

    def _followed(self, path: str) -> str:
        parts = path.split("/")
        plain = next((place for place, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        real = self._real("/".join(parts[:plain]) or "/")
        return os.path.normpath("/".join((real, *parts[plain:])))

    def _relation(self, place: str) -> tuple[_Relation, str]:
        pattern = _parts(place)
        return max(((_related(pattern, parts), name) for name, parts in self._guarded), default=_NOWHERE)


_NOWHERE = (_Relation.APART, "")


def owners_work(text: str) -> str | None:
    """Whether a text asks for what needs the owner's keys: a command, the library, or secrets of the environment."""
    if _OWN_LIBRARY.search(text):
        return "Strongroom's library, which opens the vault"
    if _OWN_SECRETS.search(text):
        return "secrets in the environment"
    is_owners = any(_is_owners(command.split()) for command in _COMMANDS.split(text))
    return "a command that uses the owner's keys" if is_owners else None


def _is_owners(words: list[str]) -> bool:
    """Whether one command runs Strongroom for what is the owner's."""
    later = ""
    has_verb = False
    for word in reversed(words):
        program = word.rsplit("/", 1)[-1].strip("\"'=").removesuffix(".exe")
        if program == "strongroom" and has_verb and later not in HARMLESS:
            return True
        later = word.strip("\"'")
        has_verb = has_verb or later in OWNERS
    return False


def takes_trees(text: str) -> bool:
    """Whether a text has a command that takes whole trees."""
    is_listing = False
    for command in _COMMANDS.split(text):
        words = command.split()
        programs = {word.rsplit("/", 1)[-1] for word in words}
        if (
            programs & _TAKERS
            or ("git" in programs and "--no-index" in words)
            or (is_listing and programs & _HANDING_ON)
        ):
            return True
        options = [word for word in words if word.startswith("-")]
        if programs & _RECURSIVE and any(map(_TREE_OPTION.match, options)):
            return True
        if programs & _SEARCHERS and any(map(_SEARCH_OPTION.match, options)):
            return True
        is_listing = is_listing or bool(programs & _SEARCHERS)
    return False


def _bases(means: Sequence[str], around: Surroundings) -> list[str]:
    """The directories that relative paths may start from: the working one, and those that the call names."""
    found = {around.cwd or "/": None}
    for text in means:
        if text.startswith("/") and not _GLOB.search(text) and len(text) <= _PATH_LIMIT and "\n" not in text:
            found[os.path.normpath(text)] = None
        last = next(iter(found))
        for going in _GOING.findall(text):
            last, start = os.path.normpath(os.path.join(last, going)), os.path.join(next(iter(found)), going)
            found.update({last: None, os.path.normpath(start): None})
            if len(found) > BASES_LIMIT:
                return list(found)
    return list(found)


def _real(guarded: Sequence[Guarded], real: Real) -> list[Guarded]:
    return [Guarded(one.name, there) for one in guarded if (there := real(one.path)) != one.path]


def _parts(path: str) -> list[str]:
    return [part for part in path.casefold().split("/") if part]


def _spelled(path: str, homes: Sequence[str]) -> list[str]:
    """What a path looks like in the middle of a text; below a home, also without that home before it."""
    below = [path[len(home) :].lstrip("/") for home in homes if home and path.startswith(f"{home.rstrip('/')}/")]
    return [path.casefold(), *(one.casefold() for one in below if "/" in one)]


def _stands(needle: str, text: str) -> bool:
    """Whether a path stands in a text, and not merely one whose name begins or ends alike."""
    at = text.find(needle)
    while at >= 0:
        is_whole = needle.startswith("/") or at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_.-")
        if is_whole and not _AFTER.match(text, at + len(needle)):
            return True
        at = text.find(needle, at + 1)
    return False


def _related(pattern: list[str], parts: list[str]) -> _Relation:
    """How a path or pattern stands to a path, part by part."""
    if not parts:
        return _Relation.WITHIN
    if not pattern:
        return _Relation.ABOVE
    if pattern[0] == "**":
        rest = pattern[1:]
        if rest[:1] == ["**"]:
            return _related(rest, parts)
        if not rest or rest == ["*"]:
            return _Relation.WITHIN
        return max(_related(rest, parts[skipped:]) for skipped in range(len(parts)))
    if not _fits(parts[0], pattern[0]):
        return _Relation.APART
    return _related(pattern[1:], parts[1:])


def _fits(part: str, pattern: str) -> bool:
    if len(pattern) > _NAME_LIMIT:  # no file is called so; a pattern of that length hides something
        return bool(_GLOB.search(pattern))
    return fnmatchcase(part, pattern)
