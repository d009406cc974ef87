"""The steps as root: the server runs as one user and the agent as another, who holds a cap and reaches a unix socket.

Each attempt of the agent's user is shown with what it got. What fails for it works for the server's user, so that a
mistyped path would not pass for a wall.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from demo import os_users
from demo.chapters.http_server import needs
from demo.os_users import Apart, User
from demo.stage import Stage
from strongroom.cli.demo_stage import Done, Unexpected, answered, expect, refused
from strongroom.errors import BY_REASON

STRONGROOM = "strongroom"
_VISITOR = "demo.programs.visitor"
_INTRUDER = "demo.programs.intruder"
_LINE = "the dentist is on Thursday"
_REFUSED = ("EACCES", "EPERM", "CantOpenError")


def an_agent_of_another_user_is_served(stage: Stage) -> tuple[str, ...]:
    """The server's user makes vault, keys and cap, and serves; root gives the agent the cap, and nothing else."""
    needs(stage)
    two = os_users.apart(stage.closing, stage.environment())
    made = answered(_strongroom(two.server, "init"))
    cap = str(two.server.home / "agent.cap")
    minting = ("cap", "mint", "--ops", "put,get", "--namespaces", "work", "--ttl", "10m", "--out", cap)
    answered(_strongroom(two.server, *minting))
    given = shutil.copy(cap, two.agent.home / "agent.cap")
    os.chown(given, two.agent.number, two.agent.number)
    command = two.server.command(STRONGROOM, "serve", "--json", "--socket", str(two.socket), "--socket-mode", "0660")
    told = stage.beside("server-apart", command, two.server.surroundings).hear()
    expect("the vault that it made", made["id"], told["vault"])
    stage.apart = two
    kept = answered(_ask(two, "put", _LINE))["lines"][0]["id"]
    (hit,) = answered(_ask(two, "get", "when is the dentist?"))["hits"]
    expect("its line back", (kept, _LINE), (hit["id"], hit["text"]))
    refused("cap_namespace_denied", _ask(two, "get", "dentist", "--namespace", "personal"))
    return (
        f"server: user {two.server.number}, agent: user {two.agent.number}; put and get answered over {two.socket}",
    )


def it_cannot_read_keys_or_files(stage: Stage) -> tuple[str, ...]:
    two = two_of(stage)
    server = two.server.home
    (keys,) = (server / "keys").iterdir()
    attempts = [("list", keys), ("list", server / "vault")]
    attempts += [("read", path) for path in sorted([*keys.iterdir(), *(server / "vault").iterdir()])]
    attempts += [("database", server / "vault" / "vault.db")]
    names = {path.name for _, path in attempts}
    expect("keys and database among them", set(), {"root.keyring", "issuer.key", "vault.db"} - names)
    return _fail(two, attempts)


def it_cannot_read_the_servers_memory(stage: Stage) -> tuple[str, ...]:
    two = two_of(stage)
    process = Path("/proc") / str(stage.partners["server-apart"].process.pid)
    seen = _fail(two, [("read", process / "environ"), ("read", process / "maps")])
    # Where processes may not trace each other, not even the server's own user may open this one.
    path = process / "mem"
    (got,) = two.agent.said(_INTRUDER, "read", str(path))
    return (*seen, _refused(two, "read", path, got))


def it_cannot_mint(stage: Stage) -> tuple[str, ...]:
    """By the command, by the server, and with a key of its own."""
    two = two_of(stage)
    command = _strongroom(two.agent, "cap", "mint", "--ops", "get", "--namespaces", "personal", "--ttl", "5m")
    expect("nothing minted", ("unavailable", ""), (_family(command), command.out))
    cap, forged = str(two.agent.home / "agent.cap"), str(two.agent.home / "forged.cap")
    came = two.agent.said(_VISITOR, "mint", f"unix://{two.socket}", cap)
    expect("refused by the server", "cap_op_mismatch", came)
    two.agent.said(_VISITOR, "forge", forged, cap)
    (unsigned,) = two.agent.said(_VISITOR, "knock", f"unix://{two.socket}", forged)
    expect("refused by the server", "cap_signature_invalid", unsigned)
    return (
        f"strongroom cap mint: {command.reason}",
        f"mint, asked of the server: {came}",
        f"a cap signed with a key of its own: {unsigned}",
    )


def two_of(stage: Stage) -> Apart:
    """The two users, and the server of the one; without them the step is left out, or fails."""
    needs(stage)
    os_users.check()
    if stage.apart is None:
        raise Unexpected("a server of another user", "none")
    return stage.apart


def _fail(two: Apart, attempts: list[tuple[str, Path]]) -> tuple[str, ...]:
    """Each attempt fails for the agent's user for want of a right, and succeeds for the server's."""
    arguments = [part for way, path in attempts for part in (way, str(path))]
    got = two.agent.said(_INTRUDER, *arguments)
    control = two.server.said(_INTRUDER, *arguments)
    for (way, path), came in zip(attempts, control, strict=True):
        expect(f"the server's user to {way} {path.name}", True, came[:1].isdecimal())
    return tuple(_refused(two, way, path, came) for (way, path), came in zip(attempts, got, strict=True))


def _refused(two: Apart, way: str, path: Path, came: str) -> str:
    """What is shown of an attempt that got what it must."""
    if came not in _REFUSED:
        raise Unexpected(f"no right to {way} {path.name}", came)
    tree = two.server.home.parent
    return f"{way} {path.relative_to(tree) if path.is_relative_to(tree) else path}: {came}"


def _ask(two: Apart, *arguments: str) -> Done:
    cap = str(two.agent.home / "agent.cap")
    return _strongroom(two.agent, *arguments, "--url", f"unix://{two.socket}", "--cap-file", cap)


def _strongroom(user: User, *arguments: str) -> Done:
    return user.run(STRONGROOM, *arguments, "--json")


def _family(done: Done) -> str:
    found = BY_REASON.get(done.reason)
    return done.reason if found is None else found.family
