"""Lines that live: a replacement beside a put, listing with texts, a filtered get beside a plain one, and documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from bench import vaults
from bench.bare import BareLog, Sizes, copied
from bench.lines import lines
from bench.measure import Goal, Row, Run, in_turns
from strongroom import Memory, NewLine
from strongroom.model import HISTORY_LIMIT


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
        yield from _documents(run, memory)


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


def _documents(run: Run, memory: Memory) -> Iterator[Row]:
    """A document of 2,000 characters whose history is full, so that its row is as large as it gets."""
    numbers = count()
    last = [""]

    def write() -> None:
        text = f"{next(numbers):08d}" + "a plan, written again. " * 87
        last[0] = memory.write_document("plans/one", text, namespace="work", version=last[0]).version

    def read() -> None:
        memory.document("plans/one")

    for _ in range(HISTORY_LIMIT + 2):
        write()
    log = BareLog(file := copied(run.scratch / "vault", run.scratch / "bare"), Sizes.of_last_put(file))
    what = "a document of 2,000 characters and its history"
    written, beside = in_turns((write, log.replace), repeats=run.pick(60, 10), calls=8)
    rows = "a transaction writing the same bytes"
    yield Row("lives.document", f"write {what}", "us wall", written.wall * 1e6, beside.wall * 1e6, rows)
    yield Row("lives.document", f"write {what}", "us cpu", written.cpu * 1e6, beside.cpu * 1e6, rows)
    found, beside = in_turns((read, log.read), repeats=run.pick(60, 10), calls=8)
    rows = "a select, and a bare log row"
    yield Row("lives.document", "read it", "us cpu", found.cpu * 1e6, beside.cpu * 1e6, rows)
    log.close()
