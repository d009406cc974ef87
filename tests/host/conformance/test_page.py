"""The published report: it has every check, says what it is about, and holds nothing of the machine that wrote it."""

from __future__ import annotations

import re

import pytest
from scripts.make_conformance_report import HERMES, INTRODUCTION, PAGE, PROVIDER, SPEED_DECIDES, explained, page

from strongroom.host.conformance import CHECKS, Outcome, Report, Result
from strongroom.host.conformance.provider_probe import notes

ROW = re.compile(r"^\| `([a-z-]+)` \| (pass|FAIL|n/a) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
OUTCOMES = {"pass": Outcome.PASS, "FAIL": Outcome.FAIL, "n/a": Outcome.NOT_APPLICABLE}


@pytest.mark.requirement("conformance-holographic-report")
def test_page_has_every_check_with_its_outcome_and_a_reason() -> None:
    rows = ROW.findall(PAGE.read_text())
    assert [row[0] for row in rows] == [name for name in CHECKS if name != SPEED_DECIDES]
    results = tuple(Result(CHECKS[name], OUTCOMES[outcome], reason) for name, outcome, _, reason in rows)
    report = Report(PROVIDER, results, notes(("on_memory_write",)))
    assert PAGE.read_text() == page(report), "run scripts/make_conformance_report.py"


@pytest.mark.requirement("conformance-holographic-report")
def test_page_says_whose_provider_it_is_and_what_not_applicable_means() -> None:
    text = PAGE.read_text()
    assert text.startswith(INTRODUCTION)
    assert text.endswith("\n".join(explained()))
    for words in (f"hermes-agent {HERMES}", "other people wrote", "Not applicable means", "never claimed"):
        assert words in text


@pytest.mark.requirement("conformance-holographic-report")
def test_page_holds_no_path_and_no_measured_time() -> None:
    seen = " ".join(row[3] for row in ROW.findall(PAGE.read_text()))
    assert not re.search(r"/(tmp|home|root|usr|var|work)\b|\d\.\d+ ?(m?s|seconds)", seen)
