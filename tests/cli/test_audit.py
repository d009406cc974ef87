"""audit from a shell: damage is named with an exit code, and who read what has an answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom import settings
from strongroom.audit import Flaw
from strongroom.cli.audit import FLEET_HINTS, HINTS
from strongroom.crypto import merkle_log
from strongroom.model import Millis
from tests.audit.tools import edit
from tests.cli.conftest import Cli, opened

SECRET = "the-peanut-secret"

Caps = Callable[..., Path]


def place() -> Path:
    return Path(settings.find().vault)


def minted(ops: list[str], namespaces: list[str], **more: str) -> str:
    claims = {"actor": "local/owner", "label": "agent"} | more
    with opened() as vault:
        return vault.mint(ops=ops, namespaces=namespaces, ttl=3600, **claims)  # type: ignore[arg-type]


# Damage.


@pytest.mark.requirement("cli-audit", "audit-verify")
@pytest.mark.parametrize(
    ("damage", "flaw"),
    [
        ("UPDATE entries SET entry = x'00' WHERE number = 1", "entry_edited"),
        ("DELETE FROM objects WHERE name LIKE '%/lines/%'", "object_missing"),
        ("UPDATE objects SET body = x'00' WHERE name LIKE '%/lines/%'", "object_altered"),
        ("UPDATE head SET mac = x'00'", "head_forged"),
        ("UPDATE head SET time = time + 1", "head_forged"),
    ],
)
def test_damage_is_named_with_a_hint_and_exit_code_6_also_where_the_vault_does_not_open(
    cli: Cli, vault: None, damage: str, flaw: str
) -> None:
    cli("put", "a trip", "-n", "travel")
    assert cli("audit", "verify").code == 0
    edit(place(), damage)
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["ok"], done.json["seen"]) == (6, False, False)
    assert flaw in {one["flaw"] for one in done.json["findings"]}
    assert all(one["hint"] for one in done.json["findings"])
    shown = cli("audit", "verify")
    assert shown.code == 6
    assert flaw in shown.out
    assert HINTS[flaw] in shown.out


@pytest.mark.requirement("cli-audit")
def test_every_flaw_has_a_hint() -> None:
    of_a_fleet_alone = {Flaw.LOG_MISSING, Flaw.LOG_UNKNOWN, Flaw.ROSTER_FORGED, Flaw.ROSTER_MISSING}
    assert set(HINTS) == {flaw.value for flaw in set(Flaw) - of_a_fleet_alone}
    assert set(HINTS | FLEET_HINTS) == {flaw.value for flaw in Flaw}


@pytest.mark.requirement("cli-audit")
def test_file_that_is_no_database_is_tampered_and_no_vault_is_missing(cli: Cli, vault: None) -> None:
    for name in ("vault.db-wal", "vault.db-shm"):
        (place() / name).unlink(missing_ok=True)
    (place() / "vault.db").write_bytes(b"rubbish" * 1000)
    assert cli("audit", "verify", "--json").code == 6
    assert cli("audit", "verify", "--vault", "nowhere", "--json").code == 4


@pytest.mark.requirement("cli-audit", "audit-restore")
def test_accepting_a_restore_is_refused_where_nothing_was_restored(cli: Cli, vault: None) -> None:
    size = cli("audit", "show", "--json").json["size"]
    assert cli("audit", "accept-restore", "--yes", "--json").reason == "invalid_request"
    assert cli("audit", "accept-restore").code == 2
    assert cli("audit", "show", "--json").json["size"] == size


# Who read what.


@pytest.mark.requirement("cli-audit", "audit-reads")
def test_show_answers_who_read_which_lines_with_which_cap(cli: Cli, caps: Caps) -> None:
    cli("put", "a trip", "-n", "travel")
    (kept,) = cli("list", "--json").json["lines"]
    token = minted(["get"], ["travel"])
    agent = str(caps("agent.cap", token))
    helper = str(caps("helper.cap", strongroom.attenuate(token, ttl=60)))
    assert cli("get", "trip", "--cap-file", agent).code == 0
    assert cli("get", "trip", "--cap-file", helper).code == 0
    assert cli("get", "trip", "-n", "personal", "--cap-file", agent).code == 3
    gets = cli("audit", "show", "--op", "get", "--json").json["entries"]
    assert [(one["decision"], one["cap"], one["actor"], one["namespaces"], one["lines"]) for one in gets] == [
        ("allow", "agent", "local/owner", ["travel"], [kept["id"]]),
        ("allow", "agent +1", "local/owner", ["travel"], [kept["id"]]),
        ("deny", "agent", "local/owner", ["personal"], []),
    ]
    shown = cli("audit", "show", "--line", kept["id"]).out
    assert [line.split()[3] for line in shown.splitlines()] == ["put", "get", "get"]
    assert "local/owner" in shown
    denied = cli("audit", "show", "--denied").out
    assert "deny: cap_namespace_denied" in denied
    assert len(denied.splitlines()) == 1


@pytest.mark.requirement("cli-audit", "audit-private")
def test_no_text_and_no_query_is_shown(cli: Cli, vault: None) -> None:
    cli("put", SECRET, "-n", "travel")
    cli("get", f"where is {SECRET}")
    for form in ([], ["--json"]):
        assert SECRET not in cli("audit", "show", *form).out


@pytest.mark.requirement("cli-audit", "audit-unlinkable")
def test_actor_that_is_unknown_or_erased_is_not_found_and_its_entries_name_nobody(cli: Cli, caps: Caps) -> None:
    bob = str(caps("bob.cap", minted(["put", "get"], ["travel"], actor="local/bob", label="bobs")))
    assert cli("audit", "show", "--actor", "local/bob", "--json").code == 4
    cli("put", "Bob's", "-n", "travel", "--cap-file", bob)
    found = cli("audit", "show", "--actor", "local/bob", "--json").json["entries"]
    assert [one["op"] for one in found] == ["put"]
    with opened() as library:
        library.erase("local/bob")
    assert cli("audit", "show", "--actor", "local/bob", "--json").code == 4
    everything = cli("audit", "show", "--json").json["entries"]
    assert "local/bob" not in {one["actor"] for one in everything}
    assert "bobs" not in {one["cap"] for one in everything}


@pytest.mark.requirement("cli-audit")
def test_limit_gives_the_newest_oldest_first_and_since_leaves_out_the_rest(cli: Cli, vault: None) -> None:
    for number in range(5):
        cli("put", f"line {number}", "-n", "travel")
    size = cli("audit", "show", "--json").json["size"]
    shown = cli("audit", "show", "--limit", "3", "--json").json["entries"]
    assert [one["index"] for one in shown] == [size - 3, size - 2, size - 1]
    assert cli("audit", "show", "--since", "2999-01-01", "--json").json["entries"] == []
    assert len(cli("audit", "show", "--since", "2001-01-01", "--json").json["entries"]) == size
    assert cli("audit", "show", "--since", "soon").code == 2
    assert cli("audit", "show", "--line", "not-an-id").code == 2
    assert cli("audit", "show", "--limit", "0").code == 2


@pytest.mark.requirement("cli-audit", "audit-archive")
def test_archived_entries_are_counted_and_not_shown(cli: Cli, vault: None, home: Path) -> None:
    with opened() as library:
        for _ in range(300):
            library.mint(actor="local/x", ops=["get"], namespaces=["work"])
        assert library.audit.archive(home / "archive") == 256
    shown = cli("audit", "show", "--limit", "1000", "--json").json
    assert shown["archived"] == 256
    assert len(shown["entries"]) == shown["size"] - 256
    assert cli("audit", "verify", "--archive", str(home / "archive")).code == 0
    assert cli("audit", "verify", "--archive", str(home)).code == 6


# Proofs and checkpoints.


@pytest.mark.requirement("cli-audit", "audit-prove")
def test_proof_and_its_entry_convince_somebody_who_has_only_the_key(cli: Cli, vault: None) -> None:
    cli("put", "a trip", "-n", "travel")
    (kept,) = cli("list", "--json").json["lines"]
    with opened() as library:
        origin, key = library.audit.origin, library.audit.public_key
    proven = cli("audit", "prove", "--line", kept["id"], "--json").json
    proof = merkle_log.Proof.parse(proven["proof"])
    assert proof.check(proven["entry"].encode(), origin, key).size > proven["index"]
    with pytest.raises(strongroom.errors.Tampered):
        proof.check(proven["entry"].replace("put", "get").encode(), origin, key)
    plain = cli("audit", "prove", str(proven["index"]))
    assert merkle_log.Proof.parse(plain.out).check(proven["entry"].encode(), origin, key)
    assert proven["entry"] in plain.err
    assert proven["verifier_key"] in plain.err


@pytest.mark.requirement("cli-audit", "audit-prove")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 2), (["999"], 2), (["-1"], 2), (["1", "--line", "0" * 26], 2), (["--line", "0" * 26], 4), (["x"], 2)],
)
def test_entry_that_is_not_in_the_log_is_not_proven(cli: Cli, vault: None, arguments: list[str], code: int) -> None:
    done = cli("audit", "prove", *arguments)
    assert (done.code, done.out) == (code, "")


@pytest.mark.requirement("cli-audit")
def test_checkpoint_is_a_signed_note_and_is_not_written_over_another_file(cli: Cli, vault: None) -> None:
    with opened() as library:
        origin, key = library.audit.origin, library.audit.public_key
    note = cli("audit", "checkpoint").out
    size = cli("audit", "show", "--json").json["size"]
    assert merkle_log.open_checkpoint(note, origin, key).size == size
    assert cli("audit", "checkpoint", "--out", "seen.txt", "--json").json["size"] == size
    assert merkle_log.open_checkpoint(Path("seen.txt").read_text(), origin, key).size == size
    Path("mine.txt").write_text("mine")
    assert cli("audit", "checkpoint", "--out", "mine.txt").code == 2
    assert Path("mine.txt").read_text() == "mine"


@pytest.mark.requirement("cli-audit", "bad-clock")
def test_clock_that_an_entry_is_ahead_of_can_be_accepted(cli: Cli, vault: None) -> None:
    with opened() as ahead:
        ahead._clerk.now = lambda: Millis(int(time.time() * 1000) + 86_400_000)
        ahead.add_namespace("health")
    assert cli("put", "-n", "travel", "later", "--json").reason == "clock_behind"
    assert cli("audit", "accept-clock").code == 2
    assert cli("audit", "accept-clock", "--yes").code == 0
    assert cli("put", "-n", "travel", "later").code == 0
