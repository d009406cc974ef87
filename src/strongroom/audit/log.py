"""The log of one vault: append, checkpoint, prove, archive.

An entry is durable before plaintext leaves or a put is acknowledged (write-ahead). If the entry cannot be written, the
caller gets no answer. Every commit renews a MAC over the log's head, so that entries after the last signed checkpoint
cannot be edited. The last seen checkpoint is kept outside the vault, beside the keys, so that a roll-back shows.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from strongroom.audit.entry import Entry, decode_entry, done_entry
from strongroom.crypto import merkle_log
from strongroom.crypto.hmac_state import context
from strongroom.errors import InvalidRequest, KeyUnavailable, Tampered
from strongroom.model import Millis
from strongroom.private_files import make_directory, write_file
from strongroom.store import Commit, Effect, Head, Runs, Store
from strongroom.store.fleet_contract import FleetStore

_SUBTREE = merkle_log.TILE_WIDTH


def certified_part(vault_id: str, worker: str, public: bytes) -> bytes:
    """The bytes that the vault signs to certify the public key of a worker's log."""
    return context("strongroom/worker/v1", vault_id, worker, public)


class VaultMac(merkle_log.EdgeMac):
    """Authenticates the log's head with the vault's tag key, and certifies workers' keys with the log's key.

    A store calls `sign` for each new head. `sign` is inherited from a lower layer, so that no commit calls up into this
    package.
    """

    def __init__(self, vault_id: str, tag_key: bytes, log_seed: bytes) -> None:
        super().__init__(vault_id, tag_key)
        self._vault = vault_id
        self._seed = log_seed

    def certify(self, worker: str, public: bytes) -> bytes:
        return Ed25519PrivateKey.from_private_bytes(self._seed).sign(certified_part(self._vault, worker, public))

    def done(self, done: Runs, undone: Runs, time: int) -> bytes:
        return done_entry(done, undone, Millis(time)).encoded()

    def check(self, head: Head) -> None:
        # Constant time: how much of a guessed MAC matches must not show.
        if not hmac.compare_digest(self.sign(head.size, head.peaks, head.time), head.mac):
            raise Tampered(
                "the log's head was not written by this vault",
                hint="keep the files as they are and run strongroom.verify(path), which lists every fault",
            )


class Witness:
    """Keeps the last checkpoint that the owner saw, in a file outside the vault."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """The signed checkpoint; None if no checkpoint was ever stored. KeyUnavailable if the file cannot be read."""
        try:
            return self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise KeyUnavailable(
                f"cannot read the last seen checkpoint {self.path}: {_why(error)}",
                hint="restore the file from a copy, or move it away to continue without an earlier checkpoint",
            ) from None

    def age(self) -> float | None:
        """Seconds since the checkpoint was last stored; None if no checkpoint was ever stored."""
        try:
            return max(time.time() - self.path.stat().st_mtime, 0.0)
        except OSError:
            return None

    def keep(self, note: str) -> None:
        """Replace the last seen checkpoint. The caller has verified that `note` continues that checkpoint."""
        try:
            make_directory(self.path.parent)
            write_file(self.path, note.encode(), new=False)
        except OSError as error:
            raise KeyUnavailable(
                f"cannot write the checkpoint {self.path}: {error.strerror}",
                hint="free space on the disk of that file, or allow this user to write the file",
            ) from None


class AuditLog:
    """Appends entries to the store's log, signs checkpoints of the log, and proves entries."""

    def __init__(self, store: Store, vault_id: str, log_seed: bytes, mac: VaultMac) -> None:
        self._store = store
        self._mac = mac
        self._seed = log_seed
        self.origin = f"strongroom/{vault_id}"
        self.public_key = Ed25519PrivateKey.from_private_bytes(log_seed).public_key().public_bytes_raw()

    @property
    def verifier_key(self) -> str:
        """The log's public key in the format that tools for signed notes read."""
        return merkle_log.verifier_key(self.origin, self.public_key)

    def append(self, entries: Sequence[Entry], effects: Sequence[Effect] = (), *, accept_clock: bool = False) -> Commit:
        """Commit decisions and their effects together, durably. Raises the same errors as `Store.commit`."""
        encoded = [entry.encoded() for entry in entries]
        return self._store.commit(encoded, effects, entries[0].time, accept_clock=accept_clock)

    def size(self) -> int:
        return self._store.head().size

    def entries(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[int, Entry | None]]:
        """Entries with their index. An archived entry is None."""
        size = self.size()
        for number, _, data in self._store.entries(max(start, 0), size if stop is None else min(stop, size)):
            yield number, None if data is None else decode_entry(data)

    def origin_of(self, worker: str) -> str:
        """The origin of a log, which names the log in its checkpoints.

        The origin is that of the vault; if each worker has a log, the worker's name follows.
        """
        return f"{self.origin}/{worker}" if worker else self.origin

    @property
    def worker(self) -> str:
        """The worker whose log this process writes. Empty if all processes write one log."""
        return self._store.worker if isinstance(self._store, FleetStore) else ""

    def checkpoint(self) -> str:
        """Return a signed checkpoint of the log as it is now."""
        return self._sign(self._store.head())

    def open_checkpoint(self, note: str, worker: str | None = None) -> merkle_log.Checkpoint:
        """Check a signed checkpoint of this log, or of the log of `worker`, and return it.

        Raises Tampered if it is not valid. A worker's checkpoint may have extension lines, which say how far unsettled
        entries were seen to be carried out.
        """
        origin = self.origin_of(self.worker if worker is None else worker)
        return merkle_log.open_checkpoint(note, origin, self.public_key, extended=bool(worker))

    def prove(self, index: int) -> str:
        """Return a proof, in the c2sp.org/tlog-proof format, that entry `index` is in the log."""
        note = self.checkpoint()
        size = self.open_checkpoint(note).size
        if not 0 <= index < size:
            raise InvalidRequest(f"there is no entry {index}: the log has entries 0 to {size - 1}")
        return merkle_log.Proof(index, tuple(merkle_log.inclusion_proof(self.read_range, index, size)), note).text()

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Return a proof that the log with `new` entries continues the log with `old` entries."""
        return merkle_log.consistency_proof(self.read_range, old, new)

    def read_range(self, low: int, high: int) -> bytes:
        """The tree hash of the leaves from `low` up to, but not including, `high`."""
        leaves = [leaf for _, leaf, _ in self._store.entries(low, high)]
        if len(leaves) != high - low:
            raise Tampered("the log has lost entries", hint="run vault.audit.verify(), which lists every fault")
        return merkle_log.tree_hash(leaves)

    def export(self, directory: Path) -> int:
        """Write the log as tlog-tiles: entry bundles, tiles and a signed checkpoint. Returns the number of entries."""
        head = self._store.head()
        note = self._sign(head)
        leaves: list[bytes] = []
        for start in range(0, head.size, _SUBTREE):
            rows = list(self._store.entries(start, min(start + _SUBTREE, head.size)))
            leaves += [leaf for _, leaf, _ in rows]
            bodies = [entry for _, _, entry in rows if entry is not None]
            if len(bodies) == len(rows):  # an archived bundle is already in the archive
                _write_tile(directory, "entries", start // _SUBTREE, merkle_log.bundle(bodies), len(rows))
        for level in range(64):
            for start in range(0, len(leaves), _SUBTREE):
                tile = leaves[start : start + _SUBTREE]
                _write_tile(directory, str(level), start // _SUBTREE, b"".join(tile), len(tile))
            whole = len(leaves) // _SUBTREE
            leaves = [merkle_log.tree_hash(leaves[n * _SUBTREE : (n + 1) * _SUBTREE]) for n in range(whole)]
            if not leaves:
                break
        write_file(directory / "checkpoint", note.encode(), new=False)
        return head.size

    def sign(self, checked: merkle_log.Checkpoint) -> str:
        """Sign a checkpoint that the caller has verified."""
        return merkle_log.sign_checkpoint(checked, self._seed)

    def _sign(self, head: Head) -> str:
        self._mac.check(head)  # a signature would make others trust a forged head
        return self.sign(
            merkle_log.Checkpoint(
                self.origin_of(self.worker), head.size, merkle_log.Range.of(head.size, head.peaks).root()
            )
        )


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not text"


def bundle_path(directory: Path, number: int) -> Path:
    """The path of a full entry bundle in an exported log."""
    return directory / "tile" / "entries" / merkle_log.tile_path(number)


def _write_tile(directory: Path, level: str, number: int, data: bytes, width: int) -> None:
    path = directory / "tile" / level / merkle_log.tile_path(number)
    if width < _SUBTREE:
        path = path.with_name(path.name + ".p") / str(width)
    make_directory(path.parent)
    write_file(path, data, new=False)
