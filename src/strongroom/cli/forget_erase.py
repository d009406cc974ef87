"""forget and erase: lines that are gone, and keys that are destroyed. Both ask before they take more than was named."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click
import msgspec

from strongroom import settings
from strongroom.cli import owner_cap
from strongroom.cli.app import command
from strongroom.cli.argument_types import MOMENT, NAMESPACE
from strongroom.cli.line_view import Filters, page
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.model import LIST_LIMIT, Forgotten, pluralize


@command(
    examples=[
        "strongroom forget 01JABCDEFGHJKMNPQRSTVWXYZ0",
        "strongroom forget --session monday --yes",
        "strongroom forget --namespace travel --until 2020-01-01 --yes --json",
    ]
)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("-n", "--namespace", "namespaces", type=NAMESPACE, multiple=True, help="Only here; may be repeated.")
@click.option("--session", metavar="NAME", help="Lines of this conversation.")
@click.option("--link", metavar="LINK", help="Lines written with the cap of this link, or one narrowed from it.")
@click.option("--since", type=MOMENT, help="Lines from this moment on.")
@click.option("--until", type=MOMENT, help="Lines before this moment.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@memory_options
@pass_run
def forget(
    run: Run,
    ids: tuple[str, ...],
    namespaces: tuple[str, ...],
    session: str | None,
    link: str | None,
    since: datetime | None,
    until: datetime | None,
    yes: bool,
) -> None:
    """Forget the lines that meet every condition given, for good.

    Their ids cannot be used again. Lines chosen by anything but their ids are counted first, and you are asked.
    """
    if not (ids or namespaces or session or link or since or until):
        raise click.UsageError("say what to forget; to destroy everything, use erase")
    if not ids and not yes:
        count = _count(run, Filters(namespaces, session, since=since, until=until), link)
        run.confirm(f"This forgets {pluralize(count, 'line')}.", yes=False)
    done = run.ask(
        lambda memory: memory.forget(
            ids=ids or None,
            session=session,
            link=link,
            namespaces=namespaces or None,
            since=since,
            until=until,
        )
    )
    run.answer(done, f"{pluralize(len(done.ids), 'line')} forgotten")
    _note_forgotten(run, done)


def _count(run: Run, filters: Filters, link: str | None) -> int:
    count, after = 0, None
    while True:
        found = page(run, filters, LIST_LIMIT, after)
        count += sum(link is None or link in line.provenance.links for line in found.lines)
        after = found.next
        if after is None:
            return count


def _note_forgotten(run: Run, done: Forgotten) -> None:
    for name in done.missing:
        run.note(f"warning: {name} was not there")
    if not done.scrubbed:
        run.note(
            "warning: old ciphertext may still wait: in a bucket until packs are rewritten, within a minute, and for "
            "good where it keeps versions; in a file while another process is reading the vault: when that has "
            f"finished, {_scrubber(run)}"
        )


def _scrubber(run: Run) -> str:
    """What removes the bytes of deleted objects whose scrub was put off."""
    return f"{run.command('doctor')} removes it" if run.server is None else "the server removes it within a minute"


class Destroyed(msgspec.Struct, frozen=True):
    """What erase did. `pending` until no file of the vault holds the destroyed keys any more."""

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
@click.option("--everything", is_flag=True, help="The whole memory, its keys, and every cap issued for it so far.")
@click.option("--rotate-root", is_flag=True, help="Replace the root key too, so that it opens no earlier copy.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@memory_options
@pass_run
def erase(run: Run, namespaces: tuple[str, ...], everything: bool, rotate_root: bool, yes: bool) -> None:
    """Destroy whole namespaces with their keys, so that nothing is left to open.

    It is the memory of the cap's own actor that is erased.
    """
    if everything == bool(namespaces):
        raise click.UsageError("name the namespaces to erase, or say --everything")
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
    """Before anything is destroyed: keys that cannot be rotated raise here."""
    with settings.keys_of(run.vault().id, run.passphrase).rotating():
        pass


def _promises(run: Run, done: Destroyed, *, own: bool) -> Iterator[str]:
    what = "everything" if done.everything else ", ".join(done.namespaces)
    yield f"erased {what} of {done.actor}: {pluralize(done.objects, 'object')}"
    yield "Its keys are destroyed: nothing in this vault opens those lines again."
    if done.everything:
        again = "; you get a new one of your own with your next command." if own else ", this one as well."
        yield f"Every cap issued for this actor so far is void{again}"
    if done.root_rotated:
        yield "The root key is new: destroy old copies of root.keyring, which open earlier copies of the vault,"
        yield "and back up the new one."
    else:
        yield "A copy of the vault made earlier still holds the wrapped keys, and the root key opens them:"
        yield "--rotate-root replaces it, where the vault is."
    if done.pending:
        yield "Pending: another process is reading the vault, so the destroyed keys may still wait in its journal."
        yield f"When that has finished, {_scrubber(run)}."
