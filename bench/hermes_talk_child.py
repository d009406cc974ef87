"""Plays a scripted conversation in a process of the real Hermes, and answers with what memory showed in each turn.

Runs with Hermes' Python. Each line on stdin is a turn as JSON, with `time`, `user` and `reply`; each line on stdout is
the text that Hermes' memory manager would put before the model. There is no model: the replies are scripted.

The clock of the provider is the turn's, so that "last week" means what it meant to the person, whenever this runs.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime, tzinfo
from typing import Any

from bench.hermes_child import Complaints, strongroom_side
from strongroom.hermes.provider import recall, turn_writer
from strongroom.model import Millis, millis


class TurnClock(datetime):
    """A `datetime` whose `now` is the time of the turn."""

    turn: datetime

    @classmethod
    def now(cls, zone: tzinfo | None = None) -> Any:
        return cls.turn.astimezone(zone)


def _now() -> Millis:
    return millis(TurnClock.turn)


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed here is no answer
    vars(recall)["datetime"] = TurnClock
    vars(turn_writer)["millis"] = _now
    complaints = Complaints.listening()
    side = strongroom_side()
    is_started = False
    for told in sys.stdin:
        turn = json.loads(told)
        TurnClock.turn = datetime.fromisoformat(turn["time"])
        if not is_started:
            side.start()
            is_started = True
        shown = side.say(turn["user"], turn["reply"])
        complaints.check()
        answers.write(json.dumps(shown) + "\n")
        answers.flush()
    side.manager.shutdown_all()


if __name__ == "__main__":
    main()
