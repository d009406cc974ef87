"""Passphrase-encrypted age files, for what leaves the vault: archives and copies of the keys.

Any age tool opens them (`age -d`). scrypt stretches the passphrase, tuned to take about a second. age only gets to see
files with the header that we write: its header parser takes time quadratic in the header's size (320 KB: 39 s), and a
foreign header may ask for 4 GB of memory.
"""

from __future__ import annotations

import base64
import binascii
import re

from strongroom.errors import InvalidRequest, KeyUnavailable, Tampered

PASSPHRASE_LEAST = 8
"""Shortest passphrase, in characters: anyone who holds an archive can guess offline, without limit."""

WORK_LIMIT = 21
"""Highest scrypt work that is opened, as a power of two: 1 GiB of memory, some seconds."""

_BEGIN, _END = b"-----BEGIN AGE ENCRYPTED FILE-----", b"-----END AGE ENCRYPTED FILE-----"
_MAGIC = (b"age-encryption.org/", _BEGIN)
_HEADER = re.compile(
    rb"age-encryption\.org/v1\n"
    rb"-> scrypt [A-Za-z0-9+/]{22} (?P<work>[1-9][0-9]?)\n"
    rb"[A-Za-z0-9+/]{43}\n"
    rb"--- [A-Za-z0-9+/]{43}\n"
)


def is_locked(data: bytes) -> bool:
    """Whether these bytes begin as an age file does."""
    return data.startswith(_MAGIC)


def lock(data: bytes, passphrase: str) -> bytes:
    """Encrypt `data` into an age file that this passphrase opens. A short passphrase is InvalidRequest.

    age chooses the work by the machine's speed. KeyUnavailable if it chooses more than `unlock` accepts.
    """
    if len(passphrase) < PASSPHRASE_LEAST:
        raise InvalidRequest(
            f"the passphrase is too short: it needs at least {PASSPHRASE_LEAST} characters",
            hint="use several unrelated words",
        )
    import pyrage  # type: ignore[import-untyped]

    locked: bytes = pyrage.passphrase.encrypt(data, passphrase)
    if not _is_ours(locked):
        raise KeyUnavailable(
            f"on this machine, age encrypts with more scrypt work than strongroom allows for opening (2^{WORK_LIMIT})",
            hint="encrypt the file on another machine, and report this one",
        )
    return locked


def unlock(data: bytes, passphrase: str) -> bytes:
    """The content of a locked file.

    InvalidRequest if it is not one of ours, KeyUnavailable if the passphrase is wrong, Tampered if it is damaged.
    """
    binary = _unarmored(data) if data.startswith(_BEGIN) else data
    if not _is_ours(binary):
        raise InvalidRequest(
            "this is not a file that strongroom locked",
            hint=f"it must be an age file with one passphrase and scrypt work of 1 to {WORK_LIMIT}",
        )
    import pyrage

    try:
        opened: bytes = pyrage.passphrase.decrypt(binary, passphrase)
    except pyrage.DecryptError as error:
        raise _refused(str(error)) from None
    return opened


def _is_ours(binary: bytes) -> bool:
    """Whether the header has one passphrase and work within WORK_LIMIT. It reads the first 160 bytes only."""
    header = _HEADER.match(binary)
    return header is not None and int(header["work"]) <= WORK_LIMIT


def _unarmored(data: bytes) -> bytes:
    """The binary form of an armored file. Decoded here, so that age opens exactly the bytes that were checked."""
    text = data.strip().replace(b"\r\n", b"\n")
    if not text.startswith(_BEGIN + b"\n") or not text.endswith(b"\n" + _END):
        raise _damaged()
    try:
        return base64.b64decode(text[len(_BEGIN) : -len(_END)].replace(b"\n", b""), validate=True)
    except binascii.Error:
        raise _damaged() from None


def _refused(said: str) -> InvalidRequest | KeyUnavailable | Tampered:
    """The error for an age failure. age reports it in words only: the passphrase's stanza, or anything else."""
    if said == "Decryption failed":
        return KeyUnavailable(
            "the passphrase does not open the file", hint="nothing was changed; try another passphrase"
        )
    if said.startswith("Excessive work"):
        return InvalidRequest(
            "this machine is too slow or too busy to open the file",
            hint="try again when it is less busy, or on a faster machine",
        )
    return _damaged()


def _damaged() -> Tampered:
    return Tampered("the file is damaged: cut, or edited", hint="use another copy of the file")
