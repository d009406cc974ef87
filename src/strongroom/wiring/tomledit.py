"""One key of a TOML text changed, with tomlkit: every comment, order and edit of its owner is kept."""

from __future__ import annotations

import sys
from types import ModuleType

from strongroom.client.connecting import how_to_install
from strongroom.errors import InvalidRequest

Value = str | bool | tuple[str, ...]


def rendered(value: Value) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
        raise InvalidRequest("a name that is not UTF-8 cannot be written down", hint="rename that directory")
    text: str = _tomlkit().item(_plain(value)).as_string()
    return text


def changed(text: str, table: str, key: str, value: Value) -> str:
    """The text with a key set, in a table or, for "", before the first of them."""
    tomlkit = _tomlkit()
    document = tomlkit.parse(text)
    held = document.setdefault(table, tomlkit.table()) if table else document
    plain = _plain(value)
    if not isinstance(held, dict):
        raise InvalidRequest(f"{table} is no table", hint=f"write [{table}] and `{key} = {rendered(value)}` below it")
    if isinstance(held.get(key), type(plain)) and held[key] == plain:
        return text
    rendered(value)
    held[key] = plain
    new: str = tomlkit.dumps(document)
    return new


def _plain(value: Value) -> str | bool | list[str]:
    return list(value) if isinstance(value, tuple) else value


def _tomlkit() -> ModuleType:
    try:
        import tomlkit
    except ModuleNotFoundError as missing:
        if missing.name != "tomlkit":
            raise
        install = f"{sys.executable} -m {how_to_install('hermes')}"
        raise InvalidRequest("setting Hermes up needs tomlkit", hint=install) from None
    return tomlkit
