"""What a check is, and how it ends: it passes, it fails, or it does not apply, each with a reason in plain words.

A reason names hooks, kinds of errors with file and line, and counts. It never holds a path, a time or what a provider
said, so that two runs on two machines give the same report; only of one that does not load, it says why in full.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strongroom.host.conformance.check_stage import CheckStage


class Outcome(StrEnum):
    """How a check ended."""

    PASS = "pass"  # noqa: S105 - not a password
    FAIL = "fail"
    NOT_APPLICABLE = "not applicable"


class Failed(Exception):
    """The provider does not do what the check is about; the text says what it did instead."""


class NotApplicable(Exception):
    """The check says nothing about this provider; the text says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question to a provider. `run` returns what was seen, or raises `Failed` or `NotApplicable`."""

    id: str
    title: str
    """What holds where it passes, as a sentence."""
    does: str
    why: str
    run: Callable[[CheckStage], str]
    seconds: float = 60.0
    """How long it may take before its process is ended and it counts as failed."""


@dataclass(frozen=True, slots=True)
class Result:
    """How one check ended for one provider."""

    check: Check
    outcome: Outcome
    reason: str = ""
