"""Files behind a passphrase. age is asked to open only what begins as a file of ours does: its own reader of headers
takes time quadratic in what it is given, and gigabytes if it is told so."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pyrage  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.crypto import passphrase_file
from strongroom.errors import StrongroomError
from tests import age

PASSPHRASE = "several plain words"
BEGIN, END = b"-----BEGIN AGE ENCRYPTED FILE-----", b"-----END AGE ENCRYPTED FILE-----"
SEALED = age.encrypt(b"what is kept", PASSPHRASE)
FIRST, STANZA, BODY, MAC = (line + b"\n" for line in SEALED.split(b"\n", 4)[:4])
PAYLOAD = SEALED.removeprefix(FIRST + STANZA + BODY + MAC)


def reason_of(attempt: Callable[..., object], *given: object) -> str:
    with pytest.raises(StrongroomError) as raised:
        attempt(*given)
    return raised.value.reason


def armored(data: bytes, newline: bytes = b"\n") -> bytes:
    text = base64.b64encode(data)
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return newline.join([BEGIN, *lines, END, b""])


def working(work: bytes) -> bytes:
    """The file, asking for this much scrypt work."""
    return FIRST + STANZA.rsplit(b" ", 1)[0] + b" " + work + b"\n" + BODY + MAC + PAYLOAD


STRANGE = {
    "nothing": b"",
    "another kind of file": b"PK\x03\x04",
    "another version": SEALED.replace(b"/v1", b"/v2", 1),
    "line ends of another kind": SEALED.replace(b"\n", b"\r\n", 4),
    "header alone": FIRST,
    "cut in the header": SEALED[:100],
    "no stanza": FIRST + MAC + PAYLOAD,
    "two stanzas": FIRST + (STANZA + BODY) * 2 + MAC + PAYLOAD,
    "another stanza before": FIRST + b"-> X25519 AAAA\nAAAA\n" + STANZA + BODY + MAC + PAYLOAD,
    "another stanza after": FIRST + STANZA + BODY + b"-> grease AAAA\nAAAA\n" + MAC + PAYLOAD,
    "ten thousand stanzas": FIRST + b"-> X25519 AAAA\nAAAA\n" * 10_000 + MAC + PAYLOAD,
    "a key instead of a passphrase": FIRST + b"-> X25519 " + b"A" * 43 + b"\n" + BODY + MAC + PAYLOAD,
    "ten thousand arguments": FIRST + STANZA[:-1] + b" AAAA" * 10_000 + b"\n" + BODY + MAC + PAYLOAD,
    "a short salt": FIRST + b"-> scrypt " + b"A" * 21 + b" 4\n" + BODY + MAC + PAYLOAD,
    "a long body": FIRST + STANZA + b"A" * 64 + b"\n" + BODY + MAC + PAYLOAD,
    "a million bytes of body": FIRST + STANZA + (b"A" * 64 + b"\n") * 16_000 + BODY + MAC + PAYLOAD,
    "no end of the header": FIRST + STANZA + BODY + PAYLOAD,
    "a short end of the header": FIRST + STANZA + BODY + b"--- AAAA\n" + PAYLOAD,
}
UNSOUND_WORK = [
    b"",
    b"0",
    b"04",
    b"-1",
    b"+4",
    b"4 ",
    b"4.0",
    b"\xd9\xa4",
    b"22",
    b"22",
    b"30",
    b"64",
    b"255",
    b"9" * 500,
]


@pytest.fixture
def without_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """age must not be asked: a test that used it would fail, and not only be slow."""

    def asked(*_: object) -> bytes:
        raise AssertionError("age was asked")

    monkeypatch.setattr(pyrage.passphrase, "decrypt", asked)


@pytest.mark.requirement("archive-header")
@pytest.mark.usefixtures("without_age")
@pytest.mark.parametrize("name", STRANGE)
def test_file_that_begins_otherwise_is_refused_before_age_sees_it(name: str) -> None:
    assert reason_of(passphrase_file.unlock, STRANGE[name], PASSPHRASE) == "invalid_request"
    assert reason_of(passphrase_file.unlock, armored(STRANGE[name]), PASSPHRASE) == "invalid_request"


@pytest.mark.requirement("archive-header")
@pytest.mark.usefixtures("without_age")
@pytest.mark.parametrize("work", UNSOUND_WORK)
def test_file_that_asks_for_too_much_work_is_refused_before_age_sees_it(work: bytes) -> None:
    assert reason_of(passphrase_file.unlock, working(work), PASSPHRASE) == "invalid_request"
    assert reason_of(passphrase_file.unlock, armored(working(work)), PASSPHRASE) == "invalid_request"


@pytest.mark.requirement("archive-header")
def test_work_that_is_allowed_is_what_reaches_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyrage.passphrase, "decrypt", lambda data, _: data)
    for work in range(1, passphrase_file.WORK_LIMIT + 1):
        sound = working(str(work).encode())
        assert passphrase_file.unlock(sound, PASSPHRASE) == passphrase_file.unlock(armored(sound), PASSPHRASE) == sound


@pytest.mark.requirement("archive-header")
def test_file_that_could_not_be_opened_again_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = working(str(passphrase_file.WORK_LIMIT + 1).encode())
    monkeypatch.setattr(pyrage.passphrase, "encrypt", lambda *_: beyond)
    assert reason_of(passphrase_file.lock, b"x", PASSPHRASE) == "key_unavailable"


@pytest.mark.requirement("archive-header")
@pytest.mark.parametrize("sealed", [SEALED, armored(SEALED), armored(SEALED, b"\r\n")], ids=["binary", "text", "crlf"])
def test_wrong_passphrase_is_no_strange_file(sealed: bytes) -> None:
    assert reason_of(passphrase_file.unlock, sealed, PASSPHRASE + "x") == "key_unavailable"
    assert passphrase_file.unlock(sealed, PASSPHRASE) == b"what is kept"


@pytest.mark.requirement("archive-header")
def test_armor_that_is_cut_or_edited_is_damage() -> None:
    whole = armored(SEALED)
    for damaged in (whole.replace(END, b""), whole[:200], whole.replace(b"\n", b"\n!", 3), whole + whole, BEGIN):
        assert reason_of(passphrase_file.unlock, damaged, PASSPHRASE) == "tampered"
    assert reason_of(passphrase_file.unlock, armored(SEALED[:-1]), PASSPHRASE) == "tampered"


@pytest.mark.requirement("archive-header")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SEALED) - 1), st.integers(0, 255)), max_size=4), st.booleans())
def test_file_edited_anywhere_opens_as_it_was_or_not_at_all(edits: list[tuple[int, int]], text: bool) -> None:
    edited = bytearray(SEALED)
    for at, value in edits:
        edited[at] = value
    given = armored(bytes(edited)) if text else bytes(edited)
    if edited == SEALED:
        assert passphrase_file.unlock(given, PASSPHRASE) == b"what is kept"
    else:
        assert reason_of(passphrase_file.unlock, given, PASSPHRASE) in (
            "invalid_request",
            "key_unavailable",
            "tampered",
        )
