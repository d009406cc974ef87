"""A provider written for Hermes is imported where Hermes is not; whatever is really there comes first."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from strongroom.host.plugins import hermes_stubs
from strongroom.host.plugins.hermes_stubs import at_home
from strongroom.host.provider_interface import MemoryProvider

TOPS = ("agent", "tools", "hermes_cli", "hermes_constants", "utils")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Each test begins and ends with none of the names imported, ours or a test's own."""
    hermes_stubs.withdraw()
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in TOPS}
    yield
    hermes_stubs.withdraw()
    for name in [name for name in sys.modules if name.partition(".")[0] in TOPS]:
        del sys.modules[name]
    sys.modules.update(kept)
    importlib.invalidate_caches()


def _on_path(monkeypatch: pytest.MonkeyPatch, directory: Path, files: dict[str, str]) -> None:
    """Put files where modules are imported from."""
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(directory))


def _names(module: str) -> ModuleType:
    return importlib.import_module(module)


def test_nothing_is_supplied_before_a_plugin_is_loaded() -> None:
    for name in ("agent.memory_provider", "utils", "hermes_constants"):
        with pytest.raises(ModuleNotFoundError):
            _names(name)


@pytest.mark.requirement("provider-unmodified")
def test_modules_that_providers_import_are_there_without_hermes() -> None:
    hermes_stubs.supply()
    assert _names("agent.memory_provider").MemoryProvider is MemoryProvider
    assert _names("tools.registry").tool_error("no") == '{"error": "no"}'
    assert _names("hermes_cli.config").cfg_get({"a": {"b": 1}}, "a", "b") == 1
    assert _names("utils").atomic_json_write is hermes_stubs.atomic_json_write
    assert _names("hermes_constants").get_hermes_home is hermes_stubs.get_hermes_home


def test_other_names_of_hermes_are_still_missing() -> None:
    hermes_stubs.supply()
    for name in ("agent.memory_manager", "tools.memory_tool", "hermes_cli.memory_setup", "gateway"):
        with pytest.raises(ModuleNotFoundError):
            _names(name)


@pytest.mark.requirement("provider-unmodified")
def test_real_module_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _on_path(
        monkeypatch,
        tmp_path,
        {"agent/__init__.py": "", "agent/memory_provider.py": "MemoryProvider = 'real'", "utils.py": "own = 1"},
    )
    hermes_stubs.supply()
    assert _names("agent.memory_provider").MemoryProvider == "real"
    assert _names("utils").own == 1
    assert not hasattr(_names("utils"), "atomic_json_write")


def test_package_of_the_runtime_gets_the_module_that_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _on_path(monkeypatch, tmp_path, {"agent/__init__.py": "mine = True", "agent/loop.py": "turns = 3"})
    hermes_stubs.supply()
    assert _names("agent.memory_provider").MemoryProvider is MemoryProvider
    assert _names("agent").mine
    assert _names("agent.loop").turns == 3


def test_directory_without_init_gets_the_module_that_it_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _on_path(monkeypatch, tmp_path, {"tools/hammer.py": "weight = 2"})
    hermes_stubs.supply()
    assert _names("tools.registry").tool_result(ok=True) == '{"ok": true}'
    assert _names("tools.hammer").weight == 2


def test_plain_module_of_that_name_stays_what_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _on_path(monkeypatch, tmp_path, {"agent.py": "mine = True"})
    hermes_stubs.supply()
    assert _names("agent.memory_provider").MemoryProvider is MemoryProvider
    assert _names("agent").mine


def test_real_one_that_comes_later_is_taken_at_the_next_supply(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hermes_stubs.supply()
    assert _names("agent.memory_provider").MemoryProvider is MemoryProvider
    _on_path(monkeypatch, tmp_path, {"agent/__init__.py": "", "agent/memory_provider.py": "MemoryProvider = 'real'"})
    hermes_stubs.supply()
    assert _names("agent.memory_provider").MemoryProvider == "real"


def test_supplying_twice_adds_one_finder_and_it_is_the_last() -> None:
    hermes_stubs.supply()
    once = list(sys.meta_path)
    hermes_stubs.supply()
    assert sys.meta_path == once
    assert type(sys.meta_path[-1]).__module__ == hermes_stubs.__name__


def test_withdrawing_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _on_path(monkeypatch, tmp_path, {"agent/__init__.py": "mine = True"})
    before, finders = set(sys.modules), list(sys.meta_path)
    hermes_stubs.supply()
    for name in ("agent.memory_provider", "tools.registry", "utils", "hermes_cli.config"):
        _names(name)
    hermes_stubs.withdraw()
    assert sys.meta_path == finders
    assert set(sys.modules) - before == {"agent"}
    assert not hasattr(sys.modules["agent"], "memory_provider")


def test_looking_for_a_real_one_imports_no_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _on_path(monkeypatch, tmp_path, {"agent/__init__.py": "raise SystemError", "agent/memory_provider.py": ""})
    assert hermes_stubs.elsewhere("agent.memory_provider") is not None
    assert hermes_stubs.elsewhere("agent.other") is None
    assert "agent" not in sys.modules


def test_directories_without_init_below_one_another_are_no_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "tools" / "inner").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert hermes_stubs.elsewhere("tools.inner.deep") is None


def test_home_is_that_of_the_environment_by_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "env"))
    assert hermes_stubs.get_hermes_home() == tmp_path / "env"
    with at_home(tmp_path / "told"):
        assert hermes_stubs.get_hermes_home() == tmp_path / "told"
    monkeypatch.setenv("HERMES_HOME", " ")
    assert hermes_stubs.get_hermes_home() == Path.home() / ".hermes"
    assert hermes_stubs.display_hermes_home() == "~/.hermes"


def test_home_is_as_before_after_an_error(tmp_path: Path) -> None:
    with at_home(tmp_path / "outer"):
        with pytest.raises(LookupError), at_home(tmp_path / "inner"):
            raise LookupError
        assert hermes_stubs.get_hermes_home() == tmp_path / "outer"


def test_two_homes_are_in_use_at_once(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=10)
    seen: dict[str, Path] = {}

    def call(name: str) -> None:
        with at_home(tmp_path / name):
            both.wait()
            seen[name] = hermes_stubs.get_hermes_home()
            both.wait()

    threads = [threading.Thread(target=call, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {"a": tmp_path / "a", "b": tmp_path / "b"}


def test_home_reaches_a_worker_that_copies_the_context(tmp_path: Path) -> None:
    with at_home(tmp_path):
        context = copy_context()
    assert context.run(hermes_stubs.get_hermes_home) == tmp_path


def test_variable_of_an_installed_hermes_is_set_and_reset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home: ContextVar[str] = ContextVar("home", default="")
    theirs = SimpleNamespace(set_hermes_home_override=home.set, reset_hermes_home_override=home.reset)
    monkeypatch.setitem(sys.modules, "hermes_constants", theirs)
    with at_home(tmp_path):
        assert home.get() == str(tmp_path)
    assert home.get() == ""


def test_json_is_written_whole_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.json"
    hermes_stubs.atomic_json_write(path, {"a": 1})
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    hermes_stubs.atomic_json_write(path, {"a": "ä"})
    assert path.read_text() == '{\n  "a": "ä"\n}'
    assert path.stat().st_mode & 0o777 == 0o640
    with pytest.raises(TypeError):
        hermes_stubs.atomic_json_write(path, {"a": object()})
    assert path.read_text() == '{\n  "a": "ä"\n}'
    assert [child.name for child in path.parent.iterdir()] == ["config.json"]


@pytest.mark.parametrize(("config", "value"), [({"a": {"b": None}}, None), ({"a": 1}, 7), ({}, 7), (None, 7)])
def test_setting_on_a_way_that_ends_early_is_the_default(config: object, value: object) -> None:
    assert hermes_stubs.cfg_get(config, "a", "b", default=7) == value


def test_config_is_that_of_the_home(tmp_path: Path) -> None:
    with at_home(tmp_path):
        assert hermes_stubs.load_config() == {}
        (tmp_path / "config.yaml").write_text("memory:\n  provider: notes\n")
        assert hermes_stubs.load_config() == {"memory": {"provider": "notes"}}
        (tmp_path / "config.yaml").write_text("[1]")
        assert hermes_stubs.load_config() == {}
