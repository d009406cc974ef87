"""Archives with documents: what is refused, what is never overwritten or revived, and that they come through."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Token, Vault, archive
from strongroom.archive import Archive, ArchivedDocument, archive_format
from strongroom.archive.archive_format import DETAILED, DOCUMENTED, VERSION, pack, unpack
from strongroom.errors import LineNotFound
from strongroom.model import DOCUMENT_LIMIT, Document, LineId, Millis, Namespace, Provenance, moment
from tests.archive.test_archive import HEADER, SECRET, SPEC, archive_of, exported, imported, line, raw
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.memory.test_details import DEEP, set_format
from tests.store.children import reason_of

KEY = "notes/trip.md"
META = {"city": "成都", "legs": [1, 2.5, True, None]}
READS = ["list", "get"]


def document(key: str = KEY, namespace: str = "travel", text: str = "Train at nine", **fields: Any) -> ArchivedDocument:
    made = ArchivedDocument(
        key=key,
        namespace=Namespace(namespace),
        version=LineId("01JABCDEFGHJKMNPQRSTVWXYZ0"),
        text=text,
        provenance=Provenance((), "", "test", Millis(5)),
    )
    return msgspec.structs.replace(made, **fields)


def documents_of(*documents: ArchivedDocument, lines: Any = ()) -> Archive:
    ordered = sorted(documents, key=lambda one: (one.key, one.namespace))
    return msgspec.structs.replace(archive_of(*lines), documents=tuple(ordered))


def texts(vault: Vault, token: Token) -> dict[str, str]:
    """Every document that a cap reaches."""
    return {f"{one.namespace}/{one.key}": one.text for one in exported(vault, token, profiles=False).documents}


@pytest.fixture
def other(tmp_path: Path, clock: Clock) -> Iterator[tuple[Vault, Token]]:
    """Another vault, with other keys, and a cap for it."""
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other-keys"), now=clock) as made:
        yield made, made.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)


# What a cap does not cover.


@pytest.mark.requirement("archive-documents", "archive-gate")
def test_export_under_a_travel_cap_holds_no_document_of_another_namespace(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.write_document(f"notes/{SECRET}", f"allergic: {SECRET}", namespace="personal")
    memory.write_document(KEY, "Train at nine", namespace="travel")
    less = vault.mint(actor="local/alice", ops=READS, namespaces=["travel"])
    found = exported(vault, less, profiles=False)
    assert [one.key for one in found.documents] == [KEY]
    assert SECRET.encode() not in pack(found)
    assert SECRET.encode() in pack(exported(vault, cap)), "the scan must be able to find it"
    bob = vault.mint(actor="local/bob", ops=READS, namespaces=["travel"])
    assert exported(vault, bob, profiles=False).documents == ()


@pytest.mark.requirement("archive-documents", "archive-gate")
def test_export_names_every_document_in_the_log(vault: Vault, cap: Token) -> None:
    held = {vault.memory(cap).write_document(f"n/{n}", "x", namespace="travel").version for n in range(5)}
    before = vault.audit.size()
    exported(vault, cap)
    gets = [entry for _, entry in vault.audit.entries(before) if entry is not None and entry.op == "get"]
    assert {one for entry in gets for one in entry.lines} == held


@pytest.mark.requirement("archive-documents", "archive-gate")
@pytest.mark.parametrize("outside", ["document", "line"])
def test_import_of_documents_outside_the_cap_is_denied_before_anything_is_written(
    vault: Vault, cap: Token, outside: str
) -> None:
    less = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"])
    lines = [line(number) for number in range(600)] + ([line(999, "work")] if outside == "line" else [])
    elsewhere = [document("z", "personal")] if outside == "document" else []
    what = documents_of(document(), *elsewhere, lines=lines)
    assert reason_of(imported, vault, less, what, profiles=False) == "cap_namespace_denied"
    found = exported(vault, cap)
    assert (found.lines, found.documents) == ((), ())


@pytest.mark.requirement("archive-documents", "archive-gate")
@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"ops": ["get"]}, "cap_op_mismatch"),
        ({"ops": ["put"]}, "cap_op_mismatch"),
        ({"ops": ["put", "get"], "session": "s1"}, "cap_limit_exceeded"),
    ],
    ids=str,
)
def test_import_of_documents_that_the_cap_may_not_read_and_write_is_refused_or_counts_them(
    vault: Vault, cap: Token, claims: dict[str, Any], reason: str
) -> None:
    less = vault.mint(actor="local/alice", namespaces=["travel"], **claims)
    what = documents_of(document(), lines=[line(1)])
    assert reason_of(imported, vault, less, what) == reason
    assert exported(vault, cap).lines == ()
    assert texts(vault, cap) == {}
    if "put" in claims["ops"]:
        outcome = imported(vault, less, what, documents=False)
        assert (outcome.put, outcome.documents_left, outcome.whole) == (1, 1, True)
        assert texts(vault, cap) == {}


@pytest.mark.requirement("archive-documents", "documents-format")
def test_import_of_documents_into_a_vault_of_format_1_is_refused_before_anything_is_written(
    other: tuple[Vault, Token],
) -> None:
    vault, token = other
    set_format(vault, 1)
    vault._state.records._format = 1  # as in a process that began before it was raised
    lines = [line(number) for number in range(600)]
    assert reason_of(imported, vault, token, documents_of(document(), lines=lines)) == "format_too_old"
    assert vault.memory(token).list().lines == ()
    assert imported(vault, token, documents_of(document(), lines=lines), documents=False).put == 600


# A poisoned archive.

RECORD = msgspec.to_builtins(document())


def poisoned(*records: Any, v: int = DOCUMENTED, **counts: int) -> bytes:
    """An archive with any records, and an end that is right about their bytes."""
    body = raw({**HEADER, "v": v}, *records)
    head, _, end = body.removesuffix(b"\n").rpartition(b"\n")
    counted = msgspec.json.decode(end) | {"documents": len(records)} | counts
    return head + b"\n" + msgspec.json.encode(counted) + b"\n"


@pytest.mark.requirement("archive-documents", "archive-whole", "documents-key", "documents-limits")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        *((poisoned({**RECORD, "key": key}), "invalid_request") for key in ("", "../x", "a//b", "/a", "a\nb", "a\x1b")),
        (poisoned({**RECORD, "key": "e\u0301"}), "invalid_request"),
        (poisoned({**RECORD, "key": "x" * 257}), "invalid_request"),
        (poisoned({**RECORD, "key": 7}), "tampered"),
        (poisoned({**RECORD, "version": "../../x"}), "invalid_request"),
        (poisoned({**RECORD, "namespace": "No Such"}), "invalid_request"),
        (poisoned({**RECORD, "text": "x" * (DOCUMENT_LIMIT + 1)}), "invalid_request"),
        (poisoned({**RECORD, "text": " "}), "invalid_request"),
        (poisoned({**RECORD, "text": "bell \x07"}), "invalid_request"),
        (poisoned({**RECORD, "tags": ["x" * 65]}), "invalid_request"),
        (poisoned({**RECORD, "meta": {"a": "x" * 2048}}), "invalid_request"),
        (poisoned({**RECORD, "meta": DEEP}), "invalid_request"),
        (poisoned({**RECORD, "expires": 10**18}), "invalid_request"),
        (poisoned({**RECORD, "provenance": {**RECORD["provenance"], "recorded": 10**18}}), "invalid_request"),
        (poisoned({**RECORD, "earlier": []}), "tampered"),
        (poisoned({key: value for key, value in RECORD.items() if key != "version"}), "tampered"),
        (poisoned(RECORD, v=1), "invalid_request"),
        (poisoned(RECORD, v=2), "invalid_request"),
        (poisoned(RECORD, v=4), "invalid_request"),
        (poisoned(RECORD, documents=0), "tampered"),
        (poisoned(RECORD, documents=2), "tampered"),
        (poisoned(RECORD, RECORD), "tampered"),
        (poisoned({**RECORD, "key": "z"}, RECORD), "tampered"),
        (poisoned(RECORD, msgspec.to_builtins(line(1)), documents=1, lines=1), "tampered"),
    ],
    ids=lambda value: str(value)[-60:],
)
def test_archive_with_a_bad_document_is_refused_as_a_whole(data: bytes, reason: str) -> None:
    assert unpack(poisoned(RECORD)).documents == (document(),)
    assert reason_of(unpack, data) == reason


@pytest.mark.requirement("archive-documents", "archive-whole")
def test_archive_with_a_document_that_is_edited_or_cut_is_refused() -> None:
    data = pack(documents_of(document(), lines=[line(1)]))
    for at in range(len(data)):
        edited = bytearray(data)
        edited[at] ^= 1
        assert reason_of(unpack, bytes(edited)) in ("tampered", "invalid_request"), at
        assert reason_of(unpack, data[:at]) in ("tampered", "invalid_request"), at


@pytest.mark.requirement("archive-documents", "archive-whole")
def test_reader_that_knows_no_documents_refuses_the_archive_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pack(documents_of(document()))
    monkeypatch.setattr(archive_format, "DOCUMENTED", DETAILED)
    assert reason_of(unpack, data) == "invalid_request"


# Never overwritten, never revived.


@pytest.mark.requirement("archive-documents", "archive-conflict")
@pytest.mark.parametrize("change", [{"text": "Bus at ten"}, {"tags": ("x",)}, {"meta": {"a": 1}}], ids=str)
def test_document_that_differs_from_the_vaults_own_is_named_and_nothing_is_lost(
    vault: Vault, cap: Token, change: dict[str, Any]
) -> None:
    memory = vault.memory(cap)
    mine = memory.write_document(KEY, "Train at nine", namespace="travel")
    what = documents_of(document(**change), document("other"), lines=[line(1)])
    for put in (1, 0):
        outcome = imported(vault, cap, what)
        assert outcome.document_conflicts == [("travel", KEY)]
        assert (outcome.put, outcome.documents_put, outcome.documents_there) == (put, put, 1 - put)
        assert not outcome.whole
    assert memory.document(KEY, namespace="travel") == mine
    assert memory.document_history(KEY, namespace="travel") == [mine]


@pytest.mark.requirement("archive-documents", "archive-conflict")
def test_document_written_by_another_just_before_is_kept(
    vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = vault.memory(cap)
    write = type(memory).write_document
    done: list[Document] = []

    def late(self: Any, key: str, text: str, **more: Any) -> Any:
        if not done:
            done.append(write(memory, key, "Bus at ten", namespace="travel"))
        return write(self, key, text, **more)

    monkeypatch.setattr(type(memory), "write_document", late)
    assert imported(vault, cap, documents_of(document())).document_conflicts == [("travel", KEY)]
    assert memory.document(KEY, namespace="travel") == done[0]


@pytest.mark.requirement("archive-documents", "archive-forgotten")
@pytest.mark.parametrize("way", ["delete", "forget", "rename"])
def test_import_does_not_revive_a_document_that_was_deleted_forgotten_or_renamed(
    vault: Vault, cap: Token, way: str
) -> None:
    memory = vault.memory(cap)
    held = memory.write_document(KEY, SECRET, namespace="travel")
    saved = exported(vault, cap)
    if way == "delete":
        memory.delete_document(KEY, namespace="travel")
    elif way == "forget":
        memory.forget(ids=[held.version])
    else:
        memory.rename_document(KEY, "moved", namespace="travel")
    outcome = imported(vault, cap, saved)
    assert (outcome.documents_put, outcome.documents_forgotten, outcome.whole) == (0, 1, True)
    assert reason_of(memory.document, KEY, namespace="travel") == "not_found"
    assert texts(vault, cap) == ({"travel/moved": SECRET} if way == "rename" else {})


@pytest.mark.requirement("archive-documents", "documents-cas")
def test_write_under_an_unused_key_is_refused_where_a_document_is_or_was(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.write_document(KEY, "first", namespace="travel", unused=True)
    assert reason_of(memory.write_document, KEY, "x", namespace="travel", unused=True) == "version_conflict"
    memory.delete_document(KEY, namespace="travel")
    assert reason_of(memory.write_document, KEY, "x", namespace="travel", unused=True) == "version_conflict"
    assert memory.write_document(KEY, "again", namespace="travel").text == "again"


@pytest.mark.requirement("archive-documents")
@pytest.mark.parametrize("is_known", [True, False])
def test_expired_document_is_skipped_and_counted_and_the_others_come(
    vault: Vault, cap: Token, clock: Clock, is_known: bool
) -> None:
    gone = document("gone", expires=Millis(clock() - 1))
    stays = document("stays", expires=Millis(clock() + 60_000))
    outcome = imported(vault, cap, documents_of(gone, stays), now=Millis(clock()) if is_known else None)
    assert (outcome.documents_expired, outcome.documents_put, outcome.whole) == (1, 1, True)
    assert set(texts(vault, cap)) == {"travel/stays"}


# What comes through.


@pytest.mark.requirement("archive-documents", "archive-idempotent", "archive-portable")
def test_documents_go_from_one_vault_to_another_and_again_changes_nothing(
    vault: Vault, cap: Token, clock: Clock, other: tuple[Vault, Token]
) -> None:
    memory = vault.memory(cap)
    later = moment(Millis(clock())) + timedelta(days=1)
    first = memory.write_document(KEY, "Train at nine", namespace="travel")
    held = memory.write_document(
        KEY, "Zug um café", namespace="travel", version=first.version, tags=["b", "a"], meta=META, expires=later
    )
    memory.write_document(KEY, "another", namespace="work")
    memory.put("a line", namespace="work")
    found = unpack(pack(exported(vault, cap)))
    assert found.header.v == DOCUMENTED
    assert found.documents[0].version == held.version
    assert found.documents[0].provenance == held.provenance
    assert b"Train at nine" not in pack(found), "only the present version leaves"
    there, token = other
    outcome = imported(there, token, found)
    assert (outcome.put, outcome.documents_put, outcome.whole) == (1, 2, True)
    come = there.memory(token).document(KEY, namespace="travel")
    assert (come.text, come.tags, come.meta, come.expires) == (held.text, held.tags, held.meta, held.expires)
    assert (come.provenance.source, come.version == held.version) == ("import", False)
    assert there.memory(token).get("café", namespaces=["travel"])[0].document == KEY
    again = imported(there, token, found)
    assert (again.documents_put, again.documents_there, again.there, again.whole) == (0, 2, 1, True)
    assert there.memory(token).document_history(KEY, namespace="travel") == [come]
    assert there.audit.verify().ok


@pytest.mark.requirement("archive-documents", "archive-portable")
def test_archive_without_documents_has_the_version_and_the_bytes_of_before() -> None:
    data = pack(archive_of(line(1)))
    assert (unpack(data).header.v, b"documents" in data) == (VERSION, False)
    assert pack(unpack(data)) == data
    with_one = pack(documents_of(document("b"), document("a", "work"), document("a"), lines=[line(1)]))
    assert pack(unpack(with_one)) == with_one
    assert [(one.key, one.namespace) for one in unpack(with_one).documents] == [
        ("a", "travel"),
        ("a", "work"),
        ("b", "travel"),
    ]


@pytest.mark.requirement("archive-portable", "project-docs")
def test_example_of_the_specification_with_a_document_is_an_archive() -> None:
    (example,) = [block for block in SPEC.read_text().split("```text\n") if '"v":3' in block[:100]]
    data = example.split("```")[0].encode()
    found = unpack(data)
    assert [(one.key, one.text) for one in found.documents] == [("notes/trip.md", "Train at nine")]
    assert pack(found) == data
    assert [name for name in ArchivedDocument.__struct_fields__ if f"`{name}`" not in SPEC.read_text()] == []


@pytest.mark.requirement("archive-documents")
def test_documents_of_two_namespaces_renamed_into_one_meet_in_a_key_as_a_conflict(vault: Vault, cap: Token) -> None:
    what = documents_of(document(), document(namespace="journeys", text="Bus at ten"))
    outcome = imported(vault, cap, what, renamed={"journeys": "travel"})
    assert (outcome.documents_put, outcome.document_conflicts) == (1, [("travel", KEY)])
    assert list(texts(vault, cap)) == [f"travel/{KEY}"]


@pytest.mark.requirement("archive-documents")
def test_export_reports_its_progress_over_lines_and_documents(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("a line", namespace="travel")
    vault.memory(cap).write_document(KEY, "x", namespace="travel")
    told: list[tuple[int, int]] = []
    found = exported(vault, cap, progress=lambda *step: told.append(step))
    imported(vault, cap, found, progress=lambda *step: told.append(step))
    assert told == [(0, 2), (1, 2), (2, 2)] * 2


@pytest.mark.requirement("archive-documents")
def test_export_from_a_server_without_documents_has_the_lines(
    vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = vault.memory(cap)
    memory.put("a line", namespace="travel")

    def refuse(*_: object, **__: object) -> None:
        raise LineNotFound("there is no such route")

    monkeypatch.setattr(type(memory), "documents", refuse)
    found = archive.export_lines(memory, vault=vault.id, actor="local/alice", now=Millis(7))
    assert (len(found.lines), found.documents) == (1, ())
