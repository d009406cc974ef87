"""Draws docstrings, messages and paragraphs of the docs at random, for somebody to read cold.

    python scripts/draw_prose.py --seed 7

The seed is printed with the sample, so that the same one can be drawn again. A reader marks each piece: one reading, or
two.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "strongroom"
COUNTS: Mapping[str, int] = {"docstrings": 60, "messages": 60, "paragraphs": 20}
SAID_BY = {"hint", "help", "short_help", "epilog"}
"""Keyword arguments whose text people read."""
GENERATED = {"cli.md", "http.md", "errors.md", "conformance-holographic.md", "conformance-strongroom.md"}


class Piece(NamedTuple):
    """A text and where it stands."""

    place: str
    text: str


def docstrings(source: Path = SOURCE) -> Iterator[Piece]:
    """Every docstring of modules, classes and functions, and every string that stands behind a value."""
    for path, tree in _parsed(source):
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            for statement in body if isinstance(body, list) else ():
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    text = statement.value.value
                    if isinstance(text, str):
                        yield Piece(f"{path}:{statement.lineno}", text.strip())


def messages(source: Path = SOURCE) -> Iterator[Piece]:
    """What errors, hints, help and the command line say, with a name in braces for each value."""
    for path, tree in _parsed(source):
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            said = [one.value for one in node.keywords if one.arg in SAID_BY]
            if _is_error(node.func) or _name(node.func) in {"echo", "say", "warn", "warning"}:
                said += node.args[:1]
            for value in said:
                text = _text(value)
                if len(text.split()) > 2:
                    yield Piece(f"{path}:{node.lineno}", text)


def paragraphs(root: Path = ROOT) -> Iterator[Piece]:
    """Paragraphs of prose in the README and the pages that are written by hand."""
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        if page.name in GENERATED:
            continue
        text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", text):
            if block and block[0].isalpha() and len(block.split()) > 12:
                yield Piece(str(page.relative_to(root)), block.strip())


def _parsed(source: Path) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(source.rglob("*.py")):
        yield str(path.relative_to(source)), ast.parse(path.read_text())


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _is_error(func: ast.expr) -> bool:
    name = _name(func)
    return name[:1].isupper() and bool(re.search(r"Error|Invalid|Unavailable|Tampered|Denied|Missing|Exists", name))


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value
    if isinstance(value, ast.JoinedStr):
        return "".join(
            one.value if isinstance(one, ast.Constant) else "{" + ast.unparse(one.value) + "}"  # type: ignore[misc,attr-defined]
            for one in value.values
        )
    return ""


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="what decides which pieces are drawn")
    seed = parser.parse_args(args).seed
    chance = random.Random(seed)
    print(f"seed {seed}")
    for kind, pieces in (("docstrings", docstrings), ("messages", messages), ("paragraphs", paragraphs)):
        every = sorted(set(pieces()))
        print(f"\n# {COUNTS[kind]} of {len(every):,} {kind}\n")
        for number, piece in enumerate(chance.sample(every, COUNTS[kind]), 1):
            print(f"{number}. [{piece.place}]\n{piece.text}\n")


if __name__ == "__main__":
    main()
