"""Records problems of memory for people to see: in `hermes strongroom status`, and once through the runtime.

A problem has a kind of work (recall, keep, cap, secrets, ...), a reason, a sentence and a count. It never has a text, a
query or a cap. The file is written when a problem appears or is gone, and not at each repetition.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from strongroom.errors import StrongroomError
from strongroom.model import Millis
from strongroom.private_files import make_directory, read_file, write_file

FILE = "status.json"
COUNTS = "counts.json"
_LIMIT = 1 << 20
log = logging.getLogger("strongroom.provider")

Warn = Callable[[str], None]


class Problem(msgspec.Struct, frozen=True):
    """A problem: its reason, when it began, and how often it occurred."""

    reason: str
    message: str
    since: Millis
    count: int = 1


class ProblemLog:
    """The problems and counters of one home, shared by the agents of a process."""

    def __init__(self, directory: Path, now: Callable[[], Millis]) -> None:
        self._path = directory / FILE
        self._now = now
        self._guard = threading.Lock()
        self.problems: Mapping[str, Problem] = read(directory)
        """The problems, by kind of work. The mapping is replaced and never changed, so it can be read without the
        lock.
        """
        self.counts: dict[str, int] = {}

    def failed(self, work: str, error: StrongroomError, warn: Warn | None = None) -> None:
        """Record a problem. `warn` is called if the problem is new."""
        with self._guard:
            before = self.problems.get(work)
            same = before is not None and before.reason == error.reason
            since, count = (before.since, before.count + 1) if before is not None and same else (self._now(), 1)
            self.problems = {**self.problems, work: Problem(error.reason, _sentence(error), since, count)}
            if not same:
                self._write(work)
        if not same:
            log.warning("memory: %s failed (%s): %s", work, error.reason, _sentence(error))
            if warn is not None:
                with suppress(Exception):  # an error of the runtime's display must not break a turn
                    warn(f"memory: {work} does not work: {_sentence(error)}")

    def worked(self, *works: str) -> None:
        """Clear the problems of these kinds of work, if there are any."""
        for work in works if self.problems else ():
            with self._guard:
                if work in self.problems:
                    self.problems = {name: one for name, one in self.problems.items() if name != work}
                    self._write(work)

    def count(self, what: str, number: int = 1) -> None:
        if number:
            with self._guard:
                self.counts[what] = self.counts.get(what, 0) + number

    def save_counts(self) -> None:
        """Add the counters since the last call to the counters on disk. The file is not synced, because only people
        read it.
        """
        with self._guard:  # held until written, so that a process that ends next finds it there
            new, self.counts = self.counts, {}
            if new:
                self._add_counts(new)

    def _add_counts(self, new: dict[str, int]) -> None:
        known = read_counts(self._path.parent)
        data = json.dumps({name: known.get(name, 0) + new.get(name, 0) for name in sorted({*known, *new})}).encode()
        with suppress(OSError):
            make_directory(self._path.parent)
            draft = self._path.with_name(f".{COUNTS}-{os.getpid()}")
            draft.write_bytes(data)
            draft.replace(self._path.with_name(COUNTS))

    def _write(self, work: str) -> None:
        """Store one problem, or remove a problem that is gone. Problems of other processes stay in the file."""
        found = {**read(self._path.parent), work: self.problems.get(work)}
        known = {name: msgspec.structs.asdict(one) for name, one in found.items() if one is not None}
        with suppress(OSError):  # it is in the log as well
            make_directory(self._path.parent)
            write_file(self._path, json.dumps(known, indent=1).encode(), new=False)


def read(directory: Path) -> dict[str, Problem]:
    """The problems in a home's state directory, as they were last stored."""
    try:
        return msgspec.json.decode(read_file(directory / FILE, _LIMIT), type=dict[str, Problem])
    except (OSError, msgspec.DecodeError):
        return {}


def read_counts(directory: Path) -> dict[str, int]:
    """The counts of stored, recalled and omitted lines in a home since it was wired."""
    try:
        return msgspec.json.decode(read_file(directory / COUNTS, _LIMIT), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return {}


def _sentence(error: StrongroomError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
