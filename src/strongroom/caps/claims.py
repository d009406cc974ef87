"""The shape of a cap: its claims, how a token splits into links, and which claims a link may have.

No value is trusted yet, because no signature has been checked. Each payload must be *exactly* the canonical encoding of
its claims. This rules out duplicate keys, unknown claims, other spellings and spare bits.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from strongroom import model
from strongroom.errors import CapMalformed, CapMissing, Invalid, InvalidRequest
from strongroom.model import DataClass, LinkId, Op

MAX_LINKS = 8
MAX_BYTES = 8 * 1024

HEADER = base64.urlsafe_b64encode(b'{"alg":"Ed25519","typ":"strongroom-cap"}').rstrip(b"=").decode()
_LABEL = re.compile(r"[A-Za-z0-9 ._@:/+-]{1,64}")

# Encodings of the points of order 1, 2, 4 and 8, with the non-canonical ones. Anyone can make signatures that verify
# under such a key, so a request signed with one would be attributable to nobody.
_SMALL_ORDER = frozenset(
    bytes.fromhex(low)[:31] + bytes([top | sign])
    for low, top in (
        ("00" * 31, 0x00),
        ("01" + "00" * 30, 0x00),
        ("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc", 0x05),
        ("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03", 0x7A),
        ("ec" + "ff" * 30, 0x7F),
        ("ed" + "ff" * 30, 0x7F),
        ("ee" + "ff" * 30, 0x7F),
    )
    for sign in (0x00, 0x80)
)


class Token(str):
    """A cap as a token to be sent or stored. It is a secret, so its repr hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<cap redacted>"


class Jwk(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    kty: str
    crv: str
    x: str


class Cnf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    jwk: Jwk


class Grantable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The claims of link 0, which the issuer signs. Field order is the canonical order of the encoding."""

    v: int
    iss: str
    aud: str
    jti: str
    iat: int
    nbf: int
    exp: int
    actor: str | None = None
    actor_scope: str | None = None
    data_class: str
    ops: tuple[str, ...]
    namespaces_allowed: tuple[str, ...]
    session: str | None = None
    max_k: int | None = None
    max_depth: int | None = None
    cnf: Cnf | None = None
    label: str | None = None


class Narrowing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The claims of a later link.

    If a claim is absent, the value of the link before holds. If it is present, it narrows that value.
    """

    v: int
    prev: str
    jti: str
    iat: int
    nbf: int | None = None
    exp: int | None = None
    actor: str | None = None
    actor_scope: str | None = None
    ops: tuple[str, ...] | None = None
    namespaces_allowed: tuple[str, ...] | None = None
    session: str | None = None
    max_k: int | None = None
    max_depth: int | None = None
    cnf: Cnf | None = None
    label: str | None = None


Claims = Grantable | Narrowing
_C = TypeVar("_C", Grantable, Narrowing)
_decode_first = msgspec.json.Decoder(Grantable).decode
_decode_later = msgspec.json.Decoder(Narrowing).decode
encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Link:
    """One link of a chain, split into its parts. No signature has been checked."""

    id: LinkId
    claims: Claims
    signed: bytes
    signature: bytes
    holder_key: bytes | None

    def __repr__(self) -> str:
        return f"<link {self.id}>"


@dataclass(frozen=True, slots=True)
class UnverifiedCap:
    """A token with a valid shape. No signature has been checked, so it grants nothing."""

    first: Grantable
    links: tuple[Link, ...]
    seed: bytes | None

    def __repr__(self) -> str:
        return f"<unverified cap of {len(self.links)} links>"


def parse(token: str) -> UnverifiedCap:
    """Split a token into links. Every shape and limit is checked before any signature is verified."""
    if not token:
        raise CapMissing("no cap was shown", hint="pass the cap that the vault's owner minted for you")
    if not isinstance(token, str) or len(token) > MAX_BYTES or not token.isascii():
        raise CapMalformed(f"a cap is ASCII text of at most {MAX_BYTES} bytes")
    parts = token.split("~")
    seed = None if "." in parts[-1] else unb64(parts.pop(), 32)
    if not 1 <= len(parts) <= MAX_LINKS:
        raise CapMalformed(f"a cap has 1 to {MAX_LINKS} links")
    first = _parse_link(parts[0], _decode_first, check_first)
    later = [_parse_link(part, _decode_later, check_later) for part in parts[1:]]
    assert isinstance(first.claims, Grantable)  # noqa: S101 - tells the type checker what the decoder made
    return UnverifiedCap(first.claims, (first, *later), seed)


def _parse_link(part: str, decode: Callable[[bytes], _C], check: Callable[[_C], None]) -> Link:
    header, _, rest = part.partition(".")
    payload, _, signature = rest.partition(".")
    if header != HEADER:
        raise CapMalformed("a link does not have the header of a strongroom cap")
    raw = unb64(payload)
    try:
        claims = decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CapMalformed("a link has claims that a cap cannot have") from None
    if encode(claims) != raw:
        raise CapMalformed("a link's claims are not in canonical form")
    try:
        check(claims)
    except Invalid as invalid:
        raise CapMalformed(invalid.message) from None
    signed = f"{header}.{payload}".encode()
    key = None if claims.cnf is None else unb64(claims.cnf.jwk.x, 32)
    return Link(LinkId(hashlib.sha256(signed).hexdigest()), claims, signed, unb64(signature, 64), key)


def check_first(claims: Grantable) -> None:
    if (claims.actor is None) == (claims.actor_scope is None):
        raise InvalidRequest("a cap needs either an actor or an actor scope, not both")
    if claims.data_class not in tuple(DataClass):
        raise InvalidRequest(f"a data class must be one of {', '.join(DataClass)}")
    for name in (claims.iss, claims.aud):
        if not name or not _LABEL.fullmatch(name):
            raise InvalidRequest("a cap must name its issuer and its vault")
    _check_numbers(claims.iat, claims.nbf, claims.exp)
    _check_shared(claims, claims.ops, claims.namespaces_allowed)


def check_later(claims: Narrowing) -> None:
    model.link_id(claims.prev)
    if claims.actor is not None and claims.actor_scope is not None:
        raise InvalidRequest("a link may name an actor or an actor scope, not both")
    _check_numbers(claims.iat, claims.nbf, claims.exp)
    _check_shared(claims, claims.ops or (), claims.namespaces_allowed or ())


def _check_shared(claims: Claims, ops: tuple[str, ...], namespaces: tuple[str, ...]) -> None:
    if claims.v != 1:
        raise InvalidRequest("the cap has an unknown version")
    unb64(claims.jti, 16)
    if claims.actor is not None:
        model.actor(claims.actor)
    if claims.actor_scope is not None:
        model.actor_scope(claims.actor_scope)
    _check_set(ops, "ops")
    for op in ops:
        if op not in tuple(Op):
            raise InvalidRequest(f"an operation must be one of {', '.join(Op)}")
    _check_set(namespaces, "namespaces_allowed")
    for name in namespaces:
        model.namespace(name)
    if claims.session is not None and (
        not claims.session or model.clean_field(claims.session, "a session") != claims.session
    ):
        raise InvalidRequest("a session must be a non-empty text in NFC")
    _check_numbers(claims.max_depth)
    if claims.max_k is not None and not 1 <= claims.max_k <= model.K_LIMIT:
        raise InvalidRequest(f"max_k must be between 1 and {model.K_LIMIT}")
    if claims.label is not None and not _LABEL.fullmatch(claims.label):
        raise InvalidRequest("a label must have 1 to 64 letters, digits, spaces and . _ @ : / + -")
    if claims.cnf is not None:
        _check_jwk(claims.cnf.jwk)


def _check_set(values: tuple[str, ...], what: str) -> None:
    if list(values) != sorted(set(values)):
        raise InvalidRequest(f"{what} must be sorted and without duplicates")


def _check_numbers(*values: int | None) -> None:
    if any(value is not None and not 0 <= value < 2**53 for value in values):
        raise InvalidRequest("a number in a cap is out of range")


def _check_jwk(jwk: Jwk) -> None:
    if (jwk.kty, jwk.crv) != ("OKP", "Ed25519") or unb64(jwk.x, 32) in _SMALL_ORDER:
        raise InvalidRequest("a holder key must be an Ed25519 key of full order")


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text: str, size: int | None = None) -> bytes:
    """Decode base64url without padding. Only the canonical spelling of each value is accepted."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    if not text or b64(raw) != text or (size is not None and len(raw) != size):
        raise CapMalformed(
            "a part of the cap is not canonical base64url", hint="pass the token unaltered, without spaces or newlines"
        )
    return raw
