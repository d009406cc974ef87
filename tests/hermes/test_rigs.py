"""The rigs drive the real Hermes: what each of them shows is proven with a provider that writes down its calls."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.hermes import homes, rig_agent, rig_api, rig_cli, rig_gateway, rigs
from tests.hermes.model_server import ToolCall
from tests.hermes.rig_model import Model

RECALLED = "The logged recollection."
BLOCK = "# Logged memory"


@dataclass(frozen=True, slots=True)
class Ran:
    """A scenario that is over: what the model was told, what the provider was, and what the process said."""

    rig: rigs.Rig
    told: list[rigs.Line]
    said: dict[str, Any]

    def calls(self, method: str) -> list[dict[str, Any]]:
        return _calls(self.rig, method)


def _logged(where: Path, model: Model, *settings: rigs.Settings) -> rigs.Rig:
    log = rigs.Settings(environment={"LOGGED_CALLS": str(where / "calls.jsonl")})
    plugins = (homes.LOGGING_PROVIDER,)
    return rigs.make(where, model, provider="logging_provider", plugins=plugins, settings=(log, *settings))


def _calls(rig: rigs.Rig, method: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (rig.home.root / "calls.jsonl").read_text(encoding="utf-8").splitlines())
    return [{**one["arguments"], "instance": one["instance"]} for one in lines if one["method"] == method]


def _echo(text: str) -> str:
    return f"You said: {text}"


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with Model(_echo, summary="They talked.") as model:
        rig = _logged(tmp_path_factory.mktemp("agents") / "home", model)
        said: dict[str, Any] = {}
        with rig_agent.start(rig) as process:
            me = process.terminal()
            said["reply"] = me.say("I fly to Chengdu.", "Have a good trip.")
            me.memory_tool(action="add", target="user", content="Drinks tea.")
            me.say("This is to be undone.")
            me.command("/undo")
            for number in range(3):
                me.say(f"More of it: {number}.")
            said["first"] = me.compress()
            said["branch"] = me.command("/branch other")
            said["new"] = me.command("/new")
            me.say("A fresh start.")
            said["resumed"] = me.command(f"/resume {said['first']}")
            bob = process.agent("bob", platform="telegram", user_id="2", chat_type="dm", gateway_session_key="k:2")
            said["bob"] = bob.say("I am Bob.", "Hello.", [ToolCall("logged_note", {"text": "Bob."})])
            with pytest.raises(AssertionError, match="belongs to a surface"):
                bob.command("/new")
            bob.end()
        yield Ran(rig, process.told, said)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    with Model(_echo, summary="They talked.") as model:
        rig = _logged(tmp_path_factory.mktemp("gateway") / "home", model, rig_gateway.CHATS, rig_api.SERVER)
        said: dict[str, Any] = {}
        with rig_api.start(rig) as process:
            _chat(process, said)
            said["agents"] = process.agents()
            said["with a key"] = process.ask("My code is 17.", key="webui:alice")
            said["with another"] = process.ask("My code is 17.", key="webui:bob", stream=True)
            said["without"] = process.ask("My code is 17.")
            said["refused"] = process.ask("Let me in.", api_key="another-key-that-is-not-the-servers")
        said["calls before"] = len(_calls(rig, "sync_turn"))
        with rig_gateway.start(rig) as again:
            said["again"] = again.say("alice", "Are you back?", chat="100")
            said["calls after"] = len(_calls(rig, "sync_turn"))
            again.send({"from": "alice", "chat": "100", "text": "Until now."})
            again.until("delivered")
            said["killed"] = again.kill()
        yield Ran(rig, process.told, said)


def _chat(process: rig_gateway.GatewayProcess, said: dict[str, Any]) -> None:
    thread = {"chat": "-5", "kind": "group", "thread": "77"}
    said["first"] = process.say("alice", "I fly to Chengdu.", chat="100", reply="Have a good trip.")
    process.say("bob", "Nothing of note.", chat="200", alt="robert")
    process.say("alice", "Here we are.", **thread)
    said["thread"] = process.say("bob", "Who is here?", **thread)
    process.say("alice", "This is to be undone.", chat="100")
    said["/undo"] = process.say("alice", "/undo", chat="100")
    for number in range(3):
        process.say("alice", f"More of it: {number}.", chat="100")
    said["/compress"] = process.say("alice", "/compress", chat="100")
    process.say("alice", "Still there?", chat="100")
    said["/new"] = process.say("alice", "/new", chat="100")
    process.say("alice", "A fresh start.", chat="100")
    said["both"] = process.together(
        {"from": "alice", "chat": "100", "text": "At once."}, {"from": "bob", "chat": "200", "text": "Me too."}
    )


# The model


def test_answer_fits_by_what_was_said_and_not_by_what_was_recalled() -> None:
    model = Model(_echo)
    model.answers("trip", "Old.")
    model.answers("my trip", "New.")
    fence = "\n\n<memory-context>\n[System note: Reference.]\n\n- a trip\n</memory-context>"
    for said, reply in (("Hello.", "You said: Hello."), ("A trip", "Old."), ("It is my trip", "New.")):
        request = {"messages": [{"role": "user", "content": said + fence}], "tools": [{}]}
        assert model.answer(request)[1].text == reply
        assert model.seen(said).recalled == "- a trip"
        assert model.seen(said).user == said + fence


def test_text_that_the_model_never_got_is_not_found() -> None:
    with pytest.raises(LookupError, match="never told"):
        Model().seen("Hello.")


# Homes


def test_home_is_wired_last_and_its_commands_see_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/elsewhere")
    monkeypatch.setenv("SOME_SECRET", "do not tell")
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    wired: list[dict[str, str]] = []
    with Model() as model:
        settings = rigs.Settings({"memory": {"nudge_interval": 3}}, {"MORE": "yes"})
        wire = lambda rig: wired.append(json.loads(rig.command("python", "-c", show).stdout))  # noqa: E731
        rig = rigs.make(tmp_path / "home", model, provider="some", settings=[settings], wire=wire)
    (seen,) = wired
    assert seen["MORE"] == "yes"
    assert {name for name in seen if name in {"SOME_SECRET", "PYTHONPATH"}} == set()
    for name in ("HOME", "HERMES_HOME", "TMPDIR", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        assert Path(seen[name]).is_relative_to(rig.home.root)
    config = json.loads((rig.home.hermes / "config.yaml").read_text())
    assert (config["memory"]["provider"], config["memory"]["nudge_interval"]) == ("some", 3)


def test_process_that_does_not_start_says_why(tmp_path: Path) -> None:
    with Model() as model:
        rig = rigs.make(tmp_path / "home", model)
        with pytest.raises(AssertionError, match="No module named"):
            rigs.Child(rig, "tests.hermes.no_such_module").ready()


# The terminal and single agents


def test_recalled_lines_and_the_block_reach_the_model(agents: Ran) -> None:
    seen = agents.rig.model.seen("I fly to Chengdu.")
    assert seen.recalled == RECALLED
    assert BLOCK in seen.system
    assert agents.said["reply"] == "Have a good trip."


def test_tools_that_the_model_calls_are_run(agents: Ran) -> None:
    (write,) = agents.calls("on_memory_write")
    assert (write["action"], write["content"]) == ("add", "Drinks tea.")
    (call,) = agents.calls("handle_tool_call")
    assert (call["instance"], call["args"]) == (2, {"text": "Bob."})
    assert agents.said["bob"] == "Hello."


def test_terminal_s_commands_tell_the_provider_what_hermes_tells_it(agents: Ran) -> None:
    switches = agents.calls("on_session_switch")
    first, branch, new = agents.said["first"], agents.said["branch"], agents.said["new"]
    assert [one.get("reason", "undo") for one in switches] == ["undo", "compression", "branch", "new_session", "resume"]
    assert [one["new_session_id"] for one in switches] == [first, first, branch, new, agents.said["resumed"]]
    assert switches[0]["rewound"] is True
    assert len(agents.calls("on_pre_compress")) == 1


def test_each_agent_has_a_provider_of_its_own_with_what_it_was_built_with(agents: Ran) -> None:
    terminal, bob = agents.calls("initialize")
    assert (terminal["instance"], terminal["platform"]) == (1, "cli")
    assert (bob["instance"], bob["platform"], bob["user_id"], bob["gateway_session_key"]) == (2, "telegram", "2", "k:2")
    assert [one["instance"] for one in agents.calls("shutdown")] == [2, 1]


def test_reply_is_told_before_its_step_is_done_and_the_turn_is_stored_then(agents: Ran) -> None:
    told = [name for line in agents.told for name in ("delivered", "done") if name in line]
    assert {after for one, after in pairwise(told) if one == "delivered"} == {"done"}
    assert len(agents.calls("sync_turn")) == told.count("delivered") == 8


def test_agents_touch_nothing_outside_their_home(agents: Ran) -> None:
    assert agents.told[-1] == {"left": True, "outside": [], "connected": ["127.0.0.1"]}


def test_delivered_turns_are_known_after_a_kill_and_nothing_was_shut_down(tmp_path: Path) -> None:
    with Model(_echo) as model:
        rig = _logged(tmp_path / "home", model)
        with rig_agent.start(rig) as process:
            process.agent().converse("This is number {n}.", settle=True)
            for _ in range(3):
                process.until("delivered")
            delivered = process.kill()
    assert process.process.returncode == -signal.SIGKILL
    assert [line["delivered"] for line in delivered[:2]] == [
        "You said: This is number 1.",
        "You said: This is number 2.",
    ]
    stored = [one["user"] for one in _calls(rig, "sync_turn")]
    assert {line["said"] for line in delivered[:-1]} <= set(stored)  # the last one may have been killed before
    assert _calls(rig, "shutdown") == []


# The gateway and the API server. The tests of people and keys stand on both: these find the cause where they fail.


@pytest.mark.long
def test_people_and_chats_reach_the_provider_as_hermes_names_them(gateway: Ran) -> None:
    alice, bob, *thread = gateway.calls("initialize")[:4]
    assert (alice["user_id"], alice["chat_type"], alice["gateway_session_key"]) == (
        "alice",
        "dm",
        "agent:main:telegram:dm:100",
    )
    assert (bob["user_id"], bob["user_id_alt"], bob["chat_id"]) == ("bob", "robert", "200")
    assert [(one["user_id"], one["chat_type"], one["thread_id"]) for one in thread] == [
        ("alice", "group", "77"),
        ("bob", "group", "77"),
    ]


@pytest.mark.long
def test_words_of_one_in_a_thread_are_in_the_request_of_the_other(gateway: Ran) -> None:
    seen = gateway.rig.model.seen("Who is here?")
    assert seen.user.startswith("[bob] Who is here?")
    assert "[alice] Here we are." in seen.everything
    assert "Chengdu" not in seen.everything
    assert seen.recalled == RECALLED
    assert gateway.said["thread"] == ["You said: [bob] Who is here?"]


@pytest.mark.long
def test_commands_of_the_gateway_do_what_they_say(gateway: Ran) -> None:
    model = gateway.rig.model
    assert "to be undone" not in model.seen("More of it: 0.").everything
    assert "They talked." in model.seen("Still there?").everything
    assert "Still there?" not in model.seen("A fresh start.").everything
    assert all(gateway.said[name] for name in ("/undo", "/compress", "/new"))
    ended = {one["instance"] for one in gateway.calls("on_session_end")}
    assert {one["instance"] for one in gateway.calls("shutdown")} == ended


@pytest.mark.long
def test_two_messages_at_once_are_both_answered(gateway: Ran) -> None:
    assert sorted(gateway.said["both"]) == ["You said: At once.", "You said: Me too."]
    assert {"agent:main:telegram:dm:100", "agent:main:telegram:dm:200"} <= set(gateway.said["agents"])


@pytest.mark.long
def test_restarted_gateway_goes_on_with_the_conversation(gateway: Ran) -> None:
    assert gateway.said["again"] == ["You said: Are you back?"]
    assert "A fresh start." in gateway.rig.model.seen("Are you back?").everything
    assert gateway.said["calls after"] == gateway.said["calls before"] + 1
    assert [line["delivered"] for line in gateway.said["killed"]] == ["You said: Are you back?", "You said: Until now."]


@pytest.mark.long
def test_gateway_touches_nothing_outside_its_home(gateway: Ran) -> None:
    assert gateway.told[-1] == {"left": True, "outside": [], "connected": ["127.0.0.1"]}


@pytest.mark.long
def test_wrong_key_is_refused_and_reaches_no_model(gateway: Ran) -> None:
    assert gateway.said["refused"].status == 401
    assert "Let me in." not in json.dumps(gateway.rig.model.requests_seen())


@pytest.mark.long
def test_same_first_words_share_a_session_but_not_a_session_key(gateway: Ran) -> None:
    answers = [gateway.said[name] for name in ("with a key", "with another", "without")]
    assert {(one.status, one.reply) for one in answers} == {(200, "You said: My code is 17.")}
    assert len({one.session for one in answers}) == 1
    served = [one for one in gateway.calls("initialize") if one["platform"] == "api_server"]
    assert [one.get("gateway_session_key") for one in served] == ["webui:alice", "webui:bob", None]


# The command


@pytest.mark.long
def test_command_asks_the_model_and_the_provider(tmp_path: Path) -> None:
    with Model(_echo) as model:
        rig = _logged(tmp_path / "home", model)
        assert rig_cli.once(rig, "I fly to Chengdu.").strip() == "You said: I fly to Chengdu."
        assert rig_cli.chat(rig, "Where do I fly?").strip() == "You said: Where do I fly?"
        assert model.seen("Where do I fly?").recalled == RECALLED
        assert "logging_provider" in rig_cli.hermes(rig, "memory", "status")
    assert [one["user"] for one in _calls(rig, "sync_turn")] == ["I fly to Chengdu.", "Where do I fly?"]
    assert len(_calls(rig, "shutdown")) == 2
