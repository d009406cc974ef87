"""What one decision costs, with the cap seen before and with a new one."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from bench import vaults
from bench.measure import Goal, Row, Run, in_turns
from strongroom.caps import chain as cap
from strongroom.gate import Ask
from strongroom.model import Op


def rows(run: Run) -> Iterator[Row]:
    with vaults.make(run.scratch) as vault:
        token = vaults.session_cap(vault)
        gate = vault._state.gate
        now = int(time.time())
        known = {hashlib.sha256(token.encode()).digest(): True}
        chain = cap.parse(token)
        issuer = next(iter(vault._state.records.secrets.issuers.values()))
        seed = chain.seed or b""

        def decide() -> None:
            gate.admit(token, Ask.of(Op.GET, ["work"], session="s1", k=5), now)

        def decide_anew() -> None:
            gate._verified.clear()
            decide()

        def look_up() -> bool:
            return known[hashlib.sha256(token.encode()).digest()]

        def check_signatures() -> None:
            for public, link in zip((issuer, chain.links[0].holder_key or b""), chain.links, strict=True):
                Ed25519PublicKey.from_public_bytes(public).verify(link.signature, link.signed)
            Ed25519PrivateKey.from_private_bytes(seed).public_key()

        repeats = run.pick(30, 10)
        ours, bare = in_turns((decide, look_up), repeats=repeats, calls=500)
        yield Row(
            "gate.cached",
            "decision, cap cached",
            "us cpu",
            ours.cpu * 1e6,
            bare.cpu * 1e6,
            "SHA-256 of the token and a dict",
            Goal("ours", 20, 5),
        )
        ours, bare = in_turns((decide_anew, check_signatures), repeats=repeats, calls=20)
        yield Row(
            "gate.new",
            "decision, new cap of 2 links",
            "us cpu",
            ours.cpu * 1e6,
            bare.cpu * 1e6,
            "2 Ed25519 verifies, 1 public key",
        )
