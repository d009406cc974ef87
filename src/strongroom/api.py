"""The types that travel between a caller and a vault: a struct for each call and each answer, and one for errors.

The embedded vault, the HTTP server, the MCP tools and the client share these types. Pure: no transport, no I/O. No
memory call has an actor field: the cap alone says whose memory it is. A mint names the actor of the new cap, and the
vault checks it against what the minting cap covers.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from strongroom.audit.entry import Entry
from strongroom.errors import BY_REASON, CapRevoked, ServerDefect, StrongroomError
from strongroom.model import (
    CapRecord,
    DataClass,
    Erased,
    Forgotten,
    Hit,
    Listing,
    NewLine,
    Op,
    Profile,
    Receipt,
    Snapshot,
)

A = TypeVar("A")

Names = tuple[str, ...] | None
"""Namespaces; None stands for all of the cap's."""


class Call(msgspec.Struct, Generic[A], frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call to a vault. `A` is the type of its answer, the same as `answer`.

    `op` and `data_class` are what the cap must allow; `method` and `path` are its HTTP route.
    """

    op: ClassVar[Op]
    data_class: ClassVar[DataClass] = DataClass.MEMORY
    answer: ClassVar[type[msgspec.Struct]]
    method: ClassVar[str] = "POST"
    path: ClassVar[str]


class Transport(Protocol):
    """Carries calls into a vault in this process, or to a server. Thread-safe.

    Raises the errors of `strongroom.errors`, the same ones wherever the vault is.
    """

    def call(self, call: Call[A]) -> A: ...

    def with_cap(self, token: str) -> Transport:
        """A transport to the same place under another cap. Shares open connections, and does not renew that cap."""
        ...


# Answers that the model has no word for.


class Receipts(msgspec.Struct, frozen=True):
    """One receipt for each line, in the order given."""

    receipts: tuple[Receipt, ...]


class Recalled(msgspec.Struct, frozen=True):
    """The recalled lines, best first."""

    lines: tuple[Hit, ...]


class Inbox(msgspec.Struct, frozen=True):
    """The public key (an age recipient) to which lines can be sealed for this vault."""

    recipient: str


class Observed(msgspec.Struct, frozen=True):
    """An acknowledgement: it is logged. The index is withheld, because it would tell of others' activity."""


class Issued(msgspec.Struct, frozen=True):
    """A new cap. `link` is its id for revoking it; `expires` is in seconds since 1970."""

    cap: str
    link: str
    expires: int

    def __repr__(self) -> str:
        return f"Issued(cap=<redacted>, link={self.link!r}, expires={self.expires})"


class Caps(msgspec.Struct, frozen=True):
    """The caps that were minted, oldest first."""

    caps: tuple[CapRecord, ...]


class Revoked(msgspec.Struct, frozen=True):
    """The links that are now revoked: the one named, and those renewed or minted with it."""

    links: tuple[str, ...]


class Logged(msgspec.Struct, frozen=True):
    """One entry of the log, with its index. `entry` is None where it has been archived."""

    index: int
    entry: Entry | None


class Entries(msgspec.Struct, frozen=True):
    """Some entries of the log, and the log's size."""

    entries: tuple[Logged, ...]
    size: int


class Signed(msgspec.Struct, frozen=True):
    """A signed checkpoint (C2SP signed note) and the key to check it with."""

    checkpoint: str
    key: str


class Proven(msgspec.Struct, frozen=True):
    """A proof (C2SP tlog-proof) that an entry is in the log, and the key to check it with."""

    proof: str
    key: str


class Status(msgspec.Struct, frozen=True):
    """The state of a vault, and the namespaces that the admin cap covers. Nothing in it tells of an actor."""

    vault: str
    version: str
    namespaces: tuple[str, ...]
    log_size: int
    shelves: int
    shelf_bytes: int


# The memory's calls.


class Put(Call[Receipts], frozen=True, kw_only=True):
    """Remember lines, all or none. A line sent again with the same id is written once."""

    op = Op.PUT
    answer = Receipts
    path = "/v1/memory/put"
    lines: tuple[NewLine, ...]


class ReadInbox(Call[Inbox], frozen=True, kw_only=True):
    """The key to seal lines to while the vault is out of reach."""

    op = Op.PUT
    answer = Inbox
    method = "GET"
    path = "/v1/memory/inbox"


class Deliver(Call[Receipts], frozen=True, kw_only=True):
    """Remember the lines of a sealed bundle, all or none: a put of its content, for the actor that it names."""

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


class Get(Call[Recalled], frozen=True, kw_only=True):
    """Recall the best `k` lines for a query, except those in `without`; or exactly the lines named by `ids`."""

    op = Op.GET
    answer = Recalled
    path = "/v1/memory/get"
    query: str = ""
    k: int | None = None
    ids: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    namespaces: Names = None
    session: str | None = None
    now: datetime | None = None
    patience: float | None = None


class List(Call[Listing], frozen=True, kw_only=True):
    """One page of lines without their texts, in id order."""

    op = Op.LIST
    answer = Listing
    path = "/v1/memory/list"
    namespaces: Names = None
    session: str | None = None
    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 100
    after: str | None = None


class TakeSnapshot(Call[Snapshot], frozen=True, kw_only=True):
    """The allowed profiles, for a system prompt."""

    op = Op.SNAPSHOT
    answer = Snapshot
    path = "/v1/memory/snapshot"
    namespaces: Names = None


class ReadProfile(Call[Profile], frozen=True, kw_only=True):
    """The profile of one namespace, with its version."""

    op = Op.PROFILE
    answer = Profile
    method = "GET"
    path = "/v1/memory/profile"
    namespace: str | None = None


class WriteProfile(Call[Profile], frozen=True, kw_only=True):
    """Write a profile that is still at `version` (compare-and-swap; empty: none was written yet)."""

    op = Op.PROFILE
    answer = Profile
    method = "PUT"
    path = "/v1/memory/profile"
    text: str
    namespace: str | None = None
    version: str = ""


class Forget(Call[Forgotten], frozen=True, kw_only=True):
    """Forget the lines that meet every condition given. At least one condition is required."""

    op = Op.FORGET
    answer = Forgotten
    path = "/v1/memory/forget"
    ids: tuple[str, ...] | None = None
    session: str | None = None
    link: str | None = None
    namespaces: Names = None
    since: datetime | None = None
    until: datetime | None = None


class Erase(Call[Erased], frozen=True, kw_only=True):
    """Destroy namespaces with their keys, or everything of the actor."""

    op = Op.ERASE
    answer = Erased
    path = "/v1/memory/erase"
    namespaces: Names = None
    everything: bool = False


class Renew(Call[Issued], frozen=True, kw_only=True):
    """A new cap with the scope and the lifetime of the one shown. Only before that one ends."""

    op = Op.RENEW
    answer = Issued
    path = "/v1/caps/renew"


# The administration's calls.


class Mint(Call[Issued], frozen=True, kw_only=True):
    """Sign a cap for memory, within the actors and namespaces that the admin cap covers."""

    op = Op.MINT
    data_class = DataClass.ADMIN
    answer = Issued
    path = "/v1/caps/mint"
    ops: tuple[str, ...]
    namespaces: tuple[str, ...]
    actor: str | None = None
    actor_scope: str | None = None
    ttl: int = 300
    session: str | None = None
    max_k: int | None = None
    max_depth: int | None = None
    label: str | None = None
    delegable: bool = True


class ListCaps(Call[Caps], frozen=True, kw_only=True):
    """The minted caps of the actors that the admin cap covers."""

    op = Op.MINT
    data_class = DataClass.ADMIN
    answer = Caps
    path = "/v1/caps/list"


class Revoke(Call[Revoked], frozen=True, kw_only=True):
    """Revoke a cap for memory, and all that were narrowed, renewed or minted from it."""

    op = Op.REVOKE
    data_class = DataClass.ADMIN
    answer = Revoked
    path = "/v1/caps/revoke"
    link: str


class ReadEntries(Call[Entries], frozen=True, kw_only=True):
    """Entries of the log from `start` on. They hold tags, never texts, nor the names of actors and namespaces."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Entries
    path = "/v1/audit/entries"
    start: int = 0
    limit: int = 100


class SignCheckpoint(Call[Signed], frozen=True, kw_only=True):
    """A signed checkpoint of the log as it is now."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Signed
    path = "/v1/audit/checkpoint"


class Prove(Call[Proven], frozen=True, kw_only=True):
    """A proof that one entry is in the log."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Proven
    path = "/v1/audit/prove"
    index: int


class ReadStatus(Call[Status], frozen=True, kw_only=True):
    """The state of the vault."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Status
    path = "/v1/status"


CALLS: tuple[type[Call[Any]], ...] = (
    Put,
    ReadInbox,
    Deliver,
    Observe,
    Get,
    List,
    TakeSnapshot,
    ReadProfile,
    WriteProfile,
    Forget,
    Erase,
    Renew,
    Mint,
    ListCaps,
    Revoke,
    ReadEntries,
    SignCheckpoint,
    Prove,
    ReadStatus,
)
"""Every call. A server has a route for each."""


# Errors.


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it travels: its family, its stable reason, a sentence, and a hint if there is one."""

    error: str
    reason: str
    message: str
    hint: str = ""
    erased: bool = False
    """Of `cap_revoked`: whether everything of the actor is gone, as after an erasure."""

    @classmethod
    def of(cls, error: StrongroomError) -> Refusal:
        erased = isinstance(error, CapRevoked) and error.erased
        return cls(error.family, error.reason, error.message, error.hint, erased)

    def raised(self) -> StrongroomError:
        """The exception that the vault raised on the other side."""
        error = BY_REASON.get(self.reason, ServerDefect)(self.message, hint=self.hint)
        if isinstance(error, CapRevoked):
            error.erased = self.erased
        return error


STATUS: Mapping[str, int] = {
    "invalid_request": 400,
    "line_too_large": 400,
    "too_many": 400,
    "unknown_namespace": 400,
    "cap_missing": 401,
    "cap_malformed": 401,
    "cap_signature_invalid": 401,
    "cap_holder_proof": 401,
    "cap_audience": 401,
    "cap_expired": 401,
    "cap_not_yet_valid": 401,
    "cap_revoked": 401,
    "cap_op_mismatch": 403,
    "cap_data_class_mismatch": 403,
    "cap_namespace_denied": 403,
    "cap_limit_exceeded": 403,
    "origin_refused": 403,
    "not_found": 404,
    "unknown_route": 404,
    "method_refused": 405,
    "request_too_slow": 408,
    "line_conflict": 409,
    "version_conflict": 412,
    "body_too_large": 413,
    "media_type_refused": 415,
    "host_refused": 421,
    "rate_limited": 429,
    "headers_too_large": 431,
    "tampered": 500,
    "server_defect": 500,
    "audit_unavailable": 503,
    "store_unavailable": 503,
    "key_unavailable": 503,
    "clock_behind": 503,
    "server_unavailable": 503,
}
"""The HTTP status of each reason that a server can give. Those of creating and opening a vault never travel."""
