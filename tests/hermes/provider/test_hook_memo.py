"""What a hook finds in files: once for each hook, and for a recall right after its turn began."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from strongroom.hermes.provider.hook_memo import MOMENT, Handover, Steady, again, once
from strongroom.host.cache.settings_file import Watched
from tests.hermes.provider.conftest import Wired

pytestmark = pytest.mark.requirement("hermes-policy-live")


def _counted() -> tuple[Callable[[], int], Callable[[], int]]:
    count = 0

    def find() -> int:
        nonlocal count
        count += 1
        return count

    return find, lambda: count


def test_outside_of_a_hook_every_look_is_a_new_one() -> None:
    find, count = _counted()
    assert [once("a", find), once("a", find)] == [1, 2]
    with Steady():
        assert [once("a", find), once("a", find)] == [3, 3]
        again()
        assert once("a", find) == 4
    assert count() == 4


def test_what_was_left_is_taken_once() -> None:
    find, _ = _counted()
    found = Handover()
    with Steady():
        once("a", find)
        found.leave()
    with Steady(found):
        assert once("a", find) == 1
    with Steady(found):
        assert once("a", find) == 2


def test_what_was_left_too_long_ago_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    find, _ = _counted()
    found, now = Handover(), time.monotonic()
    with Steady():
        once("a", find)
        found.leave()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2 * MOMENT + 1)
    with Steady(found):
        assert once("a", find) == 2


def test_what_took_long_to_find_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    find, _ = _counted()
    found, now = Handover(), time.monotonic()
    with Steady():
        once("a", find)
        monkeypatch.setattr(time, "monotonic", lambda: now + MOMENT + 1)
        found.leave()
    with Steady(found):
        assert once("a", find) == 2


def test_nothing_is_left_outside_of_a_hook() -> None:
    found = Handover()
    found.leave()
    assert found.take() is None


def _looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    looked: list[Path] = []
    real = Watched._look

    def counted(self: Watched[object]) -> None:
        looked.append(self.path)
        real(self)

    monkeypatch.setattr(Watched, "_look", counted)
    return looked


def test_a_recall_right_after_its_turn_began_does_not_look_again(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.hermes.provider.hook_memo.MOMENT", 60.0)
    agent = wired.agent()
    looked = _looks(monkeypatch)
    agent.on_turn_start(1, "where is my boat?")
    assert looked
    looked.clear()
    agent.prefetch("where is my boat?")
    assert looked == []
    agent.prefetch("where is my boat?")
    assert looked


def test_a_policy_that_was_edited_holds_with_the_next_turn(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.hermes.provider.hook_memo.MOMENT", 60.0)
    agent = wired.agent()
    agent.on_turn_start(1, "my boat is blue")
    agent.prefetch("my boat is blue")
    agent.sync_turn("my boat is blue", "nice", session_id="s1")
    agent.on_turn_start(2, "where is my boat?")
    policy = wired.path / "strongroom.toml"
    policy.write_text(policy.read_text() + "\n[recall]\nlines = 0\n")
    agent.on_turn_start(3, "where is my boat?")
    assert agent.prefetch("where is my boat?") == ""
