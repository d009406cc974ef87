"""age files with a passphrase, written and read by their specification (age-encryption.org/v1) and nothing of ours.

Ours are tuned to cost a second each; these can be cheap, so that a test may damage many.
"""

from __future__ import annotations

import base64
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

_CHUNK = 64 * 1024
_LABEL = b"age-encryption.org/v1/scrypt"


def encrypt(data: bytes, passphrase: str, work: int = 4) -> bytes:
    """An age file whose scrypt costs 2**work."""
    key, salt = os.urandom(16), os.urandom(16)
    body = ChaCha20Poly1305(_stretched(passphrase, salt, work)).encrypt(bytes(12), key, None)
    head = f"age-encryption.org/v1\n-> scrypt {_b64(salt)} {work}\n{_b64(body)}\n---".encode()
    nonce = os.urandom(16)
    cipher = ChaCha20Poly1305(_derived(key, nonce, b"payload"))
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [b""]
    sealed = [cipher.encrypt(_counter(n, n == len(chunks) - 1), chunk, None) for n, chunk in enumerate(chunks)]
    return head + b" " + _b64(_mac(key, head)).encode() + b"\n" + nonce + b"".join(sealed)


def decrypt(data: bytes, passphrase: str) -> bytes:
    """What is in an age file, or ValueError."""
    first, stanza, wrapped, rest = data.split(b"\n", 3)
    mark, payload = rest.split(b"\n", 1)
    kind, salt, work = stanza.removeprefix(b"-> ").split(b" ")
    if first != b"age-encryption.org/v1" or kind != b"scrypt" or not mark.startswith(b"--- "):
        raise ValueError("not an age file with a passphrase")
    try:
        key = ChaCha20Poly1305(_stretched(passphrase, _unb64(salt), int(work))).decrypt(
            bytes(12), _unb64(wrapped), None
        )
        head = b"\n".join([first, stanza, wrapped, b"---"])
        if _unb64(mark.removeprefix(b"--- ")) != _mac(key, head):
            raise ValueError("the header's MAC is wrong")
        cipher = ChaCha20Poly1305(_derived(key, payload[:16], b"payload"))
        sealed = [payload[at : at + _CHUNK + 16] for at in range(16, len(payload), _CHUNK + 16)]
        return b"".join(cipher.decrypt(_counter(n, n == len(sealed) - 1), one, None) for n, one in enumerate(sealed))
    except InvalidTag:
        raise ValueError("the passphrase is wrong, or the file damaged") from None


def _stretched(passphrase: str, salt: bytes, work: int) -> bytes:
    return Scrypt(salt=_LABEL + salt, length=32, n=1 << work, r=8, p=1).derive(passphrase.encode())


def _derived(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(hashes.SHA256(), 32, salt, info).derive(key)


def _mac(key: bytes, head: bytes) -> bytes:
    mac = hmac.HMAC(_derived(key, b"", b"header"), hashes.SHA256())
    mac.update(head)
    return mac.finalize()


def _counter(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode().rstrip("=")


def _unb64(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4))
