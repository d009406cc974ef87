"""Backup and restore: copy a vault's encrypted store, and separately its keys, encrypted with a passphrase.

A backup is a directory with the store and the log's signed checkpoint, both of one moment. It does not contain the
keys. The log records each backup before it is made, so the log always says that a copy may exist.

Restoring an older backup brings back lines forgotten, actors erased and caps revoked since that backup. A backup opens
with the root key of its time; after `rotate_root`, only with a copy of the old keys. No function here deletes or
overwrites a vault or a key.
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
_ENGINE = "recency"  # nothing is ranked here, and this engine loads fastest


class Backup(msgspec.Struct, frozen=True):
    """A verified backup: the vault's id, the size and root of its log, and the number of objects."""

    vault: str
    size: int
    root: str
    objects: int


class Restored(msgspec.Struct, frozen=True):
    """A restored vault. `report` is the result of its verification, or None if there were no keys to verify with."""

    vault: str
    report: VerificationReport | None

    @property
    def rolled_back(self) -> bool:
        """Whether the log is behind the last seen checkpoint. If it is, call `vault.audit.accept_restore()`."""
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
    """Copy a vault into a new directory while others may use it, and verify the copy.

    Needs the keys, to sign and to verify. Raises `VaultExists` if `target` exists. Raises `Tampered` and leaves no copy
    if the copy has any flaw.
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
        # The last seen checkpoint may advance during the copy, so the copy is checked against the one of before.
        Witness(draft / _CHECKPOINT).keep(note)
        report = create_open.verify(draft, keys=keys, witness=Witness(draft / _CHECKPOINT), progress=verifying)
        if not report.ok:
            raise Tampered(
                f"the vault has a flaw, so no backup was made: {report.findings[0].flaw}",
                hint="run vault.audit.verify(), which lists every fault",
            )
    with suppress(StrongroomError):  # the backup is good even if its time cannot be stored
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
    """Copy a backup to a place without a vault, and verify the copy if its keys are there.

    Raises `VaultExists` if there is a vault or file at `location`: move it away first. Raises `Tampered` and restores
    nothing for any flaw except a roll-back. A log behind the last seen checkpoint counts as rolled back until
    `vault.audit.accept_restore()`.
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
            f"the file {seen.path} is not a checkpoint of this vault, so the backup was not restored",
            hint="restore that file from a copy, or move that file away to restore the backup without this check",
        )
    return Tampered(
        f"the backup has a flaw, so it was not restored: {finding.flaw}",
        hint="restore another backup, and keep this one as evidence",
    )


def backup_of(source: str | os.PathLike[str]) -> str:
    """The id of the vault that a backup claims to be a copy of. Also works on a read-only disk."""
    found = re.fullmatch(r"strongroom/([0-9a-f]{16})", _origin(Path(source) / _CHECKPOINT))
    if found:
        return found[1]
    with _fetched(Path(source)) as private:
        return create_open.identify(private)


def _origin(checkpoint: Path) -> str:
    """The first line of a checkpoint file; empty if there is no such file.

    The directory is untrusted, so no links are followed.
    """
    try:
        handle = os.open(checkpoint, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_CHECKPOINT_LIMIT).decode().partition("\n")[0] if regular else ""
    except (OSError, UnicodeDecodeError):
        return ""


@contextmanager
def _fetched(source: Path, beside: Path | None = None) -> Iterator[Path]:
    """A private copy of a backup's database.

    The backup's directory is untrusted, so no other file in it is opened.
    """
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
    """Rename a vault's directory to make room for another, and return its new path. Nothing is deleted."""
    place = Path(os.fspath(location))
    moved = place.with_name(f"{place.name}.before-restore-{stamp}")
    try:
        if not place.is_dir():
            raise VaultMissing(f"there is no vault in {place}")
        if moved.exists():
            raise InvalidRequest(f"the directory {moved} already exists", hint="rename that directory first")
        place.rename(moved)
    except OSError as error:
        raise StoreUnavailable(f"cannot move {place} away: {error.strerror}") from None
    return moved


def _keys_there(vault_id: str, keys: KeySource | None) -> bool:
    """Whether there are keys to verify with.

    Raises if `keys` are given and do not load. The default keys may be missing.
    """
    if keys is not None:
        keys.load()
        return True
    return (default_directory(vault_id) / "root.keyring").exists()


def check_free(place: Path) -> None:
    """Raise `VaultExists` if `place` exists, except if it is an empty directory."""
    try:
        free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
    except OSError as error:
        raise StoreUnavailable(f"cannot read the directory {place}: {error.strerror}") from None
    if not free:
        raise _there(place)


def _there(place: Path) -> VaultExists:
    return VaultExists(f"{place} already exists", hint=f"name another place, or move {place} away first")


@contextmanager
def _draft_of(place: Path) -> Iterator[Path]:
    """Yield a directory beside `place`.

    If the block succeeds, the directory is renamed to `place`. If it raises, the directory is removed.
    """
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
        (draft / name).unlink(missing_ok=True)  # left by the verification
    try:
        with suppress(FileNotFoundError):
            place.rmdir()  # an existing empty directory is allowed
        draft.rename(place)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise _there(place) from None  # another process made it meanwhile
        raise
    for directory in (place, place.parent):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# The keys.


class _KeysFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The format of a file with a vault's keys, as it is before encryption: docs/spec/archive.md."""

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
    """Encrypt a vault's root keyring, issuer key and checkpoint with a passphrase, as an age file.

    The log records this.
    """
    with create_open.open(location, keys=keys, engine=_ENGINE, now=now) as vault:
        source = vault._state.source
        ring, issuer = source.load(), source.issuer()
        seen = vault.audit.checkpoint()
        vault._clerk.admin.record_owner("backup", detail="keys")
        file = _KeysFile(vault=vault.id, active=ring.active, keys=dict(ring.keys), issuer=issuer, checkpoint=seen)
    return lock(msgspec.json.encode(file), passphrase)


def unlock_keys(data: bytes, passphrase: str, *, vault: str, into: FileKeys) -> bool:
    """Write the keys from an encrypted keys file into a key directory.

    Only missing files are written, and no file is overwritten. Returns True if the checkpoint was missing and now comes
    from the keys file, so it may not be the newest one.
    """
    file = _read_keys(unlock(data, passphrase))
    if file.vault != vault:
        raise InvalidRequest(
            f"the keys file is for vault {file.vault}, but the backup is of vault {vault}",
            hint="name the keys file that was made with this backup",
        )
    ring = Keyring(file.active, file.keys)
    has_ring, has_issuer = ((into.directory / name).exists() for name in ("root.keyring", "issuer.key"))
    if (has_ring and into.load() != ring) or (has_issuer and into.issuer() != file.issuer):
        raise KeyUnavailable(
            f"the key directory {into.directory} holds other keys",
            hint="move those keys away, or set STRONGROOM_KEYS to another directory",
        )
    try:
        make_directory(into.directory)
    except OSError as error:
        raise KeyUnavailable(f"cannot write to the key directory {into.directory}: {error.strerror}") from None
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
        raise InvalidRequest(
            "this file does not hold a vault's keys", hint="name a file that `strongroom backup --with-keys` wrote"
        ) from None
    sound = file.format == _KEYS_FORMAT and file.v == 1 and file.active in file.keys
    if not sound or any(len(key) != 32 for key in [*file.keys.values(), file.issuer]):
        raise InvalidRequest(
            "this file does not hold a vault's keys, or was made by a newer version", hint="install a newer strongroom"
        )
    return file
