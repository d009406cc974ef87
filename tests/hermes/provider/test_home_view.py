"""What a hook finds in files: once for each hook."""

from __future__ import annotations

import math
import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from strongroom.errors import StrongroomError
from strongroom.hermes.provider import problem_log
from strongroom.host.cache.settings_file import Watched
from tests.hermes.provider.conftest import Wired, say

pytestmark = pytest.mark.requirement("hermes-policy-live")


def _looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    looked: list[Path] = []
    real = Watched._look

    def counted(self: Watched[object]) -> None:
        looked.append(self.path)
        real(self)

    monkeypatch.setattr(Watched, "_look", counted)
    return looked


def test_hook_looks_at_a_file_once(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = wired.agent()
    looked = _looks(monkeypatch)
    agent.on_turn_start(1, "where is my boat?")
    assert looked.count(wired.path / "strongroom.toml") == 1
    looked.clear()
    agent.prefetch("where is my boat?")
    assert looked.count(wired.path / "strongroom.toml") == 1
    looked.clear()
    wired.home.tended = math.inf  # looking after the home is a look of its own
    agent.sync_turn("where is my boat?", "in the harbour", session_id="s1")
    assert looked.count(wired.path / "strongroom.toml") == 1


def test_policy_that_was_edited_holds_with_the_next_hook(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "my boat is blue")
    agent.prefetch("my boat is blue")
    agent.sync_turn("my boat is blue", "nice", session_id="s1")
    agent.on_turn_start(2, "where is my boat?")
    policy = wired.path / "strongroom.toml"
    policy.write_text(policy.read_text() + "\n[recall]\nlines = 0\n")
    assert agent.prefetch("where is my boat?") == ""


@pytest.mark.parametrize("name", ["cap", "status", "ids", "session", "counts"])
def test_pipe_in_a_files_place_holds_up_no_turn(wired: Wired, name: str) -> None:
    say(wired.agent(), "one")
    wired.forget_process()
    (session,) = (wired.state / "sessions").glob("*.json")
    places = {"cap": wired.cap, "status": wired.state / problem_log.FILE, "ids": wired.state / "ids.key"}
    place = {**places, "session": session, "counts": wired.state / problem_log.COUNTS}[name]
    place.unlink(missing_ok=True)
    os.mkfifo(place, 0o600)
    turn = threading.Thread(target=_quietly, args=(wired,), daemon=True)
    turn.start()
    turn.join(10)
    is_held_up = turn.is_alive()
    while turn.is_alive():  # let it go
        with suppress(OSError):
            os.close(os.open(place, os.O_WRONLY | os.O_NONBLOCK))
        turn.join(0.01)
    assert not is_held_up


def _quietly(wired: Wired) -> None:
    with suppress(StrongroomError):
        say(wired.agent(), "two")
