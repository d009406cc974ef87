"""Finds the guarded things that a shell script would access: every word of each command is checked, in order.

The check keeps track of variables, the working directory, the output of `echo` and `find`, and files that the script
itself writes. Nested commands are checked too: `sh -c`, `eval`, `xargs`, `find -exec`, `sudo`, and code for an
interpreter. The first access to a guarded thing raises `Reaches`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

from strongroom.hermes.hooks import code_check, command_check, owner_commands, program_tables
from strongroom.hermes.hooks.guarded_paths import NOWHERE, SETTINGS, Map, Reaches, Relation, without_star
from strongroom.hermes.hooks.shell_parser import (
    SPLIT,
    UNKNOWN,
    Literal,
    Scope,
    Script,
    ShellCommand,
    Substitution,
    TooMuch,
    Word,
    clean,
    parse,
)
from strongroom.hermes.hooks.word_expansion import Scene, expand

STEPS_LIMIT = 4000
"""Maximum number of commands that are checked, including nested ones."""
DEPTH_LIMIT = 12

_BETWEEN = re.compile(r"[\s;|&<>(),=:\"'`@]+")
_SPACE = re.compile(r"\s")
_NOTING = program_tables.QUIET | program_tables.names("git gh echo printf tee mkdir touch")
"""Programs that do not run their text arguments. Arguments that are commands are checked separately."""
_WRITING = frozenset((">", ">|", "&>", ">&"))
_HOOK = re.compile(r"hook|strongroom|pre_tool", re.IGNORECASE)
"""Words that show that an edit of the runtime's configuration concerns the hooks."""


class Follower:
    """Checks all commands of one tool call, in order.

    `settings` is the runtime's configuration file, whose hooks must not be changed.
    """

    def __init__(self, found: Map, scene: Scene, settings: str = "") -> None:
        self._map = found
        self.scene = scene
        self._settings = settings
        self._hooks = found.of(SETTINGS, settings) if settings else None
        self._bases = dict.fromkeys(scene.cwd)
        self._looked: set[tuple[str, int, Relation]] = set()
        self.files: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self._steps = 0
        self.feed: str | None = None
        self._depth = 0
        self.says_hook = False
        self.pushed: list[Sequence[str]] = []

    def text(self, text: str, stdin: str | None = None) -> str | None:
        """Check shell text. Returns its output if the output is known."""
        self.scene.spend(len(text))
        self.note(text)
        script = parse(text, self._depth)
        if what := owner_commands.by_text(text.replace("\\\n", ""), is_search=_is_search(script)):
            raise Reaches(what)
        return self._nested(lambda: self.script(script, stdin))

    def script(self, script: Script, stdin: str | None = None) -> str | None:
        """Check commands in order. Returns their output if the output is known."""
        before, self.feed = self.feed, self._feed(script) or self.feed
        places: list[Sequence[str]] = []
        printed: str | None = stdin
        every: list[str | None] = []
        for one in script:
            if one is Scope.OPEN:
                places.append(self.scene.cwd)
            elif one is Scope.CLOSE:
                self.scene.cwd = places.pop() if places else self.scene.cwd
            elif isinstance(one, ShellCommand):
                is_first = not every
                printed = self._command(one, printed if one.is_piped or is_first else None)
                if one.is_piped and every:
                    every.pop()
                every.append(printed)
        self.feed = before
        return "".join(one or "" for one in every) if any(one is not None for one in every) else None

    def words(self, argv: Sequence[str], stdin: str | None = None) -> str | None:
        """Check one command, given as words. Returns its output if the output is known."""
        self._steps += 1
        self.scene.spend(sum(map(len, argv)))
        if self._steps > STEPS_LIMIT:
            raise TooMuch
        if not argv:
            return None
        if argv[0] in self.aliases:
            return self._nested(lambda: self._aliased(argv, stdin))
        program = owner_commands.program_of(argv[0])
        for word in argv:
            self.note(word)
            one = without_star(word) if program in program_tables.SHOWING else word
            self.look(one, is_search=program in _NOTING)
        return self._nested(lambda: command_check.run(self, list(argv), stdin))

    def _aliased(self, argv: Sequence[str], stdin: str | None) -> str | None:
        meaning = self.aliases.pop(argv[0])  # an alias may contain its own name
        found = self.words([*meaning.split(), *argv[1:]], stdin)
        self.aliases[argv[0]] = meaning
        return found

    def look(self, text: str, least: Relation = Relation.WITHIN, *, is_search: bool = False) -> None:
        """Raise if a word or a text names something guarded, or has a path in it that would access something
        guarded.
        """
        key = (text, len(self._bases), least)
        if key in self._looked:
            return
        self._looked.add(key)
        what = self._map.mentioned(text.replace(UNKNOWN, "*")) or owner_commands.by_text(text, is_search=is_search)
        if what:
            raise Reaches(what)
        relation, name = max((self._relation(one) for one in _candidates(text)), default=NOWHERE)
        if relation >= least and relation:
            raise Reaches(name)

    def look_at(self, word: str, least: Relation) -> None:
        """Raise if a program with this operand would read something guarded."""
        relation, name = max(
            (self.relation(one) for one in _candidates(word) if one == word or not _SPACE.search(word)), default=NOWHERE
        )
        if relation and relation >= least:
            raise Reaches(name)

    def mention(self, text: str) -> None:
        """Raise if a text names a guarded path. The text is only stored and not run."""
        if what := self._map.mentioned(text):
            raise Reaches(what)

    def python(self, text: str) -> None:
        """Check Python code."""
        self.scene.spend(len(text))
        self.note(text)
        self._nested(lambda: code_check.follow_python(text, self))

    def change(self, path: str, *, is_whole: bool) -> None:
        """Check a change of a file. Raises if the change would affect the hooks in the runtime's configuration."""
        if self.is_settings(path) and (is_whole or self.says_hook):
            raise Reaches(SETTINGS)

    def go(self, *paths: str) -> None:
        """Change the working directory to one of these paths. The check goes on for all of them."""
        places = [one if one[:1] == UNKNOWN else os.path.join(base, one) for base in self.scene.cwd for one in paths]
        self.scene.cwd = [one if one.startswith(UNKNOWN) else os.path.normpath(one) for one in places][:8]
        self._bases.update(dict.fromkeys(self.scene.cwd))
        if len(self._bases) > 64:
            raise TooMuch

    def relation(self, path: str) -> tuple[Relation, str]:
        """The strongest relation of a path to a guarded path, with the description of that guarded path.

        A relative path is tried from the working directory.
        """
        return self._map.relation(path, self.scene.cwd)

    # One command.

    def _feed(self, script: Script) -> str | None:
        """The input of a loop. The input stands after the loop's end, as in `while read ...; done < FILE`."""
        for one in script:
            if isinstance(one, ShellCommand) and not one.words and not one.assignments:
                inputs = [path for operator, word in one.redirects if operator == "<" for path in self._expand(word)]
                texts = [self._expand(one.document)] if one.document is not None else []
                texts += [[found] for path in inputs if (found := self.files.get(self.place_of(path))) is not None]
                if texts:
                    return "\n".join(text for some in texts for text in some)
        return None

    def _command(self, command: ShellCommand, stdin: str | None) -> str | None:
        for name, words in command.assignments:
            self.assign(name, [value for word in words for value in self._expand(word)], is_array=len(words) != 1)
        fields = [found for word in command.words if (found := self._fields(word))]
        if command.document is not None:
            stdin = "\n".join(self._expand(command.document))
        targets = [(operator, path) for operator, word in command.redirects for path in self._expand(word)]
        for operator, path in targets:
            self.note(path)
            self.look(path)
            stdin = self.files.get(self.place_of(path), stdin) if operator == "<" else stdin
        argv, others = [], []
        for one in fields:
            argv += one[0]
            others += [word for alternative in one[1:] for word in alternative]
        is_reading_in = not argv and any(operator == "<" for operator, _ in targets)
        printed = None if is_reading_in else self._all(fields, argv, others, stdin)
        for operator, path in targets:
            if operator[0] != "<" or operator == "<>":
                self.change(path, is_whole=operator in _WRITING)
                self.keep(path, printed)
        return printed

    def _all(self, fields: list[list[list[str]]], argv: list[str], others: list[str], stdin: str | None) -> str | None:
        if not argv:
            return None
        if argv[0] in ("for", "select"):
            self._loop(argv, others)
            return None
        for program in [alternative[:1] for alternative in fields[0][1:] if alternative][:8]:
            self.words([*program, *argv[1:], *others], stdin)
        printed = self.words([*argv, *others], stdin)
        for verb in fields[1][1:] if len(fields) > 1 else []:
            if what := owner_commands.by_command([*fields[0][0], *verb]):
                raise Reaches(what)
        return printed

    def _expand(self, word: Word) -> list[str]:
        found = expand(word, self.scene, self._inner)
        for one in found:
            self.mention(one.replace(SPLIT, " "))
        return [one.replace(SPLIT, " ") for one in found]

    def _fields(self, word: Word) -> list[list[str]]:
        found = expand(word, self.scene, self._inner)
        return [fields for one in found if (fields := [part for part in one.split(SPLIT) if part or SPLIT not in one])]

    def _inner(self, inner: Substitution) -> str | None:
        before = self.scene.cwd
        found = self._nested(lambda: self.script(inner.commands))
        self.scene.cwd = before
        if not inner.is_file:
            return found
        name = f"/dev/fd/{63 + len(self.files)}"
        self.keep(name, found)
        return name

    def _nested(self, work: Callable[[], str | None]) -> str | None:
        if self._depth >= DEPTH_LIMIT:
            raise TooMuch
        self._depth += 1
        found = work()
        self._depth -= 1
        return found

    def assign(self, name: str, values: list[str], *, is_array: bool) -> None:
        self.scene.variables[name] = values[:64] or [""]
        if is_array:
            self.scene.arrays[name] = values[:64]
        for value in values:
            self.note(value)
            self.look(value)
            if program_tables.RUN_VARIABLE.fullmatch(name):
                self.text(value)

    def _loop(self, argv: Sequence[str], others: Sequence[str]) -> None:
        if len(argv) > 1:
            values = [*argv[3:], *others] if len(argv) > 2 else self.scene.arrays.get("@", [UNKNOWN])
            for value in values:
                self.look(without_star(value))
            self.scene.variables[argv[1]] = values[:64] if len(values) <= 64 else [*values[:63], UNKNOWN]

    # Helpers.

    def note(self, text: str) -> None:
        """Remember whether any text of the call mentions the hooks."""
        self.says_hook = self.says_hook or _HOOK.search(text) is not None

    def _relation(self, path: str) -> tuple[Relation, str]:
        return self._map.relation(path, self._bases)

    def place_of(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.scene.cwd[0] if self.scene.cwd else "/", path))

    def is_settings(self, path: str) -> bool:
        """Whether a path is the runtime's configuration. A path with an unknown part does not count: it may be any
        file.
        """
        if self._hooks is None or UNKNOWN in path:
            return False
        return self._hooks.relation(path, self.scene.cwd[:1])[0] is Relation.WITHIN

    def keep(self, path: str, text: str | None) -> None:
        if text is not None and len(self.files) < 64:
            self.files[self.place_of(path)] = clean(text) if UNKNOWN not in text else text


def _is_search(script: Script) -> bool:
    """Whether all commands only search for texts or write texts down."""
    commands = [one for one in script if isinstance(one, ShellCommand) and one.words]
    first = [one.words[0][0] for one in commands if one.words[0]]
    named = {one.text for one in first if isinstance(one, Literal)}
    return bool(named) and len(first) == len(commands) and named <= _NOTING


def _candidates(text: str) -> Iterator[str]:
    """The parts of a word that may be paths: the whole word, and the pieces between separators."""
    yield from dict.fromkeys(_every(text))


def _every(text: str) -> Iterator[str]:
    yield text
    if "file:" in text:
        yield re.sub(r"^.*?file:(?://localhost)?/*", "/", unquote(text), count=1, flags=re.DOTALL)
    parts = _BETWEEN.split(text)
    if len(parts) > 1:
        is_prose = _SPACE.search(text)
        yield from (part for part in parts if part and (not is_prose or "/" in part or part[0] == "~"))
    if text[:1] == "-" and len(text) > 2 and text[1] != "-":
        yield text[2:]
