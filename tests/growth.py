"""How the cost of regular expressions and rules over text grows: near-matches from a pattern's own parse tree, all the
patterns of the package, and the ratio of CPU time between a size and four times of it.

A quadratic rule costs 16 times as much for four times the text, a linear one 4 times. Ratios above `MOST` fail, and
only if they do so each of `TRIES` times: a machine that is busy for a moment is no quadratic pattern.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from re import _constants as codes  # what a pattern means, in no public module
from re import _parser as parser
from types import FunctionType, ModuleType
from typing import Any

import strongroom

MOST = 8
TRIES = 5
NOISE = 0.002
"""Seconds of CPU time within which two measurements say nothing."""
_SIZES = (512, 2048, 8192, 32768)
_METHODS = ("match", "fullmatch", "search", "findall", "finditer", "sub", "split")
FEW = (2048, 8192, 32768)
_TEXTS = 48
"""Near-matches of one pattern."""
_OTHERS = " a1-.:/=\"'\n[(,_é文"
"""Characters to try for a class that leaves the choice."""


def modules() -> list[ModuleType]:
    """Every module of the package."""
    found = pkgutil.walk_packages(strongroom.__path__, "strongroom.")
    names = [one.name for one in found if one.name != "strongroom.__main__"]
    return [importlib.import_module(name) for name in names]


@dataclass(frozen=True)
class Held:
    """A compiled pattern of the package, and how it is used on a text."""

    name: str
    pattern: re.Pattern[str]
    use: Callable[[str], object]


def patterns(*more: object) -> list[Held]:
    """Every compiled pattern that a module or one of `more` holds, however deep, and those in calls of `re`."""
    found: dict[tuple[str, int], Held] = {}
    seen: set[int] = set()
    for module in modules():
        calls = _calls(module)
        for name, value in vars(module).items():
            for pattern in _held(value, seen, 0):
                if isinstance(pattern.pattern, str):
                    use = _use(pattern, calls.get(name, set()))
                    key = pattern.pattern, pattern.flags
                    found.setdefault(key, Held(f"{module.__name__}.{name}", pattern, use))
        for method, source in _written(module):
            pattern = re.compile(source)
            found.setdefault((source, pattern.flags), Held(module.__name__, pattern, _use(pattern, {method})))
    for pattern in _held(more, seen, 0):
        found.setdefault((pattern.pattern, pattern.flags), Held("", pattern, _use(pattern, set())))
    return list(found.values())


def _use(pattern: re.Pattern[str], methods: set[str]) -> Callable[[str], object]:
    """What costs most of the ways in which a module uses it; where that is not known, what costs most of all."""
    if methods and methods <= {"fullmatch"}:
        return pattern.fullmatch
    if methods and methods <= {"fullmatch", "match"}:
        return pattern.match
    return lambda text: deque(pattern.finditer(text), maxlen=0)


def _calls(module: ModuleType) -> dict[str, set[str]]:
    """The methods that a module calls of each of its names; none for a name that it also uses otherwise."""
    calls: dict[str, set[str]] = {}
    uses: Counter[str] = Counter()
    for node in _nodes(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses[node.id] += 1
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            calls.setdefault(node.func.value.id, set()).add(node.func.attr)
            uses[node.func.value.id] -= 1
    return {name: methods for name, methods in calls.items() if not uses[name]}


def _nodes(module: ModuleType) -> Iterator[ast.AST]:
    path = Path(module.__file__ or "")
    return ast.walk(ast.parse(path.read_text("utf-8"))) if path.suffix == ".py" else iter(())


def _held(value: object, seen: set[int], depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
        return
    if depth > 12 or id(value) in seen or isinstance(value, str | bytes | int | float | ModuleType | None):
        return
    seen.add(id(value))
    for part in _parts(value):
        yield from _held(part, seen, depth + 1)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, tuple | list | set | frozenset):
        yield from value
    elif isinstance(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        yield from (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        yield from ([value.__wrapped__] if hasattr(value, "__wrapped__") else [])
    elif type(value).__module__.startswith("strongroom") or (
        isinstance(value, type) and value.__module__.startswith("strongroom")
    ):
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
        yield from (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
    elif hasattr(value, "__wrapped__"):
        yield value.__wrapped__


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _written(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Methods and patterns that are written in calls such as `re.match(r"...", text)`."""
    for node in _nodes(module):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.func.attr in _METHODS
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield node.func.attr, node.args[0].value


# Near-matches


def near_matches(pattern: re.Pattern[str]) -> list[str]:
    """Pieces that, repeated, make texts which a pattern nearly matches everywhere."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    pieces: dict[str, None] = {}
    for choice in range(6):
        steps = list(_steps(tree, choice))
        whole = "".join(steps)
        for text in (whole[:-1], whole, whole[:-2], whole + "\n", whole[:-1] + " "):
            pieces.setdefault(text)
        for end in range(1, len(steps)):
            pieces.setdefault("".join(steps[:end]))
        for one in steps:
            pieces.setdefault(one)
    found = [piece for piece in pieces if piece]
    return found if len(found) <= _TEXTS else found[:: len(found) // _TEXTS + 1]


def _steps(tree: Any, choice: int) -> Iterator[str]:
    """A sample of each part of a pattern; `choice` says which of several ways."""
    for code, value in tree:
        if code is codes.LITERAL:
            yield chr(value)
        elif code is codes.NOT_LITERAL:
            yield next(one for one in _OTHERS[choice:] + "xy" if ord(one) != value)
        elif code is codes.ANY:
            yield _OTHERS[choice]
        elif code is codes.IN:
            yield _member(value, choice)
        elif code is codes.BRANCH:
            yield from _steps(value[1][choice % len(value[1])], choice)
        elif code is codes.SUBPATTERN:
            yield from _steps(value[-1], choice)
        elif code is codes.ATOMIC_GROUP:
            yield from _steps(value, choice)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            least, _, body = value
            yield "".join(_steps(body, choice)) * min(max(least, choice % 3, 1), 64)


def _member(members: Any, choice: int) -> str:
    """A character of a class."""
    options: list[str] = []
    is_negated = members[0][0] is codes.NEGATE
    if is_negated:
        allowed = [one for one in _OTHERS + "xyzXYZ" if not any(_has(member, one) for member in members[1:])]
        return allowed[choice % len(allowed)] if allowed else "\u2603"
    for code, value in members:
        if code is codes.LITERAL:
            options.append(chr(value))
        elif code is codes.RANGE:
            options += [chr(value[0]), chr(value[1])]
        elif code is codes.CATEGORY:
            options += [one for one in _OTHERS if _has((code, value), one)]
    return options[choice % len(options)] if options else "x"


def _has(member: Any, one: str) -> bool:
    code, value = member
    if code is codes.LITERAL:
        return bool(ord(one) == value)
    if code is codes.RANGE:
        return bool(value[0] <= ord(one) <= value[1])
    found: bool = {
        codes.CATEGORY_DIGIT: one.isdigit(),
        codes.CATEGORY_NOT_DIGIT: not one.isdigit(),
        codes.CATEGORY_SPACE: one.isspace(),
        codes.CATEGORY_NOT_SPACE: not one.isspace(),
        codes.CATEGORY_WORD: one.isalnum() or one == "_",
        codes.CATEGORY_NOT_WORD: not (one.isalnum() or one == "_"),
    }.get(value, False)
    return found


# Cost


def grows_too_fast(work: Callable[[str], object], piece: str, sizes: tuple[int, ...] = _SIZES) -> bool:
    """Whether four times the text costs more than `MOST` times as much, again and again."""
    for small, large in pairwise(sizes):
        less, more = (_repeated(piece, size) for size in (small, large))
        if all(_cost(work, more) > MOST * _cost(work, less) + NOISE for _ in range(TRIES)):
            return True
    return False


def _repeated(piece: str, size: int) -> str:
    return (piece * (size // len(piece) + 1))[:size]


def _cost(work: Callable[[str], object], text: str) -> float:
    before = time.thread_time()
    work(text)
    return time.thread_time() - before
