"""Finds the guarded things that one simple command would access, by its program, its operands and its output."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from strongroom.hermes.hooks import code_texts, owner_commands, pipeline_output, program_tables, special_programs
from strongroom.hermes.hooks.guarded_paths import Reaches, Relation, without_star
from strongroom.hermes.hooks.owner_commands import program_of
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN

if TYPE_CHECKING:
    from strongroom.hermes.hooks.script_check import Follower

NAMES_LIMIT = 64
"""Maximum number of file names from stdin that are checked."""
_SPACE = re.compile(r"\s")
_CALL = re.compile(r"\s*+\(|[\w.]+\s?\(")
"""The beginning of a function call: the text is code, not a command."""
_SET = re.compile(r"([A-Za-z_]\w*)=")
_RUN_SETTING = re.compile(
    rf"(?:-o)?(?:[\w-]{{1,64}}[.]){{0,4}}{program_tables.RUN_VARIABLE.pattern}(?:=(.*))?", re.IGNORECASE | re.DOTALL
)
"""A setting that contains a command, such as `-o ProxyCommand=...`. The command may also be the next word, as in
`core.pager less`.
"""
_RUNNERS = frozenset(("xargs", "env", "eval", "find", "perl", "node", "ruby", "php"))


def run(follower: Follower, argv: list[str], stdin: str | None) -> str | None:
    if what := owner_commands.by_command(argv):
        raise Reaches(what)
    program = program_of(argv[0])
    if program in ("strongroom", ""):
        return None
    if (kept := follower.files.get(follower.place_of(argv[0]))) is not None and "/" in argv[0]:
        return special_programs.run_script(follower, kept, argv)
    _follow_options(follower, program, argv)
    special = special_programs.WAYS.get(program)
    if special is not None:
        return special(follower, argv, stdin)
    if program_tables.PYTHONS.fullmatch(program):
        special_programs.python_program(follower, argv, stdin)
        return None
    if program in program_tables.SHELLS:
        return special_programs.shell(follower, argv, stdin)
    if program in program_tables.WRAPPERS:
        return _wrapper(follower, argv, stdin)
    return _ordinary(follower, program, argv, stdin)


def _follow_options(follower: Follower, program: str, argv: Sequence[str]) -> None:
    """Check arguments that the program runs as commands: those after a shell-escape sign, and values of certain
    options.
    """
    for word in argv[1:]:
        if found := program_tables.BANG.search(word):
            follower.text(found[1])
    if program in program_tables.SEARCHERS | program_tables.SHELLS | program_tables.CODE_OPTION.keys():
        return
    for word, after in pairwise([*argv[1:], ""]):
        if found := program_tables.RUN_OPTION.fullmatch(word):
            value = program_tables.KEYED.sub("", found[2] or after, count=1)
            if _SPACE.search(value):
                code_texts.follow(value, follower)
                if not _CALL.match(value):
                    follower.text(value)
        found = _RUN_SETTING.fullmatch(word)
        if found and (found[1] or "." in word):
            follower.text(found[1] or after)


def _ordinary(follower: Follower, program: str, argv: list[str], stdin: str | None) -> str | None:
    """Check a program that has no function of its own here. The tables say what the program does."""
    _judge(follower, program, argv)
    _judge_stdin(follower, program, argv, stdin)
    _follow_code(follower, program, argv, stdin)
    if program in program_tables.TEXT_COMMANDS:
        _follow_texts(follower, argv)
    if program not in program_tables.LISTING and program not in program_tables.FLAT:
        run_inner(follower, argv[1:], stdin)
    _check_changes(follower, program, argv)
    if stdin is not None and program == "tee":
        for path in argv[1:]:
            follower.keep(path, stdin)
    return _printed(follower, program, argv, stdin)


def _judge_stdin(follower: Follower, program: str, argv: Sequence[str], stdin: str | None) -> None:
    """Check the file names or commands that a program reads from stdin or from a list."""
    is_taking = any(map(program_tables.NAMES_OPTION.fullmatch, argv))
    lists = [follower.files.get(follower.place_of(word.rpartition("=")[2])) for word in argv] if is_taking else []
    if is_taking or program in program_tables.NAME_TAKERS:
        for text in filter(None, (stdin, *lists)):
            for one in text.split("\n")[:NAMES_LIMIT]:
                follower.look_at(one, Relation.ABOVE)
    if program in program_tables.COMMAND_READERS and stdin is not None:
        follower.text(stdin)
        for line in stdin.split("\n")[:NAMES_LIMIT]:
            if found := program_tables.BANG.search(line):
                follower.text(found[1])
    if program in program_tables.LATER and stdin is not None:
        follower.text(program_tables.CRON.sub("", stdin))


def _judge(follower: Follower, program: str, argv: Sequence[str]) -> None:
    """Check the operands of a program, by the program's row in the tables."""
    least = _least(program, argv)
    before = follower.scene.cwd
    found = list(operands(follower, program, argv))
    is_tree = program in program_tables.WHOLE_CWD or (program in program_tables.SEARCHERS and least is Relation.ABOVE)
    if is_tree and not found:
        found = ["."]
    for place, word in enumerate(found):
        is_target = program in program_tables.MOVERS and place == len(found) - 1 > 0 and "--delete" not in argv
        if not is_target:
            follower.look_at(without_star(word) if program in program_tables.SHOWING else word, least)
    follower.scene.cwd = before


def _least(program: str, argv: Sequence[str]) -> Relation:
    """How close an operand must be to a guarded path, so that this program would access the guarded path."""
    if program in ("rg", "fd") and "--files" in argv:
        return Relation.WITHIN
    recursive = program_tables.RECURSIVE.get(program)
    if recursive and any(map(recursive.match, argv[1:])):
        return Relation.ABOVE
    if program in program_tables.LISTING:
        return Relation.WITHIN
    return Relation.DEEP if program in program_tables.FLAT else Relation.ABOVE


def operands(follower: Follower, program: str, argv: Sequence[str]) -> Iterator[str]:
    """The words of a command that may be files. An option such as `-C` also changes the working directory."""
    has_pattern = program not in program_tables.SEARCHERS or any(map(program_tables.PATTERN_OPTION.match, argv[1:]))
    words = iter(argv[1:])
    for word in words:
        if program in program_tables.GOES and (found := program_tables.DIRECTORY.fullmatch(word)):
            follower.go(found[1] or next(words, "."))
        elif found := program_tables.PREFIX.match(word):
            if not found[1] and word.startswith("-"):
                next(words, "")
        elif word.startswith("-") and word != "-":
            value = word.partition("=")[2] if "=" in word else word[2:] if word[1] != "-" else ""
            yield from (value,) if value else ()
        elif not has_pattern:
            has_pattern = True
        else:
            yield word


def _check_changes(follower: Follower, program: str, argv: Sequence[str]) -> None:
    """Check whether the command changes the runtime's configuration."""
    is_edit = any(map(program_tables.IN_PLACE.match, argv[1:]))
    if program in program_tables.READERS and (not is_edit or program not in ("sed", "yq")):
        return
    places = [(before, word) for before, word in pairwise(argv) if follower.is_settings(word)]
    for before, path in places:
        is_target = program in program_tables.MOVERS and path == argv[-1]
        is_target = is_target or program_tables.OUTPUT_OPTION.fullmatch(before) is not None
        is_whole = is_target or program in ("rm", "mv", "truncate", "shred", "dd", "sponge")
        follower.change(path, is_whole=is_whole or (program == "tee" and "-a" not in argv))


def _follow_code(follower: Follower, program: str, argv: Sequence[str], stdin: str | None) -> None:
    option = program_tables.CODE_OPTION.get(program)
    if option is not None:
        _follow_interpreter(follower, option, argv, stdin, is_shell_like=program in program_tables.BACKTICKS_RUN)
    elif program in ("awk", "gawk", "mawk", "nawk"):
        for word in [*argv[1:], *([stdin] if stdin is not None and "-f" in argv else [])]:
            code_texts.follow(word, follower)
    elif program == "sed":
        for word in argv[1:]:
            if found := program_tables.SED_RUNS.search(word) or pipeline_output.run_by_sed(word):
                follower.text(found[1])


def _follow_interpreter(
    follower: Follower, option: re.Pattern[str], argv: Sequence[str], stdin: str | None, *, is_shell_like: bool
) -> None:
    """Check code in an argument or on stdin. A script may read any file that is named after the script."""
    texts = [word for before, word in pairwise(argv[1:]) if option.match(before)]
    texts += [word.partition("=")[2] for word in argv[1:] if option.match(word.partition("=")[0]) and "=" in word]
    files = [word for word in argv[1:] if not word.startswith("-")]
    if not texts and files:
        for word in files[1:]:
            follower.look_at(word, Relation.ABOVE)
        kept = follower.files.get(follower.place_of(files[0]))
        texts = [] if kept is None else [kept]
    for text in texts or filter(None, [None if files else stdin]):
        code_texts.follow(text, follower, is_shell_like=is_shell_like)


def _follow_texts(follower: Follower, argv: Sequence[str]) -> None:
    """Check the arguments that are shell text."""
    for word in argv[1:]:
        if not word.startswith("-") and _SPACE.search(word):
            follower.text(word.partition("=")[2] if argv[0] == "alias" else word)


def run_inner(follower: Follower, words: Sequence[str], stdin: str | None) -> None:
    """Check the commands that an unknown program may run. A word that is a shell or an interpreter begins a command.

    The word `strongroom` begins a command only before one of its verbs; otherwise it may be a folder or a package.
    """
    for place, word in enumerate(words[:32]):
        program = program_of(word)
        if what := owner_commands.by_guess(words[place:]):
            raise Reaches(what)
        is_known = program in program_tables.SHELLS or program_tables.PYTHONS.fullmatch(program) or program in _RUNNERS
        if is_known and len(words) > place + 1:
            follower.words(words[place:], stdin if program == "xargs" else None)


def _wrapper(follower: Follower, argv: list[str], stdin: str | None) -> str | None:
    """Check the command after a wrapper such as `sudo`, `env` or `timeout`."""
    place = 1
    before = follower.scene.cwd
    while place < len(argv) and program_tables.WRAPPED.fullmatch(argv[place]):
        word = argv[place]
        if found := _SET.match(word):
            follower.assign(found[1], [word[found.end() :]], is_array=False)
        if word in ("-S", "--split-string"):
            follower.text(" ".join(argv[place + 1 :]))
        if word.startswith(("-C", "--chdir=")) and program_of(argv[0]) == "env":
            follower.go((word.partition("=")[2] if "=" in word else word[2:]) or "".join(argv[place + 1 : place + 2]))
        place += 2 if program_tables.WITH_VALUE.fullmatch(word) else 1
    if argv[:2] == ["command", "-v"]:
        return argv[-1]
    given = (stdin or UNKNOWN).split()[:NAMES_LIMIT] if _is_fed(argv) else []
    printed = follower.words([*argv[place:], *given], stdin)
    if program_of(argv[0]) not in ("command", "builtin", "exec"):
        run_inner(follower, argv[1:], stdin)
        if program_of(argv[0]) == "parallel":
            _follow_texts(follower, argv)
    follower.scene.cwd = before
    return printed


def _is_fed(argv: Sequence[str]) -> bool:
    """Whether a command takes its arguments from stdin. `parallel` does, except after `:::`."""
    return program_of(argv[0]) == "parallel" and not any(word.startswith(":::") for word in argv)


def _printed(follower: Follower, program: str, argv: Sequence[str], stdin: str | None) -> str | None:
    named = [word for word in argv[1:] if not word.startswith("-")]
    if program == "cat" and named:
        kept = [follower.files.get(follower.place_of(word)) for word in named]
        return "".join(one or UNKNOWN for one in kept) if any(one is not None for one in kept) else None
    if program == "ls":
        is_self = any(word.startswith("-") and "d" in word for word in argv)
        return "\n".join([*named] if is_self and named else [f"{word}/{ANY}" for word in named] + [ANY])
    if program in ("stat", "file"):
        return "\n".join(named) or None
    if program in ("du", "tree"):
        return "\n".join(f"{word}/{UNKNOWN}" for word in named) or None
    if program in program_tables.LOCATORS:
        return "\n".join(f"{UNKNOWN}/{word.replace('*', ANY)}" for word in named) or None
    if program in ("which", "realpath", "readlink") or argv[:2] == ["type", "-p"]:
        return "\n".join(named) or None
    if program in ("dirname", "basename") and named:
        split = os.path.dirname if program == "dirname" else os.path.basename
        return split(named[0]) or "."
    if program == "pwd":
        return follower.scene.cwd[0]
    return None if stdin is None else pipeline_output.pipe(program, argv[1:], stdin)
