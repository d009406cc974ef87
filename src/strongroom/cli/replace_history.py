"""replace and history: correct a line, and show the versions that it had."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from strongroom.cli.app import command
from strongroom.cli.argument_types import NAMESPACE
from strongroom.cli.line_view import HitRow, hit_row
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.model import Receipt


@command(
    examples=[
        'strongroom replace 01JABCDEFGHJKMNPQRSTVWXYZ0 "Allergic to peanuts and walnuts"',
    ]
)
@click.argument("line", metavar="ID")
@click.argument("text", metavar="TEXT")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    help="The line's namespace; needed if lines of several namespaces have this id.",
)
@click.option("--forget", is_flag=True, help="Forget the old text as well.")
@memory_options
@pass_run
def replace(run: Run, line: str, text: str, namespace: str | None, forget: bool) -> None:
    """Correct a line: put a new line in its place.

    The old line is not recalled any more; `strongroom history` shows it. The new line keeps the other fields of the old
    line, apart from its time. If TEXT is -, it is read from stdin.
    """
    new = run.stdin("text").rstrip("\n") if text == "-" else text
    done: Receipt = run.ask(lambda memory: memory.replace(line, new, namespace=namespace, forget=forget))
    run.answer(done, f"replaced, in {done.namespace}  {done.id}")


class LineVersions(msgspec.Struct, frozen=True):
    """The versions of a line, oldest first."""

    versions: tuple[HitRow, ...]


@command(
    examples=["strongroom history 01JABCDEFGHJKMNPQRSTVWXYZ0", "strongroom history 01JABCDEFGHJKMNPQRSTVWXYZ0 --json"]
)
@click.argument("line", metavar="ID")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    help="The line's namespace; needed if lines of several namespaces have this id.",
)
@memory_options
@pass_run
def history(run: Run, line: str, namespace: str | None) -> None:
    """Show the versions of a line, oldest first. Name the line by the id of any version. The log records the versions
    as read.
    """
    found = run.ask(lambda memory: memory.history(line, namespace=namespace))
    rows = LineVersions(tuple(map(hit_row, found)))
    run.answer(rows, _shown(rows))


def _shown(rows: LineVersions) -> Iterator[str]:
    for row in rows.versions:
        yield f"{row.time:%Y-%m-%d %H:%M}  {row.id}  {row.text}"
