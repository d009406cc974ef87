"""audit: who did what, whether the record holds, and proofs of it. The owner's work; no line is reached from here."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
import msgspec

import strongroom
from strongroom import settings
from strongroom.archive import write_whole
from strongroom.audit import Finding, Report
from strongroom.audit.unsettled import State, Unsettled
from strongroom.cli import leaving, output
from strongroom.cli.app import Group
from strongroom.cli.context import Run, owner_options, pass_run
from strongroom.cli.errors import BY_FAMILY, UNSEEN, Failure
from strongroom.cli.reading import Filter, Seen, matching, seen_row
from strongroom.cli.types import MOMENT, NAMES
from strongroom.errors import InvalidRequest, LineNotFound, Tampered
from strongroom.vault.auditing import BETWEEN
from strongroom.vault.opening import identify
from strongroom.vault.owner import Vault
from strongroom.wiring.steps import counted

audit = Group("audit", help="Who did what, whether the record holds, and proofs of it.")

HINTS = {
    "head_forged": "somebody without the vault's keys wrote to the log; keep the files as evidence, restore a backup",
    "log_rolled_back": "after a restore, say `strongroom audit accept-restore`; else somebody put back an older copy",
    "log_forked": "after a restore, say `strongroom audit accept-restore`; else the log was rewritten",
    "log_truncated": "the end of the log was cut off; keep the files, restore a backup",
    "log_edited": "the log was edited; keep the files, restore a backup",
    "entry_edited": "this entry was edited; keep the files, restore a backup",
    "entry_missing": "entries were removed; if you archived them, name the place with --archive",
    "entry_extra": "entries were added behind the log's end by somebody without the keys",
    "witness_invalid": "the file `checkpoint` beside the keys is damaged or of another vault; put back its backup",
    "archive_damaged": "name the right directory with --archive, or put back its backup",
    "object_missing": "something was deleted behind the vault's back; a backup may still have it",
    "object_extra": "something was added behind the vault's back; nothing reads it",
    "object_altered": "something was edited behind the vault's back; reading it is refused; a backup may have it",
    "object_revived": "something forgotten was put back behind the vault's back; forget it again after restoring",
    "log_missing": "all that this worker wrote down was removed from the bucket; look who can delete there",
    "log_unknown": "somebody without the vault's keys wrote a log into the bucket; nothing it says is believed",
    "roster_missing": "somebody removed it from the bucket; its log is still there, and is read",
    "roster_forged": "somebody without the vault's keys wrote to the roster; look who can write to the bucket",
}
"""What to do about each finding."""
_PRESENCE = {
    State.THERE: "there, and looked for from now on",
    State.PARTLY: "there in part",
    State.MISSING: "not there",
}


class Shown(msgspec.Struct, frozen=True):
    """A part of the log. `archived` counts entries that were looked at and have been moved out."""

    size: int
    archived: int
    entries: list[Seen]


@audit.command(
    "show",
    examples=[
        "strongroom audit show",
        "strongroom audit show --denied --since 2026-01-01",
        "strongroom audit show --op get,list --actor local/owner --limit 5 --json",
    ],
)
@click.option("--op", "ops", type=NAMES, default="", help="Only these operations, such as get,list.")
@click.option("--denied", is_flag=True, help="Only what was refused or failed.")
@click.option("--since", type=MOMENT, help="Only from this moment on.")
@click.option("--actor", metavar="ACTOR", help="Only what touched this actor's memory.")
@click.option("--line", metavar="ID", help="Only what put, returned or forgot this line.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="The newest so many.")
@owner_options
@pass_run
def show(
    run: Run,
    ops: tuple[str, ...],
    denied: bool,
    since: datetime | None,
    actor: str | None,
    line: str | None,
    limit: int,
) -> None:
    """Show the log, oldest first: who asked for what with which cap, and which lines were returned.

    The log knows caps by their links and actors by tags that only their keys explain: what an erased actor did stays,
    and nobody can say that it was theirs. It holds no text and no query.
    """
    chosen = Filter.of(run.vault(), ops=ops, denied=denied, since=since, actor=actor, line=line)
    entries, archived = matching(run.vault(), chosen, limit)
    run.answer(Shown(run.vault().audit.size(), archived, entries), output.table(map(seen_row, entries)))
    if archived:
        run.note(f"{archived} older entries were archived, so they are not shown")
    elif not entries:
        run.note("there are no such entries")


class Verdict(msgspec.Struct, frozen=True):
    """What verification found. `seen`: from now on this is what was last seen.

    `unsettled` are entries of a fleet that were begun and never said done. `ok` is false, and `is_sound` true, if one
    of them is told for the first time and its effect is not there. `recent` counts those too young to be judged.
    `notes` say what is no flaw, and should not stay so.
    """

    ok: bool
    size: int
    root: str
    objects: int
    seen: bool
    findings: list[dict[str, str | int | None]]
    is_sound: bool
    unsettled: tuple[Unsettled, ...]
    recent: int
    notes: tuple[str, ...]


@audit.command("verify", examples=["strongroom audit verify", "strongroom audit verify --json"])
@click.option("--archive", type=click.Path(path_type=Path), metavar="DIR", help="Where old entries were archived to.")
@owner_options
@pass_run
def verify(run: Run, archive: Path | None) -> None:
    """Check the whole log, and that it agrees with the store object by object.

    Works also where the vault does not open. Without findings, the log as it is counts as last seen: a roll-back to
    before it will be found. Exit code 6 if anything is wrong. Exit code 8 if nothing is, but a worker of a fleet began
    something, never said that it was done, and it is not there: it was never carried out, or somebody undid it. That is
    told with exit code 8 once, and counted from then on.
    """
    with leaving.bar(run, "verifying") as told:
        report, seen = _verified(run, archive, told)
    found = [_finding(one) for one in report.findings]
    verdict = Verdict(
        report.ok,
        report.size,
        report.root,
        report.objects,
        seen,
        found,
        report.is_sound,
        report.unsettled,
        report.recent,
        report.notes,
    )
    run.answer(verdict, _verdict(report))
    if not report.is_sound:
        raise Failure(BY_FAMILY["tampered"])
    if not report.ok:
        raise Failure(UNSEEN)


def _verified(run: Run, archive: Path | None, told: leaving.Told) -> tuple[Report, bool]:
    try:
        vault = run.vault()
    except Tampered:
        place = run.settings.vault
        keys = settings.keys_of(identify(place), run.passphrase)
        return strongroom.verify(place, keys=keys, archive=archive, progress=told), False
    report = vault.audit.verify(archive=archive, progress=told)
    return report, report.is_sound


def _finding(one: Finding) -> dict[str, str | int | None]:
    return {
        "flaw": one.flaw.value,
        "message": one.message,
        "entry": one.entry,
        "object": one.object,
        "hint": HINTS[one.flaw],
    }


def _verdict(report: Report) -> Iterator[str]:
    if report.is_sound:
        verdict = "ok" if report.ok else "no flaw found"
        yield f"{verdict}: {report.size} entries and {report.objects} objects agree, and continue what was last seen"
        yield f"root {report.root}"
        yield from _unsettled(report)
        return
    problems = counted(len(report.findings), "problem")
    yield f"NOT OK: {problems} in {report.size} entries and {report.objects} objects"
    for one in report.findings:
        where = f"entry {one.entry}" if one.entry is not None else one.object or ""
        yield f"  {one.flaw.value}{': ' + output.shown(where) if where else ''}"
        yield f"    {output.shown(one.message)}"
        yield f"    {HINTS[one.flaw]}"
    yield from _unsettled(report)


def _unsettled(report: Report) -> Iterator[str]:
    """Entries that no worker said done: each that is told for the first time, and a count of the others."""
    new = [one for one in report.unsettled if not one.is_known]
    if report.doubtful:
        yield f"NOT SURE: {counted(len(report.doubtful), 'write')} begun, never said done, and not there"
        yield "    each was never carried out, or was acknowledged and then undone behind the vault's back"
    for one in new:
        when = output.local(datetime.fromtimestamp(one.time / 1000).astimezone())
        yield f"  {output.shown(one.op)} #{one.entry} of {one.worker}, {when}: {_PRESENCE[one.state]}"
    if known := len(report.unsettled) - len(new):
        yield f"{counted(known, 'write')} never said done, told before"
    for note in report.notes:
        yield f"note: {output.shown(note)}"
    if report.recent:
        yield f"{counted(report.recent, 'write')} of the last moments not said done yet: verify again later"


class Proven(msgspec.Struct, frozen=True):
    """A proof, and what is needed to check it: the entry's own bytes and the log's public key."""

    index: int
    entry: str
    proof: str
    verifier_key: str


@audit.command(
    "prove",
    examples=["strongroom audit prove 1", "strongroom audit prove 1 --json"],
)
@click.argument("index", type=click.IntRange(0), required=False)
@click.option("--line", metavar="ID", help="The entry that put this line.")
@owner_options
@pass_run
def prove(run: Run, index: int | None, line: str | None) -> None:
    """Prove that the entry INDEX is in the log, to somebody who has nothing else of the vault.

    The proof (c2sp.org/tlog-proof) goes to stdout, the entry and the log's key to stderr. Give them all three; the key
    once, by a way they trust.
    """
    if (index is None) == (line is None):
        raise click.UsageError("name an entry by its INDEX, or a line with --line")
    vault = run.vault()
    number = _entry_of(vault, line) if line is not None else index or 0
    entry = _entry_at(vault, number)
    done = Proven(number, entry, vault.audit.prove(number), vault.audit.verifier_key)
    run.answer(done, done.proof.rstrip("\n"))
    run.note(f"entry {number}: {entry}")
    run.note(f"key: {done.verifier_key}")


def _entry_of(vault: Vault, line: str) -> int:
    chosen = Filter.of(vault, ops=("put",), line=line)
    found, _ = matching(vault, chosen, limit=1)
    if not found:
        raise LineNotFound("no entry of the log put this line", hint="it may have been archived: name its INDEX")
    return found[0].index


def _entry_at(vault: Vault, number: int) -> str:
    size = vault.audit.size()
    if number >= size:
        raise InvalidRequest(f"the log has entries 0 to {size - 1}")
    ((_, entry),) = vault.audit.entries(number, number + 1)
    return "" if entry is None else entry.encoded().decode()


@audit.command("checkpoint", examples=["strongroom audit checkpoint", "strongroom audit checkpoint --out seen.txt"])
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it into a new file.")
@owner_options
@pass_run
def checkpoint(run: Run, out: Path | None) -> None:
    """Sign the log as it stands, and keep that as last seen. Over a bucket: verify all logs first, and sign each.

    Keep copies where nobody can change both: whoever has one can show that the log was rolled back to before it.
    """
    vault = run.vault()
    note = vault.audit.checkpoint()
    if out is not None:
        write_whole(out, note.encode())
    sizes = [int(one.split("\n")[1]) for one in note.split(BETWEEN)]
    size, which = sum(sizes), "log" if len(sizes) == 1 else f"{len(sizes)} logs"
    document = {"checkpoint": note, "size": size, "verifier_key": vault.audit.verifier_key, "out": out and str(out)}
    where = "" if out is None else output.one_line(str(out))
    run.answer(document, note.rstrip("\n") if out is None else f"the {which} of {size} entries, signed, in {where}")


@audit.command("accept-restore", examples=["strongroom audit accept-restore --yes"])
@click.option("--yes", is_flag=True, help="Do not ask.")
@owner_options
@pass_run
def accept_restore(run: Run, yes: bool) -> None:
    """After restoring a backup: put on record that the log is older than what was seen, and take it as seen.

    Only a roll-back is accepted. Anything else that is wrong is refused, and so is a vault that is not rolled back.
    """
    vault = run.vault()
    run.confirm(
        "What was recorded after the backup is gone, and the log will say that you accept that. Was it you who"
        " restored it?",
        yes=yes,
    )
    report = vault.audit.accept_restore()
    run.answer(
        {"accepted": [_finding(one) for one in report.findings], "size": vault.audit.size()},
        "The restore is on record. Forget, erase and revoke again what you had since the backup.",
    )


@audit.command("accept-clock", examples=["strongroom audit accept-clock --yes"])
@click.option("--yes", is_flag=True, help="Do not ask.")
@owner_options
@pass_run
def accept_clock(run: Run, yes: bool) -> None:
    """Accept this machine's clock although the log's latest entry lies ahead of it.

    For when an entry was written with a wrong clock: until then every command is refused as clock_behind. It is on
    record.
    """
    vault = run.vault()
    run.confirm("The log will say that you accept this machine's clock. Is it right?", yes=yes)
    vault.accept_clock()
    run.answer({"accepted": output.local(datetime.now().astimezone())}, "The clock is accepted, and the log says so.")
