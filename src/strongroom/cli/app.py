"""The root of the command line: the table of verbs (commands such as `put`), their lazy loading, and the top-level
error handler.

A verb's module is imported only when that verb runs. The table holds the one-line help of each verb, so that
`strongroom --help` imports no verb.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, TypeVar

import click

from strongroom.cli import error_output, output
from strongroom.cli.run_context import Run, common_options
from strongroom.cli.unknown_verb import UnknownVerb
from strongroom.errors import InvalidRequest, StrongroomError

_TOKEN = "eyJhbGciOiJFZDI1NTE5IiwidHlwIjoic3Ryb25ncm9vbS1jYXAifQ."  # noqa: S105 - how every cap starts
F = TypeVar("F", bound=Callable[..., Any])

VERBS = {
    "init": ("strongroom.cli.init_namespaces:init", "Make a vault, its keys and your own cap."),
    "put": ("strongroom.cli.put_get_list:put", "Remember a text."),
    "get": ("strongroom.cli.put_get_list:get", "Recall what fits a question."),
    "replace": ("strongroom.cli.replace_history:replace", "Correct a line."),
    "history": ("strongroom.cli.replace_history:history", "Show the versions of a line."),
    "list": ("strongroom.cli.put_get_list:list_lines", "List lines, with or without their texts."),
    "snapshot": ("strongroom.cli.snapshot_profile:snapshot", "Show the profiles for a system prompt."),
    "profile": ("strongroom.cli.snapshot_profile:profile", "Read and write the profile of a namespace."),
    "document": ("strongroom.cli.document_verbs:document", "Read and write documents: named texts with a history."),
    "route": ("strongroom.cli.route:route", "Explain which namespace a text would go to."),
    "namespaces": ("strongroom.cli.init_namespaces:namespaces", "List the vault's namespaces, or add one."),
    "cap": ("strongroom.cli.cap:cap", "Mint, narrow, renew, show, revoke and list caps."),
    "audit": ("strongroom.cli.audit:audit", "Read, verify and prove the log."),
    "export": ("strongroom.cli.archive_verbs:export_lines", "Write lines into an encrypted archive."),
    "import": ("strongroom.cli.archive_verbs:import_lines", "Read lines from an archive."),
    "backup": ("strongroom.cli.backup_restore_rotate:backup", "Copy the vault while it is in use."),
    "restore": ("strongroom.cli.backup_restore_rotate:restore", "Restore a vault from a backup."),
    "migrate": ("strongroom.cli.migrate:migrate", "Move a vault into a bucket, or out of one."),
    "upgrade": ("strongroom.cli.upgrade:upgrade", "Raise the vault's format, for lines with tags and more."),
    "rotate": ("strongroom.cli.backup_restore_rotate:rotate", "Replace keys."),
    "doctor": ("strongroom.cli.doctor.doctor:doctor", "Check the vault, its keys, its log and your cap."),
    "forget": ("strongroom.cli.forget_erase:forget", "Forget lines for good."),
    "erase": ("strongroom.cli.forget_erase:erase", "Destroy whole namespaces and their keys."),
    "serve": ("strongroom.cli.serve:serve", "Serve the vault to others, over HTTP and MCP."),
    "mcp": ("strongroom.cli.mcp:mcp", "Serve memory to one MCP client, on stdin and stdout."),
    "provider": ("strongroom.cli.provider:provider", "List, set up and check memory providers."),
    "wire": ("strongroom.cli.wire_unwire:wire", "Set up a runtime to use the vault as its memory."),
    "unwire": ("strongroom.cli.wire_unwire:unwire", "Undo what `wire` set up in a runtime."),
    "hook": ("strongroom.cli.hook:hook", "Answer the shell hooks of a runtime."),
    "scrub": ("strongroom.cli.scrub:scrub", "Remove ended lines from the vault, and recalled text from a runtime."),
    "demo": ("strongroom.cli.demo:demo", "See recall, denials and the log at work."),
    "completion": ("strongroom.cli.completion:completion", "Print the completion script of your shell."),
}
"""The table of verbs: where the command of each verb is, and its one-line help. The help lists them in this order."""


class VerbCommand(click.Command):
    """A command whose help ends with examples. Each example can be run as shown."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Group(click.Group):
    """A verb with subcommands, such as `cap`."""

    command_class = VerbCommand


class Verbs(click.Group):
    """The root command. It finds a verb in the table, and turns every error into an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [name for name in VERBS if _is_there(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if not _is_there(cmd_name):
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise UnknownVerb(args[0], self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, VERBS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Nothing more can be written; the interpreter would try once more when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise error_output.CommandFailure(error_output.BROKEN_PIPE) from None
        except StrongroomError as error:
            error.hint = ctx.ensure_object(Run).placed(error_output.hint_of(error))
            raise
        return answer

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command line and exit with its code."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        extra.setdefault("color", None if output.colours_allowed() else False)
        try:
            _refuse_tokens(arguments)
            code = super().main(arguments, *rest, **extra)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the top-level handler
            code = error_output.tell(error, as_json=error_output.wants_json(arguments))
        sys.exit(code if isinstance(code, int) else 0)


def command(name: str | None = None, *, examples: Sequence[str], **attributes: Any) -> Callable[[F], VerbCommand]:
    """Declare a command with examples. The short help of a verb comes from the table."""
    return click.command(name, cls=VerbCommand, examples=examples, **attributes)


def _is_there(verb: str) -> bool:
    return verb in VERBS and find_spec(VERBS[verb][0].partition(":")[0]) is not None


def _refuse_tokens(arguments: Sequence[str]) -> None:
    """Refuse a cap among the arguments, because every process on this machine can read them."""
    if any(_TOKEN in argument for argument in arguments):
        raise InvalidRequest(
            "a cap was given on the command line, where other processes can read it",
            hint="revoke that cap; put a new cap into a file of mode 0600 and name the file with --cap-file",
        )


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(version("strongroom"), prog_name="strongroom", message="%(prog)s %(version)s")
@common_options
def app() -> None:
    """Gated, encrypted, audited memory for AI agents.

    A cap says whose memory a command reaches, with which operations and in which namespaces. `strongroom init` makes
    your own cap; to use another cap, name it with --cap-file, STRONGROOM_CAP_FILE or STRONGROOM_CAP. With --url or
    STRONGROOM_URL, the command asks a server instead of opening the vault.
    """


__all__ = ["VERBS", "Group", "Run", "VerbCommand", "Verbs", "app", "command"]
