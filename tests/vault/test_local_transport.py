"""The door: the log and the vault's state behind an admin cap, calls that could not be read, and caps merely shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, api
from strongroom.crypto import inbox
from strongroom.errors import AuditUnavailable, BodyTooLarge, InvalidRequest
from strongroom.memory.local_transport import run_inline
from strongroom.memory.operation import SlowStep
from strongroom.model import DataClass, Op
from strongroom.store import Commit, Pending
from strongroom.vault import issue
from strongroom.vault.admin_calls import OPERATIONS
from tests.audit import rfc
from tests.audit.tools import fill, stored_entries
from tests.conftest import NAMESPACES, Clock
from tests.vault.tools import (
    ALICE,
    REQUEST,
    SCOPE,
    admin,
    entries,
    foreign_cap,
    link,
    links,
    minted,
    only_entry,
    refusal,
    renewable,
    renewed,
    revoked,
    terms,
    unread,
)

TRIP = "01JABCDEFGHJKMNPQRSTVWXYZ7"
EVERY_OP = [str(op) for op in Op]
AUDITING: dict[str, api.Call[Any]] = {
    "entries read": api.ReadEntries(),
    "checkpoint signed": api.SignCheckpoint(),
    "entry 0 proven": api.Prove(index=0),
    "status read": api.ReadStatus(),
}


def _calls(some_link: str, sealed: bytes = b"never opened") -> dict[type[api.Call[Any]], api.Call[Any]]:
    """One sound call of each kind, in an order in which all of them succeed if the vault opens what is `sealed`."""
    given: list[api.Call[Any]] = [
        api.Put(lines=(NewLine(text="a trip", namespace="travel", id=TRIP),)),
        api.ReadInbox(),
        api.Deliver(sealed=sealed),
        api.Observe(what="terminal", digest="0" * 64),
        api.Get(query="trip"),
        api.List(),
        api.WriteProfile(text="likes tea", namespace="travel"),
        api.ReadProfile(namespace="travel"),
        api.TakeSnapshot(),
        api.WriteDocument(key="notes/trip.md", text="a trip", namespace="travel"),
        api.ReadDocument(key="notes/trip.md", namespace="travel"),
        api.ReadDocumentHistory(key="notes/trip.md", namespace="travel"),
        api.ListDocuments(),
        api.RenameDocument(key="notes/trip.md", new_key="notes/other.md", namespace="travel"),
        api.DeleteDocument(key="notes/other.md", namespace="travel"),
        api.Replace(id=TRIP, text="another trip", namespace="travel"),
        api.ReadHistory(id=TRIP, namespace="travel"),
        api.Forget(session="none"),
        api.Erase(namespaces=("travel",)),
        api.Renew(),
        terms(),
        api.ListCaps(),
        api.Revoke(link=some_link),
        *AUDITING.values(),
    ]
    return {type(call): call for call in given}


def _cap_for(vault: Vault, kind: type[api.Call[Any]], **changes: Any) -> Token:
    given = {"actor": ALICE, "ops": EVERY_OP, "namespaces": NAMESPACES, "ttl": 3600, "data_class": kind.data_class}
    return vault.mint(**{**given, **changes})


KINDS = pytest.mark.parametrize("kind", api.CALLS, ids=lambda kind: kind.__name__)


def test_every_call_has_something_that_carries_it_out_and_a_row_here() -> None:
    assert set(OPERATIONS) == set(api.CALLS) == set(_calls("0" * 64))


# Denials, for every call there is.


def _worse(vault: Vault, clock: Clock, kind: type[api.Call[Any]], wrong: str) -> str:
    """A cap that is wrong in one way for this kind of call."""
    sound = _cap_for(vault, kind)
    whose = {"data_class": kind.data_class, "ops": EVERY_OP}
    if wrong == "expired":
        sound = _cap_for(vault, kind, ttl=1)
        clock.move(1)
    elif wrong == "revoked":
        vault.revoke(sound)
    elif wrong == "stripped":
        first, _, seed = strongroom.attenuate(sound, now=clock).split("~")
        return f"{first}~{seed}"
    made: dict[str, Callable[[], str]] = {
        "missing": lambda: "",
        "garbage": lambda: "garbage",
        "future": lambda: foreign_cap(vault, now=clock() // 1000 + 31, **whose),
        "audience": lambda: foreign_cap(vault, audience="0f0e0d0c0b0a0908", **whose),
        "op": lambda: _cap_for(vault, kind, ops=[op for op in EVERY_OP if op != kind.op]),
        "class": lambda: _cap_for(vault, kind, data_class="credentials"),
    }
    return made[wrong]() if wrong in made else sound


WRONGS = {
    "missing": "cap_missing",
    "garbage": "cap_malformed",
    "stripped": "cap_holder_proof",
    "audience": "cap_audience",
    "expired": "cap_expired",
    "future": "cap_not_yet_valid",
    "revoked": "cap_revoked",
    "op": "cap_op_mismatch",
    "class": "cap_data_class_mismatch",
}


@pytest.mark.requirement("bad-cap", "audit-reads", "audit-garbage", "refuse-cap-first")
@pytest.mark.parametrize("wrong", WRONGS)
def test_every_call_with_a_wrong_cap_is_refused_alike_whether_or_not_it_could_be_read(
    vault: Vault, clock: Clock, wrong: str
) -> None:
    for kind, call in _calls("0" * 64).items():
        token = _worse(vault, clock, kind, wrong)
        size, garbage = vault.audit.size(), vault._clerk.refusals.garbage
        read = refusal(partial(vault.door(token, request=REQUEST).call, call))
        other = unread(vault, token, kind, InvalidRequest("the body is not JSON"))
        assert (read.reason, other.reason) == (WRONGS[wrong], WRONGS[wrong])
        assert (read.message, read.hint) == (other.message, other.hint)
        if wrong in ("missing", "garbage"):
            assert (vault.audit.size(), vault._clerk.refusals.garbage) == (size, garbage + 2)
            continue
        assert vault.audit.size() == size + 2
        for entry in entries(vault, size):
            assert (entry.op, entry.decision, entry.reason) == (kind.op, "deny", WRONGS[wrong])
            assert (entry.data_class, entry.request, entry.links) == (kind.data_class, REQUEST, links(token))
            assert bool(entry.holder) == (wrong != "stripped")
            assert not [text for text in ("hermes", "alice") if text in entry.encoded().decode()]


@pytest.mark.requirement("audit-closed")
@pytest.mark.parametrize("sound", [True, False])
def test_nothing_is_answered_while_the_log_cannot_be_written(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, sound: bool
) -> None:
    hers = renewable(vault, ops=EVERY_OP)
    vault.memory(hers).put("a trip", namespace="travel")
    calls = _calls(link(hers))
    caps = {kind: _cap_for(vault, kind, **({} if sound else {"ops": []})) for kind in calls}

    def full(*_: Any, **__: Any) -> Commit:
        raise AuditUnavailable("the disk is full")

    monkeypatch.setattr(vault._state.store, "commit", full)
    for kind, call in calls.items():
        assert refusal(partial(vault.door(caps[kind]).call, call)).reason == "audit_unavailable"
        assert unread(vault, caps[kind], kind, InvalidRequest("x")).reason == "audit_unavailable"


@pytest.mark.requirement("audit-reads")
def test_every_call_that_succeeds_leaves_its_entry(vault: Vault) -> None:
    hers = renewable(vault)
    line = NewLine(text="a spooled trip", namespace="travel", id="01JABCDEFGHJKMNPQRSTVWXYZ0")
    sealed = inbox.seal(vault.memory(hers).inbox(), inbox.Bundle(ALICE, (line,)))
    for kind, call in _calls(link(hers), sealed).items():
        token = _cap_for(vault, kind)
        size = vault.audit.size()
        answer = vault.door(token, request=REQUEST).call(call)
        assert type(answer) is kind.answer
        last = entries(vault, size)[-1]
        assert (last.op, last.decision, last.data_class) == (kind.op, "allow", kind.data_class)
        assert (last.links, last.request, bool(last.holder)) == (links(token), REQUEST, True)
    assert vault.audit.verify().ok


# What could not be read.


@pytest.mark.requirement("refuse-cap-first")
@KINDS
def test_call_that_could_not_be_read_is_refused_on_record_under_a_valid_cap(
    vault: Vault, kind: type[api.Call[Any]]
) -> None:
    token = _cap_for(vault, kind)
    for error in (InvalidRequest("an unknown field"), BodyTooLarge("more than 5 MiB")):
        size = vault.audit.size()
        assert unread(vault, token, kind, error) is error
        entry = only_entry(vault, size)
        assert (entry.op, entry.decision, entry.reason) == (kind.op, "deny", error.reason)
        assert (entry.links, entry.request, bool(entry.holder)) == (links(token), REQUEST, True)
        assert entry.data_class == kind.data_class


@pytest.mark.requirement("refuse-cap-first", "cap-scope")
@pytest.mark.parametrize("kind", [kind for kind in api.CALLS if kind.data_class == DataClass.MEMORY])
def test_scope_that_opens_no_memory_is_told_so_whatever_came_with_it(vault: Vault, kind: type[api.Call[Any]]) -> None:
    token = _cap_for(vault, kind, actor=None, actor_scope=SCOPE)
    expected = "invalid_request" if kind is api.Renew else "cap_malformed"
    assert unread(vault, token, kind, InvalidRequest("x")).reason == expected


# A cap that is merely shown.


@pytest.mark.requirement("show-recorded")
def test_sound_cap_of_any_class_or_scope_is_told_by_its_first_link(vault: Vault, clock: Clock) -> None:
    for token in (renewable(vault), renewable(vault, actor_scope=SCOPE), admin(vault), renewable(vault, ops=[])):
        size = vault.audit.size()
        assert run_inline(vault.door(token).checking(), vault.store) == link(token)
        assert run_inline(vault.door(strongroom.attenuate(token, now=clock)).checking(), vault.store) == link(token)
        assert vault.audit.size() == size, "nothing was asked, so nothing was decided"


@pytest.mark.requirement("show-recorded", "audit-reads")
@pytest.mark.parametrize("wrong", ["stripped", "audience", "expired", "future", "revoked"])
def test_wrong_cap_that_is_merely_shown_is_refused_on_record(vault: Vault, clock: Clock, wrong: str) -> None:
    token = _worse(vault, clock, api.Get, wrong)
    size = vault.audit.size()
    assert (
        refusal(lambda: run_inline(vault.door(token, request=REQUEST).checking(), vault.store)).reason == WRONGS[wrong]
    )
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.reason) == ("show", "deny", WRONGS[wrong])
    assert (entry.data_class, entry.request, entry.links, entry.namespaces) == ("", REQUEST, links(token), ())
    assert vault.audit.verify().ok


@pytest.mark.requirement("audit-garbage")
@pytest.mark.parametrize("token", ["", "garbage", "x" * 9000, "é", "a.b.c~d"])
def test_garbage_that_is_merely_shown_is_counted(vault: Vault, token: str) -> None:
    size = vault.audit.size()
    refusal(lambda: run_inline(vault.door(token).checking(), vault.store))
    assert (vault.audit.size(), vault._clerk.refusals.garbage) == (size, 1)


@pytest.mark.parametrize("field", ["source", "request"])
@pytest.mark.parametrize("text", ["x" * 257, "a\nb", "a\tb", "\x00", "\ud800"])
def test_source_or_request_id_that_the_log_could_not_hold_opens_no_door(vault: Vault, field: str, text: str) -> None:
    token = renewable(vault)
    assert refusal(lambda: vault.door(token, **{field: text})).reason == "invalid_request"


# The log and the state behind an admin cap.


@pytest.mark.requirement("admin-audit")
@pytest.mark.parametrize("detail", AUDITING)
def test_auditing_needs_the_op_audit(vault: Vault, clock: Clock, detail: str) -> None:
    for token in (admin(vault, ops=["mint", "revoke"]), strongroom.attenuate(admin(vault), ops=["mint"], now=clock)):
        size = vault.audit.size()
        assert refusal(partial(vault.door(token).call, AUDITING[detail])).reason == "cap_op_mismatch"
        assert (only_entry(vault, size).op, only_entry(vault, size).decision) == ("audit", "deny")


@pytest.mark.requirement("admin-audit", "audit-reads")
@pytest.mark.parametrize("detail", AUDITING)
def test_looking_into_the_log_is_in_the_log(vault: Vault, detail: str) -> None:
    token = admin(vault)
    size = vault.audit.size()
    vault.door(token, request=REQUEST).call(AUDITING[detail])
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.data_class, entry.detail) == ("audit", "allow", "admin", detail)
    assert (entry.links, entry.request, bool(entry.holder), entry.objects) == (links(token), REQUEST, True, ())


@pytest.mark.requirement("admin-audit", "audit-private")
def test_entries_come_as_they_stand_and_name_nobody(vault: Vault, tmp_path: Path) -> None:
    token = admin(vault)
    vault.memory(renewable(vault)).put("the safe is behind the painting", namespace="work")
    stored = stored_entries(tmp_path / "vault")
    answer = vault.door(token).call(api.ReadEntries(limit=1000))
    assert [one.index for one in answer.entries] == list(range(len(stored)))
    assert [one.entry.encoded() for one in answer.entries if one.entry is not None] == stored
    assert answer.size == len(stored) + 1
    said = msgspec.json.encode(answer).decode()
    assert not [text for text in ("hermes", "alice", "safe", "work", token) if text in said]


@pytest.mark.requirement("admin-audit")
def test_log_can_be_read_page_by_page(vault: Vault) -> None:
    fill(vault, 20)
    door = vault.door(admin(vault))
    size, read, start = vault.audit.size(), [], 0
    while start < size:
        page = door.call(api.ReadEntries(start=start, limit=7)).entries
        assert 1 <= len(page) <= 7
        read += [one.index for one in page]
        start = read[-1] + 1
    assert read[:size] == list(range(size))
    assert door.call(api.ReadEntries(start=10**6)).entries == ()


@pytest.mark.requirement("admin-audit")
def test_archived_entry_is_told_by_its_number_alone(vault: Vault, tmp_path: Path) -> None:
    fill(vault, 300)
    vault.audit.archive(tmp_path / "archive")
    answer = vault.door(admin(vault)).call(api.ReadEntries(start=250, limit=10))
    assert [one.index for one in answer.entries] == list(range(250, 260))
    assert [one.entry is None for one in answer.entries] == [True] * 6 + [False] * 4


@pytest.mark.requirement("admin-audit")
@pytest.mark.parametrize(
    "call",
    [
        api.ReadEntries(start=-1),
        api.ReadEntries(limit=0),
        api.ReadEntries(limit=-1),
        api.ReadEntries(limit=1001),
        api.ReadEntries(limit=2**70),
        api.ReadEntries(start=2**63),
        api.ReadEntries(start=2**64),
        api.ReadEntries(start=2**70),
        api.Prove(index=-1),
        api.Prove(index=10**6),
        api.Prove(index=2**63),
        api.Prove(index=2**70),
    ],
    ids=str,
)
def test_numbers_outside_the_log_are_an_invalid_request(vault: Vault, call: api.Call[Any]) -> None:
    token = admin(vault)
    size = vault.audit.size()
    assert refusal(partial(vault.door(token).call, call)).reason == "invalid_request"
    entry = only_entry(vault, size)
    assert (entry.op, entry.decision, entry.reason, entry.data_class) == ("audit", "deny", "invalid_request", "admin")


@pytest.mark.requirement("admin-audit")
@pytest.mark.parametrize("start", [3, 10**6, 2**40])
def test_entries_behind_the_end_of_the_log_are_none(vault: Vault, start: int) -> None:
    answer = vault.door(admin(vault)).call(api.ReadEntries(start=start))
    assert (answer.entries, answer.size) == ((), 3)


@pytest.mark.requirement("admin-audit", "audit-prove")
def test_checkpoints_and_proofs_convince_a_second_implementation(vault: Vault, tmp_path: Path) -> None:
    door = vault.door(admin(vault))
    vault.memory(renewable(vault)).put("a trip", namespace="travel")
    signed = door.call(api.SignCheckpoint())
    stored = stored_entries(tmp_path / "vault")
    head = rfc.SignedHead(vault.audit.origin, len(stored), rfc.Tree(stored).root())
    assert rfc.open_note(signed.checkpoint, signed.key) == head
    for number, data in enumerate(stored):
        proven = door.call(api.Prove(index=number))
        assert proven.key == signed.key == vault.audit.verifier_key
        rfc.check_proof(proven.proof, data, proven.key)


@pytest.mark.requirement("admin-audit", "audit-verify")
def test_checkpoint_for_an_admin_cap_is_not_what_the_owner_saw(vault: Vault, keys: strongroom.FileKeys) -> None:
    before = (keys.directory / "checkpoint").read_bytes()
    vault.door(admin(vault)).call(api.SignCheckpoint())
    assert (keys.directory / "checkpoint").read_bytes() == before


@pytest.mark.requirement("admin-audit", "audit-private")
def test_state_tells_of_no_actor(vault: Vault) -> None:
    vault.memory(renewable(vault)).put("hers", namespace="work")
    status = vault.door(admin(vault)).call(api.ReadStatus())
    assert (status.vault, status.log_size) == (vault.id, vault.audit.size())
    assert status.version
    assert not [text for text in ("hermes", "alice", "hers") if text in msgspec.json.encode(status).decode()]


@pytest.mark.requirement("admin-audit")
@pytest.mark.parametrize("kind", [api.ReadEntries, api.ListCaps])
def test_staged_answer_leaves_only_after_its_entry(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, kind: type[api.Call[Any]]
) -> None:
    """A defect on the way to the answer is in the log by its kind, and its message is nowhere."""
    token = admin(vault)

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("hermes/default/alice")

    monkeypatch.setattr(vault._state.log, "entries", broken)
    monkeypatch.setattr(issue, "cap_records", broken)
    with pytest.raises(RuntimeError):
        vault.door(token, request=REQUEST).call(kind())
    monkeypatch.undo()
    last = entries(vault)[-1]
    assert (last.op, last.decision, last.detail, last.request) == (kind.op, "fail", "RuntimeError", REQUEST)
    assert "hermes" not in last.encoded().decode()


@pytest.mark.requirement("admin-audit", "audit-verify")
def test_log_verifies_after_all_of_it(vault: Vault, clock: Clock, reopen: Callable[[], Vault]) -> None:
    token, other = admin(vault), reopen()
    narrowed = strongroom.attenuate(token, actor=ALICE, now=clock)
    hers = minted(other, narrowed)
    again = renewed(vault, renewed(other, hers))
    vault.memory(again).put("hers")
    other.door(token).call(api.ReadStatus())
    for bad in ("", "garbage", hers):
        refusal(partial(minted, vault, bad))
    revoked(other, token, link(hers))
    refusal(partial(renewed, vault, again))
    vault.erase(ALICE)
    vault.revoke(token)
    assert vault.audit.verify().ok
    assert other.audit.verify().ok
    assert reopen().audit.verify().ok


@pytest.mark.requirement("server-connections")
@pytest.mark.parametrize("text", ["x" * 20_000, "字" * 8_000])
def test_put_that_takes_long_to_index_leaves_the_event_loop(vault: Vault, cap: Token, text: str) -> None:
    lines = (strongroom.NewLine(text=text, namespace="travel"),)
    assert next(vault.door(cap).doing(api.Put(lines=lines))) == SlowStep("local/alice")
    short = (strongroom.NewLine(text="short", namespace="travel"),)
    assert isinstance(next(vault.door(cap).doing(api.Put(lines=short))), Pending)


@pytest.mark.requirement("server-connections")
def test_changes_of_another_process_are_not_read_on_the_event_loop(
    vault: Vault, cap: Token, tmp_path: Path, keys: FileKeys
) -> None:
    with strongroom.open(tmp_path / "vault", keys=keys, now=vault._clerk.now) as other:
        with other.together() as nothing_new:
            assert nothing_new
        vault.memory(cap).put("a line", namespace="travel")
        with other.together() as nothing_new:
            assert not nothing_new
