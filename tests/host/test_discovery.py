"""Providers are found in three sources and loaded as they are; what is wrong with one is said."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from strongroom.errors import ProviderMissing, ProviderUnavailable
from strongroom.host.plugins import discovery, hermes_stubs, manifest, yaml_file
from strongroom.host.plugins.discovery import Where
from strongroom.host.provider_interface import MemoryProvider

ROOT = Path(__file__).parents[2]
HERMES = ROOT / ".venv-hermes" / "bin" / "python"

CLASS = """
from agent.memory_provider import MemoryProvider
from tools.registry import tool_error
from hermes_constants import get_hermes_home

HOME_AT_IMPORT = get_hermes_home()

class Notes(MemoryProvider):
    def __init__(self):
        self.home = get_hermes_home()
    @property
    def name(self):
        return "notes"
    def is_available(self):
        return True
    def initialize(self, session_id, **kwargs):
        pass
    def get_tool_schemas(self):
        return []
"""
REGISTER = """
def register(ctx):
    ctx.register_hook("on_session_start", print)
    ctx.register_tool(name="x", handler=None)
    ctx.register_something_new(1, two=2)
    ctx.register_memory_provider(Notes())
"""
WHOLE = CLASS + REGISTER


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """No test leaves modules of a pretended Hermes behind."""
    before = set(sys.modules)
    yield
    hermes_stubs.withdraw()
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("agent", "plugins", "tools", "hermes_constants", "hermes_cli", "utils", "packed"):
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _write(directory: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(dedent(text))
    return directory


def _plugin(home: Path, text: str = WHOLE, name: str = "notes", **others: str) -> Path:
    files = {key.replace("_yaml", ".yaml").replace("_py", ".py"): value for key, value in others.items()}
    return _write(home / "plugins" / name, {"__init__.py": text, **files})


def _reason(name: str, home: Path) -> str:
    """Why a provider is not available, when loading it or when making one."""
    with pytest.raises(ProviderUnavailable) as caught:
        discovery.load(name, home)()
    assert caught.value.reason == "provider_unavailable"
    return str(caught.value)


def _package(monkeypatch: pytest.MonkeyPatch, directory: Path, module: str, entries: str) -> None:
    """An installed distribution with a module `packed` and entry points."""
    about = "Metadata-Version: 2.1\nName: packed\nVersion: 1.0\nSummary: Notes in a package\n"
    points = f"[{discovery.ENTRY_POINTS}]\n{entries}\n"
    files = {"packed.py": module, "packed-1.0.dist-info/METADATA": about}
    _write(directory, {**files, "packed-1.0.dist-info/entry_points.txt": points})
    monkeypatch.syspath_prepend(str(directory))


def _hermes(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str = WHOLE, name: str = "notes") -> None:
    """An installed Hermes, as far as discovery can see."""
    source = Path(sys.modules[MemoryProvider.__module__].__file__ or "").read_text()
    files = {"agent/__init__.py": "", "agent/memory_provider.py": source, "plugins/__init__.py": ""}
    _write(directory, {**files, "plugins/memory/__init__.py": "", f"plugins/memory/{name}/__init__.py": text})
    monkeypatch.syspath_prepend(str(directory))


# What is not there, or not sound


def test_name_that_is_nowhere_is_missing_and_the_others_are_named(home: Path) -> None:
    _plugin(home)
    with pytest.raises(ProviderMissing) as caught:
        discovery.load("other", home)
    assert "notes" in caught.value.hint


@pytest.mark.parametrize("name", ["", "_notes", ".notes", ".."])
def test_hidden_and_empty_names_are_missing(home: Path, name: str) -> None:
    _plugin(home, name=name or "unused")
    with pytest.raises(ProviderMissing):
        discovery.load(name, home)


def test_directory_in_the_working_directory_is_not_run_for_its_name(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    _write(tmp_path / "notes", {"__init__.py": "raise KeyboardInterrupt  # MemoryProvider"})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ProviderMissing) as caught:
        discovery.load("notes", home)
    assert "./notes" in caught.value.hint


@pytest.mark.requirement("discovery-says-why")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# MemoryProvider\n\nimport no_such_module_at_all\n", ["ModuleNotFoundError", "no_such_module", "line 3"]),
        ("# MemoryProvider\ndef broken(:\n", ["SyntaxError", "__init__.py, line 2"]),
        ("# MemoryProvider\nraise SystemExit('no licence')\n", ["SystemExit", "no licence", "line 2"]),
        ("# MemoryProvider\n", ["no register(ctx)"]),
        ("# MemoryProvider\ndef register(ctx):\n    pass\n", ["never called register_memory_provider"]),
        (
            "# MemoryProvider\ndef register(ctx):\n    ctx.register_memory(1)\n",
            ["called ctx.register_memory, which the host ignores, and never register_memory_provider"],
        ),
        (
            CLASS.replace("def __init__(self)", "def __init__(self, settings)")
            + "\ndef register(ctx):\n    ctx.register_memory(Notes(1))\n",
            ["called ctx.register_memory, which the host ignores", "making Notes instead failed: TypeError"],
        ),
        (
            CLASS + "\ndef register(ctx):\n    ctx.register_memory_provider(Notes)\n",
            ["register_memory_provider was given a class; give an object"],
        ),
        ("# MemoryProvider\ndef register(ctx):\n    raise OSError('disk')\n", ["OSError: disk", "line 3"]),
        ("# MemoryProvider\ndef register(ctx):\n    ctx.other()\n", ["AttributeError", "line 3"]),
        (
            "# MemoryProvider\ndef register(ctx):\n    ctx.register_memory_provider(object())\n",
            ["no provider", "is_available"],
        ),
        (CLASS.replace("self.home = get_hermes_home()", "raise ValueError('no key')"), ["ValueError: no key", "line "]),
        (CLASS.replace("def get_tool_schemas", "def get_schemas"), ["TypeError", "get_tool_schemas"]),
        ("#" * 8_192 + "\n" + WHOLE, ["8192 characters"]),
        ("x = 1\n", ["8192 characters"]),
    ],
)
def test_broken_plugin_says_why_it_is_not_available(home: Path, text: str, said: list[str]) -> None:
    _plugin(home, text)
    reason = _reason("notes", home)
    assert "notes" in reason
    assert [part for part in said if part not in reason] == []


@pytest.mark.requirement("discovery-says-why")
def test_line_that_is_named_is_one_of_the_plugin(home: Path) -> None:
    text = "# MemoryProvider\nimport json\n\ndef register(ctx):\n    json.loads('{')\n"
    directory = _plugin(home, text)
    assert f"{directory}/__init__.py, line 5" in _reason("notes", home)


@pytest.mark.requirement("discovery-says-why")
def test_missing_package_that_the_manifest_names_is_the_hint(home: Path) -> None:
    said = "name: notes\npip_dependencies:\n  - no-such-package-at-all>=1\n  - pytest\n"
    _plugin(home, "# MemoryProvider\nimport no_such_package_at_all\n", plugin_yaml=said)
    with pytest.raises(ProviderUnavailable) as caught:
        discovery.load("notes", home)
    assert caught.value.hint == "pip install no-such-package-at-all>=1"


def test_error_cannot_steer_the_terminal_nor_fill_it(home: Path) -> None:
    _plugin(home, "# MemoryProvider\nraise ValueError('\\x1b[2J' + 'x' * 5000)\n")
    reason = _reason("notes", home)
    assert "\x1b" not in reason
    assert len(reason) < 1000


def test_error_that_cannot_be_shown_is_named_by_its_type(home: Path) -> None:
    text = "# MemoryProvider\nclass Odd(Exception):\n    def __str__(self):\n        raise self\nraise Odd\n"
    _plugin(home, text)
    assert "Odd" in _reason("notes", home)


def test_interrupt_is_not_taken_for_a_fault_of_the_plugin(home: Path) -> None:
    _plugin(home, "# MemoryProvider\nraise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        discovery.load("notes", home)


def test_plugin_that_was_repaired_loads_without_a_restart(home: Path) -> None:
    directory = _plugin(home, "# MemoryProvider\nfrom .store import x\n", store_py="raise ValueError\n")
    assert "ValueError" in _reason("notes", home)
    _write(
        directory, {"__init__.py": WHOLE + "\nfrom .store import x  # repaired\n", "store.py": "x = 1  # repaired\n"}
    )
    importlib.invalidate_caches()
    assert discovery.load("notes", home)().name == "notes"


# The three sources


@pytest.mark.requirement("discovery-three-sources")
def test_providers_come_from_hermes_then_the_home_then_packages(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    _hermes(monkeypatch, tmp_path / "hermes", name="first")
    _plugin(home, name="second")
    _package(monkeypatch, tmp_path / "site", WHOLE, "third = packed:register")
    assert [(one.name, one.where) for one in discovery.find_plugins(home)] == [
        ("first", Where.BUNDLED),
        ("second", Where.PLUGINS),
        ("third", Where.PACKAGE),
    ]
    for name in ("first", "second", "third"):
        assert discovery.load(name, home)().is_available()
    assert type(discovery.load("first", home)()).__module__ == "plugins.memory.first"


@pytest.mark.requirement("discovery-three-sources")
def test_first_source_of_a_name_wins_and_the_others_are_listed(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    _hermes(monkeypatch, tmp_path / "hermes")
    _plugin(home, "# MemoryProvider\nraise AssertionError\n")
    _package(monkeypatch, tmp_path / "site", "raise AssertionError", "notes = packed:register")
    listed = discovery.find_plugins(home)
    assert [one.taken_by for one in listed] == [None, Where.BUNDLED, Where.BUNDLED]
    assert discovery.load("notes", home).found.where is Where.BUNDLED
    assert "bundled" in discovery.examine(listed[1], home).reason


def test_package_of_plugins_that_is_not_hermes_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path
) -> None:
    files = {"plugins/__init__.py": "raise AssertionError", "plugins/memory/__init__.py": ""}
    _write(tmp_path / "own", {**files, "plugins/memory/notes/__init__.py": WHOLE})
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    assert discovery.find_plugins(home) == []


@pytest.mark.requirement("discovery-three-sources")
def test_listing_runs_no_plugin(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    _plugin(home, "# MemoryProvider\nraise AssertionError\n", plugin_yaml="description: keeps notes\n")
    _plugin(home, "# another kind of plugin\nraise AssertionError\n", name="other")
    _plugin(home, WHOLE, name="_hidden")
    (home / "plugins" / "file.py").write_text("# MemoryProvider")
    _package(monkeypatch, tmp_path / "site", "raise AssertionError", "packed = packed:register\nother = gone:register")
    shown = [(one.name, one.description) for one in discovery.find_plugins(home)]
    assert shown == [("notes", "keeps notes"), ("other", "Notes in a package"), ("packed", "Notes in a package")]
    assert "packed" not in sys.modules


def test_home_without_plugins_has_none(home: Path) -> None:
    assert discovery.find_plugins(home) == []


@pytest.mark.requirement("discovery-three-sources")
@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ("packed:register", WHOLE),
        ("packed:Notes", CLASS),
        ("packed:make", CLASS + "def make(config=None):\n    return Notes()\n"),
        ("packed:enter", CLASS + "def enter(ctx):\n    ctx.register_memory_provider(Notes())\n"),
        ("packed:partly", CLASS + "from functools import partial\npartly = partial(lambda config: Notes(), 1)\n"),
        ("packed", WHOLE),
        ("packed", CLASS),
    ],
)
def test_entry_point_names_a_register_a_class_a_factory_or_a_module(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path, entry: str, text: str
) -> None:
    _package(monkeypatch, tmp_path, text, f"notes = {entry}\nnever = not_there:register")
    factory = discovery.load("notes", home)
    assert factory().name == "notes"
    assert factory() is not factory()


@pytest.mark.requirement("discovery-says-why")
@pytest.mark.parametrize(
    ("entry", "said"), [("packed:gone", "AttributeError"), ("gone_module", "ModuleNotFoundError"), ("packed:N", "int")]
)
def test_broken_entry_point_says_why(
    monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path, entry: str, said: str
) -> None:
    _package(monkeypatch, tmp_path, "N = 1", f"notes = {entry}")
    assert said in _reason("notes", home)


# What a plugin may count on


@pytest.mark.requirement("provider-unmodified")
def test_plugin_imports_what_is_beside_it(home: Path) -> None:
    text = WHOLE.replace(
        "class Notes", "from . import words\nfrom .store import Store\nfrom .deep.inner import DEPTH\nclass Notes"
    ).replace("self.home = get_hermes_home()", "self.store, self.word, self.depth = Store(), words.WORD, DEPTH")
    directory = _plugin(home, text, store_py="from .words import WORD\nclass Store:\n    word = WORD\n")
    _write(
        directory,
        {"words.py": "WORD = 'w'\n", "deep/__init__.py": "", "deep/inner.py": "from ..words import WORD\nDEPTH = 2\n"},
    )
    _write(directory, {"cli.py": "raise AssertionError('not imported, so not run')\n"})
    made = discovery.load("notes", home)()
    assert (made.store.word, made.word, made.depth) == ("w", "w", 2)  # type: ignore[attr-defined]


@pytest.mark.requirement("provider-unmodified")
def test_plugin_without_register_is_made_from_its_class(home: Path) -> None:
    base = "from abc import abstractmethod\nclass Base(Notes):\n    @abstractmethod\n    def more(self): ...\n"
    _plugin(home, CLASS + base + "class Another(MemoryProvider):\n    pass\n")
    assert type(discovery.load("notes", home)()).__name__ == "Notes"


def test_class_that_cannot_be_made_gives_way_to_the_next(home: Path) -> None:
    _plugin(home, CLASS + "class Ahead(Notes):\n    def __init__(self, needed):\n        pass\n")
    assert type(discovery.load("notes", home)()).__name__ == "Notes"


def test_shim_may_take_its_class_from_a_package(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    _package(monkeypatch, tmp_path, CLASS, "")
    _plugin(home, "from packed import Notes  # a MemoryProvider\n")
    assert type(discovery.load("notes", home)()).__module__ == "packed"


def test_register_for_other_things_leaves_the_class(home: Path) -> None:
    _plugin(home, CLASS + "def register(ctx):\n    ctx.register_tool()\n")
    assert discovery.load("notes", home)().name == "notes"


@pytest.mark.requirement("provider-unmodified")
def test_object_that_has_the_methods_need_not_derive_from_ours(home: Path) -> None:
    text = CLASS.replace("(MemoryProvider)", "") + REGISTER
    _plugin(home, text)
    made = discovery.load("notes", home)()
    assert not isinstance(made, MemoryProvider)
    assert made.name == "notes"


@pytest.mark.requirement("provider-unmodified")
def test_each_home_has_its_own_plugin_and_is_found_by_it(tmp_path: Path) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        _plugin(home, WHOLE + f"\nWHOSE = {home.name!r}\n")
    factories = [discovery.load("notes", home) for home in homes]
    made = [factory() for factory in factories]
    modules = [sys.modules[type(one).__module__] for one in made]
    assert [module.WHOSE for module in modules] == ["a", "b"]
    assert [module.HOME_AT_IMPORT for module in modules] == homes
    assert [one.home for one in made] == homes  # type: ignore[attr-defined]
    assert discovery.load("notes", homes[0])().__class__ is made[0].__class__


def test_each_call_gives_a_new_object(home: Path) -> None:
    _plugin(home)
    factory = discovery.load("notes", home)
    assert len({id(one) for one in [factory() for _ in range(20)]}) == 20


def test_plugin_that_is_still_being_imported_is_waited_for(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    hook = ModuleType("import_hook")
    hook.entered, hook.second_is_done = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "import_hook", hook)
    # The second load cannot end before the first import does; if it did, the import would go on only then.
    wait = "import import_hook\nimport_hook.entered.set()\nimport_hook.second_is_done.wait(0.2)\n# MemoryProvider\n"
    _plugin(home, wait + WHOLE)
    made: list[MemoryProvider] = []

    def second() -> None:
        assert hook.entered.wait(20)
        try:
            made.append(discovery.load("notes", home)())
        finally:
            hook.second_is_done.set()

    thread = threading.Thread(target=second)
    thread.start()
    made.append(discovery.load("notes", home)())
    thread.join()
    assert len(made) == 2
    assert type(made[0]) is type(made[1])


SINGLE = "\nONE = Notes()\ndef register(ctx):\n    ctx.register_memory_provider(ONE)\n"


def test_plugin_with_one_object_for_all_is_asked_for_another(home: Path) -> None:
    _plugin(home, CLASS + SINGLE)
    first, second = discovery.load("notes", home)(), discovery.load("notes", home)()
    assert first is not second
    assert type(first) is type(second)


@pytest.mark.requirement("discovery-says-why")
@pytest.mark.parametrize("slots", [False, True])
def test_plugin_whose_one_object_was_set_up_by_hand_is_refused_a_second_time(home: Path, slots: bool) -> None:
    text = CLASS.replace("def __init__(self):", "def __init__(self, config=None):")
    if slots:
        text = text.replace("(MemoryProvider):", ":\n    __slots__ = ('home',)")
    _plugin(home, text + SINGLE)
    factory = discovery.load("notes", home)
    first = factory()
    with pytest.raises(ProviderUnavailable) as caught:
        factory()
    assert "one object" in str(caught.value)
    assert first.name == "notes"


def test_object_that_counts_as_false_is_known_again(home: Path) -> None:
    text = CLASS.replace(
        "def __init__(self):", "def __len__(self):\n        return 0\n    def __init__(self, config=None):"
    )
    _plugin(home, text + SINGLE)
    factory = discovery.load("notes", home)
    assert factory().name == "notes"
    with pytest.raises(ProviderUnavailable):
        factory()


def test_looking_at_a_provider_uses_up_no_object(home: Path) -> None:
    _plugin(home, CLASS.replace("(self):\n        self.home", "(self, config=None):\n        self.home") + SINGLE)
    assert discovery.examine("notes", home).available
    assert discovery.load("notes", home)().name == "notes"


def test_path_loads_that_directory(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    _write(tmp_path / "work" / "my-notes.v2", {"__init__.py": WHOLE})
    monkeypatch.chdir(tmp_path / "work")
    for path in ("./my-notes.v2", str(tmp_path / "work" / "my-notes.v2")):
        factory = discovery.load(path, home)
        assert factory.found.where is Where.PATH
        assert factory().home == home  # type: ignore[attr-defined]


def test_path_without_a_plugin_says_why(home: Path, tmp_path: Path) -> None:
    with pytest.raises(ProviderMissing):
        discovery.load_path(tmp_path / "gone", home)
    with pytest.raises(ProviderUnavailable) as caught:
        discovery.load_path(_write(tmp_path / "bare", {"other.py": ""}), home)
    assert "there is no __init__.py" in str(caught.value)


# Whether it is available


@pytest.mark.requirement("discovery-says-why")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("return False", "not set up"),
        ("return False\n    def unavailable_reason(self):\n        return 'no key'", "no key"),
        ("return False\n    unavailable_reason = 'no key'", "no key"),
        ("return False\n    def unavailable_reason(self):\n        raise OSError", "not set up"),
        ("raise OSError('gone')", "OSError: gone"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_provider_that_is_not_available_says_why(home: Path, change: str, said: str) -> None:
    _plugin(home, WHOLE.replace("return True", change))
    examination = discovery.examine("notes", home)
    assert not examination.available
    assert said in examination.reason
    assert examination.found.where is Where.PLUGINS


@pytest.mark.requirement("discovery-says-why")
def test_manifest_requirement_explains_why_it_is_not_available(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    said = """
        requires_env: [NOTES_KEY, {name: NOTES_URL}, PATH]
        pip_dependencies: ["no-such-package-at-all[extra]>=1", pytest]
        external_dependencies: [{name: no-such-program, check: no-such-program --version}, {name: sh}]
    """
    monkeypatch.delenv("NOTES_KEY", raising=False)
    _plugin(home, WHOLE.replace("return True", "return False"), plugin_yaml=said)
    assert discovery.examine("notes", home).reason.split("; ") == [
        "the package no-such-package-at-all[extra]>=1 is not installed",
        "the program no-such-program is not found",
        "NOTES_KEY is not set",
        "NOTES_URL is not set",
    ]


def test_manifest_requirement_stops_no_provider_that_does_without(home: Path) -> None:
    _plugin(home, plugin_yaml="requires_env: [NOT_SET_ANYWHERE]\npip_dependencies: [no-such-package-at-all]\n")
    examination = discovery.examine("notes", home)
    assert (examination.available, examination.reason) == (True, "")


@pytest.mark.requirement("discovery-says-why")
def test_entry_point_that_gives_a_class_says_so(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    _package(monkeypatch, tmp_path, CLASS + "\ndef make():\n    return Notes\n", "notes = packed:make")
    assert "gave a class; give an object" in _reason("notes", home)


@pytest.mark.requirement("discovery-says-why")
def test_missing_name_of_hermes_comes_with_those_that_are_supplied(home: Path) -> None:
    _plugin(home, "# MemoryProvider\nfrom agent.model_metadata import x\n")
    reason = _reason("notes", home)
    assert "agent.model_metadata" in reason
    assert "tools.registry (tool_error, tool_result)" in reason
    _plugin(home, "# MemoryProvider\nfrom tools.registry import nothing\n", "other")
    assert "agent.memory_provider (MemoryProvider)" in _reason("other", home)
    _plugin(home, "# MemoryProvider\nimport no_such_package\n", "third")
    assert "tools.registry" not in _reason("third", home)


@pytest.mark.parametrize(
    ("text", "doing"),
    [
        (WHOLE.replace("return True", "import hanging; hanging.wait()"), "is_available"),
        (WHOLE.replace("self.home =", "import hanging; hanging.wait()\n        self.home ="), "making it"),
        ("# MemoryProvider\nimport hanging\nhanging.wait()\n", "importing it"),
    ],
)
def test_provider_that_hangs_is_not_available_and_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, home: Path, text: str, doing: str
) -> None:
    release = threading.Event()
    hanging = ModuleType("hanging")
    hanging.wait = release.wait  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hanging", hanging)
    _plugin(home, text)
    _plugin(home, WHOLE, "other")
    try:
        assert discovery.examine("notes", home, 0.5).reason == f"{doing} took more than 0.5 s"
        assert discovery.examine("other", home).available
    finally:
        release.set()


def test_plugins_that_name_a_provider_in_the_wrong_place_are_skipped_and_known(home: Path) -> None:
    _plugin(home, "#" * 8_192 + WHOLE, "late")
    _plugin(home, "from .impl import register\n", "split", impl_py=WHOLE)
    _plugin(home, "# a plugin for something else\n", "else")
    _plugin(home, WHOLE, "fine")
    assert [one.found.name for one in discovery.find_skipped(home)] == ["late", "split"]
    assert [one.name for one in discovery.find_plugins(home)] == ["fine"]


REQUIRED = """
    def get_config_schema(self):
        return [
            {"key": "a", "required": True, "env_var": "NOTES_A"},
            {"key": "b", "required": True, "env_var": "NOTES_B", "when": {"a": "x"}},
            {"key": "c", "env_var": "NOTES_C"},
            {"key": "d", "required": True, "env_var": "NOTES_D"},
            {"key": "e", "required": True, "env_var": 7},
            "nonsense",
        ]
"""


def test_schema_requirement_that_is_not_set_explains_why_it_is_not_available(
    monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    for name in ("NOTES_A", "NOTES_B", "NOTES_C"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NOTES_D", "x")
    _plugin(home, CLASS.replace("return True", "return False") + REQUIRED)
    seen = discovery.examine("notes", home)
    assert (seen.reason, seen.can_be_set_up) == ("NOTES_A is not set", True)


@pytest.mark.requirement("discovery-says-why")
def test_examining_a_broken_plugin_gives_its_reason(home: Path) -> None:
    _plugin(home, "# MemoryProvider\nimport no_such_module_at_all\n")
    (one,) = discovery.find_plugins(home)
    for asked in (one, "notes"):
        examination = discovery.examine(asked, home)
        assert not examination.available
        assert "no_such_module_at_all" in examination.reason
    with pytest.raises(ProviderMissing):
        discovery.examine("other", home)


# The manifest


def test_manifest_gives_all_its_fields(tmp_path: Path) -> None:
    text = """\ufeff
        name: notes
        version: 1.5
        description: "keeps
          notes"
        hooks: [on_session_end]
        external_dependencies: [{name: brew, check: brew -v, install: curl}]
    """
    read = manifest.read(_write(tmp_path, {"plugin.yaml": text}))
    assert (read.name, read.version, read.description, read.hooks) == (
        "notes",
        "1.5",
        "keeps notes",
        ("on_session_end",),
    )
    assert read.external_dependencies == (manifest.External("brew", "brew -v", "curl"),)
    assert read.problem == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: [1]\ndescription: ok\n", "wrong type of name"),
        ("requires_env: KEY\nhooks: {a: 1}\n", "wrong type of requires_env, hooks"),
        ("pip_dependencies: [1]\n", "wrong type of pip_dependencies"),
        ("external_dependencies: [{check: x}]\n", "wrong type of external_dependencies"),
        ("- a\n", "no fields"),
        ("a: b: c\n", "not YAML (line 1)"),
        ("a: !!python/object/apply:os.getcwd []\n", "not YAML"),
        ("a: 2026-99-99\n", "not YAML"),
        ("[" * 5_000, "not YAML"),
        ("#" * (yaml_file.MOST_BYTES + 1), "larger than"),
    ],
)
def test_manifest_that_makes_no_sense_says_so_and_the_plugin_loads(home: Path, text: str, said: str) -> None:
    _plugin(home, plugin_yaml=text)
    (one,) = discovery.find_plugins(home)
    assert said in one.manifest.problem
    assert discovery.load("notes", home)().name == "notes"


def test_plugin_loads_without_pyyaml_and_its_manifest_is_unread(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    _plugin(home, plugin_yaml="description: keeps notes\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    (one,) = discovery.find_plugins(home)
    assert "pip install pyyaml" in one.manifest.problem
    assert one.description == ""
    assert discovery.load("notes", home)().name == "notes"


# The real Hermes

BUNDLED = """
import json, sys
from pathlib import Path
from strongroom.host.plugins import discovery, provider_setup
home = Path(sys.argv[1])
said = {}
for one in discovery.find_plugins(home):
    examination = discovery.examine(one, home)
    said[one.name] = {"where": one.where, "available": examination.available, "reason": examination.reason}
    try:
        factory = discovery.load(one.name, home)
        said[one.name]["new"] = factory() is not factory()
        said[one.name]["fields"] = len(provider_setup.schema_of(factory.sample()))
    except Exception as error:
        said[one.name]["error"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(said))
"""
CONVERSATION = """
import json, sys
from pathlib import Path
from strongroom.host.plugins import discovery
from strongroom.host.plugins.hermes_stubs import at_home
made = []
for home in map(Path, sys.argv[1:]):
    provider = discovery.load("holographic", home)()
    with at_home(home):
        provider.initialize("s1", hermes_home=str(home), platform="cli")
        fact = {"action": "add", "content": f"the boat of {home.name} is blue"}
        provider.handle_tool_call("fact_store", fact)
    made.append((home, provider))
said = {}
for home, provider in made:
    with at_home(home):
        said[home.name] = provider.prefetch("which colour has the boat?")
        provider.shutdown()
print("\\n" + json.dumps(said))
"""


def _in_hermes(script: str, *homes: Path) -> dict[str, object]:
    """Run a script where Hermes is installed, with homes and nothing of the caller's own."""
    assert HERMES.exists(), f"{HERMES} is missing: make an environment there with hermes-agent==0.19.0 and this package"
    kept = {"PATH": os.environ["PATH"], "HOME": str(homes[0].parent), "PYTHONDONTWRITEBYTECODE": "1"}
    arguments = [str(HERMES), "-c", script, *map(str, homes)]
    ran = subprocess.run(arguments, capture_output=True, text=True, env=kept, cwd=homes[0].parent, timeout=120)
    assert ran.returncode == 0, ran.stderr[-2000:]
    said: dict[str, object] = json.loads(ran.stdout.strip().splitlines()[-1])
    return said


@pytest.mark.requirement("provider-unmodified", "discovery-three-sources", "discovery-says-why")
def test_every_provider_bundled_with_hermes_loads_or_says_why_not(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    said = _in_hermes(BUNDLED, tmp_path / "home")
    assert len(said) >= 8
    for name, one in said.items():
        assert isinstance(one, dict)
        assert one["where"] == "bundled"
        assert "error" not in one, f"{name}: {one['error']}"
        assert one["new"]
        assert one["available"] or one["reason"]
    assert said["holographic"] == {"where": "bundled", "available": True, "reason": "", "new": True, "fields": 4}


@pytest.mark.requirement("provider-unmodified")
def test_provider_bundled_with_hermes_keeps_two_homes_apart(tmp_path: Path) -> None:
    homes = [tmp_path / "ada", tmp_path / "bob"]
    for home in homes:
        home.mkdir()
    said = _in_hermes(CONVERSATION, *homes)
    assert "boat of ada" in str(said["ada"])
    assert "bob" not in str(said["ada"])
    assert "boat of bob" in str(said["bob"])
    assert "ada" not in str(said["bob"])
    assert all((home / "memory_store.db").exists() for home in homes)
