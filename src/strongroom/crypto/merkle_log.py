"""The Merkle tree of the log: RFC 6962 tree hashes, C2SP checkpoints, proofs and tiles (docs/spec/audit.md).

The functions compute with hashes only, and store nothing. The formats are those of c2sp.org/tlog-tiles,
tlog-checkpoint, tlog-proof and signed-note, so that other tools can check them. Only `EdgeMac` is specific to
Strongroom: it authenticates the end of the tree between two checkpoints.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from strongroom.crypto.hmac_state import HmacState, context
from strongroom.errors import Tampered

HASH_SIZE = 32
TILE_WIDTH = 256
EMPTY_ROOT = sha256(b"").digest()

ReadRange = Callable[[int, int], bytes]
"""A function (low, high) that returns the tree hash of the leaves from `low` up to, but not including, `high`."""

_ED25519 = b"\x01"
_DASH = "—"
_PROOF = "c2sp.org/tlog-proof@v1"


def leaf_hash(entry: bytes) -> bytes:
    """The hash of one entry, a leaf of the tree. Leaves and inner nodes are hashed with different prefixes.

    Therefore a leaf can never have the hash of a node.
    """
    return sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\1" + left + right).digest()


class Range:
    """The right edge of a tree: the hashes of its perfect subtrees, from left to right. `append` adds a leaf."""

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise Tampered("the stored hashes of the log's tree do not match its size")

    @classmethod
    def of(cls, size: int, packed: bytes) -> Range:
        """Rebuild a Range from its size and from the bytes that `packed` returned."""
        if len(packed) != size.bit_count() * HASH_SIZE:
            raise Tampered("the stored hashes of the log's tree do not match its size")
        return cls(size, [packed[at : at + HASH_SIZE] for at in range(0, len(packed), HASH_SIZE)])

    def append(self, leaf: bytes) -> None:
        size = self.size
        while size & 1:
            leaf = node_hash(self.peaks.pop(), leaf)
            size >>= 1
        self.peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        if not self.peaks:
            return EMPTY_ROOT
        root = self.peaks[-1]
        for peak in reversed(self.peaks[:-1]):
            root = node_hash(peak, root)
        return root

    def packed(self) -> bytes:
        return b"".join(self.peaks)


class EdgeMac:
    """Authenticates the right edge of a vault's tree with an HMAC under the vault's tag key."""

    def __init__(self, vault_id: str, tag_key: bytes) -> None:
        self._prefix = context("strongroom/head/v1", vault_id)
        self._keyed = HmacState(tag_key)

    def __repr__(self) -> str:
        return "<vault mac redacted>"

    def sign(self, size: int, peaks: bytes, time: int) -> bytes:
        return self._keyed.digest_of(size, peaks, time, prefix=self._prefix)


def tree_hash(leaves: Iterable[bytes]) -> bytes:
    """The root of a tree with these leaf hashes."""
    edge = Range()
    for leaf in leaves:
        edge.append(leaf)
    return edge.root()


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_proof(read: ReadRange, index: int, size: int) -> list[bytes]:
    """The proof that leaf `index` is among the first `size` leaves (RFC 6962 2.1.1): sibling hashes, lowest first."""
    if not 0 <= index < size:
        raise ValueError("the index of the leaf is outside the tree")
    path: list[bytes] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(read(middle, high))
            high = middle
        else:
            path.append(read(low, middle))
            low = middle
    return path[::-1]


def root_from_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root that follows from an inclusion proof (RFC 9162 2.1.3.2). The caller compares it with the signed root."""
    node, last = index, size - 1
    if not 0 <= index < size:
        raise Tampered("an inclusion proof points outside its tree")
    root = leaf
    for sibling in proof:
        if last == 0:
            raise Tampered("an inclusion proof is too long")
        if node & 1 or node == last:
            root = node_hash(sibling, root)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            root = node_hash(root, sibling)
        node >>= 1
        last >>= 1
    if last:
        raise Tampered("an inclusion proof is too short")
    return root


def consistency_proof(read: ReadRange, old: int, new: int) -> list[bytes]:
    """The proof that the first `old` leaves of a tree with `new` leaves are unchanged (RFC 6962 2.1.2)."""
    if not 0 < old <= new:
        raise ValueError("a consistency proof needs 0 < old <= new")
    path: list[bytes] = []
    low, high, known, whole = 0, new, old, True
    while known != high - low:
        middle = _split(high - low)
        if known <= middle:
            path.append(read(low + middle, high))
            high = low + middle
        else:
            path.append(read(low, low + middle))
            low, known, whole = low + middle, known - middle, False
    if not whole:
        path.append(read(low, high))
    return path[::-1]


def check_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> None:
    """Check the proof that the new tree continues the old tree (RFC 9162 2.1.4.2). Raises Tampered if it does not."""
    path = list(proof)
    if old == new:
        ok = not path and old_root == new_root
    elif not 0 < old < new:
        ok = False
    else:
        if old & (old - 1) == 0:
            # A complete old tree is a node of the new tree, so the proof leaves out the hash of this node.
            path.insert(0, old_root)
        ok = bool(path) and _roots_from_consistency(old, new, path) == (old_root, new_root)
    if not ok:
        raise Tampered("the log does not continue the log that was seen before")


def _roots_from_consistency(old: int, new: int, path: list[bytes]) -> tuple[bytes, bytes] | None:
    node, last = old - 1, new - 1
    while node & 1:
        node >>= 1
        last >>= 1
    first = second = path[0]
    for sibling in path[1:]:
        if last == 0:
            return None
        if node & 1 or node == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            second = node_hash(second, sibling)
        node >>= 1
        last >>= 1
    return (first, second) if last == 0 else None


# Signed notes and checkpoints.


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A state of the log that can be signed: the log's name (`origin`), its size, its root, and extension lines."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def text(self) -> str:
        more = "".join(f"{line}\n" for line in self.extensions)
        return f"{self.origin}\n{self.size}\n{_b64(self.root)}\n{more}"

    @classmethod
    def parse(cls, text: str, *, extended: bool = False) -> Checkpoint:
        """Read the text of a checkpoint. A number in an unusual form is refused, and so are extension lines.

        With `extended`, extension lines are allowed.
        """
        origin, size, root, *more = text.split("\n") + [""] * 3
        found = cls(origin, _number(size), _unb64(root), tuple(filter(None, more)) if extended else ())
        if not origin or found.text() != text or len(found.root) != HASH_SIZE:
            raise Tampered("a checkpoint is malformed")
        return found


def key_hash(name: str, public: bytes) -> bytes:
    """The four bytes that identify a key in the signature line of a signed note."""
    return sha256(name.encode() + b"\n" + _ED25519 + public).digest()[:4]


def verifier_key(name: str, public: bytes) -> str:
    """The public key in the format that tools for signed notes accept."""
    return f"{name}+{key_hash(name, public).hex()}+{_b64(_ED25519 + public)}"


def sign_checkpoint(checkpoint: Checkpoint, seed: bytes) -> str:
    """The checkpoint as a signed note. The signature names the log itself (`origin`) as the signer."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    text = checkpoint.text()
    mark = key_hash(checkpoint.origin, key.public_key().public_bytes_raw())
    return f"{text}\n{_DASH} {checkpoint.origin} {_b64(mark + key.sign(text.encode()))}\n"


def open_checkpoint(note: str, origin: str, public: bytes, *, extended: bool = False) -> Checkpoint:
    """Check a signed checkpoint of this log, and return it. Raises Tampered if the signature is wrong.

    Signature lines of other signers are ignored.
    """
    text, gap, signatures = note.partition("\n\n")
    text += "\n"
    lines = signatures.split("\n")
    if not gap or lines.pop() or not lines or not all(line.startswith(_DASH + " ") for line in lines):
        raise Tampered("a checkpoint is not a signed note")
    mark = key_hash(origin, public)
    own = [
        _unb64(line.split(" ")[2]) for line in lines if line.startswith(f"{_DASH} {origin} ") and line.count(" ") == 2
    ]
    own = [signature for signature in own if signature[:4] == mark]
    if len(own) != 1:
        raise Tampered("a checkpoint is not signed by this vault's log key")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(own[0][4:], text.encode())
    except InvalidSignature:
        raise Tampered("a checkpoint's signature is wrong") from None
    found = Checkpoint.parse(text, extended=extended)
    if found.origin != origin:
        raise Tampered("a checkpoint belongs to another log")
    return found


# Proof files and tile names.


@dataclass(frozen=True, slots=True)
class Proof:
    """An inclusion proof together with its signed checkpoint, so that it can be checked without the log."""

    index: int
    hashes: tuple[bytes, ...]
    note: str

    def text(self) -> str:
        path = "".join(f"{_b64(sibling)}\n" for sibling in self.hashes)
        return f"{_PROOF}\nindex {self.index}\n{path}\n{self.note}"

    @classmethod
    def parse(cls, text: str) -> Proof:
        head, _, note = text.partition("\n\n")
        lines = head.split("\n")
        number = lines[1].removeprefix("index ") if len(lines) > 1 else ""
        if lines[0] != _PROOF:
            raise Tampered("this is not a tlog proof")
        found = cls(_number(number), tuple(map(_unb64, lines[2:])), note)
        if found.text() != text or any(len(sibling) != HASH_SIZE for sibling in found.hashes):
            raise Tampered("a tlog proof is malformed")
        return found

    def check(self, entry: bytes, origin: str, public: bytes) -> Checkpoint:
        """Check that `entry` is in the log at this index. Returns the checkpoint of the proof, or raises Tampered."""
        checkpoint = open_checkpoint(self.note, origin, public)
        if root_from_inclusion(leaf_hash(entry), self.index, checkpoint.size, self.hashes) != checkpoint.root:
            raise Tampered("the entry is not in the log at this place")
        return checkpoint


def tile_path(number: int) -> str:
    """The path of a tile (a file with hashes of the tree) in the format tlog-tiles: tile 1234067 is x001/x234/067."""
    parts = [f"{number % 1000:03d}"]
    while number := number // 1000:
        parts.append(f"x{number % 1000:03d}")
    return "/".join(reversed(parts))


def bundle(entries: Iterable[bytes]) -> bytes:
    """Encode log entries as an entry bundle: the length of each entry in two bytes, and then the entry."""
    return b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)


def unbundle(data: bytes) -> list[bytes]:
    """The log entries of an entry bundle. Raises Tampered if the bundle is cut short."""
    entries: list[bytes] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        entries.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    if at != len(data):
        raise Tampered("an entry bundle is cut short")
    return entries


def _number(text: str) -> int:
    """Parse a size or an index. Leading zeros are refused by the caller, which encodes the whole text again."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise Tampered("a number in the log is malformed")
    return int(text)


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _unb64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if _b64(raw) != text:
        raise Tampered("a base64 value is malformed")
    return raw
