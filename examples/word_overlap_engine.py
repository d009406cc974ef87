"""An engine of one's own: it ranks a line by how many of the query's words it shares, then by time.

A package offers it to vaults with two lines in its pyproject.toml:

    [project.entry-points."strongroom.engines"]
    word-overlap = "word_overlap_engine:WordOverlap"

Run as a script, this file plays that package: it writes the same registration to a temporary directory.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import strongroom
from strongroom.engines import Ranked
from strongroom.model import Line, LineId, Millis, Namespace


def words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


class WordIndex:
    """The words of each line of one shelf."""

    def __init__(self) -> None:
        self.lines: dict[LineId, tuple[Line, frozenset[str]]] = {}

    def add(self, line: Line) -> None:
        self.lines[line.id] = line, words(line.text)

    def remove(self, line: Line) -> None:
        self.lines.pop(line.id, None)


class WordOverlap:
    """Ranks by shared words. Only lines that share one are returned."""

    def index(self) -> WordIndex:
        return WordIndex()

    def rank(self, query: str, indexes: Sequence[WordIndex], k: int, now: datetime) -> Sequence[Ranked]:
        wanted = words(query)
        found = [
            Ranked(line, float(len(wanted & has)))
            for index in indexes
            for line, has in index.lines.values()
            if wanted & has
        ]
        return sorted(found, key=_place, reverse=True)[:k]


def _place(one: Ranked) -> tuple[float, Millis, LineId, Namespace]:
    # A total order, whatever order the lines arrived in: an id is unique within its namespace only.
    return one.score, one.line.time, one.line.id, one.line.namespace


def register(directory: Path) -> None:
    """Make this file look installed, for this process: what `pip install` of a package would leave behind."""
    info = directory / "word_overlap_engine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: word-overlap-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[strongroom.engines]\nword-overlap = word_overlap_engine:WordOverlap\n")
    sys.path[:0] = [str(directory), str(Path(__file__).parent)]


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        register(Path(scratch))
        keys = strongroom.FileKeys(Path(scratch) / "keys")
        with strongroom.create(Path(scratch) / "vault", keys=keys, engine="word-overlap") as vault:
            cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"])
            memory = vault.memory(cap)
            for text in ("The train to Chengdu leaves at nine", "Chengdu has pandas", "Bring a coat"):
                memory.put(text)
            for hit in memory.get("when does the train to Chengdu leave?"):
                print(f"{hit.score:.0f} {hit.text}")


if __name__ == "__main__":
    main()
