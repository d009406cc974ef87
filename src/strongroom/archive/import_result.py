"""What an import did: counts, and the names of what it left as it was.

Nothing that a vault has is ever overwritten by an import, so whatever differs is named here.
"""

from __future__ import annotations

import msgspec

from strongroom.model import LineId, Namespace


class ImportResult(msgspec.Struct):
    """What an import did. Conflicts are what the vault has another of under the same name; it kept its own."""

    put: int = 0
    there: int = 0
    forgotten: int = 0
    expired: int = 0
    """Lines that were skipped because their expiry has passed."""
    conflicts: list[tuple[Namespace, LineId]] = msgspec.field(default_factory=list)
    """Lines, by namespace and id."""
    profiles_put: int = 0
    profiles_there: int = 0
    profile_conflicts: list[Namespace] = msgspec.field(default_factory=list)
    profiles_left: int = 0
    """Profiles that were skipped because the cap does not allow writing them."""
    documents_put: int = 0
    documents_there: int = 0
    documents_forgotten: int = 0
    """Documents that were skipped because the vault had one under the key, which is deleted, renamed or has expired."""
    documents_expired: int = 0
    """Documents that were skipped because their expiry has passed."""
    document_conflicts: list[tuple[Namespace, str]] = msgspec.field(default_factory=list)
    """Documents, by namespace and key."""
    documents_left: int = 0
    """Documents that were skipped because the cap does not allow reading and writing them."""

    @property
    def whole(self) -> bool:
        """Whether there were no conflicts."""
        return not (self.conflicts or self.profile_conflicts or self.document_conflicts)
