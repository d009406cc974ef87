"""A turn is forgotten whole in the real Hermes, and what was shown outlasts its process.

A fact is said, stored by the tool, mirrored from the built-in memory and repeated in the reply; then it is forgotten in
each way there is, and must be in no prompt of a new session.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hermes import rig_agent, rig_cli, rig_gateway
from tests.hermes.model_server import ToolCall
from tests.hermes.rig_agent import Talk
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import Wired, ids, wired

SAID = "By the way, my gym code is 5521."
QUESTION = "What is my gym code, please?"
CALLS = (
    ToolCall("strongroom_remember", {"text": "Gym code: 5521"}),
    ToolCall("memory", {"action": "add", "target": "user", "content": "The gym code is 5521."}),
)
TOOLS = ("--tools", "full")


def tell(me: Talk) -> None:
    """The turn in which the fact is written everywhere."""
    me.say("The roof leaks in the north corner.", "I see.")
    me.say(SAID, "Noted: the gym code is 5521.", CALLS)


def of_the_code(home: Wired) -> list[str]:
    return [str(line.hit.id) for line in home.owner.lines() if "5521" in line.text]


def must_be_gone(home: Wired, process: rig_agent.AgentProcess) -> None:
    """From the vault, from the runtime's own notes, and from all that a new session sends to the model."""
    assert of_the_code(home) == []
    assert "5521" not in (home.rig.home.hermes / "memories" / "USER.md").read_text()
    process.terminal(toolsets=("memory", "strongroom")).say(QUESTION)
    assert "5521" not in home.rig.model.seen(QUESTION).everything
    assert [text for text in home.owner.texts() if "roof" in text], "and nothing else"


def ours(home: Wired, *words: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(rig_cli.hermes(home.rig, "strongroom", "--json", *words))
    return told


@pytest.mark.requirement("hermes-turn-whole", "hermes-forget-request")
def test_forget_tool_takes_the_whole_turn_and_the_request_is_not_kept(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, *TOOLS)
        with rig_agent.start(home.rig) as process:
            me = process.terminal(toolsets=("memory", "strongroom"))
            tell(me)
            written = of_the_code(home)
            assert len(written) == 4
            me.command("/new")
            asked = "Please forget that my gym code is 5521."
            model.answers(asked, "I forgot 5521.", ToolCall("strongroom_forget", {"ids": [written[0]]}))
            me.say(asked)
            told = home.told(asked)
            assert "strongroom_forget" in told
            assert set(ids(told)) & set(written)
            assert '"lines": 4' in model.results(asked)[0]
        with rig_agent.start(home.rig) as process:
            must_be_gone(home, process)


@pytest.mark.requirement("hermes-turn-whole", "hermes-undo")
def test_undo_in_the_terminal_takes_the_whole_turn(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, *TOOLS)
        with rig_agent.start(home.rig) as process:
            me = process.terminal(toolsets=("memory", "strongroom"))
            tell(me)
            assert len(of_the_code(home)) == 4
            me.command("/undo")
            process.settle()
            assert "4 lines forgotten, because the turn was undone" in process.printed()
        with rig_agent.start(home.rig) as process:
            must_be_gone(home, process)


@pytest.mark.requirement("hermes-turn-whole", "hermes-cli-owner", "hermes-cli")
def test_command_takes_the_whole_turn_by_any_of_its_lines_or_a_line_and_then_the_rest(tmp_path: Path) -> None:
    with Model() as model:
        for number, turn in enumerate((("--turn",), ())):
            home = wired(tmp_path / f"home{number}", model, *TOOLS)
            with rig_agent.start(home.rig) as process:
                tell(process.terminal(toolsets=("memory", "strongroom")))
            written = of_the_code(home)
            assert len(written) == 4
            done = ours(home, "forget", *turn, written[1])
            if not turn:
                assert done["forgotten"] == [written[1]]
                assert sorted(done["left of the turn"]) == sorted(set(written) - {written[1]})
                done = ours(home, "forget", "--turn", written[1])
            assert done["lines"] == (4 if turn else 3)
            with rig_agent.start(home.rig) as process:
                must_be_gone(home, process)


FORGETTING = {
    "the last turn, by our tool": ToolCall("strongroom_forget", {"last_turn": True}),
    "the note, by Hermes' own tool": ToolCall("memory", {"action": "remove", "target": "user", "old_text": "5521"}),
}


@pytest.mark.requirement("hermes-turn-whole", "hermes-forget-request")
@pytest.mark.parametrize("way", FORGETTING)
def test_forget_tool_called_on_a_request_takes_the_whole_turn(tmp_path: Path, way: str) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, *TOOLS)
        with rig_agent.start(home.rig) as process:
            me = process.terminal(toolsets=("memory", "strongroom"))
            tell(me)
            assert len(of_the_code(home)) == 4
            me.say("Please forget my gym code.", "I forgot 5521.", (FORGETTING[way],))
        with rig_agent.start(home.rig) as process:
            must_be_gone(home, process)


@pytest.mark.requirement("hermes-forget-request")
def test_request_to_forget_without_a_tool_is_not_kept_and_the_model_is_told_the_command(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say(SAID, "Noted.")
            kept = home.owner.texts()
            me.say("Please forget that my gym code is 5521.", "I shall not repeat 5521.")
            assert "hermes strongroom forget --turn ID" in home.told("Please forget")
            assert home.owner.texts() == kept == [SAID, "Noted."]


ASKED = {
    "de": "Bitte vergiss, dass mein Code {} ist.",
    "es": "Por favor, olvida que mi código es {}.",
    "fr": "Oublie que mon code est {}, s'il te plaît.",
    "pt": "Por favor, esquece que o meu código é {}.",
    "it": "Per favore, dimentica che il mio codice è {}.",
    "ru": "Пожалуйста, забудь, что мой код {}.",
    "zh": "请忘记我的密码是{}。",
    "ja": "私のコードが{}だということを忘れてください。",
    "ko": "내 코드가 {}라는 것을 잊어줘.",
    "ar": "من فضلك انس أن رمزي هو {}.",
    "hi": "भूल जाओ कि मेरा कोड {} है।",
    "th": "ช่วยลืมว่ารหัสของฉันคือ {}",
}


@pytest.mark.requirement("hermes-turn-whole", "hermes-forget-request")
def test_request_to_forget_in_each_language_is_not_kept_and_takes_the_whole_turn(tmp_path: Path) -> None:
    codes = {language: str(7301 + number) for number, language in enumerate(ASKED)}
    with Model() as model:
        home = wired(tmp_path / "home", model, *TOOLS)
        with rig_agent.start(home.rig) as process:
            me = process.terminal(toolsets=("memory", "strongroom"))
            me.say("The roof leaks in the north corner.", "I see.")
            for language, code in codes.items():
                fact = ToolCall("strongroom_remember", {"text": f"Code of the {language} gate: {code}"})
                note = ToolCall(
                    "memory", {"action": "add", "target": "user", "content": f"The {language} gate: {code}."}
                )
                me.say(f"My code of the {language} gate is {code}.", f"Noted: {code}.", (fact, note))
                written = [str(line.hit.id) for line in home.owner.lines() if code in line.text]
                assert len(written) == 4
                me.command("/new")
                asked = ASKED[language].format(code)
                me.say(asked, f"I forgot {code}.", (ToolCall("strongroom_forget", {"ids": [written[-1]]}),))
                assert "so this turn is not kept" in home.told(asked), language
                assert '"lines": 4' in model.results(asked)[0], language
                me.command("/new")
        kept = " ".join(home.owner.texts())
        assert [language for language, code in codes.items() if code in kept] == []
        with rig_agent.start(home.rig) as process:
            process.terminal(toolsets=("memory", "strongroom")).say(QUESTION)
        prompt = model.seen(QUESTION).everything
        assert [language for language, code in codes.items() if code in prompt] == []
        assert "roof" in kept, "and nothing else"


@pytest.mark.requirement("hermes-turn-whole", "hermes-gateway-undo", "hermes-cli-owner")
def test_undo_in_a_chat_and_the_owners_command_take_the_whole_turn(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, *TOOLS, settings=[rig_gateway.CHATS])
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "The roof leaks in the north corner.", chat="100")
            for said in (SAID, f"{SAID} Again."):
                model.answers(said, "Noted: the gym code is 5521.", *CALLS)
            gateway.say("alice", SAID, chat="100")
            assert len(of_the_code(home)) == 4
            gateway.say("alice", "/undo", chat="100")
            gateway.say("alice", "What about the roof?", chat="100")
            assert of_the_code(home) == []
            gateway.say("alice", f"{SAID} Again.", chat="100")
        written = of_the_code(home)
        assert len(written) == 4
        assert ours(home, "forget", "--as", "telegram:alice", "--turn", written[2])["lines"] == 4
        assert "5521" not in (home.rig.home.hermes / "memories" / "USER.md").read_text()
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "/new", chat="100")
            gateway.say("alice", QUESTION, chat="100")
            assert "5521" not in model.seen(QUESTION).everything


@pytest.mark.requirement("hermes-recall-once")
def test_nothing_is_shown_again_in_a_conversation_that_goes_on_after_a_gateway_restart(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model, settings=[rig_gateway.CHATS])
        home.show_more()
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "My spare key is under the geranium.", chat="100")
            gateway.say("alice", "/new", chat="100")
            gateway.say("alice", "Where is my spare key, first?", chat="100", reply="It is there.")
            shown = set(ids(home.told("spare key, first?")))
            assert shown
        with rig_gateway.start(home.rig) as gateway:
            gateway.say("alice", "Where is my spare key, second?", chat="100")
            assert "geranium" in model.seen("spare key, second?").everything, "the history goes on"
            assert not shown & set(ids(home.told("spare key, second?")))
            gateway.say("alice", "/new", chat="100")
            gateway.say("alice", "Where is my spare key, third?", chat="100")
            assert shown & set(ids(home.told("spare key, third?")))


@pytest.mark.requirement("hermes-recall-once")
def test_chat_that_is_continued_by_another_process_is_shown_nothing_twice(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        home.owner.put(["My spare key is under the geranium."])
        home.show_more()
        rig_cli.chat(home.rig, "Where is my spare key, first?")
        shown = set(ids(home.told("spare key, first?")))
        assert shown
        rig_cli.hermes(home.rig, "chat", "-c", "-Q", "-q", "Where is my spare key, second?")
        assert "geranium" in model.seen("spare key, second?").everything, "the history goes on"
        assert not ids(home.told("spare key, second?"))
