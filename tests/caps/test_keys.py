"""Holder keys of small order are refused. The points come from curve arithmetic written out here, not from a table."""

from __future__ import annotations

from functools import cache

import pytest
from scripts.vectors_cap import (
    HOLDERS,
    ISSUER,
    ORDER,
    SMALL_ORDER,
    b64,
    cnf,
    first,
    joined,
    later,
    link_id,
    public,
    sign,
)

from strongroom.caps.chain import parse
from tests.caps.chains import reason, verified

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)
Point = tuple[int, int]
IDENTITY: Point = (0, 1)


def _plus(one: Point, other: Point) -> Point:
    """The complete addition law of the twisted Edwards curve -x² + y² = 1 + dx²y²."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def _times(count: int, point: Point) -> Point:
    result = IDENTITY
    while count:
        if count & 1:
            result = _plus(result, point)
        point, count = _plus(point, point), count >> 1
    return result


def _with_y(y: int) -> list[Point]:
    """The points of the curve at height y."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    if root * root % P != square:
        root = root * ROOT % P
    return [(x, y % P) for x in {root, -root % P}] if root * root % P == square else []


@cache
def _small_points() -> frozenset[Point]:
    """What is left of points when the large prime factor of the group's order is multiplied away."""
    found: set[Point] = set()
    y = 2
    while len(found) < 8:
        found.update(_times(ORDER, point) for point in _with_y(y))
        y += 1
    return frozenset(found)


def _encodings(point: Point) -> set[bytes]:
    """Every 32 bytes that a decoder may read as this point: y or y + p, and where x is 0 either sign."""
    x, y = point
    signs = (0, 1) if x == 0 else (x & 1,)
    heights = [height for height in (y, y + P) if height < 2**255]
    return {(height | sign << 255).to_bytes(32, "little") for height in heights for sign in signs}


SMALL = sorted(encoding for point in _small_points() for encoding in _encodings(point))


def test_curve_arithmetic_agrees_with_a_real_key() -> None:
    base = next(point for point in _with_y(4 * pow(5, -1, P) % P) if point[0] % 2 == 0)
    assert _times(ORDER, base) == IDENTITY
    assert _plus(_times(3, base), _times(5, base)) == _times(8, base)
    assert [_encodings(base)] == [{bytes.fromhex("58" + "66" * 31)}]


def test_small_order_points_are_eight_in_fourteen_encodings() -> None:
    assert len(_small_points()) == 8
    assert all(_times(8, point) == IDENTITY for point in _small_points())
    orders = [next(n for n in (1, 2, 4, 8) if _times(n, point) == IDENTITY) for point in _small_points()]
    assert sorted(orders) == [1, 2, 4, 4, 8, 8, 8, 8]
    assert len(SMALL) == 14


def test_vectors_hold_every_encoding() -> None:
    assert sorted(SMALL_ORDER.values()) == SMALL


@pytest.mark.requirement("cap-small-order")
@pytest.mark.parametrize("key", SMALL, ids=lambda key: key.hex()[:4] + key.hex()[-4:])
def test_small_order_holder_key_is_refused_in_every_link(key: bytes) -> None:
    assert reason(joined([sign(ISSUER, first(cnf=cnf(key)))], HOLDERS[0])) == "cap_malformed"
    start = sign(ISSUER, first(cnf=cnf(public(HOLDERS[0]))))
    assert reason(joined([start, sign(HOLDERS[0], later(start, cnf=cnf(key)))], HOLDERS[1])) == "cap_malformed"


@pytest.mark.requirement("cap-small-order")
def test_link_signed_by_nobody_under_the_identity_is_refused() -> None:
    # Under the identity as key, R = S·B verifies for every message: a signature that needs no secret.
    start = sign(ISSUER, first(cnf=cnf(SMALL_ORDER["identity"])))
    header, payload, _ = sign(HOLDERS[0], later(start)).split(".")
    base = bytes.fromhex("58" + "66" * 31)
    signature = base + (1).to_bytes(32, "little")
    assert reason(f"{start}~{header}.{payload}.{b64(signature)}") == "cap_malformed"


@pytest.mark.requirement("cap-small-order")
def test_key_beside_the_small_ones_is_not_refused_for_its_order() -> None:
    for key in [bytes.fromhex("58" + "66" * 31), public(HOLDERS[0]), *map(_neighbour, SMALL)]:
        link = sign(ISSUER, first(cnf=cnf(key)))
        assert parse(joined([link], HOLDERS[0])).links[0].holder_key == key


def _neighbour(key: bytes) -> bytes:
    return key[:15] + bytes([key[15] ^ 1]) + key[16:]


@pytest.mark.parametrize("key", [bytes([2]) + bytes(31), b"\xff" * 32, bytes([7]) + bytes(31), b"\xf0" + b"\xff" * 31])
def test_holder_key_that_is_no_point_denies_and_never_crashes(key: bytes) -> None:
    start = sign(ISSUER, first(cnf=cnf(key)))
    assert reason(joined([start], HOLDERS[0])) == "cap_holder_proof"
    assert reason(joined([start, sign(HOLDERS[0], later(start))])) == "cap_signature_invalid"


def test_ordinary_holder_key_is_accepted() -> None:
    link = sign(ISSUER, first(cnf=cnf(public(HOLDERS[0]))))
    assert verified(joined([link], HOLDERS[0])).links == (link_id(link),)
