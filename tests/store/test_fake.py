"""The fake is strict, fails when told to, and keeps what was durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from strongroom.errors import AuditUnavailable, StoreUnavailable, Tampered
from strongroom.store import Effect, Expect, Object, Purge, PutNew, Swap
from strongroom.store.conformance.helpers import NOW, SuiteMac, everything
from strongroom.store.fake import FakeStore, FakeStores, Faults

MAC = SuiteMac()


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def stores(faults: Faults) -> FakeStores:
    return FakeStores(faults)


@pytest.fixture
def store(stores: FakeStores) -> FakeStore:
    return stores.create("here", MAC, [b"made"], [PutNew("things/a", b"a")], NOW)


def _as(value: object) -> Any:
    return value


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get(_as(b"things/a")),
        lambda store: store.list(_as(None)),
        lambda store: store.list("things/", _as(1)),
        lambda store: store.list("things/", "", _as("9")),
        lambda store: store.changes(_as("0")),
        lambda store: store.entries(_as("0"), 1),
        lambda store: store.archive(_as(1.0)),
        lambda store: store.put_if_absent("a/derived/x", _as("text")),
        lambda store: store.put_if_absent("a/derived/x", _as(bytearray(1))),
        lambda store: store.compare_and_swap("a/derived/x", b"", _as(True)),
        lambda store: store.commit([_as("text")], [], NOW),
        lambda store: store.commit([b"e"], [PutNew("things/b", _as("text"))], NOW),
        lambda store: store.commit([b"e"], [Swap("things/a", b"", _as("1"))], NOW),
        lambda store: store.commit([b"e"], [], _as(0.5)),
    ],
)
def test_wrong_type_is_refused(store: FakeStore, call: Callable[[FakeStore], object]) -> None:
    before = everything(store)
    with pytest.raises(TypeError):
        call(store)
    assert everything(store) == before


@pytest.mark.parametrize("name", ["", "/", "/things", "things/", "things//a", "a b", "ä", "a\n"])
def test_malformed_name_is_refused(store: FakeStore, name: str) -> None:
    with pytest.raises(ValueError):
        store.get(name)
    with pytest.raises(ValueError):
        store.commit([b"e"], [PutNew(name, b"")], NOW)


@pytest.mark.parametrize(
    "effects",
    [
        [PutNew("things/b", b"")],
        [Expect("things/a", 1), PutNew("things/b", b"")],
        [PutNew("a/derived/x", b""), Purge("things/")],
    ],
)
def test_effects_without_a_log_entry_are_refused(store: FakeStore, effects: list[Effect]) -> None:
    before = everything(store)
    with pytest.raises(ValueError):
        store.commit([], effects, NOW)
    assert everything(store) == before


def test_purge_that_cuts_a_segment_is_refused(store: FakeStore) -> None:
    with pytest.raises(ValueError):
        store.commit([b"e"], [PutNew("b/1", b""), Purge("thin")], NOW)


def test_call_that_fails_before_does_nothing(store: FakeStore, faults: Faults) -> None:
    before = everything(store)
    faults.before("commit")
    with pytest.raises(AuditUnavailable):
        store.commit([b"e"], [PutNew("things/b", b"")], NOW)
    assert everything(store) == before
    store.commit([b"e"], [PutNew("things/b", b"")], NOW)


def test_call_that_fails_after_has_done_everything(store: FakeStore, stores: FakeStores, faults: Faults) -> None:
    faults.after("commit")
    with pytest.raises(AuditUnavailable):
        store.commit([b"e"], [PutNew("things/b", b"b")], NOW)
    store.close()
    again = stores.open("here")
    assert again.get("things/b") == Object("things/b", 2, b"b")
    assert again.head().size == 2


def test_nth_call_fails_and_no_other(store: FakeStore, faults: Faults) -> None:
    faults.before("get", 3)
    outcomes: list[bool] = []
    for _ in range(5):
        try:
            store.get("things/a")
        except StoreUnavailable:
            outcomes.append(False)
        else:
            outcomes.append(True)
    assert outcomes == [True, True, False, True, True]
    assert faults.calls["get"] == 5


def test_fault_raises_the_error_it_was_given(store: FakeStore, faults: Faults) -> None:
    faults.before("get", error=Tampered)
    with pytest.raises(Tampered):
        store.get("things/a")


def test_store_that_is_down_stays_down_until_cleared(store: FakeStore, faults: Faults) -> None:
    faults.down("commit")
    faults.before("get", 2)
    for _ in range(3):
        with pytest.raises(AuditUnavailable):
            store.commit([b"e"], [], NOW)
    faults.clear()
    store.get("things/a")
    store.get("things/a")
    assert store.commit([b"e"], [], NOW).first == 1


def test_fault_for_an_unknown_method_is_refused(faults: Faults) -> None:
    for plan in (faults.before, faults.after, faults.down):
        with pytest.raises(ValueError):
            plan("comit")


def test_creation_can_fail_before_and_after() -> None:
    for after in (False, True):
        stores = FakeStores()
        (stores.faults.after if after else stores.faults.before)("create")
        with pytest.raises(AuditUnavailable):
            stores.create("here", MAC, [], [], NOW)
        assert ("here" in stores.disks) is after


def test_busy_disk_is_not_scrubbed(store: FakeStore) -> None:
    store.disk.busy = True
    assert store.scrub() is False
    store.disk.busy = False
    assert store.scrub() is True


def test_forged_head_is_noticed_at_the_next_write(store: FakeStore) -> None:
    store.disk.head = type(store.disk.head)(1, bytes(32), NOW, store.disk.head.mac)
    with pytest.raises(Tampered):
        store.commit([b"e"], [], NOW)
    with pytest.raises(Tampered):
        store.put_if_absent("a/derived/x", b"")
