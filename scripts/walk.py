"""Trace five fixed warm calls and print their walk: which files of ours a call opens, which functions, in which order.

The calls are `Memory.put`, `Memory.get`, the same get over HTTP (what the server does), and the provider's `prefetch`
and `sync_turn`. Counted is what runs until the caller has the answer, on whatever thread: distinct files and functions
entered, calls from one file into another, and climbs: a call into a layer above (the contract "imports point down" in
pyproject.toml) that comes down again. With `--check`, a figure beyond its bound fails; with `--write`, the walks are
put between the marks in docs/architecture.md, which `--check` compares, too.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import strongroom
from strongroom.hermes.provider import StrongroomProvider
from strongroom.server import listen
from strongroom.server.server_options import Options

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- walks: written by scripts/walk.py -->", "<!-- end of walks -->"

LINES = 40
WARM = 3
"""How often a call is made before the one that is traced, so that nothing has to be opened or loaded for it."""
REST = 0.2
"""Seconds in which what the call before left to be done beside it is done."""
PATIENCE = 20.0
RATES = Options(holder_rate=100_000, address_rate=100_000)
"""A slow machine, or the tracing, is no reason to be turned away."""
_INNER = ("<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that a call may take. A bound rises by a decision record (docs/adr) that says why."""

    files: int
    calls: int
    climbs: int
    outside: int = 1000
    """Files outside the ranking engine."""


BOUNDS: Mapping[str, Bound] = {
    "Memory.put": Bound(files=18, calls=44, climbs=0),
    "Memory.get": Bound(files=28, calls=65, climbs=0, outside=16),
    "HTTP get": Bound(files=36, calls=91, climbs=0),
    "prefetch": Bound(files=43, calls=127, climbs=0),
    "sync_turn": Bound(files=34, calls=107, climbs=0),
}


@dataclass(slots=True)
class Walk:
    """What one call went through."""

    entered: dict[tuple[str, str], int] = field(default_factory=dict)  # (file, function) -> how often
    crossings: dict[tuple[str, str], int] = field(default_factory=dict)  # (from file, to file) -> calls
    climbs: dict[str, int] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """In the order in which they were entered first."""
        return list(dict.fromkeys(file for file, _ in self.entered))

    @property
    def calls(self) -> int:
        """Calls from one file into another."""
        return sum(self.crossings.values())

    @property
    def outside(self) -> list[str]:
        """The files that are no part of the engine."""
        return [file for file in self.files if not file.startswith("engines/")]

    def figures(self) -> str:
        return (
            f"{len(self.files)} files ({len(self.outside)} outside the engine), {len(self.entered)} functions, "
            f"{self.calls} calls between files, {sum(self.climbs.values())} climbs"
        )

    def listed(self) -> Iterator[str]:
        """The files in the order in which they were entered first, each with its functions in that order."""
        for file in self.files:
            functions = [name for place, name in self.entered if place == file]
            yield f"`{file}`: " + ", ".join(f"`{name.replace('.<locals>', '')}`" for name in functions)

    def beyond(self, bound: Bound) -> Iterator[str]:
        """What the call takes more than it may."""
        taken = {
            "files": len(self.files),
            "files outside the engine": len(self.outside),
            "calls between files": self.calls,
            "climbs": sum(self.climbs.values()),
        }
        limits = (bound.files, bound.outside, bound.calls, bound.climbs)
        for (name, figure), most in zip(taken.items(), limits, strict=True):
            if figure > most:
                yield f"{figure} {name}, and {most} is its bound"


class Tracer:
    """Records the functions of the package that any thread enters while it is on."""

    def __init__(self, package: Path, layer_of: Callable[[str], int]) -> None:
        self._package, self._layer_of = f"{package}/", layer_of
        self._codes: dict[CodeType, tuple[str, str] | None] = {}
        self._frames: dict[int, FrameType] = {}  # held, so that no other frame gets their ids
        self._climbing: dict[int, tuple[str, int, bool]] = {}  # by the id of the frame climbed to
        self._thread: int | None = None
        self._walk: Walk | None = None
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def close(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @contextmanager
    def recording(self, thread: int | None) -> Iterator[Walk]:
        """Record what this thread does, or what all of them do."""
        self._frames, self._climbing, self._thread, self._walk = {}, {}, thread, Walk()
        try:
            yield self._walk
        finally:
            self._walk = None

    def _event(self, frame: FrameType, event: str, _argument: object) -> None:
        walk = self._walk
        if walk is None or event != "call" or self._thread not in (None, threading.get_ident()):
            return
        place = self._place(frame.f_code)
        if place is None:
            return
        if id(frame) in self._frames:
            return  # a generator that goes on
        self._frames[id(frame)] = frame
        if frame.f_code.co_name in _INNER:
            return
        walk.entered[place] = walk.entered.get(place, 0) + 1
        above = frame.f_back
        while above is not None and (self._place(above.f_code) is None):
            above = above.f_back
        if above is None:
            return
        caller = self._place(above.f_code)
        assert caller is not None
        if caller[0] == place[0]:
            return
        walk.crossings[caller[0], place[0]] = walk.crossings.get((caller[0], place[0]), 0) + 1
        self._note_climb(walk, frame, above, caller, place)

    def _note_climb(
        self, walk: Walk, frame: FrameType, above: FrameType, caller: tuple[str, str], place: tuple[str, str]
    ) -> None:
        here, there = self._layer_of(caller[0]), self._layer_of(place[0])
        if there < here:
            self._climbing[id(frame)] = (f"{_spelled(caller)} -> {_spelled(place)}", here, False)
            return
        frame_above: FrameType | None = above
        while frame_above is not None:  # does this call come down again from a climb?
            known = self._climbing.get(id(frame_above))
            if known is not None and there >= known[1] and not known[2]:
                self._climbing[id(frame_above)] = (known[0], known[1], True)
                walk.climbs[known[0]] = walk.climbs.get(known[0], 0) + 1
            frame_above = frame_above.f_back

    def _place(self, code: CodeType) -> tuple[str, str] | None:
        """The file, below the package, and the function."""
        try:
            return self._codes[code]
        except KeyError:
            own = code.co_filename.startswith(self._package)
            found = (code.co_filename.removeprefix(self._package), code.co_qualname) if own else None
            self._codes[code] = found
            return found


def _spelled(place: tuple[str, str]) -> str:
    return f"{place[0]}:{place[1].replace('.<locals>', '')}"


# The layers.


def layers() -> list[set[str]]:
    """Top-level modules by layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == ["strongroom"]]
    return [set(row.split(" | ")) for row in found]


def layer_of(rows: list[set[str]]) -> Callable[[str], int]:
    """The number of a file's layer, which is larger the lower it is."""
    ranks = {name: number for number, row in enumerate(rows) for name in row}
    return lambda file: ranks.get(file.partition("/")[0].removesuffix(".py"), 0)


# The calls.


@dataclass(frozen=True, slots=True)
class Call:
    """A call to trace, with a number that makes each one differ from those before."""

    make: Callable[[int], object]
    prepare: Callable[[int], object] = lambda _: None
    others: bool = False
    """Whether other threads do the work, and are traced with this one."""


class Scene:
    """A vault in a place of its own, and who holds caps for it."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root, self.stack = root, stack
        place = {"STRONGROOM_KEYS": root / "keys", "STRONGROOM_CONFIG": root / "config.toml"}
        os.environ |= {name: str(path) for name, path in place.items()}
        self.vault = stack.enter_context(strongroom.create(root / "vault"))
        runtime = self.vault.mint(actor="local/alice", ops=["put", "get", "list"], namespaces=["work"], ttl=24 * 3600)
        self.cap = strongroom.attenuate(runtime, ops=["put", "get"], namespaces=["work"], ttl=3600)

    def calls(self) -> Iterator[tuple[str, Call]]:
        memory = self.vault.memory(self.cap)
        for number in range(LINES):
            memory.put(_text(number), namespace="work")
        yield "Memory.put", Call(lambda number: memory.put(f"Put number {number} is about a lamp", namespace="work"))
        yield "Memory.get", Call(lambda number: memory.get(_question(number), k=5))
        yield "HTTP get", Call(self._ask_over_http(), others=True)
        talk = Talk(self._home())
        self.stack.callback(talk.provider.shutdown)
        yield "prefetch", Call(lambda _: talk.recall(), talk.begin)
        yield "sync_turn", Call(lambda _: talk.keep(), talk.begin_and_recall)

    def _ask_over_http(self) -> Callable[[int], object]:
        """A get for the vault's server in this process, by a client that has nothing of ours."""
        place = listen.ListenPlace(port=0)
        server, bound = listen.server_for(self.vault, place, RATES), listen.listen(place)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        self.stack.callback(thread.join, PATIENCE)
        self.stack.callback(setattr, server, "should_exit", True)
        connection = http.client.HTTPConnection("127.0.0.1", bound.getsockname()[1], timeout=PATIENCE)
        self.stack.callback(connection.close)
        head = {"Authorization": f"Bearer {self.cap}", "Content-Type": "application/json"}

        def ask(number: int) -> bytes:
            connection.request("POST", "/v1/memory/get", json.dumps({"query": _question(number), "k": 5}), head)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise SystemExit(f"the server answered {answer.status}: {text.decode()}")
            return text

        return ask

    def _home(self) -> Path:
        """A home as `strongroom wire hermes` leaves it, without Hermes."""
        home, private = self.root / "home", self.root / "private"
        for directory in (home, private, private / "state"):
            directory.mkdir(mode=0o700)
        namespaces = ["personal", "family", "work", "travel"]
        ops = ["put", "get", "list", "snapshot", "forget", "profile"]
        cap = private / "runtime.cap"
        cap.touch(mode=0o600)
        cap.write_text(
            f"{self.vault.mint(actor_scope='hermes/default/', ops=ops, namespaces=namespaces, ttl=24 * 3600)}\n"
        )
        token = self.vault.mint(actor="hermes/default/owner", ops=["put"], namespaces=["travel"], ttl=60)
        policy = {
            "vault": self.root / "vault",
            "cap": cap,
            "state": private / "state",
            "inbox": self.vault.memory(token).inbox(),
        }
        (home / "strongroom.toml").write_text("".join(f'{name} = "{value}"\n' for name, value in policy.items()))
        return home


class Talk:
    """A conversation with the provider, as a runtime holds it."""

    def __init__(self, home: Path) -> None:
        self.provider = StrongroomProvider(home)
        self.provider.initialize("walk", platform="cli", hermes_home=str(home))
        self._messages: list[dict[str, Any]] = []
        for number in range(1000, 1000 + LINES):
            self.begin(number)
            self.recall()
            self.keep()

    def begin(self, number: int) -> None:
        self._said = f"{_text(number)} And {_question(number)}"
        self.provider.on_turn_start(len(self._messages) // 2 + 1, self._said)

    def begin_and_recall(self, number: int) -> None:
        self.begin(number)
        self.recall()

    def recall(self) -> str:
        return self.provider.prefetch(self._said)

    def keep(self) -> None:
        reply = f"Noted: {self._said}"
        self._messages += [{"role": "user", "content": self._said}, {"role": "assistant", "content": reply}]
        self.provider.sync_turn(self._said, reply, session_id="walk", messages=self._messages)


def _text(number: int) -> str:
    return f"Fact {number}: the lamp in room {number} was repaired by Ana on the {number % 28 + 1} of May."


def _question(number: int) -> str:
    return f"what about the lamp number {number}?"


def trace() -> dict[str, Walk]:
    """The five walks, each of a call that was made before."""
    found: dict[str, Walk] = {}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        tracer = Tracer(Path(strongroom.__file__).parent, layer_of(layers()))
        stack.callback(tracer.close)
        for name, call in Scene(Path(directory), stack).calls():
            for number in range(WARM + 1):
                call.prepare(number)
                time.sleep(REST)
                if number < WARM:
                    call.make(number)
            with tracer.recording(None if call.others else threading.get_ident()) as walk:
                call.make(WARM)
            found[name] = walk
    return found


def section(found: Mapping[str, Walk]) -> str:
    """The walks as they stand in the page."""
    parts = [BEGIN]
    for name, walk in found.items():
        parts += [f"### `{name}`", f"{walk.figures()}.", "\n".join(f"1. {one}" for one in walk.listed())]
        parts += [f"- climbs: {one}" for one in walk.climbs]
    return "\n\n".join([*parts, END])


def kept(found: Mapping[str, Walk]) -> tuple[str, str]:
    """The page as it is, and as it would be."""
    page = PAGE.read_text()
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise SystemExit(f"docs/{PAGE.name} has no place for the walks: {BEGIN} {END}")
    return page, before + section(found) + after


def check(found: Mapping[str, Walk]) -> int:
    """Say what is beyond its bound, and whether the page names the files that the calls go through."""
    faults = [f"{name}: {fault}" for name, walk in found.items() for fault in walk.beyond(BOUNDS[name])]
    page, wanted = kept(found)
    if _files_named(page) != _files_named(wanted):
        faults.append(f"docs/{PAGE.name} is not up to date: run scripts/walk.py --write")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _files_named(page: str) -> list[set[str]]:
    """The files of each walk. Functions and order are no part of it: threads take turns as they please."""
    part = page.partition(BEGIN)[2].partition(END)[0]
    return [set(re.findall(r"^1\. `([^`]+)`", one, re.MULTILINE)) for one in part.split("### ")]


def main() -> int:
    """Print the walks, and do what is asked."""
    found = trace()
    for name, walk in found.items():
        print(f"{name}: {walk.figures()}")
        if "--verbose" in sys.argv[1:]:
            print(*(f"    {one}" for one in walk.listed()), sep="\n")
        print(*(f"    climbs: {one}" for one in walk.climbs), sep="\n")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(kept(found)[1])
    return check(found) if "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
