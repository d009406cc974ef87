"""A gateway on the host, end to end: stable sessions, no orphans, rebuilt agents, people apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strongroom.host import AgentContext, MemoryProvider
from tests.host.gateway import Ledger, gateway, sessions

CHAT = "agent:main:telegram:dm:8439114563"
NAME = "agent-main-telegram-dm-8439114563"
TEMPORARY = [
    AgentContext.COMPRESS,
    AgentContext.FLUSH,
    AgentContext.BACKGROUND,
    AgentContext.SUBAGENT,
    AgentContext.CRON,
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.mark.requirement("session-new-keeps-chat")
def test_new_keeps_the_stable_session_of_the_chat(home: Path) -> None:
    with gateway(home) as chats:
        chats.say(CHAT, "first")
        chats.new(CHAT)
        assert "first" in chats.say(CHAT, "second")
    assert sessions(home) == {NAME: [("alice", "first"), ("alice", "second")]}


@pytest.mark.requirement("context-no-provider-session")
@pytest.mark.parametrize("context", TEMPORARY)
def test_temporary_agent_creates_no_session_and_writes_nothing(home: Path, context: AgentContext) -> None:
    with gateway(home) as chats:
        chats.say(CHAT, "first")
        before = sessions(home)
        memory = chats.temporary(CHAT, context)
        memory.on_turn_start("summarise")
        assert memory.prefetch("first") == ""
        memory.sync_turn("summarise", "a summary")
        memory.on_session_end([])
        memory.end()
        assert memory.external is None
        assert sessions(home) == before


@pytest.mark.requirement("session-restart-no-orphan")
def test_restart_of_the_gateway_creates_no_session(home: Path) -> None:
    for message in ("first", "second", "third"):
        with gateway(home) as chats:
            chats.say(CHAT, message)
    assert list(sessions(home)) == [NAME]
    assert [said for _, said in sessions(home)[NAME]] == ["first", "second", "third"]


@pytest.mark.requirement("context-flush-reaches-builtin", "builtin-memory-updated-notice")
def test_flush_before_a_compression_reaches_the_built_in_memory_and_the_user_hears_of_it(home: Path) -> None:
    with gateway(home) as chats:
        chats.say(CHAT, "first")
        memory = chats.temporary(CHAT, AgentContext.FLUSH)
        change = {"target": "memory", "action": "add", "content": "The build takes seven minutes."}
        assert json.loads(memory.handle_tool_call("memory", change))["success"] is True
        memory.end()
        assert chats.notices == ["memory updated: MEMORY.md"]
        chats.new(CHAT)
        chats.say(CHAT, "second")
        assert "seven minutes" in chats.built[-1].memory.system_prompt_block()
        chats.say("agent:main:telegram:dm:9", "hello", user="bob")
        assert "seven minutes" not in chats.built[-1].memory.system_prompt_block()
    assert not (home / "memories" / "MEMORY.md").exists()  # the owner's


@pytest.mark.requirement("cache-rebuild-on-identity")
def test_edit_of_an_identity_key_rebuilds_the_agent_at_the_next_message(home: Path) -> None:
    with gateway(home) as chats:
        chats.say(CHAT, "first")
        (home / "identity.json").write_text(json.dumps({"user_peer_aliases": {"alice": "anna"}}))
        chats.say(CHAT, "second")
        assert [agent.ended for agent in chats.built] == [1, 0]
    assert sessions(home)[NAME] == [("alice", "first"), ("anna", "second")]


@pytest.mark.requirement("cache-unrelated-edit-keeps")
def test_unrelated_edit_keeps_the_agent(home: Path) -> None:
    with gateway(home) as chats:
        (home / "identity.json").write_text("{}")
        chats.say(CHAT, "first")
        (home / "config.yaml").write_text("display: {theme: dark}\n")
        (home / "identity.json").write_text('{ "peer_name": "" }')  # other bytes, the same settings
        chats.say(CHAT, "second")
        assert len(chats.built) == 1


@pytest.mark.requirement("cache-two-users")
def test_two_people_in_one_chat_never_share_an_agent(home: Path) -> None:
    with gateway(home) as chats:
        chats.say(CHAT, "from alice", "alice")
        chats.say(CHAT, "from bob", "bob")
        chats.say(CHAT, "from alice again", "alice")
        assert [agent.memory.session.user_id for agent in chats.built] == ["alice", "bob", "alice"]
        assert [agent.ended for agent in chats.built] == [1, 1, 0]


PLUGIN = """
from pathlib import Path
from agent.memory_provider import MemoryProvider

HOME = Path(__file__).parents[2]

def note(what):
    with open(HOME / "notes.txt", "a") as file:
        file.write(NAME + " " + what + "\\n")

NAME = Path(__file__).parent.name
note("imported")

class Counted(MemoryProvider):
    name = NAME
    def is_available(self): return True
    def get_tool_schemas(self): return []
    def initialize(self, session_id, **kwargs): pass
    def cache_busting_signature(self):
        note("asked")
        return {NAME + ".peer_name": "alice"}
"""


@pytest.mark.requirement("cache-active-only")
def test_only_the_active_provider_is_asked_and_once_for_each_message(home: Path) -> None:
    for name in ("active", "beside"):
        (home / "plugins" / name).mkdir(parents=True)
        (home / "plugins" / name / "__init__.py").write_text(PLUGIN)
    with gateway(home, "beside") as chats:
        chats.say(CHAT, "first")
    assert "beside asked\n" in (home / "notes.txt").read_text()  # it would be asked, were it the one
    (home / "notes.txt").unlink()
    with gateway(home, "active") as chats:
        for message in ("first", "second", "third"):
            chats.say(CHAT, message)
    assert (home / "notes.txt").read_text().splitlines() == ["active imported", *["active asked"] * 3]


@pytest.mark.requirement("cache-hook-default")
def test_provider_that_says_nothing_of_its_settings_keeps_its_agents(home: Path) -> None:
    class Silent(Ledger):
        name = "silent"
        cache_busting_signature = MemoryProvider.cache_busting_signature

    with gateway(home, Silent) as chats:
        assert Silent().cache_busting_signature() is None
        assert Silent().identity_signature() is None
        chats.say(CHAT, "first")
        chats.say(CHAT, "second")
        assert len(chats.built) == 1


@pytest.mark.requirement("cache-hook-default")
def test_later_name_of_the_hook_is_asked_too(home: Path) -> None:
    said = {"later.peer_name": "alice"}

    class Later(Ledger):
        name = "later"
        cache_busting_signature = MemoryProvider.cache_busting_signature

        def identity_signature(self) -> dict[str, str]:
            return dict(said)

    with gateway(home, Later) as chats:
        chats.say(CHAT, "first")
        said["later.peer_name"] = "anna"
        chats.say(CHAT, "second")
        assert len(chats.built) == 2
