"""Check that names can be guessed: one module name, one class name, one idea each, and tests named by their subject.

Fails on a module named by a gerund, on a module name that two packages use for different roles, on a public class name
that is used twice, on a class with too many methods, on a long module, and on too many modules of a few lines. Classes
and modules that were too large before this check have a bound each, which may only fall. In `tests` it fails on a
module named by the occasion on which it was written, and on a test name that begins with an article.

    python scripts/check_names.py            # prints what to change, exit code 1 if there is anything
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "strongroom", ROOT / "tests"

METHODS, LINES, SHORT, SHORT_MODULES = 20, 450, 40, 10
"""Methods of a class and lines of a file at most; modules under `SHORT` lines at most, packages' own files apart."""

LARGE_CLASSES: Mapping[str, int] = {
    "Audit": 24,
    "FakeStore": 21,
    "Follower": 26,
    "MemoryManager": 35,
    "MemoryProvider": 21,
    "Run": 25,
    "S3Store": 42,
    "StrongroomProvider": 25,
    "Vault": 34,
}
"""Methods of the classes that are larger. A figure may only fall, and a class of at most `METHODS` loses its row."""

NOUNS_IN_ING = frozenset({"setting", "string", "thing", "routing"})
"""Words that end like a gerund and are nouns of the product or of the language."""

SAME_ROLE: Mapping[str, str] = {
    "hermes_cli": "the file from which Hermes takes the provider's commands, in both packages that a home may name",
}
"""Module names that may occur more than once, each with the role that is the same everywhere."""

OCCASIONS = frozenset({"attack", "faults", "findings", "hardening", "issue", "regressions", "review"})
"""Words in a test module's name that say why it was written and not what it tests."""


def _modules(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*.py")) if path.name not in {"__init__.py", "__main__.py"})


def _is_gerund(name: str) -> bool:
    last = name.rpartition("_")[2]
    return bool(re.fullmatch(r"[a-z]+ing", last)) and last not in NOUNS_IN_ING


def module_names(source: Path = SOURCE) -> Iterator[str]:
    """Modules named by what somebody does instead of by what they are, and names that two modules share."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in _modules(source):
        places[path.stem].append(str(path.relative_to(source)))
        if _is_gerund(path.stem):
            yield f"{path.relative_to(source)}: named by a gerund; which noun would a stranger search for?"
    for name, paths in places.items():
        if len(paths) > 1 and name not in SAME_ROLE:
            yield f"module name `{name}` is used {len(paths)} times: {', '.join(paths)}"


def classes(source: Path = SOURCE) -> Iterator[str]:
    """Public class names that are used twice, and classes of more than one idea."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef):
                where = f"{path.relative_to(source)}:{node.lineno}"
                if not node.name.startswith("_"):
                    places[node.name].append(where)
                methods = sum(isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) for one in node.body)
                most = LARGE_CLASSES.get(node.name, METHODS)
                if methods > most:
                    yield f"{where}: class {node.name} has {methods} methods; at most {most}"
    for name, found in places.items():
        if len(found) > 1:
            yield f"class name `{name}` is used {len(found)} times: {', '.join(found)}"


def sizes(source: Path = SOURCE) -> Iterator[str]:
    """Modules that hold a second idea, and modules too small to be worth a file."""
    short, modules = list[str](), set(_modules(source))
    for path in sorted(source.rglob("*.py")):
        name, lines = path.relative_to(source).as_posix(), len(path.read_text(encoding="utf-8").splitlines())
        if lines > LINES:
            yield f"{name}: {lines} lines; at most {LINES}"
        if lines < SHORT and path in modules:
            short.append(f"{name} ({lines})")
    if len(short) > SHORT_MODULES:
        yield f"{len(short)} modules under {SHORT} lines; at most {SHORT_MODULES}: {', '.join(short)}"


def names_of_tests(tests: Path = TESTS) -> Iterator[str]:
    """Test modules named by history, and tests whose names do not begin with their subject."""
    for path in sorted(tests.rglob("test_*.py")):
        where = path.relative_to(tests).as_posix()
        if OCCASIONS & set(path.stem.split("_")):
            yield f"{where}: named by when it was written; which part of the program does it test?"
        for name in re.findall(r"^[ \t]*(?:async )?def (test_(?:an?|the)_\w+)", path.read_text("utf-8"), re.MULTILINE):
            yield f"{where}: {name} begins with an article; begin with the subject"


def main() -> None:
    found = [*module_names(), *classes(), *sizes(), *names_of_tests()]
    if found:
        print("\n".join(found))
        sys.exit(f"check_names: {len(found)} names or sizes to change")
    print("check_names: modules, classes and tests have names of their own, and none has grown beyond its bound")


if __name__ == "__main__":
    main()
