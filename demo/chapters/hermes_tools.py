"""The steps in which Hermes' own terminal tool reaches for the keys, because the scripted model tells it to.

Embedded, it gets them: the demonstration says so. With the server under another user it gets nothing, although the same
commands run there, and memory goes on working.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from pathlib import Path

from demo import os_users
from demo.chapters import user_wall
from demo.chapters.user_wall import two_of
from demo.hermes_home import ME, NAMESPACES, PROFILE, RUNTIME_OPS, Home, Shown, python_of
from demo.model_server import ToolCall
from demo.os_users import Apart, User
from demo.stage import Stage
from strongroom.cli.demo_stage import answered, expect

_APART = "apart"
_ISSUER = "issuer.key"
_MINT = ("cap", "mint", "--ops", "get", "--namespaces", "personal", "--ttl", "5m")
_RACK = "My bicycle stands in the rack tulip-4."


def tools_reach_the_keys(home: Home) -> Shown:
    """No wall stands against a program of the same user, and nothing here pretends that one does."""
    (key,) = home.keeper.rglob(_ISSUER)
    stolen = home.root / "stolen.cap"
    read, minted = _told_to(
        home, f"cat {_quoted(key)} | sha256sum", _quoted(home.python, "-m", "strongroom", *_MINT, "--out", stolen)
    )
    digest = hashlib.sha256(key.read_bytes()).hexdigest()
    expect("the tool to read the keys", (0, True), (read[0], digest in read[1]))
    expect("the tool to mint", (0, True), (minted[0], stolen.exists()))
    return (f"cat {key.name}: it was read", "strongroom cap mint: it was minted")


def tools_meet_a_wall(stage: Stage) -> Shown:
    """The server's user has vault and keys; Hermes runs as the agent's, with a cap."""
    python = python_of(stage)
    two = two_of(stage)
    user = os_users.with_python(two.agent, python, stage.closing)
    home = _home_apart(stage, two, user, python)
    _remembers(home)
    (key,) = (two.server.home / "keys").rglob(_ISSUER)
    program, stolen = str(_program(home, user)), home.root / "stolen.cap"
    minting = _quoted(program, *_MINT, "--vault", two.server.home / "vault", "--out", stolen)
    works, read, minted = _told_to(home, _quoted(program, "--version"), _quoted("cat", key), minting)
    expect("the command to run there", (0, True), (works[0], "strongroom" in works[1]))
    expect("no right to read the keys", (1, True), (read[0], "Permission denied" in read[1]))
    expect("nothing minted", (True, False), (minted[0] != 0, stolen.exists()))
    home.leave().end()
    return (f"cat {key.name}: Permission denied", f"strongroom cap mint: exit code {minted[0]}")


def _told_to(home: Home, *commands: str) -> list[tuple[int, str]]:
    """Let the model have Hermes run these; the exit code of each and what it said, as the model was told."""
    said = f"Please run {len(commands)} commands."
    home.model.answers(said, "It is done.", *(ToolCall("terminal", {"command": one}) for one in commands))
    home.chats().together({**ME, "text": said})
    results = [json.loads(one) for one in home.model.results(said)]
    expect("every command run", len(commands), len(results))
    return [(int(one["exit_code"]), str(one["output"])) for one in results]


def _quoted(*words: str | Path) -> str:
    return shlex.join(map(str, words))


# Another user.


def _home_apart(stage: Stage, two: Apart, user: User, python: Path) -> Home:
    """A home of the agent's user, wired to the server: root sets it up and hands it over."""
    cap = str(two.server.home / "hermes.cap")
    claims = ("--scope", PROFILE, "--ops", RUNTIME_OPS, "--namespaces", NAMESPACES, "--ttl", "1d")
    answered(two.server.run(user_wall.STRONGROOM, "cap", "mint", *claims, "--out", cap, "--json"))
    home = Home(stage, _APART, python, root=two.agent.home / "hermes-apart", user=user)
    given = shutil.copyfile(cap, home.root / "given.cap")
    given.chmod(0o600)
    stage.tell("strongroom wire hermes")
    reach = ("--url", f"unix://{two.socket}", "--cap-file", str(given))
    expect("it wired", True, home.wire(*reach)["ok"])
    given.unlink()
    _hand_over(home.root, user)
    return home


def _hand_over(place: Path, user: User) -> None:
    for path in (place, *place.rglob("*")):
        os.chown(path, user.number, user.number, follow_symlinks=False)


def _remembers(home: Home) -> None:
    chats = home.chats()
    chats.say(ME, _RACK)
    chats.say(ME, "/new")
    chats.say(ME, "Where does my bicycle stand?")
    expect("it to remember all the same", True, _RACK in home.model.seen("Where does my bicycle stand?").recalled)


def _program(home: Home, user: User) -> Path:
    """A `strongroom` for the tool's shell. Python may lie where that user cannot go; Hermes' process has it open."""
    process = home.stage.partners[f"hermes-{_APART}"].process.pid
    words = ["env", *(f"{name}={value}" for name, value in user.python.items()), *user.command("strongroom")]
    program = home.root / "strongroom"
    program.write_text(f'#!/bin/sh\nexec {_quoted(*words)} "$@"\n'.replace("/proc/self/", f"/proc/{process}/"))
    os.chown(program, user.number, user.number)
    program.chmod(0o700)
    return program
