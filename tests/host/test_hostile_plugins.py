"""What lies in a home is not trusted: no file of it hangs a listing, moves a program, or keeps a host from starting."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from strongroom.errors import InvalidRequest, ProviderRefused, ProviderUnavailable
from strongroom.host import Host
from strongroom.host.conformance.provider_under_test import Subject, furnish
from strongroom.host.plugins import discovery, env_file, yaml_file
from strongroom.host.plugins.discovery import Where
from strongroom.host.plugins.hermes_stubs import at_home, load_config
from strongroom.host.plugins.loader import FoundPlugin, make_factory
from strongroom.host.plugins.provider_setup import schema_of
from tests.host.doubles import Recorder

BOMB = "a0: &a0 {x: 1}\n" + "".join(
    f"a{level}: &a{level} {{<<: [{','.join([f'*a{level - 1}'] * 10)}]}}\n" for level in range(1, 12)
)
NAMES = "# MemoryProvider\n"
LISTED = "import sys; from pathlib import Path; from strongroom.host.plugins import discovery as d; "
LISTED += "home = Path(sys.argv[1]); print([one.name for one in d.find_plugins(home)], len(d.find_skipped(home)))"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "home"
    (place / "plugins" / "sound").mkdir(parents=True)
    (place / "plugins" / "sound" / "__init__.py").write_text(NAMES)
    return place


def listed(home: Path) -> str:
    """What a process of its own lists: one that hangs is ended, and fails the test."""
    told = subprocess.run([sys.executable, "-c", LISTED, str(home)], capture_output=True, timeout=30, check=True)
    return told.stdout.decode().strip()


# Manifests


@pytest.mark.requirement("host-plugin-files-cannot-hang")
@pytest.mark.parametrize(
    "text",
    [BOMB, "a: &a 1\nb: *a\n", "name: &unused x\n", "a: {<<: {b: 1}}\n", "<<: {name: x}\n", "a: &a [*a]\n"],
)
def test_manifest_with_references_is_not_read_and_the_plugin_is_found(home: Path, text: str) -> None:
    (home / "plugins" / "sound" / "plugin.yaml").write_text(text)
    assert listed(home) == "['sound'] 0"
    (one,) = (one for one in discovery.find_plugins(home) if one.name == "sound")
    assert "it uses" in one.manifest.problem
    assert "line" in one.manifest.problem


@pytest.mark.requirement("host-plugin-files-cannot-hang")
def test_configuration_with_references_is_not_read(home: Path) -> None:
    (home / "config.yaml").write_text(BOMB)
    with at_home(home), pytest.raises(yaml_file.NotRead):
        load_config()


def test_signs_that_only_look_like_references_are_read(tmp_path: Path) -> None:
    path = tmp_path / "plugin.yaml"
    path.write_text("name: 'a & b * c'\ndescription: \"<<\"\nhooks: ['&a', '*b']\n")
    assert yaml_file.read_yaml(path) == {"name": "a & b * c", "description": "<<", "hooks": ["&a", "*b"]}


@pytest.mark.requirement("host-plugin-files-cannot-hang")
@pytest.mark.parametrize("name", ["__init__.py", "plugin.yaml", "other.py"])
@pytest.mark.parametrize("kind", ["pipe", "directory", "device"])
def test_special_file_keeps_nobody_waiting(home: Path, name: str, kind: str) -> None:
    plugin = home / "plugins" / "odd"
    plugin.mkdir()
    place = plugin / name
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero")
    if name == "plugin.yaml":
        (plugin / "__init__.py").write_text(NAMES)
    assert listed(home) == ("['odd', 'sound'] 0" if name == "plugin.yaml" else "['sound'] 0")


def test_pipe_beside_it_does_not_hide_what_is_meant_as_a_provider(home: Path) -> None:
    plugin = home / "plugins" / "meant"
    plugin.mkdir()
    os.mkfifo(plugin / "a.py")
    (plugin / "b.py").write_text(NAMES)
    assert listed(home) == "['sound'] 1"
    with pytest.raises(ProviderUnavailable, match="can be read"):
        discovery.load("meant", home)


# Variables


@pytest.mark.requirement("host-env-cannot-move-programs")
@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "SHELL", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"),
        *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHASHSEED", "HERMES_HOME", "GIT_SSH_COMMAND", "NODE_OPTIONS"),
        *("STRONGROOM_VAULT", "STRONGROOM_CAP_FILE", "STRONGROOM_NEW"),
    ],
)
def test_variable_that_decides_what_runs_is_neither_taken_nor_asked_for(
    home: Path, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(os, "environ", {})
    (home / ".env").write_text(f"{name}=moved-elsewhere\nHARMLESS=1\n")
    env_file.apply(home)
    assert os.environ == {"HARMLESS": "1"}
    assert name in caplog.text
    assert "moved-elsewhere" not in caplog.text
    asking = SimpleNamespace(name="asking", get_config_schema=lambda: [{"key": "a", "env_var": name}])
    with pytest.raises(ProviderRefused):
        schema_of(asking)


@pytest.mark.requirement("host-starts-with-any-env")
def test_line_with_nul_is_left_out_and_named_without_its_value(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (home / ".env").write_bytes(b"WITH_NUL=hun\0ter2\nAFTER_IT=1\n")
    monkeypatch.setenv("AFTER_IT", "")  # so that it is taken back at the end
    monkeypatch.delenv("AFTER_IT")
    Host(home, Recorder, keys=home.parent / "keys").close()
    assert os.environ["AFTER_IT"] == "1"
    assert "WITH_NUL" in caplog.text
    assert "ter2" not in caplog.text


@pytest.mark.requirement("host-starts-with-any-env")
def test_link_to_a_file_of_ours_is_read_and_not_written(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", {})
    (tmp_path / "shared.env").write_text("LINKED=yes\n")
    (home / ".env").symlink_to(tmp_path / "shared.env")
    env_file.apply(home)
    assert os.environ == {"LINKED": "yes"}
    with pytest.raises(ProviderUnavailable):
        env_file.text(home)


@pytest.mark.requirement("host-starts-with-any-env")
@pytest.mark.parametrize("kind", ["directory", "pipe", "device", "not text", "too large", "dangling"])
def test_host_starts_with_a_file_of_variables_that_cannot_be_used(
    home: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = home / ".env"
    if kind == "directory":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind in ("device", "dangling"):
        place.symlink_to("/dev/zero" if kind == "device" else "nowhere")
    else:
        place.write_bytes(b"A=\xff" if kind == "not text" else b"A" * (1 << 21))
    caplog.set_level(logging.WARNING, "strongroom.host")
    Host(home, Recorder, keys=home.parent / "keys").close()
    assert ("cannot be used" in caplog.text) == (kind != "dangling")


# What a plugin raises


@pytest.mark.parametrize(
    "code",
    [
        "class Stop(KeyboardInterrupt): pass\nraise Stop('now')",
        "raise KeyboardInterrupt",
        "raise GeneratorExit",
        "class Odd(type):\n    __name__ = property(lambda cls: 1 / 0)\n"
        "class Error(Exception, metaclass=Odd): pass\nraise Error",
    ],
)
def test_error_of_a_plugin_on_import_is_the_reason_why_it_is_not_available(home: Path, code: str) -> None:
    (home / "plugins" / "sound" / "__init__.py").write_text(f"{NAMES}{code}\n")
    seen = discovery.examine("sound", home)
    assert not seen.available
    assert "failed" in seen.reason


def test_interrupt_of_a_plugins_own_making_does_not_interrupt_who_loads_it(home: Path) -> None:
    plugin = home / "plugins" / "sound"
    (plugin / "__init__.py").write_text(f"{NAMES}class Stop(KeyboardInterrupt): pass\nraise Stop\n")
    with pytest.raises(ProviderUnavailable):
        make_factory(FoundPlugin("sound", Where.PLUGINS, plugin), home)


# Copies


def test_plugin_with_links_and_pipes_in_it_is_copied_without_them(home: Path, tmp_path: Path) -> None:
    plugin = home / "plugins" / "sound"
    (plugin / "dangling").symlink_to("nowhere")
    (plugin / "again").symlink_to(".")
    (plugin / "above").symlink_to(home)
    (tmp_path / "data.txt").write_text("kept")
    (plugin / "data.txt").symlink_to(tmp_path / "data.txt")
    os.mkfifo(plugin / "pipe")
    furnish(Subject(str(plugin)), tmp_path / "checked")
    copied = tmp_path / "checked" / "plugins" / "sound"
    assert sorted(one.name for one in copied.iterdir()) == ["__init__.py", "data.txt"]
    assert (copied / "data.txt").read_text() == "kept"


def test_plugin_that_cannot_be_copied_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    monkeypatch.setattr("shutil.copystat", full)
    with pytest.raises(InvalidRequest, match="No space left"):
        furnish(Subject(str(home / "plugins" / "sound")), tmp_path / "checked")
