"""A plugin's description, read without running its code: the beginning of `__init__.py`, and `plugin.yaml`.

The manifest only explains and never refuses: a plugin may do without a package that it names, or take its key from a
file of its own. If the file is malformed or PyYAML is missing, `problem` says so and the plugin still loads. The
commands of `external_dependencies` are looked for, but never run.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from strongroom.host.plugins.yaml_file import NotRead, read_yaml
from strongroom.private_files import open_file

FILE = "plugin.yaml"
_MOST_SHOWN = 300
_LOOKED_AT = 8_192
_MOST_FILES = 50
_MOST_OF_A_FILE = 1 << 20
_WORDS = ("MemoryProvider", "register_memory_provider")


@dataclass(frozen=True, slots=True)
class External:
    """A program that a plugin needs and that is not a Python package."""

    name: str
    check: str = ""
    install: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `plugin.yaml`. Every field may be empty."""

    name: str = ""
    version: str = ""
    description: str = ""
    pip_dependencies: tuple[str, ...] = ()
    external_dependencies: tuple[External, ...] = ()
    requires_env: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    problem: str = ""
    """Why the file, or a part of the file, was not read."""


def names_a_provider(directory: Path) -> bool:
    """True if a directory is a memory plugin: the beginning of its `__init__.py` names a provider. Hermes has this
    rule.
    """
    try:
        binary = open_file(directory / "__init__.py")
        with io.TextIOWrapper(binary, encoding="utf-8", errors="replace") as file:
            opening = file.read(_LOOKED_AT)
    except OSError:
        return False
    return any(word in opening for word in _WORDS)


def why_no_plugin(directory: Path) -> str:
    """Why Hermes' rule does not accept a directory as a memory plugin."""
    if not (directory / "__init__.py").is_file() or not os.access(directory / "__init__.py", os.R_OK):
        return "there is no __init__.py that can be read"
    return f"the first {_LOOKED_AT} characters of __init__.py name neither {' nor '.join(_WORDS)}"


def is_meant_as_a_provider(directory: Path) -> bool:
    """True if a plugin that Hermes' rule leaves out names a provider further down, or in another file."""
    try:
        files = sorted(directory.glob("*.py"))[:_MOST_FILES]
    except OSError:
        return False
    return any(word.encode() in _beginning(file) for file in files for word in _WORDS)


def _beginning(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            return file.read(_MOST_OF_A_FILE)
    except OSError:
        return b""


def read(directory: Path) -> Manifest:
    """The manifest of a plugin. Empty if the plugin has no manifest."""
    path = directory / FILE
    if not path.exists():
        return Manifest()
    try:
        said = read_yaml(path)
    except NotRead as error:
        return Manifest(problem=f"{FILE} was not read: {error}")
    return parsed(said)


def parsed(said: object) -> Manifest:
    """A manifest from parsed YAML. A field of the wrong type is left empty, and named in `problem`."""
    if said is None:
        return Manifest()
    if not isinstance(said, Mapping):
        return Manifest(problem=f"{FILE} was not read: it holds no fields")
    wrong: list[str] = []

    def take(field: str, by: Callable[[Any], Any], otherwise: Any) -> Any:
        try:
            return otherwise if said.get(field) is None else by(said[field])
        except (TypeError, ValueError):
            wrong.append(field)
            return otherwise

    fields = {
        "name": take("name", _text, ""),
        "version": take("version", _version, ""),
        "description": take("description", _text, ""),
        "pip_dependencies": take("pip_dependencies", _texts, ()),
        "external_dependencies": take("external_dependencies", _externals, ()),
        "requires_env": take("requires_env", _names, ()),
        "hooks": take("hooks", _texts, ()),
    }
    problem = f"{FILE}: wrong type of {', '.join(wrong)}" if wrong else ""
    return Manifest(**fields, problem=problem)


def needs(manifest: Manifest, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The requirements of the manifest that are missing, as short sentences."""
    packages = [f"the package {name} is not installed" for name in missing_packages(manifest)]
    programs = [f"the program {one.name} is not found" for one in manifest.external_dependencies if not _is_there(one)]
    unset = [f"{name} is not set" for name in manifest.requires_env if not environment.get(name)]
    return packages + programs + unset


def missing_packages(manifest: Manifest) -> list[str]:
    """The required pip packages that are not installed. Versions are not compared."""
    return [requirement for requirement in manifest.pip_dependencies if not _is_installed(requirement)]


def _is_installed(requirement: str) -> bool:
    name = re.match(r"[A-Za-z0-9._-]*", requirement.strip())
    try:
        metadata.distribution(name.group() if name else "")
    except (metadata.PackageNotFoundError, ValueError):
        return False
    return True


def _is_there(one: External) -> bool:
    try:
        words = shlex.split(one.check)
    except ValueError:
        words = []
    return shutil.which(words[0] if words else one.name) is not None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return " ".join(value.split())[:_MOST_SHOWN]


def _version(value: object) -> str:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else _text(value)


def _list(value: object) -> Iterable[object]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(one) for one in _list(value))


def _names(value: object) -> tuple[str, ...]:
    """The names of variables. Each is given as a text, or as the `name` of a mapping."""
    return tuple(_text(one.get("name") if isinstance(one, Mapping) else one) for one in _list(value))


def _externals(value: object) -> tuple[External, ...]:
    def one(given: object) -> External:
        if not isinstance(given, Mapping):
            raise TypeError
        return External(_text(given["name"]), _text(given.get("check", "")), _text(given.get("install", "")))

    try:
        return tuple(one(given) for given in _list(value))
    except KeyError:
        raise TypeError from None
