"""demo: show recall, denials, tampering that is found, and forgetting, in numbered steps.

If a step fails, the steps after it are not run and count as failed. The long demonstration, with servers, a fleet on
S3, hosted providers and Hermes, needs a checkout: `make demo`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import apsw
import click
import msgspec

from strongroom.cli import output
from strongroom.cli.app import command
from strongroom.cli.demo_stage import (
    FAIL,
    OK,
    Place,
    StepOutcome,
    Unexpected,
    answered,
    expect,
    refused,
    temporary_directory,
)
from strongroom.cli.error_output import BUG, CommandFailure
from strongroom.cli.run_context import Run, pass_run

TRIP = "trip to Chengdu, May 25-29"
ALLERGY = "allergic to peanuts"
QUESTION = "where am I going this weekend?"
NOW = datetime(2027, 5, 24, 9, tzinfo=UTC)
"""The time of the demonstration: the Monday of the week in which the trip begins."""
_SAID, _SAID_LATER = "2027-03-25", "2027-05-03"
_ORDINARY = (
    "I was going to paint the fence last weekend, but my sister needed me at the lake.",
    "Nobody is going to move the piano on a weekend, least of all the landlord.",
    "Is Priya really going to sell the bicycles in a single weekend?",
    "Going to the market with uncle Ted every weekend is too much for me.",
    "The band keeps going on about the castle; a quiet weekend would do me good.",
    "I am not going to sort the bookshelf on yet another weekend.",
)
_PIECE = 32
"""Length in bytes of the pieces that a search looks for. If a file has one piece of an encrypted line, the line is
there.
"""
_ITS_END = "the step to finish"
_MARGIN = "        "
_COLOURS = {OK: "green", FAIL: "red"}


class Played(msgspec.Struct, frozen=True):
    """The result of the demonstration. `kept` is the directory with its files, if the files were kept."""

    ok: bool
    now: datetime
    steps: list[StepOutcome]
    summary: str
    kept: str | None


class Story(Place):
    """The state of the demonstration: the ids that its earlier steps have stored and found."""

    trip = ""
    allergy = ""
    denied_entry = -1

    def files(self) -> list[bytes]:
        """The contents of all files that an attacker with the vault's directory has."""
        return [path.read_bytes() for path in Path(self.vault).rglob("*") if path.is_file()]

    def database(self) -> closing[apsw.Connection]:
        """The vault's database, as an attacker without any key opens it."""
        return closing(apsw.Connection(f"{self.vault}/vault.db"))


class Step(NamedTuple):
    """A step: a sentence that must be true, and the function that tries it."""

    name: str
    sentence: str
    attempt: Callable[[Story], None]


# Remembering.


def _make_a_vault(story: Story) -> None:
    made = story.answer("init", story.vault)
    expect("keys beside the vault and not in it", story.scratch / "keys", Path(made["keys"]).parent)
    expect("a vault that doctor finds well", True, story.answer("doctor")["ok"])


def _store_lines(story: Story) -> None:
    about = ("--session", "one", "--time", _SAID)
    trip, allergy = story.at_once(
        ("put", TRIP, "--namespace", "travel", *about), ("put", ALLERGY, "--namespace", "personal", *about)
    )
    story.trip, story.allergy = (answered(done)["lines"][0]["id"] for done in (trip, allergy))
    story.answer("put", "--lines", "--namespace", "travel", "--time", _SAID_LATER, stdin="\n".join(_ORDINARY))


def _recall_the_trip(story: Story, cap: str = "") -> None:
    hits = story.answer("get", QUESTION, "--now", NOW.isoformat(), cap=cap)["hits"]
    expect(f"{TRIP!r} first", [TRIP], [hit["text"] for hit in hits][:1])


# Refusing.


def _narrow_the_cap(story: Story) -> None:
    hits = story.answer("get", "--id", story.allergy)["hits"]
    expect("the allergy for its owner", [ALLERGY], [hit["text"] for hit in hits])
    story.answer("cap", "attenuate", "--namespaces", "travel", "--ops", "get,list", "--out", story.file("travel.cap"))
    _recall_the_trip(story, cap="travel.cap")
    found = story.answer("get", "what am I allergic to? peanuts", "-k", "20", cap="travel.cap")["hits"]
    expect("nothing but travel", set(), {hit["namespace"] for hit in found} - {"travel"})


def _deny_what_it_does_not_cover(story: Story) -> None:
    attempts = story.at_once(
        ("get", "peanuts", "--namespace", "personal"),
        ("get", "--id", story.allergy, "--namespace", "personal"),
        ("list", "--namespace", "personal"),
        ("get", "peanuts", "--namespace", "no-such-namespace"),
        cap="travel.cap",
    )
    refused("cap_namespace_denied", *attempts)
    expect("the same words, whether or not it exists", 1, len({attempt.err for attempt in attempts}))
    refused("not_found", story.strongroom("get", "--id", story.allergy, cap="travel.cap"))


def _refuse_a_forged_cap(story: Story) -> None:
    head, mark, signature = Path(story.file("travel.cap")).read_text().rpartition(".")
    forged = Path(story.file("forged.cap"))
    forged.touch(mode=0o600)
    forged.write_text(f"{head}{mark}{'B' if signature[0] == 'A' else 'A'}{signature[1:]}")
    refused("cap_signature_invalid", story.strongroom("get", QUESTION, cap="forged.cap"))


def _refuse_a_revoked_cap(story: Story) -> None:
    minting = ("cap", "mint", "--ops", "get", "--namespaces", "travel", "--ttl", "10m")
    story.answer(*minting, "--out", story.file("helper.cap"))
    _recall_the_trip(story, cap="helper.cap")
    story.answer("cap", "revoke", cap="helper.cap")
    refused("cap_revoked", story.strongroom("get", QUESTION, cap="helper.cap"))


# Noticing.


def _find_no_plaintext(story: Story) -> None:
    words = [text.encode() for text in (TRIP, ALLERGY, "Chengdu", "peanuts", "weekend")]
    files = story.files()
    expect("none of the texts in the vault's files", [], [word for word in words if any(word in one for one in files)])
    expect("the search to find what is there", True, any(story.trip.encode() in one for one in files))


def _read_and_verify_the_log(story: Story) -> None:
    denied, verified = story.at_once(("audit", "show", "--denied"), ("audit", "verify"))
    found = [one for one in answered(denied)["entries"] if (one["op"], one["namespaces"]) == ("get", ["personal"])]
    expect("the denied reads of personal", ["cap_namespace_denied"] * 2, [one["reason"] for one in found])
    story.denied_entry = found[0]["index"]
    expect("no finding", (True, []), (answered(verified)["ok"], verified.json["findings"]))


def _find_swapped_lines(story: Story) -> None:
    _swap(story)
    try:
        attempt, verified = story.at_once(("get", "--id", story.allergy), ("audit", "verify"))
    finally:
        _swap(story)
    refused("tampered", attempt)
    flaws = {one["flaw"] for one in verified.json["findings"]}
    expect("verify to name the altered objects, exit 6", (6, {"object_altered"}), (verified.code, flaws))
    expect("all well once they are back", True, story.answer("audit", "verify")["ok"])


def _swap(story: Story) -> None:
    """Put each of two sealed lines in the place of the other."""
    with story.database() as database:
        trip, allergy = (_row(database, line) for line in (story.trip, story.allergy))
        for (name, _), (_, body) in ((trip, allergy), (allergy, trip)):
            database.execute("UPDATE objects SET body = ? WHERE name = ?", (body, name))


def _row(database: apsw.Connection, line: str) -> tuple[str, bytes]:
    """The name and the sealed content of a stored line."""
    query = "SELECT name, body FROM objects WHERE name GLOB ? AND length(body) > 0"
    ((name, body),) = database.execute(query, (f"*/lines/{line}",)).fetchall()
    return str(name), bytes(body)  # type: ignore[arg-type]


def _find_an_edited_log(story: Story) -> None:
    _rewrite(story, b'"deny"', b'"allow"')
    try:
        verified = story.strongroom("audit", "verify")
    finally:
        _rewrite(story, b'"allow"', b'"deny"')
    named = [(one["flaw"], one["entry"]) for one in verified.json["findings"]]
    expect("verify to name the entry, exit 6", (6, [("entry_edited", story.denied_entry)]), (verified.code, named))


def _rewrite(story: Story, old: bytes, new: bytes) -> None:
    with story.database() as database:
        query = "SELECT entry FROM entries WHERE number = ?"
        ((entry,),) = database.execute(query, (story.denied_entry,)).fetchall()
        edited = bytes(entry).replace(old, new)  # type: ignore[arg-type]
        expect("a word to change", True, edited != entry)
        database.execute("UPDATE entries SET entry = ? WHERE number = ?", (edited, story.denied_entry))


# Forgetting.


def _forget_the_trip(story: Story) -> None:
    with story.database() as database:
        _, body = _row(database, story.trip)
    pieces = [body[at : at + _PIECE] for at in range(0, len(body) - _PIECE + 1, _PIECE)]
    expect("the search to find the sealed line while it is there", True, _is_left(story, pieces))
    done = story.answer("forget", story.trip)
    expect("the line forgotten, no journal left", ([story.trip], True), (done["ids"], done["scrubbed"]))
    expect("no piece of it in any file", False, _is_left(story, pieces))


def _is_left(story: Story, pieces: list[bytes]) -> bool:
    return any(piece in one for one in story.files() for piece in pieces)


def _find_it_nowhere(story: Story) -> None:
    asked, by_id = story.at_once(("get", QUESTION, "--now", NOW.isoformat(), "-k", "20"), ("get", "--id", story.trip))
    expect("not recalled", False, TRIP in [hit["text"] for hit in answered(asked)["hits"]])
    refused("not_found", by_id)
    again = story.strongroom("put", TRIP, "--namespace", "travel", "--id", story.trip)
    expect("exit 5: its id is not used again", (5, True), (again.code, again.json["lines"][0]["forgotten"]))
    expect("no finding in the log", [], story.answer("audit", "verify")["findings"])


STEPS = (
    Step("init", "A vault is made; its keys lie outside it.", _make_a_vault),
    Step(
        "store",
        f'Session 1 stores "{TRIP}" in travel and "{ALLERGY}" in personal, before lines with "going" and "weekend".',
        _store_lines,
    ),
    Step(
        "recall",
        f'Session 2, a new process in the week of the trip, asks "{QUESTION}": the trip comes first.',
        _recall_the_trip,
    ),
    Step("narrowed", "A cap narrowed to travel recalls the trip, and nothing personal.", _narrow_the_cap),
    Step(
        "denied",
        "That cap is denied personal, by get, id and list, in the same words as a namespace that does not exist.",
        _deny_what_it_does_not_cover,
    ),
    Step("forged", "With one character of its signature changed, it is refused.", _refuse_a_forged_cap),
    Step("revoked", "A cap that was accepted is refused once it is revoked.", _refuse_a_revoked_cap),
    Step("no_plaintext", "No file of the vault holds any of it in clear.", _find_no_plaintext),
    Step("log_verifies", "The log lists the denied reads, and verifies.", _read_and_verify_the_log),
    Step("swapped_lines", "Two lines swapped on disk do not open; verify names them.", _find_swapped_lines),
    Step("edited_log", "A log entry edited from deny to allow is found by verify.", _find_an_edited_log),
    Step("forget", "The trip is forgotten: no file holds a piece of its ciphertext any more.", _forget_the_trip),
    Step(
        "forgotten", "It is gone for every process, and cannot be put back; the log still verifies.", _find_it_nowhere
    ),
)


@command(examples=["strongroom demo", "strongroom demo --json", "strongroom demo --keep"])
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
@click.option(
    "--keep", is_flag=True, help="Keep the vault, keys and caps of the demonstration, and print where they are."
)
@pass_run
def demo(run: Run, as_json: bool, keep: bool) -> None:
    """Show recall, denials, tampering that is found, and forgetting.

    The demonstration runs in new processes and a temporary directory, and touches no vault, key or setting of yours. A
    step that fails shows the expected and the actual result. The exit code is 0 if all steps are ok, and otherwise 1.
    In a checkout, `make demo` shows the rest: a server, MCP, a fleet on S3, hosted providers and Hermes.
    """
    run.json = run.json or as_json
    with temporary_directory(keep=keep) as scratch:
        try:
            found = list(_played(run, Story(scratch)))
        finally:
            if keep:
                run.note(f"the demonstration's files are kept in {scratch}")
    good = sum(one.state == OK for one in found)
    is_green = bool(found) and good == len(found)
    summary = f"{len(found)} steps: {good} ok" + ("; all is green" if is_green else "; NOT green")
    run.answer(Played(is_green, NOW, found, summary, str(scratch) if keep else None), summary)
    if not is_green:
        raise CommandFailure(BUG)


def _played(run: Run, story: Story) -> Iterator[StepOutcome]:
    failed = 0
    for number, step in enumerate(STEPS, start=1):
        outcome = StepOutcome(number, step.name, OK, step.sentence)
        try:
            if failed:
                raise Unexpected("the step to run", f"it was not run, because step {failed} failed")
            step.attempt(story)
        except Exception as error:  # noqa: BLE001 - any exception is a failed step
            failed = failed or number
            told = (
                (error.expected, error.came)
                if isinstance(error, Unexpected)
                else (_ITS_END, f"{type(error).__name__}: {error}")
            )
            outcome = StepOutcome(number, step.name, FAIL, step.sentence, expected=told[0], came=told[1])
        if not run.json:
            _show(outcome)
        yield outcome


def _show(outcome: StepOutcome) -> None:
    state = click.style(f"{outcome.state:4}", fg=_COLOURS[outcome.state])
    click.echo(f"{outcome.number:2}  {state}  {output.indent(outcome.sentence, _MARGIN)}")
    if outcome.state == FAIL:
        click.echo(f"{_MARGIN}expected: {output.indent(outcome.expected, _MARGIN)}")
        click.echo(f"{_MARGIN}came:     {output.indent(outcome.came, _MARGIN)}")
