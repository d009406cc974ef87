"""A second reading of the log's specifications, for tests: slow, recursive, straight from the definitions.

Trees and proofs follow RFC 6962 2.1 and RFC 9162 2.1 on the entries themselves; notes, proofs and tiles follow
c2sp.org/signed-note, tlog-checkpoint, tlog-proof and tlog-tiles. Nothing here uses the module under test.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Refused(Exception):
    """Something does not check."""


def _sha(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _k(n: int) -> int:
    """The largest power of two smaller than n."""
    power = 1
    while power * 2 < n:
        power *= 2
    return power


class Tree:
    """A tree over entries, kept whole. Subtree hashes are remembered, or the tests would not end."""

    def __init__(self, entries: Sequence[bytes]) -> None:
        self.leaves = [_sha(b"\x00" + entry) for entry in entries]
        self._known: dict[tuple[int, int], bytes] = {}

    def mth(self, low: int, high: int) -> bytes:
        """MTH(D[low:high])."""
        if high == low:
            return _sha(b"")
        if high - low == 1:
            return self.leaves[low]
        if (low, high) not in self._known:
            middle = low + _k(high - low)
            self._known[low, high] = _sha(b"\x01" + self.mth(low, middle) + self.mth(middle, high))
        return self._known[low, high]

    def root(self, size: int | None = None) -> bytes:
        return self.mth(0, len(self.leaves) if size is None else size)

    def path(self, m: int, low: int, high: int) -> list[bytes]:
        """PATH(m, D[low:high])."""
        n = high - low
        if n == 1:
            return []
        k = _k(n)
        if m < k:
            return [*self.path(m, low, low + k), self.mth(low + k, high)]
        return [*self.path(m - k, low + k, high), self.mth(low, low + k)]

    def proof(self, m: int, n: int) -> list[bytes]:
        """PROOF(m, D[0:n])."""
        return self._subproof(m, 0, n, whole=True)

    def _subproof(self, m: int, low: int, high: int, *, whole: bool) -> list[bytes]:
        n = high - low
        if m == n:
            return [] if whole else [self.mth(low, high)]
        k = _k(n)
        if m <= k:
            return [*self._subproof(m, low, low + k, whole=whole), self.mth(low + k, high)]
        return [*self._subproof(m - k, low + k, high, whole=False), self.mth(low, low + k)]


def root_of_path(leaf: bytes, m: int, n: int, path: Sequence[bytes]) -> bytes:
    """Undo PATH: its last hash is the other half at the top, and the rest is the path inside this half."""
    if not 0 <= m < n:
        raise Refused("index outside the tree")
    if n == 1:
        if path:
            raise Refused("path too long")
        return leaf
    if not path:
        raise Refused("path too short")
    k = _k(n)
    if m < k:
        return _sha(b"\x01" + root_of_path(leaf, m, k, path[:-1]) + path[-1])
    return _sha(b"\x01" + path[-1] + root_of_path(leaf, m - k, n - k, path[:-1]))


@dataclass(frozen=True)
class SignedHead:
    """What a log says of itself."""

    origin: str
    size: int
    root: bytes


def _b64(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise Refused("not canonical base64")
    return raw


def open_note(note: str, verifier_key: str) -> SignedHead:
    """Check a signed checkpoint with a verifier key `name+hash+base64(0x01 || public key)`."""
    name, number, encoded = verifier_key.split("+", 2)
    algorithm = base64.b64decode(encoded)
    mark = _sha(name.encode() + b"\n" + algorithm)[:4]
    if mark.hex() != number or algorithm[:1] != b"\x01" or len(algorithm) != 33:
        raise Refused("not an Ed25519 verifier key")
    # The text is separated from the signatures by the last empty line.
    border = note.rindex("\n\n")
    text, signatures = note[: border + 1], note[border + 2 :]
    if not signatures.endswith("\n"):
        raise Refused("the note is cut short")
    checked = 0
    for line in signatures[:-1].split("\n"):
        dash, signer, encoded = line.split(" ")
        if dash != "\u2014":
            raise Refused("not a signature line")
        raw = _b64(encoded)
        if signer == name and raw[:4] == mark:
            Ed25519PublicKey.from_public_bytes(algorithm[1:]).verify(raw[4:], text.encode())
            checked += 1
    if not checked:
        raise Refused("not signed by this key")
    origin, size, root, end = text.split("\n")
    if end or not origin or str(int(size)) != size or len(_b64(root)) != 32:
        raise Refused("not a checkpoint")
    return SignedHead(origin, int(size), _b64(root))


def check_proof(text: str, entry: bytes, verifier_key: str) -> SignedHead:
    """Check a tlog-proof for `entry` with nothing but the log's verifier key."""
    head, note = text.split("\n\n", 1)
    title, index, *path = head.split("\n")
    word, number = index.split(" ")
    if title != "c2sp.org/tlog-proof@v1" or word != "index" or str(int(number)) != number:
        raise Refused("not a tlog-proof")
    signed = open_note(note, verifier_key)
    if root_of_path(_sha(b"\x00" + entry), int(number), signed.size, [_b64(one) for one in path]) != signed.root:
        raise Refused("the entry is not in the log at this place")
    return signed


def tiles(tree: Tree) -> dict[str, bytes]:
    """Every tile of a tree by its path below `tile/`, from the formula of tlog-tiles."""
    size = len(tree.leaves)
    found: dict[str, bytes] = {}
    level = 0
    while size >> 8 * level:
        span = 256**level
        count = size // span
        for n in range((count + 255) // 256):
            width = min(256, count - n * 256)
            hashes = [tree.mth((n * 256 + i) * span, (n * 256 + i + 1) * span) for i in range(width)]
            found[f"{level}/{tile_name(n, width)}"] = b"".join(hashes)
        level += 1
    return found


def bundles(entries: Sequence[bytes]) -> dict[str, bytes]:
    """Every entry bundle by its path below `tile/`."""
    found: dict[str, bytes] = {}
    for n in range((len(entries) + 255) // 256):
        part = entries[n * 256 : (n + 1) * 256]
        data = b"".join(len(entry).to_bytes(2, "big") + entry for entry in part)
        found[f"entries/{tile_name(n, len(part))}"] = data
    return found


def tile_name(n: int, width: int) -> str:
    digits = str(n)
    digits = digits.zfill((len(digits) + 2) // 3 * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    name = "/".join([f"x{group}" for group in groups[:-1]] + [groups[-1]])
    return name if width == 256 else f"{name}.p/{width}"
