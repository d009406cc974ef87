"""Checks programs that need functions of their own: they change the shell, run their arguments, or search for files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from strongroom.hermes.hooks import command_check, owner_commands, pipeline_output, program_tables
from strongroom.hermes.hooks.guarded_paths import SETTINGS, Reaches, Relation
from strongroom.hermes.hooks.owner_commands import program_of
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN, replace

if TYPE_CHECKING:
    from strongroom.hermes.hooks.script_check import Follower

NAMES_LIMIT = 64
_MODULE = re.compile(r"-[bBdEhiIOPqRsSuvV]*+m(.*)", re.DOTALL)


def _echo(follower: Follower, argv: list[str], _stdin: str | None) -> str | None:
    if program_of(argv[0]) == "echo":
        return pipeline_output.echo(argv[1:])
    if argv[1:2] == ["-v"]:
        follower.assign(argv[2] if len(argv) > 2 else "_", [pipeline_output.printf(argv[3:])], is_array=False)
        return None
    return pipeline_output.printf(argv[1:])


def _cd(follower: Follower, argv: list[str], _stdin: str | None) -> None:
    places = [word for word in argv[1:] if not re.fullmatch(r"-[LPe@n]|--|[+-]\d+", word)]
    if program_of(argv[0]) == "popd":
        follower.scene.cwd = follower.pushed.pop() if follower.pushed else follower.scene.cwd
        return
    if program_of(argv[0]) == "pushd":
        follower.pushed.append(follower.scene.cwd)
    follower.go(*(UNKNOWN if place == "-" else place for place in places or follower.scene.homes))


def _eval(follower: Follower, argv: list[str], _stdin: str | None) -> str | None:
    return follower.text(" ".join(argv[1:]))


def _source(follower: Follower, argv: list[str], stdin: str | None) -> str | None:
    kept = follower.files.get(follower.place_of(argv[1])) if len(argv) > 1 else None
    if len(argv) > 1 and argv[1] in ("/dev/stdin", "-"):
        kept = stdin
    return None if kept is None else follower.text(kept)


def shell(follower: Follower, argv: list[str], stdin: str | None) -> str | None:
    """Check a shell such as `sh`: with `-c`, with a script that this tool call wrote, or with a script on stdin."""
    rest = argv[1:]
    while rest and rest[0].startswith(("-", "+")) and rest[0] != "-":
        option, rest = rest[0], rest[1:]
        if not option.startswith("--") and "c" in option and rest:
            while rest[:1] and rest[0].startswith("-"):
                rest = rest[1:]
            return run_script(follower, rest[0], rest[1:]) if rest else None
        if option in ("-s", "-"):
            return None if stdin is None else run_script(follower, stdin, ["sh", *rest])
        rest = rest[1:] if option in ("-o", "+o", "-O", "--rcfile", "--init-file") else rest
    if rest and rest[0] not in ("-", "/dev/stdin"):
        _check_own_script(rest)
        kept = follower.files.get(follower.place_of(rest[0]))
        if kept is not None:
            return run_script(follower, kept, rest)
        _operand_trees(follower, rest[1:])
        return None
    return None if stdin is None else run_script(follower, stdin, ["sh", *rest[1:]])


def _check_own_script(words: Sequence[str]) -> None:
    """Raise if an interpreter is given Strongroom's own script, as in `python $(which strongroom) list`."""
    if what := owner_commands.by_guess(words):
        raise Reaches(what)


def run_script(follower: Follower, text: str, arguments: Sequence[str]) -> str | None:
    """Check a script. The first of the arguments is the script's name, `$0`."""
    if text.startswith("#!") and "python" in text.partition("\n")[0]:
        follower.python(text)
        return None
    before = follower.scene.arrays.get("@", []), follower.scene.variables.get("0", [UNKNOWN])
    follower.scene.arrays["@"], follower.scene.variables["0"] = list(arguments[1:]), list(arguments[:1]) or [UNKNOWN]
    found = follower.text(text)
    follower.scene.arrays["@"], follower.scene.variables["0"] = before
    return found


def python_program(follower: Follower, argv: list[str], stdin: str | None) -> None:
    """Check a call of `python`: with code, a module, a script that this tool call wrote, or a script on stdin."""
    for place, word in enumerate(argv[1:], 1):
        if program_tables.WITH_PYTHON_VALUE.fullmatch(argv[place - 1]):
            continue
        if re.fullmatch(r"-[A-Za-z]*c", word):
            follower.python("\n".join(argv[place + 1 : place + 2]))
            return
        if word.startswith("-c"):
            follower.python(word[2:])
            return
        if found := _MODULE.fullmatch(word):
            _module(follower, [*filter(None, found.groups()), *argv[place + 1 :]])
            return
        if not word.startswith("-"):
            _check_own_script(argv[place:])
            kept = follower.files.get(follower.place_of(word))
            if kept is not None:
                follower.python(kept)
            _operand_trees(follower, argv[place + 1 :])
            return
    if stdin is not None:
        follower.python(stdin)


def _module(follower: Follower, words: Sequence[str]) -> None:
    """Check `python -m` as an ordinary program. The module `http.server` also reads its working directory."""
    if words and words[0] == "http.server" and not any(word.startswith(("-d", "--directory")) for word in words):
        words = [*words, "."]
    _operand_trees(follower, words[1:])
    command_check.run_inner(follower, words, None)


def _operand_trees(follower: Follower, words: Sequence[str]) -> None:
    for word in command_check.operands(follower, "", ["", *words]):
        follower.look_at(word, Relation.ABOVE)


def _read(follower: Follower, argv: list[str], stdin: str | None) -> None:
    names = [word for word in argv[1:] if not word.startswith("-")]
    stdin = follower.feed if stdin is None else stdin
    values = [UNKNOWN] if stdin is None else stdin.split("\n")[:NAMES_LIMIT]
    for name in names or ["REPLY"]:
        follower.scene.variables[name] = [one for one in values if one] or [UNKNOWN]
        if program_of(argv[0]) != "read":
            follower.scene.arrays[name] = list(follower.scene.variables[name])


def _set(follower: Follower, argv: list[str], _stdin: str | None) -> None:
    if "--" in argv:
        follower.scene.arrays["@"] = argv[argv.index("--") + 1 :]
    elif argv[1:] and not argv[1].startswith(("-", "+")):
        follower.scene.arrays["@"] = argv[1:]


def _declare(follower: Follower, argv: list[str], _stdin: str | None) -> None:
    for word in argv[1:]:
        name, is_set, value = word.partition("=")
        if is_set:
            follower.assign(name, [value], is_array=False)


def _alias(follower: Follower, argv: list[str], _stdin: str | None) -> None:
    for word in argv[1:]:
        name, is_set, value = word.partition("=")
        if is_set and len(follower.aliases) < NAMES_LIMIT:
            follower.aliases[name] = value
            follower.text(value)


def _xargs(follower: Follower, argv: list[str], stdin: str | None) -> None:
    place = 1
    while place < len(argv) and argv[place].startswith("-"):
        place += 2 if re.fullmatch(r"-[IinPLsdEa]|--(?:replace|max-\w+|delimiter|arg-file)", argv[place]) else 1
    given = [UNKNOWN] if stdin is None else stdin.replace("\0", " ").split()[:512] or [""]
    command = argv[place:] or ["echo"]
    token = next((after for word, after in pairwise(argv[1:place]) if word in ("-I", "-i", "--replace")), "{}")
    if any(token in word for word in command):
        for one in given[:64]:
            follower.words([replace(word, token, one) for word in command])
    else:
        follower.words([*command, *given])


def _find(follower: Follower, argv: list[str], _stdin: str | None) -> str:
    at = next((place for place, word in enumerate(argv) if place and word.startswith(("-", "(", "!"))), len(argv))
    roots, rest = argv[1:at] or ["."], argv[at:]
    name = next((rest[p + 1] for p in range(len(rest) - 1) if rest[p] in ("-name", "-iname")), UNKNOWN)
    name = UNKNOWN if {"-o", "-or", "!", "-not"} & set(rest) and "-path" not in rest else name
    found = [f"{root.rstrip('/')}/{UNKNOWN}/{name.replace('*', ANY)}" for root in roots]
    if {"-delete", "-fprint", "-fls", "-fprintf", "-fprint0"} & set(rest):
        for one in found:
            follower.look_at(one, Relation.DEEP)
    for place, word in enumerate(rest):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((p for p in range(place, len(rest)) if rest[p] in (";", "+")), len(rest))
            for one in found:
                follower.words([replace(part, "{}", one) for part in rest[place + 1 : end]])
    return "\n".join(found)


def _fd(follower: Follower, argv: list[str], stdin: str | None) -> str:
    place = next((p for p, word in enumerate(argv) if re.fullmatch(r"-[xX]|--exec(?:-batch)?", word)), len(argv))
    roots = [word for word in argv[1:place] if not word.startswith("-")][1:] or ["."]
    found = [f"{root.rstrip('/')}/{UNKNOWN}" for root in roots]
    command = argv[place + 1 :]
    if command:
        filled = [replace(part, "{}", one) for one in found for part in command]
        follower.words(filled if any("{}" in part for part in command) else [*command, *found], stdin)
    return "\n".join(found)


def _ssh(follower: Follower, argv: list[str], stdin: str | None) -> None:
    words = argv[1:]
    while words and words[0].startswith("-"):
        words = words[2 if re.fullmatch(r"-[oilpFJLRDWbceEmSw]", words[0]) else 1 :]
    if words and program_tables.LOCAL_HOSTS.fullmatch(words[0]):
        before = follower.scene.cwd
        follower.go(*follower.scene.homes[:1])
        follower.text(" ".join(words[1:]) or stdin or "")
        follower.scene.cwd = before


def _git(follower: Follower, argv: list[str], _stdin: str | None) -> str | None:
    before = follower.scene.cwd
    operands = list(command_check.operands(follower, "git", argv))
    verb = next((word for word in argv[1:] if word in program_tables.GIT_TREES), None)
    if verb is not None:
        is_whole = verb in ("add", "clean", "stash", "apply", "am") or (verb == "grep" and "--no-index" in argv)
        files = operands[operands.index(verb) + 1 :] if verb in operands else operands
        trees = [*follower.scene.variables.get("GIT_WORK_TREE", ()), *_environment(follower, "GIT_WORK_TREE")]
        trees += [
            word.partition("=")[2] or after
            for word, after in zip(argv, [*argv[1:], ""], strict=True)
            if word.startswith("--work-tree")
        ]
        for word in [*files, *trees, *(["."] if is_whole else [])]:
            follower.look(word)
            follower.look_at(word, Relation.ABOVE)
    for word in operands:
        follower.look(word)
        if verb in ("checkout", "restore", "reset", "rm", "mv"):
            follower.change(word, is_whole=True)
    command_check.run_inner(follower, argv[1:], None)
    if "foreach" in argv:
        follower.text(" ".join(argv[argv.index("foreach") + 1 :]))
    follower.scene.cwd = before
    return "\n".join(f"{word}/{UNKNOWN}" for word in operands if word != "ls-files") if "ls-files" in argv else None


def _environment(follower: Follower, name: str) -> list[str]:
    return [follower.scene.environment[name]] if name in follower.scene.environment else []


def _docker(follower: Follower, argv: list[str], stdin: str | None) -> None:
    verbs = [word for word in argv[1:] if not word.startswith("-")][:2]
    least = Relation.WITHIN if set(verbs) & program_tables.INNER_DOCKER else Relation.ABOVE
    for word in command_check.operands(follower, "docker", argv):
        follower.look_at(word, least)
    for word in (stdin or "").split()[:512]:
        follower.look_at(word.strip("'\"[]{},"), least)
    command_check.run_inner(follower, argv[1:], stdin)


def _hermes(follower: Follower, argv: list[str], _stdin: str | None) -> None:
    if "hooks" in argv and any(word in argv for word in ("revoke", "remove", "rm")):
        raise Reaches(SETTINGS)
    if "config" in argv and any(word in argv for word in ("set", "unset", "delete")) and follower.says_hook:
        raise Reaches(SETTINGS)


def _make(follower: Follower, argv: list[str], stdin: str | None) -> None:
    before = follower.scene.cwd
    for word in command_check.operands(follower, "make", argv):
        follower.look(word)
        follower.look_at(word, Relation.ABOVE)
    if stdin is not None:
        follower.look(stdin.replace("$(HOME)", follower.scene.homes[0] if follower.scene.homes else UNKNOWN))
    follower.scene.cwd = before


Special = Callable[["Follower", list[str], str | None], str | None]
WAYS: dict[str, Special] = {
    **dict.fromkeys(("echo", "printf"), _echo),
    **dict.fromkeys(("cd", "pushd", "popd"), _cd),
    **dict.fromkeys(("source", "."), _source),
    **dict.fromkeys(("export", "local", "declare", "typeset", "readonly"), _declare),
    **dict.fromkeys(("read", "mapfile", "readarray"), _read),
    **dict.fromkeys(("fd", "fdfind"), _fd),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _docker),
    **dict.fromkeys(("make", "gmake"), _make),
    "eval": _eval,
    "alias": _alias,
    "set": _set,
    "xargs": _xargs,
    "find": _find,
    "ssh": _ssh,
    "git": _git,
    "hermes": _hermes,
}
