"""The shell sessions of the pages run as they stand, in order, and print what they show.

Each page gets a fresh home directory, in which its commands run in one shell. `...` in what a page shows stands for
anything: within a line for the rest of a word or a line, on a line of its own for any number of lines. A command that
shows nothing must print nothing, and one that fails must be followed by `$ echo $?`. A Python block to be saved as a
file is saved where the shell is then. A `sh` block is a list of commands to choose from, none of which may be run here.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, Block, Step, blocks, name, saved_as, steps
from tests.docs.test_threat_model import named_tests

_BLOCK = "of a block for another account, which tests/hermes/install/test_remedies.py runs"
NOT_RUN = {
    "strongroom cap mint --for hermes/default/telegram/": _BLOCK,
    "strongroom cap mint --for hermes/default/owner --ops put ": _BLOCK,
    "strongroom export earlier.age --cap-file": _BLOCK,
    "strongroom import earlier.age --cap-file": _BLOCK,
    "strongroom erase personal family": _BLOCK,
    "python3 -m venv ": "makes an environment; the tests run in one",
    ". .venv-user/bin/activate": "the environment of the tests comes first on the path",
    "python -m pip install ": "needs a package index",
    "make ": "makes an environment of its own; what the targets do has tests",
    "python -m bench": "measures for a minute or more",
    "pytest test_metered.py": "its file is the page's Python block, which test_examples.py runs",
    "curl -sS --cacert ca.pem https://memory.example.org": "needs that name and its certificate",
    "strongroom get --url https://memory.example.org": "needs that name and its certificate",
    "sudo ": "needs root, another user and systemd; test_service_page.py looks at what it can",
    "claude mcp add ": "another program's; test_mcp_page.py starts what it would start",
    "codex mcp add ": "another program's; test_mcp_page.py starts what it would start",
}
"""The commands that are shown and not run, by how they begin, and why."""

ELSEWHERE = {
    "docs/hermes.md": (
        "tests/docs/test_hermes_page.py::test_page_leads_from_nothing_to_the_first_recall_and_all_that_it_shows_happens"
    ),
    "docs/fleet.md": (
        "tests/docs/test_fleet_page.py::test_page_leads_from_nothing_to_two_workers_and_all_that_it_shows_happens"
    ),
    "docs/cli.md": "tests/cli/test_frame.py::test_every_example_of_the_help_runs_in_order",
}
"""Pages whose sessions another test runs."""

MARK = "\x1e"
LIMIT = 300


def sessions(page: Path) -> list[Step]:
    """Every command that a page shows, and every file it lets the reader save, in order."""
    found: list[Step] = []
    for block in blocks(page):
        if block.language == "console":
            found += steps(block)
        elif file := saved_as(block):
            found.append(Step(f"cat > {file} <<'END OF FILE'\n{block.text}END OF FILE", "", block.line))
    return found


def is_run(step: Step) -> bool:
    return not step.command.startswith(tuple(NOT_RUN))


PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
SHOWN = [page for page in PAGES if name(page) not in ELSEWHERE and sessions(page)]
RUN = [page for page in SHOWN if any(map(is_run, sessions(page)))]


def run_session(session: Sequence[Step], home: Path) -> list[tuple[str, int]]:
    """Run commands in one shell; for each what it printed, on stdout and stderr alike, and its exit code."""
    # The mark after each command leaves the exit code as it was, so that `echo $?` can show it.
    marked = [f"{step.command}\ncode=$?; printf '{MARK}%d\\n' $code; (exit $code)\n" for step in session]
    (home / ".session").write_text("".join(marked))
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        [shutil.which("sh") or "/bin/sh", ".session"],
        cwd=home,
        env={"HOME": str(home), "PATH": path, "TZ": "UTC", "LANG": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    said = re.findall(rf"(.*?){MARK}(\d+)\n", done.stdout, re.DOTALL)
    assert len(said) == len(session), f"the shell stopped early:\n{done.stdout}"
    return [(output, int(code)) for output, code in said]


def fits(shown: str, printed: str) -> bool:
    """Whether what was printed is what is shown."""
    parts = []
    for line in shown.splitlines():
        inline = "[^\n]*".join(re.escape(part) for part in line.rstrip().split("..."))
        parts.append("(?:[^\n]*\n)*" if line.strip() == "..." else f"{inline}\n")
    actual = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), actual) is not None


def drifts(session: Sequence[Step], outcomes: Sequence[tuple[str, int]]) -> list[str]:
    """What does not happen as it is shown."""
    found = []
    follows = [step.command for step in session[1:]] + [""]
    for step, following, (printed, code) in zip(session, follows, outcomes, strict=True):
        if not fits(step.shown, printed):
            found.append(f"line {step.line}: $ {step.command}\n--- shown\n{step.shown}\n--- printed\n{printed}")
        if code != 0 and following != "echo $?":
            found.append(f"line {step.line}: $ {step.command}\n--- exit code {code}, which is not shown\n{printed}")
    return found


@pytest.mark.requirement("project-docs", "docs-shell")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_shell_sessions_of_a_page_run_and_print_what_they_show(page: Path, tmp_path: Path) -> None:
    session = [step for step in sessions(page) if is_run(step)]
    assert not (found := drifts(session, run_session(session, tmp_path))), "\n".join(found)


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize("page", RUN, ids=name)
def test_file_that_a_page_lets_the_reader_save_is_run_by_its_session(page: Path) -> None:
    commands = [step.command for step in sessions(page)]
    saved = [file for block in blocks(page) if (file := saved_as(block))]
    assert not [file for file in saved if not any(command.startswith(f"python {file}") for command in commands)]


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_command_of_the_program_is_always_run_and_shows_more_than_dots(page: Path) -> None:
    assert not [step.command for step in sessions(page) if "strongroom " in step.command and not is_run(step)]
    assert not [step.command for step in sessions(page) if step.shown.strip() == "..."]


@pytest.mark.requirement("docs-shell")
def test_readme_and_tutorial_are_among_the_pages_that_run() -> None:
    assert {"README.md", "docs/tutorial.md"} <= {name(page) for page in RUN}


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_session_is_marked_as_console_so_that_it_runs(page: Path) -> None:
    others = [block for block in blocks(page) if block.language != "console"]
    assert not [block.line for block in others if re.search(r"^\$ ", block.text, re.MULTILINE)]
    assert not [block.line for block in others if block.language in {"bash", "shell", "zsh"}]


def choices(page: Path) -> list[str]:
    """The commands of a page's `sh` blocks, without what they set in front."""
    lines = [line for block in blocks(page, "sh") for line in block.text.splitlines()]
    return [re.sub(r"^(\w+=\S+ )*", "", line) for line in lines]


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize("page", [page for page in PAGES if choices(page)], ids=name)
def test_command_that_is_only_listed_has_a_reason_not_to_run(page: Path) -> None:
    assert not [line for line in choices(page) if not line.startswith(tuple(NOT_RUN))]


@pytest.mark.requirement("docs-shell")
def test_every_reason_not_to_run_is_still_needed() -> None:
    commands = [step.command for page in SHOWN for step in sessions(page)]
    commands += [line for page in PAGES for line in choices(page)]
    assert not [start for start in NOT_RUN if not any(command.startswith(start) for command in commands)]


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize(("page", "proof"), ELSEWHERE.items())
def test_page_that_another_test_runs_is_there_and_so_is_the_test(page: str, proof: str) -> None:
    file, _, test = proof.partition("::")
    assert blocks(ROOT / page, "console")
    assert test in named_tests(ROOT / file), f"there is no {proof}"


@pytest.mark.requirement("docs-shell")
def test_readme_session_shows_a_recall_a_denial_and_a_verified_log() -> None:
    session = [step for step in sessions(ROOT / "README.md") if is_run(step)]
    commands = [step.command for step in session]
    recall = next(at for at, step in enumerate(session) if "get" in step.command and "Chengdu" in step.shown)
    denial = next(at for at, step in enumerate(session) if "the cap does not cover this namespace" in step.shown)
    assert recall < denial
    assert (commands[denial + 1], session[denial + 1].shown) == ("echo $?", "3")
    assert session[commands.index("strongroom audit verify")].shown.startswith("ok: ")


# A session that is wrong is noticed.


def _drift(text: str, home: Path) -> list[str]:
    session = steps(Block("console", text, 1))
    return drifts(session, run_session(session, home))


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize(
    "text",
    [
        "$ echo one\ntwo\n",
        "$ echo one\n",
        "$ echo one\none\ntwo\n",
        "$ echo one\none...two\n",
        "$ true\nsomething\n",
        "$ echo a; echo b\na\n",
        "$ echo a; echo b\n...\na\n",
        "$ false\n",
        "$ (exit 3)\n$ echo $?\n0\n",
        "$ (exit 3)\n$ echo no; (exit 3)\nno\n$ echo $?\n3\n",
        "$ echo to stderr >&2\n",
        "$ no-such-command\n$ echo $?\n127\n",
    ],
)
def test_session_that_prints_something_else_is_noticed(text: str, tmp_path: Path) -> None:
    assert _drift(text, tmp_path)


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize("text", ["$ exit 0\n$ echo never\nnever\n", "$ echo 'open\n$ echo x\nx\n"])
def test_session_that_stops_the_shell_is_noticed(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        _drift(text, tmp_path)


@pytest.mark.requirement("docs-shell")
@pytest.mark.parametrize(
    "text",
    [
        "$ echo one two\none two\n",
        "$ echo one two; echo 3\no... two\n3\n",
        "$ printf 'a\\nb\\nc\\n'\na\n...\n",
        "$ printf 'a\\nb\\nc\\n'\n...\nc\n",
        "$ (exit 3)\n$ echo $?\n3\n",
        "$ export WORD=kept\n$ echo $WORD\nkept\n",
        "$ cat <<'END'\n> one\n> END\none\n",
    ],
)
def test_session_that_prints_what_it_shows_passes(text: str, tmp_path: Path) -> None:
    assert not _drift(text, tmp_path)
