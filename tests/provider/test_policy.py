"""The owner's policy: what is wrong in it is named and never guessed at; an edit holds from the next turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.model import Namespace
from strongroom.wiring import policy as policies
from strongroom.wiring.policy import Tools
from strongroom.wiring.template import Wiring, policy_text
from tests.provider.conftest import ALLERGY, OWNER, TRIP, Wired, say

WIRED = 'vault = "/v"\ncap = "/c"\nstate = "/s"\n'


@pytest.mark.parametrize(
    "text",
    [
        "vault = [",
        "unknown = 1",
        "[recall]\nunknown = 1",
        'vault = "/v"\nurl = "http://x"\ncap = "/c"\nstate = "/s"',
        'vault = "/v"',
        'tools = "all"',
        "tools = 1",
        "[recall]\nlines = 21",
        "[recall]\nlines = -1",
        "[recall]\ncharacters = 10",
        "[recall]\npatience = 60",
        "[recall]\ntimeout = 0",
        "[recall]\ntimeout = 60",
        "[recall]\ntimeout = nan",
        "[keep]\nspool_bytes = 1",
        "[keep]\nmask_secrets = 0",
        'namespaces = ["Personal"]',
        'namespaces = ["a/b"]',
        'namespace = "../x"',
        '[people]\nme = ["telegram"]',
        '[people]\nme = ["telegram: "]',
        '[people]\nme = ["Tele gram:1"]',
        '[people]\nme = ["telegram:1"]\n[people.aliases]\nbob = ["telegram:1"]',
        '[people.aliases]\nbob = ["telegram:1"]\neve = ["telegram:1"]',
        '[chats]\n"telegram:-5" = "No Such"',
        '[chats]\nnochat = "work"',
        '[session]\nstrategy = "sometimes"',
        '[routing]\ndefault = "NOT"',
        'profile = "a\\nb"',
        "\x00",
    ],
)
@pytest.mark.requirement("hermes-policy-checked")
def test_what_is_wrong_in_a_policy_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        policies.read(text)


@given(st.text(max_size=80))
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    try:
        policies.read(text)
    except InvalidRequest:
        return


def test_an_empty_policy_is_that_of_a_home_that_is_not_wired() -> None:
    found = policies.read("")
    assert not found.is_wired
    assert found.tools is Tools.NONE
    assert found.keep.mask_secrets
    assert found.shared_api == ""


def test_a_new_policy_says_what_the_defaults_are() -> None:
    text = policy_text(Wiring("default", "/v", "", "", "/c", "/s", "", policies.SENSITIVITY))
    assert policies.read(text) == policies.read(WIRED)


def test_the_scope_ends_at_a_border_whatever_the_profile_is_called() -> None:
    for profile in ("default", "a/b", "../x", "Ünïcode", "h+x"):
        scope = policies.read(f"profile = {profile!r}").scope
        assert scope.startswith("hermes/")
        assert scope.endswith("/")
        assert scope.count("/") == 2


def test_of_several_namespaces_the_first_in_the_order_is_the_most_sensitive() -> None:
    found = policies.read("")
    assert found.most_sensitive({Namespace("travel"), Namespace("family")}) == "family"
    assert found.most_sensitive({Namespace("travel"), Namespace("health")}) == "health"


# Edits.


@pytest.mark.requirement("hermes-policy-live")
def test_an_edit_of_the_namespaces_holds_from_the_next_recall(either: Wired) -> None:
    either.put(ALLERGY, "personal")
    either.put(TRIP, "travel")
    agent = either.agent()
    either.write(namespaces='["travel"]')
    shown = agent.prefetch("my trip to Chengdu and my peanut allergy")
    assert "Chengdu" in shown
    assert "peanut" not in shown


@pytest.mark.requirement("hermes-policy-live")
def test_an_edit_of_the_rules_holds_from_the_next_turn(wired: Wired) -> None:
    agent = wired.agent()
    wired.write('[routing]\ndefault = "work"')
    say(agent, TRIP)
    assert TRIP in wired.texts(OWNER, "work")


@pytest.mark.requirement("hermes-policy-live")
def test_an_edit_of_the_state_directory_moves_the_spool_and_loses_nothing(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one", "first")
    wired.write(state=repr(str(wired.base / "private" / "elsewhere")))
    say(agent, "two", "second")
    assert wired.texts() == ["one", "first", "two", "second"]


def test_a_policy_of_no_namespace_keeps_and_shows_nothing(wired: Wired) -> None:
    wired.put(TRIP)
    wired.write(namespaces="[]")
    agent = wired.agent()
    assert say(agent, "When is my trip to Chengdu?") == ""
    assert wired.texts() == [TRIP]
