"""Listing and revoking with an admin cap, and lineage: what was renewed or minted from a cap falls with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, api
from strongroom.caps import chain
from strongroom.errors import AuditUnavailable, CapRevoked
from strongroom.memory import cap_records
from strongroom.memory.line_cache.cache import CachedNamespace
from strongroom.memory.replica import Replica
from strongroom.store import Commit
from tests.conftest import NAMESPACES, Clock
from tests.vault.tools import (
    ALICE,
    BOB,
    REQUEST,
    SCOPE,
    admin,
    entries,
    link,
    links,
    minted,
    only_entry,
    refusal,
    renewable,
    renewed,
    revoked,
    standing,
)

NOBODYS = "0" * 64


# Revoking with an admin cap.


@pytest.mark.requirement("admin-within", "audit-reads", "audit-private")
@pytest.mark.parametrize("whose", ["local/alice", "hermes/default", "hermes/default2/x", "hermes/def", "hermes"])
def test_cap_of_an_actor_outside_is_not_found_and_stays_alive(vault: Vault, whose: str) -> None:
    token, other = admin(vault), renewable(vault, actor=whose)
    size = vault.audit.size()
    assert refusal(partial(revoked, vault, token, link(other))).reason == "not_found"
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.reason, entry.data_class) == ("revoke", "deny", "not_found", "admin")
    assert (entry.links, entry.request, bool(entry.holder)) == (links(token), REQUEST, True)
    assert entry.objects == ()
    assert standing(vault, other) == ""


@pytest.mark.requirement("admin-never-admin")
def test_admin_cap_revokes_neither_another_admin_cap_nor_the_one_it_was_narrowed_from(
    vault: Vault, clock: Clock
) -> None:
    parent, other = admin(vault), admin(vault, actor=ALICE)
    narrowed = strongroom.attenuate(parent, ttl=60, now=clock)
    for mine in (parent, narrowed):
        for theirs in (parent, other):
            assert refusal(partial(revoked, vault, mine, link(theirs))).reason == "not_found"
    assert [standing(vault, token) for token in (parent, other)] == ["", ""]


@pytest.mark.requirement("admin-within", "gate-same-denial")
def test_cap_outside_and_a_cap_that_never_was_get_the_same_answer(vault: Vault, clock: Clock) -> None:
    token = admin(vault)
    gone = renewable(vault, actor="local/gone")
    vault.revoke(gone)
    outside = [
        renewable(vault, actor="local/alice"),
        renewable(vault, actor_scope="hermes/"),
        admin(vault, actor_scope="hermes/"),
        gone,
    ]
    narrowed = links(strongroom.attenuate(renewable(vault), now=clock))[1]
    answers = {
        (type(error), error.reason, error.message, error.hint)
        for one in (*map(link, outside), NOBODYS, narrowed)
        for error in [refusal(partial(revoked, vault, token, one))]
    }
    assert [reason for _, reason, _, _ in answers] == ["not_found"]
    assert [standing(vault, one) for one in outside] == ["", "", "", "cap_revoked"]


@pytest.mark.requirement("admin-within")
@pytest.mark.parametrize("named", ["", "x", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "../" * 21 + "x", "\ud800" * 64])
def test_non_link_is_an_invalid_request(vault: Vault, named: str) -> None:
    token = admin(vault)
    size = vault.audit.size()
    assert refusal(partial(revoked, vault, token, named)).reason == "invalid_request"
    assert (only_entry(vault, size).op, only_entry(vault, size).decision) == ("revoke", "deny")


@pytest.mark.requirement("admin-within")
def test_narrowed_admin_cap_revokes_only_what_is_left_to_it(vault: Vault, clock: Clock) -> None:
    token = admin(vault)
    hers, his = minted(vault, token), minted(vault, token, actor=BOB)
    one = strongroom.attenuate(token, actor=ALICE, now=clock)
    assert refusal(partial(revoked, vault, one, link(his))).reason == "not_found"
    assert revoked(vault, one, link(hers)) == (link(hers),)
    assert (standing(vault, hers), standing(vault, his)) == ("cap_revoked", "")
    looking = strongroom.attenuate(token, ops=["audit", "mint"], now=clock)
    assert refusal(partial(revoked, vault, looking, link(his))).reason == "cap_op_mismatch"


@pytest.mark.requirement("admin-revoke", "audit-reads")
def test_each_revoked_link_is_on_record_with_the_cap_that_revoked_it(vault: Vault) -> None:
    token = admin(vault)
    first = minted(vault, token)
    second = renewed(vault, first)
    size = vault.audit.size()
    assert revoked(vault, token, link(first)) == (link(first), link(second))
    found = entries(vault, size)
    assert {entry.detail for entry in found} == {f"link {link(one)}" for one in (first, second)}
    for entry in found:
        assert (entry.op, entry.decision, entry.data_class) == ("revoke", "allow", "admin")
        assert (entry.links, entry.request, bool(entry.holder)) == (links(token), REQUEST, True)
        assert (entry.actor, len(entry.objects)) == ("", 1)
    assert vault.audit.verify().ok


@pytest.mark.requirement("admin-revoke", "audit-reads")
def test_revoking_what_is_revoked_answers_the_same_and_is_on_record_again(vault: Vault) -> None:
    token = admin(vault)
    hers = minted(vault, token)
    for _ in range(3):
        size = vault.audit.size()
        assert revoked(vault, token, link(hers)) == (link(hers),)
        found = entries(vault, size)
        assert found, "an answer left without an entry"
        assert {(entry.op, entry.decision, entry.request) for entry in found} == {("revoke", "allow", REQUEST)}
    assert vault.audit.verify().ok


@pytest.mark.requirement("admin-revoke", "cap-revoke")
def test_revoking_takes_what_was_narrowed_offline_too(vault: Vault, clock: Clock) -> None:
    token = admin(vault)
    hers = minted(vault, token)
    narrowed = strongroom.attenuate(hers, ops=["get"], now=clock)
    assert standing(vault, narrowed) == ""
    revoked(vault, token, link(hers))
    assert standing(vault, narrowed) == "cap_revoked"


# Listing with an admin cap.


@pytest.mark.requirement("admin-list", "admin-within")
def test_list_shows_the_caps_of_covered_actors_and_no_other(vault: Vault, clock: Clock) -> None:
    token = admin(vault)
    inside = [token, minted(vault, token), renewable(vault, actor=BOB), renewable(vault, actor_scope=SCOPE)]
    for actor in ("local/alice", "hermes/default", "hermes/default2/x", "hermes/def"):
        renewable(vault, actor=actor)
    renewable(vault, actor_scope="hermes/")
    size = vault.audit.size()
    shown = vault.door(token, request=REQUEST).call(api.ListCaps()).caps
    assert {record.link for record in shown} == set(map(link, inside))
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.count, entry.detail) == ("mint", "allow", 4, "caps listed")
    assert (entry.links, entry.request, entry.data_class) == (links(token), REQUEST, "admin")
    one = vault.door(strongroom.attenuate(token, actor=BOB, now=clock)).call(api.ListCaps()).caps
    assert [record.link for record in one] == [link(inside[2])]


@pytest.mark.requirement("admin-list")
def test_list_says_what_was_revoked_and_is_in_the_order_of_issue(vault: Vault, clock: Clock) -> None:
    token = admin(vault, actor=ALICE)
    made: list[Token] = []
    for _ in range(3):
        clock.move(1)
        made.append(minted(vault, token))
    vault.revoke(made[1])
    shown = vault.door(token).call(api.ListCaps()).caps
    assert [(record.link, record.revoked) for record in shown] == [
        (link(one), one is made[1]) for one in (token, *made)
    ]


# Lineage.


def _family(vault: Vault, clock: Clock) -> dict[str, Token]:
    """An admin cap, one narrowed from it, and what came from both, over two generations."""
    root = admin(vault)
    narrow = strongroom.attenuate(root, ops=["mint", "revoke"], now=clock)
    family = {"root": root, "narrow": narrow, "by root": minted(vault, root), "by narrow": minted(vault, narrow)}
    for name in ("by root", "by narrow"):
        family[f"{name} +1"] = renewed(vault, family[name])
        family[f"{name} +2"] = renewed(vault, family[f"{name} +1"])
        family[f"{name} beside"] = renewed(vault, family[name])
    return family


ALL = {"root", "narrow"} | {
    f"{one}{more}" for one in ("by root", "by narrow") for more in ("", " +1", " +2", " beside")
}
FALLS: dict[str, set[str]] = {
    "root": ALL,
    "narrow": {"narrow"} | {name for name in ALL if name.startswith("by narrow")},
    "by root": {name for name in ALL if name.startswith("by root")},
    "by narrow": {name for name in ALL if name.startswith("by narrow")},
    "by root +1": {"by root +1", "by root +2"},
    "by root +2": {"by root +2"},
    "by narrow beside": {"by narrow beside"},
}


@pytest.mark.requirement("renew-lineage", "cap-revoke")
@pytest.mark.parametrize("which", FALLS)
def test_descendants_of_a_revoked_cap_fall_with_it_and_nothing_else_does(
    vault: Vault, clock: Clock, which: str, reopen: Callable[[], Vault]
) -> None:
    family, other = _family(vault, clock), reopen()
    assert {standing(other, token) for token in family.values()} == {""}
    vault.revoke(family[which])
    for one in (vault, other, reopen()):
        assert {name for name, token in family.items() if standing(one, token) == "cap_revoked"} == FALLS[which]
    shown = {str(record.link) for record in vault.caps() if record.revoked}
    assert shown == {link(family[name]) for name in FALLS[which] - {"narrow"}}
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-lineage")
@pytest.mark.parametrize("how", ["owner", "admin"])
def test_renewed_twice_then_the_first_revoked_kills_all_three(vault: Vault, clock: Clock, how: str) -> None:
    first = renewable(vault)
    clock.move(60)
    second = renewed(vault, first)
    clock.move(60)
    third = renewed(vault, second)
    if how == "owner":
        vault.revoke(link(first))
    else:
        assert revoked(vault, admin(vault), link(first)) == tuple(map(link, (first, second, third)))
    assert [standing(vault, token) for token in (first, second, third)] == ["cap_revoked"] * 3


@pytest.mark.requirement("renew-lineage")
def test_descendants_of_a_cap_fall_with_it_after_it_has_ended(vault: Vault, clock: Clock) -> None:
    first = renewable(vault, ttl=60)
    clock.move(30)
    second = renewed(vault, first)
    clock.move(40)
    assert (standing(vault, first), standing(vault, second)) == ("cap_expired", "")
    vault.revoke(first)
    assert standing(vault, second) == "cap_revoked"


@pytest.mark.requirement("renew-lineage")
def test_caps_minted_by_an_admin_cap_fall_with_it_after_it_has_ended(vault: Vault, clock: Clock) -> None:
    token = admin(vault, ttl=60)
    hers = minted(vault, token, ttl=3600)
    clock.move(60)
    vault.revoke(token)
    assert standing(vault, hers) == "cap_revoked"


@pytest.mark.requirement("renew-lineage")
@pytest.mark.parametrize("how", ["owner", "admin"])
@pytest.mark.parametrize("broken", [1, 2, 3])
def test_revocation_interrupted_midway_is_finished_by_the_next(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, how: str, broken: int
) -> None:
    token, chain = admin(vault), [renewable(vault)]
    for _ in range(3):
        chain.append(renewed(vault, chain[-1]))

    def revoke() -> object:
        return vault.revoke(chain[0]) if how == "owner" else revoked(vault, token, link(chain[0]))

    commit, done = vault._state.store.commit, []

    def failing(*given: Any, **named: Any) -> Commit:
        if b'"op":"revoke"' in given[0][0]:
            done.append(given)
            if len(done) > broken:
                raise AuditUnavailable("the disk is full")
        return commit(*given, **named)

    monkeypatch.setattr(vault._state.store, "commit", failing)
    assert refusal(revoke).reason == "audit_unavailable"
    monkeypatch.undo()
    assert standing(vault, chain[0]) == "cap_revoked", "the first one falls first"
    revoke()
    assert [standing(vault, one) for one in chain] == ["cap_revoked"] * 4
    assert vault.audit.verify().ok


@pytest.mark.requirement("renew-lineage")
def test_revoking_a_long_lineage_reads_the_registry_a_few_times_only(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may renew could else make the revocation of its cap as slow as it likes."""
    chain = [renewable(vault)]
    for _ in range(24):
        chain.append(renewed(vault, chain[-1]))
    read, count = cap_records._registered, 0

    def counted(state: Replica, beside: Collection[str]) -> Any:
        nonlocal count
        count += 1
        return read(state, beside)

    monkeypatch.setattr(cap_records, "_registered", counted)
    vault.revoke(chain[0])
    assert 1 <= count <= 4
    assert standing(vault, chain[-1]) == "cap_revoked"


@pytest.mark.requirement("renew-lineage", "cap-revoke")
def test_voiding_an_actor_leaves_no_renewal_alive(vault: Vault) -> None:
    first = renewable(vault)
    vault.memory(first).put("hers", namespace="work")
    family = [first, renewed(vault, first), minted(vault, admin(vault, actor=ALICE))]
    family.append(renewed(vault, family[1]))
    bobs = renewed(vault, renewable(vault, actor=BOB))
    vault.revoke_actor(ALICE)
    assert {standing(vault, token) for token in family} == {"cap_revoked"}
    assert standing(vault, bobs) == ""


@pytest.mark.requirement("renew-lineage", "audit-unlinkable")
def test_erasing_an_actor_removes_the_records_of_its_renewals(vault: Vault) -> None:
    token = admin(vault)
    hers, his = minted(vault, token), minted(vault, token, actor=BOB)
    family = [hers, renewed(vault, hers), renewed(vault, renewed(vault, hers))]
    vault.memory(hers).put("hers")
    vault.erase(ALICE)
    assert {standing(vault, one) for one in family} == {"cap_revoked"}
    assert {record.actor for record in vault.caps()} == {SCOPE, BOB}
    vault.revoke(token)
    assert standing(vault, his) == "cap_revoked"
    assert vault.audit.verify().ok


@pytest.mark.requirement("gate-recheck", "renew-lineage")
@pytest.mark.parametrize("call", [api.Get(query="x"), api.List(), api.Forget(namespaces=("travel",))], ids=str)
def test_call_that_waited_for_lines_is_refused_if_its_cap_was_revoked_meanwhile(
    vault: Vault,
    cap: Token,
    tmp_path: Path,
    keys: FileKeys,
    monkeypatch: pytest.MonkeyPatch,
    call: api.Call[object],
) -> None:
    vault.memory(cap).put("a line", namespace="travel")
    real = CachedNamespace.portions

    def slow(self: CachedNamespace) -> Iterator[None]:
        yield from real(self)
        vault.revoke(cap)

    monkeypatch.setattr(CachedNamespace, "portions", slow)
    with strongroom.open(tmp_path / "vault", keys=keys, now=vault._clerk.now) as other, pytest.raises(CapRevoked):
        other.door(cap).call(call)
    monkeypatch.undo()
    fresh = vault.mint(actor="local/alice", ops=["list"], namespaces=NAMESPACES)
    assert [line.namespace for line in vault.memory(fresh).list().lines] == ["travel"]


@pytest.mark.requirement("admin-within", "admin-list")
def test_admin_cap_neither_lists_nor_revokes_caps_of_other_namespaces(vault: Vault) -> None:
    token = vault.mint(
        actor_scope="local/", ops=["mint", "revoke"], namespaces=["travel"], data_class="admin", ttl=3600
    )
    private = vault.mint(actor="local/alice", ops=["get"], namespaces=["personal", "travel"], ttl=3600)
    link = chain.parse(private).links[0].id
    door = vault.door(token)
    assert link not in [record.link for record in door.call(api.ListCaps()).caps]
    with pytest.raises(strongroom.errors.LineNotFound):
        door.call(api.Revoke(link=link))
