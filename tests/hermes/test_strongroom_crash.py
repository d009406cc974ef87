"""Hermes killed at random points of a conversation: what was said is recalled if its reply was delivered.

Killed is what `kill -9` kills: the real Hermes in a process of its own, in the middle of whatever it does then.
"""

from __future__ import annotations

import json
import random
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.hermes import rig_agent
from tests.hermes.rig_agent import AgentProcess, Talk
from tests.hermes.rig_model import Model
from tests.hermes.strongroom_rigs import Wired, eventually, in_clear, served, wired

MOST = 4
"""Replies of a round at most."""


class Rounds:
    """Rounds of one home. Each begins with the question for all that the round before it delivered."""

    def __init__(self, home: Wired, seed: int) -> None:
        self._home, self._chance = home, random.Random(seed)
        self._delivered: list[str] = []
        self.checked = 0
        home.show_more()

    def run(self, number: int) -> None:
        with self._opened() as (process, talk):
            self._recalls(talk, number)
            self._converse(process, talk, number)

    def end(self) -> None:
        with self._opened() as (_, talk):
            self._recalls(talk, 0)

    def _opened(self) -> AbstractContextManager[tuple[AgentProcess, Talk]]:
        return _Opened(rig_agent.start(self._home.rig))

    def _recalls(self, talk: Talk, number: int) -> None:
        if self._delivered:
            question = f"Before round {number}: who knows {' '.join(self._delivered)}?"
            lost = self._missed(talk, question, self._delivered)
            if lost:  # on a busy machine what the killed one left may be delivered after a recall's patience
                lost = self._missed(talk, f"Once more, {question}", lost)
            assert lost == [], f"lost: {lost}; in the vault: {self._home.owner.texts()[-20:]}; {self._waiting()}"
            self.checked += len(self._delivered)

    def _waiting(self) -> str:
        return f"in the spool: {sorted(path.name for path in self._home.policy.spool.iterdir())}"

    def _missed(self, talk: Talk, question: str, words: list[str]) -> list[str]:
        """The words that are not recalled for a question."""
        talk.say(question)
        recalled = self._home.told(question)
        return [word for word in words if f"to be kept is {word}." not in recalled]

    def _converse(self, process: AgentProcess, talk: Talk, number: int) -> None:
        before = len(process.delivered())
        most, down = self._chance.randint(1, MOST), self._chance.randint(0, 1)
        model = self._home.rig.model
        talk.converse(f"The word to be kept is r{number}w{{n}}.")
        for reply in range(most):
            process.until("delivered")
            if self._home.server is not None and reply == down:
                self._home.server.stop()
        if self._chance.random() < 0.5:  # else right after a reply
            said = f"r{number}w{most + 1}."
            eventually(lambda: said in json.dumps(model.requests_seen()[-1]), "the model is asked once more")
        replies = process.kill()[before:]
        if self._home.server is not None and self._home.server.process is None:
            self._home.server.start()
        self._delivered = [str(line["said"]).split()[-1].strip(".") for line in replies]
        assert len(self._delivered) >= most


class _Opened(AbstractContextManager[tuple[AgentProcess, Talk]]):
    def __init__(self, process: AgentProcess) -> None:
        self._process = process

    def __enter__(self) -> tuple[AgentProcess, Talk]:
        return self._process, self._process.agent()

    def __exit__(self, *error: object) -> None:
        self._process.kill()


def _killed(where: Path, rounds: int, model: Model) -> None:
    home = wired(where, model)
    _run(home, rounds)


def _run(home: Wired, rounds: int) -> None:
    run = Rounds(home, rounds)
    for number in range(1, rounds + 1):
        run.run(number)
    run.end()
    assert run.checked >= rounds
    assert in_clear(("word to be kept",), home.owner.data, home.policy.state) == []
    kept = [text for text in home.owner.texts() if text.startswith("The word to be kept is ")]
    assert len(kept) == len(set(kept)), "none was kept twice"


@pytest.mark.requirement("hermes-kill-9")
def test_hermes_killed_at_random_loses_no_delivered_turn(tmp_path: Path) -> None:
    with Model() as model:
        _killed(tmp_path / "home", 3, model)


@pytest.mark.requirement("hermes-kill-9-server-down")
def test_hermes_killed_at_random_loses_no_delivered_turn_also_while_the_server_is_down(tmp_path: Path) -> None:
    with Model() as model, served(tmp_path / "home", model) as home:
        _run(home, 2)


@pytest.mark.long
@pytest.mark.requirement("hermes-kill-9")
def test_hermes_killed_twenty_times_at_random_loses_no_delivered_turn(tmp_path: Path) -> None:
    with Model() as model:
        _killed(tmp_path / "home", 20, model)


@pytest.mark.long
@pytest.mark.requirement("hermes-kill-9-server-down")
def test_hermes_killed_twenty_times_at_random_and_the_server_with_it_loses_no_delivered_turn(tmp_path: Path) -> None:
    with Model() as model, served(tmp_path / "home", model) as home:
        _run(home, 20)
