"""Importing memory files into a provider: never under per-session, otherwise each content once."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import InvalidRequest, StoreUnavailable
from strongroom.host import memory_file_import
from strongroom.host.memory_file_import import LIMIT, MARKER, migrate_memory_files
from strongroom.host.session_name import SessionSettings, Strategy

BY_DIRECTORY = SessionSettings(Strategy.PER_DIRECTORY)


class Provider:
    """Takes texts, and refuses the one it is told to."""

    def __init__(self, refused: str = "") -> None:
        self.texts: dict[str, str] = {}
        self.refused = refused

    def __call__(self, name: str, text: str) -> None:
        if name == self.refused:
            raise ConnectionError
        assert name not in self.texts
        self.texts[name] = text


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "memories").mkdir(parents=True)
    (home / "memories" / "MEMORY.md").write_text("Eri likes tea. § 用户喜欢茶\n")
    (home / "memories" / "USER.md").write_text("Eri lives in Rome.\n")
    (home / "SOUL.md").write_text("Speak plainly.\n")
    return home


def hand_over(home: Path, *, into: str = "") -> tuple[str, ...]:
    provider = Provider()
    names = migrate_memory_files(home, BY_DIRECTORY, provider, into=into)
    assert names == tuple(provider.texts)
    return names


# Not handed over


@pytest.mark.requirement("migrate-per-session-skipped")
def test_import_under_per_session_reads_nothing_and_marks_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> str:
        raise AssertionError("a file was read")

    monkeypatch.setattr(memory_file_import, "_bytes", refuse)
    provider = Provider()
    assert migrate_memory_files(home, SessionSettings(Strategy.PER_SESSION), provider) == ()
    assert provider.texts == {}
    assert not (home / MARKER).exists()


def make_large(path: Path) -> None:
    path.write_bytes(b"x" * (LIMIT + 1))


def make_latin(path: Path) -> None:
    path.write_bytes("Café".encode("latin-1"))


def make_utf_16(path: Path) -> None:
    path.write_bytes("Cafe".encode("utf-16"))


def make_utf_16_without_mark(path: Path) -> None:
    path.write_bytes("Cafe".encode("utf-16-le"))


def make_link_out(path: Path) -> None:
    outside = path.parents[2] / "outside.md"
    outside.write_text("s3cret of somebody else")
    path.symlink_to(outside)


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path)


MAKERS = [
    make_large,
    make_latin,
    make_utf_16,
    make_utf_16_without_mark,
    make_link_out,
    make_link_to_itself,
    os.mkdir,
    os.mkfifo,
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_one_file_that_cannot_be_taken_is_named_and_nothing_is_handed_over(home: Path, make: Any) -> None:
    (home / "memories" / "USER.md").unlink()
    make(home / "memories" / "USER.md")
    provider = Provider()
    with pytest.raises(InvalidRequest) as refused:
        migrate_memory_files(home, BY_DIRECTORY, provider)
    assert "memories/USER.md" in refused.value.message
    assert refused.value.hint
    assert "s3cret" not in refused.value.message + refused.value.hint
    assert provider.texts == {}
    assert not (home / MARKER).exists()


def test_directory_that_links_out_of_the_home_is_not_followed(home: Path, tmp_path: Path) -> None:
    (home / "memories").rename(tmp_path / "elsewhere")
    (home / "memories").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidRequest):
        hand_over(home)


def test_neighbour_whose_name_begins_like_the_home_is_outside(home: Path, tmp_path: Path) -> None:
    (tmp_path / "home2").mkdir()
    (tmp_path / "home2" / "MEMORY.md").write_text("Somebody else's.")
    (home / "MEMORY.md").symlink_to("../home2/MEMORY.md")
    with pytest.raises(InvalidRequest):
        hand_over(home)


@pytest.mark.parametrize("damage", [b"{", b"{}", b"[1]", b"\xff", b" " * (2 << 20)])
def test_damaged_marker_is_refused_before_anything_is_handed_over(home: Path, damage: bytes) -> None:
    (home / MARKER).write_bytes(damage)
    with pytest.raises(InvalidRequest) as refused:
        hand_over(home)
    assert MARKER in refused.value.message
    (home / MARKER).unlink()
    assert len(hand_over(home)) == 3


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, make_link_to_itself], ids=lambda make: make.__name__)
def test_marker_that_is_no_file_is_refused_and_not_waited_for(home: Path, make: Any) -> None:
    make(home / MARKER)
    with pytest.raises(InvalidRequest):
        hand_over(home)


def test_marker_that_cannot_be_written_is_said_and_the_files_come_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(memory_file_import, "write_file", full)
        with pytest.raises(StoreUnavailable) as refused:
            hand_over(home)
    assert refused.value.hint
    assert len(hand_over(home)) == 3


# Handed over


@pytest.mark.requirement("migrate-per-session-skipped")
@pytest.mark.parametrize("strategy", [Strategy.PER_DIRECTORY, Strategy.PER_REPO, Strategy.GLOBAL])
def test_files_are_handed_over_whole_under_the_other_strategies(home: Path, strategy: Strategy) -> None:
    provider = Provider()
    names = migrate_memory_files(home, SessionSettings(strategy), provider)
    assert names == ("memories/MEMORY.md", "memories/USER.md", "SOUL.md")
    assert provider.texts == {name: (home / name).read_text() for name in names}


def test_files_in_the_home_itself_are_handed_over_too_and_under_their_own_names(home: Path) -> None:
    (home / "MEMORY.md").write_text("An older one.")
    (home / "USER.md").write_text("Eri lives in Rome.\n")  # the same as in memories
    assert hand_over(home) == ("memories/MEMORY.md", "memories/USER.md", "MEMORY.md", "SOUL.md")


def test_equal_texts_of_different_files_are_both_handed_over(home: Path) -> None:
    (home / "SOUL.md").write_text((home / "memories" / "USER.md").read_text())
    assert hand_over(home) == ("memories/MEMORY.md", "memories/USER.md", "SOUL.md")


@pytest.mark.parametrize("content", [b"", b" \n\t", b"\xef\xbb\xbf"], ids=["empty", "blank", "mark"])
def test_missing_and_empty_files_are_left_out(home: Path, content: bytes) -> None:
    (home / "SOUL.md").unlink()
    (home / "memories" / "USER.md").write_bytes(content)
    assert hand_over(home) == ("memories/MEMORY.md",)


def test_home_without_any_of_them_hands_over_nothing_and_gets_no_marker(tmp_path: Path) -> None:
    assert hand_over(tmp_path) == hand_over(tmp_path / "missing") == ()
    assert list(tmp_path.iterdir()) == []


def test_link_that_stays_in_the_home_is_followed_and_a_home_may_be_a_link(home: Path, tmp_path: Path) -> None:
    (home / "MEMORY.md").write_text("A third one.")
    (home / "SOUL.md").unlink()
    (home / "SOUL.md").symlink_to("MEMORY.md")
    (tmp_path / "link").symlink_to(home)
    provider = Provider()
    migrate_memory_files(tmp_path / "link", BY_DIRECTORY, provider)
    assert provider.texts["SOUL.md"] == "A third one."


def test_file_of_the_largest_size_is_handed_over_without_its_byte_order_mark(home: Path) -> None:
    (home / "SOUL.md").write_bytes(b"\xef\xbb\xbf" + b"x" * (LIMIT - 3))
    provider = Provider()
    migrate_memory_files(home, BY_DIRECTORY, provider)
    assert provider.texts["SOUL.md"] == "x" * (LIMIT - 3)


# Once


def test_second_time_nothing_is_handed_over(home: Path) -> None:
    assert len(hand_over(home)) == 3
    assert hand_over(home) == hand_over(home) == ()


def test_changed_file_is_handed_over_again_alone_and_one_that_moved_is_not(home: Path) -> None:
    hand_over(home)
    (home / "SOUL.md").write_text("Speak briefly.\n")
    (home / "memories" / "USER.md").rename(home / "USER.md")
    assert hand_over(home) == ("SOUL.md",)
    (home / "SOUL.md").write_text("Speak plainly.\n")
    assert hand_over(home) == ()


def test_each_place_gets_the_files_once(home: Path) -> None:
    assert len(hand_over(home, into="notes/garden")) == len(hand_over(home, into="notes/kitchen")) == 3
    assert hand_over(home, into="notes/garden") == hand_over(home, into="notes/kitchen") == ()


def test_everything_comes_again_after_an_error_of_the_provider(home: Path) -> None:
    broken = Provider(refused="SOUL.md")
    with pytest.raises(ConnectionError):
        migrate_memory_files(home, BY_DIRECTORY, broken)
    assert len(broken.texts) == 2
    assert not (home / MARKER).exists()
    assert len(hand_over(home)) == 3


def test_error_later_on_leaves_what_was_marked_before(home: Path) -> None:
    hand_over(home)
    (home / "SOUL.md").write_text("Speak briefly.\n")
    with pytest.raises(ConnectionError):
        migrate_memory_files(home, BY_DIRECTORY, Provider(refused="SOUL.md"))
    assert hand_over(home) == ("SOUL.md",)


def test_marker_holds_hashes_alone_and_is_for_the_owner(home: Path) -> None:
    hand_over(home, into="notes/garden")
    marks = json.loads((home / MARKER).read_text())
    assert len(marks) == 3
    assert all(len(mark) == 64 and int(mark, 16) for mark in marks)
    assert stat.S_IMODE((home / MARKER).stat().st_mode) == 0o600
    assert [one.name for one in home.iterdir() if one.name.startswith(".")] == [MARKER]


def test_marker_stays_bounded_and_forgets_the_oldest(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_file_import, "_REMEMBERED", 6)
    for into in ("one", "two", "three"):
        hand_over(home, into=into)
    assert len(json.loads((home / MARKER).read_text())) == 6
    assert hand_over(home, into="three") == hand_over(home, into="two") == ()
    assert len(hand_over(home, into="one")) == 3


def test_fullest_marker_is_still_read(home: Path) -> None:
    marks = [f"{number:064x}" for number in range(10_000)]
    (home / MARKER).write_text(json.dumps(marks))
    assert len(hand_over(home)) == 3
    assert hand_over(home) == ()


def test_chats_that_import_at_once_forget_nothing_of_each_other(home: Path) -> None:
    places = [f"notes/{number}" for number in range(8)]
    start = threading.Barrier(len(places))

    def run(into: str) -> None:
        def put(name: str, text: str) -> None:
            if name == "SOUL.md":
                start.wait()  # all have read the marker by now

        migrate_memory_files(home, BY_DIRECTORY, put, into=into)

    threads = [threading.Thread(target=run, args=(into,)) for into in places]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [hand_over(home, into=into) for into in places] == [()] * len(places)
