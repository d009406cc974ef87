"""The plugin in a home: what is not ours stays, what leads out is refused, and Hermes finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.hermes.install import home_files, plugin_files
from tests.hermes.install.conftest import files

NAMES = {"__init__.py", "cli.py", "config_schema.py", "plugin.yaml"}


@pytest.mark.requirement("wire-refusals")
@pytest.mark.parametrize("link", ["plugins", "plugins/strongroom"])
def test_plugin_directory_that_leads_out_of_the_home_is_refused(hermes: Path, home: Path, link: str) -> None:
    outside = home / "outside"
    outside.mkdir()
    (hermes / link).parent.mkdir(exist_ok=True)
    (hermes / link).symlink_to(outside)
    for act in (plugin_files.write, plugin_files.take_away, plugin_files.differing_files):
        with pytest.raises(InvalidRequest):
            act(hermes)
    assert list(outside.iterdir()) == []


def test_directory_that_cannot_be_made_is_named(hermes: Path) -> None:
    (hermes / "plugins").write_text("a file\n")
    with pytest.raises(KeyUnavailable):
        plugin_files.write(hermes)


@pytest.mark.requirement("unwire-only-ours")
def test_only_our_files_are_taken_away(hermes: Path) -> None:
    plugin_files.write(hermes)
    place = plugin_files.directory(hermes)
    (place / "notes.txt").write_text("mine\n")
    (place / "cli.py").write_text("# my own\n")
    assert plugin_files.foreign(hermes) == ["cli.py", "notes.txt"]
    assert plugin_files.take_away(hermes)
    assert files(place) == {"cli.py": b"# my own\n", "notes.txt": b"mine\n"}
    assert not plugin_files.take_away(hermes)


def test_state_directory_comes_and_goes_whole(hermes: Path) -> None:
    before = files(hermes)
    plugin_files.write(hermes)
    assert set(files(plugin_files.directory(hermes))) == NAMES
    assert plugin_files.differing_files(hermes) == []
    assert plugin_files.foreign(hermes) == []
    (plugin_files.directory(hermes) / "__pycache__").mkdir()
    assert plugin_files.take_away(hermes)
    assert files(hermes) == before
    assert not plugin_files.directory(hermes).exists()


def test_changed_file_is_put_back(hermes: Path) -> None:
    plugin_files.write(hermes)
    changed = plugin_files.directory(hermes) / "plugin.yaml"
    changed.write_text(changed.read_text() + "version: 0\n")
    assert plugin_files.differing_files(hermes) == ["plugin.yaml"]
    plugin_files.write(hermes)
    assert plugin_files.differing_files(hermes) == []


@pytest.mark.requirement("wire-plugin")
def test_hermes_knows_it_by_its_first_words_and_it_holds_no_path() -> None:
    texts = plugin_files.contents()
    assert "MemoryProvider" in texts["__init__.py"][:8192]
    assert not any("/home" in text or "cap" in text.split() for text in texts.values())


def test_word_of_ours_is_near_the_top_of_every_file() -> None:
    assert all(plugin_files._MARK in text[:400] for text in plugin_files.contents().values())


# Files of a home.


def test_file_keeps_its_mode_and_a_new_one_is_the_owners(hermes: Path) -> None:
    config = hermes / "config.yaml"
    config.chmod(0o640)
    home_files.replace_text(config, "a: 1\n")
    assert (config.read_text(), config.stat().st_mode & 0o777) == ("a: 1\n", 0o640)
    home_files.replace_text(hermes / "new", "")
    assert (hermes / "new").stat().st_mode & 0o777 == 0o600


def test_non_text_or_too_large_is_refused(hermes: Path) -> None:
    (hermes / "bytes").write_bytes(b"\xff\xfe\xff")
    (hermes / "large").write_bytes(bytes(5 << 20))
    for name in ("bytes", "large", "."):
        with pytest.raises(InvalidRequest):
            home_files.read_text(hermes / name)
    assert home_files.read_text(hermes / "none") is None
