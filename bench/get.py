"""Get from a warm shelf, before and with the audit commit, beside a plain scan and SQLite's own full text search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from unittest.mock import patch

import apsw

from bench import vaults
from bench.bare import BareLog, Sizes, copied
from bench.lines import lines, rare_queries
from bench.measure import Goal, Row, Run, in_turns
from strongroom import Memory, Vault

_K = 5


def of(count: int, goal: Goal | None = None) -> Callable[[Run], Iterator[Row]]:
    """The benchmark of a shelf of `count` lines."""
    name = f"get.{count // 1000}k"

    def rows(run: Run) -> Iterator[Row]:
        with vaults.make(run.scratch) as vault:
            memory = vault.memory(vaults.session_cap(vault))
            known = list(lines(count, count))
            vaults.fill(memory, known)
            yield from _measure(run, name, vault, memory, [line.text for line in known], goal)

    return rows


def _measure(
    run: Run, name: str, vault: Vault, memory: Memory, texts: Sequence[str], goal: Goal | None
) -> Iterator[Row]:
    queries = rare_queries(texts, 40)
    search = _full_text(texts)
    repeats = run.pick(40, 10)

    def scan(query: str) -> list[str]:
        wanted = query.casefold()
        return [text for text in texts if wanted in text.casefold()][-_K:]

    memory.get(queries[0])
    with patch.object(vault._clerk, "commit", lambda *_, **__: None):
        ours, plain, fts = in_turns(
            (_asking(memory.get, queries), _asking(scan, queries), _asking(search, queries)), repeats=repeats
        )
    what = f"get, {len(texts):,} lines, before the log"
    yield Row(name, what, "ms cpu", ours.cpu * 1e3, plain.cpu * 1e3, "Python scan of the texts", goal)
    yield Row(name, what, "ms cpu", ours.cpu * 1e3, fts.cpu * 1e3, "SQLite FTS5 in memory, any word, by rank")
    file = copied(run.scratch / "vault", run.scratch / name)
    log = BareLog(file, Sizes.of_last_entry(file))

    def scan_and_log(query: str) -> list[str]:
        found = scan(query)
        log.append()
        return found

    ours, bare = in_turns((_asking(memory.get, queries), _asking(scan_and_log, queries)), repeats=repeats)
    log.close()
    what = f"get, {len(texts):,} lines, logged"
    yield Row(name, what, "ms wall", ours.wall * 1e3, bare.wall * 1e3, "the scan and a bare log row")


def _asking(answer: Callable[[str], object], queries: Sequence[str]) -> Callable[[], object]:
    """Each call asks the next query; every side of a row gets them in the same order."""
    upcoming = cycle(queries)
    return lambda: answer(next(upcoming))


def _full_text(texts: Sequence[str]) -> Callable[[str], object]:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    connection.executemany("INSERT INTO texts VALUES (?)", ((text,) for text in texts))

    def search(query: str) -> object:
        words = " OR ".join(f'"{word}"' for word in query.split())
        return connection.execute(
            "SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?", (words, _K)
        ).fetchall()

    return search
