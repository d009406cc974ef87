"""Finds the guarded things that code in languages other than Python would access, by its string literals.

Only the rules for writing and joining strings are known. Words beside a string, such as `read` or `exec`, suggest how
the string is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strongroom.hermes.hooks import command_check
from strongroom.hermes.hooks.guarded_paths import Relation
from strongroom.hermes.hooks.shell_parser import ANY, UNKNOWN

if TYPE_CHECKING:
    from strongroom.hermes.hooks.script_check import Follower

LENGTH_LIMIT = 1 << 16
_TEXT = re.compile(r"\"((?:[^\"\\]|\\.)*+)\"|'((?:[^'\\]|\\.)*+)'|`((?:[^`\\]|\\.)*+)`", re.DOTALL)
_HOME = re.compile(
    r"\b(?:process\.env\.HOME|(?:require\([\"'](?:node:)?os[\"']\)\.|os\.)?homedir\(\)|Dir\.home"
    r"|Deno\.env\.get\([\"']HOME[\"']\)|getenv\([\"']HOME[\"']\)"
    r"|ENV(?:\[[\"']HOME[\"']\]|\{HOME\})|ENVIRON\[\"HOME\"\])|\$ENV\{[\"']?HOME[\"']?\}|\$HOME\b"
)
_READING = re.compile(
    r"read|open|slurp|cp|copy|archive|rename|rm|unlink|exec|system|spawn|file_get|send|glob", re.IGNORECASE
)
_TREES = re.compile(r"cp|copy|archive|rename|rm_r|find\(|walk|glob|readdir|opendir|tar|zip", re.IGNORECASE)
_RUNNING = re.compile(r"exec|run|cmd|system|spawn|popen|open3|qx|passthru|shell|\|", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"[$#]\{[^}]*+\}")
_WORDS = re.compile(r"\bqw\s{0,4}[({\[|/!<]([^)}\]|/!>]{0,500})")
_COMMAND = re.compile(r"(?:%x|\bqx)\s{0,4}[({\[|/!<]([^)}\]|/!>]{0,500})")
_GLUE = re.compile(r"\s*(?:\+|\.{1,2}|~|<>|&)\s*")
_COMMA = re.compile(r"\s*,\s*")
_JOIN = re.compile(r"\b(?:join|resolve|Combine)\s?\(")


def follow(text: str, follower: Follower, *, is_shell_like: bool = False) -> None:
    """Check the strings in code, alone and joined. With `is_shell_like`, a string in backticks is a command."""
    follower.look(text)
    home = (follower.scene.homes or (UNKNOWN,))[0]
    text = _HOME.sub(lambda _: f'"{home}"', text)
    text = _WORDS.sub(lambda found: ", ".join(f'"{one}"' for one in found[1].split()), text)
    for found in _COMMAND.finditer(text):
        follower.text(found[1])
    is_running, is_tree = _RUNNING.search(text) is not None, _TREES.search(text) is not None
    run: list[str] = []
    at = statement = 0
    is_joining = False
    for found in _TEXT.finditer(text):
        between = text[at : found.start()]
        if ";" in between or "\n" in between:
            _look_at_run(run, text[statement : found.start()], follower, is_running=is_running, is_tree=is_tree)
            run, statement = [], found.start()
        is_joining = _JOIN.search(between) is not None or (is_joining and ")" not in between)
        one = _PLACEHOLDER.sub(UNKNOWN, next((one for one in found.groups() if one is not None), ""))
        if is_shell_like and found[3]:
            follower.text(found[3])
        if run and _GLUE.fullmatch(between):
            run[-1] += one
        elif run and is_joining and _COMMA.fullmatch(between):
            run[-1] += f"/{one}"
        else:
            run.append(one)
        at = found.end()
    _look_at_run(run, text[statement:], follower, is_running=is_running, is_tree=is_tree)


def _look_at_run(run: Sequence[str], statement: str, follower: Follower, *, is_running: bool, is_tree: bool) -> None:
    is_reading = _READING.search(statement)
    for one in dict.fromkeys((*run, "".join(run), "/".join(run))):
        pattern = "/".join(UNKNOWN if part == "**" else part.replace("*", ANY) for part in one.split("/"))
        follower.look(pattern if is_tree else one)
        if is_reading or (is_tree and "/" in one.strip("/")):
            follower.look_at(one, Relation.ABOVE)
        if is_running and " " in one and len(one) < LENGTH_LIMIT:
            follower.text(one)
    if is_running:
        command_check.run_inner(follower, run, None)
