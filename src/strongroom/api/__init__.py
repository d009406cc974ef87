"""The types that travel between a caller and a vault: a struct for each call, for each answer, and for errors.

The embedded vault, the HTTP server, the MCP tools and the client share these types. The package is pure: no transport,
no I/O. No memory call has an actor field: the cap alone says whose memory it is. A `Mint` call names the actor of the
new cap, and the vault checks that the admin cap covers this actor.
"""

from __future__ import annotations

from typing import Any

from strongroom.api.administration import ListCaps, Mint, Prove, ReadEntries, ReadStatus, Revoke, SignCheckpoint
from strongroom.api.answer_types import (
    Caps,
    Entries,
    Inbox,
    Issued,
    Logged,
    Observed,
    Proven,
    Recalled,
    Receipts,
    Revoked,
    Signed,
    Status,
)
from strongroom.api.call import A, Call, Names, Transport
from strongroom.api.document_calls import (
    DeleteDocument,
    ListDocuments,
    ReadDocument,
    ReadDocumentHistory,
    RenameDocument,
    WriteDocument,
)
from strongroom.api.memory_calls import (
    Deliver,
    Erase,
    Forget,
    Get,
    LineFilter,
    List,
    Observe,
    Put,
    ReadHistory,
    ReadInbox,
    ReadProfile,
    Renew,
    Replace,
    TakeSnapshot,
    WriteProfile,
)
from strongroom.api.refusal import STATUS, Refusal

__all__ = [
    "CALLS",
    "STATUS",
    "A",
    "Call",
    "Caps",
    "DeleteDocument",
    "Deliver",
    "Entries",
    "Erase",
    "Forget",
    "Get",
    "Inbox",
    "Issued",
    "LineFilter",
    "List",
    "ListCaps",
    "ListDocuments",
    "Logged",
    "Mint",
    "Names",
    "Observe",
    "Observed",
    "Prove",
    "Proven",
    "Put",
    "ReadDocument",
    "ReadDocumentHistory",
    "ReadEntries",
    "ReadHistory",
    "ReadInbox",
    "ReadProfile",
    "ReadStatus",
    "Recalled",
    "Receipts",
    "Refusal",
    "RenameDocument",
    "Renew",
    "Replace",
    "Revoke",
    "Revoked",
    "SignCheckpoint",
    "Signed",
    "Status",
    "TakeSnapshot",
    "Transport",
    "WriteDocument",
    "WriteProfile",
]

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
    ReadDocument,
    WriteDocument,
    ListDocuments,
    DeleteDocument,
    RenameDocument,
    ReadDocumentHistory,
    Forget,
    Replace,
    ReadHistory,
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
"""The type of every call. A server has a route for each of them."""
