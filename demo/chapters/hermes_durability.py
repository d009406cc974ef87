"""The steps in which Hermes' memory outlasts it: a kill, its sessions' commands, Hermes itself, and what was forgotten.

Another runtime recalls from the same store, as it is. After a forget, Hermes' own copies of what it recalled go too.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing

from demo.chapters.hosted_providers import recalled as fenced
from demo.chapters.http_server import needs
from demo.hermes_home import ME, OWNER, Home, Shown
from demo.talk import QUESTION
from strongroom.cli.demo_stage import PATIENCE, answered, expect

_UMBRELLA = "I left the umbrella at the marigold desk."
_TURNS = ("The first word is acacia.", "The second word is bamboo.", "The third word is clover.")
_AFTER = {"/compress": "The fourth word is daisy.", "/new": "The fifth word is elder."}
_SUMMARY = "A summary."
_ELSEWHERE = "The spare key is with the neighbour, below the heronstone."
_SHOWN = ("take it out", "look again")
_TAKEN = "sealed-hermes.json"
_NAME = re.compile(r"^\[[^\]]*\] ")


def a_kill_loses_nothing(home: Home) -> Shown:
    """kill -9 in the moment in which the reply is delivered."""
    home.model.answers(_UMBRELLA, "At the desk, then.")
    chats = home.chats()
    chats.deliver(ME, _UMBRELLA)
    home.leave().kill()
    again = home.chats()
    again.say(ME, "/new")
    again.say(ME, "Where did I leave the umbrella?")
    expect("it recalled by the next process", True, _UMBRELLA in home.model.seen("leave the umbrella?").recalled)
    return None


def sessions_leave_no_orphan(home: Home) -> Shown:
    """Every line that is kept was said in its session. A summary is nobody's word. The gateway was restarted before."""
    chats = home.chats()
    for text in _TURNS:
        chats.say(ME, text)
    for command, text in _AFTER.items():
        chats.say(ME, command)
        chats.say(ME, text)
    words = (*_TURNS, *_AFTER.values())
    lines = home.lines()
    counts = Counter(line["text"] for line in lines)
    expect("each turn kept once", dict.fromkeys(words, 1), {text: counts[text] for text in words})
    expect("no summary kept", [], [line["text"] for line in lines if _SUMMARY in line["text"]])
    sessions, said = _hermes_history(home)
    expect("no line of a session that is not Hermes'", set(), {line["session"] for line in lines} - sessions)
    orphans = {line["text"] for line in lines if (line["session"], line["text"]) not in said}
    # What was said when the process was killed, Hermes may not have written yet.
    expect("no line that its session did not say", set(), orphans - {_UMBRELLA, "At the desk, then."})
    return (f"{len(lines)} lines in {len({line['session'] for line in lines})} sessions, each said there",)


def _hermes_history(home: Home) -> tuple[set[str], set[tuple[str, str]]]:
    """The sessions of Hermes' own database, and what was said in each."""
    with closing(sqlite3.connect(f"file:{home.place / 'state.db'}?mode=ro", uri=True)) as database:
        sessions = {name for (name,) in database.execute("SELECT id FROM sessions")}
        said = database.execute("SELECT session_id, content FROM messages WHERE role IN ('user', 'assistant')")
        # In a shared chat Hermes writes the name of who speaks before each text.
        return sessions, {(name, _NAME.sub("", text or "")) for name, text in said}


# Elsewhere.


def another_runtime_recalls_it(home: Home) -> Shown:
    """A runtime on `strongroom.host`, in a process of its own, without Hermes."""
    surroundings = {"cwd": home.root, "env": home.environment()}
    command = home.stage.program("gateway", "through_the_gate", str(home.root / "runtime"), str(home.place))
    runtime = home.stage.beside(f"runtime-{home.name}", command, surroundings)
    lines = fenced(runtime.ask(json.dumps(QUESTION)))
    expect("the runtime to end in order", 0, runtime.process.wait(PATIENCE))
    (line,) = [one for one in lines if home.trip in one] or [""]
    expect("the same line", True, "Chengdu" in line)
    return (line,)


def an_mcp_client_recalls_it(home: Home) -> Shown:
    needs(home.stage, "mcp")
    cap = home.minted("mcp.cap", "--for", OWNER, ops="get")
    command = home.stage.program("visitor", "mcp_stdio", cap, *home.reach)
    surroundings = {"cwd": home.root, "env": home.environment()}
    client = home.stage.beside(f"mcp-{home.name}", command, surroundings)
    client.hear()
    came = client.ask(json.dumps(["memory_get", {"query": QUESTION, "k": 20}]))
    expect("the same line", (False, True), (came["error"], home.trip in came["text"] and "Chengdu" in came["text"]))
    client.end()
    return None


# Forgetting.


def forgotten_words_are_gone(home: Home) -> Shown:
    """A line that another program put, that Hermes recalled, and that is forgotten then."""
    cap = home.minted("forget.cap", "--for", OWNER, ops="put,get,forget")
    given = (*home.reach, "--cap-file", cap)
    (put,) = home.keys_work("put", _ELSEWHERE, "--namespace", "personal", *given)["lines"]
    home.chats().say(ME, "/new")
    home.chats().say(ME, "Where is the spare key?")
    expect("it recalled", True, _ELSEWHERE in home.model.seen("Where is the spare key?").recalled)
    home.leave().end()
    expect("it in Hermes' files before", True, _in_hermes(home, "heronstone") > 0)
    _forget(home, put["id"], given)
    scrubbed = answered(home.strongroom("scrub", "hermes"))
    expect("no word of it in Hermes' files", 0, _in_hermes(home, "heronstone", "spare key is with"))
    expect("what was not forgotten left", True, _in_hermes(home, home.trip) > 0)
    return tuple(f"{step['name']}: {step['message']}" for step in scrubbed["steps"] if step["name"] in _SHOWN)


def _forget(home: Home, line: str, given: tuple[str, ...]) -> None:
    """No piece of the sealed line is left in the vault."""
    vault, taken = str(home.vault), str(home.root / _TAKEN)
    expect("the sealed line", 1, home.stage.attack("take", vault, taken, f"*/lines/{line}"))
    expect("the search to find it while it is there", True, home.stage.attack("find", vault, taken) > 0)
    expect("it forgotten", [line], home.keys_work("forget", line, *given)["ids"])
    expect("no piece of it in the vault", 0, home.stage.attack("find", vault, taken))


def _in_hermes(home: Home, *words: str) -> int:
    return int(home.stage.attack("find_words", str(home.place), *words))
