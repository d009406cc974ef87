"""The calls with an admin cap: minting, revoking, reading the log and the state of the vault."""

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
