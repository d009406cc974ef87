"""Documents: who may do what with them, compare-and-swap, history, and where their texts may still be found."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, errors
from strongroom.model import HISTORY_LIMIT, Document, Kind
from strongroom.store import Swap
from tests.conftest import Clock
from tests.memory.test_details import set_format

Reopen = Callable[[], Vault]
KEY, OTHER = "notes/2026/trip.md", "notes/2026/packing.md"
EVERY_CALL: dict[str, Callable[[Memory], object]] = {
    "read": lambda memory: memory.document(KEY, namespace="travel"),
    "write": lambda memory: memory.write_document(KEY, "x", namespace="travel"),
    "list": lambda memory: memory.documents(namespaces=["travel"]),
    "delete": lambda memory: memory.delete_document(KEY, namespace="travel"),
    "rename": lambda memory: memory.rename_document(KEY, OTHER, version="", namespace="travel"),
    "history": lambda memory: memory.document_history(KEY, namespace="travel"),
}
NEEDED = {
    "read": {"get"},
    "write": {"put"},
    "list": {"list"},
    "delete": {"forget"},
    "rename": {"put", "forget"},
    "history": {"get"},
}
CALLS = pytest.mark.parametrize("call", EVERY_CALL)


@pytest.fixture
def memory(vault: Vault, cap: Token) -> Memory:
    return vault.memory(cap)


def write(memory: Memory, text: str = "Train at nine", key: str = KEY, **more: Any) -> Document:
    return memory.write_document(key, text, namespace="travel", **more)


def recalled(memory: Memory, query: str = "train") -> list[str]:
    return [hit.text for hit in memory.get(query, namespaces=["travel"])]


# Denials.


@pytest.mark.requirement("documents-gate")
@CALLS
def test_document_call_needs_each_of_its_operations_and_a_refusal_is_on_record(
    vault: Vault, memory: Memory, call: str
) -> None:
    write(memory)
    for missing in NEEDED[call]:
        ops = sorted({"put", "get", "list", "forget", "snapshot"} - {missing})
        other = vault.memory(vault.mint(actor="local/alice", ops=ops, namespaces=["travel"]))
        with pytest.raises(errors.CapOpMismatch):
            EVERY_CALL[call](other)
        entry = list(vault.audit.entries())[-1][1]
        assert entry is not None
        assert (entry.decision, entry.op) == ("deny", missing)


@pytest.mark.requirement("documents-gate", "gate-same-denial")
@CALLS
def test_document_in_a_denied_namespace_is_refused_alike_whether_or_not_it_exists(
    vault: Vault, memory: Memory, call: str
) -> None:
    everywhere = ["put", "get", "list", "forget"]
    denied = vault.memory(vault.mint(actor="local/alice", ops=everywhere, namespaces=["work"]))

    def refusal() -> tuple[str, str, str]:
        with pytest.raises(errors.CapNamespaceDenied) as refused:
            EVERY_CALL[call](denied)
        return refused.value.reason, refused.value.message, refused.value.hint

    before = refusal()
    write(memory)
    assert refusal() == before


@pytest.mark.requirement("documents-gate")
def test_documents_of_a_denied_namespace_or_another_actor_are_in_no_answer(vault: Vault, memory: Memory) -> None:
    write(memory)
    ops = ["put", "get", "list", "forget"]
    for actor, namespaces in (("local/alice", ["work"]), ("local/bob", ["travel", "work"])):
        other = vault.memory(vault.mint(actor=actor, ops=ops, namespaces=namespaces))
        assert other.documents().documents == ()
        assert other.get("train") == []
        assert other.forget(kind="document").ids == ()
        with pytest.raises(errors.LineNotFound):
            other.document(KEY, namespace="travel" if actor == "local/bob" else "work")
    assert memory.document(KEY, namespace="travel").text == "Train at nine"


@pytest.mark.requirement("documents-gate", "gate-session")
def test_cap_of_a_session_reads_documents_and_changes_none(vault: Vault, memory: Memory) -> None:
    held = write(memory)
    token = vault.mint(
        actor="local/alice", ops=["put", "get", "list", "forget"], namespaces=["travel"], session="monday"
    )
    bound = vault.memory(token)
    assert bound.document(KEY) == held
    assert [one.key for one in bound.documents().documents] == [KEY]
    for change in (
        lambda: bound.write_document(KEY, "x", version=held.version),
        lambda: bound.write_document(OTHER, "x"),
        lambda: bound.delete_document(KEY),
        lambda: bound.rename_document(KEY, OTHER, version=held.version),
    ):
        with pytest.raises(errors.CapLimitExceeded):
            change()
    assert bound.forget(kind="document").ids == ()
    assert memory.document(KEY, namespace="travel") == held


@pytest.mark.requirement("documents-cas")
def test_document_is_written_only_over_the_version_that_was_read(memory: Memory) -> None:
    first = write(memory)
    for version in ("", "01JABCDEFGHJKMNPQRSTVWXYZ0", "x"):
        with pytest.raises(errors.VersionConflict):
            write(memory, "Bus at ten", version=version)
    second = write(memory, "Bus at ten", version=first.version)
    assert second.version > first.version
    with pytest.raises(errors.VersionConflict):
        write(memory, "Boat at eleven", version=first.version)
    with pytest.raises(errors.VersionConflict):
        memory.delete_document(KEY, namespace="travel", version=first.version)
    with pytest.raises(errors.VersionConflict):
        memory.rename_document(KEY, OTHER, version=first.version, namespace="travel")
    with pytest.raises(errors.VersionConflict):
        write(memory, key=OTHER, version=first.version)
    assert memory.document(KEY, namespace="travel") == second


@pytest.mark.requirement("documents-key")
@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        ".",
        "..",
        "a/../b",
        "a/./b",
        "a\nb",
        "a\tb",
        "a\x00",
        "\ud800",
        " a",
        "a ",
        "é" * 129,
    ],
)
@CALLS
def test_key_outside_the_grammar_is_refused(memory: Memory, call: str, key: str) -> None:
    calls: dict[str, Callable[[], object]] = {
        "read": lambda: memory.document(key, namespace="travel"),
        "write": lambda: memory.write_document(key, "x", namespace="travel"),
        "list": lambda: memory.documents(after=f"travel/{key}"),
        "delete": lambda: memory.delete_document(key, namespace="travel"),
        "rename": lambda: memory.rename_document(KEY, key, version="", namespace="travel"),
        "history": lambda: memory.document_history(key, namespace="travel"),
    }
    with pytest.raises(errors.InvalidRequest):
        calls[call]()


@pytest.mark.requirement("documents-key")
def test_key_is_one_in_every_form_of_unicode(memory: Memory) -> None:
    held = write(memory, key="notes/cafe\u0301.md")
    assert held.key == "notes/caf\u00e9.md"
    assert memory.document("notes/caf\u00e9.md", namespace="travel") == held
    with pytest.raises(errors.VersionConflict):
        write(memory, key="notes/caf\u00e9.md")


def test_call_without_a_namespace_is_told_how_to_name_one_that_its_cap_covers(vault: Vault, memory: Memory) -> None:
    write(memory)
    other = vault.memory(vault.mint(actor="local/alice", ops=["get", "put"], namespaces=["travel", "work"]))
    calls: list[Callable[[], object]] = [lambda: other.document(KEY), lambda: other.write_document(KEY, "x")]
    for call in calls:
        with pytest.raises(errors.InvalidRequest) as refused:
            call()
        assert refused.value.hint == 'name it, as in namespace="travel"; the cap covers travel, work'
    only = vault.memory(vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"]))
    assert only.document(KEY).text == "Train at nine"


def test_second_document_under_a_key_is_told_to_pass_the_version(memory: Memory) -> None:
    first = write(memory)
    with pytest.raises(errors.VersionConflict) as refused:
        write(memory, "Bus at ten")
    assert "`version`" in refused.value.hint
    assert "already" in refused.value.message
    assert write(memory, "Bus at ten", version=first.version).text == "Bus at ten"


@pytest.mark.requirement("documents-limits")
def test_text_tags_meta_and_expiry_have_the_limits_of_lines_and_a_text_64_kib(memory: Memory, clock: Clock) -> None:
    past = datetime.fromtimestamp(clock() / 1000, UTC) - timedelta(seconds=1)
    refused: list[tuple[str, dict[str, Any]]] = [
        ("line_too_large", {"text": "x" * (64 * 1024 + 1)}),
        ("line_too_large", {"meta": {"a": "x" * 2100}}),
        ("invalid_request", {"text": " \n"}),
        ("invalid_request", {"text": "bell \x07"}),
        ("invalid_request", {"meta": {"a": {1}}}),
        ("invalid_request", {"tags": [""]}),
        ("too_many", {"tags": [str(number) for number in range(17)]}),
        ("invalid_request", {"expires": past}),
        ("invalid_request", {"expires": past.replace(tzinfo=None)}),
    ]
    for reason, given in refused:
        with pytest.raises(errors.StrongroomError) as error:
            write(memory, **{"text": "x", **given})
        assert error.value.reason == reason, given
    assert memory.documents().documents == ()
    assert write(memory, "x" * 64 * 1024).text == "x" * 64 * 1024


@pytest.mark.requirement("documents-gate")
def test_namespace_of_one_among_several_must_be_named(memory: Memory) -> None:
    for call in (
        lambda: memory.document(KEY),
        lambda: memory.write_document(KEY, "x"),
        lambda: memory.delete_document(KEY),
        lambda: memory.document_history(KEY),
        lambda: memory.rename_document(KEY, OTHER, version=""),
    ):
        with pytest.raises(errors.InvalidRequest):
            call()


@pytest.mark.requirement("documents-format")
def test_document_in_a_vault_of_format_1_is_refused_by_name(vault: Vault, reopen: Reopen, cap: Token) -> None:
    set_format(vault, 1)
    older = reopen().memory(cap)
    with pytest.raises(errors.FormatTooOld) as refused:
        write(older)
    assert "strongroom upgrade" in refused.value.hint
    assert older.documents().documents == ()


@pytest.mark.requirement("documents-recall")
def test_line_cannot_pose_as_a_document(memory: Memory) -> None:
    with pytest.raises(errors.InvalidRequest):
        memory.put("x", namespace="travel", kind="document")
    with pytest.raises(errors.InvalidRequest):
        memory.put_many([NewLine(text="x", namespace="travel", kind="document")])


# What they do.


@pytest.mark.requirement("documents-cas")
def test_document_comes_back_as_it_was_written(vault: Vault, memory: Memory, reopen: Reopen, cap: Token) -> None:
    expires = datetime(2031, 1, 1, tzinfo=UTC)
    held = write(memory, "Zug um neun\n\tGleis 7 — ärgerlich", tags=["b", "a"], meta={"by": "eri"}, expires=expires)
    assert (held.key, held.namespace, held.tags, held.meta) == (KEY, "travel", ("a", "b"), {"by": "eri"})
    assert held.expires == expires
    assert held.provenance.source == "python"
    assert memory.document(KEY, namespace="travel") == held
    assert reopen().memory(cap).document(KEY, namespace="travel") == held
    info = memory.documents().documents[0]
    assert (info.key, info.size, info.version, info.tags) == (KEY, len(held.text.encode()), held.version, ("a", "b"))
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-log")
def test_each_call_on_a_document_is_one_entry_that_names_versions_and_no_key(vault: Vault, memory: Memory) -> None:
    start = vault.audit.size()
    first = write(memory)
    memory.document(KEY, namespace="travel")
    memory.documents()
    memory.document_history(KEY, namespace="travel")
    second = memory.rename_document(KEY, OTHER, version=first.version, namespace="travel")
    memory.delete_document(OTHER, namespace="travel")
    entries = [entry for number, entry in vault.audit.entries() if number >= start and entry is not None]
    assert [(str(entry.op), entry.lines) for entry in entries] == [
        ("put", (first.version,)),
        ("get", (first.version,)),
        ("list", ()),
        ("get", (first.version,)),
        ("forget", (second.version,)),
        ("forget", (second.version,)),
    ]
    assert "trip" not in str(entries)
    assert all("document" in entry.detail for entry in entries)
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-history")
def test_history_has_the_last_ten_versions_within_256_kib_newest_first(memory: Memory) -> None:
    held = write(memory, "version 0")
    for number in range(1, 14):
        held = write(memory, f"version {number}", version=held.version)
    history = memory.document_history(KEY, namespace="travel")
    assert [one.text for one in history] == [f"version {number}" for number in range(13, 12 - HISTORY_LIMIT, -1)]
    assert history[0] == held
    for number in range(6):
        held = write(memory, f"{number}" * 64 * 1024, version=held.version)
    assert [one.text[0] for one in memory.document_history(KEY, namespace="travel")] == ["5", "4", "3", "2", "1"]


@pytest.mark.requirement("documents-history", "gate-max-k")
def test_history_gives_at_most_as_many_versions_as_the_cap_allows(vault: Vault, memory: Memory) -> None:
    first = write(memory)
    second = write(memory, "Bus at ten", version=first.version)
    token = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], max_k=1)
    assert vault.memory(token).document_history(KEY) == [second]


@pytest.mark.requirement("documents-deleted")
def test_deleted_document_leaves_no_version_and_its_key_can_be_used_again(vault: Vault, memory: Memory) -> None:
    first = write(memory, "Train at nine")
    second = write(memory, "Bus at ten", version=first.version)
    gone = memory.delete_document(KEY, namespace="travel", version=second.version)
    assert (gone.ids, gone.scrubbed) == ((second.version,), True)
    for read in (memory.document, memory.document_history):
        with pytest.raises(errors.LineNotFound):
            read(KEY, namespace="travel")
    assert memory.documents().documents == ()
    assert recalled(memory) == recalled(memory, "bus") == []
    assert memory.delete_document(KEY, namespace="travel").ids == ()
    with pytest.raises(errors.VersionConflict):
        write(memory, "back", version=second.version)
    again = write(memory, "Boat at eleven")
    assert memory.document_history(KEY, namespace="travel") == [again]
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-renamed")
def test_renamed_document_keeps_its_text_and_history_under_the_new_key_alone(vault: Vault, memory: Memory) -> None:
    first = write(memory, tags=["a"], meta={"n": 1})
    second = write(memory, "Bus at ten", version=first.version, tags=["b"])
    moved = memory.rename_document(KEY, OTHER, version=second.version, namespace="travel")
    assert (moved.text, moved.tags, moved.key) == ("Bus at ten", ("b",), OTHER)
    assert [one.text for one in memory.document_history(OTHER, namespace="travel")] == ["Bus at ten", "Train at nine"]
    with pytest.raises(errors.LineNotFound):
        memory.document(KEY, namespace="travel")
    assert [one.key for one in memory.documents().documents] == [OTHER]
    assert recalled(memory, "bus") == ["Bus at ten"]
    assert memory.rename_document(KEY, OTHER, version=second.version, namespace="travel") == moved, "sent again"
    write(memory, "another")
    with pytest.raises(errors.VersionConflict):
        memory.rename_document(OTHER, KEY, version=moved.version, namespace="travel")
    with pytest.raises(errors.InvalidRequest):
        memory.rename_document(OTHER, OTHER, version=moved.version, namespace="travel")
    with pytest.raises(errors.LineNotFound):
        memory.rename_document("no/such", "other", version=moved.version, namespace="travel")
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-list")
def test_documents_come_in_pages_by_key_and_prefix_over_the_allowed_namespaces(vault: Vault, memory: Memory) -> None:
    for key, namespace in (("b", "travel"), ("a/2", "work"), ("a/1", "travel"), ("a/1", "work"), ("c", "travel")):
        memory.write_document(key, "x", namespace=namespace)
    seen = []
    after = None
    while True:
        page = memory.documents(limit=2, after=after)
        seen += [(one.key, one.namespace) for one in page.documents]
        if (after := page.next) is None:
            break
    assert seen == [("a/1", "travel"), ("a/1", "work"), ("a/2", "work"), ("b", "travel"), ("c", "travel")]
    assert [one.key for one in memory.documents("a/").documents] == ["a/1", "a/1", "a/2"]
    assert [one.namespace for one in memory.documents("a/1", namespaces=["work"]).documents] == ["work"]
    for limit in (0, 1001, True):
        with pytest.raises(errors.TooMany):
            memory.documents(limit=limit)
    for after in ("", "travel", "travel/", "Travel/a", "a"):
        with pytest.raises(errors.InvalidRequest):
            memory.documents(after=after)


@pytest.mark.requirement("documents-expiry")
def test_expired_document_is_as_good_as_none(memory: Memory, clock: Clock) -> None:
    soon = datetime.fromtimestamp(clock() / 1000, UTC) + timedelta(seconds=60)
    held = write(memory, expires=soon)
    clock.move(60)
    for read in (memory.document, memory.document_history):
        with pytest.raises(errors.LineNotFound):
            read(KEY, namespace="travel")
    assert memory.documents().documents == ()
    with pytest.raises(errors.VersionConflict):
        write(memory, "later", version=held.version)
    with pytest.raises(errors.LineNotFound):
        memory.rename_document(KEY, OTHER, version=held.version, namespace="travel")
    again = write(memory, "later")
    assert memory.document_history(KEY, namespace="travel") == [again], "the expired text is gone for good"


# In a recall.


@pytest.mark.requirement("documents-recall")
def test_recall_finds_the_present_version_of_a_document_beside_lines(memory: Memory) -> None:
    line = memory.put("the train was late", namespace="travel")
    held = write(memory, tags=["plan"])
    hits = {hit.id: hit for hit in memory.get("train", namespaces=["travel"])}
    assert set(hits) == {line.id, held.version}
    hit = hits[held.version]
    assert (hit.kind, hit.document, hit.text, hit.tags) == (Kind.DOCUMENT, KEY, held.text, ("plan",))
    assert hits[line.id].document == ""
    assert [one.document for one in memory.get("train", kind="document")] == [KEY]
    assert [one.id for one in memory.get("train", kind="note")] == [line.id]
    assert [one.document for one in memory.get("train", tags=["plan"])] == [KEY]
    assert [one.text for one in memory.get(ids=[held.version])] == [held.text]
    assert [one.id for one in memory.list().lines] == [line.id], "documents have a listing of their own"
    assert [one.document for one in memory.list(kind="document").lines] == [KEY]


@pytest.mark.requirement("documents-recall")
def test_recall_never_shows_an_earlier_version_in_this_process_or_another(
    vault: Vault, memory: Memory, reopen: Reopen, cap: Token
) -> None:
    other = reopen().memory(cap)
    first = write(memory)
    assert recalled(memory) == recalled(other) == ["Train at nine"]
    second = write(other, "Bus at ten", version=first.version)
    for each in (memory, other):
        assert recalled(each, "train nine bus ten") == ["Bus at ten"]
        with pytest.raises(errors.LineNotFound):
            each.get(ids=[first.version])
    memory.rename_document(KEY, OTHER, version=second.version, namespace="travel")
    for each in (memory, other):
        assert [hit.document for hit in each.get("bus")] == [OTHER]
    other.delete_document(OTHER, namespace="travel")
    for each in (memory, other, reopen().memory(cap)):
        assert recalled(each, "bus") == []


@pytest.mark.requirement("documents-recall")
def test_documents_are_loaded_with_a_shelf_and_are_in_none_of_its_pages(
    vault: Vault, memory: Memory, reopen: Reopen, cap: Token
) -> None:
    for start in (0, 200):
        memory.put_many([NewLine(text=f"line {number}", namespace="travel") for number in range(start, start + 200)])
    held = [write(memory, f"document {number}", key=f"d/{number}") for number in range(40)]
    assert memory.get("line")
    vault.close()
    again = reopen()
    assert any("/derived/" in one.name for one in again.store.list("actors/")), "pages were written"
    fresh = again.memory(cap)
    assert [hit.text for hit in fresh.get("document 7", k=1)] == ["document 7"]
    assert len(fresh.documents(limit=100).documents) == 40
    fresh.delete_document("d/7", namespace="travel")
    last = reopen().memory(cap)
    assert "document 7" not in [hit.text for hit in last.get("document 7", k=20)]
    assert len(last.documents(limit=100).documents) == 39
    assert last.document("d/8", namespace="travel") == held[8]


@pytest.mark.requirement("documents-deleted")
@pytest.mark.parametrize("how", ["id", "kind", "tag", "link", "everything of a time"])
def test_forget_deletes_the_documents_that_meet_its_conditions(vault: Vault, memory: Memory, how: str) -> None:
    first = write(memory, tags=["plan"])
    held = write(memory, "Bus at ten", version=first.version, tags=["plan"])
    line = memory.put("a line", namespace="travel", tags=["plan"])
    conditions: dict[str, dict[str, Any]] = {
        "id": {"ids": [held.version, line.id]},
        "kind": {"kind": "document"},
        "tag": {"tags": ["plan"]},
        "link": {"link": held.provenance.links[0]},
        "everything of a time": {"since": held.written - timedelta(days=1)},
    }
    gone = memory.forget(**conditions[how])
    assert set(gone.ids) == ({held.version} if how == "kind" else {held.version, line.id})
    assert memory.documents().documents == ()
    assert "Bus at ten" not in recalled(memory, "train bus")
    with pytest.raises(errors.LineNotFound):
        memory.document_history(KEY, namespace="travel")
    assert write(memory, "again").text == "again"
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-deleted")
def test_forget_by_an_earlier_version_finds_nothing(memory: Memory) -> None:
    first = write(memory)
    write(memory, "Bus at ten", version=first.version)
    assert memory.forget(ids=[first.version]).missing == (first.version,)
    assert memory.document(KEY, namespace="travel").text == "Bus at ten"


# At rest.


@pytest.mark.requirement("documents-sealed")
def test_files_show_no_key_and_no_text_of_a_document(vault: Vault, memory: Memory, tmp_path: Path) -> None:
    held = write(memory, "zanzibar ferry", key="secretkey/of/mine", meta={"metakey": "metavalue"}, tags=["tagged"])
    write(memory, "zanzibar plane", key="secretkey/of/mine", version=held.version)
    vault.close()
    raw = b"".join(path.read_bytes() for path in (tmp_path / "vault").rglob("*") if path.is_file())
    for word in (b"zanzibar", b"secretkey", b"metavalue", b"metakey", b"tagged"):
        assert word not in raw


@pytest.mark.requirement("documents-sealed")
def test_document_moved_to_another_place_is_refused(vault: Vault, memory: Memory) -> None:
    write(memory)
    write(memory, "Bus at ten", key=OTHER)
    one, other = [thing for thing in vault.store.list("actors/") if "/documents/" in thing.name]
    assert one.body is not None
    vault._clerk.admin.record_owner("move", [Swap(other.name, one.body, other.version)])
    for read in (
        lambda: memory.document(KEY, namespace="travel") and memory.document(OTHER, namespace="travel"),
        lambda: memory.get("bus"),
    ):
        with pytest.raises(errors.Tampered):
            read()


@pytest.mark.requirement("documents-deleted")
def test_erased_namespace_has_no_documents_and_can_be_used_again(vault: Vault, memory: Memory, reopen: Reopen) -> None:
    write(memory)
    memory.erase(["travel"])
    assert not [thing for thing in vault.store.list("actors/") if "/documents/" in thing.name]
    assert memory.documents().documents == ()
    assert recalled(memory) == []
    held = write(memory, "Boat at eleven")
    assert memory.document_history(KEY, namespace="travel") == [held]
    assert vault.audit.verify().ok


# Elsewhere and later.


@pytest.mark.requirement("documents-history")
def test_documents_outlive_rotations_a_backup_and_a_restore(
    vault: Vault, memory: Memory, tmp_path: Path, keys: FileKeys, clock: Clock, cap: Token
) -> None:
    first = write(memory)
    vault.rotate_actor("local/alice")
    held = write(memory, "Bus at ten", version=first.version)
    vault.rotate_root()
    strongroom.backup(tmp_path / "vault", tmp_path / "copy", keys=keys, now=clock)
    write(memory, "Boat at eleven", version=held.version)
    vault.close()
    strongroom.restore(tmp_path / "copy", tmp_path / "again", keys=keys)
    with strongroom.open(tmp_path / "again", keys=keys, now=clock) as restored:
        there = restored.memory(cap)
        assert there.document_history(KEY, namespace="travel") == [held, first]
        assert recalled(there, "bus") == ["Bus at ten"]


@pytest.mark.requirement("documents-expiry", "expire")
def test_expired_document_is_none_also_for_a_worker_whose_clock_is_behind_the_log(
    memory: Memory, clock: Clock, reopen: Reopen, cap: Token
) -> None:
    held = write(memory, expires=datetime.fromtimestamp(clock() / 1000 + 60, UTC))
    clock.move(61)
    memory.put("something else", namespace="work")
    clock.move(-20)
    behind = reopen().memory(cap)
    with pytest.raises(errors.LineNotFound):
        behind.document(KEY, namespace="travel")
    with pytest.raises(errors.LineNotFound):
        behind.document_history(KEY, namespace="travel")
    with pytest.raises(errors.VersionConflict):
        write(behind, "again", version=held.version)
    assert behind.documents().documents == ()
    assert write(behind, "again").text == "again"


@pytest.mark.requirement("documents-expiry")
def test_history_shows_no_earlier_version_that_has_expired_and_the_next_write_drops_it(
    memory: Memory, clock: Clock
) -> None:
    first = write(memory, "the code is 1111", expires=datetime.fromtimestamp(clock() / 1000 + 60, UTC))
    second = write(memory, "no code any more", version=first.version)
    assert memory.document_history(KEY, namespace="travel") == [second, first]
    clock.move(61)
    assert memory.document_history(KEY, namespace="travel") == [second]
    third = write(memory, "still none", version=second.version)
    clock.move(-20)
    assert memory.document_history(KEY, namespace="travel") == [third, second]


@pytest.mark.requirement("documents-expiry")
def test_expired_document_is_forgotten_by_maintenance_with_its_history(
    vault: Vault, memory: Memory, clock: Clock
) -> None:
    soon = datetime.fromtimestamp(clock() / 1000, UTC) + timedelta(seconds=60)
    first = write(memory, "forever and a day")
    held = write(memory, expires=soon, version=first.version)
    assert recalled(memory) == ["Train at nine"]
    clock.move(61)
    assert recalled(memory, "train forever day") == []
    clock.move(60)
    vault.settle()
    entry = list(vault.audit.entries())[-1][1]
    assert entry is not None
    assert (str(entry.op), entry.lines) == ("expire", (held.version,))
    again = write(memory, "new")
    assert memory.document_history(KEY, namespace="travel") == [again]
    assert vault.audit.verify().ok


@pytest.mark.requirement("documents-recall")
def test_document_is_not_replaced_as_a_line_is(memory: Memory) -> None:
    held = write(memory)
    with pytest.raises(errors.InvalidRequest):
        memory.replace(held.version, "Bus at ten", namespace="travel")
    assert memory.document(KEY, namespace="travel") == held


@pytest.mark.requirement("documents-cas")
def test_one_of_many_threads_that_write_one_document_wins_each_round(memory: Memory) -> None:
    held = write(memory, "round 0")

    def attempt(number: int) -> str:
        with suppress(errors.VersionConflict):
            return write(memory, f"by {number}", version=held.version).version
        return ""

    for _ in range(5):
        with ThreadPoolExecutor(4) as threads:
            won = [version for version in threads.map(attempt, range(4)) if version]
        held = memory.document(KEY, namespace="travel")
        assert won == [held.version]
    assert len(memory.document_history(KEY, namespace="travel")) == 6
