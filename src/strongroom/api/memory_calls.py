"""The calls to a memory, and the call that renews its cap."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from strongroom.api.answer_types import Inbox, Issued, Observed, Recalled, Receipts
from strongroom.api.call import A, Call, Names
from strongroom.model import Erased, Forgotten, Listing, NewLine, Op, Profile, Receipt, Snapshot


class LineFilter(Call[A], frozen=True, kw_only=True):
    """A call that may be limited to lines which meet every given condition.

    `tags`: the line has all of them. `meta`: the line has each of these members, with an equal value. `since` is the
    earliest time that is included, `until` the earliest time that is not.
    """

    kind: str | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    turn: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Put(Call[Receipts], frozen=True, kw_only=True):
    """Remember lines, all or none. A line sent again with the same id is written once."""

    op = Op.PUT
    answer = Receipts
    path = "/v1/memory/put"
    lines: tuple[NewLine, ...]


class ReadInbox(Call[Inbox], frozen=True, kw_only=True):
    """Read the public key to which lines can be sealed while the vault is out of reach."""

    op = Op.PUT
    answer = Inbox
    method = "GET"
    path = "/v1/memory/inbox"


class Deliver(Call[Receipts], frozen=True, kw_only=True):
    """Store the lines of a sealed bundle, all or none, for the actor that the bundle names."""

    op = Op.PUT
    answer = Receipts
    path = "/v1/memory/deliver"
    sealed: bytes


class Observe(Call[Observed], frozen=True, kw_only=True):
    """Log that something was done outside the vault: its name, and a SHA-256 of its input."""

    op = Op.PUT
    answer = Observed
    path = "/v1/memory/observe"
    what: str
    digest: str


class Get(LineFilter[Recalled], frozen=True, kw_only=True):
    """Recall the best `k` lines for a query, except the ids in `without`; or exactly the lines named by `ids`.

    Only lines that match are returned, with a confidence of at least `min_confidence`. If no line matches, `or_newest`
    asks for the newest lines. `explain` says why each candidate is recalled or left out. `session` is the session in
    which the question is asked. `from_session` limits the answer to lines of one session.
    """

    op = Op.GET
    answer = Recalled
    path = "/v1/memory/get"
    query: str = ""
    k: int | None = None
    ids: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    namespaces: Names = None
    session: str | None = None
    from_session: str | None = None
    now: datetime | None = None
    patience: float | None = None
    min_confidence: float | None = None
    or_newest: bool = False
    explain: bool = False


class List(LineFilter[Listing], frozen=True, kw_only=True):
    """Read one page of lines in id order. With `texts`, the cap must also allow `get`, and the log records the lines as
    read. With `standing`, only standing instructions and preferences are listed, as the engine recognises them.
    """

    op = Op.LIST
    answer = Listing
    path = "/v1/memory/list"
    namespaces: Names = None
    session: str | None = None
    limit: int = 100
    after: str | None = None
    texts: bool = False
    standing: bool = False


class TakeSnapshot(Call[Snapshot], frozen=True, kw_only=True):
    """Read the profiles of the allowed namespaces, for a system prompt."""

    op = Op.SNAPSHOT
    answer = Snapshot
    path = "/v1/memory/snapshot"
    namespaces: Names = None


class ReadProfile(Call[Profile], frozen=True, kw_only=True):
    """Read the profile of one namespace, with its version."""

    op = Op.PROFILE
    answer = Profile
    method = "GET"
    path = "/v1/memory/profile"
    namespace: str | None = None


class WriteProfile(Call[Profile], frozen=True, kw_only=True):
    """Write a profile that is still at `version` (compare-and-swap). An empty `version`: none was written yet."""

    op = Op.PROFILE
    answer = Profile
    method = "PUT"
    path = "/v1/memory/profile"
    text: str
    namespace: str | None = None
    version: str = ""


class Forget(LineFilter[Forgotten], frozen=True, kw_only=True):
    """Forget the lines that meet every given condition. At least one condition is required."""

    op = Op.FORGET
    answer = Forgotten
    path = "/v1/memory/forget"
    ids: tuple[str, ...] | None = None
    session: str | None = None
    link: str | None = None
    namespaces: Names = None

    def __post_init__(self) -> None:
        # Every line meets a `meta` without members: it must not pass for a condition.
        if isinstance(self.meta, Mapping) and not self.meta:
            msgspec.structs.force_setattr(self, "meta", None)


class Replace(Call[Receipt], frozen=True, kw_only=True):
    """Put a line in the place of an older line, which is not recalled any more. The cap must also allow `forget`.

    A field that is not given is copied from the older line, except its time and its id. With `forget`, the older line's
    text is forgotten.
    """

    op = Op.PUT
    answer = Receipt
    path = "/v1/memory/replace"
    id: str
    text: str
    namespace: str | None = None
    new_id: str | None = None
    session: str | None = None
    author: str | None = None
    kind: str | None = None
    time: datetime | None = None
    tags: tuple[str, ...] | None = None
    meta: Mapping[str, Any] | None = None
    expires: datetime | None = None
    turn: str | None = None
    forget: bool = False


class ReadHistory(Call[Recalled], frozen=True, kw_only=True):
    """Read the stored versions of a line, oldest first: the lines that it replaced, and the lines that replaced it."""

    op = Op.GET
    answer = Recalled
    path = "/v1/memory/history"
    id: str
    namespace: str | None = None


class Erase(Call[Erased], frozen=True, kw_only=True):
    """Destroy namespaces together with their keys, or all data of the actor."""

    op = Op.ERASE
    answer = Erased
    path = "/v1/memory/erase"
    namespaces: Names = None
    everything: bool = False


class Renew(Call[Issued], frozen=True, kw_only=True):
    """Renew the cap that is shown: issue a new cap with the same scope and lifetime. The shown cap must not have
    expired.
    """

    op = Op.RENEW
    answer = Issued
    path = "/v1/caps/renew"
