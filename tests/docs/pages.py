"""The project's pages as data: their text, fenced blocks, shell sessions, tables and headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PYTHON = ("python", "py", "pycon")

_FILE = re.compile(r"# ([a-z_]+\.py)\n")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text and the line on which the text starts."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Step:
    """One command of a shell session, what the page shows of its output, and the line on which it stands."""

    command: str
    shown: str
    line: int


def pages() -> list[Path]:
    """Every page of the project, and none of what tools leave in hidden directories."""
    found = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
    assert len(found) > 10, "the pages were not found"
    return sorted(found)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page in these languages, or in any."""
    text = page.read_text()
    assert text.count("\n```") % 2 == 0, f"{name(page)} has a fence that is not closed"
    return [
        Block(found[1], found[2], text[: found.start(2)].count("\n") + 1)
        for found in _FENCE.finditer(text)
        if not languages or found[1] in languages
    ]


def steps(block: Block) -> list[Step]:
    """The commands of a console block: `$ ` starts one, `> ` right below goes on with it, the rest is its output."""
    found: list[tuple[list[str], list[str], int]] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            found.append(([line[2:]], [], number))
            continue
        assert found, f"line {number}: a session starts with a command"
        command, shown, _ = found[-1]
        if line.startswith("> ") and not shown:
            command.append(line[2:])
        else:
            shown.append(line)
    assert found, f"line {block.line}: a console block without a command"
    return [Step("\n".join(command), "\n".join(shown), number) for command, shown, number in found]


def saved_as(block: Block) -> str | None:
    """The name of the file that a Python block is to be saved as, if its first line says so: `# agent.py`."""
    found = _FILE.match(block.text)
    return found[1] if found and block.language in PYTHON else None


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text())


def section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next heading of the same or a higher level."""
    lines = page.read_text().splitlines()
    assert heading in lines, f"{name(page)} has no heading {heading!r}"
    start = lines.index(heading) + 1
    level = len(heading) - len(heading.lstrip("#"))
    fenced = False
    for end in range(start, len(lines)):
        fenced ^= lines[end].startswith("```")
        if not fenced and re.match(rf"#{{1,{level}}} ", lines[end]):
            return "\n".join(lines[start:end])
    return "\n".join(lines[start:])


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every table row in `text`, without the headings."""
    previous: list[str] = []
    body = False
    for line in text.splitlines():
        if not line.startswith("|"):
            previous, body = [], False
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if body:
            assert len(cells) == len(previous), f"a row has another number of cells: {line}"
            yield cells
        elif all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            body = True
        else:
            previous = cells


def code(cell: str) -> list[str]:
    """What a cell quotes in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def slug(heading: str) -> str:
    """A heading's anchor, as the usual renderers make it."""
    kept = re.sub(r"[^\w\- ]", "", re.sub(r"`", "", heading).strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(found) for found in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}
