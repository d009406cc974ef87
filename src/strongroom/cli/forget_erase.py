"""forget and erase: delete lines for good, and destroy namespaces with their keys. Both ask before they act."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from strongroom import settings
from strongroom.cli.app import command
from strongroom.cli.argument_types import NAMESPACE
from strongroom.cli.line_filters import Filters, filter_options, page
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.model import LIST_LIMIT, Forgotten, pluralize
from strongroom.store import is_bucket
from strongroom.vault import owner_cap


@command(
    examples=[
        "strongroom forget 01JABCDEFGHJKMNPQRSTVWXYZ0",
        "strongroom forget --session monday --yes",
        "strongroom forget --namespace travel --until 2020-01-01 --yes --json",
        "strongroom forget --tag trip --meta city=Chengdu --yes",
    ]
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    type=NAMESPACE,
    multiple=True,
    help="Only lines in this namespace; may be repeated.",
)
@click.option("--session", metavar="NAME", help="Only lines of this conversation.")
@click.option(
    "--link", metavar="LINK", help="Only lines written with the cap of this link, or with a cap narrowed from it."
)
@filter_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@memory_options
@pass_run
def forget(
    run: Run,
    ids: tuple[str, ...],
    namespaces: tuple[str, ...],
    session: str | None,
    link: str | None,
    filters: Filters,
    yes: bool,
) -> None:
    """Forget the lines that meet every given condition, for good.

    The ids of forgotten lines cannot be used again. If you do not name the lines by their ids, the command counts them
    and asks you first.
    """
    if not (ids or namespaces or session or link or filters != Filters()):
        raise click.UsageError(
            "name the lines to forget: by id, --namespace, --session, --link or a filter such as --tag or --until; to"
            " destroy everything, use erase"
        )
    if not ids and not yes:
        count = _count(run, filters, namespaces, session, link)
        run.confirm(f"This forgets {pluralize(count, 'line')}.", yes=False)
    done = run.ask(
        lambda memory: memory.forget(
            ids=ids or None,
            session=session,
            link=link,
            namespaces=namespaces or None,
            **filters.conditions,
        )
    )
    run.answer(done, f"{pluralize(len(done.ids), 'line')} forgotten")
    _note_forgotten(run, done)


def _count(run: Run, filters: Filters, namespaces: tuple[str, ...], session: str | None, link: str | None) -> int:
    count, after = 0, None
    while True:
        found = page(run, filters, LIST_LIMIT, after, namespaces=namespaces, session=session)
        count += sum(link is None or link in line.provenance.links for line in found.lines)
        after = found.next
        if after is None:
            return count


def _note_forgotten(run: Run, done: Forgotten) -> None:
    for name in done.missing:
        run.note(f"warning: there is no line {name}")
    if not done.scrubbed:
        run.note(f"warning: {_remains(run)}")


def _remains(run: Run) -> str:
    """Where the ciphertext of forgotten lines may still be, and which command removes it."""
    if run.server is not None:
        return (
            "the server may still store ciphertext of these lines; it removes that within a minute, but not from a"
            " bucket that keeps old versions"
        )
    if is_bucket(run.settings.vault):
        return (
            "the bucket may still hold ciphertext of these lines; it is removed within a minute, but not from a bucket"
            " that keeps old versions"
        )
    return (
        "the vault's journal may still hold ciphertext of these lines, because another process is reading the vault;"
        f" {_scrubber(run)}"
    )


def _scrubber(run: Run) -> str:
    """A hint about forgotten bytes that could not be overwritten while another process was reading."""
    if run.server is not None:
        return "the server removes it within a minute"
    return f"when that process has finished, run {run.command('doctor')} to remove it"


class Destroyed(msgspec.Struct, frozen=True):
    """The answer of erase. `pending` is true if a file of the vault may still hold the destroyed keys."""

    actor: str
    namespaces: tuple[str, ...]
    everything: bool
    objects: int
    pending: bool
    root_rotated: bool


@command(
    examples=[
        "strongroom erase travel --yes",
        "strongroom erase --everything --rotate-root --yes --json",
    ]
)
@click.argument("namespaces", nargs=-1, metavar="[NAMESPACE]...")
@click.option(
    "--everything", is_flag=True, help="Erase the actor's whole memory and its keys, and void the actor's caps."
)
@click.option("--rotate-root", is_flag=True, help="Also replace the root key, which opens earlier copies of the vault.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@memory_options
@pass_run
def erase(run: Run, namespaces: tuple[str, ...], everything: bool, rotate_root: bool, yes: bool) -> None:
    """Destroy whole namespaces and their keys, so that nothing can open their lines again.

    The command erases memory of the actor that the cap names.
    """
    if everything == bool(namespaces):
        raise click.UsageError("name either the namespaces to erase or --everything")
    if rotate_root:
        run.check_local()
    actor = owner_cap.read_unverified(run.token()).actor or ""
    what = "everything" if everything else " ".join(namespaces)
    run.confirm(f"This destroys {what} of {actor}; nothing brings it back.", typed=what, yes=yes)
    if rotate_root:
        _check_rotatable(run)
    erased = run.ask(lambda memory: memory.erase(None if everything else namespaces, everything=everything))
    pending = erased.pending
    if rotate_root:
        pending = run.vault().rotate_root().pending
    done = Destroyed(actor, namespaces, everything, erased.objects, pending, rotate_root)
    run.answer(done, _promises(run, done, own=run.given is None))


def _check_rotatable(run: Run) -> None:
    """Raise if the keys cannot be rotated. Called before anything is destroyed."""
    with settings.keys_of(run.vault().id, run.passphrase).rotating():
        pass


def _promises(run: Run, done: Destroyed, *, own: bool) -> Iterator[str]:
    what = "everything" if done.everything else ", ".join(done.namespaces)
    yield f"erased {what} of {done.actor}: {pluralize(done.objects, 'object')}"
    yield "The keys are destroyed: nothing in this vault can open those lines again."
    if done.everything:
        again = "; your next command makes a new one of your own." if own else ", including the one you used."
        yield f"Every cap issued for this actor so far is void{again}"
    if done.root_rotated:
        yield "The root key is new: back it up, and destroy old copies of root.keyring, which open earlier copies of"
        yield "the vault."
    else:
        yield "Earlier copies of the vault still hold these keys, wrapped, and the root key opens them. To prevent"
        yield "that, replace it with `strongroom rotate root`, where the vault is."
    if done.pending:
        yield "Pending: another process is reading the vault, so its journal may still hold what was destroyed:"
        yield f"{_scrubber(run)}."
