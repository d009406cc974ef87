"""Memory providers in a process of the real Hermes, called as Hermes calls them: through its own memory manager.

Runs with Hermes' Python. Each line on stdin is a number of turns; each line on stdout is what those took, as JSON. The
providers take turns, so whatever slows one slows the other. What a session adds is taken back at its end, so that the
number of lines stays what it was. A warning by a provider or by Hermes ends the measurement: a call that failed quietly
is quick, and says nothing.

What is timed is the same for every provider: the time inside its own methods, as Hermes' manager calls them. Hermes
runs some of them on a thread of its own, and what it takes to hand them over is no provider's doing. A turn is durable
when `sync_turn` returns.

Hermes' bundled `holographic` ignores turns: it keeps what its tool `fact_store` is handed. So its `sync_turn` is one
that hands both texts of a turn to that tool. Where numpy can be imported it keeps a vector of each fact, and of all
together; else it does without.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from importlib import import_module
from itertools import count
from time import perf_counter, process_time
from typing import Any, TextIO

from bench import lines

BEGIN, PREFETCH, KEEP, AFTER = "on_turn_start", "prefetch", "sync_turn", "queue_prefetch"
STRONGROOM, HOLOGRAPHIC = "strongroom", "holographic"
_PATIENCE = 60.0
OF_FACTS = "BENCH_FACTS"
"""Set in the environment where the lines are facts worded alike, and not talk."""
_SPOKEN = 97
"""The seed of what is said: other lines than those that are stored."""
_QUESTIONS = 5000
_FACTS = 2000
"""How many facts there are to ask about."""
_FIRST = "What did Alice say about the first printer in the kitchen?"
_FULL = "HRR storage near capacity"
"""What `holographic` warns of at every fact from some hundreds on; it still works."""
_TIMED = (BEGIN, PREFETCH, KEEP, AFTER)
ORDINARY = "ordinary talk"
_LARGE = 160_000
"""Characters of a hostile message."""
_TRIES = 5
_HOSTILE = {
    "the beginnings of recalled lines": '2026-01-01, a, b: " [',
    "addresses": "://a:b@",
    "announced passwords": "password for a b c d ",
    "key headers": "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA",
    "blocks that are never closed": "<memory-context>",
    "requests to forget": "please forget what i said ",
    "one long word": "a",
    "spaces": " x" + " " * 62,
    "phrases": "back on the record ",
    "words of rules": "bank holiday blood ",
    "dates": "on may 1 next ",
    "characters that show nothing": "ghp_\u200b",
}
"""Pieces that, repeated, are hostile to some rule over texts."""
Spent = tuple[float, float]
"""Seconds, as a clock on the wall has them, and of CPU time."""
Taken = dict[str, list[Spent]]
"""What every call took, by what was called."""


def talk(of_facts: bool = False) -> Iterator[tuple[str, str]]:
    """What is said in turns and what is replied, no text twice: a statement and a question by turns."""
    said = lines.facts(_SPOKEN) if of_facts else lines.texts(_SPOKEN)
    for question in lines.about_facts(_FACTS) if of_facts else dict.fromkeys(lines.questions(_QUESTIONS)):
        yield next(said), next(said)
        yield question, next(said)


class Side:
    """One provider behind a memory manager of its own, and its conversation."""

    def __init__(self, provider: Any) -> None:
        self.spent: list[Spent] = []
        for name in _TIMED:
            setattr(provider, name, _clocked(getattr(provider, name), self.spent))
        self.manager = import_module("agent.memory_manager").MemoryManager()
        self.manager.add_provider(provider)
        self.said = talk(OF_FACTS in os.environ)
        self.numbers = count(1)
        self.session = "session-0"
        self.messages: list[dict[str, Any]] = []
        self.recalled: list[int] = []

    def start(self) -> None:
        self.manager.initialize_all(self.session, platform="cli", agent_context="primary")

    def say(self, message: str, reply: str) -> str:
        """A turn that is not timed; what memory shows in it."""
        self.manager.on_turn_start(len(self.messages) // 2 + 1, message)
        shown: str = self.manager.prefetch_all(message)
        self._say(message, reply)
        self.keep(message, reply)
        self.after(message)
        return shown

    def _say(self, message: str, reply: str) -> None:
        self.messages.append({"role": "user", "content": message})
        self.messages.append({"role": "assistant", "content": reply})

    def turn(self, taken: Taken) -> None:
        message, reply = next(self.said)
        number = len(self.messages) // 2 + 1
        taken[BEGIN].append(self.inside(lambda: self.manager.on_turn_start(number, message)))
        taken[PREFETCH].append(self.inside(lambda: self.recall(message)))
        self._say(message, reply)
        taken[KEEP].append(self.inside(lambda: self.keep(message, reply)))
        taken[AFTER].append(self.inside(lambda: self.after(message)))

    def inside(self, work: Callable[[], object]) -> Spent:
        """What the provider's own methods took while the manager did something: one call of them, or several."""
        self.spent.clear()
        work()
        if not self.spent:
            raise RuntimeError("the provider was not called")
        return sum(wall for wall, _ in self.spent), sum(cpu for _, cpu in self.spent)

    def recall(self, message: str) -> None:
        found = self.manager.prefetch_all(message)
        self.recalled.append(found.count("\n- "))

    def keep(self, message: str, reply: str) -> None:
        """Until it is durable: Hermes hands it to another thread, and that one is waited for."""
        self.manager.sync_all(message, reply, session_id=self.session, messages=self.messages)
        if not self.manager.flush_pending(_PATIENCE):
            raise RuntimeError("a turn was not kept in time")

    def after(self, message: str) -> None:
        """What Hermes says once a turn was handed over, on the same thread: there is time before the next."""
        self.manager.queue_prefetch_all(message, session_id=self.session)
        if not self.manager.flush_pending(_PATIENCE):
            raise RuntimeError("what was to be done after a turn was not, in time")

    def take_back(self) -> None:
        """Undo the session's turns, and begin another session. Nothing of it is counted."""
        for _ in range(len(self.messages) // 2):
            self.manager.on_session_switch(self.session, rewound=True)
        self._new_session()

    def _new_session(self) -> None:
        old, self.session, self.messages = self.session, f"session-{next(self.numbers)}", []
        self.manager.on_session_switch(self.session, parent_session_id=old, reset=True, reason="new_session")
        self.manager.prefetch_all(_FIRST)


class Holographic(Side):
    """The provider that Hermes bundles. What it is told by its tool is durable when the tool returns."""

    def __init__(self) -> None:
        provider = import_module("plugins.memory").load_memory_provider(HOLOGRAPHIC)
        self._call = provider.handle_tool_call
        self.facts: list[int] = []
        provider.sync_turn = self.sync_turn
        super().__init__(provider)

    def sync_turn(self, user: str, reply: str, **_: object) -> None:
        """Keep both texts of a turn, on the thread on which Hermes has turns kept."""
        for text in (user, reply):
            self.facts.append(self.add(text))

    def add(self, text: str) -> int:
        return int(self._tool(action="add", content=text)["fact_id"])

    def take_back(self) -> None:
        for fact in self.facts:
            self._tool(action="remove", fact_id=fact)
        self.facts.clear()
        self._new_session()

    def _tool(self, **args: object) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._call("fact_store", args))
        return answer


def strongroom_side() -> Side:
    from strongroom.hermes.provider import StrongroomProvider

    return Side(StrongroomProvider(os.environ["HERMES_HOME"]))


_SIDES: dict[str, Callable[[], Side]] = {STRONGROOM: strongroom_side, HOLOGRAPHIC: Holographic}


def _clocked(method: Callable[..., Any], spent: list[Spent]) -> Callable[..., Any]:
    """A provider's method, and a note of what each call of it took."""

    @wraps(method)
    def timed(*args: Any, **kwargs: Any) -> Any:
        wall, cpu = perf_counter(), process_time()
        try:
            return method(*args, **kwargs)
        finally:
            spent.append((perf_counter() - wall, process_time() - cpu))

    return timed


def _timed(work: Callable[[], object]) -> Spent:
    wall, cpu = perf_counter(), process_time()
    work()
    return perf_counter() - wall, process_time() - cpu


class Complaints(logging.Handler):
    """The warnings of this process."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    @classmethod
    def listening(cls) -> Complaints:
        complaints = cls()
        logging.getLogger().addHandler(complaints)
        return complaints

    def emit(self, record: logging.LogRecord) -> None:
        if not record.msg.startswith(_FULL):
            self.said.append(record.getMessage())

    def check(self) -> None:
        if self.said:
            raise RuntimeError(f"a provider did not work: {self.said[0]}")


def measure(names: Sequence[str], told: TextIO, answers: TextIO) -> None:
    """Do as many turns of every side as each line says, and answer what they took."""
    complaints = Complaints.listening()
    sides = {name: _SIDES[name]() for name in names}
    for side in sides.values():
        side.start()
    for line in told:
        taken: dict[str, Taken] = {name: {one: [] for one in _TIMED} for name in sides}
        for _ in range(int(line)):
            for name, side in sides.items():
                side.turn(taken[name])
        for side in sides.values():
            side.take_back()
        complaints.check()
        _answer(answers, {name: {"taken": taken[name], "recalled": _drained(sides[name])} for name in sides})


def first(name: str, answers: TextIO) -> None:
    """The first prefetch of this process, with nothing between it and the start of the session."""
    complaints = Complaints.listening()
    side = _SIDES[name]()

    def answered() -> None:
        side.start()
        side.recall(_FIRST)

    wall, cpu = _timed(answered)
    complaints.check()
    _answer(answers, {"wall": wall, "cpu": cpu, "recalled": side.recalled[0]})
    side.manager.shutdown_all()


def hostile(answers: TextIO) -> None:
    """Turns of one size, an ordinary message first: the CPU time of all four hooks, the least of several turns."""
    side = strongroom_side()
    side.start()
    found: dict[str, float] = {}
    for name, piece in {ORDINARY: " ".join(next(lines.texts(_SPOKEN)) for _ in range(40)) + " ", **_HOSTILE}.items():
        costs: list[float] = []
        for number in range(_TRIES):
            message = f"{number} {piece * (_LARGE // len(piece) + 1)}"[:_LARGE]
            side.said = iter([(message, "Fine.")])
            taken: Taken = {one: [] for one in _TIMED}
            side.turn(taken)
            costs.append(sum(cpu for [(_, cpu)] in taken.values()))
            side.take_back()
        found[name] = min(costs)
    _answer(answers, found)
    side.manager.shutdown_all()


def fill(number: int) -> None:
    """Hand the lines of a vault to `holographic` as facts."""
    side = Holographic()
    side.start()
    for line in lines.lines(1, number, lines.facts(1) if OF_FACTS in os.environ else None):
        side.add(line.text)
    side.manager.shutdown_all()


def vectors() -> None:
    """Have `holographic` make the vectors of facts that it was handed while it had no numpy: much faster so."""
    import_module("numpy")
    side = Holographic()
    side.start()
    side.manager.providers[0]._store.rebuild_all_vectors()
    side.manager.shutdown_all()


def _drained(side: Side) -> list[int]:
    found, side.recalled = side.recalled, []
    return found


def _answer(answers: TextIO, found: object) -> None:
    answers.write(json.dumps(found) + "\n")
    answers.flush()


def main(command: str, *args: str) -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever else is printed here is no answer
    if command == "measure":
        measure(args, sys.stdin, answers)
    elif command == "first":
        first(args[0], answers)
    elif command == "hostile":
        hostile(answers)
    elif command == "vectors":
        vectors()
    else:
        fill(int(args[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
