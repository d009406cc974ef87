"""Pages: a fresh process answers from them as it would from the lines, and nothing in them is ever believed alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, errors
from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import LinePlace
from strongroom.engines.lexical import codec
from strongroom.engines.lexical import index as lexical_index
from strongroom.memory import stored_pages
from strongroom.memory.cache_page import CachePage
from strongroom.memory.line_cache.cache import Batch
from strongroom.memory.stored_pages import CachePageSet
from strongroom.model import Actor, LineId, Namespace, actor_path
from strongroom.store import Lost, Object
from strongroom.store.fake import FakeStores
from strongroom.vault import create_open
from tests.audit.tools import edit
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.crypto.test_line_encryption import line

ALICE = actor_path("local", "alice")
WORK = Namespace("work")
QUERIES = ["trip to Chengdu", "what did we plan for the weekend?", "number 3", "nothing of the sort", ""]
NEVER = 10**9


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of six lines; four loose ones are worth a page."""
    monkeypatch.setattr(stored_pages, "PAGE_LINES", 6)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)


def later(vault: Vault) -> None:
    """Move the clock on: ids rise with it, but within one moment only those of one process do."""
    clock = vault._clerk.now
    assert isinstance(clock, Clock)
    clock.move(0.01)


def put(vault: Vault, cap: Token, count: int, *, namespace: str = "work", about: str = "plan") -> list[LineId]:
    """So many different lines in two sessions; their ids, oldest first."""
    made = [
        NewLine(
            text=f"{about} number {n}: trip {n * 7 % 11} to Chengdu on May {1 + n % 28}",
            namespace=namespace,
            session=f"s{n % 2}",
            author="ana" if n % 3 else "assistant",
        )
        for n in range(count)
    ]
    later(vault)
    memory = vault.memory(cap)
    return [receipt.id for at in range(0, count, 256) for receipt in memory.put_many(made[at : at + 256])]


def answers(vault: Vault, cap: Token) -> list[list[tuple[str, str, float]]]:
    """What the vault says to some questions, with the exact scores."""
    moment = datetime(2026, 5, 22, 9, tzinfo=UTC)
    memory = vault.memory(cap)
    return [[(hit.id, hit.text, hit.score) for hit in memory.get(query, k=20, now=moment)] for query in QUERIES]


def listed(vault: Vault, cap: Token, **named: Any) -> list[str]:
    return [line.id for line in vault.memory(cap).list(limit=1000, **named).lines]


def derived(vault: Vault) -> list[Object]:
    """Everything below any `derived/`, tombstones too."""
    return [thing for thing in vault._state.records.objects("actors/") if "/derived/" in thing.name]


def written(vault: Vault) -> list[Object]:
    """The places that hold something."""
    return [thing for thing in derived(vault) if thing.body]


def source(vault: Vault, actor: Actor = ALICE, namespace: Namespace = WORK) -> CachePageSet:
    """The pages of one shelf, as a process has them that has read none yet."""
    held = vault._state.keys_of(actor)
    birth = held and held.keys.birth(vault._state.slots.namespace(actor, namespace))
    return CachePageSet(vault._state, actor, namespace, birth or b"")


def page_of(vault: Vault, thing: Object, actor: Actor = ALICE, namespace: Namespace = WORK) -> CachePage:
    """Open a page with the keys that the vault has now."""
    state = vault._state
    held = state.keys_of(actor)
    assert held is not None
    assert thing.body is not None
    keys = held.keys.namespaces[state.slots.namespace(actor, namespace)]
    return msgspec.msgpack.decode(
        source(vault, actor, namespace).places._opened(thing.name, thing.body, keys), type=CachePage
    )


def held_in_pages(vault: Vault, actor: Actor = ALICE, namespace: Namespace = WORK) -> list[LineId]:
    """The lines of all pages of one shelf, as often as they are in one. Every place must open or be empty."""
    prefix = vault._state.slots.shelf(actor, namespace)
    found = [thing for thing in written(vault) if thing.name.startswith(prefix)]
    return [record.id for thing in found for record in page_of(vault, thing, actor, namespace).records]


def living(vault: Vault, actor: Actor = ALICE, namespace: Namespace = WORK) -> set[str]:
    prefix = f"{vault._state.slots.shelf(actor, namespace)}lines/"
    return {thing.name.removeprefix(prefix) for thing in vault._state.records.names(prefix) if thing.body is not None}


def assert_sound(vault: Vault) -> None:
    """No page holds a line that is not there, whoever wrote it, and the log agrees with the store."""
    for actor in list(vault.actors()):
        held = vault._state.keys_of(actor)
        assert held is not None
        for namespace in vault.namespaces:
            if vault._state.slots.namespace(actor, namespace) in held.keys.namespaces:
                assert set(held_in_pages(vault, actor, namespace)) <= living(vault, actor, namespace)
    report = vault.audit.verify()
    assert report.ok, report.findings


def batches(vault: Vault, namespace: Namespace = WORK) -> list[list[LineId]]:
    return [[line.id for line in batch.lines] for batch in source(vault, ALICE, namespace).batches() if batch.lines]


def files(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


class Opened:
    """Counts the lines that are opened one by one, and those that the engine reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines = self.readings = 0
        open_line, read = line_encryption.open_line, getattr(lexical_index, "extract")  # noqa: B009 - mypy: it is not exported

        def counted_line(*given: Any) -> Any:
            self.lines += 1
            return open_line(*given)

        def counted_read(*given: Any) -> Any:
            self.readings += 1
            return read(*given)

        monkeypatch.setattr(line_encryption, "open_line", counted_line)
        monkeypatch.setattr(lexical_index, "extract", counted_read)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    return Opened(monkeypatch)


Reopen = Callable[[], Vault]


@pytest.fixture
def paged(vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch) -> list[LineId]:
    """Ten lines, all in pages; from here on no page is written unless a test says so."""
    made = put(vault, cap, 10)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    assert sorted(held_in_pages(vault)) == sorted(made)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
    return made


# Answers.


@pytest.mark.requirement("pages-fresh", "pages-derived")
def test_fresh_process_answers_from_pages_with_the_same_scores_and_opens_no_line(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    put(vault, cap, 22)
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        with reopen() as plain:
            truth = answers(plain, cap)
    assert written(vault) == []
    with reopen() as first:
        assert answers(first, cap) == truth
    assert len(written(vault)) >= 3
    assert opened.lines >= 44
    opened.lines = opened.readings = 0
    with reopen() as second:
        assert answers(second, cap) == truth
    assert (opened.lines, opened.readings) == (0, 0)
    assert_sound(vault)


@pytest.mark.requirement("pages-fresh", "pages-derived")
def test_pages_of_the_real_size_answer_the_same_and_spare_every_line(
    vault: Vault, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    made = put(vault, cap, 2 * stored_pages.PAGE_LINES + stored_pages.LOOSE_LIMIT + 1)
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        with reopen() as plain:
            truth = answers(plain, cap)
    with reopen() as first:
        first.memory(cap).get("x", namespaces=["work"])
    assert sorted(len(page_of(vault, thing).records) for thing in written(vault)) == [257 - 32, 1024, 1024]
    put(vault, cap, 3, namespace="travel")
    opened.lines = 0
    with reopen() as second:
        assert answers(second, strongroom.attenuate(cap, namespaces=["work"], now=lambda: vault._clerk.now())) == truth
        assert opened.lines == 32, "the newest are in no page"
        assert set(second._state.shelves.loaded()[0].lines) == set(made)
    assert_sound(vault)


@pytest.mark.requirement("pages-fresh")
def test_too_few_lines_make_no_page(vault: Vault, cap: Token, reopen: Reopen, small: None) -> None:
    put(vault, cap, 3)
    with reopen() as other:
        assert len(other.memory(cap).get("")) == 3
    assert derived(vault) == []


@pytest.mark.requirement("pages-fresh")
def test_closing_puts_what_came_since_into_pages(
    vault: Vault, cap: Token, reopen: Reopen, small: None, opened: Opened
) -> None:
    with reopen() as other:
        other.memory(cap).put("first", namespace="work")
        other.memory(cap).get("first")
        put(other, cap, 9)
        assert derived(vault) == []
    assert sorted(held_in_pages(vault)) == sorted(living(vault))
    opened.lines = 0
    with reopen() as fresh:
        assert len(fresh.memory(cap).get("", k=20)) == 10
    assert opened.lines == 0
    assert_sound(vault)


@pytest.mark.requirement("pages-fresh")
def test_process_that_added_nothing_writes_nothing_at_its_end(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    put(vault, cap, 10)
    for _ in range(2):
        with reopen() as other:
            other.memory(cap).get("Chengdu")
    before = derived(vault)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    assert derived(vault) == before


@pytest.mark.requirement("pages-fresh")
def test_pages_written_while_loading_come_back_newest_first(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    """Loading may be cut short, so the newest lines must come before older ones, from pages too."""
    made = put(vault, cap, 18)
    newest_first = [made[12:], made[6:12], made[:6]]
    with reopen() as first:
        assert batches(first) == newest_first
    with reopen() as second:
        assert batches(second) == newest_first


@pytest.mark.requirement("pages-fresh", "recall-patience")
def test_newest_few_lines_come_first_and_stay_loose_without_pages(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    monkeypatch.setattr(stored_pages, "_NEWEST", 1)
    made = put(vault, cap, 12)
    with reopen() as first:
        assert batches(first) == [made[11:], made[5:11], made[:5]]
    assert sorted(held_in_pages(vault)) == made[:11]
    opened.lines = 0
    with reopen() as second:
        assert batches(second) == [made[11:], made[5:11], made[:5]]
    assert opened.lines == 1


@pytest.mark.requirement("pages-fresh", "recall-patience")
def test_many_lines_newer_than_every_page_come_newest_first(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "_NEWEST", 1)
    newer = put(vault, cap, 4)
    with reopen() as fresh:
        assert batches(fresh)[:2] == [newer[3:], newer[:3]]
        assert sorted(name for batch in batches(fresh) for name in batch) == paged + newer


@pytest.mark.requirement("recall-patience")
def test_newest_few_lines_come_before_anything_is_written(
    vault: Vault, cap: Token, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "_NEWEST", 1)
    made = put(vault, cap, 6)
    coming = source(vault).batches()
    first = next(batch for batch in coming if batch.lines)
    assert [line.id for line in first.lines] == made[5:]
    assert derived(vault) == []
    assert sum(len(batch.lines) for batch in coming) == 5
    assert written(vault)


@pytest.mark.requirement("pages-derived", "forget-other-process")
@pytest.mark.parametrize("come", [1, 2, 3])
@pytest.mark.parametrize("which", [0, 3, 5])
def test_line_forgotten_between_two_batches_is_in_no_page(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, come: int, which: int
) -> None:
    monkeypatch.setattr(stored_pages, "_NEWEST", 1)
    made = put(vault, cap, 6)
    other = reopen()
    coming = source(other).batches()
    for _ in range(come):
        next(coming)
    vault.memory(cap).forget(ids=[made[which]])
    list(coming)
    assert made[which] not in held_in_pages(vault)
    assert_sound(vault)
    with reopen() as fresh:
        assert listed(fresh, cap) == made[:which] + made[which + 1 :]


@pytest.mark.requirement("pages-fresh")
def test_lines_newer_than_every_page_come_first(vault: Vault, cap: Token, reopen: Reopen, small: None) -> None:
    made = put(vault, cap, 6)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    newer = put(vault, cap, 2)
    with reopen() as fresh:
        assert batches(fresh) == [newer, made]


@pytest.mark.requirement("pages-fresh")
def test_newest_lines_that_a_closing_process_left_loose_come_first(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    with reopen() as other:
        other.memory(cap).get("load it")
        made = put(other, cap, 1)
        other.memory(cap).get("load it")
        made += put(other, cap, 7)
    assert sorted(held_in_pages(vault)) == made[:6]
    with reopen() as fresh:
        assert batches(fresh) == [made[6:], made[:6]]


@pytest.mark.requirement("pages-fresh")
def test_pages_written_at_the_end_come_back_newest_first(vault: Vault, cap: Token, reopen: Reopen, small: None) -> None:
    with reopen() as other:
        made = put(other, cap, 1)
        other.memory(cap).get("load it")
        made += put(other, cap, 11)
    with reopen() as fresh:
        assert batches(fresh) == [made[6:], made[:6]]


@pytest.mark.requirement("pages-fresh")
def test_place_that_a_dead_process_left_empty_does_not_change_the_order(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    made = put(vault, cap, 6)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    newer = put(vault, cap, 2)
    source(vault).places.claim()
    with reopen() as fresh:
        assert batches(fresh) == [newer, made]


@pytest.mark.requirement("pages-derived")
def test_other_lines_of_a_removed_page_still_come(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId]
) -> None:
    vault.memory(cap).forget(ids=[paged[5]])
    with reopen() as fresh:
        assert listed(fresh, cap) == paged[:5] + paged[6:]
        assert sorted(name for batch in batches(fresh) for name in batch) == paged[:5] + paged[6:]


@pytest.mark.requirement("store-changes")
def test_process_loaded_from_pages_follows_what_others_put_and_forget(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], opened: Opened
) -> None:
    other = reopen()
    assert len(other.memory(cap).get("Chengdu", k=20)) == 10
    assert opened.lines == 0
    later(vault)
    new = vault.memory(cap).put("Chengdu once more", namespace="work").id
    assert new in {hit.id for hit in other.memory(cap).get("Chengdu", k=20)}
    vault.memory(cap).forget(ids=[paged[3], new])
    assert {hit.id for hit in other.memory(cap).get("Chengdu", k=20)} == set(paged) - {paged[3]}
    with pytest.raises(errors.LineNotFound):
        other.memory(cap).get(ids=[paged[3]])


@pytest.mark.requirement("pages-fresh")
def test_page_brings_back_every_field_of_a_line(
    vault: Vault, cap: Token, reopen: Reopen, small: None, opened: Opened
) -> None:
    memory = vault.memory(cap, source="a source")
    texts = ["plain", 'quo"te\\ \n\t', "东京 trip 😀", "x" * 30_000, " spaced ", "e\u0301 folds"]
    for n, text in enumerate(texts):
        when = datetime(2020 + n, 1, 1, tzinfo=UTC)
        memory.put(text, namespace="work", session="s" * n, author="ñ" * n, kind="turn" if n % 2 else "note", time=when)
    ids = listed(vault, cap)
    truth = [vault.memory(cap).get(ids=[name])[0] for name in ids]
    assert [hit.author for hit in truth] == ["ñ" * n for n in range(6)]
    with reopen() as other:
        other.memory(cap).list()
    opened.lines = 0
    with reopen() as fresh:
        assert [fresh.memory(cap).get(ids=[name])[0] for name in ids] == truth
    assert opened.lines == 0


# Forgetting.


@pytest.mark.requirement("pages-forget")
def test_forgetting_removes_every_page_that_holds_the_line_and_its_bytes(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], tmp_path: Path
) -> None:
    held = {thing.name: thing.body for thing in written(vault) if thing.body}
    ids = {thing.name: {one.id for one in page_of(vault, thing).records} for thing in written(vault)}
    gone = [name for name, names in ids.items() if paged[7] in names]
    assert gone
    assert all(held[name][100:164] in files(tmp_path) for name in gone)
    assert vault.memory(cap).forget(ids=[paged[7]]).scrubbed
    assert not {thing.name for thing in derived(vault)} & set(gone)
    raw = files(tmp_path / "vault")
    for name in gone:
        body = held[name]
        assert not [at for at in range(0, len(body) - 32, 32) if body[at : at + 32] in raw]
        assert name.encode() not in raw
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
def test_process_that_has_read_the_pages_keeps_those_without_the_line(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId]
) -> None:
    before = {thing.name: {one.id for one in page_of(vault, thing).records} for thing in written(vault)}
    with reopen() as other:
        other.memory(cap).forget(ids=[paged[0]])
    assert {thing.name for thing in derived(vault)} == {name for name, ids in before.items() if paged[0] not in ids}
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
def test_pages_that_others_wrote_since_are_removed_too(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that forgets has its lines in memory and has never seen the pages."""
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
    made = put(vault, cap, 10)
    vault.memory(cap).get("load it")
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    assert made[2] in held_in_pages(vault)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
    vault.memory(cap).forget(ids=[made[2]])
    assert made[2] not in held_in_pages(vault)
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
@pytest.mark.parametrize("how", ["session", "namespaces", "since"])
def test_every_way_to_forget_removes_pages(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], how: str
) -> None:
    put(vault, cap, 5, namespace="travel")
    choices: dict[str, Any] = {"session": "s1", "namespaces": ["work"], "since": datetime(2020, 1, 1, tzinfo=UTC)}
    gone = vault.memory(cap).forget(**{how: choices[how]}).ids
    assert len(gone) >= 5
    assert not set(held_in_pages(vault)) & set(gone)
    assert_sound(vault)
    with reopen() as fresh:
        assert not set(listed(fresh, cap)) & set(gone)


@pytest.mark.requirement("pages-forget")
def test_line_forgotten_and_put_back_under_its_id_stays_out_of_every_page(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], monkeypatch: pytest.MonkeyPatch
) -> None:
    vault.memory(cap).forget(ids=[paged[4]])
    assert vault.memory(cap).put("again", namespace="work", id=paged[4]).forgotten
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 1)
    with reopen() as other:
        assert paged[4] not in listed(other, cap)
    assert sorted(held_in_pages(vault)) == sorted(set(paged) - {paged[4]})
    assert_sound(vault)


@pytest.mark.requirement("pages-forget", "erase-keys")
def test_erasing_a_namespace_or_an_actor_removes_its_pages_alone(
    vault: Vault, cap: Token, reopen: Reopen, small: None, tmp_path: Path
) -> None:
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    for token, namespace in ((cap, "work"), (cap, "travel"), (bob, "work")):
        put(vault, token, 6, namespace=namespace)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
        other.memory(bob).get("Chengdu")
    slots = vault._state.slots
    bodies = {thing.name: thing.body or b"" for thing in written(vault)}
    assert len(bodies) == 3
    vault.memory(cap).erase(["work"])
    left = {thing.name for thing in derived(vault)}
    assert left == {name for name in bodies if not name.startswith(slots.shelf(ALICE, WORK))}
    vault.erase("local/alice")
    left = {thing.name for thing in derived(vault)}
    assert left == {name for name in bodies if name.startswith(slots.shelf(Actor("local/bob"), WORK))}
    raw = files(tmp_path / "vault")
    for name, body in bodies.items():
        assert (body[100:164] in raw) is (name in left)
    with reopen() as fresh:
        assert len(fresh.memory(bob).get("", k=20)) == 6
    assert_sound(vault)


@pytest.mark.requirement("pages-forget")
def test_page_put_back_after_its_namespace_was_erased_and_made_anew_does_not_open(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId]
) -> None:
    kept = written(vault)
    vault.memory(cap).erase(["work"])
    new = put(vault, cap, 2)
    for thing in kept:
        vault._state.store.put_if_absent(thing.name, thing.body or b"")
    with reopen() as fresh:
        assert listed(fresh, cap) == new
        assert {hit.id for hit in fresh.memory(cap).get("Chengdu", k=20)} == set(new)
    for thing in kept:
        with pytest.raises(errors.Tampered):
            page_of(vault, thing)


@pytest.mark.requirement("pages-forget", "store-contract")
def test_forgetting_from_a_page_works_on_a_store_that_is_strict(
    small: None, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contract's purge ends at a segment's border, and the store in memory refuses any other."""
    stores = FakeStores()
    monkeypatch.setattr(create_open, "backend", lambda location: (stores, location))
    with strongroom.create("here", keys=FileKeys(tmp_path / "other-keys"), now=clock) as made:
        token = made.mint(actor=ALICE, ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
        ids = put(made, token, 10)
        made.memory(token).get("Chengdu")
        assert sorted(held_in_pages(made)) == ids
        made.memory(token).forget(ids=[ids[3]])
        assert_sound(made)
        assert listed(made, token) == ids[:3] + ids[4:]


# Damage. Whoever can write the files can do all of this; none of it may show in an answer.


def _checked(vault: Vault, cap: Token, truth: object, expected: Sequence[LineId]) -> None:
    """A process that loads everything anew answers as if there were no pages at all."""
    vault._state.shelves.drop("")
    assert answers(vault, cap) == truth
    assert listed(vault, cap) == list(expected)
    for name in expected:
        assert vault.memory(cap).get(ids=[name])[0].id == name


@pytest.mark.requirement("pages-derived")
def test_page_with_any_bit_flipped_is_of_no_use_and_does_no_harm(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], tmp_path: Path, opened: Opened
) -> None:
    reader = reopen()
    truth = answers(reader, cap)
    victim = min(written(vault), key=lambda thing: len(thing.body or b""))
    body = victim.body or b""
    lines = len(page_of(vault, victim).records)
    positions = sorted({*range(61), *range(61, len(body), 23), *range(len(body) - 16, len(body))})
    for at in positions:
        flipped = bytearray(body)
        flipped[at] ^= 1 << at % 8
        edit(tmp_path / "vault", "UPDATE objects SET body = ? WHERE name = ?", bytes(flipped), victim.name)
        reader._state.shelves.drop("")
        opened.lines = 0
        assert answers(reader, cap) == truth, at
        assert opened.lines == lines, at
    assert vault.audit.verify().ok


@pytest.mark.requirement("pages-derived")
@pytest.mark.parametrize("size", [0, 1, 4, 5, 60, 61, 76, -17, -16, -1])
def test_page_cut_short_is_of_no_use_and_does_no_harm(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], tmp_path: Path, size: int
) -> None:
    reader = reopen()
    truth = answers(reader, cap)
    for thing in written(vault):
        edit(tmp_path / "vault", "UPDATE objects SET body = ? WHERE name = ?", (thing.body or b"")[:size], thing.name)
    _checked(reader, cap, truth, paged)
    assert vault.audit.verify().ok
    vault.memory(cap).forget(ids=[paged[0]])
    _checked(reader, cap, answers(reader, cap), paged[1:])


@pytest.mark.requirement("pages-derived", "seal-slot")
def test_pages_exchanged_between_places_shelves_actors_or_vaults_are_of_no_use(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], tmp_path: Path, clock: Clock,
    monkeypatch: pytest.MonkeyPatch, opened: Opened,
) -> None:  # fmt: skip
    bob = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    travel, bobs = put(vault, cap, 6, namespace="travel", about="secret"), put(vault, bob, 6, about="secret")
    with strongroom.create(tmp_path / "v2", keys=FileKeys(tmp_path / "k2"), now=clock) as far:
        foreign = far.mint(actor=ALICE, ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
        put(far, foreign, 6, about="secret")
        far.memory(foreign).get("Chengdu")
        elsewhere = written(far)[0].body or b""
    with reopen() as other:
        other.memory(cap).get("Chengdu")
        other.memory(bob).get("Chengdu")
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
    reader = reopen()
    work = vault.mint(actor=ALICE, ops=ALL_OPS, namespaces=["work"], ttl=3600)
    truth = answers(reader, work)
    slots = vault._state.slots
    own = [thing for thing in written(vault) if thing.name.startswith(slots.shelf(ALICE, WORK))]
    others = [thing.body or b"" for thing in written(vault) if thing not in own]
    assert len(own) == 2
    assert len(others) == 2
    swapped = [(own[0], own[1].body or b""), *((own[0], body) for body in [*others, elsewhere])]
    for thing, body in swapped:
        edit(tmp_path / "vault", "UPDATE objects SET body = ? WHERE name = ?", body, thing.name)
        opened.lines = 0
        _checked(reader, work, truth, paged)
        assert opened.lines == len(page_of(vault, own[0]).records)
    assert vault.audit.verify().ok
    assert listed(reader, cap, namespaces=["travel"]) == travel
    assert listed(reader, bob) == bobs


@pytest.mark.requirement("pages-derived", "pages-forget")
def test_older_page_put_back_does_not_bring_back_what_was_forgotten(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId]
) -> None:
    kept = written(vault)
    vault.memory(cap).forget(ids=[paged[1], paged[8]])
    store = vault._state.store
    for thing in kept:
        store.put_if_absent(thing.name, thing.body or b"")
    left = [name for name in paged if name not in (paged[1], paged[8])]
    with reopen() as fresh:
        assert listed(fresh, cap) == left
        for query in QUERIES:
            assert not {hit.id for hit in fresh.memory(cap).get(query, k=20)} & {paged[1], paged[8]}
        for name in (paged[1], paged[8]):
            with pytest.raises(errors.LineNotFound):
                fresh.memory(cap).get(ids=[name])
        # The next forgetting clears what was put back: the process never believed it.
        fresh.memory(cap).forget(ids=[paged[0]])
    assert derived(vault) == []
    assert_sound(vault)


@pytest.mark.requirement("pages-derived", "pages-forget")
def test_page_put_back_while_a_process_runs_is_cleared_by_its_next_forgetting(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], tmp_path: Path
) -> None:
    """Put back under the very version that the process once read, so that only its body differs."""
    other = reopen()
    other.memory(cap).get("Chengdu")
    kept = written(vault)
    other.memory(cap).forget(ids=[paged[1]])
    gone = [thing for thing in kept if thing.name not in {one.name for one in derived(vault)}]
    for thing in gone:
        text = "INSERT INTO objects (version, name, body) VALUES (?, ?, ?)"
        edit(tmp_path / "vault", text, thing.version, thing.name, thing.body)
    assert other.memory(cap).get("Chengdu")
    other.memory(cap).forget(ids=[paged[2]])
    assert not set(held_in_pages(vault)) & {paged[1], paged[2]}


def _forge(vault: Vault, name: str, data: bytes) -> None:
    """Seal a page with the right keys: what an older or a broken program might have written."""
    vault._state.store.put_if_absent(name, source(vault).places._sealed(name, data))


@pytest.mark.requirement("pages-derived")
@pytest.mark.parametrize("flaw", ["an unknown line", "a line twice", "names that are not there", "no page at all"])
def test_page_that_opens_but_is_wrong_is_of_no_use(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], flaw: str
) -> None:
    reader = reopen()
    truth = answers(reader, cap)
    page = page_of(vault, written(vault)[0])
    first = page.records[0]
    unknown = msgspec.structs.replace(first, id=LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"))
    changed = {
        "an unknown line": msgspec.structs.replace(page, records=[*page.records, unknown], readings=b""),
        "a line twice": msgspec.structs.replace(page, records=[*page.records, first], readings=b""),
        "names that are not there": msgspec.structs.replace(page, names=[]),
    }
    prefix = f"{vault._state.slots.shelf(ALICE, WORK)}derived/"
    name = f"{prefix}page-000777/lines"
    _forge(vault, name, msgspec.msgpack.encode(changed[flaw]) if flaw in changed else b"\xc1nonsense")
    _checked(reader, cap, truth, paged)
    reader.memory(cap).forget(ids=[paged[0]])
    assert name not in {thing.name for thing in derived(vault)}


@pytest.mark.requirement("pages-derived")
def test_names_that_are_no_places_and_places_that_are_gone_do_no_harm(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = reopen()
    truth = answers(reader, cap)
    store, prefix = vault._state.store, f"{vault._state.slots.shelf(ALICE, WORK)}derived/"
    real = written(vault)[0].body or b""
    for name in (
        "page-abc/lines",
        "page-1/lines",
        "page-0000001/lines",
        "page-",
        "other",
        "page-000009/old",
        "page-00000a/lines",
    ):
        store.put_if_absent(prefix + name, b"" if name.endswith("1") else real)
    version = store.put_if_absent(f"{prefix}page-000050/lines", b"x")
    store.delete(f"{prefix}page-000050/lines", version)
    store.put_if_absent(f"{prefix}page-000049/lines", b"")
    _checked(reader, cap, truth, paged)
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    vault.memory(cap).forget(ids=[paged[0]])
    _checked(reader, cap, answers(reader, cap), paged[1:])
    reader.memory(cap).forget(ids=[paged[1]])
    with reopen() as fresh:
        assert listed(fresh, cap) == paged[2:]
    assert vault.audit.verify().ok


@pytest.mark.requirement("pages-derived", "pages-forget")
def test_last_number_of_a_place_being_taken_stops_neither_pages_nor_forgetting(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"{vault._state.slots.shelf(ALICE, WORK)}derived/"
    vault._state.store.put_if_absent(f"{prefix}page-999999/lines", b"")
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    put(vault, cap, 6)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    gone = vault.memory(cap).forget(ids=[paged[0]]).ids
    assert gone == (paged[0],)
    left = living(vault)
    for thing in written(vault):
        assert {record.id for record in page_of(vault, thing).records} <= left
    with reopen() as fresh:
        assert set(listed(fresh, cap)) == left


@pytest.mark.requirement("pages-derived", "bad-object")
def test_line_that_left_the_store_behind_the_logs_back_leaves_the_answers_too(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], tmp_path: Path
) -> None:
    """A page must not hide from the owner's eyes that the line itself is gone."""
    name = f"{vault._state.slots.shelf(ALICE, WORK)}lines/{paged[4]}"
    edit(tmp_path / "vault", "DELETE FROM objects WHERE name = ?", name)
    with reopen() as fresh:
        assert listed(fresh, cap) == paged[:4] + paged[5:]
    assert not vault.audit.verify().ok


# Engines.


@pytest.mark.requirement("pages-derived")
def test_readings_of_another_version_are_made_anew_and_the_lines_still_come_from_pages(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    put(vault, cap, 6)
    with monkeypatch.context() as patch:
        patch.setattr(codec, "_VERSION", "of long ago")
        with reopen() as older:
            truth = answers(older, cap)
    opened.lines = opened.readings = 0
    with reopen() as fresh:
        assert answers(fresh, cap) == truth
    assert (opened.lines, opened.readings) == (0, 6)


@pytest.mark.requirement("pages-derived")
@pytest.mark.parametrize("order", [("lexical", "recency"), ("recency", "lexical"), ("recency", "recency")])
def test_pages_that_one_engine_wrote_serve_another(
    vault: Vault, cap: Token, keys: FileKeys, clock: Clock, small: None, tmp_path: Path,
    opened: Opened, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str],
) -> None:  # fmt: skip
    made = put(vault, cap, 6)
    writer, reader = order
    with monkeypatch.context() as patch:
        patch.setattr(stored_pages, "LOOSE_LIMIT", NEVER)
        with strongroom.open(tmp_path / "vault", keys=keys, now=clock, engine=reader) as plain:
            truth = answers(plain, cap)
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock, engine=writer) as first:
        first.memory(cap).get("Chengdu")
    assert sorted(held_in_pages(vault)) == made
    assert bool(page_of(vault, written(vault)[0]).readings) is (writer == "lexical")
    opened.lines = 0
    with strongroom.open(tmp_path / "vault", keys=keys, now=clock, engine=reader) as second:
        assert answers(second, cap) == truth
        assert opened.lines == 0
        second.memory(cap).forget(ids=[made[0]])
        assert listed(second, cap) == made[1:]
    assert_sound(vault)


# Keys.


@pytest.mark.requirement("pages-derived", "seal-slot")
def test_page_opens_with_its_own_namespaces_key_alone(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId]
) -> None:
    vault.memory(cap).put("a trip", namespace="travel")
    held = vault._state.keys_of(ALICE)
    assert held is not None
    slots = vault._state.slots
    own, other = (held.keys.namespaces[slots.namespace(ALICE, Namespace(name))] for name in ("work", "travel"))
    thing = written(vault)[0]
    assert thing.body is not None
    place = LinePlace(vault.id, ALICE, WORK)
    assert line_encryption.open_page(thing.body, thing.name, place, own)
    for keys in (other, {}, {1: held.keys.actor_key}):
        with pytest.raises(errors.Tampered):
            line_encryption.open_page(thing.body, thing.name, place, keys)


@pytest.mark.requirement("keys-rotate-actor", "keys-rotate-root", "pages-fresh")
def test_pages_stay_usable_through_rotations_and_new_ones_use_the_new_epoch(
    vault: Vault, cap: Token, reopen: Reopen, paged: list[LineId], monkeypatch: pytest.MonkeyPatch, opened: Opened
) -> None:
    held_open = reopen()
    truth = answers(held_open, cap)
    vault.rotate_actor("local/alice")
    vault.rotate_root()
    opened.lines = 0
    with reopen() as fresh:
        assert answers(fresh, cap) == truth
    assert opened.lines == 0
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    before = {thing.name for thing in written(vault)}
    new = put(vault, cap, 5)
    with reopen() as other:
        other.memory(cap).get("Chengdu")
    added = [thing for thing in written(vault) if thing.name not in before]
    assert [line_encryption.sealed_epoch(thing.body or b"") for thing in added] == [2]
    held_open._state.shelves.drop("")
    opened.lines = 0
    assert listed(held_open, cap) == [*paged, *new]
    assert opened.lines == 0
    assert_sound(vault)


@pytest.mark.requirement("residue", "pages-derived")
def test_no_word_of_a_line_is_in_any_file(
    vault: Vault, cap: Token, reopen: Reopen, small: None, tmp_path: Path
) -> None:
    memory = vault.memory(cap)
    memory.put_many(
        [NewLine(text=f"marzipan{n} quince", namespace="work", session="sesame", author="Zebedee") for n in range(8)]
    )
    with reopen() as other:
        other.memory(cap).get("quince")
        assert written(vault)
        raw = files(tmp_path).lower()
    for word in (b"marzipan", b"quinc", b"sesame", b"zebede", b"quince".hex().encode()):
        assert word not in raw
        assert word not in files(tmp_path / "vault").lower()


# Failing. A page is never worth an error.

WRITES = ["put_if_absent", "compare_and_swap"]
FAULTS: list[Exception] = [
    errors.AuditUnavailable("the disk is full"),
    errors.StoreUnavailable("gone"),
    Lost("somebody was first"),
]


def _failing(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, *, after: bool, nth: int | None
) -> list[int]:
    """Let the n-th write of a kind (all of them: None) fail, before or after it was done; returns the calls seen."""
    real, calls = getattr(vault._state.store, method), [0]

    def call(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        hit = nth is None or calls[0] == nth
        if hit and not after:
            raise error
        done = real(*given, **named)
        if hit:
            raise error
        return done

    monkeypatch.setattr(vault._state.store, method, call)
    return calls


@pytest.mark.requirement("pages-derived", "bad-disk")
@pytest.mark.parametrize("nth", [1, 2, None])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", WRITES)
def test_get_succeeds_although_its_pages_cannot_be_written(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch,
    method: str, error: Exception, after: bool, nth: int | None,
) -> None:  # fmt: skip
    made = put(vault, cap, 14)
    with reopen() as other:
        with monkeypatch.context() as patch:
            calls = _failing(other, patch, method, error, after=after, nth=nth)
            assert {hit.id for hit in other.memory(cap).get("Chengdu", k=20)} == set(made)
            assert calls[0] >= 1
        later(other)
        new = other.memory(cap).put("acknowledged", namespace="work").id
    with reopen() as fresh:
        assert listed(fresh, cap) == [*made, new]
        fresh.memory(cap).forget(ids=[made[2]])
    with reopen() as fresh:
        assert listed(fresh, cap) == [*made[:2], *made[3:], new]
    assert_sound(vault)


@pytest.mark.requirement("pages-derived", "bad-disk")
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", WRITES)
def test_vault_closes_although_its_pages_cannot_be_written(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch,
    method: str, error: Exception, after: bool,
) -> None:  # fmt: skip
    other = reopen()
    made = put(other, cap, 1)
    other.memory(cap).get("load it")
    made += put(other, cap, 9)
    with monkeypatch.context() as patch:
        calls = _failing(other, patch, method, error, after=after, nth=None)
        other.close()
        assert calls[0] >= 1
    with pytest.raises(errors.StoreUnavailable):
        other.memory(cap).get("closed")
    with reopen() as fresh:
        assert listed(fresh, cap) == made
    assert_sound(vault)


@pytest.mark.requirement("pages-derived", "bad-disk")
@pytest.mark.parametrize("method", ["names", "list", "get", "version", "changes"])
def test_vault_closes_although_its_store_cannot_be_read(
    vault: Vault, cap: Token, reopen: Reopen, small: None, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise errors.StoreUnavailable("gone")

    other = reopen()
    made = put(other, cap, 1)
    other.memory(cap).get("load it")
    made += put(other, cap, 9)
    with monkeypatch.context() as patch:
        patch.setattr(other._state.store, method, broken)
        other.close()
    with reopen() as fresh:
        assert listed(fresh, cap) == made


@pytest.mark.requirement("pages-derived")
def test_closing_twice_or_with_nothing_loaded_writes_nothing(
    vault: Vault, cap: Token, reopen: Reopen, small: None
) -> None:
    put(vault, cap, 9)
    other = reopen()
    other.close()
    other.close()
    assert derived(vault) == []


# The layout of a page.


def test_page_holds_its_lines_whole_and_shared_names_once() -> None:
    lines = [
        line(f"text {n}", session=f"s{n % 2}", author="" if n == 3 else "ana", id=f"01JABCDEFGHJKMNPQRSTVWXY{n:02}")
        for n in range(5)
    ]
    page = CachePage.of(Batch(lines, b"readings"))
    assert sorted(page.names) == ["", "ana", "s0", "s1"]
    assert len(page.origins) == 1
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(page), type=CachePage).batch(lines[0].namespace)
    assert list(again.lines) == lines
    assert again.readings == b"readings"
