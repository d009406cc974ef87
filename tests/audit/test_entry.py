"""One entry as bytes: there is one way to write it, and every other byte string is refused or is another entry."""

from __future__ import annotations

import base64
import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.audit.entry import ENTRY_LIMIT, Decision, Entry, Mark, decode_entry, digest, marks
from strongroom.crypto import merkle_log
from strongroom.errors import Tampered
from strongroom.model import LineId, LinkId, Millis
from strongroom.store import Delete, Effect, Expect, Purge, PutNew, Swap
from tests.crypto.test_chunked_aead import flips

FULL = Entry(
    v=1,
    time=Millis(1_779_440_000_000),
    op="put",
    decision=Decision.ALLOW,
    reason="",
    data_class="memory",
    request="r-1",
    actor="A" * 22,
    namespaces=("N" * 22,),
    links=(LinkId("ab" * 32),),
    holder="cd" * 16,
    count=1,
    lines=(LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),),
    objects=(Mark("T" * 22, "D" * 43, "S" * 22), Mark("U" * 22, "")),
    erased="namespace",
    detail="é",
)
SMALL = Entry(v=1, time=Millis(1), op="get", decision=Decision.DENY, reason="cap_expired")


def _refused(data: bytes) -> bool:
    try:
        decode_entry(data)
    except Tampered as error:
        return error.reason == "tampered"
    return False


def test_fields_stand_in_one_order_and_defaults_are_absent() -> None:
    assert list(json.loads(FULL.encoded())) == [
        "v",
        "time",
        "op",
        "decision",
        "data_class",
        "request",
        "actor",
        "namespaces",
        "links",
        "holder",
        "count",
        "lines",
        "objects",
        "erased",
        "detail",
    ]
    assert SMALL.encoded() == b'{"v":1,"time":1,"op":"get","decision":"deny","reason":"cap_expired"}'
    assert json.loads(FULL.encoded())["objects"] == [["T" * 22, "D" * 43, "S" * 22], ["U" * 22, "", ""]]


@pytest.mark.parametrize("entry", [FULL, SMALL], ids=["full", "small"])
def test_entry_reads_back(entry: Entry) -> None:
    assert decode_entry(entry.encoded()) == entry


@pytest.mark.requirement("audit-bits")
@pytest.mark.parametrize("entry", [FULL, SMALL], ids=["full", "small"])
def test_every_flipped_bit_of_an_entry_is_refused_or_makes_another_entry_with_another_hash(entry: Entry) -> None:
    data = entry.encoded()
    leaf = merkle_log.leaf_hash(data)
    refused = 0
    for edited in flips(data):
        assert merkle_log.leaf_hash(edited) != leaf
        if _refused(edited):
            refused += 1
        else:
            read = decode_entry(edited)
            assert read != entry
            assert read.encoded() == edited
    assert refused > len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        SMALL.encoded() + b" ",
        b" " + SMALL.encoded(),
        SMALL.encoded() + b"\n",
        SMALL.encoded().replace(b":1,", b": 1,", 1),
        SMALL.encoded().replace(b'"v":1', b'"v":2'),
        SMALL.encoded().replace(b'"v":1', b'"v":1.0'),
        SMALL.encoded().replace(b'"time":1', b'"time":1e0'),
        SMALL.encoded().replace(b'"deny"', b'"maybe"'),
        SMALL.encoded().replace(b'"op":"get"', b'"op":"\\u0067et"'),
        SMALL.encoded().replace(b'"op":"get",', b'"op":"get","op":"get",'),
        SMALL.encoded().replace(b'"time":1,"op":"get"', b'"op":"get","time":1'),
        SMALL.encoded()[:-1] + b',"count":0}',
        SMALL.encoded()[:-1] + b',"detail":""}',
        SMALL.encoded()[:-1] + b',"text":"x"}',
        SMALL.encoded()[:-1] + b',"objects":[["t","d"]]}',
        SMALL.encoded()[:-1] + b',"objects":[["t","d","s","x"]]}',
    ],
)
def test_entry_that_is_not_written_in_the_one_way_is_refused(data: bytes) -> None:
    assert _refused(data)


@settings(deadline=None)
@given(
    st.builds(
        Entry,
        v=st.just(1),
        time=st.integers(0, 2**53).map(Millis),
        op=st.text("ab-", max_size=8),
        decision=st.sampled_from(list(Decision)),
        count=st.integers(0, 10**6),
        detail=st.text('a"\\\n\u2028é😀', max_size=20),
        objects=st.lists(st.builds(Mark, tag=st.text("ab", max_size=4), digest=st.text("cd", max_size=4))).map(tuple),
    )
)
def test_every_entry_has_one_encoding(entry: Entry) -> None:
    data = entry.encoded()
    assert decode_entry(data) == entry
    assert decode_entry(data).encoded() == data


def test_entry_larger_than_a_bundle_can_hold_is_not_written() -> None:
    room = ENTRY_LIMIT - len(Entry(v=1, time=Millis(1), op="x", decision=Decision.ALLOW, detail="").encoded()) - 12
    largest = Entry(v=1, time=Millis(1), op="x", decision=Decision.ALLOW, detail="d" * room)
    assert len(largest.encoded()) == ENTRY_LIMIT == 65_535
    with pytest.raises(ValueError):
        Entry(v=1, time=Millis(1), op="x", decision=Decision.ALLOW, detail="d" * (room + 1)).encoded()


def test_marks_name_what_is_written_and_deleted_and_leave_out_what_is_not() -> None:
    effects: list[Effect] = [PutNew("a", b"1"), Swap("b", b"2", 3), Delete("c", 4), Expect("d", 5), Purge("e/")]
    made = marks(effects, {name: (f"tag of {name}", f"shelf of {name}") for name in "abc"})
    hashed = [base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode() for body in (b"1", b"2")]
    assert made == (
        Mark("tag of a", hashed[0], "shelf of a"),
        Mark("tag of b", hashed[1], "shelf of b"),
        Mark("tag of c", "", "shelf of c"),
    )
    assert digest(b"1") == hashed[0]
