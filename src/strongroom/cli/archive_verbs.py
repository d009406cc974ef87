"""export and import: lines, profiles and documents in a file encrypted with a passphrase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
import msgspec

from strongroom import archive, model
from strongroom.archive import Archive, ImportResult
from strongroom.caps.chain import Cap, parse
from strongroom.cli import archive_options, output
from strongroom.cli.app import command
from strongroom.cli.argument_types import NAMESPACE
from strongroom.cli.error_output import BY_FAMILY, CommandFailure
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.errors import CapNamespaceDenied, InvalidRequest
from strongroom.memory import Memory, system_clock
from strongroom.model import K_LIMIT, pluralize
from strongroom.vault import owner_cap


class Exported(msgspec.Struct, frozen=True):
    """The answer of export: the counts of exported lines and profiles, and the file."""

    file: str
    actor: str
    lines: int
    namespaces: dict[str, int]
    profiles: int | None
    documents: int
    bytes: int
    encrypted: bool


@command(
    "export",
    examples=[
        "strongroom export lines.age",
        "strongroom export travel.age --namespace travel --json",
        "strongroom export lines.jsonl --i-understand-this-is-plaintext",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    type=NAMESPACE,
    multiple=True,
    help="Export only this namespace; may be repeated.",
)
@click.option("--i-understand-this-is-plaintext", "in_clear", is_flag=True, help="Write the file without encryption.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@archive_options.passphrase_option
@memory_options
@pass_run
def export_lines(
    run: Run, file: Path, namespaces: tuple[str, ...], in_clear: bool, force: bool, export_passphrase_file: str | None
) -> None:
    """Write the lines, profiles and documents that the cap covers into FILE, encrypted with a passphrase.

    The cap must allow list and get, and snapshot for the profiles. FILE is in the age format: `age -d FILE` decrypts it
    without Strongroom. FILE holds the lines and profiles that you can read now, and the present version of each
    document. It holds no forgotten lines. The log names every exported line and document.
    """
    archive_options.check_place(file, force=force)
    passphrase = None if in_clear else archive_options.passphrase(run, export_passphrase_file, new=True)
    memory, said = _memory(run)
    with archive_options.bar(run, "reading") as told:
        found = archive.export_lines(
            memory,
            vault=parse(run.token()).first.aud,  # the vault itself has checked this when it accepted the cap
            actor=said.actor or "",
            now=system_clock(),
            namespaces=namespaces or None,
            page=min(said.max_k or K_LIMIT, K_LIMIT),
            profiles="snapshot" in said.ops,
            progress=told,
        )
    size = archive.write_archive(file, found, passphrase, force=force)
    done = Exported(
        file=str(file),
        actor=found.header.actor,
        lines=len(found.lines),
        namespaces=dict(sorted(Counter(line.namespace for line in found.lines).items())),
        profiles=len(found.profiles) if "snapshot" in said.ops else None,
        documents=len(found.documents),
        bytes=size,
        encrypted=passphrase is not None,
    )
    run.answer(done, _exported(done))


def _exported(done: Exported) -> Iterator[str]:
    yield f"{pluralize(done.lines, 'line')} of {done.actor} in {done.file} ({done.bytes} bytes)"
    yield from output.table((f"  {name}", str(count)) for name, count in done.namespaces.items())
    yield "profiles: none, the cap does not allow snapshot" if done.profiles is None else f"profiles: {done.profiles}"
    if done.documents:
        yield f"documents: {done.documents}, each in its present version"
    if done.encrypted:
        yield "Keep the passphrase: without it nobody can open the file."
    else:
        yield "The file is not encrypted: anyone who can read it has every line. Its mode is 0600."


class Imported(msgspec.Struct, frozen=True):
    """The answer of import.

    `namespaces` counts the lines in the archive. `profiles_left` and `documents_left` count those that the cap may not
    write.
    """

    vault: str
    actor: str
    exported: datetime
    checked_only: bool
    namespaces: dict[str, int]
    put: int
    there: int
    forgotten: int
    expired: int
    conflicts: list[tuple[str, str]]
    profiles_put: int
    profiles_there: int
    profile_conflicts: list[str]
    profiles_left: int
    documents_put: int
    documents_there: int
    documents_forgotten: int
    documents_expired: int
    document_conflicts: list[tuple[str, str]]
    documents_left: int


@command(
    "import",
    examples=[
        "strongroom import lines.age --check",
        "strongroom import lines.age",
        "strongroom import travel.age --vault ./team-vault --namespace-map travel=projects --json",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--namespace-map",
    "pairs",
    multiple=True,
    metavar="FROM=TO",
    help="Put lines of the namespace FROM, which this vault lacks, into TO; may be repeated. Not with --url.",
)
@click.option("--check", is_flag=True, help="Only check the file and show what is in it; write nothing.")
@archive_options.passphrase_option
@memory_options
@pass_run
def import_lines(run: Run, file: Path, pairs: tuple[str, ...], check: bool, export_passphrase_file: str | None) -> None:
    """Import lines, profiles and documents from an archive into the memory of the cap.

    The whole file is checked first. Lines keep their ids, so you can run import again, for instance after an
    interruption. Existing lines are skipped, and forgotten lines stay forgotten. If the vault has another line with the
    same id, another profile, or another document under the same key, the vault's own stays and the rest is imported.
    Then the exit code is 5. A document that was deleted or renamed is not written again. The cap must allow put, get
    for the documents, and profile for the profiles.
    """
    renamed = dict(map(_pair, pairs))
    found = archive.read_archive(file, lambda: archive_options.passphrase(run, export_passphrase_file))
    outcome = ImportResult()
    if not check:
        _check_renamed(run, renamed)
        outcome = _put(run, found, renamed)
    run.answer(_imported(found, outcome, check), _imported_lines(found, outcome, check))
    if not outcome.whole:
        raise CommandFailure(BY_FAMILY["conflict"])


def _check_renamed(run: Run, renamed: dict[str, str]) -> None:
    """Refuse to rename a namespace that the vault has, as its forgotten lines would come back under the new name."""
    known = sorted(set(renamed) & set(run.vault().namespaces)) if renamed else []
    if known:
        raise InvalidRequest(
            f"this vault has a namespace {known[0]} of its own, so lines of {known[0]} must stay in it",
            hint=f"leave {known[0]} out: --namespace-map is only for namespaces that this vault lacks",
        )


def _put(run: Run, found: Archive, renamed: dict[str, str]) -> ImportResult:
    memory, said = _memory(run)
    try:
        with archive_options.bar(run, "putting") as told:
            return archive.import_lines(
                memory,
                found,
                now=system_clock(),
                renamed=renamed,
                profiles="profile" in said.ops,
                documents={"put", "get"} <= set(said.ops) and said.session is None,
                progress=told,
            )
    except CapNamespaceDenied as denial:
        missing = sorted(name for name in _counts(found) if renamed.get(name, name) not in said.namespaces)
        if missing:
            name = missing[0]
            into = renamed.get(name, name)
            denial.message = f"the archive has something for {into}, which the cap does not cover"
            owners = f"run `strongroom namespaces add {into}`" if run.given is None else "use a cap that covers it"
            denial.hint = f"add --namespace-map {name}=... if this vault has no {name}, or {owners}"
        raise


def _counts(found: Archive) -> dict[str, int]:
    """The number of lines in each namespace of an archive. A namespace with only a profile or documents counts 0."""
    counts = Counter(dict.fromkeys(found.namespaces, 0))
    counts.update(line.namespace for line in found.lines)
    return dict(sorted(counts.items()))


def _pair(text: str) -> tuple[str, str]:
    old, separator, new = text.partition("=")
    if not (separator and old and new):
        raise click.UsageError(f"{text!r} is not FROM=TO, such as journeys=travel")
    return old, new


def _memory(run: Run) -> tuple[Memory, Cap]:
    """The memory of the cap, and the claims of the cap. Lines that are put through it get the source `import`."""
    if run.given is None:
        run.ask(lambda memory: memory.list(limit=1))  # renews the owner's own cap if it is void
    return run.memory("import"), owner_cap.read_unverified(run.token())


def _imported(found: Archive, outcome: ImportResult, check: bool) -> Imported:
    return Imported(
        vault=found.header.vault,
        actor=found.header.actor,
        exported=model.moment(found.header.exported),
        checked_only=check,
        namespaces=_counts(found),
        **msgspec.structs.asdict(outcome),
    )


def _imported_lines(found: Archive, outcome: ImportResult, check: bool) -> Iterator[str]:
    when = output.local(model.moment(found.header.exported))
    yield f"archive of {found.header.actor} from vault {found.header.vault}, made {when}"
    if check:
        lines, profiles = pluralize(len(found.lines), "line"), pluralize(len(found.profiles), "profile")
        documents = f", {pluralize(len(found.documents), 'document')}" if found.documents else ""
        yield f"the archive is complete: {lines}, {profiles}{documents}"
        yield from output.table((f"  {name}", str(count)) for name, count in _counts(found).items())
        return
    rows = [
        ("put", str(outcome.put)),
        ("already there", str(outcome.there)),
        ("forgotten earlier, not imported", str(outcome.forgotten)),
        ("expired, not imported", str(outcome.expired)),
        ("not imported: another line has the id", str(len(outcome.conflicts))),
        ("profiles written", str(outcome.profiles_put)),
        ("profiles already there", str(outcome.profiles_there)),
        ("not imported: the namespace has another profile", str(len(outcome.profile_conflicts))),
        ("profiles not imported: the cap does not allow profile", str(outcome.profiles_left)),
        ("documents written", str(outcome.documents_put)),
        ("documents already there", str(outcome.documents_there)),
        ("documents deleted or renamed earlier, not imported", str(outcome.documents_forgotten)),
        ("documents expired, not imported", str(outcome.documents_expired)),
        ("not imported: another document has the key", str(len(outcome.document_conflicts))),
        ("documents not imported: the cap does not allow put and get, or has a session", str(outcome.documents_left)),
    ]
    yield from output.table(row for row in rows if row[1] != "0" or row[0] == "put")
    for namespace, line in outcome.conflicts:
        yield f"  {namespace} {line}"
    for name in outcome.profile_conflicts:
        yield f"  the profile of {name}"
    for namespace, key in outcome.document_conflicts:
        yield f"  {namespace} {output.one_line(key)}"
