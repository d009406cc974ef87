"""The frame of the command line: exit codes, errors, help, examples, and how it behaves as a real process."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from scripts.make_cli_reference import PAGE, leaves, page

from strongroom import settings
from strongroom.cli import error_output, unknown_verb
from strongroom.cli.app import VERBS, VerbCommand, Verbs, app
from strongroom.errors import BY_REASON
from tests.cli.conftest import Cli, Done, environment, opened

LEAVES = list(leaves())
PATHS = [path for path, _ in LEAVES]
SLOW = {"demo", "mcp", "provider check", "provider setup", "scrub hermes", "serve", "unwire hermes", "wire hermes"}
"""Commands whose examples have a test of their own."""
NOTHING_TO_DO = {"audit accept-restore"}
"""Commands that rightly refuse in a vault where nothing went wrong."""


# Exit codes.


@pytest.mark.requirement("cli-exit-codes")
def test_every_error_has_an_exit_code_with_a_meaning() -> None:
    families = {error.family for error in BY_REASON.values()}
    assert families == set(error_output.BY_FAMILY)
    assert len(set(error_output.BY_FAMILY.values())) == len(families)
    assert set(error_output.BY_FAMILY.values()) <= set(error_output.MEANINGS)


@pytest.mark.requirement("cli-exit-codes")
@pytest.mark.parametrize("reason", BY_REASON)
def test_each_reason_ends_with_its_familys_code(cli: Cli, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    error = BY_REASON[reason]

    def fail(_: str | None = None) -> settings.Settings:
        raise error("a message", hint="a hint")

    monkeypatch.setattr(settings, "find", fail)
    done = cli("get", "x", "--json")
    assert (done.code, done.reason) == (error_output.BY_FAMILY[error.family], reason)
    assert set(done.error) == {"error", "reason", "message", "hint"}
    plain = cli("get", "x")
    assert plain.code == done.code
    assert plain.err.startswith("strongroom: error: a message\nstrongroom: hint: ")


@pytest.mark.requirement("cli-exit-codes")
def test_defect_gets_code_1_and_tells_neither_traceback_nor_message(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str | None = None) -> settings.Settings:
        raise RuntimeError("the text of a line")

    monkeypatch.setattr(settings, "find", fail)
    done = cli("get", "x")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "the text of a line" not in done.err
    assert cli("get", "x", "--json").reason == "bug"
    monkeypatch.setenv("STRONGROOM_DEBUG", "1")
    assert "Traceback" in cli("get", "x").err


@pytest.mark.requirement("cli-exit-codes")
def test_interruption_gets_code_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str | None = None) -> settings.Settings:
        raise KeyboardInterrupt

    monkeypatch.setattr(settings, "find", fail)
    done = cli("get", "x", "--json")
    assert done.code == 130
    assert json.loads(done.err.strip())["reason"] == "interrupted"


@pytest.mark.requirement("cli-exit-codes")
@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["get"], ["get", "--nonsense"], ["list", "extra"], ["cap", "nonsense"], ["put", "--kind", "x"]],
)
def test_wrong_usage_gets_code_2_and_names_the_help(cli: Cli, words: list[str]) -> None:
    done = cli(*words, "--json")
    assert (done.code, done.reason) == (2, "usage")
    assert "--help" in done.error["hint"]


def test_json_after_two_dashes_is_text_and_not_an_option(cli: Cli) -> None:
    done = cli("get", "--", "--json")
    assert done.code == 4
    assert done.err.startswith("strongroom: error: ")


def test_command_without_a_verb_shows_the_help_as_an_error(cli: Cli) -> None:
    done = cli()
    assert done.code == 2
    assert done.out == ""
    assert "Commands:" in done.err


# Verbs.


def test_verb_whose_module_is_missing_breaks_no_other(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "later", ("strongroom.cli.not_there:later", "Not there yet."))
    assert cli("later", "--json").reason == "usage"
    told = cli("--help")
    assert told.code == 0
    assert "Not there yet." not in told.out
    assert "Recall what fits a question." in told.out


def test_every_verb_of_the_table_has_its_command() -> None:
    context = click.Context(app)
    for verb in app.list_commands(context):
        found = app.get_command(context, verb)
        assert found is not None
        assert found.name == verb


@pytest.mark.requirement("cli-lazy")
def test_get_imports_no_other_verb() -> None:
    script = (
        "import sys\nfrom strongroom.cli.app import app\nimport click\n"
        "app.get_command(click.Context(app), 'get')\n"
        "print(*sorted(name for name in sys.modules if name.startswith('strongroom.cli.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    frame = {"app", "argument_types", "error_output", "line_view", "output", "put_get_list", "run_context"}
    frame |= {"line_filters", "unknown_verb"}
    assert {name.rpartition(".")[2] for name in done.stdout.split()} == frame


@pytest.mark.requirement("cli-help")
@pytest.mark.parametrize(("path", "command"), LEAVES, ids=PATHS)
def test_every_command_takes_json_and_shows_examples_of_itself(cli: Cli, path: str, command: VerbCommand) -> None:
    told = cli(*path.split(), "--help")
    assert told.code == 0
    assert "--json" in told.out
    assert "\nExamples:\n" in told.out
    assert command.examples
    assert all(f"strongroom {path}" in line for line in command.examples)
    assert command.help


@pytest.mark.requirement("cli-cap-sources")
@pytest.mark.parametrize(("path", "command"), LEAVES, ids=PATHS)
def test_no_command_takes_a_secret_as_an_argument(path: str, command: VerbCommand) -> None:
    for parameter in command.params:
        for name in parameter.opts:
            flag = isinstance(parameter, click.Option) and parameter.is_flag
            place = parameter.metavar in ("FILE", "DIR", "PATH")
            secret = re.search(r"cap|token|passphrase|password|secret|key", name)
            assert not secret or flag or place, f"{path} {name}"


def _sections() -> Iterator[tuple[str, str]]:
    for path, command in LEAVES:
        if path not in SLOW:
            # Those that ask a server have a test with one, in test_served.py; those with a bucket in tests/s3.
            yield from ((path, line) for line in command.examples if "--url" not in line and "s3://" not in line)


@pytest.mark.requirement("cli-help", "project-docs")
def test_every_example_of_the_help_runs_in_order(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(_sections())
    assert len(found) > 20
    secret = home / "export.passphrase"
    secret.touch(mode=0o600)
    secret.write_text("a passphrase for the archive\n")
    monkeypatch.setenv("STRONGROOM_EXPORT_PASSPHRASE_FILE", str(secret))
    monkeypatch.setenv("EDITOR", "true")
    shell = _shell(home)
    for verb, line in found:
        if verb == "doctor":  # the examples restored a backup before it, which is a roll-back until it is accepted
            cli("audit", "accept-restore", "--yes")
        # What needs a shell gets one; the rest goes the shorter way.
        done = shell(line) if re.search("[|<>]", line) else cli(*shlex.split(line)[1:])
        assert done.code == (2 if verb in NOTHING_TO_DO else 0), f"{verb}: {line}\n{done.out}{done.err}"
        if "--json" in line and done.code == 0:
            assert done.json is not None
            assert done.err == ""


def _shell(home: Path) -> Cli:
    """Runs a line as it stands, with `strongroom` on the path."""
    script = home / "bin" / "strongroom"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m strongroom "$@"\n')
    script.chmod(0o755)

    def run(line: str) -> Done:
        env = environment({"PATH": f"{script.parent}:{os.environ['PATH']}"})
        done = subprocess.run(["sh", "-c", line], env=env, capture_output=True, text=True, timeout=60, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.requirement("cli-help", "project-docs")
def test_reference_page_is_what_the_commands_say() -> None:
    assert PAGE.read_text() == page(), "run scripts/make_cli_reference.py"


@pytest.mark.requirement("cli-exit-codes", "project-docs")
def test_reference_page_has_every_exit_code() -> None:
    told = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    assert {int(code) for code in told} == set(error_output.MEANINGS)


# As a process.


def test_both_module_names_and_the_installed_command_answer(process: Cli, home: Path) -> None:
    told = process("--version")
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith("strongroom ")
    installed = Path(sys.executable).with_name("strongroom")
    for command in ([sys.executable, "-m", "strongroom.cli"], [str(installed)]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True, env=environment())
        assert done.stdout == told.out


@pytest.mark.requirement("cli-cap-sources")
def test_cap_comes_through_stdin_to_a_process(process: Cli, vault: None) -> None:
    with opened() as made:
        token = made.mint(actor="local/owner", ops=["get"], namespaces=["travel"], ttl=60)
    done = process("get", "allergies", "--namespace", "personal", "--cap-file", "-", "--json", stdin=token)
    assert (done.code, done.reason) == (3, "cap_namespace_denied")
    assert process("get", "trip", "--cap-file", "-", "--json", stdin=token + "\n").json == {"hits": []}


def test_put_in_one_process_is_recalled_in_the_next(process: Cli, vault: None) -> None:
    assert process("put", stdin="Trip to Chengdu, May 25-29\n").code == 0
    assert process("get", "chengdu", "--json").json["hits"][0]["text"] == "Trip to Chengdu, May 25-29"
    assert process("list", "--vault", "nowhere", "--json").reason == "vault_missing"


def test_reader_that_goes_away_is_no_noise(home: Path, vault: None) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "strongroom", "completion", "bash"],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141
    assert done.stderr == b""


def _on_terminal(*arguments: str, env: dict[str, str] | None = None) -> str:
    """What a run shows on a terminal of its own."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "strongroom", *arguments]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment(env)) as running:
        os.close(slave)
        shown = b"".join(_chunks(master))
        running.wait(timeout=60)
    os.close(master)
    return shown.decode()


def _chunks(master: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # how Linux says that the other end is closed
            return
        if not chunk:
            return
        yield chunk


@pytest.mark.requirement("cli-colour")
def test_colour_on_a_terminal_only_and_never_with_no_color(process: Cli, vault: None) -> None:
    process("put", "a trip")
    assert "\x1b[" in _on_terminal("get", "trip")
    assert "\x1b[" not in _on_terminal("get", "trip", env={"NO_COLOR": "1"})
    assert "\x1b[" not in process("get", "trip").out
    assert "\x1b[" not in process("get").err
    assert "\x1b[" in _on_terminal("get")


@pytest.mark.requirement("cli-hostile-text")
def test_hostile_line_does_not_reach_the_terminal_raw(process: Cli, vault: None) -> None:
    process("put", "trip \u202ekcatta", "--author", "mallory\u2066")
    shown = _on_terminal("get", "trip", env={"NO_COLOR": "1"})
    assert "\u202e" not in shown
    assert "\u2066" not in shown
    assert "<U+202E>kcatta" in shown


def test_progress_bar_shows_on_a_terminal_and_not_with_json(vault: None, home: Path) -> None:
    (home / "many.txt").write_text("".join(f"Trip number {number}\n" for number in range(300)))
    assert "putting" in _on_terminal("put", "--lines", "--file", str(home / "many.txt"))
    assert "putting" not in _on_terminal("put", "--lines", "--file", str(home / "many.txt"), "--json")


def _answering(question: bytes, answer: bytes, *arguments: str) -> int:
    """Run on a controlling terminal, wait for a question, answer it; the exit code."""
    master, slave = pty.openpty()
    # The first terminal that the leader of a session opens becomes its controlling one.
    opening = ["sh", "-c", 'exec <>"$0"; exec "$@"', os.ttyname(slave)]
    command = [*opening, sys.executable, "-m", "strongroom", *arguments]
    with subprocess.Popen(command, stdout=slave, stderr=slave, env=environment(), start_new_session=True) as running:
        os.close(slave)
        shown = b""
        for chunk in _chunks(master):
            shown += chunk
            if question in shown:
                shown = b""
                os.write(master, answer)
        running.wait(timeout=60)
    os.close(master)
    return running.returncode


@pytest.mark.requirement("cli-erase")
def test_erase_on_a_terminal_needs_the_typed_word(cli: Cli, vault: None) -> None:
    cli("put", "a trip")
    assert _answering(b"to go on:", b"yes\n", "erase", "travel") == 130
    assert len(cli("list", "--json").json["lines"]) == 1
    assert _answering(b"to go on:", b"travel\n", "erase", "travel") == 0
    assert cli("list", "--json").json["lines"] == []


def test_forget_on_a_terminal_asks_and_keeps_on_no(cli: Cli, vault: None) -> None:
    cli("put", "a trip", "--session", "monday")
    assert _answering(b"[y/N]:", b"n\n", "forget", "--session", "monday") == 130
    assert len(cli("list", "--json").json["lines"]) == 1
    assert _answering(b"[y/N]:", b"y\n", "forget", "--session", "monday") == 0
    assert cli("list", "--json").json["lines"] == []


@pytest.mark.requirement("keys-sources")
def test_passphrase_is_asked_for_on_a_terminal(cli: Cli, home: Path) -> None:
    assert _answering(b"assphrase:", b"a long passphrase\n", "init", "--passphrase") == 0
    assert _answering(b"assphrase:", b"a long passphrase\n", "list") == 0
    assert _answering(b"assphrase:", b"a wrong passphrase\n", "list") == 7


@pytest.mark.requirement("cli-help")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_and_completes_verbs(process: Cli, shell: str) -> None:
    told = process("completion", shell)
    assert told.code == 0
    assert "_STRONGROOM_COMPLETE" in told.out
    asked = {"_STRONGROOM_COMPLETE": f"{shell}_complete", "COMP_WORDS": "strongroom pro"}
    asked["COMP_CWORD"] = "pro" if shell == "fish" else "1"
    command = [sys.executable, "-c", "from strongroom.cli import main; main()"]
    done = subprocess.run(command, env=environment(asked), capture_output=True, text=True, timeout=60, check=False)
    assert "profile" in done.stdout


@pytest.mark.requirement("cli-help")
def test_completion_without_a_shell_names_the_shells_on_one_line(cli: Cli) -> None:
    done = cli("completion")
    assert done.code == 2
    assert "<U+" not in done.err
    assert "bash, zsh, fish" in done.err


@pytest.mark.requirement("cli-help")
@pytest.mark.parametrize(
    "word", ["search", "update", "delete", "add", "remember", "recall", "rm", "edit", "ls", "Find"]
)
def test_verb_of_other_tools_is_answered_with_the_one_that_does_it_here(cli: Cli, word: str) -> None:
    done = cli(word, "something", "--json")
    assert (done.code, done.error["reason"]) == (2, "usage")
    named = re.findall(r"`strongroom (\w+)`", done.error["hint"])
    assert named
    assert set(named) <= set(VERBS)


@pytest.mark.requirement("cli-help")
def test_every_verb_that_is_pointed_to_exists_and_a_slip_is_answered_with_the_nearest(cli: Cli) -> None:
    assert {
        one for hint in unknown_verb.ELSEWHERE.values() for one in re.findall(r"`strongroom ([a-z]+)", hint)
    } <= set(VERBS)
    assert "`strongroom get`" in cli("gett", "--json").error["hint"]
    assert "--help" in cli("nothing-like-it", "--json").error["hint"]


def test_root_is_the_one_place_where_errors_end() -> None:
    assert isinstance(app, Verbs)
