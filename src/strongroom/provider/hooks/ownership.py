"""Whether somebody acts as the owner: by a verb of Strongroom, by its library, by secrets of the environment.

Every verb that is not on the short list of harmless ones is the owner's, also one that a later version brings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from strongroom.provider.hooks.shell import ANY, UNKNOWN

HARMLESS = frozenset(("-h", "--help", "--version", "completion", "demo", "doctor", "route", "status"))
"""What an agent may ask of the command line: it shows nothing that is remembered, and changes nothing."""

A_COMMAND = "a command that uses the owner's keys"
THE_LIBRARY = "Strongroom's library, which opens the vault"
_SECRETS = "secrets in the environment"
_MODULE = re.compile(r"strongroom(?:\.(?:cli|__main__|cli\.__main__))?")
_WITH_VALUE = re.compile(r"--(?:vault|home|url|cap-file|config|keys|cap|actor|profile)$|-[pC]$")
_LIBRARY = re.compile(
    r"\b(?:import|from)[ \t]++strongroom\b"
    r"|\b(?:import_module|__import__|run_module|run_path|find_spec|require)\W{1,8}strongroom\b"
)
_SECRET = re.compile(
    r"\bSTRONGROOM_(?:ROOT_KEY|ISSUER_KEY|CAP|PASSPHRASE)\b|/proc/[^/\s]++/(?:environ|mem)\b", re.IGNORECASE
)


def program_of(word: str) -> str:
    """The name of a program, without where it is."""
    return word.rsplit("/", 1)[-1].removesuffix(".exe")


def by_command(words: Sequence[str]) -> str | None:
    """Whether one command is the owner's work. Its words are what a shell would hand over."""
    rest = _after_strongroom(words)
    return A_COMMAND if rest is not None and not _is_harmless(rest) else None


def by_text(text: str) -> str | None:
    """Whether code or a command names the library or the secrets."""
    if _LIBRARY.search(text):
        return THE_LIBRARY
    return _SECRETS if _SECRET.search(text) else None


def _after_strongroom(words: Sequence[str]) -> Sequence[str] | None:
    """What is handed to Strongroom, if it is called."""
    if not words:
        return None
    program = program_of(words[0]).casefold()
    if program == "strongroom":
        return words[1:]
    if program == "hermes":
        return next((words[place + 1 :] for place, word in enumerate(words) if word == "strongroom"), None)
    if program.startswith(("python", "pypy")):
        for place, word in enumerate(words[:-1]):
            if word == "-m":
                return words[place + 2 :] if _MODULE.fullmatch(words[place + 1]) else None
            if word.startswith("-mstrongroom"):
                return words[place + 1 :]
    return None


def _is_harmless(words: Sequence[str]) -> bool:
    """Whether the first verb is; options before it are passed over, with their values."""
    place = 0
    while place < len(words):
        word = words[place]
        if word in HARMLESS:
            return True
        if not word.startswith("-"):
            return False
        place += 2 if _WITH_VALUE.match(word) else 1
    return not any(UNKNOWN in word or ANY in word for word in words)
