"""A watched settings file: read only when it changed, and never let go for one that makes no sense."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strongroom.errors import InvalidRequest
from strongroom.host.cache import settings_file
from strongroom.host.cache.settings_file import TICK, Watched
from strongroom.host.user_identity import Identity

LATER = 1 << 62
"""A time at which every file has long settled."""


def parse(text: str) -> Any:
    return json.loads(text) if text else {}


class Reads:
    """Counts how often a file is opened by the watcher."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.count = 0
        opened = os.open

        def counting(name: Any, *args: Any, **kwargs: Any) -> int:
            self.count += name == path
            return opened(name, *args, **kwargs)

        monkeypatch.setattr(os, "open", counting)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, path: Path) -> Reads:
    return Reads(monkeypatch, path)


def settled(path: Path, parser: Callable[[str], Any] = parse) -> Watched[Any]:
    return Watched(path, parser, now=lambda: LATER)


def replace_with(path: Path, text: str) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    os.replace(draft, path)


# A file that makes no sense


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe{\0}\0", b"[" * 100_000], ids=["cut", "utf-16", "deep"])
def test_broken_edit_keeps_the_last_good_value_and_says_so_once(
    path: Path, reads: Reads, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    assert (watched.value, watched.broken) == ({"peer": "eri"}, "")
    path.write_bytes(content)
    assert [watched.value for _ in range(5)] == [{"peer": "eri"}] * 5
    assert watched.broken
    assert reads.count == 2
    assert [(one.name, one.levelno) for one in caplog.records] == [("strongroom.host", logging.WARNING)]


def test_broken_file_is_used_again_once_it_is_corrected(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    seen = [watched.value]
    for text in ("{", '{"peer": "eri"}', "{", '{"peer": "ana"}'):
        replace_with(path, text)
        seen.append((watched.value, bool(watched.broken)))
    eri, ana = {"peer": "eri"}, {"peer": "ana"}
    assert seen == [eri, (eri, True), (eri, False), (eri, True), (ana, False)]
    assert len(caplog.records) == 2


def test_file_that_was_never_good_is_refused_and_not_guessed(path: Path, reads: Reads) -> None:
    path.write_text("{")
    watched = settled(path)
    for _ in range(3):
        with pytest.raises(InvalidRequest) as refused:
            _ = watched.value
    assert str(path) in refused.value.hint
    assert reads.count == 1
    path.write_text('{"peer": "eri"}')
    assert watched.value == {"peer": "eri"}


def test_neither_the_log_nor_the_error_quotes_the_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def quoting(text: str) -> str:
        raise ValueError(f"cannot read {text}")

    path.write_text("s3cret-token")
    watched = settled(path, quoting)
    with pytest.raises(InvalidRequest) as refused:
        _ = watched.value
    assert "s3cret" not in f"{refused.value!r} {refused.value.hint} {watched.broken} {caplog.text}"
    assert "ValueError" in watched.broken


def test_our_own_errors_say_what_is_wrong(path: Path) -> None:
    path.write_text('{"peer_nmae": "eri"}')
    watched = settled(path, lambda text: Identity.parse(parse(text)))
    with pytest.raises(InvalidRequest) as refused:
        _ = watched.value
    assert "peer_nmae" in refused.value.message
    assert "peer_nmae" in watched.broken


def test_settings_of_another_shape_are_broken_and_no_defect(path: Path) -> None:
    watched = settled(path, lambda text: Identity.parse(parse(text).get("identity", {})))
    assert watched.value == Identity()
    path.write_text('["identity"]')
    assert watched.value == Identity()
    assert watched.broken


def test_defect_of_the_parser_shows_at_each_look(path: Path) -> None:
    def defect(text: str) -> str:
        raise ZeroDivisionError

    watched = settled(path, defect)
    for exists in (False, False, True, True):
        if exists:
            path.write_text("x")
        with pytest.raises(ZeroDivisionError):
            _ = watched.value


def test_file_that_cannot_be_opened_keeps_the_last_good_value_and_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    assert watched.value == {"peer": "eri"}
    replace_with(path, '{"peer": "ana"}')

    def refuse(*args: Any, **kwargs: Any) -> int:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as closed:
        closed.setattr(os, "open", refuse)
        assert [watched.value, watched.value] == [{"peer": "eri"}] * 2
        assert watched.broken
    assert (watched.value, watched.broken) == ({"peer": "ana"}, "")
    assert len(caplog.records) == 1


def test_file_that_can_be_opened_again_unchanged_is_in_use_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    assert watched.value == {"peer": "eri"}

    def refuse(*args: Any, **kwargs: Any) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(os, "stat", refuse)
        assert watched.value == {"peer": "eri"}
        assert watched.broken
    assert watched.value == {"peer": "eri"}
    assert watched.broken == ""


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["directory", "pipe"])
def test_special_file_is_not_waited_for_and_leaves_nothing_open(path: Path, make: Callable[[Path], None]) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    assert watched.value == {"peer": "eri"}
    path.unlink()
    make(path)
    opened = len(os.listdir("/dev/fd"))
    assert [watched.value for _ in range(3)] == [{"peer": "eri"}] * 3
    assert watched.broken
    assert len(os.listdir("/dev/fd")) == opened
    path.rename(path.with_suffix(".away"))
    path.write_text('{"peer": "eri"}')
    assert (watched.value, watched.broken) == ({"peer": "eri"}, "")


def test_file_that_is_too_large_is_not_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_file, "LIMIT", 20)
    path.write_text('"' + "x" * 18 + '"')
    watched = settled(path)
    assert watched.value == "x" * 18
    path.write_text('"' + "y" * 19 + '"')
    assert watched.value == "x" * 18
    assert watched.broken


# Looking without reading


def test_unchanged_file_is_read_once_however_often_it_is_looked_at(path: Path, reads: Reads) -> None:
    path.write_text('{"peer": "eri"}')
    parsed: list[str] = []
    watched = settled(path, lambda text: parsed.append(text) or parse(text))  # type: ignore[func-returns-value]
    first = watched.value
    assert all(watched.value is first for _ in range(1000))
    assert (reads.count, len(parsed)) == (1, 1)


def test_nothing_is_read_before_the_first_look(path: Path, reads: Reads) -> None:
    path.write_text("{")
    settled(path)
    assert reads.count == 0


def test_missing_file_is_an_empty_one_and_is_not_opened(path: Path, reads: Reads) -> None:
    watched = settled(path)
    first = watched.value
    assert first == {}
    assert all(watched.value is first for _ in range(10))
    below_a_file = settled(path / "below")
    path.write_text("{}")
    assert below_a_file.value == {}
    assert reads.count == 0


@pytest.mark.parametrize(
    "edit", [lambda path, text: path.write_text(text), replace_with], ids=["written in place", "replaced"]
)
def test_edit_is_seen_at_the_next_look_with_one_reading(
    path: Path, reads: Reads, edit: Callable[[Path, str], None]
) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    assert watched.value == {"peer": "eri"}
    edit(path, '{"peer": "maria"}')
    assert [watched.value for _ in range(3)] == [{"peer": "maria"}] * 3
    assert reads.count == 2


@pytest.mark.parametrize("changed", ["st_mtime_ns", "st_ctime_ns", "st_size", "st_ino", "st_dev"])
def test_change_of_any_part_of_the_status_is_enough(
    path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    found = os.stat(path)
    parts = {name: getattr(found, name) for name in dir(found) if name.startswith("st_")}
    assert watched.value == {"peer": "eri"}
    path.write_text('{"peer": "ana"}')
    monkeypatch.setattr(os, "fstat", lambda handle: SimpleNamespace(**parts))
    monkeypatch.setattr(os, "stat", lambda *args, **kwargs: SimpleNamespace(**parts))
    assert watched.value == {"peer": "eri"}  # of equal status, as far as one can see
    parts[changed] += 1
    assert [watched.value, watched.value] == [{"peer": "ana"}] * 2
    assert reads.count == 2


def test_file_whose_status_changed_but_not_its_bytes_is_not_parsed_again(path: Path, reads: Reads) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    first = watched.value
    os.utime(path, ns=(0, 0))
    assert watched.value is first
    assert reads.count == 2


def test_file_that_goes_and_comes_back_is_seen_both_times(path: Path, reads: Reads) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    seen = [watched.value]
    path.unlink()
    seen += [watched.value, watched.value]
    path.write_text('{"peer": "eri"}')
    seen += [watched.value, watched.value]
    assert seen == [{"peer": "eri"}, {}, {}, {"peer": "eri"}, {"peer": "eri"}]
    assert reads.count == 2


def test_file_that_comes_back_with_the_status_it_had_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    assert watched.value == {"peer": "eri"}

    def missing(*args: Any, **kwargs: Any) -> os.stat_result:
        raise FileNotFoundError

    with monkeypatch.context() as away:
        away.setattr(os, "stat", missing)
        assert watched.value == {}
    assert watched.value == {"peer": "eri"}


def test_edit_that_leaves_the_status_as_it_was_is_seen_while_the_file_is_young(
    path: Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text('{"peer": "eri"}')
    frozen = os.stat(path)
    moment = frozen.st_ctime_ns + TICK
    # The file system's clock stands still, as it does within a tick.
    monkeypatch.setattr(os, "stat", lambda *args, **kwargs: frozen)
    monkeypatch.setattr(os, "fstat", lambda handle: frozen)
    watched: Watched[Any] = Watched(path, parse, now=lambda: moment)
    assert watched.value == {"peer": "eri"}
    path.write_text('{"peer": "ana"}')
    first = watched.value
    assert first == {"peer": "ana"}
    assert watched.value is first  # read, not parsed
    assert reads.count == 3
    moment += 1
    assert [watched.value, watched.value] == [first, first]
    assert reads.count == 4


def test_change_during_the_reading_is_seen_at_the_next_look(path: Path, reads: Reads) -> None:
    path.write_text('{"peer": "eri"}')

    def slow(text: str) -> Any:
        if "eri" in text:
            replace_with(path, '{"peer": "maria"}')
        return parse(text)

    watched = settled(path, slow)
    assert watched.value == {"peer": "eri"}
    assert watched.value == {"peer": "maria"}
    assert reads.count == 2


def test_byte_order_mark_is_not_part_of_the_settings(path: Path) -> None:
    path.write_bytes(b'\xef\xbb\xbf{"peer": "eri"}')
    assert settled(path).value == {"peer": "eri"}


def test_threads_that_look_at_once_share_one_reading(path: Path, reads: Reads) -> None:
    path.write_text('{"peer": "eri"}')
    watched = settled(path)
    start = threading.Barrier(8)
    seen: list[Any] = []

    def look() -> None:
        start.wait()
        seen.append(watched.value)

    threads = [threading.Thread(target=look) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == [{"peer": "eri"}] * 8
    assert reads.count == 1


@pytest.mark.requirement("identity-keys")
def test_signature_follows_edits_of_the_identity_and_nothing_else(path: Path, reads: Reads) -> None:
    def identity(text: str) -> Identity:
        return Identity.parse(parse(text).get("identity", {}))

    path.write_text('{"identity": {"peerName": "eri"}, "token": "one"}')
    watched = settled(path, identity)
    start = watched.value.signature("notes")
    replace_with(path, '{"identity": {"peerName": "eri"}, "token": "two"}')
    assert watched.value.signature("notes") == start
    replace_with(path, '{"identity": {"peerName": "ana"}, "token": "two"}')
    assert watched.value.signature("notes") != start
    assert reads.count == 3
