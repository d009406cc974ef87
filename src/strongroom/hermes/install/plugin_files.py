"""The plugin in a home: four small files that lead Hermes to the installed package. They hold no setting and no secret.

Hermes 0.19 looks for memory providers in `plugins/<name>/` of a home: `__init__.py` must have the word MemoryProvider
near its top. When Hermes loads a provider, Hermes also runs every other file of that directory. So each of the four
files imports little and does nothing by itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from strongroom.errors import KeyUnavailable
from strongroom.hermes.install.home_files import inside, read_text, remove, replace_text
from strongroom.private_files import make_directory

NAME = "strongroom"
_MARK = "Written by `strongroom wire hermes`"
_CACHE = "__pycache__"


def directory(home: Path) -> Path:
    """The plugin's directory in a home. Raises `InvalidRequest` if a link leads out of the home."""
    return inside(home, home / "plugins" / NAME)


def contents() -> dict[str, str]:
    """The text of each file of the plugin, by name."""
    return {
        "__init__.py": _INIT,
        "cli.py": _CLI,
        "config_schema.py": _SCHEMA,
        "plugin.yaml": _PLUGIN.format(version=version("strongroom")),
    }


def differing_files(home: Path) -> list[str]:
    """The names of the plugin's files that are missing or have a different text."""
    place = directory(home)
    return [name for name, text in contents().items() if read_text(place / name) != text]


def foreign(home: Path) -> list[str]:
    """The names in the plugin's directory that `wire` did not write."""
    place = directory(home)
    if not place.is_dir():
        return []
    return sorted(one.name for one in place.iterdir() if one.name != _CACHE and not _is_ours(one))


def write(home: Path) -> None:
    """Write the plugin's files. `__init__.py` comes last, because Hermes recognises the plugin by this file."""
    place = directory(home)
    try:
        make_directory(place)
    except OSError as error:
        raise KeyUnavailable(f"cannot make the directory {place}: {error.strerror}") from None
    for name in sorted(differing_files(home), reverse=True):
        replace_text(place / name, contents()[name])


def take_away(home: Path) -> bool:
    """Remove the plugin's files, and its directory if nothing else is in it. Returns False if nothing was there."""
    place = directory(home)
    mine = list(_ours(place))
    for one in mine:
        remove(one)
    if mine:
        shutil.rmtree(place / _CACHE, ignore_errors=True)
    if place.is_dir() and not any(place.iterdir()):
        place.rmdir()
        return True
    return bool(mine)


def _ours(place: Path) -> Iterator[Path]:
    """The plugin's files. `__init__.py` comes first, so that Hermes never loads a half-removed plugin."""
    return (place / name for name in sorted(contents()) if _is_ours(place / name))


def _is_ours(path: Path) -> bool:
    if path.name not in contents() or path.is_symlink() or not path.is_file():
        return False
    try:
        return _MARK in path.read_text(errors="replace")[:400]
    except OSError:
        return False


_INIT = f'''\
# {_MARK}; it is restored when that runs again. The package itself is installed with pip.
"""Strongroom as a MemoryProvider of Hermes: gated, encrypted, audited memory."""



def register(ctx):
    # Imported here: other threads can see this module before it has finished loading, so loading must be quick.
    from pathlib import Path

    from hermes_constants import get_hermes_home
    from strongroom.provider import register as register_with

    # This file is loaded once in a process that may serve several homes: the current one comes first.
    asked = Path(get_hermes_home())
    mine = Path(__file__).parent.parent.parent
    register_with(ctx, home=asked if (asked / "plugins" / "{NAME}" / "__init__.py").is_file() else mine)
'''

_CLI = f'''\
# {_MARK}; it is restored when that runs again.
"""`hermes strongroom`: status, list, search, recall, forget, who, why."""


def register_cli(parser):
    from strongroom.provider import hermes_cli

    hermes_cli.register_cli(parser)


def strongroom_command(args):
    from strongroom.provider import hermes_cli

    return hermes_cli.strongroom_command(args)
'''

_SCHEMA = f'''\
# {_MARK}; it is restored when that runs again.
"""The entry in the dashboard: only a name. The settings are in strongroom.toml, which the owner edits."""

from plugins.memory.config_schema import ProviderConfigSchema

CONFIG_SCHEMA = ProviderConfigSchema(name="strongroom", label="Strongroom (settings: strongroom.toml in this home)")
'''

_PLUGIN = f"""\
# {_MARK}; it is restored when that runs again.
name: {NAME}
version: "{{version}}"
description: "Strongroom: gated, encrypted, audited memory. Set up with `strongroom wire hermes`."
hooks:
  - on_session_end
  - on_pre_compress
"""
