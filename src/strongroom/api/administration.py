"""The calls with an admin cap: minting and revoking caps, reading the log, and reading the state of the vault."""

from __future__ import annotations

from strongroom.api.answer_types import Caps, Entries, Issued, Proven, Revoked, Signed, Status
from strongroom.api.call import Call
from strongroom.caps.authority import TTL_DEFAULT
from strongroom.model import DataClass, Op


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
    ttl: int = TTL_DEFAULT
    session: str | None = None
    max_k: int | None = None
    max_depth: int | None = None
    label: str | None = None
    delegable: bool = True


class ListCaps(Call[Caps], frozen=True, kw_only=True):
    """List the minted caps of the actors that the admin cap covers."""

    op = Op.MINT
    data_class = DataClass.ADMIN
    answer = Caps
    path = "/v1/caps/list"


class Revoke(Call[Revoked], frozen=True, kw_only=True):
    """Revoke a cap for memory, and every cap that was narrowed, renewed or minted from it."""

    op = Op.REVOKE
    data_class = DataClass.ADMIN
    answer = Revoked
    path = "/v1/caps/revoke"
    link: str


class ReadEntries(Call[Entries], frozen=True, kw_only=True):
    """Read entries of the log, from the index `start` on.

    Entries name actors and namespaces by keyed hashes only, and hold no texts.
    """

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Entries
    path = "/v1/audit/entries"
    start: int = 0
    limit: int = 100


class SignCheckpoint(Call[Signed], frozen=True, kw_only=True):
    """Ask for a signed checkpoint of the log as it is now."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Signed
    path = "/v1/audit/checkpoint"


class Prove(Call[Proven], frozen=True, kw_only=True):
    """Ask for a proof that one entry is in the log."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Proven
    path = "/v1/audit/prove"
    index: int


class ReadStatus(Call[Status], frozen=True, kw_only=True):
    """Read the state of the vault."""

    op = Op.AUDIT
    data_class = DataClass.ADMIN
    answer = Status
    path = "/v1/status"
