"""A person whose caps were revoked, for one was stolen: what they say waits, and goes when they are let in again."""

from __future__ import annotations

import pytest

from strongroom.errors import CapRevoked
from strongroom.hermes import cap_file
from strongroom.hermes.provider.actor_caps import KEEPS
from strongroom.hermes.provider.delivery import begin_anew
from strongroom.model import Millis
from tests.hermes.provider.conftest import DM, OWNER, SCOPE, Served, Wired, say
from tests.hermes.provider.people import ALICE, BOB, BOBS, both_wait, said

pytestmark = pytest.mark.requirement("hermes-revoked-waits")


def wire_again(wired: Wired) -> None:
    """As `wire` does a moment later, since a second is the smallest step: another cap, and what waits is tried."""
    clerk, real = wired.vault._clerk, wired.vault._clerk.now
    clerk.now = lambda: Millis(real() + 1000)
    cap_file.write(wired.cap, cap_file.mint(wired.vault, SCOPE, wired.vault.namespaces))
    clerk.now = real
    begin_anew(wired.home)


@pytest.mark.parametrize("whose", [ALICE, OWNER])
def test_revoked_persons_turns_wait_and_go_when_there_is_a_new_cap(either: Wired, whose: str) -> None:
    told = DM if whose == ALICE else {}
    agent = either.agent("a", **told)
    say(agent, "My trip to Rome is in May")
    either.vault.revoke_actor(whose)
    shown = say(agent, "My trip to Oslo is in June")
    assert shown == "", "nothing is recalled"
    assert said(either, whose) == ["My trip to Rome is in May"]
    assert either.waiting() == 1
    assert either.problems()["keeping"] == "cap_revoked"
    say(either.agent("b", **BOBS), "Bob flies to Bonn")
    assert said(either, BOB) == ["Bob flies to Bonn"], "the others are kept"
    assert either.waiting() == 1
    wire_again(either)
    say(either.agent("c", **told), "hello")
    assert said(either, whose) == ["My trip to Rome is in May", "My trip to Oslo is in June", "hello"]
    assert (either.waiting(), either.problems()) == (0, {})


@pytest.mark.parametrize("whose", [ALICE, OWNER])
def test_waiting_turns_of_a_revoked_person_are_not_destroyed_and_hold_up_nobody(remote: Served, whose: str) -> None:
    told = DM if whose == ALICE else {}
    say(remote.agent("a", **told), "first")
    remote.stop()
    say(remote.agent("a", **told), "second")
    say(remote.agent("b", **BOBS), "Bob flies to Bonn")
    remote.start()
    remote.vault.revoke_actor(whose)
    say(remote.agent("b", **BOBS), "hello")
    assert said(remote, BOB) == ["Bob flies to Bonn", "hello"]
    assert remote.waiting() == 1
    wire_again(remote)
    remote.agent("d", **told)
    assert said(remote, whose) == ["first", "second"]


def test_turns_of_an_erased_person_are_still_gone_after_a_new_cap(remote: Served) -> None:
    say(remote.agent("a", **DM), "first")
    both_wait(remote)
    remote.vault.erase(ALICE)
    remote.agent("c")
    wire_again(remote)
    remote.agent("d", **DM)
    assert said(remote, ALICE) == []


def test_refusal_says_whether_anything_is_left_of_the_actor(either: Wired) -> None:
    say(either.agent("a", **DM), "first")

    def refused() -> CapRevoked:
        caps = either.home.parts.caps
        token = caps.narrowed(ALICE, either.home.policy.namespaces, KEEPS)  # type: ignore[arg-type]
        with pytest.raises(CapRevoked) as raised:
            either.home.way.ask(token, lambda memory: memory.list(limit=1))
        return raised.value

    either.vault.revoke_actor(ALICE)
    assert not refused().erased
    either.vault.erase(ALICE)
    assert refused().erased
    either.vault.revoke(either.cap.read_text().strip())
    assert not refused().erased, "the cap itself was revoked: nothing is said of the actor"
