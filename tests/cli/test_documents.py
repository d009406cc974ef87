"""`strongroom document`: written, read, listed, renamed and deleted from a terminal, by the vault or a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.conftest import Cli

KEY = "notes/trip.md"
AT = ("-n", "travel")

pytestmark = pytest.mark.requirement("documents-cas")


def test_document_verbs_refuse_a_clash_a_bad_key_and_a_document_that_is_not_there(cli: Cli) -> None:
    cli("init")
    cli("document", "write", KEY, "Train at nine", *AT)
    assert cli("document", "write", KEY, "Bus at ten", *AT).code == 5
    assert cli("document", "delete", KEY, *AT, "--version", "x", "--yes").code == 5
    assert cli("document", "read", "a//b", *AT).code == 2
    assert cli("document", "write", KEY, "x", *AT, "--version", "v", "--overwrite").code == 2
    assert cli("document", "write", KEY, "x", *AT, "--file", "f").code == 2
    assert cli("document", "read", "no/such", *AT).code == 4
    assert cli("document", "history", "no/such", *AT).code == 4
    assert cli("document", "rename", "no/such", "other", *AT).code == 4


def test_document_is_written_read_renamed_and_deleted(cli: Cli) -> None:
    cli("init")
    first = cli("document", "write", KEY, "Train at nine", *AT, "--tag", "plan", "--json").json
    assert (first["key"], first["tags"]) == (KEY, ["plan"])
    assert cli("document", "write", KEY, "Bus at ten", *AT, "--overwrite").code == 0
    assert cli("document", "read", KEY, *AT).out.strip() == "Bus at ten"
    history = cli("document", "history", KEY, *AT, "--json").json
    assert [one["text"] for one in history["versions"]] == ["Bus at ten", "Train at nine"]
    assert "Train at nine" in cli("document", "history", KEY, *AT).out
    assert KEY in cli("document", "list", "notes/").out
    assert cli("document", "rename", KEY, "archive/trip.md", *AT).code == 0
    listed = cli("document", "list", "--json").json
    assert [one["key"] for one in listed["documents"]] == ["archive/trip.md"]
    assert cli("document", "delete", "archive/trip.md", *AT, "--yes").out.strip() == "deleted"
    assert "nothing was deleted" in cli("document", "delete", "archive/trip.md", *AT, "--yes").out
    assert cli("document", "list", "--json").json["documents"] == []


def test_document_has_meta_and_an_expiry_as_a_duration(cli: Cli) -> None:
    cli("init")
    assert cli("document", "write", KEY, "x", *AT, "--meta", "n=1", "--meta", "n=2").code == 2
    details = ("--meta", "city=Chengdu", "--meta", "nights=4", "--expires", "30d")
    held = cli("document", "write", KEY, "Train at nine", *AT, *details, "--json").json
    assert held["meta"] == {"city": "Chengdu", "nights": 4}
    ends, now = datetime.fromisoformat(held["expires"]), datetime.now(UTC)
    assert timedelta(days=29) < ends - now <= timedelta(days=30)


def test_renaming_of_a_document_is_told_from_a_deletion_in_the_log(cli: Cli) -> None:
    cli("init")
    cli("document", "write", KEY, "Train at nine", *AT)
    moved = cli("document", "rename", KEY, "archive/trip.md", *AT, "--json").json
    assert f"{moved['version']} (renamed a document)" in cli("audit", "show", "--op", "forget").out
    cli("document", "delete", "archive/trip.md", *AT, "--yes")
    assert "(deleted a document)" in cli("audit", "show", "--op", "forget").out


def test_document_from_stdin_is_written_as_it_is(cli: Cli) -> None:
    cli("init")
    assert cli("document", "write", KEY, *AT, stdin="one\n\ttwo\n").code == 0
    assert cli("document", "read", KEY, *AT).out == "one\n\ttwo\n"


def test_recall_shows_the_key_of_a_document(cli: Cli) -> None:
    cli("init")
    cli("document", "write", KEY, "Train at nine", *AT)
    (line,) = cli("get", "when does the train go?", "--json").json["hits"]
    assert (line["kind"], line["document"], line["text"]) == ("document", KEY, "Train at nine")
    assert KEY in cli("get", "when does the train go?").out
    assert cli("list", "--json").json["lines"] == []
    assert [one["document"] for one in cli("list", "--kind", "document", "--json").json["lines"]] == [KEY]


@pytest.mark.requirement("archive-documents", "cli-archive")
def test_document_is_exported_and_imported_and_a_clash_is_named(cli: Cli) -> None:
    cli("init")
    cli("put", "Trip to Chengdu", *AT)
    plain = ("--i-understand-this-is-plaintext", "--force")
    assert "documents" not in cli("export", "a.jsonl", *plain).out
    cli("document", "write", KEY, "Train at nine", *AT)
    assert "documents: 1" in cli("export", "a.jsonl", *plain).out
    assert cli("export", "b.jsonl", *plain, "-n", "work", "--json").json["documents"] == 0
    cli("init", "second")
    there = ("--vault", "second")
    assert "1 line, 0 profiles, 1 document" in cli("import", "a.jsonl", "--check", *there).out
    assert cli("import", "a.jsonl", *there, "--json").json["documents_put"] == 1
    assert cli("document", "read", KEY, *AT, *there).out.strip() == "Train at nine"
    assert cli("import", "a.jsonl", *there, "--json").json["documents_there"] == 1
    cli("document", "write", KEY, "Bus at ten", *AT, *there, "--overwrite")
    done = cli("import", "a.jsonl", *there)
    assert done.code == 5
    assert f"travel {KEY}" in done.out
    assert cli("document", "read", KEY, *AT, *there).out.strip() == "Bus at ten"
    cli("document", "delete", KEY, *AT, *there, "--yes")
    done = cli("import", "a.jsonl", *there, "--json")
    assert (done.code, done.json["documents_forgotten"]) == (0, 1)
    assert cli("document", "read", KEY, *AT, *there).code == 4


def test_missing_line_or_document_ends_with_4_unless_it_was_to_be_searched_for_or_removed(cli: Cli) -> None:
    cli("init")
    line = "01JABCDEFGHJKMNPQRSTVWXYZ0"
    named = (["get", "--id", line], ["history", line], ["replace", line, "x"], ["document", "rename", KEY, "b", *AT])
    assert [cli(*verb).code for verb in named] == [4] * 4
    removed = (["forget", line, "--yes"], ["document", "delete", KEY, *AT, "--yes"])
    searched = (["get", "trip"], ["list"], ["document", "list", "notes/"])
    assert [cli(*verb).code for verb in (*removed, *searched)] == [0] * 5
