"""People with ids of two kinds: two spaces that never meet, and one memory for each person."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.hermes import policy as policies
from strongroom.hermes.provider.user_accounts import FILE, ID_KEY, Accounts
from tests.hermes.provider.conftest import SCOPE, Served, Wired, say
from tests.hermes.provider.people import said

BOTH = {"platform": "signal", "user_id": "+1", "user_id_alt": "uuid-1", "chat_id": "1", "chat_type": "dm"}
PLAIN = {**BOTH, "user_id_alt": ""}
STABLE = {**BOTH, "user_id": ""}


def person(held: Accounts, user_id: str = "", alt: str = "") -> str:
    return "/".join(held.person("signal", user_id, alt))


@pytest.mark.requirement("hermes-ids-apart")
def test_ids_of_two_kinds_never_meet(tmp_path: Path) -> None:
    held = Accounts(tmp_path)
    ids = [("x", ""), ("", "x"), ("alt/x", ""), ("alt:x", ""), ("id x", "")]
    assert len({held.person("signal", *one) for one in ids}) == len(ids)
    assert person(held, "y", "x") == person(held, alt="x")


@pytest.mark.requirement("hermes-ids-joined")
@pytest.mark.parametrize(
    "order",
    [
        [("+1", ""), ("+1", "a"), ("", "a")],
        [("+1", "a"), ("+1", ""), ("", "a")],
        [("+1", "a"), ("+2", "a"), ("+2", ""), ("", "a")],
        [("", "a"), ("+1", "a"), ("+1", "")],
    ],
)
def test_person_stays_one_when_an_id_appears_changes_or_vanishes(tmp_path: Path, order: list[tuple[str, str]]) -> None:
    found = {person(Accounts(tmp_path), *ids) for ids in order}
    assert len(found) == 1


@pytest.mark.requirement("hermes-ids-apart")
def test_number_that_is_given_to_somebody_else_does_not_open_the_first_ones_memory(tmp_path: Path) -> None:
    held = Accounts(tmp_path)
    first, second = person(held, "+1", "a"), person(held, "+1", "b")
    assert first != second
    assert person(held, "+1") == second, "it was last seen with them"
    assert person(held, "+2", "a") == person(held, alt="a") == first


def test_two_processes_share_what_is_on_record(tmp_path: Path) -> None:
    one, other = Accounts(tmp_path), Accounts(tmp_path)
    person(one, "+1", "a")
    person(other, "+2", "b")
    person(one, "+3", "c")
    assert set(json.loads((tmp_path / FILE).read_bytes())["platforms"]["signal"]) == {"alt a", "alt b", "alt c"}
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_user_id_alone_is_not_on_record(tmp_path: Path) -> None:
    assert person(Accounts(tmp_path), "+1") == "+1"
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"platforms": 1}'])
def test_damaged_record_is_said_and_nobodys_memory_is_opened(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / FILE).write_bytes(damage)
    with pytest.raises(KeyUnavailable):
        person(Accounts(tmp_path), "+1", "a")


# A home in which 0.1 kept turns: a stable id was an actor's name as it stands.


def old(tmp_path: Path, *with_lines: str) -> Accounts:
    (tmp_path / ID_KEY).write_bytes(b"k" * 32)
    return Accounts(tmp_path, lambda _, name: name in with_lines)


@pytest.mark.requirement("hermes-ids-joined")
def test_stable_id_keeps_the_memory_that_the_version_before_gave_it(tmp_path: Path) -> None:
    held = old(tmp_path, "a")
    assert person(held, "+1", "a") == person(held, alt="a") == person(held, "+1") == person(held, "+2", "a") == "a"


@pytest.mark.requirement("hermes-ids-apart")
def test_user_id_spelled_like_an_old_stable_id_is_somebody_else_whoever_comes_first(tmp_path: Path) -> None:
    held = old(tmp_path, "a")
    assert person(held, "+1", "a") == "a"
    assert person(held, "a") == person(held, "a", "b") == "id/a"
    (tmp_path / FILE).unlink()
    held = old(tmp_path, "a")
    assert person(held, "a") == "a"
    assert person(held, "+1", "a") == "+1"


def test_new_person_in_an_old_home_is_met_as_anywhere(tmp_path: Path) -> None:
    assert person(old(tmp_path, "a"), "+2", "b") == "+2"


def test_unknown_accounts_are_not_on_record(tmp_path: Path) -> None:
    (tmp_path / ID_KEY).write_bytes(b"k" * 32)
    assert person(Accounts(tmp_path), "+1", "a") == "a"
    assert not (tmp_path / FILE).exists()


# Through the gate.


@pytest.mark.requirement("hermes-ids-joined")
@pytest.mark.parametrize("first", [BOTH, PLAIN, STABLE])
@pytest.mark.parametrize("then", [BOTH, PLAIN, STABLE])
def test_lines_said_under_one_id_are_recalled_under_the_other(
    wired: Wired, first: dict[str, str], then: dict[str, str]
) -> None:
    if {bool(first["user_id_alt"]), bool(then["user_id_alt"])} != {True}:
        wired.agent("met", **BOTH)  # by which both ids are known
    elif STABLE not in (first, then):
        return
    say(wired.agent("a", **first), "My trip to Chengdu is on May 25")
    wired.forget_process()
    assert "Chengdu" in wired.agent("b", **then).prefetch("When is my trip to Chengdu?")


@pytest.mark.requirement("hermes-ids-joined")
def test_home_of_the_version_before_recalls_under_the_stable_id(either: Wired) -> None:
    either.put("Trip to Chengdu on May 25", actor=f"{SCOPE}signal/uuid-1")
    (either.state).mkdir(parents=True, exist_ok=True)
    (either.state / ID_KEY).write_bytes(b"k" * 32)
    assert "Chengdu" in either.agent("b", **BOTH).prefetch("When is the trip to Chengdu?")
    assert "Chengdu" in either.agent("c", **PLAIN).prefetch("When is the trip to Chengdu?")


def test_name_of_the_version_before_is_taken_while_the_server_is_away(remote: Served) -> None:
    remote.state.mkdir(parents=True, exist_ok=True)
    (remote.state / ID_KEY).write_bytes(b"k" * 32)
    remote.stop()
    say(remote.agent("a", **BOTH), "My trip to Chengdu is on May 25")
    remote.start()
    say(remote.agent("b", **BOTH), "hello")
    assert said(remote, f"{SCOPE}signal/uuid-1") == ["My trip to Chengdu is on May 25", "hello"]


@pytest.mark.requirement("hermes-forged-ids")
@pytest.mark.parametrize("table", ['me = ["irc:alice"]', '[people.aliases]\nann = ["raft:bridge"]'])
def test_account_that_anybody_may_take_cannot_be_joined(table: str) -> None:
    with pytest.raises(InvalidRequest):
        policies.read(f"[people]\n{table}")
    assert policies.read(f"[people]\nunproven = []\n{table}").unproven == frozenset()
