"""Put: denials first, then what is written, once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import strongroom
from strongroom import NewLine, Token, Vault, api, errors
from strongroom.gate import Ask
from strongroom.memory import Memory
from strongroom.memory.ops import put
from strongroom.model import Line, Op
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def _log(vault: Vault) -> list[tuple[str, str, str]]:
    return [(entry.op, entry.decision, entry.reason) for _, entry in vault.audit.entries() if entry is not None]


@pytest.mark.requirement("seed-namespace")
def test_travel_cap_putting_into_personal_is_denied_and_recorded(vault: Vault) -> None:
    cap = vault.mint(actor="local/alice", ops=["put"], namespaces=["travel"])
    with pytest.raises(errors.CapNamespaceDenied):
        vault.memory(cap).put("an allergy", namespace="personal")
    assert _log(vault)[-1] == ("put", "deny", "cap_namespace_denied")


@pytest.mark.requirement("seed-data-class")
def test_credentials_cap_with_put_gets_exactly_the_class_mismatch(vault: Vault) -> None:
    cap = vault.mint(actor="local/alice", ops=["put"], namespaces=["travel"], data_class="credentials")
    with pytest.raises(errors.CapDataClassMismatch):
        vault.memory(cap).put("x", namespace="travel")
    assert _log(vault)[-1] == ("put", "deny", "cap_data_class_mismatch")


@pytest.mark.requirement("gate-unnamed")
def test_put_without_a_namespace_needs_a_cap_for_exactly_one(vault: Vault, cap: Token) -> None:
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).put("where to?")
    travel = strongroom.attenuate(cap, namespaces=["travel"], now=lambda: vault._clerk.now())
    assert vault.memory(travel).put("to Chengdu").namespace == "travel"


@pytest.mark.requirement("put-limits")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * (32 * 1024 + 1), "line_too_large"),
        ("é" * (16 * 1024 + 1), "line_too_large"),
        ("x" * (1 << 20), "line_too_large"),
        ("bell \x07", "invalid_request"),
        ("line\r\nline", "invalid_request"),
        ("c1 \x85", "invalid_request"),
        ("nul \x00", "invalid_request"),
        ("lone \ud800", "invalid_request"),
        ("", "invalid_request"),
        (" \n\t", "invalid_request"),
    ],
)
def test_text_that_cannot_be_a_line_is_refused_and_nothing_is_written(
    vault: Vault, cap: Token, text: str, reason: str
) -> None:
    memory = vault.memory(cap)
    with pytest.raises(errors.Invalid) as refused:
        memory.put(text, namespace="travel")
    assert refused.value.reason == reason
    assert memory.list().lines == ()
    assert ("put", "deny", reason) in _log(vault)


@pytest.mark.requirement("put-limits")
def test_bytes_are_refused_by_name(vault: Vault, cap: Token) -> None:
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).put(b"bytes", namespace="travel")  # type: ignore[arg-type]


@pytest.mark.requirement("put-limits")
def test_text_is_kept_in_nfc_and_at_the_limit(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("Cafe\u0301", namespace="travel")
    memory.put("成都之行,五月" + "に" * 10_900, namespace="work")
    assert memory.get(namespaces=["travel"])[0].text == "Caf\u00e9"
    assert memory.get(namespaces=["work"])[0].text.startswith("成都之行")


@pytest.mark.requirement("put-limits")
@pytest.mark.parametrize(
    "given",
    [
        {"kind": "secret"},
        {"id": "not-a-ulid"},
        {"id": ID.lower()},
        {"session": "x" * 257},
        {"author": "two\nlines"},
        {"time": datetime(2026, 5, 1)},  # noqa: DTZ001 - a naive time is what is refused
        {"time": datetime(1969, 5, 1, tzinfo=UTC)},
        {"namespace": "Travel"},
        {"namespace": "../travel"},
    ],
)
def test_malformed_metadata_is_an_invalid_request(vault: Vault, cap: Token, given: dict[str, object]) -> None:
    memory = vault.memory(cap)
    with pytest.raises(errors.InvalidRequest):
        memory.put("text", **{"namespace": "travel", **given})  # type: ignore[arg-type]
    assert memory.list().lines == ()


@pytest.mark.requirement("seed-roundtrip", "put-provenance")
def test_put_then_get_round_trips_one_sealed_object_below_the_actor_prefix(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap, source="test")
    when = datetime(2026, 5, 20, 12, tzinfo=UTC)
    receipt = memory.put(
        "Trip to Chengdu, May 25-29", namespace="travel", session="s1", author="alice", kind="fact", time=when
    )
    (hit,) = memory.get("chengdu")
    assert (hit.id, hit.namespace, hit.text, hit.time) == (receipt.id, "travel", "Trip to Chengdu, May 25-29", when)
    assert (hit.session, hit.author, hit.kind) == ("s1", "alice", "fact")
    (record,) = [one for one in vault.caps() if one.label == ""]
    assert hit.provenance.links == (record.link,)
    assert hit.provenance.source == "test"
    assert hit.provenance.recorded == vault._clerk.now()
    prefix = f"actors/{vault._state.slots.actor(strongroom.actor_path('local', 'alice'))}/memory/"
    (stored,) = [thing for thing in vault._state.records.objects(prefix) if "/lines/" in thing.name]
    assert stored.body is not None
    assert b"Chengdu" not in stored.body


@pytest.mark.requirement("put-idempotent")
def test_same_line_again_is_a_duplicate_and_another_a_conflict(vault: Vault, cap: Token, clock: Clock) -> None:
    memory = vault.memory(cap)
    first = memory.put("Trip", namespace="travel", id=ID, session="s")
    clock.move(5)
    again = memory.put("Trip", namespace="travel", id=ID, session="s")
    assert (first.duplicate, again.duplicate) == (False, True)
    for other in ({"text": "Trap"}, {"kind": "turn"}, {"session": "t"}, {"author": "bob"}):
        with pytest.raises(errors.LineConflict):
            memory.put(**{"text": "Trip", "namespace": "travel", "id": ID, "session": "s", **other})  # type: ignore[arg-type]
    assert [line.id for line in memory.list().lines] == [ID]


@pytest.mark.requirement("put-idempotent")
def test_given_time_counts_for_being_the_same(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    when = datetime(2026, 5, 20, tzinfo=UTC)
    memory.put("Trip", namespace="travel", id=ID, time=when)
    assert memory.put("Trip", namespace="travel", id=ID, time=when).duplicate
    with pytest.raises(errors.LineConflict):
        memory.put("Trip", namespace="travel", id=ID, time=datetime(2026, 5, 21, tzinfo=UTC))


def test_one_id_may_stand_in_two_namespaces(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("here", namespace="travel", id=ID)
    assert not memory.put("there", namespace="work", id=ID).duplicate
    assert {hit.text for hit in memory.get(ids=[ID])} == {"here", "there"}


@pytest.mark.requirement("put-batch")
def test_batch_with_one_bad_line_writes_none(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("taken", namespace="travel", id=ID)
    for bad in (NewLine(text="\x00", namespace="travel"), NewLine(text="other", namespace="travel", id=ID)):
        with pytest.raises(errors.StrongroomError):
            memory.put_many([NewLine(text="good", namespace="travel"), bad])
    assert len(memory.list().lines) == 1


@pytest.mark.requirement("put-batch")
def test_batch_keeps_its_order_and_acknowledges_duplicates(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("one", namespace="work", id=ID)
    lines = [NewLine(text="one", namespace="work", id=ID)]
    lines += [NewLine(text=f"line {n}", namespace="work" if n % 2 else "travel") for n in range(255)]
    receipts = memory.put_many(lines)
    assert receipts[0].duplicate
    for namespace in ("work", "travel"):
        ids = [receipt.id for receipt in receipts[1:] if receipt.namespace == namespace]
        assert ids == sorted(ids)
    assert len(memory.list(limit=1000).lines) == 256
    assert vault.audit.verify().ok


@pytest.mark.requirement("put-batch")
def test_batch_that_repeats_an_id_is_one_line_or_a_conflict(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    twice = [NewLine(text="same", namespace="work", id=ID)] * 2
    assert [receipt.duplicate for receipt in memory.put_many(twice)] == [False, True]
    other = [NewLine(text=text, namespace="travel", id=ID) for text in ("a", "b")]
    with pytest.raises(errors.LineConflict):
        memory.put_many(other)


@pytest.mark.requirement("put-batch")
def test_empty_and_an_oversized_batch_are_refused(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    with pytest.raises(errors.InvalidRequest):
        memory.put_many([])
    with pytest.raises(errors.TooMany):
        memory.put_many([NewLine(text="x", namespace="work")] * 257)


@pytest.mark.requirement("gate-session")
def test_session_cap_writes_into_its_own_session_only(vault: Vault, cap: Token, clock: Clock) -> None:
    bound = vault.memory(strongroom.attenuate(cap, session="s1", namespaces=["work"], now=clock))
    with pytest.raises(errors.CapLimitExceeded):
        bound.put("x", session="s2")
    with pytest.raises(errors.CapLimitExceeded):
        bound.put_many([NewLine(text="x", session="s1"), NewLine(text="y", session="s2")])
    bound.put("x")
    assert bound.list().lines[0].session == "s1"


class _Liar(str):
    """A text that says it is another."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other in ("s1", "travel")

    def __hash__(self) -> int:
        return hash("s1")


@pytest.mark.requirement("gate-session")
def test_text_that_poses_as_another_reaches_no_other_session_or_namespace(
    vault: Vault, cap: Token, clock: Clock
) -> None:
    bound = vault.memory(strongroom.attenuate(cap, session="s1", namespaces=["travel"], now=clock))
    for first in ("s1", None):
        with pytest.raises(errors.CapLimitExceeded):
            bound.put_many([NewLine(text="x", session=first), NewLine(text="y", session=_Liar("s2"))])
    for name in ("travel", None):
        with pytest.raises(errors.CapNamespaceDenied):
            bound.put_many([NewLine(text="x", namespace=name), NewLine(text="y", namespace=_Liar("personal"))])
    assert not vault.memory(cap).list().lines


@pytest.mark.parametrize("field", ["namespace", "session", "kind", "author", "id"])
@pytest.mark.parametrize("value", [["a"], {}, 7, b"travel"])
def test_non_text_is_refused_wherever_a_text_belongs(vault: Vault, cap: Token, field: str, value: object) -> None:
    given = {"text": "x", "namespace": "travel", field: value}
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).put_many([NewLine(**given)])  # type: ignore[arg-type]


class _Own(NewLine, frozen=True):
    """A line of a kind of its own."""


class _Seeing:
    """A door that shows what comes to it."""

    def __init__(self) -> None:
        self.lines: tuple[NewLine, ...] = ()

    def call(self, call: api.Put) -> api.Receipts:
        self.lines = call.lines
        return api.Receipts(())


@pytest.mark.parametrize("kind", [NewLine, _Own])
def test_written_line_is_a_copy_of_what_was_given(kind: type[NewLine]) -> None:
    door, given = _Seeing(), kind(text="x", namespace="travel")
    Memory(door).put_many([given])  # type: ignore[arg-type]
    (line,) = door.lines
    assert (type(line), line) == (NewLine, NewLine(text="x", namespace="travel"))
    assert line is not given


@pytest.mark.requirement("seed-namespace")
def test_line_for_what_was_not_granted_is_refused_whoever_let_it_pass(vault: Vault) -> None:
    cap = vault.mint(actor="local/alice", ops=["put"], namespaces=["travel"])
    grant = vault._state.gate.admit(cap, Ask(Op.PUT), vault._clerk.now() // 1000)
    with pytest.raises(errors.CapNamespaceDenied):
        put._drafts(vault._clerk, grant, [NewLine(text="x", namespace="personal")], 1, "python")


class _Meddling(datetime):
    """A moment that changes a line while it is looked at."""

    line: NewLine
    field: str

    def timestamp(self) -> float:
        msgspec.structs.force_setattr(self.line, self.field, "other")
        return super().timestamp()


@pytest.mark.requirement("gate-session")
@pytest.mark.parametrize("field", ["session", "namespace"])
def test_line_that_is_changed_meanwhile_is_written_as_the_gate_saw_it(
    vault: Vault, cap: Token, clock: Clock, field: str
) -> None:
    bound = vault.memory(strongroom.attenuate(cap, session="s1", namespaces=["travel"], now=clock))
    time = _Meddling.now(UTC)
    time.field, time.line = field, NewLine(text="x", session="s1", namespace="travel", time=time)
    bound.put_many([time.line])
    (found,) = vault.memory(cap).list().lines
    assert (found.session, found.namespace) == ("s1", "travel")
    assert getattr(time.line, field) == "other"


@pytest.mark.requirement("forget-stays")
def test_forgotten_id_is_acknowledged_as_forgotten_and_stays_gone(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.put("secret plan", namespace="work", id=ID)
    memory.forget(ids=[ID])
    again = memory.put("secret plan", namespace="work", id=ID)
    assert (again.forgotten, again.duplicate) == (True, False)
    assert memory.get("secret") == []


@pytest.mark.requirement("gate-no-actor")
def test_two_actors_never_meet(vault: Vault) -> None:
    caps = {
        name: vault.mint(actor=f"local/{name}", ops=ALL_OPS, namespaces=NAMESPACES)
        for name in ("alice", "alice2", "bob")
    }
    for name, token in caps.items():
        vault.memory(token).put(f"{name}'s line", namespace="work", id=ID)
    for name, token in caps.items():
        assert [hit.text for hit in vault.memory(token).get("line", k=20)] == [f"{name}'s line"]
        assert [hit.text for hit in vault.memory(token).get(ids=[ID])] == [f"{name}'s line"]


def test_lines_of_a_second_handle_are_found_by_the_first(vault: Vault, cap: Token, reopen: Callable[[], Vault]) -> None:
    assert vault.memory(cap).get("x") == []
    reopen().memory(cap).put("from elsewhere", namespace="work")
    assert vault.memory(cap).get("elsewhere")[0].text == "from elsewhere"


@pytest.mark.requirement("residue")
def test_no_file_of_the_vault_or_its_keys_holds_a_text(vault: Vault, cap: Token, tmp_path: Path) -> None:
    marks = ["peanut-allergy-marker", "author-marker", "session-marker", "profile-marker", "local/alice"]
    memory = vault.memory(cap)
    memory.put(marks[0], namespace="personal", author=marks[1], session=marks[2])
    memory.set_profile(marks[3], namespace="personal")
    memory.get("peanut")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4
    for path in files:
        data = path.read_bytes()
        for mark in marks:
            assert mark.encode() not in data, path
            assert mark.encode("utf-16-le") not in data, path


def test_line_is_what_the_format_says() -> None:
    fields = ("id", "time", "kind", "namespace", "session", "author", "text", "provenance", "details")
    assert Line.__struct_fields__ == fields
