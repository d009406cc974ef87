"""audit: show, verify and prove the log. These commands use the vault's keys and never open a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec

import strongroom
from strongroom import settings
from strongroom.archive import write_whole
from strongroom.audit import Finding, VerificationReport
from strongroom.audit.unfinished_entries import EntryState, Unsettled
from strongroom.cli import archive_options, output
from strongroom.cli.app import Group
from strongroom.cli.argument_types import MOMENT, NAMES
from strongroom.cli.error_output import BY_FAMILY, UNSEEN, CommandFailure
from strongroom.cli.log_view import Filter, SeenEntry, find_entries, seen_row
from strongroom.cli.run_context import Run, owner_options, pass_run
from strongroom.errors import InvalidRequest, LineNotFound, Tampered
from strongroom.keys import default_directory
from strongroom.model import pluralize
from strongroom.store import is_bucket
from strongroom.vault.create_open import identify
from strongroom.vault.owner_audit import BETWEEN
from strongroom.vault.vault import Vault

Told = dict[str, str | int | None]
"""A finding of the verification, as it stands in the JSON answer."""

audit = Group("audit", help="Show who did what, verify the log, and prove what is in it.")

HINTS = {
    "head_forged": "somebody without the vault's keys wrote to the log; keep the files as evidence and restore a"
    " backup",
    "log_rolled_back": "if you restored a backup, run `strongroom audit accept-restore`; if not, somebody put an older"
    " copy in place",
    "log_forked": "if you restored a backup, run `strongroom audit accept-restore`; if not, somebody put an older copy"
    " in place that was used since, or rewrote the log",
    "log_truncated": "the end of the log was cut off; keep the files as evidence and restore a backup",
    "log_edited": "the log was edited; keep the files as evidence and restore a backup",
    "entry_edited": "this entry was edited; keep the files as evidence and restore a backup",
    "entry_missing": "entries were removed; keep the files as evidence and restore a backup",
    "entry_extra": "somebody without the vault's keys added entries after the end of the log, which can stop every"
    " command; keep the files as evidence and restore a backup",
    "witness_invalid": "the file `checkpoint` beside the keys is damaged or belongs to another vault; put back a copy"
    " of it; without a copy, move it away and accept the log as it stands with `strongroom audit checkpoint --yes`",
    "archive_damaged": "name the right directory with --archive, or put back its backup",
    "object_missing": "this object was deleted from outside the vault; a backup may still have it",
    "object_extra": "this object was added from outside the vault; if it belonged to an actor that was erased, erase"
    " that actor again; otherwise restore a backup",
    "object_altered": "this object was edited from outside the vault and cannot be read any more; a backup may have it",
    "object_revived": "a deleted object was put back from outside the vault: forget the line again, by the id at the"
    " end of the object's name, or erase the actor again",
}
"""The hint for each kind of finding."""
_PRESENCE = {
    EntryState.THERE: "its effect is there and will be checked from now on",
    EntryState.PARTLY: "part of its effect is there",
    EntryState.MISSING: "its effect is missing",
}

_PUT_BACK = (
    "put the objects back as they were, or move the newest copy, with the keys of its time, to another bucket with"
    " `strongroom migrate`"
)
FLEET_HINTS = {
    "head_forged": f"somebody without this worker's key wrote to its log; {_PUT_BACK}",
    "log_rolled_back": f"the end of this log was removed; {_PUT_BACK}. If what is left is all you have, move the file"
    " `checkpoint` beside the keys away and accept the log with `strongroom audit checkpoint --yes`",
    "log_forked": f"this log was rewritten; {_PUT_BACK}",
    "log_edited": f"this log was edited, or part of it was removed; {_PUT_BACK}",
    "log_missing": f"the log of this worker was removed from the bucket; {_PUT_BACK}",
    "log_unknown": "somebody without the vault's keys wrote this log, so it is ignored; delete it from the bucket,"
    " below logs/",
    "roster_missing": f"this worker's entry below roster/ was removed, but its log is there and was read; {_PUT_BACK}",
    "roster_forged": "somebody without the vault's keys wrote this entry below roster/; if there is no log of that"
    " worker, delete it from the bucket; otherwise put the worker's own entry back as it was",
    "entry_edited": f"this entry was edited; {_PUT_BACK}",
    "entry_missing": f"part of this log was removed; {_PUT_BACK}",
    "object_missing": f"this object was deleted from outside the vault; {_PUT_BACK}",
    "object_extra": "this object was added from outside the vault; delete it from the bucket. If it belonged to an"
    " actor that was erased, erase that actor again",
    "object_altered": f"this object was edited from outside the vault and cannot be read any more; {_PUT_BACK}",
}
"""The hints that differ for a vault in a bucket, where each worker has a log and there is no backup file to restore."""


class ShownLog(msgspec.Struct, frozen=True):
    """A part of the log. `archived` counts older entries that are not shown because they are in an archive."""

    size: int
    archived: int
    entries: list[SeenEntry]


@audit.command(
    "show",
    examples=[
        "strongroom audit show",
        "strongroom audit show --denied --since 2026-01-01",
        "strongroom audit show --op get,list --actor local/owner --limit 5 --json",
    ],
)
@click.option("--op", "ops", type=NAMES, default="", help="Show only these operations, such as get,list.")
@click.option("--denied", is_flag=True, help="Show only requests that were denied or failed.")
@click.option("--since", type=MOMENT, help="Show only entries from this moment on.")
@click.option("--actor", metavar="ACTOR", help="Show only entries about this actor's memory.")
@click.option("--line", metavar="ID", help="Show only entries that put, returned or forgot this line.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Show at most this many entries, the newest ones.",
)
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
    """Show the log, oldest first: each request with its cap and the lines that it returned.

    The log holds no text and no query. It names an actor by a tag that only the actor's keys resolve. So the entries of
    an erased actor stay, but nobody can tell whose they were.
    """
    chosen = Filter.of(run.vault(), ops=ops, denied=denied, since=since, actor=actor, line=line)
    entries, archived = find_entries(run.vault(), chosen, limit)
    run.answer(ShownLog(run.vault().audit.size(), archived, entries), output.table(map(seen_row, entries)))
    if archived:
        run.note(f"not shown: older entries that were archived ({archived} skipped)")
    elif not entries:
        run.note("no entries match")


class Verdict(msgspec.Struct, frozen=True):
    """The result of a verification.

    `seen`: the present log was stored as the last seen checkpoint. `seen_before`: the size of the checkpoint that was
    last seen before; null if there was none. Without an earlier checkpoint a roll-back cannot be ruled out, and `ok` is
    false.

    `unsettled`: entries of a fleet that were started and never confirmed. `ok` is false if one of them is reported for
    the first time and its effect is missing. `recent` counts unconfirmed entries that are too young to judge.

    `is_sound`: nothing else is wrong. `notes`: facts that are no fault but should be fixed.
    """

    ok: bool
    size: int
    root: str
    objects: int
    seen: bool
    findings: list[Told]
    is_sound: bool
    seen_before: int | None
    hint: str
    unsettled: tuple[Unsettled, ...]
    recent: int
    notes: tuple[str, ...]


@audit.command("verify", examples=["strongroom audit verify", "strongroom audit verify --json"])
@click.option(
    "--archive", type=click.Path(path_type=Path), metavar="DIR", help="The directory with archived entries of the log."
)
@owner_options
@pass_run
def verify(run: Run, archive: Path | None) -> None:
    """Verify the whole log, and that it agrees with the store object by object.

    The command also works if the vault does not open. If all is well, the present state of the log becomes the last
    seen checkpoint. A later roll-back to an earlier state will then be found. The exit code is 6 if anything is wrong.

    The exit code is 8 if nothing is wrong but there is no earlier checkpoint: an older copy of the vault would look
    just as good. Nothing is stored in that case. Put back a copy of the file `checkpoint`, or accept the log as it
    stands with `audit checkpoint`. The exit code is also 8 if a worker of a fleet started a write and never confirmed
    it, and its effect is missing. Such a write never happened, or somebody undid it. It causes exit code 8 once; later
    runs only count it.
    """
    with archive_options.bar(run, "verifying") as told:
        report, seen = _verified(run, archive, told)
    hints = HINTS | FLEET_HINTS if is_bucket(run.settings.vault) else HINTS
    found = [_finding(run, one, hints) for one in report.findings]
    hint = _unseen_hint(run) if report.is_sound and report.seen_before is None else ""
    verdict = Verdict(
        report.ok,
        report.size,
        report.root,
        report.objects,
        seen,
        found,
        report.is_sound,
        report.seen_before,
        hint,
        report.unsettled,
        report.recent,
        report.notes,
    )
    run.answer(verdict, _verdict(report, found, hint))
    if not report.is_sound:
        raise CommandFailure(BY_FAMILY["tampered"])
    if not report.ok:
        raise CommandFailure(UNSEEN)


def _unseen_hint(run: Run) -> str:
    place = default_directory(identify(run.settings.vault)) / "checkpoint"
    accept = run.command("audit checkpoint --yes")
    return f"put back a copy of {place} and verify again; if this is the newest state that you know of, run {accept}"


def _verified(run: Run, archive: Path | None, told: archive_options.Told) -> tuple[VerificationReport, bool]:
    try:
        vault = run.vault()
    except Tampered:
        place = run.settings.vault
        keys = settings.keys_of(identify(place), run.passphrase)
        try:
            return strongroom.verify(place, keys=keys, archive=archive, progress=told), False
        except Tampered as error:  # too damaged to list findings
            hint = error.hint or (_PUT_BACK if is_bucket(place) else "keep the files as evidence and restore a backup")
            raise Tampered(
                f"the vault does not open, so its log cannot be verified: {error.message}", hint=hint
            ) from None
    report = vault.audit.verify(archive=archive, progress=told)
    return report, report.is_sound and report.seen_before is not None


def _finding(run: Run, one: Finding, hints: Mapping[str, str]) -> Told:
    return {
        "flaw": one.flaw.value,
        "message": one.message,
        "entry": one.entry,
        "object": one.object,
        "hint": run.placed(hints[one.flaw]),
    }


def _verdict(report: VerificationReport, found: Sequence[Told], hint: str) -> Iterator[str]:
    agree = f"{report.size} entries and {report.objects} objects agree"
    if report.is_sound and report.seen_before is not None:
        yield f"{'ok' if report.ok else 'no flaw found'}: {agree}, and continue what was last seen"
        yield f"root {report.root}"
        yield from _unsettled(report)
        return
    if report.is_sound:
        yield f"UNSEEN: {agree}, but a roll-back cannot be ruled out"
        yield "  there is no earlier checkpoint to compare with, and an older copy of the vault would look the same"
        yield f"  {output.escape_invisible(hint)}"
        yield f"root {report.root}"
        yield from _unsettled(report)
        return
    problems = pluralize(len(report.findings), "problem")
    yield f"NOT OK: {problems} in {report.size} entries and {report.objects} objects"
    for one in found:
        where = f"entry {one['entry']}" if one["entry"] is not None else str(one["object"] or "")
        yield f"  {one['flaw']}{': ' + output.escape_invisible(where) if where else ''}"
        yield f"    {output.escape_invisible(str(one['message']))}"
        yield f"    {one['hint']}"
    if report.seen_before is None:
        yield "  and a roll-back cannot be ruled out: there is no earlier checkpoint to compare with"
    yield from _unsettled(report)


def _unsettled(report: VerificationReport) -> Iterator[str]:
    """The unconfirmed entries: each entry that is reported for the first time, then the number of the others."""
    new = [one for one in report.unsettled if not one.is_known]
    if report.doubtful:
        yield f"NOT SURE: {pluralize(len(report.doubtful), 'write')} started, never confirmed, and without effect"
        yield "    each of them either never happened, or was acknowledged and then undone from outside the vault"
    for one in new:
        when = output.local(datetime.fromtimestamp(one.time / 1000).astimezone())
        yield f"  {output.escape_invisible(one.op)} #{one.entry} of {one.worker}, {when}: {_PRESENCE[one.state]}"
    if known := len(report.unsettled) - len(new):
        yield f"never confirmed, and reported before: {pluralize(known, 'write')}"
    for note in report.notes:
        yield f"note: {output.escape_invisible(note)}"
    if report.recent:
        yield f"too recent to judge: {pluralize(report.recent, 'write')} not confirmed yet; verify again in a minute"


class ProvenEntry(msgspec.Struct, frozen=True):
    """A proof, with everything that is needed to check it: the bytes of the entry and the log's public key."""

    index: int
    entry: str
    proof: str
    verifier_key: str


@audit.command(
    "prove",
    examples=["strongroom audit prove 1", "strongroom audit prove 1 --json"],
)
@click.argument("index", type=click.IntRange(0), required=False)
@click.option("--line", metavar="ID", help="Prove the entry that put this line.")
@owner_options
@pass_run
def prove(run: Run, index: int | None, line: str | None) -> None:
    """Print a proof that the entry INDEX is in the log, for somebody who has nothing else from the vault.

    The proof (c2sp.org/tlog-proof) goes to stdout, the entry and the log's key to stderr. Hand over all three. The key
    is needed only once, through a channel that the receiver trusts.
    """
    if (index is None) == (line is None):
        raise click.UsageError("name an entry by its INDEX, or a line with --line")
    vault = run.vault()
    number = _entry_of(vault, line) if line is not None else index or 0
    entry = _entry_at(vault, number)
    done = ProvenEntry(number, entry, vault.audit.prove(number), vault.audit.verifier_key)
    run.answer(done, done.proof.rstrip("\n"))
    run.note(f"entry {number}: {entry}")
    run.note(f"key: {done.verifier_key}")


def _entry_of(vault: Vault, line: str) -> int:
    chosen = Filter.of(vault, ops=("put",), line=line)
    found, _ = find_entries(vault, chosen, limit=1)
    if not found:
        raise LineNotFound(
            "no entry in the log put this line",
            hint="the entry may have been archived: give the INDEX of the entry instead",
        )
    return found[0].index


def _entry_at(vault: Vault, number: int) -> str:
    size = vault.audit.size()
    if number >= size:
        raise InvalidRequest(f"there is no entry {number}: the log has entries 0 to {size - 1}")
    ((_, entry),) = vault.audit.entries(number, number + 1)
    return "" if entry is None else entry.encoded().decode()


@audit.command("checkpoint", examples=["strongroom audit checkpoint", "strongroom audit checkpoint --out seen.txt"])
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the checkpoint into a new file.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation, even if there is no earlier checkpoint.")
@owner_options
@pass_run
def checkpoint(run: Run, out: Path | None, yes: bool) -> None:
    """Sign the present log and store the checkpoint as last seen. In a bucket, every log is verified and signed.

    Keep copies of the checkpoint elsewhere: a copy shows whether the log was later rolled back to an earlier state. If
    there is no earlier checkpoint, the command asks you first and accepts the present log. A roll-back in the past will
    then not be found any more.
    """
    vault = run.vault()
    is_first = not vault.audit.is_seen()
    if is_first:
        run.confirm(
            "There is no earlier checkpoint, so this log may have been rolled back without a trace. From now on, this"
            " state counts as the last seen one.",
            yes=yes,
        )
    note = vault.audit.checkpoint(first=is_first)
    if out is not None:
        write_whole(out, note.encode())
    sizes = [int(one.split("\n")[1]) for one in note.split(BETWEEN)]
    size, which = sum(sizes), "log" if len(sizes) == 1 else f"{len(sizes)} logs together"
    document = {
        "checkpoint": note,
        "size": size,
        "verifier_key": vault.audit.verifier_key,
        "out": out and str(out),
        "first": is_first,
    }
    where = "" if out is None else output.one_line(str(out))
    run.answer(document, note.rstrip("\n") if out is None else f"checkpoint of the {which}, {size} entries: {where}")
    if is_first:
        run.note("note: this is the first checkpoint; a roll-back that happened before it will not be found")


@audit.command("accept-restore", examples=["strongroom audit accept-restore --yes"])
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@owner_options
@pass_run
def accept_restore(run: Run, yes: bool) -> None:
    """After restoring a backup, accept that the log is older than the last seen checkpoint. The log records this.

    Only a roll-back is accepted. The command refuses a vault with any other fault, and a vault that is not rolled back.
    """
    vault = run.vault()
    if not vault.audit.is_seen() and not is_bucket(run.settings.vault):
        raise InvalidRequest(
            "there is no earlier checkpoint, so nobody can tell whether the log was rolled back",
            hint=f"to accept the log as it stands, run {run.command('audit checkpoint --yes')}",
        )
    run.confirm(
        "Everything recorded after the backup is gone, and the log will say that you accept this. Go on only if it was"
        " you who restored the backup.",
        yes=yes,
    )
    report = vault.audit.accept_restore()
    run.answer(
        {"accepted": [_finding(run, one, HINTS) for one in report.findings], "size": vault.audit.size()},
        "The restore is on record. Now repeat every forget, erase and revoke that you did after the backup.",
    )


@audit.command("accept-clock", examples=["strongroom audit accept-clock --yes"])
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@owner_options
@pass_run
def accept_clock(run: Run, yes: bool) -> None:
    """Accept this machine's clock although the log's latest entry is ahead of it.

    Use this after an entry was written while the clock was wrong. Otherwise every command fails with clock_behind until
    the clock reaches the time of that entry. The log records that you accepted it.
    """
    vault = run.vault()
    run.confirm("The log will say that you accept this machine's clock. Check that it is right.", yes=yes)
    vault.accept_clock()
    run.answer({"accepted": output.local(datetime.now().astimezone())}, "The clock is accepted, and the log says so.")
