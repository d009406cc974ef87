"""What others did holds at the next call, whether the store is looked at before it or with its commit."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from strongroom import Token, Vault, errors
from strongroom.store.sqlite import SqliteStore
from tests.conftest import ALL_OPS

pytestmark = pytest.mark.requirement("known-or-looked")


@pytest.fixture(params=["near", "distant"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A near store is looked at before each call; one that calls itself distant, while it writes the log."""
    monkeypatch.setattr(SqliteStore, "is_distant", request.param == "distant")


@pytest.fixture
def other(vault: Vault, cap: Token, reopen: Callable[[], Vault]) -> Vault:
    """A second handle, which knows the cap."""
    vault.memory(cap).put("the blue boat", namespace="travel")
    found = reopen()
    assert _texts(found, cap) == ["the blue boat"]
    return found


def _texts(vault: Vault, cap: Token) -> list[str]:
    return sorted(hit.text for hit in vault.memory(cap).get("boat", k=20))


def test_distant_store_is_not_looked_at_before_a_commit(
    other: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tests below would hold for the wrong reason."""
    looks, real = 0, SqliteStore.versions

    def counted(self: SqliteStore, scopes: list[str]) -> object:
        nonlocal looks
        looks += 1
        return real(self, scopes)

    monkeypatch.setattr(SqliteStore, "versions", counted)
    for number in range(5):
        other.memory(cap).put(f"boat {number}", namespace="travel")
        assert len(_texts(other, cap)) == number + 2
    assert looks == (0 if other.store.is_distant else 10)


def test_cap_that_was_revoked_elsewhere_is_refused_at_once_and_on_record(
    vault: Vault, other: Vault, cap: Token
) -> None:
    vault.revoke(cap)
    with pytest.raises(errors.CapRevoked):
        other.memory(cap).get("boat")
    *_, (_, entry) = vault.audit.entries()
    assert entry is not None
    assert (entry.decision, entry.reason) == ("deny", "cap_revoked")


def test_cap_revoked_elsewhere_writes_nothing(vault: Vault, other: Vault, cap: Token) -> None:
    vault.revoke(cap)
    with pytest.raises(errors.CapRevoked):
        other.memory(cap).put("a boat that must not be there", namespace="travel")
    mine = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=vault.namespaces)
    assert _texts(vault, mine) == ["the blue boat"]


@pytest.mark.parametrize("text", ["  ", "a boat"])
def test_cap_revoked_elsewhere_is_refused_for_that_and_for_nothing_else(
    vault: Vault, other: Vault, cap: Token, text: str
) -> None:
    vault.revoke(cap)
    with pytest.raises(errors.CapRevoked):
        other.memory(cap).put(text)  # which is refused to others, too: it has no text, or names no namespace
    *_, (_, entry) = vault.audit.entries()
    assert entry is not None
    assert (entry.decision, entry.reason) == ("deny", "cap_revoked")


@pytest.mark.parametrize("text", ["  ", "a boat"])
def test_refusal_after_a_look_is_recorded_once(vault: Vault, other: Vault, cap: Token, text: str) -> None:
    before = len(list(vault.audit.entries()))
    with pytest.raises(errors.InvalidRequest):
        other.memory(cap).put(text)
    assert len(list(vault.audit.entries())) == before + 1


def test_forget_put_or_erase_elsewhere_is_seen_at_once(vault: Vault, other: Vault, cap: Token) -> None:
    receipt = vault.memory(cap).put("another boat", namespace="travel")
    assert _texts(other, cap) == ["another boat", "the blue boat"]
    vault.memory(cap).forget(ids=[receipt.id])
    assert _texts(other, cap) == ["the blue boat"]
    vault.memory(cap).erase()
    assert _texts(other, cap) == []


def test_line_goes_into_no_namespace_that_was_erased_elsewhere(vault: Vault, other: Vault, cap: Token) -> None:
    vault.erase("local/alice")
    with pytest.raises(errors.StrongroomError) as refused:
        other.memory(cap).put("boat", namespace="travel")
    assert refused.value.reason == "cap_revoked"


def test_nobody_is_refused_by_what_was_known(vault: Vault, other: Vault, cap: Token) -> None:
    """A namespace that was made a moment ago is there for who has not looked yet."""
    vault.add_namespace("garden")
    mine = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["garden"])
    assert not other.memory(mine).put("a boat in the garden").duplicate
    assert _texts(other, mine) == ["a boat in the garden"]


def test_threads_and_handles_that_write_at_once_lose_nothing(vault: Vault, other: Vault, cap: Token) -> None:
    def work(one: Vault, name: str) -> None:
        for number in range(15):
            one.memory(cap).put(f"boat {name} {number}", namespace="travel")
            assert f"boat {name} {number}" in {hit.text for hit in one.memory(cap).get(f"{name} {number}", k=20)}

    threads = [
        threading.Thread(target=work, args=(one, f"{where}{number}"))
        for where, one in (("here", vault), ("there", other))
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(vault.memory(cap).list(limit=1000).lines) == len(other.memory(cap).list(limit=1000).lines) == 61
