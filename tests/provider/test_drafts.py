"""Drafts: what was said in a turn that is under way is kept once, whatever becomes of the turn and of the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.model import Actor, Millis, NewLine
from strongroom.provider import StrongroomProvider, keeping, storing
from strongroom.provider.serving import Session
from strongroom.provider.speaking import Speaker
from strongroom.provider.spool import Spool
from tests.provider.conftest import OWNER, Served, Wired, say
from tests.provider.findings import said

NOW = Millis(1_779_440_000_000)


class Killed(BaseException):
    """The end of a process, at a point of our choice."""


def killed_after_the_put(monkeypatch: pytest.MonkeyPatch) -> None:
    def last(session: Session, speaker: Speaker, lines: Sequence[NewLine]) -> tuple[Path, ...] | None:
        storing.store(session, speaker, lines)
        raise Killed

    monkeypatch.setattr(keeping, "store", last)


def after_a_restart(wired: Wired) -> list[str]:
    wired.forget_process()
    wired.agent("later")
    return said(wired)


# A disk that is full.


def test_a_draft_that_does_not_fit_the_disk_leaves_no_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, mode: str) -> None:
        os.write(handle, mode.encode())
        os.close(handle)
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = Spool(tmp_path, 1 << 20)
    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(StoreUnavailable) as refused:
        spool.draft(Actor(OWNER), b"sealed", NOW)
    assert refused.value.reason == "store_unavailable"
    assert list(tmp_path.glob("*.draft")) == []


# Turns that were never told.


def test_a_turn_that_was_interrupted_and_sent_again_is_kept_once(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "hello")
    agent.on_turn_start(2, "hello")
    agent.sync_turn("hello", "hi", session_id="s1")
    agent.queue_prefetch("hello", session_id="s1")
    assert wired.files(".draft") == []
    assert after_a_restart(wired) == ["hello"]


def test_a_turn_that_was_sent_again_and_could_not_be_kept_is_delivered_once(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise StoreUnavailable("the spool is full")

    agent = remote.agent()
    remote.stop()
    agent.on_turn_start(1, "hello")
    agent.on_turn_start(2, "hello")
    with monkeypatch.context() as patched:
        patched.setattr(remote.home.parts.spool, "add", full)
        with pytest.raises(StoreUnavailable):
            agent.sync_turn("hello", "hi", session_id="s1")
    remote.start()
    assert after_a_restart(remote) == ["hello"]


def test_a_turn_of_the_same_words_is_kept_if_it_is_told_after_all(wired: Wired) -> None:
    agent = wired.agent()
    for number in (1, 2, 3):
        agent.on_turn_start(number, "yes")
    for reply in ("one", "two", "three"):
        agent.sync_turn("yes", reply, session_id="s1")
    assert wired.texts() == ["yes", "one", "yes", "two", "yes", "three"]


def test_however_many_turns_were_interrupted_no_draft_of_them_is_left(wired: Wired) -> None:
    agent = wired.agent()
    for number in range(40):
        agent.on_turn_start(number, f"interrupted {number}")
    say(agent, "told")
    assert wired.files(".draft") == []
    assert after_a_restart(wired) == ["told"]


def test_turns_without_a_draft_are_not_remembered_for_ever(wired: Wired) -> None:
    agent = wired.agent(turn_journal=True)
    for number in range(40):
        agent.on_turn_start(number, f"interrupted {number}")
    assert agent._session is not None
    assert len(agent._session.turns.waiting()) == 16


# A kill between the put and the end of the draft.


@pytest.mark.requirement("hermes-sync-once")
@pytest.mark.parametrize("turn_id", ["", "t1"])
@pytest.mark.parametrize("session", ["s1", "s2"])
def test_a_kill_right_after_the_put_has_a_line_kept_once(
    wired: Wired, monkeypatch: pytest.MonkeyPatch, turn_id: str, session: str
) -> None:
    agent: StrongroomProvider = wired.agent()
    agent.on_turn_start(1, "hello")
    if session != "s1":
        agent.on_session_switch(session, parent_session_id="s1", reason="compression")
    with monkeypatch.context() as patched:
        killed_after_the_put(patched)
        with pytest.raises(Killed):
            agent.sync_turn("hello", "hi", session_id=session, turn_id=turn_id)
    assert len(wired.files(".draft")) == 1
    assert after_a_restart(wired) == ["hello"]


@pytest.mark.requirement("hermes-sync-once")
def test_a_turn_that_could_not_be_kept_and_is_told_again_by_its_id_is_kept_once(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise StoreUnavailable("the spool is full")

    agent = remote.agent()
    agent.on_turn_start(1, "hello")
    remote.stop()
    with monkeypatch.context() as patched:
        patched.setattr(remote.home.parts.spool, "add", full)
        with pytest.raises(StoreUnavailable):
            agent.sync_turn("hello", "hi", session_id="s1", turn_id="t1")
    remote.start()
    agent.sync_turn("hello", "hi", session_id="s1", turn_id="t1")
    assert remote.texts() == ["hello", "hi"]
    assert remote.files(".turn") == []


@pytest.mark.requirement("hermes-never-silent")
def test_that_a_draft_could_not_be_kept_is_said_until_one_is(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> Path:
        raise StoreUnavailable("no room")

    agent = wired.agent()
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "draft", full)
        say(agent, "the first turn")
        assert wired.problems() == {"keeping a draft": "store_unavailable"}
    say(agent, "the second turn")
    assert wired.problems() == {}


# A draft outlives its turn until the runtime says that it has time.


def test_a_turn_that_is_kept_and_not_tidied_up_is_there_once_after_a_kill(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "told")
    agent.sync_turn("told", "hi", session_id="s1")
    assert len(wired.files(".draft")) == 1
    assert after_a_restart(wired) == ["told"]
    assert wired.files(".draft") == wired.files(".turn") == []


def test_the_next_turn_and_the_end_of_a_session_let_go_of_a_draft_as_well(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "one")
    agent.sync_turn("one", "hi", session_id="s1")
    (first,) = wired.files(".draft")
    agent.on_turn_start(2, "two")
    assert first not in wired.files(".draft")
    agent.sync_turn("two", "hi", session_id="s1")
    agent.shutdown()
    assert wired.files(".draft") == []


@pytest.mark.requirement("hermes-off-the-record")
def test_a_turn_that_turns_out_to_be_off_the_record_leaves_no_draft_not_even_for_a_moment(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "my number is 4711")
    assert len(wired.files(".draft")) == 1
    agent.sync_turn("off the record, my number is 4711", "I see", session_id="s1")
    assert wired.files(".draft") == []


def test_a_turn_undone_while_it_was_kept_leaves_no_draft(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "told")

    def undone(session: Session, speaker: Speaker, lines: Sequence[NewLine]) -> tuple[Path, ...] | None:
        done = storing.store(session, speaker, lines)
        agent.on_session_switch("s1", rewound=True)
        return done

    monkeypatch.setattr(keeping, "store", undone)
    agent.sync_turn("told", "hi", session_id="s1")
    assert wired.files(".draft") == []
    assert after_a_restart(wired) == []


def test_what_another_process_left_waiting_is_delivered_once_the_turn_is_over(remote: Served) -> None:
    agent, other = remote.agent(), remote.agent("s2")
    say(agent, "one")
    remote.stop()
    say(other, "two")
    waiting = remote.files(".turn")
    assert len(waiting) == 1
    hidden = [path.rename(path.with_name(f"{path.name}.away")) for path in waiting]
    remote.start()
    say(agent, "three")
    for path in hidden:  # as if another process had just put it there
        path.rename(path.with_name(path.name.removesuffix(".away")))
    say(agent, "four")
    assert sorted(said(remote)) == ["four", "one", "three", "two"]
    assert remote.files(".turn") == []
