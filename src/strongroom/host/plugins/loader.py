"""The loader of one plugin: imports its code, and makes providers with it, one for each agent.

- A failure of a plugin is reported: `ProviderUnavailable` carries the reason, with the line of the plugin's own code
  that the error passed through. A `register` that raises is a failure, too. Hermes would skip it and try the plugin's
  classes instead.
- Each agent gets an object of its own. A plugin that returns an object again is asked for another object, or refused.
- A directory becomes a module under a name made from its path, so that plugins of one name in two homes share nothing.
  Plugins bundled with Hermes import themselves by their own name and keep it. A module is loaded once per process; a
  module that failed is loaded anew when it is asked for again.
- The manifest explains a failure and never causes a failure.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module, metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from strongroom.errors import ProviderUnavailable
from strongroom.host.plugins import hermes_stubs
from strongroom.host.plugins import manifest as manifests
from strongroom.host.plugins.manifest import Manifest
from strongroom.host.plugins.unavailable_reason import in_one_line, run_isolated, unavailable, why
from strongroom.host.provider_interface import MemoryProvider

_NEEDED = ("name", "is_available", "initialize", "get_tool_schemas")
_PACKAGE = "_strongroom_plugins"

_looking_up = threading.Lock()
_importing: dict[Path, threading.RLock] = {}
_handing_out = threading.Lock()
_handed_out: WeakValueDictionary[int, Any] = WeakValueDictionary()
_kept: dict[type, Any] = {}

T = TypeVar("T")


class Where(StrEnum):
    BUNDLED = "bundled"
    PLUGINS = "plugins"
    PACKAGE = "package"
    PATH = "path"


@dataclass(frozen=True, slots=True)
class FoundPlugin:
    """A plugin that was found and could be loaded. None of its code has run."""

    name: str
    where: Where
    path: Path | None = None
    description: str = ""
    taken_by: Where | None = None
    """The earlier source that has a plugin of this name. If there is such a source, this plugin is not loaded by its
    name.
    """
    manifest: Manifest = field(default_factory=Manifest)
    entry: metadata.EntryPoint | None = None


@dataclass(frozen=True, slots=True)
class Factory:
    """Makes one provider for each agent: `factory()`. Raises ProviderUnavailable if the plugin gives no provider."""

    found: FoundPlugin
    home: Path
    _make: Callable[[], Any]

    def __call__(self) -> MemoryProvider:
        with hermes_stubs.at_home(self.home):
            made = self._checked(self._run("making it", self._make))
            return cast(MemoryProvider, made if _is_first(made) else self._another(type(made)))

    def sample(self) -> MemoryProvider:
        """An object of the provider for listing and set-up. It must not be given to an agent."""
        with hermes_stubs.at_home(self.home):
            return cast(MemoryProvider, self._checked(self._run("making it", self._make)))

    def why_not(self, provider: object) -> str:
        """Why a provider is not available: in its own words, or the requirements that are missing.

        The requirements stand in the plugin's manifest and in the schema of its settings.
        """

        def own_words() -> object:
            said = getattr(provider, "unavailable_reason", None)
            return said() if callable(said) else said

        said = None
        with hermes_stubs.at_home(self.home), suppress(ProviderUnavailable):
            said = self._run("unavailable_reason", own_words)
        own = [in_one_line(said)] if isinstance(said, str) and said.strip() else []
        unset = [f"{in_one_line(name)} is not set" for name in self._unset(provider)]
        reasons = [*own, *manifests.needs(self.found.manifest), *unset]
        return "; ".join(dict.fromkeys(reasons)) or "it says that it is not set up, and not why"

    def fields(self, provider: object) -> list[Mapping[str, Any]]:
        """The fields of the provider's settings schema. Malformed fields are left out."""
        asked = getattr(provider, "get_config_schema", None)
        said: object = None
        with hermes_stubs.at_home(self.home), suppress(ProviderUnavailable):
            said = self._run("get_config_schema", asked) if callable(asked) else None
        return [one for one in said if isinstance(one, Mapping)] if isinstance(said, list | tuple) else []

    def _unset(self, provider: object) -> list[str]:
        """The environment variables that the settings schema always requires and that are not set."""
        needed = [one.get("env_var") for one in self.fields(provider) if one.get("required") and not one.get("when")]
        return [one for one in needed if isinstance(one, str) and one.strip() and not os.environ.get(one)]

    def is_available(self, provider: MemoryProvider) -> bool:
        with hermes_stubs.at_home(self.home):
            return bool(self._run("is_available", provider.is_available))

    def _run(self, doing: str, call: Callable[[], T]) -> T:
        return run_isolated(self.found, doing, call)

    def _checked(self, made: Any) -> Any:
        if isinstance(made, type):
            raise unavailable(self.found, "it gave a class; give an object")
        missing = self._run("looking at it", lambda: [name for name in _NEEDED if not hasattr(made, name)])
        if missing:
            raise unavailable(self.found, f"what it gives is no provider: {', '.join(missing)} missing")
        return made

    def _another(self, cls: type) -> Any:
        """Make a second object, if the plugin returned its first object again. Works only if its class takes no
        arguments.
        """
        if _arguments(cls) == 0:
            made = self._run("making it", cls)
            if _is_first(made):
                return made
        raise unavailable(self.found, "it has one object for all agents, but each needs its own")


def make_factory(one: FoundPlugin, home: Path) -> Factory:
    """Import a plugin that was found, and return its factory."""
    hermes_stubs.supply()
    with hermes_stubs.at_home(home):
        source = run_isolated(one, "importing it", lambda: _source(one))
        return Factory(one, home, run_isolated(one, "looking at it", lambda: _maker(one, source)))


def _source(one: FoundPlugin) -> Any:
    """The plugin's module, or the object that its entry point names."""
    if one.entry:
        return one.entry.load()
    if one.where is Where.BUNDLED:
        return import_module(f"plugins.memory.{one.name}")
    path = cast(Path, one.path).resolve()
    with _looking_up:
        importing = _importing.setdefault(path, threading.RLock())
    with importing:  # a lock per plugin: one that hangs must not block the others
        return _module(path)


def _module(path: Path) -> ModuleType:
    """Import the module of a plugin's directory. Its relative imports find the other files of that directory."""
    digest = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    name = f"{_PACKAGE}.{re.sub(r'[^A-Za-z0-9_]', '_', path.name)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    package = sys.modules.setdefault(_PACKAGE, ModuleType(_PACKAGE))
    package.__path__ = []
    spec = spec_from_file_location(name, path / "__init__.py", submodule_search_locations=[str(path)])
    if spec is None or spec.loader is None:
        raise ImportError("there is no __init__.py in the plugin's directory")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for left in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[left]
        raise
    return module


class _Registry:
    """The object `ctx` that `register(ctx)` gets. `ctx` takes a provider, and ignores every other registration."""

    def __init__(self) -> None:
        self.provider: Any = None
        self.ignored: dict[str, None] = {}
        """The names of other `register_...` methods that the plugin called, in order."""

    def register_memory_provider(self, provider: Any, *_: object, **__: object) -> None:
        self.provider = provider

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("register_"):
            raise AttributeError(name)

        def ignore(*_: object, **__: object) -> None:
            self.ignored[name] = None

        return ignore

    @property
    def instead(self) -> str:
        """The calls that `register` made instead of registering a provider, in words."""
        called = ", ".join(f"ctx.{name}" for name in self.ignored)
        calls = f"called {called}, which the host ignores, and never" if called else "never called"
        return f"its register(ctx) {calls} register_memory_provider"


def _maker(one: FoundPlugin, source: Any) -> Callable[[], Any]:
    """A function that makes providers from a plugin's source.

    The source may be a module with `register` or a provider class, such a class, a `register` function, or a factory.
    """
    if isinstance(source, ModuleType):
        register, classes = getattr(source, "register", None), list(_classes(source))
        if callable(register):
            return lambda: _registered(one, register, classes)
        if not classes:
            raise unavailable(one, "it has no register(ctx) and no class that is a MemoryProvider")
        return lambda: _first(one, classes)
    if not callable(source):
        raise unavailable(one, f"its entry point names no function, class or module, but a {type(source).__name__}")
    registers = getattr(source, "__name__", "") == "register" or _arguments(source, needed=True) != 0
    if isinstance(source, type) or not registers:
        return cast(Callable[[], Any], source)
    return lambda: _registered(one, source, [])


def _registered(one: FoundPlugin, register: Callable[[Any], Any], classes: list[type]) -> Any:
    registry = _Registry()
    register(registry)
    if isinstance(registry.provider, type):
        raise unavailable(one, "register_memory_provider was given a class; give an object")
    if registry.provider is not None:
        return registry.provider
    if not classes:
        raise unavailable(one, registry.instead)
    try:
        return run_isolated(one, f"making {classes[-1].__name__} instead", lambda: _first(one, classes))
    except ProviderUnavailable as error:
        raise unavailable(one, f"{registry.instead}; {why(error, one.name)}", error.hint) from None


def _first(one: FoundPlugin, classes: Iterable[type]) -> Any:
    """Make an object of the first class that needs no arguments. If no class can be made, the last error is raised."""
    *others, last = classes
    for cls in others:
        with suppress(ProviderUnavailable):
            return run_isolated(one, "making it", cls)
    return last()


def _classes(module: ModuleType) -> Iterator[type]:
    """The provider classes of a module, in Hermes' order: its own classes, or else the classes that it imported.

    If no class is complete, the module's own classes are returned. Making one of them reports which methods are
    missing.
    """
    bases = (MemoryProvider, getattr(sys.modules.get("agent.memory_provider"), "MemoryProvider", MemoryProvider))
    values = [getattr(module, name, None) for name in dir(module)]
    classes = [one for one in values if isinstance(one, type) and issubclass(one, bases) and one not in bases]
    own = [one for one in classes if f"{one.__module__}.".startswith(f"{module.__name__}.")]
    whole = [one for one in classes if not inspect.isabstract(one)]
    yield from [one for one in whole if one in own] or whole or own


def _arguments(call: Callable[..., Any], *, needed: bool = False) -> int:
    """How many arguments a callable accepts; with `needed`, how many it requires. -1 if this cannot be found out."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return -1
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(not needed or (one.default is one.empty and one.kind not in variadic) for one in parameters)


def _is_first(provider: object) -> bool:
    """True if this object was never given to an agent before. Records that the object is given now."""
    with _handing_out:
        was = _handed_out.get(id(provider)) is provider or _kept.get(type(provider)) is provider
        try:
            _handed_out[id(provider)] = provider
        except TypeError:  # slots and no __weakref__: keep its first object, to recognise it
            _kept.setdefault(type(provider), provider)
        return not was
