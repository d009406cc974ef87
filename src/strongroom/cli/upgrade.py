"""upgrade: raise the format of a vault. Older programs then refuse the vault. The verb needs the keys and opens no
line.
"""

from __future__ import annotations

import click
import msgspec

from strongroom.cli.app import command
from strongroom.cli.run_context import Run, owner_options, pass_run, store_option
from strongroom.memory.vault_records import FORMATS
from strongroom.vault.create_open import read_format
from strongroom.vault.vault_format import raise_format

_MEANING = (
    "From then on, programs of an earlier version refuse the vault, and those that have it open now refuse lines with"
    " tags, meta, an expiry or a turn as damaged: stop or upgrade them first. It cannot be undone."
)


class Upgraded(msgspec.Struct, frozen=True):
    """The result of an upgrade. `before` equals `format` if there was nothing to do."""

    vault: str
    before: int
    format: int


@command(
    examples=[
        "strongroom upgrade --yes",
        "strongroom upgrade --store s3://bucket/team --yes --json",
    ]
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@store_option
@owner_options
@pass_run
def upgrade(run: Run, yes: bool) -> None:
    """Raise the vault's format to the newest, so that lines may have tags, meta, an expiry and a turn.

    Programs of an earlier version refuse the vault from then on. So first update every program that uses it. The log
    records the upgrade, and it cannot be undone. A vault that has the newest format already is not changed.
    """
    found = read_format(run.settings.vault)
    if found.v < FORMATS[-1]:
        run.confirm(f"This raises the vault's format from {found.v} to {FORMATS[-1]}. {_MEANING}", yes=yes)
        raise_format(run.vault())
    done = Upgraded(found.vault, found.v, FORMATS[-1])
    run.answer(done, _said(done))


def _said(done: Upgraded) -> str:
    if done.before == done.format:
        return f"vault {done.vault} has format {done.format} already, the newest"
    return f"vault {done.vault} has format {done.format} now; it had {done.before}"
