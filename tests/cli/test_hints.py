"""Notes and hints: what a command says beside its answer to who is new to it, and that programs are spared it."""

from __future__ import annotations

import errno
import json
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import api, settings, store
from strongroom.cli import cap as caps_verb
from strongroom.cli.log_view import OPS
from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install
from strongroom.memory.local_transport import run_inline
from strongroom.memory.refusal_recorder import SHOWN
from tests.cli.conftest import Cli, opened

Caps = Callable[..., Path]

SOURCES = Path(strongroom.__file__).parent
OWNERS_NOTE = "the owner's work"
ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"


def minted(**more: str) -> str:
    with opened() as vault:
        return vault.mint(actor="local/owner", ops=["get", "list"], namespaces=["travel"], ttl=3600, **more)  # type: ignore[arg-type]


def hint(cli: Cli, *arguments: str, code: int) -> str:
    """The hint of a refusal."""
    done = cli(*arguments, "--json")
    assert done.code == code, done.err
    return str(done.error["hint"])


# Recall that matches nothing.


def test_question_that_nothing_matches_gets_a_note_and_one_that_matches_gets_none(cli: Cli, vault: None) -> None:
    cli("put", "Trip to Chengdu", "-n", "travel")
    missed = cli("get", "what's that?")
    assert missed.out == ""
    assert "no line matches; `" in missed.err
    (command,) = re.findall("`strongroom (.+)` shows the newest lines", missed.err)
    newest = cli(*shlex.split(command))
    assert "note: no line matches; these are the newest lines" in newest.err
    assert "Chengdu" in newest.out
    assert cli("get", "Chengdu trip").err == ""
    assert cli("get", "peanuts", "--json").err == ""
    assert cli("get", "peanuts", "--json").json == {"hits": []}


def test_line_got_by_its_id_gets_no_note_about_matching(cli: Cli, vault: None) -> None:
    cli("put", "Trip to Chengdu", "-n", "travel", "--id", ID)
    assert cli("get", "--id", ID).err == ""


# Namespaces.


def test_owner_who_names_no_namespace_of_the_vault_hears_which_there_are(cli: Cli, vault: None) -> None:
    for verb in (["get", "x", "-n"], ["list", "-n"], ["put", "x", "-n"], ["profile", "show"]):
        assert "personal, family, work, travel" in hint(cli, *verb, "nowhere", code=3)


def test_given_cap_does_not_hear_which_namespaces_there_are(cli: Cli, caps: Caps) -> None:
    cap = str(caps("travel.cap", minted()))
    assert "family" not in hint(cli, "get", "x", "-n", "nowhere", "--cap-file", cap, code=3)


def test_rules_that_choose_what_the_vault_lacks_are_named_with_what_it_has(cli: Cli, home: Path) -> None:
    assert cli("init", "--namespaces", "private,projects").code == 0
    said = hint(cli, "put", "a trip to Chengdu", code=3)
    assert "--namespace" in said
    assert "private, projects" in said


@pytest.mark.parametrize("verb", [["get", "x"], ["list"], ["snapshot"], ["export", "x.age"], ["forget", "--yes"]])
def test_namespaces_joined_by_a_comma_are_refused_and_n_is_to_be_repeated(
    cli: Cli, vault: None, verb: list[str]
) -> None:
    done = cli(*verb, "-n", "work,travel", "--json")
    assert (done.code, done.reason) == (2, "usage")
    assert "-n" in done.error["message"]


def test_line_is_not_put_into_two_namespaces(cli: Cli, vault: None) -> None:
    assert cli("put", "x", "-n", "work,travel", "--json").reason == "usage"


# The owner's work.


@pytest.mark.parametrize(
    "verb",
    [
        ["namespaces", "add", "health"],
        ["namespaces", "list"],
        ["cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h"],
        ["cap", "list"],
        ["cap", "revoke", "--for", "local/owner"],
        ["audit", "show"],
        ["audit", "verify"],
        ["backup", "copy"],
        ["rotate", "root"],
    ],
    ids=" ".join,
)
def test_owners_verb_says_that_the_cap_of_the_environment_is_not_used(
    cli: Cli, caps: Caps, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    monkeypatch.setenv("STRONGROOM_CAP_FILE", str(caps("travel.cap", minted())))
    done = cli(*verb)
    assert done.code == 0
    assert done.err.count(OWNERS_NOTE) == 1


def test_owners_note_needs_a_cap_and_spares_programs(cli: Cli, caps: Caps, monkeypatch: pytest.MonkeyPatch) -> None:
    assert OWNERS_NOTE not in cli("cap", "list").err
    monkeypatch.setenv("STRONGROOM_CAP", minted())
    assert cli("cap", "list", "--json").err == ""
    assert OWNERS_NOTE in cli("cap", "list").err
    assert OWNERS_NOTE not in cli("get", "x").err, "get uses the cap"


def test_cap_file_that_is_revoked_is_not_called_unused(cli: Cli, caps: Caps) -> None:
    cap = str(caps("travel.cap", minted()))
    assert cli("cap", "revoke", "--cap-file", cap).err == ""


# What is wrong with a file.


@pytest.mark.requirement("cli-denials")
def test_file_that_holds_no_cap_is_named(cli: Cli, caps: Caps) -> None:
    path = caps("letter.txt", "Dear Ana")
    done = cli("list", "--cap-file", str(path), "--json")
    assert (done.code, done.reason) == (3, "cap_malformed")
    assert str(path) in done.error["message"]
    assert "Ana" not in done.err


def test_unknown_field_of_the_configuration_is_told_the_fields_that_exist(cli: Cli, vault: None) -> None:
    place = settings.config_path()
    place.parent.mkdir(parents=True)
    place.write_text('motor = "lexical"\n')
    said = hint(cli, "list", code=2)
    assert "engine and routing" in said
    (proposed,) = re.findall("`strongroom ([^`]+)`", said)
    assert cli(*proposed.split()).code == 0, "what the hint proposes works with the file that is there"


def test_damaged_archive_is_not_blamed_on_the_vault(cli: Cli, vault: None) -> None:
    cli("put", "a trip", "-n", "travel")
    clear = "--i-understand-this-is-plaintext"
    assert cli("export", "x.jsonl", clear).code == 0
    Path("x.jsonl").write_bytes(Path("x.jsonl").read_bytes()[:-9])
    assert "audit verify" not in hint(cli, "import", "x.jsonl", code=6)


# Other words than the library's.


def test_question_that_is_too_large_is_to_be_shorter(cli: Cli, vault: None) -> None:
    assert "shorter" in hint(cli, "get", "x" * 40_000, code=2)


def test_expiry_that_cannot_be_read_is_told_of_durations_and_one_that_is_past_of_the_option(
    cli: Cli, vault: None
) -> None:
    verbs = (["put", "x", "-n", "travel"], ["document", "write", "a.md", "x", "-n", "travel"])
    for verb in verbs:
        done = cli(*verb, "--expires", "soon", "--json")
        assert (done.code, done.reason) == (2, "usage")
        assert "30d" in done.error["message"]
        assert "--expires" in hint(cli, *verb, "--expires", "2020-01-01", code=2)


def test_line_that_was_replaced_is_told_the_command_that_shows_its_versions(cli: Cli, vault: None) -> None:
    cli("put", "My seat is 12A", "-n", "travel", "--id", ID)
    cli("replace", ID, "My seat is 14C")
    said = hint(cli, "replace", ID, "My seat is 15D", code=5)
    assert "`strongroom history ID`" in said
    assert "memory." not in said


def test_document_without_namespace_is_told_the_option_and_the_names_of_its_cap_only(
    cli: Cli, vault: None, caps: Caps
) -> None:
    assert "--namespace family; the cap covers family, personal" in hint(cli, "document", "read", "a.md", code=2)
    with opened() as owned:
        cap = owned.mint(actor="local/owner", ops=["get"], namespaces=["travel", "work"], ttl=3600)
    said = hint(cli, "document", "read", "a.md", "--cap-file", str(caps("two.cap", cap)), code=2)
    assert "--namespace travel; the cap covers travel, work" in said
    assert "family" not in said


def test_document_that_is_there_already_is_told_the_options_that_replace_it(cli: Cli, vault: None) -> None:
    write = ("document", "write", "a.md", "x", "-n", "travel")
    cli(*write)
    said = hint(cli, *write, code=5)
    assert "--version" in said
    assert "--overwrite" in said


def test_listing_without_documents_says_so_only_where_nothing_narrows_it(cli: Cli, vault: None) -> None:
    assert "there are no documents" in cli("document", "list").err
    cli("document", "write", "a.md", "x", "-n", "travel")
    assert "there is no such document" in cli("document", "list", "b").err


def test_too_few_digits_of_a_link_are_told_in_words_of_the_shell(cli: Cli, vault: None) -> None:
    for link in ("abc", "ABCDEF0123", "z" * 64, "0" * 65):
        done = cli("cap", "revoke", link, "--json")
        assert (done.code, done.reason) == (2, "invalid_request")
        assert "strongroom cap list" in done.error["hint"]
        assert "vault." not in done.err


@pytest.mark.requirement("cli-audit")
def test_operation_that_the_log_never_has_is_refused_with_those_it_has(cli: Cli, vault: None) -> None:
    said = hint(cli, "audit", "show", "--op", "get,read", code=2)
    assert "rotate-root" in said
    assert "snapshot" in said


def test_every_operation_that_the_owner_puts_on_record_can_be_asked_for() -> None:
    said = "".join(path.read_text() for name in ("vault", "memory") for path in (SOURCES / name).rglob("*.py"))
    found = set(re.findall(r'record_owner\(\s*"([a-z-]+)"', said)) | set(re.findall(r'\bop="([a-z-]+)"', said))
    assert len(found) > 8
    assert found <= OPS


@pytest.mark.requirement("cli-audit", "show-recorded")
def test_every_operation_of_a_cap_and_a_cap_merely_shown_can_be_asked_for(cli: Cli, vault: None) -> None:
    assert {SHOWN, *(str(kind.op) for kind in api.CALLS)} <= OPS
    with opened() as held:
        token = held.mint(actor="local/owner", ops=["get"], namespaces=["travel"])
        held.revoke(token)
        with pytest.raises(strongroom.errors.CapRevoked):
            run_inline(held.door(token, request="r1").checking(), held.store)
    (entry,) = cli("audit", "show", "--op", "show", "--json").json["entries"]
    assert (entry["op"], entry["decision"], entry["reason"]) == ("show", "deny", "cap_revoked")
    assert (entry["request"], entry["actor"]) == ("r1", "")


@pytest.mark.requirement("cli-hostile-text")
def test_second_line_cannot_pass_for_what_is_said_about_the_first(cli: Cli, vault: None) -> None:
    cli("put", "-n", "travel", "Please pay\ntravel  2024-01-01 09:00  01JABCDEFGHJKMNPQRSTVWXYZ0")
    shown = cli("get", "please pay").out.splitlines()
    assert shown[0] == " 1 Please pay"
    assert shown[1].startswith("   | travel")
    assert shown[2].startswith("   travel")


@pytest.mark.requirement("cli-hostile-text")
def test_line_of_the_last_day_of_the_calendar_is_shown_in_every_zone(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("put", "-n", "travel", "--time", "9999-12-31T23:59:59+00:00", "the end")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        for verb in (("list",), ("get", "the end")):
            assert cli(*verb).code == 0
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.requirement("cli-caps")
def test_cap_is_not_minted_for_a_file_that_cannot_be_written(cli: Cli, vault: None, tmp_path: Path) -> None:
    before = len(json.loads(cli("cap", "list", "--json").out)["caps"])
    (tmp_path / "dangling.cap").symlink_to(tmp_path / "nowhere" / "x")
    for out in (tmp_path / "missing" / "x.cap", tmp_path / "dangling.cap"):
        assert cli("cap", "mint", "--ops", "get", "--namespaces", "travel", "--out", str(out)).code == 2
    assert len(json.loads(cli("cap", "list", "--json").out)["caps"]) == before


@pytest.mark.requirement("cli-caps")
def test_cap_that_was_signed_and_could_not_be_written_is_taken_back_by_the_hinted_command(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len(cli("cap", "list", "--json").json["caps"])
    with monkeypatch.context() as patched:
        patched.setattr(caps_verb, "write_file", full)
        mint = ["cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--out", "a.cap"]
        (named,) = re.findall("`strongroom ([^`]+)`", hint(cli, *mint, code=2))
        narrow = ["cap", "attenuate", "--ops", "get", "--out", "b.cap"]
        assert "revoke" not in hint(cli, *narrow, code=2), "that would be the cap that it comes from"
    assert len(cli("cap", "list", "--json").json["caps"]) == before + 1
    assert cli(*shlex.split(named)).code == 0
    assert len(cli("cap", "list", "--json").json["caps"]) == before


@pytest.mark.parametrize("option", ["--url", "--cap-file"])
def test_option_of_a_verb_before_the_verb_is_to_be_said_after_it(cli: Cli, home: Path, option: str) -> None:
    done = cli(option, "http://127.0.0.1:9", "get", "x", "--json")
    assert (done.code, done.reason) == (2, "usage")
    assert f"after the verb: `strongroom VERB {option}" in done.error["hint"]
    assert "after the verb" not in cli("get", "x", "--nonsense", "--json").error["hint"]


@pytest.mark.parametrize(("verb", "by_http"), [("mint", True), ("revoke", True), ("list", False)])
def test_minting_at_a_server_is_told_to_go_by_http(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch, verb: str, by_http: bool
) -> None:
    monkeypatch.setenv("STRONGROOM_URL", "http://127.0.0.1:9")
    words = {"mint": ["--ops", "get", "--namespaces", "work", "--ttl", "1h"], "revoke": ["--for", "local/alice"]}
    done = cli("cap", verb, *words.get(verb, []), "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert (f"POST /v1/caps/{verb}" in done.error["hint"]) == by_http


def test_revocation_says_how_many_caps_fell_with_the_named_one(cli: Cli, vault: None, caps: Caps) -> None:
    mint = ("cap", "mint", "--ops", "get,renew", "--namespaces", "work", "--ttl", "1h", "--out")
    for name in ("one.cap", "two.cap"):
        assert cli(*mint, name).code == 0
    assert cli("cap", "renew", "--cap-file", "one.cap", "--out", "next.cap").code == 0
    assert "and 1 cap renewed or minted from it" in cli("cap", "revoke", "--cap-file", "one.cap").out
    assert "renewed or minted" not in cli("cap", "revoke", "--cap-file", "two.cap").out


def test_hint_of_a_denial_shows_the_cap_that_was_denied(cli: Cli, vault: None) -> None:
    assert cli("cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--out", "a cap").code == 0
    done = cli("put", "a text", "-n", "work", "--cap-file", "a cap", "--json")
    assert done.reason == "cap_op_mismatch"
    (named,) = re.findall("`strongroom ([^`]+)`", done.error["hint"])
    assert cli(*shlex.split(named), "--json").json["ops"] == ["get"]


@pytest.mark.requirement("cli-erase")
@pytest.mark.parametrize("verb", [["forget", "--namespace", "work", "--yes"], ["erase", "--everything", "--yes"]])
def test_remains_of_a_put_off_scrub_are_removed_by_the_hinted_command(cli: Cli, vault: None, verb: list[str]) -> None:
    assert cli("init", "another vault").code == 0
    assert cli("put", "a text", "-n", "work", "--vault", "another vault").code == 0
    reader = apsw.Connection("another vault/vault.db")
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM objects").fetchall()
    done = cli(*verb, "--vault", "another vault")
    assert done.code == 0
    (named,) = re.findall("`strongroom (doctor[^`]*)`", done.out + done.err)
    checks = {one["name"]: one for one in cli(*shlex.split(named), "--json").json["checks"]}
    assert (checks["store"]["state"], "deleted bytes" in checks["store"]["message"]) == ("warn", True)
    assert Path("another vault/vault.scrub").exists()
    reader.close()
    assert "all is well" in cli(*shlex.split(named)).out
    assert not Path("another vault/vault.scrub").exists()


def test_revoked_cap_is_told_to_be_replaced(cli: Cli, vault: None) -> None:
    assert cli("cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--out", "a.cap").code == 0
    assert cli("cap", "revoke", "--cap-file", "a.cap").code == 0
    done = cli("get", "a question", "--cap-file", "a.cap", "--json")
    assert (done.reason, "new cap" in done.error["hint"]) == ("cap_revoked", True)


class _Point:
    """A store that somebody registered, whose package lacks one that it needs."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> None:
        raise ModuleNotFoundError(name="needed")


@pytest.mark.parametrize("name", ["s3", "other"])
def test_store_without_its_package_is_told_how_to_get_it_and_only_ours_by_our_extra(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(store, "entry_points", lambda group: [_Point(name)])
    with pytest.raises(InvalidRequest) as refused:
        store.backend(f"{name}://bucket/prefix")
    assert "needed" in refused.value.message
    assert (how_to_install("s3") in refused.value.hint) is (name == "s3")
