"""What an agent is shown: a scripted conversation in the real Hermes, after three months of stored talk.

The set is bench/sets/hermes_conversation.json; how it is scored is told beside it. The lines lie in a home's vault with
their times, sessions and authors, and the turns pass through Hermes' own memory manager (bench/hermes_talk_child.py).
Each figure stands beside the one under the policy of before: no floor, and a line for any word that it shares.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import mean, median

import msgspec

import strongroom
from bench import hermes_home, vaults
from bench.evaldata import SETS
from bench.hermes_home import OWNER, PYTHON, ROOT, SCOPE, Home
from bench.measure import Goal, Row, Run
from strongroom import NewLine
from strongroom.hermes import cap_file, runtime_cap
from strongroom.model import BATCH_LIMIT

SET = SETS / "hermes_conversation.json"
BEFORE: Mapping[str, object] = {"lines": 5, "min_confidence": 0.0, "neighbours": True, "standing": 2}
"""The policy of before there was a floor."""
_PATIENT: Mapping[str, object] = {"patience": 7.0}
"""A busy machine must not change what is shown."""
_SHOWN = re.compile(r"^- .* \[([0-9A-Z]{26})\]$", re.MULTILINE)
_HALF = Goal("share", 0.5, 0.8)
_ALL = Goal("share", 1.0, 1.0)
_FEW = Goal("ours", 30, 20)
"""Of a hundred lines."""


class StoredLine(msgspec.Struct):
    """A line of the set."""

    id: str
    time: datetime
    session: str
    author: str
    text: str


class ScriptedTurn(msgspec.Struct):
    """A turn of the conversation, and what fits it."""

    id: str
    time: datetime
    kind: str
    user: str
    reply: str
    gold: frozenset[str]
    fits: frozenset[str]
    told: str = ""


class TalkSet(msgspec.Struct):
    """The stored lines, more lines of the same person that fit nothing, and the turns."""

    stored: list[StoredLine]
    filler: list[StoredLine]
    turns: list[ScriptedTurn]


@dataclass(frozen=True, slots=True)
class TurnShown:
    """What memory showed in a turn: the names of lines in the set, and how many characters."""

    turn: ScriptedTurn
    lines: tuple[str, ...]
    characters: int


def read() -> TalkSet:
    return msgspec.json.decode(SET.read_bytes(), type=TalkSet)


def make(place: Path, known: Sequence[StoredLine]) -> tuple[Home, dict[str, str]]:
    """A home whose owner has these lines, and the name in the set of each line's id."""
    place.mkdir()
    with vaults.make(place) as vault:
        shutil.copytree(place / "keys", place / "keyring" / vault.id)
        runtime = cap_file.mint(vault, SCOPE, vault.namespaces)
        cap_file.write(place / "runtime.cap", runtime)
        owner = vault.memory(strongroom.attenuate(runtime, actor=OWNER, ttl=vaults.DAY))
        new = [NewLine(text=one.text, time=one.time, session=one.session, author=one.author) for one in known]
        found = zip(hermes_home.placed(new), known, strict=True)
        names: dict[str, str] = {}
        while batch := list(islice(found, BATCH_LIMIT)):
            receipts = owner.put_many([line for line, _ in batch])
            names |= {receipt.id: one.id for receipt, (_, one) in zip(receipts, batch, strict=True)}
        return Home(place, runtime_cap.inbox_of(vault.memory(runtime), runtime, SCOPE)).wired(), names


def play(
    home: Home, names: Mapping[str, str], turns: Sequence[ScriptedTurn], recall: Mapping[str, object]
) -> list[TurnShown]:
    """Play the conversation in Hermes under a policy with these settings of `recall`."""
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in {**_PATIENT, **recall}.items())
    with (home.path / "strongroom.toml").open("a") as policy:
        policy.write(f"[recall]\n{settings}")
    told = "".join(
        json.dumps({"time": turn.time.isoformat(), "user": turn.user, "reply": turn.reply}) + "\n" for turn in turns
    )
    with (home.place / "hermes.log").open("wb") as errors:
        done = subprocess.run(
            [str(PYTHON), "-m", "bench.hermes_talk_child"],
            env=home.environment(),
            cwd=ROOT,
            input=told,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"Hermes failed: {(home.place / 'hermes.log').read_text()[-2000:]}")
    texts = [json.loads(answer) for answer in done.stdout.splitlines()]
    return [
        TurnShown(turn, tuple(names.get(one, "") for one in _SHOWN.findall(text)), len(text))
        for turn, text in zip(turns, texts, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class TalkFigures:
    """The figures of one conversation."""

    shown: int
    fitting: int
    different: int
    """How many of the hundred stored lines were shown in any turn."""
    asked: int
    answered: int
    """Direct questions with a line of gold shown, in their turn or before."""
    whole: int
    """Direct questions with all their gold shown."""
    preferred: int
    """Requests for which a preference matters, with that preference shown."""
    repeated: int
    """Questions about this conversation in which a line of another conversation was shown that does not fit."""
    median: float
    mean: float

    @classmethod
    def of(cls, played: Sequence[TurnShown], stored: Sequence[StoredLine]) -> TalkFigures:
        names = {one.id for one in stored}
        before: set[str] = set()
        answered = whole = preferred = repeated = 0
        for one in played:
            before.update(one.lines)
            gold = one.turn.gold
            if one.turn.kind == "past":
                answered += not gold.isdisjoint(before)
                whole += gold <= before
            preferred += one.turn.kind == "preference" and not gold.isdisjoint(before)
            repeated += one.turn.kind == "here" and any(line not in one.turn.fits for line in one.lines)
        return cls(
            shown=sum(len(one.lines) for one in played),
            fitting=sum(line in one.turn.fits for one in played for line in one.lines),
            different=len(before & names),
            asked=sum(one.turn.kind == "past" for one in played),
            answered=answered,
            whole=whole,
            preferred=preferred,
            repeated=repeated,
            median=median(one.characters for one in played),
            mean=mean(one.characters for one in played),
        )


def rows(run: Run) -> Iterator[Row]:
    """The conversation with a hundred lines and with a thousand, under the default policy and the one of before."""
    known = read()
    for count, lines in ((100, known.stored), (1_000, [*known.stored, *known.filler])):
        home, names = make(run.scratch / str(count), lines)
        before = home.copy(run.scratch / f"{count}-before")
        ours, bare = (
            TalkFigures.of(play(one, names, known.turns, recall), known.stored)
            for one, recall in ((home, {}), (before, BEFORE))
        )
        yield from _rows(f"{count:,} lines", ours, bare)


def _rows(what: str, ours: TalkFigures, bare: TalkFigures) -> Iterator[Row]:
    name, beside = "hermes.talk", "the policy without a floor"
    yield Row(name, f"shown lines that fit, {what}", "lines", ours.fitting, ours.shown, "all that were shown", _HALF)
    yield Row(name, f"the same without a floor, {what}", "lines", bare.fitting, bare.shown, "all that were shown")
    yield Row(name, f"different lines shown of 100, {what}", "lines", ours.different, bare.different, beside, _FEW)
    yield Row(name, f"direct questions answered, {what}", "questions", ours.answered, ours.asked, "all of them", _ALL)
    yield Row(name, f"the same without a floor, {what}", "questions", bare.answered, bare.asked, "all of them")
    yield Row(name, f"answered with every line, {what}", "questions", ours.whole, bare.whole, beside)
    yield Row(name, f"preferences shown, {what}", "requests", ours.preferred, bare.preferred, beside)
    yield Row(name, f"characters a turn, mean, {what}", "characters", ours.mean, bare.mean, beside)
    yield Row(name, f"characters a turn, median, {what}", "characters", ours.median, bare.median, beside)
