"""Lines that live: what a replacement costs beside a put, listing with texts, and a filtered get beside a plain one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from bench import vaults
from bench.lines import lines
from bench.measure import Goal, Row, Run, in_turns
from strongroom import Memory, NewLine


def rows(run: Run) -> Iterator[Row]:
    with vaults.make(run.scratch) as vault:
        ops = ("put", "get", "list", "forget")
        cap = vault.mint(actor="local/alice", ops=ops, namespaces=["work"], ttl=3600)
        memory = vault.memory(cap)
        amount = run.pick(10_000, 1_000)
        texts = [line.text for line in lines(1, amount)]
        for at in range(0, amount, 200):
            memory.put_many([NewLine(text=text, namespace="work", tags=_tags(text)) for text in texts[at : at + 200]])
        memory.get(texts[0])
        yield from _replace(run, memory)
        yield from _texts(run, memory, amount)
        yield from _filtered(run, memory, texts, amount)


def _tags(text: str) -> tuple[str, ...]:
    return ("tenth",) if sum(text.encode()) % 10 == 0 else ()


def _replace(run: Run, memory: Memory) -> Iterator[Row]:
    numbers = count()
    newest = [memory.put("a fact, as it was first told", namespace="work").id]

    def replace() -> None:
        newest.append(memory.replace(newest[-1], f"a fact, told for the {next(numbers)}th time").id)

    def put() -> None:
        memory.put(f"a fact, told for the {next(numbers)}th time", namespace="work")

    ours, base = in_turns((replace, put), repeats=run.pick(30, 5), calls=20)
    goal = Goal("ratio", 1.5, 1.2)
    yield Row("lives.replace", "replace one line", "us cpu", ours.cpu * 1e6, base.cpu * 1e6, "a put", goal)


def _texts(run: Run, memory: Memory, amount: int) -> Iterator[Row]:
    ids = [line.id for line in memory.list(limit=1000).lines]

    def listed() -> None:
        after = None
        while True:
            page = memory.list(limit=1000, after=after, texts=True)
            after = page.next
            if after is None:
                return

    def by_ids() -> None:
        for at in range(0, len(ids), 20):
            memory.get(ids=ids[at : at + 20])

    ours, base = in_turns((listed, by_ids), repeats=run.pick(7, 3))
    yield Row(
        "lives.texts",
        f"list {amount:,} lines with texts, for each",
        "us cpu",
        ours.cpu / amount * 1e6,
        base.cpu / len(ids) * 1e6,
        "get by ids, 20 at a time",
    )


def _filtered(run: Run, memory: Memory, texts: list[str], amount: int) -> Iterator[Row]:
    questions = iter(texts * 100)

    def filtered() -> None:
        memory.get(next(questions), tags=["tenth"])

    def plain() -> None:
        memory.get(next(questions))

    ours, base = in_turns((filtered, plain), repeats=run.pick(20, 5), calls=5)
    yield Row(
        "lives.filtered",
        f"get among a tenth of {amount:,} lines, by a tag",
        "us cpu",
        ours.cpu * 1e6,
        base.cpu * 1e6,
        "a get among all of them",
    )
