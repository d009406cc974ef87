"""Answers an unknown verb with the command that the user probably meant."""

from __future__ import annotations

from collections.abc import Iterable

import click

_PUT = "`strongroom put` remembers a text"
_GET = "`strongroom get` recalls lines that fit a question"
_FORGET = "`strongroom forget` removes lines for good, `strongroom erase` a whole namespace"
_LIST = "`strongroom list` shows which lines there are"
_CHANGE = "`strongroom replace` corrects a line, and `strongroom history` shows what it was"
_STATUS = "`strongroom doctor` checks the vault, `strongroom audit show` lists what was done"

ELSEWHERE = {
    **dict.fromkeys(("add", "remember", "store", "save", "write", "insert"), _PUT),
    **dict.fromkeys(("search", "recall", "query", "find", "ask", "grep"), _GET),
    **dict.fromkeys(("delete", "del", "rm", "remove", "drop"), _FORGET),
    **dict.fromkeys(("ls", "show", "all"), _LIST),
    **dict.fromkeys(("update", "edit", "set", "change", "correct"), _CHANGE),
    **dict.fromkeys(("status", "check", "stats"), _STATUS),
    **dict.fromkeys(("new", "create", "setup"), "`strongroom init` makes a vault, its keys and your own cap"),
    **dict.fromkeys(
        ("mint", "revoke", "token", "attenuate"), "`strongroom cap` mints, narrows, lists and revokes caps"
    ),
    **dict.fromkeys(("verify", "log", "logs"), "`strongroom audit` reads, verifies and proves the log"),
    **dict.fromkeys(("server", "start", "run"), "`strongroom serve` serves the vault, `strongroom mcp` one MCP client"),
    **dict.fromkeys(
        ("prune", "sweep", "expire", "gc", "vacuum", "clean"), "`strongroom scrub vault` forgets what has ended"
    ),
    "version": "`strongroom --version` prints it",
}
"""Verbs of other tools, each with the Strongroom command that does the same."""


class UnknownVerb(click.UsageError):
    """An unknown verb. `hint` names the command that the user probably meant. Empty if there is no guess."""

    def __init__(self, verb: str, verbs: Iterable[str], ctx: click.Context) -> None:
        from difflib import get_close_matches  # imported only when something was misspelled

        near = get_close_matches(verb, verbs, 1)
        self.hint = ELSEWHERE.get(verb.lower()) or (f"did you mean `strongroom {near[0]}`?" if near else "")
        super().__init__(f"there is no command `strongroom {verb}`", ctx)
