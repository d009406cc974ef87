"""Checks whether a tool's arguments would access the owner's things: the vault, its keys, the cap, the spool, the
policy.

Each argument is checked by its kind: a command, code, a file's content, or a path. An argument must not name a guarded
path anywhere. A directory above a guarded path must not be passed to a program that might read everything below it.
Arguments that are too large to check are refused. This is best effort; docs/hermes.md says what it cannot detect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from strongroom.hermes.hooks.guarded_paths import GuardedPath, Map, Names, Reaches, Real, Relation
from strongroom.hermes.hooks.program_tables import names
from strongroom.hermes.hooks.script_check import Follower
from strongroom.hermes.hooks.shell_parser import ANY, ONE, TooMuch, clean
from strongroom.hermes.hooks.word_expansion import Scene

TEXT_LIMIT = 1 << 20
"""Maximum number of characters of all arguments together. Larger arguments are refused without a check."""
COMMAND_LIMIT = 1 << 17
"""Maximum number of characters of commands and code together. Larger arguments are refused without a check."""
_TEXTS_LIMIT = 10_000
TOO_MUCH = "more than can be checked"

_COMMANDS = names("command cmd commands script shell shell_command bash input")
_CODES = frozenset(["code", "python", "source_code"])
_CONTENTS = names("content contents new_string old_string new_str old_str text patch diff data body message file_text")
_PLACES = frozenset(["workdir", "cwd", "working_directory", "working_dir"])
_ARGVS = frozenset(["args", "argv", "arguments"])
_PATHS = re.compile(r"path|file|dir|folder|root|source|src|dest|target|location|uri")
_LISTING_TOOL = re.compile(r"list|tree|stat|info|exists|read_file|write_file|edit|patch|create_file")
_WRITING_TOOL = re.compile(r"write|create|delete|remove|move|rename|upload|save")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The place where a command would run: its directory, the home directories that `~` may mean, and its environment.

    `settings` is the path of the runtime's configuration file, whose hooks a tool must not change. The path is empty if
    there is no such file.
    """

    cwd: str
    homes: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""


def find_reach(
    arguments: Mapping[str, Any],
    guarded: Sequence[GuardedPath],
    around: Surroundings,
    *,
    names: Names,
    real: Real,
    tool: str = "",
) -> str | None:
    """Find a guarded thing that the arguments would access. Returns its description, or None.

    `names` lists a directory, and `real` resolves links.
    """
    try:
        said = _Said(arguments)
        scene = Scene(cwd=[around.cwd or "/"], homes=around.homes, environment=around.variables)
        follower = Follower(Map(guarded, around.homes, names, real), scene, around.settings)
        _look(said, follower, tool.casefold())
    except Reaches as found:
        return found.what
    except (TooMuch, RecursionError):
        return TOO_MUCH
    return None


class _Said:
    """All texts in the arguments, each with its key."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.pairs: list[tuple[str, str]] = []
        self.argvs: list[list[str]] = []
        for pair in texts(arguments):
            self.pairs.append(pair)
            if len(self.pairs) > _TEXTS_LIMIT:
                raise TooMuch
        for key, value in arguments.items():
            if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
                self.argvs += [[clean(one) for one in value]] if key.casefold() in _COMMANDS | _ARGVS else []
        program = arguments.get("command")
        if self.argvs and isinstance(program, str):
            self.argvs = [[clean(program), *one] for one in self.argvs]
        sizes = [(len(text), key in _COMMANDS | _CODES) for key, text in self.pairs]
        if sum(size for size, _ in sizes) > TEXT_LIMIT or sum(size for size, is_run in sizes if is_run) > COMMAND_LIMIT:
            raise TooMuch

    def of(self, *kinds: frozenset[str]) -> list[str]:
        """The texts whose keys are in one of these sets."""
        return [text for key, text in self.pairs if any(key in kind for kind in kinds)]


def texts(value: object) -> Iterator[tuple[str, str]]:
    """Every text in a tool's arguments, with the nearest key above it. The keys are texts too; they come with an empty
    key.
    """
    waiting: list[tuple[str, object]] = [("", value)]
    while waiting:
        key, one = waiting.pop()
        if isinstance(one, str):
            yield key, clean(one)
        elif isinstance(one, Mapping):
            waiting += [("", name) for name in one]
            waiting += [(str(name).casefold(), inner) for name, inner in one.items()]
        elif isinstance(one, list | tuple):
            waiting += [(key, inner) for inner in one]


def _look(said: _Said, follower: Follower, tool: str) -> None:
    for text in said.of(_PLACES):
        follower.look(_at_home(text, follower))
        follower.go(_at_home(text, follower))
    for text in said.of(_CONTENTS):
        follower.note(text)
        follower.mention(text)
    for argv in said.argvs:
        follower.words(argv)
    for text in said.of(_COMMANDS):
        follower.text(text)
    for text in said.of(_CODES):
        follower.python(text)
    is_names_only = "files" in said.of(frozenset(("target", "mode", "output_mode")))
    least = Relation.WITHIN if is_names_only or _LISTING_TOOL.search(tool) else Relation.ABOVE
    for key, text in said.pairs:
        if key not in _COMMANDS | _CODES | _CONTENTS | _PLACES:
            _look_at_path(key, text, follower, least, tool)


def _look_at_path(key: str, text: str, follower: Follower, least: Relation, tool: str) -> None:
    for one in dict.fromkeys((text, unquote(text) if "%" in text else text)):
        path = _at_home(one, follower)
        follower.look(_globbed(path))
        if _PATHS.search(key) and tool:
            follower.look_at(path, least)
        follower.change(path, is_whole=bool(_WRITING_TOOL.search(tool)))


def _globbed(text: str) -> str:
    return text.replace("*", ANY).replace("?", ONE)


def _at_home(text: str, follower: Follower) -> str:
    homes = follower.scene.homes
    return homes[0] + text[1:] if homes and re.match(r"~(?=/|$)", text) else text
