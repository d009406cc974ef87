"""A check and its outcome: pass, fail or not applicable, each with a reason in plain words.

A reason names hooks, kinds of errors with file and line, and counts. It never holds a path, a time or the provider's
own words, so that two runs on two machines give the same report. Only a provider that does not load is quoted in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.host.conformance.check_stage import CheckStage


class Outcome(StrEnum):
    """The outcome of a check."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


class Failed(Exception):
    """The provider does not do what the check is about. The text says what it did instead."""


class NotApplicable(Exception):
    """The check does not apply to this provider. The text says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question to a provider. `run` returns what was seen, or raises `Failed` or `NotApplicable`."""

    id: str
    title: str
    """The property that holds if it passes, as a sentence."""
    does: str
    why: str
    run: Callable[[CheckStage], str]
    seconds: float = 60.0
    """The time limit. A check that takes longer is ended with its process, and fails."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check for one provider."""

    check: Check
    outcome: Outcome
    reason: str = ""
