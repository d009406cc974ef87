"""The checks of names and commit messages find what they are for (scripts/check_names.py, scripts/check_commits.py)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from scripts import check_commits, check_names

ROOT = Path(__file__).parent.parent
GOOD = "gate: refuse caps without a namespace claim\n\nAn absent claim was read as an empty one."


def planted(source: Path, **modules: str) -> Path:
    """A package with these modules, `__` in a name standing for a directory."""
    for name, text in modules.items():
        path = source / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return source


def class_of(methods: int, name: str = "Vast") -> str:
    return f"class {name}:\n" + "".join(f"    def act_{number}(self): ...\n" for number in range(methods))


def test_no_name_of_the_package_is_a_fault() -> None:
    assert [
        *check_names.module_names(),
        *check_names.classes(),
        *check_names.sizes(),
        *check_names.names_of_tests(),
    ] == []


@pytest.mark.parametrize("name", ["reading", "host__turn_keeping"])
def test_module_named_by_a_gerund_is_a_fault(tmp_path: Path, name: str) -> None:
    (fault,) = check_names.module_names(planted(tmp_path, **{name: ""}))
    assert fault.startswith(f"{name.replace('__', '/')}.py: named by a gerund")


def test_noun_that_ends_like_a_gerund_is_none(tmp_path: Path) -> None:
    assert list(check_names.module_names(planted(tmp_path, routing="", ring_of="", string=""))) == []


def test_module_name_in_two_packages_is_a_fault(tmp_path: Path) -> None:
    (fault,) = check_names.module_names(planted(tmp_path, host__report="", audit__report=""))
    assert fault == "module name `report` is used 2 times: audit/report.py, host/report.py"


def test_public_class_name_in_two_modules_is_a_fault_and_a_private_one_is_none(tmp_path: Path) -> None:
    text = "class Outcome: ...\nclass _Row: ...\n"
    (fault,) = check_names.classes(planted(tmp_path, host__verdict=text, demo=text))
    assert fault == "class name `Outcome` is used 2 times: demo.py:1, host/verdict.py:1"


def test_class_of_too_many_methods_is_a_fault(tmp_path: Path) -> None:
    source = planted(tmp_path, just=class_of(check_names.METHODS, "Just"), vast=class_of(check_names.METHODS + 1))
    (fault,) = check_names.classes(source)
    assert fault == f"vast.py:1: class Vast has {check_names.METHODS + 1} methods; at most {check_names.METHODS}"


def test_class_that_was_large_before_may_not_grow(tmp_path: Path) -> None:
    name, most = next(iter(check_names.LARGE_CLASSES.items()))
    assert list(check_names.classes(planted(tmp_path, large=class_of(most, name)))) == []
    (fault,) = check_names.classes(planted(tmp_path, large=class_of(most + 1, name)))
    assert fault.endswith(f"has {most + 1} methods; at most {most}")


def test_long_module_is_a_fault_and_so_is_the_long_file_of_a_package(tmp_path: Path) -> None:
    long = "\n" * (check_names.LINES + 1)
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / "__init__.py").write_text(long)
    assert list(check_names.sizes(planted(tmp_path, book=long))) == [
        f"{name}: {check_names.LINES + 1} lines; at most {check_names.LINES}"
        for name in ("book.py", "shelf/__init__.py")
    ]


def test_too_many_short_modules_are_a_fault(tmp_path: Path) -> None:
    names = [f"leaf_{number}" for number in range(check_names.SHORT_MODULES)]
    assert list(check_names.sizes(planted(tmp_path, **dict.fromkeys(names, "")))) == []
    (fault,) = check_names.sizes(planted(tmp_path, one_more=""))
    assert fault.startswith(f"{check_names.SHORT_MODULES + 1} modules under {check_names.SHORT} lines")


def test_every_bound_is_above_the_rule_that_it_is_an_exception_from() -> None:
    assert all(most > check_names.METHODS for most in check_names.LARGE_CLASSES.values())


@pytest.mark.parametrize(
    ("module", "test", "fault"),
    [
        (
            "test_findings",
            "test_cap_is_refused",
            "named by when it was written; which part of the program does it test?",
        ),
        ("test_host_faults", "test_x", "named by when it was written; which part of the program does it test?"),
        ("test_gate", "test_a_cap_is_refused", "test_a_cap_is_refused begins with an article; begin with the subject"),
        ("test_gate", "test_the_cap_ends", "test_the_cap_ends begins with an article; begin with the subject"),
    ],
)
def test_names_of_tests_that_hide_their_subject_are_faults(tmp_path: Path, module: str, test: str, fault: str) -> None:
    (found,) = check_names.names_of_tests(planted(tmp_path, **{module: f"def {test}() -> None: ..."}))
    assert found == f"{module}.py: {fault}"


def test_name_that_begins_with_its_subject_is_no_fault(tmp_path: Path) -> None:
    text = "def test_cap_is_refused() -> None: ...\ndef test_anchor_holds() -> None: ...\n"
    assert (
        list(check_names.names_of_tests(planted(tmp_path, test_gate=text, conftest="def test_a_x() -> None: ...")))
        == []
    )


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("gate: refuse caps without a claim", "there is no body: why, and what was measured"),
        ("gate: refuse caps without a claim\n\n \n", "there is no body: why, and what was measured"),
        ("gate: refuse caps\nwithout a claim", "there is no body: why, and what was measured"),
        ("Refuse caps without a claim\n\nWhy.", "the subject is not `area: what changed`"),
        ("Gate: refuse caps\n\nWhy.", "the subject is not `area: what changed`"),
        (f"gate: {'x' * 67}\n\nWhy.", "the subject has 73 characters, at most 72"),
    ],
)
def test_message_that_breaks_the_rule_is_a_fault(message: str, fault: str) -> None:
    assert list(check_commits.faults(message)) == [fault]


@pytest.mark.parametrize("message", [GOOD, "docs, cli: name the keys\n\nWhy.", f"gate: {'x' * 66}\n\nWhy."])
def test_message_with_an_area_and_a_body_is_none(message: str) -> None:
    assert list(check_commits.faults(message)) == []


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Three commits, of which the first and the last have no body, and a merge of the last."""
    root = tmp_path / "history"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for message in ("old: before the rule", GOOD, "new: without a body"):
        git(root, "commit", "-q", "--allow-empty", "-m", message)
    git(root, "branch", "side")
    git(root, "reset", "-q", "--hard", "HEAD~1")
    git(root, "merge", "-q", "--no-ff", "side", "-m", "Merge branch 'side'")
    return root


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *who, *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def test_commits_since_the_base_are_checked_and_merges_are_not(history: Path) -> None:
    base = git(history, "rev-list", "--max-parents=0", "HEAD").strip()
    found = [one.message.splitlines()[0] for one in check_commits.commits(history, base)]
    assert found == ["new: without a body", GOOD.splitlines()[0]]


def test_newest_commit_of_a_history_without_the_base_is_checked(history: Path) -> None:
    assert [one.message.strip() for one in check_commits.commits(history)] == ["new: without a body"]


def test_nothing_of_a_shallow_clone_is_checked(history: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{history}", "shallow")
    assert list(check_commits.commits(tmp_path / "shallow")) == []


def test_make_check_runs_both() -> None:
    check = (ROOT / "Makefile").read_text().split("\ncheck-code:")[1].split("\ncheck-pages:")[0]
    assert "scripts/check_names.py" in check
    assert "scripts/check_commits.py" in check
