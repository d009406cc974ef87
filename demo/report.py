"""The strict rules of a demonstration: what a step may end as, and when the whole is green.

A step is `ok`, `skip` with a reason that is on the list, or `fail` with what was expected and what came. A step that
raises anything has failed, and so has one that never ran. It prints nothing and knows nothing of vaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from strongroom.cli.demo_stage import FAIL, OK, StepOutcome, Unexpected
from strongroom.extras import how_to_install

S = TypeVar("S")

SKIP = "skip"

ALLOWED = {
    "modes_do_not_bind": "whoever runs this may write to read-only files, as root may",
    "no_server_extra": f"there is no server without its parts: {how_to_install('server')}",
    "no_mcp_extra": f"MCP needs parts that are not installed: {how_to_install('mcp')}",
    "no_s3_extra": f"a vault in a bucket needs parts that are not installed: {how_to_install('s3')}",
    "no_bucket": "no bucket is named: --store s3://bucket/prefix names one, and the login comes as for any command",
    "no_hermes": "no Hermes is installed here: --hermes names the Python of an environment with hermes-agent",
    "not_root": "only root on Linux may start processes of other users",
    "tmp_is_private": "other users cannot enter the temporary directory: TMPDIR names another",
}
"""The only reasons for which a step may be left out, and what they mean."""

_SHOWN = 300


class Skipped(Exception):
    """A step cannot be made here. The reason has to be on the list."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Step(Generic[S]):
    """One step: a sentence that must be true, and how it is tried, which may return lines to be shown below it.

    Without a `needed` one no later step can be made. The first step of a chapter names it.
    """

    name: str
    sentence: str
    attempt: Callable[[S], tuple[str, ...] | None]
    needed: bool = False
    chapter: str = ""


def performed(steps: Sequence[Step[S]], stage: S) -> Iterator[StepOutcome]:
    """Make the steps one after the other and say how each ended. After a needed one fails, the rest are not run."""
    missing = 0
    for number, step in enumerate(steps, start=1):
        if missing:
            outcome = not_run(number, step, f"it was not run, because step {missing} failed")
        else:
            outcome = _attempted(number, step, stage)
        if step.needed and outcome.state != OK and not missing:
            missing = number
        yield outcome


def _attempted(number: int, step: Step[S], stage: S) -> StepOutcome:
    try:
        seen = step.attempt(stage)
    except Skipped as skip:
        if skip.reason in ALLOWED:
            return StepOutcome(number, step.name, SKIP, step.sentence, reason=skip.reason)
        return _failed(number, step, "a reason to skip that is on the list", skip.reason)
    except Unexpected as error:
        return _failed(number, step, error.expected, error.came)
    except Exception as error:  # noqa: BLE001 - whatever breaks a step, it has failed
        return _failed(number, step, "the step to finish", f"{type(error).__name__}: {error}")
    return StepOutcome(number, step.name, OK, step.sentence, seen=seen or ())


def not_run(number: int, step: Step[S], why: str) -> StepOutcome:
    """A step that never ran: a fail like any other."""
    return _failed(number, step, "the step to be run", why)


def _failed(number: int, step: Step[S], expected: str, came: str) -> StepOutcome:
    return StepOutcome(number, step.name, FAIL, step.sentence, expected=_cut(expected), came=_cut(came))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def complete(steps: Sequence[Step[S]], outcomes: Sequence[StepOutcome]) -> list[StepOutcome]:
    """One outcome for each step, in order: where there is none, the step was not run."""
    found = {outcome.number: outcome for outcome in outcomes}
    return [found.get(at) or not_run(at, step, "it was not run") for at, step in enumerate(steps, start=1)]


def is_green(outcomes: Sequence[StepOutcome]) -> bool:
    """Whether every step is ok, or was left out for a reason on the list. Nothing at all is not green."""
    return bool(outcomes) and all(one.state == OK or (one.state == SKIP and one.reason in ALLOWED) for one in outcomes)


def summary(outcomes: Sequence[StepOutcome]) -> str:
    """One line on the whole."""
    counts = {state: sum(one.state == state for one in outcomes) for state in (OK, SKIP, FAIL)}
    said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    return f"{len(outcomes)} steps: {said}" + ("; all is green" if is_green(outcomes) else "; NOT green")
