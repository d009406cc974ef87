"""Runs numbered steps. After a step that fails, the rest are not started."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from strongroom.errors import StrongroomError


class StepState(StrEnum):
    """How a step ended."""

    OK = "ok"
    """Nothing is wrong, or the step has just made the change."""
    SKIP = "skip"
    """There was nothing to do, or an earlier step failed."""
    WARN = "warn"
    DRIFT = "drift"
    """Something needs changing, but --check-only changes nothing."""
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step."""

    state: StepState
    message: str
    hint: str = ""
    changed: bool = False
    """Whether anything was written or removed."""


def as_done(message: str, hint: str = "") -> StepResult:
    """The result of a step that changed something."""
    return StepResult(StepState.OK, message, hint, changed=True)


@dataclass(frozen=True, slots=True)
class WireStep:
    """A finished step. If the step failed, `family` and `reason` come from its error."""

    number: int
    name: str
    profile: str
    state: StepState
    message: str
    hint: str = ""
    reason: str = ""
    family: str = ""
    changed: bool = False


class Steps:
    """The steps of one run, in order."""

    def __init__(self) -> None:
        self.done: list[WireStep] = []

    @property
    def failed(self) -> bool:
        return any(step.state is StepState.FAIL for step in self.done)

    @property
    def drifted(self) -> bool:
        return any(step.state is StepState.DRIFT for step in self.done)

    def run(self, steps: Iterable[tuple[str, Callable[[], StepResult]]], profile: str = "") -> bool:
        """Run steps until a step fails. Returns True if no step failed."""
        failed = ""
        for name, do in steps:
            number = len(self.done) + 1
            if failed:
                step = WireStep(number, name, profile, StepState.SKIP, f"not started, because `{failed}` failed")
            else:
                step = _ended(number, name, profile, do)
                failed = name if step.state is StepState.FAIL else ""
            self.done.append(step)
        return not failed


def _ended(number: int, name: str, profile: str, do: Callable[[], StepResult]) -> WireStep:
    try:
        found = do()
    except StrongroomError as error:
        return WireStep(number, name, profile, StepState.FAIL, error.message, error.hint, error.reason, error.family)
    except OSError as error:  # for paths without an error message of their own
        message = f"{error.strerror or type(error).__name__}: {error.filename or ''}".strip(": ")
        return WireStep(
            number, name, profile, StepState.FAIL, message, reason="store_unavailable", family="unavailable"
        )
    return WireStep(number, name, profile, found.state, found.message, found.hint, changed=found.changed)
