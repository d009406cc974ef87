"""Making, narrowing and checking caps, without a vault."""

from __future__ import annotations

import os
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bench.measure import Row, Run, in_turns
from strongroom.caps import chain
from strongroom.caps.chain import Token

_NOW = 1_779_440_000
_SIGNED = bytes(600)


def rows(run: Run) -> Iterator[Row]:
    issuer, holder, jti = os.urandom(32), os.urandom(32), os.urandom(16)
    key = Ed25519PrivateKey.from_private_bytes(issuer)
    public = key.public_key().public_bytes_raw()
    signature = key.sign(_SIGNED)

    def mint() -> Token:
        return chain.mint(
            issuer_seed=issuer,
            audience="vault",
            jti=jti,
            holder_seed=holder,
            now=_NOW,
            ttl=3600,
            ops=["put", "get"],
            namespaces=["work", "travel"],
            actor="local/alice",
        )

    runtime = mint()

    def attenuate() -> Token:
        return chain.attenuate(runtime, now=_NOW, jti=jti, holder_seed=holder, namespaces=["work"], ttl=300)

    narrowed = attenuate()

    def verify() -> None:
        chain.verify(narrowed, {chain.issuer_id(public): public}, "vault", _NOW)

    def sign() -> None:
        signer = Ed25519PrivateKey.from_private_bytes(issuer)
        signer.public_key().public_bytes_raw()
        signer.sign(_SIGNED)

    def check() -> None:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _SIGNED)
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _SIGNED)

    repeats = run.pick(30, 10)
    for name, what, work, bare_work, beside in (
        ("cap.mint", "mint", mint, sign, "key from seed and 1 Ed25519 sign"),
        ("cap.attenuate", "attenuate", attenuate, sign, "key from seed and 1 Ed25519 sign"),
        ("cap.verify", "verify, 2 links", verify, check, "2 Ed25519 verifies"),
    ):
        ours, bare = in_turns((work, bare_work), repeats=repeats, calls=20)
        yield Row(name, what, "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)
