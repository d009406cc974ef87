"""Caps from a shell: refusals first, then mint, attenuate, show, revoke, list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strongroom import api, errors
from strongroom.caps import chain as caplib
from tests.cli.conftest import Cli, opened

MINT = ["cap", "mint", "--for", "local/alice", "--ops", "put,get", "--namespaces", "work,travel", "--ttl", "2h"]


def mint(cli: Cli, name: str, *more: str) -> str:
    done = cli(*MINT, *more, "--out", name)
    assert done.code == 0, done.err
    return name


@pytest.mark.requirement("cli-caps")
def test_minting_an_unknown_namespace_op_class_or_actor_is_refused(cli: Cli, vault: None) -> None:
    def reason(*changes: str) -> str:
        return cli(*MINT, *changes, "--json").reason

    assert reason("--namespaces", "nonsense") == "unknown_namespace"
    assert reason("--ops", "put,nonsense") == "invalid_request"
    assert reason("--for", "Not An Actor") == "invalid_request"
    assert reason("--class", "nonsense") == "usage"
    assert reason("--ttl", "soon") == "usage"
    assert reason("--scope", "local/") == "invalid_request"
    with opened() as made:
        assert [record.actor for record in made.caps()] == ["local/owner"]


@pytest.mark.requirement("cli-caps")
def test_duration_needs_its_unit_and_stays_within_its_limit(cli: Cli, vault: None) -> None:
    for number in ("1", "3600"):
        done = cli(*MINT, "--ttl", number, "--json")
        assert (done.code, done.reason) == (2, "usage")
        assert "90s, 15m, 2h or 30d" in done.error["message"]
    for length in ("401d", "58w", "0s"):
        done = cli(*MINT, "--ttl", length, "--json")
        assert (done.code, done.reason) == (2, "invalid_request")
        assert "400d" in done.error["message"]
    assert [cli(*MINT, "--ttl", length).code for length in ("1s", "90s", "400d", "57w")] == [0, 0, 0, 0]


@pytest.mark.requirement("cli-caps")
@pytest.mark.parametrize("nothing", [["--ops", "forget"], ["--namespaces", "personal"], ["--ops", ""]], ids=" ".join)
def test_narrowed_cap_that_would_allow_nothing_is_refused(cli: Cli, vault: None, nothing: list[str]) -> None:
    parent = mint(cli, "alice.cap")
    done = cli("cap", "attenuate", "--cap-file", parent, *nothing, "--out", "void.cap", "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert not Path("void.cap").exists()


@pytest.mark.requirement("cli-caps")
def test_narrowed_cap_whose_end_is_cut_short_says_so(cli: Cli, vault: None) -> None:
    parent = ["cap", "attenuate", "--cap-file", mint(cli, "alice.cap")]
    assert "note:" in cli(*parent, "--ttl", "3h", "--out", "longer.cap").err
    assert cli(*parent, "--ttl", "3h", "--out", "silent.cap", "--json").err == ""
    assert cli(*parent, "--ttl", "1h", "--out", "shorter.cap").err == ""
    assert cli(*parent, "--out", "same.cap").err == ""


@pytest.mark.requirement("cli-caps")
def test_revoking_an_actor_without_a_cap_on_record_says_so_and_is_done(cli: Cli, vault: None) -> None:
    mint(cli, "alice.cap")
    scope = ["cap", "mint", "--scope", "team/", "--ops", "get", "--namespaces", "work", "--ttl", "1h"]
    assert cli(*scope, "--out", "team.cap").code == 0
    done = cli("cap", "revoke", "--for", "local/alcie")
    assert (done.code, "note:" in done.err) == (0, True)
    assert cli("cap", "revoke", "--for", "local/alcie", "--json").err == ""
    assert cli("cap", "revoke", "--for", "local/alice").err == ""
    assert cli("cap", "revoke", "--for", "team/bo").err == "", "a cap for its scope may have been narrowed to it"


@pytest.mark.requirement("cli-caps")
def test_no_cap_file_is_overwritten_and_nothing_is_signed_for_it(cli: Cli, vault: None, home: Path) -> None:
    (home / "mine.txt").write_text("mine")
    done = cli(*MINT, "--out", "mine.txt", "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert (home / "mine.txt").read_text() == "mine"
    assert cli(*MINT, "--out", "nowhere/x.cap", "--json").reason == "invalid_request"
    assert len(cli("cap", "list", "--for", "local/alice", "--all", "--json").json["caps"]) <= 1


@pytest.mark.requirement("cli-caps")
@pytest.mark.parametrize(
    "wider",
    [
        ["--namespaces", "personal,travel"],
        ["--ops", "get,erase"],
        ["--ttl", "300d"],
    ],
    ids=lambda words: words[0].lstrip("-"),
)
def test_attenuating_never_widens(cli: Cli, vault: None, wider: list[str]) -> None:
    parent = mint(cli, "alice.cap")
    before = cli("cap", "show", "--cap-file", parent, "--json").json
    assert cli("cap", "attenuate", "--cap-file", parent, *wider, "--out", "wide.cap").code == 0
    after = cli("cap", "show", "--cap-file", "wide.cap", "--json").json
    assert set(after["namespaces"]) <= set(before["namespaces"])
    assert set(after["ops"]) <= set(before["ops"])
    assert after["expires"] <= before["expires"]


@pytest.mark.requirement("cli-caps")
def test_cap_that_cannot_be_delegated_is_not_narrowed(cli: Cli, vault: None) -> None:
    mint(cli, "bearer.cap", "--no-delegate")
    assert cli("cap", "attenuate", "--cap-file", "bearer.cap", "--json").reason == "invalid_request"
    assert not cli("cap", "show", "--cap-file", "bearer.cap", "--json").json["delegable"]
    mint(cli, "last.cap", "--max-depth", "0")
    assert cli("cap", "attenuate", "--cap-file", "last.cap", "--json").reason == "invalid_request"


@pytest.mark.requirement("cli-caps")
def test_minted_file_is_private_and_works_for_its_actor_only(cli: Cli, vault: None, home: Path) -> None:
    mint(cli, "alice.cap")
    assert (home / "alice.cap").stat().st_mode & 0o777 == 0o600
    assert cli("put", "Alice's trip", "-n", "travel", "--cap-file", "alice.cap").code == 0
    assert cli("get", "trip", "--cap-file", "alice.cap", "--json").json["hits"][0]["text"] == "Alice's trip"
    assert cli("get", "trip", "--json").json == {"hits": []}


@pytest.mark.requirement("cli-caps")
def test_token_on_stdout_is_the_token_and_nothing_else(cli: Cli, vault: None) -> None:
    for more in ([], ["--out", "-"]):
        done = cli(*MINT, *more)
        assert caplib.parse(done.out.removesuffix("\n")).first.actor == "local/alice"
        assert done.out.strip() not in done.err
    told = cli(*MINT, "--json").json
    assert caplib.parse(told["token"]).links[0].id == told["cap"]["links"][0]


@pytest.mark.requirement("cli-caps")
def test_attenuate_and_show_need_no_vault_where_a_cap_is_given(cli: Cli, vault: None) -> None:
    mint(cli, "alice.cap")
    narrowed = ["cap", "attenuate", "--cap-file", "alice.cap", "--ops", "get", "--namespaces", "travel", "--ttl", "5m"]
    done = cli(
        *narrowed, "--label", "helper", "--max-k", "3", "--session", "s1", "--out", "h.cap", "--vault", "nowhere"
    )
    assert done.code == 0, done.err
    said = cli("cap", "show", "--cap-file", "h.cap", "--vault", "nowhere", "--json").json
    assert (said["actor"], said["ops"], said["namespaces"]) == ("local/alice", ["get"], ["travel"])
    assert (said["label"], said["max_k"], said["session"]) == ("helper", 3, "s1")
    assert len(said["links"]) == 2
    assert not said["expired"]


@pytest.mark.requirement("cli-caps", "secrets-hidden")
def test_show_holds_nothing_that_would_let_one_use_the_cap(cli: Cli, vault: None, home: Path) -> None:
    mint(cli, "alice.cap")
    token = (home / "alice.cap").read_text().strip()
    secret = token.rpartition("~")[2]
    signature = token.rpartition("~")[0].rpartition(".")[2]
    for more in ([], ["--json"]):
        said = cli("cap", "show", "--cap-file", "alice.cap", *more).out
        assert secret not in said
        assert signature not in said
    assert "in 2 hours" in cli("cap", "show", "--cap-file", "alice.cap").out


@pytest.mark.requirement("cli-caps")
def test_show_of_garbage_is_denied(cli: Cli, home: Path) -> None:
    done = cli("cap", "show", "--cap-file", "-", "--json", stdin="garbage")
    assert (done.code, done.reason) == (3, "cap_malformed")


@pytest.mark.requirement("cli-caps")
def test_scope_cap_opens_nothing_until_narrowed_to_one_actor(cli: Cli, vault: None) -> None:
    scope = ["cap", "mint", "--scope", "team/", "--ops", "put,get", "--namespaces", "travel", "--ttl", "1h"]
    assert cli(*scope, "--out", "team.cap").code == 0
    assert cli("get", "x", "--cap-file", "team.cap", "--json").code == 3
    assert cli("cap", "attenuate", "--cap-file", "team.cap", "--for", "other/bob", "--json").reason == "invalid_request"
    assert cli("cap", "attenuate", "--cap-file", "team.cap", "--for", "team/bob", "--out", "bob.cap").code == 0
    assert cli("get", "x", "--cap-file", "bob.cap", "--json").code == 0


@pytest.mark.requirement("cli-caps")
def test_admin_cap_mints_within_its_scope_and_opens_no_memory(cli: Cli, vault: None, home: Path) -> None:
    admin = ["cap", "mint", "--class", "admin", "--scope", "team/", "--ops", "mint,revoke", "--namespaces", "work"]
    done = cli(*admin, "--ttl", "1d", "--out", "admin.cap")
    assert (done.code, "every actor below it" in done.out) == (0, True)
    assert cli("list", "--cap-file", "admin.cap", "--json").code == 3
    token = (home / "admin.cap").read_text().strip()
    with opened() as made:
        door = made.door(token)
        for actor, namespace in (("local/owner", "work"), ("team/bo", "travel")):
            with pytest.raises(errors.Denied):
                door.call(api.Mint(ops=("get",), namespaces=(namespace,), actor=actor))
        issued = door.call(api.Mint(ops=("get",), namespaces=("work",), actor="team/bo"))
    assert cli("get", "x", "--cap-file", "-", "--json", stdin=issued.cap).json == {"hits": []}


@pytest.mark.requirement("cli-caps")
def test_revoke_by_link_its_start_file_or_actor(cli: Cli, vault: None) -> None:
    def ended(name: str) -> bool:
        return cli("get", "x", "--cap-file", name, "--json").code == 3

    for name in ("a.cap", "b.cap", "c.cap", "d.cap"):
        mint(cli, name)
    links = [cli("cap", "show", "--cap-file", name, "--json").json["links"][0] for name in ("a.cap", "b.cap")]
    assert cli("cap", "revoke", links[0]).code == 0
    assert cli("cap", "revoke", links[1][:16]).code == 0
    assert cli("cap", "revoke", "--cap-file", "c.cap").code == 0
    assert [ended(name) for name in ("a.cap", "b.cap", "c.cap", "d.cap")] == [True, True, True, False]
    assert cli("cap", "revoke", "--for", "local/alice").code == 0
    assert ended("d.cap")


@pytest.mark.requirement("cli-caps")
def test_revoke_of_nothing_two_things_or_an_unknown_start_is_refused(cli: Cli, vault: None) -> None:
    mint(cli, "a.cap")
    assert cli("cap", "revoke", "--json").reason == "usage"
    assert cli("cap", "revoke", "--for", "local/alice", "--cap-file", "a.cap", "--json").reason == "usage"
    assert cli("cap", "revoke", "0" * 16, "--json").reason == "invalid_request"
    assert cli("cap", "revoke", "zz", "--json").reason == "invalid_request"
    assert cli("get", "x", "--cap-file", "a.cap").code == 0


@pytest.mark.requirement("cli-caps")
def test_revoke_never_takes_the_owners_cap_from_the_environment(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mint(cli, "a.cap")
    monkeypatch.setenv("STRONGROOM_CAP_FILE", "a.cap")
    assert cli("cap", "revoke", "--json").reason == "usage"
    assert cli("get", "x").code == 0


@pytest.mark.requirement("cli-caps")
def test_list_leaves_out_what_ended_and_never_holds_a_token(cli: Cli, vault: None, home: Path) -> None:
    mint(cli, "a.cap", "--label", "gone")
    mint(cli, "b.cap", "--label", "here")
    cli("cap", "revoke", "--cap-file", "a.cap")
    assert {one["label"] for one in cli("cap", "list", "--json").json["caps"]} == {"owner", "here"}
    everything = cli("cap", "list", "--all", "--json")
    assert sorted((one["label"], one["revoked"]) for one in everything.json["caps"]) == [
        ("gone", True),
        ("here", False),
        ("owner", False),
    ]
    for part in (home / "b.cap").read_text().strip().split("~"):
        assert part not in everything.out
    assert [one["actor"] for one in cli("cap", "list", "--for", "local/alice", "--json").json["caps"]] == [
        "local/alice"
    ]
    assert "local/alice" in cli("cap", "list").out


def test_times_in_json_are_iso(cli: Cli, vault: None) -> None:
    said = json.loads(cli("cap", "show", "--json").out)
    assert said["expires"].endswith("Z")
    assert said["issued"] < said["expires"]


# What is void.


@pytest.mark.requirement("cap-void", "cli-caps")
@pytest.mark.parametrize(
    ("act", "why"),
    [
        (["cap", "revoke", "LINK"], "revoked"),
        (["cap", "revoke", "--for", "local/agent"], "actor_revoked"),
        (["rotate", "issuer", "--yes"], "issuer_rotated"),
    ],
)
def test_void_cap_is_not_listed_as_alive_and_all_says_why_and_since_when(
    cli: Cli, vault: None, act: list[str], why: str
) -> None:
    mint = ["cap", "mint", "--for", "local/agent", "--ops", "get", "--namespaces", "work", "--ttl", "1h"]
    assert cli(*mint).code == 0
    (listed,) = cli("cap", "list", "--json", "--for", "local/agent").json["caps"]
    assert (listed["void"], listed["void_since"]) == (None, None)
    assert cli(*[listed["link"] if word == "LINK" else word for word in act]).code == 0
    alive = cli("cap", "list", "--for", "local/agent")
    assert (alive.out, "--all" in alive.err) == ("", True)
    (shown,) = cli("cap", "list", "--all", "--json", "--for", "local/agent").json["caps"]
    assert (shown["void"], shown["expired"]) == (why, False)
    assert shown["void_since"] is not None
    assert "void since 20" in cli("cap", "list", "--all").out


@pytest.mark.requirement("cap-life")
def test_minting_without_a_ttl_lasts_thirty_days(cli: Cli, vault: None) -> None:
    done = cli("cap", "mint", "--ops", "get", "--namespaces", "travel")
    assert done.code == 0, done.err
    first = caplib.parse(done.out.strip()).first
    assert first.exp - first.nbf == 30 * 86_400
    assert "default: 30d" in cli("cap", "mint", "--help").out
