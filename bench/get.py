"""Get from a warm shelf with the vault's own engine, before and with the audit commit, beside FTS5 on the same lines.

The figure is the median over forty questions of several forms, each asked once: words in many lines and in few,
people, places, dates and time words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from unittest.mock import patch

from bench import vaults
from bench.bare import BareLog, Sizes, copied
from bench.lines import after, lines, questions
from bench.measure import Goal, Row, Run, in_turns
from bench.peers import BESIDE, FullText
from strongroom import Memory, NewLine, Vault

_K = 5
_QUESTIONS = 40


def of(count: int, goal: Goal | None = None) -> Callable[[Run], Iterator[Row]]:
    """The benchmark of a shelf of `count` lines."""
    name = f"get.{count // 1000}k" if count >= 1000 else f"get.{count}"

    def rows(run: Run) -> Iterator[Row]:
        with vaults.make(run.scratch) as vault:
            memory = vault.memory(vaults.session_cap(vault))
            known = list(lines(count, count))
            vaults.fill(memory, known)
            yield from _measure(run, name, vault, memory, known, goal)

    return rows


def full_text_of(known: Sequence[NewLine]) -> Iterator[str]:
    """Lines as FTS5 gets them: the author's name is a word that can be found, too."""
    return (f"{line.author}: {line.text}" for line in known)


def _measure(
    run: Run, name: str, vault: Vault, memory: Memory, known: Sequence[NewLine], goal: Goal | None
) -> Iterator[Row]:
    asked = questions(_QUESTIONS)
    get = partial(memory.get, k=_K, now=after(known))
    search = partial(FullText.of(full_text_of(known)).read, k=_K)
    repeats = run.pick(_QUESTIONS, 10)
    get(asked[0])
    with patch.object(vault._clerk, "commit", lambda *_, **__: ()):
        ours, fts5 = in_turns((_asking(get, asked), _asking(search, asked)), repeats=repeats)
    what = f"get, {len(known):,} lines, before the log"
    yield Row(name, what, "ms cpu", ours.cpu * 1e3, fts5.cpu * 1e3, f"{BESIDE}, in memory", goal)
    file = copied(run.scratch / "vault", run.scratch / name)
    log = BareLog(file, Sizes.of_last_entry(file))

    def search_and_log(question: str) -> list[str]:
        found = search(question)
        log.append()
        return found

    ours, bare = in_turns((_asking(get, asked), _asking(search_and_log, asked)), repeats=repeats)
    log.close()
    what = f"get, {len(known):,} lines, logged"
    yield Row(name, what, "ms wall", ours.wall * 1e3, bare.wall * 1e3, "the same search and a bare log row")


def _asking(answer: Callable[[str], object], asked: Sequence[str]) -> Callable[[], object]:
    """Each call asks the next question; every side of a row gets them in the same order."""
    upcoming = cycle(asked)
    return lambda: answer(next(upcoming))
