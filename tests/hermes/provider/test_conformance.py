"""The conformance kit on our own provider: embedded, with every tool, and over HTTP. What does not apply is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.make_conformance_report import ABOUT_TOOLS as REPORTED_WITH_TOOLS
from scripts.make_conformance_report import OWN_PAGE, Own, own_page

from strongroom.host.conformance import CHECKS, Outcome, Report, Result, Subject
from strongroom.host.conformance.check_stage import BICYCLE, LOCKER
from strongroom.host.conformance.provider_files import written
from strongroom.host.conformance.runner import probe, run_check
from tests.hermes.provider.conformance import homes

NO_TOOLS = (Outcome.NOT_APPLICABLE, "it has no tools")
OF_TOOLS = {"tools-before-start": NO_TOOLS, "tool-schemas": NO_TOOLS, "tool-answers": NO_TOOLS}
"""What the kit cannot say of a provider whose policy gives the model no tools, which is the default."""
NOT_APPLICABLE = {
    **OF_TOOLS,
    "equal-turns": (
        Outcome.NOT_APPLICABLE,
        "its files are not to be read, and it recalls equal lines once: nobody can count them",
    ),
}
"""All that the kit cannot say of it. That equal turns are two lines is tested in test_turns.py."""
ABOUT_TOOLS = (*OF_TOOLS, "two-users", "ten-at-once", "forgotten", "replaced", "no-network", "signature-stable")
"""Checks that see more where the model has tools: the tools themselves, and those that ask by them too."""


@pytest.fixture(scope="module")
def embedded() -> Subject:
    return probe(homes.EMBEDDED)


@pytest.fixture(scope="module")
def server_place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def served(server_place: Path) -> Iterator[Subject]:
    with homes.serving(server_place) as subject:
        yield probe(subject)


def expect(check: str, result: Result) -> None:
    """A pass with a reason, or exactly the reason that is named for this check."""
    wanted = NOT_APPLICABLE.get(check, (Outcome.PASS, result.reason))
    assert (result.outcome, result.reason) == wanted, result.reason
    assert result.reason


@pytest.mark.requirement("provider-conformance")
def test_checks_that_do_not_apply_are_checks_of_the_kit() -> None:
    assert set(NOT_APPLICABLE) <= set(CHECKS)
    assert set(ABOUT_TOOLS) <= set(CHECKS)


@pytest.mark.requirement("provider-conformance")
def test_turns_and_memory_writes_both_come_back_so_that_every_check_tests_something(
    embedded: Subject, served: Subject
) -> None:
    assert embedded.ways == served.ways == ("sync_turn", "on_memory_write")


@pytest.mark.long  # `make check` runs each of them too, and compares what comes of it with the page
@pytest.mark.requirement("provider-conformance")
@pytest.mark.parametrize("check", CHECKS)
def test_provider_passes_each_check_with_the_vault_embedded(embedded: Subject, check: str) -> None:
    expect(check, run_check(embedded, CHECKS[check]))


@pytest.mark.long  # `make check` runs each of them too, and compares what comes of it with the page
@pytest.mark.requirement("provider-conformance")
@pytest.mark.parametrize("check", CHECKS)
def test_provider_passes_each_check_over_http(served: Subject, check: str) -> None:
    expect(check, run_check(served, CHECKS[check]))


@pytest.mark.requirement("provider-conformance")
@pytest.mark.parametrize("check", ABOUT_TOOLS)
def test_checks_that_see_tools_pass_and_all_apply_with_every_tool(check: str) -> None:
    result = run_check(homes.WITH_TOOLS, CHECKS[check])
    assert result.outcome is Outcome.PASS, result.reason


@pytest.mark.requirement("provider-conformance")
def test_served_vault_was_asked_and_no_file_of_it_holds_a_line_in_clear(
    served: Subject, server_place: Path, tmp_path: Path
) -> None:
    """The kit looks into the files of a check's own home. Those of the server are looked at here."""
    assert run_check(served, CHECKS["compression"], keep=tmp_path).outcome is Outcome.PASS
    files = [path.read_bytes() for path in server_place.rglob("*") if path.is_file()]
    assert sum(len(data) for data in files) > 10_000
    forms = [form for line in (LOCKER, BICYCLE) for form in written(line.answer)]
    assert not any(form in data for data in files for form in forms)
    homes_files = [path.read_bytes() for path in tmp_path.rglob("person/**/*") if path.is_file()]
    assert homes_files
    assert not any(form in data for data in homes_files for form in forms)


@pytest.mark.requirement("provider-conformance")
def test_provider_whose_owner_switched_keeping_off_does_not_pass_for_one_that_keeps(embedded: Subject) -> None:
    result = run_check(Subject(f"{homes.__name__}:keeps_nothing", ways=embedded.ways, patience=0.1), CHECKS["rewound"])
    assert result.outcome is Outcome.FAIL


# The published page.

BOTH = re.compile(r"^\| `([a-z-]+)` \| (pass|FAIL|n/a) \| (pass|FAIL|n/a) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ONE = re.compile(r"^\| `([a-z-]+)` \| (pass|FAIL|n/a) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
OUTCOMES = {"pass": Outcome.PASS, "FAIL": Outcome.FAIL, "n/a": Outcome.NOT_APPLICABLE}


@pytest.mark.requirement("provider-conformance")
def test_page_has_every_check_for_both_ways_and_only_the_named_ones_do_not_apply() -> None:
    rows = BOTH.findall(OWN_PAGE.read_text())
    assert [row[0] for row in rows] == list(CHECKS)
    for name, embedded, served, _, seen in rows:
        assert (embedded, served) == (("n/a", "n/a") if name in NOT_APPLICABLE else ("pass", "pass"))
        assert name not in NOT_APPLICABLE or seen == NOT_APPLICABLE[name][1]
    assert {row[:2] for row in ONE.findall(OWN_PAGE.read_text())} == {(name, "pass") for name in REPORTED_WITH_TOOLS}


@pytest.mark.requirement("provider-conformance")
def test_page_is_what_the_script_writes_and_holds_no_path_and_no_measured_time() -> None:
    text = OWN_PAGE.read_text()
    both = BOTH.findall(text)
    embedded = tuple(Result(CHECKS[row[0]], OUTCOMES[row[1]], row[4]) for row in both)
    served = tuple(Result(CHECKS[row[0]], OUTCOMES[row[2]], row[4]) for row in both)
    tools = tuple(Result(CHECKS[row[0]], OUTCOMES[row[1]], row[3]) for row in ONE.findall(text))
    names = ("strongroom, embedded", "strongroom, over HTTP", "strongroom, embedded, with tools")
    own = Own(*map(Report, names, (embedded, served, tools)))
    assert text == own_page(own), "run scripts/make_conformance_report.py"
    assert not re.search(r"/(tmp|home|root|usr|var)\b|\d\.\d+ ?(m?s|seconds)", text.partition("##")[2])
