"""What travels: every call is closed, round-trips, and can name no actor; every reason that travels has a status."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom import NewLine, api
from strongroom.errors import BY_REASON, ServerDefect, StrongroomError
from strongroom.memory import Memory
from strongroom.memory.document_methods import DocumentMethods
from strongroom.model import DataClass, Op

KINDS = pytest.mark.parametrize("kind", api.CALLS, ids=lambda kind: kind.__name__)
NOON = datetime(2026, 5, 22, 12, tzinfo=UTC)
OF_SOUND_CAPS = {"cap_op_mismatch", "cap_data_class_mismatch", "cap_namespace_denied", "cap_limit_exceeded"}
"""Denials of a cap that is valid and does not cover what was asked."""
OF_HOSTS = {
    "provider_refused",
    "identity_incomplete",
    "provider_missing",
    "provider_unavailable",
    "journal_unavailable",
}
NEVER_TRAVEL = {"vault_exists", "vault_format", "vault_missing"} | OF_HOSTS
FILTER: dict[str, Any] = {
    "kind": "fact",
    "author": "a",
    "tags": ("t",),
    "meta": {"m": [1, {"n": None}]},
    "turn": "u",
    "since": NOON,
    "until": NOON,
}

FULL: dict[type[api.Call[Any]], dict[str, Any]] = {
    api.Put: {
        "lines": (
            NewLine(text="a", namespace="work", session="s", author="me", kind="fact", id="01J", time=NOON),
            NewLine(text="b"),
        )
    },
    api.ReadInbox: {},
    api.Deliver: {"sealed": b"sealed"},
    api.Observe: {"what": "terminal", "digest": "d"},
    api.Get: {
        **FILTER,
        "from_session": "t",
        "query": "x",
        "k": 3,
        "ids": ("a",),
        "without": ("b",),
        "namespaces": ("work",),
        "session": "s",
        "now": NOON,
        "patience": 0.5,
        "min_confidence": 0.5,
        "or_newest": True,
        "explain": True,
    },
    api.List: {
        "namespaces": ("work",),
        "session": "s",
        **FILTER,
        "limit": 7,
        "after": "x",
        "texts": True,
        "standing": True,
    },
    api.TakeSnapshot: {"namespaces": ("work",)},
    api.ReadProfile: {"namespace": "work"},
    api.WriteProfile: {"text": "x", "namespace": "work", "version": "v"},
    api.ReadDocument: {"key": "a", "namespace": "work"},
    api.WriteDocument: {
        "key": "a",
        "text": "x",
        "namespace": "work",
        "version": "v",
        "tags": ("t",),
        "meta": {"m": 1},
        "expires": NOON,
        "unused": True,
    },
    api.ListDocuments: {"prefix": "a", "namespaces": ("work",), "limit": 7, "after": "work/a"},
    api.DeleteDocument: {"key": "a", "namespace": "work", "version": "v"},
    api.RenameDocument: {"key": "a", "new_key": "b", "version": "v", "namespace": "work"},
    api.ReadDocumentHistory: {"key": "a", "namespace": "work"},
    api.Forget: {
        "ids": ("a",),
        "session": "s",
        "link": "l",
        "namespaces": (),
        **FILTER,
    },
    api.Replace: {
        "id": "i",
        "text": "x",
        "namespace": "work",
        "new_id": "n",
        "session": "s",
        "author": "a",
        "kind": "fact",
        "time": NOON,
        "tags": ("t",),
        "meta": {"m": 1},
        "expires": NOON,
        "turn": "u",
        "forget": True,
    },
    api.ReadHistory: {"id": "i", "namespace": "work"},
    api.Erase: {"namespaces": ("work",), "everything": True},
    api.Renew: {},
    api.Mint: {
        "ops": ("get",),
        "namespaces": ("work",),
        "actor": "a",
        "actor_scope": "a/",
        "ttl": 1,
        "session": "s",
        "max_k": 1,
        "max_depth": 0,
        "label": "l",
        "delegable": False,
    },
    api.ListCaps: {},
    api.Revoke: {"link": "l"},
    api.ReadEntries: {"start": 1, "limit": 2},
    api.SignCheckpoint: {},
    api.Prove: {"index": 4},
    api.ReadStatus: {},
}
"""Every field of every call, with a value that is not its default."""


def _subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind} | {below for child in kind.__subclasses__() for below in _subclasses(child)}


# Calls.


@pytest.mark.requirement("wire-calls")
def test_every_call_there_is_stands_in_the_list_once() -> None:
    made = {kind for kind in _subclasses(api.Call) if kind.__module__.startswith(f"{api.__name__}.")}
    made -= {api.Call, api.LineFilter}
    assert made == set(api.CALLS)
    assert len(set(api.CALLS)) == len(api.CALLS)
    assert set(FULL) == set(api.CALLS)


@pytest.mark.requirement("wire-calls")
def test_no_two_calls_share_a_method_and_a_path() -> None:
    places = Counter((kind.method, kind.path) for kind in api.CALLS)
    assert [place for place, count in places.items() if count > 1] == []


@pytest.mark.requirement("wire-calls")
@KINDS
def test_call_says_what_it_needs_what_it_gives_and_where_it_goes(kind: type[api.Call[Any]]) -> None:
    assert isinstance(kind.op, Op)
    assert isinstance(kind.data_class, DataClass)
    assert issubclass(kind.answer, msgspec.Struct)
    assert get_args(kind.__orig_bases__[0]) == (kind.answer,), "the type parameter is the answer"  # type: ignore[attr-defined]
    assert kind.method in {"GET", "PUT", "POST"}
    assert re.fullmatch(r"/v1(/[a-z]+)+", kind.path)
    assert kind.__doc__
    assert kind.__doc__ != api.Call.__doc__


@pytest.mark.requirement("wire-calls")
def test_memory_and_the_administration_are_told_apart_by_class() -> None:
    admins = {kind.__name__ for kind in api.CALLS if kind.data_class == DataClass.ADMIN}
    assert admins == {"Mint", "ListCaps", "Revoke", "ReadEntries", "SignCheckpoint", "Prove", "ReadStatus"}
    assert {kind.data_class for kind in api.CALLS} == {DataClass.MEMORY, DataClass.ADMIN}


@pytest.mark.requirement("gate-no-actor")
@KINDS
def test_no_call_but_mint_can_name_an_actor_or_a_class(kind: type[api.Call[Any]]) -> None:
    names = set(_names(kind))
    suspects = {name for name in names if re.search("actor|user|owner|scope|class|holder|cap|token|vault", name)}
    assert suspects == ({"actor", "actor_scope"} if kind is api.Mint else set())


def _names(kind: type[msgspec.Struct]) -> list[str]:
    """The fields of a call, and of the lines in it."""
    names = list(kind.__struct_fields__)
    return names + list(NewLine.__struct_fields__) if "lines" in names else names


@pytest.mark.requirement("wire-calls")
@KINDS
def test_call_with_every_field_comes_through_json_as_it_was(kind: type[api.Call[Any]]) -> None:
    assert set(FULL[kind]) == set(kind.__struct_fields__)
    call = kind(**FULL[kind])
    encoded = msgspec.json.encode(call)
    assert set(json.loads(encoded)) == set(FULL[kind]), "nothing is left out"
    assert msgspec.json.decode(encoded, type=kind) == call


@pytest.mark.requirement("wire-calls")
@KINDS
def test_call_at_its_defaults_is_as_small_as_can_be(kind: type[api.Call[Any]]) -> None:
    required = {field.name for field in msgspec.structs.fields(kind) if field.required}
    call = kind(**{name: FULL[kind][name] for name in required})
    encoded = msgspec.json.encode(call)
    assert set(json.loads(encoded)) == required
    assert msgspec.json.decode(encoded, type=kind) == call


UNKNOWN = {"actor", "actor_scope", "data_class", "op", "method", "path", "cap", "x", "", "__class__", "Link", "LINES"}


@pytest.mark.requirement("wire-closed")
@KINDS
def test_unknown_field_is_refused(kind: type[api.Call[Any]]) -> None:
    body = json.loads(msgspec.json.encode(kind(**FULL[kind])))
    for field in UNKNOWN - set(body):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps({**body, field: "local/victim"}), type=kind)


@pytest.mark.requirement("wire-closed", "gate-no-actor")
@pytest.mark.parametrize("field", ["actor", "provenance", "links", "holder", "source", "recorded"])
def test_unknown_field_of_a_line_is_refused(field: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps({"lines": [{"text": "x", field: "y"}]}), type=api.Put)


@pytest.mark.requirement("wire-closed")
@KINDS
def test_value_of_another_type_is_refused_in_every_field(kind: type[api.Call[Any]]) -> None:
    body = json.loads(msgspec.json.encode(kind(**FULL[kind])))
    for name in body:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps({**body, name: [1] if name == "meta" else {"a": 1}}), type=kind)
    for other in ("[]", "null", "1", '"x"', "true"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(other, type=kind)


@pytest.mark.requirement("wire-closed")
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (api.Get, '{"k": "3"}'),
        (api.Get, '{"k": 3.5}'),
        (api.Get, '{"k": true}'),
        (api.Get, '{"query": 1}'),
        (api.Get, '{"namespaces": "work"}'),
        (api.Get, '{"namespaces": [null]}'),
        (api.Get, '{"ids": "01J"}'),
        (api.Get, '{"now": 0}'),
        (api.Erase, '{"everything": 1}'),
        (api.Erase, '{"everything": "true"}'),
        (api.Mint, '{"ops": "get", "namespaces": []}'),
        (api.Mint, '{"ops": [], "namespaces": [], "ttl": "1"}'),
        (api.Mint, '{"ops": [], "namespaces": [], "delegable": 0}'),
        (api.Put, '{"lines": {}}'),
        (api.Put, '{"lines": ["x"]}'),
        (api.Put, "{}"),
        (api.WriteProfile, "{}"),
        (api.Revoke, "{}"),
        (api.Prove, "{}"),
        (api.Mint, '{"ops": []}'),
        (api.Mint, '{"namespaces": []}'),
    ],
)
def test_value_is_never_taken_for_another(kind: type[api.Call[Any]], body: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=kind)


@pytest.mark.requirement("wire-closed")
@given(st.binary(max_size=300), st.sampled_from(api.CALLS))
def test_any_bytes_are_a_call_or_refused_and_never_anything_else(body: bytes, kind: type[api.Call[Any]]) -> None:
    try:
        call = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    assert msgspec.json.decode(msgspec.json.encode(call), type=kind) == call


@pytest.mark.requirement("wire-calls")
def test_memory_asks_with_these_calls_and_no_other() -> None:
    class Asked(Exception):
        pass

    class Recorder:
        def __init__(self) -> None:
            self.calls: list[api.Call[Any]] = []

        def call(self, call: api.Call[Any]) -> Any:
            self.calls.append(call)
            raise Asked

        def with_cap(self, token: str) -> api.Transport:
            raise NotImplementedError

    door = Recorder()
    memory = Memory(door)
    doings: list[Callable[[], object]] = [
        lambda: memory.put("x"),
        lambda: memory.put_many([NewLine(text="x")]),
        lambda: memory.inbox(),
        lambda: memory.deliver(b"x"),
        lambda: memory.observe("terminal", "0" * 64),
        lambda: memory.get("x"),
        lambda: memory.list(),
        lambda: memory.snapshot(),
        lambda: memory.profile(),
        lambda: memory.set_profile("x"),
        lambda: memory.document("a"),
        lambda: memory.write_document("a", "x"),
        lambda: memory.documents(),
        lambda: memory.delete_document("a"),
        lambda: memory.rename_document("a", "b", version="v"),
        lambda: memory.document_history("a"),
        lambda: memory.forget(),
        lambda: memory.replace("i", "x"),
        lambda: memory.history("i"),
        lambda: memory.erase(),
        lambda: memory.renew(),
    ]
    for doing in doings:
        with pytest.raises(Asked):
            doing()
    memories = {kind for kind in api.CALLS if kind.data_class == DataClass.MEMORY}
    assert {type(call) for call in door.calls} == memories
    methods = {**vars(DocumentMethods), **vars(Memory)}
    public = {name for name in methods if not name.startswith("_")} - {"close", "door", "with_cap"}
    assert len(public) == len(doings), "a new method needs a row"


@pytest.mark.requirement("secrets-hidden")
def test_issued_cap_is_in_no_repr() -> None:
    issued = api.Issued("the.secret.cap~seed", "0" * 64, 7)
    for shown in (repr(issued), str(issued), f"{issued!r}", repr((issued,)), repr({"answer": issued})):
        assert "secret" not in shown
        assert "seed" not in shown
    assert msgspec.json.decode(msgspec.json.encode(issued), type=api.Issued) == issued


# Errors.


@pytest.mark.requirement("wire-status", "error-tables")
def test_exactly_the_reasons_that_can_travel_have_a_status() -> None:
    assert set(api.STATUS) == set(BY_REASON) - NEVER_TRAVEL


@pytest.mark.requirement("wire-status", "error-tables")
@pytest.mark.parametrize("reason", api.STATUS)
def test_status_is_of_the_kind_that_its_family_needs(reason: str) -> None:
    status, family = api.STATUS[reason], BY_REASON[reason].family
    if family in ("unavailable", "tampered", "defect"):
        assert status >= 500 or reason == "rate_limited"
    else:
        assert 400 <= status < 500
    assert (status == 401) == (family == "denied" and reason not in OF_SOUND_CAPS)
    assert (status == 503) == (family == "unavailable" and reason != "rate_limited")


@pytest.mark.requirement("wire-status")
@pytest.mark.parametrize("reason", api.STATUS)
def test_error_that_travels_is_raised_as_the_same_class(reason: str) -> None:
    error = BY_REASON[reason]("what happened", hint="what to do")
    refusal = api.Refusal.of(error)
    assert (refusal.error, refusal.reason) == (error.family, reason)
    again = msgspec.json.decode(msgspec.json.encode(refusal), type=api.Refusal)
    assert again == refusal
    raised = again.raised()
    assert type(raised) is type(error)
    assert (raised.reason, raised.message, raised.hint) == (reason, "what happened", "what to do")


@pytest.mark.requirement("wire-status", "secrets-hidden")
def test_refusal_carries_nothing_that_was_for_the_log() -> None:
    error: StrongroomError = BY_REASON["cap_expired"]("the cap has expired")
    error.links, error.actor, error.holder = ("0" * 64,), "local/alice", "f" * 32
    encoded = msgspec.json.encode(api.Refusal.of(error))
    assert json.loads(encoded) == {"error": "denied", "reason": "cap_expired", "message": "the cap has expired"}


@pytest.mark.requirement("wire-status")
@pytest.mark.parametrize("reason", ["", "no_such_reason", "CapExpired", "__init__", "vault"])
def test_reason_that_nobody_knows_is_a_defect_of_the_server(reason: str) -> None:
    raised = api.Refusal("denied", reason, "x").raised()
    assert type(raised) is ServerDefect
    assert raised.reason == "server_defect"
