"""Finding providers by name, in three sources, or in a directory.

The three sources, in order: providers bundled with an installed Hermes, directories `<home>/plugins/<name>/`, and pip
packages with an entry point in the group `hermes_agent.memory_providers`. If two plugins have one name, the first
plugin is used, and the second is listed with the remark that the name is taken.

- Listing runs no code of a plugin. The code runs when the plugin is loaded by name, or examined.
- Hermes' rules decide what is a plugin: the first 8,192 characters of `__init__.py` name `MemoryProvider` or
  `register_memory_provider`, and the directory's name begins neither with `_` nor with a dot.
- A bare word never names a directory: otherwise a folder that happens to be in the working directory would run.

`strongroom.host.plugins.loader` makes providers from a plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from threading import Thread
from typing import Any

from strongroom.errors import ProviderMissing, ProviderUnavailable, StrongroomError
from strongroom.host.plugins import hermes_stubs
from strongroom.host.plugins import manifest as manifests
from strongroom.host.plugins.loader import Factory, FoundPlugin, Where, make_factory
from strongroom.host.plugins.unavailable_reason import describe_error, in_one_line, unavailable, why
from strongroom.host.provider_limits import Limits

__all__ = [
    "ENTRY_POINTS",
    "Examination",
    "Factory",
    "FoundPlugin",
    "Where",
    "examine",
    "find_listed",
    "find_plugins",
    "find_skipped",
    "load",
    "load_path",
]

ENTRY_POINTS = "hermes_agent.memory_providers"


@dataclass(frozen=True, slots=True)
class Examination:
    """A provider that was found, and whether it could be used now. `reason` says why it could not."""

    found: FoundPlugin
    available: bool
    reason: str = ""
    can_be_set_up: bool = False
    """True if the provider is not available, and its set-up has questions to ask."""


def find_plugins(home: Path) -> list[FoundPlugin]:
    """List all providers, without running any of them.

    A plugin whose name an earlier source has is listed too, but cannot be loaded by its name.
    """
    first: dict[str, Where] = {}
    listed = []
    for one in (*_bundled(), *_in_plugins(home), *_in_packages()):
        listed.append(replace(one, taken_by=first.get(one.name)))
        first.setdefault(one.name, one.where)
    return listed


def load(name: str, home: Path) -> Factory:
    """The factory of a provider, named by its name or by a path with a separator. Imports the plugin."""
    if "/" in name or "\\" in name:
        return load_path(Path(name), home)
    return make_factory(find_listed(name, home), home)


def find_listed(name: str, home: Path) -> FoundPlugin:
    """Find the plugin of a name, without running it. Raises ProviderMissing, with the reason, if there is none."""
    return next((one for one in find_plugins(home) if one.name == name), None) or _not_listed(name, home)


def find_skipped(home: Path) -> list[Examination]:
    """Plugins of the home that look like providers, but do not declare this where Hermes looks. No host finds them."""
    return [
        Examination(_in_directory(child, Where.PLUGINS), False, manifests.why_no_plugin(child))
        for child in _children(home / "plugins")
        if not manifests.names_a_provider(child) and manifests.is_meant_as_a_provider(child)
    ]


def load_path(path: Path, home: Path) -> Factory:
    """The factory of the provider in a directory, which may be anywhere."""
    directory = path.expanduser().resolve()
    if not directory.is_dir():
        raise ProviderMissing(f"the path {path} is not a directory", hint="name the directory that holds __init__.py")
    one = _in_directory(directory, Where.PATH)
    if not manifests.names_a_provider(directory):
        raise unavailable(one, manifests.why_no_plugin(directory))
    return make_factory(one, home)


def examine(one: str | FoundPlugin, home: Path, seconds: float = Limits().initialize) -> Examination:
    """Load a provider and ask whether it is available. Raises only if no provider has this name.

    A provider that does not answer in time counts as not available. Its thread goes on, because Python cannot end it.
    """
    if isinstance(one, FoundPlugin) and one.taken_by:
        return Examination(one, False, f"the name is taken by one from {one.taken_by}")
    there = (
        one if isinstance(one, FoundPlugin) else next((each for each in find_plugins(home) if each.name == one), None)
    )
    known = there or FoundPlugin(str(one), Where.PATH)
    doing = ["importing it"]
    asked: Future[Examination] = Future()

    def ask() -> None:
        try:
            asked.set_result(_asked(lambda: make_factory(there, home) if there else load(str(one), home), doing))
        except StrongroomError as error:
            asked.set_exception(error)
        except BaseException as error:  # noqa: BLE001 - no interrupt comes to this thread: it is the plugin's own
            asked.set_result(Examination(known, False, f"{doing[-1]} failed: {describe_error(error)}"))

    Thread(target=copy_context().run, args=(ask,), daemon=True, name="examining").start()
    try:
        return asked.result(seconds)
    except TimeoutError:
        return Examination(known, False, f"{doing[-1]} took more than {seconds:g} s")
    except ProviderUnavailable as error:
        return Examination(known, False, why(error, known.name))


def _asked(make: Callable[[], Factory], doing: list[str]) -> Examination:
    """Ask a provider everything that `examine` needs to know, on one thread. `doing` gets the name of each step."""
    factory = make()
    doing.append("making it")
    provider = factory.sample()
    doing.append("is_available")
    if factory.is_available(provider):
        return Examination(factory.found, True)
    doing.append("unavailable_reason")
    has_questions = callable(getattr(provider, "post_setup", None)) or bool(factory.fields(provider))
    return Examination(factory.found, False, factory.why_not(provider), has_questions)


# Sources


def _bundled() -> Iterator[FoundPlugin]:
    """The providers bundled with an installed Hermes. A package `plugins.memory` of another runtime does not count."""
    theirs = hermes_stubs.elsewhere("plugins.memory") if hermes_stubs.elsewhere("agent.memory_provider") else None
    for directory in (theirs.submodule_search_locations or ()) if theirs else ():
        yield from _below(Path(directory), Where.BUNDLED)


def _in_plugins(home: Path) -> Iterator[FoundPlugin]:
    yield from _below(home / "plugins", Where.PLUGINS)


def _below(directory: Path, where: Where) -> Iterator[FoundPlugin]:
    for child in _children(directory):
        if manifests.names_a_provider(child):
            yield _in_directory(child, where)


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(one for one in directory.iterdir() if one.is_dir() and not one.name.startswith(("_", ".")))
    except OSError:
        return []


def _in_directory(directory: Path, where: Where) -> FoundPlugin:
    manifest = manifests.read(directory)
    return FoundPlugin(directory.name, where, directory, manifest.description, manifest=manifest)


def _in_packages() -> Iterator[FoundPlugin]:
    for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, entry.value)):
        about: Any = entry.dist.metadata if entry.dist else {}
        summary = in_one_line(about["Summary"]) if "Summary" in about else ""
        yield FoundPlugin(entry.name, Where.PACKAGE, None, summary, entry=entry)


def _not_listed(name: str, home: Path) -> FoundPlugin:
    """Raise an error with the reason why a name was not found.

    If a directory of that name exists, the reason says what the directory lacks.
    """
    directory = home / "plugins" / name
    if name and not name.startswith(("_", ".")) and directory.is_dir():
        raise unavailable(_in_directory(directory, Where.PLUGINS), manifests.why_no_plugin(directory))
    there = sorted({one.name for one in find_plugins(home)})
    hint = f"there are: {', '.join(there)}" if there else f"put one into {home / 'plugins'}, or install its package"
    if name and Path(name).is_dir():
        hint += f"; for the directory, write ./{name}"
    raise ProviderMissing(f"there is no provider {name!r}", hint=hint)
