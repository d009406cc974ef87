"""What an attack on the spool found: nothing that waits is lost, or held up by another."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from ulid import ULID

from strongroom import errors
from strongroom.crypto import inbox
from strongroom.errors import CapRevoked, StoreUnavailable, StrongroomError
from strongroom.hermes import cap_file, runtime_cap
from strongroom.hermes.provider import delivery, offline_spool
from strongroom.hermes.provider.delivery import begin_anew
from strongroom.hermes.provider.memory_session import look_after
from strongroom.hermes.provider.offline_spool import DeliveryResult, Spool, SpooledTurn, deliver_waiting
from strongroom.hermes.provider.provider_home import HomeView, ProviderHome, millis
from strongroom.memory import Memory
from strongroom.model import Actor, Millis, NewLine
from tests.hermes.provider.conftest import DM, OWNER, SCOPE, TRIP, Served, Wired, say
from tests.hermes.provider.people import ALICE, BOB, BOBS, both_wait, said, undo

# One person's erasure.


@pytest.mark.requirement("hermes-erased")
@pytest.mark.parametrize("cap", ["same", "renewed"])
def test_erased_persons_waiting_turns_go_and_those_of_the_others_are_delivered(remote: Served, cap: str) -> None:
    say(remote.agent("a", **DM), "Alice flies to Rome")
    both_wait(remote)
    remote.vault.erase(ALICE)
    if cap == "renewed":
        remote.home.parts.caps.renew(remote.home.way)
    say(remote.agent("b", **BOBS), "hello")
    assert said(remote, BOB) == ["Bob flies to Bonn", "hello"]
    assert said(remote, ALICE) == []
    assert remote.waiting() == 0
    assert remote.files(".turn") == remote.files(".refused") == []


@pytest.mark.requirement("hermes-erased")
def test_undo_of_an_erased_person_holds_up_nobody(remote: Served) -> None:
    alice = remote.agent("s1", **DM)
    say(alice, "Alice flies to Rome")
    remote.stop()
    undo(remote, alice)
    say(remote.agent("b", **BOBS), "Bob flies to Bonn")
    remote.start()
    remote.vault.erase(ALICE)
    remote.agent("c")
    assert (remote.waiting(), said(remote, BOB)) == (0, ["Bob flies to Bonn"])


@pytest.mark.requirement("hermes-erased")
def test_words_of_an_erased_person_are_not_left_in_the_spool(either: Wired) -> None:
    agent = either.agent("a", **DM)
    say(agent, "Alice flies to Rome")
    either.vault.erase(ALICE)
    say(agent, "Alice flies to Oslo")
    assert either.waiting() == 0
    assert either.files(".draft") == []
    assert said(either, ALICE) == []
    assert either.problems()["keeping"] == "cap_revoked"


@pytest.mark.requirement("hermes-spool")
def test_revoked_cap_of_the_runtime_costs_nobody_a_waiting_turn(remote: Served) -> None:
    both_wait(remote)
    runtime_cap.revoke(remote.vault, cap_file.read(remote.cap))
    say(remote.agent("b", **BOBS), "hello")
    assert remote.waiting() == 3
    cap_file.write(remote.cap, cap_file.mint(remote.vault, SCOPE, remote.vault.namespaces))
    say(remote.agent("b", **BOBS), "hello again")
    assert said(remote, ALICE) == ["Alice flies to Oslo"]
    assert said(remote, BOB) == ["Bob flies to Bonn", "hello", "hello again"]


@pytest.mark.requirement("hermes-spool")
def test_new_cap_that_comes_between_refusal_and_question_costs_no_turn(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent("a", **DM)
    runtime_cap.revoke(remote.vault, cap_file.read(remote.cap))
    say(agent, "Alice flies to Oslo")
    real = delivery._is_voided

    def wired_again(*args: Any) -> bool:
        cap_file.write(remote.cap, cap_file.mint(remote.vault, SCOPE, remote.vault.namespaces))
        return real(*args)

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "_is_voided", wired_again)
        remote.agent("b", **BOBS)
        say(agent, "Alice flies to Bonn")
    say(agent, "hello")
    assert sorted(said(remote, ALICE)) == ["Alice flies to Bonn", "Alice flies to Oslo", "hello"]


# What is refused for good, and what passes.


FOR_GOOD = {
    errors.InvalidRequest,
    errors.LineTooLarge,
    errors.TooMany,
    errors.BodyTooLarge,
    errors.CapLimitExceeded,
    errors.Conflict,
    errors.LineConflict,
    errors.LineReplaced,
    errors.VersionConflict,
}
"""What is wrong with a turn itself."""


def _every(kind: type[StrongroomError] = StrongroomError) -> Iterator[type[StrongroomError]]:
    for one in kind.__subclasses__():
        if one.__module__ == errors.__name__:
            yield one
            yield from _every(one)


@pytest.mark.requirement("hermes-spool")
def test_waiting_turn_is_set_aside_only_for_what_is_wrong_with_itself(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wait(remote)
    every = set(_every())
    aside = {error for error in every if _refused_with(error, remote, monkeypatch)}
    assert aside == FOR_GOOD
    assert len(every) > 40, "the table is of all errors there are"
    remote.agent("last")
    assert (said(remote, ALICE), said(remote, BOB)) == (["Alice flies to Oslo"], ["Bob flies to Bonn"])


def _refused_with(error: type[StrongroomError], remote: Served, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether turns are set aside when each delivery is refused so; they wait again afterwards."""

    def refuse(_self: Memory, _sealed: bytes) -> None:
        raise error("no")

    remote.rest()
    with monkeypatch.context() as patched:
        patched.setattr(Memory, "deliver", refuse)
        patched.setattr(delivery, "_is_voided", lambda *_: False)
        remote.agent("c")
    found = {problem: reason for problem, reason in remote.problems().items() if problem.startswith("delivering")}
    assert error.reason in found.values()
    aside = remote.files(".refused")
    assert len(aside) + remote.waiting() == 2
    for one in aside:
        one.rename(one.with_suffix(".turn"))
    remote.rest()
    return bool(aside)


@pytest.mark.requirement("hermes-spool")
def test_cap_that_was_narrowed_for_a_while_makes_one_person_wait_and_not_the_others(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wait(remote)
    real = HomeView.ask

    def narrow(look: HomeView, actor: Actor, use: Any, **more: Any) -> Any:
        if actor == ALICE:
            raise errors.CapNamespaceDenied("not now")
        return real(look, actor, use, **more)

    with monkeypatch.context() as patched:
        patched.setattr(HomeView, "ask", narrow)
        remote.agent("c")
        assert (remote.waiting(), said(remote, BOB)) == (1, ["Bob flies to Bonn"])
    remote.agent("d")
    assert (remote.waiting(), said(remote, ALICE)) == (0, ["Alice flies to Oslo"])


def test_persons_undo_does_not_overtake_their_turns_that_have_to_wait(tmp_path: Path) -> None:
    held = Spool(tmp_path, 1 << 20)
    held.add(Actor(ALICE), b"one", Millis(1))
    held.add_forgetting(Actor(ALICE), ["an id"], Millis(2))
    held.add_forgetting(Actor(BOB), ["another"], Millis(3))
    tried: list[SpooledTurn] = []

    def deliver(entry: SpooledTurn) -> DeliveryResult:
        tried.append(entry)
        return DeliveryResult.DONE if entry.ids else DeliveryResult.LATER

    assert deliver_waiting(held, deliver) == 1
    assert [(entry.actor, entry.ids) for entry in tried] == [(ALICE, ()), (BOB, ("another",))]
    assert [entry.ids for entry in held.entries()] == [(), ("an id",)]


@pytest.mark.requirement("hermes-spool")
def test_turn_is_not_held_up_by_all_that_waits(remote: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    later: list[Callable[[], object]] = []
    agent = remote.agent()
    remote.stop()
    for number in range(5):
        say(agent, f"turn {number}")
    remote.start()
    monkeypatch.setattr(delivery, "AT_ONCE", 2)
    monkeypatch.setattr(ProviderHome, "later", lambda _self, work: later.append(work))
    say(agent, "hello")
    assert said(remote) == ["turn 0", "turn 1", "hello"]
    while later:
        later.pop(0)()
    assert said(remote) == [*(f"turn {number}" for number in range(5)), "hello"]
    assert remote.waiting() == 0


@pytest.mark.parametrize("suffix", [".turn", ".forget"])
def test_half_written_file_of_a_killed_process_is_tidied_away(tmp_path: Path, suffix: str) -> None:
    held = Spool(tmp_path, 1 << 20)
    held.add(Actor(ALICE), b"one", Millis(1))
    half = tmp_path / f".{'0' * 26}-{'a' * 16}{suffix}-x1y2z3"
    half.write_bytes(b"half of it")
    held.adopt()
    assert not half.exists()
    assert len(list(held.entries())) == 1


@pytest.mark.parametrize("suffix", [".turn", ".forget"])
def test_half_written_file_of_a_living_process_is_left_alone(tmp_path: Path, suffix: str) -> None:
    other = Spool(tmp_path, 1 << 20)
    draft = other.draft(Actor(ALICE), b"one", Millis(1))
    half = tmp_path / f".{draft.stem}{suffix}-x1y2z3"
    half.write_bytes(b"half of it")
    assert Spool(tmp_path, 1 << 20).adopt() == 0
    assert half.exists()
    os.close(other.process.handle)


# What stands in the spool and is none of ours.


@pytest.mark.requirement("hermes-spool")
@pytest.mark.parametrize("suffix", [".turn", ".forget"])
@pytest.mark.parametrize("odd", ["pipe", "directory", "endless", "nowhere", "text"])
def test_nothing_that_lies_in_the_spool_holds_up_a_turn(remote: Served, odd: str, suffix: str) -> None:
    agent = remote.agent()
    remote.stop()
    say(agent, TRIP)
    place = remote.spool / f"{'0' * 26}-1{suffix}"
    make: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(place),
        "directory": place.mkdir,
        "endless": lambda: place.symlink_to("/dev/zero"),
        "nowhere": lambda: place.symlink_to("/nowhere/at/all"),
        "text": lambda: place.write_bytes(b"not ours"),
    }
    make[odd]()
    remote.start()
    say(agent, "hello")
    assert said(remote) == [TRIP, "hello"]
    assert remote.waiting() == 0
    assert remote.home.parts.spool.aside() == 1


@pytest.mark.requirement("hermes-spool")
def test_turns_set_aside_are_tried_again_when_the_home_is_wired_anew(wired: Wired) -> None:
    actor = Actor(OWNER)
    lines = (NewLine(text=TRIP, namespace="travel", id=str(ULID())),)
    spool = wired.home.parts.spool
    kept = spool.add(actor, inbox.seal(wired.inbox(), inbox.Bundle(actor, lines)), millis())
    kept.rename(kept.with_suffix(".refused"))
    lost = spool.add(actor, b"sealed for another vault", millis())
    agent = wired.agent()
    say(agent, "hello")
    assert (spool.aside(), wired.problems()) == (2, {"delivering a turn": "invalid_request"})
    begin_anew(wired.home)
    say(agent, "hello again")
    assert sorted(said(wired)) == sorted([TRIP, "hello", "hello again"])
    assert [path.name for path in wired.files(".refused")] == [lost.with_suffix(".refused").name]
    assert wired.problems() == {"delivering a turn": "invalid_request"}
    lost.with_suffix(".refused").unlink()
    look_after(wired.home)
    assert wired.problems() == {}


def test_only_what_speaks_of_a_cap_is_over_when_the_home_is_wired_anew(wired: Wired) -> None:
    status = wired.home.parts.status
    status.failed("keeping", CapRevoked("gone"))
    status.failed("recall", StoreUnavailable("away"))
    begin_anew(wired.home)
    assert wired.problems() == {"recall": "store_unavailable"}


@pytest.mark.requirement("hermes-never-silent")
def test_spool_that_cannot_be_read_is_said_and_nothing_is_set_aside(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_wait(remote)

    def broken(path: Path, *, follow: bool) -> BinaryIO:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(offline_spool, "open_file", broken)
        remote.agent("c")
        assert remote.problems()["delivering"] == "store_unavailable"
        assert (remote.waiting(), remote.home.parts.spool.aside()) == (2, 0)
    remote.agent("d")
    assert remote.waiting() == 0
    assert "delivering" not in remote.problems()


# A turn that could not be kept.


@pytest.mark.requirement("hermes-durable")
def test_draft_of_a_turn_that_could_not_be_kept_is_delivered_later(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent()
    say(agent, "one")
    remote.stop()

    def full(*_: object) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "add", full)
        with pytest.raises(StoreUnavailable):
            say(agent, TRIP)
    remote.start()
    say(agent, "hello")
    assert said(remote) == ["one", TRIP, "hello"]
    assert remote.files(".draft") == remote.files(".turn") == []


# An undo while the server is away.


@pytest.mark.requirement("hermes-undo")
def test_undo_while_the_server_is_away_outlasts_the_process(remote: Served) -> None:
    agent = remote.agent()
    say(agent, "one")
    say(agent, TRIP)
    remote.stop()
    undo(remote, agent)
    assert len(remote.files(".forget")) == 1
    remote.forget_process()
    remote.start()
    remote.agent("s2")
    assert said(remote) == ["one"]
    assert remote.files(".forget") == []
    assert remote.problems() == {}


@pytest.mark.requirement("hermes-spool-sealed")
def test_waiting_undo_holds_no_text(remote: Served) -> None:
    agent = remote.agent()
    say(agent, TRIP)
    ids = {hit.id for hit in remote.lines()}
    remote.stop()
    undo(remote, agent)
    (found,) = remote.files(".forget")
    content = found.read_bytes()
    assert all(one.encode() in content for one in ids)
    assert b"Chengdu" not in content
    assert found.stat().st_mode & 0o077 == 0


@pytest.mark.requirement("hermes-undo")
def test_undo_that_waits_takes_nothing_of_what_is_said_after_it(remote: Served) -> None:
    agent = remote.agent()
    say(agent, TRIP)
    remote.stop()
    undo(remote, agent)
    say(agent, TRIP)
    assert remote.waiting() == 2
    remote.forget_process()
    remote.start()
    remote.agent("s2")
    assert said(remote) == [TRIP]
    assert remote.waiting() == 0


@pytest.mark.requirement("hermes-undo")
def test_undo_that_cannot_be_written_down_is_done_with_a_later_turn(
    remote: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = remote.agent()
    say(agent, TRIP)
    remote.stop()

    def full(*_: object) -> None:
        raise StoreUnavailable("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Spool, "add_forgetting", full)
        agent.on_session_switch("s1", rewound=True)
    remote.start()
    say(agent, "hello")
    assert said(remote) == ["hello"]
