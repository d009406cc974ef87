"""Whatever is done to the bytes of a token, it is refused, and with a denial: never with another error."""

from __future__ import annotations

import pytest
from scripts.vectors_cap import AUDIENCE, HOLDERS, ISSUERS, NOW, chain, joined

from strongroom.caps.chain import parse
from strongroom.caps.claims import HEADER, b64, encode
from strongroom.errors import Denied
from strongroom.gate import Ask, Gate, Revocations
from strongroom.model import Op
from tests.caps.chains import refusal, verified

TOKENS = {
    "bearer": joined(chain({})),
    "holder": joined(chain({"session": "s", "max_k": 5, "label": "phone"}, delegable=True), HOLDERS[0]),
    "narrowed": joined(
        chain({"actor": None, "actor_scope": "local/"}, {"actor": "local/alice"}, {"ops": ["get"]}, delegable=True),
        HOLDERS[2],
    ),
}


@pytest.fixture(params=sorted(TOKENS))
def token(request: pytest.FixtureRequest) -> str:
    return TOKENS[str(request.param)]


@pytest.mark.requirement("cap-bits")
def test_flipping_any_single_bit_is_refused_also_beside_the_cached_original(token: str) -> None:
    gate = Gate(AUDIENCE, ISSUERS, Revocations(str))
    ask = Ask(Op.GET)
    assert gate.admit(token, ask, NOW).actor == "local/alice"
    raw = token.encode()
    for place in range(len(raw)):
        for bit in range(8):
            flipped = bytearray(raw)
            flipped[place] ^= 1 << bit
            with pytest.raises(Denied):
                gate.admit(flipped.decode("latin-1"), ask, NOW)


@pytest.mark.requirement("cap-bits")
def test_cutting_a_token_anywhere_is_refused(token: str) -> None:
    for size in range(len(token)):
        refusal(token[:size])
        refusal(token[len(token) - size :])


@pytest.mark.requirement("cap-bits")
def test_dropping_or_doubling_any_character_is_refused(token: str) -> None:
    for place in range(len(token)):
        refusal(token[:place] + token[place + 1 :])
        refusal(token[:place] + token[place] + token[place:])


@pytest.mark.requirement("cap-bits")
def test_accepted_bytes_re_serialise_to_themselves(token: str) -> None:
    verified(token)
    chain = parse(token)
    parts = [f"{HEADER}.{b64(encode(link.claims))}.{b64(link.signature)}" for link in chain.links]
    assert "~".join([*parts, *([] if chain.seed is None else [b64(chain.seed)])]) == token


@pytest.mark.requirement("cap-bits")
@pytest.mark.parametrize("text", ["", "~", ".", "..", "~~~", "a.b.c", "\0", "\ud800", "é", "x" * 9000, "." * 8192])
def test_garbage_is_refused(text: str) -> None:
    assert refusal(text).reason in ("cap_missing", "cap_malformed")


@pytest.mark.requirement("cap-bits")
@pytest.mark.parametrize("thing", [b"bytes", 5, ["list"], {"a": 1}, object()])
def test_non_text_is_refused(thing: object) -> None:
    assert refusal(thing).reason == "cap_malformed"  # type: ignore[arg-type]


@pytest.mark.requirement("cap-bits")
@pytest.mark.parametrize("nothing", [None, b"", ""])
def test_nothing_is_a_missing_cap(nothing: object) -> None:
    assert refusal(nothing).reason == "cap_missing"  # type: ignore[arg-type]
