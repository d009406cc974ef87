"""The hooks as a runtime calls them: a process, JSON on stdin, a verdict on stdout; and called by Hermes itself."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import settings
from strongroom.cli import hook
from strongroom.hermes import cap_file, policy
from strongroom.hermes.provider.provider_home import home_of
from strongroom.model import Millis
from strongroom.vault.create_open import identify
from tests.cli.conftest import Cli, Done, environment, opened
from tests.hermes import homes
from tests.hermes.install.test_scrub import MADE_BY_HERMES, run_hermes

Ask = Callable[..., Done]


@pytest.fixture
def wired(vault: None, home: Path) -> Path:
    """A Hermes home as `strongroom wire hermes` leaves it, as far as hooks look at it."""
    hermes, outside = home / ".hermes", home / "outside"
    hermes.mkdir()
    with opened() as one:
        token = cap_file.mint(one, "hermes/default/", ("personal", "family", "work", "travel"))
    cap_file.write(outside / "runtime.cap", token)
    said = {"vault": settings.find().vault, "cap": str(outside / "runtime.cap"), "state": str(outside / "state")}
    policy.path_of(hermes).write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items()))
    return hermes


@pytest.fixture
def ask(process: Cli) -> Ask:
    """Calls a hook with a document."""

    def call(name: str, document: object, **env: str) -> Done:
        said = document if isinstance(document, str) else json.dumps(document)
        return process("hook", name, stdin=said, env=env)

    return call


def call(command: str = "ls", **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "pre_tool_call",
        "tool_name": "terminal",
        "tool_input": {"command": command},
        "session_id": "s1",
        "cwd": "/",
        "extra": {},
        **more,
    }


def turn(text: str, platform: str = "cli", session: str = "s1", **more: Any) -> dict[str, Any]:
    extra = {"user_message": text, "platform": platform, "sender_id": "", "conversation_history": [], **more}
    return call(session_id=session, tool_name=None, tool_input=None, hook_event_name="pre_llm_call", extra=extra)


def remember(actor: str, *texts: str) -> None:
    with opened() as one:
        token = one.mint(actor=actor, ops=["put"], namespaces=["travel"], ttl=600)
        for text in texts:
            one.memory(token).put(text, namespace="travel", author="ann")


# check, which fails closed


@pytest.mark.requirement("hermes-hook-check-closed")
@pytest.mark.parametrize("said", ["", "{", "[]", json.dumps(call(tool_input=None)), json.dumps(call(tool_name=""))])
def test_document_that_cannot_be_read_blocks_with_exit_code_0(wired: Path, ask: Ask, said: str) -> None:
    done = ask("check", said)
    assert (done.code, done.json["decision"]) == (0, "block")


@pytest.mark.requirement("hermes-hook-check-closed")
def test_home_that_is_not_wired_blocks(home: Path, ask: Ask) -> None:
    assert ask("check", call()).json["decision"] == "block"
    (home / ".hermes").mkdir()
    done = ask("check", call())
    assert (done.code, done.json["decision"]) == (0, "block")


@pytest.mark.requirement("hermes-hook-check-closed")
def test_policy_with_a_fault_and_none_before_it_blocks_and_says_so(wired: Path, ask: Ask) -> None:
    policy.path_of(wired).write_text("vault = [")
    done = ask("check", call())
    assert (done.code, done.json["decision"]) == (0, "block")
    assert "the policy file has an error" in done.json["reason"]
    assert "wire hermes --check-only" in done.json["reason"]


@pytest.mark.requirement("hermes-hook-check-closed", "hermes-policy-live")
def test_policy_with_a_fault_leaves_the_last_good_one_in_use(wired: Path, ask: Ask) -> None:
    home_of(wired).keep_good()
    with policy.path_of(wired).open("a") as file:
        file.write("[recall\n")
    kept = f"cat {wired / policy.GOOD}"
    for command in ("cat .hermes/strongroom.toml", kept, f"cat {settings.find().vault}/vault.db"):
        assert ask("check", call(command, cwd=str(wired.parent))).json["decision"] == "block"
    done = ask("check", call())
    assert (done.code, done.json) == (0, {})
    assert "wire hermes --check-only" in done.err


@pytest.mark.requirement("hermes-hook-check-closed")
def test_missing_cap_blocks(wired: Path, ask: Ask, home: Path) -> None:
    (home / "outside" / "runtime.cap").unlink()
    done = ask("check", call())
    assert done.json["decision"] == "block"
    assert "cap_missing" in done.json["reason"]


@pytest.mark.requirement("hermes-hook-check-closed")
def test_revoked_cap_blocks(wired: Path, ask: Ask) -> None:
    with opened() as one:
        (link,) = [record.link for record in one.caps() if record.label == "hermes default"]
        one.revoke(link)
    done = ask("check", call())
    assert done.json["decision"] == "block"
    assert "cap_revoked" in done.json["reason"]


@pytest.mark.requirement("hermes-hook-check-closed")
def test_expired_cap_blocks_and_is_not_renewed(wired: Path, ask: Ask, home: Path) -> None:
    path = home / "outside" / "runtime.cap"
    before = Millis(round(time.time() - 4) * 1000)
    place = settings.find().vault
    keys = settings.keys_of(identify(place), str)
    with strongroom.open(place, keys=keys, now=lambda: before) as early:
        token = early.mint(actor_scope="hermes/default/", ops=cap_file.OPS, namespaces=("travel",), ttl=1)
    cap_file.write(path, token)
    done = ask("check", call())
    assert done.json["decision"] == "block"
    assert "cap_expired" in done.json["reason"]
    assert cap_file.read(path) == token


@pytest.mark.requirement("hermes-hook-check-arguments")
@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.local/share/strongroom/keys/*/root.keyring",
        "cat $HOME/outside/runtime.cap",
        "ls ~/outside/state/spool",
        "sed -i s/x/y/ ~/.hermes/strongroom.toml",
        "strongroom get allergy",
    ],
)
def test_arguments_that_reach_for_what_is_the_owners_block(wired: Path, ask: Ask, command: str) -> None:
    done = ask("check", call(command))
    assert (done.code, done.json["decision"]) == (0, "block")
    assert "would access" in done.json["reason"]


def test_harmless_call_is_allowed_and_the_gate_was_asked(wired: Path, ask: Ask, process: Cli) -> None:
    before = len(process("audit", "show", "--json").json["entries"])
    done = ask("check", call())
    assert (done.code, done.json, done.err) == (0, {}, "")
    assert len(process("audit", "show", "--json").json["entries"]) > before


@pytest.mark.requirement("hermes-hook-check-closed")
def test_server_that_is_out_of_reach_blocks(wired: Path, ask: Ask) -> None:
    path = policy.path_of(wired)
    path.write_text(path.read_text().replace("vault = ", "# ") + 'url = "http://127.0.0.1:9"\n')
    done = ask("check", call())
    assert done.json["decision"] == "block"
    assert "server_unavailable" in done.json["reason"]


@pytest.mark.requirement("hermes-hook-stdin")
def test_open_stdin_without_data_ends_with_a_verdict(wired: Path, home: Path) -> None:
    # The pipe stays open until after the answer: a hook that waits for its end would never give one.
    child = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "strongroom", "hook", "check"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environment(),
    )
    assert child.stdout is not None
    assert child.stdin is not None
    said = child.stdout.read()
    assert child.wait(60) == 0
    child.stdin.close()
    child.stdout.close()
    assert json.loads(said)["decision"] == "block"


@pytest.mark.requirement("hermes-hook-check-closed")
def test_work_that_does_not_end_is_left_behind_with_the_verdict_of_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    let_go, left = threading.Event(), list[int]()
    monkeypatch.setattr(hook, "LIMIT", 0.05)
    monkeypatch.setattr(hook, "_told", lambda: let_go.wait(60))
    monkeypatch.setattr(hook, "_leave", left.append)
    assert hook.check.callback is not None
    hook.check.callback(home=None)
    let_go.set()
    assert json.loads(capsys.readouterr().out)["decision"] == "block"
    assert left == [0]


@pytest.mark.requirement("hermes-hook-check-closed")
@pytest.mark.parametrize(("name", "verdict"), [("check", "block"), ("audit", None), ("memory_inject", None)])
def test_defect_ends_in_the_verdict_of_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path, name: str, verdict: str | None
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("what it says stays unsaid")

    monkeypatch.setattr(hook, "_told", broken)
    monkeypatch.setattr(hook, "_leave", lambda _: None)
    getattr(hook, name).callback(home=None)
    said = capsys.readouterr()
    assert json.loads(said.out).get("decision") == verdict
    assert "unsaid" not in said.out + said.err


# audit and memory-inject, which never stand in the way


@pytest.mark.requirement("hermes-hook-audit")
def test_tool_call_is_put_on_record_and_its_arguments_are_not(wired: Path, ask: Ask, process: Cli) -> None:
    done = ask("audit", call("echo zanzibarquartz", hook_event_name="post_tool_call"))
    assert (done.code, done.json, done.err) == (0, {}, "")
    log = process("audit", "show", "--json").out
    assert "did terminal" in log
    assert "zanzibarquartz" not in log


@pytest.mark.requirement("hermes-hook-audit")
def test_tool_call_that_was_blocked_is_not_recorded_as_done(wired: Path, ask: Ask, process: Cli) -> None:
    assert ask("audit", call(hook_event_name="post_tool_call", extra={"status": "blocked"})).code == 0
    log = process("audit", "show", "--json").out
    assert "did blocked:terminal" in log
    assert "did terminal" not in log


@pytest.mark.requirement("hermes-hook-audit")
@pytest.mark.parametrize("name", ["audit", "memory-inject"])
def test_failure_is_said_beside_and_blocks_nothing(home: Path, ask: Ask, name: str) -> None:
    done = ask(name, call())
    assert (done.code, done.json) == (0, {})
    assert "there is no Hermes home" in done.err


@pytest.mark.requirement("hermes-hook-inject")
def test_owners_words_are_injected_once(wired: Path, ask: Ask) -> None:
    remember("hermes/default/owner", "Trip to Chengdu, May 25-29")
    done = ask("memory-inject", turn("when is my trip to Chengdu?"))
    assert (done.code, done.err) == (0, "")
    text = done.json["context"]
    assert "Trip to Chengdu" in text
    history = [{"role": "user", "content": "hi", "api_content": f"hi\n\n{text}"}]
    again = ask("memory-inject", turn("when is my trip to Chengdu?", conversation_history=history))
    assert again.json == {}


@pytest.mark.requirement("hermes-hook-inject")
def test_stranger_is_not_shown_the_owners_memory(wired: Path, ask: Ask) -> None:
    remember("hermes/default/owner", "Trip to Chengdu, May 25-29")
    assert ask("memory-inject", turn("trip to Chengdu?", platform="telegram", sender_id="42")).json == {}
    assert ask("memory-inject", turn("trip to Chengdu?", platform="telegram")).json == {}
    assert ask("memory-inject", turn("trip to Chengdu?", platform="cli", sender_id="42")).json == {}


@pytest.mark.requirement("hermes-hook-inject")
def test_person_in_a_direct_chat_is_known_by_hermes_database_and_a_group_is_not_shown_it(wired: Path, ask: Ask) -> None:
    told = {"path": str(wired / "state.db"), "turns": [], "results": [], "freed": ""}
    groups = (
        """database.create_session("s-group", source="telegram", user_id="alice", chat_id="-5", chat_type="group")\n"""
    )
    run_hermes(MADE_BY_HERMES.replace("for session, said", f"{groups}for session, said", 1), told, wired)
    remember("hermes/default/telegram/alice", "Trip to Chengdu, May 25-29")
    asked = {"platform": "telegram", "sender_id": "alice"}
    assert "Chengdu" in ask("memory-inject", turn("my trip to Chengdu?", session="s-alice", **asked)).json["context"]
    assert ask("memory-inject", turn("my trip to Chengdu?", session="s-group", **asked)).json == {}
    assert ask("memory-inject", turn("my trip to Chengdu?", session="s-bob", **asked)).json == {}
    assert ask("memory-inject", turn("my trip to Chengdu?", session="unknown", **asked)).json == {}


# Hermes itself

BY_HERMES = """
import json, sys
from hermes_cli.plugins import get_pre_tool_call_block_message, invoke_hook
from agent.shell_hooks import ShellHookSpec, register_from_config, run_once

told = json.loads(sys.stdin.read())
command = told["command"]
config = {"hooks": {"pre_tool_call": [{"command": f"{command} check", "timeout": 60}],
                    "pre_llm_call": [{"command": f"{command} memory-inject", "timeout": 60}],
                    "post_tool_call": [{"command": f"{command} audit", "timeout": 60}]}}
register_from_config(config, accept_hooks=True)
spec = ShellHookSpec("post_tool_call", f"{command} audit", timeout=60)
print(json.dumps({
    "blocked": get_pre_tool_call_block_message("terminal", {"command": "cat ~/outside/runtime.cap"}, session_id="s1"),
    "allowed": get_pre_tool_call_block_message("terminal", {"command": "ls"}, session_id="s1"),
    "context": invoke_hook("pre_llm_call", session_id="s1", user_message="my trip to Chengdu?", platform="cli",
                           sender_id="", conversation_history=[], is_first_turn=True, model="m"),
    "audited": run_once(spec, {"tool_name": "terminal", "args": {"command": "ls"}, "session_id": "s1", "result": "x"}),
}))
"""


@pytest.mark.requirement("hermes-hook-in-hermes")
def test_hermes_itself_calls_the_hooks_and_heeds_them(wired: Path, home: Path) -> None:
    remember("hermes/default/owner", "Trip to Chengdu, May 25-29")
    told = {"command": f"{sys.executable} -W error -m strongroom hook"}
    done = subprocess.run(
        [str(homes.PYTHON), "-c", BY_HERMES],
        input=json.dumps(told),
        env=environment({"HERMES_HOME": str(wired)}),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert "would access" in said["blocked"]
    assert said["allowed"] is None
    assert "Trip to Chengdu" in said["context"][0]["context"]
    assert (said["audited"]["returncode"], said["audited"]["stdout"].strip()) == (0, "{}")
