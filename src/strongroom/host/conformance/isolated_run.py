"""Runs a check in a process of its own, with a private home and a time limit.

A broken provider can neither hang the run nor harm the person who started it. The provider sees a home, a temporary
directory and an environment that were made for this check. When the check is over, its process and the children of its
process are ended (`process_cleanup` describes the gaps). Their output goes to a file beside the home.

The files of the person who runs the check are not hidden. So the isolation protects against faulty providers, and not
against hostile providers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from strongroom.host.conformance import process_cleanup
from strongroom.host.conformance.provider_under_test import Subject, furnish
from strongroom.private_files import make_directory

_CHILD = "strongroom.host.conformance.child_process"
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR", "SYSTEMROOT")


@dataclass(frozen=True, slots=True)
class CheckRoom:
    """The directories of one check."""

    place: Path

    @property
    def person(self) -> Path:
        """The user's directory as the provider sees it. The provider should write only below this directory."""
        return self.place / "person"

    @property
    def home(self) -> Path:
        return self.person / ".hermes"

    @property
    def last(self) -> Path:
        """The file with the name of the hook that was called last."""
        return self.place / "last-hook"

    @property
    def output(self) -> Path:
        """The output of the check's processes, including tracebacks."""
        return self.place / "output.txt"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended, and its answer. The answer is None if the process gave none."""

    code: int | None
    """The exit code, or None if the time limit was reached."""
    answer: Any = None

    @property
    def how(self) -> str:
        """How the process ended, in our words and none of the provider's."""
        if self.code is None:
            return "was ended because its time was over"
        if self.code < 0:
            return f"was ended by {signal.Signals(-self.code).name}"
        return f"ended with exit code {self.code}"


def prepare_room(subject: Subject, place: Path) -> CheckRoom:
    """Make the empty directories for a check, and put the provider's files into its home."""
    room = CheckRoom(place)
    for directory in (room.home, room.person / "tmp", room.person / "work"):
        make_directory(directory)
    furnish(subject, room.home)
    return room


def run_in_process(
    scene: str, subject: Subject, room: CheckRoom, given: Mapping[str, Any], seconds: float | None = None
) -> Ended:
    """Run `module:function` in a process of its own and return its answer.

    With a time limit, the process leads a process group, and the whole group is ended with it. A scene is a part of a
    check that runs in another process: it has no limit and stays in the check's group.
    """
    number = len(list(room.place.glob("job-*.json")))
    job, answer = room.place / f"job-{number}.json", room.place / f"answer-{number}.json"
    # Values in the environment may be secret, so only their names are written down.
    named = {**asdict(subject), "environment": list(subject.environment)}
    told = {"scene": scene, "subject": named, "given": dict(given)}
    task = {**told, "place": str(room.place), "leads": seconds is not None}
    job.write_text(json.dumps(task))
    with room.output.open("ab") as output, _launched(job, answer, subject, room, output, seconds) as child:
        code = _awaited(child, seconds)
    return Ended(code, json.loads(answer.read_text()) if answer.exists() else None)


def _launched(
    job: Path, answer: Path, subject: Subject, room: CheckRoom, output: Any, seconds: float | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", _CHILD, str(job), str(answer)],
        cwd=room.person / "work",
        env=_environment(subject, room),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=seconds is not None,
    )


def _awaited(child: subprocess.Popen[bytes], seconds: float | None) -> int | None:
    """Wait for a process, then end the processes that it left running, because a provider may have started helpers."""
    if seconds is None:
        return child.wait()
    try:
        return child.wait(seconds)
    except BaseException as error:
        process_cleanup.end(child.pid)
        if isinstance(error, subprocess.TimeoutExpired):
            return None
        raise
    finally:
        process_cleanup.end_group(child.pid)


def _environment(subject: Subject, room: CheckRoom) -> dict[str, str]:
    person = room.person
    places = {
        "HOME": person,
        "HERMES_HOME": room.home,
        "TMPDIR": person / "tmp",
        "XDG_DATA_HOME": person / ".local" / "share",
        "XDG_CONFIG_HOME": person / ".config",
        "XDG_CACHE_HOME": person / ".cache",
        "XDG_STATE_HOME": person / ".local" / "state",
    }
    return {
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        **{name: str(path) for name, path in places.items()},
        "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TZ": "UTC",
        **subject.environment,
    }
