"""The gate, mostly by itself: a pure function of token, question, time and what has been taken back."""

from __future__ import annotations

import ast
import inspect
import sys
import threading
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from scripts.vectors_cap import AUDIENCE, HOLDERS, ISSUERS, NOW, STRANGER, b64, chain, joined, link_id

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, gate
from strongroom.caps import chain as cap
from strongroom.errors import CapNamespaceDenied, Denied, InvalidRequest, StrongroomError
from strongroom.gate import NEVER, AdminGrant, Ask, Gate, Grant, Revocations
from strongroom.model import Actor, DataClass, LinkId, Op
from tests.caps.chains import mint, narrow
from tests.conftest import NAMESPACES, Clock

SOURCES = Path(strongroom.__file__).parent


def _gate(*, revoked: Collection[str] = (), not_before: dict[str, int] | None = None) -> Gate:
    standing = Revocations(lambda actor: f"locator of {actor}")
    standing.revoked.update(map(LinkId, revoked))
    standing.not_before.update({f"locator of {actor}": second for actor, second in (not_before or {}).items()})
    return Gate(AUDIENCE, ISSUERS, standing)


def _refusal(held: Gate, token: str, ask: Ask, now: int = NOW) -> StrongroomError:
    with pytest.raises(StrongroomError) as caught:
        held.admit(token, ask, now)
    return caught.value


def _reason(token: str, ask: Ask, now: int = NOW) -> str:
    return _refusal(_gate(), token, ask, now).reason


def _get(namespaces: Collection[str] | None = None, **changes: Any) -> Ask:
    return Ask.of(Op.GET, namespaces, **changes)


# The order of checks.

ORDER = [
    "cap_malformed",
    "cap_signature_invalid",
    "cap_holder_proof",
    "cap_audience",
    "cap_expired",
    "cap_revoked",
    "cap_op_mismatch",
    "cap_data_class_mismatch",
    "cap_namespace_denied",
    "cap_limit_exceeded",
]


def _wrong_in(defects: Collection[str]) -> tuple[Gate, str, Ask]:
    """A gate, a token and a question that are wrong in exactly these ways."""
    sound = mint(
        ops=["put"] if "cap_op_mismatch" in defects else ["get"],
        data_class="credentials" if "cap_data_class_mismatch" in defects else "memory",
        namespaces=["work"] if "cap_namespace_denied" in defects else ["travel"],
        session="other" if "cap_limit_exceeded" in defects else "s",
        max_k=3,
        audience="0f0e0d0c0b0a0908" if "cap_audience" in defects else AUDIENCE,
        now=NOW - 300 if "cap_expired" in defects else NOW,
    )
    link, _, seed = sound.partition("~")
    held = _gate(revoked=[link_id(link)] if "cap_revoked" in defects else [])
    if "cap_holder_proof" in defects:
        seed = b64(HOLDERS[7])
    if "cap_signature_invalid" in defects:
        link = link.rpartition(".")[0] + "." + b64(bytes(64))
    token = link + ("=" if "cap_malformed" in defects else "") + "~" + seed
    return held, token, _get(["travel"], session="s", k=9 if "cap_limit_exceeded" in defects else 3)


@pytest.mark.requirement("gate-order")
@pytest.mark.parametrize("place", range(len(ORDER)))
def test_cap_wrong_in_several_ways_is_refused_for_the_first_in_order(place: int) -> None:
    held, token, ask = _wrong_in(ORDER[place:])
    assert _refusal(held, token, ask).reason == ORDER[place]


@pytest.mark.requirement("gate-order")
@pytest.mark.parametrize("reason", ORDER)
def test_cap_wrong_in_one_way_is_refused_for_that(reason: str) -> None:
    held, token, ask = _wrong_in([reason])
    assert _refusal(held, token, ask).reason == reason


@pytest.mark.requirement("gate-order")
def test_cap_wrong_in_no_way_is_admitted() -> None:
    held, token, ask = _wrong_in([])
    granted = held.admit(token, ask, NOW)
    assert granted == Grant(
        op=Op.GET,
        actor=Actor("local/alice"),
        namespaces=granted.namespaces,
        allowed=granted.namespaces,
        session="s",
        k=3,
        links=(LinkId(link_id(token.split("~")[0])),),
        holder=granted.holder,
        issued=granted.issued,
        most=granted.most,
        max_k=granted.max_k,
    )
    assert granted.namespaces == {"travel"}
    assert granted.holder


@pytest.mark.requirement("gate-order")
@pytest.mark.parametrize("place", range(4, len(ORDER)))
def test_order_is_the_same_for_a_cap_that_was_admitted_before(place: int) -> None:
    _, token, ask = _wrong_in(ORDER[max(place, 6) :])
    held = _gate()
    for op in ("get", "put"):  # whichever it allows, so that the cap is known to the gate
        with pytest.raises(StrongroomError):
            held.admit(token, Ask(Op(op), frozenset(["nowhere"]), unnamed=False), NOW)
    if ORDER[place] in ("cap_expired", "cap_revoked"):
        held._standing.revoked.add(LinkId(link_id(token.split("~")[0])))
    now = NOW + 300 if ORDER[place] == "cap_expired" else NOW
    assert _refusal(held, token, ask, now).reason == ORDER[place]


# Data class.


@pytest.mark.requirement("seed-data-class")
@pytest.mark.parametrize("op", list(Op))
@pytest.mark.parametrize("data_class", ["credentials", "admin"])
def test_cap_for_another_data_class_is_refused_with_the_matching_op(op: Op, data_class: str) -> None:
    token = mint(ops=[op], data_class=data_class)
    assert _reason(token, Ask(op)) == "cap_data_class_mismatch"
    assert _reason(mint(ops=[op]), Ask(op, data_class=DataClass(data_class))) == "cap_data_class_mismatch"
    assert _gate().admit(token, Ask(op, data_class=DataClass(data_class)), NOW).op == op


@pytest.mark.parametrize("op", list(Op))
def test_op_outside_the_cap_is_refused(op: Op) -> None:
    others = [other for other in Op if other != op]
    assert _reason(mint(ops=others), Ask(op)) == "cap_op_mismatch"
    assert _reason(mint(ops=[]), Ask(op)) == "cap_op_mismatch"


# Namespaces.


@pytest.mark.requirement("gate-empty")
@pytest.mark.parametrize("ask", [_get(), _get(["travel"]), _get([]), _get(["travel", "work"])])
def test_empty_namespace_set_admits_nothing(ask: Ask) -> None:
    assert _reason(mint(namespaces=[]), ask) == "cap_namespace_denied"
    assert _reason(narrow(mint(), namespaces=[]), ask) == "cap_namespace_denied"
    assert _reason(narrow(mint(namespaces=["travel"]), namespaces=["work"]), ask) == "cap_namespace_denied"


@pytest.mark.requirement("gate-unnamed")
def test_request_that_names_no_namespace_gets_exactly_the_caps_own() -> None:
    granted = _gate().admit(mint(namespaces=["travel", "work"]), _get(), NOW)
    assert granted.namespaces == granted.allowed == {"travel", "work"}


@pytest.mark.requirement("gate-unnamed")
def test_request_that_names_some_gets_those_alone() -> None:
    held = _gate()
    for named in (["travel"], ["work"], ["travel", "work"], "travel"):
        granted = held.admit(mint(), _get(named), NOW)
        assert granted.namespaces == ({named} if isinstance(named, str) else set(named))
        assert granted.allowed == {"travel", "work"}


@pytest.mark.requirement("gate-unnamed")
def test_request_that_names_an_empty_list_is_granted_no_namespace() -> None:
    assert _gate().admit(mint(), _get([]), NOW).namespaces == frozenset()


@pytest.mark.requirement("gate-unnamed")
def test_batch_that_names_some_and_leaves_some_open_is_checked_for_both() -> None:
    mixed = Ask(Op.PUT, frozenset(["travel"]), unnamed=True)
    assert _gate().admit(mint(), mixed, NOW).namespaces == {"travel", "work"}
    outside = Ask(Op.PUT, frozenset(["travel", "personal"]), unnamed=True)
    assert _reason(mint(), outside) == "cap_namespace_denied"


@pytest.mark.requirement("gate-same-denial")
def test_one_namespace_outside_the_cap_denies_the_whole_request() -> None:
    assert _reason(mint(), _get(["travel", "personal"])) == "cap_namespace_denied"


@pytest.mark.requirement("gate-same-denial")
def test_every_denied_namespace_gets_the_same_answer() -> None:
    held, token = _gate(), mint(namespaces=["travel"])
    answers = {
        (type(error), error.reason, error.message, error.hint)
        for name in (*NAMESPACES, "nowhere", "x", "travel-2", "a" * 32)
        if name != "travel"
        for error in [_refusal(held, token, _get([name]))]
    }
    assert [answer[0] for answer in answers] == [CapNamespaceDenied]


@pytest.mark.requirement("gate-same-denial")
def test_denied_namespace_is_answered_alike_whether_registered_filled_or_unknown(vault: Vault) -> None:
    full = vault.mint(actor="local/alice", ops=["put"], namespaces=["personal"])
    vault.memory(full).put("the safe is behind the painting")
    travel = vault.mint(actor="local/alice", ops=[str(op) for op in Op], namespaces=["travel"])
    vault.memory(travel).put("a trip")
    memory = vault.memory(travel)
    calls: list[Callable[[str], object]] = [
        lambda name: memory.put("text", namespace=name),
        lambda name: memory.get("safe", namespaces=[name]),
        lambda name: memory.get("safe", namespaces=["travel", name]),
        lambda name: memory.list(namespaces=[name]),
        lambda name: memory.snapshot(namespaces=[name]),
        lambda name: memory.profile(name),
        lambda name: memory.set_profile("text", namespace=name),
        lambda name: memory.forget(namespaces=[name]),
        lambda name: memory.erase([name]),
    ]
    for call in calls:
        answers = set()
        for name in ("personal", "family", "nowhere"):  # holds a line, holds none, is not registered
            with pytest.raises(Denied) as caught:
                call(name)
            answers.add((caught.value.reason, str(caught.value), caught.value.message, caught.value.hint))
        assert len(answers) == 1
        assert answers.pop()[0] == "cap_namespace_denied"


@pytest.mark.parametrize("name", ["", "Travel", "travel ", "*", "../x", "é", "\ud800", "a" * 33, "1", "a/b", "a\n"])
def test_malformed_namespace_is_an_invalid_request(name: str) -> None:
    assert _reason(mint(), _get([name])) == "invalid_request"


# Limits.


@pytest.mark.requirement("gate-session")
def test_cap_bound_to_a_session_is_refused_in_another() -> None:
    for token in (mint(session="s"), narrow(mint(), session="s")):
        assert _gate().admit(token, _get(session="s"), NOW).session == "s"
        assert _reason(token, _get(session="t")) == "cap_limit_exceeded"
        assert _reason(token, _get(session="")) == "cap_limit_exceeded"
        assert _reason(token, Ask(Op.GET, sessions=frozenset(["s", "t"]))) == "cap_limit_exceeded"


@pytest.mark.requirement("gate-session")
def test_request_without_session_takes_the_caps() -> None:
    assert _gate().admit(mint(session="s"), _get(), NOW).session == "s"
    assert _gate().admit(mint(), _get(session="t"), NOW).session is None


@pytest.mark.requirement("gate-max-k")
def test_max_k_caps_k() -> None:
    held = _gate()
    for token in (mint(max_k=3), narrow(mint(), max_k=3), narrow(mint(max_k=3), max_k=9)):
        assert held.admit(token, _get(k=3), NOW).k == 3
        assert _reason(token, _get(k=4)) == "cap_limit_exceeded"
        assert _reason(token, _get(k=20)) == "cap_limit_exceeded"


@pytest.mark.requirement("gate-max-k", "seed-top-k")
def test_k_is_5_by_default_or_capped() -> None:
    held = _gate()
    assert held.admit(mint(), _get(), NOW).k == 5
    assert held.admit(mint(max_k=20), _get(), NOW).k == 5
    assert held.admit(mint(max_k=2), _get(), NOW).k == 2


@pytest.mark.requirement("gate-max-k", "seed-top-k")
def test_k_lies_between_1_and_20() -> None:
    held = _gate()
    assert [held.admit(mint(), _get(k=k), NOW).k for k in (1, 20)] == [1, 20]
    assert _reason(mint(), _get(k=21)) == "too_many"
    for bad in (0, -1, 2.5, "5"):
        assert _reason(mint(), _get(k=bad)) == "invalid_request"


# What has been taken back.


@pytest.mark.requirement("cap-revoke")
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("place", range(3))
def test_revoking_any_link_of_a_chain_kills_the_cap_cached_or_not(place: int, cached: bool) -> None:
    held = _gate()
    token = narrow(narrow(mint(), ops=["get"]), namespaces=["travel"])
    if cached:
        assert held.admit(token, _get(), NOW).links
    held._standing.revoked.add(cap.parse(token).links[place].id)
    assert _refusal(held, token, _get()).reason == "cap_revoked"


@pytest.mark.requirement("cap-revoke")
def test_revoking_a_narrowed_cap_leaves_its_parent_and_its_siblings() -> None:
    parent = mint()
    child, sibling = narrow(parent, ops=["get"]), narrow(parent, ops=["get", "list"])
    held = _gate(revoked=[cap.parse(child).links[-1].id])
    assert _refusal(held, child, _get()).reason == "cap_revoked"
    assert held.admit(parent, _get(), NOW).actor == held.admit(sibling, _get(), NOW).actor == "local/alice"


@pytest.mark.requirement("cap-revoke")
@pytest.mark.parametrize("cached", [False, True])
def test_caps_of_an_actor_issued_before_its_moment_are_void(cached: bool) -> None:
    held = _gate()
    token = narrow(mint(now=NOW - 10), now=NOW)
    if cached:
        held.admit(token, _get(), NOW)
    held._standing.not_before["locator of local/alice"] = NOW - 10
    assert held.admit(token, _get(), NOW).actor == "local/alice"
    held._standing.not_before["locator of local/alice"] = NOW - 9
    assert _refusal(held, token, _get()).reason == "cap_revoked"


@pytest.mark.requirement("cap-revoke")
def test_moment_of_one_actor_leaves_another_alone() -> None:
    held = _gate(not_before={"local/bob": NOW + 100})
    assert held.admit(mint(), _get(), NOW).actor == "local/alice"
    assert _refusal(held, mint(actor="local/bob"), _get()).reason == "cap_revoked"


@pytest.mark.requirement("cap-revoke", "cap-scope")
def test_moment_of_an_actor_also_voids_a_scope_narrowed_to_it() -> None:
    held = _gate(not_before={"local/bob": NOW + 1})
    scope = mint(actor_scope="local/")
    assert _refusal(held, narrow(scope, actor="local/bob"), _get()).reason == "cap_revoked"
    assert held.admit(narrow(scope, actor="local/alice"), _get(), NOW).actor == "local/alice"


@pytest.mark.requirement("cap-revoke")
def test_moment_is_told_to_a_cap_made_for_the_actor_and_to_no_scope_narrowed_to_it() -> None:
    held = _gate(not_before={"local/bob": NOW + 1, "local/carol": NOW + 100})
    scope = mint(actor_scope="local/")
    said = _refusal(held, mint(actor="local/bob"), _get()).message
    assert f"{datetime.fromtimestamp(NOW + 1, UTC):%Y-%m-%d %H:%M:%S} UTC" in said
    bob, carol = (_refusal(held, narrow(scope, actor=f"local/{name}"), _get()) for name in ("bob", "carol"))
    assert (bob.reason, bob.message, bob.hint) == (carol.reason, carol.message, carol.hint)
    unreadable = _gate(not_before={"local/bob": NEVER})
    assert _refusal(unreadable, mint(actor="local/bob"), _get()).reason == "cap_revoked"


@pytest.mark.requirement("cap-scope")
def test_scope_that_names_no_actor_is_refused_whatever_it_asks() -> None:
    scope = mint(actor_scope="hermes/default/", ops=list(Op))
    smaller = narrow(scope, actor_scope="hermes/default/telegram/")
    held = _gate()
    for token in (scope, smaller):
        for op in Op:
            error = _refusal(held, token, Ask(op))
            assert error.reason == "cap_malformed"
            assert (len(error.links), error.actor) == (token.count("~"), None)
    granted = held.admit(narrow(smaller, actor="hermes/default/telegram/7"), _get(), NOW)
    assert granted.actor == "hermes/default/telegram/7"


# What a refusal carries for the log.


@pytest.mark.parametrize("reason", ORDER[4:])
def test_refusal_of_a_valid_cap_says_whose_it_was(reason: str) -> None:
    held, token, ask = _wrong_in([reason])
    error = _refusal(held, token, ask)
    assert error.links == (link_id(token.split("~")[0]),)
    assert error.actor == "local/alice"
    assert error.holder == _gate().admit(mint(), _get(), NOW).holder


@pytest.mark.parametrize("ask", [_get(["Bad Name"]), _get(k=0), _get(k=21)])
def test_invalid_request_under_a_valid_cap_says_whose_it_was(ask: Ask) -> None:
    error = _refusal(_gate(), mint(), ask)
    assert (len(error.links), error.actor) == (1, "local/alice")
    assert error.holder


@pytest.mark.requirement("audit-garbage")
@pytest.mark.parametrize(
    "token",
    [
        "",
        "garbage",
        mint(issuer_seed=STRANGER),
        mint(issuer_seed=STRANGER, audience="0f0e0d0c0b0a0908"),
        _wrong_in(["cap_signature_invalid"])[1],
        _wrong_in(["cap_malformed"])[1],
        joined(chain({}), HOLDERS[0])[:-1],
    ],
)
def test_refusal_before_link_0_is_valid_says_nothing_about_anybody(token: str) -> None:
    error = _refusal(_gate(), token, _get())
    assert (error.links, error.actor, error.holder) == ((), None, "")


@pytest.mark.parametrize("reason", ["cap_holder_proof", "cap_audience"])
def test_refusal_after_link_0_is_valid_names_the_links(reason: str) -> None:
    held, token, ask = _wrong_in([reason])
    error = _refusal(held, token, ask)
    assert error.links == (link_id(token.split("~")[0]),)
    assert error.actor == "local/alice"


# Offices: requests to the vault itself, which open no memory.


def _office(held: Gate, token: str, ask: Ask, now: int = NOW) -> StrongroomError:
    with pytest.raises(StrongroomError) as caught:
        held.appoint(token, ask, now)
    return caught.value


@pytest.mark.requirement("gate-order", "gate-office")
@pytest.mark.parametrize("place", range(ORDER.index("cap_namespace_denied")))
def test_office_is_refused_for_the_first_rule_in_the_same_order(place: int) -> None:
    held, token, ask = _wrong_in(ORDER[place : ORDER.index("cap_namespace_denied")])
    error = _office(held, token, ask)
    assert error.reason == ORDER[place]
    told = _refusal(held, token, ask)
    assert (error.message, error.hint, error.links, error.actor, error.holder) == (
        (told.message, told.hint, told.links, told.actor, told.holder)
    )


@pytest.mark.requirement("gate-office", "seed-data-class")
@pytest.mark.parametrize("op", list(Op))
@pytest.mark.parametrize("asked", list(DataClass))
@pytest.mark.parametrize("shown", list(DataClass))
def test_office_needs_the_op_and_the_very_class(op: Op, asked: DataClass, shown: DataClass) -> None:
    ask = Ask(op, data_class=asked)
    others = [other for other in Op if other != op]
    assert _office(_gate(), mint(ops=others, data_class=shown), ask).reason == "cap_op_mismatch"
    token = mint(ops=[op], data_class=shown)
    if asked != shown:
        assert _office(_gate(), token, ask).reason == "cap_data_class_mismatch"
    else:
        given = _gate().appoint(token, ask, NOW)
        assert given == AdminGrant(op, asked, cap.verify(token, ISSUERS, AUDIENCE, NOW))


@pytest.mark.requirement("gate-office", "cap-scope")
def test_office_is_open_to_a_scope_and_says_what_it_covers() -> None:
    scope = mint(actor_scope="hermes/default/", ops=["mint"], data_class="admin")
    ask = Ask(Op.MINT, data_class=DataClass.ADMIN)
    given = _gate().appoint(narrow(scope, actor_scope="hermes/default/telegram/"), ask, NOW)
    assert (given.cap.actor, given.cap.actor_scope) == (None, "hermes/default/telegram/")
    assert _refusal(_gate(), scope, ask).reason == "cap_malformed"


@pytest.mark.requirement("gate-office", "cap-revoke")
@pytest.mark.parametrize("cached", [False, True])
def test_office_is_checked_for_time_and_revocation_at_each_use(cached: bool) -> None:
    token = narrow(mint(ops=["renew"]), ops=["renew"])
    ask = Ask(Op.RENEW)
    for take_back, now, reason in (
        (lambda held: held.revoked.add(cap.parse(token).links[0].id), NOW, "cap_revoked"),
        (lambda held: held.revoked.add(cap.parse(token).links[1].id), NOW, "cap_revoked"),
        (lambda held: held.not_before.update({"locator of local/alice": NOW + 1}), NOW, "cap_revoked"),
        (lambda held: None, NOW + 300, "cap_expired"),
        (lambda held: None, NOW - 31, "cap_not_yet_valid"),
    ):
        held = _gate()
        if cached:
            held.appoint(token, ask, NOW)
            held.check(token, NOW)
        take_back(held._standing)
        assert _office(held, token, ask, now).reason == reason
        with pytest.raises(StrongroomError) as caught:
            held.check(token, now)
        assert caught.value.reason == reason
        assert (len(caught.value.links), caught.value.actor, bool(caught.value.holder)) == (2, "local/alice", True)


@pytest.mark.requirement("gate-office", "audit-garbage")
@pytest.mark.parametrize("token", ["", "garbage", "x" * 9000, mint(issuer_seed=STRANGER)])
def test_garbage_gets_no_office_and_is_put_on_nobodys_account(token: str) -> None:
    for decide in (partial(_gate().appoint, token, Ask(Op.RENEW), NOW), partial(_gate().check, token, NOW)):
        with pytest.raises(Denied) as caught:
            decide()
        assert (caught.value.links, caught.value.actor, caught.value.holder) == ((), None, "")


@pytest.mark.requirement("gate-office")
def test_sound_cap_of_any_class_op_or_scope_passes_the_check() -> None:
    held = _gate()
    for token in (mint(ops=[]), mint(namespaces=[]), mint(actor_scope="a/"), mint(data_class="credentials")):
        assert held.check(token, NOW) == cap.verify(token, ISSUERS, AUDIENCE, NOW)


@pytest.mark.requirement("gate-office", "gate-grant")
def test_only_the_gate_makes_an_admin_grant() -> None:
    makers = [
        path.relative_to(SOURCES).as_posix()
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "AdminGrant"
    ]
    assert makers == ["gate.py"]


# Grants.


@pytest.mark.requirement("gate-grant")
def test_only_the_gate_makes_a_grant() -> None:
    makers = [
        path.relative_to(SOURCES).as_posix()
        for path in sorted(SOURCES.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _makes_a_grant(node)
    ]
    assert makers == ["gate.py"]


def _makes_a_grant(call: ast.Call) -> bool:
    """Whether a call is `Grant(...)`, however it is reached, or a changed copy of a grant."""
    called = ast.unparse(call.func)
    copied = called.split(".")[-1] in ("replace", "__replace__", "copy", "deepcopy")
    touches = any("grant" in ast.unparse(argument).lower() for argument in [call.func, *call.args])
    return called.split(".")[-1] == "Grant" or (copied and touches)


@pytest.mark.requirement("gate-grant")
def test_grant_cannot_be_changed() -> None:
    granted = _gate().admit(mint(), _get(["travel"]), NOW)
    for field in Grant.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(granted, field, None)


@pytest.mark.requirement("gate-no-actor")
def test_no_request_can_name_an_actor() -> None:
    words = ("actor", "user", "owner", "scope", "tenant", "subject")
    names = [*Ask.__struct_fields__, *NewLine.__struct_fields__]
    methods = [method for name, method in inspect.getmembers(Memory, inspect.isfunction) if not name.startswith("_")]
    assert len(methods) >= 8
    for method in methods:
        names += inspect.signature(method).parameters
    assert not [name for name in names if any(word in name.lower() for word in words)]


# The cache.


def _numbered(count: int) -> list[Token]:
    return [mint(jti=place.to_bytes(16, "big"), holder_seed=None) for place in range(count)]


def test_cache_of_verified_caps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_CACHED", 8)
    held = _gate()
    for token in _numbered(40):
        held.admit(token, _get(), NOW)
        assert len(held._verified) <= 8
    assert len(held._verified) == 8


def test_bound_of_the_cache_is_a_few_thousand() -> None:
    assert 1000 <= gate._CACHED <= 10_000


def test_cap_known_to_the_gate_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    held = _gate()
    token = mint()
    granted = held.admit(token, _get(), NOW)
    monkeypatch.setattr(cap, "verify", lambda *_: pytest.fail("verified again"))
    assert held.admit(token, _get(), NOW) == granted
    assert _refusal(held, token, Ask(Op.ERASE)).reason == "cap_op_mismatch"


def test_time_is_checked_again_on_a_known_cap() -> None:
    held = _gate()
    token = mint(ttl=300)
    assert held.admit(token, _get(), NOW).actor
    assert held.admit(token, _get(), NOW + 299).actor
    assert _refusal(held, token, _get(), NOW + 300).reason == "cap_expired"
    assert _refusal(held, token, _get(), NOW - 31).reason == "cap_not_yet_valid"
    assert held.admit(token, _get(), NOW).actor


def test_refused_token_is_not_kept() -> None:
    held = _gate()
    token = mint()
    for bad in ("garbage", token[:-1], token.split("~")[0], mint(issuer_seed=STRANGER), mint(now=NOW - 300)):
        _refusal(held, bad, _get())
    assert not held._verified


def test_cached_decision_does_not_hold_the_token_itself() -> None:
    held = _gate()
    token = mint()
    held.admit(token, _get(), NOW)
    assert token.split("~")[1] not in repr(held._verified)
    assert not [key for key in held._verified if token.encode() in key or len(key) != 32]


class _Stepped:
    """A call in a thread of its own, which stops after its n-th call into C from the gate until it may go on."""

    def __init__(self, call: Callable[[], object], stop_after: int) -> None:
        self.error: Exception | None = None
        self.steps = 0
        self._call, self._stop_after = call, stop_after
        self._stopped, self._may_go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Run until it stops or ends; one that waits for a lock is not waited for long."""
        self._thread.start()
        self._stopped.wait(0.01)

    def finish(self) -> None:
        self._may_go_on.set()

    def join(self) -> None:
        self._thread.join()

    def _run(self) -> None:
        sys.setprofile(self._step)
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - shown by the test that looks at it
            self.error = error
        finally:
            sys.setprofile(None)
            self._stopped.set()

    def _step(self, frame: FrameType, event: str, _: object) -> None:
        if event == "c_return" and frame.f_code.co_filename == gate.__file__:
            self.steps += 1
            if self.steps == self._stop_after:
                self._stopped.set()
                self._may_go_on.wait()


def test_threads_that_share_a_full_cache_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_CACHED", 2)
    known = cap.verify(mint(), ISSUERS, AUDIENCE, NOW)
    monkeypatch.setattr(cap, "verify", lambda *_: known)  # the cache is what is tested, not the signature
    monkeypatch.setattr(gate, "_lineage", hash)
    one_stops = steps = 1
    while one_stops <= steps:
        for other_stops in range(1, 16):
            held = _gate()
            held.admit("a", _get(), NOW)
            held.admit("b", _get(), NOW)
            one = _Stepped(partial(held.admit, "c", _get(), NOW), one_stops)
            other = _Stepped(partial(held.admit, "d", _get(), NOW), other_stops)
            one.start()
            other.start()
            one.finish()
            other.finish()
            one.join()
            other.join()
            assert (one.error, other.error) == (None, None), (one_stops, other_stops)
            steps = max(steps, one.steps)
        one_stops += 1
    assert steps > 4


# Through the vault.


@pytest.mark.requirement("bad-cap")
def test_every_bad_cap_gets_its_reason_from_an_open_vault(
    vault: Vault, keys: FileKeys, clock: Clock, tmp_path: Path
) -> None:
    good = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=60)
    vault.memory(good).put("a trip")
    child = strongroom.attenuate(good, ops=["get"], now=clock)
    revoked = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"])
    vault.revoke(revoked)
    ahead = clock() // 1000 + 31
    future = mint(issuer_seed=keys.issuer(), audience=vault.id, now=ahead, namespaces=["travel"])
    with strongroom.create(tmp_path / "vault 2", keys=FileKeys(tmp_path / "keys 2"), now=clock) as other:
        foreign = other.mint(actor="local/alice", ops=["get"], namespaces=["travel"])
    bad = {
        "": "cap_missing",
        good + "x": "cap_malformed",
        child.split("~")[0] + "~" + child.split("~")[2]: "cap_holder_proof",
        good.split("~")[0] + "~" + child.split("~")[1]: "cap_holder_proof",
        foreign: "cap_audience",
        future: "cap_not_yet_valid",
        revoked: "cap_revoked",
    }
    for token, reason in bad.items():
        with pytest.raises(Denied) as caught:
            vault.memory(token).get("trip")
        assert caught.value.reason == reason
    clock.move(60)
    for token in (good, child):
        with pytest.raises(Denied) as caught:
            vault.memory(token).get("trip")
        assert caught.value.reason == "cap_expired"


@pytest.mark.requirement("bad-cap")
@pytest.mark.parametrize("wide", [{"actor": "local/bob"}, {"actor_scope": "local/"}, {"session": "t"}])
def test_widening_link_is_refused_where_it_is_made(vault: Vault, clock: Clock, wide: dict[str, Any]) -> None:
    held = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], session="s")
    with pytest.raises(InvalidRequest):
        strongroom.attenuate(held, now=clock, **wide)


@pytest.mark.requirement("bad-cap")
@pytest.mark.parametrize("name", ["\ud800", "Bad Name", "x" * 1000])
def test_malformed_namespace_is_an_invalid_request_through_the_vault_too(vault: Vault, cap: Token, name: str) -> None:
    memory = vault.memory(cap)
    memory.put("a trip", namespace="travel")
    with pytest.raises(InvalidRequest):
        memory.get("trip", namespaces=[name])
    with pytest.raises(InvalidRequest):
        memory.put("trip", namespace=name)
