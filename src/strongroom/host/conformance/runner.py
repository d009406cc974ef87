"""Runs all checks, one after the other, each in a process and a home of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from strongroom.errors import InvalidRequest
from strongroom.host.conformance import (
    call_checks,
    duplicate_checks,
    durability_checks,
    isolated_run,
    network_checks,
    people_checks,
    provider_probe,
    session_checks,
    signature_checks,
    text_checks,
    time_checks,
    tool_checks,
)
from strongroom.host.conformance.check_stage import CheckStage
from strongroom.host.conformance.kit_report import Report
from strongroom.host.conformance.provider_under_test import Factory, Subject, subject_of
from strongroom.host.conformance.verdict import Check, Outcome, Result

_MODULES = (
    call_checks,
    network_checks,
    tool_checks,
    people_checks,
    text_checks,
    session_checks,
    durability_checks,
    duplicate_checks,
    time_checks,
    signature_checks,
)
CHECKS: dict[str, Check] = {one.id: one for module in _MODULES for one in module.CHECKS}
"""Every check by its id, in the order in which they run."""

_PERFORM = "strongroom.host.conformance.runner:perform"


def check(
    subject: str | Path | Factory | Subject,
    *,
    only: Collection[str] = (),
    beginning: Callable[[str], None] = lambda _: None,
    progress: Callable[[Result], None] = lambda _: None,
    keep: Path | None = None,
) -> Report:
    """Check a provider by name, path or factory. Raises ProviderUnavailable, with the reason, if no check can run.

    `only` names the checks to run. `beginning` is called with the name of each check before the check runs, `progress`
    with its result. With `keep`, the home and the output of each check stay in that directory; tracebacks are in the
    output.
    """
    known, wanted = subject_of(subject), chosen(only)
    beginning(provider_probe.NAME)
    known = probe(known, keep)
    results = []
    for one in wanted:
        beginning(one.id)
        results.append(run_check(known, one, keep))
        progress(results[-1])
    return Report(known.name, tuple(results), provider_probe.notes(known.ways))


def probe(subject: Subject, keep: Path | None = None) -> Subject:
    """Find out whether the provider can be checked, and through which hook it stores lines."""
    with _place(keep) as place:
        return provider_probe.probe_subject(subject, Path(place).resolve())


def chosen(only: Collection[str] = ()) -> list[Check]:
    """The checks with these ids, or all checks by default."""
    unknown = sorted(set(only) - set(CHECKS))
    if unknown:
        raise InvalidRequest(f"there is no check {unknown[0]}", hint=f"the checks are {', '.join(CHECKS)}")
    return [one for one in CHECKS.values() if not only or one.id in only]


def run_check(subject: Subject, one: Check, keep: Path | None = None) -> Result:
    """Run one check and return its result."""
    with _place(keep) as place:
        room = isolated_run.prepare_room(subject, Path(place).resolve() / one.id)
        ended = isolated_run.run_in_process(_PERFORM, subject, room, {"name": one.id}, one.seconds)
        hook = f", in {room.last.read_text().strip()}" if room.last.exists() else ""
    if not isinstance(ended.answer, dict):
        return Result(one, Outcome.FAIL, f"the check's process {ended.how}{hook}")
    return Result(one, Outcome(ended.answer["outcome"]), _in_its_file(ended.answer["reason"], subject))


def _place(keep: Path | None) -> AbstractContextManager[Path | str]:
    if keep:
        return nullcontext(keep)
    return tempfile.TemporaryDirectory(prefix="strongroom-conformance-", ignore_cleanup_errors=True)


def _in_its_file(reason: str, subject: Subject) -> str:
    """Replace `__init__.py` in a text by the name of the author's own file.

    A provider in a single file is copied as `__init__.py`, so errors name that file.
    """
    return reason.replace("__init__.py", Path(subject.said).name) if subject.said.endswith(".py") else reason


def perform(stage: CheckStage, name: str) -> dict[str, str]:
    """Scene (run in its own process): a whole check."""
    return {"outcome": Outcome.PASS, "reason": CHECKS[name].run(stage)}
