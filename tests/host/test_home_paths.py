"""Whose built-in memory is whose: no two people, no person and chat, no two homes of an agent share one."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom.host import AgentSession, home_paths

HOME = Path("home")


def where(**known: Any) -> Path:
    return home_paths.builtin(HOME, AgentSession("s1", **{"platform": "telegram", **known}))


def apart(*sessions: dict[str, Any]) -> None:
    for one, other in combinations(sessions, 2):
        assert where(**one) != where(**other), (one, other)


OWNERS = HOME / "memories"


def test_owner_at_a_terminal_has_the_files_themselves() -> None:
    assert where(platform="cli") == OWNERS


def test_two_people_are_apart() -> None:
    apart({"user_id": "1"}, {"user_id": "2"}, {"user_id": "1", "platform": "discord"}, {"user_id": "12"}, {})


def test_person_is_the_same_in_every_private_chat_and_session() -> None:
    same = [
        where(user_id="1"),
        where(user_id="1", chat_type="dm", chat_id="9"),
        where(user_id="1", chat_type="private", gateway_session_key="agent:main:telegram:dm:1"),
        where(user_id="1", thread_id="7", session_title="x", user_name="renamed"),
    ]
    assert len(set(same)) == 1


@pytest.mark.parametrize("chat_type", ["group", "channel", "thread", "forum", "supergroup", "DM?"])
def test_shared_chats_are_apart_from_persons_and_from_each_other(chat_type: str) -> None:
    apart(
        {"user_id": "1"},
        {"user_id": "1", "chat_type": chat_type, "chat_id": "1"},
        {"user_id": "1", "chat_type": chat_type, "chat_id": "2"},
        {"user_id": "1", "chat_type": chat_type, "gateway_session_key": "k"},
        {},
    )


def test_everybody_in_a_shared_chat_has_the_same() -> None:
    group = {"chat_type": "group", "chat_id": "5"}
    assert where(user_id="1", **group) == where(user_id="2", **group)


def test_private_chats_known_by_chat_id_alone_are_apart() -> None:
    apart({"chat_id": "1"}, {"chat_id": "2"}, {})
    apart({"chat_id": "1", "chat_type": "dm"}, {"chat_id": "2", "chat_type": "dm"}, {})


def test_private_chats_known_by_their_key_alone_are_apart() -> None:
    apart({"gateway_session_key": "a:b"}, {"gateway_session_key": "a-b"}, {"gateway_session_key": "密"}, {})


def test_shared_chat_never_has_the_owners_memory() -> None:
    assert where(chat_type="group") != OWNERS
    assert where(chat_type="group", user_id="1") not in (OWNERS, where(user_id="1"))


def test_agents_with_different_profiles_are_apart() -> None:
    apart({"user_id": "1"}, {"user_id": "1", "agent_identity": "work"})


_NAME = st.text(max_size=6)
_KNOWN = st.fixed_dictionaries(
    {"user_id": _NAME, "platform": _NAME, "agent_identity": _NAME, "chat_id": _NAME, "gateway_session_key": _NAME}
)


@given(_KNOWN, _KNOWN)
def test_two_people_known_by_id_never_share_files(one: dict[str, str], other: dict[str, str]) -> None:
    if one["user_id"] and other["user_id"]:
        same = all(one[name] == other[name] for name in ("agent_identity", "platform", "user_id"))
        assert (where(**one) == where(**other)) == same


@given(_KNOWN, st.sampled_from(["", "dm", "group"]))
def test_no_name_leads_out_of_the_home(known: dict[str, str], chat_type: str) -> None:
    place = where(chat_type=chat_type, **known)
    assert place == OWNERS or (place.parent == OWNERS and place.name.replace("-", "").isalnum())


def test_journal_is_in_the_home() -> None:
    assert home_paths.journals(HOME) == HOME / "memory-journal"


def test_id_of_one_kind_is_never_the_same_id_of_another(tmp_path: Path) -> None:
    known: list[dict[str, Any]] = [
        {"user_id": "7"},
        {"user_id": "9", "user_id_alt": "7"},
        {"gateway_session_key": "7"},
        {"chat_id": "7"},
        {"chat_id": "7", "chat_type": "group"},
        {"gateway_session_key": "7", "chat_type": "group"},
        {"chat_type": "group"},
    ]
    homes = [home_paths.builtin(tmp_path, AgentSession("s", **one)) for one in known]
    assert len({*homes, tmp_path / "memories"}) == len(known) + 1
    assert home_paths.builtin(tmp_path, AgentSession("other", chat_type="group")) not in homes
