"""Documents in a bucket: two workers, many writers at once, and a worker that dies between any two writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Memory, Token, Vault, errors
from strongroom.model import Document
from tests.fleet.memory import MemoryBucket, used_by_vaults
from tests.fleet.simulated import Died

KEY, OTHER = "notes/trip.md", "notes/packing.md"
OPS = ["put", "get", "list", "forget", "erase"]


class Dying(MemoryBucket):
    """Dies right before or right after a write, as a process that is killed there."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        """How many more writes there are; None: no end of them."""
        self.is_dead = False

    def create(self, name: str, body: bytes) -> str:
        self._check()
        return super().create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        self._check()
        return super().swap(name, body, etag)

    def _check(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            self.is_dead = True
            raise Died
        self.left -= 1


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Dying:
    return used_by_vaults(Dying(), monkeypatch)


Opens = Callable[[], Vault]


@pytest.fixture
def opens(bucket: Dying, tmp_path: Path) -> Iterator[Opens]:
    keys = FileKeys(tmp_path / "keys")
    strongroom.create("s3://bucket/room", keys=keys).close()
    with ExitStack() as stack:
        yield lambda: stack.enter_context(strongroom.open("s3://bucket/room", keys=keys))


@pytest.fixture
def cap(opens: Opens) -> Token:
    return opens().mint(actor="local/alice", ops=OPS, namespaces=["travel", "work"], ttl=3600)


def write(memory: Memory, text: str = "Train at nine", key: str = KEY, version: str = "") -> Document:
    return memory.write_document(key, text, namespace="travel", version=version)


def read(memory: Memory, key: str = KEY) -> str:
    try:
        return memory.document(key, namespace="travel").text
    except errors.LineNotFound:
        return ""


def recalled(memory: Memory) -> list[str]:
    return [hit.text for hit in memory.get("train nine bus ten boat eleven", namespaces=["travel"])]


@pytest.mark.requirement("documents-cas")
def test_document_of_one_worker_is_changed_by_another_only_at_its_version(opens: Opens, cap: Token) -> None:
    one, other = opens().memory(cap), opens().memory(cap)
    first = write(one)
    assert read(other) == "Train at nine"
    second = write(other, "Bus at ten", version=first.version)
    with pytest.raises(errors.VersionConflict):
        write(one, "Boat at eleven", version=first.version)
    with pytest.raises(errors.VersionConflict):
        one.delete_document(KEY, namespace="travel", version=first.version)
    assert one.document(KEY, namespace="travel") == second
    assert [one.text for one in one.document_history(KEY, namespace="travel")] == ["Bus at ten", "Train at nine"]


@pytest.mark.requirement("documents-recall", "documents-deleted")
def test_recall_of_a_worker_follows_the_documents_of_another(opens: Opens, cap: Token) -> None:
    one, other = opens().memory(cap), opens().memory(cap)
    assert recalled(one) == recalled(other) == []
    first = write(one)
    assert recalled(one) == recalled(other) == ["Train at nine"]
    second = write(other, "Bus at ten", version=first.version)
    assert recalled(one) == recalled(other) == ["Bus at ten"]
    moved = one.rename_document(KEY, OTHER, version=second.version, namespace="travel")
    for each in (one, other):
        assert [hit.document for hit in each.get("bus")] == [OTHER]
        assert [info.version for info in each.documents().documents] == [moved.version]
    assert other.rename_document(KEY, OTHER, version=second.version, namespace="travel") == moved
    assert other.forget(ids=[moved.version]).ids == (moved.version,)
    for each in (one, other, opens().memory(cap)):
        assert recalled(each) == []
        assert each.documents().documents == ()
    assert write(one, "Boat at eleven", OTHER).text == "Boat at eleven"
    assert recalled(other) == ["Boat at eleven"]
    other.erase(["travel"])
    for each in (one, other):
        assert recalled(each) == []
        assert read(each, OTHER) == ""
    assert opens().audit.verify().ok


@pytest.mark.requirement("documents-cas")
@pytest.mark.parametrize("is_new", [True, False])
def test_one_of_many_writers_at_once_wins(opens: Opens, cap: Token, *, is_new: bool) -> None:
    memories = [opens().memory(cap) for _ in range(4)]
    version = "" if is_new else write(memories[0]).version

    def attempt(number: int) -> str:
        with suppress(errors.VersionConflict):
            return write(memories[number], f"writer {number}", version=version).version
        return ""

    with ThreadPoolExecutor(4) as threads:
        won = [version for version in threads.map(attempt, range(4)) if version]
    held = memories[0].document(KEY, namespace="travel")
    assert won == [held.version]
    assert len(memories[0].document_history(KEY, namespace="travel")) == (1 if is_new else 2)
    assert opens().audit.verify().ok


CHANGES: dict[str, tuple[Callable[[Memory, Document], object], set[tuple[str, str]]]] = {
    "a new document": (
        lambda memory, held: memory.write_document(OTHER, "new", namespace="travel"),
        {("old", ""), ("old", "new")},
    ),
    "a change": (
        lambda memory, held: memory.write_document(KEY, "new", namespace="travel", version=held.version),
        {("old", ""), ("new", "")},
    ),
    "a deletion": (lambda memory, held: memory.delete_document(KEY, namespace="travel"), {("old", ""), ("", "")}),
    "a forgetting": (lambda memory, held: memory.forget(ids=[held.version]), {("old", ""), ("", "")}),
    "a renaming": (
        lambda memory, held: memory.rename_document(KEY, OTHER, namespace="travel", version=held.version),
        {("old", ""), ("old", "old"), ("", "old")},
    ),
}
"""Each change, and what may be under the two keys after a worker died in it."""


@pytest.mark.requirement("documents-crash", "documents-renamed")
@pytest.mark.parametrize("change", CHANGES)
def test_worker_that_dies_at_any_write_leaves_a_stated_state_and_the_change_can_be_made_again(
    opens: Opens, bucket: Dying, cap: Token, change: str
) -> None:
    act, allowed = CHANGES[change]
    seen: set[tuple[str, str]] = set()
    for writes in range(20):
        bucket.left, bucket.is_dead = None, False
        owner = opens().memory(cap)
        for key in (KEY, OTHER):
            owner.delete_document(key, namespace="travel")
        held = write(owner, "old")
        worker = opens().memory(cap)
        assert read(worker) == "old"
        bucket.left = writes
        with suppress(Died, errors.StrongroomError):
            act(worker, held)
        died, bucket.left = bucket.is_dead, None
        fresh = opens().memory(cap)
        state = read(fresh), read(fresh, OTHER)
        assert state in allowed
        assert sorted(recalled_of(fresh)) == sorted(text for text in state if text)
        seen.add(state)
        with suppress(errors.VersionConflict):  # it was carried out already
            act(fresh, held)
        assert (read(fresh), read(fresh, OTHER)) in allowed - {("old", ""), ("old", "old")} | (
            {("old", "new")} if change == "a new document" else set()
        )
        if not died:
            break
    else:
        pytest.fail("the change made more writes than expected")
    assert seen == allowed, "every state that is stated was reached"
    assert opens().audit.verify().ok


def recalled_of(memory: Memory) -> list[str]:
    return [hit.text for hit in memory.get("old new", namespaces=["travel"])]


@pytest.mark.requirement("documents-sealed")
def test_bucket_shows_no_key_and_no_text_of_a_document(opens: Opens, bucket: Dying, cap: Token) -> None:
    memory = opens().memory(cap)
    memory.write_document("secretkey/of/mine", "zanzibar ferry", namespace="travel", tags=["tagged"])
    for name, body in bucket.objects.items():
        for word in ("zanzibar", "secretkey", "tagged"):
            assert word not in name
            assert word.encode() not in body
