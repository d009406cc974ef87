"""The kit as a plugin of pytest: one item for each check, passed, failed or skipped with the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from strongroom.host.conformance import CHECKS

ROOT = Path(__file__).parents[3]
BAD = "tests.host.conformance.providers.bad"
OLD = "tests.host.conformance.providers.old:Old"
"""A good provider without tools. What it is told comes back at once, so that no look waits for it."""
PLUGIN = "strongroom.host.conformance.plugin"


def ran(place: Path, *arguments: str) -> tuple[int, str]:
    """A run of pytest in a directory of its own, as an author of a provider would start it."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(place), *arguments],
        cwd=place,
        # The other plugins of this environment take longer to load than a check takes.
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(place),
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.requirement("conformance-pytest-plugin")
def test_check_that_fails_is_a_failed_test_with_its_reason_and_no_traceback(tmp_path: Path) -> None:
    code, shown = ran(tmp_path, "-p", PLUGIN, "--provider", f"{BAD}:OnePromptOnly", "-k", "order", "-q")
    assert code == 1
    assert "Seen: system_prompt_block raised RuntimeError at bad.py:" in shown
    assert "Traceback" not in shown


@pytest.mark.requirement("conformance-pytest-plugin")
def test_checks_pass_and_those_that_do_not_apply_are_skipped_with_the_reason(tmp_path: Path) -> None:
    code, shown = ran(tmp_path, "-p", PLUGIN, "--provider", OLD, "-k", "order or tool-schemas", "-ra")
    assert code == 0
    assert "1 passed, 1 skipped" in shown
    assert "not applicable: it has no tools" in shown


@pytest.mark.requirement("conformance-pytest-plugin")
def test_every_check_is_one_item(tmp_path: Path) -> None:
    code, shown = ran(tmp_path, "-p", PLUGIN, "--provider", OLD, "--collect-only", "-q")
    assert code == 0
    assert [line.removeprefix("::") for line in shown.splitlines() if line.startswith("::")] == list(CHECKS)


@pytest.mark.long
def test_other_tests_run_beside_the_checks_only_where_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_alone.py").write_text("def test_alone() -> None:\n    pass\n")
    options = ("-p", PLUGIN, "--provider", f"{BAD}:KeepsNothing", "-k", "alone or order", "-q")
    assert "1 passed" in ran(tmp_path, *options)[1]
    assert "2 passed" in ran(tmp_path, *options, "test_alone.py")[1]


def test_conftest_can_load_it_and_without_a_provider_it_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(f"pytest_plugins = [{PLUGIN!r}]\n")
    (tmp_path / "test_alone.py").write_text("def test_alone() -> None:\n    pass\n")
    assert "1 passed" in ran(tmp_path, "-q")[1]
    code, shown = ran(tmp_path, "--provider", OLD, "-k", "order", "-q")
    assert (code, "1 passed" in shown) == (0, True)


@pytest.mark.requirement("conformance-up-front")
def test_provider_that_cannot_be_checked_is_one_error_with_the_reason_and_what_to_give(tmp_path: Path) -> None:
    code, shown = ran(tmp_path, "-p", PLUGIN, "--provider", f"{BAD}:NotSetUp", "-q")
    assert code == 4
    assert shown.count("GOOD_TOKEN is not set") == 1
    assert "--provider-env" in shown
    assert "--provider-file" in shown


@pytest.mark.requirement("conformance-up-front")
def test_provider_gets_the_variables_and_files_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text("{}")
    given = ("--provider-env", "GOOD_TOKEN=x", "--provider-file", "good.json:settings/good.json")
    code, shown = ran(tmp_path, "-p", PLUGIN, "--provider", f"{BAD}:NotSetUp", *given, "-k", "order", "-q")
    assert (code, "1 passed" in shown) == (0, True), shown


@pytest.mark.long
@pytest.mark.requirement("conformance-says-what-was-not-tested")
def test_untested_parts_are_said_before_the_checks(tmp_path: Path) -> None:
    shown = ran(tmp_path, "-p", PLUGIN, "--provider", f"{BAD}:KeepsNothing", "-k", "order", "-v")[1]
    assert 0 < shown.index("note: nothing that it was told came back") < shown.index("PASSED")


def test_provider_that_is_not_there_is_an_error_of_usage(tmp_path: Path) -> None:
    code, shown = ran(tmp_path, "-p", PLUGIN, "--provider", "./nowhere")
    assert (code, "there is no provider at" in shown) == (4, True)


@pytest.mark.long
def test_plugin_of_a_home_is_found_by_its_name(tmp_path: Path) -> None:
    home = tmp_path / "home" / "plugins" / "mine"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(
        f"# MemoryProvider\nfrom {BAD} import KeepsNothing\n\n"
        "def register(ctx):\n    ctx.register_memory_provider(KeepsNothing())\n"
    )
    options = ("-p", PLUGIN, "--provider", "mine", "--provider-home", str(tmp_path / "home"), "-k", "order", "-q")
    assert "1 passed" in ran(tmp_path, *options)[1]
