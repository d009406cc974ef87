"""What a session does to memory: its commands leave no orphan, the built-in notes are mirrored, what is off the record
is not kept, and secrets are masked. In Hermes' real terminal.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strongroom.host.memory_file_import import MARKER
from strongroom.model import Kind
from tests.hermes import rig_agent
from tests.hermes.model_server import ToolCall
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import OWNER, Wired, database, eventually, ids, in_clear, wired

KEY = "AKIA" + "QYLPMN5HHHFPZAM2"
"""In the form of an access key; nobody's."""


def _said_by_hermes(home: Wired) -> set[tuple[str, str]]:
    """Every message that Hermes has for a session, with that session's id."""
    return set(database(home.rig, "select session_id, content from messages where role in ('user', 'assistant')"))


@pytest.mark.long  # test_undo.py shows undoing without Hermes, test_strongroom_people.py that nothing is orphaned
@pytest.mark.requirement("hermes-no-orphans", "hermes-undo")
def test_new_undo_compress_branch_resume_and_restart_leave_no_orphan(tmp_path: Path) -> None:
    with Model(summary="They talked of the zinnia.") as model:
        home = wired(tmp_path / "home", model)
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("The first word is acacia.", "Acacia it is.")
            me.say("The second word is bamboo.", "Bamboo it is.")
            me.command("/undo")
            process.settle()
            assert not [text for text in home.owner.texts() if "amboo" in text], "taken back at once"
            for number in range(3):
                me.say(f"More of it: {number}.")
            first = me.compress()
            me.say("The third word is clover.")
            branch = me.command("/branch other")
            me.say("The fourth word is daisy.")
            new = me.command("/new")
            me.say("The fifth word is elder.")
            me.say("The word to be taken back is hemlock.", "Hemlock it is.")
            me.command(f"/resume {first}")
            me.say("The sixth word is fuchsia.")
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("The seventh word is ginkgo.")
            me.command(f"/resume {new}")
            me.command("/undo")
            me.say("Do you know the word hemlock?")
            assert "to be taken back" not in home.told("Do you know the word hemlock?")
            process.agent("worker", platform="cron").say("Every hour: look at the hollyhock.")
        turns = [line for line in home.owner.lines() if line.hit.kind == Kind.TURN]
        words = ("acacia.", "clover", "daisy", "elder", "fuchsia", "ginkgo")
        where = {word: {line.hit.session for line in turns if word in line.text} for word in words}
        assert [len(found) for found in where.values()] == [1, 1, 1, 1, 1, 1]
        assert (where["daisy"], where["elder"], where["fuchsia"]) == ({branch}, {new}, {first})
        said = _said_by_hermes(home)
        orphans = [line.text for line in turns if (line.hit.session, line.text) not in said]
        assert orphans == [], "every line was said in its session"
        assert len({(line.hit.session, line.hit.author, line.text, line.hit.time) for line in turns}) == len(turns)
        texts = " ".join(line.text for line in turns)
        assert "zinnia" not in texts, "a summary is nobody's word"
        assert "emlock it is" not in texts, "taken back in another process than it was said in"
        assert "hollyhock" not in texts, "what a clock says is not kept"
        assert {line.actor for line in turns} == {OWNER}


@pytest.mark.requirement("hermes-mirrored-notes", "hermes-delegation")
def test_notes_of_the_built_in_memory_are_mirrored_and_a_removed_one_is_really_forgotten(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        with rig_agent.start(home.rig) as process:
            me = process.terminal(toolsets=("memory", "delegation"))
            me.memory_tool(action="add", target="user", content="Drinks green tea at breakfast.")
            me.memory_tool(action="add", target="memory", content="The boiler is serviced in autumn.")
            new = "Drinks black tea at breakfast."
            me.memory_tool(action="replace", target="user", old_text="green tea", content=new)
            assert _notes(home) == [new, "The boiler is serviced in autumn."]
            me.memory_tool(action="remove", target="user", old_text="black tea")
            assert _notes(home) == ["The boiler is serviced in autumn."]
            model.answers("Look up the tide table", "High tide is at nine.")
            goal = "Look up the tide table"
            me.say("Let somebody look up the tides.", "At nine.", [ToolCall("delegate_task", {"goal": goal})])
            (brought,) = [line for line in home.owner.lines() if line.hit.kind == Kind.DELEGATION]
            assert goal in brought.text
            assert "High tide is at nine." in brought.text
            me.command("/new")
            me.say("Which tea do I drink at breakfast? What about the boiler?")
        recalled = home.told("Which tea do I drink at breakfast?")
        assert "boiler is serviced" in recalled
        assert "black tea" not in recalled
        assert "green tea" not in recalled
        about = [line for line in home.owner.lines() if goal in line.text]
        assert about == [brought], "a child's own turns are not kept"
        assert in_clear(("green tea", "black tea", "boiler"), home.owner.data, home.policy.state) == []


def _notes(home: Wired) -> list[str]:
    return sorted(line.text for line in home.owner.lines() if line.hit.author in ("hermes user", "hermes memory"))


@pytest.mark.requirement("hermes-import-once")
def test_memory_files_are_imported_once_and_never_under_per_session(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        user = home.rig.home.hermes / "memories" / "USER.md"
        user.parent.mkdir(exist_ok=True)
        user.write_text("Plays the xylophone.")
        home.write("session", strategy="per-session")
        with rig_agent.start(home.rig) as process:
            process.agent("per-session").say("Hello.")
            home.write("session", strategy="per-directory")
            user.write_text("Plays the oboe.\n\u00a7\nLives by the sea.")
            (user.parent / "MEMORY.md").write_text("The roof is new.")
            imported = ["Lives by the sea.", "Plays the oboe.", "The roof is new."]
            me = process.agent("first")
            eventually(lambda: _notes(home) == imported, "the files are imported")
            eventually(lambda: _handed_over(home) > 0, "and that is noted")
            me.memory_tool(action="add", target="memory", content="The cellar is dry.")
            before = _handed_over(home)
            process.agent("second").say("Hello again.")
            eventually(lambda: _handed_over(home) > before, "the changed file is looked at")
        with rig_agent.start(home.rig) as process:
            process.agent("third").say("And again.")
        assert _notes(home) == sorted([*imported, "The cellar is dry."]), "each once: also what was mirrored already"


def _handed_over(home: Wired) -> int:
    marker = home.rig.home.hermes / MARKER
    return len(json.loads(marker.read_text())) if marker.exists() else 0


@pytest.mark.long  # provider/test_masking.py and test_keeping.py show it without Hermes
@pytest.mark.requirement("hermes-off-the-record", "hermes-secrets-masked")
def test_off_the_record_text_is_not_kept_and_secrets_are_masked_before_anything_is_stored(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("Off the record: the surprise is a marigold.", "A marigold, I see.")
            me.say("The meeting is about the narcissus.")
            me.say(f"My access key is {KEY}, for the backup of the oleander.", f"So {KEY} it is.")
            me.say("This conversation is off the record.", "Fine.")
            me.say("The password hint is petunia.", "Petunia.")
            me.compress()
            me.say("Still nothing of the primrose, please.")
            me.say("We are back on the record: the plan is called rosemary.")
            me.command("/new")
            me.say("The other plan is called saffron.")
        texts = "\n".join(home.owner.texts())
        words = ("arigold", "narcissus", "oleander", "etunia", "primrose", "rosemary", "saffron")
        assert {word for word in words if word in texts} == {"narcissus", "oleander", "rosemary", "saffron"}
        assert KEY not in texts
        assert in_clear((KEY, "marigold", "petunia"), home.owner.data, home.policy.state) == []
        with rig_agent.start(home.rig) as process:
            process.terminal().say("What is my access key for the backup of the oleander?")
        recalled = home.told("What is my access key")
        assert ids(recalled)
        assert KEY not in recalled
