"""Stand-ins for the Hermes modules that a provider imports, for hosts without Hermes.

A provider says `from agent.memory_provider import MemoryProvider`, and often imports three or four other names.
`supply` appends a finder for just these names to the import path. The finder comes last, so every real module is found
before it: an installed Hermes, and a runtime's own `agent`, `tools` or `utils`. If a real package lacks a supplied
module, the module comes from here. A plain module `agent.py` cannot have submodules, so its submodules are put into
`sys.modules` directly.

There are two side effects. From the first load on, `import utils` finds a module in this process even if no module of
that name is installed. A real module can also become importable after a stand-in was imported. The real module is then
used from the next load of a plugin on, while earlier imports keep the stand-in.

This module also holds the home that a provider works with. `at_home` sets this home for the calls made inside, in their
context alone, so one process can use two homes at once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from strongroom.host.plugins.yaml_file import read_yaml
from strongroom.host.provider_interface import MemoryProvider
from strongroom.private_files import write_file

_HOME: ContextVar[Path | None] = ContextVar("strongroom_host_home", default=None)


@contextmanager
def at_home(home: Path) -> Iterator[None]:
    """Make `home` the providers' home for the calls inside. If Hermes is installed, its own variable is set too.

    This costs a few microseconds, because it goes around each call into a provider.
    """
    token = _HOME.set(home)
    constants = sys.modules.get("hermes_constants")
    override: Callable[[str], Any] | None = getattr(constants, "set_hermes_home_override", None)
    theirs = override(str(home)) if override else None
    try:
        yield
    finally:
        if theirs is not None:
            constants.reset_hermes_home_override(theirs)  # type: ignore[union-attr]
        _HOME.reset(token)


def get_hermes_home() -> Path:
    """The home of the current call. If the call has none, the variable `HERMES_HOME`, or else `~/.hermes`."""
    named = os.environ.get("HERMES_HOME", "").strip()
    return _HOME.get() or (Path(named) if named else Path.home() / ".hermes")


def display_hermes_home() -> str:
    """The home of the current call as text for people, with `~` for the user's directory."""
    home = get_hermes_home()
    with suppress(ValueError, RuntimeError):
        return str(Path("~") / home.relative_to(Path.home()))
    return str(home)


def tool_error(message: object, **extra: Any) -> str:
    """The JSON answer of a tool that failed."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False)


def tool_result(data: Any = None, **given: Any) -> str:
    """The JSON answer of a tool: one value, or the keyword arguments as an object."""
    return json.dumps(given if data is None else data, ensure_ascii=False)


def atomic_json_write(
    path: str | os.PathLike[str], data: Any, *, indent: int = 2, mode: int | None = None, **options: Any
) -> None:
    """Write a JSON file whole or not at all. An existing file keeps its mode; a new file gets mode 0600."""
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = target.stat().st_mode & 0o777 if target.exists() else 0o600
    text = json.dumps(data, indent=indent, **{"ensure_ascii": False, **options})
    write_file(target, text.encode(), new=False)
    target.chmod(kept if mode is None else mode)


def cfg_get(config: Any, *keys: str, default: Any = None) -> Any:
    """A value from nested mappings, or `default` if a key is missing."""
    if not isinstance(config, dict):
        return default
    for key in keys:
        if not isinstance(config, dict) or key not in config:
            return default
        config = config[key]
    return config


def load_config() -> dict[str, Any]:
    """The settings in the home's `config.yaml`. Empty if there is no such file."""
    path = get_hermes_home() / "config.yaml"
    said = read_yaml(path) if path.exists() else {}
    return said if isinstance(said, dict) else {}


_SUPPLIED: dict[str, dict[str, Any]] = {
    "agent": {},
    "agent.memory_provider": {"MemoryProvider": MemoryProvider},
    "tools": {},
    "tools.registry": {"tool_error": tool_error, "tool_result": tool_result},
    "hermes_cli": {},
    "hermes_cli.config": {"cfg_get": cfg_get, "load_config": load_config},
    "hermes_constants": {"get_hermes_home": get_hermes_home, "display_hermes_home": display_hermes_home},
    "utils": {"atomic_json_write": atomic_json_write},
}
_PACKAGES = {name.partition(".")[0] for name in _SUPPLIED if "." in name}


class _Supplier(MetaPathFinder, Loader):
    """An import finder and loader for the supplied modules only."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the seam's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname not in _SUPPLIED:
            return None
        return ModuleSpec(fullname, self, origin="strongroom.host", is_package=fullname in _PACKAGES)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002 - the seam's signature
        return None

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update(_SUPPLIED[module.__name__])


_SUPPLIER = _Supplier()


def supplied() -> str:
    """The modules and names that are supplied, as text for a message."""
    return ", ".join(f"{module} ({', '.join(given)})" for module, given in _SUPPLIED.items() if given)


def is_supplied_in_part(name: str) -> bool:
    """True if Hermes is not installed, and a module is in a Hermes package of which only a part is supplied here."""
    return name.partition(".")[0] in {one.partition(".")[0] for one in _SUPPLIED} and not elsewhere(
        "agent.memory_provider"
    )


def supply() -> None:
    """Make the supplied modules importable, each only if no other module has its name. Idempotent and cheap."""
    taken = {name for name in _PACKAGES if _is_ours(name) and elsewhere(name)}
    for name in _SUPPLIED:
        if _is_ours(name) and (name.partition(".")[0] in taken or elsewhere(name)):
            _drop(name)
    if _SUPPLIER not in sys.meta_path:
        sys.meta_path.append(_SUPPLIER)
    for name in _SUPPLIED:
        if "." in name and name not in sys.modules and _is_plain_module(name.partition(".")[0]):
            _put(name)
    import_module("hermes_constants")  # `at_home` looks for the real one among imported modules


def withdraw() -> None:
    """Undo `supply`: for tests, and for a runtime that is done with plugins. Plugins keep the modules that they have
    imported.
    """
    if _SUPPLIER in sys.meta_path:
        sys.meta_path.remove(_SUPPLIER)
    for name in _SUPPLIED:
        if _is_ours(name):
            _drop(name)


def elsewhere(name: str) -> ModuleSpec | None:
    """Find a module of this name that is not a stand-in of ours. Imports nothing, not even parent packages."""
    parent = name.rpartition(".")[0]
    above = elsewhere(parent) if parent else None
    if parent and (above is None or above.submodule_search_locations is None):
        return None
    path = above.submodule_search_locations if above else None
    finders = [one for one in sys.meta_path if one is not _SUPPLIER and hasattr(one, "find_spec")]
    specs = (one.find_spec(name, path) for one in finders)
    try:
        return next((spec for spec in specs if spec), None)
    except KeyError:  # a directory without __init__.py below a package not imported: nothing to import from
        return None


def _is_ours(name: str) -> bool:
    return getattr(sys.modules.get(name), "__loader__", None) is _SUPPLIER


def _is_plain_module(name: str) -> bool:
    """True if `name` is a real module that cannot have submodules."""
    if name in sys.modules:
        return not hasattr(sys.modules[name], "__path__")
    spec = elsewhere(name)
    return spec is not None and spec.submodule_search_locations is None


def _put(name: str) -> None:
    module = ModuleType(name)
    module.__loader__ = _SUPPLIER
    module.__spec__ = _SUPPLIER.find_spec(name)
    _SUPPLIER.exec_module(module)
    sys.modules[name] = module


def _drop(name: str) -> None:
    parent, _, last = name.rpartition(".")
    module = sys.modules.pop(name)
    if parent in sys.modules and getattr(sys.modules[parent], last, None) is module:
        delattr(sys.modules[parent], last)
