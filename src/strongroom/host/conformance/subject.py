"""What is being checked: a provider by name, by path or by factory, and what it needs to run.

A subject is plain data, because each check runs in a process of its own: that process makes the provider anew from it.

- a name is discovered as the host would: bundled, below `plugins` in a home, or by entry point;
- a path is a plugin's directory, or a single Python file;
- a factory is `module:attribute`, a class or a function that returns a new provider.

Plugins by path, and those of a given home, are copied into the check's own home: the original is never run in place.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidRequest, ProviderMissing
from strongroom.host import discovery, names
from strongroom.host.provider import MemoryProvider

Factory = Callable[[], MemoryProvider]

_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".git", ".venv", "node_modules", "*.pyc")


@dataclass(frozen=True, slots=True)
class Subject:
    """A provider to check, and what it is given."""

    said: str
    """The name, path or `module:attribute`."""
    home: str = ""
    """A home whose plugin of that name is meant; nothing else of it is read."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[tuple[str, str], ...] = ()
    """Files to have: where each is, and its place below the check's own home."""
    patience: float = 5.0
    """Seconds that it may take until what was told comes back; more for a provider that works in the background."""

    @property
    def name(self) -> str:
        """The name for reports: no path of this machine."""
        if is_path(self.said):
            return Path(self.said).stem
        return self.said.rpartition(":")[2] if ":" in self.said else self.said


def subject_of(said: str | Path | Factory | Subject, **more: Any) -> Subject:
    """A subject from what a caller named it by; refused unless another process could make the same of it."""
    if isinstance(said, Subject):
        return said
    if callable(said):
        return Subject(_importable(said), **more)
    if isinstance(said, Path) or is_path(said):
        return Subject(str(_existing(Path(said))), **more)
    if not said or said.startswith("."):
        raise InvalidRequest("name a provider, a path, or a factory as module:attribute")
    return Subject(said, **more)


def with_environment(said: str, pairs: Iterable[str], **more: Any) -> Subject:
    """A subject from what was typed: `NAME=VALUE` for each variable of its environment."""
    environment = dict(_pair(one) for one in pairs)
    return subject_of(said, environment=environment, **more)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidRequest("a variable is given as NAME=VALUE")
    return name, value


def is_path(said: str) -> bool:
    """Whether this names a file or directory, rather than a provider."""
    return "/" in said or said.endswith(".py")


def furnish(subject: Subject, home: Path) -> None:
    """Put into a check's own home what the subject needs: the plugin, and the files that were named."""
    if is_path(subject.said):
        _install(Path(subject.said), home)
    elif subject.home and ":" not in subject.said:
        plugin = Path(subject.home) / "plugins" / subject.said
        if plugin.is_dir():
            _install(plugin, home)
    for source, place in subject.files:
        target = home / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def factory_of(subject: Subject, home: Path) -> Factory:
    """What makes a new provider of the subject, in this process."""
    if ":" in subject.said and not is_path(subject.said):
        names.supply()
        module, _, attribute = subject.said.partition(":")
        found: Factory = attrgetter(attribute)(import_module(module))
        return found
    copied = home / "plugins" / subject.name
    return discovery.load_path(copied, home) if copied.is_dir() else discovery.load(subject.name, home)


def _install(source: Path, home: Path) -> None:
    target = home / "plugins" / source.stem
    if source.is_dir():
        shutil.copytree(source, target, ignore=_LEFT_OUT, symlinks=True)
    else:
        target.mkdir(parents=True)
        shutil.copyfile(source, target / "__init__.py")


def _existing(path: Path) -> Path:
    whole = path.expanduser().resolve()
    if not (whole.is_file() or (whole / "__init__.py").is_file()):
        raise ProviderMissing(
            f"{path} is no provider", hint="name a Python file, or a directory with an __init__.py in it"
        )
    return whole


def _importable(factory: Factory) -> str:
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if not name or "<" in name or module in ("", "__main__"):
        raise InvalidRequest(
            "a factory must be importable: each check makes the provider anew in a process of its own",
            hint="move it to a module of its own and give that function or class",
        )
    return f"{module}:{name}"
