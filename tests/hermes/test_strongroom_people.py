"""Each person's memory is their own: in direct messages, in shared threads and behind the API server of one gateway.

In Hermes' real gateway, several people in one process; only the platform has no network.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strongroom import actor_path
from tests.hermes import rig_agent, rig_api, rig_gateway
from tests.hermes.model_server import ToolCall
from tests.hermes.rig_gateway import GatewayProcess
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import OWNER, Wired, ids, in_clear, wired

ALICE, BOB = "hermes/default/telegram/alice", "hermes/default/telegram/bob"
THREAD = actor_path("hermes", "default", "telegram", "chat", "-5", "77")
KEYS = "hermes/default/api_server/key/"


def _in_thread(gateway: GatewayProcess, person: str, text: str, reply: str | None = None) -> None:
    gateway.say(person, text, chat="-5", kind="group", thread="77", reply=reply)


def _everything_told_after(home: Wired, marker: str) -> str:
    """Every request to the model from the first one in which this was said."""
    requests = [json.dumps(one, ensure_ascii=False) for one in home.rig.model.requests_seen()]
    first = next(place for place, one in enumerate(requests) if marker in one)
    return "\n".join(requests[first:])


@pytest.mark.requirement("hermes-people-apart", "hermes-authors")
def test_two_people_and_their_shared_thread_never_see_each_other_s_private_lines(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, settings=[rig_gateway.CHATS])
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "My locker has the number mimosa-17.", chat="100", reply="Kept: alder-1.")
            gateway.say("bob", "My locker has the number begonia-28.", chat="200", reply="Kept: birch-2.")
            _in_thread(gateway, "alice", "The picnic locker has the number crocus-39.", "Kept: cedar-3.")
            _in_thread(gateway, "bob", "Which number has my locker? Which one has the picnic locker?")
        seen = {"thread": model.seen("Which one has the picnic locker?").everything}
        with rig_gateway.start(home.rig) as gateway:
            for person, chat in (("alice", "100"), ("bob", "200")):
                gateway.say(person, "/new", chat=chat)
                gateway.say(person, f"Which number has a locker, asks {person}?", chat=chat)
                seen[person] = model.seen(f"asks {person}?").everything
            gateway.say("bob", "/new", chat="-5", kind="group", thread="77")
            _in_thread(gateway, "bob", "Which number has the picnic locker, or mine?")
            seen["thread again"] = model.seen("picnic locker, or mine?").everything
        found = {
            where: {word for word in ("mimosa-17", "begonia-28", "crocus-39", "alder-1", "birch-2") if word in text}
            for where, text in seen.items()
        }
        assert found == {
            "thread": {"crocus-39"},
            "alice": {"mimosa-17", "alder-1"},
            "bob": {"begonia-28", "birch-2"},
            "thread again": {"crocus-39"},
        }
        lines = home.owner.lines()
        assert {line.actor for line in lines} <= {ALICE, BOB, THREAD}
        said = [(line.hit.author, line.text) for line in lines if line.actor == THREAD]
        assert ("alice", "The picnic locker has the number crocus-39.") in said
        assert ("assistant", "Kept: cedar-3.") in said
        assert ("bob", "Which number has the picnic locker, or mine?") in said
        assert {line.hit.author for line in lines if line.actor == BOB} == {"bob", "assistant"}


@pytest.mark.requirement("hermes-people-apart")
def test_two_people_who_speak_at_once_are_kept_apart(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, settings=[rig_gateway.CHATS])
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("carol", "Good morning.", chat="300")
            for turn in range(3):
                gateway.together(
                    {"from": "alice", "chat": "100", "text": f"Of alice: anemone-{turn}."},
                    {"from": "bob", "chat": "200", "text": f"Of bob: buttercup-{turn}."},
                )
        assert sum("anemone" in text for text in home.owner.texts(ALICE)) == 3
        assert sum("buttercup" in text for text in home.owner.texts(BOB)) == 3
        assert "buttercup" not in " ".join(home.owner.texts(ALICE))
        assert "anemone" not in " ".join(home.owner.texts(BOB))


@pytest.mark.requirement("hermes-owner-one-person")
def test_the_owner_s_phone_and_terminal_are_one_person_and_a_stranger_with_the_same_number_is_not(
    tmp_path: Path,
) -> None:
    with Model() as model:
        settings = [rig_gateway.chats("telegram", "signal")]
        home = wired(tmp_path / "home", model, "--me", "telegram:123", settings=settings)
        with rig_agent.start(home.rig) as process:
            process.terminal().say("My parking lot has the number peony-50.")
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("Alice", "Which number has my parking lot?", chat="9", id="123")
            gateway.say("Mallory", "And which number has the parking lot?", chat="9", id="123", platform="signal")
        assert "peony-50" in home.told("Which number has my parking lot?")
        assert "peony-50" not in model.seen("And which number has the parking lot?").everything
        assert "hermes/default/signal/123" in {line.actor for line in home.owner.lines()}


@pytest.mark.requirement("hermes-api-keys")
def test_without_a_session_key_nothing_is_recalled_or_kept_and_two_keys_are_two_memories(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, settings=[rig_api.SERVER])
        with rig_api.start(home.rig) as server:
            server.ask("Remember a number for me.", key="webui:alice")
            server.ask("Remember a number for me.", key="webui:bob")
            first = [{"role": "user", "content": "Remember a number for me."}]
            alice = server.ask("My badge has the number lilac-61.", key="webui:alice", before=first)
            bob = server.ask("My badge has the number lupin-72.", key="webui:bob", before=first)
            server.ask("My badge has the number nettle-83.")
            assert alice.session == bob.session, "the same first words are one session to Hermes"
            server.ask("Which number has my badge, asks alice?", key="webui:alice")
            server.ask("Which number has my badge, asks bob?", key="webui:bob", stream=True)
            server.ask("Which number has my badge, asks nobody?")
            told = {name: home.told(f"asks {name}?") for name in ("alice", "bob", "nobody")}
            assert ["lilac-61" in told["alice"], "lupin-72" in told["alice"]] == [True, False]
            assert ["lilac-61" in told["bob"], "lupin-72" in told["bob"]] == [False, True]
            assert told["nobody"] == ""
            assert "nettle-83" not in " ".join(home.owner.texts())
            assert {line.actor.startswith(KEYS) for line in home.owner.lines()} == {True}

            home.write("api_server", shared_as="kiosk")
            server.ask("The lobby has the number orchid-94.")
            server.ask("Which number has the lobby, asks somebody?")
            server.ask("Which number has the lobby, asks alice again?", key="webui:alice")
            assert "orchid-94" in home.told("asks somebody?")
            assert "orchid-94" not in home.told("asks alice again?")


@pytest.mark.requirement("hermes-forget-by-tool", "hermes-policy-holds-next-turn")
def test_a_person_in_a_chat_can_ask_to_forget_and_an_edit_of_the_policy_holds_on_the_next_turn(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, "--tools", "forget", settings=[rig_gateway.CHATS])
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "My spare key is under the geranium.", chat="100")
            gateway.say("bob", "My spare key is under the doormat.", chat="200")
            for person, chat in (("alice", "100"), ("bob", "200")):
                gateway.say(person, "/new", chat=chat)
                gateway.say(person, f"Where is the spare key, asks {person}?", chat=chat)
            (hers, *_), (his, *_) = (ids(home.told(f"asks {person}?")) for person in ("alice", "bob"))
            model.answers("Forget both.", "Done.", ToolCall("strongroom_forget", {"ids": [hers, his]}))
            gateway.say("alice", "Forget both.", chat="100")
            kept = home.owner.texts()
            assert "My spare key is under the geranium." not in kept
            assert "My spare key is under the doormat." in kept, "another's line is not hers to forget"

            before = gateway.agents()
            gateway.say("alice", "Kept, before the edit.", chat="100")
            home.write("keep", turns=False)
            gateway.say("alice", "Not kept, after the edit.", chat="100")
            home.write("keep", turns=True)
            home.write("off_the_record", chats=("telegram:200",))
            gateway.say("bob", "Not kept: this chat is off the record.", chat="200")
            gateway.say("alice", "Kept again, after the second edit.", chat="100")
            assert set(before) <= set(gateway.agents()), "all of it with the agents that Hermes had cached"
        texts = " ".join(home.owner.texts())
        found = [word in texts for word in ("before the edit", "after the edit", "this chat is off", "second edit")]
        assert found == [True, False, False, True]


@pytest.mark.requirement("hermes-gateway-undo", "hermes-no-orphans")
def test_an_undo_in_a_chat_is_noticed_at_the_next_turn_and_commands_leave_no_orphan(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, settings=[rig_gateway.CHATS])
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "The first word is aster.", chat="100")
            gateway.say("alice", "The second word is bluebell.", chat="100", reply="Bluebell it is.")
            gateway.say("alice", "/undo", chat="100")
            gateway.say("alice", "The third word is camellia.", chat="100")
            after_undo = home.owner.texts(ALICE)
            for number in range(3):
                gateway.say("alice", f"More of it: {number}.", chat="100")
            gateway.say("alice", "/compress", chat="100")
            gateway.say("alice", "The fourth word is dahlia.", chat="100")
            gateway.say("alice", "/new", chat="100")
            gateway.say("alice", "The fifth word is erica.", chat="100")
        assert not [text for text in after_undo if "luebell" in text]
        assert {"The first word is aster.", "The third word is camellia."} <= set(after_undo)
        lines = home.owner.lines()
        words = ("aster", "camellia", "dahlia", "erica")
        assert [sum(word in line.text for line in lines) for word in words] == [1, 1, 1, 1]
        assert {line.actor for line in lines} == {ALICE}
        sessions = {session for (session,) in _sessions(home)}
        assert {line.hit.session for line in lines} <= sessions, "every line belongs to a session that said it"
        assert not [line.text for line in lines if "A summary." in line.text or "COMPACTION" in line.text]
        assert in_clear(("camellia", "dahlia"), home.owner.data, home.policy.state) == []
        assert OWNER not in {line.actor for line in lines}


def _sessions(home: Wired) -> list[tuple[str]]:
    from tests.hermes.strongroom_rigs import database

    return database(home.rig, "select id from sessions")
