"""Attenuation never widens: random links, honest and hostile, compared with what they were added to."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from scripts.vectors_cap import AUDIENCE, ISSUERS, NOW, b64, cnf, joined, later, public, sign

from strongroom.caps import chain
from strongroom.caps.chain import MAX_LINKS, Cap
from strongroom.errors import CapMalformed, Denied, InvalidRequest
from strongroom.gate import Ask, Gate, Grant, Revocations
from strongroom.model import DataClass, Op
from tests.caps.chains import mint, narrow, verified

OPS = [str(op) for op in Op]
NAMESPACES = ["family", "health", "personal", "travel", "work"]
ACTORS = ["a", "a/b", "a/b/c", "a/b/d", "a/bc", "b", "b/a"]
SCOPES = ["a/", "a/b/", "a/b/c/", "b/"]
SESSIONS = ["s1", "s2", "S1"]


def _some(random: Random, values: list[str]) -> list[str]:
    return sorted(random.sample(values, random.randint(0, len(values))))


def _perhaps(random: Random, value: Any) -> Any:
    return value if random.random() < 0.35 else None


def _narrowing(random: Random) -> dict[str, Any]:
    """Any claims that a later link may have, often more than its parent allows."""
    who = random.choice([{}, {}, {"actor": random.choice(ACTORS)}, {"actor_scope": random.choice(SCOPES)}])
    return {
        **who,
        "nbf": _perhaps(random, NOW + random.randint(-500, 30)),
        "exp": _perhaps(random, NOW + random.randint(1, 900)),
        "ops": _perhaps(random, _some(random, OPS)),
        "namespaces_allowed": _perhaps(random, _some(random, NAMESPACES)),
        "session": _perhaps(random, random.choice(SESSIONS)) if random.random() < 0.4 else None,
        "max_k": _perhaps(random, random.randint(1, 20)),
        "max_depth": _perhaps(random, random.randint(0, 9)),
        "label": _perhaps(random, "label"),
    }


def _start(random: Random, holder: bytes) -> str:
    who: dict[str, Any] = {"actor": random.choice(ACTORS)}
    if random.random() < 0.5:
        who = {"actor_scope": random.choice(SCOPES)}
    return mint(
        **who,
        holder_seed=holder,
        ttl=random.randint(1, 900),
        data_class=random.choice(list(DataClass)),
        ops=_some(random, OPS),
        namespaces=_some(random, NAMESPACES),
        session=_perhaps(random, random.choice(SESSIONS)),
        max_k=_perhaps(random, random.randint(1, 20)),
        max_depth=_perhaps(random, random.randint(1, 9)),
    )


def _forged(token: str, holder: bytes, next_holder: bytes, claims: dict[str, Any]) -> str:
    """One more link, signed by the holder whatever it says: a hostile holder does not use our code."""
    links = token.split("~")[:-1]
    link = sign(holder, later(links[-1], cnf=cnf(public(next_holder)), **claims))
    return joined([*links, link], next_holder)


def _verified_or_refused(token: str) -> Cap | None:
    try:
        return verified(token)
    except CapMalformed:
        return None


def _assert_no_wider(child: Cap, parent: Cap) -> None:
    assert child.ops <= parent.ops
    assert child.namespaces <= parent.namespaces
    assert child.data_class == parent.data_class
    assert child.nbf >= parent.nbf
    assert child.exp <= parent.exp
    assert child.issued == parent.issued
    assert parent.session is None or child.session == parent.session
    assert parent.max_k is None or (child.max_k is not None and child.max_k <= parent.max_k)
    assert child.depth_left < parent.depth_left
    assert child.links[:-1] == parent.links
    if parent.actor is not None:
        assert (child.actor, child.actor_scope) == (parent.actor, parent.actor_scope)
        return
    assert parent.actor_scope is not None
    assert child.actor_scope is not None
    assert child.actor_scope.startswith(parent.actor_scope)
    assert child.actor is None or child.actor.startswith(child.actor_scope)


def _admitted(token: str, ask: Ask) -> Grant | None:
    try:
        return Gate(AUDIENCE, ISSUERS, Revocations(str)).admit(token, ask, NOW)
    except Denied:
        return None


def _ask(random: Random) -> Ask:
    return Ask(
        op=random.choice(list(Op)),
        namespaces=frozenset(random.sample(NAMESPACES, random.randint(0, 2))),
        unnamed=random.random() < 0.5,
        sessions=frozenset(random.sample(SESSIONS, random.randint(0, 1))),
        k=random.choice([None, 1, 5, 20]),
        data_class=random.choice(list(DataClass)),
    )


def _assert_admits_no_more(child: str, parent: str, ask: Ask) -> bool:
    granted = _admitted(child, ask)
    if granted is None:
        return False
    before = _admitted(parent, ask)
    if before is None:
        # Only a scope admits less than what was narrowed from it: it names nobody yet.
        assert verified(parent).actor is None
        return True
    assert granted.namespaces <= before.namespaces
    assert granted.allowed <= before.allowed
    assert granted.k <= before.k
    assert granted.actor == before.actor
    assert before.session in (None, granted.session)
    return True


@pytest.mark.requirement("cap-narrow")
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_random_attenuations_never_widen_any_part_of_the_authority(count: int) -> None:
    random = Random(20260522)
    made = refused = admitted = 0
    token, holder = "", b""
    while made < count:
        if not token or random.random() < 0.2:
            holder = random.randbytes(32)
            token = _start(random, holder)
        parent = verified(token)
        next_holder = random.randbytes(32)
        child = _forged(token, holder, next_holder, _narrowing(random))
        narrowed = _verified_or_refused(child)
        if narrowed is None:
            refused += 1
            token = ""
            continue
        _assert_no_wider(narrowed, parent)
        for _ in range(4):
            admitted += _assert_admits_no_more(child, token, _ask(random))
        made += 1
        token, holder = child, next_holder
    assert refused > count // 20, "hostile links must have been among them"
    assert admitted > count // 20, "requests that are admitted must have been among them"


@pytest.mark.requirement("cap-narrow")
def test_each_claim_that_asks_for_more_gives_no_more() -> None:
    parent = mint(max_k=4, max_depth=2, session="s")
    wide = narrow(
        parent,
        ttl=9_999,
        nbf=0,
        ops=OPS,
        namespaces=NAMESPACES,
        max_k=20,
        max_depth=7,
        session="s",
        actor="local/alice",
    )
    before, after = verified(parent), verified(wide)
    _assert_no_wider(after, before)
    assert (after.ops, after.namespaces, after.max_k, after.exp) == (
        before.ops,
        before.namespaces,
        before.max_k,
        before.exp,
    )
    assert after.depth_left == 1


@pytest.mark.requirement("cap-narrow")
@pytest.mark.parametrize(
    "claims", [{"actor": "local/bob"}, {"actor_scope": "local/"}, {"session": "s2"}, {"session": ""}, {"max_k": 21}]
)
def test_narrowing_to_what_the_cap_does_not_cover_is_refused_at_once(claims: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        narrow(mint(session="s"), **claims)


@pytest.mark.requirement("cap-narrow")
def test_cap_without_holder_key_cannot_be_narrowed() -> None:
    with pytest.raises(InvalidRequest):
        narrow(mint(holder_seed=None), ops=["get"])


@pytest.mark.requirement("cap-narrow")
@pytest.mark.parametrize("depth", range(4))
def test_max_depth_allows_exactly_that_many_further_links(depth: int) -> None:
    token = mint(max_depth=depth)
    for place in range(depth):
        token = narrow(token)
        assert verified(token).depth_left == depth - place - 1
    with pytest.raises(InvalidRequest):
        narrow(token)


@pytest.mark.requirement("cap-narrow")
def test_later_link_lowers_the_depth_and_cannot_raise_it() -> None:
    lowered = narrow(mint(max_depth=5), max_depth=1)
    assert verified(lowered).depth_left == 1
    assert verified(narrow(mint(max_depth=2), max_depth=7)).depth_left == 1


@pytest.mark.requirement("cap-narrow")
def test_chain_ends_at_eight_links() -> None:
    token = mint()
    for _ in range(MAX_LINKS - 1):
        token = narrow(token)
    assert verified(token).depth_left == 0
    with pytest.raises(InvalidRequest):
        chain.attenuate(token, now=NOW, jti=bytes(16), holder_seed=None)


@pytest.mark.requirement("cap-narrow")
def test_link_that_says_nothing_changes_nothing_but_the_depth() -> None:
    parent = mint(max_k=3, session="s", label="phone")
    before, after = verified(parent), verified(narrow(parent))
    same = ("actor", "ops", "namespaces", "session", "max_k", "nbf", "exp", "data_class", "label")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]


@pytest.mark.requirement("cap-narrow")
def test_narrowing_keeps_the_parents_links_byte_for_byte() -> None:
    parent = mint()
    child = narrow(narrow(parent))
    assert child.startswith(parent.split("~")[0] + "~")
    assert child.endswith("~" + b64(chain.parse(child).seed or b""))
    assert parent.split("~")[1] not in child, "the parent's seed must not travel with the child"
