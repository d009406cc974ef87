"""Get and list: what a cap may see, and nothing that hints at the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, errors
from strongroom.memory.line_cache.cache import CachedNamespace
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def _travel(vault: Vault) -> Token:
    return vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"])


def _fill(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("Trip to Chengdu, May 25-29", namespace="travel", session="s1")
    memory.put("Allergic to peanuts", namespace="personal", id=ID)
    memory.put("Anniversary on June 3", namespace="family")


@pytest.mark.requirement("seed-namespace", "gate-same-denial")
@pytest.mark.parametrize("namespace", ["personal", "family", "no-such-place"])
def test_travel_cap_is_denied_other_namespaces_by_every_verb(vault: Vault, cap: Token, namespace: str) -> None:
    _fill(vault, cap)
    memory = vault.memory(_travel(vault))
    calls: list[Callable[[], object]] = [
        lambda: memory.get("allergic", namespaces=[namespace]),
        lambda: memory.get(ids=[ID], namespaces=[namespace]),
        lambda: memory.list(namespaces=[namespace]),
        lambda: memory.snapshot(namespaces=[namespace]),
        lambda: memory.profile(namespace),
        lambda: memory.set_profile("x", namespace=namespace),
        lambda: memory.put("x", namespace=namespace),
        lambda: memory.forget(namespaces=[namespace]),
        lambda: memory.erase([namespace]),
        lambda: memory.get("x", namespaces=["travel", namespace]),
    ]
    answers = set()
    for call in calls:
        with pytest.raises(errors.CapNamespaceDenied) as denied:
            call()
        answers.add((denied.value.reason, denied.value.message, denied.value.hint))
    assert len(answers) == 1
    assert [entry.reason for _, entry in vault.audit.entries() if entry and entry.decision == "deny"] == [
        "cap_namespace_denied"
    ] * len(calls)


@pytest.mark.requirement("gate-same-denial")
def test_denial_is_the_same_whether_the_namespace_exists_or_holds_anything(vault: Vault, cap: Token) -> None:
    _fill(vault, cap)
    memory = vault.memory(_travel(vault))
    seen = set()
    for namespace in ("personal", "work", "no-such-place"):
        with pytest.raises(errors.CapNamespaceDenied) as denied:
            memory.get("x", namespaces=[namespace])
        seen.add((denied.value.reason, denied.value.message, denied.value.hint))
    assert len(seen) == 1


@pytest.mark.requirement("seed-namespace", "gate-unnamed")
def test_travel_cap_without_naming_sees_travel_and_nothing_else(vault: Vault, cap: Token) -> None:
    _fill(vault, cap)
    memory = vault.memory(_travel(vault))
    assert memory.get("allergic peanuts anniversary", k=20) == []
    newest = memory.get("allergic peanuts anniversary", k=20, or_newest=True)
    assert [hit.text for hit in newest] == ["Trip to Chengdu, May 25-29"]
    assert {line.namespace for line in memory.list().lines} == {"travel"}
    with pytest.raises(errors.LineNotFound):
        memory.get(ids=[ID])


@pytest.mark.requirement("gate-empty")
def test_cap_for_no_namespace_gets_nothing(vault: Vault, cap: Token, clock: Clock) -> None:
    _fill(vault, cap)
    none = strongroom.attenuate(cap, namespaces=[], now=clock)
    for call in (vault.memory(none).get, vault.memory(none).list, vault.memory(none).snapshot):
        with pytest.raises(errors.CapNamespaceDenied):
            call()
    with pytest.raises(errors.CapNamespaceDenied):
        vault.memory(none).get("x", namespaces=["travel"])


@pytest.mark.requirement("seed-top-k", "gate-max-k")
def test_k_is_five_by_default_at_most_twenty_and_at_most_what_the_cap_allows(
    vault: Vault, cap: Token, clock: Clock
) -> None:
    memory = vault.memory(cap)
    memory.put_many([NewLine(text=f"line {n}", namespace="work") for n in range(30)])
    assert len(memory.get("line")) == 5
    assert len(memory.get("line", k=20)) == 20
    for k, reason in ((21, "too_many"), (-1, "invalid_request")):
        with pytest.raises(errors.Invalid) as refused:
            memory.get("line", k=k)
        assert refused.value.reason == reason
    assert memory.get("line", k=0) == []
    narrow = vault.memory(strongroom.attenuate(cap, max_k=3, now=clock))
    assert len(narrow.get("line")) == 3
    with pytest.raises(errors.CapLimitExceeded):
        narrow.get("line", k=4)
    ids = [line.id for line in memory.list().lines]
    assert len(narrow.get(ids=ids[:3])) == 3
    with pytest.raises(errors.CapLimitExceeded):
        narrow.get(ids=ids[:4])
    with pytest.raises(errors.TooMany):
        memory.get(ids=ids[:21])


@pytest.mark.requirement("gate-session")
def test_session_cap_asking_in_another_session_is_refused(vault: Vault, cap: Token, clock: Clock) -> None:
    bound = vault.memory(strongroom.attenuate(cap, session="s1", now=clock))
    bound.get("x")
    bound.get("x", session="s1")
    with pytest.raises(errors.CapLimitExceeded):
        bound.get("x", session="s2")


@pytest.mark.requirement("get-budget")
def test_answer_keeps_to_its_byte_budget_but_gives_the_first_hit(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put_many([NewLine(text="boat " + "é" * 16_000 + str(n), namespace="work") for n in range(5)])
    assert len(memory.get("boat")) == 2
    (entry,) = [entry for _, entry in vault.audit.entries() if entry is not None and entry.op == "get"]
    assert entry.count == 2


@pytest.mark.requirement("get-deterministic")
def test_any_arrival_order_gives_the_same_answer(tmp_path: Path, clock: Clock) -> None:
    lines = [
        NewLine(
            text=f"note {n % 7} about {n}",
            namespace=NAMESPACES[n % 4],
            session=f"s{n % 3}",
            id=f"01JABCDEFGHJKMNPQRSTVWX{n:03d}",
            time=datetime(2026, 5, 1 + n % 5, tzinfo=UTC),
        )
        for n in range(60)
    ]
    answers = []
    for seed in range(4):
        shuffled = list(lines)
        Random(seed).shuffle(shuffled)
        with strongroom.create(tmp_path / f"v{seed}", keys=FileKeys(tmp_path / f"k{seed}"), now=clock) as vault:
            memory = vault.memory(vault.mint(actor="local/a", ops=ALL_OPS, namespaces=NAMESPACES))
            half = len(shuffled) // 2
            memory.put_many(shuffled[:half])
            memory.get("warm the shelf")
            memory.put_many(shuffled[half:])
            memory.forget(ids=[lines[3].id or ""])
            found = [[hit.id for hit in memory.get(query, k=20)] for query in ("note 3", "about", "")]
            listed = [(line.id, line.namespace) for line in memory.list(limit=1000).lines]
            answers.append((found, listed))
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.requirement("audit-reads")
def test_one_entry_for_a_get_names_the_lines_returned(vault: Vault, cap: Token) -> None:
    _fill(vault, cap)
    before = vault.audit.size()
    hits = vault.memory(cap, request="r-1").get("chengdu peanuts", k=2)
    ((_, entry),) = list(vault.audit.entries(before))
    assert entry is not None
    assert (entry.op, entry.decision, entry.count, entry.request) == ("get", "allow", 2, "r-1")
    assert entry.lines == tuple(hit.id for hit in hits)


@pytest.mark.requirement("audit-closed")
def test_nothing_is_read_when_the_log_cannot_be_written(
    vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fill(vault, cap)

    def broken(*_: object, **__: object) -> None:
        raise errors.AuditUnavailable("no room")

    monkeypatch.setattr(vault._state.store, "commit", broken)
    memory = vault.memory(cap)
    calls: list[Callable[[], object]] = [
        lambda: memory.get("chengdu"),
        memory.list,
        memory.snapshot,
        lambda: memory.profile("work"),
        lambda: memory.get("x", namespaces=["no-such-place"]),
    ]
    for call in calls:
        with pytest.raises(errors.AuditUnavailable):
            call()


@pytest.mark.requirement("list-no-bodies")
def test_list_pages_through_everything_without_texts(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put_many(
        [NewLine(text=f"text {n}", namespace=NAMESPACES[n % 4], id=ID[:-2] + f"{n:02d}") for n in range(25)]
    )
    memory.put("twin", namespace="work", id=ID[:-2] + "00")
    seen, after = [], None
    while True:
        page = memory.list(limit=7, after=after)
        seen += [(line.id, line.namespace) for line in page.lines]
        assert all(line.text is None for line in page.lines)
        after = page.next
        if after is None:
            break
    assert len(seen) == 26
    assert seen == sorted(set(seen))
    assert page.lines[-1].size == len(b"text 24")


@pytest.mark.requirement("list-no-bodies")
def test_list_filters_by_session_kind_and_time(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    for day in range(1, 6):
        when = datetime(2026, 5, day, tzinfo=UTC)
        memory.put(f"day {day}", namespace="work", session=f"s{day % 2}", kind="turn" if day > 3 else "note", time=when)
    assert len(memory.list(session="s1").lines) == 3
    assert len(memory.list(kind="turn").lines) == 2
    since, until = datetime(2026, 5, 2, tzinfo=UTC), datetime(2026, 5, 4, tzinfo=UTC)
    assert [line.time.day for line in memory.list(since=since, until=until).lines] == [2, 3]
    assert memory.list(session="s1", kind="turn", since=since).lines[0].time.day == 5
    for limit in (0, 1001):
        with pytest.raises(errors.TooMany):
            memory.list(limit=limit)
    with pytest.raises(errors.InvalidRequest):
        memory.list(after="nonsense")


@pytest.mark.requirement("store-missing-broken")
def test_broken_store_never_looks_empty(vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch) -> None:
    _fill(vault, cap)

    def broken(*_: object, **__: object) -> None:
        raise errors.StoreUnavailable("gone")

    for method in ("names", "get"):
        monkeypatch.setattr(vault._state.store, method, broken)
        with pytest.raises(errors.StoreUnavailable):
            vault.memory(cap).get("chengdu")
        monkeypatch.undo()
    assert len(vault.memory(cap).get("chengdu")) == 1


def test_query_of_nonsense_is_refused(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    with pytest.raises(errors.InvalidRequest):
        memory.get("nul \x00")
    with pytest.raises(errors.LineTooLarge):
        memory.get("x" * 9000)


@pytest.mark.requirement("shelf-bounded")
def test_shelf_is_loaded_once_for_many_waiters(vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = vault.memory(cap)
    memory.put_many([NewLine(text=f"line {n}", namespace="work") for n in range(200)])
    loads: list[CachedNamespace] = []
    original = CachedNamespace.portions

    def counted(shelf: CachedNamespace) -> Iterator[None]:
        loads.append(shelf)
        return original(shelf)

    monkeypatch.setattr(CachedNamespace, "portions", counted)
    barrier, found = threading.Barrier(8), []

    def ask() -> None:
        barrier.wait()
        found.append(len(memory.get("line", k=20, namespaces=["work"])))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20] * 8
    assert len(loads) == 1


@pytest.mark.requirement("shelf-bounded")
def test_shelves_stay_within_their_bytes_and_reload_what_was_dropped(
    tmp_path: Path, keys: FileKeys, clock: Clock
) -> None:
    with strongroom.create(tmp_path / "small", keys=keys, shelf_bytes=60_000, now=clock) as vault:
        tokens = [vault.mint(actor=f"local/a{n}", ops=ALL_OPS, namespaces=["work"]) for n in range(8)]
        for token in tokens:
            vault.memory(token).put_many([NewLine(text="boat " + "x" * 900) for _ in range(10)])
        for _ in range(2):
            for token in tokens:
                assert len(vault.memory(token).get("boat", k=20)) == 10
                count, size = vault._state.shelves.usage()
                assert size <= 60_000
                assert count < 8


def test_growing_shelf_counts_against_the_bound(tmp_path: Path, keys: FileKeys, clock: Clock) -> None:
    with strongroom.create(tmp_path / "small", keys=keys, shelf_bytes=60_000, now=clock) as vault:
        tokens = [vault.mint(actor=f"local/a{n}", ops=ALL_OPS, namespaces=["work"]) for n in range(2)]
        for token in tokens:
            vault.memory(token).put("seed")
            vault.memory(token).get("seed")
        for _ in range(10):
            vault.memory(tokens[0]).put_many([NewLine(text="boat " + "x" * 900) for _ in range(10)])
        assert len(vault.memory(tokens[0]).get("boat", k=20)) == 20
        assert vault._state.shelves.usage()[0] == 1


@pytest.mark.requirement("shelf-bounded")
def test_long_sessions_and_authors_count_against_the_bound(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    for number in range(20):
        memory.put("x", namespace="work", session="\U0001f512" * 250 + str(number), author="\U0001f512" * 250)
    memory.get("x")
    assert vault._state.shelves.usage()[1] > 20 * 2 * 250 * 4
