"""What a hook finds in files: once for each hook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strongroom.hermes.provider.hook_memo import Steady, again, once
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


def _looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    looked: list[Path] = []
    real = Watched._look

    def counted(self: Watched[object]) -> None:
        looked.append(self.path)
        real(self)

    monkeypatch.setattr(Watched, "_look", counted)
    return looked


def test_a_hook_looks_at_a_file_once(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = wired.agent()
    looked = _looks(monkeypatch)
    agent.on_turn_start(1, "where is my boat?")
    assert looked.count(wired.path / "strongroom.toml") == 1
    looked.clear()
    agent.prefetch("where is my boat?")
    assert looked.count(wired.path / "strongroom.toml") == 1


def test_a_policy_that_was_edited_holds_with_the_next_hook(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "my boat is blue")
    agent.prefetch("my boat is blue")
    agent.sync_turn("my boat is blue", "nice", session_id="s1")
    agent.on_turn_start(2, "where is my boat?")
    policy = wired.path / "strongroom.toml"
    policy.write_text(policy.read_text() + "\n[recall]\nlines = 0\n")
    assert agent.prefetch("where is my boat?") == ""
