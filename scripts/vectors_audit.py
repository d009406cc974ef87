"""Test vectors for the audit log, from the specification (docs/spec/audit.md) and not with the code under test."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scripts.vectors_keys import SHELF, tag
from scripts.vectors_sealed import (
    LINE_ID,
    TIME,
    VAULT,
    Case,
    Vector,
    b64,
    b64url,
    case,
    compact,
    context,
    flipped,
    secret,
)


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\0" + entry).digest()


def tree(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962 over leaf hashes."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + tree(leaves[:k]) + tree(leaves[k:])).digest()


def path(m: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH of RFC 6962."""
    if len(leaves) == 1:
        return []
    k = 1 << (len(leaves) - 1).bit_length() - 1
    if m < k:
        return [*path(m, leaves[:k]), tree(leaves[k:])]
    return [*path(m - k, leaves[k:]), tree(leaves[:k])]


def subproof(m: int, leaves: Sequence[bytes], *, whole: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 6962."""
    if m == len(leaves):
        return [] if whole else [tree(leaves)]
    k = 1 << (len(leaves) - 1).bit_length() - 1
    if m <= k:
        return [*subproof(m, leaves[:k], whole=whole), tree(leaves[k:])]
    return [*subproof(m - k, leaves[k:], whole=False), tree(leaves[:k])]


def peaks(leaves: Sequence[bytes]) -> bytes:
    """The hashes of the perfect subtrees, left to right."""
    packed, at = b"", 0
    for bit in reversed(range(len(leaves).bit_length())):
        if len(leaves) >> bit & 1:
            packed += tree(leaves[at : at + (1 << bit)])
            at += 1 << bit
    return packed


ORIGIN = f"strongroom/{VAULT}"
SIGNER = Ed25519PrivateKey.from_private_bytes(secret("log_seed"))
PUBLIC = SIGNER.public_key().public_bytes_raw()
ENTRIES = [b"entry %d" % number for number in range(21)]
LEAVES = [leaf_hash(entry) for entry in ENTRIES]


def key_id(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n\x01" + public).digest()[:4]


def signed(text: str, name: str = ORIGIN, key: Ed25519PrivateKey = SIGNER) -> str:
    mark = key_id(name, key.public_key().public_bytes_raw())
    return f"{text}\n\u2014 {name} {b64(mark + key.sign(text.encode()))}\n"


def head_text(size: int, origin: str = ORIGIN) -> str:
    return f"{origin}\n{size}\n{b64(tree(LEAVES[:size]))}\n"


def vectors() -> Iterator[Case]:
    yield from _entry_vectors()
    yield from _tree_vectors()
    yield from _inclusion_vectors()
    yield from _consistency_vectors()
    yield from _checkpoint_vectors()
    yield from _proof_vectors()
    yield from _head_vectors()
    yield from _replay_vectors()


FIELDS = "v time op decision reason data_class request actor namespaces links holder count lines objects erased detail"
FULL_ENTRY: dict[str, Any] = {
    "v": 1,
    "time": TIME,
    "op": "put",
    "decision": "allow",
    "data_class": "memory",
    "request": "r-1",
    "actor": tag(secret("tag key"), "actor"),
    "namespaces": [tag(secret("tag key"), "namespace", SHELF)],
    "links": ["ab" * 32],
    "holder": "cd" * 16,
    "count": 1,
    "lines": [LINE_ID],
    "objects": [["T" * 22, b64url(hashlib.sha256(b"sealed").digest()), "S" * 22], ["U" * 22, "", ""]],
    "erased": "namespace",
    "detail": 'é "quoted"',
}


def _entry_vectors() -> Iterator[Case]:
    small = {"v": 1, "time": TIME, "op": "get", "decision": "deny", "reason": "cap_expired"}
    repeated = {**small, "links": ["ab" * 32], "count": 500, "detail": f"repeated {TIME - 9000}-{TIME - 1000}"}
    others = {**small, "count": 900, "detail": f"{repeated['detail']} and others"}
    for name, fields in {"full": FULL_ENTRY, "small": small, "repeated": repeated, "others": others}.items():
        data = compact(fields)
        leaf = leaf_hash(data).hex()
        yield case(f"entry-{name}", "entry", "an entry", entry=data.decode(), leaf=leaf, fields=fields)
    text = compact(small).decode()
    wrong = {
        "space": text.replace(":1,", ": 1,", 1),
        "trailing": text + "\n",
        "order": compact({"v": 1, "op": "get", "time": TIME, "decision": "deny"}).decode(),
        "default": text[:-1] + ',"count":0}',
        "unknown-field": text[:-1] + ',"text":"x"}',
        "twice": text[:-1] + ',"reason":"cap_expired"}',
        "escape": text.replace('"get"', '"\\u0067et"'),
        "float": text.replace('"v":1', '"v":1.0'),
        "version": text.replace('"v":1', '"v":2'),
        "decision": text.replace('"deny"', '"maybe"'),
        "short-mark": text[:-1] + ',"objects":[["t","d"]]}',
        "no-op": compact({"v": 1, "time": TIME, "decision": "deny"}).decode(),
        "cut": text[:-1],
    }
    for name, edited in wrong.items():
        yield case(f"entry-{name}", "entry", f"not in canonical form: {name}", "tampered", entry=edited)


def _tree_vectors() -> Iterator[Case]:
    sizes = range(len(LEAVES) + 1)
    yield case(
        "tree",
        "tree",
        "leaf hashes of the entries, and the root and right edge of every size",
        entries=[entry.decode() for entry in ENTRIES],
        leaves=[leaf.hex() for leaf in LEAVES],
        roots=[tree(LEAVES[:size]).hex() for size in sizes],
        peaks=[peaks(LEAVES[:size]).hex() for size in sizes],
    )
    packed = b"".join(len(entry).to_bytes(2, "big") + entry for entry in ENTRIES)
    entries = [entry.decode() for entry in ENTRIES]
    yield case("bundle", "bundle", "an entry bundle", bundle=b64(packed), entries=entries)
    yield case("bundle-cut", "bundle", "an entry bundle cut short", "tampered", bundle=b64(packed[:-1]))
    numbers = (0, 7, 999, 1000, 1_234_067)
    yield case("tile-paths", "tile-paths", "tile numbers as paths", paths={str(one): tile_path(one) for one in numbers})


def tile_path(number: int) -> str:
    digits = str(number)
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return "/".join([f"x{group}" for group in groups[:-1]] + groups[-1:])


def _inclusion_vectors() -> Iterator[Case]:
    def given(index: int, size: int) -> Vector:
        proof = [one.hex() for one in path(index, LEAVES[:size])]
        root = tree(LEAVES[:size]).hex()
        return {"leaf": LEAVES[index].hex(), "index": index, "size": size, "root": root, "proof": proof}

    for index, size in ((0, 1), (0, 8), (7, 8), (6, 7), (13, 21), (20, 21)):
        yield case(f"inclusion-{index}-{size}", "inclusion", f"leaf {index} of {size}", **given(index, size))
    good = given(13, 21)
    wrong = {
        "short": {"proof": good["proof"][:-1]},
        "long": {"proof": [*good["proof"], "00" * 32]},
        "index": {"index": 12},
        "outside": {"index": 21},
        "leaf": {"leaf": LEAVES[12].hex()},
        "root": {"root": "00" * 32},
    }
    for name, changed in wrong.items():
        yield case(f"inclusion-{name}", "inclusion", f"refused: {name}", "tampered", **good | changed)


def _consistency_vectors() -> Iterator[Case]:
    def given(old: int, new: int) -> Vector:
        roots = {"old_root": tree(LEAVES[:old]).hex(), "new_root": tree(LEAVES[:new]).hex()}
        return {"old": old, "new": new} | roots | {"proof": [one.hex() for one in subproof(old, LEAVES[:new])]}

    for old, new in ((1, 1), (1, 2), (3, 7), (4, 8), (7, 8), (8, 21), (20, 21)):
        yield case(f"consistency-{old}-{new}", "consistency", f"{old} leaves grown to {new}", **given(old, new))
    good = given(3, 7)
    wrong = {
        "short": {"proof": good["proof"][:-1]},
        "long": {"proof": [*good["proof"], "00" * 32]},
        "old-root": {"old_root": "00" * 32},
        "new-root": {"new_root": "00" * 32},
        "empty": {"old": 0, "old_root": tree([]).hex()},
        "backwards": {"old": 7, "new": 3},
    }
    for name, changed in wrong.items():
        yield case(f"consistency-{name}", "consistency", f"refused: {name}", "tampered", **good | changed)


def _checkpoint_vectors() -> Iterator[Case]:
    log = {"origin": ORIGIN, "public": PUBLIC.hex()}
    typed = b64(b"\x01" + PUBLIC)
    key = f"{ORIGIN}+{key_id(ORIGIN, PUBLIC).hex()}+{typed}"
    yield case("verifier-key", "verifier-key", "the log's public key as note tools take it", **log, verifier_key=key)
    note, root = signed(head_text(21)), b64(tree(LEAVES))
    witness = f"\u2014 witness.example/w1 {b64(secret('cosignature', 76))}\n"
    for name, text in {"checkpoint": note, "checkpoint-cosigned": note + witness}.items():
        yield case(name, "checkpoint", "a signed checkpoint", **log, note=text, size=21, root=tree(LEAVES).hex())
    text, signature = note.split("\n\n")
    stranger = Ed25519PrivateKey.from_private_bytes(secret("another log"))
    wrong = {
        "unsigned": head_text(21),
        "no-signature-line": f"{text}\n\n",
        "witness-alone": f"{text}\n\n{witness}",
        "signed-twice": note + signature,
        "another-key": signed(head_text(21), key=stranger),
        "another-log": signed(head_text(21, "strongroom/other"), "strongroom/other"),
        "another-origin": signed(head_text(21, "strongroom/other")),
        "another-size": note.replace("\n21\n", "\n20\n"),
        "extension-line": signed(f"{ORIGIN}\n21\n{root}\nmore\n"),
        "leading-zero": signed(f"{ORIGIN}\n021\n{root}\n"),
        "negative-size": signed(f"{ORIGIN}\n-1\n{root}\n"),
        "short-root": signed(f"{ORIGIN}\n21\n{b64(bytes(31))}\n"),
        "hyphen": note.replace("\u2014", "-"),
        "cut": note[:-1],
        "line-ends": note.replace("\n", "\r\n"),
    }
    for name, edited in wrong.items():
        yield case(f"checkpoint-{name}", "checkpoint", f"refused: {name}", "tampered", **log, note=edited)


def _proof_vectors() -> Iterator[Case]:
    log = {"origin": ORIGIN, "public": PUBLIC.hex()}

    def proof(index: int, size: int, hashes: Sequence[bytes] | None = None) -> str:
        siblings = path(index, LEAVES[:size]) if hashes is None else hashes
        lines = "".join(f"{b64(one)}\n" for one in siblings)
        return f"c2sp.org/tlog-proof@v1\nindex {index}\n{lines}\n{signed(head_text(size))}"

    def given(text: str, index: int) -> Vector:
        return log | {"proof": text, "entry": ENTRIES[index].decode()}

    for index, size in ((0, 1), (0, 21), (13, 21), (20, 21)):
        yield case(f"proof-{index}-{size}", "proof", f"entry {index} of {size}", **given(proof(index, size), index))
    good, siblings = proof(13, 21), path(13, LEAVES)
    wrong = {
        "index": good.replace("index 13", "index 12"),
        "leading-zero": good.replace("index 13", "index 013"),
        "extra": good.replace("index 13", "extra AAAA\nindex 13"),
        "version": good.replace("@v1", "@v2"),
        "short": proof(13, 21, siblings[:-1]),
        "long": proof(13, 21, [*siblings, bytes(32)]),
        "swapped": proof(13, 21, [siblings[1], siblings[0], *siblings[2:]]),
        "altered-hash": proof(13, 21, [flipped(siblings[0], 5), *siblings[1:]]),
        "altered-checkpoint": good.replace("\n21\n", "\n22\n"),
        "cut": good[:-1],
    }
    for name, edited in wrong.items():
        yield case(f"proof-{name}", "proof", f"refused: {name}", "tampered", **given(edited, 13))
    yield case("proof-another-entry", "proof", "a proof of another entry", "tampered", **given(good, 12))


def _head_vectors() -> Iterator[Case]:
    key, packed = secret("tag_key"), peaks(LEAVES)
    mac = hmac.digest(key, context("strongroom/head/v1", VAULT, 21, packed, TIME), "sha256")
    head: Vector = {
        "vault": VAULT,
        "tag_key": key.hex(),
        "size": 21,
        "peaks": packed.hex(),
        "time": TIME,
        "mac": mac.hex(),
    }
    yield case("head", "head", "the MAC of the log's head", **head)
    changes: dict[str, Any] = {
        "vault": "0f0e0d0c0b0a0908",
        "size": 20,
        "time": TIME - 1,
        "peaks": flipped(packed, 7).hex(),
        "mac": flipped(mac, 7).hex(),
        "tag_key": secret("another key").hex(),
    }
    for name, value in changes.items():
        yield case(f"head-another-{name}", "head", f"another {name}", "tampered", **head | {name: value})


def _replay_vectors() -> Iterator[Case]:
    """What the store must hold after a sequence of entries: the rules of reconciliation, one after the other."""

    def entry(op: str, *objects: Sequence[str], **more: Any) -> dict[str, Any]:
        made = {"v": 1, "time": TIME, "op": op, "decision": "allow", "actor": "alice", "objects": objects} | more
        return {name: made[name] for name in FIELDS.split() if made.get(name)}

    def replay(name: str, description: str, entries: Sequence[dict[str, Any]], owners: Mapping[str, Any]) -> Case:
        texts = [compact(one).decode() for one in entries]
        return case(f"replay-{name}", "replay", description, entries=texts, owners=owners)

    put = entry("put", ["keys", "d1", ""], ["line-1", "d2", "travel"], ["line-2", "d3", "work"])
    held = {"keys": ["d1", ""], "line-1": ["d2", "travel"], "line-2": ["d3", "work"]}
    yield replay("put", "what was put is there", [put], {"alice": held})
    again = entry("rotate-actor", ["keys", "d4", ""])
    yield replay("swap", "the latest mark counts", [put, again], {"alice": held | {"keys": ["d4", ""]}})
    forget = entry("forget", ["line-1", "", "travel"])
    yield replay("forget", "a tombstone stays", [put, forget], {"alice": held | {"line-1": ["", "travel"]}})
    refused = entry("put", ["line-3", "d5", "work"], decision="deny", reason="cap_expired")
    yield replay("denied", "a refusal changes nothing", [put, refused], {"alice": held})
    part = entry("erase", ["keys", "d6", ""], erased="namespace", namespaces=["travel", "personal"])
    left = {"keys": ["d6", ""], "line-2": ["d3", "work"]}
    yield replay("erase-namespace", "its shelf is gone, tombstones too", [put, forget, part], {"alice": left})
    standing = entry("erase", ["standing", "d7", "vault"], erased="actor")
    vault = {"standing": ["d7", "vault"]}
    yield replay("erase-actor", "all of the actor is gone", [put, forget, standing], {"": vault})
    bobs = entry("put", ["keys", "d8", ""], actor="bob")
    both = {"": vault, "bob": {"keys": ["d8", ""]}}
    yield replay("others", "another actor is not touched", [put, bobs, standing], both)
    mint = entry("mint", ["cap", "d9", "vault"], actor="")
    yield replay("vault", "marks of the vault belong to nobody", [mint], {"": {"cap": ["d9", "vault"]}})
