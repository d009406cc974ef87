"""The inbox: seals lines to a vault's public age key, to be delivered once the vault can be reached.

A bundle holds the lines of one put, and names the actor whose memory they are for. Only the vault's inbox key opens the
bundle: even the program that sealed it cannot. A bundle grants nothing, because the cap shown at the delivery decides.
Format: docs/spec/inbox.md.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from strongroom import model
from strongroom.errors import BodyTooLarge, InvalidRequest, TooMany
from strongroom.model import NewLine
from strongroom.strict_json import check_unique_keys

SEALED_LIMIT = 1024 * 1024
"""Maximum size of a sealed bundle, in bytes."""

_VERSION = 1
_HEADER_LIMIT = 1024
"""Maximum size of the header of an age file, in bytes: age's parser takes time quadratic in this size."""

_MAGIC = b"age-encryption.org/v1\n"
_HEADER_END = b"\n--- "
_RECIPIENT = re.compile(r"age1[02-9ac-hj-np-z]{58}")


class Bundle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines for one actor. Each line has an id, so that it is stored once however often the bundle is delivered."""

    actor: str
    lines: tuple[NewLine, ...]
    v: int = _VERSION

    def __repr__(self) -> str:
        return f"<bundle of {len(self.lines)} lines>"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Bundle).decode


def new_identity() -> str:
    """A new age identity: the secret half of an inbox key."""
    return str(_age().x25519.Identity.generate())


def recipient_of(identity: str) -> str:
    """The public half of an inbox key, to which bundles are sealed."""
    return str(_identity(identity).to_public())


def is_recipient(text: object) -> bool:
    """Whether a value has the form of an inbox key's public half. The checksum is not verified."""
    return isinstance(text, str) and _RECIPIENT.fullmatch(text) is not None


def seal(recipient: str, bundle: Bundle) -> bytes:
    """Seal a bundle as an age file for the vault.

    A bundle that is too large, has no lines, or has a line without an id is refused, as a vault would refuse it.
    """
    model.actor(bundle.actor)
    _check_lines(bundle.lines)
    sealed: bytes = _age().encrypt(_encode(bundle), [_recipient(recipient)])
    _check_size(sealed)
    return sealed


def unseal(identity: str, sealed: bytes) -> Bundle:
    """Open a bundle. It comes from outside, so a flaw in it raises InvalidRequest, BodyTooLarge or TooMany."""
    if not isinstance(sealed, bytes):
        raise InvalidRequest("a sealed bundle must be bytes")
    sealed = bytes(sealed)
    _check_size(sealed)
    if not sealed.startswith(_MAGIC) or _HEADER_END not in sealed[:_HEADER_LIMIT]:
        raise InvalidRequest("this is not a sealed bundle", hint="make one with strongroom.crypto.inbox.seal()")
    bundle = _read(_opened(_identity(identity), sealed))
    _check_lines(bundle.lines)
    return bundle


def _opened(identity: Any, sealed: bytes) -> bytes:
    age = _age()
    try:
        opened: bytes = age.decrypt(sealed, [identity])
    except age.DecryptError:
        raise InvalidRequest(
            "the bundle does not open: it was sealed for another vault, or it is damaged",
            hint="seal the bundle to the key that memory.inbox() returns; a damaged bundle cannot be repaired",
        ) from None
    return opened


def _read(opened: bytes) -> Bundle:
    try:
        bundle = _decode(opened)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest("the sealed content is not a bundle") from None
    check_unique_keys(opened)
    if bundle.v != _VERSION:
        raise InvalidRequest(
            "the bundle has an unknown version", hint="install a newer strongroom where the vault is opened"
        )
    return bundle


def _check_lines(lines: tuple[NewLine, ...]) -> None:
    if not lines:
        raise InvalidRequest("the bundle holds no line")
    if len(lines) > model.BATCH_LIMIT:
        raise TooMany(f"a bundle holds at most {model.BATCH_LIMIT} lines")
    for line in lines:
        if line.id is None:
            raise InvalidRequest(
                "each line of a bundle needs an id",
                hint="without an id, a line would be stored again at every delivery",
            )
        model.line_id(line.id)


def _check_size(sealed: bytes) -> None:
    if len(sealed) > SEALED_LIMIT:
        raise BodyTooLarge(
            f"the sealed bundle is larger than {SEALED_LIMIT} bytes", hint="seal the lines in several bundles"
        )


def _identity(text: str) -> Any:
    age = _age()
    try:
        return age.x25519.Identity.from_str(text)
    except age.IdentityError:
        raise InvalidRequest("this is not an age X25519 identity") from None


def _recipient(text: str) -> Any:
    age = _age()
    if not is_recipient(text):
        raise InvalidRequest(
            "this is not an inbox key, which is `age1` and 58 more characters", hint="memory.inbox() returns the key"
        )
    try:
        return age.x25519.Recipient.from_str(text)
    except age.RecipientError:
        raise InvalidRequest("the inbox key is misspelled", hint="memory.inbox() returns the key") from None


def _age() -> Any:
    import pyrage  # type: ignore[import-untyped]  # loaded only where it is used

    return pyrage
