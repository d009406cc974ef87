"""The answers to calls, apart from those that are already types of `strongroom.model`."""

from __future__ import annotations

import msgspec

from strongroom.audit.entry import Entry
from strongroom.model import CapRecord, Hit, Receipt


class Receipts(msgspec.Struct, frozen=True):
    """One receipt for each line, in the order in which the lines were sent."""

    receipts: tuple[Receipt, ...]


class Recalled(msgspec.Struct, frozen=True):
    """The recalled lines, best first."""

    lines: tuple[Hit, ...]


class Inbox(msgspec.Struct, frozen=True):
    """The public key (an age recipient) to which lines can be sealed for this vault."""

    recipient: str


class Observed(msgspec.Struct, frozen=True):
    """An acknowledgement that something was logged.

    It leaves out the entry's index in the log, because the index would show how active other actors are.
    """


class Issued(msgspec.Struct, frozen=True):
    """A new cap. `link` is the id by which the cap can be revoked; `expires` is in seconds since 1970."""

    cap: str
    link: str
    expires: int

    def __repr__(self) -> str:
        return f"Issued(cap=<redacted>, link={self.link!r}, expires={self.expires})"


class Caps(msgspec.Struct, frozen=True):
    """The caps that were minted, oldest first."""

    caps: tuple[CapRecord, ...]


class Revoked(msgspec.Struct, frozen=True):
    """The ids of the links that are now revoked: the named link, and every link that was renewed or minted with it."""

    links: tuple[str, ...]


class Logged(msgspec.Struct, frozen=True):
    """One entry of the log, with its index. `entry` is None if the entry has been archived."""

    index: int
    entry: Entry | None


class Entries(msgspec.Struct, frozen=True):
    """Some entries of the log, and the number of entries in the whole log."""

    entries: tuple[Logged, ...]
    size: int


class Signed(msgspec.Struct, frozen=True):
    """A signed checkpoint (C2SP signed note) and the public key that verifies it."""

    checkpoint: str
    key: str


class Proven(msgspec.Struct, frozen=True):
    """A proof (C2SP tlog-proof) that an entry is in the log, and the public key that verifies it."""

    proof: str
    key: str


class Status(msgspec.Struct, frozen=True):
    """The state of a vault, and the namespaces that the admin cap covers. It names no actor."""

    vault: str
    version: str
    namespaces: tuple[str, ...]
    log_size: int
    shelves: int
    shelf_bytes: int
