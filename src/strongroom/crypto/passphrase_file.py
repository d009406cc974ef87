"""Files that are encrypted with a passphrase in the format of age: archives, and copies of the keys.

Any age tool opens these files (`age -d`). The key is derived from the passphrase by scrypt, which takes about a second.
Only files with a header as written here are given to age. Its header parser takes time quadratic in the header's size
(39 s for 320 KB), and another header may ask for 4 GB of memory.
"""

from __future__ import annotations

import base64
import binascii
import re

from strongroom.errors import InvalidRequest, KeyUnavailable, Tampered

PASSPHRASE_LEAST = 8
"""Minimum length of a passphrase in characters. Anyone who has an archive can try passphrases without limit."""

WORK_LIMIT = 21
"""Maximum scrypt work that a file may need, as a power of two: 2^21 needs 2 GiB of memory and some seconds."""

_BEGIN, _END = b"-----BEGIN AGE ENCRYPTED FILE-----", b"-----END AGE ENCRYPTED FILE-----"
_MAGIC = (b"age-encryption.org/", _BEGIN)
_HEADER = re.compile(
    rb"age-encryption\.org/v1\n"
    rb"-> scrypt [A-Za-z0-9+/]{22} (?P<work>[1-9][0-9]?)\n"
    rb"[A-Za-z0-9+/]{43}\n"
    rb"--- [A-Za-z0-9+/]{43}\n"
)


def is_locked(data: bytes) -> bool:
    """Whether these bytes begin like an age file."""
    return data.startswith(_MAGIC)


def lock(data: bytes, passphrase: str) -> bytes:
    """Encrypt `data` into an age file that this passphrase opens. A passphrase that is too short raises InvalidRequest.

    age chooses the amount of scrypt work by the machine's speed. If it chooses more than `unlock` accepts,
    KeyUnavailable is raised.
    """
    if len(passphrase) < PASSPHRASE_LEAST:
        raise InvalidRequest(
            f"the passphrase is too short: it needs at least {PASSPHRASE_LEAST} characters",
            hint="use a passphrase of several unrelated words",
        )
    import pyrage  # type: ignore[import-untyped]

    locked: bytes = pyrage.passphrase.encrypt(data, passphrase)
    if not _is_ours(locked):
        raise KeyUnavailable(
            f"on this machine, age encrypts with more scrypt work than strongroom allows for opening (2^{WORK_LIMIT})",
            hint="encrypt the file on another machine, and report this as a bug of strongroom",
        )
    return locked


def unlock(data: bytes, passphrase: str) -> bytes:
    """Decrypt a file that `lock` encrypted.

    Raises InvalidRequest if the file has another form, KeyUnavailable if the passphrase is wrong, and Tampered if the
    file is damaged.
    """
    binary = _unarmored(data) if data.startswith(_BEGIN) else data
    if not _is_ours(binary):
        raise InvalidRequest(
            "this is not a file that strongroom locked",
            hint=f"the file must be an age file with one passphrase and scrypt work of 1 to {WORK_LIMIT}",
        )
    import pyrage

    try:
        opened: bytes = pyrage.passphrase.decrypt(binary, passphrase)
    except pyrage.DecryptError as error:
        raise _refused(str(error)) from None
    return opened


def _is_ours(binary: bytes) -> bool:
    """Whether the header has one passphrase, and scrypt work within WORK_LIMIT. Only the header is looked at."""
    header = _HEADER.match(binary)
    return header is not None and int(header["work"]) <= WORK_LIMIT


def _unarmored(data: bytes) -> bytes:
    """The binary form of an armored (base64) age file. It is decoded here, so that age gets only checked bytes."""
    text = data.strip().replace(b"\r\n", b"\n")
    if not text.startswith(_BEGIN + b"\n") or not text.endswith(b"\n" + _END):
        raise _damaged()
    try:
        return base64.b64decode(text[len(_BEGIN) : -len(_END)].replace(b"\n", b""), validate=True)
    except binascii.Error:
        raise _damaged() from None


def _refused(said: str) -> InvalidRequest | KeyUnavailable | Tampered:
    """The error to raise for a failure of age, chosen by the words of age's message, because age has no error codes."""
    if said == "Decryption failed":
        return KeyUnavailable(
            "the passphrase does not open the file", hint="try another passphrase; nothing was changed"
        )
    if said.startswith("Excessive work"):
        return InvalidRequest(
            "this machine is too slow or too busy to open the file",
            hint="try again when this machine is less busy, or use a faster machine",
        )
    return _damaged()


def _damaged() -> Tampered:
    return Tampered("the file is damaged: it was cut or edited", hint="use another copy of the file")
