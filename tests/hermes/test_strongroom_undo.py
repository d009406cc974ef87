"""Undoing several turns at once in Hermes' real terminal, which tells memory of it once, and skills that are nobody's
word.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hermes import rig_agent
from tests.hermes.provider.test_wrapped import ALONE
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import wired


@pytest.mark.requirement("hermes-undo", "hermes-no-orphans")
def test_undo_of_several_turns_forgets_them_all_at_once_and_a_bare_skill_is_never_kept(tmp_path: Path) -> None:
    with Model() as model:
        home = wired(tmp_path / "home", model)
        with rig_agent.start(home.rig) as process:
            me = process.terminal()
            me.say("The word to keep is acacia.", "Acacia it is.")
            kept = home.owner.texts()
            me.say("The second word is bamboo.", "Bamboo it is.")
            me.say(ALONE, "Done.")
            me.say("The third word is clover.", "Clover it is.")
            me.command("/undo 3")
            process.settle()
            assert home.owner.texts() == kept == ["The word to keep is acacia.", "Acacia it is."]
            me.say(ALONE, "Done.")
        with rig_agent.start(home.rig) as process:
            process.terminal().say("The last word is daisy.", "Daisy it is.")
            process.settle()
            assert home.owner.texts() == [*kept, "The last word is daisy.", "Daisy it is."]
