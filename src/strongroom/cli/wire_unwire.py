"""wire and unwire: set up a runtime to use the vault as its memory, step by step, and undo this set-up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from strongroom.cli import output, remote_memory
from strongroom.cli.app import Group
from strongroom.cli.argument_types import NAMES
from strongroom.cli.error_output import BUG, BY_FAMILY, CommandFailure
from strongroom.cli.run_context import Run, common_options, memory_options, pass_run
from strongroom.hermes.install.install_steps import WireStep
from strongroom.hermes.install.own_vaults import OwnVaults
from strongroom.hermes.install.unwire import unwire as take_away
from strongroom.hermes.install.wire import WireReport
from strongroom.hermes.install.wire import wire as set_up
from strongroom.hermes.install.wire_request import Machine, WireRequest
from strongroom.hermes.policy import Tools
from strongroom.keys import default_directory
from strongroom.vault import owner_cap
from strongroom.vault.vault import Vault

_START = "Start a new session of Hermes to use it."
_COLOURS = {"ok": "green", "warn": "yellow", "drift": "yellow", "fail": "red", "skip": None}
DRIFT = BUG
"""The exit code of --check-only if something needs changing: 1, as for `diff`."""

wire = Group("wire", help="Set up a runtime to use the vault as its memory.")
unwire = Group("unwire", help="Undo what `wire` set up in a runtime.")


class Wired(msgspec.Struct, frozen=True):
    """The result of wire or unwire. `drift` is true if --check-only found something that needs changing."""

    ok: bool
    changed: bool
    drift: bool
    homes: list[str]
    steps: list[WireStep]
    wall: str
    beyond: list[dict[str, str]]


def _home_options(command: Any) -> Any:
    for option in (
        click.option("--profile", metavar="NAME", help="The profile of Hermes; `all` means every profile."),
        click.option(
            "--home",
            metavar="DIR",
            help="The home directory of Hermes; by default HERMES_HOME, or .hermes in your home directory.",
        ),
    ):
        command = option(command)
    return command


@wire.command(
    "hermes",
    examples=[
        "strongroom wire hermes --check-only",
        "strongroom wire hermes --me telegram:123456789",
        "strongroom wire hermes --profile all --tools forget --json",
        "strongroom wire hermes --url https://memory.example.org --cap-file hermes.cap",
    ],
)
@_home_options
@click.option(
    "--me", multiple=True, metavar="PLATFORM:ID", help="An account of yours, such as telegram:123; repeatable."
)
@click.option(
    "--namespaces", type=NAMES, default=(), help="Only these namespaces; by default all that the vault or the cap has."
)
@click.option("--tools", type=click.Choice([tool.value for tool in Tools]), help="Which memory tools the model gets.")
@click.option("--no-masking", is_flag=True, help="Store passwords, keys and tokens as they were said, unmasked.")
@click.option("--python", metavar="FILE", help="The Python that runs Hermes; by default the one that `hermes` starts.")
@click.option("--check-only", is_flag=True, help="Change nothing; exit code 1 if something needs changing.")
@memory_options
@pass_run
def wire_hermes(run: Run, /, no_masking: bool, check_only: bool, me: tuple[str, ...], **asked: Any) -> None:
    """Set up Hermes: a cap, a policy, a plugin, and the setting in its config.yaml.

    Hermes opens the vault in its own process. If there is no vault in the usual place, a vault is made. With --url,
    Hermes asks a server instead, with the cap in --cap-file. Run the command again to repair a set-up: it changes only
    the parts that need it.
    """
    if run.cleartext:
        raise click.UsageError(
            "--allow-cleartext is not for an agent: its cap would cross the network unencrypted at every turn"
        )
    served = run.server is not None
    if run.cap_file == "-":
        raise click.UsageError("the agent's cap cannot come from stdin: give its file with --cap-file")
    request = WireRequest(
        vault=run.place,
        url=run.server,
        cap_file=run.cap_place if served else run.cap_file,
        ca_file=remote_memory.ca_file(run) if served else run.ca_file,
        me=me,
        masking=not no_masking,
        look_only=check_only,
        **asked,
    )
    report = set_up(request, _vaults(run), _machine())
    _tell(run, report)
    if check_only and (report.failure is not None or report.drifted):
        raise CommandFailure(DRIFT)
    _fail(report)


@unwire.command(
    "hermes",
    examples=["strongroom unwire hermes", "strongroom unwire hermes --profile all --purge --json"],
)
@_home_options
@click.option("--purge", is_flag=True, help="Also remove the policy and the turns that wait to be stored.")
@common_options
@pass_run
def unwire_hermes(run: Run, home: str | None, profile: str | None, purge: bool) -> None:
    """Restore Hermes' former provider, remove the plugin, and revoke the cap.

    The memory in the vault stays. The policy and the turns that wait to be stored are removed only with --purge.
    """
    report = take_away(WireRequest(home=home, profile=profile), _vaults(run), _machine(), purge=purge)
    _tell(run, report)
    _fail(report)


def _vaults(run: Run) -> OwnVaults:
    def made(vault: Vault) -> None:
        owner_cap.mint(vault, default_directory(vault.id))

    return OwnVaults(run.passphrase, made)


def _machine() -> Machine:
    return Machine(os.environ, Path.home(), _now)


def _now() -> float:
    return time.time()


def _fail(report: WireReport) -> None:
    if report.failure is not None:
        raise CommandFailure(BY_FAMILY[report.failure.family])


def _tell(run: Run, report: WireReport) -> None:
    beyond = [{"what": one.what, "closed_by": one.closed_by} for one in report.beyond]
    ok = report.failure is None and not report.drifted
    wired = Wired(ok, report.changed, report.drifted, report.homes, report.steps, report.wall, beyond)
    run.answer(wired, _lines(report))


def _lines(report: WireReport) -> Iterator[str]:
    width = max(len(step.name) for step in report.steps)
    several = len(report.homes) > 1
    for step in report.steps:
        state = click.style(f"{step.state:5}", fg=_COLOURS[step.state])
        where = f"{step.profile}: " if several and step.profile else ""
        message = output.indent(where + step.message, " " * (width + 13))
        yield f"{step.number:2}  {state}  {step.name:{width}}  {message}"
        if step.hint:
            yield f"{'':{width + 13}}{output.escape_invisible(step.hint)}"
    if report.wall and report.changed:
        yield ""
        if not report.is_new:
            yield f"{_START} What the gate does not protect is as before: `--json` and docs/hermes.md list it."
            return
        yield report.wall
        yield _START
        yield ""
        yield "What the gate does not protect in Hermes itself, and what closes it:"
        yield from (f"  {one.what}\n    {one.closed_by}" for one in report.beyond)
