"""Each check fails for a provider that is wrong in one thing, passes for a good one, and says where it is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from strongroom.host.conformance import CHECKS, Outcome, Result, Subject
from strongroom.host.conformance.runner import run_check
from tests.host.conformance.providers import bad
from tests.host.conformance.providers.good import Good
from tests.host.conformance.providers.old import Old
from tests.host.conformance.providers.other import GroupsApart, RepeatsTheQuery, ShowsOnce

WRONG: dict[str, list[type]] = {
    "order": [bad.OnePromptOnly, bad.NumbersForText, bad.RaisesForBackups, bad.ReturnsAPromise],
    "concurrent-prefetch": [bad.OneAtATime, bad.DropsWhileAsked],
    "any-thread": [bad.BoundToAThread, bad.LocalToAThread],
    "plain-functions": [bad.KeepsAsynchronously, bad.EndsLazily],
    "newer-arguments": [bad.KnownArgumentsOnly],
    "failed-start": [bad.OnceBroken],
    "no-network": [
        *(bad.CallsHome, bad.LooksUpNames, bad.CallsHomeOnAThread, bad.StartsAProcess, bad.CallsHomeOnceStarted)
    ],
    "tools-before-start": [bad.LateTools, bad.LosesTools],
    "tool-schemas": [bad.SameToolTwice, bad.TakesTheMemoryTool, bad.ShapelessTool, bad.RequiresAWord],
    "tool-answers": [bad.AnswersInWords, bad.RaisesForArguments],
    "two-users": [
        bad.OneForAll,
        bad.TellsInThePrompt,
        bad.CachesBySession,
        bad.SharesAtTheEnd,
        bad.KnowsPeopleByName,
        bad.KnowsChatsByName,
        bad.OneForAllShownOnce,
        bad.OpensPrivateMemoryInGroups,
        bad.CarriesOutOfGroups,
        bad.SearchesEverybody,
        bad.SearchesEverybodyUnasked,
    ],
    "ten-at-once": [bad.LastOneWins, bad.MixesAtOnce],
    "alike-keys": [bad.DropsSigns, bad.CutsKeys, bad.FoldsCase, bad.DropsSignsOfUsers, bad.DropsSignsShownOnce],
    "own-marks": [bad.FencesItself],
    "forged-marks": [bad.PromptsWhatWasSaid, bad.PromptsTheEndOfWhatWasSaid],
    "api-content": [
        bad.KeepsWhatWasSent,
        bad.RecallsWhatWasSent,
        bad.RecallsWhatWasSentIfAsked,
        bad.CompressesWhatWasSent,
    ],
    "other-scripts": [bad.WholeWords, bad.Trigrams],
    "hostile-text": [bad.RawText, bad.StopsAfterEmpty],
    "end-while-keeping": [bad.EndsTooEarly],
    "several-ends": [bad.KeepsAllAtEachEnd, bad.DeafAfterTheEnd, bad.DoublesInSearch],
    "compression": [bad.DeafAfterTheEnd],
    "new-conversation": [bad.ResetsEverything],
    "rewound": [bad.RefusesTheSameId],
    "no-orphans": [bad.RecordsEachStart, bad.FileForEachStart, bad.CountsStarts],
    "killed": [bad.FlushesAtShutdown, bad.HonoursDeadLocks],
    "killed-with-host": [bad.FlushesAtTheEnd],
    "same-turn-twice": [bad.KeepsDoubles],
    "equal-turns": [bad.TakesWordsForTheTurn],
    "forgotten": [
        bad.ForgetsUntilTheNextStart,
        bad.CopiesElsewhere,
        bad.NeverRemoves,
        bad.NeverRemovesShownOnce,
        bad.HidesWhatIsRemoved,
        bad.RemovesEverything,
        bad.HidesInBase64,
    ],
    "replaced": [
        bad.ForgetsUntilTheNextStart,
        bad.CopiesElsewhere,
        bad.NeverRemoves,
        bad.NeverRemovesShownOnce,
        bad.HidesWhatIsRemoved,
        bad.RemovesToReplace,
    ],
    "no-shutdown": [bad.ThreadForEach, bad.FileForEach, bad.ProcessForEach, bad.StaysInAList],
    "in-time": [bad.SlowToBegin, bad.StuckInASwitch, bad.SlowSignature, bad.LosesLaterTurns],
    "long-text": [bad.SlowForLongTexts],
    "signature-stable": [
        bad.NewEachTime,
        bad.NewForEach,
        bad.FollowsTheTurns,
        bad.NestedSignature,
        bad.SignatureWithoutPrefix,
        bad.SignatureNotJson,
    ],
    "signature-secret": [bad.ShowsTheToken, bad.FollowsTheToken, bad.ShowsThePartOfAToken],
    "signature-quiet": [bad.ReadsEachTime],
}
"""For each check, the providers that must fail it."""
WHOLE = {"two-users", "forgotten"}
"""Checks whose providers are all tried in every run: memory that reaches others, or stays. Of the rest, the first."""
PAIRS = [
    pytest.param(check, one, marks=() if one is many[0] or check in WHOLE else pytest.mark.long)
    for check, many in WRONG.items()
    for one in many
]

SILENT = {
    "failed-start": "initialize did not fail where its home cannot be used",
    "tools-before-start": "it has no tools",
    "tool-schemas": "it has no tools",
    "tool-answers": "it has no tools",
    "killed": "it keeps no turns: nothing that sync_turn told came back",
    "killed-with-host": "it keeps no turns: nothing that sync_turn told came back",
    "equal-turns": "it keeps no turns: nothing that sync_turn told came back",
    "same-turn-twice": "it keeps no turns: nothing that sync_turn told came back",
    "forgotten": "it does not mirror what is written to the built-in memory",
    "replaced": "it does not mirror what is written to the built-in memory",
    "signature-stable": "it has no signature",
    "signature-secret": "it has no signature",
    "signature-quiet": "it has no signature",
}
"""What a check says of a provider that does nothing, where it is not that nothing came back."""
ABOUT_CALLS = {"order", "concurrent-prefetch", "any-thread", "newer-arguments", "no-network", "no-orphans"}
ABOUT_CALLS |= {"plain-functions", "no-shutdown", "in-time", "long-text"}
"""Checks that a provider which does nothing passes: they are about calls, not about memory."""


RECALLING = [
    pytest.param(check, marks=pytest.mark.long if check in ABOUT_CALLS or check.startswith(("tool", "sign")) else ())
    for check in CHECKS
]
"""Checks in which a provider that shows nothing twice could stumble; the others only where there is time."""


def run(check: str, provider: type, patience: float = 0.6) -> Result:
    said = f"{provider.__module__}:{provider.__qualname__}"
    return run_check(Subject(said, patience=patience), CHECKS[check])


@pytest.mark.requirement("conformance-every-check-can-fail")
def test_every_check_has_a_provider_that_fails_it() -> None:
    assert set(WRONG) == set(CHECKS)
    assert all(WRONG.values())


@pytest.mark.requirement("conformance-every-check-can-fail")
@pytest.mark.parametrize(("check", "provider"), PAIRS)
def test_provider_that_is_wrong_in_one_thing_fails_that_check(check: str, provider: type) -> None:
    result = run(check, provider)
    assert result.outcome is Outcome.FAIL, result.reason
    assert result.reason
    assert "could not go on" not in result.reason


@pytest.mark.requirement("conformance-every-check-can-fail")
@pytest.mark.parametrize("check", CHECKS)
def test_good_provider_passes_every_check(check: str) -> None:
    result = run(check, Good, patience=10)
    assert (result.outcome, bool(result.reason)) == (Outcome.PASS, True), result.reason


@pytest.mark.requirement("conformance-other-ways")
@pytest.mark.parametrize("check", RECALLING)
def test_provider_that_repeats_nothing_in_a_conversation_passes_every_check(check: str) -> None:
    result = run(check, ShowsOnce, patience=10)
    assert (result.outcome, bool(result.reason)) == (Outcome.PASS, True), result.reason


@pytest.mark.requirement("conformance-other-ways")
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(one, marks=() if one in ("api-content", "two-users", "forgotten") else pytest.mark.long)
        for one in CHECKS
    ],
)
def test_provider_whose_search_repeats_the_query_passes_every_check(check: str) -> None:
    result = run(check, RepeatsTheQuery, patience=10)
    assert (result.outcome, bool(result.reason)) == (Outcome.PASS, True), result.reason


@pytest.mark.requirement("conformance-other-ways")
def test_provider_whose_groups_have_a_memory_of_their_own_passes_and_the_report_says_so() -> None:
    result = run("two-users", GroupsApart, patience=10)
    assert (result.outcome, "a group has a memory of its own" in result.reason) == (Outcome.PASS, True), result.reason


@pytest.mark.parametrize("check", CHECKS)
def test_check_of_a_provider_that_does_nothing_says_so_or_passes_for_its_calls(check: str) -> None:
    result = run(check, bad.KeepsNothing, patience=0.1)
    if check in ABOUT_CALLS:
        assert result.outcome is Outcome.PASS, result.reason
    else:
        reasons = {"nothing that was told came back", SILENT.get(check)}
        assert (result.outcome, result.reason in reasons) == (Outcome.NOT_APPLICABLE, True), result.reason


@pytest.mark.parametrize("check", ["order", "any-thread", "two-users", "hostile-text", "killed", "compression"])
def test_provider_with_the_first_interfaces_signatures_passes(check: str) -> None:
    assert run(check, Old, patience=10).outcome is Outcome.PASS


@pytest.mark.parametrize("check", ["two-users", "ten-at-once", "other-scripts", "new-conversation"])
def test_provider_that_keeps_only_memory_writes_is_told_by_those(check: str) -> None:
    result = run(check, bad.WritesOnly, patience=10)
    assert result.outcome is Outcome.PASS, result.reason


def test_tool_that_spells_other_scripts_in_ascii_is_read_as_what_it_says() -> None:
    result = run("other-scripts", bad.Escapes, patience=10)
    assert result.outcome is Outcome.PASS, result.reason


def test_provider_that_takes_no_turn_id_cannot_be_asked_to_tell_equal_turns_apart() -> None:
    result = run("equal-turns", Old)
    assert (result.outcome, "turn_id" in result.reason) == (Outcome.NOT_APPLICABLE, True)


def test_error_of_a_hook_is_named_with_the_line_of_the_provider_and_without_its_words() -> None:
    result = run("order", bad.OnePromptOnly)
    line = 1 + Path(bad.__file__).read_text().splitlines().index(
        '            raise RuntimeError("the prompt was built already")'
    )
    assert result.reason == f"system_prompt_block raised RuntimeError at bad.py:{line}"


@pytest.mark.parametrize("check", ["forgotten", "two-users", "killed", "api-content", "compression"])
def test_check_does_not_wait_if_it_is_known_that_nothing_comes_back(check: str) -> None:
    patient = Subject(f"{bad.__name__}:KeepsNothing", patience=500, ways=())
    result = run_check(patient, CHECKS[check])
    assert result.outcome is Outcome.NOT_APPLICABLE, result.reason


def test_provider_that_keeps_only_memory_writes_is_not_asked_for_turns() -> None:
    result = run("killed", bad.WritesOnly)
    assert (result.outcome, result.reason) == (Outcome.NOT_APPLICABLE, SILENT["killed"])


def test_provider_that_loses_only_what_is_not_flushed_is_saved_by_the_hosts_journal() -> None:
    assert run("killed-with-host", bad.FlushesAtShutdown).outcome is Outcome.PASS
