"""What was put is read into the index later: with the next question, by `settle`, or when much waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.model import Line, LineId
from strongroom.shelves import Shelf, Shelves
from tests.conftest import ALL_OPS, NAMESPACES


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that an index has read one by one; one with "unreadable" in it cannot be."""
    texts: list[str] = []
    add = LexicalIndex.add

    def noted(self: LexicalIndex, line: Line) -> None:
        texts.append(line.text)
        if "unreadable" in line.text:
            raise ValueError("a defect of an engine")
        add(self, line)

    monkeypatch.setattr(LexicalIndex, "add", noted)
    return texts


@pytest.fixture
def memory(vault: Vault, cap: Token, read: list[str]) -> Memory:
    """A memory whose shelf is loaded."""
    found = vault.memory(cap)
    found.put("a first line", namespace="work")
    found.get("line")
    read.clear()
    return found


def _words(chance: random.Random, number: int) -> str:
    return " ".join("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=4)) for _ in range(number))


def test_a_put_reads_nothing_and_the_next_question_finds_its_line(memory: Memory, read: list[str]) -> None:
    memory.put("the ferry leaves at noon", namespace="work")
    assert read == []
    assert [hit.text for hit in memory.get("ferry")] == ["the ferry leaves at noon"]
    assert read == ["the ferry leaves at noon"]
    memory.get("ferry")
    assert len(read) == 1


def test_settle_reads_for_the_next_question_and_leaves_nothing_in_the_log(
    vault: Vault, memory: Memory, read: list[str]
) -> None:
    memory.put("the ferry leaves at noon", namespace="work")
    before = vault.audit.size()
    vault.settle()
    assert read == ["the ferry leaves at noon"]
    assert vault.audit.size() == before
    assert [hit.text for hit in memory.get("ferry")] == ["the ferry leaves at noon"]
    assert len(read) == 1
    vault.settle()
    assert len(read) == 1


@pytest.mark.requirement("forget-stays")
@pytest.mark.parametrize("settled", [False, True])
def test_a_line_that_is_forgotten_before_it_was_read_is_never_found(
    vault: Vault, memory: Memory, read: list[str], settled: bool
) -> None:
    receipt = memory.put("the ferry leaves at noon", namespace="work")
    memory.put("the ferry was late", namespace="work")
    memory.forget(ids=[receipt.id])
    if settled:
        vault.settle()
    assert [hit.text for hit in memory.get("ferry")] == ["the ferry was late"]
    assert read == ["the ferry was late"]


def test_lines_that_nobody_has_read_yet_are_listed_and_found_by_their_ids(memory: Memory, read: list[str]) -> None:
    receipt = memory.put("the ferry leaves at noon", namespace="work")
    assert receipt.id in [line.id for line in memory.list().lines]
    assert [hit.text for hit in memory.get(ids=[receipt.id])] == ["the ferry leaves at noon"]
    assert read == []


def test_when_much_waits_it_is_read_at_once(memory: Memory, read: list[str]) -> None:
    memory.put("short", namespace="work")
    memory.put("ferry " * 3000, namespace="work")
    assert len(read) == 2
    memory.put_many([NewLine(text=str(number), namespace="work") for number in range(256)])
    memory.put_many([NewLine(text=str(number), namespace="work") for number in range(256)])
    assert len(read) > 256, "many short lines are much, too"


# Taking in: a shelf hears of a turn's lines when somebody looks.


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of which shelves were told."""
    names: list[str] = []
    changed = Shelves.changed

    def noted(self: Shelves, prefix: str, name: LineId, line: Line | None, *, deleted: bool) -> None:
        names.append(name)
        changed(self, prefix, name, line, deleted=deleted)

    monkeypatch.setattr(Shelves, "changed", noted)
    return names


@pytest.mark.parametrize(
    "look",
    [
        lambda vault, memory: vault.settle(),
        lambda vault, memory: vault.usage(),
        lambda vault, memory: memory.get("ferry"),
        lambda vault, memory: memory.list(),
        lambda vault, memory: memory.put("another", namespace="work"),
        lambda vault, memory: vault.memory(vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=["work"])).get("x"),
    ],
)
def test_a_few_lines_are_taken_in_by_who_looks_next(
    vault: Vault, memory: Memory, heard: list[str], look: Callable[[Vault, Memory], object]
) -> None:
    lines = [NewLine(text=f"the ferry leaves at {hour}", namespace="work") for hour in ("noon", "night")]
    put = [receipt.id for receipt in memory.put_many(lines)]
    assert heard == []
    look(vault, memory)
    assert heard == put


def test_many_lines_long_ones_and_those_of_a_new_namespace_are_taken_in_at_once(
    memory: Memory, heard: list[str]
) -> None:
    memory.put_many([NewLine(text=str(number), namespace="work") for number in range(17)])
    assert len(heard) == 17
    memory.put("ferry " * 3000, namespace="work")
    assert len(heard) == 18
    memory.put("the first of its namespace", namespace="travel")
    assert len(heard) == 19


def test_lines_for_a_shelf_that_nobody_has_loaded_are_not_held(tmp_path: Path) -> None:
    """They would stay in RAM until somebody looks, whatever becomes of their actor meanwhile."""
    keys = FileKeys(tmp_path / "k")
    with strongroom.create(tmp_path / "v", keys=keys) as first:
        cap = first.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
        first.memory(cap).put("an older line", namespace="work")
        with strongroom.open(tmp_path / "v", keys=keys) as vault:
            vault.memory(cap).put("the ferry leaves at noon", namespace="work")
            assert not vault._state._put
            vault.memory(cap).get("ferry")
            vault.memory(cap).put("the ferry was late", namespace="work")
            assert len(vault._state._put) == 1


@pytest.mark.requirement("forget-stays", "erase-keys")
def test_a_line_that_waits_does_not_get_onto_a_shelf_that_was_made_anew(vault: Vault, memory: Memory) -> None:
    memory.put("the ferry leaves at noon", namespace="work")
    (waiting,) = vault._state._put
    memory.erase(["work"])
    memory.put("of a new beginning", namespace="work")
    memory.get("ferry")
    # As if the shelf had been made anew before the erasure was followed, while the line still waits.
    vault._state._put.append(waiting)
    vault._state._seen[""] = waiting.version - 1
    vault.settle()
    assert [hit.text for hit in memory.get("ferry beginning")] == ["of a new beginning"]
    assert len(memory.list().lines) == 1


@pytest.mark.requirement("forget-stays")
def test_what_is_forgotten_goes_at_once(memory: Memory, heard: list[str]) -> None:
    receipt = memory.put("the ferry leaves at noon", namespace="work")
    memory.forget(ids=[receipt.id])
    assert heard == [receipt.id, receipt.id]


def test_every_thread_finds_what_it_has_just_put(vault: Vault, cap: Token) -> None:
    missed: list[str] = []

    def work(name: str) -> None:
        own = vault.memory(cap)
        for number in range(25):
            word = f"{name}x{number}"
            receipt = own.put(f"{word} is here", namespace="work")
            by_words = [hit.id for hit in own.get(word, k=1)]
            by_id = [hit.id for hit in own.get(ids=[receipt.id])]
            if not by_words == by_id == [receipt.id]:
                missed.append(word)
            vault.settle()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("ana", "ben", "cy", "dee")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []
    assert len(vault.memory(cap).list(limit=200).lines) == 100


# An engine that fails.


def test_a_line_that_an_engine_cannot_read_fails_one_question_and_no_put(
    vault: Vault, memory: Memory, read: list[str]
) -> None:
    memory.put("unreadable one", namespace="work")
    memory.put("another unreadable one", namespace="work")
    memory.put("the ferry leaves at noon", namespace="work")
    memory.put("ferry " * 3000, namespace="work")
    vault.settle()
    with pytest.raises(ValueError, match="a defect of an engine"):
        memory.get("ferry")
    (last,) = [entry for _, entry in vault.audit.entries(vault.audit.size() - 1) if entry]
    assert (last.decision, last.detail) == ("fail", "ValueError")
    assert len(memory.get("ferry noon unreadable")) == 2
    assert len([text for text in read if "unreadable" in text]) == 2
    assert len(memory.list().lines) == 5


def test_a_line_that_was_never_read_is_not_taken_out_of_the_index(
    vault: Vault, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine is asked to remove what it was given, and nothing else."""
    removed: list[str] = []
    monkeypatch.setattr(LexicalIndex, "remove", lambda _self, line: removed.append(line.text))
    unread = memory.put("the ferry leaves at noon", namespace="work")
    memory.forget(ids=[unread.id])
    unreadable = memory.put("unreadable", namespace="work")
    vault.settle()
    memory.forget(ids=[unreadable.id])
    memory.forget(ids=[line.id for line in memory.list().lines])
    assert removed == ["a first line"]


def test_settle_goes_through_all_shelves_whatever_fails(vault: Vault, memory: Memory, read: list[str]) -> None:
    other = vault.memory(vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES))
    other.put("first", namespace="work")
    other.get("first")
    memory.put("unreadable", namespace="work")
    other.put("the ferry leaves at noon", namespace="work")
    vault.settle()
    assert read[-1] == "the ferry leaves at noon"


# The budget.


@pytest.mark.requirement("shelf-bounded")
@pytest.mark.parametrize("ready", [lambda vault, memory: memory.get("x"), lambda vault, memory: vault.settle()])
def test_what_is_read_later_is_counted_when_it_is(
    vault: Vault, memory: Memory, ready: Callable[[Vault, Memory], object]
) -> None:
    """Texts of few words that are all different take far more than their size."""
    before = vault.usage().shelf_bytes
    memory.put(_words(random.Random(1), 3000), namespace="work")
    ready(vault, memory)
    assert vault.usage().shelf_bytes > before + 3000 * 100


@pytest.mark.requirement("shelf-bounded")
def test_shelves_that_grow_by_what_is_read_later_make_room(tmp_path: Path) -> None:
    chance, budget = random.Random(1), 2_000_000
    with strongroom.create(tmp_path / "v", keys=FileKeys(tmp_path / "k"), shelf_bytes=budget) as vault:
        for number in range(20):
            memory = vault.memory(vault.mint(actor=f"local/{number}", ops=ALL_OPS, namespaces=["work"]))
            memory.put("first")
            memory.get("x")
            memory.put(_words(chance, 3000))
            memory.get("x")
        usage = vault.usage()
        assert 1 < usage.shelves < 20
        assert usage.shelf_bytes < budget


@pytest.mark.parametrize("seed", range(5))
def test_what_all_shelves_take_is_the_sum_of_what_each_of_them_counts_for(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Shelves] = []
    init = Shelves.__init__

    def noted(self: Shelves, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]
        kept.append(self)

    monkeypatch.setattr(Shelves, "__init__", noted)
    chance = random.Random(seed)
    budget = chance.choice([5_000, 60_000, 10**8])
    with strongroom.create(tmp_path / "v", keys=FileKeys(tmp_path / "k"), shelf_bytes=budget) as vault:
        memories = [
            vault.memory(vault.mint(actor=f"local/{number}", ops=ALL_OPS, namespaces=NAMESPACES)) for number in range(3)
        ]
        ids: list[tuple[Memory, str]] = []
        for _ in range(80):
            memory, namespace = chance.choice(memories), chance.choice(NAMESPACES)
            match chance.choice(["put", "put", "put", "get", "get", "forget", "settle", "erase"]):
                case "put":
                    text = _words(chance, chance.choice([1, 5, 60]))
                    ids.append((memory, memory.put(text, namespace=namespace).id))
                case "get":
                    memory.get(_words(chance, 2))
                case "forget" if ids:
                    owner, name = ids.pop(chance.randrange(len(ids)))
                    if name in {line.id for line in owner.list(limit=1000).lines}:
                        owner.forget(ids=[name])
                case "settle":
                    vault.settle()
                case "erase":
                    memory.erase([namespace])
            held: list[Shelf] = kept[0].loaded()
            assert kept[0].usage()[1] == sum(shelf.counted for shelf in held) >= 0
