"""The provider in the real Hermes: a turn's hooks with few lines and with many, beside the bundled `holographic`.

Every process is one of Hermes' own Python, in which Hermes' memory manager calls the providers (bench/hermes_child.py).
Processes that are compared take turns, a session each. What counts is the time inside a provider's own methods, alike
for all of them. A turn is durable when `sync_turn` returns; Hermes does not wait for that, nor for `queue_prefetch`
after it, and does wait for `on_turn_start` and `prefetch`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from bench import hermes_home, server
from bench.hermes_child import AFTER, BEGIN, HOLOGRAPHIC, KEEP, ORDINARY, PREFETCH, STRONGROOM
from bench.hermes_home import Child, Home
from bench.measure import Goal, Row, Run

_SESSION = 20
"""Turns in one session."""
_GOALS = {PREFETCH: Goal("ours", 100, 20), KEEP: Goal("ours", 30, 10)}
"""Milliseconds within which 99 of 100 calls should be done."""
TURN = "the four hooks of a turn"
_NOT_EMPTY = Goal("share", 0.2, 1.0)
"""Of the lines that may be recalled: one of five at least, better all."""
_FASTER = Goal("ratio", 1.0, 0.5)
_MORE = Goal("ours", 50, 10)
"""Milliseconds that a hostile message may cost more than an ordinary one of its size."""
_PROCESSES = 6
"""One after another: two processes that do the same differ by a tenth, by where things happen to lie in memory."""
_SHORT = 6
"""Turns in a session where each takes long."""
_SIZES = (100, 2_000, 10_000, 100_000)
_ENOUGH = 0.9
"""The share of turns for which something must be recalled."""
Costs = dict[str, float]


@dataclass(slots=True)
class Side:
    """What one provider's calls took, in milliseconds."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    recalled: list[int] = field(default_factory=list)

    def add(self, found: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], recalled: Sequence[int]) -> None:
        hooks = found["taken"]
        turns = [[sum(cost) for cost in zip(*calls, strict=True)] for calls in zip(*hooks.values(), strict=True)]
        for call, taken in {**hooks, TURN: turns}.items():
            self.wall.setdefault(call, []).extend(wall * 1e3 for wall, _ in taken)
            self.cpu.setdefault(call, []).extend(cpu * 1e3 for _, cpu in taken)
        self.recalled += recalled

    def join(self, other: Side) -> None:
        """Take in what another process of the same provider took."""
        for own, more in ((self.wall, other.wall), (self.cpu, other.cpu)):
            for call, taken in more.items():
                own.setdefault(call, []).extend(taken)
        self.recalled += other.recalled

    def figure(self, call: str, unit: str) -> float:
        if unit == "ms cpu":
            return median(self.cpu[call])
        return quantiles(self.wall[call], n=100)[int(unit.removeprefix("ms p")) - 1]

    def check(self) -> None:
        """Refuse figures of a provider that recalled nothing: that is quick."""
        share = sum(1 for lines in self.recalled if lines) / len(self.recalled)
        if share < _ENOUGH:
            raise RuntimeError(f"something was recalled in {share:.0%} of the turns only")


def take_turns(children: Mapping[str, Child], sessions: int, turns: int = _SESSION) -> dict[str, Side]:
    """Have every process do sessions in turns, after some that are not counted. Sides are named `process/provider`."""
    sides: dict[str, Side] = {}
    for one in children.values():
        for _ in range(2):
            one.turns(turns)
    for _ in range(sessions):
        for name, one in children.items():
            for provider, found in one.turns(turns).items():
                sides.setdefault(f"{name}/{provider}", Side()).add(found, found["recalled"])
    for side in sides.values():
        side.check()
    return sides


def compared(name: str, what: str, ours: Side, bare: Side, beside: str, calls: Sequence[str]) -> Iterator[Row]:
    """The rows of some calls: half of them, 99 of 100, and the CPU time."""
    for call in calls:
        for unit in ("ms p50", "ms p99", "ms cpu"):
            goal = _GOALS.get(call) if unit == "ms p99" else None
            yield Row(name, f"{call}, {what}", unit, ours.figure(call, unit), bare.figure(call, unit), beside, goal)


def beside(run: Run) -> Iterator[Row]:
    """Both providers with the same lines and the same turns: `holographic` without numpy and with.

    Hermes has one of them at a time, so each is in a process of its own. What they do to each other in one process has
    rows of its own, without a goal. The lines are ordinary talk, or facts that are all worded alike.
    """
    count = 2_000
    facts = hermes_home.make(run.scratch / "facts", count, of_facts=True)
    plain = hermes_home.make(run.scratch / "plain", count)
    library = hermes_home.numpy()
    name = "holographic" if library else "holographic (pip could not get numpy)"
    for home in (facts, plain):
        hermes_home.run(home, "fill", str(count))
        yield from _apart(run, home, f"{name} without numpy", count, run.pick(10, 5), _SESSION)
        yield from _together(run, home, f"{name} without numpy", count)
    if library:
        home = replace(plain.copy(run.scratch / "numpy"), library=library)
        hermes_home.run(home, "vectors")
        # An add or a removal of its takes a fifth of a second then, so there are fewer of them.
        yield from _apart(run, home, f"{name} with numpy", count, 2, _SHORT)


def _apart(run: Run, home: Home, beside: str, count: int, sessions: int, turns: int) -> Iterator[Row]:
    ours, theirs = Side(), Side()
    for _ in range(run.pick(_PROCESSES, 1)):
        with hermes_home.child(home, STRONGROOM) as one, hermes_home.child(home, HOLOGRAPHIC) as other:
            sides = take_turns({"one": one, "other": other}, sessions, turns)
        ours.join(sides[f"one/{STRONGROOM}"])
        theirs.join(sides[f"other/{HOLOGRAPHIC}"])
    what = _what(home, count)
    yield from _faster(compared("hermes.beside", what, ours, theirs, f"{beside}, the same lines", [PREFETCH]))
    yield from _faster(compared("hermes.beside", what, ours, theirs, f"{beside}, both texts by its tool", [KEEP]))
    yield from compared("hermes.beside", what, ours, theirs, f"{beside}, which has two of them", [TURN])


def _together(run: Run, home: Home, beside: str, count: int) -> Iterator[Row]:
    ours, theirs = Side(), Side()
    for _ in range(run.pick(_PROCESSES, 1)):
        with hermes_home.child(home, STRONGROOM, HOLOGRAPHIC) as one:
            sides = take_turns({"both": one}, 5)
        ours.join(sides[f"both/{STRONGROOM}"])
        theirs.join(sides[f"both/{HOLOGRAPHIC}"])
    what = f"{_what(home, count)}, one process"
    yield from compared("hermes.beside", what, ours, theirs, f"{beside}, in the same process", [PREFETCH, KEEP])


def _what(home: Home, count: int) -> str:
    return f"{count:,} {'facts' if home.of_facts else 'lines'}"


def _faster(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows whose goal is to be as fast as what stands beside them, better twice as fast."""
    return (replace(row, goal=_FASTER) for row in rows)


def size(run: Run) -> Iterator[Row]:
    """Vaults of several sizes, each in a process of its own."""
    sizes = _SIZES[:-1] if run.quick else _SIZES
    with ExitStack() as stack:
        homes = {str(count): hermes_home.make(run.scratch / str(count), count) for count in sizes}
        children = {name: stack.enter_context(hermes_home.child(home, STRONGROOM)) for name, home in homes.items()}
        sides = take_turns(children, run.pick(30, 5))
    few = sides[f"{sizes[0]}/{STRONGROOM}"]
    for count in sizes:
        ours, what = sides[f"{count}/{STRONGROOM}"], f"{count:,} lines"
        yield from compared("hermes.size", what, ours, few, f"with {sizes[0]} lines", [BEGIN, PREFETCH, KEEP, AFTER])


def http(run: Run) -> Iterator[Row]:
    """The same vault embedded, and behind a server on loopback."""
    count = run.pick(10_000, 2_000)
    embedded = hermes_home.make(run.scratch / "embedded", count)
    copied = embedded.copy(run.scratch / "served")
    with ExitStack() as stack:
        served = copied.served_at(f"http://127.0.0.1:{stack.enter_context(server.running('vault', copied.place)).port}")
        homes = {"embedded": embedded, "served": served}
        children = {name: stack.enter_context(hermes_home.child(home, STRONGROOM)) for name, home in homes.items()}
        sides = take_turns(children, run.pick(30, 5))
    ours, bare = (sides[f"{name}/{STRONGROOM}"] for name in ("served", "embedded"))
    yield from compared(
        "hermes.http", f"{count:,} lines", ours, bare, "the vault embedded", [BEGIN, PREFETCH, KEEP, AFTER]
    )


def first(run: Run) -> Iterator[Row]:
    """The first prefetch of a fresh process, from the start of its session."""
    count, repeats = run.pick(10_000, 2_000), run.pick(7, 2)
    new = hermes_home.make(run.scratch / "new", count, ask=False)
    kept = hermes_home.make(run.scratch / "kept", count)
    hermes_home.run(kept, "fill", str(count))
    hermes_home.run(kept, "first", STRONGROOM)  # compiles the modules
    anew = [_anew(new, run.scratch) for _ in range(repeats)]
    ours: list[Costs] = []
    theirs: list[Costs] = []
    for _ in range(repeats):
        ours.append(_first(kept, STRONGROOM))
        theirs.append(_first(kept, HOLOGRAPHIC))
    for how, taken in (("pages kept", ours), ("no pages", anew)):
        yield from _first_rows(f"{count:,} lines, {how}", taken, theirs)


def hostile(run: Run) -> Iterator[Row]:
    """A turn of 160,000 characters that are made to be slow for some rule, beside an ordinary one of that size."""
    home = hermes_home.make(run.scratch / "hostile", run.pick(2_000, 500))
    found: Costs = json.loads(hermes_home.run(home, "hostile"))
    ordinary = found.pop(ORDINARY)
    for name, cost in found.items():
        yield Row("hermes.hostile", name, "ms cpu", cost * 1e3, ordinary * 1e3, ORDINARY)
    most = max(found.values())
    yield Row(
        "hermes.hostile", "the slowest, more than ordinary talk", "ms cpu", (most - ordinary) * 1e3, 50, "limit", _MORE
    )


def _first_rows(what: str, ours: Sequence[Costs], theirs: Sequence[Costs]) -> Iterator[Row]:
    beside = "holographic, the same lines"
    for unit in ("wall", "cpu"):
        mine, bare = (median(one[unit] for one in taken) * 1e3 for taken in (ours, theirs))
        yield Row("hermes.first", f"first prefetch, {what}", f"ms {unit}", mine, bare, beside)
    mine, bare = (min(one["recalled"] for one in taken) for taken in (ours, theirs))
    yield Row("hermes.first", f"the fewest recalled, {what}", "lines", mine, bare, beside, _NOT_EMPTY)


def _first(home: Home, provider: str) -> Costs:
    found: Costs = json.loads(hermes_home.run(home, "first", provider))
    return found


def _anew(home: Home, scratch: Path) -> Costs:
    """On a copy of a vault that nobody has asked before."""
    with TemporaryDirectory(dir=scratch) as place:
        return _first(home.copy(Path(place) / "copy"), STRONGROOM)
