"""The answers that the model has no word for."""

from __future__ import annotations

import msgspec

from strongroom.audit.entry import Entry
from strongroom.model import CapRecord, Hit, Receipt


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
