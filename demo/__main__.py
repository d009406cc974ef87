"""`python -m demo`, from the root of a checkout: the long demonstration, a story in numbered steps."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from demo import report, stage
from demo.report import ALLOWED, SKIP
from demo.stage import Stage
from demo.steps import STEPS
from strongroom.cli import error_output, installed_extras, output
from strongroom.cli.app import VerbCommand
from strongroom.cli.demo import Played
from strongroom.cli.demo_stage import FAIL, OK, StepOutcome, temporary_directory
from strongroom.cli.error_output import BUG, CommandFailure
from strongroom.cli.run_context import Run, pass_run
from strongroom.errors import InvalidRequest
from strongroom.store import is_bucket

_COLOURS = {OK: "green", SKIP: "yellow", FAIL: "red"}
_MARGIN = "        "


class Demonstration(VerbCommand):
    """A command outside `strongroom`, whose errors are told as its are."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command line and exit with its code."""
        arguments = list(sys.argv[1:] if args is None else args)
        extra.update(standalone_mode=False, color=None if output.colours_allowed() else False)
        try:
            code = super().main(arguments, *rest, **extra)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the top-level handler
            code = error_output.tell(error, as_json=error_output.wants_json(arguments))
        sys.exit(code if isinstance(code, int) else 0)


@click.command(
    cls=Demonstration,
    examples=[
        "python -m demo",
        "python -m demo --json",
        "python -m demo --keep",
        "python -m demo --require-extras --hermes hermes/.venv/bin/python",
        "python -m demo --store s3://bucket/prefix",
    ],
)
@click.option("--json", "as_json", is_flag=True, help="Answer with one JSON document.")
@click.option("--keep", is_flag=True, help="Keep the vault, keys and caps of the demonstration, and say where.")
@click.option(
    "--require-extras",
    is_flag=True,
    help="Fail where the server, MCP, S3 or Hermes is not installed; else skip that.",
)
@click.option(
    "--hermes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PYTHON",
    help="The Python of an environment with hermes-agent; by default this one, if it has it.",
)
@click.option(
    "--store",
    default="",
    metavar="S3",
    help="Show the fleet too, below a new prefix of s3://bucket/prefix, which is removed afterwards.",
)
@pass_run
def demo(run: Run, as_json: bool, keep: bool, require_extras: bool, hermes: Path | None, store: str) -> None:
    """Show recall, denials, tampering, a server, MCP, a fleet on S3, hosted providers, Hermes, forget and erase.

    Each step runs in fresh processes, in a temporary directory of its own, and touches no vault, key or setting of
    yours. It is ok, is skipped for a reason that is on a list, or fails with what was expected and what came. Exit
    code 0 only if all is green, else 1. The login of a bucket is found as by any command, and is never shown.
    """
    run.json = run.json or as_json
    if store and not is_bucket(store):
        raise InvalidRequest("--store names a bucket", hint="write --store s3://bucket/prefix")
    if store and installed_extras.is_installed("s3"):
        _try(store)
    with temporary_directory(keep=keep) as scratch:
        opened = stage.opened(
            scratch,
            datetime.now(UTC).date(),
            require_extras=require_extras,
            hermes=hermes,
            store=store,
            keep=keep,
            tell=partial(_tell, run),
        )
        try:
            with opened as set_up:
                played = _play(run, set_up)
        finally:
            if keep:
                run.note(f"the demonstration's files are kept in {scratch}")
    run.answer(played, played.summary)
    if not played.ok:
        raise CommandFailure(BUG)


def _try(store: str) -> None:
    """Make sure that a bucket will do, before anything else is shown."""
    from strongroom.store.s3 import bucket_at  # needs the extra

    bucket_at(store.partition("://")[2])


def _tell(run: Run, text: str) -> None:
    if not run.json:
        click.secho(f"{_MARGIN}{text} ...", err=True, dim=True)


def _play(run: Run, set_up: Stage) -> Played:
    outcomes: list[StepOutcome] = []
    run.note(f"{len(STEPS)} steps; the question about the weekend is asked on {set_up.now:%Y-%m-%d}, a Monday")
    skips: list[StepOutcome] = []
    for outcome in report.performed(STEPS, set_up):
        outcomes.append(outcome)
        if run.json:
            continue
        if skips and (outcome.state != SKIP or outcome.reason != skips[0].reason):
            _show_skips(skips)
            skips = []
        if outcome.state == SKIP:
            skips.append(outcome)
        else:
            _show(outcome)
    if skips:
        _show_skips(skips)
    found = report.complete(STEPS, outcomes)
    kept = str(set_up.scratch) if set_up.keep else None
    return Played(report.is_green(found), set_up.now, found, report.summary(found), kept)


def _show(outcome: StepOutcome) -> None:
    if chapter := STEPS[outcome.number - 1].chapter:
        click.secho(f"{_MARGIN}{chapter}", bold=True)
    for line in _lines(outcome):
        click.echo(line)


def _show_skips(skips: list[StepOutcome]) -> None:
    """Steps that follow each other and are left out for one reason: in one line, if there are several."""
    first, last = skips[0], skips[-1]
    if first is last:
        _show(first)
        return
    state = click.style(SKIP, fg=_COLOURS[SKIP])
    told = f"{first.reason} ({ALLOWED.get(first.reason, '')}): {len(skips)} steps"
    click.echo(f"{first.number:2}-{last.number}  {state}  {told}")


def _lines(outcome: StepOutcome) -> Iterator[str]:
    state = click.style(f"{outcome.state:4}", fg=_COLOURS[outcome.state])
    reason = f"{outcome.reason} ({ALLOWED.get(outcome.reason, '')}): " if outcome.reason else ""
    yield f"{outcome.number:2}  {state}  {reason}{output.indent(outcome.sentence, _MARGIN)}"
    for line in outcome.seen:
        yield f"{_MARGIN}{output.indent(line, _MARGIN)}"
    if outcome.state == FAIL:
        yield f"{_MARGIN}expected: {output.indent(outcome.expected, _MARGIN)}"
        yield f"{_MARGIN}came:     {output.indent(outcome.came, _MARGIN)}"


if __name__ == "__main__":
    demo.main(prog_name="python -m demo")
