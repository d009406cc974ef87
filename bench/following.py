"""Keeping up with other processes: when nothing has changed, and after one foreign put."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bench import bare, vaults
from bench.lines import lines, of_size
from bench.measure import Row, Run, in_turns

_KEY, _NONCE = bytes(32), bytes(12)


def rows(run: Run) -> Iterator[Row]:
    with vaults.make(run.scratch) as other, vaults.reopen(run.scratch) as vault:
        token = vaults.session_cap(other)
        writer, texts = other.memory(token), of_size(2, 200)
        vaults.fill(writer, lines(1, 1000))
        vault.memory(token).get("loads the shelf")
        state = vault._state
        connection = bare.connect(run.scratch / "vault" / bare.DATABASE)

        def latest() -> object:
            return connection.execute("SELECT version FROM head").fetchone()

        ours, base = in_turns((state.catch_up, latest), repeats=run.pick(30, 10), calls=200)
        yield Row(
            "follow.nothing",
            "catch up, nothing new",
            "us cpu",
            ours.cpu * 1e6,
            base.cpu * 1e6,
            "SELECT version FROM head",
        )
        seen = state.store.version()
        sealed = AESGCM(_KEY).encrypt(_NONCE, bytes(512), None)

        def follow() -> None:
            nonlocal seen
            query = "SELECT name, version FROM objects WHERE version > ? ORDER BY version"
            for name, version in connection.execute(query, (seen,)).fetchall():
                seen = int(str(version))
                connection.execute("SELECT body FROM objects WHERE name = ?", (name,)).fetchone()
                AESGCM(_KEY).decrypt(_NONCE, sealed, None)

        ours, base = in_turns(
            (state.catch_up, follow), repeats=run.pick(300, 50), before=lambda: writer.put(next(texts))
        )
        connection.close()
        yield Row(
            "follow.put",
            "catch up, one foreign put",
            "us cpu",
            ours.cpu * 1e6,
            base.cpu * 1e6,
            "read the new row, AES-GCM open it",
        )
