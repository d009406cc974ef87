"""Who is speaking: whose memory a conversation opens, and when nobody's."""

from __future__ import annotations

from typing import Any

import pytest

import strongroom
from strongroom.hermes import policy as policies
from strongroom.hermes.policy import Policy
from strongroom.hermes.provider.speaker import Conversation, Nobody, Speaker, name_of, who
from tests.hermes.provider.conftest import ALLERGY, OWNER, SCOPE, Wired, say
from tests.hermes.provider.people import said

ROOT = "hermes/default/"


def policy(text: str = "") -> Policy:
    return policies.read(text)


def spoken(text: str = "", **told: Any) -> Speaker | Nobody:
    return who(policy(text), Conversation.told(told))


def actor(text: str = "", **told: Any) -> str:
    found = spoken(text, **told)
    assert isinstance(found, Speaker), found
    return found.actor


# Nobody.


@pytest.mark.requirement("hermes-api-nobody")
def test_request_to_the_api_server_without_a_session_key_is_nobodys() -> None:
    assert isinstance(spoken(platform="api_server"), Nobody)


@pytest.mark.parametrize("platform", ["api_server", "telegram", "webhook", "as", "owner", "API_SERVER"])
def test_platform_that_names_neither_person_nor_chat_is_nobodys(platform: str) -> None:
    assert isinstance(spoken(platform=platform), Nobody)


@pytest.mark.parametrize("context", ["cron", "flush", "compress", "something new"])
@pytest.mark.requirement("hermes-contexts")
def test_words_of_a_clock_or_a_summary_are_nobodys(context: str) -> None:
    assert isinstance(spoken(platform="cli", agent_context=context), Nobody)


@pytest.mark.parametrize("context", ["subagent", "background"])
@pytest.mark.requirement("hermes-contexts")
def test_agent_beside_the_conversation_recalls_and_keeps_nothing(context: str) -> None:
    found = spoken(platform="cli", agent_context=context)
    assert isinstance(found, Speaker)
    assert not found.keeps


def test_shared_chat_that_is_not_named_is_nobodys() -> None:
    """Else all such chats of a platform would be one."""
    assert isinstance(spoken(platform="telegram", chat_type="group", user_id="1"), Nobody)


def test_api_servers_scope_is_for_the_api_server_alone() -> None:
    named = '[api_server]\nshared_as = "web"'
    assert actor(named, platform="api_server") == "hermes/default/api_server/shared/web"
    assert isinstance(spoken(named, platform="telegram"), Nobody)


# People.


@pytest.mark.parametrize("platform", ["cli", "tui", "acp", ""])
def test_command_line_the_terminal_and_an_editor_are_the_local_owner(platform: str) -> None:
    assert actor(platform=platform) == "hermes/default/owner"


@pytest.mark.requirement("hermes-people")
def test_two_people_of_one_platform_are_two_actors_whatever_their_session() -> None:
    one, other = (
        actor(platform="telegram", user_id=user, chat_id=user, chat_type="dm", session_id="api-1")
        for user in ("1", "2")
    )
    assert one == "hermes/default/telegram/1"
    assert other == "hermes/default/telegram/2"


def test_same_number_on_two_platforms_is_two_people() -> None:
    assert actor(platform="telegram", user_id=7) != actor(platform="discord", user_id=7)


@pytest.mark.requirement("hermes-ids-apart")
def test_stable_id_is_never_taken_for_a_user_id_of_the_same_spelling() -> None:
    plain = actor(platform="signal", user_id="x")
    assert actor(platform="signal", user_id_alt="x") == "hermes/default/signal/alt/x" != plain
    assert actor('[people]\nme = ["signal:x"]', platform="signal", user_id="1", user_id_alt="x") != f"{ROOT}owner"
    assert actor('[people]\nme = ["signal:alt:x"]', platform="signal", user_id="alt:x") != f"{ROOT}owner"


@pytest.mark.requirement("hermes-me")
@pytest.mark.parametrize("told", [{"user_id": "123"}, {"user_id": "123", "user_id_alt": "9"}, {"user_id": 123}])
def test_account_that_the_owner_joined_is_the_local_owner(told: dict[str, Any]) -> None:
    assert (
        actor('[people]\nme = ["telegram:123"]', platform="telegram", chat_type="dm", **told) == "hermes/default/owner"
    )


def test_account_is_joined_by_its_stable_id_too() -> None:
    mine = '[people]\nme = ["signal:alt:uuid"]'
    assert actor(mine, platform="signal", user_id="+1", user_id_alt="uuid") == f"{ROOT}owner"


def test_account_is_joined_on_its_own_platform_only() -> None:
    assert actor('[people]\nme = ["telegram:123"]', platform="discord", user_id="123") == "hermes/default/discord/123"


def test_accounts_of_another_person_are_one_actor_and_not_the_owner() -> None:
    text = '[people.aliases]\nbob = ["telegram:2", "discord:3"]'
    found = {actor(text, platform=where, user_id=who_) for where, who_ in (("telegram", "2"), ("discord", "3"))}
    assert found == {"hermes/default/as/bob"}


def test_alias_named_owner_is_refused_or_the_owner_never_a_third() -> None:
    """An alias of the owner's own name cannot make somebody a neighbour of the owner."""
    found = actor('[people.aliases]\nowner = ["telegram:2"]', platform="telegram", user_id="2")
    assert found == "hermes/default/owner"


def test_session_key_of_the_api_server_is_a_person() -> None:
    one, other = (actor(platform="api_server", gateway_session_key=key) for key in ("web:1", "web:2"))
    assert one != other
    assert one == strongroom.actor_path("hermes", "default", "api_server", "key", "web:1")


def test_agent_of_another_name_in_the_home_has_a_part_of_its_own() -> None:
    assert actor(platform="cli", agent_identity="coder") == "hermes/default/for/coder/owner"
    assert actor(platform="cli", agent_identity="default") == "hermes/default/owner"


# Shared chats.


@pytest.mark.parametrize("kind", ["group", "GROUP", "channel", "thread", "forum", "supergroup", "something new"])
@pytest.mark.requirement("hermes-shared")
def test_chat_that_is_not_direct_is_an_actor_of_its_own_even_for_the_owner(kind: str) -> None:
    text = '[people]\nme = ["telegram:1"]'
    found = spoken(text, platform="telegram", user_id="1", chat_id="-5", chat_type=kind)
    assert isinstance(found, Speaker)
    assert found.is_shared
    assert found.actor == strongroom.actor_path("hermes", "default", "telegram", "chat", "-5")


@pytest.mark.parametrize("kind", ["dm", "DM", " private ", "direct", "im"])
def test_direct_chat_is_the_persons_own_in_any_case(kind: str) -> None:
    assert actor(platform="telegram", user_id="1", chat_id="1", chat_type=kind) == "hermes/default/telegram/1"


def test_thread_is_not_the_chat_that_it_is_in() -> None:
    told = {"platform": "telegram", "user_id": "1", "chat_id": "-5", "chat_type": "group"}
    assert actor(**told, thread_id="77") == f"{actor(**told)}/77"


def test_chat_of_unknown_sort_counts_as_shared() -> None:
    found = spoken(platform="telegram", user_id="1", chat_id="-5")
    assert isinstance(found, Speaker)
    assert found.is_shared


@pytest.mark.requirement("hermes-shared")
@pytest.mark.parametrize("platform", ["telegram", "matrix", "", "api_server"])
@pytest.mark.parametrize("kind", ["group", "channel", "thread", "something new"])
def test_session_key_of_a_group_alone_opens_nobodys_private_memory(platform: str, kind: str) -> None:
    found = spoken(platform=platform, user_id="1", gateway_session_key=f"agent:main:telegram:{kind}:-5:1")
    assert isinstance(found, Speaker)
    assert found.is_shared
    assert found.actor != actor(platform="telegram", user_id="1")


@pytest.mark.requirement("hermes-shared")
@pytest.mark.parametrize("key", ["agent:main:telegram:dm", "agent:main:telegram:dmx:5", "x"])
def test_session_key_that_is_not_of_one_direct_chat_counts_as_shared(key: str) -> None:
    found = spoken(platform="telegram", user_id="1", gateway_session_key=key)
    assert isinstance(found, Speaker)
    assert found.is_shared
    direct = spoken(platform="telegram", user_id="1", gateway_session_key="agent:main:telegram:dm:1")
    assert isinstance(direct, Speaker)
    assert not direct.is_shared


def test_id_that_holds_the_sign_of_a_direct_chat_does_not_make_a_group_direct() -> None:
    found = spoken(
        platform="matrix",
        user_id="@x:dm:y",
        chat_id="!room",
        gateway_session_key="agent:main:matrix:group:!room:@x:dm:y",
    )
    assert isinstance(found, Speaker)
    assert found.is_shared


# Names that are meant to be mistaken.


@pytest.mark.requirement("hermes-forged-ids")
def test_no_id_or_platform_passes_for_somebody_else() -> None:
    """One actor for each of these conversations: nobody becomes another by what he is called."""
    told: list[dict[str, Any]] = [
        {"platform": "cli"},
        {"platform": "cli", "user_id": "owner"},
        {"platform": "owner", "user_id": "x"},
        {"platform": "telegram", "user_id": "owner"},
        {"platform": "telegram", "user_id": "chat"},
        {"platform": "telegram", "user_id": "chat/-5"},
        {"platform": "telegram", "user_id": "../owner"},
        {"platform": "telegram", "user_id": "../../default/owner"},
        {"platform": "telegram", "user_id": "key"},
        {"platform": "telegram", "gateway_session_key": "1"},
        {"platform": "telegram", "user_id": "1"},
        {"platform": "telegram", "user_id": "1 1"},
        {"platform": "Telegram", "user_id": "1"},
        {"platform": "telegram", "chat_id": "-5", "chat_type": "group"},
        {"platform": "telegram", "chat_id": "-5", "chat_type": "group", "thread_id": "1"},
        {"platform": "telegram", "chat_id": "-5/1", "chat_type": "group"},
        {"platform": "as", "user_id": "bob"},
        {"platform": "telegram", "user_id": "2"},  # joined as bob below
        {"platform": "for", "user_id": "coder"},
        {"platform": "cli", "agent_identity": "coder"},
        {"platform": "cli", "agent_identity": "coder/owner"},
        {"platform": "telegram", "user_id": "x" * 10_000},
        {"platform": "telegram", "user_id": "x" * 10_001},
        {"platform": "telegram", "user_id": "\ud800"},
        {"platform": "telegram", "user_id": "Ａlice"},
        {"platform": "telegram", "user_id": "Alice"},
        {"platform": "telegram", "user_id": "alice"},
    ]
    found = [actor('[people.aliases]\nbob = ["telegram:2"]', **one) for one in told]
    assert len(set(found)) == len(told)
    assert all(one.startswith("hermes/default/") for one in found)


@pytest.mark.parametrize("user", [True, None, 1.5, ["1"], {"id": 1}])
def test_id_that_is_no_text_or_number_names_nobody(user: object) -> None:
    assert isinstance(spoken(platform="telegram", user_id=user), Nobody)


# Authors.


def test_author_is_the_persons_name_on_one_line() -> None:
    found = spoken(platform="telegram", user_id="1", user_name="Alice\n B\t(work)")
    assert isinstance(found, Speaker)
    assert found.author == "Alice B (work)"


ROLES = [
    "assistant",
    "Assistant",
    "\u0430ssistant",  # Cyrillic a
    "a\u0455\u0455istant",
    "\uff41\uff53\uff53\uff49\uff53\uff54\uff41\uff4e\uff54",  # full width
    "\U0001d5ee\U0001d600\U0001d600\U0001d5f6\U0001d600\U0001d601\U0001d5ee\U0001d5fb\U0001d601",  # mathematical
    "ass1stant",
    "[assistant]:",
    "a s s i s t a n t",
    "assist\u00adant",
    "system",
    "SYSTEM",
    "\u0455\u0443st\u0435m",
    "systern",
    "\u03c5ser",
    "us\u00e9r",
    "\u043ewner",
    "0wner",
    "Hermes\u00a0memory",
    "hermes-user",
    "t\u043e\u043el",
    "".join(chr(0x1F1E6 + ord(one) - 97) for one in "assistant"),
    "".join(chr(0x1F170 + ord(one) - 97) for one in "system"),
    "".join(chr(0x1F150 + ord(one) - 97) for one in "owner"),
    "\ua4ee\ua4e2\ua4e2\ua4f2\ua4e2\ua4d4\ua4ee\ua4e0\ua4d4",
    "us\u13ac\u13d2",
    "\u0561ssistant",
    "\u2c81ssistant",
    "as\ua7a9istant",
    "t\u00f8\u00f8\u0142",
    "t\u0ae6\u0ae6l",
    "t\u3007\u3007l",
    "\u0111eveloper",
    "ovvner",
    "us\u20acr",
    "Human:",
    "a\u20dds\u20dds\u20ddi\u20dds\u20ddt\u20dda\u20ddn\u20ddt\u20dd",
]


@pytest.mark.requirement("hermes-roles")
@pytest.mark.parametrize("name", ROLES)
def test_no_spelling_of_a_name_passes_for_a_role(name: str) -> None:
    found = spoken(platform="telegram", user_id="1", chat_id="-5", chat_type="group", user_name=name)
    assert isinstance(found, Speaker)
    assert found.author == "someone"


@pytest.mark.parametrize(
    "name",
    [
        "\u0410\u0441\u0441\u0438\u0441\u0442\u0435\u043d\u0442",
        "Usher",
        "Ann Owner",
        "Tom",
        "\u0141ukasz",
        "Bj\u00f8rn",
        "\U0001f1e9\U0001f1ea",
        "Agentina",
        "\ua4d4\ua4f3\ua4df",
        "\u738b\u4f1f",
        "\u0645\u062d\u0645\u062f",
    ],
)
def test_name_that_is_no_role_stays(name: str) -> None:
    found = spoken(platform="telegram", user_id="1", user_name=name)
    assert isinstance(found, Speaker)
    assert found.author == name


@pytest.mark.parametrize("name", ["", "a\u0300" + "\u0301" * 40, "a\x00b", "\ud800"])
def test_name_that_no_line_may_hold_is_left_out(name: str) -> None:
    found = spoken(platform="telegram", user_id="1", user_name=name)
    assert isinstance(found, Speaker)
    assert found.author == "user"


@pytest.mark.requirement("hermes-shared")
@pytest.mark.parametrize(
    ("platform", "chat", "is_shared"),
    [("slack", "G0123", True), ("slack", "C0123", True), ("slack", "D0123", False), ("ntfy", "topic", True)],
)
def test_chat_that_several_people_read_is_shared_though_hermes_calls_it_direct(
    platform: str, chat: str, is_shared: bool
) -> None:
    key = f"agent:main:{platform}:dm:{chat}"
    found = who(policies.read(""), Conversation(platform=platform, user_id="u1", chat_id=chat, chat_type="dm", key=key))
    assert isinstance(found, Speaker)
    assert found.is_shared == is_shared


SLACK: dict[str, Any] = {"platform": "slack", "user_id": "UALICE", "chat_type": "dm"}


@pytest.mark.requirement("hermes-shared")
@pytest.mark.parametrize("chat", ["G0123", "C0123", "g0123", "dm0123"])
@pytest.mark.parametrize("joined", ["", '[people]\nme = ["slack:UALICE"]\n'])
def test_slack_conversation_of_several_is_shown_nobodys_own_memory(wired: Wired, chat: str, joined: str) -> None:
    wired.write(joined)
    say(wired.agent("d", **SLACK, chat_id="D1", gateway_session_key="agent:main:slack:dm:D1"), ALLERGY)
    group = wired.agent("g", **SLACK, chat_id=chat, gateway_session_key=f"agent:main:slack:dm:{chat}:17")
    assert group.prefetch("what about my peanut allergy") == ""
    say(group, "We meet at nine")
    alone = OWNER if joined else strongroom.actor_path("hermes", "default", "slack", "UALICE")
    assert said(wired, alone) == [ALLERGY]
    assert said(wired, strongroom.actor_path("hermes", "default", "slack", "chat", chat)) == ["We meet at nine"]


@pytest.mark.requirement("hermes-forged-ids")
@pytest.mark.parametrize("platform", ["irc", "raft"])
def test_direct_chat_where_ids_are_not_proved_opens_nobodys_memory(wired: Wired, platform: str) -> None:
    chat = {"platform": platform, "user_id": "alice", "chat_id": "alice", "chat_type": "dm"}
    wired.put(ALLERGY, "personal", actor=f"{SCOPE}{platform}/alice")
    agent = wired.agent(**chat)
    assert say(agent, "what about my peanut allergy") == ""
    assert said(wired, f"{SCOPE}{platform}/alice") == [ALLERGY]
    wired.write("[people]\nunproven = []")
    assert "peanut" in say(agent, "what about the peanut allergy")


def test_channel_where_ids_are_not_proved_is_a_shared_chat_all_the_same() -> None:
    found = who(policies.read(""), Conversation(platform="irc", user_id="alice", chat_id="#rust", chat_type="channel"))
    assert isinstance(found, Speaker)
    assert found.actor == strongroom.actor_path("hermes", "default", "irc", "chat", "#rust")
    assert isinstance(who(policies.read(""), Conversation(platform="irc", user_id="alice")), Nobody)


@pytest.mark.requirement("hermes-forged-ids")
@pytest.mark.parametrize(
    "name", ["assistant\u200b", "Assi\u00adstant", "\uff41ssistant", "ASSISTANT ", "hermes\u2060 memory"]
)
def test_name_that_looks_like_the_models_is_not_taken(name: str) -> None:
    assert name_of(name) == ""
