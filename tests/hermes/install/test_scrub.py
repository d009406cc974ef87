"""Taking recalled text out of Hermes' history: the rules on texts, and a database that Hermes itself made."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from strongroom.errors import StoreUnavailable
from strongroom.hermes import scrub
from strongroom.hermes.provider import line_format
from strongroom.hermes.scrub import Facts, leftovers
from strongroom.hermes.scrub.recalled_text import REMOVED, cut_result, cut_sent, result_ids, sent_ids
from strongroom.model import Hit, Kind, LineId, Millis, Namespace, Provenance
from tests.hermes import homes

GONE = LineId("01JVN8ZZZZZZZZZZZZZZZZZZZ1")
THERE = LineId("01JVN8ZZZZZZZZZZZZZZZZZZZ2")
OTHER = LineId("01JVN8ZZZZZZZZZZZZZZZZZZZ3")
MARK = "zanzibarquartz"
HEADING = "Earlier lines from this memory, quoted as data:"


def recalled(one: str, text: str, time: str = "2026-05-20 14:05") -> str:
    return f"- {time}, travel, alice: {json.dumps(text, ensure_ascii=False)} [{one}]"


def fenced(*lines: str) -> str:
    note = "[System note: The following is recalled memory context.]"
    return "\n".join(("<memory-context>", note, "", HEADING, *lines, "</memory-context>"))


DEAD, ALIVE = recalled(GONE, f'Trip to "{MARK}"\nin May'), recalled(THERE, "Likes tea")
SAID = "where am I going?"


def is_gone(one: LineId) -> bool:
    return one == GONE


# Texts.

SENT = [
    ("the only line: back to what was said", SAID, f"{SAID}\n\n{fenced(DEAD)}", None),
    ("one of two lines", SAID, f"{SAID}\n\n{fenced(DEAD, ALIVE)}", f"{SAID}\n\n{fenced(ALIVE)}"),
    ("a line of before, with its day only", SAID, f"{SAID}\n\n{fenced(recalled(GONE, MARK, '2026-05-20'))}", None),
    ("the last of two lines", SAID, f"{SAID}\n\n{fenced(ALIVE, DEAD)}", f"{SAID}\n\n{fenced(ALIVE)}"),
    ("another plugin's text stays", SAID, f"{SAID}\n\n{fenced(DEAD)}\n\nit is Friday", f"{SAID}\n\nit is Friday"),
    ("two fences", SAID, f"{SAID}\n\n{fenced(DEAD)}\n\n{fenced(ALIVE)}", f"{SAID}\n\n{fenced(ALIVE)}"),
    ("a line outside a fence", SAID, f"{SAID}\n\n{DEAD}\n{ALIVE}", f"{SAID}\n\n{ALIVE}"),
    ("nothing that was said", "", f"\n\n{fenced(DEAD)}", None),
    ("what was said is not at the start", "x", f"y\n\n{fenced(DEAD)}", "y"),
    ("tags spelled differently", SAID, f"{SAID}\n\n< MEMORY-CONTEXT >\n{DEAD}\n</ memory-context >", None),
]


@pytest.mark.requirement("hermes-scrub-lines")
@pytest.mark.parametrize(("content", "sent", "left"), [row[1:] for row in SENT], ids=[row[0] for row in SENT])
def test_gone_line_is_cut_out_of_what_was_sent(content: str, sent: str, left: str | None) -> None:
    cut = cut_sent(content, sent, is_gone)
    assert (cut.text, cut.gone) == (left, (GONE,))


KEPT = [
    ("a line that is alive", SAID, f"{SAID}\n\n{fenced(ALIVE)}"),
    ("what the person said, even if it looks recalled", f"{DEAD}\nis that right?", f"{DEAD}\nis that right?\n\nFriday"),
    ("an id in the middle of a line", SAID, f"{SAID}\n\n- 2026-05-20, travel: [{GONE}] was asked for"),
    ("a line without a day", SAID, f"{SAID}\n\n- something [{GONE}]"),
    ("another provider's block", SAID, f"{SAID}\n\n<memory-context>\n- likes tea\n</memory-context>"),
]


@pytest.mark.parametrize(("content", "sent"), [row[1:] for row in KEPT], ids=[row[0] for row in KEPT])
def test_text_that_is_not_a_gone_line_stays_byte_for_byte(content: str, sent: str) -> None:
    cut = cut_sent(content, sent, is_gone)
    assert (cut.text, cut.gone) == (sent, ())


RESULTS = [
    ("entries", {"lines": [{"id": GONE, "text": MARK}, {"id": THERE}]}, {"lines": [{"id": THERE}]}),
    ("an entry below another key", {"best": {"id": GONE, "text": MARK}, "k": 1}, {"k": 1}),
    ("a text of lines", {"result": f"{HEADING}\n{DEAD}\n{ALIVE}"}, {"result": f"{HEADING}\n{ALIVE}"}),
    ("lists in lists", [[{"id": GONE, "text": MARK}], 1], [[], 1]),
]


@pytest.mark.requirement("hermes-scrub-lines")
@pytest.mark.parametrize(("result", "left"), [row[1:] for row in RESULTS], ids=[str(row[0]) for row in RESULTS])
def test_gone_line_is_cut_out_of_a_tools_result(result: object, left: object) -> None:
    cut = cut_result(json.dumps(result), is_gone)
    assert cut.gone == (GONE,)
    assert json.loads(cut.text or "") == left


@pytest.mark.parametrize(
    "result",
    [
        json.dumps({"id": GONE, "text": MARK}),
        json.dumps({"texts": [MARK], "ids": [GONE]}),
        f"<untrusted>\n1. id={GONE} namespace=travel\n| {MARK}\n</untrusted>",
        "[" * 100_000 + f" {GONE} {MARK}",
    ],
    ids=["the entry itself", "text and id apart", "not JSON", "too deep"],
)
def test_result_that_is_not_understood_goes_as_a_whole(result: str) -> None:
    assert cut_result(result, is_gone).text == REMOVED


def test_result_without_a_gone_line_stays_byte_for_byte() -> None:
    result = f'{{ "lines": [{{"id": "{THERE}"}}],  "é": 1 }}'
    assert cut_result(result, is_gone).text == result


def test_ids_of_a_text_are_those_of_its_recalled_lines_and_all_of_a_result() -> None:
    assert sent_ids(DEAD, f"{DEAD}\n\n{fenced(ALIVE)}") == {THERE}
    assert result_ids(f'{{"id": "{GONE}"}} {OTHER}') == {GONE, OTHER}


@pytest.mark.requirement("hermes-scrub-lines")
@pytest.mark.parametrize(
    "text",
    ["plain", 'a "quote"\nand a break', f"- 2026-01-01, x: y [{THERE}]", "</memory-context>", "long " * 900, "\u2028"],
)
def test_every_line_that_the_provider_shows_is_recognised(text: str) -> None:
    provenance = Provenance(recorded=Millis(0), source="test", links=(), holder="")
    hit = Hit(
        id=GONE,
        namespace=Namespace("travel"),
        text=text,
        time=datetime(2026, 5, 20, tzinfo=UTC),
        kind=Kind.TURN,
        session="s",
        author="ann [x]",
        provenance=provenance,
        score=1.0,
    )
    block, taken = line_format.format_hits([hit], 4000)
    assert taken == [hit]
    sent = f"{SAID}\n\n<memory-context>\n[System note]\n\n{block}\n</memory-context>"
    assert sent_ids(SAID, sent) == {GONE}
    assert cut_sent(SAID, sent, is_gone).text is None


# The database, made by Hermes.

MADE_BY_HERMES = """
import json, os, sys
from pathlib import Path
from agent.memory_manager import build_memory_context_block
from agent.turn_context import compose_user_api_content
from hermes_state import SessionDB

told = json.loads(sys.stdin.read())
database = SessionDB(Path(told["path"]))
database.create_session("s-cli", source="cli")
database.create_session("s-alice", source="telegram", user_id="alice", chat_id="100", chat_type="dm",
                        session_key="agent:main:telegram:dm:100")
database.create_session("s-bob", source="telegram", user_id="bob", chat_id="101", chat_type="dm")
for session, said, recalled in told["turns"]:
    sent = compose_user_api_content(said, recalled, "")
    database.append_message(session, "user", said, api_content=sent)
    database.append_message(session, "assistant", "You are travelling.")
for session, name, result in told["results"]:
    database.append_message(session, "tool", result, tool_name=name, tool_call_id="c1")
# A conversation that was compressed: its rows are freed, and their bytes stay.
database.create_session("s-old", source="cli")
database.append_message("s-old", "user", "old", api_content=compose_user_api_content("old", told["freed"] * 200, ""))
database._conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
database._conn.execute("PRAGMA secure_delete = OFF")  # the default of most builds of SQLite, not of all
database.replace_messages("s-old", [{"role": "user", "content": "summary"}])
database.append_message("s-cli", "assistant", "bye")
os._exit(0)  # as after a crash: the write-ahead log stays
"""

READ_BY_HERMES = """
import json, sys
from pathlib import Path
from hermes_state import SessionDB

told = json.loads(sys.stdin.read())
database = SessionDB(Path(told["path"]))
found = {"hits": len(database.search_messages(told["mark"])), "others": len(database.search_messages("pomegranate")),
         "messages": {one: database.get_messages_as_conversation(one) for one in ("s-cli", "s-alice", "s-bob")}}
database.close()
print(json.dumps(found))
"""


def run_hermes(script: str, told: dict[str, Any], home: Path) -> str:
    if not homes.PYTHON.exists():
        raise AssertionError(homes.MISSING)
    environment = {"HERMES_HOME": str(home), "HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [str(homes.PYTHON), "-c", script],
        input=json.dumps(told),
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose state.db Hermes wrote, with a write-ahead log beside it."""
    home = tmp_path_factory.mktemp("hermes")
    told = {
        "path": str(home / "state.db"),
        "turns": [
            ("s-cli", SAID, f"{HEADING}\n{DEAD}\n{ALIVE}"),
            ("s-cli", "again", "\n".join((HEADING, *(recalled(GONE, "Trip to " * 80) for _ in range(20))))),
            ("s-alice", "and me?", f"{HEADING}\n{recalled(OTHER, 'hers')}"),
            ("s-bob", "and me?", f"{HEADING}\n{recalled(OTHER, 'not his')}"),
            ("s-bob", f"what is {recalled(GONE, 'this')}", ""),
        ],
        "results": [
            ("s-cli", "strongroom_recall", json.dumps({"lines": [{"id": GONE, "text": f"{MARK} tool"}]})),
            ("s-cli", "terminal", json.dumps({"output": "pomegranate"})),
        ],
        "freed": f"{recalled(GONE, f'{MARK} freed')}\n",
    }
    run_hermes(MADE_BY_HERMES, told, home)
    return home


@pytest.fixture
def database(made: Path, tmp_path: Path) -> Path:
    home = tmp_path / "hermes"
    shutil.copytree(made, home)
    return home / "state.db"


def gone_everywhere(facts: Facts, one: LineId) -> bool:
    return one == GONE


def raw(database: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(database.parent.glob("state.db*")))


@pytest.fixture
def held_open(database: Path) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(database))) as other:
        yield other


@pytest.mark.requirement("hermes-scrub-bytes")
def test_bytes_of_a_gone_line_are_not_left_in_hermes_database_after_a_scrub(database: Path) -> None:
    before = raw(database)
    assert MARK.encode() in before
    assert f"{MARK} freed".encode() in before, "the compressed conversation should have left bytes"
    assert database.with_name("state.db-wal").stat().st_size
    done = scrub.scrub(database, gone_everywhere)
    assert (done.messages, set(done.gone)) == (3, {GONE})
    assert scrub.finish(database) == scrub.Finished(is_emptied=True, is_rewritten=True)
    assert MARK.encode() not in raw(database)
    assert scrub.traces(database, done.gone) == {GONE}, "what bob typed himself stays, and is found"
    said = json.loads(run_hermes(READ_BY_HERMES, {"path": str(database), "mark": MARK}, database.parent))
    assert (said["hits"], said["others"]) == (0, 1)
    first = said["messages"]["s-cli"][0]
    assert GONE not in first["api_content"]
    assert ALIVE in first["api_content"]
    assert first["content"] == SAID
    assert [one["content"] for one in said["messages"]["s-bob"]][2] == f"what is {recalled(GONE, 'this')}"


@pytest.mark.requirement("hermes-scrub-busy")
def test_busy_database_is_left_as_it_was(database: Path, held_open: apsw.Connection) -> None:
    held_open.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable) as refused:
        scrub.scrub(database, gone_everywhere, wait=0.05)
    assert refused.value.reason == "store_unavailable"
    held_open.execute("ROLLBACK")
    assert GONE in set().union(*scrub.find_recalled(database).values())


@pytest.mark.requirement("hermes-scrub-busy")
def test_scrub_that_is_interrupted_changes_nothing(database: Path) -> None:
    before = scrub.find_recalled(database)

    def interrupted(facts: Facts, one: LineId) -> bool:
        if facts.user_id == "bob":
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        scrub.scrub(database, interrupted)
    assert scrub.find_recalled(database) == before


@pytest.mark.requirement("hermes-scrub-busy")
def test_database_that_hermes_has_open_is_scrubbed_and_not_rewritten(
    database: Path, held_open: apsw.Connection
) -> None:
    held_open.execute("SELECT count(*) FROM messages").fetchall()
    done = scrub.scrub(database, gone_everywhere)
    assert done.messages == 3
    assert scrub.finish(database, wait=0.05) == scrub.Finished(is_emptied=True, is_rewritten=False)
    assert GONE not in set().union(*scrub.find_recalled(database).values())
    assert f"{MARK} freed".encode() in raw(database), "what Hermes freed earlier needs the file rewritten"


def test_bytes_of_the_row_itself_are_overwritten_without_rewriting_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    sent = f"{SAID}\n\n{fenced(*(recalled(GONE, f'{MARK} ' * 40) for _ in range(20)))}"
    with closing(apsw.Connection(str(path))) as other:
        other.pragma("journal_mode", "wal")
        other.execute("CREATE TABLE sessions (id)")
        other.execute("CREATE TABLE messages (id INTEGER, session_id, role, content, tool_name, api_content)")
        other.execute("INSERT INTO messages VALUES (1, 's', 'user', ?, NULL, ?)", (SAID, sent))
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert MARK.encode() in path.read_bytes()
        scrub.scrub(path, gone_everywhere)
        assert scrub.finish(path, wait=0.05) == scrub.Finished(is_emptied=True, is_rewritten=False)
        assert MARK.encode() not in raw(path)


def test_log_that_a_reader_needs_is_not_emptied_and_a_second_run_ends_it(
    database: Path, held_open: apsw.Connection
) -> None:
    reading = held_open.execute("SELECT id FROM messages")
    reading.fetchone()
    scrub.scrub(database, gone_everywhere)
    assert scrub.finish(database, wait=0.05) == scrub.Finished(is_emptied=False, is_rewritten=False)
    assert scrub.traces(database, frozenset({GONE})) == {GONE}
    reading.close()
    held_open.close()
    assert scrub.scrub(database, gone_everywhere).messages == 0
    assert scrub.finish(database) == scrub.Finished(is_emptied=True, is_rewritten=True)
    assert MARK.encode() not in raw(database)


@pytest.mark.requirement("hermes-scrub-actors")
def test_line_that_is_alive_for_one_person_is_cut_where_it_was_shown_to_another(database: Path) -> None:
    def hers(facts: Facts, one: LineId) -> bool:
        return facts.user_id != "alice"

    asked = scrub.find_recalled(database)
    alice = Facts("telegram", "alice", "", "100", "dm", "", "agent:main:telegram:dm:100")
    assert asked[alice] == {OTHER}
    assert asked[Facts("telegram", "bob", "", "101", "dm")] == {OTHER}
    assert scrub.scrub(database, hers).messages == 4
    assert scrub.find_recalled(database) == {alice: {OTHER}}


def test_looking_changes_no_byte(database: Path) -> None:
    before = database.read_bytes()
    assert set().union(*scrub.find_recalled(database).values()) == {GONE, THERE, OTHER}
    assert database.read_bytes() == before


def test_index_that_no_trigger_keeps_loses_the_row(database: Path) -> None:
    with closing(apsw.Connection(str(database))) as hermes:
        hermes.execute("DROP TRIGGER messages_fts_update; DROP TRIGGER messages_fts_trigram_update")
    scrub.scrub(database, gone_everywhere)
    scrub.finish(database)
    assert MARK.encode() not in raw(database)


@pytest.mark.parametrize("table", ["", "CREATE TABLE messages (id INTEGER, session_id, role, content, tool_name)"])
def test_database_of_another_shape_holds_nothing(tmp_path: Path, table: str) -> None:
    with closing(apsw.Connection(str(tmp_path / "state.db"))) as other:
        other.execute(f"CREATE TABLE sessions (id); {table}")
    assert scrub.find_recalled(tmp_path / "state.db") == {}
    assert scrub.scrub(tmp_path / "state.db", lambda *_: True).messages == 0


@pytest.mark.requirement("hermes-scrub-busy")
def test_non_database_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreUnavailable) as refused:
        scrub.scrub(tmp_path / "state.db", gone_everywhere)
    assert refused.value.reason == "store_unavailable"
    assert (tmp_path / "state.db").read_bytes() == b"not a database" * 1000


def test_trace_across_the_border_of_two_reads_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strongroom.hermes.scrub.state_db._CHUNK", 100)
    (tmp_path / "state.db").write_bytes(b"x" * 80 + recalled(GONE, "text").encode())
    assert scrub.traces(tmp_path / "state.db", frozenset({GONE, OTHER})) == {GONE}


@pytest.mark.requirement("hermes-scrub-leftovers")
def test_copy_out_of_reach_is_listed_with_its_path(tmp_path: Path) -> None:
    home, users_home = tmp_path / ".hermes", tmp_path
    places = [
        home / "backups" / "pre-update-1.zip",
        home / "state-snapshots" / "2026" / "state.db",
        home / "logs" / "agent.log",
        home / "logs" / "agent.log.1",
        home / "session-exports" / "one.md",
        home / "sessions" / "request_dump_1.json",
        home / "hook_outputs" / "s1",
        home / "memories" / "MEMORY.md",
        home / "response_store.db",
        users_home / "hermes-backup-1.zip",
    ]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"")
    (home / "state.db").write_bytes(b"")
    found = {one.path for one in leftovers(home, users_home)}
    assert found == {*places, home / "state-snapshots" / "2026"} - {places[1]}


def test_nothing_is_listed_in_an_empty_home(tmp_path: Path) -> None:
    assert leftovers(tmp_path / "none", tmp_path) == []
