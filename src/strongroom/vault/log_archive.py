"""Moves the oldest entries of a log into entry bundles outside the vault, and keeps a summary of their effects.

The summary is one of the vault's records, so that the vault can be verified without the archived entries.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from strongroom.audit.entry import decode_entry
from strongroom.audit.verifier import Expected
from strongroom.crypto import merkle_log
from strongroom.errors import StoreUnavailable, Tampered
from strongroom.memory import DecisionRecorder
from strongroom.memory.vault_records import ARCHIVED
from strongroom.store import Lost, PutNew, Swap


class LogArchive:
    """The archived entries of one log."""

    def __init__(self, clerk: DecisionRecorder) -> None:
        self._clerk = clerk
        self._state = clerk.state

    def summary(self) -> Expected | None:
        """The state of the objects according to the archived entries; None if no entries were archived.

        Raises `Tampered` if the summary is damaged.
        """
        stored = self._state.store.get(ARCHIVED)
        if stored is None or stored.body is None:
            return None
        try:
            return msgspec.json.decode(stored.body, type=Expected)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Tampered("the summary of archived entries is damaged") from None

    def move(self, directory: Path, size: int) -> int:
        """Move those of the first `size` entries that fill whole entry bundles. Returns the number of entries moved.

        The log must have been verified. If a call is interrupted at any point, the next call finishes its work.
        """
        expected = self.summary() or Expected(0, {})
        before = expected.size
        # Finish an interrupted run, which had written and recorded entries but not dropped them.
        self._state.store.archive(before)
        stop = size // merkle_log.TILE_WIDTH * merkle_log.TILE_WIDTH
        if stop <= before:
            return 0
        try:
            self._state.log.export(directory)
            self._check_bundles(directory, expected, stop)
            stored = self._state.store.get(ARCHIVED)
            body = expected.encoded()
            effect = PutNew(ARCHIVED, body) if stored is None else Swap(ARCHIVED, body, stored.version)
            self._clerk.admin.record_owner("archive", [effect], detail=f"entries before {stop}")
        except OSError as error:
            raise StoreUnavailable(f"the archive of the log cannot be written or read back: {error}") from None
        except Lost:
            raise StoreUnavailable("another process is archiving entries of this log", hint="try again") from None
        self._state.store.archive(stop)
        if not self._state.store.scrub():
            raise StoreUnavailable(
                "the entries were archived, but another process reads the vault, so its journal may still hold them",
                hint="wait for that process; then run vault.scrub(), or `strongroom doctor`, to empty the journal",
            )
        return stop - before

    def _check_bundles(self, directory: Path, expected: Expected, stop: int) -> None:
        """Read the written entry bundles back and compare them with the tree's hashes, before any entry is dropped."""
        bundles: list[bytes] = []
        for number, leaf, _ in self._state.store.entries(expected.size, stop):
            if number % merkle_log.TILE_WIDTH == 0:
                path = directory / "tile" / "entries" / merkle_log.tile_path(number // merkle_log.TILE_WIDTH)
                bundles = merkle_log.unbundle(path.read_bytes())
            entry = bundles[number % merkle_log.TILE_WIDTH] if len(bundles) == merkle_log.TILE_WIDTH else b""
            if merkle_log.leaf_hash(entry) != leaf:
                raise Tampered("a bundle of archived entries read back with other bytes than were written")
            expected.apply(decode_entry(entry))
        expected.size = stop
