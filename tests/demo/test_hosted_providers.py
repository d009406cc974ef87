"""The demonstration's steps with memory providers: each fails when what it claims does not hold."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from demo.chapters import hosted_providers
from demo.partner import Partner
from demo.report import performed
from demo.stage import Stage, opened
from demo.steps import STEPS
from strongroom import fence
from strongroom.cli.demo_stage import FAIL, OK, Done, StepOutcome, Unexpected
from strongroom.host.conformance import CHECKS
from strongroom.host.plugins import hermes_stubs

HOSTED = {step.name: step for step in STEPS if step.attempt.__module__ == hosted_providers.__name__}
DIARY = Path(hosted_providers.__file__).parents[1] / "diary"
MARK = "0123456789abcdef" * 2
Change = Callable[[Any], Any]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with opened(scratch, date(2026, 1, 1)) as made:
        yield made


def outcome(place: Stage, name: str) -> StepOutcome:
    (found,) = performed([HOSTED[name]], place)
    return found


def spoiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *changes: tuple[str, str]) -> None:
    """Let the story have a provider in which something was changed."""
    copy = tmp_path / "spoiled"
    shutil.copytree(DIARY, copy)
    text = (copy / "__init__.py").read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (copy / "__init__.py").write_text(text)
    monkeypatch.setattr(hosted_providers, "_DIARY", copy)


# What breaks the provider, or the host, breaks the steps that are about it.

FORGETS = ('self._book.add({"session"', 'dict({"session"')
TWICE = ('return "\\n".join(f"- ', 'return 2 * "\\n".join(f"\\n- ')
ONE_BOOK = ("return f\"user {about.get('platform', '')} {self._aliases().get(user, user)}\"", 'return "everybody"')
NO_SIGNATURE = ('{"diary.user_peer_aliases": sorted(self._aliases().items())}', "{}")
NERVOUS = ('{"diary.user_peer_aliases": sorted(self._aliases().items())}', "self._settings.read()")
AT_BUILD = ('self._book = Book(home / "diary", self._whose(kwargs))', 'raise RuntimeError("no")')
AT_IMPORT = ("import fcntl\n", "import fcntl\nimport no_such_package\n")


@pytest.mark.requirement("demo-hosted", "demo-strict")
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("hosted_recall", FORGETS, "it in the fence"),
        ("hosted_recall", TWICE, "it nowhere else"),
        ("hosted_recall", AT_BUILD, "it in the fence"),
        ("hosted_users", ONE_BOOK, "nothing of the other for alice"),
        ("hosted_users", FORGETS, "their own line and note for alice"),
        ("hosted_kill", FORGETS, "it in the fence"),
        ("hosted_moment", FORGETS, "what was said in the conversation kept"),
        ("hosted_rebuild", NO_SIGNATURE, "a new one after an edit of an identity key"),
        ("hosted_rebuild", NERVOUS, "the same after an unrelated edit, which it follows"),
        ("hosted_broken", AT_IMPORT, "one available, one not"),
    ],
)
def test_step_fails_with_a_provider_that_does_not_do_what_it_shows(
    place: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, change: tuple[str, str], expected: str
) -> None:
    spoiled(monkeypatch, tmp_path, change)
    found = outcome(place, name)
    assert (found.state, found.expected) == (FAIL, expected), found.came


@pytest.mark.requirement("demo-hosted", "demo-strict", "host-journal-sealed")
@pytest.mark.parametrize(
    ("leave", "expected"),
    [
        (
            lambda home: (home / "memory-journal" / "notes").write_text("to Chengdu"),
            "no file with a word of it in clear",
        ),
        (lambda home: shutil.rmtree(home / "memory-journal"), "one journal with something in it"),
    ],
)
def test_turn_in_clear_and_a_turn_in_no_journal_fail_the_step(
    place: Stage, monkeypatch: pytest.MonkeyPatch, leave: Callable[[Path], object], expected: str
) -> None:
    end = Partner.end

    def end_and_leave(partner: Partner, *how: Any) -> int:
        code = end(partner, *how)
        if how:  # the step's own kill, not the one of the stage's end
            leave(place.scratch / "homes" / "kill")
        return code

    monkeypatch.setattr(Partner, "end", end_and_leave)
    found = outcome(place, "hosted_kill")
    assert (found.state, found.expected) == (FAIL, expected), found.came


@pytest.mark.requirement("demo-hosted", "demo-strict")
def test_turn_that_the_next_host_does_not_hand_over_fails_the_step(
    place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = hosted_providers.run

    def run_without_journals(stage: Stage, verb: str, home: Path, told: object) -> Any:
        shutil.rmtree(home / "memory-journal")
        return run(stage, verb, home, told)

    monkeypatch.setattr(hosted_providers, "run", run_without_journals)
    found = outcome(place, "hosted_kill")
    assert (found.state, found.expected) == (FAIL, "it in the fence"), found.came


# What a runtime says is believed only if it is exactly that.


def fenced(*lines: str) -> str:
    inside = "\n".join(lines)
    return f"{fence.NOTICE}\n<<<strongroom-recall {MARK}>>>\n{inside}\n<<<end-strongroom-recall {MARK}>>>"


@pytest.mark.requirement("demo-hosted", "host-fenced-once")
@pytest.mark.parametrize(
    "shown",
    [
        "",
        "- the heron",
        fenced("- something else"),
        fenced("the heron"),
        fenced("- the heron") + "\n- the heron",
        fenced("- the heron", "- the heron"),
        fenced("- the heron") + fenced("- something else"),
        fenced("- the heron").replace(f"end-strongroom-recall {MARK}", f"end-strongroom-recall {'0' * 32}"),
    ],
)
def test_text_counts_as_recalled_only_once_and_in_one_fence(shown: str) -> None:
    hosted_providers.recalls_once(fenced("- the heron", "- something else") + "\n\nquestion", "the heron")
    with pytest.raises(Unexpected):
        hosted_providers.recalls_once(shown, "the heron")


def answering(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """Let a runtime do what it does, and say something else."""
    run = hosted_providers.run
    monkeypatch.setattr(hosted_providers, "run", lambda *given: change(run(*given)))


def with_interface(came: Any) -> Any:
    return came | {"interface": "somewhere"}


def with_a_session(came: Any) -> Any:
    return came | {"for moments": 1}


def without_a_conversation(came: Any) -> Any:
    return came | {"for a conversation": 0}


def without_a_note(came: Any) -> Any:
    return came | {"shown": ""}


def without_a_turn(came: Any) -> Any:
    return came | {"raises": came["raises"] | {"shown": came["raises"]["shown"][1:]}}


def without_the_built_in_memory(came: Any) -> Any:
    return came | {"hangs": came["hangs"] | {"noted": False}}


def without_a_recall_to_lose(came: Any) -> Any:
    return came | {"well": came["raises"]}


def with_silence_about_a_tool(came: Any) -> Any:
    return came | {"hangs": came["hangs"] | {"looked up": ["found"]}}


@pytest.mark.requirement("demo-hosted", "demo-strict")
@pytest.mark.parametrize(
    ("name", "change", "expected"),
    [
        ("hosted_recall", with_interface, "the host's own interface"),
        ("hosted_moment", with_a_session, "no object of the provider for them, one for a conversation"),
        ("hosted_moment", without_a_conversation, "no object of the provider for them, one for a conversation"),
        ("hosted_moment", without_a_note, "the next conversation to see it"),
        ("hosted_broken", without_a_turn, "its turns without the recall, if it raises"),
        ("hosted_broken", without_the_built_in_memory, "the note taken"),
        ("hosted_broken", without_a_recall_to_lose, "a recall in each turn of a good one"),
        ("hosted_broken", with_silence_about_a_tool, "the model told that its tool did not work"),
    ],
)
def test_step_fails_with_a_runtime_that_says_otherwise(
    place: Stage, monkeypatch: pytest.MonkeyPatch, name: str, change: Change, expected: str
) -> None:
    monkeypatch.setattr(hermes_stubs, "elsewhere", lambda _: None)
    answering(monkeypatch, change)
    found = outcome(place, name)
    assert (found.state, found.expected) == (FAIL, expected), found.came


@pytest.mark.requirement("demo-hosted", "demo-strict", "context-flush-reaches-builtin")
def test_flush_that_does_not_reach_the_file_fails_the_step(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(came: Any) -> Any:
        (place.scratch / "homes" / "moment" / "memories" / "MEMORY.md").write_text("")
        return came

    answering(monkeypatch, empty)
    found = outcome(place, "hosted_moment")
    assert (found.state, found.expected) == (FAIL, "the flush in MEMORY.md"), found.came


# The kit.


def report_of(outcomes: dict[str, str], code: int = 0) -> Done:
    checks = [{"id": name, "outcome": state, "reason": "seen"} for name, state in outcomes.items()]
    return Done(code, json.dumps({"checks": checks}), "")


ALL = dict.fromkeys(CHECKS, "pass")


@pytest.mark.requirement("demo-hosted", "demo-strict")
@pytest.mark.parametrize(
    ("reports", "expected"),
    [
        ([report_of(ALL | {"two-users": "fail"}, 7)], "no check to fail"),
        ([report_of({name: "pass" for name in ALL if name != "killed"})], "every check made"),
        ([report_of(dict.fromkeys(ALL, "not_applicable"))], "more to pass than not to apply"),
        ([report_of(ALL), Done(2, "", "no such option")], "the kit to come to its end"),
        ([Done(0, "", "")], "a JSON document"),
    ],
)
def test_kit_counts_as_content_only_if_it_made_every_check_and_none_failed(
    place: Stage, monkeypatch: pytest.MonkeyPatch, reports: list[Done], expected: str
) -> None:
    monkeypatch.setattr(Stage, "at_once", lambda *_: reports)
    found = outcome(place, "hosted_check")
    assert (found.state, found.expected) == (FAIL, expected), found.came


@pytest.mark.requirement("demo-hosted")
def test_kit_is_content_with_a_good_report_and_the_step_shows_the_counts(
    place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "at_once", lambda *_: [report_of(ALL | {"forgotten": "not_applicable"})])
    found = outcome(place, "hosted_check")
    assert (found.state, found.seen) == (
        OK,
        (f"{len(CHECKS)} checks: {len(CHECKS) - 1} passed, 0 failed, 1 not applicable",),
    )


# The chapter.


@pytest.mark.requirement("demo-hosted")
def test_hosting_is_shown_in_seven_steps_that_need_no_vault() -> None:
    assert list(HOSTED) == [
        "hosted_recall",
        "hosted_users",
        "hosted_kill",
        "hosted_moment",
        "hosted_rebuild",
        "hosted_broken",
        "hosted_check",
    ]


@pytest.mark.requirement("demo-hosted")
@pytest.mark.parametrize("name", [name for name in HOSTED if name != "hosted_check"])
def test_step_is_ok_in_a_place_without_a_vault(place: Stage, name: str) -> None:
    found = outcome(place, name)
    assert found.state == OK, (found.expected, found.came)
    assert not Path(place.vault).exists()


@pytest.mark.requirement("demo-apart", "demo-hosted")
def test_runtime_that_waits_to_be_killed_ends_with_the_stage(tmp_path: Path) -> None:
    with opened(tmp_path, date(2026, 1, 1)) as place:
        home = hosted_providers.home_of(place, "left")
        process = hosted_providers.runtime(place, "hand_over", home)
        assert process.ask(json.dumps([hosted_providers.one("alice", "monday", "hello")])) == "returned"
        os.kill(process.process.pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(process.process.pid, 0)
