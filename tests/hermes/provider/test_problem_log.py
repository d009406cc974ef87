"""What went wrong: said once, seen in the status, gone when it works again, and never with a text."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import pytest

from strongroom.errors import CapRevoked, ServerUnavailable, StoreUnavailable
from strongroom.hermes.provider import problem_log
from strongroom.hermes.provider.offline_spool import Spool
from strongroom.hermes.provider.problem_log import ProblemLog
from strongroom.model import Millis
from tests.hermes.provider.conftest import TRIP, Served, Wired, say


def now() -> Millis:
    return Millis(5)


def test_problem_is_said_once_until_it_is_another(tmp_path: Path) -> None:
    said: list[str] = []
    held = ProblemLog(tmp_path, now)
    for _ in range(3):
        held.failed("recall", ServerUnavailable("out of reach"), said.append)
    assert len(said) == 1
    assert held.problems["recall"].count == 3
    held.failed("recall", CapRevoked("revoked"), said.append)
    assert len(said) == 2


def test_problem_is_on_disk_until_it_works_again(tmp_path: Path) -> None:
    held = ProblemLog(tmp_path, now)
    held.failed("recall", ServerUnavailable("out of reach"))
    assert problem_log.read(tmp_path)["recall"].reason == "server_unavailable"
    held.worked("recall")
    assert problem_log.read(tmp_path) == {}


def test_problem_that_an_earlier_process_noted_goes_when_it_works_again(tmp_path: Path) -> None:
    ProblemLog(tmp_path, now).failed("recall", ServerUnavailable("out of reach"))
    ProblemLog(tmp_path, now).worked("recall")
    assert problem_log.read(tmp_path) == {}


def test_problem_of_another_process_is_not_overwritten(tmp_path: Path) -> None:
    one, other = ProblemLog(tmp_path, now), ProblemLog(tmp_path, now)
    one.failed("recall", ServerUnavailable("out of reach"))
    other.failed("keeping", ServerUnavailable("out of reach"))
    assert set(problem_log.read(tmp_path)) == {"recall", "keeping"}


def test_display_that_breaks_does_not_break_a_turn(tmp_path: Path) -> None:
    def broken(message: str) -> None:
        raise RuntimeError("no terminal")

    ProblemLog(tmp_path, now).failed("recall", ServerUnavailable("out of reach"), broken)


def test_status_that_cannot_be_written_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    held = ProblemLog(tmp_path / "file" / "below", now)
    held.failed("recall", ServerUnavailable("out of reach"))
    assert "recall" in held.problems


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"recall": 1}'])
def test_damaged_status_counts_as_none(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / problem_log.FILE).write_bytes(damage)
    assert problem_log.read(tmp_path) == {}
    ProblemLog(tmp_path, now).failed("recall", ServerUnavailable("out of reach"))
    assert "recall" in problem_log.read(tmp_path)


@pytest.mark.requirement("hermes-never-silent")
def test_recall_that_fails_shows_nothing_and_is_said_once(remote: Served) -> None:
    agent = remote.agent()
    remote.stop()
    assert agent.prefetch("When is my trip?") == ""
    assert agent.prefetch("When is my trip?") == ""
    assert remote.problems()["recall"] == "server_unavailable"
    assert len([one for one in remote.warnings if "recall" in one]) == 1
    remote.start()
    agent.prefetch("When is my trip?")
    assert "recall" not in remote.problems()
    assert "recall" not in problem_log.read(remote.state)


@pytest.mark.requirement("hermes-never-silent")
@pytest.mark.parametrize("key", ["", f"age1{'q' * 58}"], ids=["none", "misspelled"])
def test_turn_that_cannot_be_sealed_is_said_until_a_turn_is_kept_and_nothing_waits(remote: Served, key: str) -> None:
    remote.write(inbox=repr(key))
    agent = remote.agent()
    remote.stop()
    with suppress(StoreUnavailable):
        say(agent, "one", "first")
    noted = problem_log.read(remote.state)["the spool"]
    assert noted.reason == "invalid_request"
    assert "strongroom wire hermes" in noted.message
    remote.start()
    say(agent, "two", "second")
    assert "the spool" not in problem_log.read(remote.state)


@pytest.mark.requirement("hermes-secrets")
def test_no_text_query_or_cap_is_in_the_status_the_warnings_or_the_log(
    remote: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    agent = remote.agent()
    remote.stop()
    say(agent, "the unmistakable word is xylophone", "xylophone indeed")
    remote.start()
    remote.vault.revoke(remote.cap.read_text().strip())
    say(agent, "again xylophone", "xylophone")
    said = (remote.state / problem_log.FILE).read_text() + "".join(remote.warnings) + caplog.text
    assert "cap_revoked" in said
    assert "xylophone" not in said
    assert remote.cap.read_text().strip()[:40] not in said


@pytest.mark.requirement("hermes-said-plainly", "hermes-spool-bounded")
def test_full_spool_loses_the_reply_alone_says_so_and_counts_it(remote: Served) -> None:
    remote.write("[keep]\nspool_bytes = 65536")
    agent = remote.agent()
    remote.stop()
    long = "x" * 40_000
    say(agent, "one", long)
    with pytest.raises(StoreUnavailable):
        say(agent, "My trip to Oslo is in June", long)
    noted = problem_log.read(remote.state)["keeping"]
    assert "a reply was lost" in noted.message
    assert "a turn was lost" not in noted.message
    agent.shutdown()
    assert problem_log.read_counts(remote.state)["replies lost"] == 1
    remote.start()
    agent = remote.agent("b")
    say(agent, "hello")
    agent.shutdown()
    assert "My trip to Oslo is in June" in remote.texts()
    counts = problem_log.read_counts(remote.state)
    assert (counts["replies lost"], counts.get("turns lost", 0)) == (1, 0), "it is remembered afterwards"
    assert "keeping" not in remote.problems()


@pytest.mark.requirement("hermes-said-plainly")
def test_turn_of_which_nothing_is_left_is_said_and_counted(remote: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = remote.agent()
    remote.stop()

    def full(*_: object) -> None:
        raise StoreUnavailable("no room")

    monkeypatch.setattr(Spool, "add", full)
    monkeypatch.setattr(Spool, "draft", full)
    with pytest.raises(StoreUnavailable):
        say(agent, "My trip to Oslo is in June")
    agent.shutdown()
    assert "a turn was lost" in problem_log.read(remote.state)["keeping"].message
    assert problem_log.read_counts(remote.state)["turns lost"] == 1


def test_counts_outlast_the_process_and_add_up(wired: Wired) -> None:
    say(wired.agent(), TRIP)
    wired.forget_process()
    say(wired.agent("s2"), "When do I fly to Chengdu?", "On May 25")
    found = problem_log.read_counts(wired.state)
    assert (found["kept"], found["recalled"]) == (4, 1)
    assert b"Chengdu" not in (wired.state / problem_log.COUNTS).read_bytes()
    assert [path.name for path in wired.state.iterdir() if path.name.startswith(".counts")] == []


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"kept": "x"}', b"\xff"])
def test_damaged_counts_begin_anew_and_break_nothing(wired: Wired, damage: bytes) -> None:
    wired.state.mkdir(parents=True)
    (wired.state / problem_log.COUNTS).write_bytes(damage)
    say(wired.agent(), TRIP)
    assert problem_log.read_counts(wired.state) == {"kept": 2}


def test_counts_are_saved_after_a_turn_and_at_the_end_and_not_after_every_turn(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one")
    assert problem_log.read_counts(wired.state) == {"kept": 2}
    say(agent, "two")
    assert problem_log.read_counts(wired.state) == {"kept": 2}
    wired.home.tended -= 60
    say(agent, "three")
    assert problem_log.read_counts(wired.state) == {"kept": 6}
    say(agent, "four")
    agent.shutdown()
    assert problem_log.read_counts(wired.state) == {"kept": 8}
