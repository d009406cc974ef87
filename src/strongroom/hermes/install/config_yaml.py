"""Read Hermes' config.yaml, and change one key of it without touching any other byte.

ruamel.yaml gives the position of a value, and only that part of the text is replaced. Comments, order, quotes,
indentation and line ends stay. The new text is parsed and must differ in that key only. A file in which this is not
possible is refused, for example one with an alias. Pure functions; `home_files` reads and writes the file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install

FILE = "config.yaml"
_MEND = "fix the file, then run this again; nothing was changed"
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_HOOK = re.compile(r"\A(?>.*?\bstrongroom\b).*\bhook\b", re.DOTALL)
_INJECT = re.compile(r"\A(?>.*?\bstrongroom\b).*\bhook\s+memory-inject\b", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def read(text: str) -> dict[str, Any]:
    """Parse a config.yaml. An empty text gives an empty dict. Raises `InvalidRequest` for a text that Hermes cannot
    read.
    """
    reader = _reader("safe")
    from ruamel.yaml.error import YAMLError

    try:
        found = reader.load(text)
    except (YAMLError, ValueError, RecursionError) as error:  # of the text, of a number or a date in it
        raise InvalidRequest(f"{FILE} cannot be read: {_short(error)}", hint=_MEND) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidRequest(f"{FILE} is not a mapping of settings", hint=_MEND)
    return found


def _reader(kind: str) -> Any:
    try:
        from ruamel.yaml import YAML
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != "ruamel":
            raise
        install = how_to_install("hermes", sys.executable)
        raise InvalidRequest("setting up Hermes needs the package ruamel.yaml", hint=install) from None
    return YAML(typ=kind, pure=True)


def provider_in(settings: Mapping[str, Any]) -> str | None:
    """The value of memory.provider: "" if the provider is switched off, None if the key is missing."""
    memory = settings.get("memory")
    if not isinstance(memory, dict) or "provider" not in memory:
        return None
    return str(memory["provider"] or "")


def injects(settings: Mapping[str, Any]) -> bool:
    """Whether a shell hook injects memory. Together with the provider, the model would get every line twice."""
    return any(_INJECT.search(text) for text in _texts(settings.get("hooks")))


def has_hooks(settings: Mapping[str, Any]) -> bool:
    """Whether any shell hook calls strongroom."""
    return any(_HOOK.search(text) for text in _texts(settings.get("hooks")))


def with_provider(text: str, name: str) -> str:
    """The text with `memory.provider` set to `name`. Raises `InvalidRequest` if that cannot be done safely."""
    wanted = read(text)
    if provider_in(wanted) == name:
        return text
    memory = wanted.get("memory")
    changed = _spliced(text, name) if memory is None or isinstance(memory, dict) else None
    if changed is None or not _means(changed, {**wanted, "memory": {**(memory or {}), "provider": name}}):
        raise InvalidRequest(
            f"memory.provider in {FILE} is written in a way that cannot be changed automatically",
            hint=f"write `provider: {_scalar(name)}` below `memory:` by hand; then run this command again",
        )
    return changed


def _means(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return read(text) == wanted
    except InvalidRequest:
        return False


def _spliced(text: str, name: str) -> str | None:
    """The text with the key inserted or replaced. None if this cannot be done, for example because of an alias."""
    root = _reader("rt").compose(text)
    pair = f"provider: {_scalar(name)}"
    if root is None:
        return _appended(text, len(text), pair)
    memory = _entry(root, "memory")
    if memory is None:
        if root.flow_style:
            return _within(text, root, f"memory: {{{pair}}}")
        end = root.end_mark.index
        return _appended(text, end if text.startswith("...", end) else len(text), pair)
    key, value = memory
    if value.id == "scalar":  # `memory:` and `memory: null` get a mapping on the same line
        return _replaced(text, key, value, f"{{{pair}}}")
    if value.id != "mapping" or value.start_mark.index < key.end_mark.index:  # an alias stands elsewhere
        return None
    inner = _entry(value, "provider")
    if inner is None:
        return _within(text, value, pair)
    return _replaced(text, inner[0], inner[1], _scalar(name))


def _entry(mapping: Any, name: str) -> tuple[Any, Any] | None:
    return next(((key, value) for key, value in mapping.value if key.value == name), None)


def _replaced(text: str, key: Any, value: Any, scalar: str) -> str | None:
    start, end = value.start_mark.index, value.end_mark.index
    if start < key.end_mark.index:
        return None
    if start == end:  # the value is empty: its marks are on the next line
        start = end = text.index(":", key.end_mark.index) + 1
        scalar = f" {scalar}"
    return text[:start] + scalar + text[end:]


def _within(text: str, mapping: Any, pair: str) -> str:
    """Insert a key and its value at the beginning of a mapping, in the mapping's own style."""
    if mapping.flow_style:
        at = text.index("{", mapping.start_mark.index) + 1
        return f"{text[:at]}{pair}{', ' if mapping.value else ''}{text[at:]}"
    first = mapping.value[0][0].start_mark
    return f"{text[: first.index]}{pair}{_newline(text)}{' ' * first.column}{text[first.index :]}"


def _appended(text: str, at: int, pair: str) -> str:
    newline = _newline(text)
    before = text[:at]
    gap = "" if not before.strip("\ufeff") or before.endswith("\n") else newline
    return f"{before}{gap}memory:{newline}  {pair}{newline}{text[at:]}"


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _scalar(name: str) -> str:
    """Write a name as a YAML scalar. The name is quoted if a YAML parser might read it as something other than a
    string.
    """
    plain = _PLAIN.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else "'" + name.replace("'", "''") + "'"


def _texts(found: object) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from _texts(value)
    elif isinstance(found, list):
        for value in found:
            yield from _texts(value)


def _short(error: Exception) -> str:
    """The problem and its line number. Text of the file is left out, because it may hold secrets."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", "") or "")
    is_plain = all(len(one) < 2 or one.startswith("<") for pair in _QUOTED.findall(problem) for one in pair)
    what = problem if is_plain else problem.split('"')[0].split("'")[0]
    what = what.strip() or type(error).__name__
    return f"{what} (line {mark.line + 1})" if mark is not None else what
