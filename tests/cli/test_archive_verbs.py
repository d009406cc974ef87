"""export and import from a shell: what is refused and what is never written first, then that lines come through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pyrage  # type: ignore[import-untyped]
import pytest

from strongroom import NewLine, archive
from strongroom.cli import archive_options
from tests import age
from tests.archive.test_archive import archive_of, line
from tests.cli.conftest import Cli, environment, opened

PASSPHRASE = "correct horse battery"
SECRET = "the-peanut-secret"

Caps = Callable[..., Path]


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """age files that cost no second each."""
    monkeypatch.setattr(pyrage.passphrase, "encrypt", age.encrypt)


@pytest.fixture
def passphrase(home: Path, cheap: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The passphrase in a file that the environment names."""
    path = home / "passphrase"
    path.write_text(PASSPHRASE + "\n")
    path.chmod(0o600)
    monkeypatch.setenv(archive_options.VARIABLE, str(path))
    return path


def minted(ops: list[str], namespaces: list[str]) -> str:
    with opened() as vault:
        return vault.mint(actor="local/owner", ops=ops, namespaces=namespaces, ttl=3600)


def count(cli: Cli) -> int:
    return len(cli("list", "--limit", "1000", "--json").json["lines"])


def saved(home: Path, *lines: archive.ArchivedLine, passphrase: str = PASSPHRASE) -> str:
    """An encrypted archive with these lines."""
    path = home / "made.age"
    path.write_bytes(age.encrypt(archive.archive_format.pack(archive_of(*lines)), passphrase))
    return str(path)


# What is refused.


@pytest.mark.requirement("cli-archive")
def test_export_without_a_passphrase_writes_nothing_unless_plaintext_is_understood(cli: Cli, vault: None) -> None:
    cli("put", "a trip", "-n", "travel")
    done = cli("export", "lines.jsonl", "--json")
    assert (done.code, done.reason) == (7, "key_unavailable")
    assert not Path("lines.jsonl").exists()
    assert cli("export", "lines.jsonl", "--i-understand-this-is-plaintext").code == 0
    assert "a trip" in Path("lines.jsonl").read_text()
    assert Path("lines.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.requirement("cli-archive")
@pytest.mark.parametrize(("text", "code"), [("", 2), ("short", 2), ("seven77", 2)])
def test_empty_or_short_passphrase_is_refused(cli: Cli, vault: None, passphrase: Path, text: str, code: int) -> None:
    passphrase.write_text(text)
    assert cli("export", "x.age").code == code
    assert not Path("x.age").exists()


@pytest.mark.requirement("cli-archive")
def test_passphrase_file_that_others_can_read_is_refused(cli: Cli, vault: None, passphrase: Path) -> None:
    passphrase.chmod(0o644)
    assert cli("export", "x.age", "--json").reason == "key_unavailable"
    assert not Path("x.age").exists()


@pytest.mark.requirement("cli-archive")
def test_file_that_is_there_is_replaced_only_by_force(cli: Cli, vault: None, passphrase: Path) -> None:
    Path("x.age").write_bytes(b"mine")
    assert cli("export", "x.age").code == 2
    assert Path("x.age").read_bytes() == b"mine"
    assert cli("export", "no/such/directory.age").code == 2
    assert cli("export", "x.age", "--force").code == 0
    assert Path("x.age").read_bytes().startswith(b"age-encryption.org/v1\n")


@pytest.mark.requirement("cli-archive", "archive-gate")
def test_export_under_a_travel_cap_holds_nothing_personal(cli: Cli, caps: Caps) -> None:
    cli("put", SECRET, "-n", "personal")
    cli("put", "a trip", "-n", "travel")
    travel = str(caps("travel.cap", minted(["list", "get", "snapshot"], ["travel"])))
    clear = "--i-understand-this-is-plaintext"
    done = cli("export", "travel.jsonl", clear, "--cap-file", travel, "--json")
    assert done.json["namespaces"] == {"travel": 1}
    assert SECRET not in Path("travel.jsonl").read_text()
    assert cli("export", "more.jsonl", clear, "--cap-file", travel, "-n", "personal", "--json").code == 3
    weak = str(caps("weak.cap", minted(["get"], ["travel"])))
    assert cli("export", "more.jsonl", clear, "--cap-file", weak).code == 3
    assert not Path("more.jsonl").exists()
    assert cli("export", "all.jsonl", clear).code == 0
    assert SECRET in Path("all.jsonl").read_text(), "the scan must be able to find it"


@pytest.mark.requirement("cli-archive", "archive-whole")
def test_files_that_are_wrong_get_their_own_exit_code_and_write_nothing(
    cli: Cli, vault: None, passphrase: Path, home: Path
) -> None:
    good = saved(home, line(1), line(2))
    data = Path(good).read_bytes()
    Path("cut.age").write_bytes(data[:-5])
    Path("foreign.age").write_bytes(age.encrypt(b"a letter", PASSPHRASE))
    Path("letter.txt").write_bytes(b"a letter")
    Path("other.age").write_bytes(age.encrypt(data, "another passphrase"))
    edited = bytearray(data)
    edited[-20] ^= 1
    Path("edited.age").write_bytes(edited)
    expected = {"cut": 6, "edited": 6, "foreign": 2, "other": 7, "none": 4}
    assert {name: cli("import", f"{name}.age").code for name in expected} == expected
    assert cli("import", "letter.txt").code == 2
    assert count(cli) == 0
    assert cli("import", good).code == 0
    assert count(cli) == 2


@pytest.mark.requirement("cli-archive", "archive-gate")
def test_import_outside_the_cap_is_denied_and_writes_nothing(
    cli: Cli, caps: Caps, passphrase: Path, home: Path
) -> None:
    travel = str(caps("travel.cap", minted(["put"], ["travel"])))
    path = saved(home, *map(line, range(300)), line(999, "journeys"))
    assert cli("import", path, "--cap-file", travel, "--json").reason == "cap_namespace_denied"
    assert count(cli) == 0
    done = cli("import", path, "--cap-file", travel, "--namespace-map", "journeys=travel", "--json")
    assert (done.code, done.json["put"]) == (0, 301)


@pytest.mark.requirement("cli-archive")
@pytest.mark.parametrize("pair", ["travel", "=travel", "travel=", "nowhere=travel"])
def test_namespace_map_that_says_nothing_is_refused(
    cli: Cli, vault: None, passphrase: Path, home: Path, pair: str
) -> None:
    assert cli("import", saved(home, line(1)), "--namespace-map", pair).code == 2
    assert count(cli) == 0


@pytest.mark.requirement("cli-archive", "archive-forgotten")
def test_forgotten_lines_stay_so_and_are_counted(cli: Cli, vault: None, passphrase: Path) -> None:
    cli("put", SECRET, "-n", "travel")
    (gone,) = cli("list", "--json").json["lines"]
    cli("put", "kept", "-n", "travel")
    assert cli("export", "x.age").code == 0
    assert cli("forget", gone["id"]).code == 0
    done = cli("import", "x.age", "--json")
    assert (done.code, done.json["put"], done.json["there"], done.json["forgotten"]) == (0, 0, 1, 1)
    assert count(cli) == 1


@pytest.mark.requirement("cli-archive", "archive-forgotten")
def test_forgotten_line_does_not_come_back_under_another_name(cli: Cli, vault: None, passphrase: Path) -> None:
    cli("put", SECRET, "-n", "travel")
    (gone,) = cli("list", "--json").json["lines"]
    assert cli("export", "x.age").code == 0
    assert cli("forget", gone["id"]).code == 0
    done = cli("import", "x.age", "--namespace-map", "travel=work", "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert "lacks" in done.error["hint"]
    assert count(cli) == 0


@pytest.mark.requirement("cli-archive", "archive-gate")
def test_namespace_that_the_vault_lacks_is_named_with_what_can_be_done(
    cli: Cli, caps: Caps, passphrase: Path, home: Path
) -> None:
    path = saved(home, line(1), line(2, "journeys"))
    done = cli("import", path, "--json")
    assert (done.code, done.reason) == (3, "cap_namespace_denied")
    assert "journeys" in done.error["message"]
    assert "--namespace-map journeys=" in done.error["hint"]
    assert "strongroom namespaces add journeys" in done.error["hint"]
    work = str(caps("work.cap", minted(["put"], ["work"])))
    done = cli("import", path, "--cap-file", work, "--namespace-map", "journeys=work", "--json")
    assert (done.code, "travel" in done.error["message"]) == (3, True)
    assert "namespaces add" not in done.error["hint"], "who holds a cap cannot add one"
    assert count(cli) == 0
    assert cli("namespaces", "add", "journeys").code == 0
    assert cli("import", path, "--json").json["put"] == 2


@pytest.mark.requirement("cli-archive", "archive-conflict")
def test_conflict_is_named_the_others_go_on_and_the_exit_code_is_5(
    cli: Cli, vault: None, passphrase: Path, home: Path
) -> None:
    assert cli("import", saved(home, line(1, text="mine"))).code == 0
    done = cli("import", saved(home, line(1, text="theirs"), line(2)), "--json")
    assert (done.code, done.json["put"], done.json["conflicts"]) == (5, 1, [["travel", line(1).id]])
    shown = cli("import", saved(home, line(1, text="theirs")))
    assert shown.code == 5
    assert line(1).id in shown.out


# What works.


@pytest.mark.requirement("cli-archive", "archive-portable")
def test_lines_go_from_one_vault_to_another(cli: Cli, vault: None, passphrase: Path, home: Path) -> None:
    cli("put", "Trip to 成都", "-n", "travel", "--session", "monday")
    exported = cli("export", "x.age", "--json").json
    assert (exported["lines"], exported["encrypted"]) == (1, True)
    assert "成都".encode() not in Path("x.age").read_bytes()
    assert cli("init", "second").code == 0
    there = ("--vault", "second")
    check = cli("import", "x.age", "--check", "--json", *there).json
    assert (check["checked_only"], check["put"], check["namespaces"]) == (True, 0, {"travel": 1})
    assert "  travel  1" in cli("import", "x.age", "--check", *there).out.splitlines()
    assert cli("import", "x.age", "--json", *there).json["put"] == 1
    (found,) = cli("list", "--json", *there).json["lines"]
    assert (found["session"], found["provenance"]["source"]) == ("monday", "import")
    again = cli("import", "x.age", "--json", *there).json
    assert (again["put"], again["there"]) == (0, 1)


@pytest.mark.requirement("cli-archive")
def test_passphrase_can_come_from_stdin_or_from_a_prompt(
    cli: Cli, vault: None, cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("put", "a trip", "-n", "travel")
    assert cli("export", "x.age", "--export-passphrase-file", "-", stdin=PASSPHRASE + "\n").code == 0
    assert age.decrypt(Path("x.age").read_bytes(), PASSPHRASE)
    monkeypatch.setattr(archive_options, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    asked = cli("export", "y.age", stdin=f"{PASSPHRASE}\n{PASSPHRASE}\n")
    assert asked.code == 0
    assert PASSPHRASE not in asked.out + asked.err
    assert age.decrypt(Path("y.age").read_bytes(), PASSPHRASE)
    assert cli("import", "y.age", stdin=f"{PASSPHRASE}\n").code == 0
    assert cli("import", "y.age", stdin="another one\n").code == 7


@pytest.mark.requirement("cli-archive", "cap-revoke")
def test_owner_whose_cap_was_voided_gets_a_new_one_and_the_export_goes_on(
    cli: Cli, vault: None, passphrase: Path
) -> None:
    cli("put", "a trip", "-n", "travel")
    with opened() as owner:
        owner.revoke_actor("local/owner")
    assert cli("export", "x.age", "--json").json["lines"] == 1


@pytest.mark.requirement("cli-archive", "archive-sealed")
def test_process_writes_a_file_that_age_opens(process: Cli, vault: None, home: Path) -> None:
    secret = home / "passphrase"
    secret.write_text(PASSPHRASE)
    secret.chmod(0o600)
    process("put", SECRET, "-n", "travel")
    done = process("export", "x.age", "--export-passphrase-file", str(secret), "--json")
    assert done.code == 0, done.err
    data = (home / "x.age").read_bytes()
    assert SECRET.encode() not in data
    lines = age.decrypt(data, PASSPHRASE).decode().splitlines()
    assert [json.loads(one)["record"] for one in lines] == ["header", "line", "end"]
    assert json.loads(lines[1])["text"] == SECRET


@pytest.mark.requirement("cli-archive", "archive-idempotent")
def test_import_process_killed_halfway_goes_on_when_it_is_run_again(
    cli: Cli, vault: None, passphrase: Path, home: Path
) -> None:
    total = 256 * 24
    path = saved(home, *map(line, range(total)))
    command = [sys.executable, "-m", "strongroom", "import", path]
    with opened() as watching:
        before = watching.audit.size()
        child = subprocess.Popen(command, cwd=home, env=environment(), stdout=subprocess.DEVNULL)
        while watching.audit.size() < before + 5 and child.poll() is None:
            pass
        child.kill()
        child.wait()
    done = cli("import", path, "--json")
    assert done.code == 0, done.err
    assert done.json["there"] >= 256
    assert done.json["put"] + done.json["there"] == total
    assert done.json["there"] % 256 == 0
    with opened() as after:
        assert after.audit.verify().ok


@pytest.mark.requirement("cli-archive")
def test_large_memory_is_exported_whole(cli: Cli, vault: None, passphrase: Path) -> None:
    with opened() as library:
        token = library.mint(actor="local/owner", ops=["put"], namespaces=["work"])
        for start in range(0, 1200, 200):
            library.memory(token).put_many(
                [NewLine(text=f"line {start + number}", namespace="work") for number in range(200)]
            )
    assert cli("export", "x.age", "--json").json["lines"] == 1200
    assert os.path.getsize("x.age") > 100_000
