"""Agents for a moment: no provider is made for them, nothing is written to it, and the flush reaches the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from strongroom.errors import IdentityIncomplete, InvalidRequest, ProviderRefused
from strongroom.host import AgentContext, AgentSession, Host, MemoryManager, MemoryProvider, Reach
from strongroom.host.agent_context import DEFAULT_REACH
from tests.host.doubles import PATIENCE, Recorder, Seen, hosted, session

TEMPORARY = [context for context in AgentContext if context is not AgentContext.PRIMARY]
ASKED = {"is_available", "initialize", "system_prompt_block", "prefetch", "shutdown"}
"""What a provider that is only asked may hear: nothing of a conversation but the question."""
PERSON: dict[str, Any] = {
    "platform": "telegram",
    "agent_identity": "default",
    "user_id": "7",
    "chat_type": "dm",
    "chat_id": "c7",
    "gateway_session_key": "agent:main:telegram:dm:7",
}
GROUP = PERSON | {"chat_type": "group", "chat_id": "g1", "gateway_session_key": "agent:main:telegram:group:1"}


def moment(context: AgentContext, number: int = 1, **known: Any) -> AgentSession:
    """An agent for a moment, of the owner at a terminal."""
    return session(number, context=context, platform="cli", **known)


def live(memory: MemoryManager) -> None:
    """Everything that a runtime does with an agent, from the first turn to the end."""
    memory.system_prompt_block()
    memory.on_turn_start("hello")
    memory.prefetch("hello")
    for schema in memory.get_tool_schemas():
        memory.handle_tool_call(schema["name"], {"target": "memory", "action": "add", "content": "a note"})
    memory.handle_tool_call("recall", {})
    memory.sync_turn("hello", "hi", [{"role": "user", "content": "hello"}])
    memory.on_pre_compress([{"role": "user", "content": "hello"}])
    memory.on_delegation("task", "result", child_session_id="c1")
    memory.on_session_switch("s2", reset=True, reason="new")
    memory.on_session_end([])
    memory.cache_busting_signature()
    assert memory.flush(PATIENCE)
    memory.end([])


def counted(made: list[int], seen: Seen) -> Any:
    def make() -> MemoryProvider:
        made.append(1)
        return Recorder(seen)

    return make


@pytest.mark.requirement("context-no-provider-session")
@pytest.mark.parametrize("context", TEMPORARY)
def test_no_provider_is_made_for_an_agent_for_a_moment(tmp_path: Path, context: AgentContext) -> None:
    made, seen = list[int](), Seen()
    with hosted(tmp_path, counted(made, seen)) as host:
        memory = host.manager(moment(context))
        assert memory.external is None
        live(memory)
        with pytest.raises(ProviderRefused):
            host._assembled(moment(context), DEFAULT_REACH[context]).add(Recorder(seen))
    assert (made, seen.calls) == ([], [])


@pytest.mark.requirement("context-no-provider-session")
@pytest.mark.parametrize("context", TEMPORARY)
def test_turns_that_wait_do_not_make_a_moments_agent_open_a_session(tmp_path: Path, context: AgentContext) -> None:
    _leave_a_turn(tmp_path)
    made, seen = list[int](), Seen()
    with hosted(tmp_path, counted(made, seen)) as host:
        live(host.manager(moment(context)))
        assert made == []
        host.manager(session(9))
        assert seen.turns == ["left"]


def _leave_a_turn(tmp_path: Path) -> None:
    refusing = Recorder(answers={"sync_turn": lambda *_: 1 / 0})
    with hosted(tmp_path, refusing) as host:
        memory = host.manager(session(8))
        memory.sync_turn("left", "behind")
        memory.end()


@pytest.mark.requirement("context-no-write")
@pytest.mark.parametrize("context", [AgentContext.CRON, AgentContext.SUBAGENT, AgentContext.FLUSH])
def test_nothing_of_such_an_agent_is_in_the_journal(tmp_path: Path, context: AgentContext) -> None:
    seen = Seen()
    host = Host(tmp_path / "home", lambda: Recorder(seen), keys=tmp_path / "keys")
    live(host.manager(moment(context)))
    assert len(host._shared.journal) == 0
    assert all(file.stat().st_size == 0 for file in (tmp_path / "home" / "memory-journal").iterdir())
    host.close()
    assert seen.calls == []


@pytest.mark.requirement("context-flush-reaches-builtin")
@pytest.mark.parametrize("context", [AgentContext.FLUSH, AgentContext.COMPRESS, AgentContext.BACKGROUND])
def test_flush_writes_the_built_in_memory_and_the_user_hears_of_it(tmp_path: Path, context: AgentContext) -> None:
    notices = list[str]()
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        memory = host.manager(moment(context, status_callback=notices.append))
        answer = memory.handle_tool_call("memory", {"target": "user", "action": "add", "content": "Likes plums."})
        assert json.loads(answer)["success"] is True
        assert (tmp_path / "home" / "memories" / "USER.md").read_text() == "Likes plums."
        assert len(notices) == 1
        assert "memory updated" in notices[0]
        assert "Likes plums." in host.manager(session(2)).system_prompt_block()


@pytest.mark.requirement("context-flush-reaches-builtin")
def test_flush_of_a_persons_chat_reaches_that_persons_files(tmp_path: Path) -> None:
    whose = PERSON
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        flush = host.manager(session(context=AgentContext.FLUSH, **whose))
        assert flush.builtin is not None
        flush.builtin.add("memory", "The boat is blue.")
        assert "The boat is blue." in host.manager(session(2, **whose)).system_prompt_block()
        assert "boat" not in host.manager(session(3)).system_prompt_block()


@pytest.mark.parametrize("context", [AgentContext.CRON, AgentContext.SUBAGENT])
def test_agent_without_memory_has_none_at_all(tmp_path: Path, context: AgentContext) -> None:
    with hosted(tmp_path) as host:
        memory = host.manager(moment(context))
        assert memory.builtin is None
        assert memory.get_tool_schemas() == []
        assert memory.system_prompt_block() == ""
        assert "error" in json.loads(memory.handle_tool_call("memory", {"action": "add", "content": "x"}))
        live(memory)
    assert not (tmp_path / "home" / "memories").exists()


@pytest.mark.requirement("context-no-write")
@pytest.mark.parametrize("context", TEMPORARY)
def test_no_agent_but_a_conversation_may_write_to_a_provider(tmp_path: Path, context: AgentContext) -> None:
    made, seen = list[int](), Seen()
    with hosted(tmp_path, counted(made, seen)) as host, pytest.raises(InvalidRequest) as caught:
        host.manager(moment(context), reach=Reach.FULL)
    assert caught.value.reason == "invalid_request"
    assert made == []


@pytest.mark.requirement("context-no-write")
def test_manager_made_by_hand_keeps_to_that_rule_too(tmp_path: Path) -> None:
    with hosted(tmp_path) as host, pytest.raises((InvalidRequest, ProviderRefused)):
        MemoryManager(host._shared, session(context=AgentContext.CRON), Reach.FULL).add(Recorder(Seen()))


@pytest.mark.requirement("context-no-write")
@pytest.mark.parametrize("context", list(AgentContext))
def test_provider_that_is_only_asked_is_told_nothing(tmp_path: Path, context: AgentContext) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        memory = host.manager(moment(context), reach=Reach.RECALL)
        assert memory.external is not None
        assert "about plums" in memory.prefetch("plums")
        assert "recorder's block" in memory.system_prompt_block()
        live(memory)
        assert len(host._shared.journal) == 0
    assert set(seen.hooks) - {"cache_busting_signature", "get_tool_schemas"} == ASKED


@pytest.mark.requirement("context-no-write")
def test_agent_that_only_recalls_cannot_write_the_built_in_memory_either(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        memory = host.manager(session(), reach=Reach.RECALL)
        assert memory.get_tool_schemas() == []
        assert memory.builtin is not None
        with pytest.raises(InvalidRequest):
            memory.builtin.add("memory", "x")


def test_context_in_its_plain_name_is_the_context(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        assert host.manager(session(context="primary")).external is not None
        assert host.manager(session(context="cron")).external is None
        with pytest.raises(InvalidRequest):
            host.manager(session(context="cron"), reach=Reach.FULL)


def test_context_that_is_unknown_is_refused(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen())) as host, pytest.raises(InvalidRequest):
        host.manager(session(context="gateway"))


def test_every_context_has_a_reach() -> None:
    assert set(DEFAULT_REACH) == set(AgentContext)
    assert [context for context, reach in DEFAULT_REACH.items() if reach is Reach.FULL] == [AgentContext.PRIMARY]


def test_provider_hears_which_context_it_serves(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        host.manager(moment(AgentContext.CRON), reach=Reach.RECALL)
        host.manager(session(2, user_id="7"))
    said = [(keywords["agent_context"], keywords.get("user_id")) for _, keywords in seen.of("initialize")]
    assert said == [("cron", None), ("primary", "7")]


# Whose notes


def notes_of(memory: MemoryManager) -> str:
    """What a new agent of the same identity reads of the notes."""
    assert memory.builtin is not None
    return "".join(memory.builtin.read("memory").entries)


@pytest.mark.requirement("context-whose-notes")
@pytest.mark.parametrize("context", [AgentContext.FLUSH, AgentContext.COMPRESS, AgentContext.BACKGROUND])
@pytest.mark.parametrize("whose", [{}, {"platform": "telegram"}, {"gateway_session_key": "k"}, PERSON, GROUP])
def test_agent_beside_a_conversation_has_its_notes_and_nobody_elses(
    tmp_path: Path, context: AgentContext, whose: dict[str, Any]
) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        conversation = host.manager(session(**whose))
        beside = conversation.temporary(context)
        assert (beside.external, beside.reach) == (None, Reach.BUILTIN)
        assert beside.builtin is not None
        beside.builtin.add("memory", "The boat is blue.")
        assert notes_of(conversation) == "The boat is blue."
        owner: list[dict[str, Any]] = [{}] if "gateway_session_key" in whose else []
        strangers = [one for one in (*owner, PERSON, GROUP, PERSON | {"user_id": "8"}) if one != whose]
        assert [notes_of(host.manager(session(9, **one))) for one in strangers] == [""] * len(strangers)


@pytest.mark.requirement("context-whose-notes")
def test_agent_beside_a_conversation_goes_by_the_session_it_is_in_now(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        conversation = host.manager(session(**PERSON))
        conversation.on_session_switch("s2", reset=True)
        beside = conversation.temporary(AgentContext.CRON, reach=Reach.RECALL)
        assert "about plums" in beside.prefetch("plums")
    args, told = seen.of("initialize")[-1]
    assert (args, told["agent_context"], told["user_id"]) == (("s2",), "cron", "7")


@pytest.mark.requirement("context-whose-notes")
def test_agent_beside_a_chat_of_which_nothing_is_known_has_its_notes_after_a_switch_too(tmp_path: Path) -> None:
    """Such a chat has the notes of its first session, and an agent that is made later another session."""
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        conversation = host.manager(session(platform="telegram", chat_type="group"))
        conversation.on_session_switch("s2")
        beside = conversation.temporary(AgentContext.FLUSH)
        assert beside.builtin is not None
        beside.builtin.add("memory", "The boat is blue.")
        assert notes_of(conversation) == notes_of(beside.temporary(AgentContext.COMPRESS)) == "The boat is blue."


def test_agent_beside_a_conversation_reaches_no_further_than_its_context(tmp_path: Path) -> None:
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        conversation = host.manager(session())
        assert conversation.temporary(AgentContext.SUBAGENT).builtin is None
        assert conversation.temporary("flush").reach is Reach.BUILTIN  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            conversation.temporary(AgentContext.FLUSH, reach=Reach.FULL)
        with pytest.raises(InvalidRequest):
            conversation.temporary(AgentContext.PRIMARY)
        with pytest.raises(InvalidRequest):
            conversation.temporary("hygiene")  # type: ignore[arg-type]


@pytest.mark.requirement("context-whose-notes")
@pytest.mark.parametrize("context", TEMPORARY)
@pytest.mark.parametrize("whose", [PERSON, GROUP], ids=["person", "group"])
@pytest.mark.parametrize("left_out", [*("platform", "gateway_session_key", "chat_type", "agent_identity"), "all"])
def test_agent_that_leaves_open_whose_notes_it_is_for_is_refused(
    tmp_path: Path, context: AgentContext, whose: dict[str, Any], left_out: str
) -> None:
    known = {name: value for name, value in whose.items() if left_out not in (name, "all")}
    with hosted(tmp_path, lambda: Recorder(Seen())) as host:
        host.manager(session(**whose))
        with pytest.raises(IdentityIncomplete) as caught:
            host.manager(session(2, context=context, **known), reach=Reach.RECALL)
        assert caught.value.reason == "identity_incomplete"
        if DEFAULT_REACH[context] is Reach.BUILTIN:
            with pytest.raises(IdentityIncomplete):
                host.manager(session(2, context=context, **known))
    assert not (tmp_path / "home" / "memories").exists()


@pytest.mark.requirement("context-whose-notes")
def test_person_must_be_said_too_in_a_private_chat(tmp_path: Path) -> None:
    with hosted(tmp_path) as host:
        with pytest.raises(IdentityIncomplete):
            host.manager(session(context=AgentContext.FLUSH, **PERSON | {"user_id": ""}))
        assert host.manager(session(context=AgentContext.FLUSH, **PERSON)).builtin is not None
        assert host.manager(session(context=AgentContext.FLUSH, **GROUP | {"user_id": ""})).builtin is not None


def test_conversation_that_names_no_platform_is_at_a_terminal(tmp_path: Path) -> None:
    seen = Seen()
    with hosted(tmp_path, lambda: Recorder(seen)) as host:
        host.manager(session())
    assert seen.of("initialize")[0][1]["platform"] == "cli"
