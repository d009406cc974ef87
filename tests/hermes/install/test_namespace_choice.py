"""Where a text goes: the chat's mapping before the profile's namespace, before the rules, before the default."""

from __future__ import annotations

from pathlib import Path

import pytest

from strongroom import routing
from strongroom.hermes import namespace_choice, policy
from strongroom.hermes.namespace_choice import route_text
from tests.cli.conftest import Cli

RULES = routing.default_rules()
FLIGHT, PLAIN = "my flight leaves at nine", "just words"
MAPPED = '[chats]\n"slack:C1" = "work"\n'


@pytest.mark.requirement("hermes-placing")
@pytest.mark.parametrize(
    ("text", "said", "where", "expected", "rule"),
    [
        (MAPPED, FLIGHT, ("slack", "C1"), "work", namespace_choice.BY_CHAT),
        (f'namespace = "family"\n{MAPPED}', FLIGHT, ("slack", "C1"), "work", namespace_choice.BY_CHAT),
        (f'namespace = "family"\n{MAPPED}', FLIGHT, ("slack", "C2"), "family", namespace_choice.BY_PROFILE),
        (f'namespace = "family"\n{MAPPED}', FLIGHT, ("telegram", "C1"), "family", namespace_choice.BY_PROFILE),
        (MAPPED, FLIGHT, ("telegram", "C1"), "travel", "trip"),
        (MAPPED, FLIGHT, (None, None), "travel", "trip"),
        (MAPPED, PLAIN, ("slack", None), "personal", ""),
        ('[routing]\ndefault = "work"\n', FLIGHT, (None, None), "work", ""),
        ("", PLAIN, (None, None), "personal", ""),
    ],
)
def test_first_that_applies_decides(
    text: str, said: str, where: tuple[str | None, str | None], expected: str, rule: str
) -> None:
    found = route_text(policy.read(text), RULES, said, *where)
    assert (found.namespace, found.rule) == (expected, rule)


def test_chat_without_a_platform_is_mapped_to_nothing() -> None:
    assert route_text(policy.read(MAPPED), RULES, PLAIN, None, "C1").namespace == "personal"
    assert route_text(policy.read(MAPPED), RULES, PLAIN, "slack:C1", "").namespace == "personal"


# `strongroom route`.


def test_route_refuses_a_home_that_is_none_and_a_policy_that_is_broken(cli: Cli, home: Path) -> None:
    assert cli("route", PLAIN, "--home", str(home / "none"), "--json").reason == "invalid_request"
    (home / "strongroom.toml").write_text("nonsense = 1\n")
    assert cli("route", PLAIN, "--home", str(home), "--json").reason == "invalid_request"
    assert cli("route", PLAIN, "--profile", "default", "--json").reason == "invalid_request"


def test_route_takes_one_profile_only(cli: Cli, hermes: Path) -> None:
    (hermes / "profiles" / "coder").mkdir(parents=True)
    assert cli("route", PLAIN, "--profile", "all", "--json").reason == "usage"


@pytest.mark.requirement("hermes-placing")
def test_route_explains_with_the_policy_of_a_home(cli: Cli, hermes: Path) -> None:
    (hermes / "strongroom.toml").write_text(MAPPED)
    coder = hermes / "profiles" / "coder"
    coder.mkdir(parents=True)
    (coder / "strongroom.toml").write_text('profile = "coder"\nnamespace = "work"\n')
    mapped = cli("route", FLIGHT, "--home", str(hermes), "--platform", "slack", "--chat", "C1", "--json")
    assert mapped.json == {"namespace": "work", "rule": namespace_choice.BY_CHAT, "matched": "slack:C1"}
    profiled = cli("route", FLIGHT, "--profile", "coder", "--json")
    assert profiled.json == {"namespace": "work", "rule": namespace_choice.BY_PROFILE, "matched": "coder"}
    assert cli("route", FLIGHT, "--profile", "default", "--json").json["rule"] == "trip"
    assert cli("route", FLIGHT, "--platform", "slack", "--chat", "C1", "--json").json["rule"] == "trip"
    for where in (("--profile", "coder"), ("--profile", "default", "--platform", "slack", "--chat", "C1")):
        assert "policy" in cli("route", FLIGHT, *where).out
