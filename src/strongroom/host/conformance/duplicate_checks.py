"""Checks of repeated turns. The same turn, delivered again after a crash, must be stored once. Two turns with equal
words must be stored twice.
"""

from __future__ import annotations

from strongroom.host.conformance.check_stage import ALICE, BICYCLE, LOCKER, CheckStage
from strongroom.host.conformance.scripted_agent import wait_until
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable

_TURN_ID, _OTHER_ID = "0" * 31 + "1", "0" * 31 + "2"


def same_turn_twice(stage: CheckStage) -> str:
    """Deliver a turn to two objects of the provider, as after a crash; under one id if the hook takes an id."""
    stage.needs_turns()
    stage.started().keep(LOCKER.said, turn_id=_TURN_ID)
    if not stage.fresh().keeps(LOCKER):
        raise Failed("a line that was told did not come back")
    before = _times(stage)
    again = stage.started()
    again.keep(LOCKER.said, turn_id=_TURN_ID)
    again.keep(BICYCLE.said)
    stage.expect(BICYCLE, ALICE, "a turn that came twice")
    if _times(stage) > before:
        raise Failed("a turn that came twice comes back twice")
    return "a turn that came twice came back once"


def equal_turns(stage: CheckStage) -> str:
    """Deliver two turns with equal words and different ids."""
    stage.needs_turns()
    agent = stage.started()
    if not agent.takes("sync_turn", "turn_id"):
        raise NotApplicable("its sync_turn takes no turn_id: it cannot tell such turns from one that comes twice")
    agent.keep(LOCKER.said, turn_id=_TURN_ID)
    if not stage.keeps(agent, LOCKER):
        raise Failed("a line that was told did not come back")
    before = (_times(stage), _in_files(stage))
    agent.keep(LOCKER.said, turn_id=_OTHER_ID)

    def both() -> bool:
        return _times(stage) > before[0] or _in_files(stage) > before[1]

    if wait_until(both, stage.subject.patience):
        return "two turns with the same words were both kept"
    if not before[1]:
        raise NotApplicable("its files are not to be read, and it recalls equal lines once: nobody can count them")
    raise Failed("a turn with the same words as another one was taken for that one")


def _times(stage: CheckStage) -> int:
    """Count how often the line occurs in everything that a new agent recalls."""
    return stage.fresh().recall(LOCKER.question).count(LOCKER.answer)


def _in_files(stage: CheckStage) -> int:
    return sum(content.count(LOCKER.answer.encode()) for content in stage.files.contents().values())


CHECKS = (
    Check(
        "same-turn-twice",
        "A turn that comes twice is kept once",
        "Gives the same turn of the same session, under the same turn_id, to two objects, one after the other.",
        "After a crash nobody knows whether a turn was kept, so it comes again.",
        same_turn_twice,
    ),
    Check(
        "equal-turns",
        "Two turns with the same words are both kept",
        "Gives two turns with equal texts and different turn_ids to a provider that takes a turn_id.",
        "People say yes twice. Who knows a turn by its words alone loses the second one.",
        equal_turns,
    ),
)
