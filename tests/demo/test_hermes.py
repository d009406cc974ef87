"""The demonstration's steps in Hermes: each fails when what it claims does not hold, and without Hermes is left out.

Most of them meet a Hermes here that says what it is told to, so that it can be wrong. The real one is in the long test.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo import hermes_home, os_users
from demo.chapters import hermes_durability, hermes_recall, hermes_tools
from demo.hermes_home import EMBEDDED, Chats, Home, Message
from demo.partner import Partner
from demo.report import ALLOWED, SKIP, performed
from demo.stage import Stage, opened
from demo.steps import STEPS
from demo.talk import QUESTION
from strongroom.cli.demo_stage import FAIL, OK, Done, StepOutcome, Unexpected
from strongroom.cli.error_output import USAGE
from tests.cli.conftest import Cli, environment

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-hermes" / "bin" / "python"
ABOUT = (hermes_recall, hermes_durability, hermes_tools)
STORY = [step for step in STEPS if step.attempt.__module__ in [module.__name__ for module in ABOUT]]
TODAY = date(2026, 11, 18)
LINE = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
TRIP_LINE = f'- 2026-11-18, travel, user: "{hermes_recall.trip(TODAY)}" [{LINE}]'


def fenced(recalled: str) -> str:
    """As Hermes adds it to a message."""
    return f"\n\n<memory-context>\n[System note: data]\n\n{recalled}\n</memory-context>" if recalled else ""


class FakeChats(Chats):
    """A gateway that tells the model what the home says."""

    def __init__(self, home: FakeHome) -> None:
        self._home = home

    def say(self, who: Message, text: str, reply: str = "") -> None:
        self._home.tell_model(text, str(who["from"]))

    def together(self, *messages: Message) -> None:
        for one in messages:
            self._home.tell_model(str(one["text"]), str(one["from"]))

    def deliver(self, who: Message, text: str) -> Any:
        self.say(who, text)

    def end(self) -> None:
        """Nothing runs."""

    kill = end


class FakeHome(Home):
    """A home in which questions bring back what a test says, and in which a test says what is kept."""

    def __init__(self, stage: Stage, recalls: Mapping[str, str], kept: list[dict[str, str]]) -> None:
        super().__init__(stage, EMBEDDED, Path(sys.executable))
        self._recalls, self._kept = recalls, kept
        self.trip = LINE

    def tell_model(self, text: str, name: str = "user") -> None:
        told = next((recalled for part, recalled in self._recalls.items() if part in f"{name}: {text}"), "")
        messages = [{"role": "user", "content": text + fenced(told)}]
        self.model.requests.append({"messages": messages, "tools": [{}]})

    def chat(self, text: str, reply: str) -> None:
        self.tell_model(text)
        (self.place / "state.db").write_text("weekend")

    def start(self) -> Partner:
        return Told({})

    def chats(self) -> Chats:
        return FakeChats(self)

    leave = chats

    def lines(self) -> list[dict[str, str]]:
        return self._kept

    def minted(self, name: str, *claims: str, ops: str, namespaces: str = "") -> str:
        (self.root / name).write_text("a cap")
        return str(self.root / name)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with opened(scratch, TODAY, hermes=Path(sys.executable)) as made:
        yield made


def attempted(place: Stage, name: str) -> StepOutcome:
    (found,) = performed([step for step in STEPS if step.name == name], place)
    return found


def kept(text: str, namespace: str = "personal", session: str = "s1") -> dict[str, str]:
    return {"text": text, "namespace": namespace, "session": session}


# Without Hermes.


@pytest.mark.requirement("demo-hermes")
def test_story_is_told_embedded_and_over_http_and_the_wall_is_tried_both_ways() -> None:
    names = [step.name for step in STORY]
    story = [name.removeprefix("hermes_http_") for name in names if name.startswith("hermes_http_")]
    assert story == ["wire", "recall", "travel_only", "people", "kill", "orphans", "elsewhere", "mcp", "forget"]
    embedded = [f"hermes_{name}" for name in story]
    assert [name for name in names if name in embedded] == embedded
    assert set(names) - set(embedded) - {f"hermes_http_{name}" for name in story} == {"hermes_no_wall", "hermes_wall"}


@pytest.mark.requirement("demo-hermes", "demo-strict")
def test_steps_of_hermes_without_it_are_skipped_by_name_and_fail_where_it_is_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hermes_home, "find_spec", lambda _: None)
    found: dict[bool, set[tuple[str, str, str]]] = {}
    for required in (False, True):
        (tmp_path / str(required)).mkdir()
        with opened(tmp_path / str(required), TODAY, require_extras=required) as made:
            found[required] = {(one.state, one.reason, one.expected) for one in performed(STORY, made)}
    assert found == {False: {(SKIP, "no_hermes", "")}, True: {(FAIL, "", "a Hermes that is installed")}}
    assert "--hermes" in ALLOWED["no_hermes"]


@pytest.mark.requirement("demo-hermes", "demo-strict")
def test_python_without_hermes_fails_the_wiring_and_what_needs_it(place: Stage) -> None:
    found = list(performed([step for step in STORY if step.name in ("hermes_wire", "hermes_recall")], place))
    assert [(one.state, one.expected) for one in found] == [
        (FAIL, "no step of it to fail"),
        (FAIL, "a home that is wired"),
    ]
    assert "cannot import Hermes" in found[0].came


@pytest.mark.requirement("demo-hermes")
def test_python_that_is_not_there_is_refused(run_demo: Cli) -> None:
    assert run_demo("--hermes", "/no/such/python").code == USAGE


# Wiring.


def wired(*, state: str = "skip", changed: bool = False, ok: bool = True) -> dict[str, Any]:
    names = ("cap", "policy", "plugin", "provider")
    steps = [{"number": n, "name": name, "state": state} for n, name in enumerate(names, start=1)]
    return {"ok": ok, "changed": changed, "drift": not ok, "steps": steps, "wall": "No wall: none."}


@pytest.mark.requirement("demo-hermes", "demo-strict")
@pytest.mark.parametrize(
    ("first", "again", "looked", "expected"),
    [
        (wired(state="ok"), wired(), wired(), ""),
        (wired(state="warn"), wired(), wired(), "every step ok"),
        (wired(state="ok"), wired(state="ok"), wired(), "nothing left to write"),
        (wired(state="ok"), wired(changed=True), wired(), "nothing left to write"),
        (wired(state="ok"), wired(), wired(ok=False), "nothing to find with --check-only"),
    ],
)
def test_wiring_counts_only_if_a_second_run_and_a_look_find_nothing_to_do(
    place: Stage, monkeypatch: pytest.MonkeyPatch, first: Any, again: Any, looked: Any, expected: str
) -> None:
    before = [first]

    def strongroom(_: Home, *arguments: str) -> Done:
        came = before.pop() if before else looked if "--check-only" in arguments else again
        return Done(0, json.dumps(came), "")

    monkeypatch.setattr(Home, "strongroom", strongroom)
    found = attempted(place, "hermes_wire")
    assert (found.state, found.expected) == (FAIL if expected else OK, expected), found.came
    assert (EMBEDDED in place.homes) == (not expected)


# What reached the model.

NUMBERS = {"asks alice": "mimosa-17", "asks bob": "begonia-28", "the locker here": "crocus-39"}
BOTH = [kept(hermes_recall.trip(TODAY), "travel"), kept(hermes_recall._ALLERGY), kept(hermes_recall._BOTH)]
TOLD = {"All of it": f"{TRIP_LINE}\npeanuts", hermes_recall._ASKED: TRIP_LINE}
ONLY_TRAVEL = "the trip alone told with that for travel"
Check = tuple[str, Mapping[str, str], list[dict[str, str]], str]


@pytest.mark.requirement("demo-hermes", "demo-strict")
@pytest.mark.parametrize(
    "check",
    [
        ("recall", {QUESTION: TRIP_LINE}, [], ""),
        ("recall", {}, [], "the trip to reach the model"),
        ("recall", {QUESTION: TRIP_LINE, "Shorten": "- something"}, [], "nothing recalled at first"),
        ("travel_only", TOLD, BOTH, ""),
        (
            "travel_only",
            TOLD,
            [*BOTH[:2], kept(hermes_recall._BOTH, "travel")],
            "trip, allergy, and the reply with both",
        ),
        ("travel_only", {hermes_recall._ASKED: TRIP_LINE}, BOTH, "both told with the whole cap"),
        (
            "travel_only",
            {"allergic to, and": f"{TRIP_LINE}\npeanuts"},
            BOTH,
            "the trip alone told with that for travel",
        ),
        ("travel_only", {"All of it": TOLD["All of it"]}, BOTH, ONLY_TRAVEL),
        ("people", NUMBERS, [], ""),
        ("people", {**NUMBERS, "asks bob": "begonia-28 mimosa-17"}, [], "their own number for bob, and no other"),
        ("people", {**NUMBERS, "asks alice": "crocus-39"}, [], "their own number for alice, and no other"),
        ("people", {**NUMBERS, "the locker here": "mimosa-17"}, [], "their own number for the thread, and no other"),
        ("kill", {"leave the umbrella?": hermes_durability._UMBRELLA}, [], ""),
        ("kill", {}, [], "it recalled by the next process"),
    ],
)
def test_step_fails_if_the_model_was_told_too_little_or_too_much(
    place: Stage, monkeypatch: pytest.MonkeyPatch, check: Check
) -> None:
    name, recalls, lines, expected = check
    home = place.homes[EMBEDDED] = FakeHome(place, recalls, lines)
    (home.root / "cap").write_text("the whole cap")
    monkeypatch.setattr(Home, "policy", property(lambda self: type("Policy", (), {"cap": self.root / "cap"})))
    found = attempted(place, f"hermes_{name}")
    assert (found.state, found.expected) == (FAIL if expected else OK, expected), found.came
    assert (home.root / "cap").read_text() == "the whole cap", "what was narrowed is whole again"


@pytest.mark.requirement("demo-hermes", "hermes-no-plaintext")
def test_word_in_clear_in_a_file_of_ours_fails_the_step(place: Stage) -> None:
    home = place.homes[EMBEDDED] = FakeHome(place, {QUESTION: TRIP_LINE}, [])
    (home.root / "user" / "a-file").write_bytes("to Chengdu".encode("utf-16-le"))
    assert attempted(place, "hermes_recall").expected == "no word of it in our files"


# What is kept.


def remembered(home: Home, *said: tuple[str, str]) -> None:
    with closing(sqlite3.connect(home.place / "state.db")) as database:
        database.execute("CREATE TABLE sessions (id TEXT)")
        database.execute("CREATE TABLE messages (session_id TEXT, role TEXT, content TEXT)")
        database.executemany("INSERT INTO sessions VALUES (?)", [("s1",), ("s2",)])
        database.executemany("INSERT INTO messages VALUES (?, 'user', ?)", said)
        database.commit()


WORDS = (*hermes_durability._TURNS, *hermes_durability._AFTER.values())


@pytest.mark.requirement("demo-hermes", "demo-strict", "hermes-no-orphans")
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ([], ""),
        ([kept("In the thread.", session="s2"), kept(hermes_durability._UMBRELLA)], ""),
        ([kept(WORDS[0])], "each turn kept once"),
        ([kept("A summary. They met.")], "no summary kept"),
        ([kept("Hello.", session="s9")], "no line of a session that is not Hermes'"),
        ([kept("In the thread.", session="s1")], "no line that its session did not say"),
        ([kept("Nobody said so.")], "no line that its session did not say"),
    ],
)
def test_line_that_its_session_did_not_say_fails_the_step(
    place: Stage, more: list[dict[str, str]], expected: str
) -> None:
    home = place.homes[EMBEDDED] = FakeHome(place, {}, [kept(text) for text in WORDS] + more)
    remembered(home, *(("s1", text) for text in WORDS), ("s2", "[alice] In the thread."))
    found = attempted(place, "hermes_orphans")
    assert (found.state, found.expected) == (FAIL if expected else OK, expected), found.came


# Elsewhere.


class Told(Partner):
    """A process that says one thing, and ends well."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.process = subprocess.Popen([sys.executable, "-c", ""])
        self.process.wait()

    def hear(self) -> Any:
        return []

    def ask(self, _: str) -> Any:
        return self._answer


MARK = "0123456789abcdef" * 2


def shown(line: str) -> str:
    return f"<<<strongroom-recall {MARK}>>>\n{line}\n<<<end-strongroom-recall {MARK}>>>"


@pytest.mark.requirement("demo-hermes", "demo-strict")
@pytest.mark.parametrize(
    ("name", "answer", "state"),
    [
        ("elsewhere", shown(TRIP_LINE), OK),
        ("elsewhere", shown("- another line"), FAIL),
        ("elsewhere", TRIP_LINE, FAIL),
        ("mcp", {"error": False, "text": TRIP_LINE}, OK),
        ("mcp", {"error": False, "text": "Chengdu"}, FAIL),
        ("mcp", {"error": True, "text": TRIP_LINE}, FAIL),
    ],
)
def test_another_runtime_counts_only_with_the_same_line(
    place: Stage, monkeypatch: pytest.MonkeyPatch, name: str, answer: Any, state: str
) -> None:
    place.homes[EMBEDDED] = FakeHome(place, {}, [])
    monkeypatch.setattr(Stage, "beside", lambda *_: Told(answer))
    found = attempted(place, f"hermes_{name}")
    assert (found.state, found.expected) == (state, "" if state == OK else "the same line"), found.came


# Forgetting.


@pytest.mark.requirement("demo-hermes", "demo-strict")
@pytest.mark.parametrize(
    ("left", "pieces", "expected"),
    [
        (LINE, [3, 0], ""),
        (f"{LINE} below the heronstone", [3, 0], "no word of it in Hermes' files"),
        ("", [3, 0], "what was not forgotten left"),
        (LINE, [3, 1], "no piece of it in the vault"),
        (LINE, [0, 0], "the search to find it while it is there"),
    ],
)
def test_words_that_are_left_after_a_scrub_fail_the_step(
    place: Stage, monkeypatch: pytest.MonkeyPatch, left: str, pieces: list[int], expected: str
) -> None:
    home = place.homes[EMBEDDED] = FakeHome(place, {"Where is the spare key?": hermes_durability._ELSEWHERE}, [])
    history = home.place / "state.db"
    history.write_text(f"{LINE} below the heronstone")
    (home.keeper / "vault.db").touch()
    attack, answers = Stage.attack, {"take": [1], "find": list(pieces)}

    def attacked(stage: Stage, verb: str, *arguments: str) -> Any:
        return answers[verb].pop(0) if verb in answers else attack(stage, verb, *arguments)

    def scrubbed(_: Home, *arguments: str) -> Done:
        assert arguments == ("scrub", "hermes")
        history.write_text(left)
        return Done(0, '{"steps": []}', "")

    monkeypatch.setattr(Stage, "attack", attacked)
    monkeypatch.setattr(Home, "strongroom", scrubbed)
    monkeypatch.setattr(Home, "keys_work", lambda *_: {"lines": [{"id": "L"}], "ids": ["L"]})
    found = attempted(place, "hermes_forget")
    assert (found.state, found.expected) == (FAIL if expected else OK, expected), found.came


# The wall.

DENIED = "cat: issuer.key: Permission denied"
Ran = list[tuple[int, str]]


def run_as(monkeypatch: pytest.MonkeyPatch, home: Home, ran: Ran, *, minted: bool) -> None:
    """Let the tools' commands end so, and leave a cap or not."""

    def told_to(*_: Any) -> Ran:
        if minted:
            (home.root / "stolen.cap").touch()
        return ran

    monkeypatch.setattr(hermes_tools, "_told_to", told_to)


@pytest.mark.requirement("demo-hermes", "demo-strict", "served-wall")
@pytest.mark.parametrize(
    ("ran", "minted", "expected"),
    [
        ([(0, "strongroom 1"), (1, DENIED), (7, "")], False, ""),
        ([(127, "not found"), (1, DENIED), (127, "")], False, "the command to run there"),
        ([(0, "strongroom 1"), (0, "secret"), (7, "")], False, "no right to read the keys"),
        ([(0, "strongroom 1"), (1, "cat: issuer.key: No such file or directory"), (7, "")], False,
         "no right to read the keys"),
        ([(0, "strongroom 1"), (1, DENIED), (0, "")], False, "nothing minted"),
        ([(0, "strongroom 1"), (1, DENIED), (7, "")], True, "nothing minted"),
    ],
)  # fmt: skip
def test_wall_counts_only_if_what_runs_there_is_refused_for_want_of_a_right(
    place: Stage, monkeypatch: pytest.MonkeyPatch, ran: Ran, minted: bool, expected: str
) -> None:
    home = FakeHome(place, {"bicycle stand?": hermes_tools._RACK}, [])
    (home.root / "keys").mkdir()
    (home.root / "keys" / "issuer.key").touch()
    user = os_users.User(1, (), home.root, "python", {}, ())
    place.apart = os_users.Apart(server=user, agent=user, socket=home.root / "socket")
    for name, value in {"_home_apart": home, "_program": Path("strongroom"), "two_of": place.apart}.items():
        monkeypatch.setattr(hermes_tools, name, lambda *_, value=value: value)
    monkeypatch.setattr(os_users, "with_python", lambda *_: user)
    run_as(monkeypatch, home, ran, minted=minted)
    found = attempted(place, "hermes_wall")
    assert (found.state, found.expected) == (FAIL if expected else OK, expected), found.came


@pytest.mark.requirement("demo-hermes", "demo-strict")
def test_tools_that_failed_without_a_wall_would_fail_the_step(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    home = place.homes[EMBEDDED] = FakeHome(place, {}, [])
    (home.keeper / "issuer.key").touch()
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    cases: list[tuple[Ran, bool, str]] = [
        ([(1, DENIED), (0, "")], True, "the tool to read the keys"),
        ([(0, empty), (7, "")], False, "the tool to mint"),
        ([(0, empty), (0, "")], True, ""),
    ]
    for ran, minted, expected in cases:
        run_as(monkeypatch, home, ran, minted=minted)
        assert attempted(place, "hermes_no_wall").expected == expected


@pytest.mark.requirement("demo-hermes")
@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root on Linux becomes other users")
def test_another_python_is_handed_over_to_another_user(place: Stage) -> None:
    two = os_users.apart(place.closing, place.environment())
    other = os_users.with_python(two.agent, Path(sys.executable), place.closing)
    assert other.program != two.agent.program
    assert set(other.python) == {"PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LD_LIBRARY_PATH"}
    assert "strongroom" in other.run("strongroom", "--version").out


# The processes.


@pytest.mark.requirement("demo-hermes", "demo-strict")
def test_message_that_hermes_does_not_take_fails_its_step() -> None:
    chats = Chats.__new__(Chats)
    chats._partner = Told({"failed": "Traceback: no"})
    with pytest.raises(Unexpected) as caught:
        chats.together({"from": "ann"})
    assert caught.value.came == "Traceback: no"


@pytest.mark.requirement("demo-hermes", "demo-apart")
def test_hermes_gets_nothing_of_the_users_own_and_no_name_of_a_vault(
    place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HERMES_HOME", "STRONGROOM_VAULT", "HOME", "OPENAI_API_KEY", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, "/the/users/own")
    given = FakeHome(place, {}, []).hermes_environment()
    assert "/the/users/own" not in given.values()
    assert not [name for name in given if name.startswith(("STRONGROOM", "PYTHONPATH", "PYTHONHOME", "XDG"))]
    assert all(Path(given[name]).is_relative_to(place.scratch) for name in ("HOME", "HERMES_HOME", "TMPDIR"))


def test_python_can_run_the_driver_by_its_path_without_the_library() -> None:
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); sys.exit('strongroom' in sys.modules)"
    path = str(Path(hermes_home.__file__).parent / "programs" / "driver.py")
    assert subprocess.run([sys.executable, "-P", "-c", code, path], env=environment(), check=False).returncode == 0


@pytest.mark.parametrize(("day", "first"), [(18, 21), (20, 21), (21, 21), (22, 28)])
def test_trip_begins_on_the_saturday_that_comes(day: int, first: int) -> None:
    assert f"from November {first} to " in hermes_recall.trip(date(2026, 11, day))


# The real Hermes.


@pytest.mark.long
@pytest.mark.requirement("demo-hermes")
def test_every_step_in_the_real_hermes_is_green(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demo", "--json", "--require-extras", "--hermes", str(PYTHON)],
        cwd=tmp_path,
        env=environment({"PYTHONPATH": str(ROOT)}),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    found = {step["name"]: step for step in json.loads(done.stdout)["steps"]}
    mine = {step.name: (found[step.name]["state"], found[step.name]["came"]) for step in STORY}
    wall = mine.pop("hermes_wall")
    assert set(mine.values()) == {(OK, "")}, mine
    assert wall == ((OK, "") if os.geteuid() == 0 else (SKIP, "")), wall
    assert (done.returncode, done.stderr) == (0, "")
