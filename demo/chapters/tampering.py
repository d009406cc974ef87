"""The steps of an attacker with the vault's files: what lies there in clear, and what becomes of changing them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from demo import talk
from demo.chapters.recall import PROFILES
from demo.report import Skipped
from demo.stage import Stage
from strongroom.cli.demo_stage import Done, expect, refused
from strongroom.cli.errors import BY_FAMILY

_WORDS = ("Chengdu", "peanuts", "weekend", "going", "landlord")


def nothing_lies_in_clear(stage: Stage) -> None:
    texts = [talk.TRIP, talk.ALLERGY, talk.QUESTION, *PROFILES.values(), *_WORDS]
    expect("none of the texts in the vault's files", 0, stage.attack("find_words", stage.vault, *texts))
    seen = stage.attack("find_words", stage.vault, "vault/format", f"lines/{stage.trip}")
    expect("the search to find what is there", 2, seen)


def the_clean_log_verifies(stage: Stage) -> None:
    found = stage.answer("audit", "verify")
    expect("no finding", (True, []), (found["ok"], found["findings"]))


def a_moved_line_does_not_open(stage: Stage) -> None:
    """The allergy is moved to where the travel cap may read; its own place is empty, which the log knows."""
    vault = stage.vault
    home = stage.attack("where", vault, stage.allergy)
    cap = ("--cap-file", stage.file("travel.cap"))
    stage.attack("move", vault, stage.allergy, stage.trip)
    try:
        attempt, found = stage.at_once(("get", "--id", stage.allergy, *cap), ("audit", "verify"))
    finally:
        stage.attack("move_back", vault, stage.allergy, home)
    refused("tampered", attempt)
    expect("verify to name both places", {"object_missing", "object_extra"}, _flaws(found))
    hits = stage.answer("get", "--id", stage.allergy)["hits"]
    expect("all well once it is back", [talk.ALLERGY], [hit["text"] for hit in hits])


def swapped_lines_do_not_open(stage: Stage) -> None:
    vault = stage.vault
    stage.attack("swap", vault, stage.trip, stage.allergy)
    try:
        attempt, found = stage.at_once(("get", "peanuts", "-n", "personal"), ("audit", "verify"))
    finally:
        stage.attack("swap", vault, stage.trip, stage.allergy)
    refused("tampered", attempt)
    expect("verify to name the altered objects", {"object_altered"}, _flaws(found))


def an_edited_log_entry_is_found(stage: Stage) -> None:
    """A denial is edited into an admission."""
    vault, number = stage.vault, str(stage.denied_entry)
    stage.attack("rewrite_entry", vault, number, '"deny"', '"allow"')
    try:
        found = _verify(stage)
    finally:
        stage.attack("rewrite_entry", vault, number, '"allow"', '"deny"')
    named = [(one["flaw"], one["entry"]) for one in found.json["findings"]]
    expect("verify to name the entry, exit 6", (6, [("entry_edited", stage.denied_entry)]), (found.code, named))
    the_clean_log_verifies(stage)


def an_older_copy_is_found(stage: Stage) -> None:
    """The files are put back as they were before something was recorded and seen."""
    vault, older, newer = stage.vault, stage.file("older"), stage.file("newer")
    stage.attack("copy", vault, older)
    stage.answer("get", "anything new?")
    the_clean_log_verifies(stage)
    stage.attack("copy", vault, newer)
    stage.attack("copy", older, vault)
    try:
        doctor, found = stage.at_once(("doctor",), ("audit", "verify"))
    finally:
        stage.attack("copy", newer, vault)
    wrong = [check["name"] for check in doctor.json["checks"] if check["state"] == "fail"]
    expect("doctor to name the log, exit 6", (6, ["log"]), (doctor.code, wrong))
    expect("verify to name the roll-back", {"log_rolled_back"}, _flaws(found))


def without_a_log_nothing_is_answered(stage: Stage) -> None:
    """The disk turns read-only: a read that cannot be recorded is refused."""
    files = Path(stage.vault)
    with _read_only(files):
        if _can_write(files):
            raise Skipped("modes_do_not_bind")
        attempt = stage.strongroom("get", talk.QUESTION)
    expect("nothing to be answered", (BY_FAMILY["unavailable"], ""), (attempt.code, attempt.out))
    stage.answer("get", talk.QUESTION)


def _verify(stage: Stage) -> Done:
    return stage.strongroom("audit", "verify")


def _flaws(found: Done) -> set[str]:
    expect("verify to end with exit 6", 6, found.code)
    return {one["flaw"] for one in found.json["findings"]}


@contextmanager
def _read_only(directory: Path) -> Iterator[None]:
    paths = [*directory.iterdir(), directory]
    modes = {path: path.stat().st_mode for path in paths}
    try:
        for path in paths:
            path.chmod(0o500 if path.is_dir() else 0o400)
        yield
    finally:
        for path, mode in reversed(modes.items()):
            path.chmod(mode)


def _can_write(directory: Path) -> bool:
    return os.access(directory, os.W_OK) or os.access(directory / "vault.db", os.W_OK)
