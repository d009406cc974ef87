"""Turn errors into messages on stderr and exit codes.

People get `strongroom: error: ...` and, if there is a hint, `strongroom: hint: ...`. With `--json`, the error is one
JSON object. Any exception that is not a `StrongroomError` or a click error is a defect: exit code 1, and a traceback
only with `STRONGROOM_DEBUG=1`.
"""

from __future__ import annotations

import os
import re
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
"""The exit code of each family of errors. Every error of the library belongs to one of these families."""

MEANINGS = {
    OK: "done",
    BUG: "a defect in Strongroom: run again with `STRONGROOM_DEBUG=1`, or read the server's log;"
    " from `wire --check-only`: something needs changing; from `demo`: a step failed",
    2: "the command or the request is invalid: change it",
    3: "denied: the cap does not allow this, or is not valid",
    4: "not found: there is no such line, or no vault at this place",
    5: "conflict: another write came first, or the line was forgotten; read again, then decide",
    6: "tampered: stop, keep the files as they are, and run `strongroom audit verify`",
    7: "unavailable: no answer was given; a write happened completely or not at all",
    UNSEEN: "unseen: no flaw was found, but a roll-back or an undone write cannot be ruled out",
    INTERRUPTED: "interrupted by the user",
    BROKEN_PIPE: "the program reading the output closed the pipe",
}
"""The meaning of each exit code. A script copies this table to `docs/cli.md`."""


_SHELL_WORDS = (
    (re.compile(r"memory\.history\(id\)"), "`strongroom history ID`"),
    (re.compile(r"change the document with write_document"), "`strongroom document write` changes a document"),
    (
        re.compile(r"read the document and pass its `version`"),
        "give the version that you read as --version, or use --overwrite",
    ),
    (re.compile(r"`expires`"), "--expires"),
    (re.compile(r'namespace="([a-z0-9-]+)"'), r"--namespace \1"),
)
"""Words for Python callers in hints, each with the command or option that replaces it."""


class ErrorDocument(msgspec.Struct, frozen=True):
    """An error in the form that `--json` writes."""

    error: str
    reason: str
    message: str
    hint: str = ""


class CommandFailure(click.ClickException):
    """Raised by a command that has already printed its answer and must end with a failing exit code."""

    def __init__(self, code: int) -> None:
        super().__init__("")
        self.code = code


def tell(error: BaseException, *, as_json: bool) -> int:
    """Print an error on stderr and return the exit code."""
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
    """True if `--json` is among the arguments. Needed for errors that prevent click from parsing them."""
    return "--json" in arguments[: arguments.index("--") if "--" in arguments else None]


def hint_of(error: StrongroomError) -> str:
    """The hint for an error. It names commands and options in place of Python calls."""
    if isinstance(error, VaultMissing):
        return "make one with `strongroom init`, or name another with --vault or STRONGROOM_VAULT"
    if isinstance(error, Tampered) and (not error.hint or "verify(" in error.hint):  # a hint for Python callers
        return "keep the files as they are and run `strongroom audit verify`, which names what is wrong"
    if isinstance(error, Denied) and not error.hint:
        return "`strongroom cap show` prints what the cap covers"
    return _in_shell_words(error.hint)


def _in_shell_words(hint: str) -> str:
    """The hint with commands and options in place of Python calls and arguments."""
    for theirs, ours in _SHELL_WORDS:
        hint = theirs.sub(ours, hint)
    return hint


def _usage(error: click.ClickException) -> ErrorDocument:
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"see `{error.ctx.command_path} --help`"
        if isinstance(error, UnknownVerb) and error.hint:
            hint = error.hint
        elif isinstance(error, click.NoSuchOption) and error.ctx.parent is None:
            hint = f"options of a verb go after the verb: `strongroom VERB {error.option_name} ...`"
    # click puts choices on lines of their own, and each line break would be shown as a code point
    return ErrorDocument("invalid", "usage", " ".join(error.format_message().split()), hint)


def _tell_bug(error: BaseException, *, as_json: bool) -> int:
    if os.environ.get("STRONGROOM_DEBUG") == "1":
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    # Only the type: the message of a foreign exception may hold a line's text.
    message = f"a defect in Strongroom: {type(error).__name__} was raised"
    _show(
        ErrorDocument("bug", "bug", message, "run the command again with STRONGROOM_DEBUG=1 and report the traceback"),
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
