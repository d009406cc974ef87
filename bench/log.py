"""The audit log: one entry's bytes and leaf, and verification."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from bench import bare, vaults
from bench.lines import lines
from bench.measure import Row, Run, in_turns
from strongroom.crypto import merkle_log


def rows(run: Run) -> Iterator[Row]:
    count = run.pick(2000, 300)
    with vaults.make(run.scratch) as vault:
        memory = vault.memory(vaults.session_cap(vault))
        for line in lines(1, count):
            memory.put_many([line])
        size = vault.audit.size()
        _, entry = next(vault.audit.entries(size - 1))
        if entry is None:
            raise RuntimeError("the last entry has been archived")
        encoded = entry.encoded()
        ours, base = in_turns(
            (lambda: merkle_log.leaf_hash(msgspec.structs.replace(entry).encoded()), lambda: hashlib.sha256(encoded)),
            repeats=run.pick(30, 10),
            calls=500,
        )
        beside = f"SHA-256 of its {len(encoded)} bytes"
        yield Row("log.entry", "a put's entry: bytes and leaf", "us cpu", ours.cpu * 1e6, base.cpu * 1e6, beside)
        connection = bare.connect(run.scratch / "vault" / bare.DATABASE)

        def read_and_hash() -> None:
            for (body,) in connection.execute("SELECT body FROM objects ORDER BY name"):
                hashlib.sha256(body)
            for leaf, written in connection.execute("SELECT leaf, entry FROM entries ORDER BY number"):
                hashlib.sha256(b"\0" + written).digest() == leaf  # noqa: B015 - its cost is the point

        ours, base = in_turns((vault.audit.verify, read_and_hash), repeats=run.pick(7, 3))
        connection.close()
        yield Row(
            "log.verify",
            f"verify, per entry of {size:,}",
            "us cpu",
            ours.cpu / size * 1e6,
            base.cpu / size * 1e6,
            "read every row and SHA-256 it",
        )
