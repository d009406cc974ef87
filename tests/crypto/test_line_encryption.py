"""Sealed objects: each opens in its own slot and nowhere else, comes in fixed sizes, and shows every edit."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.crypto import chunked_aead, hmac_state, line_encryption
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import Tampered
from strongroom.model import LINE_LIMIT, Actor, Kind, Line, LineId, LinkId, Millis, Namespace, Provenance
from tests.crypto.test_chunked_aead import flips, spec_open

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
SALT = bytes(range(24))
PLACE = LinePlace("0123456789abcdef", Actor("local/alice"), Namespace("travel"))
ID = LineId("01JABCDEFGHJKMNPQRSTVWXYZ0")
OTHER_ID = LineId("01JABCDEFGHJKMNPQRSTVWXYZ1")
PAGE = "actors/a/memory/b/derived/page-000001"


class Note(msgspec.Struct, frozen=True):
    """A record of the test's own."""

    text: str


def line(text: str = "Trip to Chengdu, May 25-29", **changed: str) -> Line:
    made = Line(
        id=ID,
        time=Millis(1_779_440_000_000),
        kind=Kind.NOTE,
        namespace=PLACE.namespace,
        session="s1",
        author="alice",
        text=text,
        provenance=Provenance((LinkId("ab" * 32),), "cd" * 16, "python", Millis(1_779_440_000_001)),
    )
    return msgspec.structs.replace(made, **changed)


def sealed_line(made: Line | None = None, epoch: int = 3) -> bytes:
    return line_encryption.seal_line(made or line(), PLACE, epoch, KEY, SALT)


def sealed_page(data: bytes = b"lines", name: str = PAGE, epoch: int = 3) -> bytes:
    return line_encryption.seal_page(data, name, PLACE, epoch, KEY, SALT)


def _refused(opening: Callable[..., object], *arguments: object) -> bool:
    try:
        opening(*arguments)
    except Tampered as error:
        return error.reason == "tampered"
    return False


# Slots.


def test_line_opens_in_its_own_slot() -> None:
    assert line_encryption.open_line(sealed_line(), ID, PLACE, {3: KEY}) == line()
    assert line_encryption.sealed_epoch(sealed_line(epoch=3)) == 3


@pytest.mark.requirement("seal-slot", "bad-object")
@pytest.mark.parametrize(
    "place",
    [
        LinePlace("fedcba9876543210", PLACE.actor, PLACE.namespace),
        LinePlace(PLACE.vault_id, Actor("local/bob"), PLACE.namespace),
        LinePlace(PLACE.vault_id, Actor("local/alice/x"), PLACE.namespace),
        LinePlace(PLACE.vault_id, PLACE.actor, Namespace("personal")),
    ],
    ids=["vault", "actor", "longer actor", "namespace"],
)
def test_line_copied_to_another_place_is_refused_under_the_very_same_key(place: LinePlace) -> None:
    assert _refused(line_encryption.open_line, sealed_line(), ID, place, {3: KEY})


@pytest.mark.requirement("seal-slot", "bad-object")
def test_line_copied_to_another_id_is_refused() -> None:
    assert _refused(line_encryption.open_line, sealed_line(), OTHER_ID, PLACE, {3: KEY})


@pytest.mark.requirement("seal-slot")
def test_line_relabelled_with_another_epoch_is_refused_even_if_both_epochs_have_one_key() -> None:
    relabelled = sealed_line()[:1] + (4).to_bytes(4, "big") + sealed_line()[5:]
    assert line_encryption.sealed_epoch(relabelled) == 4
    assert _refused(line_encryption.open_line, relabelled, ID, PLACE, {3: KEY, 4: KEY})


@pytest.mark.parametrize("keys", [{}, {2: KEY, 4: KEY}, {3: OTHER_KEY}], ids=["none", "other epochs", "another key"])
def test_line_whose_epoch_has_no_key_or_another_is_refused(keys: dict[int, bytes]) -> None:
    assert _refused(line_encryption.open_line, sealed_line(), ID, PLACE, keys)


def test_actor_and_namespace_do_not_run_into_each_other() -> None:
    """The context is length-prefixed: a letter that moves from one part to the next gives another slot."""
    left = LinePlace("v", Actor("local/ab"), Namespace("c"))
    right = LinePlace("v", Actor("local/a"), Namespace("bc"))
    sealed = line_encryption.seal_text("text", "profile", left, 1, KEY, SALT)
    assert line_encryption.open_text(sealed, "profile", left, {1: KEY}) == "text"
    assert _refused(line_encryption.open_text, sealed, "profile", right, {1: KEY})


@pytest.mark.parametrize(
    "changed",
    [{"id": OTHER_ID}, {"namespace": Namespace("personal")}, {"kind": Kind.DOCUMENT}],
    ids=["another id", "another namespace", "a document"],
)
def test_line_that_disagrees_with_the_slot_it_was_sealed_for_is_refused(changed: dict[str, str]) -> None:
    body = msgspec.json.encode(line(**changed)).ljust(512)
    context = PLACE.context("strongroom/line", ID, 3)
    forged = b"\x01" + (3).to_bytes(4, "big") + chunked_aead.seal(KEY, body, context, SALT)
    assert _refused(line_encryption.open_line, forged, ID, PLACE, {3: KEY})


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b"{}", b'"\xff"', b'{"id":1}'])
def test_sealed_bytes_that_are_no_line_text_or_record_are_refused(body: bytes) -> None:
    def forge(context: bytes) -> bytes:
        return b"\x01" + bytes(4) + chunked_aead.seal(KEY, body, context, SALT)

    a_line = forge(PLACE.context("strongroom/line", ID, 0))
    a_text = forge(PLACE.context("strongroom/text", "profile", 0))
    a_record = forge(hmac_state.context("strongroom/record", 1, "v", "vault/x"))
    assert _refused(line_encryption.open_line, a_line, ID, PLACE, {0: KEY})
    assert _refused(line_encryption.open_text, a_text, "profile", PLACE, {0: KEY})
    assert _refused(line_encryption.open_record, a_record, "vault/x", "v", KEY, Note)


# Kinds.


@pytest.mark.requirement("seal-slot")
def test_lines_texts_and_records_cannot_stand_in_for_each_other() -> None:
    """Same key, same epoch, same name: only the kind of context differs."""
    a_line = line_encryption.seal_line(line(), PLACE, 0, KEY, SALT)
    a_text = line_encryption.seal_text("text", ID, PLACE, 0, KEY, SALT)
    a_record = line_encryption.seal_record(Note("text"), ID, PLACE.vault_id, KEY, SALT)
    keys = {0: KEY}
    assert line_encryption.open_text(a_text, ID, PLACE, keys) == "text"
    assert line_encryption.open_record(a_record, ID, PLACE.vault_id, KEY, Note) == Note("text")
    for other in (a_text, a_record):
        assert _refused(line_encryption.open_line, other, ID, PLACE, keys)
    for other in (a_line, a_record):
        assert _refused(line_encryption.open_text, other, ID, PLACE, keys)
    for other in (a_line, a_text):
        assert _refused(line_encryption.open_record, other, ID, PLACE.vault_id, KEY, Note)


@pytest.mark.requirement("seal-slot")
def test_record_copied_to_another_name_vault_or_key_is_refused() -> None:
    sealed = line_encryption.seal_record(Note("text"), "vault/caps/a", "v1", KEY, SALT)
    assert line_encryption.open_record(sealed, "vault/caps/a", "v1", KEY, Note) == Note("text")
    assert _refused(line_encryption.open_record, sealed, "vault/caps/b", "v1", KEY, Note)
    assert _refused(line_encryption.open_record, sealed, "vault/caps/a", "v2", KEY, Note)
    assert _refused(line_encryption.open_record, sealed, "vault/caps/a", "v1", OTHER_KEY, Note)


def test_text_copied_to_another_name_is_refused() -> None:
    sealed = line_encryption.seal_text("text", "profile", PLACE, 1, KEY, SALT)
    assert _refused(line_encryption.open_text, sealed, "profile2", PLACE, {1: KEY})


# Pages.


@pytest.mark.requirement("seal-slot", "pages-derived")
@pytest.mark.parametrize(
    ("name", "place", "keys"),
    [
        (PAGE[:-1] + "2", PLACE, {3: KEY}),
        (PAGE, LinePlace("fedcba9876543210", PLACE.actor, PLACE.namespace), {3: KEY}),
        (PAGE, LinePlace(PLACE.vault_id, Actor("local/bob"), PLACE.namespace), {3: KEY}),
        (PAGE, LinePlace(PLACE.vault_id, PLACE.actor, Namespace("personal")), {3: KEY}),
        (PAGE, PLACE, {3: OTHER_KEY}),
        (PAGE, PLACE, {2: KEY}),
    ],
    ids=["place", "vault", "actor", "namespace", "key", "epoch"],
)
def test_page_opens_in_its_own_place_alone(name: str, place: LinePlace, keys: dict[int, bytes]) -> None:
    assert line_encryption.open_page(sealed_page(), PAGE, PLACE, {3: KEY}) == b"lines"
    assert _refused(line_encryption.open_page, sealed_page(), name, place, keys)


@pytest.mark.requirement("seal-slot", "pages-derived")
def test_page_cannot_stand_in_for_a_line_or_a_text_nor_they_for_it() -> None:
    keys = {0: KEY}
    a_line = line_encryption.seal_line(line(), PLACE, 0, KEY, SALT)
    a_text = line_encryption.seal_text("text", ID, PLACE, 0, KEY, SALT)
    a_record = line_encryption.seal_record(Note("text"), ID, PLACE.vault_id, KEY, SALT)
    a_page = sealed_page(msgspec.json.encode(line()), ID, 0)
    assert line_encryption.open_page(a_page, ID, PLACE, keys) == msgspec.json.encode(line())
    for other in (a_line, a_text, a_record):
        assert _refused(line_encryption.open_page, other, ID, PLACE, keys)
    assert _refused(line_encryption.open_line, a_page, ID, PLACE, keys)
    assert _refused(line_encryption.open_text, a_page, ID, PLACE, keys)
    assert _refused(line_encryption.open_record, a_page, ID, PLACE.vault_id, KEY, Note)


@pytest.mark.requirement("seal-bits", "pages-derived")
def test_every_flipped_bit_and_every_cut_of_a_sealed_page_is_refused() -> None:
    sealed = sealed_page()
    keys = {3: KEY} | {3 ^ 1 << bit: KEY for bit in range(32)}
    assert all(_refused(line_encryption.open_page, at, PAGE, PLACE, keys) for at in flips(sealed))
    assert all(_refused(line_encryption.open_page, sealed[:size], PAGE, PLACE, keys) for size in range(len(sealed)))
    assert _refused(line_encryption.open_page, sealed + b"\0", PAGE, PLACE, keys)


@pytest.mark.requirement("seal-padding", "seal-chunks", "pages-derived")
@pytest.mark.parametrize("size", [0, 1, 251, 252, 253, 16_379, 16_380, 16_381, 98_300, 98_301, 300_000])
def test_page_of_any_bytes_comes_back_whole_and_is_stored_in_a_size_of_the_table(size: int) -> None:
    """Bytes that end like the padding too: a page carries its length."""
    for data in (b" " * size, bytes(size), bytes(n % 256 for n in range(size))):
        sealed = sealed_page(data)
        assert line_encryption.open_page(sealed, PAGE, PLACE, {3: KEY}) == data
        padded = line_encryption.padded_size(size + 4)
        assert len(sealed) == 5 + 56 + padded + 16 * (padded // 16_384 + 1)


# Edits.


@pytest.mark.requirement("seal-bits", "bad-object")
def test_every_flipped_bit_of_a_sealed_line_is_refused() -> None:
    """Every epoch that a flip can name has the same key, so that the header is not refused for want of one."""
    sealed = sealed_line()
    keys = {3: KEY} | {3 ^ 1 << bit: KEY for bit in range(32)}
    assert line_encryption.open_line(sealed, ID, PLACE, keys) == line()
    assert all(_refused(line_encryption.open_line, at, ID, PLACE, keys) for at in flips(sealed))


@pytest.mark.requirement("seal-bits")
def test_every_flipped_bit_of_a_sealed_text_is_refused() -> None:
    sealed = line_encryption.seal_text("likes tea", "profile", PLACE, 1, KEY, SALT)
    keys = {1: KEY} | {1 ^ 1 << bit: KEY for bit in range(32)}
    assert all(_refused(line_encryption.open_text, at, "profile", PLACE, keys) for at in flips(sealed))


@pytest.mark.requirement("seal-bits")
def test_every_flipped_bit_of_a_sealed_record_is_refused() -> None:
    sealed = line_encryption.seal_record(Note("travel"), "vault/x", "v", KEY, SALT)
    kept = [
        number
        for number, at in enumerate(flips(sealed))
        if not _refused(line_encryption.open_record, at, "vault/x", "v", KEY, Note)
    ]
    assert kept == []


def test_sealed_line_cut_or_extended_anywhere_is_refused() -> None:
    sealed = sealed_line()
    for length in range(len(sealed)):
        assert _refused(line_encryption.open_line, sealed[:length], ID, PLACE, {3: KEY})
    for more in (b"\0", b" ", bytes(16), bytes(17), sealed):
        assert _refused(line_encryption.open_line, sealed + more, ID, PLACE, {3: KEY})


@pytest.mark.parametrize("version", [0, 2, 255])
def test_sealed_object_of_another_version_is_refused(version: int) -> None:
    assert _refused(line_encryption.open_line, bytes([version]) + sealed_line()[1:], ID, PLACE, {3: KEY})


# Sizes.

TABLE = [256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304]


@pytest.mark.requirement("seal-padding")
def test_padding_table_is_the_one_that_is_specified() -> None:
    assert list(line_encryption.PADDED) == TABLE
    sizes = [line_encryption.padded_size(size) for size in range(TABLE[-1] + 1)]
    assert sorted(set(sizes)) == TABLE
    for small, large in itertools.pairwise([0, *TABLE]):
        assert set(sizes[small + 1 : large + 1]) == {large}
    assert sizes[0] == 256
    assert line_encryption.padded_size(98_305) == 2 * 98_304
    assert line_encryption.padded_size(2 * 98_304) == 2 * 98_304
    assert line_encryption.padded_size(2 * 98_304 + 1) == 3 * 98_304


@pytest.mark.requirement("seal-padding")
@settings(deadline=None)
@given(st.integers(1, LINE_LIMIT))
def test_stored_size_is_always_one_of_the_table(size: int) -> None:
    sealed = sealed_line(line("x" * size))
    chunked = {5 + 56 + padded + 16 * (padded // 16_384 + 1) for padded in TABLE}
    assert len(sealed) in chunked


@pytest.mark.requirement("seal-padding")
def test_texts_of_nearby_lengths_are_stored_in_one_size() -> None:
    def size(text: str) -> int:
        return len(sealed_line(line(text)))

    assert size("no") == size("yes, and a good deal more than that")


@pytest.mark.requirement("seal-padding", "seal-chunks")
def test_padding_is_spaces_behind_the_json() -> None:
    sealed = sealed_line()
    plain = spec_open(KEY, sealed[5:], PLACE.context("strongroom/line", ID, 3))
    assert len(plain) in TABLE
    assert plain.rstrip(b" ").endswith(b"}")
    assert json.loads(plain)["text"] == "Trip to Chengdu, May 25-29"


@pytest.mark.requirement("seal-chunks")
@pytest.mark.parametrize("unit", ['"', "\\", "\n", "\t", "😀", "x", "é", '\\"😀\n'], ids=ascii)
def test_line_of_the_largest_size_comes_back_whole(unit: str) -> None:
    text = unit * (LINE_LIMIT // len(unit.encode()))
    assert len(text.encode()) > LINE_LIMIT - 8
    sealed = sealed_line(line(text))
    assert line_encryption.open_line(sealed, ID, PLACE, {3: KEY}).text == text
    assert len(sealed) <= 5 + 56 + 98_304 + 16 * 7


@settings(deadline=None)
@given(
    text=st.text('a"\\\n\t é漢😀\u2028\ufeff', min_size=1, max_size=300),
    session=st.text('s"\\é', max_size=20),
    kind=st.sampled_from([kind for kind in Kind if kind != Kind.DOCUMENT]),
)
def test_any_line_comes_back_as_it_was(text: str, session: str, kind: Kind) -> None:
    made = line(text, session=session, kind=kind)
    assert line_encryption.open_line(sealed_line(made), ID, PLACE, {3: KEY}) == made
