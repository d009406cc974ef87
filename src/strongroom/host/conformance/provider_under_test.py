"""The subject of a run: a provider by name, by path or by factory, and the files and variables that it needs.

A subject is plain data, because each check runs in a process of its own and makes the provider anew there.

- a name is discovered as the host would: bundled, below `plugins` in a home, or by entry point;
- a path is a plugin's directory, or a single Python file;
- a factory is `module:attribute`, a class or a function that returns a new provider.

A plugin in a directory is copied into the check's own home: the original is never run in place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidRequest, ProviderMissing
from strongroom.host.plugins import discovery, hermes_stubs
from strongroom.host.provider_interface import MemoryProvider

Factory = Callable[[], MemoryProvider]

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".git", ".venv", "node_modules", "*.pyc")


@dataclass(frozen=True, slots=True)
class Subject:
    """A provider to check, and its environment."""

    said: str
    """The provider as the caller named it: a name, a path or `module:attribute`."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    files: tuple[tuple[str, str], ...] = ()
    """Files to copy: each with its path, and its place below the check's own home."""
    patience: float = 5.0
    """Seconds within which a stored line must be recalled. Raise it for a provider that works in the background."""
    ways: tuple[str, ...] | None = None
    """The hooks through which the provider stores lines that it can recall later. None before the probe has run."""

    @property
    def name(self) -> str:
        """The provider's name for reports, without a path of this machine."""
        if _is_path(self.said):
            return Path(self.said).stem
        return self.said.rpartition(":")[2]


def subject_of(said: str | Path | Factory | Subject, *, home: Path | None = None, **more: Any) -> Subject:
    """Make the subject from the provider that a caller named.

    `home` is where a plugin of that name is looked for, by default the environment's. Raises InvalidRequest if another
    process could not make the same provider.
    """
    if isinstance(said, Subject):
        return said
    if isinstance(said, Path) or (isinstance(said, str) and _is_path(said)):
        return Subject(str(_existing(Path(said))), **more)
    if isinstance(said, str):
        return Subject(_importable(said) if ":" in said else _discovered(said, home), **more)
    return Subject(_named(said), **more)


def with_environment(said: str, variables: Iterable[str], **more: Any) -> Subject:
    """Make the subject from the command line. `NAME=VALUE` sets a variable; `NAME` alone passes on this process's
    value.
    """
    return subject_of(said, environment=dict(_variable(one) for one in variables), **more)


def placed(text: str) -> tuple[str, str]:
    """Parse `FILE:PLACE`: a file, and where to copy it. The file must exist, and the place must be inside the home."""
    source, colon, place = text.rpartition(":")
    if not colon or not source or not place or Path(place).is_absolute() or ".." in Path(place).parts:
        raise InvalidRequest("--file needs FILE:PLACE, with a PLACE below the provider's home")
    if not Path(source).is_file():
        raise InvalidRequest(f"there is no file {source}")
    return str(Path(source).resolve()), place


def furnish(subject: Subject, home: Path) -> None:
    """Fill a check's home with the files that the subject needs: the plugin, and the files that were named."""
    if _is_path(subject.said):
        _install(Path(subject.said), home / "plugins" / subject.name)
    for source, place in subject.files:
        target = home / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def factory_of(subject: Subject, home: Path) -> Factory:
    """Make the factory that makes new objects of the provider in this process."""
    if _is_path(subject.said):
        return discovery.load_path(home / "plugins" / subject.name, home)
    if ":" not in subject.said:
        return discovery.load(subject.said, home)
    hermes_stubs.supply()
    module, _, attribute = subject.said.partition(":")
    found = discovery.FoundPlugin(subject.name, discovery.Where.PATH)
    # The plugin's factory, so that its errors are reported as those of a plugin.
    return discovery.Factory(found, home, lambda: attrgetter(attribute)(import_module(module))())


def _is_path(said: str) -> bool:
    return "/" in said or said.endswith(".py")


def _install(source: Path, target: Path) -> None:
    if source.is_dir():
        try:
            shutil.copytree(source, target, ignore=partial(_left_out, source))
        except (shutil.Error, OSError) as error:
            raise InvalidRequest(
                f"the plugin {source} cannot be copied: {_first_reason(error)}",
                hint="make the plugin's files readable: each check runs a copy of the plugin",
            ) from None
    else:
        target.mkdir(parents=True)
        shutil.copyfile(source, target / "__init__.py")


def _left_out(top: Path, directory: str, names: list[str]) -> set[str]:
    """The names that are not copied: generated files, special files, and links that lead in a circle."""
    found = {name: Path(directory, name) for name in names}
    odd = {name for name, path in found.items() if not (path.is_file() or (path.is_dir() and not _circles(top, path)))}
    return odd | _LEFT_OUT(directory, names)


def _circles(top: Path, path: Path) -> bool:
    return path.is_symlink() and (top.is_relative_to(path.resolve()) or path.resolve().is_relative_to(top))


def _first_reason(error: OSError) -> str:
    """Why the first of a plugin's files could not be copied. The file is named without its directories."""
    several = error.args[0] if isinstance(error, shutil.Error) and error.args else []
    name, why = (several[0][0], several[0][2]) if isinstance(several, list) and several else ("", str(error))
    return f"{Path(name).name}: {why.partition('] ')[2].partition(': ')[0] or 'it was not read'}" if name else why


def _existing(path: Path) -> Path:
    whole = path.expanduser().resolve()
    if not (whole.is_file() or (whole / "__init__.py").is_file()):
        raise ProviderMissing(
            f"there is no provider at {path}", hint="name a Python file, or a directory with an __init__.py in it"
        )
    return whole


def _discovered(name: str, home: Path | None) -> str:
    """Check that a provider of this name exists. Returns its name, or the path of a plugin in the home.

    A path is needed for the plugin because the checks use another home.
    """
    one = discovery.find_listed(name, home or hermes_stubs.get_hermes_home())
    return str(one.path) if one.where is discovery.Where.PLUGINS else name


def _importable(said: str) -> str:
    module, _, attribute = said.partition(":")
    try:
        found = find_spec(module) if module and attribute else None
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise ProviderMissing(
            f"the provider {said} cannot be imported", hint="write module:attribute, as Python would import it"
        )
    return said


def _named(factory: Factory) -> str:
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if not name or "<" in name or module in ("", "__main__"):
        raise InvalidRequest(
            "a factory must be importable: each check makes the provider anew in a process of its own",
            hint="move the factory to a module of its own and name that function or class",
        )
    return f"{module}:{name}"


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or (not equals and name not in os.environ):
        raise InvalidRequest("--env needs NAME=VALUE, or NAME alone for a variable of your environment")
    return name, value if equals else os.environ[name]
