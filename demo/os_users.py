"""Processes of other users, as only root can start them: two numeric users that nobody has, and a tree for them.

Nothing is added to the system's users. The interpreter and the library may lie where others cannot enter, as below
/root: their directories are handed over as open descriptors, which says nothing about any other place.
"""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from demo.report import Skipped
from demo.stage import ROOT
from strongroom.cli.demo_stage import PATIENCE, Done, Unexpected

_PYTHON = ("PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LD_LIBRARY_PATH")
_NUMBERS = range(61_184, 65_520)
"""Where systemd takes users from that live as long as a process: no real one is there."""


@dataclass(frozen=True, slots=True)
class User:
    """A user without a name, its places, and what its processes are started with."""

    number: int
    groups: tuple[int, ...]
    home: Path
    program: str
    environment: Mapping[str, str]
    descriptors: tuple[int, ...]

    @property
    def surroundings(self) -> dict[str, Any]:
        """What a process of this user is started with."""
        return {
            "cwd": self.home, "env": self.environment, "umask": 0o077, "pass_fds": self.descriptors,
            "user": self.number, "group": self.number, "extra_groups": self.groups,
        }  # fmt: skip

    @property
    def python(self) -> dict[str, str]:
        """What of the environment says where Python is."""
        return {name: self.environment[name] for name in _PYTHON}

    def command(self, module: str, *arguments: str) -> list[str]:
        return [self.program, "-m", module, *arguments]

    def run(self, module: str, *arguments: str) -> Done:
        """Run a module in a process of this user."""
        done = subprocess.run(  # noqa: S603 - our own programs
            self.command(module, *arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            encoding="utf-8", timeout=PATIENCE, check=False, **self.surroundings,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def said(self, module: str, *arguments: str) -> Any:
        """The document that a module says; it has to succeed."""
        done = self.run(module, *arguments)
        if done.code != 0:
            raise Unexpected(f"{module} to work", done.err.strip()[-200:])
        return json.loads(done.out) if done.out else None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python: its program, where its standard library is, and where it finds modules."""

    program: str
    base: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Apart:
    """The server's user, the agent's user, and the directory of the socket, which both may enter."""

    server: User
    agent: User
    socket: Path


def check() -> None:
    """Where there can be no processes of two users, the step is left out."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise Skipped("not_root")
    _check_becoming(_unused(1)[0])
    place = Path(tempfile.gettempdir()).resolve()
    if not all(one.stat().st_mode & 0o001 for one in (place, *place.parents)):
        raise Skipped("tmp_is_private")


def apart(closing: ExitStack, environment: Mapping[str, str]) -> Apart:
    """Two users and their tree, which is gone when `closing` is closed."""
    check()
    one, other, both = _unused(3)
    tree = Path(tempfile.mkdtemp(prefix="strongroom-demo-"))
    closing.callback(shutil.rmtree, tree, ignore_errors=True)
    tree.chmod(0o711)
    # What is made below the server's own place has to protect itself: everybody may enter here.
    places = {"server": (one, one, 0o755), "agent": (other, other, 0o700), "run": (one, both, 0o2750)}
    for name, (owner, group, mode) in places.items():
        _made(tree / name, owner, group, mode)
    program, given, descriptors = _handed_over(closing, Interpreter(sys.executable, sys.base_prefix, tuple(sys.path)))
    known = {**environment, **given}
    server = User(one, (), tree / "server", program, _environment(known, tree, "server"), descriptors)
    agent = User(other, (both,), tree / "agent", program, _environment(known, tree, "agent"), descriptors)
    return Apart(server, agent, tree / "run" / "socket")


def with_python(user: User, python: Path, closing: ExitStack) -> User:
    """The same user, whose processes are run by another Python."""
    program, given, descriptors = _handed_over(closing, _asked(python))
    return replace(user, program=program, environment={**user.environment, **given}, descriptors=descriptors)


def _asked(python: Path) -> Interpreter:
    asking = "import json, sys; print(json.dumps([sys.executable, sys.base_prefix, sys.path]))"
    said = subprocess.run(  # noqa: S603 - the Python that runs Hermes
        [python, "-P", "-c", asking], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=True
    ).stdout
    program, base, path = json.loads(said)
    return Interpreter(program, base, (*path, ROOT))


def _unused(count: int) -> list[int]:
    """Numbers that no user, group or running process has."""
    taken = {one.pw_uid for one in pwd.getpwall()} | {one.gr_gid for one in grp.getgrall()}
    taken |= set(_running())
    free = [number for number in _NUMBERS if number not in taken]
    return secrets.SystemRandom().sample(free, count)


def _running() -> Iterator[int]:
    """Whose processes run."""
    for place in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended
            if place.name.isdecimal():
                yield place.stat().st_uid


def _check_becoming(number: int) -> None:
    """Root in a container may lack the right to become others, or have no others."""
    try:
        subprocess.run(
            [sys.executable, "-c", ""], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            user=number, group=number, extra_groups=[], check=False,
        )  # fmt: skip
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EINVAL):
            raise Skipped("not_root") from None
        if error.errno != errno.EACCES:  # the interpreter may lie where others cannot enter
            raise


def _made(place: Path, owner: int, group: int, mode: int) -> None:
    place.mkdir()
    os.chown(place, owner, group)
    place.chmod(mode)  # after the owner: changing that takes the group's bit away


def _handed_over(closing: ExitStack, python: Interpreter) -> tuple[str, dict[str, str], tuple[int, ...]]:
    """An interpreter and its path by descriptors: program, environment, and the descriptors themselves."""
    descriptors: list[int] = []

    def opened(place: str | Path) -> str:
        descriptor = os.open(place, os.O_PATH | os.O_DIRECTORY)
        closing.callback(os.close, descriptor)
        descriptors.append(descriptor)
        return f"/proc/self/fd/{descriptor}"

    binary = Path(python.program).resolve()
    base = opened(python.base)
    environment = {
        "PYTHONHOME": base,
        "PYTHONPATH": os.pathsep.join(opened(place) for place in python.path if os.path.isdir(place)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (f"{base}/lib", os.environ.get("LD_LIBRARY_PATH")))),
    }
    return f"{opened(binary.parent)}/{binary.name}", environment, tuple(descriptors)


def _environment(given: Mapping[str, str], tree: Path, name: str) -> dict[str, str]:
    """Both are told where the vault is: that is no secret. Keys and settings are looked for in places of their own."""
    home = tree / name
    return {
        **given,
        "HOME": str(home),
        "TMPDIR": str(home),
        "STRONGROOM_VAULT": str(tree / "server" / "vault"),
        "STRONGROOM_KEYS": str(home / "keys"),
        "STRONGROOM_CONFIG": str(home / "config.toml"),
    }
