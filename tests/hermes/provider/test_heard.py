"""What is worked out when a turn begins serves again when it is told; where anything has changed, it does not."""

from __future__ import annotations

from typing import Any

import pytest

from strongroom import routing
from strongroom.hermes import cap_file
from strongroom.hermes.provider import provider_home as homes
from strongroom.hermes.provider.secret_mask import Mask
from tests.hermes.provider.conftest import OWNER, SCOPE, TRIP, Wired, say

GITHUB = "ghp_" + "a1B2" * 9


# Something changed while a turn was under way.


@pytest.mark.requirement("hermes-policy-live")
def test_rules_that_changed_while_a_turn_was_under_way_hold_for_it(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, TRIP)
    wired.write('[routing]\ndefault = "work"')
    agent.sync_turn(TRIP, "Noted.", session_id="s1")
    assert TRIP in wired.texts(OWNER, "work")


def test_secrets_that_are_to_be_masked_since_a_turn_began_are_not_kept(wired: Wired) -> None:
    wired.write("[keep]\nmask_secrets = false")
    agent = wired.agent()
    agent.on_turn_start(1, f"my key is {GITHUB}")
    wired.write("[keep]\nmask_secrets = true")
    agent.sync_turn(f"my key is {GITHUB}", "Noted.", session_id="s1")
    assert GITHUB not in "".join(wired.texts())


def test_namespace_that_the_cap_lost_while_a_turn_was_under_way_gets_no_line(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, TRIP)
    cap_file.write(wired.cap, cap_file.mint(wired.vault, SCOPE, ("personal",)))
    agent.sync_turn(TRIP, "", session_id="s1")
    assert wired.texts() == []
    assert wired.home.parts.status.problems == {}


def test_phrase_that_came_into_force_while_a_turn_was_under_way_takes_it_off_the_record(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "entre nous, it rains")
    wired.write('[off_the_record]\nturn = ["entre nous"]')
    agent.sync_turn("entre nous, it rains", "So it does.", session_id="s1")
    assert wired.texts() == []


@pytest.mark.parametrize("session", ["s1", "s2"])
def test_turn_that_is_told_in_other_words_is_kept_in_those(wired: Wired, session: str) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "as it began")
    agent.sync_turn("as it was told", "Noted.", session_id=session)
    assert [(hit.text, hit.session) for hit in wired.lines()] == [("as it was told", session), ("Noted.", session)]


def test_turn_that_is_told_in_another_session_is_kept_in_that_one(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, TRIP)
    agent.sync_turn(TRIP, "Noted.", session_id="s2")
    assert {hit.session for hit in wired.lines()} == {"s2"}


# Nothing changed.


def test_spoken_text_is_looked_at_once_in_a_turn(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    masked: list[str] = []
    placed: list[str] = []

    class Watched(Mask):
        def masked(self, text: str) -> tuple[str, int]:
            masked.append(text)
            return super().masked(text)

    def route(text: str, *args: Any, **more: Any) -> routing.Route:
        placed.append(text)
        return chosen(text, *args, **more)

    chosen = routing.route
    monkeypatch.setattr(homes, "Mask", Watched)
    monkeypatch.setattr(routing, "route", route)
    say(wired.agent(), TRIP, "A good trip.")
    assert masked == placed == [TRIP, "A good trip."]


def test_secret_is_counted_once_although_its_turn_has_a_draft(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, f"my key is {GITHUB}", "Noted.")
    agent.on_turn_start(2, f"again {GITHUB}")
    agent.shutdown()
    assert wired.home.parts.status.counts == {}
    assert (wired.state / "counts.json").read_bytes().count(b'"secrets masked": 1') == 1


def test_id_of_a_line_is_the_same_with_a_draft_and_without(wired: Wired) -> None:
    drafted, journalled = wired.agent("s1"), wired.agent("s1", turn_journal=True)
    drafted.on_turn_start(1, TRIP)
    begun = drafted._session.turns.last if drafted._session else None
    assert begun is not None
    assert journalled._session is not None
    drafted.sync_turn(TRIP, "", session_id="s1")
    journalled.on_turn_start(1, TRIP)
    told = journalled._session.turns.last
    assert told is not None
    told.time = begun.time
    journalled.sync_turn(TRIP, "", session_id="s1")
    assert wired.texts() == [TRIP]
