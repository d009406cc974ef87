"""The plugin in a home: four small files that lead Hermes to the installed package. It holds no setting and no secret.

Hermes 0.19 finds memory providers in `plugins/<name>/` of a home, by the word MemoryProvider near the top of
`__init__.py`, and runs each file beside it when it loads one; so each of these imports little and does nothing.
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
    """Where the plugin of a home is. One that a link leads out of the home is refused."""
    return inside(home, home / "plugins" / NAME)


def contents() -> dict[str, str]:
    """The files of the plugin, by name."""
    return {
        "__init__.py": _INIT,
        "cli.py": _CLI,
        "config_schema.py": _SCHEMA,
        "plugin.yaml": _PLUGIN.format(version=version("strongroom")),
    }


def differing_files(home: Path) -> list[str]:
    """The files that are not, or not as they should be."""
    place = directory(home)
    return [name for name, text in contents().items() if read_text(place / name) != text]


def foreign(home: Path) -> list[str]:
    """What else lies in the plugin's directory, and files under our names that are not ours."""
    place = directory(home)
    if not place.is_dir():
        return []
    return sorted(one.name for one in place.iterdir() if one.name != _CACHE and not _is_ours(one))


def write(home: Path) -> None:
    """Put the files in place; `__init__.py`, by which Hermes knows the plugin, comes last."""
    place = directory(home)
    try:
        make_directory(place)
    except OSError as error:
        raise KeyUnavailable(f"cannot make {place}: {error.strerror}") from None
    for name in sorted(differing_files(home), reverse=True):
        replace_text(place / name, contents()[name])


def take_away(home: Path) -> bool:
    """Remove our files, and the directory if nothing else is in it; False if there was nothing of ours."""
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
    """Our files; `__init__.py` first, so that a plugin half taken away is none."""
    return (place / name for name in sorted(contents()) if _is_ours(place / name))


def _is_ours(path: Path) -> bool:
    if path.name not in contents() or path.is_symlink() or not path.is_file():
        return False
    try:
        return _MARK in path.read_text(errors="replace")[:400]
    except OSError:
        return False


_INIT = f'''\
# {_MARK}; it is put back when that runs again. The package itself is installed with pip.
"""Strongroom as a MemoryProvider of Hermes: gated, encrypted, audited memory."""



def register(ctx):
    # Imported here: Hermes shows this module to other threads before it has run to its end, so it must be quick.
    from pathlib import Path

    from hermes_constants import get_hermes_home
    from strongroom.provider import register as register_with

    # This file runs once in a process that may serve several homes: the one that is meant now comes first.
    asked = Path(get_hermes_home())
    mine = Path(__file__).parent.parent.parent
    register_with(ctx, home=asked if (asked / "plugins" / "{NAME}" / "__init__.py").is_file() else mine)
'''

_CLI = f'''\
# {_MARK}; it is put back when that runs again.
"""`hermes strongroom`: status, list, search, recall, forget, who, why."""


def register_cli(parser):
    from strongroom.provider import hermes_cli

    hermes_cli.register_cli(parser)


def strongroom_command(args):
    from strongroom.provider import hermes_cli

    return hermes_cli.strongroom_command(args)
'''

_SCHEMA = f'''\
# {_MARK}; it is put back when that runs again.
"""What the dashboard shows of Strongroom: its name. Its settings are in strongroom.toml, which the owner edits."""

from plugins.memory.config_schema import ProviderConfigSchema

CONFIG_SCHEMA = ProviderConfigSchema(name="strongroom", label="Strongroom (settings: strongroom.toml in this home)")
'''

_PLUGIN = f"""\
# {_MARK}; it is put back when that runs again.
name: {NAME}
version: "{{version}}"
description: "Strongroom: gated, encrypted, audited memory. Set up with `strongroom wire hermes`."
hooks:
  - on_session_end
  - on_pre_compress
"""
