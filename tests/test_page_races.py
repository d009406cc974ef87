"""Page writers against those who forget and erase, in every order: no page ever holds what is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.errors import StrongroomError
from strongroom.memory import stored_pages
from strongroom.memory.line_cache.cache import Batch
from strongroom.memory.page_places import PagePlaces
from strongroom.memory.stored_pages import CachePageSet
from strongroom.model import Actor, LineId, Namespace
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.memory.test_stored_pages import (
    ALICE,
    NEVER,
    WORK,
    assert_sound,
    derived,
    files,
    held_in_pages,
    later,
    listed,
    living,
    put,
    small,
    source,
)
from tests.store.children import Place, Process

__all__ = ["small"]

Reopen = Callable[[], Vault]
PATIENCE = 60.0
"""Only a deadlock waits so long."""


class Turns:
    """Lets two threads go on step by step in a given order; when it is used up, both run freely."""

    def __init__(self, order: str) -> None:
        self._left = list(order)
        self._running: str | None = None
        self._changed = threading.Condition()

    def step(self, who: str) -> None:
        """The last step of `who` is over; wait until the next one is due."""
        with self._changed:
            self._over(who)
            assert self._changed.wait_for(lambda: self._due(who), PATIENCE), "nobody goes on"
            if self._left:
                self._running = self._left.pop(0)

    def leave(self, who: str) -> None:
        with self._changed:
            self._left = [one for one in self._left if one != who]
            self._over(who)

    def _due(self, who: str) -> bool:
        return self._running is None and (not self._left or self._left[0] == who)

    def _over(self, who: str) -> None:
        if self._running == who:
            self._running = None
        self._changed.notify_all()


@contextmanager
def _hooked(turns: Turns, writer: Vault, remover: Vault) -> Iterator[None]:
    """B, the page writer, steps before it claims, looks and fills; A before it looks for pages and commits."""
    with pytest.MonkeyPatch.context() as patch:

        def before(owner: object, name: str, who: str, mine: Callable[[Any], bool] = lambda _: True) -> None:
            real = getattr(owner, name)

            def call(*given: Any, **named: Any) -> Any:
                if threading.current_thread().name == who and mine(given):
                    turns.step(who)
                return real(*given, **named)

            patch.setattr(owner, name, call)

        before(PagePlaces, "claim", "B")
        before(CachePageSet, "_opened_lines", "B")
        before(PagePlaces, "fill", "B")
        before(writer._state, "catch_up", "B")
        before(PagePlaces, "without", "A")
        before(remover._state.store, "commit", "A")
        yield


def _race(order: str, writer: Vault, remover: Vault, write: Callable[[], object], remove: Callable[[], object]) -> None:
    turns, failed = Turns(order), []

    def run(who: str, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test has to hear of it
            failed.append(error)
        finally:
            turns.leave(who)

    with _hooked(turns, writer, remover):
        threads = [threading.Thread(target=run, args=pair, name=pair[0]) for pair in (("A", remove), ("B", write))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
    assert not failed, failed


ORDERS = ["".join("A" if n in chosen else "B" for n in range(5)) for chosen in combinations(range(5), 2)]
"""Every order of two steps of A and three of B."""


@pytest.mark.requirement("pages-forget")
@pytest.mark.parametrize("order", ORDERS)
def test_line_forgotten_while_another_process_loads_is_in_no_page(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    made = put(vault, cap, 5)
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        vault.memory(cap).list()  # A's own shelf is loaded, and it has written no page
    writer = reopen()
    work = lambda: list(source(writer).batches())  # noqa: E731
    _race(order, writer, vault, work, lambda: vault.memory(cap).forget(ids=[made[2]]))
    assert made[2] not in held_in_pages(vault)
    assert listed(writer, cap) == [*made[:2], *made[3:]]
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
@pytest.mark.parametrize("order", ORDERS)
def test_line_forgotten_while_another_process_closes_is_in_no_page(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    writer = reopen()
    made = put(writer, cap, 1)
    listed(writer, cap)
    made += put(writer, cap, 5)
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        vault.memory(cap).list()
    _race(order, writer, vault, writer.close, lambda: vault.memory(cap).forget(ids=[made[2]]))
    assert made[2] not in held_in_pages(vault)
    with reopen() as fresh:
        assert listed(fresh, cap) == [*made[:2], *made[3:]]
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
def test_claim_that_was_emptied_cannot_be_filled_even_if_its_number_is_used_again(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    made = put(vault, cap, 5)
    slow = reopen()
    loading = source(slow).batches()
    first = next(batch for batch in loading if batch.lines)
    assert [line.id for line in first.lines] == made
    vault.memory(cap).forget(ids=[made[0]])
    with reopen() as other:
        assert listed(other, cap) == made[1:]
    before = derived(vault)
    assert len(before) == 1
    assert not any(batch.lines for batch in loading)
    assert derived(vault) == before
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
def test_line_forgotten_after_the_last_page_was_removed_is_in_no_page_with_a_higher_number(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who forgets sees no page, and waits for the first number; who claims has seen one, and takes the second."""
    made = put(vault, cap, 6)
    with reopen() as other:
        listed(other, cap)
    made += put(vault, cap, 5)
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        vault.memory(cap).list()
    writing = source(reopen())
    places, commit, loading = writing.places.known(), vault._state.store.commit, writing.batches()
    vault.memory(cap).forget(ids=[made[0]])
    assert derived(vault) == []
    monkeypatch.setattr(writing.places, "known", lambda: places)
    claimed: list[Batch] = []

    def meanwhile(*given: Any, **named: Any) -> Any:
        claimed.append(next(batch for batch in loading if batch.lines))
        return commit(*given, **named)

    monkeypatch.setattr(vault._state.store, "commit", meanwhile)
    vault.memory(cap).forget(ids=[made[8]])
    list(loading)
    assert made[8] in {line.id for line in claimed[0].lines}
    assert made[8] not in held_in_pages(vault)
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
@pytest.mark.parametrize("between", [False, True], ids=["before it forgets", "while it forgets"])
def test_page_that_was_replaced_since_a_process_read_it_is_not_taken_for_the_one_it_read(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, between: bool
) -> None:
    """It knows the page as one without the line; under the same number there is another one now, with it."""
    made = put(vault, cap, 6)
    with reopen() as other:
        listed(other, cap)
    made += put(vault, cap, 1)
    forgetting = reopen()
    assert listed(forgetting, cap) == made
    (before,) = derived(vault)

    def replace() -> None:
        vault.memory(cap).forget(ids=made[:2])
        with reopen() as writer:
            listed(writer, cap)

    real, done = forgetting._state.store.commit, list[bool]()

    def commit(*given: Any, **named: Any) -> Any:
        if not done:
            done.append(True)
            replace()
            assert made[6] in held_in_pages(vault)
            assert before.name in {thing.name for thing in derived(vault)}
        return real(*given, **named)

    if between:
        monkeypatch.setattr(forgetting._state.store, "commit", commit)
    else:
        replace()
    assert forgetting.memory(cap).forget(ids=[made[6]]).ids == (made[6],)
    assert made[6] not in held_in_pages(vault)
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "pages-derived")
def test_two_processes_that_write_pages_at_once_answer_the_same_and_every_line_once(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    made = put(vault, cap, 13)
    first, second = reopen(), reopen()
    one, two = (source(other).batches() for other in (first, second))
    got: tuple[list[LineId], list[LineId]] = ([], [])
    for _ in range(40):
        for loading, names in zip((one, two), got, strict=True):
            batch = next(loading, None)
            names += [] if batch is None else [line.id for line in batch.lines]
    assert sorted(got[0]) == sorted(got[1]) == made
    assert set(held_in_pages(vault)) <= set(made)
    for _ in range(2):
        with reopen() as fresh:
            assert listed(fresh, cap) == made
            assert {hit.id for hit in fresh.memory(cap).get("Chengdu", k=20)} == set(made)
    vault.memory(cap).forget(ids=[made[6]])
    assert made[6] not in held_in_pages(vault)
    with reopen() as fresh:
        assert listed(fresh, cap) == made[:6] + made[7:]
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "shelf-bounded")
def test_shelf_dropped_while_its_process_closes_puts_nothing_forgotten_into_a_page(
    vault: Vault, cap: Token, keys: FileKeys, clock: Clock, small: None, tmp_path: Path
) -> None:
    """What others did since comes in while closing; a shelf that is let go meanwhile hears of nothing any more."""
    made = put(vault, cap, 1)
    put(vault, cap, 1, namespace="travel")
    writer = strongroom.open(tmp_path / "vault", keys=keys, now=clock, shelf_bytes=20_000)
    listed(writer, cap, namespaces=["work"])
    made += put(writer, cap, 5)
    listed(writer, cap, namespaces=["travel"])
    vault.memory(cap).put_many([strongroom.NewLine(text="x" * 900, namespace="travel") for _ in range(30)])
    vault.memory(cap).forget(ids=[made[2]])
    writer.close()
    assert made[2] not in held_in_pages(vault)
    assert_sound(vault)


# Erasing.


@pytest.mark.requirement("pages-forget", "erase-keys")
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
def test_process_that_closes_after_its_namespace_was_erased_leaves_no_page(
    vault: Vault, cap: Token, reopen: Reopen, small: None, again: bool
) -> None:
    writer = reopen()
    put(writer, cap, 1)
    put(writer, cap, 1, namespace="travel")
    listed(writer, cap)
    erased = put(writer, cap, 5)
    vault.memory(cap).erase(["work"])
    new = put(vault, cap, 1) if again else []
    writer.close()
    if again:
        assert not set(held_in_pages(vault)) & set(erased)
    else:
        prefix = vault._state.slots.shelf(ALICE, WORK)
        assert not [thing.name for thing in derived(vault) if thing.name.startswith(prefix)]
    with reopen() as fresh:
        assert listed(fresh, cap, namespaces=["work"]) == new
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "erase-keys")
def test_closing_process_that_learns_of_an_erasure_at_its_first_shelf_heeds_it_at_the_next(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    """With the new keys in hand, it must not seal the old lines with them."""
    travel = Namespace("travel")
    writer = reopen()
    for namespace in (WORK, travel):
        put(writer, cap, 1, namespace=namespace)
    listed(writer, cap)
    for namespace in (WORK, travel):
        put(writer, cap, 5, namespace=namespace)
    vault.memory(cap).erase([WORK, travel])
    for namespace in (WORK, travel):
        put(vault, cap, 1, namespace=namespace)
    writer.close()
    for namespace in (WORK, travel):
        assert set(held_in_pages(vault, ALICE, namespace)) <= living(vault, ALICE, namespace)
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "erase-keys")
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
def test_process_that_closes_heeds_what_was_erased_behind_a_shelf_that_it_keeps(
    vault: Vault, cap: Token, reopen: Reopen, small: None, again: bool
) -> None:
    """The first shelf is sound and catches up for both; the second was erased, and perhaps made anew."""
    travel = Namespace("travel")
    writer = reopen()
    for namespace in (WORK, travel):
        put(writer, cap, 1, namespace=namespace)
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    put(writer, bob, 1)
    listed(writer, bob)
    listed(writer, cap)
    put(writer, bob, 5)
    erased = put(writer, cap, 5, namespace=travel)
    vault.memory(cap).erase([travel])
    if again:
        put(vault, cap, 1, namespace=travel)
    writer.close()
    assert held_in_pages(vault, Actor("local/bob"), WORK)
    if again:
        assert not set(held_in_pages(vault, ALICE, travel)) & set(erased)
    else:
        assert list(vault._state.records.names(vault._state.slots.shelf(ALICE, travel))) == []
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "erase-keys", "erase-void")
def test_process_that_closes_after_its_actor_was_erased_leaves_nothing_and_the_actor_can_come_back(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    writer = reopen()
    put(writer, cap, 1)
    listed(writer, cap)
    put(writer, cap, 5)
    vault.erase("local/alice")
    writer.close()
    assert list(vault._state.records.names("actors/")) == []
    later(vault)
    token = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    new = put(vault, token, 2)
    assert listed(vault, token) == new
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "erase-keys")
@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
@pytest.mark.parametrize(
    ("owner", "moment"), [(PagePlaces, "claim"), (CachePageSet, "_opened_lines"), (PagePlaces, "fill")]
)
@pytest.mark.parametrize("what", ["namespace", "actor"])
def test_erasure_at_any_moment_of_loading_leaves_no_page(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, what: str, owner: type,
    moment: str, again: bool,
) -> None:  # fmt: skip
    erased = put(vault, cap, 5)
    put(vault, cap, 1, namespace="travel")
    real, done = getattr(owner, moment), list[bool]()
    token = [cap]

    def erase_first(source: object, *given: Any) -> Any:
        if not done:
            done.append(True)
            if what == "actor":
                vault.erase("local/alice")
                later(vault)
                token[0] = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
            else:
                vault.memory(cap).erase(["work"])
            if again:
                put(vault, token[0], 1)
        return real(source, *given)

    with reopen() as writer:
        with monkeypatch.context() as patch:
            patch.setattr(owner, moment, erase_first)
            _reason(lambda: writer.memory(cap).get("Chengdu", namespaces=["work"]))
        assert done
    left = {thing.name for thing in vault._state.records.names("actors/")}
    assert again or not [name for name in left if "/derived/" in name]
    if what == "actor" and not again:
        assert left == set()
    new = put(vault, token[0], 1)
    assert not set(listed(vault, token[0])) & set(erased)
    assert new[0] in listed(vault, token[0])
    assert_sound(vault)


def _reason(call: Callable[[], object]) -> str:
    """What a request that raced an erasure came to: an answer, or one of our errors."""
    try:
        call()
    except StrongroomError as error:
        return error.reason
    return ""


# Real processes.


def _small_pages() -> None:
    stored_pages.PAGE_LINES, stored_pages.LOOSE_LIMIT = 6, 4


def _writes_pages(pipe: Connection, place: Place, token: str, seed: int) -> None:
    """For each word heard: open the vault, recall, put a little, close, and say so."""
    _small_pages()
    chance = Random(seed)
    while pipe.recv():
        with place.open() as vault:
            memory = vault.memory(token)
            memory.get("Chengdu")
            ids = [memory.put(f"trip {n} to Chengdu", namespace="work").id for n in range(chance.randrange(2, 8))]
            memory.get("Chengdu", patience=0.0 if chance.random() < 0.3 else None)
        pipe.send(ids)


def _forgets(pipe: Connection, place: Place, token: str, seed: int) -> None:
    """For each word heard: forget a few lines, one by one, and say which."""
    _small_pages()
    chance = Random(seed)
    while pipe.recv():
        with place.open() as vault:
            memory = vault.memory(token)
            ids = [line.id for line in memory.list(limit=1000, namespaces=["work"]).lines]
            gone = chance.sample(ids, min(3, len(ids)))
            for name in gone:
                memory.forget(ids=[name])
        pipe.send(gone)


def _erases(pipe: Connection, place: Place, token: str, seed: int) -> None:
    """For each word heard: erase the namespace, and at times put a first line into it again."""
    _small_pages()
    chance = Random(seed)
    while pipe.recv():
        with place.open() as vault:
            memory = vault.memory(token)
            memory.get("Chengdu")
            memory.erase(["work"])
            if chance.random() < 0.5:
                memory.put("made anew", namespace="work")
        pipe.send([])


@contextmanager
def _crowd(place: Place, token: str, *works: Callable[..., None]) -> Iterator[list[Process]]:
    made = [Process(work, place, token, seed) for seed, work in enumerate(works)]
    try:
        yield made
    finally:
        for process in made:
            process.kill()


def _heard(process: Process) -> list[str]:
    assert process.pipe.poll(PATIENCE), "a process hangs or died"
    said = process.pipe.recv()
    assert isinstance(said, list)
    return said


@pytest.mark.requirement("pages-forget", "store-crash")
@pytest.mark.parametrize("rounds", [8, pytest.param(40, marks=pytest.mark.long)])
def test_processes_that_write_pages_and_forget_at_once_leave_no_forgotten_line_in_a_page(
    vault: Vault, cap: Token, reopen: Reopen, clock: Clock, tmp_path: Path, rounds: int
) -> None:
    known, gone = set[str](put(vault, cap, 30)), set[str]()
    place = Place(tmp_path / "vault", tmp_path / "keys", clock.millis)
    with _crowd(place, cap, _writes_pages, _writes_pages, _forgets, _forgets) as (one, two, three, four):
        for _ in range(rounds):
            for process in (one, two, three, four):
                process.pipe.send("go")
            known.update(_heard(one), _heard(two))
            gone.update(_heard(three), _heard(four))
            assert not set(held_in_pages(vault)) & gone
            assert living(vault) == known - gone
    with reopen() as fresh:
        assert set(listed(fresh, cap)) == known - gone
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "erase-keys")
@pytest.mark.parametrize("rounds", [8, pytest.param(40, marks=pytest.mark.long)])
def test_processes_that_write_pages_while_another_erases_leave_no_erased_line_in_a_page(
    vault: Vault, cap: Token, reopen: Reopen, clock: Clock, tmp_path: Path, rounds: int
) -> None:
    put(vault, cap, 1, namespace="travel")
    place = Place(tmp_path / "vault", tmp_path / "keys", clock.millis)
    with _crowd(place, cap, _writes_pages, _writes_pages, _erases) as crowd:
        for _ in range(rounds):
            put(vault, cap, 10)
            for process in crowd:
                process.pipe.send("go")
            for process in crowd:
                _heard(process)
            assert_sound(vault)
    with reopen() as fresh:
        assert set(listed(fresh, cap, namespaces=["work"])) == living(vault)


def _stops_before_filling(pipe: Connection, place: Place, token: str, seed: int) -> None:
    _small_pages()

    def fill(*_: object) -> None:
        pipe.send([])
        pipe.recv()

    PagePlaces.fill = fill  # type: ignore[assignment, method-assign]
    with place.open() as vault:
        vault.memory(token).get("Chengdu")


@pytest.mark.requirement("pages-derived", "store-crash")
def test_process_killed_between_claiming_and_filling_leaves_a_usable_vault(
    vault: Vault, cap: Token, reopen: Reopen, small: None, clock: Clock, tmp_path: Path
) -> None:
    made = put(vault, cap, 8)
    place = Place(tmp_path / "vault", tmp_path / "keys", clock.millis)
    with _crowd(place, cap, _stops_before_filling) as (victim,):
        _heard(victim)
        claims = derived(vault)
        assert [claim.body for claim in claims] == [b""] * len(claims) != []
    with reopen() as fresh:
        assert listed(fresh, cap) == made
    assert held_in_pages(vault)
    vault.memory(cap).forget(ids=[made[5]])
    assert not {claim.name for claim in claims if claim.body == b""} & {
        thing.name for thing in derived(vault) if thing.body == b""
    }
    with reopen() as fresh:
        assert listed(fresh, cap) == made[:5] + made[6:]
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "residue")
def test_page_written_and_removed_while_others_look_leaves_no_bytes(
    vault: Vault, cap: Token, reopen: Reopen, small: None, tmp_path: Path
) -> None:
    """The bytes of a page that lived for a moment only are gone from the journal too."""
    made = put(vault, cap, 6)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
        (page,) = derived(vault)
    body = page.body or b""
    assert body[64:96] in files(tmp_path / "vault")
    assert vault.memory(cap).forget(ids=[made[0]]).scrubbed
    raw = files(tmp_path / "vault")
    assert not [at for at in range(0, len(body) - 32, 32) if body[at : at + 32] in raw]
    assert Namespace("work") not in raw.decode("latin-1")
