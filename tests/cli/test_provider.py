"""provider from a shell: a failed check has an exit code and a reason, and a broken plugin says why it is not there."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from strongroom.cli.app import VerbCommand
from strongroom.cli.provider import check_provider, list_providers, provider, set_up, watch_checks
from strongroom.cli.run_context import Run
from strongroom.host.conformance import CHECKS, Outcome, Result
from strongroom.host.plugins import discovery
from tests.cli.conftest import Cli

BAD = "tests.host.conformance.providers.bad"
PLUGIN = """
import json, os
from pathlib import Path
from agent.memory_provider import MemoryProvider

class Plugin(MemoryProvider):
    name = "my-provider"
    def is_available(self): return True
    def get_tool_schemas(self): return []
    def initialize(self, session_id, **kwargs): pass
    def get_config_schema(self):
        return [
            {"key": "token", "description": "Token", "secret": True, "required": True, "env_var": "MY_TOKEN"},
            {"key": "colour", "description": "Colour\\x1b[31m", "choices": ["red", "blue"], "default": "blue"},
            {"key": "place", "description": "Place", "default": "here"},
        ]
    def save_config(self, values, hermes_home):
        Path(hermes_home, "my.json").write_text(json.dumps(values))

def register(ctx):
    ctx.register_memory_provider(Plugin())
"""


@pytest.fixture
def plugins(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime's home with one provider in it, which is beside it as well."""
    monkeypatch.delenv("HERMES_HOME", raising=False)
    place = home / ".hermes" / "plugins"
    for directory in (place / "my-provider", home / "my-provider"):
        directory.mkdir(parents=True)
        (directory / "__init__.py").write_text(PLUGIN)
    return place


# check


@pytest.mark.requirement("conformance-cli")
def test_provider_that_fails_a_check_gets_exit_code_7_and_the_reason(cli: Cli) -> None:
    options = (
        "provider",
        "check",
        f"{BAD}:NeverRemoves",
        "--only",
        "forgotten",
        "--only",
        "order",
        "--patience",
        "0.5",
    )
    done = cli(*options)
    assert done.code == 7
    assert "what the user had the built-in memory remove is still recalled" in done.out
    assert done.out.splitlines()[-1] == "2 checks of NeverRemoves: 1 passed, 1 failed, 0 not applicable"
    told = cli(*options, "--json")
    assert (told.code, told.json["ok"], told.json["counts"]["fail"], told.err) == (7, False, 1, "")


@pytest.mark.requirement("conformance-cli")
def test_provider_that_fails_none_gets_exit_code_0_also_where_checks_do_not_apply(cli: Cli) -> None:
    only = ("--only", "order", "--only", "tool-schemas")
    done = cli("provider", "check", f"{BAD}:KeepsNothing", *only, "--patience", "0.2", "--json")
    assert (done.code, done.json["ok"]) == (0, True)
    assert [one["outcome"] for one in done.json["checks"]] == ["pass", "not_applicable"]


@pytest.mark.long
@pytest.mark.requirement("conformance-cli")
def test_markdown_is_a_table_and_not_for_programs_too(cli: Cli) -> None:
    options = ("provider", "check", f"{BAD}:KeepsNothing", "--only", "order", "--markdown")
    assert "| `order` | pass |" in cli(*options).out
    assert cli(*options, "--json").reason == "usage"


@pytest.mark.requirement("conformance-cli")
@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (["./nowhere"], "provider_missing", 4),
        (["no-such-provider"], "provider_missing", 4),
        (["my-provider", "--only", "no-such-check"], "invalid_request", 2),
        (["my-provider", "--env", "NOT_SET_ANYWHERE"], "invalid_request", 2),
        (["my-provider", "--file", "nowhere.json:x.json"], "invalid_request", 2),
        (["my-provider", "--file", "my-provider/__init__.py:../x"], "invalid_request", 2),
        (["my-provider", "--file", "my-provider/__init__.py:/x"], "invalid_request", 2),
        (["my-provider", "--keep", "my-provider"], "invalid_request", 2),
        (["my-provider", "--patience", "0"], "usage", 2),
        ([], "usage", 2),
    ],
)
def test_provider_that_cannot_be_checked_is_refused(
    cli: Cli, plugins: Path, words: list[str], reason: str, code: int
) -> None:
    done = cli("provider", "check", *words, "--json")
    assert (done.reason, done.code) == (reason, code)


def test_examples_of_check_run(cli: Cli, plugins: Path, home: Path) -> None:
    assert isinstance(check_provider, VerbCommand)
    (home / "settings.json").write_text("{}")
    for line in check_provider.examples:
        words = shlex.split(line)[1:]
        only = [] if "--only" in words else ["--only", "order"]
        done = cli(*words, *only, "--patience", "0.2")
        assert done.code == 0, done.out + done.err
    assert "killed" in CHECKS


@pytest.mark.long
def test_kept_homes_hold_what_was_given(cli: Cli, plugins: Path, home: Path) -> None:
    (home / "settings.json").write_text('{"given": 1}')
    given = ("--file", "settings.json:below/my.json", "--env", "MY_TOKEN=x")
    done = cli("provider", "check", "my-provider", "--only", "order", "--keep", "kept", *given)
    assert done.code == 0
    assert json.loads((home / "kept/order/person/.hermes/below/my.json").read_text()) == {"given": 1}


@pytest.mark.requirement("conformance-up-front")
def test_plugin_that_does_not_load_is_one_error_with_its_file_and_line(cli: Cli, plugins: Path, home: Path) -> None:
    for place in (home / "my-provider", plugins / "my-provider"):
        (place / "__init__.py").write_text("# MemoryProvider\nimport no_such_package_anywhere\n")
        said = "./my-provider" if place.parent == home else "my-provider"
        done = cli("provider", "check", said)
        assert (done.code, done.out) == (7, "")
        assert done.err.count("no_such_package_anywhere") == 1
        assert f"{place / '__init__.py'}, line 2" in done.err
        assert cli("provider", "check", said, "--json").reason == "provider_unavailable"


@pytest.mark.requirement("conformance-up-front")
def test_provider_that_is_not_set_up_is_not_green(cli: Cli) -> None:
    done = cli("provider", "check", f"{BAD}:NotSetUp")
    assert (done.code, done.out) == (7, "")
    assert "GOOD_TOKEN is not set" in done.err
    assert "--env" in done.err


@pytest.mark.requirement("conformance-says-what-was-not-tested")
def test_provider_that_gives_nothing_back_gets_exit_code_0_and_a_note(cli: Cli) -> None:
    done = cli(
        "provider", "check", f"{BAD}:KeepsNothing", "--only", "order", "--only", "two-users", "--patience", "0.2"
    )
    assert done.code == 0
    assert "nothing that it was told came back" in done.out.splitlines()[0]
    assert "not tested" in done.out.splitlines()[-1]


@pytest.mark.long
def test_each_check_is_told_as_it_ends_where_there_is_no_terminal(cli: Cli) -> None:
    done = cli("provider", "check", f"{BAD}:KeepsNothing", "--only", "order", "--only", "tool-schemas")
    assert done.err.splitlines() == ["strongroom: 1/2 order: pass", "strongroom: 2/2 tool-schemas: not applicable"]


def test_bar_shows_the_check_that_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with watch_checks(Run(), 2) as (beginning, ended):
        beginning("order")
        ended(Result(CHECKS["order"], Outcome.PASS))
        beginning("killed")
    assert 0 < terminal.getvalue().index("order") < terminal.getvalue().index("killed")


# list


def test_provider_that_hangs_when_it_is_asked_is_listed_as_not_available(
    cli: Cli, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang = "import threading; threading.Event().wait()"
    (plugins / "my-provider" / "__init__.py").write_text(PLUGIN.replace("return True", hang))
    monkeypatch.setattr(discovery.examine, "__defaults__", (0.2,))
    (one,) = cli("provider", "list", "--json").json["providers"]
    assert (one["available"], one["reason"]) == (False, "is_available took more than 0.2 s")


def test_provider_that_is_not_set_up_is_listed_with_what_it_lacks_and_the_way_to_set_it_up(
    cli: Cli, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    (plugins / "my-provider" / "__init__.py").write_text(PLUGIN.replace("return True", "return False"))
    (one,) = cli("provider", "list", "--json").json["providers"]
    assert (one["reason"], one["can_be_set_up"]) == ("MY_TOKEN is not set", True)
    shown = cli("provider", "list").out
    assert "strongroom provider setup my-provider" in shown
    assert shown.count("not available") == 1


def test_reason_does_not_repeat_that_the_provider_is_not_available(cli: Cli, plugins: Path) -> None:
    (plugins / "my-provider" / "__init__.py").write_text("# MemoryProvider\nraise ValueError('x')\n")
    assert cli("provider", "list").out.count("not available") == 1


def test_plugin_that_no_host_finds_is_listed_as_skipped_with_the_reason(cli: Cli, plugins: Path) -> None:
    (plugins / "my-provider" / "__init__.py").write_text("#" * 9_000 + PLUGIN)
    (plugins / "other").mkdir()
    (plugins / "other" / "__init__.py").write_text("# something else than a memory\n")
    done = cli("provider", "list", "--json")
    assert done.json["providers"] == []
    assert [one["name"] for one in done.json["skipped"]] == ["my-provider"]
    assert "8192" in done.json["skipped"][0]["reason"]
    assert "my-provider is skipped" in cli("provider", "list").out


def test_manifest_that_was_not_read_is_a_note(cli: Cli, plugins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (plugins / "my-provider" / "plugin.yaml").write_text("name: my-provider\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    (one,) = cli("provider", "list", "--json").json["providers"]
    assert (one["available"], "PyYAML" in one["note"]) == (True, True)
    assert "pip install pyyaml" in cli("provider", "list").out


def test_broken_plugin_is_listed_with_the_reason_and_breaks_no_other(cli: Cli, plugins: Path) -> None:
    (plugins / "broken").mkdir()
    (plugins / "broken" / "__init__.py").write_text("# MemoryProvider\nimport no_such_package_anywhere\n")
    done = cli("provider", "list", "--json")
    assert done.code == 0
    states = {one["name"]: (one["available"], one["reason"]) for one in done.json["providers"]}
    assert states["my-provider"] == (True, "")
    assert states["broken"][0] is False
    assert "no_such_package_anywhere" in states["broken"][1]
    shown = cli("provider", "list").out
    assert "not available" in shown
    assert "no_such_package_anywhere" in shown


def test_looking_only_runs_nothing_of_a_plugin(cli: Cli, plugins: Path, home: Path) -> None:
    (plugins / "curious").mkdir()
    (plugins / "curious" / "__init__.py").write_text(f"# MemoryProvider\nopen({str(home / 'ran')!r}, 'w').close()\n")
    done = cli("provider", "list", "--look-only", "--json")
    assert {one["name"]: one["available"] for one in done.json["providers"]} == {"curious": None, "my-provider": None}
    assert not (home / "ran").exists()
    cli("provider", "list")
    assert (home / "ran").exists()


def test_home_is_named_by_option_and_by_environment(
    cli: Cli, plugins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "my-provider" not in cli("provider", "list", "--home", str(tmp_path)).out
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert cli("provider", "list").out == cli("provider", "list", "--home", str(tmp_path)).out
    assert "my-provider" in cli("provider", "list", "--home", "~/.hermes").out


# setup


def test_setup_writes_secrets_to_env_alone_and_gives_the_rest_to_the_provider(
    cli: Cli, plugins: Path, home: Path
) -> None:
    done = cli("provider", "setup", "my-provider", stdin="hunter2\nred\n\n")
    assert done.code == 0, done.err
    place = home / ".hermes"
    assert "MY_TOKEN=hunter2" in (place / ".env").read_text()
    assert (place / ".env").stat().st_mode & 0o777 == 0o600
    assert json.loads((place / "my.json").read_text()) == {"colour": "red", "place": "here"}
    assert "hunter2" not in done.out + done.err
    assert "\x1b" not in done.out + done.err
    assert "MY_TOKEN" in done.out


def test_setup_for_programs_names_what_was_kept_and_not_its_values(cli: Cli, plugins: Path) -> None:
    done = cli("provider", "setup", "my-provider", "--json", stdin="hunter2\nblue\nthere\n")
    assert done.json == {
        "provider": "my-provider",
        "by_provider": False,
        "values": ["colour", "place"],
        "lost": [],
        "variables": ["MY_TOKEN"],
    }


def test_setup_says_which_answers_a_provider_does_not_keep(cli: Cli, plugins: Path) -> None:
    (plugins / "my-provider" / "__init__.py").write_text(PLUGIN.replace("def save_config", "def save_it"))
    answers = "hunter2\nblue\nthere\n"
    done = cli("provider", "setup", "my-provider", "--json", stdin=answers)
    assert (done.json["values"], done.json["lost"]) == ([], ["colour", "place"])
    shown = cli("provider", "setup", "my-provider", stdin=answers)
    assert "warning" in shown.err
    assert "colour, place" in shown.err


def test_choice_that_there_is_not_is_asked_again_and_a_missing_secret_is_refused(cli: Cli, plugins: Path) -> None:
    assert cli("provider", "setup", "my-provider", stdin="x\ngreen\nred\n\n").code == 0
    (Path(os.environ["HOME"]) / ".hermes" / ".env").unlink()
    assert cli("provider", "setup", "my-provider", "--json", stdin="\n\n\n\n").code == 2


def test_setting_up_what_is_not_there_is_refused(cli: Cli, plugins: Path) -> None:
    assert cli("provider", "setup", "no-such-provider", "--json").reason == "provider_missing"


def test_input_that_ends_interrupts_the_setup_and_writes_nothing(cli: Cli, plugins: Path, home: Path) -> None:
    assert cli("provider", "setup", "my-provider", stdin="hunter2\n").code == 130
    assert not (home / ".hermes" / ".env").exists()


def test_examples_of_list_and_setup_run(cli: Cli, plugins: Path) -> None:
    Path("agent-home").symlink_to(plugins.parent)
    for command in (list_providers, set_up):
        assert isinstance(command, VerbCommand)
        for line in command.examples:
            done = cli(*shlex.split(line)[1:], stdin="hunter2\nred\n\n")
            assert done.code == 0, done.err
    assert set(provider.commands) == {"list", "setup", "check"}


def test_plugins_name_and_what_it_prints_cannot_steer_the_terminal(process: Cli, plugins: Path) -> None:
    odd = plugins / "evil\nsound  bundled  available\x1b[31m"
    odd.mkdir()
    said = "import os, sys\n# MemoryProvider\nprint('\\x1b[2Jforged')\nprint('forged', file=sys.stderr)\n"
    (odd / "__init__.py").write_text(f"{said}os.write(1, b'forged')\nos.write(2, b'forged')\n")
    for words in ([], ["--look-only"]):
        done = process("provider", "list", *words)
        assert (done.code, done.err) == (0, "")
        assert "forged" not in done.out
        assert "\x1b" not in done.out
        assert not any(line.startswith("sound") for line in done.out.splitlines())
        assert "evil<U+000A>sound" in done.out


def test_directory_whose_name_is_no_text_is_listed(process: Cli, plugins: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(plugins) + b"/odd\xff"))
    odd.mkdir()
    (odd / "__init__.py").write_text("# MemoryProvider\n")
    for words in ([], ["--json"]):
        done = process("provider", "list", "--look-only", *words)
        assert done.code == 0, done.err
        assert "odd" in done.out


def test_plugin_that_interrupts_does_not_end_the_listing(cli: Cli, plugins: Path) -> None:
    odd = plugins / "an-interrupt"
    odd.mkdir()
    code = "# MemoryProvider\nclass Stop(KeyboardInterrupt): pass\nraise Stop\n"
    (odd / "__init__.py").write_text(code)
    found = {one["name"]: one["available"] for one in cli("provider", "list", "--json").json["providers"]}
    assert found["an-interrupt"] is False
    assert found["my-provider"] is True
