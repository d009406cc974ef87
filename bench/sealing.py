"""Sealing and opening one line of 200 bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench.lines import of_size
from bench.measure import Row, Run, in_turns
from strongroom.crypto import line_encryption
from strongroom.crypto.chunked_aead import Key
from strongroom.crypto.line_encryption import LinePlace, padded_size
from strongroom.model import Actor, Kind, Line, LineId, LinkId, Millis, Namespace, Provenance


def rows(run: Run) -> Iterator[Row]:
    line = Line(
        id=LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),
        time=Millis(1_779_440_000_000),
        kind=Kind.TURN,
        namespace=Namespace("work"),
        session="chat-1",
        author="user",
        text=next(of_size(1, 200)),
        provenance=Provenance((LinkId("a" * 64), LinkId("b" * 64)), "c" * 32, "python", Millis(1_779_440_000_000)),
    )
    place = LinePlace("0123456789abcdef", Actor("local/alice"), line.namespace)
    key, salt, nonce = Key(os.urandom(32)), os.urandom(24), os.urandom(12)
    sealed = line_encryption.seal_line(line, place, 1, key, salt)
    plain = bytes(padded_size(len(msgspec.json.encode(line))))
    cipher = AESGCM(key).encrypt(nonce, plain, None)
    repeats = run.pick(30, 10)
    ours, bare = in_turns(
        (lambda: line_encryption.seal_line(line, place, 1, key, salt), lambda: AESGCM(key).encrypt(nonce, plain, None)),
        repeats=repeats,
        calls=300,
    )
    beside = f"AES-GCM of the padded {len(plain)} bytes, fresh key object"
    yield Row("seal.line", "seal a line of 200 bytes", "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)
    ours, bare = in_turns(
        (
            lambda: line_encryption.open_line(sealed, line.id, place, {1: key}),
            lambda: AESGCM(key).decrypt(nonce, cipher, None),
        ),
        repeats=repeats,
        calls=300,
    )
    yield Row("seal.open", "open a line of 200 bytes", "us cpu", ours.cpu * 1e6, bare.cpu * 1e6, beside)
