"""Runs a check in a process of its own, with a private home and a time limit.

A broken provider can neither hang nor harm the person who checks it. It sees a home, a temporary directory and an
environment made for the one check, and its process is ended with its children when the check is over (`process_cleanup`
describes the gaps). Its output goes to a file beside them. The person's own files are not hidden from it: this guards
against faults, not against a hostile provider.
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
        """The user's directory as the provider sees it. It should write only below."""
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
    """How a process ended, and its answer; None if it did not give one."""

    code: int | None
    """The exit code, or None if its time was over."""
    answer: Any = None

    @property
    def how(self) -> str:
        """The end in words, without the provider's own."""
        if self.code is None:
            return "was ended because its time was over"
        if self.code < 0:
            return f"was ended by {signal.Signals(-self.code).name}"
        return f"ended with exit code {self.code}"


def prepare_room(subject: Subject, place: Path) -> CheckRoom:
    """Make an empty room for a check of the subject."""
    room = CheckRoom(place)
    for directory in (room.home, room.person / "tmp", room.person / "work"):
        make_directory(directory)
    furnish(subject, room.home)
    return room


def run_in_process(
    scene: str, subject: Subject, room: CheckRoom, given: Mapping[str, Any], seconds: float | None = None
) -> Ended:
    """Run `module:function` in a process of its own and return its answer.

    With a time limit the process leads a process group, which is ended with it. A scene inside a check has no limit and
    stays in the check's group.
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
    """Wait for a process, and end what it left running: a provider may have started helpers."""
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
