"""Identity: which peer a user is, that no two users are one, and what a cached agent must be rebuilt for."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError, replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.host.agent_session import AgentSession
from strongroom.host.user_identity import KEYS, Identity

NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
USER = st.text(st.sampled_from("ab17_-:@ AB用é\ud800") | st.characters(), min_size=1, max_size=8) | st.sampled_from(
    ["eri", "Eri", "hermes", "tg_7", "7", "a_b", "7" * 120]
)
PREFIX = st.sampled_from(["", "tg_", "tg-", "tg", "a_", "a_b_", "a--", "用户:", "TG_", "_"])


# Refused


@pytest.mark.parametrize(
    "settings",
    [
        {"peer": "eri"},
        {"peername": "eri"},
        {"api_key": "s3cret"},
        {7: "eri"},
        {"peer_name": 7},
        {"peer_name": None},
        {"peer_name": "  "},
        {"ai_peer": ["hermes"]},
        {"runtime_peer_prefix": 7},
        {"pin_user_peer": "yes", "peer_name": "eri"},
        {"pin_user_peer": 1, "peer_name": "eri"},
        {"pin_user_peer": True},
        {"user_peer_aliases": ["eri"]},
        {"user_peer_aliases": {8439114563: "eri"}},
        {"user_peer_aliases": {"": "eri"}},
        {"user_peer_aliases": {"7": ""}},
        {"user_peer_aliases": {"7": " "}},
        {"user_peer_aliases": {"7": None}},
        {"peer_name": "hermes"},
        {"ai_peer": "eri", "user_peer_aliases": {"7": "eri"}},
        {"peer_name": "eri", "peerName": "eri"},
        {"pinUserPeer": False, "pinPeerName": False},
        ["peer_name"],
        "eri",
        None,
    ],
    ids=repr,
)
def test_settings_that_say_nothing_clear_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Identity.parse(settings)
    assert refused.value.reason == "invalid_request"


def test_unknown_key_is_named_with_the_keys_there_are_and_its_value_is_not_shown() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Identity.parse({"peer_name": "eri", "apiKey": "s3cret-value"})
    assert "apiKey" in refused.value.message
    assert all(key in refused.value.hint for key in KEYS)
    assert "s3cret" not in refused.value.message + refused.value.hint


def test_nobody_is_made_up_when_nothing_is_known() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Identity().peer()
    assert refused.value.hint


def test_settings_cannot_be_changed_afterwards_neither_by_who_made_them() -> None:
    aliases = {"7": "eri"}
    identity = Identity(user_peer_aliases=aliases)
    aliases["8"] = "eri"
    assert identity.peer("8") == "8"
    with pytest.raises(FrozenInstanceError):
        identity.peer_name = "ana"  # type: ignore[misc]
    with pytest.raises(TypeError):
        identity.user_peer_aliases["8"] = "eri"  # type: ignore[index]


# Settings


def test_both_spellings_are_read() -> None:
    snake = {
        "peer_name": "eri",
        "ai_peer": "helper",
        "pin_user_peer": True,
        "user_peer_aliases": {"7": "ana"},
        "runtime_peer_prefix": "tg_",
    }
    spellings = ["peerName", "aiPeer", "pinUserPeer", "userPeerAliases", "runtimePeerPrefix"]
    camel = dict(zip(spellings, snake.values(), strict=True))
    older = {("pinPeerName" if key == "pinUserPeer" else key): value for key, value in camel.items()}
    assert Identity.parse(snake) == Identity.parse(camel) == Identity.parse(older)
    assert Identity.parse(snake) == Identity("eri", "helper", True, {"7": "ana"}, "tg_")


def test_no_settings_are_the_defaults_and_equal_settings_are_one() -> None:
    assert Identity.parse({}) == Identity()
    assert len({Identity(user_peer_aliases={"7": "ana"}), Identity(user_peer_aliases={"7": "ana"})}) == 1


# The ladder


def test_first_rule_that_applies_decides() -> None:
    ladder = Identity(
        "eri", pin_user_peer=True, user_peer_aliases={"7": "ana", "uuid": "ben"}, runtime_peer_prefix="tg_"
    )
    unpinned = replace(ladder, pin_user_peer=False)
    by_id = replace(unpinned, user_peer_aliases={})
    assert ladder.peer("7", "uuid", session_key="k") == "eri"
    assert unpinned.peer("7", "uuid", session_key="k") == "ana"
    assert unpinned.peer("8", "uuid", session_key="k") == "ben"
    assert by_id.peer("7", "uuid", session_key="k") == "tg_7"
    assert replace(by_id, runtime_peer_prefix="").peer("7", "uuid", session_key="k") == "7"
    assert by_id.peer(session_key="k") == "eri"
    assert re.fullmatch("agent-main--[0-9a-f]{16}", Identity().peer(session_key="agent:main"))


def test_session_says_who_is_served() -> None:
    identity = Identity(user_peer_aliases={"7": "ana", "uuid": "ben"})
    assert identity.peer_of(AgentSession("s1", user_id="7")) == "ana"
    assert identity.peer_of(AgentSession("s1", user_id="8", user_id_alt="uuid")) == "ben"
    chat = AgentSession("s1", gateway_session_key="agent:main:telegram:dm:7")
    assert identity.peer_of(chat) == identity.peer_of(replace(chat, id="s2"))
    assert identity.peer_of(AgentSession("s1")) != identity.peer_of(AgentSession("s2"))
    assert replace(identity, peer_name="eri").peer_of(AgentSession("s1")) == "eri"


def test_names_the_owner_wrote_stay_as_written_or_get_a_hash() -> None:
    assert Identity("Eri-B").peer() == "Eri-B"
    for odd in ("用户", "eri b", "eri--b", "-", "e" * 101, "eri\n"):
        assert re.fullmatch("[A-Za-z0-9_-]{1,82}--[0-9a-f]{16}", Identity(odd).peer())
    assert Identity("用户").peer() != Identity("客户").peer()


# No two users are one


def test_stranger_called_like_the_owner_the_assistant_or_an_alias_is_somebody_else() -> None:
    identity = Identity("Eri", user_peer_aliases={"7": "ana"})
    peers = [identity.peer(one) for one in ("eri", "Eri", "ana", "hermes", "7", "8")]
    assert len({*(one.lower() for one in peers), "eri", identity.assistant()}) == 8
    assert all(re.search("--[0-9a-f]{16}$", one) for one in peers[:4])


def test_alias_joins_users_and_also_an_id_that_is_spelt_like_the_name() -> None:
    identity = Identity("eri", user_peer_aliases={"7": "eri", "8": "eri", "eri": "eri"})
    assert {identity.peer("7"), identity.peer("8"), identity.peer("eri"), identity.peer()} == {"eri"}


def test_name_behind_the_prefix_that_the_owner_wrote_for_somebody_else_is_not_given_out() -> None:
    identity = Identity("tg_7", runtime_peer_prefix="tg_")
    assert identity.peer() == "tg_7"
    assert identity.peer("7") != "tg_7"
    assert identity.peer("8") == "tg_8"


def test_user_whose_second_id_alone_is_known_is_neither_the_owner_nor_who_has_it_as_first_id() -> None:
    identity = Identity("eri")
    assert len({identity.peer(), identity.peer("7"), identity.peer("", "7")}) == 3
    assert len({identity.peer(), identity.peer("U7"), identity.peer("", "U7")}) == 3


def test_prefix_and_id_never_read_as_another_prefix_and_id() -> None:
    pairs = [
        ("a_", "b_1"),
        ("a_b_", "1"),
        ("", "a_b_1"),
        ("a", "b1"),
        ("ab", "1"),
        ("", "ab1"),
        ("a-", "1"),
        ("", "a-1"),
    ]
    assert len({Identity(runtime_peer_prefix=prefix).peer(user) for prefix, user in pairs}) == len(pairs)


@given(st.lists(USER, min_size=2, max_size=12, unique=True), PREFIX, st.dictionaries(USER, USER, max_size=3))
@example(["tg_7", "7"], "tg_", {})
@example(["eri", "Eri"], "", {"7": "eri"})
@example(["7", "8"], "", {"9": "7"})
def test_two_users_are_one_peer_only_if_an_alias_says_so(
    users: list[str], prefix: str, aliases: dict[str, str]
) -> None:
    meant = {user: name for user, name in aliases.items() if name.strip() and name not in ("hermes", "owner")}
    identity = Identity("owner", user_peer_aliases=meant, runtime_peer_prefix=prefix if prefix.strip() else "")
    for left, right in combinations(users, 2):
        joined = left in meant and meant[left] == meant.get(right)
        assert (identity.peer(left) == identity.peer(right)) == joined
    for user in users:
        assert NAME.fullmatch(identity.peer(user))
        assert identity.peer(user) not in (identity.peer(), identity.assistant())


@given(st.lists(st.tuples(PREFIX, USER), min_size=2, max_size=12, unique=True))
def test_users_of_runtimes_with_different_prefixes_stay_apart(pairs: list[tuple[str, str]]) -> None:
    # The same name of the assistant everywhere, and no other names: only ids and prefixes are compared.
    peers = [Identity(runtime_peer_prefix=prefix).peer(user) for prefix, user in pairs]
    assert len(set(peers)) == len(pairs)


# The signature


@pytest.mark.requirement("identity-keys")
def test_signature_has_the_five_keys_of_the_provider_and_json_values() -> None:
    identity = Identity("eri", "helper", False, {"8": "ben", "7": "ana"}, "tg_")
    assert identity.signature("notes") == {
        "notes.peer_name": "eri",
        "notes.ai_peer": "helper",
        "notes.pin_user_peer": False,
        "notes.user_peer_aliases": [["7", "ana"], ["8", "ben"]],
        "notes.runtime_peer_prefix": "tg_",
    }
    assert json.loads(json.dumps(identity.signature("notes"))) == identity.signature("notes")


@pytest.mark.requirement("identity-keys")
def test_signature_does_not_depend_on_the_order_of_settings() -> None:
    one = Identity.parse({"peerName": "eri", "userPeerAliases": {"7": "ana", "8": "ben"}})
    two = Identity.parse({"user_peer_aliases": {"8": "ben", "7": "ana"}, "peer_name": "eri"})
    assert json.dumps(one.signature("notes")) == json.dumps(two.signature("notes"))


@pytest.mark.requirement("identity-keys")
@pytest.mark.parametrize(
    "edit",
    [
        {"peer_name": "ana"},
        {"ai_peer": "helper"},
        {"pin_user_peer": True},
        {"user_peer_aliases": {"7": "ben"}},
        {"runtime_peer_prefix": "tg_"},
    ],
    ids=KEYS,
)
def test_edit_of_any_of_the_five_changes_its_own_key_of_the_signature(edit: dict[str, Any]) -> None:
    before = Identity("eri", user_peer_aliases={"7": "ana"})
    old, new = before.signature("notes"), replace(before, **edit).signature("notes")
    assert [key for key in old if old[key] != new[key]] == [f"notes.{next(iter(edit))}"]
