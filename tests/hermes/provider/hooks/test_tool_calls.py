"""The guard against tables of tool calls that were labelled by hand, and against inputs made to stall it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strongroom.hermes import policy as policies
from strongroom.hermes.hooks import argument_check, guarded_home
from strongroom.hermes.hooks.argument_check import Surroundings
from strongroom.hermes.hooks.guarded_paths import GuardedPath
from tests import growth

HOME = "/home/ada"
HERMES = f"{HOME}/.hermes"
AROUND = Surroundings(
    f"{HOME}/src/shop", (HOME,), {"HOME": HOME, "HERMES_HOME": HERMES}, settings=f"{HERMES}/config.yaml"
)


LATER = ("variations", "spellings", "probes", "attempts")
"""Tables that were written after the code, to break it."""


def rows(name: str, verdict: str) -> list[Any]:
    lines = (Path(__file__).parent / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [row for row in map(json.loads, lines) if row["verdict"] == verdict and not row.get("doubtful")]
    assert found
    return [pytest.param(row["tool"], row["args"], id=row["id"]) for row in found]


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> list[GuardedPath]:
    """What is guarded in the home of the tables: as a hook finds it, from a policy."""
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "STRONGROOM_KEYS", "STRONGROOM_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", HOME)
    state = Path(f"{HERMES}/strongroom")
    vault = f"{HOME}/.local/share/strongroom/vault"
    policy = replace(policies.read(""), vault=vault, cap=state / "runtime.cap", state=state)
    return guarded_home.guarded_of(policy, Path(HERMES))


def look(tool: str, arguments: dict[str, Any], guarded: list[GuardedPath]) -> str | None:
    return argument_check.find_reach(
        arguments, guarded, AROUND, names=lambda _: frozenset(), real=lambda path: path, tool=tool
    )


@pytest.mark.requirement("hermes-hook-check-arguments")
@pytest.mark.parametrize(("tool", "arguments"), rows("tool_calls", "block"))
def test_labelled_call_is_blocked(tool: str, arguments: dict[str, Any], guarded: list[GuardedPath]) -> None:
    assert look(tool, arguments, guarded) is not None


@pytest.mark.requirement("hermes-hook-check-arguments")
@pytest.mark.parametrize(("tool", "arguments"), [row for name in LATER for row in rows(name, "block")])
def test_variation_is_blocked(tool: str, arguments: dict[str, Any], guarded: list[GuardedPath]) -> None:
    assert look(tool, arguments, guarded) is not None


@pytest.mark.requirement("hermes-hook-check-ordinary")
@pytest.mark.parametrize(("tool", "arguments"), rows("tool_calls", "allow"))
def test_labelled_ordinary_call_passes(tool: str, arguments: dict[str, Any], guarded: list[GuardedPath]) -> None:
    assert look(tool, arguments, guarded) is None


@pytest.mark.requirement("hermes-hook-check-ordinary")
@pytest.mark.parametrize(("tool", "arguments"), [row for name in LATER for row in rows(name, "allow")])
def test_ordinary_variation_passes(tool: str, arguments: dict[str, Any], guarded: list[GuardedPath]) -> None:
    assert look(tool, arguments, guarded) is None


@pytest.mark.parametrize(
    "command",
    [
        "xargs -I",
        "xargs -0 -I {}",
        "env -C",
        "env -S",
        "sh -c",
        "python -m",
        "find . -exec",
        "git -C",
        "ssh",
        "set --",
        "for",
        "read",
        "printf -v",
        "cat <<",
        "${",
        "$(",
        "a=(",
        "cat <(",
        "$'",
        "fd -x",
        "alias",
        "eval",
        ". ",
        "cd -",
        "\0",
        "\ud800/x",
    ],
)
def test_unfinished_command_breaks_nothing(command: str, guarded: list[GuardedPath]) -> None:
    assert look("terminal", {"command": command}, guarded) is None


# Sizes


@pytest.mark.requirement("hermes-hook-check-linear")
@pytest.mark.parametrize("key", ["command", "code", "content", "anything"])
def test_more_than_can_be_looked_at_is_blocked(key: str, guarded: list[GuardedPath]) -> None:
    assert look("terminal", {key: "ls a; " * 200_000}, guarded) == argument_check.TOO_MUCH


@pytest.mark.requirement("hermes-hook-check-linear")
@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "echo $(" * 500},
        {"command": f"a={'x' * 60_000}; echo ${{a//x/$a}}"},
        {"command": f"echo {'x' * 60_000} | xargs -I{{}} echo '{'{}' * 20_000}'"},
        {"command": "a=xx;" + "a=$a$a;" * 60 + "cat $a"},
        {"command": "sudo " * 500 + "ls"},
        {"command": "ls a;" * 10_000},
        {"code": f"a = '{'x' * 60_000}'\nb = a.replace('x', a)"},
        {"code": "x = " + "-" * 30_000 + "1"},
        {"command": [["cat"] * 20_000]},
    ],
    ids=[
        "nested",
        "replacing",
        "filling",
        "doubling",
        "wrappers",
        "commands",
        "replacing in code",
        "deep code",
        "texts",
    ],
)
def test_multiplying_expansion_is_blocked_and_not_worked_out(
    arguments: dict[str, Any], guarded: list[GuardedPath]
) -> None:
    assert look("terminal", arguments, guarded) == argument_check.TOO_MUCH


SHELL: dict[str, Callable[[int], str]] = {
    "words": lambda n: "cat " + "f/x " * n,
    "different words": lambda n: "cat " + " ".join(f"f{i}/x" for i in range(n)),
    "commands": lambda n: "ls a;" * min(n, 3900),
    "pipes": lambda n: "cat a|" * min(n, 3900),
    "braces": lambda n: "echo " + "{a,b}" * n,
    "open braces": lambda n: "echo " + "{a," * n,
    "brackets": lambda n: "echo " + "[" * n,
    "defaults": lambda n: "echo " + "${a:-x}" * n,
    "dollars": lambda n: "echo " + "$a" * n,
    "here-documents": lambda n: "cat <<E\n" + "x y\n" * n + "E\n",
    "open here-documents": lambda n: "cat <<A\n" * n,
    "arithmetic": lambda n: "echo $((" + "(1+" * n,
    "parentheses": lambda n: "(" * n + ")" * n,
    "a runner": lambda n: "foo " + "sh -c " * n,
    "slashes": lambda n: "cat " + "/" * n,
    "upwards": lambda n: "cat " + "../" * n,
    "stars": lambda n: "cat ~/" + "*a" * n,
    "colons": lambda n: "cat " + "~:" * n,
    "quoted": lambda n: 'echo "' + "a,b:c=" * n + '"',
    "open quotes": lambda n: "\"'" * n,
    "backslashes": lambda n: "\\" * n,
    "coded": lambda n: "$'\\x41'" * n,
    "printf": lambda n: "printf '%s' " + "a " * n,
    "near paths": lambda n: "echo " + "x.hermes/strongroomx " * n,
    "find": lambda n: "find . " + "-exec cat {} + " * min(n, 3900),
    "imports": lambda n: "import " * n,
    "processes": lambda n: "/proc/" * n,
    "file URLs": lambda n: "file:" * n,
    "aliases": lambda n: "alias a=b;" * min(n, 1900) + "a " * n,
    "one alias": lambda n: "alias a='a b'; " + "a;" * min(n, 1900),
    "words of perl": lambda n: "perl -e '" + "qw(a " * n + "'",
    "commands of ruby": lambda n: "ruby -e '" + "%x(a " * n + "'",
    "backticks of php": lambda n: "php -r '" + "`a`;" * min(n, 3000) + "'",
    "joined texts of node": lambda n: "node -e '" + 'f(x.join("a", "b"+"c"));' * min(n, 3000) + "'",
    "commands of clients": lambda n: "psql x '" + "\n!" * n + "'",
    "options that run": lambda n: "foo " + "-c 'a b' " * min(n, 1900),
    "installed to": lambda n: "make " + "PREFIX=/usr " * n,
    "lines of an output": lambda n: 'echo "$(ls ' + "a " * n + ')"',
    "patterns for the settings": lambda n: "rm " + "~/.hermes/*onf*.yaml " * n,
    "stars for the settings": lambda n: "rm ~/.hermes/" + "*a" * n,
    "settings of programs": lambda n: "foo " + "core.pager 'a b' -oProxyCommand=a " * min(n, 900),
    "names of settings": lambda n: "foo " + "a." * n + "pager",
    "fed arguments": lambda n: "echo " + "a " * n + "| parallel echo",
    "own scripts": lambda n: "python strongroom " * min(n, 1900),
    "long value": lambda n: f"a={'x' * n}; cat ${{a/x/y}} ${{a#x}} $a",
}
PYTHON: dict[str, Callable[[int], str]] = {
    "calls": lambda n: 'open("a")\n' * n,
    "a list": lambda n: "open([" + '"a",' * n + "])",
    "joined characters": lambda n: '"".join([chr(c) for c in [' + "65," * n + "]])",
    "functions": lambda n: 'def f(a="x"):\n    return a\nf("y")\n' * n,
    "a function that calls itself": lambda n: "def f(a):\n    return f(a)\n" + "f('x')\n" * n,
    "appended": lambda n: "a = []\n" + 'a.append("x")\n' * n,
    "runners handed on": lambda n: "import os\n" + 'f(os.system, "strongroom")\n' * n,
    "dictionaries": lambda n: 'd = {"a": "b"}\nd["a"]\n' * n,
    "growing text": lambda n: 'a = "x"\n' + 'a = a + "y"\n' * n,
    "texts of no syntax": lambda n: '"a/b" ' * n + ")",
    "open quotes": lambda n: '"' * n + "'",
    "templates": lambda n: "`${" * n,
}
CASES = [
    *(("command", name, one) for name, one in SHELL.items()),
    *(("code", name, one) for name, one in PYTHON.items()),
]


@pytest.mark.requirement("hermes-hook-check-linear")
@pytest.mark.parametrize(("key", "make"), [pytest.param(key, one, id=f"{key}: {name}") for key, name, one in CASES])
def test_four_times_the_text_takes_no_more_than_eight_times_the_work(
    key: str, make: Callable[[int], str], guarded: list[GuardedPath]
) -> None:
    def cost(size: int) -> float:
        return min(_cpu(lambda: look("terminal", {key: make(size)}, guarded)) for _ in range(3))

    # Below 0.02 s of CPU the clock is what is measured. A busy machine is no quadratic rule: it fails each time or not.
    assert any(cost(2400) <= 8 * cost(600) + 0.02 for _ in range(growth.TRIES))


def _cpu(work: Callable[[], object]) -> float:
    before = time.thread_time()
    work()
    return time.thread_time() - before
