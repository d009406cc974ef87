"""The owner's policy: what is wrong in it is named and never guessed at; an edit holds from the next turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.hermes import policy as policies
from strongroom.hermes.install.policy_template import Wiring, policy_text
from strongroom.hermes.policy import Tools
from strongroom.hermes.provider.line_builder import most_sensitive
from strongroom.model import Namespace
from tests.hermes.provider.conftest import ALLERGY, OWNER, TRIP, Wired, say

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
        'namespace = "wrk"',
        'namespaces = ["work", "travel"]\nnamespace = "personal"',
        '[chats]\n"slack:C0123456" = "wrk"',
        'namespaces = ["work"]\n[chats]\n"slack:C0123456" = "travel"',
        '[routing]\ndefault = "wrk"',
        '[[routing.rules]]\nname = "trip"\nnamespace = "travl"\nwords = ["trip"]',
        'inbox = "garbage"',
        f'inbox = "age1{"q" * 57}"',
        'profile = "a\\nb"',
        "\x00",
    ],
)
@pytest.mark.requirement("hermes-policy-checked")
def test_policy_with_a_fault_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        policies.read(text)


def test_policy_fault_is_told_with_the_file_and_the_known_names() -> None:
    with pytest.raises(InvalidRequest) as refused:
        policies.read('namespaces = ["work", "health"]\nnamespace = "wrk"', "/home/ann/.hermes/strongroom.toml")
    assert refused.value.message.startswith("/home/ann/.hermes/strongroom.toml: ")
    assert "work, health" in refused.value.hint
    with pytest.raises(InvalidRequest) as refused:
        policies.read("[recall]\nunknown = 1")
    assert "$" not in refused.value.message
    assert refused.value.hint


@given(st.text(max_size=80))
def test_any_text_is_a_policy_or_refused(text: str) -> None:
    try:
        policies.read(text)
    except InvalidRequest:
        return


@pytest.mark.requirement("hermes-said-plainly")
@pytest.mark.parametrize(
    ("text", "key", "word"),
    [
        ('tools = "ful"', "tools", '"none", "forget", "recall", "full"'),
        ("tools = 1", "tools", '"none", "forget", "recall", "full"'),
        ('[session]\nstrategy = "x"', "session.strategy", '"per-session"'),
        ("[recall]\nlines = 30", "recall.lines", "at most 20"),
        ('[recall]\nlines = "many"', "recall.lines", "a whole number"),
        ("[recall]\nline = 1", "recall", "'line'"),
        ("line = 1", "", "'line'"),
        ('[keep]\nturns = "yes"', "keep.turns", "true or false"),
        ('[people]\nme = "telegram:1"', "people.me", "a list"),
        ("[people.aliases]\nbob = 3", "people.aliases", "a list"),
    ],
)
def test_fault_is_said_by_key_with_what_may_stand_there_and_never_the_value(text: str, key: str, word: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        policies.read(text)
    said = refused.value.message
    assert said.startswith(key)
    assert word in said
    for raw in ("`", "enum", "Expected", "$", '"ful"', "many", "yes", "telegram"):
        assert raw not in said


def test_empty_policy_is_that_of_a_home_that_is_not_wired() -> None:
    found = policies.read("")
    assert not found.is_wired
    assert found.tools is Tools.NONE
    assert found.keep.mask_secrets
    assert found.shared_api == ""


def test_new_policy_says_what_the_defaults_are() -> None:
    text = policy_text(Wiring("default", "/v", "", "", "/c", "/s", "", policies.SENSITIVITY))
    assert policies.read(text) == policies.read(WIRED)


def test_scope_ends_at_a_border_whatever_the_profile_is_called() -> None:
    for profile in ("default", "a/b", "../x", "Ünïcode", "h+x"):
        scope = policies.read(f"profile = {profile!r}").scope
        assert scope.startswith("hermes/")
        assert scope.endswith("/")
        assert scope.count("/") == 2


def test_first_of_several_namespaces_in_the_order_is_the_most_sensitive() -> None:
    found = policies.read("")
    assert most_sensitive(found, {Namespace("travel"), Namespace("family")}) == "family"
    assert most_sensitive(found, {Namespace("travel"), Namespace("health")}) == "health"


def test_rules_may_leave_lines_out_and_every_namespace_of_the_vault_can_be_named() -> None:
    found = policies.read(
        'namespaces = ["health", "work"]\nnamespace = "health"\n[chats]\n"slack:C1" = "work"\n'
        '[[routing.rules]]\nname = "trip"\nnamespace = "travel"\nwords = ["trip"]'
    )
    assert (found.namespace, found.chats["slack:C1"]) == ("health", "work")
    assert found.rules is not None
    assert found.rules.default == "personal", "and what goes there is not kept"


# Edits.


@pytest.mark.requirement("hermes-policy-live")
def test_edit_that_would_lose_everything_is_not_in_use(wired: Wired) -> None:
    agent = wired.agent()
    wired.write(namespace='"wrk"')
    say(agent, TRIP)
    assert TRIP in wired.texts(OWNER, "travel")
    assert "wrk" in wired.home.broken


@pytest.mark.requirement("hermes-policy-live")
def test_edit_of_the_namespaces_holds_from_the_next_recall(either: Wired) -> None:
    either.put(ALLERGY, "personal")
    either.put(TRIP, "travel")
    agent = either.agent()
    either.write("[recall]\nmin_confidence = 0.0", namespaces='["travel"]')
    shown = agent.prefetch("my trip to Chengdu and my peanut allergy")
    assert "Chengdu" in shown
    assert "peanut" not in shown


@pytest.mark.requirement("hermes-policy-live")
def test_edit_of_the_rules_holds_from_the_next_turn(wired: Wired) -> None:
    agent = wired.agent()
    wired.write('[routing]\ndefault = "work"')
    say(agent, TRIP)
    assert TRIP in wired.texts(OWNER, "work")


@pytest.mark.requirement("hermes-policy-live")
def test_edit_of_the_state_directory_moves_the_spool_and_loses_nothing(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one", "first")
    wired.write(state=repr(str(wired.base / "private" / "elsewhere")))
    say(agent, "two", "second")
    assert wired.texts() == ["one", "first", "two", "second"]


def test_policy_of_no_namespace_keeps_and_shows_nothing(wired: Wired) -> None:
    wired.put(TRIP)
    wired.write(namespaces="[]")
    agent = wired.agent()
    assert say(agent, "When is my trip to Chengdu?") == ""
    assert wired.texts() == [TRIP]
