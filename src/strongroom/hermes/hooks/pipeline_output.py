"""Computes the output of a pipeline with known input: `echo`, `printf`, and filters that could hide a name or a
command.

An output that cannot be known is None.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence

from strongroom.hermes.hooks.shell_parser import UNKNOWN, TooMuch, clean, decode, replace

_PERCENT = re.compile(r"%(?:%|-?\d*(?:\.\d+)?([sdbqcxi]))")
_SUBSTITUTE = re.compile(r"s([/|#,:!@])((?:(?!\1).){0,500}+)\1((?:(?!\1).){0,500}+)\1([a-z0-9]*)$", re.DOTALL)
_SPECIAL = re.compile(r"[\\.*\[\]^$+?(){}|&]")
_SPECIAL_NEW = re.compile(r"[\\&]")
_LINES_LIMIT = 64
_LIMIT = 1 << 17
"""Maximum number of characters that `printf` prints by repeating its format."""
_ANYTHING = re.compile(r"(.*)", re.DOTALL)
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)
_CLASSES = {"[:lower:]": "a-z", "[:upper:]": "A-Z", "[:digit:]": "0-9", "[:alpha:]": "A-Za-z"}


def echo(words: Sequence[str]) -> str:
    """The output of `echo`."""
    at = 0
    while at < len(words) and re.fullmatch(r"-[neE]+", words[at]):
        at += 1
    text = " ".join(words[at:])
    is_decoded = any("e" in option for option in words[:at])
    return (clean_decoded(text) if is_decoded else text) + "\n"


def printf(words: Sequence[str]) -> str:
    """The output of `printf`."""
    words = [one for one in words if one != "--"]
    if not words:
        return ""
    form, rest = words[0], list(words[1:])
    slots = sum(1 for found in _PERCENT.finditer(form) if found[1])
    out: list[str] = []
    size = 0
    while True:
        here, rest = rest[:slots], rest[slots:]
        given = iter(here)
        size += len(form)
        if size > _LIMIT:
            raise TooMuch
        out.append(_PERCENT.sub(lambda found: _filled(found, given), clean_decoded(form)))  # noqa: B023
        if not rest or not slots:
            return "".join(out)


def _filled(found: re.Match[str], given: Iterator[str]) -> str:
    value = next(given, "") if found[1] else "%"
    return clean_decoded(value) if found[1] == "b" else value


def clean_decoded(text: str) -> str:
    """Decode backslash escapes. Unknown parts of the text stay unknown."""
    return UNKNOWN.join(clean(decode(one)) for one in text.split(UNKNOWN))


def pipe(program: str, options: Sequence[str], text: str) -> str | None:
    """The output of a filter for a text on stdin. None if the output cannot be known."""
    made = _FILTERS.get(program)
    try:
        return None if made is None else made(options, text)
    except (ValueError, binascii.Error):
        return None


def _base64(options: Sequence[str], text: str) -> str | None:
    is_decoding = any(one in ("-d", "-D", "-di", "-id", "--decode") for one in options)
    return clean(base64.b64decode(text).decode("utf-8", "replace")) if is_decoding else None


def _base32(options: Sequence[str], text: str) -> str | None:
    is_decoding = any(one in ("-d", "--decode") for one in options)
    return clean(base64.b32decode(text.strip()).decode("utf-8", "replace")) if is_decoding else None


def _xxd(options: Sequence[str], text: str) -> str | None:
    said = "".join(options)
    is_plain = "r" in said and "p" in said
    return clean(bytes.fromhex("".join(text.split())).decode("utf-8", "replace")) if is_plain else None


def _rev(_options: Sequence[str], text: str) -> str:
    return "\n".join(line[::-1] for line in text.split("\n"))


def _tr(options: Sequence[str], text: str) -> str | None:
    flags = [one for one in options if one.startswith("-") and len(one) > 1]
    sets = [_characters(one) for one in options if one not in flags]
    if flags == ["-d"] and sets:
        return text.translate({ord(char): None for char in sets[0]})
    if flags or len(sets) < 2 or not sets[1]:
        return None
    padded = sets[1].ljust(len(sets[0]), sets[1][-1])
    return text.translate({ord(old): new for old, new in zip(sets[0], padded, strict=False)})


def _characters(said: str) -> str:
    for name, meant in _CLASSES.items():
        said = said.replace(name, meant)
    return _RANGE.sub(_between, clean_decoded(said))


def _between(found: re.Match[str]) -> str:
    first, last = ord(found[1]), min(ord(found[2]), ord(found[1]) + 256)
    return "".join(map(chr, range(first, last + 1)))


def _sed(options: Sequence[str], text: str) -> str | None:
    scripts = [one for one in options if not one.startswith("-")]
    found = _SUBSTITUTE.match(scripts[0]) if len(scripts) == 1 else None
    if found is not None and found[2] in ("^", "$") and not _SPECIAL_NEW.search(found[3]):
        before, after = (found[3], "") if found[2] == "^" else ("", found[3])
        return "\n".join(f"{before}{line}{after}" if line else line for line in text.split("\n")[:_LINES_LIMIT])
    if found is None or _SPECIAL.search(found[2]) or _SPECIAL_NEW.search(found[3]):
        return None
    return replace(text, found[2], found[3], -1 if "g" in found[4] else 1) if found[2] else None


def run_by_sed(word: str) -> re.Match[str] | None:
    """The command in a sed script of the form `s/.../COMMAND/e`. The first group of the match is the command."""
    found = _SUBSTITUTE.match(word)
    return _ANYTHING.match(found[3]) if found is not None and "e" in found[4] else None


def _same(_options: Sequence[str], text: str) -> str:
    return text


_FILTERS: dict[str, Callable[[Sequence[str], str], str | None]] = {
    "base64": _base64,
    "base32": _base32,
    "xxd": _xxd,
    "rev": _rev,
    "tr": _tr,
    "sed": _sed,
    **dict.fromkeys(("cat", "head", "tail", "sort", "uniq", "tee", "grep", "shuf", "tac"), _same),
}
"""The filters by program. The filters from `cat` on only select or reorder lines, so any line may be in the output."""
