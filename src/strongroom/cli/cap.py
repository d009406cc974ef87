"""cap: mint, attenuate, renew, show, revoke and list.

A token is written to stdout or into a file of mode 0600. It is read from a file, the environment or stdin, and never
from an argument. With a given cap, `attenuate` and `show` need no vault. They do not verify the cap.
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import click
import msgspec

import strongroom
from strongroom.caps.authority import TTL_DEFAULT
from strongroom.caps.chain import Token, parse
from strongroom.cli import output, remote_memory
from strongroom.cli.app import Group
from strongroom.cli.argument_types import DURATION, NAMES
from strongroom.cli.cap_view import ShownCap, cap_lines, end_in_words, record_as_json, record_row, said_by
from strongroom.cli.run_context import Run, cap_options, memory_options, owner_options, pass_run, refuse_server
from strongroom.errors import CapMissing, InvalidRequest
from strongroom.model import DataClass, pluralize
from strongroom.private_files import write_file
from strongroom.vault import cap_void_reason, owner_cap

cap = Group("cap", help="Mint, narrow, renew, show, revoke and list caps: who may do what, where, and until when.")


class IssuedCap(msgspec.Struct, frozen=True):
    """A new cap, with its token or the file that the token was written to."""

    cap: ShownCap
    token: str | None
    out: str | None


@cap.command(
    "mint",
    examples=[
        "strongroom cap mint --for local/alice --ops put,get --namespaces work,travel --ttl 2h --out alice.cap",
        "strongroom cap mint --ops get,list,renew --namespaces travel --ttl 30d --label agent --out agent.cap --json",
        "strongroom cap mint --class admin --scope team/ --ops mint,revoke --namespaces work --ttl 30d --out admin.cap",
    ],
)
@click.option(
    "--for", "actor", metavar="ACTOR", help=f"The actor whose memory the cap opens; by default {owner_cap.ACTOR}."
)
@click.option(
    "--scope",
    metavar="PREFIX/",
    help="Cover all actors below a prefix; the cap opens no memory until it is narrowed to one actor.",
)
@click.option(
    "--ops",
    type=NAMES,
    required=True,
    help="Allowed operations, such as put,get,renew; for the class admin mint,revoke,audit.",
)
@click.option("--namespaces", type=NAMES, required=True, help="Allowed namespaces, such as work,travel.")
@click.option(
    "--ttl",
    type=DURATION,
    default=f"{TTL_DEFAULT // 86_400}d",
    show_default=True,
    help="How long the cap lasts: 90s, 15m, 2h, 30d or 4w; at most 400d.",
)
@click.option(
    "--class",
    "data_class",
    type=click.Choice([name.value for name in DataClass]),
    default="memory",
    show_default=True,
    help="The class of data that the cap is for.",
)
@click.option("--session", metavar="NAME", help="Limit the cap to this conversation.")
@click.option("--max-k", type=click.IntRange(1), help="The largest number of lines that a get may return.")
@click.option("--max-depth", type=click.IntRange(0), help="How many times the cap may be narrowed further.")
@click.option("--label", metavar="TEXT", help="A name for the cap, shown in lists and in the log.")
@click.option("--no-delegate", is_flag=True, help="Forbid narrowing the cap further.")
@click.option("--out", metavar="FILE", help="Write the cap into a new file of mode 0600; by default to stdout.")
@owner_options
@pass_run
def mint(
    run: Run,
    actor: str | None,
    scope: str | None,
    ops: tuple[str, ...],
    namespaces: tuple[str, ...],
    ttl: int,
    data_class: str,
    session: str | None,
    max_k: int | None,
    max_depth: int | None,
    label: str | None,
    no_delegate: bool,
    out: str | None,
) -> None:
    """Mint a cap. The log records the cap before it is printed.

    A cap with the operation renew can be renewed by its holder until it is revoked. A cap of the class admin opens no
    memory. With it, a holder mints and revokes caps through a server, for the actors and namespaces that it covers, and
    reads the log.

    This command needs the vault's keys; holders of an admin cap mint over HTTP, with POST /v1/caps/mint.
    """
    _check_free(out)
    token = run.vault().mint(
        actor=actor if actor or scope else owner_cap.ACTOR,
        actor_scope=scope,
        ops=ops,
        namespaces=namespaces,
        ttl=ttl,
        data_class=data_class,
        session=session,
        max_k=max_k,
        max_depth=max_depth,
        label=label,
        delegable=not no_delegate,
    )
    _issue(run, token, out)


@cap.command(
    "attenuate",
    examples=[
        "strongroom cap attenuate --cap-file alice.cap --ops get --namespaces travel --ttl 5m --out helper.cap",
    ],
)
@click.option("--for", "actor", metavar="ACTOR", help="Narrow a cap that covers a scope to this one actor.")
@click.option("--scope", metavar="PREFIX/", help="Narrow the scope to actors below this longer prefix.")
@click.option("--ops", type=NAMES, help="Allow only these operations.")
@click.option("--namespaces", type=NAMES, help="Allow only these namespaces.")
@click.option("--ttl", type=DURATION, help="Limit the lifetime to this time: 90s, 15m, 2h, 30d or 4w; at most 400d.")
@click.option("--session", metavar="NAME", help="Limit the cap to this conversation.")
@click.option("--max-k", type=click.IntRange(1), help="The largest number of lines that a get may return.")
@click.option("--max-depth", type=click.IntRange(0), help="How many times the cap may be narrowed further.")
@click.option("--label", metavar="TEXT", help="A name for the cap, shown in lists and in the log.")
@click.option("--no-delegate", is_flag=True, help="Forbid narrowing the cap further.")
@click.option("--out", metavar="FILE", help="Write the cap into a new file of mode 0600; by default to stdout.")
@cap_options
@pass_run
def attenuate(
    run: Run,
    actor: str | None,
    scope: str | None,
    ops: tuple[str, ...] | None,
    namespaces: tuple[str, ...] | None,
    ttl: int | None,
    session: str | None,
    max_k: int | None,
    max_depth: int | None,
    label: str | None,
    no_delegate: bool,
    out: str | None,
) -> None:
    """Narrow the given cap, or your own cap. Nothing can be widened. Narrowing a given cap needs no vault.

    The new cap ends no later than the original cap. A cap that would allow nothing is refused.
    """
    _check_free(out)
    token = strongroom.attenuate(
        run.token(),
        ttl=ttl,
        actor=actor,
        actor_scope=scope,
        ops=ops,
        namespaces=namespaces,
        session=session,
        max_k=max_k,
        max_depth=max_depth,
        label=label,
        delegable=not no_delegate,
    )
    _check_use(run.token(), token)
    _issue(run, token, out)
    if _is_cut_short(run.token(), token):
        run.note("note: the original cap ends sooner than that, so this one ends with it")


def _check_use(parent: Token, narrowed: Token) -> None:
    had, has = owner_cap.read_unverified(parent), owner_cap.read_unverified(narrowed)
    for what, before, after in (("operation", had.ops, has.ops), ("namespace", had.namespaces, has.namespaces)):
        if not after:
            raise InvalidRequest(
                f"the narrowed cap would cover no {what}",
                hint=f"the original cap covers {', '.join(sorted(before)) or 'none'}",
            )


def _is_cut_short(parent: Token, narrowed: Token) -> bool:
    asked = parse(narrowed).links[-1].claims.exp
    return asked is not None and asked > owner_cap.read_unverified(parent).exp


@cap.command(
    "renew",
    examples=[
        "strongroom cap renew --cap-file agent.cap",
        "strongroom cap renew --cap-file agent.cap --url https://memory.example.org --out next.cap",
    ],
)
@click.option("--out", metavar="FILE", help="Write the cap into a new file of mode 0600, or - for stdout.")
@memory_options
@pass_run
def renew(run: Run, out: str | None) -> None:
    """Replace the given cap by a new cap of the same scope. The new cap has the lifetime of the given cap, beginning
    now.

    The new cap replaces the old cap in its file, or goes to the file of --out. The cap must allow renew. A cap that has
    ended or was narrowed cannot be renewed. The old cap keeps working until its own end.
    """
    _check_free(out)
    if run.given is None:
        raise CapMissing(
            "no cap was given to renew",
            hint="name the cap's file with --cap-file; your own cap is renewed automatically",
        )
    token = run.memory().renew()
    if out is None and remote_memory.keep(run, token):
        shown = said_by(token)
        run.answer(IssuedCap(shown, None, str(run.cap_place)), cap_lines(shown))
    else:
        _issue(run, token, out)


@cap.command(
    "show",
    examples=[
        "strongroom cap show --cap-file helper.cap",
        "strongroom cap show --cap-file - --json < helper.cap",
    ],
)
@cap_options
@pass_run
def show(run: Run) -> None:
    """Show the claims of the given cap, or of your own cap.

    The cap is not verified. Only its use shows whether the vault accepts it.
    """
    shown = said_by(run.token())
    run.answer(shown, cap_lines(shown))


@cap.command(
    "revoke",
    examples=[
        "strongroom cap revoke --cap-file helper.cap",
        "strongroom cap revoke --for local/alice",
    ],
)
@click.argument("link", required=False)
@click.option("--for", "actor", metavar="ACTOR", help="Revoke every cap issued so far for this actor.")
@cap_options
@refuse_server
@pass_run
def revoke(run: Run, link: str | None, actor: str | None) -> None:
    """Revoke the cap with the link LINK, or the given cap, and all caps that were narrowed or renewed from it.

    `cap list` and `cap show` print links. Every process refuses the cap from its next call on.
    """
    given = run.cap_file
    if given is None:
        run.note_owners_work()
    if sum(one is not None for one in (link, actor, given)) != 1:
        raise click.UsageError("say what to revoke: a link, a --cap-file, or an actor with --for")
    if actor is not None:
        if not _is_on_record(run, actor):
            run.note(f"note: no cap for {actor} is on record")
        run.vault().revoke_actor(actor)
        run.answer({"actor": actor, "link": None}, f"revoked every cap issued so far for {actor}")
        return
    before = _standing(run)
    revoked = run.vault().revoke(run.token() if link is None else _whole_link(run, link))
    more = len(before - _standing(run) - {revoked})
    text = f"revoked {revoked}" + (f", and {pluralize(more, 'cap')} renewed or minted from it" if more else "")
    run.answer({"actor": None, "link": revoked}, text)


def _standing(run: Run) -> set[str]:
    """The links of the recorded caps that are not revoked."""
    return {record.link for record in run.vault().caps() if not record.revoked}


def _is_on_record(run: Run, actor: str) -> bool:
    """True if a cap was minted for the actor, or for a scope that contains the actor."""
    names = (record.actor for record in run.vault().caps())
    return any(name == actor or (name.endswith("/") and actor.startswith(name)) for name in names)


def _whole_link(run: Run, link: str) -> str:
    """The full link of the minted cap whose link starts with `link`; `cap list` shows the first 16 digits."""
    if not re.fullmatch("[0-9a-f]{8,64}", link):
        raise InvalidRequest(
            f"{link} is not a link: give its 64 hex digits, or at least the first 8",
            hint="`strongroom cap list` and `strongroom cap show` print links",
        )
    if len(link) == 64:
        return link
    found = [record.link for record in run.vault().caps() if record.link.startswith(link)]
    if len(found) != 1:
        raise InvalidRequest(
            f"{len(found) or 'no'} minted caps have a link that starts with {link}",
            hint="`strongroom cap list --all` shows all minted caps",
        )
    return found[0]


@cap.command(
    "list",
    examples=[
        "strongroom cap list",
        "strongroom cap list --all --json",
    ],
)
@click.option("--for", "actor", metavar="ACTOR", help="List only caps for this actor.")
@click.option(
    "--all", "everything", is_flag=True, help="Also list expired and void caps, with the time and the reason."
)
@owner_options
@pass_run
def list_caps(run: Run, actor: str | None, everything: bool) -> None:
    """List the minted caps, oldest first. Tokens are not shown, because the vault does not store them."""
    now = time.time()
    minted = list(run.vault().caps(actor))
    known = [record_as_json(one, now) for one in cap_void_reason.date(minted, run.vault().audit.newest())]
    found = [one for one in known if everything or one.void is None]
    run.answer({"caps": found}, output.table(record_row(one, now) for one in found))
    if not known:
        run.note("no caps match")
    elif len(found) < len(known):
        run.note(f"note: not shown: {pluralize(len(known) - len(found), 'cap')} expired or void; --all shows them")


def _check_free(out: str | None) -> None:
    """Raise if `out` cannot be written. The check comes before signing; otherwise a valid cap would be lost."""
    if out is None or out == "-":
        return
    if os.path.lexists(out):
        raise InvalidRequest(f"the file {out} already exists", hint="name another file")
    if not os.access(Path(out).parent, os.W_OK):
        raise InvalidRequest(
            f"no file can be written in the directory {Path(out).parent}",
            hint="name a file in a directory that you can write to",
        )


def _issue(run: Run, token: Token, out: str | None) -> None:
    shown = said_by(token)
    if out in (None, "-"):
        run.answer(IssuedCap(shown, str(token), None), str(token))
        run.note(f"a cap for {shown.actor or shown.actor_scope}, ends {end_in_words(shown.expires, time.time())}")
        return
    try:
        write_file(Path(out or ""), token.encode() + b"\n", new=True)
    except OSError as error:
        first, *narrowed = parse(token).links
        lost = f"the signed cap is lost; void it with `strongroom cap revoke {first.id[:16]}` and mint another"
        hint = "name another file" if narrowed else lost
        raise InvalidRequest(f"cannot write the file {out}: {error.strerror}", hint=hint) from None
    run.answer(IssuedCap(shown, None, out), [f"written to {output.one_line(out or '')}", *cap_lines(shown)])
