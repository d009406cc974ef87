"""Tags, meta, expiry and turn from a shell, filters by them, and texts in lists: refusals first."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from strongroom.cli.argument_types import EXPIRY
from tests.cli.conftest import Cli, opened
from tests.cli.test_put_get_list import Caps, minted
from tests.memory.test_details import set_format

HOTEL = ["put", "Hotel by the river", "-n", "travel", "--session", "monday", "--author", "alice", "--kind", "fact"]
DETAILS = ["--tag", "trip", "--tag", "paid", "--meta", "city=Chengdu", "--meta", "nights=4", "--turn", "t7"]
ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
FILTERS = [
    ["--kind", "fact"],
    ["--author", "alice"],
    ["--tag", "trip", "--tag", "paid"],
    ["--meta", "city=Chengdu", "--meta", "nights=4"],
    ["--turn", "t7"],
    ["--since", "2026-05-20", "--until", "2026-05-21"],
]


@pytest.fixture
def lines(cli: Cli, vault: None) -> str:
    """A line with every detail among lines without. Returns its id."""
    for text in ("Hotel on the hill", "Hotel at the station"):
        assert cli("put", text, "-n", "travel", "--time", "2026-05-24").code == 0
    done = cli(*HOTEL, *DETAILS, "--time", "2026-05-20", "--expires", "2999-01-01", "--json")
    assert done.code == 0, done.err
    return str(done.json["lines"][0]["id"])


# Refusals.


@pytest.mark.requirement("details-bad", "cli-denials")
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--tag", ""], 2, "invalid_request"),
        (["--tag", "x" * 65], 2, "invalid_request"),
        ([word for n in range(17) for word in ("--tag", f"t{n}")], 2, "too_many"),
        (["--meta", "note=" + "x" * 2048], 2, "line_too_large"),
        (["--meta", "deep=" + "[" * 9 + "]" * 9], 2, "invalid_request"),
        (["--meta", "deep=" + "[" * 90_000 + "]" * 90_000], 2, "usage"),
        (["--meta", "city"], 2, "usage"),
        (["--meta", "=Chengdu"], 2, "usage"),
        (["--meta", "n=1", "--meta", "n=2"], 2, "usage"),
        (["--meta", 'n={"a":1,"a":2}'], 2, "invalid_request"),
        (["--meta", "n=99999999999999999999"], 2, "invalid_request"),
        (["--turn", "x" * 257], 2, "invalid_request"),
        (["--expires", "2020-01-01"], 2, "invalid_request"),
        (["--expires", "0s"], 2, "invalid_request"),
        (["--expires", "soon"], 2, "usage"),
        (["--expires", "999999999w"], 2, "usage"),
    ],
    ids=lambda words: " ".join(words)[:30] if isinstance(words, list) else None,
)
def test_bad_details_are_refused_by_name_and_nothing_is_put(
    cli: Cli, vault: None, words: list[str], code: int, reason: str
) -> None:
    done = cli("put", "Hotel by the river", "-n", "travel", *words, "--json")
    assert (done.code, done.reason) == (code, reason), done.err
    assert cli("list", "--json").json["lines"] == []


@pytest.mark.requirement("filters-denied", "cli-denials")
@pytest.mark.parametrize("words", FILTERS, ids=" ".join)
def test_filter_on_a_denied_namespace_is_denied_and_forgets_nothing(
    cli: Cli, caps: Caps, lines: str, words: list[str]
) -> None:
    family = str(caps("family.cap", minted(namespaces=["family"])))
    for verb in (["get", "hotel"], ["list"], ["list", "--text"], ["forget", "--yes"]):
        done = cli(*verb, "-n", "travel", *words, "--cap-file", family, "--json")
        assert (done.code, done.reason, done.out) == (3, "cap_namespace_denied", "")
    assert len(cli("list", "--json").json["lines"]) == 3


@pytest.mark.requirement("list-texts", "cli-denials")
@pytest.mark.parametrize("op", ["list", "get"])
def test_texts_are_listed_only_under_a_cap_for_both_operations(cli: Cli, caps: Caps, lines: str, op: str) -> None:
    path = str(caps("one.cap", minted(ops=[op])))
    done = cli("list", "--text", "--cap-file", path, "--json")
    assert (done.code, done.reason, done.out) == (3, "cap_op_mismatch", "")


@pytest.mark.requirement("filters-bad")
def test_get_by_id_takes_no_filter_and_forget_needs_a_condition(cli: Cli, lines: str) -> None:
    assert cli("get", "--id", lines, "--tag", "trip", "--json").reason == "invalid_request"
    assert cli("get").code == 2
    done = cli("forget", "--yes")
    assert done.code == 2
    assert "--tag" in done.err


@pytest.mark.requirement("details-format")
def test_details_in_a_vault_of_format_1_are_refused_with_the_command_that_helps(cli: Cli, vault: None) -> None:
    with opened() as older:
        set_format(older, 1)
    done = cli(*HOTEL, "--tag", "trip", "--json")
    assert (done.code, done.reason) == (2, "format_too_old")
    assert "`strongroom upgrade`" in done.error["hint"]
    assert cli(*HOTEL).code == 0
    assert len(cli("list", "--json").json["lines"]) == 1


# What is kept and shown.


@pytest.mark.requirement("details-members")
def test_details_are_kept_and_shown_in_json_and_in_words(cli: Cli, lines: str) -> None:
    (hit,) = cli("get", "--id", lines, "--json").json["hits"]
    (row,) = cli("list", "--tag", "trip", "--json").json["lines"]
    for shown in (hit, row):
        assert shown["tags"] == ["paid", "trip"]
        assert shown["meta"] == {"city": "Chengdu", "nights": 4}
        assert (shown["turn"], shown["expires"]) == ("t7", "2999-01-01T00:00:00Z")
    for words in (["get", "--id", lines], ["list", "--tag", "trip"], ["list", "--tag", "trip", "--text"]):
        out = cli(*words).out
        assert '#paid  #trip  turn t7  expires 2999-01-01 00:00  meta {"city":"Chengdu","nights":4}' in out


@pytest.mark.requirement("details-members")
def test_plain_line_has_no_member_more_than_before(cli: Cli, vault: None) -> None:
    assert cli("put", "plain", "-n", "travel").code == 0
    (row,) = cli("list", "--json").json["lines"]
    assert set(row) == {"id", "namespace", "time", "kind", "session", "author", "size", "provenance"}
    (hit,) = cli("get", "plain", "--json").json["hits"]
    assert set(hit) - {"confidence"} == set(row) - {"size"} | {"text", "score"}


@pytest.mark.requirement("details-members")
@pytest.mark.parametrize(
    ("given", "kept"),
    [("n=7", 7), ('n="7"', "7"), ("n=seven", "seven"), ("n=", ""), ("n=a=b", "a=b"), ("n=[1,null]", [1, None])],
)
def test_value_of_meta_is_json_if_it_parses_and_else_a_text(cli: Cli, vault: None, given: str, kept: object) -> None:
    assert cli("put", "x", "-n", "travel", "--meta", given).code == 0
    (row,) = cli("list", "--meta", given, "--json").json["lines"]
    assert row["meta"] == {"n": kept}


@pytest.mark.requirement("details-members")
def test_expiry_is_a_time_or_a_duration_from_now() -> None:
    ahead = EXPIRY.convert("30d", None, None) - datetime.now().astimezone()
    assert timedelta(days=29, hours=23) < ahead <= timedelta(days=30)
    assert EXPIRY.convert("2031-01-01T10:00Z", None, None).isoformat() == "2031-01-01T10:00:00+00:00"


@pytest.mark.requirement("details-members")
def test_each_of_several_lines_gets_the_details(cli: Cli, vault: None) -> None:
    assert cli("put", "--lines", "-n", "travel", "--tag", "trip", stdin="one\ntwo\n").code == 0
    assert len(cli("list", "--tag", "trip", "--json").json["lines"]) == 2


@pytest.mark.requirement("details-members")
def test_hostile_tag_and_meta_do_not_reach_the_terminal_raw(cli: Cli, vault: None) -> None:
    evil = "x\u202eevil\u200b"
    done = cli("put", "text", "-n", "travel", "--tag", evil, "--turn", evil, "--meta", f"{evil}=a\nb {evil}")
    assert done.code == 0, done.err
    for words in (["get", "text"], ["list"], ["list", "--text"], ["list", "--json"]):
        out = cli(*words).out
        assert not {"\u202e", "\u200b"} & set(out)
    assert len(cli("list").out.splitlines()) == 1


# Filters and texts.


@pytest.mark.requirement("filters")
@pytest.mark.parametrize("words", [*FILTERS, ["--session", "monday"]], ids=" ".join)
def test_get_list_and_forget_mean_the_same_lines(cli: Cli, lines: str, words: list[str]) -> None:
    asked = ["--from-session", "monday"] if words[0] == "--session" else words
    assert [hit["id"] for hit in cli("get", "hotel", *asked, "--json").json["hits"]] == [lines]
    assert [hit["id"] for hit in cli("get", *asked, "--json").json["hits"]] == [lines], "a filter is enough"
    assert [row["id"] for row in cli("list", *words, "--json").json["lines"]] == [lines]
    refused = cli("forget", *words, stdin="n\n")
    assert (refused.code, "This forgets 1 line." in refused.err) == (2, True)
    assert cli("forget", *words, "--yes", "--json").json["ids"] == [lines]
    assert len(cli("list", "--json").json["lines"]) == 2


@pytest.mark.requirement("list-texts")
def test_texts_are_listed_whole_and_on_record_as_reads(cli: Cli, lines: str) -> None:
    found = cli("list", "--text", "--json").json["lines"]
    assert [row["text"] for row in found] == ["Hotel on the hill", "Hotel at the station", "Hotel by the river"]
    last = cli("audit", "show", "--op", "get", "--json").json["entries"][-1]
    assert last["lines"] == [row["id"] for row in found]
    assert " - Hotel on the hill\n   travel  " in cli("list", "--text").out
    assert "the lines count as read" in " ".join(cli("list", "--help").out.split())
    assert all("text" not in row for row in cli("list", "--json").json["lines"])


@pytest.mark.requirement("list-texts")
def test_texts_come_in_pages_of_the_caps_size_until_the_limit(cli: Cli, caps: Caps, lines: str) -> None:
    two = str(caps("two.cap", minted(ops=["list", "get"], max_k=2)))
    everything = cli("list", "--text", "--cap-file", two, "--json").json
    assert (len(everything["lines"]), everything["next"]) == (3, None)
    part = cli("list", "--text", "--limit", "2", "--cap-file", two, "--json").json
    rest = cli("list", "--text", "--after", part["next"], "--cap-file", two, "--json").json
    assert [row["id"] for row in part["lines"] + rest["lines"]] == [row["id"] for row in everything["lines"]]


@pytest.mark.requirement("list-texts")
def test_text_of_several_lines_cannot_pass_for_a_line_of_its_own(cli: Cli, vault: None) -> None:
    assert cli("put", "-n", "travel", stdin="one\n - two\n").code == 0
    assert cli("list", "--text").out.startswith(" - one\n   |  - two\n   travel  ")


@pytest.mark.requirement("details-members", "archive-whole")
def test_archive_carries_details_and_counts_expired_lines(cli: Cli, lines: str, home: Path) -> None:
    plain = ["--i-understand-this-is-plaintext"]
    assert cli("export", "out.jsonl", *plain).code == 0
    head, *_ = (home / "out.jsonl").read_text().splitlines()
    assert json.loads(head)["v"] == 2
    cli("init", "second")
    done = cli("import", "out.jsonl", "--vault", "second", "--json")
    assert (done.json["put"], done.json["expired"]) == (3, 0)
    assert cli("list", "--tag", "trip", "--vault", "second", "--json").json["lines"][0]["turn"] == "t7"
