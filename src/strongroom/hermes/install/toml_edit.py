"""Set one key in a TOML text with tomlkit, which keeps the owner's comments, order and formatting."""

from __future__ import annotations

import sys
from types import ModuleType

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install

Value = str | bool | tuple[str, ...]


def render_value(value: Value) -> str:
    """Write a value in TOML syntax."""
    if isinstance(value, str) and any("\ud800" <= one <= "\udfff" for one in value):
        raise InvalidRequest(
            "a path that is not UTF-8 cannot be written into a policy",
            hint="rename the directory so that its name is UTF-8",
        )
    text: str = _tomlkit().item(_plain(value)).as_string()
    return text


def set_key(text: str, table: str, key: str, value: Value) -> str:
    """The text with a key set in a table. The table "" means the top level."""
    tomlkit = _tomlkit()
    document = tomlkit.parse(text)
    held = document.setdefault(table, tomlkit.table()) if table else document
    plain = _plain(value)
    if not isinstance(held, dict):
        raise InvalidRequest(
            f"`{table}` in the policy is not a table",
            hint=f"write [{table}] and `{key} = {render_value(value)}` below it",
        )
    if isinstance(held.get(key), type(plain)) and held[key] == plain:
        return text
    render_value(value)
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
        install = how_to_install("hermes", sys.executable)
        raise InvalidRequest("setting up Hermes needs the package tomlkit", hint=install) from None
    return tomlkit
