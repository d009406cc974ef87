"""Drafts: what was said in a turn that is under way is kept once, whatever becomes of the turn and of the process."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from strongroom.engines.lexical.index import LexicalIndex
from strongroom.errors import StoreUnavailable
from strongroom.hermes.provider import StrongroomProvider, delivery, turn_writer
from strongroom.hermes.provider.chat_history import Messages
from strongroom.hermes.provider.memory_session import SpeakerView
from strongroom.hermes.provider.offline_spool import Spool
from strongroom.hermes.provider.provider_home import ProviderHome
from strongroom.model import Actor, Line, Millis, NewLine
from tests.hermes.provider.conftest import OWNER, Served, Wired, say
from tests.hermes.provider.people import said

NOW = Millis(1_779_440_000_000)


class Killed(BaseException):
    """The end of a process, at a point of our choice."""


def killed_after_the_put(monkeypatch: pytest.MonkeyPatch) -> None:
    def last(view: SpeakerView, lines: Sequence[NewLine]) -> tuple[Path, ...] | None:
        delivery.store(view, lines)
        raise Killed

    monkeypatch.setattr(turn_writer, "store", last)


def after_a_restart(wired: Wired) -> list[str]:
    wired.forget_process()
    wired.agent("later")
    return said(wired)


# A disk that is full.


def test_draft_that_does_not_fit_the_disk_leaves_no_half_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_turn_that_was_interrupted_and_sent_again_is_kept_once(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "hello")
    agent.on_turn_start(2, "hello")
    agent.sync_turn("hello", "hi", session_id="s1")
    assert wired.files(".draft") == []
    assert after_a_restart(wired) == ["hello"]


def test_turn_that_was_sent_again_and_could_not_be_kept_is_delivered_once(
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


def test_turn_of_the_same_words_is_kept_if_it_is_told_after_all(wired: Wired) -> None:
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


def test_turn_lost_to_a_defect_of_ours_is_delivered_later(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    def defective(*_: object) -> Messages:
        raise ValueError("odd")

    agent = wired.agent()
    agent.on_turn_start(1, "hello")
    with monkeypatch.context() as patched:
        patched.setattr(Messages, "of", defective)
        with pytest.raises(ValueError, match="odd"):
            agent.sync_turn("hello", "hi", session_id="s1", messages=[])
    assert wired.problems() == {"keeping": "server_defect"}
    assert (len(wired.files(".turn")), wired.files(".draft")) == (1, [])
    say(agent, "again")
    assert sorted(said(wired)) == ["again", "hello"]
    assert wired.problems() == {}


# A kill between the put and the end of the draft.


@pytest.mark.requirement("hermes-sync-once")
@pytest.mark.parametrize("turn_id", ["", "t1"])
@pytest.mark.parametrize("session", ["s1", "s2"])
def test_kill_right_after_the_put_has_a_line_kept_once(
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
def test_turn_that_could_not_be_kept_and_is_told_again_by_its_id_is_kept_once(
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
def test_draft_that_could_not_be_kept_is_reported_until_one_is_kept(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> Path:
        raise StoreUnavailable("no room")

    agent = wired.agent()
    with monkeypatch.context() as patched:
        patched.setattr(Spool, "draft", full)
        say(agent, "the first turn")
        assert wired.problems() == {"keeping a draft": "store_unavailable"}
    say(agent, "the second turn")
    assert wired.problems() == {}


# What a runtime says when a turn is over.


def test_erased_person_does_not_come_back_with_a_draft(wired: Wired) -> None:
    """Of an erased line there is no tombstone: delivered again, it would be a new one."""
    agent = wired.agent()
    agent.on_turn_start(1, "told")
    agent.sync_turn("told", "hi", session_id="s1")
    assert said(wired) == ["told"]
    owner = wired.vault.mint(actor=OWNER, ops=["erase"], namespaces=wired.vault.namespaces, ttl=600)
    wired.vault.memory(owner).erase(wired.vault.namespaces)
    assert after_a_restart(wired) == []


def test_turns_left_by_another_process_are_delivered_once_the_turn_is_over(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProviderHome, "later", lambda _self, work: work())
    agent, other = remote.agent(), remote.agent("s2")
    say(agent, "one")
    remote.stop()
    say(other, "two")
    (waiting,) = remote.files(".turn")
    hidden = waiting.rename(waiting.with_name(f"{waiting.name}.away"))
    remote.start()
    say(agent, "three")
    hidden.rename(waiting)  # as if another process had just put it there
    agent.on_turn_start(9, "four")
    agent.sync_turn("four", "hi", session_id="s1")
    assert remote.files(".turn") == [waiting]
    agent.queue_prefetch("four", session_id="s1")
    assert remote.files(".turn") == []
    assert sorted(said(remote)) == ["four", "one", "three", "two"]


def test_turns_left_by_this_process_go_before_the_next_turn(remote: Served) -> None:
    agent = remote.agent()
    remote.stop()
    say(agent, "one")
    remote.start()
    agent.on_turn_start(2, "two")
    agent.sync_turn("two", "hi", session_id="s1")
    assert said(remote) == ["one", "two"]


def test_spool_knows_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, 1 << 20)
    assert spool.may_wait, "an earlier process may have left something"
    assert (spool.waiting().turns, spool.may_wait) == (0, False)
    draft = spool.draft(Actor(OWNER), b"sealed", NOW)
    assert not spool.may_wait
    turn = spool.promote(draft)
    assert spool.may_wait
    assert (spool.waiting().turns, spool.may_wait) == (1, True)
    spool.drop(turn)
    spool.waiting()
    for add in (
        lambda: spool.add(Actor(OWNER), b"sealed", NOW),
        lambda: spool.add_forgetting(Actor(OWNER), ["x"], NOW),
    ):
        spool.may_wait = False
        add()
        assert spool.may_wait

    def busy(_: object) -> list[str]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "listdir", busy)
    assert (spool.waiting().turns, spool.may_wait) == (0, True), "who cannot look does not know"


def test_lines_of_a_turn_that_is_over_are_read_for_the_next_question(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    add = LexicalIndex.add

    def noted(self: LexicalIndex, line: Line) -> None:
        read.append(line.text)
        add(self, line)

    agent = wired.agent()
    say(agent, "my ferry leaves at noon")
    say(agent, "which ferry?")
    monkeypatch.setattr(LexicalIndex, "add", noted)
    agent.on_turn_start(2, "my ferry was late")
    agent.sync_turn("my ferry was late", "Oh.", session_id="s1")
    assert read == []
    size = wired.vault.audit.size()
    agent.queue_prefetch("my ferry was late", session_id="s1")
    assert sorted(read) == ["Oh.", "my ferry was late"]
    assert wired.vault.audit.size() == size


def test_nothing_is_opened_or_raised_after_a_turn_where_there_is_nothing_to_do(wired: Wired) -> None:
    StrongroomProvider(wired.path).queue_prefetch("hello")
    agent = wired.agent()
    agent.shutdown()
    agent.queue_prefetch("hello", session_id="s1")
    agent = wired.agent("s2")
    (wired.path / "strongroom.toml").unlink()
    agent.queue_prefetch("hello", session_id="s2")
