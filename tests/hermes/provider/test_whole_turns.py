"""A turn is forgotten whole: what both said, what tools and other agents wrote in it, and the runtime's own notes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strongroom.hermes.provider import StrongroomProvider, turn_ids
from strongroom.hermes.provider.model_tools import FORGET, REMEMBER
from strongroom.model import Millis, moment
from tests.hermes.provider.conftest import DM, GROUP, OWNER, SCOPE, Served, Wired, history, say

pytestmark = pytest.mark.requirement("hermes-turn-whole")
CODE = "My gym code is 5521"
FACT = "Gym code: 5521"
NOTE = "The gym code is 5521."


def call(agent: StrongroomProvider, name: str, **args: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(agent.handle_tool_call(name, args))
    return found


def rich(wired: Wired, agent: StrongroomProvider) -> list[str]:
    """A turn in which everything writes that may, and the ids of its lines."""
    before = {line.id for line in wired.lines()}
    agent.on_turn_start(1, CODE)
    agent.prefetch(CODE)
    call(agent, REMEMBER, text=FACT)
    agent.on_memory_write("add", "user", NOTE)
    agent.on_delegation("check the gym", "It opens with 5521.")
    agent.sync_turn(CODE, "I noted 5521.", session_id="s1", messages=history(CODE))
    return [line.id for line in wired.lines() if line.id not in before]


@pytest.fixture
def full(either: Wired) -> Wired:
    either.write(tools='"full"')
    return either


# Refusals.


def test_turn_of_somebody_else_is_refused_like_one_that_never_was(full: Wired) -> None:
    ids = rich(full, full.agent())
    texts = full.texts()
    for told in (DM, GROUP):
        agent = full.agent(**told)
        foreign = call(agent, FORGET, ids=[ids[0]])
        unknown = call(agent, FORGET, ids=["01JABCDEFGHJKMNPQRSTVWXYZ0"])
        assert foreign["forgotten"] == unknown["forgotten"] == []
        assert foreign.keys() == unknown.keys()
        assert (foreign["lines"], foreign["not_found"]) == (0, [ids[0]])
    assert full.texts() == texts


def test_turn_takes_nothing_of_the_turns_beside_it_and_of_other_conversations(full: Wired) -> None:
    other = full.agent("other")
    say(other, "from another conversation", "ok")
    agent = full.agent()
    say(agent, "before", "ok")
    rich(full, agent)
    other.on_turn_start(2, "meanwhile")
    call(other, REMEMBER, text="Another fact")
    other.sync_turn("meanwhile", "ok", session_id="other")
    agent.on_session_switch("s1", rewound=True)
    assert set(full.texts()) == {"from another conversation", "before", "ok", "meanwhile", "Another fact"}


def test_note_that_an_earlier_turn_wrote_stays_when_a_later_one_repeats_it(full: Wired) -> None:
    agent = full.agent()
    agent.on_turn_start(1, "first")
    agent.on_memory_write("add", "user", NOTE)
    agent.sync_turn("first", "ok", session_id="s1")
    agent.on_turn_start(2, "second")
    agent.on_memory_write("add", "user", NOTE)
    agent.sync_turn("second", "ok", session_id="s1")
    agent.on_session_switch("s1", rewound=True)
    assert full.texts() == ["first", "ok", NOTE] or sorted(full.texts()) == sorted(["first", "ok", NOTE])


def test_memory_files_that_are_imported_belong_to_no_turn(wired: Wired) -> None:
    place = wired.path / "memories" / "USER.md"
    place.parent.mkdir()
    place.write_text("Lives in Berlin.")
    agent = wired.agent()
    say(agent, "hello", "hi")
    agent.on_session_switch("s1", rewound=True)
    assert wired.texts() == ["Lives in Berlin."]


# What takes a turn takes all of it.


def test_everything_that_is_written_in_a_turn_shares_its_name(full: Wired) -> None:
    ids = rich(full, full.agent())
    assert len(ids) == 5
    assert len({turn_ids.turn_of(one) for one in ids}) == 1
    say(full.agent("s2"), "something else", "ok")
    assert len({turn_ids.turn_of(line.id) for line in full.lines()}) == 2


@pytest.mark.requirement("hermes-undo")
def test_undo_takes_what_tools_wrote_in_the_turn_and_says_how_much(full: Wired) -> None:
    agent = full.agent()
    say(agent, "keep me", "ok")
    rich(full, agent)
    agent.on_session_switch("s1", rewound=True)
    assert full.texts() == ["keep me", "ok"]
    assert any("5 lines" in warning for warning in full.warnings)


@pytest.mark.requirement("hermes-undo")
def test_undo_after_a_restart_takes_what_tools_wrote_in_the_turn(full: Wired) -> None:
    rich(full, full.agent())
    full.forget_process()
    full.agent().on_session_switch("s1", rewound=True)
    assert full.texts() == []


@pytest.mark.parametrize("which", range(5))
def test_tool_forgets_the_whole_turn_of_any_of_its_lines(full: Wired, which: int) -> None:
    agent = full.agent()
    say(agent, "keep me", "ok")
    ids = rich(full, agent)
    done = call(full.agent("s2"), FORGET, ids=[ids[which]])
    assert sorted(done["forgotten"]) == sorted(ids)
    assert done["lines"] == 5
    assert full.texts() == ["keep me", "ok"]


def test_tool_forgets_the_last_turn_whole(full: Wired) -> None:
    agent = full.agent()
    rich(full, agent)
    agent.on_turn_start(2, "that was too much")
    assert call(agent, FORGET, last_turn=True)["lines"] == 5
    assert full.texts() == []


def test_turn_is_found_by_a_line_that_is_gone_already(full: Wired) -> None:
    ids = rich(full, full.agent())
    token = full.vault.mint(actor=OWNER, ops=["forget"], namespaces=full.vault.namespaces, ttl=60)
    full.vault.memory(token).forget(ids=[ids[0]])
    assert call(full.agent("s2"), FORGET, ids=[ids[0]])["lines"] == 4
    assert full.texts() == []


def test_line_of_an_earlier_version_goes_with_its_reply(full: Wired) -> None:
    """Its ids share no name: what was said and its reply are one turn by their moment."""
    said = old(full, 0, "an old word", "user")
    old(full, 1, "an old reply", "assistant")
    old(full, 2, "the next word", "user")
    assert call(full.agent(), FORGET, ids=[said])["lines"] == 2
    assert full.texts() == ["the next word"]


def old(wired: Wired, after: int, text: str, author: str) -> str:
    """A line as an earlier version kept it: all of its id behind the moment is a hash."""
    began = Millis(1_779_440_000_000 + after)
    made = turn_ids.line_id(b"k" * 32, began, text)
    return wired.put(text, author=author, kind="turn", session="old", time=moment(began), id=made)


# In one that is not over, and where the vault is out of reach.


def test_writings_of_a_turn_undone_before_it_is_told_go_and_nothing_comes_after_it(
    full: Wired,
) -> None:
    agent = full.agent()
    say(agent, "keep me", "ok")
    agent.on_turn_start(2, CODE)
    call(agent, REMEMBER, text=FACT)
    agent.on_session_switch("s1", rewound=True)
    assert call(agent, REMEMBER, text="the code again")["kept"] is False
    agent.sync_turn(CODE, "ok", session_id="s1")
    assert full.texts() == ["keep me", "ok"]


def test_turn_that_is_undone_while_the_server_is_down_is_forgotten_whole_when_it_is_back(remote: Served) -> None:
    remote.write(tools='"full"')
    agent = remote.agent()
    say(agent, "keep me", "ok")
    rich(remote, agent)
    remote.stop()
    agent.on_session_switch("s1", rewound=True)
    remote.start()
    remote.forget_process()
    remote.agent("s2")
    assert remote.texts() == ["keep me", "ok"]


def test_waiting_part_of_a_turn_is_forgotten_with_it(remote: Served) -> None:
    remote.write(tools='"full"')
    agent = remote.agent()
    say(agent, "keep me", "ok")
    remote.stop()
    agent.on_turn_start(2, CODE)
    call(agent, REMEMBER, text=FACT)
    agent.sync_turn(CODE, "ok", session_id="s1")
    remote.start()
    agent.on_session_switch("s1", rewound=True)
    remote.forget_process()
    remote.agent("s2")
    assert remote.texts() == ["keep me", "ok"]


def test_note_is_found_by_its_hash_whatever_its_turn(wired: Wired) -> None:
    """Also one of an earlier version, of whose id the last half was the same hash."""
    agent = wired.agent()
    agent.on_turn_start(1, "one")
    agent.on_memory_write("add", "user", NOTE)
    agent.on_turn_start(2, "two")
    agent.on_memory_write("add", "user", NOTE)
    assert wired.texts().count(NOTE) == 1
    key = wired.home.parts.id_key
    what = (OWNER, "fact hermes user", "", "0", "0", NOTE)
    (line,) = [line for line in wired.lines() if line.text == NOTE]
    assert turn_ids.hash_of(turn_ids.line_id(key, turn_ids.time_of(line.id), *what)) == turn_ids.hash_of(line.id)


def test_two_people_may_have_turns_at_one_moment(wired: Wired) -> None:
    first, second = wired.agent("a"), wired.agent("b")
    assert first._session is not None
    assert second._session is not None
    first.on_turn_start(1, "one")
    second.on_turn_start(1, "two")
    begun = (first._session.turns.last, second._session.turns.last)
    assert begun[0] is not None
    assert begun[1] is not None
    begun[1].time, begun[1].tag = begun[0].time, b""
    first.sync_turn("one", "ok", session_id="a")
    second.sync_turn("two", "ok", session_id="b")
    first.on_session_switch("a", rewound=True)
    assert [text for text in wired.texts() if text != "ok"] == ["two"]


def test_hostile_name_of_a_turn_in_the_spool_forgets_nothing(remote: Served) -> None:
    remote.agent()
    remote.put("stays")
    remote.home.parts.spool.add_forgetting(f"{SCOPE}owner", [], 1, [""])  # type: ignore[arg-type]
    remote.forget_process()
    remote.agent("s2")
    assert remote.texts() == ["stays"]
