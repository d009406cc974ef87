"""A link cannot be taken off: whoever got a narrowed cap cannot get back what it was narrowed from."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from scripts.vectors_cap import HOLDERS, ISSUER, b64, chain, joined, later, public, seed, sign

from tests.caps.chains import mint, narrow, reason, verified

NARROWINGS = ({"ops": ["get", "list"]}, {"namespaces_allowed": ["travel"]}, {"max_k": 3})
PLACES = range(len(NARROWINGS) + 1)


def _seeds_a_thief_has(delegable: bool) -> list[bytes | None]:
    """None, the seed that came with the token, and any that one can make up; never a parent's."""
    own = [HOLDERS[len(NARROWINGS)]] if delegable else []
    return [None, *own, seed("thief"), bytes(32), public(HOLDERS[0]), public(ISSUER)]


def _expected(kept: tuple[int, ...]) -> str:
    if kept[0] != 0:
        return "cap_malformed"
    return "cap_holder_proof" if kept == tuple(range(len(kept))) else "cap_signature_invalid"


@pytest.mark.requirement("cap-strip")
@pytest.mark.parametrize("delegable", [True, False])
def test_every_way_of_dropping_links_is_refused(delegable: bool) -> None:
    links = chain({}, *NARROWINGS, delegable=delegable)
    assert verified(joined(links, HOLDERS[3] if delegable else None)).max_k == 3
    for count in range(1, len(links)):
        for kept in combinations(PLACES, count):
            for last in _seeds_a_thief_has(delegable):
                assert reason(joined([links[place] for place in kept], last)) == _expected(kept), kept


@pytest.mark.requirement("cap-strip")
def test_parent_verifies_with_its_own_seed_so_the_seed_was_missing() -> None:
    links = chain({}, *NARROWINGS, delegable=True)
    for count in PLACES:
        stripped = joined(links[: count + 1], HOLDERS[count])
        assert len(verified(stripped).links) == count + 1


@pytest.mark.requirement("cap-strip")
def test_links_made_by_the_library_cannot_be_stripped_either() -> None:
    parent = mint()
    child = narrow(parent, ops=["get"])
    first, _, last = child.split("~")
    assert reason(f"{first}~{last}") == "cap_holder_proof"
    assert reason(first) == "cap_holder_proof"
    plain = narrow(parent, ops=["get"], holder_seed=None)
    assert plain.count("~") == 1, "a link without holder key brings no seed along"
    assert reason(plain.split("~")[0]) == "cap_holder_proof"


@pytest.mark.requirement("cap-strip")
def test_replacing_a_narrow_link_by_a_wide_one_is_refused() -> None:
    first, _ = chain({}, {"ops": ["get"]}, delegable=True)
    for signer in (HOLDERS[1], seed("thief"), ISSUER):
        wide = sign(signer, later(first))
        assert reason(joined([first, wide])) == "cap_signature_invalid"


@pytest.mark.requirement("cap-strip")
def test_links_in_any_other_order_are_refused() -> None:
    links = chain({}, *NARROWINGS, delegable=True)
    for order in permutations(PLACES):
        if order == tuple(PLACES):
            continue
        expected = "cap_signature_invalid" if order[0] == 0 else "cap_malformed"
        assert reason(joined([links[place] for place in order], HOLDERS[order[-1]])) == expected


@pytest.mark.requirement("cap-strip")
def test_parents_public_key_in_place_of_its_seed_is_refused() -> None:
    first, _ = chain({}, {"ops": ["get"]})
    assert reason(f"{first}~{b64(public(HOLDERS[0]))}") == "cap_holder_proof"
