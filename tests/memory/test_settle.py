"""What was put is read into the index later: with the next question, by `settle`, or when much waits."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault
from strongroom.engines.lexical.index import LexicalIndex
from strongroom.memory.line_cache.cache import CachedNamespace, LineCache
from strongroom.memory.replica import Replica
from strongroom.model import Line, LineId
from tests.audit.tools import edit
from tests.conftest import ALL_OPS, NAMESPACES, Clock


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


def test_put_reads_nothing_and_the_next_question_finds_its_line(memory: Memory, read: list[str]) -> None:
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
def test_line_that_is_forgotten_before_it_was_read_is_never_found(
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


def test_excess_of_waiting_lines_is_read_at_once(memory: Memory, read: list[str]) -> None:
    memory.put("short", namespace="work")
    memory.put("ferry " * 3000, namespace="work")
    assert len(read) == 2
    memory.put_many([NewLine(text=str(number), namespace="work") for number in range(256)])
    memory.put_many([NewLine(text=str(number), namespace="work") for number in range(256)])
    assert len(read) > 128, "many short lines are much, too"


# Taking in: a change is posted to its shelf, and taken in by whoever next holds it.


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of which shelves were told."""
    names: list[str] = []
    changed = LineCache.changed

    def noted(
        self: LineCache, prefix: str, name: LineId, line: Line | None, birth: bytes | None, *, deleted: bool
    ) -> None:
        names.append(name)
        changed(self, prefix, name, line, birth, deleted=deleted)

    monkeypatch.setattr(LineCache, "changed", noted)
    return names


def _only_shelf(vault: Vault) -> CachedNamespace:
    (shelf,) = vault._state.shelves.loaded()
    return shelf


@pytest.mark.requirement("server-fair")
def test_put_and_catching_up_do_not_wait_for_a_reader_of_the_shelf(
    vault: Vault, memory: Memory, tmp_path: Path, keys: FileKeys, clock: Clock, cap: Token
) -> None:
    """Else one actor's long question would hold up what is done for all actors under one lock."""
    shelf = _only_shelf(vault)
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock) as other, shelf.lock:
        memory.put("the ferry leaves at noon", namespace="work")
        other.memory(cap).put("the ferry was late", namespace="work")
        vault._state.catch_up()
        assert len(shelf.lines) == 1
    assert {hit.text for hit in memory.get("ferry", k=2)} == {"the ferry leaves at noon", "the ferry was late"}


@pytest.mark.requirement("shelf-bounded")
def test_posted_line_counts_against_the_bound_before_it_is_taken_in(vault: Vault, memory: Memory) -> None:
    shelf, before = _only_shelf(vault), vault.usage().shelf_bytes
    with shelf.lock:
        memory.put("x" * 5_000, namespace="work")
        assert vault.usage().shelf_bytes >= before + 5_000
    memory.get("x")
    assert vault.usage().shelf_bytes == shelf.bytes


@pytest.mark.requirement("bad-object")
def test_line_of_another_process_that_cannot_be_opened_fails_every_question_and_no_put(
    vault: Vault, memory: Memory, tmp_path: Path, keys: FileKeys, clock: Clock, cap: Token
) -> None:
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock) as other:
        damaged = other.memory(cap).put("the ferry was late", namespace="work")
    edit(tmp_path / "vault", "UPDATE objects SET body = x'00' WHERE name LIKE ?", f"%/lines/{damaged.id}")
    memory.put("the ferry leaves at noon", namespace="work")
    for _ in range(2):
        with pytest.raises(strongroom.errors.Tampered):
            memory.get("ferry")
    other_actor = vault.memory(vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=["work"]))
    other_actor.put("another ferry", namespace="work")
    assert len(other_actor.get("ferry")) == 1


@pytest.mark.requirement("forget-stays", "erase-keys")
def test_line_put_before_an_erasure_does_not_get_onto_the_shelf_that_was_made_anew(
    vault: Vault, memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that has just put a line takes it in after others have erased the namespace and begun it anew."""
    taken_in: list[Callable[[], None]] = []
    real = Replica.committed
    with monkeypatch.context() as patch:
        patch.setattr(Replica, "committed", lambda *given: taken_in.append(partial(real, *given)))
        memory.put("the ferry leaves at noon", namespace="work")
    version = vault._state.store.version()
    memory.erase(["work"])
    memory.put("of a new beginning", namespace="work")
    memory.get("ferry")
    vault._state._seen[""] = version - 1  # as if nobody had followed the erasure yet
    taken_in[0]()
    assert [hit.text for hit in memory.get("ferry beginning")] == ["of a new beginning"]
    assert len(memory.list().lines) == 1


@pytest.mark.requirement("forget-stays")
def test_forgotten_line_goes_at_once(memory: Memory, heard: list[str]) -> None:
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


def test_line_that_an_engine_cannot_read_fails_one_question_and_no_put(
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


def test_line_that_was_never_read_is_not_taken_out_of_the_index(
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
def test_line_read_later_is_counted_when_it_is(
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
def test_size_of_all_shelves_is_the_sum_of_what_each_counts_for(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[LineCache] = []
    init = LineCache.__init__

    def noted(self: LineCache, *args: object) -> None:
        init(self, *args)  # type: ignore[arg-type]
        kept.append(self)

    monkeypatch.setattr(LineCache, "__init__", noted)
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
            held: list[CachedNamespace] = kept[0].loaded()
            assert kept[0].usage()[1] == sum(shelf.counted for shelf in held) >= 0
