"""Issuing against revoking: whoever commits first, no cap stays alive that should not. Injected, and in processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import Vault
from strongroom.errors import StrongroomError
from strongroom.memory.replica import Replica
from strongroom.model import Actor
from strongroom.store import Expect, Lost
from strongroom.vault import issue
from tests.conftest import Clock
from tests.store.children import Child, Place, children
from tests.vault.tools import (
    ALICE,
    BOB,
    SCOPE,
    admin,
    before_commit,
    entries,
    link,
    minted,
    refusal,
    registry,
    renewable,
    renewed,
    standing,
)

Reopen = Callable[[], Vault]


@pytest.mark.requirement("renew-race")
@pytest.mark.parametrize("void", ["revoke", "revoke_actor", "erase"])
@pytest.mark.parametrize("same", [True, False])
def test_revocation_just_before_a_renewal_is_written_leaves_no_cap(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, void: str, same: bool
) -> None:
    token = renewable(vault)
    vault.memory(token).put("hers", namespace="work")
    rival = vault if same else reopen()
    before = registry(vault)
    done = before_commit(
        monkeypatch, vault, "renew", lambda: getattr(rival, void)(token if void == "revoke" else ALICE)
    )
    assert refusal(lambda: renewed(vault, token)).reason == "cap_revoked"
    assert len(done) == 1
    assert registry(vault) <= before
    last = entries(vault)[-1]
    assert (last.op, last.decision, last.reason) == ("renew", "deny", "cap_revoked")
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-race")
@pytest.mark.parametrize("which", [0, 1])
def test_revocation_just_before_a_mint_is_written_leaves_no_cap(
    vault: Vault, clock: Clock, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    token = admin(vault)
    narrowed = strongroom.attenuate(token, ops=["mint"], now=clock)
    rival, before = reopen(), registry(vault)
    done = before_commit(monkeypatch, vault, "mint", lambda: rival.revoke((token, narrowed)[which]))
    assert refusal(lambda: minted(vault, narrowed)).reason == "cap_revoked"
    assert len(done) == 1
    assert registry(vault) == before


@pytest.mark.requirement("renew-race")
def test_voiding_the_actor_of_an_admin_cap_just_before_a_mint_leaves_no_cap(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, rival = admin(vault, actor=ALICE), reopen()
    before_commit(monkeypatch, vault, "mint", lambda: rival.revoke_actor(ALICE))
    before = registry(vault)
    assert refusal(lambda: minted(vault, token)).reason == "cap_revoked"
    assert registry(vault) == before


@pytest.mark.requirement("renew-race")
@pytest.mark.parametrize("how", ["renew", "mint"])
def test_cap_issued_just_before_a_revocation_is_written_falls_with_it(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    token = renewable(vault) if how == "renew" else admin(vault)
    issue = renewed if how == "renew" else minted
    rival = reopen()
    done = before_commit(monkeypatch, vault, "revoke", lambda: issue(rival, token), times=3)
    vault.revoke(token)
    made = [str(one) for one in done if not isinstance(one, StrongroomError)]
    assert len(made) == 1, "the first revocation was late, the others were not"
    assert [standing(vault, one) for one in (token, *made)] == ["cap_revoked"] * 2
    assert [standing(rival, one) for one in (token, *made)] == ["cap_revoked"] * 2
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-race")
def test_grandchild_issued_while_its_lineage_is_revoked_falls_with_it(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = renewable(vault)
    second = renewed(vault, first)
    rival = reopen()
    # Before every revocation: the first one finds `second` alive still, and later ones may as well.
    done = before_commit(monkeypatch, vault, "revoke", lambda: renewed(rival, second), times=5)
    vault.revoke(first)
    made = [str(one) for one in done if not isinstance(one, StrongroomError)]
    assert made
    assert {standing(vault, one) for one in (first, second, *made)} == {"cap_revoked"}


@pytest.mark.requirement("renew-race", "erase-void")
@pytest.mark.parametrize("void", ["revoke_actor", "erase"])
@pytest.mark.parametrize("how", ["renew", "mint", "owner"])
def test_cap_issued_just_before_its_actor_is_voided_is_void(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, void: str, how: str
) -> None:
    token, console, rival = renewable(vault), admin(vault), reopen()
    vault.memory(token).put("hers", namespace="work")
    issue: dict[str, Callable[[], object]] = {
        "renew": lambda: renewed(rival, token),
        "mint": lambda: minted(rival, console),
        "owner": lambda: renewable(rival),
    }
    done = before_commit(monkeypatch, vault, "revoke" if void == "revoke_actor" else "erase", issue[how])
    getattr(vault, void)(ALICE)
    (made,) = done
    assert isinstance(made, str)
    assert (standing(vault, made), standing(rival, made)) == ("cap_revoked", "cap_revoked")
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-race", "audit-unlinkable")
@pytest.mark.parametrize("how", ["renew", "mint"])
def test_cap_issued_just_before_an_erasure_leaves_no_record_of_its_actor(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    token, console, rival = renewable(vault), admin(vault), reopen()
    vault.memory(token).put("hers", namespace="work")
    before_commit(
        monkeypatch, vault, "erase", lambda: renewed(rival, token) if how == "renew" else minted(rival, console)
    )
    vault.erase(ALICE)
    assert ALICE not in {record.actor for record in vault.caps()}
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-race", "store-missing-broken")
@pytest.mark.parametrize("how", ["renew", "mint"])
def test_vault_that_keeps_losing_is_unavailable_and_makes_no_cap(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    token = renewable(vault) if how == "renew" else admin(vault, actor=ALICE)
    tries = 0

    def lost(state: Replica, actor: Actor, issued: int) -> Expect:
        nonlocal tries
        tries += 1
        raise Lost("vault/standing/x")

    before, size = registry(vault), vault.audit.size()
    monkeypatch.setattr(issue, "pin_standing", lost)
    assert refusal(lambda: (renewed if how == "renew" else minted)(vault, token)).reason == "store_unavailable"
    assert tries > 1
    assert (registry(vault), vault.audit.size()) == (before, size)


# In other processes.


@pytest.fixture
def two(tmp_path: Path, vault: Vault, clock: Clock) -> Iterator[tuple[Child, Child]]:
    with children(Place(tmp_path / "vault", tmp_path / "keys", clock.millis), 2) as (one, other):
        yield one, other


@pytest.mark.requirement("renew-lineage", "store-changes")
def test_lineage_over_processes_falls_in_all_of_them(two: tuple[Child, Child], vault: Vault) -> None:
    one, other = two
    token = renewable(vault)
    second = one.ask(token, "renew").value
    third = other.ask(second, "renew").value
    assert [child.ask(third, "get", "x").reason for child in two] == ["", ""]
    assert other.ask("", "revoke", token).reason == ""
    for child in two:
        assert {child.ask(held, "renew").reason for held in (token, second, third)} == {"cap_revoked"}
    assert {standing(vault, held) for held in (token, second, third)} == {"cap_revoked"}
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-race", "store-changes")
def test_processes_that_renew_while_another_revokes_leave_no_cap_alive(two: tuple[Child, Child], vault: Vault) -> None:
    made: list[str] = []
    for _ in range(6):
        token = renewable(vault)
        for child in two:
            child.begin(token, "renew")
        vault.revoke(token)
        answers = [child.end() for child in two]
        assert {answer.reason for answer in answers} <= {"", "cap_revoked"}
        made += [token, *(answer.value for answer in answers if not answer.reason)]
    assert {standing(vault, one) for one in made} == {"cap_revoked"}
    records = {str(record.link): record for record in vault.caps()}
    assert all(records[link(one)].revoked for one in made)
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-race")
def test_race_over_one_actor_spares_the_others(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    token, rival = renewable(vault, actor_scope=SCOPE), reopen()
    done = before_commit(monkeypatch, vault, "renew", lambda: rival.revoke_actor(BOB))
    again = renewed(vault, token)
    assert done
    vault.memory(strongroom.attenuate(again, actor=ALICE, now=clock)).put("hers", namespace="work")
    bobs = strongroom.attenuate(again, actor=BOB, now=clock)
    assert refusal(lambda: vault.memory(bobs).put("his", namespace="work")).reason == "cap_revoked"


@pytest.mark.requirement("renew-race", "erase-void")
@pytest.mark.parametrize("void", ["revoke_actor", "erase"])
@pytest.mark.parametrize("how", ["admin", "owner"])
def test_cap_minted_just_after_its_actor_was_voided_is_alive(
    vault: Vault, reopen: Reopen, monkeypatch: pytest.MonkeyPatch, void: str, how: str
) -> None:
    """Dead on arrival, its record would name an erased actor for good."""
    console, rival = admin(vault), reopen()
    vault.memory(renewable(vault)).put("hers", namespace="work")
    done = before_commit(monkeypatch, vault, "mint", lambda: getattr(rival, void)(ALICE))
    made = minted(vault, console) if how == "admin" else renewable(vault)
    assert done
    assert standing(vault, made) == ""
    (record,) = [one for one in vault.caps() if one.actor == ALICE and not one.revoked]
    assert record.link == link(made)
    assert vault.audit.verify().ok
