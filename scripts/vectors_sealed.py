"""Test vectors for sealed objects, written from the specification (docs/spec/line.md), not with the code under test.

What that page says is done here a second time, on `hmac` and AES-GCM alone; vectors_keys and vectors_audit go on from
here. Keys and salts are hashes of their names, so the same vectors come out, byte for byte, every time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Vector = dict[str, Any]
Case = tuple[str, Vector]
Part = str | int | bytes

VAULT, ALICE, TRAVEL = "a1b2c3d4e5f60718", "local/alice", "travel"
LINE_ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
TIME = 1_779_440_000_000
CHUNK, TAG = 16_384, 16
SIZES = [256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304]


def write(directory: Path, cases: Iterable[Case]) -> None:
    """Write vectors into `directory`, removing what was generated there before."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.json"):
        old.unlink()
    for name, vector in cases:
        path = directory / f"{name}.json"
        if path.exists():
            raise ValueError(f"two vectors are named {name}")
        path.write_bytes(json.dumps(vector, indent=2, ensure_ascii=False).encode() + b"\n")


def case(name: str, kind: str, description: str, expect: str = "ok", /, **given: Any) -> Case:
    """One vector and its name. What is given says what to do, and for `ok` what comes out."""
    return name, {"description": description, "kind": kind, **given, "expect": expect}


def secret(name: str, size: int = 32) -> bytes:
    """A key or salt of the vectors."""
    return hashlib.shake_256(b"strongroom vectors: " + name.encode()).digest(size)


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def b64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def compact(value: object) -> bytes:
    """JSON as the vault writes it: no white space, UTF-8, members in the order given."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def flipped(raw: bytes, bit: int) -> bytes:
    at = bit // 8 % len(raw)
    return raw[:at] + bytes([raw[at] ^ 1 << bit % 8]) + raw[at + 1 :]


def context(*parts: Part) -> bytes:
    joined = b""
    for part in parts:
        raw = part.to_bytes(8, "big") if isinstance(part, int) else part.encode() if isinstance(part, str) else part
        joined += len(raw).to_bytes(4, "big") + raw
    return joined


def derive(key: bytes, salt: bytes, ctx: bytes) -> tuple[bytes, bytes, bytes]:
    info = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\x00" + salt + ctx
    first = hmac.digest(key, info + b"\x01", "sha512")
    output = first + hmac.digest(key, first + info + b"\x02", "sha512")
    return output[:32], output[32:44], output[44:76]


def cobblestone(key: bytes, plain: bytes, ctx: bytes, salt: bytes) -> bytes:
    one_time, base, commitment = derive(key, salt, ctx)
    sealed = salt + commitment
    for number in range(len(plain) // CHUNK + 1):
        nonce = (int.from_bytes(base, "big") ^ number).to_bytes(12, "big")
        sealed += AESGCM(one_time).encrypt(nonce, plain[number * CHUNK : (number + 1) * CHUNK], None)
    return sealed


def padded(plain: bytes) -> bytes:
    size = next((size for size in SIZES if len(plain) <= size), -(-len(plain) // SIZES[-1]) * SIZES[-1])
    return plain.ljust(size, b" ")


def place(what: str, name: str, epoch: int) -> bytes:
    return context(what, 1, VAULT, ALICE, TRAVEL, name, epoch)


def sealed_object(plain: bytes, ctx: bytes, epoch: int, key: bytes, salt: bytes, version: int = 1) -> bytes:
    return bytes([version]) + epoch.to_bytes(4, "big") + cobblestone(key, padded(plain), ctx, salt)


def a_line(text: str = "Trip to Chengdu, May 25-29", **changed: Any) -> dict[str, Any]:
    return {
        "id": LINE_ID,
        "time": TIME,
        "kind": "note",
        "namespace": TRAVEL,
        "session": "s1",
        "author": "alice",
        "text": text,
        "provenance": {"links": ["ab" * 32], "holder": "cd" * 16, "source": "python", "recorded": TIME + 1},
    } | changed


def vectors() -> Iterator[Case]:
    yield from _cobblestone_vectors()
    lists: dict[str, list[Part]] = {
        "empty": [],
        "one-empty-text": [""],
        "two-texts": ["ab", "c"],
        "two-texts-moved": ["a", "bc"],
        "number": [1],
        "line": ["strongroom/line", 1, VAULT, ALICE, TRAVEL, LINE_ID, 3],
        "unicode": ["é", "漢字"],
    }
    rule = "texts as UTF-8, numbers as eight bytes, each behind its length in four"
    for name, parts in lists.items():
        yield case(f"context-{name}", "context", rule, parts=parts, context=context(*parts).hex())
    near = sorted({0, 1, 196_608, 196_609} | {size + by for size in SIZES for by in (-1, 0, 1)})
    sizes = [[size, len(padded(bytes(size)))] for size in near]
    yield case("padding-table", "padding", "the padded size of plaintexts of these sizes", sizes=sizes)
    yield from _line_vectors()
    yield from _detailed_line_vectors()
    yield from _document_vectors()
    yield from _text_vectors()
    yield from _record_vectors()


def _cobblestone_vectors() -> Iterator[Case]:
    key, ctx = secret("cobblestone key"), b"strongroom vectors"

    def good(name: str, description: str, sealed: bytes, plain: bytes, ctx: bytes = ctx) -> Case:
        given = {"key": key.hex(), "context": ctx.hex(), "sealed": b64(sealed), "plaintext": b64(plain)}
        return case(f"cobblestone-{name}", "cobblestone", description, **given)

    def bad(name: str, description: str, sealed: bytes, key: bytes = key, ctx: bytes = ctx) -> Case:
        given = {"key": key.hex(), "context": ctx.hex(), "sealed": b64(sealed)}
        return case(f"cobblestone-{name}", "cobblestone", description, "tampered", **given)

    for size in (0, 1, 16_383, 16_384, 16_385, 32_768):
        plain = secret(f"plaintext of {size}", size)
        sealed = cobblestone(key, plain, ctx, secret(f"salt of {size}", 24))
        yield good(str(size), f"a plaintext of {size} bytes", sealed, plain)
    yield good("no-context", "an empty context", cobblestone(key, b"text", b"", secret("salt", 24)), b"text", b"")
    small = cobblestone(key, b"text", ctx, secret("salt", 24))
    yield bad("wrong-key", "another key", small, key=secret("another key"))
    yield bad("wrong-context", "another context", small, ctx=ctx + b"\0")
    for part, bit in {"salt": 0, "commitment": 24 * 8, "text": 56 * 8 + 3, "tag": len(small) * 8 - 1}.items():
        yield bad(f"flipped-{part}", f"one bit of the {part} turned", flipped(small, bit))
    for length in (0, 55, 56, 71):
        yield bad(f"cut-{length}", f"cut to {length} bytes", small[:length])
    yield bad("extended", "one byte more", small + b"\0")
    two = cobblestone(key, secret("plaintext of 16384", 16_384), ctx, secret("salt of 16384", 24))
    yield bad("without-last-chunk", "the empty last chunk left out", two[:-TAG])
    yield bad("without-first-chunk", "the first chunk left out", two[:56] + two[-TAG:])
    salt = secret("salt of a full chunk", 24)
    one_time, base, commitment = derive(key, salt, ctx)
    full = salt + commitment + AESGCM(one_time).encrypt(base, bytes(CHUNK), None)
    yield bad("full-last-chunk", "a last chunk of 16 KiB, which must be shorter", full)


def _line_vectors() -> Iterator[Case]:
    key, epoch = secret("namespace key"), 3
    where: Vector = {"vault": VAULT, "actor": ALICE, "namespace": TRAVEL, "id": LINE_ID, "keys": {"3": key.hex()}}

    def good(name: str, description: str, sealed: bytes, line: dict[str, Any], **changed: Any) -> Case:
        return case(name, "line", description, **where | changed, sealed=b64(sealed), line=line)

    def bad(name: str, description: str, sealed: bytes, **changed: Any) -> Case:
        return case(f"line-{name}", "line", description, "tampered", **where | changed, sealed=b64(sealed))

    def sealed(plain: object, what: str = "strongroom/line") -> bytes:
        data = plain if isinstance(plain, bytes) else compact(plain)
        return sealed_object(data, place(what, LINE_ID, epoch), epoch, key, secret("salt", 24))

    plain = sealed(a_line())
    yield good("line", "a line", plain, a_line())
    texts = {
        "escapes": 'quotes " and \\ and\nnewline\ttab',
        "unicode": "Reise nach 成都 🐼 – naïve café",
        "padded-12288": "x" * 11_000,
        "padded-16384": "x" * 15_000,
        "padded-24576": "x" * 17_000,
        "exactly-16384": "x" * (16_384 - len(compact(a_line("")))),
    }
    for name, text in texts.items():
        yield good(f"line-{name}", f"a line: {name}", sealed(a_line(text)), a_line(text))
    both = {"3": key.hex(), "4": key.hex()}
    yield good("line-two-epochs", "a namespace with two keys", plain, a_line(), keys=both)
    another = LINE_ID[:-1] + "1"
    elsewhere = {"vault": "0f0e0d0c0b0a0908", "actor": "local/bob", "namespace": "personal", "id": another}
    for name, value in elsewhere.items():
        yield bad(f"moved-{name}", f"copied to another {name}", plain, **{name: value})
    relabelled = plain[:4] + b"\x04" + plain[5:]
    yield bad("moved-epoch", "relabelled with an epoch that has the same key", relabelled, keys=both)
    yield bad("unknown-epoch", "an epoch without a key", plain, keys={"4": key.hex()})
    yield bad("wrong-key", "another key", plain, keys={"3": secret("another key").hex()})
    yield bad("version-0", "version 0", b"\x00" + plain[1:])
    yield bad("version-2", "version 2", b"\x02" + plain[1:])
    yield bad("header-alone", "nothing behind the header", plain[:5])
    yield bad("empty", "no bytes at all", b"")
    bits = {"epoch": 39, "salt": 5 * 8, "commitment": 29 * 8, "body": 61 * 8, "tag": len(plain) * 8 - 1}
    for part, bit in bits.items():
        yield bad(f"flipped-{part}", f"one bit of the {part} turned", flipped(plain, bit), keys=both)
    yield bad("cut", "the last byte cut off", plain[:-1])
    yield bad("extended", "one byte more", plain + b" ")
    yield bad("is-text", "a text in a line's place", sealed("text", "strongroom/text"))
    yield bad("names-another-id", "sealed for this place, says another id", sealed(a_line(id=another)))
    other = sealed(a_line(namespace="personal"))
    yield bad("names-another-namespace", "sealed for this place, says another namespace", other)
    yield bad("is-no-json", "sealed for this place, but no JSON", sealed(b"not json"))
    yield bad("without-text", "sealed for this place, but without a text", sealed({"id": LINE_ID}))


def _detailed_line_vectors() -> Iterator[Case]:
    """Lines of version 2: those with details."""
    key, epoch = secret("namespace key"), 3
    where: Vector = {"vault": VAULT, "actor": ALICE, "namespace": TRAVEL, "id": LINE_ID, "keys": {"3": key.hex()}}
    ctx = context("strongroom/line", 2, VAULT, ALICE, TRAVEL, LINE_ID, epoch)

    def sealed(details: dict[str, Any] | None, ctx: bytes = ctx, version: int = 2) -> str:
        line = a_line() if details is None else a_line(details=details)
        return b64(sealed_object(compact(line), ctx, epoch, key, secret("salt of a line 2", 24), version))

    later = TIME + 86_400_000
    good: dict[str, dict[str, Any]] = {
        "tags": {"tags": ["paid", "trip"]},
        "meta": {"meta": {"city": "成都", "legs": [1, 2.5, True, None]}},
        "turn": {"turn": "turn-7"},
        "expires": {"critical": ["expires"], "expires": later},
        "all": {
            "critical": ["expires", "replaces"],
            "tags": ["trip"],
            "meta": {"n": 1},
            "expires": later,
            "replaces": LINE_ID[:-1] + "1",
            "turn": "turn-7",
            "origin": "person",
            "parents": [["travel", LINE_ID[:-1] + "2"]],
        },
        "no-member": {},
    }
    for name, details in good.items():
        line = a_line(details=details)
        yield case(f"line2-{name}", "line", f"a line with details: {name}", **where, sealed=sealed(details), line=line)
    unknown = sealed({"critical": ["quarantined"], "quarantined": True})
    yield case(
        "line2-critical", "line", "a critical member that is not known", "format_too_new", **where, sealed=unknown
    )
    old = place("strongroom/line", LINE_ID, epoch)
    bad = {
        "is-document": ("a line that poses as a document's version", sealed({"document": "notes/trip.md"})),
        "without-details": ("version 2 without details", sealed(None)),
        "relabelled": ("a line of version 1 relabelled as 2", sealed({"tags": ["x"]}, old)),
        "as-1": ("a line of version 2 relabelled as 1", sealed({"tags": ["x"]}, ctx, 1)),
        "details-in-1": ("version 1 with details", sealed({"tags": ["x"]}, old, 1)),
        "version-3": ("version 3", sealed({"tags": ["x"]}, ctx, 3)),
        "no-list": ("tags that are no list", sealed({"tags": "x"})),
    }
    for name, (description, raw) in bad.items():
        yield case(f"line2-{name}", "line", description, "tampered", **where, sealed=raw)


def _document_vectors() -> Iterator[Case]:
    key, epoch, locator = secret("namespace key"), 3, secret("name of a document", 16).hex()
    where: Vector = {"vault": VAULT, "actor": ALICE, "namespace": TRAVEL, "locator": locator, "keys": {"3": key.hex()}}
    ctx = place("strongroom/document", locator, epoch)
    came = {"links": ["ab" * 32], "holder": "cd" * 16, "source": "python", "recorded": TIME}
    head: dict[str, Any] = {"key": "notes/2026/trip.md", "namespace": TRAVEL}
    first = {"version": LINE_ID, "text": "Train at nine", "provenance": came}
    later = {"tags": ["trip"], "meta": {"city": "成都"}, "expires": TIME + 86_400_000}
    second = {"version": LINE_ID[:-1] + "1", "text": "Bus at ten", "provenance": came | {"recorded": TIME + 1}, **later}

    def sealed(document: dict[str, Any], ctx: bytes = ctx) -> str:
        return b64(sealed_object(compact(document), ctx, epoch, key, secret("salt of a document", 24)))

    good: dict[str, tuple[str, dict[str, Any]]] = {
        "new": ("a document of one version", head | {"present": first}),
        "changed": ("a document with an earlier version", head | {"present": second, "earlier": [first]}),
        "deleted": ("a deleted document", head),
        "renamed": ("a renamed document", head | {"present": first, "source": LINE_ID[:-1] + "2"}),
    }
    for name, (description, document) in good.items():
        yield case(f"document-{name}", "document", description, **where, sealed=sealed(document), document=document)
    changed = sealed(good["changed"][1])
    for field, value in {"locator": secret("x", 16).hex(), "actor": "local/bob", "namespace": "work"}.items():
        moved = where | {field: value}
        yield case(f"document-another-{field}", "document", f"another {field}", "tampered", **moved, sealed=changed)
    bad = {
        "is-line": ("a line in a document's place", sealed(a_line(), place("strongroom/line", locator, epoch))),
        "is-text": ("a text in a document's place", sealed(head, place("strongroom/text", locator, epoch))),
        "names-another-place": ("another namespace than its place", sealed(head | {"namespace": "work"})),
        "deleted-with-versions": ("deleted, with an earlier version", sealed(head | {"earlier": [first]})),
        "without-key": ("no key", sealed({"namespace": TRAVEL})),
    }
    for name, (description, raw) in bad.items():
        yield case(f"document-{name}", "document", description, "tampered", **where, sealed=raw)
    unknown = sealed(head | {"critical": ["quarantined"], "present": first})
    yield case(
        "document-critical",
        "document",
        "a critical member that is not known",
        "format_too_new",
        **where,
        sealed=unknown,
    )


def _text_vectors() -> Iterator[Case]:
    key, epoch = secret("namespace key"), 3
    ctx = place("strongroom/text", "profile", epoch)
    text = sealed_object(compact("Likes tea."), ctx, epoch, key, secret("salt of a text", 24))
    where: Vector = {"vault": VAULT, "actor": ALICE, "namespace": TRAVEL, "name": "profile", "keys": {"3": key.hex()}}
    yield case("text", "text", "the profile of a namespace", **where, sealed=b64(text), text="Likes tea.")
    moved = where | {"name": "profil"}
    yield case("text-moved-name", "text", "another name", "tampered", **moved, sealed=b64(text))
    ctx = place("strongroom/line", "profile", epoch)
    line = sealed_object(compact(a_line()), ctx, epoch, key, secret("salt", 24))
    yield case("text-is-line", "text", "a line in a text's place", "tampered", **where, sealed=b64(line))


def _record_vectors() -> Iterator[Case]:
    key, name, names = secret("record key"), "vault/namespaces", ["personal", "family", "work", "travel"]
    ctx = context("strongroom/record", 1, VAULT, name)
    record = sealed_object(compact({"names": names}), ctx, 0, key, secret("record salt", 24))
    where = {"vault": VAULT, "name": name, "key": key.hex(), "sealed": b64(record)}
    yield case("record", "record", "the registry of namespaces", **where, names=names)
    wrong = {"name": "vault/other", "vault": "0f0e0d0c0b0a0908", "key": secret("another key").hex()}
    for field, value in wrong.items():
        yield case(f"record-another-{field}", "record", f"another {field}", "tampered", **where | {field: value})
    relabelled = where | {"sealed": b64(record[:4] + b"\x01" + record[5:])}
    yield case("record-epoch", "record", "an epoch other than 0", "tampered", **relabelled)
