"""The spool: sealed, bounded, in order, and safe from kill -9, from another process and from a full disk."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from strongroom.errors import StoreUnavailable
from strongroom.hermes.provider import offline_spool as spools
from strongroom.hermes.provider.offline_spool import DeliveryResult, Spool, SpooledTurn, deliver_waiting
from strongroom.model import Actor, Millis
from tests.hermes.provider.conftest import ALLERGY, OWNER, TRIP, Served, Wired, say

ACTOR = Actor(OWNER)
NOW = Millis(1_779_440_000_000)
MOST = 1 << 20


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", MOST)


def texts(spool: Spool) -> list[bytes]:
    return [entry.sealed for entry in spool.entries()]


# Its bound.


@pytest.mark.requirement("hermes-spool-bounded")
def test_full_spool_refuses_the_new_turn_and_keeps_the_older(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1000)
    spool.add(ACTOR, b"a" * 500, NOW)
    with pytest.raises(StoreUnavailable):
        spool.add(ACTOR, b"b" * 600, NOW)
    assert texts(spool) == [b"a" * 500]


def test_too_many_files_are_refused_however_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "FILES_LIMIT", 2)
    spool = Spool(tmp_path, MOST)
    spool.add(ACTOR, b"1", NOW)
    spool.add(ACTOR, b"2", NOW)
    with pytest.raises(StoreUnavailable):
        spool.add(ACTOR, b"3", NOW)


def test_full_disk_is_refused_and_leaves_no_half_of_a_turn(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.add(ACTOR, b"before", NOW)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(StoreUnavailable):
            spool.add(ACTOR, b"after", NOW)
    assert texts(spool) == [b"before"]
    assert [path.name for path in spool.directory.iterdir() if path.name.startswith(".01")] == []


def test_files_are_the_owners_alone(spool: Spool) -> None:
    spool.add(ACTOR, b"x", NOW)
    spool.draft(ACTOR, b"y", NOW)
    assert {stat.S_IMODE(path.stat().st_mode) for path in spool.directory.iterdir()} == {0o600}
    assert stat.S_IMODE(spool.directory.stat().st_mode) == 0o700


# Delivering.


def test_turns_come_out_in_the_order_of_their_time(spool: Spool) -> None:
    for number in (3, 1, 2):
        spool.add(ACTOR, str(number).encode(), Millis(NOW + number))
    assert texts(spool) == [b"1", b"2", b"3"]


def test_undeliverable_turn_stays_with_all_behind_it(spool: Spool) -> None:
    for number in range(3):
        spool.add(ACTOR, str(number).encode(), Millis(NOW + number))
    assert (
        deliver_waiting(spool, lambda entry: DeliveryResult.STOP if entry.sealed == b"1" else DeliveryResult.DONE) == 1
    )
    assert texts(spool) == [b"1", b"2"]


def test_two_that_deliver_at_once_do_not_repeat_each_other(spool: Spool) -> None:
    spool.add(ACTOR, b"x", NOW)
    other = Spool(spool.directory, MOST)
    seen: list[int] = []

    def deliver(entry: SpooledTurn) -> DeliveryResult:
        seen.append(deliver_waiting(other, lambda _: DeliveryResult.DONE))
        return DeliveryResult.DONE

    assert deliver_waiting(spool, deliver) == 1
    assert seen == [0]


def test_damaged_file_is_set_aside_and_holds_up_nothing(spool: Spool) -> None:
    spool.add(ACTOR, b"good", Millis(NOW + 5))
    bad = spool.directory / f"{'0' * 26}-1.turn"
    bad.write_bytes(b"not a head")
    assert texts(spool) == [b"good"]
    assert bad.with_suffix(".damaged").exists()


def test_turn_that_cannot_be_read_just_now_is_not_taken_for_a_damaged_one(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.add(ACTOR, b"good", NOW)

    def no_more_files(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as short:
        short.setattr(os, "open", no_more_files)
        with pytest.raises(StoreUnavailable):
            texts(spool)
    assert texts(spool) == [b"good"]


def test_one_persons_turns_wait_and_those_of_the_others_go_on(spool: Spool) -> None:
    for number, actor in enumerate((ACTOR, Actor("hermes/default/telegram/2"), ACTOR)):
        spool.add(actor, str(number).encode(), Millis(NOW + number))
    assert (
        deliver_waiting(spool, lambda entry: DeliveryResult.LATER if entry.actor == ACTOR else DeliveryResult.DONE) == 1
    )
    assert texts(spool) == [b"0", b"2"]


@pytest.mark.parametrize("odd", ["pipe", "link", "directory", "huge"])
def test_foreign_file_is_set_aside_and_holds_up_nothing(spool: Spool, odd: str, tmp_path: Path) -> None:
    spool.add(ACTOR, b"good", NOW)
    place = spool.directory / f"{'0' * 26}-1.turn"
    if odd == "pipe":
        os.mkfifo(place)
    elif odd == "link":
        (tmp_path / "elsewhere").write_bytes(b'{"actor":"a/b"}\nx')
        place.symlink_to(tmp_path / "elsewhere")
    elif odd == "directory":
        place.mkdir()
    else:
        place.write_bytes(b'{"actor":"a/b"}\n' + b"x" * (2 << 20))
    assert texts(spool) == [b"good"]
    assert os.path.lexists(place.with_suffix(".damaged"))


# Drafts.


def test_draft_of_a_process_that_lives_is_left_alone(spool: Spool) -> None:
    spool.draft(ACTOR, b"under way", NOW)
    other = Spool(spool.directory, MOST)
    assert other.adopt() == 0
    assert texts(other) == []


_DIES = """
import os, signal, sys
from pathlib import Path
from strongroom.hermes.provider.offline_spool import Spool
spool = Spool(Path(sys.argv[1]), 1 << 20)
spool.draft("hermes/default/owner", b"said", 1779440000000)
if sys.argv[2] == "forks":
    if os.fork() == 0:
        spool.draft("hermes/default/owner", b"said by a child", 1779440000001)
        os._exit(0)
    os.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.requirement("hermes-crash")
@pytest.mark.parametrize("how", ["alone", "forks"])
def test_draft_of_a_killed_process_becomes_a_turn(spool: Spool, how: str) -> None:
    run = subprocess.run([sys.executable, "-c", _DIES, str(spool.directory), how], timeout=60, check=False)
    assert run.returncode == -signal.SIGKILL
    assert spool.adopt() == (2 if how == "forks" else 1)
    assert texts(spool) == [b"said", b"said by a child"][: 2 if how == "forks" else 1]
    assert list(spool.directory.glob("*.draft")) == []
    assert list(spool.directory.glob("*.alive")) == []


# What a home spools.


@pytest.mark.requirement("hermes-spool")
def test_turns_of_a_server_that_is_down_are_delivered_in_order_when_it_is_back(remote: Served) -> None:
    agent = remote.agent()
    say(agent, "one", "first")
    remote.stop()
    say(agent, "two", "second")
    say(agent, "three", "third")
    assert remote.waiting() == 2
    remote.start()
    say(agent, "four", "fourth")
    assert remote.texts() == ["one", "first", "two", "second", "three", "third", "four", "fourth"]
    assert remote.waiting() == 0
    assert remote.problems() == {}


@pytest.mark.requirement("hermes-spool")
def test_turns_that_a_process_left_in_the_spool_are_delivered_by_the_next_before_it_speaks(remote: Served) -> None:
    remote.stop()
    say(remote.agent(), TRIP)
    remote.forget_process()
    remote.start()
    assert "Chengdu" in remote.agent("s2").prefetch("When is my trip to Chengdu?")


@pytest.mark.requirement("hermes-spool-sealed")
def test_nothing_in_the_spool_can_be_read(remote: Served) -> None:
    remote.stop()
    agent = remote.agent()
    say(agent, "the unmistakable word is xylophone", "xylophone indeed")
    agent.on_turn_start(2, "again xylophone")
    found = b"".join(path.read_bytes() for path in remote.state.rglob("*") if path.is_file())
    assert remote.files(".turn")
    assert remote.files(".draft")
    assert b"xylophone" not in found


def test_turn_that_does_not_fit_any_more_is_said_to_be_lost(remote: Served) -> None:
    remote.extra = "[keep]\nspool_bytes = 65536"
    remote.write()
    remote.stop()
    agent = remote.agent()
    big = "word " * 15_000
    agent.sync_turn("first", "small", session_id="s1")
    with pytest.raises(StoreUnavailable):
        agent.sync_turn(big, "big", session_id="s1")
    assert remote.waiting() == 1
    assert remote.problems()["the spool"] == "store_unavailable"
    assert remote.warnings


@pytest.mark.requirement("hermes-crash")
def test_words_said_before_a_kill_are_recalled_by_the_next_session(wired: Wired) -> None:
    wired.agent().on_turn_start(1, TRIP)
    wired.forget_process()  # the lock that says that it lives goes with the process
    assert "Chengdu" in wired.agent("s2").prefetch("When is my trip to Chengdu?")


def test_draft_that_was_delivered_and_the_turn_that_was_kept_are_one_line(wired: Wired) -> None:
    """Killed between the commit and the end of the draft."""
    agent = wired.agent()
    agent.on_turn_start(1, "hello there")
    kept = {path: path.read_bytes() for path in wired.files(".draft")}
    assert kept
    agent.sync_turn("hello there", "hi", session_id="s1")
    wired.forget_process()
    for path, data in kept.items():
        path.write_bytes(data)
    wired.agent("s2")
    assert wired.texts() == ["hello there", "hi"]
    assert wired.files(".draft") == []


@pytest.mark.requirement("hermes-crash")
def test_turn_that_waits_while_the_next_begins_is_safe_from_a_kill(wired: Wired) -> None:
    """Its sync is told on another thread, which may be late."""
    agent = wired.agent()
    agent.on_turn_start(1, "the first thing")
    agent.on_turn_start(2, "the second thing")
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == ["the first thing", "the second thing"]


@pytest.mark.requirement("hermes-crash")
def test_draft_of_a_turn_under_way_outlives_the_sync_of_the_one_before(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "the first thing")
    agent.on_turn_start(2, "the second thing")
    agent.sync_turn("the first thing", "one", session_id="s1")
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == ["the first thing", "one", "the second thing"]


@pytest.mark.requirement("hermes-crash")
def test_taking_a_turn_back_costs_the_one_before_it_no_draft(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "the first thing")
    agent.on_turn_start(2, "never mind")
    agent.on_session_switch("s1", rewound=True)
    wired.forget_process()
    wired.agent("s2")
    assert wired.texts() == ["the first thing"]


def test_no_draft_is_left_behind_by_turns_that_were_kept(wired: Wired) -> None:
    agent = wired.agent()
    for number in range(3):
        say(agent, f"number {number}")
    assert wired.files(".draft") == []


@pytest.mark.requirement("hermes-off-the-record")
@pytest.mark.parametrize("words", ["off the record, I am leaving", "from now on off the record"])
def test_off_the_record_text_is_in_no_draft_and_in_no_spool(remote: Served, words: str) -> None:
    remote.stop()
    agent = remote.agent()
    agent.on_turn_start(1, words)
    assert remote.files(".draft") == []
    agent.sync_turn(words, "I see", session_id="s1")
    assert remote.waiting() == 0


def test_bundle_that_the_vault_will_never_take_holds_up_nothing(remote: Served) -> None:
    remote.stop()
    agent = remote.agent()
    say(agent, "good one", "fine")
    good = remote.files(".turn")[0]
    head = good.read_bytes().partition(b"\n")[0]
    (remote.spool / f"{'0' * 26}-1.turn").write_bytes(head + b"\nnot sealed at all")
    (remote.spool / f"{'0' * 25}1-1.turn").write_bytes(b'{"actor":"../../x"}\nrubbish')
    (remote.spool / f"{'0' * 25}2-1.turn").write_bytes(
        head.replace(b"owner", b"another") + good.read_bytes()[len(head) :]
    )
    (remote.spool / f"{'0' * 25}3-1.turn").write_bytes(head + b"\n" + b"x" * (1 << 20) + b"x")
    remote.start()
    remote.agent("s2")
    assert remote.texts() == ["good one", "fine"]
    assert remote.texts("hermes/default/another") == []
    assert len(remote.files(".refused")) == 4


@pytest.mark.requirement("hermes-secrets")
def test_secret_is_masked_before_it_is_sealed_into_the_spool(remote: Served) -> None:
    remote.stop()
    say(remote.agent(), "my key is ghp_" + "a1B2" * 9, "never mind " + ALLERGY)
    remote.start()
    remote.agent("s2")
    assert "ghp_" not in "".join(remote.texts())
    assert len(remote.texts()) == 2
