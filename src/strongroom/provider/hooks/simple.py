"""What one simple command reaches for: its program, its operands, and what it runs or prints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from strongroom.provider.hooks import code_texts, ownership, programs, special_programs, textfilters
from strongroom.provider.hooks.ownership import program_of
from strongroom.provider.hooks.paths import Reaches, Relation, without_star
from strongroom.provider.hooks.shell import ANY, UNKNOWN

if TYPE_CHECKING:
    from strongroom.provider.hooks.commands import Follower

NAMES_LIMIT = 64
"""Names from stdin that are looked at one by one."""
_SPACE = re.compile(r"\s")
_CALL = re.compile(r"\s*+\(|[\w.]+\s?\(")
"""How code begins that is no command."""
_SET = re.compile(r"([A-Za-z_]\w*)=")
_RUNNERS = frozenset(("xargs", "env", "eval", "find", "perl", "node", "ruby", "php"))


def run(follower: Follower, argv: list[str], stdin: str | None) -> str | None:
    if what := ownership.by_command(argv):
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
    if programs.PYTHONS.fullmatch(program):
        special_programs.python_program(follower, argv, stdin)
        return None
    if program in programs.SHELLS:
        return special_programs.shell(follower, argv, stdin)
    if program in programs.WRAPPERS:
        return _wrapper(follower, argv, stdin)
    return _ordinary(follower, program, argv, stdin)


def _follow_options(follower: Follower, program: str, argv: Sequence[str]) -> None:
    """What an argument says to run: after a sign for that, or after an option for that."""
    for word in argv[1:]:
        if found := programs.BANG.search(word):
            follower.text(found[1])
    if program in programs.SEARCHERS | programs.SHELLS | programs.CODE_OPTION.keys():
        return
    for word, after in pairwise([*argv[1:], ""]):
        if found := programs.RUN_OPTION.fullmatch(word):
            value = programs.KEYED.sub("", found[2] or after, count=1)
            if _SPACE.search(value):
                code_texts.follow(value, follower)
                if not _CALL.match(value):
                    follower.text(value)


def _ordinary(follower: Follower, program: str, argv: list[str], stdin: str | None) -> str | None:
    """A program that is known by tables alone."""
    _judge(follower, program, argv)
    _judge_stdin(follower, program, argv, stdin)
    _follow_code(follower, program, argv, stdin)
    if program in programs.TEXT_COMMANDS:
        _follow_texts(follower, argv)
    if program not in programs.LISTING and program not in programs.FLAT:
        run_inner(follower, argv[1:], stdin)
    _check_changes(follower, program, argv)
    if stdin is not None and program == "tee":
        for path in argv[1:]:
            follower.keep(path, stdin)
    return _printed(follower, program, argv, stdin)


def _judge_stdin(follower: Follower, program: str, argv: Sequence[str], stdin: str | None) -> None:
    """Names of files, or commands for later, that a program takes from stdin or from a list."""
    is_taking = any(map(programs.NAMES_OPTION.fullmatch, argv))
    lists = [follower.files.get(follower.place_of(word.rpartition("=")[2])) for word in argv] if is_taking else []
    if is_taking or program in programs.NAME_TAKERS:
        for text in filter(None, (stdin, *lists)):
            for one in text.split("\n")[:NAMES_LIMIT]:
                follower.look_at(one, Relation.ABOVE)
    if program in programs.COMMAND_READERS and stdin is not None:
        follower.text(stdin)
        for line in stdin.split("\n")[:NAMES_LIMIT]:
            if found := programs.BANG.search(line):
                follower.text(found[1])
    if program in programs.LATER and stdin is not None:
        follower.text(programs.CRON.sub("", stdin))


def _judge(follower: Follower, program: str, argv: Sequence[str]) -> None:
    """Look at operands with what is known of the program."""
    least = _least(program, argv)
    before = follower.scene.cwd
    found = list(operands(follower, program, argv))
    is_tree = program in programs.WHOLE_CWD or (program in programs.SEARCHERS and least is Relation.ABOVE)
    if is_tree and not found:
        found = ["."]
    for place, word in enumerate(found):
        is_target = program in programs.MOVERS and place == len(found) - 1 > 0 and "--delete" not in argv
        if not is_target:
            follower.look_at(without_star(word) if program in programs.SHOWING else word, least)
    follower.scene.cwd = before


def _least(program: str, argv: Sequence[str]) -> Relation:
    """From which relation on a program reaches for something."""
    if program in ("rg", "fd") and "--files" in argv:
        return Relation.WITHIN
    recursive = programs.RECURSIVE.get(program)
    if recursive and any(map(recursive.match, argv[1:])):
        return Relation.ABOVE
    if program in programs.LISTING:
        return Relation.WITHIN
    return Relation.DEEP if program in programs.FLAT else Relation.ABOVE


def operands(follower: Follower, program: str, argv: Sequence[str]) -> Iterator[str]:
    """Words that may be files. On the way the directory is changed as the options say."""
    has_pattern = program not in programs.SEARCHERS or any(map(programs.PATTERN_OPTION.match, argv[1:]))
    words = iter(argv[1:])
    for word in words:
        if program in programs.GOES and (found := programs.DIRECTORY.fullmatch(word)):
            follower.go(found[1] or next(words, "."))
        elif found := programs.PREFIX.match(word):
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
    """Whether the runtime's configuration is changed."""
    is_edit = any(map(programs.IN_PLACE.match, argv[1:]))
    if program in programs.READERS and (not is_edit or program not in ("sed", "yq")):
        return
    places = [(before, word) for before, word in pairwise(argv) if follower.is_settings(word)]
    for before, path in places:
        is_target = program in programs.MOVERS and path == argv[-1]
        is_target = is_target or programs.OUTPUT_OPTION.fullmatch(before) is not None
        is_whole = is_target or program in ("rm", "mv", "truncate", "shred", "dd", "sponge")
        follower.change(path, is_whole=is_whole or (program == "tee" and "-a" not in argv))


def _follow_code(follower: Follower, program: str, argv: Sequence[str], stdin: str | None) -> None:
    option = programs.CODE_OPTION.get(program)
    if option is not None:
        _follow_interpreter(follower, option, argv, stdin, is_shell_like=program in programs.BACKTICKS_RUN)
    elif program in ("awk", "gawk", "mawk", "nawk"):
        for word in [*argv[1:], *([stdin] if stdin is not None and "-f" in argv else [])]:
            code_texts.follow(word, follower)
    elif program == "sed":
        for word in argv[1:]:
            if found := programs.SED_RUNS.search(word) or textfilters.run_by_sed(word):
                follower.text(found[1])


def _follow_interpreter(
    follower: Follower, option: re.Pattern[str], argv: Sequence[str], stdin: str | None, *, is_shell_like: bool
) -> None:
    """Code in an argument or on stdin. A script may read whatever stands behind its name."""
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
    """Arguments that are shell text."""
    for word in argv[1:]:
        if not word.startswith("-") and _SPACE.search(word):
            follower.text(word.partition("=")[2] if argv[0] == "alias" else word)


def run_inner(follower: Follower, words: Sequence[str], stdin: str | None) -> None:
    """What an unknown program may run: each word that is a shell or an interpreter begins a command. So does
    Strongroom with a verb; without one it may be a folder or a package."""
    for place, word in enumerate(words[:32]):
        program = program_of(word)
        if what := ownership.by_guess(words[place:]):
            raise Reaches(what)
        is_known = program in programs.SHELLS or programs.PYTHONS.fullmatch(program) or program in _RUNNERS
        if is_known and len(words) > place + 1:
            follower.words(words[place:], stdin if program == "xargs" else None)


def _wrapper(follower: Follower, argv: list[str], stdin: str | None) -> str | None:
    """The command behind `sudo`, `env`, `timeout` and the like."""
    place = 1
    before = follower.scene.cwd
    while place < len(argv) and programs.WRAPPED.fullmatch(argv[place]):
        word = argv[place]
        if found := _SET.match(word):
            follower.assign(found[1], [word[found.end() :]], is_array=False)
        if word in ("-S", "--split-string"):
            follower.text(" ".join(argv[place + 1 :]))
        if word.startswith(("-C", "--chdir=")) and program_of(argv[0]) == "env":
            follower.go((word.partition("=")[2] if "=" in word else word[2:]) or "".join(argv[place + 1 : place + 2]))
        place += 2 if programs.WITH_VALUE.fullmatch(word) else 1
    if argv[:2] == ["command", "-v"]:
        return argv[-1]
    printed = follower.words(argv[place:], stdin)
    if program_of(argv[0]) not in ("command", "builtin", "exec"):
        run_inner(follower, argv[1:], stdin)
        if program_of(argv[0]) == "parallel":
            _follow_texts(follower, argv)
    follower.scene.cwd = before
    return printed


def _printed(follower: Follower, program: str, argv: Sequence[str], stdin: str | None) -> str | None:
    named = [word for word in argv[1:] if not word.startswith("-")]
    if program == "cat" and named:
        kept = [follower.files.get(follower.place_of(word)) for word in named]
        return "".join(one or UNKNOWN for one in kept) if any(one is not None for one in kept) else None
    if program == "ls":
        is_self = any(word.startswith("-") and "d" in word for word in argv)
        return "\n".join([*named] if is_self else [f"{word}/{ANY}" for word in named] + [ANY]) if named else None
    if program in ("stat", "file"):
        return "\n".join(named) or None
    if program in ("du", "tree"):
        return "\n".join(f"{word}/{UNKNOWN}" for word in named) or None
    if program in programs.LOCATORS:
        return "\n".join(f"{UNKNOWN}/{word.replace('*', ANY)}" for word in named) or None
    if program in ("which", "realpath", "readlink") or argv[:2] == ["type", "-p"]:
        return "\n".join(named) or None
    if program in ("dirname", "basename") and named:
        split = os.path.dirname if program == "dirname" else os.path.basename
        return split(named[0]) or "."
    if program == "pwd":
        return follower.scene.cwd[0]
    return None if stdin is None else textfilters.pipe(program, argv[1:], stdin)
