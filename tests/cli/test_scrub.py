"""`strongroom scrub hermes`: what was forgotten leaves the database that Hermes made, and the rest stays."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from strongroom import settings
from strongroom.cli.app import VerbCommand
from strongroom.cli.scrub import scrub_hermes
from strongroom.hermes import cap_file, policy, scrub
from strongroom.model import LineId
from strongroom.vault.ended_sweep import EndedSweep, Swept
from tests.cli.conftest import Cli, opened, put_ended
from tests.hermes.install.test_scrub import HEADING, MADE_BY_HERMES, MARK, raw, recalled, run_hermes

STRANGERS = LineId("01JVN8ZZZZZZZZZZZZZZZZZZZ7")


@pytest.mark.requirement("expire-sweep")
def test_vault_is_scrubbed_by_its_owner_only(cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    put_ended(monkeypatch)
    with opened() as one:
        token = one.mint(actor="local/alice", ops=["forget", "erase"], namespaces=["travel"], ttl=600)
    refused = cli("scrub", "vault", "--json", "--url", "https://memory.example.org")
    assert refused.code == 2
    path = Path("alice.cap")
    path.write_text(token)
    assert cli("scrub", "vault", "--cap-file", str(path)).code == 2
    with opened() as one:
        assert (one.ended.count(most=10).lines, one.ended.count(most=10).documents) == (1, 1)


@pytest.mark.requirement("expire-sweep")
def test_scrub_of_the_vault_forgets_what_has_ended_in_every_memory(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ended(monkeypatch)
    done = cli("scrub", "vault", "--json")
    assert done.json == {"lines": 1, "documents": 1, "damaged": 0, "pending": False}
    assert cli("scrub", "vault").out == "forgot 0 lines and 0 documents\n"
    assert [one["op"] for one in cli("audit", "show", "--op", "expire", "--json").json["entries"]] == ["expire"]


@pytest.mark.requirement("expire-sweep")
def test_scrub_of_the_vault_says_what_it_could_not_do(cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EndedSweep, "forget", lambda _, **__: Swept(1, 0, 2, pending=True))
    said = cli("scrub", "vault").out
    assert "forgot 1 line and 0 documents" in said
    assert "2 namespaces could not be read: `strongroom audit verify` says why" in said
    assert "Pending" in said


@pytest.fixture
def lines(vault: None) -> dict[str, LineId]:
    """Lines of the local owner and of alice, by what they say."""
    kept: dict[str, LineId] = {}
    with opened() as one:
        for actor, texts in {"owner": (MARK, "tea"), "telegram/alice": ("hers",)}.items():
            token = one.mint(actor=f"hermes/default/{actor}", ops=["put"], namespaces=["travel"], ttl=600)
            for text in texts:
                kept[text] = LineId(one.memory(token).put(text, namespace="travel").id)
    return kept


@pytest.fixture
def wired(lines: dict[str, LineId], home: Path) -> Path:
    """A wired Hermes home in whose history all of these lines were recalled, and one that is nobody's."""
    hermes, outside = home / ".hermes", home / "outside"
    hermes.mkdir()
    with opened() as one:
        token = cap_file.mint(one, "hermes/default/", ("personal", "family", "work", "travel"))
    cap_file.write(outside / "runtime.cap", token)
    said = {"vault": settings.find().vault, "cap": str(outside / "runtime.cap"), "state": str(outside / "state")}
    policy.path_of(hermes).write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in said.items()))
    told = {
        "path": str(hermes / "state.db"),
        "turns": [
            ("s-cli", "a", "\n".join((HEADING, *(recalled(lines[text], text) for text in (MARK, "tea"))))),
            ("s-alice", "b", f"{HEADING}\n{recalled(lines['hers'], 'hers')}"),
            ("s-bob", "c", f"{HEADING}\n{recalled(STRANGERS, 'his')}"),
        ],
        "results": [("s-cli", "strongroom_recall", json.dumps({"lines": [{"id": lines[MARK], "text": MARK}]}))],
        "freed": "",
    }
    run_hermes(MADE_BY_HERMES, told, hermes)
    (hermes / "logs").mkdir(exist_ok=True)
    (hermes / "logs" / "agent.log").write_text("")
    return hermes


def forget(line: LineId) -> None:
    with opened() as one:
        token = one.mint(actor="hermes/default/owner", ops=["forget"], namespaces=["travel"], ttl=600)
        one.memory(token).forget(ids=[line])


def held(hermes: Path) -> set[LineId]:
    return set().union(*scrub.find_recalled(hermes / "state.db").values())


def states(done: object) -> list[str]:
    assert isinstance(done, dict)
    return [step["state"] for step in done["steps"]]


@pytest.mark.requirement("hermes-scrub-busy")
def test_vault_that_cannot_be_asked_leaves_the_history_as_it_was(
    wired: Path, cli: Cli, lines: dict[str, LineId], home: Path
) -> None:
    (home / "outside" / "runtime.cap").unlink()
    done = cli("scrub", "hermes", "--json")
    assert done.code == 3
    assert states(done.json) == ["ok", "fail", "skip", "skip", "skip", "skip"]
    assert done.json["steps"][1]["reason"] == "cap_missing"
    assert held(wired) == {*lines.values(), STRANGERS}


def test_home_that_is_not_there_is_refused(vault: None, cli: Cli) -> None:
    assert cli("scrub", "hermes", "--json").reason == "invalid_request"


@pytest.mark.parametrize("arguments", [("--all", "--id", STRANGERS), ("--id", "x")])
def test_choice_that_makes_no_sense_is_refused(wired: Path, cli: Cli, arguments: tuple[str, ...]) -> None:
    assert cli("scrub", "hermes", *arguments).code == 2


def test_home_without_history_is_skipped(vault: None, cli: Cli, home: Path) -> None:
    (home / ".hermes").mkdir()
    done = cli("scrub", "hermes", "--json")
    assert done.code == 0
    assert set(states(done.json)) == {"skip"}


@pytest.mark.requirement("hermes-scrub-bytes")
def test_recalled_text_is_gone_after_a_forget_and_living_lines_stay(
    wired: Path, cli: Cli, lines: dict[str, LineId]
) -> None:
    forget(lines[MARK])
    assert MARK.encode() in raw(wired / "state.db")
    done = cli("scrub", "hermes", "--json")
    assert (done.code, states(done.json)) == (0, ["ok"] * 6)
    assert MARK.encode() not in raw(wired / "state.db")
    assert held(wired) == {lines["tea"], lines["hers"]}, "a line that nobody has is taken out, too"
    assert {"what": "logs", "path": str(wired / "logs" / "agent.log")} in done.json["out_of_reach"]


def test_dry_run_says_what_it_would_do_and_does_nothing(wired: Path, cli: Cli, lines: dict[str, LineId]) -> None:
    forget(lines[MARK])
    files = [wired / "state.db", wired / "state.db-wal"]
    before = [file.read_bytes() for file in files]
    done = cli("scrub", "hermes", "--dry-run")
    assert done.code == 0
    assert "to remove: 2 lines" in done.out
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("is_all", [True, False])
def test_all_and_id_do_not_ask_the_vault(
    wired: Path, cli: Cli, lines: dict[str, LineId], home: Path, is_all: bool
) -> None:
    (home / "outside" / "runtime.cap").unlink()
    assert cli("scrub", "hermes", *(("--all",) if is_all else ("--id", lines["tea"]))).code == 0
    assert held(wired) == (set() if is_all else {*lines.values(), STRANGERS} - {lines["tea"]})


@pytest.mark.requirement("hermes-scrub-busy")
def test_hermes_that_is_running_is_said(wired: Path, cli: Cli, lines: dict[str, LineId]) -> None:
    forget(lines[MARK])
    with closing(apsw.Connection(str(wired / "state.db"))) as running:
        running.execute("SELECT count(*) FROM messages").fetchall()
        done = cli("scrub", "hermes")
    assert done.code == 0
    assert "stop Hermes" in done.out
    assert held(wired) == {lines["tea"], lines["hers"]}


def test_every_example_of_the_help_runs(wired: Path, cli: Cli) -> None:
    assert isinstance(scrub_hermes, VerbCommand)
    for line in scrub_hermes.examples:
        assert cli(*line.split()[1:]).code == 0, line


def test_answer_holds_no_recalled_text(wired: Path, cli: Cli, lines: dict[str, LineId]) -> None:
    forget(lines[MARK])
    done = cli("scrub", "hermes")
    assert MARK not in done.out + done.err
