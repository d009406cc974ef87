"""The kit as pytest tests: one item for each check of one provider.

    pytest -p strongroom.host.conformance.plugin --provider NAME|PATH

A check that does not apply is skipped, with the reason. By default only the checks are collected; files and directories
named on the command line are collected too. A `conftest.py` can also load this plugin: `pytest_plugins =
["strongroom.host.conformance.plugin"]`. Only this module needs pytest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from strongroom.errors import StrongroomError
from strongroom.host.conformance.provider_probe import notes
from strongroom.host.conformance.provider_under_test import Subject, placed, with_environment
from strongroom.host.conformance.runner import chosen, probe, run_check
from strongroom.host.conformance.verdict import Check, Outcome


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that name the provider."""
    group = parser.getgroup("provider", "conformance of memory providers")
    group.addoption("--provider", metavar="NAME|PATH", help="the memory provider to check")
    group.addoption(
        "--provider-home", metavar="DIR", default="", help="the home directory in which the plugin is installed"
    )
    group.addoption(
        "--provider-env",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an environment variable for the provider; NAME alone passes on your value",
    )
    group.addoption(
        "--provider-file",
        metavar="FILE:PLACE",
        action="append",
        default=[],
        help="copy FILE to PLACE in the provider's home",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:  # noqa: ARG001 - pytest's names
    """Collect no tests, apart from those that the command line names."""
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    return True if config.getoption("--provider") and not named else None


@pytest.hookimpl(tryfirst=True)  # before -k and -m select items
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add an item for each check."""
    said = config.getoption("--provider")
    if not said:
        return
    try:
        home = config.getoption("--provider-home")
        files = tuple(placed(one) for one in config.getoption("--provider-file"))
        variables = config.getoption("--provider-env")
        subject = with_environment(said, variables, home=Path(home) if home else None, files=files)
    except StrongroomError as error:
        raise pytest.UsageError(error.message) from None
    items.extend(CheckItem.from_parent(session, name=one.id, check=one, subject=subject) for one in chosen())


@pytest.hookimpl(tryfirst=True)  # before pytest reports what it has collected
def pytest_collection_finish(session: pytest.Session) -> None:
    """Probe once whether the provider can be checked, so that a failure is reported once and not for each check."""
    checks = [one for one in session.items if isinstance(one, CheckItem)]
    if not checks or session.config.getoption("--collect-only"):
        return
    try:
        subject = probe(checks[0].subject)
    except StrongroomError as error:
        hint = re.sub("--(env|file)", r"--provider-\1", error.hint)
        raise pytest.UsageError(f"{error.message} ({hint})" if hint else error.message) from None
    for one in checks:
        one.subject = subject


def pytest_report_collectionfinish(items: list[pytest.Item]) -> list[str]:
    """Print first which parts of the provider cannot be tested."""
    checks = [one for one in items if isinstance(one, CheckItem)]
    return [f"note: {one}" for one in notes(checks[0].subject.ways)] if checks else []


class CheckFailure(Exception):
    """A check that failed. Its text is the reason."""


class CheckItem(pytest.Item):
    """One check of one provider."""

    def __init__(self, *, check: Check, subject: Subject, **known: object) -> None:
        super().__init__(**known)  # type: ignore[arg-type]
        self.check = check
        self.subject = subject

    def runtest(self) -> None:
        result = run_check(self.subject, self.check)
        if result.outcome is Outcome.NOT_APPLICABLE:
            pytest.skip(f"not applicable: {result.reason}")
        if result.outcome is Outcome.FAIL:
            raise CheckFailure(result.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:  # noqa: ARG002
        return "\n".join(self._said(excinfo.value))

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.subject.name}: {self.check.id}"

    def _said(self, error: BaseException) -> Iterator[str]:
        yield f"{self.check.title}: it does not hold."
        yield f"Seen: {error}"
        yield f"Done: {self.check.does}"
        yield f"Why: {self.check.why}"
