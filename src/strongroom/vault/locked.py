"""Bytes behind a passphrase, as an age file: for what leaves the vault, archives and copies of the keys.

Anything that reads age files opens them (`age -d`). The passphrase is stretched with scrypt, tuned to take about a
second; a file that asks for much more work than that is refused before any is done.
"""

from __future__ import annotations

from strongroom.errors import InvalidRequest, KeyUnavailable, Tampered

PASSPHRASE_LEAST = 8
"""Characters that a passphrase must have: an archive can be guessed at for ever."""

_MAGIC = (b"age-encryption.org/", b"-----BEGIN AGE ENCRYPTED FILE-----")


def is_locked(data: bytes) -> bool:
    """Whether these bytes begin as an age file does."""
    return data.startswith(_MAGIC)


def lock(data: bytes, passphrase: str) -> bytes:
    """An age file that this passphrase opens. A short passphrase is InvalidRequest."""
    if len(passphrase) < PASSPHRASE_LEAST:
        raise InvalidRequest(
            f"a passphrase has at least {PASSPHRASE_LEAST} characters", hint="use several words that nobody guesses"
        )
    import pyrage  # type: ignore[import-untyped]

    locked: bytes = pyrage.passphrase.encrypt(data, passphrase)
    return locked


def unlock(data: bytes, passphrase: str) -> bytes:
    """What is in an age file. KeyUnavailable: not this passphrase; Tampered: cut or edited."""
    import pyrage

    try:
        opened: bytes = pyrage.passphrase.decrypt(data, passphrase)
    except pyrage.DecryptError as error:
        raise _refused(str(error)) from None
    return opened


def _refused(said: str) -> InvalidRequest | KeyUnavailable | Tampered:
    """age says what failed in words only: the stanza of the passphrase, or anything else."""
    if said == "Decryption failed":
        return KeyUnavailable("the passphrase does not open the file", hint="nothing was changed; try another one")
    if said.startswith(("No matching keys", "Excessive work")):
        return InvalidRequest("the file was not made by strongroom: it is not behind an ordinary passphrase")
    return Tampered("the file is damaged: cut, or edited", hint="use another copy of it")
