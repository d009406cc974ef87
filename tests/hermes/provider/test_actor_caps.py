"""Caps of conversations: narrowed offline to one actor and five minutes, never wider, never revived."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.caps import chain
from strongroom.caps.authority import effective
from strongroom.errors import (
    CapExpired,
    CapMalformed,
    CapMissing,
    CapRevoked,
    Denied,
    InvalidRequest,
    KeyUnavailable,
    StrongroomError,
)
from strongroom.hermes import cap_file
from strongroom.hermes.provider import memory_session
from strongroom.hermes.provider.actor_caps import FRESH, RECALLS, TTL, ActorCaps
from strongroom.model import Actor, Namespace, Op
from tests.hermes.provider.conftest import DM, OWNER, SCOPE, TRIP, Served, Wired, say

NAMES = tuple(map(Namespace, ("personal", "family", "work", "travel")))
ALICE = Actor(f"{SCOPE}telegram/1")


class Watch:
    """A clock that can be moved."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def caps(wired: Wired, watch: Watch) -> ActorCaps:
    return ActorCaps(wired.cap, watch)


def says(token: str) -> chain.Cap:
    return effective(chain.parse(token), "")


# Refusals.


def test_cap_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(CapMissing):
        ActorCaps(tmp_path / "none").runtime()


def test_cap_that_others_can_read_is_refused_also_when_it_was_read_before(caps: ActorCaps) -> None:
    caps.runtime()
    caps.path.chmod(0o644)
    with pytest.raises(KeyUnavailable):
        caps.narrowed(ALICE, NAMES)


@pytest.mark.parametrize("text", ["", "rubbish", "a.b.c", "\xff"])
def test_file_that_holds_no_cap_is_refused(caps: ActorCaps, text: str) -> None:
    caps.path.write_bytes(text.encode("latin-1"))
    with pytest.raises((CapMalformed, CapMissing)):
        caps.narrowed(ALICE, NAMES)


@pytest.mark.requirement("hermes-cap-narrow")
def test_actor_outside_the_runtimes_scope_gets_nothing(wired: Wired, caps: ActorCaps) -> None:
    with pytest.raises(StrongroomError) as refused:
        wired.vault.memory(caps.narrowed(Actor("hermes/other/owner"), NAMES)).get("trip")
    assert refused.value.reason in ("cap_malformed", "cap_limit_exceeded", "invalid_request")


def test_namespaces_that_the_cap_does_not_cover_open_nothing(wired: Wired, caps: ActorCaps) -> None:
    with pytest.raises((Denied, InvalidRequest)):
        wired.vault.memory(caps.narrowed(ALICE, [Namespace("health")])).get("trip")


def test_runtimes_own_cap_opens_nothing(wired: Wired) -> None:
    with pytest.raises(Denied):
        wired.vault.memory(wired.cap.read_text().strip()).get("trip")


# Narrowing.


@pytest.mark.requirement("hermes-cap-narrow")
def test_conversations_cap_names_one_actor_and_lives_five_minutes(caps: ActorCaps) -> None:
    found = says(caps.narrowed(ALICE, NAMES[-1:]))
    assert found.actor == ALICE
    assert found.namespaces == {"travel"}
    assert found.exp - time.time() <= TTL + 1
    assert Op.RENEW not in found.ops
    assert chain.parse(caps.narrowed(ALICE, NAMES)).seed is None  # it cannot be handed on


def test_one_who_only_recalls_gets_no_op_that_writes(caps: ActorCaps) -> None:
    assert says(caps.narrowed(ALICE, NAMES, RECALLS)).ops == {Op.GET, Op.SNAPSHOT}


def test_cap_is_made_anew_before_it_ends_and_not_at_each_call(caps: ActorCaps, watch: Watch) -> None:
    first = caps.narrowed(ALICE, NAMES)
    watch.ahead = TTL - FRESH - 5
    assert caps.narrowed(ALICE, NAMES) == first
    watch.ahead = TTL - FRESH + 5
    assert caps.narrowed(ALICE, NAMES) != first


def test_new_runtime_cap_is_used_at_once(wired: Wired, caps: ActorCaps) -> None:
    first = caps.narrowed(ALICE, NAMES)
    cap_file.write(caps.path, cap_file.mint(wired.vault, SCOPE, ("travel",)))
    found = caps.narrowed(ALICE, NAMES)
    assert found != first
    assert says(found).namespaces == {"travel"}


def test_many_actors_do_not_add_up_without_end(caps: ActorCaps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.hermes.provider.actor_caps._NARROWED", 4)
    for number in range(10):
        caps.narrowed(Actor(f"{SCOPE}telegram/{number}"), NAMES)
    assert len(caps._narrowed) <= 4


# Renewal.


def test_cap_is_renewed_in_its_last_third(wired: Wired, caps: ActorCaps, watch: Watch) -> None:
    assert not caps.is_due()
    watch.ahead = cap_file.TTL - cap_file.RENEW_BEFORE + 60
    assert caps.is_due()
    watch.ahead = 0
    before = caps.runtime()[0]
    caps.renew(wired.home.way)
    assert caps.runtime()[0] != before
    assert says(caps.runtime()[0]).actor_scope == SCOPE


@pytest.mark.requirement("hermes-cap-renew")
def test_served_cap_is_renewed_by_the_server(remote: Served) -> None:
    caps = remote.home.parts.caps
    before = caps.runtime()[0]
    caps.renew(remote.home.way)
    assert caps.runtime()[0] != before
    say(remote.agent(), TRIP)
    assert TRIP in remote.texts()


def test_ended_cap_is_made_anew_where_the_vault_is_embedded(wired: Wired, caps: ActorCaps, watch: Watch) -> None:
    watch.ahead = cap_file.TTL + 60
    with pytest.raises(CapExpired):
        caps.narrowed(ALICE, NAMES)
    caps.renew(wired.home.way)
    watch.ahead = 0
    assert says(caps.narrowed(ALICE, NAMES)).actor == ALICE


def test_ended_cap_is_not_made_anew_by_who_has_no_keys(remote: Served, watch: Watch) -> None:
    caps = ActorCaps(remote.cap, watch)
    watch.ahead = cap_file.TTL + 60
    with pytest.raises(CapExpired):
        caps.renew(remote.home.way)


@pytest.mark.requirement("hermes-cap-revoked")
def test_revoked_cap_is_not_made_anew_when_it_has_ended(wired: Wired, caps: ActorCaps, watch: Watch) -> None:
    wired.vault.revoke(caps.runtime()[0])
    watch.ahead = cap_file.TTL + 60
    with pytest.raises(CapRevoked):
        caps.renew(wired.home.way)


@pytest.mark.requirement("hermes-cap-revoked")
def test_cap_whose_parent_was_revoked_is_not_made_anew_when_it_has_ended(
    wired: Wired, caps: ActorCaps, watch: Watch
) -> None:
    first = caps.runtime()[0]
    caps.renew(wired.home.way)
    wired.vault.revoke(first)
    watch.ahead = cap_file.TTL + 60
    with pytest.raises(CapRevoked):
        caps.renew(wired.home.way)


@pytest.mark.requirement("hermes-cap-revoked")
def test_cap_that_the_vault_never_minted_is_not_made_anew(
    wired: Wired, caps: ActorCaps, watch: Watch, tmp_path: Path
) -> None:
    """A tool wrote one of its own into the file: it would become a cap for whatever it says."""
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other-keys")) as other:
        cap_file.write(caps.path, cap_file.mint(other, "hermes/", other.namespaces))
    watch.ahead = cap_file.TTL + 60
    with pytest.raises(Denied):
        caps.renew(wired.home.way)


def _age(vault: Vault, path: Path, seconds: float) -> None:
    """A runtime's cap that ends so soon."""
    cap_file.write(
        path,
        vault.mint(actor_scope=SCOPE, ops=cap_file.OPS, namespaces=vault.namespaces, ttl=int(seconds), label="short"),
    )


def test_cap_near_its_end_is_renewed_beside_a_turn(either: Wired) -> None:
    _age(either.vault, either.cap, 3 * 86_400)
    before = either.cap.read_text()
    assert not either.home.parts.caps.is_due()
    cap_file.write(either.cap, before.strip())
    either.home.parts.caps._now = lambda: time.time() + 2.5 * 86_400
    either.agent().on_session_end([])
    assert either.cap.read_text() != before


@pytest.mark.requirement("hermes-cap-renew")
def test_cap_that_cannot_be_renewed_is_warned_of_within_its_last_week(remote: Served) -> None:
    token = remote.vault.mint(
        actor_scope=SCOPE, ops=["put", "get", "list", "snapshot", "forget"], namespaces=["travel"], ttl=30 * 86_400
    )
    cap_file.write(remote.cap, token)
    caps = remote.home.parts.caps
    caps._now = lambda: time.time() + 22 * 86_400
    remote.agent().on_session_end([])
    assert "renewing the cap" not in remote.problems()  # it has eight days: there is time to see to it
    remote.forget_process()
    remote.home.parts.caps._now = lambda: time.time() + 24 * 86_400
    memory_session._tried.clear()
    remote.agent().on_session_end([])
    assert remote.problems()["renewing the cap"] == "cap_op_mismatch"


# What becomes of a turn whose cap is refused.


@pytest.mark.requirement("hermes-spool")
def test_turn_under_a_revoked_cap_waits_and_every_refusal_is_on_record(either: Wired) -> None:
    agent = either.agent()
    either.vault.revoke(either.cap.read_text().strip())
    assert agent.prefetch("When is my trip?") == ""
    say(agent, TRIP, "Nice")
    assert either.waiting() == 1
    assert either.texts() == []
    assert either.problems()["keeping"] == "cap_revoked"
    assert either.refusals().count("cap_revoked") >= 2
    cap_file.write(either.cap, cap_file.mint(either.vault, SCOPE, either.vault.namespaces))
    say(agent, "and now?", "fine")
    assert either.texts() == [TRIP, "Nice", "and now?", "fine"]


@pytest.mark.requirement("hermes-spool")
@pytest.mark.parametrize("damage", ["gone", "open", "rubbish", "of another scope", "of another vault"])
def test_turn_without_a_usable_cap_waits_for_one(either: Wired, damage: str, tmp_path: Path) -> None:
    agent = either.agent()
    if damage == "gone":
        either.cap.unlink()
    elif damage == "open":
        either.cap.chmod(0o644)
    elif damage == "rubbish":
        cap_file.write(either.cap, "rubbish")
    elif damage == "of another scope":
        cap_file.write(either.cap, cap_file.mint(either.vault, "hermes/other/", either.vault.namespaces))
    else:
        with strongroom.create(tmp_path / "foreign", keys=FileKeys(tmp_path / "foreign-keys")) as other:
            cap_file.write(either.cap, cap_file.mint(other, SCOPE, other.namespaces))
    assert say(agent, TRIP, "Nice") == ""
    assert either.problems()["keeping"]
    assert either.waiting() == 1
    cap_file.write(either.cap, cap_file.mint(either.vault, SCOPE, either.vault.namespaces))
    say(agent, "and now?", "fine")
    assert either.texts() == [TRIP, "Nice", "and now?", "fine"]


def test_expired_cap_on_a_server_makes_turns_wait(remote: Served) -> None:
    agent = remote.agent()
    remote.home.parts.caps._now = lambda: time.time() + cap_file.TTL + 60
    say(agent, TRIP, "Nice")
    assert remote.waiting() == 1
    assert remote.problems()["keeping"] == "cap_expired"


def test_cap_without_put_recalls_and_says_that_it_keeps_nothing(either: Wired) -> None:
    either.put(TRIP, "travel")
    token = either.vault.mint(actor_scope=SCOPE, ops=["get", "snapshot"], namespaces=["travel"], ttl=86_400)
    cap_file.write(either.cap, token)
    agent = either.agent()
    assert "Chengdu" in say(agent, "When is my trip to Chengdu?")
    assert either.problems()["keeping"] == "cap_op_mismatch"
    assert either.texts() == [TRIP]


@pytest.mark.requirement("hermes-namespaces")
def test_travel_only_cap_gets_the_trip_and_not_the_allergy(either: Wired) -> None:
    either.put("I have a peanut allergy", "personal")
    either.put(TRIP, "travel")
    cap_file.write(either.cap, cap_file.mint(either.vault, SCOPE, ("travel",)))
    either.write("[recall]\nmin_confidence = 0.0")  # without the allergy, half of the question is unknown
    shown = either.agent().prefetch("What about my trip to Chengdu and my peanut allergy?")
    assert "Chengdu" in shown
    assert "peanut" not in shown


def test_line_outside_the_cap_is_left_out_and_the_rest_of_the_turn_kept(either: Wired) -> None:
    cap_file.write(either.cap, cap_file.mint(either.vault, SCOPE, ("travel",)))
    say(either.agent(), TRIP, "Mind your medication")
    assert either.texts() == [TRIP]


def test_line_outside_the_policys_namespaces_is_left_out_and_the_rest_of_the_turn_kept(either: Wired) -> None:
    either.write(namespaces='["travel"]')
    say(either.agent(), TRIP, "Mind your medication")
    assert either.texts() == [TRIP]


def test_person_cannot_be_recalled_by_another_with_the_same_session_id(either: Wired) -> None:
    say(either.agent("api-1", **DM), TRIP)
    other = either.agent("api-1", **{**DM, "user_id": "200", "chat_id": "200"})
    assert other.prefetch("When is the trip to Chengdu?") == ""
    assert either.agent("api-1").prefetch("When is the trip to Chengdu?") == ""
    assert OWNER not in "".join(hit.text for hit in either.lines(f"{SCOPE}telegram/100"))


def test_namespaces_of_the_policy_count_only_while_the_cap_cannot_be_read(wired: Wired) -> None:
    wired.write(namespaces='["personal", "finance"]')
    away = wired.cap.rename(wired.cap.with_suffix(".away"))
    assert wired.home.look.grounds.allowed == {"personal", "finance"}
    away.rename(wired.cap)
    assert wired.home.look.grounds.allowed == {"personal"}
