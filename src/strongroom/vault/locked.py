"""Bytes behind a passphrase, as an age file: for what leaves the vault, archives and copies of the keys.

Anything that reads age files opens them (`age -d`). The passphrase is stretched with scrypt, tuned to take about a
second. age is asked to open only a file that begins as ours do: its reader of headers takes time quadratic in their
size (320 KB: 39 s), and lets a file ask for 4 GB of memory.
"""

from __future__ import annotations

import base64
import binascii
import re

from strongroom.errors import InvalidRequest, KeyUnavailable, Tampered

PASSPHRASE_LEAST = 8
"""Characters that a passphrase must have: an archive can be guessed at for ever."""

WORK_LIMIT = 21
"""The scrypt work of a file that is opened, at most, as a power of two: 1 GiB of memory, some seconds."""

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
    """An age file that this passphrase opens. A short passphrase is InvalidRequest.

    age chooses the work by how quick the machine is. A file that `unlock` would refuse is not handed out.
    """
    if len(passphrase) < PASSPHRASE_LEAST:
        raise InvalidRequest(
            f"a passphrase has at least {PASSPHRASE_LEAST} characters", hint="use several words that nobody guesses"
        )
    import pyrage  # type: ignore[import-untyped]

    locked: bytes = pyrage.passphrase.encrypt(data, passphrase)
    if not _is_ours(locked):
        raise KeyUnavailable(
            f"age asks for more work on this machine than is opened again (2^{WORK_LIMIT})",
            hint="do it on another machine, and report this one",
        )
    return locked


def unlock(data: bytes, passphrase: str) -> bytes:
    """What is in an age file. InvalidRequest: none of ours; KeyUnavailable: not this passphrase; Tampered: damaged."""
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
    """Whether the header is that of one passphrase, with work that is done. Only its first 160 bytes are looked at."""
    header = _HEADER.match(binary)
    return header is not None and int(header["work"]) <= WORK_LIMIT


def _unarmored(data: bytes) -> bytes:
    """The binary file in an armored one. age is not asked, so that what was checked is what it opens."""
    text = data.strip().replace(b"\r\n", b"\n")
    if not text.startswith(_BEGIN + b"\n") or not text.endswith(b"\n" + _END):
        raise _damaged()
    try:
        return base64.b64decode(text[len(_BEGIN) : -len(_END)].replace(b"\n", b""), validate=True)
    except binascii.Error:
        raise _damaged() from None


def _refused(said: str) -> InvalidRequest | KeyUnavailable | Tampered:
    """age says what failed in words only: the stanza of the passphrase, or anything else."""
    if said == "Decryption failed":
        return KeyUnavailable("the passphrase does not open the file", hint="nothing was changed; try another one")
    if said.startswith("Excessive work"):
        return InvalidRequest(
            "the file asks for more work than this machine does",
            hint="open it when it is less busy, or on a quicker one",
        )
    return _damaged()


def _damaged() -> Tampered:
    return Tampered("the file is damaged: cut, or edited", hint="use another copy of it")
