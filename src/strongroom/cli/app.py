"""The root of the command line: the table of verbs, how they load, and the one place where errors end.

A verb's module is imported when the verb is asked for. The table holds each verb's one-line help, so that the list of
verbs needs none of them.
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

from strongroom.cli import errors, output
from strongroom.cli.context import Run, common_options
from strongroom.cli.pointers import UnknownVerb
from strongroom.errors import InvalidRequest, StrongroomError

_TOKEN = "eyJhbGciOiJFZDI1NTE5IiwidHlwIjoic3Ryb25ncm9vbS1jYXAifQ."  # noqa: S105 - how every cap starts
F = TypeVar("F", bound=Callable[..., Any])

VERBS = {
    "init": ("strongroom.cli.setup:init", "Make a vault, its keys and your own cap."),
    "put": ("strongroom.cli.memory:put", "Remember a text."),
    "get": ("strongroom.cli.memory:get", "Recall what fits a question."),
    "list": ("strongroom.cli.memory:list_lines", "List lines without their texts."),
    "snapshot": ("strongroom.cli.profiles:snapshot", "Show the profiles for a system prompt."),
    "profile": ("strongroom.cli.profiles:profile", "Read and write the profile of a namespace."),
    "route": ("strongroom.cli.route:route", "Explain which namespace a text would go to."),
    "namespaces": ("strongroom.cli.setup:namespaces", "List the vault's namespaces, or add one."),
    "cap": ("strongroom.cli.caps:cap", "Mint, narrow, renew, show, revoke and list caps."),
    "audit": ("strongroom.cli.audit:audit", "Read, verify and prove the log."),
    "export": ("strongroom.cli.archives:export_lines", "Write lines into an encrypted archive."),
    "import": ("strongroom.cli.archives:import_lines", "Read lines from an archive."),
    "backup": ("strongroom.cli.keeping:backup", "Copy the vault while it is in use."),
    "restore": ("strongroom.cli.keeping:restore", "Put a backup in a vault's place."),
    "migrate": ("strongroom.cli.moving:migrate", "Move a vault into a bucket, or out of one."),
    "rotate": ("strongroom.cli.keeping:rotate", "Replace keys."),
    "doctor": ("strongroom.cli.doctor:doctor", "Check that all is as it should be."),
    "forget": ("strongroom.cli.forgetting:forget", "Forget lines for good."),
    "erase": ("strongroom.cli.forgetting:erase", "Destroy namespaces with their keys."),
    "serve": ("strongroom.cli.serve:serve", "Serve the vault to others, over HTTP and MCP."),
    "mcp": ("strongroom.cli.mcp:mcp", "Serve memory to one MCP client, on stdin and stdout."),
    "provider": ("strongroom.cli.providers:provider", "List, set up and check memory providers."),
    "wire": ("strongroom.cli.wire:wire", "Set a runtime up to remember through the gate."),
    "unwire": ("strongroom.cli.wire:unwire", "Take a runtime's wiring away."),
    "hook": ("strongroom.cli.hook:hook", "What a runtime's shell hooks call."),
    "scrub": ("strongroom.cli.scrub:scrub", "Take recalled text out of a runtime's own history."),
    "demo": ("strongroom.cli.demo:demo", "See recall, denials and the log at work."),
    "completion": ("strongroom.cli.completion:completion", "Print the completion script of your shell."),
}
"""Each verb: where its command is, and what it does in one line. The order is that of the help."""


class Command(click.Command):
    """A command whose help ends with examples that can be run as they stand."""

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
    """A verb with verbs of its own, such as `cap`."""

    command_class = Command


class Verbs(click.Group):
    """The root: finds a verb in the table, and turns every error into an exit code."""

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
            raise errors.Failure(errors.BROKEN_PIPE) from None
        except StrongroomError as error:
            error.hint = ctx.ensure_object(Run).placed(errors.hint_of(error))
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
            code = errors.tell(error, as_json=errors.wants_json(arguments))
        sys.exit(code if isinstance(code, int) else 0)


def command(name: str | None = None, *, examples: Sequence[str], **attributes: Any) -> Callable[[F], Command]:
    """Declare a command with examples; its short help comes from the table if it is a verb."""
    return click.command(name, cls=Command, examples=examples, **attributes)


def _is_there(verb: str) -> bool:
    return verb in VERBS and find_spec(VERBS[verb][0].partition(":")[0]) is not None


def _refuse_tokens(arguments: Sequence[str]) -> None:
    """Refuse a cap on the command line: every process of this machine can read it there."""
    if any(_TOKEN in argument for argument in arguments):
        raise InvalidRequest(
            "a cap does not belong on a command line, where others can read it",
            hint="put it into a file of mode 0600 and name that with --cap-file; revoke the one you typed",
        )


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(version("strongroom"), prog_name="strongroom", message="%(prog)s %(version)s")
@common_options
def app() -> None:
    """Gated, encrypted, audited memory for AI agents.

    Whose memory, which operations and which namespaces: a cap says it. Yours is made by `strongroom init`; another is
    named with --cap-file, STRONGROOM_CAP_FILE or STRONGROOM_CAP. With --url or STRONGROOM_URL a server is asked.
    """


__all__ = ["VERBS", "Command", "Group", "Run", "Verbs", "app", "command"]
