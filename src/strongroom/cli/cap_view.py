"""Caps for commands: the claims of a token, and the vault's record of minted caps. No secret is shown."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import msgspec

from strongroom.caps.chain import Cap, parse
from strongroom.cli import output
from strongroom.model import CapRecord, DataClass, Void, pluralize
from strongroom.vault import owner_cap


class ShownCap(msgspec.Struct, frozen=True):
    """The claims of a cap, without its signature and its key. The claims alone cannot be used as a cap."""

    actor: str | None
    actor_scope: str | None
    data_class: str
    ops: list[str]
    namespaces: list[str]
    vault: str
    issued: datetime
    starts: datetime
    expires: datetime
    expired: bool
    session: str | None
    max_k: int | None
    delegable: bool
    links_left: int
    label: str
    links: tuple[str, ...]


class Registered(msgspec.Struct, frozen=True):
    """The record of a cap minted by this vault. The vault has no record of caps that were narrowed from this cap."""

    link: str
    actor: str
    data_class: str
    ops: tuple[str, ...]
    namespaces: tuple[str, ...]
    issued: datetime
    expires: datetime
    expired: bool
    revoked: bool
    label: str
    void: str | None
    void_since: datetime | None


WHY: dict[str, str] = {
    Void.REVOKED: "revoked",
    Void.ACTOR_REVOKED: "all caps of its actor were revoked",
    Void.ISSUER_ROTATED: "the issuer key was replaced",
}


def record_as_json(record: CapRecord, now: float) -> Registered:
    """The JSON form of a cap's record. `void` is the reason why the cap is void, or `expired` if it has only ended."""
    expired = record.expires <= now
    since = record.void_since if record.void else record.expires if expired else None
    return Registered(
        record.link,
        record.actor,
        record.data_class,
        record.ops,
        record.namespaces,
        output.moment(record.issued),
        output.moment(record.expires),
        expired,
        record.revoked,
        record.label,
        record.void or ("expired" if expired else None),
        None if since is None else output.moment(since),
    )


def record_row(one: Registered, now: float) -> tuple[str, ...]:
    """The table row for the record of a cap."""
    state = end_in_words(one.expires, now)
    if one.void is not None and one.void in WHY:
        state = f"void{'' if one.void_since is None else f' since {output.local(one.void_since)}'}: {WHY[one.void]}"
    names = ",".join(one.namespaces)
    return (one.link[:16], one.actor, one.label or "-", state, f"{','.join(one.ops)} in {names or 'nothing'}")


def said_by(token: str) -> ShownCap:
    """Decode a cap offline, without verifying it."""
    chain = parse(token)
    said = owner_cap.read_unverified(token)
    return ShownCap(
        actor=said.actor,
        actor_scope=said.actor_scope,
        data_class=said.data_class,
        ops=sorted(said.ops),
        namespaces=sorted(said.namespaces),
        vault=chain.first.aud,
        issued=output.moment(said.issued),
        starts=output.moment(said.nbf),
        expires=output.moment(said.exp),
        expired=said.exp <= time.time(),
        session=said.session,
        max_k=said.max_k,
        delegable=_is_delegable(said, has_seed=chain.seed is not None),
        links_left=max(said.depth_left, 0),
        label=said.label,
        links=said.links,
    )


def _is_delegable(said: Cap, *, has_seed: bool) -> bool:
    return has_seed and said.depth_left > 0


def cap_lines(shown: ShownCap) -> Iterator[str]:
    """The lines that show a cap to people."""
    opens = (
        "every actor below it" if shown.data_class == DataClass.ADMIN else "opens nothing until narrowed to one actor"
    )
    whose = shown.actor or f"{shown.actor_scope} (a scope: {opens})"
    rows = [
        ("actor", whose),
        ("ops", ", ".join(shown.ops) or "none"),
        ("namespaces", ", ".join(shown.namespaces) or "none"),
        ("ends", f"{end_in_words(shown.expires, time.time())}  {output.local(shown.expires)}"),
        ("session", shown.session or ""),
        ("max k", str(shown.max_k or "")),
        ("class", "" if shown.data_class == "memory" else shown.data_class),
        ("label", shown.label),
        ("vault", shown.vault),
        ("narrowing", f"{pluralize(shown.links_left, 'more link')}" if shown.delegable else "not possible"),
        *(("link", link) for link in shown.links),
    ]
    yield from output.table(row for row in rows if row[1])


def end_in_words(expires: datetime, now: float) -> str:
    """When a cap ends, in words relative to `now`."""
    return output.in_words(expires.timestamp() - now)
