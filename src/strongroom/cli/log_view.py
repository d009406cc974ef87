"""Find log entries, newest first, and show the names of caps, actors and namespaces for their links and tags."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import msgspec

from strongroom import model
from strongroom.audit import Decision, Entry
from strongroom.cli import output
from strongroom.errors import InvalidRequest, LineNotFound
from strongroom.memory.refusal_log import OTHERS
from strongroom.memory.refusal_recorder import SHOWN
from strongroom.model import CapRecord
from strongroom.vault.vault import Vault

_NAMED = 3
"""How many ids of lines are shown in a table row."""
_TOLD_APART = 6
"""How many characters at the end of a worker's id are shown. Six are enough to tell workers apart."""


_OWNERS = (
    *(
        "accept-clock",
        "accept-restore",
        "archive",
        "backup",
        "create",
        "expire",
        "index-caps",
        "migrate",
        "mint",
        "namespaces",
    ),
    *("revoke", "rotate-actor", "rotate-issuer", "rotate-root", "upgrade"),
)
OPS = frozenset(_OWNERS) | frozenset(op.value for op in model.Op) | {SHOWN}
"""Every operation that the log can name: operations of caps and of the owner, and `show` for a cap that was refused."""


class SeenEntry(msgspec.Struct, frozen=True):
    """One entry of the log, with names for its tags and links. A name is "" if the vault cannot resolve the tag."""

    index: int
    time: datetime
    op: str
    decision: str
    reason: str
    actor: str
    namespaces: list[str]
    cap: str
    links: tuple[str, ...]
    holder: str
    count: int
    lines: tuple[str, ...]
    request: str
    detail: str
    worker: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """The conditions on entries to show. An empty field or None sets no condition."""

    ops: frozenset[str] = frozenset()
    denied: bool = False
    since: int = 0
    tag: str | None = None
    line: str | None = None

    @classmethod
    def of(
        cls,
        vault: Vault,
        *,
        ops: tuple[str, ...] = (),
        denied: bool = False,
        since: datetime | None = None,
        actor: str | None = None,
        line: str | None = None,
    ) -> Filter:
        """Validate the options and make a filter.

        Raises `LineNotFound` for an actor without keys. Otherwise the answer would be empty, as if there were no
        entries.
        """
        unknown = sorted(set(ops) - OPS)
        if unknown:
            raise InvalidRequest(f"the operation {unknown[0]} is unknown", hint=f"use one of {', '.join(sorted(OPS))}")
        return cls(
            ops=frozenset(ops),
            denied=denied,
            since=0 if since is None else model.millis(since),
            tag=None if actor is None else _tag(vault, actor),
            line=None if line is None else model.line_id(line),
        )

    def means(self, entry: Entry) -> bool:
        return (
            (not self.ops or entry.op in self.ops)
            and (not self.denied or entry.decision != Decision.ALLOW)
            and entry.time >= self.since
            and (self.tag is None or entry.actor == self.tag)
            and (self.line is None or self.line in entry.lines)
        )


def _tag(vault: Vault, actor: str) -> str:
    wanted = model.actor(actor)
    for tag, name in vault.names_in_log().items():
        if name == wanted:
            return tag
    raise LineNotFound(
        "the vault has no keys for this actor, so its entries cannot be found",
        hint="check the spelling of the actor; if it is right, nothing was ever stored for it, or it was erased",
    )


def find_entries(vault: Vault, chosen: Filter, limit: int) -> tuple[list[SeenEntry], int]:
    """The newest matching entries, oldest first, and how many entries were skipped because they are archived."""
    names, caps = vault.names_in_log(), {record.link: record for record in vault.caps()}
    found: list[SeenEntry] = []
    archived = 0
    for one in vault.audit.newest():
        if one.entry is None:
            archived += 1
        elif chosen.means(one.entry):
            found.append(_seen(one.number, one.entry, one.worker, names, caps))
            if len(found) == limit:
                break
    return found[::-1], archived


def _seen(
    number: int, entry: Entry, worker: str, names: dict[str, str], caps: dict[model.LinkId, CapRecord]
) -> SeenEntry:
    return SeenEntry(
        index=number,
        time=model.moment(entry.time),
        op=entry.op,
        decision=entry.decision.value,
        reason=entry.reason,
        actor=names.get(entry.actor, ""),
        namespaces=[names.get(tag, "") for tag in entry.namespaces],
        cap=_cap(entry, caps),
        links=entry.links,
        holder=entry.holder,
        count=entry.count,
        lines=entry.lines,
        request=entry.request,
        detail=entry.detail,
        worker=worker,
    )


def _cap(entry: Entry, caps: dict[model.LinkId, CapRecord]) -> str:
    """The label of the minted cap, or the start of its link; `+n` if it was narrowed n times."""
    if not entry.links:
        return ""
    record = caps.get(entry.links[0])
    label = record.label if record is not None and record.label else entry.links[0][:16]
    return label + (f" +{len(entry.links) - 1}" if len(entry.links) > 1 else "")


def seen_row(one: SeenEntry) -> tuple[str, ...]:
    """The table row of an entry. The worker is shown if the vault has several workers."""
    return (
        f"#{one.index}",
        *([one.worker[-_TOLD_APART:]] if one.worker else ()),
        output.local(one.time),
        one.op,
        one.decision if one.decision == "allow" else f"{one.decision}: {one.reason or one.detail}",
        one.actor or "-",
        one.cap or ("-" if one.actor else "several caps" if one.decision == "deny" else "owner's keys"),
        ",".join(name or "?" for name in one.namespaces) or "-",
        _what(one),
    )


def _what(one: SeenEntry) -> str:
    if one.decision == "deny" and one.count:  # one entry that counts repeated refusals
        return f"{one.count} more{', not all of them named' if one.detail.endswith(OTHERS) else ''}"
    if not one.lines:
        return one.detail or (str(one.count) if one.count else "")
    rest = len(one.lines) - _NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return " ".join(one.lines[:_NAMED]) + more + (f" ({one.detail})" if one.detail else "")
