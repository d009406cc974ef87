"""The steps with memory providers: a runtime hosts one that was written for Hermes, found in a home's `plugins`.

Each step has a home of its own and needs no vault. The runtimes are processes of `gateway`; the provider is `diary`.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.partner import Partner
from demo.programs.gateway import PROVIDER
from demo.stage import Stage
from demo.talk import QUESTION
from strongroom import fence
from strongroom.cli.demo_stage import PATIENCE, Done, expect
from strongroom.cli.errors import BY_FAMILY
from strongroom.host.conformance import CHECKS
from strongroom.host.plugins import names

_DIARY = Path(__file__).parents[1] / PROVIDER
_FENCE = re.compile(r"<<<strongroom-recall ([0-9a-f]{32})>>>\n(.*?)\n<<<end-strongroom-recall \1>>>", re.DOTALL)

IN_PASSING = "Shorten this mail, please; I am going to Chengdu this weekend, so it has to be out by Friday."
_OTHER = ("The boiler is serviced in June.", "Oskar wants the tent back this month.")
_SHARES = 3
_NOTES = {"alice": "Alice likes window seats.", "bob": "Bob drives a van."}
_SAID = {"alice": IN_PASSING, "bob": "I am going to Bergen this weekend."}


def home_of(stage: Stage, name: str) -> Path:
    """A new home with the provider in its `plugins`."""
    home = stage.scratch / "homes" / name
    shutil.copytree(_DIARY, home / "plugins" / PROVIDER, ignore=shutil.ignore_patterns("__pycache__"))
    return home


def runtime(stage: Stage, verb: str, home: Path) -> Partner:
    """A runtime in a process of its own."""
    return stage.beside(f"gateway-{verb}", stage.program("gateway", verb, str(home)))


def run(stage: Stage, verb: str, home: Path, told: object) -> Any:
    """What a runtime has to say about this; it has to end in order."""
    process = runtime(stage, verb, home)
    came = process.ask(json.dumps(told))
    expect("the runtime to end in order", 0, process.process.wait(PATIENCE))
    return came


def one(user: str, session: str, *says: str, **more: Any) -> dict[str, Any]:
    """One conversation."""
    return {"user": user, "session": session, "says": says, **more}


def recalled(shown: str) -> list[str]:
    """The lines that stand in the one fence of what a model is shown; none where there is no fence."""
    fences = _FENCE.findall(shown)
    expect("one fence at most", True, len(fences) <= 1)
    return fences[0][1].split("\n") if fences else []


def recalls_once(shown: str, text: str) -> None:
    """A model is shown a text once: as a line in the fence."""
    expect("it in the fence", True, f"- {text}" in recalled(shown))
    expect("it nowhere else", 1, shown.count(text))


# The steps.


def a_provider_for_hermes_is_hosted(stage: Stage) -> tuple[str, ...]:
    """Session 1 says it in passing; session 2 is another process."""
    home = home_of(stage, "recall")
    first = run(stage, "talk", home, [one("alice", "monday", _OTHER[0], IN_PASSING, _OTHER[1])])
    expect("nothing recalled at first", [], recalled(first["shown"][0][1]))
    second = run(stage, "talk", home, [one("alice", "thursday", QUESTION)])
    recalls_once(second["shown"][0][0], IN_PASSING)
    expect("the provider to be hosted", ([True], [True]), (first["hosted"], second["hosted"]))
    return (f"the provider `{PROVIDER}` recalled: {IN_PASSING}", _whose_interface(second["interface"]))


def _whose_interface(origin: str) -> str:
    """Where there is no Hermes, the provider got the interface from the host."""
    if names.elsewhere("agent.memory_provider"):
        expect("the installed Hermes to be used", False, origin == "strongroom.host")
        return "agent.memory_provider: that of the Hermes which is installed here"
    expect("the host's own interface", "strongroom.host", origin)
    return "agent.memory_provider: supplied by the host, no Hermes is installed"


def two_people_stay_apart(stage: Stage) -> None:
    """Both have agents in one process, under one session id."""
    home = home_of(stage, "users")
    people = tuple(_SAID)
    first = run(stage, "talk", home, [one(who, "api-1", _SAID[who], notes=[_NOTES[who]]) for who in people])
    expect("both notes taken", [[True], [True]], first["notes"])
    came = run(stage, "talk", home, [one(who, "api-1", QUESTION) for who in people])
    for who, (shown,) in zip(people, came["shown"], strict=True):
        expect(f"their own line and note for {who}", (True, True), (_SAID[who] in shown, _NOTES[who] in shown))
        others = [text for told in (_SAID, _NOTES) for other, text in told.items() if other != who and text in shown]
        expect(f"nothing of the other for {who}", [], others)


def a_turn_outlives_the_process(stage: Stage) -> None:
    """The provider is held up in its write until the process is dead."""
    home = home_of(stage, "kill")
    with held_up(home):
        process = runtime(stage, "hand_over", home)
        expect("sync_turn to return", "returned", process.ask(json.dumps([one("alice", "monday", IN_PASSING)])))
        expect("the runtime killed", -signal.SIGKILL, process.end(signal.SIGKILL))
        journals = [path.stat().st_size > 0 for path in (home / "memory-journal").glob("*.journal")]
        expect("one journal with something in it", [True], journals)
        expect("no file with a word of it in clear", 0, _in_clear(stage, home))
    came = run(stage, "talk", home, [one("alice", "thursday", QUESTION)])
    recalls_once(came["shown"][0][0], IN_PASSING)
    expect("the search to find it where the provider has it", True, _in_clear(stage, home / PROVIDER) > 0)
    expect("no journal left", [], list((home / "memory-journal").iterdir()))


@contextmanager
def held_up(home: Path) -> Iterator[None]:
    """Hold the lock under which the provider writes."""
    lock = home / PROVIDER / "lock"
    lock.parent.mkdir()
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _in_clear(stage: Stage, directory: Path) -> int:
    """How many of the words that only the turn has lie in the files of a directory."""
    return int(stage.attack("find_words", str(directory), "Chengdu", "Shorten", "weekend", "monday"))


def agents_for_a_moment_open_no_session(stage: Stage) -> None:
    home = home_of(stage, "moment")
    told = {"aside": "Summarise the heron.", "note": "The owner wants short answers.", "said": _OTHER[0]}
    came = run(stage, "moments", home, told)
    made = came["for moments"], came["for a conversation"]
    expect("no object of the provider for them, one for a conversation", (0, 1), made)
    expect("the flush in MEMORY.md", told["note"], (home / "memories" / "MEMORY.md").read_text().strip())
    expect("the next conversation to see it", True, told["note"] in came["shown"])
    count = stage.attack("find_words", str(home / PROVIDER), "boiler")
    expect("what was said in the conversation kept", True, count > 0)
    expect("what agents for a moment said kept nowhere", 0, stage.attack("find_words", str(home), "heron"))


def settings_rebuild_an_agent(stage: Stage) -> None:
    """Whose diary it is, an agent has frozen; how many lines are read out, it has not."""
    home = home_of(stage, "rebuild")
    chats = runtime(stage, "chats", home)

    def message(user: str, text: str) -> tuple[int, list[str]]:
        came = chats.ask(json.dumps([user, text]))
        return came["built"], recalled(came["shown"])

    trip, mine = f"- {IN_PASSING}", "- I am going to Bergen this weekend."
    expect("an agent for the first chat", (1, []), message("7", IN_PASSING))
    expect("another for the second", (2, []), message("8", mine[2:]))
    expect("the same for its next message", (2, [mine]), message("8", QUESTION))
    _edit(home, {"most": 1})
    built, lines = message("8", QUESTION)
    expect("the same after an unrelated edit, which it follows", (2, 1), (built, len(lines)))
    _edit(home, {"most": 1, "user_peer_aliases": {"8": "7"}})
    expect("a new one after an edit of an identity key", (3, [trip]), message("8", QUESTION))
    expect("and no other after it", 3, message("8", QUESTION)[0])


def _edit(home: Path, settings: Mapping[str, Any]) -> None:
    draft = home / "diary.json.new"
    draft.write_text(json.dumps(settings))
    draft.replace(home / "diary.json")


def a_broken_provider_costs_its_recall(stage: Stage) -> tuple[str, ...]:
    home = home_of(stage, "broken")
    came = run(stage, "suffer", home, {"note": "The owner has a heron.", "says": [QUESTION, "and then?"]})
    well = came["well"]
    expect("a recall in each turn of a good one", [["- the heron was fed"]] * 3, list(map(recalled, well["shown"])))
    for kind in ("raises", "hangs"):
        bare = list(map(_without_recall, well["shown"]))
        expect(f"its turns without the recall, if it {kind}", bare, came[kind]["shown"])
        expect("the note taken", (True, True), (well["noted"], came[kind]["noted"]))
        told = (["found"], ["error"])
        expect("the model told that its tool did not work", told, (well["looked up"], came[kind]["looked up"]))
    return (_why_not(stage, home),)


def _without_recall(shown: str) -> str:
    return _FENCE.sub("", shown).replace(f"{fence.NOTICE}\n", "")


def _why_not(stage: Stage, home: Path) -> str:
    """What is said of a plugin that does not work, beside one that does."""
    torn = home / "plugins" / "torn"
    torn.mkdir()
    (torn / "__init__.py").write_text("from agent.memory_provider import MemoryProvider\nimport no_such_package\n")
    listed = stage.answer("provider", "list", "--home", str(home))["providers"]
    found = {each["name"]: each for each in listed if each["where"] == "plugins"}
    expect("one available, one not", {PROVIDER: True, "torn": False}, {k: v["available"] for k, v in found.items()})
    reason = str(found["torn"]["reason"]).replace(f"{torn.resolve()}/", "")
    parts = ("ModuleNotFoundError", "no_such_package", "__init__.py, line 2")
    expect("the error with its file and line", [], [part for part in parts if part not in reason])
    return reason


def the_kit_finds_no_fault(stage: Stage) -> tuple[str, ...]:
    """The whole kit, shared out among three processes."""
    plugin = str(home_of(stage, "check") / "plugins" / PROVIDER)
    shares = [list(CHECKS)[start::_SHARES] for start in range(_SHARES)]
    commands = [("provider", "check", plugin, *(f"--only={check}" for check in share)) for share in shares]
    reports = [_report(done) for done in stage.at_once(*commands)]
    checks = {each["id"]: each for report in reports for each in report["checks"]}
    expect("no check to fail", {}, {name: each["reason"] for name, each in checks.items() if each["outcome"] == "fail"})
    expect("every check made", sorted(CHECKS), sorted(checks))
    counts = Counter(each["outcome"] for each in checks.values())
    expect("more to pass than not to apply", True, counts["pass"] > counts["not_applicable"])
    return (f"{len(checks)} checks: {counts['pass']} passed, 0 failed, {counts['not_applicable']} not applicable",)


def _report(done: Done) -> Any:
    """What the kit found; exit code 7 says that a check failed, and its report says which."""
    expect("the kit to come to its end", True, done.code in (0, BY_FAMILY["unavailable"]))
    return done.json
