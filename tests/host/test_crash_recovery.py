"""What an earlier process left: handed over in order, once, to the provider it was for, and to no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from strongroom.host import AgentSession, Host, Recovered
from tests.host.doubles import PATIENCE, SHORT, Held, Recorder, Seen, hosted, session

SECRET = "plum-harbour-7731"


class Refusing(Recorder):
    """Refuses every turn, so that all of them stay in the journal."""

    def sync_turn(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(SECRET)


def leave(place: Path, turns: Sequence[tuple[AgentSession, str]], provider: str = "recorder") -> None:
    """Have a host end with these turns in its journal."""
    with hosted(place, lambda: Refusing(name=provider)) as host:
        memories = {one: host.manager(one) for one in dict.fromkeys(one for one, _ in turns)}
        for one, user in turns:
            memories[one].sync_turn(user, f"re: {user}", [{"role": "user", "content": user}])
        assert all(memory.flush(PATIENCE) for memory in memories.values())


def recovered(place: Path, make: Callable[[], Any]) -> Recovered:
    with hosted(place, make) as host:
        return host.recover()


def journals(place: Path) -> list[Path]:
    return sorted((place / "home" / "memory-journal").glob("*"))


@pytest.mark.requirement("host-sync-durable")
def test_turns_left_reach_the_provider_in_order_and_once(tmp_path: Path) -> None:
    leave(tmp_path, [(session(), f"turn {number}") for number in range(5)])
    seen = Seen()
    assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered(handed_over=5)
    assert seen.turns == [f"turn {number}" for number in range(5)]
    assert journals(tmp_path) == []
    assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered()


def test_provider_is_made_ready_as_it_was_then(tmp_path: Path) -> None:
    then = session(user_id="7", platform="telegram", gateway_session_key="k", status_callback=lambda _: None)
    leave(tmp_path, [(then, "hello")])
    seen = Seen()
    recovered(tmp_path, lambda: Recorder(seen))
    ((args, keywords),) = seen.of("initialize")
    assert args == ("s1",)
    assert keywords == {
        "hermes_home": str(tmp_path / "home"),
        "agent_context": "primary",
        "platform": "telegram",
        "user_id": "7",
        "gateway_session_key": "k",
    }
    assert seen.of("sync_turn") == [
        (("hello", "re: hello"), {"session_id": "s1", "messages": [{"role": "user", "content": "hello"}]})
    ]
    assert seen.hooks[-1] == "shutdown"


def test_each_agent_has_an_object_of_its_own(tmp_path: Path) -> None:
    alice, bob = session(1, user_id="alice"), session(1, user_id="bob")
    leave(tmp_path, [(alice, "a1"), (bob, "b1"), (alice, "a2"), (bob, "b2")])
    made: list[Seen] = []

    def make() -> Recorder:
        made.append(Seen())
        return Recorder(made[-1])

    assert recovered(tmp_path, make).handed_over == 4
    said = {seen.of("initialize")[0][1]["user_id"]: seen.turns for seen in made if seen.of("initialize")}
    assert said == {"alice": ["a1", "a2"], "bob": ["b1", "b2"]}


@pytest.mark.requirement("host-one-external")
def test_turns_for_a_provider_of_another_name_are_left_for_it(tmp_path: Path) -> None:
    leave(tmp_path, [(session(), "hello")], provider="first")
    other, first = Seen(), Seen()
    assert recovered(tmp_path, lambda: Recorder(other, name="second")) == Recovered(left=1)
    assert other.of("initialize") == other.of("sync_turn") == []
    assert recovered(tmp_path, lambda: Recorder(first, name="first")) == Recovered(handed_over=1)


@pytest.mark.parametrize(
    "answers",
    [{"is_available": False}, {"is_available": lambda: 1 / 0}, {"initialize": lambda *_: 1 / 0}],
    ids=["unavailable", "raising", "cannot begin"],
)
def test_turns_wait_for_a_provider_that_is_not_available(tmp_path: Path, answers: dict[str, Any]) -> None:
    leave(tmp_path, [(session(), "hello")])
    assert recovered(tmp_path, lambda: Recorder(answers=answers)) == Recovered(left=1)
    seen = Seen()
    assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered(handed_over=1)


def test_turns_wait_where_there_is_no_provider(tmp_path: Path) -> None:
    leave(tmp_path, [(session(), "hello")])
    with Host(tmp_path / "home", keys=tmp_path / "keys") as host:
        assert host.recover() == Recovered(left=1)


@pytest.mark.requirement("host-faults-isolated")
def test_turn_that_is_always_refused_stays_and_holds_up_no_other_agent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, [(session(1), "bad"), (session(2), "good"), (session(1), "after bad"), (session(2), "good too")])
    seen = Seen()
    answers = {"sync_turn": lambda user, _: 1 / 0 if user == "bad" else None}
    for _ in range(2):
        done = recovered(tmp_path, lambda: Recorder(seen, answers))
    assert done == Recovered(left=2)
    assert seen.turns == ["bad", "good", "good too", "bad"]
    assert "recorder" in caplog.text
    assert SECRET not in caplog.text
    assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered(handed_over=2)
    assert seen.turns[-2:] == ["bad", "after bad"]


@pytest.mark.requirement("host-sync-durable")
def test_first_agent_of_a_host_finds_what_was_left_handed_over(tmp_path: Path) -> None:
    leave(tmp_path, [(session(), "earlier")])
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        memory = host.manager(session())
        memory.sync_turn("later", "answer")
        assert memory.flush(PATIENCE)
    assert seen.turns == ["earlier", "later"]


@pytest.mark.requirement("host-sync-durable")
def test_two_hosts_that_start_at_once_hand_over_each_turn_once(tmp_path: Path) -> None:
    for number in range(6):
        leave(tmp_path, [(session(number), f"turn {number}")])
    seen, start = Seen(), threading.Barrier(4)
    done = list[Recovered]()

    def run() -> None:
        with hosted(tmp_path, lambda: Recorder(seen)) as host:
            start.wait(PATIENCE)
            done.append(host.recover())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(seen.turns) == [f"turn {number}" for number in range(6)]
    assert sum(one.handed_over for one in done) == 6
    assert journals(tmp_path) == []


def test_host_that_lives_keeps_its_turns_from_another(tmp_path: Path) -> None:
    provider, seen = Held(("sync_turn",), name="recorder"), Seen()
    with hosted(tmp_path, provider) as first:
        memory = first.manager(session())
        memory.sync_turn("mine", "answer")
        assert provider.entered.wait(PATIENCE)
        assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered()
        assert first.recover() == Recovered()
        provider.release.set()
    assert seen.turns == []
    assert provider.seen.turns == ["mine"]


@pytest.mark.requirement("host-faults-isolated")
def test_provider_that_hangs_on_what_was_left_does_not_keep_agents_from_beginning(tmp_path: Path) -> None:
    leave(tmp_path, [(session(), "hello")])
    provider = Held(("sync_turn",), name="recorder")
    with hosted(tmp_path, provider, SHORT) as host:
        memory = host.manager(session(2))
        assert memory.external is provider
        assert provider.entered.is_set()
        assert not provider.returned.is_set()
    provider.release.set()
    assert provider.returned.wait(PATIENCE)


@pytest.mark.requirement("host-faults-isolated")
def test_turn_that_always_hangs_holds_up_no_other_agent(tmp_path: Path) -> None:
    leave(tmp_path, [(session(1), "hangs"), (session(2), "good")])
    release, arrived = threading.Event(), threading.Event()

    def keep(user: str, _: str) -> None:
        if user == "hangs":
            release.wait(PATIENCE)
        else:
            arrived.set()

    with hosted(tmp_path, lambda: Recorder(answers={"sync_turn": keep}), SHORT) as host:
        host.manager(session(3))
        other = arrived.wait(2)
        release.set()
    assert other


@pytest.mark.requirement("host-sync-durable")
def test_turns_of_a_damaged_journal_are_handed_over_and_the_rest_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, [(session(), "whole"), (session(), "damaged")])
    (file,) = journals(tmp_path)
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    seen = Seen()
    assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered(handed_over=1, damaged=1)
    assert seen.turns == ["whole"]
    (aside,) = journals(tmp_path)
    assert (aside.suffix, aside.read_bytes()[: len(data)]) == (".damaged", bytes(data))
    assert file.name in caplog.text
    assert recovered(tmp_path, lambda: Recorder(seen)) == Recovered()


@pytest.mark.requirement("host-faults-isolated")
def test_journal_that_cannot_be_opened_does_not_hold_up_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, [(session(), "hello")])
    (tmp_path / "home" / "memory-journal" / "00.journal").mkdir()
    (tmp_path / "home" / "memory-journal" / "01.journal").symlink_to(tmp_path / "nowhere")
    seen = Seen()
    assert recovered(tmp_path, lambda: Recorder(seen)).handed_over == 1
    assert seen.turns == ["hello"]
    assert "00.journal" in caplog.text


@pytest.mark.requirement("host-journal-sealed")
def test_journal_that_is_a_link_to_another_file_leaves_that_file_alone(tmp_path: Path) -> None:
    leave(tmp_path, [(session(), "hello")])
    precious = tmp_path / "precious"
    precious.write_bytes(bytes(100))
    (tmp_path / "home" / "memory-journal" / "00.journal").symlink_to(precious)
    seen = Seen()
    assert recovered(tmp_path, lambda: Recorder(seen)).handed_over == 1
    assert precious.read_bytes() == bytes(100)


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_provider_that_cannot_be_made_leaves_the_turns(tmp_path: Path, error: type[BaseException]) -> None:
    leave(tmp_path, [(session(), "hello")])

    def fail() -> Recorder:
        raise error(SECRET)

    assert recovered(tmp_path, fail) == Recovered(left=1)


def test_log_of_a_recovery_never_holds_a_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    leave(tmp_path, [(session(user_id=SECRET), SECRET)])
    recovered(tmp_path, lambda: Refusing())
    recovered(tmp_path, lambda: Recorder(name="other"))
    assert caplog.records
    assert SECRET not in caplog.text
