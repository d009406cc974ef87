"""Checks whether a command acts as the owner: by a verb of Strongroom, by its library, or by secrets in the
environment.

A short list names the harmless verbs. Every other verb counts as the owner's, even a verb of a later version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strongroom.hermes.hooks.program_tables import names
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN

HARMLESS = frozenset(("-h", "--help", "--version", "completion", "demo", "doctor", "route", "status"))
"""The verbs that an agent may run: they show no memory and change nothing."""

VERBS = names(
    "audit backup cap document erase export forget get history hook import init list mcp migrate namespaces profile "
    "provider put replace restore rotate scrub serve snapshot unwire upgrade who why-not search recall wire"
)
"""The owner's verbs in this version. They are needed where "strongroom" may also be a folder or a package."""

A_COMMAND = "a command that uses the owner's keys"
THE_LIBRARY = "Strongroom's library, which opens the vault"
_SECRETS = "secrets in the environment"
_MODULE = re.compile(r"strongroom(?:\.(?:cli|__main__|cli\.__main__))?")
_AS_MODULE = re.compile(r"-[bBdEhiIOPqRsSuvV]*+m(.*)|--module", re.DOTALL)
_WITH_VALUE = re.compile(r"--(?:vault|home|url|cap-file|config|keys|cap|actor|profile)$|-[pC]$")
_LIBRARY = re.compile(
    r"\b(?:import|from)[ \t]++strongroom\b"
    r"|\b(?:import_module|__import__|run_module|run_path|find_spec|require)\W{1,8}strongroom\b"
)
_SECRET = re.compile(
    r"\bSTRONGROOM_(?:ROOT_KEY|ISSUER_KEY|CAP|PASSPHRASE)\b|/proc/[^/\s]++/(?:environ|mem)\b", re.IGNORECASE
)


def program_of(word: str) -> str:
    """The name of a program without its directory."""
    return word.rsplit("/", 1)[-1].rpartition("#")[2].removesuffix(".exe")


def by_command(words: Sequence[str]) -> str | None:
    """The reason why a command, given as words, acts as the owner. None if it does not."""
    rest = _after_strongroom(words)
    return A_COMMAND if rest is not None and not _is_harmless(rest) else None


def by_guess(words: Sequence[str]) -> str | None:
    """The reason why words act as the owner, if they are a command at all. Only verbs of this version count."""
    rest = words[1:]
    if words and (found := _AS_MODULE.fullmatch(words[0])):
        name, rest = (found[1], rest) if found[1] else ("".join(words[1:2]), words[2:])
        if not _MODULE.fullmatch(name):
            return None
    elif not words or program_of(words[0]).casefold() != "strongroom":
        return None
    verb = _first_verb(rest)
    return A_COMMAND if verb in VERBS or UNKNOWN in verb or ANY in verb else None


def by_text(text: str, *, is_search: bool = False) -> str | None:
    """The reason why code or a command acts as the owner: it uses Strongroom's library or names secrets. None if it
    does not.

    A command that only searches for a text may name the library.
    """
    if not is_search and _LIBRARY.search(text):
        return THE_LIBRARY
    return _SECRETS if _SECRET.search(text) else None


def _after_strongroom(words: Sequence[str]) -> Sequence[str] | None:
    """The arguments of Strongroom, if the command calls it; otherwise None."""
    if not words:
        return None
    program = program_of(words[0]).casefold()
    if program == "strongroom":
        return words[1:]
    if program == "hermes":
        return next((words[place + 1 :] for place, word in enumerate(words) if word == "strongroom"), None)
    if program.startswith(("python", "pypy")):
        for place, word in enumerate(words):
            if (found := _AS_MODULE.fullmatch(word)) and word != "--module":
                name, rest = (found[1], place + 1) if found[1] else ("".join(words[place + 1 : place + 2]), place + 2)
                return words[rest:] if _MODULE.fullmatch(name) else None
    return None


def _is_harmless(words: Sequence[str]) -> bool:
    """Whether the first verb of a command is harmless."""
    options = [word for word in words if word.startswith("-")]
    if options in (["--help"], ["-h"]) and words[-1] == options[0]:
        return True
    verb = _first_verb(words)
    return verb in HARMLESS or not (verb or any(UNKNOWN in word or ANY in word for word in words))


def _first_verb(words: Sequence[str]) -> str:
    """The first verb, or the first harmless option. Other options and their values are skipped."""
    place = 0
    while place < len(words):
        word = words[place]
        if word in HARMLESS or not word.startswith("-"):
            return word
        place += 2 if _WITH_VALUE.match(word) else 1
    return ""
