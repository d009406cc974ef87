"""Backup and restore: a copy of a vault's sealed store, and of its keys behind a passphrase, each on its own.

A backup is a directory with the store as it stood at one moment and the log's signed checkpoint of that moment. The
keys are not in it. It is on record before it is made, so the log says that copies exist.

What comes back with an older backup: lines forgotten, actors erased and caps revoked since then. It opens with the
root key of its time; after `rotate_root` only a copy of the old keys opens it. Nothing here deletes or overwrites a
vault or a key.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from strongroom.audit.log import Witness
from strongroom.audit.verifier import Finding, Flaw, Progress, VerificationReport
from strongroom.crypto.passphrase_file import lock, unlock
from strongroom.errors import (
    InvalidRequest,
    KeyUnavailable,
    StoreUnavailable,
    StrongroomError,
    Tampered,
    VaultExists,
    VaultMissing,
)
from strongroom.keys import FileKeys, Keyring, KeySource, default_directory
from strongroom.memory import system_clock
from strongroom.private_files import make_directory
from strongroom.store import backend
from strongroom.store.sqlite_copy import fetch
from strongroom.vault import create_open
from strongroom.vault.create_open import Clock, Location

_CHECKPOINT = "checkpoint"
_CHECKPOINT_LIMIT = 4096
_LOCKS = ("vault.turn", "vault.lock")
_ROLLBACKS = {Flaw.LOG_ROLLED_BACK, Flaw.LOG_FORKED}
_KEYS_FORMAT = "strongroom-keys"
_ENGINE = "recency"  # nothing is ranked here, so the one that loads fastest


class Backup(msgspec.Struct, frozen=True):
    """A backup that was made and verified: whose, and how far its log goes."""

    vault: str
    size: int
    root: str
    objects: int


class Restored(msgspec.Struct, frozen=True):
    """A vault that was restored. Without keys there is no report: it was copied as it is."""

    vault: str
    report: VerificationReport | None

    @property
    def rolled_back(self) -> bool:
        """Whether the log is behind what was seen, so that `vault.audit.accept_restore()` is due."""
        return self.report is not None and any(one.flaw in _ROLLBACKS for one in self.report.findings)


def backup(
    location: Location,
    target: str | os.PathLike[str],
    *,
    keys: KeySource | None = None,
    witness: Witness | None = None,
    now: Clock = system_clock,
    copying: Progress | None = None,
    verifying: Progress | None = None,
) -> Backup:
    """Copy a vault that others may be using into a new directory, and verify the copy.

    Needs the keys, to sign and to verify. A copy with any flaw is Tampered, and none is left. VaultExists if `target`
    is there.
    """
    place = Path(target)
    check_free(place)
    with create_open.open(location, keys=keys, engine=_ENGINE, witness=witness, now=now) as vault:
        vault._clerk.admin.record_owner("backup")
        note = vault.audit.checkpoint()
        vault_id = vault.id
    used, where = backend(os.fspath(location))
    with _draft_of(place) as draft:
        used.copy(where, str(draft), copying)
        # What the owner has seen may move on meanwhile; the copy continues what it was then.
        Witness(draft / _CHECKPOINT).keep(note)
        report = create_open.verify(draft, keys=keys, witness=Witness(draft / _CHECKPOINT), progress=verifying)
        if not report.ok:
            raise Tampered(
                f"the vault has a flaw, so there is no backup: {report.findings[0].flaw}",
                hint="vault.audit.verify() names what is wrong",
            )
    with suppress(StrongroomError):  # the backup is there, even if that cannot be written down
        vault.audit.keep_backup(note)
    return Backup(vault_id, report.size, report.root, report.objects)


def restore(
    source: str | os.PathLike[str],
    location: Location,
    *,
    keys: KeySource | None = None,
    witness: Witness | None = None,
    copying: Progress | None = None,
    verifying: Progress | None = None,
) -> Restored:
    """Copy a backup to where there is no vault yet, and verify it if its keys are there.

    A flaw other than a roll-back is Tampered, and nothing is restored. VaultExists if something is there: move it away
    first. A log behind what was seen counts as rolled back until `vault.audit.accept_restore()`.
    """
    used, where = backend(os.fspath(location))
    place = Path(where)
    check_free(place)
    with _draft_of(place) as draft:
        with _fetched(Path(source), draft.parent) as private:
            used.copy(str(private), str(draft), copying)
        vault_id = create_open.identify(draft)
        report = None
        if _keys_there(vault_id, keys):
            held = keys if keys is not None else FileKeys(default_directory(vault_id))
            seen = create_open._witness(witness, held, vault_id)
            report = create_open.verify(draft, keys=keys, witness=seen, progress=verifying)
            others = [one for one in report.findings if one.flaw not in _ROLLBACKS]
            if others:
                raise _refused(others[0], seen)
    return Restored(vault_id, report)


def _refused(finding: Finding, seen: Witness) -> Tampered:
    if finding.flaw == Flaw.WITNESS_INVALID:
        return Tampered(
            f"{seen.path} is no checkpoint of this vault, so the backup was not restored",
            hint="put back a copy of it; without one, move it away: then nothing counts as seen",
        )
    return Tampered(
        f"the backup has a flaw, so it was not restored: {finding.flaw}", hint="use another backup, and keep this one"
    )


def backup_of(source: str | os.PathLike[str]) -> str:
    """The id of the vault that a backup says to be of; a backup may lie on a disk that cannot be written."""
    found = re.fullmatch(r"strongroom/([0-9a-f]{16})", _origin(Path(source) / _CHECKPOINT))
    if found:
        return found[1]
    with _fetched(Path(source)) as private:
        return create_open.identify(private)


def _origin(checkpoint: Path) -> str:
    """The first line of a checkpoint; empty if there is none. The directory may be anybody's work."""
    try:
        handle = os.open(checkpoint, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_CHECKPOINT_LIMIT).decode().partition("\n")[0] if regular else ""
    except (OSError, UnicodeDecodeError):
        return ""


@contextmanager
def _fetched(source: Path, beside: Path | None = None) -> Iterator[Path]:
    """A private copy of a backup's database: nothing else in its directory is believed, or opened."""
    with tempfile.TemporaryDirectory(prefix=".strongroom-", dir=beside) as directory:
        private = Path(directory)
        try:
            fetch(source, private)
        except FileNotFoundError:
            raise VaultMissing(f"there is no backup in {source}") from None
        except OSError as error:
            raise StoreUnavailable(f"cannot read the backup in {source}: {error.strerror}") from None
        yield private


def move_away(location: Location, *, stamp: str) -> Path:
    """Rename a vault's directory, so that another can take its place. Nothing is deleted."""
    place = Path(os.fspath(location))
    moved = place.with_name(f"{place.name}.before-restore-{stamp}")
    try:
        if not place.is_dir():
            raise VaultMissing(f"there is no vault in {place}")
        if moved.exists():
            raise InvalidRequest(f"{moved} is there already", hint="move it away first")
        place.rename(moved)
    except OSError as error:
        raise StoreUnavailable(f"cannot move {place} away: {error.strerror}") from None
    return moved


def _keys_there(vault_id: str, keys: KeySource | None) -> bool:
    """Whether there are keys to verify with. Keys that are named must be there; the default ones may be missing."""
    if keys is not None:
        keys.load()
        return True
    return (default_directory(vault_id) / "root.keyring").exists()


def check_free(place: Path) -> None:
    """Raise VaultExists unless there is nothing, or an empty directory."""
    try:
        free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
    except OSError as error:
        raise StoreUnavailable(f"cannot look into {place}: {error.strerror}") from None
    if not free:
        raise _there(place)


def _there(place: Path) -> VaultExists:
    return VaultExists(f"{place} is there already", hint="name another place, or move it away first")


@contextmanager
def _draft_of(place: Path) -> Iterator[Path]:
    """A directory beside `place` that takes its name if the block succeeds, and is gone if it does not."""
    draft = place.with_name(f".{place.name}-{os.urandom(8).hex()}")
    try:
        make_directory(place.parent)
        draft.mkdir(mode=0o700)
        try:
            yield draft
            _settle(draft, place)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {place}: {error.strerror or error}") from None


def _settle(draft: Path, place: Path) -> None:
    for name in _LOCKS:
        (draft / name).unlink(missing_ok=True)  # verification made them
    try:
        with suppress(FileNotFoundError):
            place.rmdir()  # an empty directory may be named
        draft.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _there(place) from None  # somebody was first
        raise
    for directory in (place, place.parent):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# The keys.


class _KeysFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A vault's keys as they are locked up: docs/spec/archive.md."""

    format: str = _KEYS_FORMAT
    v: int = 1
    vault: str
    active: str
    keys: dict[str, bytes]
    issuer: bytes
    checkpoint: str = ""


def lock_keys(
    location: Location, passphrase: str, *, keys: KeySource | None = None, now: Clock = system_clock
) -> bytes:
    """A vault's root keyring, issuer key and witness as an age file that the passphrase opens. It is on record."""
    with create_open.open(location, keys=keys, engine=_ENGINE, now=now) as vault:
        source = vault._state.source
        ring, issuer = source.load(), source.issuer()
        seen = vault.audit.checkpoint()
        vault._clerk.admin.record_owner("backup", detail="keys")
        file = _KeysFile(vault=vault.id, active=ring.active, keys=dict(ring.keys), issuer=issuer, checkpoint=seen)
    return lock(msgspec.json.encode(file), passphrase)


def unlock_keys(data: bytes, passphrase: str, *, vault: str, into: FileKeys) -> bool:
    """Bring locked keys back into a key directory: what is missing there. Nothing that is there is overwritten.

    True if the checkpoint is that of the file: it says nothing of what came later.
    """
    file = _read_keys(unlock(data, passphrase))
    if file.vault != vault:
        raise InvalidRequest("these are the keys of another vault", hint=f"they are those of {file.vault}")
    ring = Keyring(file.active, file.keys)
    has_ring, has_issuer = ((into.directory / name).exists() for name in ("root.keyring", "issuer.key"))
    if (has_ring and into.load() != ring) or (has_issuer and into.issuer() != file.issuer):
        raise KeyUnavailable(
            f"there are other keys in {into.directory}", hint="move them away, or name another place in STRONGROOM_KEYS"
        )
    try:
        make_directory(into.directory)
    except OSError as error:
        raise KeyUnavailable(f"cannot write to {into.directory}: {error.strerror}") from None
    if not has_ring:
        into.replace(ring)
    if not has_issuer:
        into.replace_issuer(file.issuer)
    witness = Witness(into.directory / _CHECKPOINT)
    is_old = bool(file.checkpoint) and witness.read() is None
    if is_old:
        witness.keep(file.checkpoint)
    return is_old


def _read_keys(data: bytes) -> _KeysFile:
    try:
        file = msgspec.json.decode(data, type=_KeysFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidRequest("this file does not hold a vault's keys") from None
    sound = file.format == _KEYS_FORMAT and file.v == 1 and file.active in file.keys
    if not sound or any(len(key) != 32 for key in [*file.keys.values(), file.issuer]):
        raise InvalidRequest("this file does not hold a vault's keys, or was made by a newer strongroom")
    return file
