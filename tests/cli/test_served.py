"""The memory verbs against a server: denials first, then the same answers as from the vault, and renewed caps."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from scripts.make_cli_reference import leaves

from strongroom import attenuate
from strongroom.caps import chain as caplib
from strongroom.cli.app import VerbCommand
from strongroom.keys import FileKeys, default_directory
from tests.cli.conftest import Cli, Done, opened
from tests.cli.serving import Server, serve

Caps = Callable[..., Path]
NOWHERE = "http://127.0.0.1:9"
EVERYTHING = ("put", "get", "list", "snapshot", "profile", "forget", "erase")
NEITHER = {"route", "completion", "demo", "cap attenuate", "cap show", "unwire hermes", "scrub hermes"} | {
    *(f"provider {one}" for one in ("list", "setup", "check")),
    *(f"hook {one}" for one in ("audit", "check", "memory-inject")),
}
"""Commands that need neither a vault nor a server."""


def minted(**more: Any) -> str:
    with opened() as vault:
        known = {"actor": "local/owner", "ops": ["put", "get"], "namespaces": ["travel"], "ttl": 600}
        return vault.mint(**{**known, **more})


def backdated(age: int, ttl: int, **more: Any) -> str:
    """A cap of the test's vault that was made some seconds ago."""
    with opened() as vault:
        known = {"actor": "local/owner", "ops": ["get", "renew"], "namespaces": ["travel"]}
        return caplib.mint(
            issuer_seed=FileKeys(default_directory(vault.id)).issuer(),
            audience=vault.id,
            jti=bytes(16),
            holder_seed=None,
            now=int(time.time()) - age,
            ttl=ttl,
            **{**known, **more},
        )


@pytest.fixture
def server(home: Path, vault: None) -> Iterator[Server]:
    with serve(home) as running:
        yield running


@pytest.fixture
def far(cli: Cli, server: Server, caps: Caps) -> Cli:
    """Runs a memory verb against the server with a cap for everything; another can be named."""
    cap = str(caps("all.cap", minted(ops=EVERYTHING, namespaces=["personal", "family", "work", "travel"])))

    def run(*words: str, cap_file: str = cap, stdin: str | bytes = "") -> Done:
        return cli(*words, "--url", server.url, "--cap-file", cap_file, stdin=stdin)

    return run


# Refusals that need no server.


@pytest.mark.requirement("cli-url", "cli-denials")
@pytest.mark.parametrize(
    "words",
    [
        ["put", "a trip"],
        ["get", "trip"],
        ["list"],
        ["snapshot"],
        ["profile", "show", "travel"],
        ["profile", "set", "travel", "x"],
        ["forget", "01JABCDEFGHJKMNPQRSTVWXYZ0"],
        ["erase", "travel", "--yes"],
        ["export", "x.age", "--i-understand-this-is-plaintext"],
        ["cap", "renew"],
    ],
    ids=" ".join,
)
def test_server_is_not_asked_without_a_cap_and_the_owners_own_is_not_used(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    done = cli(*words, "--url", NOWHERE, "--json")
    assert (done.code, done.reason) == (3, "cap_missing")
    assert "--cap-file" in done.error["hint"]
    monkeypatch.setenv("STRONGROOM_URL", NOWHERE)
    assert cli(*words, "--json").reason == "cap_missing"


@pytest.mark.requirement("cli-url")
@pytest.mark.parametrize(
    "words",
    [
        ["init", "other"],
        ["namespaces", "list"],
        ["namespaces", "add", "health"],
        ["cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h"],
        ["cap", "list"],
        ["cap", "revoke", "--for", "local/owner"],
        ["audit", "show"],
        ["audit", "verify"],
        ["audit", "checkpoint"],
        ["backup", "copy"],
        ["restore", "copy"],
        ["rotate", "root"],
        ["upgrade"],
    ],
    ids=" ".join,
)
def test_owners_verb_says_that_it_needs_the_vault_itself(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    done = cli(*words, "--url", NOWHERE, "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert "on the vault's machine, without --url" in done.error["hint"]
    monkeypatch.setenv("STRONGROOM_URL", NOWHERE)
    assert cli(*words, "--json").reason == "invalid_request"
    assert not Path("other").exists()
    assert not Path("copy").exists()


@pytest.mark.requirement("cli-url")
def test_every_command_takes_a_server_or_refuses_one_or_needs_none() -> None:
    def shows_url(command: VerbCommand) -> bool | None:
        found = [one for one in command.params if isinstance(one, click.Option) and "--url" in one.opts]
        return None if not found else not found[0].hidden

    kinds = {path: shows_url(command) for path, command in leaves()}
    assert {path for path, shown in kinds.items() if shown is None} == NEITHER
    asked = {
        "put",
        "get",
        "replace",
        "history",
        *(f"document {one}" for one in ("write", "read", "history", "list", "rename", "delete")),
        "list",
        "snapshot",
        "forget",
        "erase",
        "export",
        "import",
        "doctor",
        "mcp",
        "cap renew",
        "wire hermes",
    }
    assert {path for path, shown in kinds.items() if shown} == asked | {
        f"profile {one}" for one in ("show", "set", "edit")
    }


@pytest.mark.requirement("cli-url")
def test_vault_that_is_named_outdoes_the_environment_but_not_an_option(
    cli: Cli, vault: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = str(home / ".local/share/strongroom/vault")
    assert cli("list", "--vault", place, "--url", NOWHERE, "--json").reason == "usage"
    monkeypatch.setenv("STRONGROOM_URL", NOWHERE)
    assert cli("list", "--vault", place, "--json").code == 0
    assert cli("cap", "list", "--vault", place, "--json").code == 0


@pytest.mark.requirement("cli-url")
@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("", "unset STRONGROOM_URL"),
        ("memory.example.org", "https://"),
        ("ftp://memory.example.org", "https://"),
        ("https://user:secret@memory.example.org", "https://"),
        ("http://192.0.2.1:8765", "--allow-cleartext"),
        ("unix://relative/socket", "unix:///"),
    ],
)
def test_address_that_is_none_is_refused_before_the_cap_goes_anywhere(
    cli: Cli, caps: Caps, url: str, hint: str
) -> None:
    done = cli("get", "x", "--url", url, "--cap-file", str(caps("agent.cap", minted())), "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert hint in done.error["hint"]
    assert "secret" not in done.err


@pytest.mark.requirement("cli-url")
def test_ca_without_tls_is_refused_in_words_of_the_shell(cli: Cli, caps: Caps) -> None:
    words = ("get", "x", "--url", NOWHERE, "--cap-file", str(caps("agent.cap", minted())), "--json")
    done = cli(*words, "--ca-file", "ca.pem")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert "--ca-file" in done.error["message"]


@pytest.mark.requirement("cli-url")
def test_server_that_is_not_there_is_unavailable(cli: Cli, caps: Caps, home: Path) -> None:
    done = cli("get", "x", "--url", NOWHERE, "--cap-file", str(caps("agent.cap", minted())), "--json")
    assert (done.code, done.reason) == (7, "server_unavailable")


# Refusals of a server.


@pytest.mark.requirement("cli-url", "cli-denials", "bad-cap")
def test_server_refuses_with_the_same_reasons_as_the_vault(cli: Cli, far: Cli, caps: Caps) -> None:
    revoked = minted()
    with opened() as made:
        made.revoke(revoked)
    tokens = {
        "cap_expired": backdated(7200, 60),
        "cap_revoked": revoked,
        "cap_op_mismatch": minted(ops=["put"]),
        "cap_data_class_mismatch": minted(data_class="credentials"),
        "cap_malformed": minted()[:-1] + "!",
    }
    for reason, token in tokens.items():
        cap = str(caps(f"{reason}.cap", token))
        done = far("get", "x", "--json", cap_file=cap)
        assert (done.code, done.reason) == (3, reason)
        assert cli("get", "x", "--cap-file", cap, "--json").reason == reason
        assert token not in done.err
    travel = str(caps("travel.cap", minted()))
    assert far("get", "x", "-n", "personal", "--json", cap_file=travel).reason == "cap_namespace_denied"
    assert far("get", "x", "-n", "nonsense", "--json", cap_file=travel).reason == "cap_namespace_denied"
    assert far("get", "--id", "01JABCDEFGHJKMNPQRSTVWXYZ0", "--json").code == 4
    assert far("put", "x" * 40_000, "-n", "work", "--json").reason == "line_too_large"


@pytest.mark.requirement("cli-url", "cli-erase")
def test_owners_verb_is_refused_before_anything_is_destroyed_or_written(far: Cli, home: Path) -> None:
    assert far("put", "a trip", "-n", "travel").code == 0
    assert far("erase", "travel", "--rotate-root", "--yes", "--json").reason == "invalid_request"
    assert far("get", "trip", "--json").json["hits"][0]["text"] == "a trip"
    assert far("export", "x.jsonl", "--i-understand-this-is-plaintext").code == 0
    assert far("import", "x.jsonl", "--namespace-map", "journeys=travel", "--json").reason == "invalid_request"


# The same answers.


@pytest.mark.requirement("cli-url")
def test_lines_put_and_recalled_through_a_server_are_those_of_the_vault(cli: Cli, far: Cli) -> None:
    kept = far("put", "Trip to Chengdu, May 25-29", "--json").json["lines"]
    assert [(one["namespace"], one["routed"]) for one in kept] == [("travel", True)]
    assert far("put", "--lines", "-n", "work", stdin="one\ntwo\n").code == 0
    for words in (["get", "chengdu", "--now", "2026-05-20"], ["list"], ["list", "--limit", "1"], ["snapshot"]):
        assert far(*words, "--json").json == cli(*words, "--json").json
        assert far(*words).out == cli(*words).out
    assert far("get", "chengdu", "--json").json["hits"][0]["provenance"]["source"] == "http"


@pytest.mark.requirement("cli-url")
def test_profiles_forgetting_and_erasing_work_through_a_server(cli: Cli, far: Cli) -> None:
    assert far("profile", "set", "personal", "Call me Sam.").code == 0
    assert far("profile", "show", "personal", "--json").json == cli("profile", "show", "personal", "--json").json
    stale = far("profile", "set", "personal", "x", "--version", "0" * 32, "--json")
    assert (stale.code, stale.reason) == (5, "version_conflict")
    (line,) = far("put", "a trip", "-n", "travel", "--json").json["lines"]
    assert far("forget", line["id"], "--json").json["ids"] == [line["id"]]
    assert far("put", "a trip", "-n", "travel", "--id", line["id"]).code == 5
    assert far("put", "a meeting", "-n", "work").code == 0
    assert far("erase", "work", "--yes", "--json").json["namespaces"] == ["work"]
    assert cli("list", "--json").json["lines"] == []


@pytest.mark.requirement("cli-url", "cli-archive")
def test_archive_goes_out_of_one_server_and_comes_back_into_it(cli: Cli, far: Cli) -> None:
    far("put", "a trip", "-n", "travel")
    far("document", "write", "notes/trip.md", "Train at nine", "-n", "travel")
    clear = "--i-understand-this-is-plaintext"
    assert far("export", "far.jsonl", clear, "--json").json["lines"] == 1
    assert cli("export", "near.jsonl", clear).code == 0
    header, *lines = Path("far.jsonl").read_text().splitlines()
    near = Path("near.jsonl").read_text().splitlines()
    assert lines[:1] == near[1:2]
    assert json.loads(header)["vault"] == json.loads(near[0])["vault"]
    done = far("import", "far.jsonl", "--json").json
    assert (done["there"], done["documents_there"]) == (1, 1)
    far("document", "delete", "notes/trip.md", "-n", "travel", "--yes")
    assert far("import", "far.jsonl", "--json").json["documents_forgotten"] == 1


@pytest.mark.requirement("cli-url")
def test_process_without_a_vault_or_keys_uses_the_server_by_its_environment(
    process: Cli, server: Server, caps: Caps, tmp_path: Path
) -> None:
    cap = str(caps("agent.cap", minted()))
    env = {"HOME": str(tmp_path), "STRONGROOM_URL": server.url, "STRONGROOM_CAP_FILE": cap}
    assert process("put", "a trip", env=env).code == 0
    assert process("get", "trip", "--json", env=env).json["hits"][0]["text"] == "a trip"
    assert process("get", "x", "-n", "personal", "--json", env=env).reason == "cap_namespace_denied"
    assert not (tmp_path / ".local").exists()


# Caps that are renewed.


@pytest.mark.requirement("cli-renew")
def test_cap_that_may_not_be_renewed_is_not(cli: Cli, caps: Caps, server: Server) -> None:
    good = minted(ops=["get", "renew"])
    tokens = {
        "cap_op_mismatch": minted(),
        "cap_expired": backdated(7200, 60),
        "invalid_request": attenuate(good, ttl=60),
    }
    for reason, token in tokens.items():
        cap = caps(f"{reason}.cap", token)
        for where in ([], ["--url", server.url]):
            assert cli("cap", "renew", "--cap-file", str(cap), *where, "--json").reason == reason
            assert cap.read_text() == token + "\n"
    assert cli("cap", "renew", "--json").reason == "cap_missing", "the owner's own is renewed by itself"
    taken = caps("taken.cap", "mine")
    assert cli("cap", "renew", "--cap-file", str(caps("a.cap", good)), "--out", str(taken)).code == 2
    assert taken.read_text() == "mine\n"


@pytest.mark.requirement("cli-renew")
@pytest.mark.parametrize("where", ["near", "far"])
def test_renewing_replaces_the_file_or_writes_another_and_both_caps_work(
    cli: Cli, caps: Caps, server: Server, home: Path, where: str
) -> None:
    more = ["--url", server.url] if where == "far" else []
    old = backdated(100, 600, max_k=3, label="agent")
    cap = caps("agent.cap", old)
    assert cli("cap", "renew", "--cap-file", str(cap), "--out", "next.cap", *more).code == 0
    assert cap.read_text() == old + "\n"
    done = cli("cap", "renew", "--cap-file", str(cap), *more, "--json")
    assert (done.code, done.json["token"], done.json["out"]) == (0, None, str(cap))
    for name in ("agent.cap", "next.cap"):
        new = (home / name).read_text().strip()
        assert new != old
        assert (home / name).stat().st_mode & 0o777 == 0o600
        was, now = caplib.parse(old).first, caplib.parse(new).first
        assert (now.actor, now.ops, now.namespaces_allowed, now.max_k) == ("local/owner", was.ops, ("travel",), 3)
        assert now.exp - now.nbf == 600
        assert cli("get", "x", "--cap-file", name, *more).code == 0
    assert cli("get", "x", "--cap-file", "-", *more, stdin=old).code == 0
    printed = cli("cap", "renew", "--cap-file", "-", *more, stdin=old)
    assert caplib.parse(printed.out.strip()).first.label == "agent", "what came from stdin goes to stdout"


@pytest.mark.requirement("cli-renew")
def test_cap_near_its_end_is_renewed_on_the_way_and_put_back_where_it_was(
    cli: Cli, caps: Caps, server: Server, home: Path
) -> None:
    old = backdated(900, 1000)
    cap = caps("agent.cap", old)
    (home / "link.cap").symlink_to(cap)
    done = cli("get", "x", "--url", server.url, "--cap-file", "link.cap")
    assert (done.code, "note: the cap was renewed" in done.err) == (0, True)
    assert (home / "link.cap").is_symlink()
    new = cap.read_text().strip()
    assert caplib.parse(new).first.exp > caplib.parse(old).first.exp
    assert cap.stat().st_mode & 0o777 == 0o600
    assert new not in done.err + done.out
    assert cli("get", "x", "--url", server.url, "--cap-file", "link.cap").err.count("renewed") == 0


@pytest.mark.requirement("cli-renew")
def test_cap_that_no_file_could_keep_is_not_renewed_on_the_way(
    cli: Cli, caps: Caps, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command would mint another cap and drop it."""
    old = backdated(900, 1000)
    minted_before = cli("cap", "list", "--json").json
    done = cli("get", "x", "--url", server.url, "--cap-file", "-", stdin=old)
    assert (done.code, "renewed" in done.err) == (0, False)
    monkeypatch.setenv("STRONGROOM_CAP", old)
    assert "renewed" not in cli("get", "x", "--url", server.url).err
    monkeypatch.delenv("STRONGROOM_CAP")
    assert cli("cap", "list", "--json").json == minted_before


# Examples.


@pytest.mark.requirement("cli-help", "project-docs")
def test_every_example_with_a_server_runs_against_one(cli: Cli, caps: Caps, server: Server) -> None:
    caps("agent.cap", minted(ops=["put", "get", "list", "renew"]))
    ran = 0
    for path, command in leaves():
        for line in command.examples:
            if "--url" in line and path not in ("mcp", "wire hermes"):  # these have tests of their own
                words = [server.url if word.startswith("https://") else word for word in shlex.split(line)[1:]]
                done = cli(*words)
                assert done.code == 0, f"{line}\n{done.out}{done.err}"
                ran += 1
    assert ran >= 2
