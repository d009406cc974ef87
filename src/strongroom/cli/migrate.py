"""migrate: move a whole vault from a path into a bucket, or back. The command uses the keys and opens no line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from strongroom import settings
from strongroom.cli import archive_options, installed_extras
from strongroom.cli.app import command
from strongroom.cli.run_context import Run, owner_options, pass_run
from strongroom.model import pluralize
from strongroom.vault.migrate.move import Moved
from strongroom.vault.migrate.move import migrate as move


@command(
    examples=[
        "strongroom migrate ./team-vault s3://bucket/team",
        "strongroom migrate s3://bucket/team ./team-vault-2 --json",
    ]
)
@click.argument("source")
@click.argument("target")
@click.option(
    "--archive", type=click.Path(path_type=Path), metavar="DIR", help="The directory with archived entries of the log."
)
@owner_options
@pass_run
def migrate(run: Run, source: str, target: str, archive: Path | None) -> None:
    """Move a vault from SOURCE to TARGET: one is a path, and the other is s3://bucket/prefix.

    The vault keeps its id, its keys, its caps and its log. The vault is verified, copied, compared object by object,
    and verified again. If the move is interrupted, run the command again to continue.

    No program may write to SOURCE during the move, and this is checked. SOURCE is not changed. Afterwards use only one
    of the two vaults: a line that is put into one is not in the other.
    """
    if source.startswith("s3://") or target.startswith("s3://"):
        installed_extras.require("s3")
    run.note("note: nothing may write to the source until this has finished")
    with ExitStack() as bars:
        moved = move(
            source,
            target,
            keys=lambda vault: settings.keys_of(vault, run.passphrase),
            archive=archive,
            bars=lambda label: bars.enter_context(archive_options.bar(run, label)),
        )
    run.answer(moved, _lines(moved))


def _lines(moved: Moved) -> Iterator[str]:
    done = "was already moved, and compares equal" if moved.already else "moved, compared and verified"
    yield f"vault {moved.vault} {done}: {moved.target}"
    yield f"{pluralize(moved.objects, 'object')}, a log of {moved.entries} entries"
    yield f"{moved.source} was not changed. From now on, use only one of the two."
