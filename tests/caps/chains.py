"""Caps for tests: made with the library, or forged link by link with any claims and a valid signature."""

from __future__ import annotations

from typing import Any

import pytest
from scripts.vectors_cap import AUDIENCE, HOLDERS, ISSUER, ISSUERS, NOW, seed

from strongroom.caps import chain
from strongroom.caps.chain import Cap, Token
from strongroom.errors import Denied


def mint(**changes: Any) -> Token:
    """A delegable cap of local/alice for a few ops on two namespaces, with changes."""
    given: dict[str, Any] = {
        "issuer_seed": ISSUER,
        "audience": AUDIENCE,
        "jti": seed("jti")[:16],
        "holder_seed": HOLDERS[0],
        "now": NOW,
        "ttl": 300,
        "ops": ["get", "list", "put"],
        "namespaces": ["travel", "work"],
        "actor": None if "actor_scope" in changes else "local/alice",
    }
    return chain.mint(**{**given, **changes})


def narrow(token: str, **changes: Any) -> Token:
    """One more link, by default delegable; its holder key depends on its place."""
    place = len(chain.parse(token).links)
    given: dict[str, Any] = {"now": NOW, "jti": seed(f"jti {place}")[:16], "holder_seed": HOLDERS[place]}
    return chain.attenuate(token, **{**given, **changes})


def verified(token: str, *, now: int = NOW, audience: str = AUDIENCE) -> Cap:
    return chain.verify(token, ISSUERS, audience, now)


def refusal(token: str, *, now: int = NOW, audience: str = AUDIENCE) -> Denied:
    """The error that verifying raises. Anything but a denial, or none, fails the test."""
    with pytest.raises(Denied) as caught:
        chain.verify(token, ISSUERS, audience, now)
    return caught.value


def reason(token: str, *, now: int = NOW, audience: str = AUDIENCE) -> str:
    return refusal(token, now=now, audience=audience).reason
