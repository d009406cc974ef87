"""doctor: run numbered checks and say what to do about each problem. It changes nothing and writes no line.

Each check (see `vault_checks`, `server_checks` and `bucket_checks`) looks at one thing and ends with ok, warn or fail.
A check that depends on a failed check is skipped, so the first failure is the one to fix.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
import msgspec

from strongroom.cli import error_output, output
from strongroom.cli.app import command
from strongroom.cli.doctor.vault_checks import CHECKS, UNSEEN, CheckProblem, Patient
from strongroom.cli.run_context import Run, memory_options, pass_run, store_option
from strongroom.errors import StrongroomError, Tampered
from strongroom.model import pluralize
from strongroom.store import is_bucket

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "skip": None}


class CheckResult(msgspec.Struct, frozen=True):
    """The result of one check."""

    number: int
    name: str
    state: str
    message: str
    hint: str = ""
    reason: str = ""


@command(
    examples=[
        "strongroom doctor",
        "strongroom doctor --json",
        "strongroom doctor --url https://memory.example.org --cap-file agent.cap --use-cap",
    ]
)
@click.option(
    "--use-cap",
    is_flag=True,
    help="Also try the cap on the server: its log gets an entry `deny invalid_request`.",
)
@store_option
@memory_options
@pass_run
def doctor(run: Run, use_cap: bool) -> None:
    """Check the vault, its keys, its log and your cap, step by step.

    The command also works if there is no vault, or if the vault does not open. With --url, doctor checks a server and
    the cap that you would use there. With --store s3://bucket/prefix, it checks a bucket: it writes a few objects there
    and removes them again. Nothing else is changed. The log is checked only briefly; `audit verify` checks the whole
    log.

    The exit code is 0 if no check fails, and 6 if something was tampered with. It is 8 if the only problem is that
    there is no earlier checkpoint to compare the log with. It is 7 for any other failure.
    """
    checks, patient = _examined(run, use_cap)
    found = [_checked(run, number, name, look, patient) for number, (name, look) in enumerate(checks, start=1)]
    failed = [check for check in found if check.state == "fail"]
    run.answer({"ok": not failed, "checks": found}, _lines(found))
    if failed:
        raise error_output.CommandFailure(_code({check.reason for check in failed}))


def _code(reasons: set[str]) -> int:
    """The exit code for the reasons of failed checks. Tampering comes first; a missing checkpoint alone has its own
    code.
    """
    if Tampered.reason in reasons:
        return error_output.BY_FAMILY["tampered"]
    return error_output.UNSEEN if reasons == {UNSEEN} else error_output.BY_FAMILY["unavailable"]


def _examined(run: Run, use_cap: bool) -> tuple[Sequence[tuple[str, Callable[[Any], str]]], object]:
    """The checks to run, and the state that they share, for a vault, a bucket or a server."""
    if run.server is None:
        if use_cap:
            raise click.UsageError("--use-cap needs --url: a cap for a local vault is checked without using it")
        place = run.place or os.environ.get("STRONGROOM_VAULT") or ""
        if is_bucket(place):
            from strongroom.cli.doctor.bucket_checks import BUCKET_CHECKS, BucketPatient

            return BUCKET_CHECKS, BucketPatient(run, place)
        return CHECKS, Patient(run)
    from strongroom.cli.doctor.server_checks import SERVER_CHECKS
    from strongroom.cli.doctor.server_request import ServerPatient

    return SERVER_CHECKS, ServerPatient(run, run.server, use_cap)


def _checked(run: Run, number: int, name: str, look: Callable[[Any], str], patient: object) -> CheckResult:
    try:
        return CheckResult(number, name, "ok", look(patient))
    except CheckProblem as found:
        return CheckResult(number, name, found.state, found.message, run.placed(found.hint), found.reason)
    except StrongroomError as error:
        return CheckResult(number, name, "fail", error.message, run.placed(error_output.hint_of(error)), error.reason)
    except OSError as error:
        return CheckResult(number, name, "fail", f"the check could not run: {error.strerror or error}")


def _lines(found: list[CheckResult]) -> Iterator[str]:
    width = max(len(check.name) for check in found)
    for check in found:
        state = click.style(f"{check.state:4}", fg=_COLOURS[check.state])
        yield f"{check.number:2}  {state}  {check.name:{width}}  {output.indent(check.message, ' ' * (width + 12))}"
        if check.hint and check.state != "ok":
            yield f"{'':{width + 12}}{output.escape_invisible(check.hint)}"
    yield _summary([check.state for check in found])


def _summary(states: Sequence[str]) -> str:
    failed, warned = states.count("fail"), states.count("warn")
    if not failed + warned:
        return "all is well"
    counts = [f"{pluralize(failed, 'check')} failed"] if failed else []
    counts += [pluralize(warned, "warning")] if warned else []
    return f"{', '.join(counts)}. Fix {'it' if failed + warned == 1 else 'the first'}, then run doctor again."
