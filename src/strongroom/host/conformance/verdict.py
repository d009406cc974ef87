"""A check and its outcome: pass, fail or not applicable, each with a reason in plain words.

A reason names hooks, kinds of errors with file and line, and counts. It never holds a path, a time or the provider's
own words, so that two runs on two machines give equal reports. The provider's words are quoted only if it does not
load.
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
    """Raised if the provider does not have the property of a check. The text says how the provider behaves instead."""


class NotApplicable(Exception):
    """Raised if the check does not apply to this provider. The text is the reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question to a provider. `run` returns a description of what it observed, or raises `Failed` or
    `NotApplicable`.
    """

    id: str
    title: str
    """The property that a provider has if the check passes, as a sentence."""
    does: str
    why: str
    run: Callable[[CheckStage], str]
    seconds: float = 60.0
    """The time limit in seconds. A check that takes longer is ended with its process, and fails."""


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check for one provider."""

    check: Check
    outcome: Outcome
    reason: str = ""
