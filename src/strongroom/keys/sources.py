"""Reads and writes the root keyring and the issuer key: in files, in files with a passphrase, or in the environment.

Only `create` makes new keys. It is called once, when a vault is made, and never overwrites existing keys. Every failure
raises `KeyUnavailable`: a missing key is never replaced by a new one. A key file that other users can read is refused.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import platformdirs
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from strongroom.crypto import chunked_aead
from strongroom.crypto.hmac_state import context
from strongroom.errors import KeyUnavailable, Tampered
from strongroom.private_files import draft, make_directory, open_file, write_file

_KEYRING = "root.keyring"
_ISSUER = "issuer.key"
_LOCK = "rotation.lock"
_SEALED_BY = "strongroom/passphrase/v1"

ROOT_HINT = "put back a copy of root.keyring, or set STRONGROOM_KEYS to its place; a new key cannot open the vault"
"""The hint for a lost root keyring."""
ISSUER_HINT = (
    "put back a copy of issuer.key; without a copy, `strongroom rotate issuer` makes a new key, which voids all caps"
)
"""The hint for a lost issuer key. The issuer key only signs caps, so the vault opens without it."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The root keys by their ids. The active key encrypts other keys; earlier root keys only decrypt them."""

    active: str
    keys: Mapping[str, bytes]

    def __repr__(self) -> str:
        return f"<keyring of {len(self.keys)} keys, redacted>"

    @classmethod
    def of(cls, key: bytes) -> Keyring:
        return cls(root_id(key), {root_id(key): key})

    def adding(self, key: bytes) -> Keyring:
        """The keyring with one more key, which becomes the active key."""
        return Keyring(root_id(key), {**self.keys, root_id(key): key})

    def only_active(self) -> Keyring:
        return Keyring(self.active, {self.active: self.keys[self.active]})

    def key(self, name: str) -> bytes:
        if name not in self.keys:
            raise KeyUnavailable(
                "the keyring does not hold the root key of this vault",
                hint="use the root.keyring that was saved with this vault or copy: each root rotation replaces it",
            )
        return self.keys[name]


def root_id(key: bytes) -> str:
    """The id of a root key. It is a hash of the key, so that a damaged key file is detected."""
    return hashlib.sha256(b"strongroom root\0" + key).hexdigest()[:16]


class KeySource(Protocol):
    """The interface of a place where keys are stored.

    Implementations must not cache keys, because `load` is called again after a rotation.
    """

    def create(self) -> None:
        """Make new keys and store them durably. If keys exist already, raise KeyUnavailable and change nothing.

        A source that gets its keys from outside makes none: it only checks that it has them.
        """

    def discard(self) -> None:
        """Undo `create`. Called if the vault could not be made."""

    def load(self) -> Keyring:
        """Read the root keyring, or raise KeyUnavailable. This never makes a new key."""

    def replace(self, ring: Keyring) -> None:
        """Replace the root keyring durably and atomically, or raise KeyUnavailable. Called by a rotation."""

    def issuer(self) -> bytes:
        """Read the seed of the issuer key, or raise KeyUnavailable. Called only to mint and renew caps."""

    def replace_issuer(self, seed: bytes) -> None:
        """Replace the seed of the issuer key durably and atomically, or raise KeyUnavailable."""

    def rotating(self) -> AbstractContextManager[None]:
        """A context manager during which no other process can rotate these keys.

        If two rotations ran at once, each could remove the key with which the other has just encrypted all keys.
        """


class _KeyringFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    v: int
    active: str
    keys: dict[str, str]


class _SealedFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    v: int
    kdf: str
    time_cost: int
    memory_kib: int
    lanes: int
    salt: str
    sealed: str


class FileKeys:
    """The default key source: files of mode 0600 in a directory that holds nothing else."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.directory)!r})"

    def create(self) -> None:
        try:
            make_directory(self.directory)
        except OSError as error:
            raise _unwritable(self.directory, error) from None
        for name in (_KEYRING, _ISSUER):
            if (self.directory / name).exists():
                raise KeyUnavailable(
                    f"the key file {self.directory / name} already exists",
                    hint="use another key directory",
                )
        write_secret(self.directory / _KEYRING, self._pack(_encode_ring(Keyring.of(os.urandom(32)))), new=True)
        try:
            write_secret(self.directory / _ISSUER, self._pack(_b64(os.urandom(32)).encode()), new=True)
        except BaseException:
            # This call made the keyring, because only one of several concurrent calls can. A keyring without an issuer
            # key would make the next attempt fail.
            (self.directory / _KEYRING).unlink(missing_ok=True)
            raise

    def discard(self) -> None:
        for name in (_KEYRING, _ISSUER):
            (self.directory / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.directory.rmdir()

    def check(self) -> None:
        """Raise KeyUnavailable if a key file cannot be read. Decrypts nothing, and so asks for no passphrase."""
        for name in (_KEYRING, _ISSUER):
            read_secret(self.directory / name)

    def load(self) -> Keyring:
        path = self.directory / _KEYRING
        return _decode_ring(self._unpack(read_secret(path), path), path)

    def replace(self, ring: Keyring) -> None:
        write_secret(self.directory / _KEYRING, self._pack(_encode_ring(ring)), new=False)

    def issuer(self) -> bytes:
        path = self.directory / _ISSUER
        return _unb64_key(
            self._unpack(read_secret(path), path).decode("ascii", "replace"), f"key in {path}", ISSUER_HINT
        )

    def replace_issuer(self, seed: bytes) -> None:
        write_secret(self.directory / _ISSUER, self._pack(_b64(seed).encode()), new=False)

    @contextmanager
    def rotating(self) -> Iterator[None]:
        try:
            lock = os.open(self.directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unwritable(self.directory / _LOCK, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._remove_drafts()
            yield
        finally:
            os.close(lock)

    def _remove_drafts(self) -> None:
        """Remove temporary files of a process that was killed while it wrote, because they may hold a rotated key."""
        for name in (_KEYRING, _ISSUER):
            for left in self.directory.glob(draft(name) + "*"):
                left.unlink(missing_ok=True)

    def _pack(self, data: bytes) -> bytes:
        return data + b"\n"

    def _unpack(self, data: bytes, path: Path) -> bytes:  # noqa: ARG002 - a locked file names itself
        return data.rstrip(b"\n")


class PassphraseKeys(FileKeys):
    """Key files as in `FileKeys`, encrypted with a passphrase by Argon2id (RFC 9106, second recommended parameters)."""

    # A file names its parameters, but lower ones are refused: an edited file must not make guessing cheap.
    TIME_COST, MEMORY_KIB, LANES = 3, 64 * 1024, 4
    _MOST_TIME, _MOST_MEMORY, _MOST_LANES = 64, 4 * 1024 * 1024, 64

    def __init__(self, directory: str | os.PathLike[str], passphrase: str | Callable[[], str]) -> None:
        super().__init__(directory)
        self._ask = passphrase if callable(passphrase) else lambda: passphrase

    def _pack(self, data: bytes) -> bytes:
        salt = os.urandom(16)
        key = self._stretch(salt, self.TIME_COST, self.MEMORY_KIB, self.LANES)
        sealed = chunked_aead.seal(key, data, context(_SEALED_BY), os.urandom(24))
        return msgspec.json.encode(
            _SealedFile(
                v=1,
                kdf="argon2id",
                time_cost=self.TIME_COST,
                memory_kib=self.MEMORY_KIB,
                lanes=self.LANES,
                salt=_b64(salt),
                sealed=_b64(sealed),
            )
        )

    def _unpack(self, data: bytes, path: Path) -> bytes:
        try:
            file = msgspec.json.decode(data, type=_SealedFile)
            salt, sealed = base64.b64decode(file.salt), base64.b64decode(file.sealed)
        except (msgspec.DecodeError, ValueError):
            raise KeyUnavailable(
                f"the key file {path} is damaged, or is not encrypted with a passphrase", hint=hint_for(path)
            ) from None
        floor = (self.TIME_COST, self.MEMORY_KIB, self.LANES)
        most = (self._MOST_TIME, self._MOST_MEMORY, self._MOST_LANES)
        given = (file.time_cost, file.memory_kib, file.lanes)
        sound = all(low <= value <= high for low, value, high in zip(floor, given, most, strict=True))
        if file.v != 1 or file.kdf != "argon2id" or not sound or len(salt) < 16:
            raise KeyUnavailable(f"the key file {path} has unknown or unsafe Argon2id parameters", hint=hint_for(path))
        try:
            return chunked_aead.unseal(self._stretch(salt, *given), sealed, context(_SEALED_BY))
        except Tampered:
            raise KeyUnavailable(
                f"the passphrase does not open the key file {path}",
                hint=f"try another passphrase; if this one is right, the file is damaged: {hint_for(path)}",
            ) from None

    def _stretch(self, salt: bytes, time_cost: int, memory_kib: int, lanes: int) -> bytes:
        kdf = Argon2id(salt=salt, length=32, iterations=time_cost, lanes=lanes, memory_cost=memory_kib)
        passphrase = self._ask()
        if not passphrase:
            raise KeyUnavailable("the passphrase is empty", hint="give the passphrase of the key files")
        return kdf.derive(passphrase.encode())


class EnvironmentKeys:
    """Keys from environment variables, for CI. Child processes and /proc show them, and they cannot be rotated."""

    ROOT, ISSUER = "STRONGROOM_ROOT_KEY", "STRONGROOM_ISSUER_KEY"

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment

    def __repr__(self) -> str:
        return "EnvironmentKeys()"

    def create(self) -> None:
        for name in (self.ROOT, self.ISSUER):
            self._key(name, "EnvironmentKeys.generate() makes the values to set for a new vault")

    def discard(self) -> None:
        """Do nothing, because `create` stores no keys."""

    @classmethod
    def generate(cls) -> dict[str, str]:
        """New values for both environment variables, to put into the secret store of a CI system."""
        return {cls.ROOT: _b64(os.urandom(32)), cls.ISSUER: _b64(os.urandom(32))}

    def load(self) -> Keyring:
        return Keyring.of(self._key(self.ROOT, _AS_MADE))

    def replace(self, ring: Keyring) -> None:  # noqa: ARG002 - the seam's signature
        raise KeyUnavailable("keys in the environment cannot be rotated from here", hint=_IN_FILES)

    def issuer(self) -> bytes:
        return self._key(self.ISSUER, _AS_MADE)

    def replace_issuer(self, seed: bytes) -> None:  # noqa: ARG002 - the seam's signature
        raise KeyUnavailable("keys in the environment cannot be rotated from here", hint=_IN_FILES)

    def rotating(self) -> AbstractContextManager[None]:
        raise KeyUnavailable("keys in the environment cannot be rotated from here", hint=_IN_FILES)

    def _key(self, name: str, hint: str) -> bytes:
        if name not in self._environment:
            raise KeyUnavailable(f"the environment variable {name} is not set", hint=hint)
        return _unb64_key(self._environment[name], name, hint)


_IN_FILES = "only keys in files can be rotated: put these values into key files first"
_AS_MADE = "set this variable to the value with which the vault was made; no other value works"


def default_directory(vault_id: str) -> Path:
    """The default directory of a vault's keys: outside the vault, in the user's data directory."""
    base = os.environ.get("STRONGROOM_KEYS") or Path(platformdirs.user_data_dir("strongroom")) / "keys"
    return Path(base) / vault_id


def write_secret(path: Path, data: bytes, *, new: bool) -> None:
    try:
        write_file(path, data, new=new)
    except OSError as error:
        raise _unwritable(path, error) from None


def read_secret(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            status = os.fstat(file.fileno())
            data = file.read(1 << 20)
    except OSError as error:
        raise KeyUnavailable(
            f"cannot read the key file {path}: {error.strerror}",
            hint=hint_for(path),
        ) from None
    if status.st_uid != os.geteuid():
        raise KeyUnavailable(
            f"the key file {path} belongs to another user",
            hint=f"run this as that user, or run `chown {os.geteuid()} {path}`",
        )
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyUnavailable(f"other users can read the key file {path}", hint=f"chmod 600 {path}")
    return data


def _unwritable(path: Path, error: OSError) -> KeyUnavailable:
    hint = "free space on the disk, or allow this user to write to the directory; no key was replaced"
    return KeyUnavailable(f"cannot write the key file {path}: {error.strerror}", hint=hint)


def _encode_ring(ring: Keyring) -> bytes:
    return msgspec.json.encode(
        _KeyringFile(v=1, active=ring.active, keys={name: _b64(key) for name, key in ring.keys.items()})
    )


def _decode_ring(data: bytes, path: Path) -> Keyring:
    try:
        file = msgspec.json.decode(data, type=_KeyringFile)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if b'"argon2id"' in data:
            raise KeyUnavailable(
                f"the keyring {path} is encrypted with a passphrase", hint="open the vault with PassphraseKeys"
            ) from None
        raise KeyUnavailable(f"the keyring {path} is damaged", hint=ROOT_HINT) from None
    keys = {name: _unb64_key(text, f"key in {path}", ROOT_HINT) for name, text in file.keys.items()}
    if file.v != 1 or file.active not in keys or any(root_id(key) != name for name, key in keys.items()):
        raise KeyUnavailable(f"the keyring {path} is damaged", hint=ROOT_HINT)
    return Keyring(file.active, keys)


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def hint_for(path: Path) -> str:
    """The hint for a missing or damaged key file."""
    return ISSUER_HINT if path.name == _ISSUER else ROOT_HINT


def _unb64_key(text: str, what: str, hint: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raw = b""
    if len(raw) != chunked_aead.KEY_SIZE:
        raise KeyUnavailable(f"the {what} is not 32 bytes in base64", hint=hint)
    return raw
