"""The provider as a runtime meets it: hooks in any order, with arguments of later versions, without a session too."""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
import sys
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import InvalidRequest, StoreUnavailable
from strongroom.hermes import cap_file
from strongroom.hermes.provider import StrongroomProvider, delivery, register
from strongroom.hermes.provider import provider_home as homes
from strongroom.hermes.provider.memory_session import MemorySession
from strongroom.hermes.provider.provider_home import home_of
from strongroom.host.provider_interface import MemoryProvider
from tests.hermes.provider.conftest import ALLERGY, AT_WORK, DM, SCOPE, TRIP, Served, Wired, history, say


def _until_idle(wired: Wired) -> None:
    """Wait until both threads are through with what came before."""
    both = threading.Barrier(3)
    for _ in range(2):
        wired.home.later(lambda: both.wait(60))
    both.wait(60)


class Context:
    """What Hermes hands to a plugin."""

    def __init__(self) -> None:
        self.providers: list[MemoryProvider] = []

    def register_memory_provider(self, provider: MemoryProvider) -> None:
        self.providers.append(provider)


# Before a session.


def test_home_that_is_not_wired_has_no_memory(tmp_path: Path, own_process: None) -> None:
    made = StrongroomProvider(tmp_path)
    assert not made.is_available()
    assert made.get_tool_schemas() == []
    with pytest.raises(InvalidRequest):
        made.initialize("s1", platform="cli")


def test_policy_with_a_fault_is_no_memory_and_no_crash(tmp_path: Path, own_process: None) -> None:
    (tmp_path / "strongroom.toml").write_text("vault = [")
    made = StrongroomProvider(tmp_path)
    assert not made.is_available()
    assert made.unavailable_reason()
    assert made.get_tool_schemas() == []
    assert made.cache_busting_signature()


@pytest.mark.requirement("hermes-never-silent")
def test_home_without_its_cap_has_its_memory_and_says_what_is_missing(wired: Wired) -> None:
    wired.cap.unlink()
    assert StrongroomProvider(wired.path).is_available()
    say(wired.agent(), "hello there")
    assert wired.problems()["keeping"] == "cap_missing"
    assert wired.waiting() == 1


@pytest.mark.requirement("hermes-never-silent", "hermes-secrets")
def test_nothing_is_kept_without_the_detector_and_that_is_said(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    warned: list[str] = []
    agent = wired.agent(warning_callback=warned.append)
    with pytest.raises(InvalidRequest):
        agent.sync_turn("hello there", "hi", session_id="s1")
    assert wired.texts() == []
    assert wired.files(".draft") == []
    assert any("detect-secrets" in one for one in warned)


def test_availability_touches_neither_vault_nor_network(wired: Wired) -> None:
    wired.url = "http://127.0.0.1:1"
    wired.write()
    assert StrongroomProvider(wired.path).is_available()


def test_every_registration_is_a_new_object(wired: Wired) -> None:
    context = Context()
    register(context, wired.path)
    register(context, wired.path)
    one, other = context.providers
    assert one is not other
    assert {one.name, other.name} == {"strongroom"}


def test_hooks_before_a_session_do_nothing(wired: Wired) -> None:
    made = StrongroomProvider(wired.path)
    made.on_turn_start(1, "hello")
    made.sync_turn("hello", "hi")
    made.on_memory_write("add", "user", "tea")
    made.on_delegation("task", "result")
    made.on_session_switch("s2")
    made.on_session_end([])
    made.shutdown()
    assert made.prefetch("hello") == made.system_prompt_block() == made.on_pre_compress([]) == ""
    assert made.recall_status() is None
    assert wired.texts() == []


# Later versions.


@pytest.mark.requirement("hermes-kwargs")
@pytest.mark.parametrize(
    "name",
    [
        *("initialize", "on_turn_start", "prefetch", "sync_turn", "handle_tool_call", "on_memory_write"),
        *("on_delegation", "on_pre_compress", "on_session_switch", "on_session_end"),
    ],
)
def test_every_hook_takes_arguments_of_later_versions(name: str) -> None:
    kinds = [one.kind for one in inspect.signature(getattr(StrongroomProvider, name)).parameters.values()]
    assert inspect.Parameter.VAR_KEYWORD in kinds


def test_hooks_take_what_the_interface_gives(wired: Wired) -> None:
    agent = wired.agent(agent_workspace="hermes", status_callback=print, session_title="x", something_new=1)
    agent.on_turn_start(1, "hello", remaining_tokens=5)
    agent.prefetch("hello", session_id="s1", deadline=1)
    agent.queue_prefetch("hello", session_id="s1")
    agent.sync_turn("hello", "hi", session_id="s1", messages=history("hello"), something_new=1)
    agent.on_pre_compress(history("hello"), budget=1)
    agent.on_session_switch("s1", parent_session_id="s1", reason="compression", something_new=1)
    agent.on_session_end([], reason="x")
    assert wired.texts() == ["hello", "hi"]


# Sessions.


def test_home_of_the_session_is_used_where_none_was_given(wired: Wired) -> None:
    made = StrongroomProvider()
    made.initialize("s1", platform="cli", hermes_home=str(wired.path))
    say(made, TRIP)
    assert TRIP in wired.texts()


def test_agent_that_is_dropped_without_a_word_holds_nothing(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "hello")
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None


@pytest.mark.requirement("hermes-no-thread-each")
def test_agents_make_no_threads_of_their_own(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homes, "_at_work", AT_WORK)
    before = threading.active_count()
    for number in range(30):
        say(wired.agent(f"s{number}"), f"hello {number}")
    assert threading.active_count() - before <= 12
    _until_idle(wired)


def test_end_of_a_session_may_come_many_times_and_before_the_last_turn(wired: Wired) -> None:
    agent = wired.agent()
    agent.on_turn_start(1, "hello")
    for _ in range(3):
        agent.on_session_end(history("hello"))
    agent.sync_turn("hello", "hi", session_id="s1")
    agent.on_session_end(history("hello"))
    assert wired.texts() == ["hello", "hi"]


def test_turn_that_is_told_after_the_shutdown_is_not_lost(wired: Wired) -> None:
    """Hermes waits five seconds for what is under way, and shuts down all the same."""
    agent = wired.agent()
    agent.on_turn_start(1, "hello")
    agent.shutdown()
    agent.sync_turn("hello", "hi", session_id="s1")
    wired.forget_process()
    wired.agent("s2")
    assert "hello" in wired.texts()


def test_one_object_that_is_initialised_again_speaks_for_the_new_session(wired: Wired) -> None:
    agent = wired.agent("s1")
    say(agent, "as the owner", "hi")
    agent.initialize("s2", hermes_home=str(wired.path), **DM)
    say(agent, "as somebody else", "hi")
    assert wired.texts() == ["as the owner", "hi"]
    assert wired.texts(f"{SCOPE}telegram/100") == ["as somebody else", "hi"]


def test_turns_left_by_an_earlier_process_are_delivered_at_the_start(remote: Served) -> None:
    remote.stop()
    remote.agent().on_turn_start(1, TRIP)
    say(remote.agent("s2", **DM), "hello", "hi")
    remote.forget_process()
    remote.start()
    remote.agent("s3", platform="telegram", user_id="3", chat_type="dm")
    assert remote.texts() == [TRIP]
    assert remote.texts(f"{SCOPE}telegram/100") == ["hello", "hi"]


def test_statements_worth_keeping_are_told_before_a_compression(wired: Wired) -> None:
    messages = history("My trip to Chengdu is on May 25 and I am allergic to peanuts.")
    assert "Chengdu" in wired.agent().on_pre_compress(messages)
    assert wired.agent(platform="api_server").on_pre_compress(messages) == ""
    assert (
        len(wired.agent().on_pre_compress(history(*(f"I was born in {n} and live in Berlin." for n in range(3000)))))
        <= 6000
    )


# The policy.


@pytest.mark.requirement("hermes-policy-live")
def test_policy_that_is_broken_by_an_edit_leaves_the_last_good_one_in_use(wired: Wired) -> None:
    agent = wired.agent()
    (wired.path / "strongroom.toml").write_text("vault = [")
    say(agent, "hello", "hi")
    assert wired.texts() == ["hello", "hi"]
    assert wired.home.broken


def test_home_that_is_unwired_under_a_session_keeps_and_shows_nothing(wired: Wired) -> None:
    wired.put(TRIP)
    agent = wired.agent()
    (wired.path / "strongroom.toml").unlink()
    for hook in (agent.on_turn_start, agent.prefetch, agent.sync_turn):
        arguments: tuple[Any, ...] = {"on_turn_start": (1, "hello"), "prefetch": ("trip to Chengdu",)}.get(
            hook.__name__, ("hello", "hi")
        )
        with suppress(InvalidRequest):
            assert not hook(*arguments)
    assert wired.texts() == [TRIP]


@pytest.mark.requirement("hermes-signature")
def test_signature_follows_the_policy_and_not_the_cap_and_holds_no_secret(wired: Wired) -> None:
    made = StrongroomProvider(wired.path)
    first = made.cache_busting_signature()
    assert made.cache_busting_signature() == first
    assert made.identity_signature() == first
    cap_file.write(wired.cap, cap_file.mint(wired.vault, SCOPE, wired.vault.namespaces))
    assert made.cache_busting_signature() == first
    wired.write('[people]\nme = ["telegram:1"]')
    assert made.cache_busting_signature() != first
    second = made.cache_busting_signature()
    wired.write("[recall]\nlines = 3")
    assert made.cache_busting_signature() not in (first, second)
    assert "age1" not in json.dumps(dict(first))


def test_backup_of_the_runtime_holds_neither_cap_nor_vault(wired: Wired) -> None:
    say(wired.agent(), TRIP)
    assert StrongroomProvider(wired.path).backup_paths() == []
    inside = b"".join(path.read_bytes() for path in wired.path.rglob("*") if path.is_file())
    assert wired.cap.read_text().strip().encode() not in inside
    assert b"Chengdu" not in inside


def test_homes_are_shared_by_path_and_not_by_spelling(wired: Wired) -> None:
    other = wired.base / "link"
    other.symlink_to(wired.path)
    assert home_of(other) is home_of(wired.path)
    assert len(homes._homes) == 1


def test_forked_process_has_ways_of_its_own(wired: Wired) -> None:
    say(wired.agent(), "before", "hi")
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that hangs ends by itself
        code = 1
        try:
            say(wired.agent("child"), "in the child", "hi")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0) == (child, 0)
    say(wired.agent(), "after", "hi")
    assert [text for text in wired.texts() if text != "hi"] == ["before", "in the child", "after"]


def test_set_up_of_hermes_itself_is_described(wired: Wired) -> None:
    made: Any = StrongroomProvider(wired.path)
    assert all({"key", "description"} <= set(one) for one in made.get_config_schema())


@pytest.mark.requirement("hermes-crash")
@pytest.mark.parametrize("patience", [7.0, 0.0])
def test_first_question_waits_for_what_a_killed_process_left_as_long_as_it_may(
    wired: Wired, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    wired.write(f"[recall]\npatience = {patience}")
    wired.agent().on_turn_start(1, TRIP)
    wired.forget_process()
    asked, recover = threading.Event(), delivery.recover

    def slowly(session: MemorySession) -> None:
        asked.wait(0.2 if patience else None)
        recover(session)

    monkeypatch.setattr(delivery, "recover", slowly)
    monkeypatch.setattr(homes, "_at_work", AT_WORK)
    agent = wired.agent("s2")
    shown = agent.prefetch("When is my trip?")
    asked.set()
    _until_idle(wired)
    assert (TRIP in shown) is (patience > 0)


# An edit of the policy.


@pytest.mark.requirement("hermes-policy-live")
def test_another_cap_in_the_policy_is_the_one_that_counts_from_the_next_turn_on(wired: Wired) -> None:
    wired.put(ALLERGY, "personal")
    agent = wired.agent()
    assert "peanut" in agent.prefetch("which peanut allergy?")
    other = wired.base / "private" / "other.cap"
    cap_file.write(other, cap_file.mint(wired.vault, SCOPE, ("travel",)))
    wired.write(cap=repr(str(other)))
    assert "peanut" not in wired.agent("s2").prefetch("which peanut allergy?")
    wired.cap.unlink()
    say(agent, TRIP)
    assert TRIP in wired.texts()


def _say_much(agent: StrongroomProvider) -> None:
    for number in range(40):
        say(agent, f"turn {number} " + "x" * 4000)


@pytest.mark.requirement("hermes-policy-live", "hermes-spool-bounded")
def test_larger_spool_takes_turns_at_once(remote: Served) -> None:
    remote.write("[keep]\nspool_bytes = 65536")
    agent = remote.agent()
    remote.stop()
    with pytest.raises(StoreUnavailable):
        _say_much(agent)
    remote.write("[keep]\nspool_bytes = 6553600")
    before = remote.home.parts.spool.waiting().turns
    say(agent, "the spool is larger now")
    assert remote.home.parts.spool.waiting().turns == before + 1


@pytest.mark.requirement("hermes-signature")
def test_signature_follows_every_letter_of_a_long_rule(wired: Wired) -> None:
    found = set()
    for last in ("zebra granite", "zebra gravel"):
        words = json.dumps([*(f"word{number}" for number in range(60)), last])
        wired.write(f'[[routing.rules]]\nname = "long"\nnamespace = "work"\nwords = {words}')
        found.add(wired.agent().cache_busting_signature()["strongroom.policy"])
    assert len(found) == 2


@pytest.mark.requirement("hermes-never-silent")
def test_home_that_is_not_wired_any_more_breaks_no_turn(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, TRIP)
    (wired.path / "strongroom.toml").unlink()
    assert agent.system_prompt_block() == ""
    assert agent.prefetch("where is my trip?") == ""


@pytest.mark.requirement("hermes-kwargs")
@pytest.mark.parametrize("odd", [None, 7, b"x", ["x"]])
def test_odd_values_of_a_runtime_break_no_hook_and_lose_no_turn(wired: Wired, odd: Any) -> None:
    agent = wired.agent()
    agent.on_turn_start(odd, TRIP)
    agent.sync_turn(TRIP, "Noted.", session_id=odd, messages=odd, turn_id=odd)
    assert wired.texts() == [TRIP, "Noted."]
    agent.on_memory_write("add", "memory", "Likes tea", metadata=odd)
    agent.on_memory_write(odd, odd, odd)
    agent.on_delegation(odd, odd)
    assert agent.on_pre_compress(odd) == ""
    agent.on_session_switch(odd, parent_session_id=odd, reset=False)
    agent.on_session_end(odd)
    say(agent, "hello")
    assert "hello" in wired.texts()
