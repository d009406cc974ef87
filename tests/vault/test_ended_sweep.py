"""The owner's sweep: what has ended leaves memories that nobody opens, wherever its bytes are; nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Vault, errors
from strongroom.memory import ended_lines, stored_pages
from strongroom.store.s3 import S3Store
from strongroom.store.s3.compaction import Compactor
from tests.audit.tools import edit
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.memory.test_replace import after

pytestmark = pytest.mark.requirement("expire-sweep")
Reopen = Callable[[], Vault]
ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def memory_of(vault: Vault, actor: str) -> Memory:
    return vault.memory(vault.mint(actor=actor, ops=ALL_OPS, namespaces=NAMESPACES, ttl=86_400))


def bodies(vault: Vault) -> dict[str, bytes]:
    """The sealed lines and documents that are stored, by name."""
    listed = vault.store.list("actors/")
    return {one.name: one.body for one in listed if one.body and ("/lines/" in one.name or "/documents/" in one.name)}


def raw(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())


# What it must leave alone.


def test_sweep_leaves_what_counts_and_what_another_workers_clock_may_still_allow(
    vault: Vault, reopen: Reopen, clock: Clock
) -> None:
    alice = memory_of(vault, "local/alice")
    old = alice.put("trip on May 25", namespace="travel")
    alice.replace(old.id, "trip on May 27")
    alice.put("code 1111", namespace="travel", expires=after(clock, 60))
    alice.put("code 2222", namespace="travel", expires=after(clock, 9000))
    alice.write_document("trip", "code 3333", namespace="work", expires=after(clock, 9000))
    clock.move(75)
    before = bodies(vault)
    assert reopen().ended.forget() == (swept := vault.ended.forget())
    assert (swept.lines, swept.documents, swept.damaged) == (0, 0, 0)
    assert bodies(vault) == before
    assert len(before) == 5


def test_sweep_leaves_lines_that_were_put_anew_after_an_erasure_since_it_searched(
    vault: Vault, reopen: Reopen, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = memory_of(vault, "local/alice")
    alice.put("code 1111", namespace="travel", id=ID, expires=after(clock, 60))
    clock.move(100)
    other = reopen()
    genuine = ended_lines._forget

    def erased_right_before(*rest: object) -> ended_lines.EndedCount:
        alice.erase(["travel"])
        alice.put("a line that counts", namespace="travel", id=ID)
        return genuine(*rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ended_lines, "_forget", erased_right_before)
    assert other.ended.forget().lines == 0
    assert [hit.text for hit in alice.get("line")] == ["a line that counts"]
    assert vault.audit.verify().ok


def test_sweep_that_loses_a_race_leaves_the_line_to_the_next_one(
    vault: Vault, reopen: Reopen, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = memory_of(vault, "local/alice")
    alice.put("code 1111", namespace="travel", expires=after(clock, 60))
    clock.move(100)
    other = reopen()
    genuine = other._clerk.state.log.append

    def rotated_right_before(*rest: object) -> object:
        vault.rotate_actor("local/alice")
        return genuine(*rest)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(other._clerk.state.log, "append", rotated_right_before)
        assert other.ended.forget().lines == 0
    assert other.ended.forget().lines == 1
    assert vault.audit.verify().ok


def test_damaged_memory_is_counted_and_hinders_no_other(
    vault: Vault, reopen: Reopen, clock: Clock, tmp_path: Path
) -> None:
    for actor in ("local/alice", "local/bob", "local/carol"):
        memory_of(vault, actor).put(f"code of {actor}", namespace="travel", expires=after(clock, 60))
    clock.move(100)
    victim = sorted(bodies(vault))[1]
    edit(tmp_path / "vault", "UPDATE objects SET body = zeroblob(300) WHERE name = ?", victim)
    other = reopen()
    found = other.ended.count(most=10)
    assert (found.lines, found.damaged, found.searched, found.actors) == (2, 1, 3, 3)
    swept = other.ended.forget()
    assert (swept.lines, swept.damaged) == (2, 1)
    assert list(bodies(vault)) == [victim]


def test_sweep_of_a_store_that_cannot_be_reached_says_so(vault: Vault, clock: Clock) -> None:
    vault.close()
    with pytest.raises(errors.StoreUnavailable):
        vault.ended.forget()


# What it forgets.


@pytest.fixture
def ended(vault: Vault, clock: Clock) -> dict[str, bytes]:
    """Two actors' lines and documents that have ended, with what they replaced, and what counts beside them."""
    for actor in ("local/alice", "local/bob"):
        memory = memory_of(vault, actor)
        first = memory.put("code 1111", namespace="travel")
        second = memory.replace(first.id, "code 2222", expires=after(clock, 60))
        memory.put("code 3333", namespace="work", tags=["code"], expires=after(clock, 60))
        memory.write_document("trip", "code 4444", namespace="travel")
        memory.write_document(
            "trip",
            "code 5555",
            namespace="travel",
            expires=after(clock, 60),
            version=memory.document("trip", namespace="travel").version,
        )
        assert second.id
    gone = bodies(vault)
    for actor in ("local/alice", "local/bob"):
        memory_of(vault, actor).put("the river", namespace="travel")
        memory_of(vault, actor).write_document("stays", "the bridge", namespace="travel")
    clock.move(100)
    return gone


def test_sweep_forgets_lines_and_documents_of_every_memory_for_good(
    vault: Vault, reopen: Reopen, ended: dict[str, bytes], tmp_path: Path
) -> None:
    other = reopen()
    assert all(body in raw(tmp_path / "vault") for body in ended.values())
    found = other.ended.count(most=10)
    assert (found.lines, found.documents) == (6, 2)
    assert found == vault.ended.count(most=10), "counting changes nothing"
    told: list[tuple[int, int]] = []
    swept = other.ended.forget(progress=lambda done, whole: told.append((done, whole)))
    assert (swept.lines, swept.documents, swept.damaged, swept.pending) == (6, 2, 0, False)
    assert told == [(1, 2), (2, 2)]
    assert not [name for name, body in ended.items() if body in raw(tmp_path / "vault")]
    assert other.usage().shelves == 0, "no memory was loaded"
    assert other.ended.count(most=10).lines == 0
    memory = memory_of(vault, "local/alice")
    assert [hit.text for hit in memory.get("river code")] == ["the river"]
    assert [hit.text for hit in memory.get("bridge code 5555")] == ["the bridge"]
    entries = [entry for _, entry in vault.audit.entries() if entry is not None and entry.op == "expire"]
    assert sum(entry.count for entry in entries) == 8
    assert vault.audit.verify().ok


def test_sweep_takes_expired_versions_out_of_the_history_of_a_document_that_stays(
    vault: Vault, reopen: Reopen, clock: Clock, tmp_path: Path
) -> None:
    alice = memory_of(vault, "local/alice")
    first = alice.write_document("trip", "code 1111", expires=after(clock, 60), namespace="travel")
    second = alice.write_document("trip", "no code", version=first.version, namespace="travel")
    third = alice.write_document(
        "trip", "code 2222", expires=after(clock, 60), version=second.version, namespace="travel"
    )
    last = alice.write_document("trip", "no code again", version=third.version, namespace="travel")
    before = bodies(vault)
    clock.move(100)
    other = reopen()
    assert other.ended.count(most=10).documents == 2
    assert other.ended.forget().documents == 2
    assert not [body for body in before.values() if body in raw(tmp_path / "vault")]
    assert alice.document_history("trip", namespace="travel") == [last, second]
    assert alice.get("code", kind="document")[0].id == last.version
    assert other.ended.forget().documents == 0
    assert vault.audit.verify().ok


def test_sweep_empties_pages_of_ended_lines_and_leaves_the_others(
    vault: Vault, reopen: Reopen, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_pages, "LOOSE_LIMIT", 4)
    alice = memory_of(vault, "local/alice")
    for namespace in ("travel", "work"):
        alice.put_many([NewLine(text=f"trip {number}", namespace=namespace) for number in range(20)])
    alice.put("code 1111", namespace="travel", expires=after(clock, 60))
    alice.get("trip")
    stored_pages.keep_pages(vault._state)
    pages = [one for one in vault.store.list("actors/") if "/derived/page" in one.name and one.body]
    assert len(pages) == 2
    clock.move(100)
    assert reopen().ended.forget().lines == 1
    left = [one for one in vault.store.list("actors/") if "/derived/page" in one.name and one.body]
    assert len(left) == 1
    assert left[0] in pages


def test_sweep_that_was_stopped_goes_on_when_it_is_begun_again(
    vault: Vault, reopen: Reopen, ended: dict[str, bytes]
) -> None:
    def stop(done: int, whole: int) -> None:
        raise KeyboardInterrupt

    other = reopen()
    with pytest.raises(KeyboardInterrupt):
        other.ended.forget(progress=stop)
    assert other.ended.count(most=10).lines == 3
    assert (other.ended.forget().lines, other.ended.forget().lines) == (3, 0)
    assert vault.audit.verify().ok


def test_count_looks_at_no_more_memories_than_it_is_told(vault: Vault, ended: dict[str, bytes]) -> None:
    found = vault.ended.count(most=1)
    assert (found.lines, found.documents, found.searched, found.actors) == (3, 1, 1, 2)


def test_more_ended_lines_than_one_entry_names_take_several(vault: Vault, reopen: Reopen, clock: Clock) -> None:
    alice = memory_of(vault, "local/alice")
    for _ in range(3):
        alice.put_many([NewLine(text="code", namespace="travel", expires=after(clock, 60)) for _ in range(100)])
    clock.move(100)
    assert reopen().ended.forget().lines == 300
    counts = [entry.count for _, entry in vault.audit.entries() if entry is not None and entry.op == "expire"]
    assert counts == [256, 44]
    assert vault.audit.verify().ok


def test_portions_of_the_sweep_come_round_to_every_actor(vault: Vault, reopen: Reopen, ended: dict[str, bytes]) -> None:
    other = reopen()
    left = []
    for _ in range(4):
        other.ended.forget_some(0.0)
        left.append(vault.ended.count(most=10).lines)
    assert left == [6, 3, 0, 0]


def test_shelf_in_ram_that_missed_a_sweep_shows_nothing_of_it(
    vault: Vault, reopen: Reopen, ended: dict[str, bytes]
) -> None:
    other = reopen()
    memory = memory_of(other, "local/alice")
    assert [hit.text for hit in memory.get("river code")] == ["the river"]
    assert vault.ended.forget().lines == 6
    assert [hit.text for hit in memory.get("river code")] == ["the river"]
    assert memory.put("x", namespace="travel").id


# In a bucket.


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    return used_by_vaults(MemoryBucket(), monkeypatch)


@pytest.fixture
def fleet(bucket: MemoryBucket, tmp_path: Path, clock: Clock) -> Iterator[Callable[[], Vault]]:
    keys = FileKeys(tmp_path / "keys")
    strongroom.create("s3://bucket/room", keys=keys, now=clock).close()
    opened: list[Vault] = []

    def again() -> Vault:
        opened.append(strongroom.open("s3://bucket/room", keys=keys, now=clock))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


def test_sweep_of_a_bucket_takes_ended_lines_out_of_packs_and_single_objects(
    fleet: Callable[[], Vault], bucket: MemoryBucket, clock: Clock
) -> None:
    vault = fleet()
    for actor in ("local/alice", "local/bob"):
        memory = memory_of(vault, actor)
        old = memory.put("code 1111", namespace="travel")
        memory.replace(old.id, "code 2222", expires=after(clock, 60))
        memory.put("the river", namespace="travel")
        memory.write_document("trip", "code 4444", namespace="travel", expires=after(clock, 60))
    store = vault.store
    assert isinstance(store, S3Store)
    for locator in store.reader.locators():
        Compactor(store.reader, Random(1).randbytes, settled=0, least=1).compact(locator)
    for actor in ("local/alice", "local/bob"):
        memory_of(vault, actor).put("code 3333", namespace="travel", expires=after(clock, 60))
    river = {hit.id for actor in ("local/alice", "local/bob") for hit in memory_of(vault, actor).get("river")}
    gone = [body for name, body in bodies(vault).items() if name.rsplit("/", 1)[1] not in river]
    assert len(gone) == 8
    clock.move(100)
    other = fleet()
    assert (other.ended.count(most=10).lines, other.ended.count(most=10).documents) == (6, 2)
    swept = other.ended.forget()
    assert (swept.lines, swept.documents, swept.damaged, swept.pending) == (6, 2, 0, False)
    assert not [body for body in gone if any(body in one for one in bucket.objects.values())]
    assert [hit.text for hit in memory_of(fleet(), "local/bob").get("river code")] == ["the river"]
    assert fleet().audit.verify().is_sound


def test_worker_takes_no_replacement_for_void_that_another_one_confirmed_since(
    fleet: Callable[[], Vault], bucket: MemoryBucket, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has in RAM is from between the two writes of a replacement."""
    writer, stale = fleet(), fleet()
    memory, reader = memory_of(writer, "local/alice"), memory_of(stale, "local/alice")
    old = memory.put("trip on May 25", namespace="travel")
    genuine = bucket.create

    def read_before_the_mark(name: str, body: bytes) -> str:
        if "/replaced/" in name:
            assert [hit.text for hit in reader.get("trip")] == ["trip on May 25"]
        return genuine(name, body)

    monkeypatch.setattr(bucket, "create", read_before_the_mark)
    memory.replace(old.id, "trip on May 27")
    clock.move(3700)
    stale.settle()
    assert [hit.text for hit in memory.get("trip")] == ["trip on May 27"]
    assert [hit.text for hit in reader.get("trip")] == ["trip on May 27"]
