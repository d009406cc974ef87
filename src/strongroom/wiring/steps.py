"""Numbered steps: each is done, found done, drifted or failed, and what comes after a failure is not begun."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from strongroom.errors import StrongroomError


class State(StrEnum):
    """How a step ended."""

    OK = "ok"
    """Looked at and in order, or done now."""
    SKIP = "skip"
    """Nothing was to do, or an earlier step failed."""
    WARN = "warn"
    DRIFT = "drift"
    """It would be done, had more than a look been asked for."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step says of itself."""

    state: State
    message: str
    hint: str = ""
    changed: bool = False
    """Whether anything was written or removed."""


def counted(count: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def done(message: str, hint: str = "") -> Outcome:
    """Something was changed."""
    return Outcome(State.OK, message, hint, changed=True)


@dataclass(frozen=True, slots=True)
class Step:
    """A step that ended. `family` and `reason` are those of the error that it failed with."""

    number: int
    name: str
    profile: str
    state: State
    message: str
    hint: str = ""
    reason: str = ""
    family: str = ""
    changed: bool = False


class Steps:
    """The steps of one run, in their order."""

    def __init__(self) -> None:
        self.done: list[Step] = []

    @property
    def failed(self) -> bool:
        return any(step.state is State.FAIL for step in self.done)

    @property
    def drifted(self) -> bool:
        return any(step.state is State.DRIFT for step in self.done)

    def run(self, steps: Iterable[tuple[str, Callable[[], Outcome]]], profile: str = "") -> bool:
        """Do steps until one fails, and say whether none did."""
        failed = ""
        for name, do in steps:
            number = len(self.done) + 1
            if failed:
                step = Step(number, name, profile, State.SKIP, f"not begun, because `{failed}` failed")
            else:
                step = _ended(number, name, profile, do)
                failed = name if step.state is State.FAIL else ""
            self.done.append(step)
        return not failed


def _ended(number: int, name: str, profile: str, do: Callable[[], Outcome]) -> Step:
    try:
        found = do()
    except StrongroomError as error:
        return Step(number, name, profile, State.FAIL, error.message, error.hint, error.reason, error.family)
    except OSError as error:  # of a path that nobody expected to fail
        message = f"{error.strerror or type(error).__name__}: {error.filename or ''}".strip(": ")
        return Step(number, name, profile, State.FAIL, message, reason="store_unavailable", family="unavailable")
    return Step(number, name, profile, found.state, found.message, found.hint, changed=found.changed)
