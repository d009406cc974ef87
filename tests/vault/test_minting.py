"""Minting with an admin cap: everything outside it first, then what it may mint, and that it is all on record."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import NewLine, Token, Vault, api
from strongroom.caps import chain
from strongroom.errors import StrongroomError
from strongroom.model import DataClass, Op
from tests.conftest import NAMESPACES, Clock
from tests.vault.tools import (
    ALICE,
    BOB,
    REQUEST,
    SCOPE,
    Shifty,
    admin,
    claims,
    entries,
    link,
    links,
    minted,
    only_entry,
    refusal,
    registry,
    renewable,
    renewed,
    standing,
    terms,
)

MEMORY_OPS = sorted(set(Op) - {Op.MINT, Op.REVOKE, Op.AUDIT})

OUTSIDE_ACTORS: list[dict[str, str | None]] = [
    {"actor": "local/alice"},
    {"actor": "hermes/default"},
    {"actor": "hermes/def"},
    {"actor": "hermes/defaultx"},
    {"actor": "hermes/default2/alice"},
    {"actor": "hermes/other/default/alice"},
    {"actor": "hermes"},
    {"actor": ""},
    {"actor_scope": "hermes/"},
    {"actor_scope": "hermes/def/"},
    {"actor_scope": "hermes/default2/"},
    {"actor_scope": "local/"},
    {"actor_scope": ""},
]
MALFORMED: list[dict[str, Any]] = [
    {"actor": "hermes/default/"},
    {"actor": "hermes/default/../../local/alice"},
    {"actor": "hermes/default//x"},
    {"actor": "hermes/default/Alice"},
    {"actor": "hermes/default/\ud800"},
    {"actor": SCOPE + "a/" * 300 + "a"},
    {"actor_scope": "hermes/default/x"},
    {"actor_scope": "hermes/default//"},
    {"actor": ALICE, "actor_scope": SCOPE},
    {"namespaces": ("Work",)},
    {"namespaces": ("*",)},
    {"namespaces": ("work", "../x")},
    {"ops": ("read",)},
    {"ops": ("get", "*")},
    {"actor": None},
    {"ttl": 0},
    {"ttl": -1},
    {"ttl": 400 * 24 * 3600 + 1},
    {"ttl": 2**70},
    {"max_k": 0},
    {"max_k": 2**70},
    {"max_depth": -1},
    {"max_depth": 2**70},
    {"label": ""},
    {"label": "\n"},
    {"label": "x" * 65},
    {"session": ""},
    {"session": "a\nb"},
    {"session": "\ud800"},
    {"session": "x" * 257},
]


def _refused(vault: Vault, token: str, **changes: Any) -> StrongroomError:
    """The refusal of a mint; that it left one entry and no cap."""
    before, size = registry(vault), vault.audit.size()
    error = refusal(partial(minted, vault, token, **changes))
    assert registry(vault) == before
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.reason) == ("mint", "deny", error.reason)
    assert (entry.data_class, entry.request, entry.links) == ("admin", REQUEST, links(token))
    assert entry.holder
    assert entry.objects == ()
    assert not [text for text in ("hermes", "alice", "local") if text in entry.encoded().decode()]
    return error


@pytest.mark.requirement("admin-within")
@pytest.mark.parametrize("outside", OUTSIDE_ACTORS, ids=str)
def test_actor_outside_the_scope_is_refused(vault: Vault, outside: dict[str, Any]) -> None:
    assert _refused(vault, admin(vault), **outside).reason == "cap_limit_exceeded"


@pytest.mark.requirement("admin-within")
@pytest.mark.parametrize(
    "outside",
    [{"actor": BOB}, {"actor": ALICE + "/phone"}, {"actor_scope": ALICE + "/"}, {"actor_scope": SCOPE}],
    ids=str,
)
def test_admin_cap_of_one_actor_mints_for_that_one_alone(vault: Vault, outside: dict[str, Any]) -> None:
    token = admin(vault, actor=ALICE)
    assert _refused(vault, token, **outside).reason == "cap_limit_exceeded"
    assert claims(minted(vault, token, actor=ALICE)).actor == ALICE


@pytest.mark.requirement("admin-within")
@pytest.mark.parametrize("malformed", MALFORMED, ids=str)
def test_malformed_terms_are_an_invalid_request(vault: Vault, malformed: dict[str, Any]) -> None:
    assert _refused(vault, admin(vault), **malformed).reason == "invalid_request"


@pytest.mark.requirement("admin-within", "gate-same-denial")
def test_namespace_outside_is_refused_alike_whether_it_exists_holds_lines_or_not(vault: Vault) -> None:
    full = vault.mint(actor=ALICE, ops=["put"], namespaces=["personal"])
    vault.memory(full).put("the safe is behind the painting")
    token = admin(vault)
    answers = {
        (type(error), error.reason, error.message, error.hint)
        for name in ("personal", "family", "nowhere", "work-2", "wor")
        for names in ((name,), ("work", name), (name, "work"))
        for error in [_refused(vault, token, namespaces=names)]
    }
    assert [reason for _, reason, _, _ in answers] == ["cap_namespace_denied"]


@pytest.mark.requirement("admin-within", "gate-empty")
def test_admin_cap_without_namespaces_mints_caps_that_open_nothing(vault: Vault, clock: Clock) -> None:
    for token in (admin(vault, namespaces=[]), strongroom.attenuate(admin(vault), namespaces=[], now=clock)):
        assert _refused(vault, token, namespaces=("work",)).reason == "cap_namespace_denied"
        empty = minted(vault, token, namespaces=())
        assert refusal(partial(vault.memory(empty).get, "x")).reason == "cap_namespace_denied"


@pytest.mark.requirement("admin-never-admin")
@pytest.mark.parametrize("op", [Op.MINT, Op.REVOKE, Op.AUDIT])
def test_op_of_the_administration_is_not_minted(vault: Vault, op: Op) -> None:
    token = admin(vault, ops=[str(one) for one in Op])
    for ops in ((op.value,), ("get", op.value), (op.value, "get")):
        assert _refused(vault, token, ops=ops).reason == "invalid_request"


@pytest.mark.requirement("admin-never-admin")
def test_cap_minted_by_an_admin_cap_is_for_memory_and_cannot_mint_on(vault: Vault, clock: Clock) -> None:
    assert not [name for name in api.Mint.__struct_fields__ if "class" in name]
    token = minted(vault, admin(vault), ops=tuple(MEMORY_OPS), actor_scope=SCOPE)
    assert claims(token).data_class == "memory"
    for held in (token, renewed(vault, token), strongroom.attenuate(token, actor=ALICE, now=clock)):
        assert refusal(partial(minted, vault, held)).reason == "cap_op_mismatch"
        assert refusal(partial(vault.door(held).call, api.ListCaps())).reason == "cap_op_mismatch"
        assert refusal(partial(vault.door(held).call, api.Revoke(link=link(held)))).reason == "cap_op_mismatch"


@pytest.mark.requirement("admin-never-admin")
def test_admin_cap_does_not_renew_itself(vault: Vault) -> None:
    token = admin(vault, ops=[str(one) for one in Op])
    assert refusal(partial(renewed, vault, token)).reason == "cap_data_class_mismatch"


@pytest.mark.requirement("admin-never-admin", "seed-data-class")
@pytest.mark.parametrize("data_class", ["memory", "credentials"])
@pytest.mark.parametrize("kind", [call for call in api.CALLS if call.data_class == DataClass.ADMIN])
def test_cap_of_another_class_with_every_op_administers_nothing(
    vault: Vault, data_class: str, kind: type[api.Call[Any]]
) -> None:
    token = admin(vault, ops=[str(one) for one in Op], data_class=data_class)
    size = vault.audit.size()
    error = refusal(partial(vault.door(token, request=REQUEST).call, _call(kind, link(token))))
    assert error.reason == "cap_data_class_mismatch"
    entry = only_entry(vault, size)
    assert (entry.op, entry.reason, entry.data_class) == (kind.op, error.reason, "admin")
    assert (entry.links, entry.request, bool(entry.holder)) == (links(token), REQUEST, True)


@pytest.mark.requirement("admin-never-admin", "seed-data-class")
@pytest.mark.parametrize("kind", [call for call in api.CALLS if call.data_class == DataClass.MEMORY])
def test_admin_cap_with_every_op_opens_no_memory(vault: Vault, kind: type[api.Call[Any]]) -> None:
    vault.memory(renewable(vault)).put("hers", namespace="work")
    token = admin(vault, actor=ALICE, ops=[str(one) for one in Op], namespaces=NAMESPACES)
    size = vault.audit.size()
    error = refusal(partial(vault.door(token).call, _call(kind, link(token))))
    assert error.reason == "cap_data_class_mismatch"
    assert (only_entry(vault, size).op, only_entry(vault, size).decision) == (kind.op, "deny")


def _call(kind: type[api.Call[Any]], some_link: str) -> api.Call[Any]:
    given: dict[type, api.Call[Any]] = {
        api.Put: api.Put(lines=(NewLine(text="x", namespace="work"),)),
        api.Deliver: api.Deliver(sealed=b"never opened"),
        api.Observe: api.Observe(what="terminal", digest="0" * 64),
        api.WriteProfile: api.WriteProfile(text="x", namespace="work"),
        api.ReadProfile: api.ReadProfile(namespace="work"),
        api.ReadDocument: api.ReadDocument(key="a", namespace="work"),
        api.WriteDocument: api.WriteDocument(key="a", text="x", namespace="work"),
        api.DeleteDocument: api.DeleteDocument(key="a", namespace="work"),
        api.RenameDocument: api.RenameDocument(key="a", new_key="b", namespace="work"),
        api.ReadDocumentHistory: api.ReadDocumentHistory(key="a", namespace="work"),
        api.Replace: api.Replace(id="01JABCDEFGHJKMNPQRSTVWXYZ0", text="x", namespace="work"),
        api.ReadHistory: api.ReadHistory(id="01JABCDEFGHJKMNPQRSTVWXYZ0", namespace="work"),
        api.Forget: api.Forget(session="s"),
        api.Mint: terms(),
        api.Revoke: api.Revoke(link=some_link),
        api.Prove: api.Prove(index=0),
    }
    return given[kind] if kind in given else kind()


@pytest.mark.requirement("admin-within", "gate-session")
def test_session_bound_admin_cap_mints_for_that_session_alone(vault: Vault, clock: Clock) -> None:
    for token in (admin(vault, session="s"), strongroom.attenuate(admin(vault), session="s", now=clock)):
        for session in (None, "t", "S"):
            assert _refused(vault, token, session=session).reason == "cap_limit_exceeded"
        assert claims(minted(vault, token, session="s")).session == "s"


@pytest.mark.requirement("admin-within", "gate-max-k")
def test_admin_cap_with_max_k_mints_no_larger_one(vault: Vault, clock: Clock) -> None:
    for token in (admin(vault, max_k=3), strongroom.attenuate(admin(vault, max_k=9), max_k=3, now=clock)):
        for max_k in (None, 4, 20):
            assert _refused(vault, token, max_k=max_k).reason == "cap_limit_exceeded"
        assert claims(minted(vault, token, max_k=3)).max_k == 3


@pytest.mark.requirement("admin-within", "cap-narrow")
def test_narrowed_admin_cap_is_held_to_what_is_left(vault: Vault, clock: Clock) -> None:
    parent = admin(vault)
    one = strongroom.attenuate(parent, actor=ALICE, now=clock)
    assert _refused(vault, one, actor=BOB).reason == "cap_limit_exceeded"
    assert _refused(vault, one, actor_scope=SCOPE).reason == "cap_limit_exceeded"
    smaller = strongroom.attenuate(parent, actor_scope=SCOPE + "telegram/", now=clock)
    assert _refused(vault, smaller, actor=ALICE).reason == "cap_limit_exceeded"
    assert claims(minted(vault, smaller, actor=SCOPE + "telegram/7")).actor == SCOPE + "telegram/7"
    travel = strongroom.attenuate(parent, namespaces=["travel", "personal"], now=clock)
    for name in ("work", "personal"):
        assert _refused(vault, travel, namespaces=(name,)).reason == "cap_namespace_denied"
    looking = strongroom.attenuate(parent, ops=["audit"], now=clock)
    assert _refused(vault, looking).reason == "cap_op_mismatch"


@pytest.mark.requirement("admin-within", "bad-cap")
@pytest.mark.parametrize("bad", ["expired", "future", "revoked", "other vault", "stripped", "narrowed revoked"])
def test_admin_cap_that_is_not_valid_mints_nothing(vault: Vault, clock: Clock, bad: str) -> None:
    token = admin(vault)
    narrowed = strongroom.attenuate(token, ops=["mint"], now=clock)
    reason = "cap_revoked"
    if bad == "expired":
        clock.move(3600)
        reason = "cap_expired"
    elif bad in ("future", "other vault"):
        token = chain.mint(
            issuer_seed=vault._state.source.issuer(),
            audience=vault.id if bad == "future" else "0f0e0d0c0b0a0908",
            jti=os.urandom(16),
            holder_seed=os.urandom(32),
            now=clock() // 1000 + 31,
            ttl=3600,
            ops=["mint"],
            namespaces=["work"],
            actor_scope=SCOPE,
            data_class="admin",
        )
        reason = "cap_not_yet_valid" if bad == "future" else "cap_audience"
    elif bad == "stripped":
        first, _, seed = narrowed.split("~")
        before = registry(vault)
        assert refusal(partial(minted, vault, f"{first}~{seed}")).reason == "cap_holder_proof"
        assert registry(vault) == before
        return
    else:
        vault.revoke(token)
        token = narrowed if bad == "narrowed revoked" else token
    assert _refused(vault, token).reason == reason


@pytest.mark.requirement("admin-within", "gate-no-actor")
@pytest.mark.parametrize(
    "lie",
    [
        {"actor": Shifty("local/victim")},
        {"actor_scope": Shifty("local/")},
        {"ops": (Shifty("mint"),)},
        {"namespaces": (Shifty("personal"),)},
    ],
    ids=["actor", "scope", "op", "namespace"],
)
def test_terms_that_lie_about_themselves_are_taken_at_what_they_are(vault: Vault, lie: dict[str, Any]) -> None:
    token = admin(vault, actor=ALICE) if "actor" in lie else admin(vault)
    try:
        made = claims(minted(vault, token, **lie))
    except StrongroomError:
        return
    assert (made.actor or made.actor_scope or "").startswith("hermes/default/")
    assert set(made.ops) <= set(map(str, MEMORY_OPS))
    assert set(made.namespaces_allowed) <= {"work", "travel"}


@pytest.mark.requirement("admin-within")
def test_session_that_lies_about_itself_is_taken_at_what_it_is(vault: Vault) -> None:
    token = admin(vault, session="s")
    try:
        made = claims(minted(vault, token, session=Shifty("t")))
    except StrongroomError:
        return
    assert made.session == "s"


# What it may mint.


@pytest.mark.requirement("admin-mint", "audit-reads", "audit-private")
def test_minted_cap_is_as_asked_for_works_and_is_on_record(vault: Vault, clock: Clock) -> None:
    token = admin(vault, label="console")
    size = vault.audit.size()
    made = minted(vault, token, ttl=7200, session="s", max_k=2, max_depth=0, label="phone", delegable=False)
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.data_class, entry.request) == ("mint", "allow", "admin", REQUEST)
    assert (entry.links, entry.count, entry.detail) == (links(token), 1, f"link {link(made)}")
    assert (entry.actor, bool(entry.holder), [mark.shelf for mark in entry.objects]) == ("", True, ["vault"])
    assert not [text for text in ("hermes", "alice", "phone", made, token) if text in entry.encoded().decode()]
    said = claims(made)
    assert (said.actor, said.ops, said.namespaces_allowed) == (ALICE, ("get", "put", "renew"), ("work",))
    assert (said.session, said.max_k, said.max_depth, said.label, said.cnf) == ("s", 2, 0, "phone", None)
    assert (said.nbf, said.exp, said.data_class) == (clock() // 1000, clock() // 1000 + 7200, "memory")
    vault.memory(made).put("hers")
    assert vault.audit.verify().ok


@pytest.mark.requirement("admin-mint")
def test_registry_knows_with_which_cap_a_cap_was_minted(vault: Vault, clock: Clock) -> None:
    token = strongroom.attenuate(strongroom.attenuate(admin(vault), ops=["mint"], now=clock), ttl=60, now=clock)
    made = minted(vault, token)
    (record,) = [one for one in vault.caps() if one.link == link(made)]
    assert len(links(token)) == 3
    assert (record.parents, record.actor, record.data_class) == (links(token), ALICE, "memory")


@pytest.mark.requirement("admin-mint")
@pytest.mark.parametrize("op", MEMORY_OPS)
def test_every_op_of_the_memory_may_be_minted(vault: Vault, op: Op) -> None:
    assert claims(minted(vault, admin(vault), ops=(op.value,))).ops == (op.value,)


@pytest.mark.requirement("admin-mint")
@pytest.mark.parametrize("scope", [SCOPE, SCOPE + "telegram/"])
def test_scope_inside_the_scope_may_be_minted(vault: Vault, clock: Clock, scope: str) -> None:
    made = minted(vault, admin(vault), actor_scope=scope)
    assert (claims(made).actor, claims(made).actor_scope) == (None, scope)
    vault.memory(strongroom.attenuate(made, actor=scope + "7", now=clock)).put("his")


@pytest.mark.requirement("admin-mint", "erase-void")
def test_cap_minted_for_an_erased_actor_starts_anew(vault: Vault) -> None:
    token = admin(vault)
    old = minted(vault, token)
    vault.memory(old).put("old")
    vault.erase(ALICE)
    fresh = minted(vault, token)
    assert (standing(vault, old), standing(vault, fresh)) == ("cap_revoked", "")
    assert vault.memory(fresh).get("old") == []


@pytest.mark.requirement("admin-mint")
def test_duplicates_in_the_terms_count_once(vault: Vault) -> None:
    made = claims(minted(vault, admin(vault), ops=("get",) * 5000, namespaces=("work",) * 5000))
    assert (made.ops, made.namespaces_allowed) == (("get",), ("work",))


@pytest.mark.requirement("secrets-hidden")
def test_no_repr_of_what_carries_a_cap_shows_it(vault: Vault) -> None:
    token = admin(vault)
    answer = vault.door(token).call(terms())
    door = vault.door(token, request=REQUEST)
    shown = [repr(answer), repr(door), repr(door._caller), repr(vault.memory(token)), str(door._caller), repr([door])]
    for secret in (token, answer.cap):
        assert not [text for text in shown for part in secret.split("~") if part in text]
    assert not [entry for entry in entries(vault) if Token(answer.cap) in entry.encoded().decode()]


# How long a cap lasts.


@pytest.mark.requirement("cap-life")
def test_cap_without_a_ttl_lasts_thirty_days_from_the_owner_and_from_an_admin_cap(vault: Vault) -> None:
    own = vault.mint(actor=ALICE, ops=["get"], namespaces=["work"])
    body = b'{"actor": "hermes/default/alice", "ops": ["get"], "namespaces": ["work"]}'
    asked = msgspec.json.decode(body, type=api.Mint)
    other = vault.door(admin(vault)).call(asked).cap
    for token in (own, other):
        first = chain.parse(token).first
        assert first.exp - first.nbf == 30 * 86_400


@pytest.mark.requirement("cap-life")
@pytest.mark.parametrize("ttl", [0, -1, 400 * 86_400 + 1, 1.5])
def test_life_outside_the_limits_is_refused_and_not_replaced_by_the_default(vault: Vault, ttl: Any) -> None:
    refused = refusal(lambda: vault.mint(actor=ALICE, ops=["get"], namespaces=["work"], ttl=ttl))
    assert refused.reason == "invalid_request"
    assert list(vault.caps()) == []
