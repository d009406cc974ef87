"""Capabilities: a chain of Ed25519 compact JWS links joined by `~` (docs/spec/cap.md).

Link 0 is signed by the vault's issuer key, link i by the holder key that link i-1 names in `cnf`. Later links can only
narrow. If the last link names a holder key, the token ends with that key's seed. The bearer can then narrow it further,
but cannot strip a link, because that would take the parent's seed.

The functions do no I/O and use neither a clock nor randomness of their own. A token is checked exactly as it was
transmitted, and is not encoded again for the check. The gate checks revocation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from strongroom.caps.authority import LEEWAY, Cap, depth_left_in, effective
from strongroom.caps.claims import (
    HEADER,
    MAX_BYTES,
    MAX_LINKS,
    Claims,
    Cnf,
    Grantable,
    Jwk,
    Link,
    Narrowing,
    Token,
    UnverifiedCap,
    b64,
    check_first,
    check_later,
    encode,
    parse,
)
from strongroom.errors import (
    CapAudience,
    CapHolderProof,
    CapMalformed,
    CapSignatureInvalid,
    Denied,
    InvalidRequest,
)
from strongroom.model import DataClass, LinkId

__all__ = [
    "LEEWAY",
    "MAX_BYTES",
    "MAX_LINKS",
    "Cap",
    "Grantable",
    "Link",
    "Narrowing",
    "Token",
    "UnverifiedCap",
    "attenuate",
    "issuer_id",
    "mint",
    "parse",
    "public_key",
    "verify",
]


def mint(
    *,
    issuer_seed: bytes,
    audience: str,
    jti: bytes,
    holder_seed: bytes | None,
    now: int,
    ttl: int,
    ops: Iterable[str],
    namespaces: Iterable[str],
    actor: str | None = None,
    actor_scope: str | None = None,
    data_class: str = DataClass.MEMORY,
    session: str | None = None,
    max_k: int | None = None,
    max_depth: int | None = None,
    label: str | None = None,
    issued: int | None = None,
) -> Token:
    """Sign link 0. With a `holder_seed` the cap can be narrowed further; without a seed it cannot.

    For a renewal, `issued` is the old cap's time of issue. So a revocation that voids the old cap by its age voids the
    new cap, too.
    """
    issuer = Ed25519PrivateKey.from_private_bytes(issuer_seed)
    claims = Grantable(
        v=1,
        iss=issuer_id(issuer.public_key().public_bytes_raw()),
        aud=audience,
        jti=b64(jti),
        iat=now if issued is None else issued,
        nbf=now,
        exp=now + ttl,
        actor=actor,
        actor_scope=actor_scope,
        data_class=data_class,
        ops=_sorted(ops),
        namespaces_allowed=_sorted(namespaces),
        session=session,
        max_k=max_k,
        max_depth=max_depth,
        cnf=_cnf(holder_seed),
        label=label,
    )
    _refuse_bad_claims(lambda: check_first(claims))
    token = _append("", claims, issuer, holder_seed)
    _refuse_bad_claims(lambda: parse(token))
    return token


def attenuate(
    token: str,
    *,
    now: int,
    jti: bytes,
    holder_seed: bytes | None,
    ttl: int | None = None,
    nbf: int | None = None,
    actor: str | None = None,
    actor_scope: str | None = None,
    ops: Iterable[str] | None = None,
    namespaces: Iterable[str] | None = None,
    session: str | None = None,
    max_k: int | None = None,
    max_depth: int | None = None,
    label: str | None = None,
) -> Token:
    """Add a narrowing link to a token. Works offline: it needs only the parent token, and nothing from the vault."""
    parent = parse(token)
    if parent.seed is None:
        raise InvalidRequest(
            "this cap has no holder key, so it cannot be narrowed", hint="mint a cap that may be narrowed"
        )
    if depth_left_in(parent.links) < 1:
        raise InvalidRequest("this cap allows no further link")
    claims = Narrowing(
        v=1,
        prev=parent.links[-1].id,
        jti=b64(jti),
        iat=now,
        nbf=nbf,
        exp=None if ttl is None else now + ttl,
        actor=actor,
        actor_scope=actor_scope,
        ops=None if ops is None else _sorted(ops),
        namespaces_allowed=None if namespaces is None else _sorted(namespaces),
        session=session,
        max_k=max_k,
        max_depth=max_depth,
        cnf=_cnf(holder_seed),
        label=label,
    )
    _refuse_bad_claims(lambda: check_later(claims))
    chain = "~".join(token.split("~")[: len(parent.links)]) + "~"
    narrowed = _append(chain, claims, Ed25519PrivateKey.from_private_bytes(parent.seed), holder_seed)
    _refuse_bad_claims(lambda: effective(parse(narrowed), ""))
    return narrowed


def verify(token: str, issuers: Mapping[str, bytes], audience: str, now: int) -> Cap:
    """Check a token completely except for revocation, and compute its authority.

    `issuers` maps an issuer id to its Ed25519 public key. An error raised after the check of link 0's signature carries
    the links and the actor that were proven by then, and no claim of a forged link.
    """
    chain = parse(token)
    public = issuers.get(chain.first.iss)
    if public is None:
        if chain.first.aud != audience:
            raise CapAudience("the cap is for another vault")
        raise CapSignatureInvalid(
            "the cap's issuer is not known to this vault", hint="the issuer key may have been rotated"
        )
    _check_signature(public, chain.links[0])
    proven = _Proven([chain.links[0].id], chain.first.actor)
    try:
        _check_later_links(chain, proven)
        _check_holder(chain, proven)
        if chain.first.aud != audience:
            raise CapAudience("the cap is for another vault")
        found = effective(chain, proven.holder)
        proven.actor = found.actor
        found.check_time(now)
    except Denied as denial:
        denial.links, denial.actor, denial.holder = tuple(proven.links), proven.actor, proven.holder
        raise
    return found


@dataclass(slots=True)
class _Proven:
    """The links, actor and holder that a verification has proven so far."""

    links: list[LinkId]
    actor: str | None
    holder: str = ""


def issuer_id(public: bytes) -> str:
    """The id of an issuer key: the first 16 hex digits of a hash of it."""
    return hashlib.sha256(b"strongroom issuer\0" + public).hexdigest()[:16]


def _check_later_links(chain: UnverifiedCap, proven: _Proven) -> None:
    for parent, link in pairwise(chain.links):
        if parent.holder_key is None:
            raise CapSignatureInvalid("a link was added to a cap that has no holder key")
        _check_signature(parent.holder_key, link)
        if isinstance(link.claims, Narrowing) and link.claims.prev != parent.id:
            raise CapMalformed("the links of this cap do not belong together")
        proven.links.append(link.id)


def _check_holder(chain: UnverifiedCap, proven: _Proven) -> None:
    key = chain.links[-1].holder_key
    if key is None:
        if chain.seed is not None:
            raise CapMalformed("the cap carries a holder key that no link names")
        return
    if chain.seed is None or public_key(chain.seed) != key:
        raise CapHolderProof(
            "the cap comes without the holder key of its last link",
            hint="pass the whole token: no link can be removed from a cap",
        )
    proven.holder = hashlib.sha256(key).hexdigest()[:32]


def _check_signature(public: bytes, link: Link) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(link.signature, link.signed)
    except InvalidSignature:
        raise CapSignatureInvalid(
            "the signature of a link in the cap is wrong", hint="pass the token as it was issued: it was altered or cut"
        ) from None


def _refuse_bad_claims(check: Callable[[], Any]) -> None:
    """Run a check, and raise InvalidRequest in place of Denied.

    While a cap is being made, a failed check means that the request is wrong, and not the cap.
    """
    try:
        check()
    except Denied as denial:
        raise InvalidRequest(denial.message) from None


def _append(chain: str, claims: Claims, signer: Ed25519PrivateKey, holder_seed: bytes | None) -> Token:
    signed = f"{HEADER}.{b64(encode(claims))}"
    link = f"{signed}.{b64(signer.sign(signed.encode()))}"
    token = chain + link + ("" if holder_seed is None else "~" + b64(holder_seed))
    if len(token) > MAX_BYTES:
        raise InvalidRequest(f"the cap would be larger than {MAX_BYTES} bytes")
    return Token(token)


def _cnf(seed: bytes | None) -> Cnf | None:
    return None if seed is None else Cnf(jwk=Jwk(kty="OKP", crv="Ed25519", x=b64(public_key(seed))))


def public_key(seed: bytes) -> bytes:
    """The Ed25519 public key that belongs to a seed."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise InvalidRequest("operations and namespaces must be lists of names, not a string")
    return tuple(sorted(set(map(str, values))))
