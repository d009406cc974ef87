"""Test vectors for bundles, written from the specification (docs/spec/inbox.md) and not with the code under test.

age is done here a second time, on X25519, HKDF and ChaCha20-Poly1305 alone. What age takes from chance is a hash of
its name, so the same vectors come out, byte for byte, every time.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Iterator
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from scripts.vectors_sealed import ALICE, LINE_ID, TRAVEL, Case, b64, case, compact, flipped, secret

_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_CHUNK = 64 * 1024
_MAGIC = b"age-encryption.org/v1\n"
_LABEL = b"age-encryption.org/v1/X25519"
SECRET = secret("inbox key")
LINE = {"text": "Trip to Chengdu, May 25-29", "namespace": TRAVEL, "session": "s1", "author": "alice", "kind": "turn"}
BUNDLE: dict[str, Any] = {
    "actor": ALICE,
    "lines": [{**LINE, "id": LINE_ID, "time": "2026-05-22T08:53:20Z"}],
    "v": 1,
}


def vectors() -> Iterator[Case]:
    identity, recipient = bech32("age-secret-key-", SECRET).upper(), bech32("age", public(SECRET))
    kind, sealed = "inbox", age(compact(BUNDLE))

    def bundle(name: str, what: str, expect: str = "ok", *, file: bytes = sealed, **more: Any) -> Case:
        return case(name, kind, what, expect, identity=identity, sealed=b64(file), **more)

    yield case("recipient", "recipient", "the public half of a key", identity=identity, recipient=recipient)
    yield bundle("bundle", "one line", bundle=BUNDLE)
    two = BUNDLE | {"lines": [*BUNDLE["lines"], {"text": "川菜 🌶", "id": LINE_ID[:-1] + "1"}]}
    yield bundle("bundle-two-lines", "two lines, one with its text and id alone", file=age(compact(two)), bundle=two)
    greased = age(compact(BUNDLE), grease=b"-> x-grease a b\n" + base64.b64encode(secret("grease", 30)) + b"\n")
    yield bundle("bundle-grease", "a stanza that means nothing, as some writers add", file=greased, bundle=BUNDLE)
    yield from _refused(bundle, sealed)


def _refused(bundle: Any, sealed: bytes) -> Iterator[Case]:
    refused = "invalid_request"
    for name, bit in (("header", 8 * 40), ("mac", 8 * (sealed.index(b"\n--- ") + 9)), ("payload", 8 * len(sealed) - 1)):
        yield bundle(f"bundle-flipped-{name}", f"one bit of the {name}", refused, file=flipped(sealed, bit))
    yield bundle("bundle-cut", "without its last byte", refused, file=sealed[:-1])
    yield bundle("bundle-empty", "no bytes", refused, file=b"")
    yield bundle("bundle-foreign", "for another vault", refused, file=age(compact(BUNDLE), secret("another inbox")))
    armor = b"-----BEGIN AGE ENCRYPTED FILE-----\n" + base64.b64encode(sealed) + b"\n"
    yield bundle("bundle-armored", "as text", refused, file=armor + b"-----END AGE ENCRYPTED FILE-----\n")
    long = b"".join(b"-> x %d\n\n" % number for number in range(200))
    yield bundle("bundle-long-header", "a header of over 1 KiB", refused, file=age(compact(BUNDLE), grease=long))
    for name, content in {
        "version": BUNDLE | {"v": 2},
        "unknown-field": BUNDLE | {"x": 1},
        "unknown-field-of-a-line": BUNDLE | {"lines": [{"text": "x", "id": LINE_ID, "links": []}]},
        "no-actor": {name: value for name, value in BUNDLE.items() if name != "actor"},
        "no-lines": BUNDLE | {"lines": []},
        "no-id": BUNDLE | {"lines": [LINE]},
        "no-ulid": BUNDLE | {"lines": [{**LINE, "id": LINE_ID.lower()}]},
        "no-object": [BUNDLE],
    }.items():
        yield bundle(f"bundle-{name}", f"sealed: {name.replace('-', ' ')}", refused, file=age(compact(content)))
    yield bundle("bundle-no-json", "sealed: no JSON", refused, file=age(b"\xff"))
    many = [{"text": "x", "id": f"{LINE_ID[:-3]}{number:03d}"} for number in range(257)]
    yield bundle("bundle-257-lines", "sealed: 257 lines", "too_many", file=age(compact(BUNDLE | {"lines": many})))


def age(plain: bytes, to: bytes = SECRET, grease: bytes = b"") -> bytes:
    """An age file for one X25519 recipient; `grease` stands behind its stanza."""
    key, mine, nonce = secret("file key", 16), secret("ephemeral"), secret("payload nonce", 16)
    shared = X25519PrivateKey.from_private_bytes(mine).exchange(X25519PublicKey.from_public_bytes(public(to)))
    wrapping = _derived(shared, public(mine) + public(to), _LABEL)
    wrapped = ChaCha20Poly1305(wrapping).encrypt(bytes(12), key, None)
    head = _MAGIC + b"-> X25519 " + _b64(public(mine)) + b"\n" + _b64(wrapped) + b"\n" + grease + b"---"
    mac = hmac.digest(_derived(key, b"", b"header"), head, "sha256")
    cipher = ChaCha20Poly1305(_derived(key, nonce, b"payload"))
    chunks = [plain[at : at + _CHUNK] for at in range(0, len(plain), _CHUNK)] or [b""]
    last = len(chunks) - 1
    sealed = (cipher.encrypt(n.to_bytes(11, "big") + bytes([n == last]), one, None) for n, one in enumerate(chunks))
    return head + b" " + _b64(mac) + b"\n" + nonce + b"".join(sealed)


def public(key: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()


def _derived(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt, info).derive(key)


def _b64(raw: bytes) -> bytes:
    return base64.b64encode(raw).rstrip(b"=")


def bech32(prefix: str, raw: bytes) -> str:
    """BIP 173, without its limit on the length."""
    bits = "".join(f"{byte:08b}" for byte in raw)
    data = [int(bits[at : at + 5].ljust(5, "0"), 2) for at in range(0, len(bits), 5)]
    spread = [ord(one) >> 5 for one in prefix] + [0] + [ord(one) & 31 for one in prefix]
    check = _polymod([*spread, *data, *[0] * 6]) ^ 1
    data += [check >> 5 * (5 - place) & 31 for place in range(6)]
    return prefix + "1" + "".join(_BECH32[value] for value in data)


def _polymod(values: list[int]) -> int:
    check = 1
    for value in values:
        top, check = check >> 25, (check & 0x1FFFFFF) << 5 ^ value
        for bit, generator in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= generator if top >> bit & 1 else 0
    return check
