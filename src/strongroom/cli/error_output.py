"""Errors at the edge: which exit code each gets, and how it is told.

People get `strongroom: error: ...` and, where there is one, `strongroom: hint: ...`; with `--json` one JSON object.
Both go to stderr. What nobody raised on purpose is a defect: it gets exit code 1 and no traceback, unless
`STRONGROOM_DEBUG=1` asks for it.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence

import click
import msgspec

from strongroom.cli import output
from strongroom.cli.run_context import Declined
from strongroom.cli.unknown_verb import UnknownVerb
from strongroom.errors import Denied, StrongroomError, Tampered, VaultMissing

OK, BUG, USAGE, UNSEEN, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 8, 130, 141

BY_FAMILY = {"defect": BUG, "invalid": 2, "denied": 3, "not_found": 4, "conflict": 5, "tampered": 6, "unavailable": 7}
"""The exit code of each family of errors; every error of the library has a row by its family."""

MEANINGS = {
    OK: "done",
    BUG: "a defect of Strongroom; `STRONGROOM_DEBUG=1` shows where, or the server's own log",
    2: "the command or the request is wrong: change it",
    3: "denied: the cap does not allow this, or is not valid",
    4: "not found: no such line, or no vault in this place",
    5: "conflict: somebody else was first, or the line was forgotten; read again, then decide",
    6: "tampered: stop, keep the files, look at `strongroom audit verify`",
    7: "unavailable: nothing was answered; a write is whole or absent",
    UNSEEN: "unseen: no flaw was found, but a roll-back, or a write that was undone, cannot be ruled out",
    INTERRUPTED: "interrupted by the user",
    BROKEN_PIPE: "the reader of the output went away",
}
"""Every exit code and what it means, for the reference."""


class ErrorDocument(msgspec.Struct, frozen=True):
    """An error as `--json` tells it."""

    error: str
    reason: str
    message: str
    hint: str = ""


class CommandFailure(click.ClickException):
    """A command that ran to its end and found something bad; its answer has been given already."""

    def __init__(self, code: int) -> None:
        super().__init__("")
        self.code = code


def tell(error: BaseException, *, as_json: bool) -> int:
    """Tell an error on stderr and return the exit code."""
    if isinstance(error, CommandFailure):
        return error.code
    if isinstance(error, click.Abort | KeyboardInterrupt | Declined):
        message = error.message if isinstance(error, Declined) else "interrupted"
        _show(ErrorDocument("interrupted", "interrupted", message), as_json=as_json)
        return INTERRUPTED
    if isinstance(error, StrongroomError):
        _show(ErrorDocument(error.family, error.reason, error.message, hint_of(error)), as_json=as_json)
        return BY_FAMILY[error.family]
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return USAGE
    if isinstance(error, click.ClickException):
        _show(_usage(error), as_json=as_json)
        return USAGE
    return _tell_bug(error, as_json=as_json)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--json` stands among the arguments: they may be too wrong to be parsed."""
    return "--json" in arguments[: arguments.index("--") if "--" in arguments else None]


def hint_of(error: StrongroomError) -> str:
    """What to do about an error, in words of the shell."""
    if isinstance(error, VaultMissing):
        return "make one with `strongroom init`, or name another with --vault or STRONGROOM_VAULT"
    if isinstance(error, Tampered) and (not error.hint or "verify(" in error.hint):  # said for Python
        return "keep the files as they are; `strongroom audit verify` names what is wrong"
    if isinstance(error, Denied) and not error.hint:
        return "`strongroom cap show` says what the cap covers"
    return error.hint


def _usage(error: click.ClickException) -> ErrorDocument:
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see `{error.ctx.command_path} --help`"
        if isinstance(error, UnknownVerb) and error.hint:
            hint = error.hint
        elif isinstance(error, click.NoSuchOption) and error.ctx.parent is None:
            hint = f"an option of a verb is said after the verb: `strongroom VERB {error.option_name} ...`"
    # click puts choices on lines of their own, and a terminal would be shown each break as a code point
    return ErrorDocument("invalid", "usage", " ".join(error.format_message().split()), hint)


def _tell_bug(error: BaseException, *, as_json: bool) -> int:
    if os.environ.get("STRONGROOM_DEBUG") == "1":
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    # Only the type: the message of a foreign exception may hold a line's text.
    message = f"a defect: {type(error).__name__} was raised"
    _show(
        ErrorDocument("bug", "bug", message, "run it again with STRONGROOM_DEBUG=1 and report what it shows"),
        as_json=as_json,
    )
    return BUG


def _show(told: ErrorDocument, *, as_json: bool) -> None:
    if as_json:
        click.echo(output.encode_json(told), err=True)
        return
    output.say(f"error: {told.message}")
    if told.hint:
        output.say(f"hint: {told.hint}")
