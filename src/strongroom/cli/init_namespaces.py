"""init and namespaces: make a vault, and list and add its namespaces. These commands use the keys and open no line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from strongroom import settings
from strongroom.cli import output
from strongroom.cli.app import Group, command
from strongroom.cli.argument_types import NAMES
from strongroom.cli.run_context import Run, owner_options, pass_run
from strongroom.errors import InvalidRequest
from strongroom.model import DEFAULT_NAMESPACES
from strongroom.vault import owner_cap as ownercap


class Made(msgspec.Struct, frozen=True):
    """The answer of init: the vault, its keys and the cap that were made."""

    vault: str
    id: str
    keys: str
    owner_cap: str
    namespaces: tuple[str, ...]
    passphrase: bool


@command(
    examples=[
        "strongroom init",
        "strongroom init ./team-vault --namespaces private,projects --json",
    ]
)
@click.argument("path", required=False)
@click.option(
    "--namespaces",
    type=NAMES,
    default=",".join(DEFAULT_NAMESPACES),
    show_default=True,
    help="The vault's namespaces, most sensitive first.",
)
@click.option("--passphrase", is_flag=True, help="Encrypt the keys with a passphrase of at least 8 characters.")
@owner_options
@pass_run
def init(run: Run, path: str | None, namespaces: tuple[str, ...], passphrase: bool) -> None:
    """Make a vault at PATH, with its keys and a cap for yourself.

    Nothing is overwritten. The keys are stored outside the vault. Back up the keys, and keep that backup apart from the
    vault.
    """
    if path is not None:
        run.place = path
    if not namespaces or len(set(namespaces)) != len(namespaces):
        raise InvalidRequest("--namespaces needs at least one name, and no name twice")
    locked = passphrase or run.passphrase_file is not None
    if locked:
        run.new_passphrase()  # before anything is made
    vault = run.keep(settings.create_vault(run.settings, namespaces, run.passphrase if locked else None))
    directory = run.key_directory()
    ownercap.mint(vault, directory)
    place = run.settings.vault if "://" in run.settings.vault else str(Path(run.settings.vault).absolute())
    made = Made(place, vault.id, str(directory), str(directory / ownercap.NAME), tuple(vault.namespaces), locked)
    run.answer(made, _made_lines(made))


def _made_lines(made: Made) -> Iterator[str]:
    yield from output.table(
        [
            ("vault", made.vault),
            ("keys", made.keys + (" (locked by your passphrase)" if made.passphrase else "")),
            ("your cap", made.owner_cap),
            ("namespaces", ", ".join(made.namespaces)),
        ]
    )
    yield ""
    yield "Back up the keys, separately from the vault: without root.keyring nobody can open it again."
    yield ""
    yield "Try now:"
    if made.vault != str(settings.default_vault()) and made.vault != os.environ.get("STRONGROOM_VAULT"):
        yield f"  export STRONGROOM_VAULT={shlex.quote(made.vault)}"
    namespace = "" if {"personal", "travel"} <= set(made.namespaces) else f"--namespace {made.namespaces[-1]} "
    yield f'  strongroom put {namespace}"Trip to Chengdu, May 25-29"'
    yield '  strongroom get "when is the trip?"'


namespaces = Group("namespaces", help="List the vault's namespaces, or add one.")


@namespaces.command("list", examples=["strongroom namespaces list"])
@owner_options
@pass_run
def list_namespaces(run: Run) -> None:
    """List the namespaces, most sensitive first."""
    names = run.vault().namespaces
    run.answer({"namespaces": names}, names)


@namespaces.command("add", examples=["strongroom namespaces add health --before family"])
@click.argument("name")
@click.option(
    "--before",
    metavar="NAME",
    help="Rank the new namespace as more sensitive than this one; by default it is the least sensitive.",
)
@owner_options
@pass_run
def add_namespace(run: Run, name: str, before: str | None) -> None:
    """Add a namespace. Existing caps do not cover the new namespace. Your own cap is renewed at its next use."""
    run.vault().add_namespace(name, before=before)
    names = run.vault().namespaces
    run.answer({"namespaces": names}, f"added {name}: {', '.join(names)}")
