"""One suite for both kinds of memory: that of a vault in this process, and that behind a real server.

Whatever is asserted here holds for `vault.memory(cap)` and for `strongroom.connect(url, cap)` alike.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, errors
from strongroom.caps import chain as caps
from strongroom.crypto import inbox
from strongroom.memory.document_methods import DocumentMethods
from strongroom.memory.memory_handle import MemoryHandle
from strongroom.model import Hit, Kind, LineInfo, Listing, Profile, Receipt, Snapshot
from tests.client.served import served
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
OTHER = "01JABCDEFGHJKMNPQRSTVWXYZ1"
NOON = datetime(2026, 5, 20, 12, tzinfo=UTC)
NAIVE = datetime(2026, 5, 1)  # noqa: DTZ001 - a naive time is what is refused

pytestmark = pytest.mark.requirement("client-conformance")

Opens = Callable[[str], Memory]


@pytest.fixture(params=["embedded", "served"])
def opens(request: pytest.FixtureRequest, vault: Vault, clock: Clock) -> Iterator[Opens]:
    """Opens the memory of a cap."""
    with ExitStack() as stack:
        if request.param == "embedded":
            yield lambda cap: stack.enter_context(vault.memory(cap))
        else:
            url = stack.enter_context(served(vault))
            yield lambda cap: stack.enter_context(strongroom.connect(url, cap, now=clock, timeout=20))


@pytest.fixture
def memory(opens: Opens, cap: Token) -> Memory:
    return opens(cap)


@pytest.fixture(scope="module", params=["embedded", "served"])
def untouched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory that many tests share, since none of them may write into it."""
    home = tmp_path_factory.mktemp("untouched")
    clock = Clock()
    with ExitStack() as stack:
        vault = stack.enter_context(strongroom.create(home / "vault", keys=FileKeys(home / "keys"), now=clock))
        cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
        if request.param == "embedded":
            yield vault.memory(cap)
        else:
            url = stack.enter_context(served(vault))
            yield stack.enter_context(strongroom.connect(url, cap, now=clock, timeout=20))


def _refused(call: Callable[..., object], *args: object, **given: object) -> str:
    with pytest.raises(errors.StrongroomError) as refused:
        call(*args, **given)
    assert type(refused.value) is errors.BY_REASON[refused.value.reason]
    return refused.value.reason


# Caps: every denial that a memory can meet.


def _forged(token: str) -> str:
    first, seed = token.split("~")
    head, payload, signature = first.split(".")
    return f"{head}.{payload}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}~{seed}"


def _stripped(token: str, clock: Clock) -> str:
    first, _, seed = strongroom.attenuate(token, namespaces=["travel"], now=clock).split("~")
    return f"{first}~{seed}"


def _own(keys: FileKeys, clock: Clock, audience: str, actor: str = "local/alice") -> str:
    return caps.mint(
        issuer_seed=keys.issuer(),
        audience=audience,
        jti=os.urandom(16),
        holder_seed=None,
        now=clock() // 1000,
        ttl=60,
        ops=["get"],
        namespaces=["work"],
        actor=actor,
    )


CALLS: dict[str, Callable[[Memory], object]] = {
    "put": lambda memory: memory.put("x", namespace="work"),
    "inbox": lambda memory: memory.inbox(),
    "deliver": lambda memory: memory.deliver(b"never opened"),
    "observe": lambda memory: memory.observe("terminal", "0" * 64),
    "get": lambda memory: memory.get("x"),
    "list": lambda memory: memory.list(),
    "snapshot": lambda memory: memory.snapshot(),
    "profile": lambda memory: memory.profile("work"),
    "forget": lambda memory: memory.forget(session="x"),
    "erase": lambda memory: memory.erase(["work"]),
    "renew": lambda memory: memory.renew(),
}
NEEDS = dict.fromkeys(("inbox", "deliver", "observe"), "put")
"""The op of a verb that has none of its own."""


def test_cap_that_is_no_cap_is_refused_by_every_verb(
    opens: Opens, cap: Token, clock: Clock, vault: Vault, keys: FileKeys
) -> None:
    bad = {
        "": "cap_missing",
        "garbage": "cap_malformed",
        "a b": "cap_malformed",
        "x" * 9000: "cap_malformed",
        _forged(cap): "cap_signature_invalid",
        _stripped(cap, clock): "cap_holder_proof",
        _own(keys, clock, "another-vault"): "cap_audience",
    }
    for token, reason in bad.items():
        held = opens(token)
        assert {verb: _refused(call, held) for verb, call in CALLS.items()} == dict.fromkeys(CALLS, reason)


def test_expired_a_future_and_a_revoked_cap_are_refused(opens: Opens, cap: Token, clock: Clock, vault: Vault) -> None:
    seconds = clock() // 1000
    future = caps.attenuate(cap, now=seconds, jti=os.urandom(16), holder_seed=None, nbf=seconds + 31)
    assert _refused(lambda: opens(future).get("x")) == "cap_not_yet_valid"
    child = opens(strongroom.attenuate(cap, namespaces=["work"], now=clock))
    assert child.get("x") == []
    vault.revoke(cap)
    assert _refused(lambda: child.get("x")) == "cap_revoked"
    brief = opens(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=60))
    assert brief.get("x") == []
    clock.move(60)
    assert _refused(lambda: brief.get("x")) == "cap_expired"


@pytest.mark.parametrize("verb", sorted(CALLS))
def test_cap_without_the_op_is_refused(verb: str, opens: Opens, vault: Vault) -> None:
    others = sorted({*ALL_OPS, "renew"} - {NEEDS.get(verb, verb)})
    held = opens(vault.mint(actor="local/alice", ops=others, namespaces=NAMESPACES))
    assert _refused(lambda: CALLS[verb](held)) == "cap_op_mismatch"


@pytest.mark.parametrize("data_class", ["credentials", "admin"])
def test_cap_of_another_class_is_refused_by_every_verb(data_class: str, opens: Opens, vault: Vault) -> None:
    token = vault.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES, data_class=data_class)
    held = opens(token)
    for call in CALLS.values():
        assert _refused(call, held) == "cap_data_class_mismatch"


@pytest.mark.parametrize("name", ["personal", "nowhere"])
def test_namespace_outside_the_cap_is_denied_by_every_verb(name: str, opens: Opens, cap: Token, clock: Clock) -> None:
    held = opens(strongroom.attenuate(cap, namespaces=["travel"], now=clock))
    for call in (
        lambda: held.put("x", namespace=name),
        lambda: held.put_many([NewLine(text="x"), NewLine(text="x", namespace=name)]),
        lambda: held.get("x", namespaces=[name]),
        lambda: held.get(ids=[ID], namespaces=["travel", name]),
        lambda: held.list(namespaces=[name]),
        lambda: held.snapshot(namespaces=[name]),
        lambda: held.profile(name),
        lambda: held.set_profile("x", namespace=name),
        lambda: held.forget(namespaces=[name]),
        lambda: held.erase([name]),
    ):
        assert _refused(call) == "cap_namespace_denied"
    assert _refused(lambda: held.erase(everything=True)) == "cap_namespace_denied"


def test_cap_for_no_namespace_or_for_a_scope_opens_nothing(
    opens: Opens, cap: Token, clock: Clock, vault: Vault
) -> None:
    assert (
        _refused(lambda: opens(strongroom.attenuate(cap, namespaces=[], now=clock)).get("x")) == "cap_namespace_denied"
    )
    scope = vault.mint(actor_scope="local/", ops=["put", "get"], namespaces=["work"])
    assert _refused(lambda: opens(scope).get("x")) == "cap_malformed"
    one = opens(strongroom.attenuate(scope, actor="local/bob", now=clock))
    one.put("Bob's", namespace="work")
    assert [hit.text for hit in one.get("bob")] == ["Bob's"]
    assert opens(cap).get("bob") == []


def test_limits_of_a_cap_are_kept(opens: Opens, cap: Token, clock: Clock) -> None:
    few = opens(strongroom.attenuate(cap, max_k=2, now=clock))
    opens(cap).put_many([NewLine(text=f"line {n}", namespace="work") for n in range(3)])
    assert len(few.get("line")) == 2
    assert _refused(lambda: few.get("line", k=3)) == "cap_limit_exceeded"
    ids = [line.id for line in few.list().lines]
    assert _refused(lambda: few.get(ids=ids)) == "cap_limit_exceeded"


def test_session_cap_stays_in_its_session(opens: Opens, cap: Token, clock: Clock) -> None:
    held = opens(strongroom.attenuate(cap, session="s1", namespaces=["work"], now=clock))
    opens(cap).put("elsewhere", namespace="work", session="s2")
    for call in (
        lambda: held.put("x", session="s2"),
        lambda: held.put_many([NewLine(text="x", session="s1"), NewLine(text="y", session="s2")]),
        lambda: held.get("x", session="s2"),
        lambda: held.list(session="s2"),
        lambda: held.forget(session="s2"),
        lambda: held.erase(),
    ):
        assert _refused(call) == "cap_limit_exceeded"
    receipt = held.put("x")
    assert held.list(session="s1").lines[0].id == receipt.id
    assert held.forget(ids=[receipt.id]).ids == (receipt.id,)


# Arguments.


class Word(str):
    """A text that claims to be another when asked."""

    def __str__(self) -> str:
        return "liar"

    def encode(self, *args: Any) -> bytes:
        return b"liar"


class Shelf(StrEnum):
    WORK = "work"


class Five(int):
    pass


BAD: list[tuple[str, Callable[[Memory], object], str]] = [
    ("no text", lambda m: m.put("", namespace="work"), "invalid_request"),
    ("blanks", lambda m: m.put(" \n\t", namespace="work"), "invalid_request"),
    ("a control character", lambda m: m.put("bell \x07", namespace="work"), "invalid_request"),
    ("CR LF", lambda m: m.put("a\r\nb", namespace="work"), "invalid_request"),
    ("NUL", lambda m: m.put("\x00", namespace="work"), "invalid_request"),
    ("a lone surrogate", lambda m: m.put("lone \ud800", namespace="work"), "invalid_request"),
    ("many marks", lambda m: m.put("a" + "\u0301" * 31, namespace="work"), "invalid_request"),
    ("a text too large", lambda m: m.put("x" * (32 * 1024 + 1), namespace="work"), "line_too_large"),
    ("a text far too large", lambda m: m.put("x" * (1 << 20), namespace="work"), "line_too_large"),
    ("surrogates far too many", lambda m: m.put("\ud800" * (1 << 18), namespace="work"), "line_too_large"),
    ("bytes", lambda m: m.put(b"bytes", namespace="work"), "invalid_request"),  # type: ignore[arg-type]
    ("a number as text", lambda m: m.put(5, namespace="work"), "invalid_request"),  # type: ignore[arg-type]
    ("None as text", lambda m: m.put(None, namespace="work"), "invalid_request"),  # type: ignore[arg-type]
    ("no namespace of several", lambda m: m.put("x"), "invalid_request"),
    ("a namespace in capitals", lambda m: m.put("x", namespace="Work"), "invalid_request"),
    ("a namespace with a path", lambda m: m.put("x", namespace="../work"), "invalid_request"),
    ("an empty namespace", lambda m: m.put("x", namespace=""), "invalid_request"),
    ("a long namespace", lambda m: m.put("x", namespace="w" * 100_000), "invalid_request"),
    ("bytes as namespace", lambda m: m.put("x", namespace=b"work"), "invalid_request"),  # type: ignore[arg-type]
    ("a surrogate as namespace", lambda m: m.put("x", namespace="\ud800"), "invalid_request"),
    ("an unknown kind", lambda m: m.put("x", namespace="work", kind="secret"), "invalid_request"),
    ("None as kind", lambda m: m.put("x", namespace="work", kind=None), "invalid_request"),  # type: ignore[arg-type]
    ("a list as kind", lambda m: m.put("x", namespace="work", kind=[]), "invalid_request"),  # type: ignore[arg-type]
    ("no ULID", lambda m: m.put("x", namespace="work", id="not-a-ulid"), "invalid_request"),
    ("a ULID in small letters", lambda m: m.put("x", namespace="work", id=ID.lower()), "invalid_request"),
    ("an empty id", lambda m: m.put("x", namespace="work", id=""), "invalid_request"),
    ("a number as id", lambda m: m.put("x", namespace="work", id=5), "invalid_request"),  # type: ignore[arg-type]
    ("a long session", lambda m: m.put("x", namespace="work", session="s" * 257), "invalid_request"),
    ("a very long session", lambda m: m.put("x", namespace="work", session="s" * 99_999), "invalid_request"),
    ("bytes as session", lambda m: m.put("x", namespace="work", session=b"s"), "invalid_request"),  # type: ignore[arg-type]
    ("an author of two lines", lambda m: m.put("x", namespace="work", author="a\nb"), "invalid_request"),
    ("None as author", lambda m: m.put("x", namespace="work", author=None), "invalid_request"),  # type: ignore[arg-type]
    ("a time without zone", lambda m: m.put("x", namespace="work", time=NAIVE), "invalid_request"),
    ("a text as time", lambda m: m.put("x", namespace="work", time=NOON.isoformat()), "invalid_request"),  # type: ignore[arg-type]
    ("a number as time", lambda m: m.put("x", namespace="work", time=5), "invalid_request"),  # type: ignore[arg-type]
    ("a date as time", lambda m: m.put("x", namespace="work", time=NOON.date()), "invalid_request"),  # type: ignore[arg-type]
    ("a time too early", lambda m: m.put("x", namespace="work", time=NOON.replace(year=1969)), "invalid_request"),
    ("nothing to put", lambda m: m.put_many([]), "invalid_request"),
    ("no lines", lambda m: m.put_many(["x"]), "invalid_request"),  # type: ignore[list-item]
    ("257 lines", lambda m: m.put_many([NewLine(text="x", namespace="work")] * 257), "too_many"),
    ("257 bad lines", lambda m: m.put_many([NewLine(text="", namespace="work")] * 257), "too_many"),
    ("257 large lines", lambda m: m.put_many([NewLine(text="x" * 32_000, namespace="work")] * 257), "too_many"),
    ("a large batch", lambda m: m.put_many([NewLine(text="x" * 32_000, namespace="work")] * 140), "body_too_large"),
    (
        "a large batch of large lines",
        lambda m: m.put_many([NewLine(text="x" * 200_000, namespace="work")] * 40),
        "body_too_large",
    ),
    ("k false", lambda m: m.get("x", k=False), "invalid_request"),
    ("a negative k", lambda m: m.get("x", k=-1), "invalid_request"),
    ("k true", lambda m: m.get("x", k=True), "invalid_request"),
    ("k as a fraction", lambda m: m.get("x", k=5.0), "invalid_request"),  # type: ignore[arg-type]
    ("k as text", lambda m: m.get("x", k="5"), "invalid_request"),  # type: ignore[arg-type]
    ("k of another class", lambda m: m.get("x", k=Five(5)), "invalid_request"),
    ("k of 21", lambda m: m.get("x", k=21), "too_many"),
    ("k beyond all numbers", lambda m: m.get("x", k=10**5000), "too_many"),
    ("k below all numbers", lambda m: m.get("x", k=-(10**5000)), "invalid_request"),
    ("a query of bytes", lambda m: m.get(b"x"), "invalid_request"),  # type: ignore[arg-type]
    ("a query of None", lambda m: m.get(None), "invalid_request"),  # type: ignore[arg-type]
    ("a query with NUL", lambda m: m.get("\x00"), "invalid_request"),
    ("a query too large", lambda m: m.get("x" * 8193), "line_too_large"),
    ("a query far too large", lambda m: m.get("x" * (1 << 24)), "line_too_large"),
    ("one text as ids", lambda m: m.get(ids=ID), "invalid_request"),
    ("bad ids", lambda m: m.get(ids=["x"]), "invalid_request"),
    ("numbers as ids", lambda m: m.get(ids=[5]), "invalid_request"),  # type: ignore[list-item]
    ("21 ids", lambda m: m.get(ids=[ID] * 21), "too_many"),
    ("an unknown id", lambda m: m.get(ids=[ID]), "not_found"),
    ("one text to leave out", lambda m: m.get("x", without=ID), "invalid_request"),
    ("a bad id to leave out", lambda m: m.get("x", without=["x"]), "invalid_request"),
    ("a number to leave out", lambda m: m.get("x", without=[5]), "invalid_request"),  # type: ignore[list-item]
    ("1025 lines to leave out", lambda m: m.get("x", without=[ID] * 1025), "too_many"),
    ("ids and lines to leave out", lambda m: m.get(ids=[], without=[ID]), "invalid_request"),
    ("a bundle of nothing", lambda m: m.deliver(b""), "invalid_request"),
    ("a bundle of garbage", lambda m: m.deliver(b"age-encryption.org/v1\n" * 99), "invalid_request"),
    ("a bundle of text", lambda m: m.deliver("x"), "invalid_request"),  # type: ignore[arg-type]
    ("a bundle of None", lambda m: m.deliver(None), "invalid_request"),  # type: ignore[arg-type]
    ("a bundle too large", lambda m: m.deliver(bytes(1024 * 1024 + 1)), "body_too_large"),
    ("an empty deed", lambda m: m.observe("", "0" * 64), "invalid_request"),
    ("a deed in words", lambda m: m.observe("read a file", "0" * 64), "invalid_request"),
    ("a long deed", lambda m: m.observe("x" * 65, "0" * 64), "invalid_request"),
    ("a deed of two lines", lambda m: m.observe("a\nb", "0" * 64), "invalid_request"),
    ("None as deed", lambda m: m.observe(None, "0" * 64), "invalid_request"),  # type: ignore[arg-type]
    ("a short digest", lambda m: m.observe("x", "0" * 63), "invalid_request"),
    ("a digest in capitals", lambda m: m.observe("x", "A" * 64), "invalid_request"),
    ("bytes as digest", lambda m: m.observe("x", bytes(32)), "invalid_request"),  # type: ignore[arg-type]
    ("None among namespaces", lambda m: m.get("x", namespaces=[None]), "invalid_request"),  # type: ignore[list-item]
    ("bytes as namespaces", lambda m: m.get("x", namespaces=b"work"), "invalid_request"),  # type: ignore[arg-type]
    ("now without zone", lambda m: m.get("x", now=NAIVE), "invalid_request"),
    ("now as text", lambda m: m.get("x", now="tomorrow"), "invalid_request"),  # type: ignore[arg-type]
    ("negative patience", lambda m: m.get("x", patience=-1), "invalid_request"),
    ("patience of years", lambda m: m.get("x", patience=1e9), "invalid_request"),
    ("patience beyond all numbers", lambda m: m.get("x", patience=10**5000), "invalid_request"),
    ("no number as patience", lambda m: m.get("x", patience=float("nan")), "invalid_request"),
    ("endless patience", lambda m: m.get("x", patience=float("inf")), "invalid_request"),
    ("patience true", lambda m: m.get("x", patience=True), "invalid_request"),
    ("patience as text", lambda m: m.get("x", patience="1"), "invalid_request"),  # type: ignore[arg-type]
    ("patience with ids", lambda m: m.get(ids=[], patience=-1), "invalid_request"),
    ("a page of none", lambda m: m.list(limit=0), "too_many"),
    ("a page of 1001", lambda m: m.list(limit=1001), "too_many"),
    ("a page as text", lambda m: m.list(limit="10"), "too_many"),  # type: ignore[arg-type]
    ("a page as a fraction", lambda m: m.list(limit=10.0), "too_many"),  # type: ignore[arg-type]
    ("a page of None", lambda m: m.list(limit=None), "too_many"),  # type: ignore[arg-type]
    ("a page beyond all numbers", lambda m: m.list(limit=10**5000), "too_many"),
    ("a bad cursor", lambda m: m.list(after="x"), "invalid_request"),
    ("a number as cursor", lambda m: m.list(after=5), "invalid_request"),  # type: ignore[arg-type]
    ("a list of an unknown kind", lambda m: m.list(kind="secret"), "invalid_request"),
    ("a list since a naive time", lambda m: m.list(since=NAIVE), "invalid_request"),
    ("a list until a naive time", lambda m: m.list(until=NAIVE), "invalid_request"),
    ("a profile of several", lambda m: m.profile(), "invalid_request"),
    ("a profile of bytes", lambda m: m.profile(b"work"), "invalid_request"),  # type: ignore[arg-type]
    ("a profile of a path", lambda m: m.profile("a/b?c&d=e#f"), "invalid_request"),
    ("a profile of nothing", lambda m: m.profile(""), "invalid_request"),
    ("a profile of a surrogate", lambda m: m.profile("\ud800"), "invalid_request"),
    ("bytes for a profile", lambda m: m.set_profile(b"x", namespace="work"), "invalid_request"),  # type: ignore[arg-type]
    ("a profile with NUL", lambda m: m.set_profile("\x00", namespace="work"), "invalid_request"),
    ("a large profile", lambda m: m.set_profile("x" * 8193, namespace="work"), "line_too_large"),
    ("a very large profile", lambda m: m.set_profile("x" * (1 << 24), namespace="work"), "line_too_large"),
    ("another version", lambda m: m.set_profile("x", namespace="work", version="1" * 32), "version_conflict"),
    ("no version at all", lambda m: m.set_profile("x", namespace="work", version="v\r\nX: y"), "version_conflict"),
    ("None as version", lambda m: m.set_profile("x", namespace="work", version=None), "version_conflict"),  # type: ignore[arg-type]
    ("forget nothing", lambda m: m.forget(), "invalid_request"),
    ("forget one text", lambda m: m.forget(ids=ID), "invalid_request"),
    ("forget bad ids", lambda m: m.forget(ids=["x"]), "invalid_request"),
    ("forget a bad link", lambda m: m.forget(link="x"), "invalid_request"),
    ("forget since a naive time", lambda m: m.forget(since=NAIVE), "invalid_request"),
    ("erase all and some", lambda m: m.erase(["work"], everything=True), "invalid_request"),
]


@pytest.mark.parametrize(("call", "reason"), [pytest.param(call, reason, id=name) for name, call, reason in BAD])
def test_bad_argument_is_refused_and_nothing_is_written(
    call: Callable[[Memory], object], reason: str, untouched: Memory
) -> None:
    assert _refused(lambda: call(untouched)) == reason
    assert untouched.list().lines == ()
    assert untouched.profile("work").version == ""


def test_non_collection_is_a_type_error_in_both(memory: Memory) -> None:
    for call in (
        lambda: memory.get("x", namespaces=5),  # type: ignore[arg-type]
        lambda: memory.get(ids=5),  # type: ignore[arg-type]
        lambda: memory.put_many(5),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


def test_subclasses_of_text_count_as_what_they_hold(memory: Memory) -> None:
    receipt = memory.put(
        Word("Trip to Chengdu"),
        namespace=Shelf.WORK,
        session=Word("s"),
        author=Word("alice"),
        kind=Kind.FACT,
        id=Word(ID),
    )
    (hit,) = memory.get(Word("chengdu"), namespaces={Shelf.WORK}, session=Word("s"))
    assert (hit.id, hit.text, hit.namespace) == (receipt.id, "Trip to Chengdu", "work")
    assert (hit.session, hit.author, hit.kind) == ("s", "alice", Kind.FACT)
    assert memory.list(kind=Kind.FACT, namespaces=frozenset({"work"})).lines[0].id == ID
    assert memory.set_profile(Word("likes tea"), namespace=Word("work")).text == "likes tea"
    assert memory.forget(ids={Word(ID)}).ids == (ID,)


def test_query_and_moment_are_not_looked_at_with_ids(memory: Memory) -> None:
    memory.put("x", namespace="work", id=ID)
    assert memory.get(b"\x00", ids=[ID], now="never")[0].id == ID  # type: ignore[arg-type]


def test_one_text_is_one_namespace_and_truth_is_truth(memory: Memory) -> None:
    memory.put("x", namespace="work", id=ID)
    memory.put("y", namespace="travel", id=ID)
    assert [line.namespace for line in memory.list(namespaces="work").lines] == ["work"]
    assert memory.erase("work").objects == 1
    assert memory.erase(everything=1).objects > 0  # type: ignore[arg-type]
    assert _refused(lambda: memory.get("x")) == "cap_revoked"


# What is kept and found.

TEXTS = [
    "Trip to Chengdu, May 25-29",
    "成都之行,五月二十五日",
    "日本語のメモ",
    "Привет, мир",
    "مرحبا بالعالم",
    "👩‍👩‍👧‍👦 and 🇨🇳",
    'quotes " and \\ backslashes / \u2028 \u2029 and\nnew\tlines',
    "</script>\x20{}[]:,null",
    "\U0010ffff\ufeff\u200b",
    "x" * 32 * 1024,
    "é" * 16 * 1024,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_text_comes_back_as_it_was(text: str, memory: Memory) -> None:
    receipt = memory.put(text, namespace="work", author="ж" * 256, session="会" * 100)
    (hit,) = memory.get(ids=[receipt.id])
    assert (hit.text, hit.author, hit.session) == (text, "ж" * 256, "会" * 100)
    assert memory.set_profile(text[:2000], namespace="work").text == text[:2000]
    assert memory.profile("work").text == text[:2000]


def test_texts_are_kept_in_nfc(memory: Memory) -> None:
    memory.put("Cafe\u0301", namespace="work")
    assert memory.get("cafe")[0].text == "Caf\u00e9"


def test_answers_have_the_same_types_whoever_gives_them(memory: Memory, clock: Clock) -> None:
    receipt = memory.put("Trip to Chengdu", namespace="work", time=NOON, session="s", author="alice", kind="fact")
    assert type(receipt) is Receipt
    assert receipt == Receipt(receipt.id, receipt.namespace)
    (hit,) = memory.get("chengdu")
    assert type(hit) is Hit
    assert type(hit.kind) is Kind
    assert (hit.time, hit.time.tzinfo) == (NOON, UTC)
    assert type(hit.score) is float
    assert hit.provenance.recorded == clock()
    listing = memory.list()
    assert type(listing) is Listing
    (info,) = listing.lines
    assert type(info) is LineInfo
    assert (info.size, info.provenance) == (15, hit.provenance)
    assert type(memory.get("chengdu")) is list
    assert type(memory.snapshot()) is Snapshot
    assert type(memory.profile("work")) is Profile
    assert type(memory.put_many([NewLine(text="x", namespace="work")])) is list


def test_both_kinds_give_the_same_answers(vault: Vault, cap: Token, clock: Clock) -> None:
    near = vault.memory(cap)
    near.put_many([NewLine(text=f"Trip {n} to Chengdu on May {n}", namespace="travel") for n in range(1, 30)])
    near.set_profile("likes trains", namespace="travel")
    with served(vault) as url, strongroom.connect(url, cap, now=clock) as far:
        moment = datetime(2026, 5, 22, 9, tzinfo=ZoneInfo("Asia/Shanghai"))
        asks: list[Callable[[Memory], object]] = [
            lambda memory: memory.get("where am I going this weekend?", k=20, now=moment),
            lambda memory: memory.get("chengdu", namespaces=["travel"]),
            lambda memory: memory.list(limit=7),
            lambda memory: memory.list(limit=7, after=memory.list(limit=7).next),
            lambda memory: memory.snapshot(),
            lambda memory: memory.profile("travel"),
            lambda memory: memory.profile("work"),
        ]
        for ask in asks:
            assert ask(near) == ask(far)


def test_times_keep_their_instant_in_every_zone(memory: Memory) -> None:
    odd = timezone(timedelta(hours=5, minutes=53, seconds=28))
    for moment in (NOON.astimezone(odd), NOON.astimezone(timezone(timedelta(hours=-11))), NOON):
        receipt = memory.put("x", namespace="work", time=moment)
        assert memory.get(ids=[receipt.id])[0].time == NOON
    assert len(memory.list(since=NOON.astimezone(odd), until=NOON + timedelta(seconds=1)).lines) == 3
    assert memory.list(until=NOON.astimezone(odd)).lines == ()


def test_asker_s_zone_decides_what_today_is(memory: Memory) -> None:
    memory.put("dentist on May 23, 2026", namespace="work")
    memory.put("haircut on May 22, 2026", namespace="work")
    instant = datetime(2026, 5, 22, 20, tzinfo=UTC)
    assert memory.get("what is today?", k=1, now=instant)[0].text.startswith("haircut")
    there = instant.astimezone(ZoneInfo("Asia/Tokyo"))
    assert memory.get("what is today?", k=1, now=there)[0].text.startswith("dentist")


# Writing once.


def test_same_line_again_is_a_duplicate_and_another_a_conflict(memory: Memory, clock: Clock) -> None:
    first = memory.put("Trip", namespace="travel", id=ID, session="s")
    clock.move(5)
    again = memory.put("Trip", namespace="travel", id=ID, session="s")
    assert (first.duplicate, again.duplicate) == (False, True)
    for other in ({"text": "Trap"}, {"kind": "turn"}, {"session": "t"}, {"author": "bob"}, {"time": NOON}):
        given: dict[str, Any] = {"text": "Trip", "namespace": "travel", "id": ID, "session": "s", **other}
        assert _refused(memory.put, **given) == "line_conflict"
    assert [line.id for line in memory.list().lines] == [ID]


def test_one_id_may_stand_in_two_namespaces(memory: Memory) -> None:
    memory.put("here", namespace="travel", id=ID)
    assert not memory.put("there", namespace="work", id=ID).duplicate
    assert {hit.text for hit in memory.get(ids=[ID])} == {"here", "there"}


def test_batch_is_all_or_none_and_keeps_its_order(memory: Memory) -> None:
    memory.put("one", namespace="work", id=ID)
    for bad in (NewLine(text="\x00", namespace="work"), NewLine(text="other", namespace="work", id=ID)):
        _refused(memory.put_many, [NewLine(text="good", namespace="work"), bad])
    assert len(memory.list().lines) == 1
    lines = [NewLine(text="one", namespace="work", id=ID)]
    lines += [NewLine(text=f"line {n}", namespace="work" if n % 2 else "travel") for n in range(255)]
    receipts = memory.put_many(iter(lines))
    assert [receipt.duplicate for receipt in receipts] == [True] + [False] * 255
    for name in ("work", "travel"):
        ids = [receipt.id for receipt in receipts[1:] if receipt.namespace == name]
        assert ids == sorted(ids)
    assert len(memory.list(limit=1000).lines) == 256


def test_batch_that_repeats_an_id_is_one_line_or_a_conflict(memory: Memory) -> None:
    twice = [NewLine(text="same", namespace="work", id=ID)] * 2
    assert [receipt.duplicate for receipt in memory.put_many(twice)] == [False, True]
    other = [NewLine(text=text, namespace="travel", id=ID) for text in ("a", "b")]
    assert _refused(lambda: memory.put_many(other)) == "line_conflict"


def test_ids_rise_with_every_put(memory: Memory, clock: Clock) -> None:
    ids = []
    for n in range(20):
        ids.append(memory.put(f"line {n}", namespace="work").id)
        clock.move(0.001 * (n % 3))
    assert ids == sorted(set(ids))


def test_largest_batch_is_taken_whole(memory: Memory) -> None:
    lines = [NewLine(text=f"{n:03}" + "\u4e2d" * 5460, namespace="work") for n in range(256)]
    assert len(memory.put_many(lines)) == 256


def test_forgotten_id_is_acknowledged_as_forgotten(memory: Memory) -> None:
    memory.put("secret plan", namespace="work", id=ID)
    memory.forget(ids=[ID])
    again = memory.put("secret plan", namespace="work", id=ID)
    assert (again.forgotten, again.duplicate) == (True, False)
    assert memory.get("secret") == []


# Reading.


def test_k_is_five_by_default_and_at_most_twenty(memory: Memory) -> None:
    memory.put_many([NewLine(text=f"line {n}", namespace="work") for n in range(25)])
    assert (len(memory.get("line")), len(memory.get("line", k=20)), len(memory.get("line", k=1))) == (5, 20, 1)
    assert memory.get(ids=[]) == []


def test_patience_is_taken_in_either_number(memory: Memory) -> None:
    memory.put("x", namespace="work")
    for patience in (0, 0.0, 1, 2.5, 86400):
        assert len(memory.get("x", patience=patience)) <= 1
    assert len(memory.get("x")) == 1


def test_answer_keeps_to_its_byte_budget(memory: Memory) -> None:
    memory.put_many([NewLine(text=f"line {n} " + "x" * 30_000, namespace="work") for n in range(4)])
    assert len(memory.get("line", k=4)) == 2


def test_list_pages_through_everything(memory: Memory) -> None:
    memory.put_many([NewLine(text=f"line {n}", namespace=NAMESPACES[n % 4]) for n in range(23)])
    memory.put_many([NewLine(text="same id", namespace=name, id=ID) for name in NAMESPACES])
    found: list[tuple[str, str]] = []
    after = None
    while True:
        page = memory.list(limit=5, after=after)
        found += [(line.id, line.namespace) for line in page.lines]
        if (after := page.next) is None:
            break
    assert len(found) == 27
    assert found == sorted(set(found))


def test_list_filters_by_session_kind_and_time(memory: Memory) -> None:
    for day in range(1, 5):
        memory.put(
            f"day {day}",
            namespace="work",
            session=f"s{day % 2}",
            kind="turn" if day > 2 else "note",
            time=NOON.replace(day=day),
        )
    assert len(memory.list(session="s1").lines) == 2
    assert len(memory.list(session="").lines) == 0
    assert len(memory.list(kind="turn").lines) == 2
    assert len(memory.list(since=NOON.replace(day=2), until=NOON.replace(day=4)).lines) == 2
    assert len(memory.list(namespaces=[]).lines) == 0


def test_no_namespace_named_means_the_caps_own_and_none_at_all_means_none(
    memory: Memory, opens: Opens, cap: Token, clock: Clock
) -> None:
    for name in NAMESPACES:
        memory.put(f"a line in {name}", namespace=name)
    assert {hit.namespace for hit in memory.get("line", k=20)} == set(NAMESPACES)
    travel = opens(strongroom.attenuate(cap, namespaces=["travel"], now=clock))
    assert [hit.namespace for hit in travel.get("line", k=20)] == ["travel"]
    assert travel.put("more").namespace == "travel"
    assert memory.get("line", namespaces=[]) == []


def test_get_of_none_returns_nothing_whatever_the_cap_allows(
    memory: Memory, opens: Opens, cap: Token, clock: Clock
) -> None:
    memory.put("x", namespace="work")
    few = opens(strongroom.attenuate(cap, max_k=1, now=clock))
    assert memory.get("x", k=0) == memory.get(k=0, patience=0) == few.get("x", k=0) == []
    assert _refused(lambda: memory.get("x", k=0, namespaces=["nowhere"])) == "cap_namespace_denied"
    assert _refused(lambda: memory.get("x" * 8193, k=0)) == "line_too_large"


def test_lines_left_out_make_room_for_the_next_best_with_the_same_scores(memory: Memory) -> None:
    memory.put_many([NewLine(text=f"line {n}", namespace=NAMESPACES[n % 4]) for n in range(12)])
    every = memory.get("line", k=12)
    for left_out in ([every[0].id], [hit.id for hit in every[:7]], [every[3].id, ID], [hit.id for hit in every]):
        rest = [hit for hit in every if hit.id not in left_out]
        assert memory.get("line", k=3, without=left_out) == rest[:3]
    assert memory.get("line", k=12, without=[ID] * 1024) == every
    assert memory.get("line", k=12, without=()) == every


# The inbox, and what was done elsewhere.


def test_bundle_is_delivered_once_however_often_it_is_sent(memory: Memory) -> None:
    lines = (NewLine(text="Trip", namespace="travel", id=ID, time=NOON), NewLine(text="x", namespace="work", id=OTHER))
    sealed = inbox.seal(memory.inbox(), inbox.Bundle("local/alice", lines))
    first, again = memory.deliver(sealed), memory.deliver(sealed)
    assert [receipt.id for receipt in first] == [ID, OTHER]
    assert [receipt.duplicate for receipt in first + again] == [False, False, True, True]
    assert [(hit.text, hit.time) for hit in memory.get(ids=[ID])] == [("Trip", NOON)]
    memory.forget(ids=[ID])
    assert [receipt.forgotten for receipt in memory.deliver(sealed)] == [True, False]
    memory.observe("mcp__files__read", "0f" * 32)


def test_memory_with_another_cap_is_the_memory_of_that_cap(memory: Memory, opens: Opens, vault: Vault) -> None:
    bob = memory.with_cap(vault.mint(actor="local/bob", ops=["put", "get"], namespaces=["work"]))
    assert type(bob) is Memory
    memory.put("her line", namespace="work")
    bob.put("his line")
    assert [hit.text for hit in bob.get("line")] == ["his line"]
    assert [hit.text for hit in memory.get("line")] == ["her line"]
    assert _refused(bob.list) == "cap_op_mismatch"
    assert _refused(lambda: memory.with_cap("garbage").get("line")) == "cap_malformed"
    bob.close()
    assert [hit.text for hit in bob.get("line")] == ["his line"], "closing it closes nothing"


# Profiles.


def test_profile_is_written_over_its_own_version_only(memory: Memory) -> None:
    assert memory.profile("work") == Profile("work", "", "")  # type: ignore[arg-type]
    first = memory.set_profile("one", namespace="work")
    assert memory.profile("work") == first
    assert _refused(lambda: memory.set_profile("two", namespace="work")) == "version_conflict"
    second = memory.set_profile("two", namespace="work", version=first.version)
    assert _refused(lambda: memory.set_profile("three", namespace="work", version=first.version)) == "version_conflict"
    assert memory.profile("work") == second
    assert memory.set_profile("", namespace="work", version=second.version).text == ""


def test_snapshot_holds_the_allowed_profiles(memory: Memory, opens: Opens, cap: Token, clock: Clock) -> None:
    for name in ("travel", "personal"):
        memory.set_profile(f"of {name}", namespace=name)
    assert [profile.namespace for profile in memory.snapshot().profiles] == ["personal", "travel"]
    assert [profile.text for profile in memory.snapshot(namespaces=["travel"]).profiles] == ["of travel"]
    travel = opens(strongroom.attenuate(cap, namespaces=["travel"], now=clock))
    assert [profile.namespace for profile in travel.snapshot().profiles] == ["travel"]
    assert travel.profile().text == "of travel"


def test_profile_that_does_not_fit_a_snapshot_is_named(memory: Memory, opens: Opens, cap: Token, clock: Clock) -> None:
    for name in ("personal", "travel"):
        alone = opens(strongroom.attenuate(cap, namespaces=[name], now=clock))
        alone.set_profile("x" * 8000)
    assert memory.snapshot().left_out == ("travel",)
    assert _refused(lambda: memory.set_profile("x" * 500, namespace="work")) == "line_too_large"


# Forgetting.


def test_forget_by_ids_session_link_namespace_and_time(memory: Memory, opens: Opens, cap: Token, clock: Clock) -> None:
    def filled() -> list[str]:
        child = strongroom.attenuate(cap, namespaces=["work"], now=clock)
        lines = [
            memory.put("a", namespace="work", session="s1", time=NOON),
            memory.put("b", namespace="travel", session="s1"),
            memory.put("c", namespace="travel", session="s2"),
            opens(child).put("d", namespace="work"),
        ]
        filled.link = strongroom.caps.chain.parse(child).links[-1].id  # type: ignore[attr-defined]
        return [line.id for line in lines]

    a, b, c, d = filled()
    assert memory.forget(ids=[a, ID]).missing == (ID,)
    assert memory.forget(session="s1").ids == (b,)
    assert memory.forget(link=filled.link).ids == (d,)  # type: ignore[attr-defined]
    assert memory.forget(namespaces=["travel"]).ids == (c,)
    a, b, c, d = filled()
    assert memory.forget(since=NOON, until=NOON + timedelta(seconds=1)).ids == (a,)
    assert memory.forget(ids=[a]).missing == (a,)
    assert [hit.id for hit in memory.get(ids=[b, c, d])] == [b, c, d]


def test_erase_destroys_a_namespace_or_everything(memory: Memory, opens: Opens, vault: Vault, clock: Clock) -> None:
    memory.put("x", namespace="work")
    memory.put("y", namespace="travel")
    assert memory.erase(["work"]).objects == 1
    assert [line.namespace for line in memory.list().lines] == ["travel"]
    assert memory.put("again", namespace="work").namespace == "work"
    clock.move(1)
    assert memory.erase(everything=True).pending is False
    assert _refused(lambda: memory.put("back", namespace="work")) == "cap_revoked"
    clock.move(1)
    fresh = opens(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES))
    assert fresh.list().lines == ()


# Renewing.


def test_renewed_cap_has_the_same_scope_and_lives_longer(opens: Opens, vault: Vault, clock: Clock) -> None:
    token = vault.mint(actor="local/alice", ops=["put", "get", "renew"], namespaces=["work"], ttl=1000, max_k=3)
    held = opens(token)
    clock.move(500)
    renewed = held.renew()
    assert type(renewed) is Token
    assert caps.parse(renewed).first.exp == caps.parse(token).first.exp + 500
    new = opens(renewed)
    new.put("x", namespace="work")
    assert _refused(lambda: new.get("x", k=4)) == "cap_limit_exceeded"
    assert _refused(new.list) == "cap_op_mismatch"
    narrowed = opens(strongroom.attenuate(token, namespaces=["work"], now=clock))
    assert _refused(narrowed.renew) == "invalid_request"
    vault.revoke(token)
    assert _refused(lambda: new.get("x")) == "cap_revoked"


# The object itself.


def test_memory_shows_nothing_and_closes_without_closing_the_vault(opens: Opens, cap: Token, vault: Vault) -> None:
    with opens(cap) as memory:
        assert type(memory) is Memory
        memory.put("x", namespace="work")
        assert repr(memory) == "<memory behind a cap>"
    memory.close()
    assert len(vault.memory(cap).get("x")) == 1


def test_replaced_line_is_gone_and_its_history_stays(memory: Memory) -> None:
    old = memory.put("trip on May 25", namespace="travel", tags=["trip"], meta={"n": [1, None]}, turn="t1")
    new = memory.replace(old.id, "trip on May 27", new_id=ID)
    assert memory.replace(old.id, "trip on May 27", new_id=ID).duplicate
    with pytest.raises(errors.LineReplaced):
        memory.replace(old.id, "trip on May 28")
    (hit,) = memory.get("trip", tags=["trip"], meta={"n": [1, None]}, turn="t1")
    assert (hit.id, hit.replaces, hit.tags, hit.meta) == (new.id, old.id, ("trip",), {"n": [1, None]})
    assert [one.text for one in memory.history(old.id)] == ["trip on May 25", "trip on May 27"]
    assert [line.text for line in memory.list(texts=True, author="").lines] == ["trip on May 27"]
    last = memory.replace(new.id, "trip on May 29", forget=True, expires=NOON.replace(year=2050))
    assert [one.expires for one in memory.history(last.id)] == [NOON.replace(year=2050)]
    with pytest.raises(errors.LineNotFound):
        memory.history(ID)


def test_threads_share_one_memory(memory: Memory) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                receipt = memory.put(f"line {number} {turn}", namespace="work")
                assert memory.get(ids=[receipt.id])[0].text == f"line {number} {turn}"
        except BaseException as error:  # noqa: BLE001 - carried to the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(memory.list(limit=1000).lines) == 40


# Documents.


def test_document_lives_through_writes_a_renaming_and_a_deletion(memory: Memory) -> None:
    later = NOON.replace(year=2031)
    first = memory.write_document("notes/caf\u00e9.md", "Train at nine", namespace="travel")
    second = memory.write_document(
        "notes/cafe\u0301.md",
        "Bus at ten",
        namespace="travel",
        version=first.version,
        tags=["b", "a"],
        meta={"n": 1.5},
        expires=later,
    )
    assert (second.tags, second.meta, second.expires) == (("a", "b"), {"n": 1.5}, later)
    assert memory.document("notes/caf\u00e9.md", namespace="travel") == second
    assert memory.document_history("notes/caf\u00e9.md", namespace="travel") == [second, first]
    (hit,) = memory.get("bus")
    assert (hit.id, hit.kind, hit.document) == (second.version, Kind.DOCUMENT, second.key)
    moved = memory.rename_document("notes/caf\u00e9.md", "b", namespace="travel", version=second.version)
    memory.write_document("a", "x", namespace="work")
    page = memory.documents(limit=1)
    assert [one.key for one in page.documents] == ["a"]
    assert [one.key for one in memory.documents(limit=1, after=page.next).documents] == ["b"]
    assert [one.version for one in memory.documents("b", namespaces=["travel"]).documents] == [moved.version]
    assert memory.delete_document("b", namespace="travel", version=moved.version).ids == (moved.version,)
    assert memory.delete_document("b", namespace="travel").ids == ()


@pytest.mark.parametrize(
    ("reason", "ask"),
    [
        ("not_found", lambda memory: memory.document("a", namespace="travel")),
        ("not_found", lambda memory: memory.document_history("a", namespace="travel")),
        ("not_found", lambda memory: memory.rename_document("a", "b", namespace="travel")),
        ("version_conflict", lambda memory: memory.write_document("a", "x", namespace="travel", version="v")),
        ("invalid_request", lambda memory: memory.document("a//b", namespace="travel")),
        ("invalid_request", lambda memory: memory.document("a")),
        ("invalid_request", lambda memory: memory.document(7, namespace="travel")),
        ("invalid_request", lambda memory: memory.write_document("a", b"x", namespace="travel")),
        ("invalid_request", lambda memory: memory.write_document("a", "x", namespace="travel", version=7)),
        ("invalid_request", lambda memory: memory.write_document("a", "x", namespace="travel", expires=NAIVE)),
        ("invalid_request", lambda memory: memory.write_document("a", "x", namespace="travel", meta={"a": {1}})),
        ("line_too_large", lambda memory: memory.write_document("a", "x" * 65537, namespace="travel")),
        ("too_many", lambda memory: memory.documents(limit=1001)),
        ("too_many", lambda memory: memory.documents(limit="3")),
        ("invalid_request", lambda memory: memory.documents(after="x")),
        ("invalid_request", lambda memory: memory.documents(7)),
        ("cap_namespace_denied", lambda memory: memory.document("a", namespace="nowhere")),
        ("cap_namespace_denied", lambda memory: memory.documents(namespaces=["nowhere"])),
    ],
)
def test_call_on_a_document_that_cannot_be_carried_out_has_its_reason(
    untouched: Memory, reason: str, ask: Callable[[Memory], object]
) -> None:
    with pytest.raises(errors.StrongroomError) as refused:
        ask(untouched)
    assert refused.value.reason == reason


def test_every_verb_of_memory_is_in_this_suite() -> None:
    """A new method must be given a behaviour here."""
    source = inspect.getsource(inspect.getmodule(test_every_verb_of_memory_is_in_this_suite))  # type: ignore[arg-type]
    members = {**vars(MemoryHandle), **vars(DocumentMethods), **vars(Memory)}
    verbs = {name for name, one in members.items() if not name.startswith("_") and callable(one)}
    assert verbs == {
        *("close", "deliver", "erase", "forget", "get", "inbox", "list", "observe", "profile", "put", "put_many"),
        *("history", "renew", "replace", "set_profile", "snapshot", "with_cap"),
        *("delete_document", "document", "document_history", "documents", "rename_document", "write_document"),
    }
    assert all(f".{verb}(" in source for verb in verbs)
