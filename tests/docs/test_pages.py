"""Pages hold together: links lead somewhere, and no page knows the machine it was written on."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest

from strongroom import Memory
from strongroom.model import Kind
from tests.docs.pages import DOCS, PYTHON, ROOT, anchors, blocks, name, pages, prose, rows, section

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
BY_NAME = re.compile(r"""pip\s+install\s[^`\n]*?(?<![\w/.-])strongroom(?:\[[\w,]*\])?+(?![\w/.-])(?!\s*@)""")
MACHINE = re.compile(r"(?:^|[\s`'\"(=])(?:/(?:home|root|Users|work|tmp|var|mnt|srv)/|[A-Za-z]:\\|~/)", re.MULTILINE)


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("page", pages(), ids=name)
def test_relative_links_resolve(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{name(page)} links to {target}"
        assert found.is_relative_to(ROOT), f"{name(page)} links out of the project: {target}"
        assert not anchor or anchor in anchors(found), f"{name(page)} links to {target}, which has no such heading"


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("page", pages(), ids=name)
def test_no_page_mentions_a_path_of_a_machine(page: Path) -> None:
    assert not MACHINE.findall(page.read_text())


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_install_command_works_from_a_checkout(page: Path) -> None:
    """The name is on no index yet: a command with the name alone would find nothing, or somebody else's package."""
    assert not BY_NAME.findall(page.read_text())


@pytest.mark.requirement("project-docs", "cli-hints")
@pytest.mark.parametrize("place", ["src", "demo"])
def test_every_install_command_in_a_message_works_from_a_checkout(place: str) -> None:
    modules = list((ROOT / place).rglob("*.py"))
    assert len(modules) > 10
    assert [str(module) for module in modules if BY_NAME.search(module.read_text())] == []


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install strongroom", True),
        ('`pip\ninstall "strongroom[mcp]"`', True),
        ("pip install --upgrade 'strongroom[s3]>=0.1'", True),
        ('pip install ".[server]"', False),
        ('pip install "strongroom[hermes] @ file://$PWD"', False),
        ("pip install dist/strongroom-0.1.0-py3-none-any.whl", False),
    ],
)
def test_install_command_by_name_would_be_found(text: str, found: bool) -> None:
    assert bool(BY_NAME.search(text)) is found


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("text", ["see /home/me/x", "`/work/x`", "C:\\Users", "in ~/.config"])
def test_path_of_a_machine_would_be_found(text: str) -> None:
    assert MACHINE.search(text)


@pytest.mark.requirement("project-docs")
@pytest.mark.parametrize("page", pages(), ids=name)
def test_python_is_marked_as_python_so_that_it_runs(page: Path) -> None:
    others = [block for block in blocks(page) if block.language not in PYTHON]
    assert not [
        block.line for block in others if re.search(r"^(>>> |import |from \S+ import )", block.text, re.MULTILINE)
    ]


@pytest.mark.requirement("project-docs")
def test_index_names_every_page_and_decision() -> None:
    index = (DOCS / "README.md").read_text()
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(index)}
    shown = [*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("adr/*.md"), *DOCS.glob("spec/*.md")]
    assert not [name(page) for page in shown if page not in linked and page != DOCS / "README.md"]


@pytest.mark.requirement("project-docs")
def test_decisions_are_numbered_without_gaps_and_have_their_three_parts() -> None:
    found = sorted((DOCS / "adr").glob("*.md"))
    assert [page.name[:4] for page in found] == [f"{number:04d}" for number in range(1, len(found) + 1)]
    for page in found:
        headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], name(page)


@pytest.mark.requirement("project-docs")
def test_readme_is_short_and_names_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert "$ make demo" in text
    assert "$ make test" in text


@pytest.mark.requirement("project-docs")
def test_readme_gives_the_figures_of_the_recall_page() -> None:
    told = {cell for cells in rows(section(DOCS / "recall.md", "## How well it finds")) for cell in cells}
    shown = [
        figure
        for *_, ours, theirs in rows(section(ROOT / "README.md", "## How well it finds"))
        for figure in [*ours.split(" / "), *theirs.split(" / ")]
    ]
    assert len(shown) >= 10
    assert not [figure for figure in shown if figure not in told]


@pytest.mark.requirement("project-docs")
def test_guide_lists_calls_that_exist_with_arguments_that_they_have() -> None:
    listed = list(rows(section(DOCS / "guide.md", "## The calls")))
    assert len(listed) >= 14
    for call, arguments, _ in listed:
        taken = signature(getattr(Memory, call.strip("`"))).parameters
        named = {word for word in re.findall(r"`(\w+)`", arguments) if word != "NewLine"}
        assert named <= set(taken), f"{call} takes no {named - set(taken)}"


@pytest.mark.requirement("project-docs")
def test_guide_lists_every_kind_that_a_new_line_may_have() -> None:
    told = (DOCS / "guide.md").read_text().split("A line has a `kind`:")[1].split(".")[0]
    assert set(re.findall(r"`(\w+)`", told)) == {kind.value for kind in Kind if kind != Kind.DOCUMENT}
