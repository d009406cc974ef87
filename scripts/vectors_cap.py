"""Test vectors for caps, written from the specification (docs/spec/cap.md) and not with the code under test.

Claims are plain dictionaries here, signed whatever they say, so a vector can be wrong in exactly one way. All keys
come from fixed seeds and Ed25519 is deterministic: the same vectors come out, byte for byte, every time.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Claims = dict[str, Any]

HEADER = b'{"alg":"Ed25519","typ":"strongroom-cap"}'
NOW = 1_779_440_000
AUDIENCE = "a1b2c3d4e5f60718"
ORDER = 2**252 + 27742317777372353535851937790883648493
"""The order of Ed25519's base point."""


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def seed(name: str) -> bytes:
    return hashlib.sha256(b"strongroom cap vectors: " + name.encode()).digest()


def public(of: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(of).public_key().public_bytes_raw()


def issuer_id(key: bytes) -> str:
    return hashlib.sha256(b"strongroom issuer\0" + key).hexdigest()[:16]


def jti(name: str) -> str:
    return b64(hashlib.sha256(b"jti " + name.encode()).digest()[:16])


def canonical(claims: Mapping[str, Any]) -> bytes:
    """JSON as a cap writes it: no white space, UTF-8, members in the order given."""
    return json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode()


def sign(signer: bytes, payload: bytes | Mapping[str, Any], header: bytes = HEADER) -> str:
    """One link, signed whatever it says."""
    body = payload if isinstance(payload, bytes) else canonical(payload)
    return sign_parts(signer, b64(header), b64(body))


def sign_parts(signer: bytes, header: str, payload: str) -> str:
    signed = f"{header}.{payload}"
    return f"{signed}.{b64(Ed25519PrivateKey.from_private_bytes(signer).sign(signed.encode()))}"


def link_id(link: str) -> str:
    return hashlib.sha256(link.rpartition(".")[0].encode()).hexdigest()


def cnf(key: bytes) -> Claims:
    return {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": b64(key)}}


ISSUER = seed("issuer")
ISSUERS = {issuer_id(public(ISSUER)): public(ISSUER)}
STRANGER = seed("issuer of another vault")
HOLDERS = [seed(f"holder {place}") for place in range(9)]


def first(**changes: Any) -> Claims:
    """Sound claims of link 0, with changes: a value of None leaves a claim out."""
    claims: Claims = {
        "v": 1,
        "iss": issuer_id(public(ISSUER)),
        "aud": AUDIENCE,
        "jti": jti("0"),
        "iat": NOW - 60,
        "nbf": NOW - 60,
        "exp": NOW + 240,
        "actor": "local/alice",
        "actor_scope": None,
        "data_class": "memory",
        "ops": ["get", "list", "put"],
        "namespaces_allowed": ["travel", "work"],
        "session": None,
        "max_k": None,
        "max_depth": None,
        "cnf": None,
        "label": None,
    }
    return _changed(claims, changes)


def later(before: str, **changes: Any) -> Claims:
    """Sound claims of a later link, with changes: a value of None leaves a claim out."""
    claims: Claims = {
        "v": 1,
        "prev": link_id(before),
        "jti": jti("1"),
        "iat": NOW - 30,
        "nbf": None,
        "exp": None,
        "actor": None,
        "actor_scope": None,
        "ops": None,
        "namespaces_allowed": None,
        "session": None,
        "max_k": None,
        "max_depth": None,
        "cnf": None,
        "label": None,
    }
    return _changed(claims, changes)


def _changed(claims: Claims, changes: Claims) -> Claims:
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


def chain(start: Claims, *narrowings: Claims, holders: Sequence[bytes] = HOLDERS, delegable: bool = False) -> list[str]:
    """The links of a chain: each but the last names the next of `holders`; the last one too where `delegable`."""
    links: list[str] = []
    signer = ISSUER
    for place, changes in enumerate((start, *narrowings)):
        named = delegable or place < len(narrowings)
        key = cnf(public(holders[place])) if named else None
        changed = {**changes, "cnf": changes.get("cnf", key)}
        links.append(sign(signer, later(links[-1], **changed) if links else first(**changed)))
        signer = holders[place]
    return links


def joined(links: Sequence[str], last: bytes | None = None) -> str:
    return "~".join([*links, *([] if last is None else [b64(last)])])


@dataclass(frozen=True)
class Vector:
    """One token and what comes of it. `authority` is what a vector with `expect: ok` allows."""

    name: str
    description: str
    token: str
    expect: str
    authority: Claims = field(default_factory=dict)
    now: int = NOW
    audience: str = AUDIENCE

    def encoded(self) -> bytes:
        document: Claims = {
            "description": self.description,
            "now": self.now,
            "audience": self.audience,
            "issuers": {name: key.hex() for name, key in ISSUERS.items()},
            "token": self.token,
            "expect": self.expect,
        }
        if self.expect == "ok":
            document["authority"] = self.authority
        return json.dumps(document, indent=2).encode() + b"\n"


def write(directory: Path) -> None:
    """Write every vector into `directory`, removing what was generated there before."""
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.json"):
        old.unlink()
    for vector in vectors():
        path = directory / f"{vector.name}.json"
        if path.exists():
            raise ValueError(f"two vectors are named {vector.name}")
        path.write_bytes(vector.encoded())


def vectors() -> Iterator[Vector]:
    yield from _accepted()
    yield from _of_shape()
    yield from _of_headers()
    yield from _of_json()
    yield from _of_base64()
    yield from _of_claims()
    yield from _of_holder_keys()
    yield from _of_chains()
    yield from _of_time_and_place()


def _allows(links: Sequence[str], last: bytes | None = None, **changes: Any) -> Claims:
    """The authority of the default chain, with changes."""
    return {
        "links": [link_id(link) for link in links],
        "actor": "local/alice",
        "actor_scope": None,
        "data_class": "memory",
        "ops": ["get", "list", "put"],
        "namespaces": ["travel", "work"],
        "session": None,
        "max_k": None,
        "depth_left": 8 - len(links),
        "issued": NOW - 60,
        "nbf": NOW - 60,
        "exp": NOW + 240,
        "holder": "" if last is None else hashlib.sha256(public(last)).hexdigest()[:32],
        "label": "",
        **changes,
    }


def _ok(name: str, description: str, links: Sequence[str], last: bytes | None = None, **allows: Any) -> Vector:
    return Vector(f"ok-{name}", description, joined(links, last), "ok", _allows(links, last, **allows))


def _accepted() -> Iterator[Vector]:
    yield _ok("bearer", "one link that names no holder key", chain({}))
    yield _ok("holder", "one link with a holder key, whose seed ends the token", chain({}, delegable=True), HOLDERS[0])
    everything = chain({"session": "s1", "max_k": 7, "max_depth": 3, "label": "laptop"}, delegable=True)
    yield _ok(
        "every-claim",
        "every claim that link 0 may have beside a scope",
        everything,
        HOLDERS[0],
        session="s1",
        max_k=7,
        depth_left=3,
        label="laptop",
    )
    narrowed = chain(
        {"max_k": 9},
        {"ops": ["get", "put"], "namespaces_allowed": ["travel"], "max_k": 5, "nbf": NOW - 20},
        {"ops": ["get"], "session": "s1", "exp": NOW + 30, "max_depth": 2, "label": "trip planner"},
        delegable=True,
    )
    yield _ok(
        "narrowed",
        "three links, each narrowing something",
        narrowed,
        HOLDERS[2],
        ops=["get"],
        namespaces=["travel"],
        session="s1",
        max_k=5,
        depth_left=2,
        nbf=NOW - 20,
        exp=NOW + 30,
        label="trip planner",
    )
    yield _ok(
        "narrowed-to-bearer",
        "a link without holder key ends the chain",
        chain({}, {"ops": ["list"]}),
        ops=["list"],
    )
    wider: Claims = {
        "ops": ["erase", "get", "put"],
        "namespaces_allowed": ["family", "work"],
        "max_k": 20,
        "nbf": 0,
        "exp": NOW + 9999,
        "max_depth": 100,
    }
    yield _ok(
        "wider-link",
        "a link that says more than its parent gives no more than both say",
        chain({"max_k": 3}, wider),
        ops=["get", "put"],
        namespaces=["work"],
        max_k=3,
    )
    yield _ok(
        "disjoint",
        "sets without a common member leave nothing",
        chain({}, {"ops": ["erase"], "namespaces_allowed": ["family"]}),
        ops=[],
        namespaces=[],
    )
    yield _ok(
        "empty",
        "empty sets are sound and admit nothing",
        chain({"ops": [], "namespaces_allowed": []}),
        ops=[],
        namespaces=[],
    )
    scope: Claims = {"actor": None, "actor_scope": "hermes/default/"}
    yield _ok(
        "scope",
        "a scope that no link has narrowed to an actor verifies, but the gate refuses it as cap_malformed",
        chain(scope, delegable=True),
        HOLDERS[0],
        actor=None,
        actor_scope="hermes/default/",
    )
    yield _ok(
        "scope-narrowed",
        "a scope, a scope inside it, and an actor inside that",
        chain(scope, {"actor_scope": "hermes/default/telegram/"}, {"actor": "hermes/default/telegram/12345"}),
        actor="hermes/default/telegram/12345",
        actor_scope="hermes/default/telegram/",
    )
    same: Claims = {"actor": "local/alice", "session": "s"}
    yield _ok("same-again", "a link may repeat actor and session", chain({"session": "s"}, same), session="s")
    for data_class in ("credentials", "admin"):
        yield _ok(
            data_class,
            f"a cap for {data_class} is as sound as any; whether it fits is the gate's question",
            chain({"data_class": data_class}),
            data_class=data_class,
        )
    session = 'caffè "東京" \\ \U0001f5dd'
    yield _ok(
        "session-text",
        "a session is any text in NFC: only the quote and the backslash are escaped",
        chain({"session": session}),
        session=session,
    )
    yield _ok("eight-links", "as many links as a cap may have", chain({}, *[{}] * 7))
    ahead = NOW + 30
    yield _ok(
        "starts-within-leeway",
        "nbf and iat may lie 30 s ahead",
        chain({"iat": ahead, "nbf": ahead}),
        issued=ahead,
        nbf=ahead,
    )
    yield _ok(
        "last-second",
        "exp is the first second at which the cap is void",
        chain({"exp": NOW + 1}),
        exp=NOW + 1,
    )
    names, link = filled(8192)
    yield _ok("largest", "a token of exactly 8192 bytes", [link], namespaces=names)


def filled(size: int) -> tuple[list[str], str]:
    """Namespaces that make one link exactly `size` bytes long, and that link."""
    fixed = len(chain({"namespaces_allowed": []})[0])
    room = (size - fixed) * 3 // 4
    for last in range(1, 33):
        names = [f"n{place:04}" + "x" * 27 for place in range((room - 3) // 35)] + ["z" * last]
        (link,) = chain({"namespaces_allowed": names})
        if len(link) == size:
            return names, link
    raise ValueError(f"no link is {size} bytes long")


def _bad(name: str, description: str, token: str, expect: str = "cap_malformed", **changes: Any) -> Vector:
    return Vector(name, description, token, expect, **changes)


def _of_shape() -> Iterator[Vector]:
    bearer, (held,) = joined(chain({})), chain({}, delegable=True)
    whole = joined([held], HOLDERS[0])
    yield _bad("shape-missing", "no token at all", "", "cap_missing")
    yield _bad("shape-not-ascii", "a character outside ASCII", bearer + "é")
    yield _bad("shape-too-large", "a token of 8193 bytes", filled(8193)[1])
    yield _bad("shape-nine-links", "one link more than a cap may have", joined(chain({}, *[{}] * 8)))
    yield _bad("shape-seed-alone", "a seed without a link", b64(HOLDERS[0]))
    yield _bad("shape-two-seeds", "two seeds", f"{whole}~{b64(HOLDERS[1])}")
    yield _bad("shape-seed-first", "the seed before the link", f"{b64(HOLDERS[0])}~{held}")
    yield _bad("shape-trailing-tilde", "a separator with nothing behind it", bearer + "~")
    yield _bad("shape-leading-tilde", "a separator with nothing before it", "~" + bearer)
    yield _bad("shape-empty-link", "two separators in a row", whole.replace("~", "~~"))
    yield _bad("shape-trailing-newline", "a newline at the end", bearer + "\n")
    yield _bad("shape-leading-space", "a space at the start", " " + bearer)
    yield _bad("shape-two-parts", "a link without signature", bearer.rpartition(".")[0])
    yield _bad("shape-four-parts", "a link of four parts", bearer + "." + bearer.rpartition(".")[2])
    yield _bad("shape-short-signature", "a signature of 63 bytes", _resigned(bearer, lambda raw: raw[:63]))
    yield _bad("shape-long-signature", "a signature of 65 bytes", _resigned(bearer, lambda raw: raw + b"\0"))
    yield _bad("shape-short-seed", "a seed of 31 bytes", joined([held], HOLDERS[0][:31]))
    yield _bad("shape-long-seed", "a seed of 33 bytes", joined([held], HOLDERS[0] + b"\0"))


def _resigned(link: str, change: Callable[[bytes], bytes]) -> str:
    signed, _, signature = link.rpartition(".")
    return f"{signed}.{b64(change(unb64(signature)))}"


def _of_headers() -> Iterator[Vector]:
    headers = {
        "eddsa": b'{"alg":"EdDSA","typ":"strongroom-cap"}',
        "none": b'{"alg":"none","typ":"strongroom-cap"}',
        "hs256": b'{"alg":"HS256","typ":"strongroom-cap"}',
        "jwt": b'{"alg":"Ed25519","typ":"JWT"}',
        "no-typ": b'{"alg":"Ed25519"}',
        "reordered": b'{"typ":"strongroom-cap","alg":"Ed25519"}',
        "kid": b'{"alg":"Ed25519","typ":"strongroom-cap","kid":"1"}',
        "crit": b'{"alg":"Ed25519","typ":"strongroom-cap","crit":["exp"]}',
        "twice": b'{"alg":"Ed25519","alg":"Ed25519","typ":"strongroom-cap"}',
        "spaced": b'{"alg": "Ed25519", "typ": "strongroom-cap"}',
        "empty": b"{}",
    }
    for name, header in headers.items():
        yield _bad(f"header-{name}", f"the header {header.decode()}", sign(ISSUER, first(), header))
    yield _bad("header-absent", "an empty header", sign_parts(ISSUER, "", b64(canonical(first()))))
    start, _ = chain({}, {})
    second = sign(HOLDERS[0], later(start), headers["eddsa"])
    yield _bad("header-later-link", "another header in a later link", joined([start, second]))
    unsigned = f"{b64(headers['none'])}.{b64(canonical(first()))}."
    yield _bad("header-unsigned", "the header says that there is no signature, and there is none", unsigned)


def _of_json() -> Iterator[Vector]:
    sound = canonical(first())
    payloads = {
        "space": (b'{"v": 1' + sound[6:], "white space between tokens"),
        "newline": (sound + b"\n", "white space at the end"),
        "bom": (b"\xef\xbb\xbf" + sound, "a byte order mark"),
        "trailing": (sound + b"{}", "something after the object"),
        "reordered": (canonical(dict(reversed(first().items()))), "members in another order"),
        "twice": (b'{"v":1,' + sound[1:], "one claim twice, with the same value"),
        "twice-other": (
            sound.replace(b'"namespaces_allowed":', b'"namespaces_allowed":["personal"],"namespaces_allowed":'),
            "one claim twice, with different values",
        ),
        "null": (sound[:-1] + b',"session":null}', "null in place of an absent claim"),
        "escape": (sound.replace(b"local/alice", b"local/\\u0061lice"), "a letter written as an escape"),
        "escaped-slash": (sound.replace(b"local/alice", b"local\\/alice"), "a slash written as an escape"),
        "float": (sound.replace(b'"v":1', b'"v":1.0'), "a number with a fraction"),
        "exponent": (sound.replace(b'"v":1', b'"v":1e0'), "a number with an exponent"),
        "minus-zero": (canonical(first(nbf=0)).replace(b'"nbf":0', b'"nbf":-0'), "minus zero"),
        "not-utf8": (canonical(first(session="x")).replace(b'"x"', b'"\xff"'), "bytes that are not UTF-8"),
        "surrogate": (canonical(first(session="x")).replace(b'"x"', b'"\\ud800"'), "a lone surrogate"),
        "array": (b"[" + sound + b"]", "an array"),
        "cut": (sound[:-1], "an object that does not end"),
        "deep": (sound[:-1] + b',"label":' + b"[" * 2000 + b"}", "very deep nesting"),
    }
    for name, (payload, description) in payloads.items():
        yield _bad(f"json-{name}", description, sign(ISSUER, payload))


def _of_base64() -> Iterator[Vector]:
    (held,) = chain({}, delegable=True)
    header, payload, signature = held.split(".")
    seeded = b64(HOLDERS[0])
    yield _bad("base64-padded", "a payload with padding", sign_parts(ISSUER, header, _padded(payload)) + "~" + seeded)
    yield _bad("base64-padded-seed", "a seed with padding", f"{held}~{seeded}=")
    yield _bad("base64-padded-signature", "a signature with padding", f"{held}==~{seeded}")
    yield _bad(
        "base64-spare-signature", "spare bits in a signature", f"{header}.{payload}.{_spare(signature)}~{seeded}"
    )
    yield _bad("base64-spare-seed", "spare bits in a seed", f"{held}~{_spare(seeded)}")
    yield _bad("base64-spare-payload", "spare bits in a payload", sign_parts(ISSUER, header, _spare(_uneven_payload())))
    key = cnf(public(HOLDERS[0]))
    key["jwk"]["x"] = _spare(key["jwk"]["x"])
    yield _bad("base64-spare-key", "spare bits in a holder key", joined([sign(ISSUER, first(cnf=key))], HOLDERS[0]))
    yield _bad("base64-spare-jti", "spare bits in a jti", sign(ISSUER, first(jti=_spare(jti("0")))))
    other = next(one for one in HOLDERS if "-" in b64(one) or "_" in b64(one))
    alphabet = b64(other).replace("-", "+").replace("_", "/")
    link = sign(ISSUER, first(cnf=cnf(public(other))))
    yield _bad("base64-alphabet", "the alphabet with + and /", f"{link}~{alphabet}")
    yield _bad(
        "base64-broken", "a line break inside a payload", sign_parts(ISSUER, header, payload[:40] + "\n" + payload[40:])
    )


def _padded(text: str) -> str:
    return text + "=" * (-len(text) % 4 or 4)


def _spare(text: str) -> str:
    """The same bytes with one of the unused bits of the last character set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    if len(text) % 4 == 0:
        raise ValueError("no bit is unused")
    return text[:-1] + alphabet[alphabet.index(text[-1]) | 1]


def _uneven_payload() -> str:
    for size in range(1, 4):
        payload = b64(canonical(first(label="x" * size)))
        if len(payload) % 4:
            return payload
    raise ValueError("every payload is a multiple of three bytes")


def _of_claims() -> Iterator[Vector]:
    wrong: dict[str, tuple[Claims, str]] = {
        "unknown": ({"scope": "all"}, "a claim that is not defined"),
        "prev": ({"prev": "0" * 64}, "prev in link 0"),
        "version": ({"v": 2}, "another version"),
        "version-text": ({"v": "1"}, "the version as text"),
        "version-true": ({"v": True}, "the version as a truth value"),
        "no-version": ({"v": None}, "no version"),
        "no-namespaces": ({"namespaces_allowed": None}, "no namespaces: that does not mean all"),
        "no-ops": ({"ops": None}, "no ops"),
        "no-exp": ({"exp": None}, "no end"),
        "no-actor": ({"actor": None}, "neither actor nor scope"),
        "actor-and-scope": ({"actor_scope": "local/"}, "both actor and scope"),
        "actor-upper": ({"actor": "local/Alice"}, "an actor outside the grammar"),
        "actor-empty-segment": ({"actor": "local//alice"}, "an actor with an empty segment"),
        "scope-open": ({"actor": None, "actor_scope": "local/al"}, "a scope that does not end at a segment border"),
        "scope-all": ({"actor": None, "actor_scope": "/"}, "a scope of everybody"),
        "data-class": ({"data_class": "secrets"}, "an unknown data class"),
        "op": ({"ops": ["delete", "get"]}, "an unknown op"),
        "ops-unsorted": ({"ops": ["put", "get"]}, "ops out of order"),
        "ops-twice": ({"ops": ["get", "get"]}, "an op twice"),
        "ops-text": ({"ops": "get"}, "ops as one text"),
        "namespace": ({"namespaces_allowed": ["*"]}, "a namespace outside the grammar"),
        "namespaces-unsorted": ({"namespaces_allowed": ["work", "travel"]}, "namespaces out of order"),
        "namespaces-twice": ({"namespaces_allowed": ["work", "work"]}, "a namespace twice"),
        "jti": ({"jti": "AAAA"}, "a jti that is not 16 bytes"),
        "negative": ({"nbf": -1}, "a negative time"),
        "number": ({"exp": 2**53}, "a number that a double cannot tell from its neighbours"),
        "big-number": ({"exp": 10**30}, "a number of 31 digits"),
        "session-empty": ({"session": ""}, "an empty session"),
        "session-nfd": ({"session": "caffe\u0300"}, "a session that is not in NFC"),
        "session-control": ({"session": "a\u0007"}, "a session with a control character"),
        "session-newline": ({"session": "a\nb"}, "a session of two lines"),
        "session-long": ({"session": "s" * 257}, "a session of 257 characters"),
        "max-k-zero": ({"max_k": 0}, "a max_k of 0"),
        "max-k-large": ({"max_k": 21}, "a max_k of 21"),
        "max-depth": ({"max_depth": -1}, "a negative max_depth"),
        "label": ({"label": "<b>"}, "a label outside the grammar"),
        "label-long": ({"label": "x" * 65}, "a label of 65 characters"),
        "audience": ({"aud": ""}, "an empty audience"),
    }
    for name, (changes, description) in wrong.items():
        yield _bad(f"claim-{name}", description, sign(ISSUER, first(**changes)))
    start, _ = chain({}, {})
    links: dict[str, tuple[Claims, str]] = {
        "iss": ({"iss": issuer_id(public(ISSUER))}, "iss in a later link"),
        "aud": ({"aud": AUDIENCE}, "aud in a later link"),
        "data-class": ({"data_class": "memory"}, "data_class in a later link"),
        "version": ({"v": 2}, "another version"),
        "no-prev": ({"prev": None}, "no prev"),
        "prev-upper": ({"prev": link_id(start).upper()}, "prev in upper case"),
        "both": ({"actor": "local/alice", "actor_scope": "local/"}, "both actor and scope"),
    }
    for name, (changes, description) in links.items():
        end = sign(HOLDERS[0], later(start, **changes))
        yield _bad(f"link-{name}", f"{description}, in link 1", joined([start, end]))


SMALL_ORDER = {
    "identity": bytes([1]) + bytes(31),
    "identity-signed": bytes([1]) + bytes(30) + b"\x80",
    "identity-plus-p": b"\xee" + b"\xff" * 30 + b"\x7f",
    "identity-plus-p-signed": b"\xee" + b"\xff" * 31,
    "order-2": b"\xec" + b"\xff" * 30 + b"\x7f",
    "order-2-signed": b"\xec" + b"\xff" * 31,
    "order-4": bytes(32),
    "order-4-signed": bytes(31) + b"\x80",
    "order-4-plus-p": b"\xed" + b"\xff" * 30 + b"\x7f",
    "order-4-plus-p-signed": b"\xed" + b"\xff" * 31,
    "order-8-a": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    "order-8-a-signed": bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    "order-8-b": bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    "order-8-b-signed": bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
}


def _of_holder_keys() -> Iterator[Vector]:
    for name, key in SMALL_ORDER.items():
        token = joined([sign(ISSUER, first(cnf=cnf(key)))], HOLDERS[0])
        yield _bad(f"key-{name}", "a holder key of small order", token)
    wrong: dict[str, tuple[Claims, str]] = {
        "kty": ({"kty": "EC", "crv": "Ed25519", "x": b64(public(HOLDERS[0]))}, "another key type"),
        "crv": ({"kty": "OKP", "crv": "X25519", "x": b64(public(HOLDERS[0]))}, "another curve"),
        "private": (
            {"kty": "OKP", "crv": "Ed25519", "x": b64(public(HOLDERS[0])), "d": b64(HOLDERS[0])},
            "a private key",
        ),
        "short": ({"kty": "OKP", "crv": "Ed25519", "x": b64(public(HOLDERS[0])[:31])}, "a key of 31 bytes"),
        "reordered": ({"crv": "Ed25519", "kty": "OKP", "x": b64(public(HOLDERS[0]))}, "members in another order"),
    }
    for name, (jwk, description) in wrong.items():
        token = joined([sign(ISSUER, first(cnf={"jwk": jwk}))], HOLDERS[0])
        yield _bad(f"key-{name}", f"a holder key with {description}", token)


def _of_chains() -> Iterator[Vector]:
    links = chain({}, {"ops": ["get"]}, {"namespaces_allowed": ["travel"]}, delegable=True)
    proof, signature = "cap_holder_proof", "cap_signature_invalid"
    yield _bad("strip-last", "the last link taken off, its seed kept", joined(links[:2], HOLDERS[2]), proof)
    yield _bad("strip-last-and-seed", "the last link and the seed taken off", joined(links[:2]), proof)
    yield _bad("strip-to-first", "all links but the first taken off", joined(links[:1], HOLDERS[2]), proof)
    yield _bad("strip-middle", "a link taken out of the middle", joined([links[0], links[2]], HOLDERS[2]), signature)
    yield _bad("strip-first", "link 0 taken off", joined(links[1:], HOLDERS[2]))
    yield _bad("strip-seed", "the seed taken off", joined(links), proof)
    yield _bad("strip-other-seed", "a seed that belongs to no link", joined(links, seed("somebody")), proof)
    yield _bad("strip-parent-seed", "the seed of the link before the last", joined(links, HOLDERS[1]), proof)
    yield _bad(
        "chain-reordered", "links in another order", joined([links[0], links[2], links[1]], HOLDERS[1]), signature
    )
    yield _bad("chain-repeated", "a link twice", joined([links[0], links[1], links[1]], HOLDERS[1]), signature)
    forged = sign(seed("somebody"), later(links[0]))
    yield _bad("chain-forged", "a later link signed by somebody", joined([links[0], forged]), signature)
    self_issued = sign(STRANGER, first())
    yield _bad("chain-self-issued", "link 0 signed by another key under the issuer's name", self_issued, signature)
    malleable = _resigned(chain({})[0], lambda raw: raw[:32] + _plus_order(raw[32:]))
    yield _bad("chain-malleable", "a signature whose S is not reduced", malleable, signature)
    bearer = chain({})
    after = sign(HOLDERS[0], later(bearer[0]))
    yield _bad("chain-after-bearer", "a link after one without holder key", joined([*bearer, after]), signature)
    yield _bad("chain-seed-unnamed", "a seed that no link names", joined(bearer, HOLDERS[0]))
    ours, theirs = chain({}, {}), chain({"jti": jti("another cap")}, {"exp": NOW + 100})
    yield _bad("chain-spliced", "a link made for another cap of the same holder", joined([ours[0], theirs[1]]))
    wrong_prev = sign(HOLDERS[0], later(ours[0], prev="0" * 64))
    yield _bad("chain-prev", "a link that names another link as the one before", joined([ours[0], wrong_prev]))
    yield _bad("depth-zero", "a link after one that allows none", joined(chain({"max_depth": 0}, {})))
    yield _bad("depth-one", "two links after one that allows one", joined(chain({"max_depth": 1}, {}, {})))
    raised = joined(chain({"max_depth": 1}, {"max_depth": 7}, {}))
    yield _bad("depth-raised", "a later link cannot raise the depth", raised)
    scope: Claims = {"actor": None, "actor_scope": "hermes/default/"}
    outside: dict[str, tuple[list[Claims], str]] = {
        "elsewhere": ([{"actor": "local/alice"}], "an actor outside the scope"),
        "lookalike": ([{"actor": "hermes/default2/x"}], "an actor whose name starts alike"),
        "itself": ([{"actor": "hermes/default"}], "the scope itself as an actor"),
        "wider": ([{"actor_scope": "hermes/"}], "a wider scope"),
        "sibling": ([{"actor_scope": "hermes/other/"}], "a scope beside it"),
        "and-actor": (
            [{"actor": "hermes/default/a", "actor_scope": "hermes/default/"}],
            "an actor and a scope in one link, both inside",
        ),
        "second-actor": ([{"actor": "hermes/default/a"}, {"actor": "hermes/default/b"}], "a second actor"),
        "after-actor": ([{"actor": "hermes/default/a"}, {"actor_scope": "hermes/default/"}], "a scope after an actor"),
    }
    for name, (narrowings, description) in outside.items():
        yield _bad(f"scope-{name}", description, joined(chain(scope, *narrowings)))
    yield _bad("actor-other", "another actor than the cap's", joined(chain({}, {"actor": "local/bob"})))
    yield _bad("actor-scope", "a scope where the cap names an actor", joined(chain({}, {"actor_scope": "local/"})))
    yield _bad("session-other", "another session than the cap's", joined(chain({"session": "a"}, {"session": "b"})))


def _plus_order(half: bytes) -> bytes:
    return (int.from_bytes(half, "little") + ORDER).to_bytes(32, "little")


def _of_time_and_place() -> Iterator[Vector]:
    yield _bad("time-expired", "now is exp", joined(chain({"exp": NOW})), "cap_expired")
    yield _bad("time-link-expired", "a later link has expired", joined(chain({}, {"exp": NOW})), "cap_expired")
    yield _bad("time-nbf", "nbf lies 31 s ahead", joined(chain({"nbf": NOW + 31})), "cap_not_yet_valid")
    yield _bad("time-iat", "iat lies 31 s ahead", joined(chain({"iat": NOW + 31})), "cap_not_yet_valid")
    late = joined(chain({}, {"nbf": NOW + 31}))
    yield _bad("time-link-nbf", "the nbf of a later link lies 31 s ahead", late, "cap_not_yet_valid")
    other: Claims = {"aud": "0f0e0d0c0b0a0908"}
    yield _bad("place-audience", "a cap for another vault of the same issuer", joined(chain(other)), "cap_audience")
    stranger = {"iss": issuer_id(public(STRANGER))}
    yield _bad(
        "place-unknown-issuer",
        "an issuer that this vault does not know, for this vault",
        sign(STRANGER, first(**stranger)),
        "cap_signature_invalid",
    )
    yield _bad(
        "place-other-vault",
        "an issuer that this vault does not know, for another vault",
        sign(STRANGER, first(**stranger, **other)),
        "cap_audience",
    )
    expired = joined(chain({**other, "exp": NOW}, delegable=True), HOLDERS[1])
    yield _bad(
        "order-holder", "wrong holder, wrong vault, expired: the holder comes first", expired, "cap_holder_proof"
    )
    late = joined(chain({**other, "exp": NOW}))
    yield _bad("order-audience", "wrong vault and expired: the vault comes first", late, "cap_audience")
    future = joined(chain({"exp": NOW, "nbf": NOW + 99}))
    yield _bad("order-time", "expired and not valid yet: the end comes first", future, "cap_expired")
