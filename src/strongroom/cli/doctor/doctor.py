"""doctor: numbered checks in plain words, each with what to do. It changes nothing and writes no line.

Each check (see `vault_checks` and `server_checks`) looks at one thing and says ok, warn or fail. One that
needs what an earlier one did not find says skip, so that the first fail is the one to mend.
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
from strongroom.store import is_bucket

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "skip": None}


class CheckResult(msgspec.Struct, frozen=True):
    """What one check found."""

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
    help="Show the cap to the server as well: that leaves an entry `deny invalid_request` in its log.",
)
@store_option
@memory_options
@pass_run
def doctor(run: Run, use_cap: bool) -> None:
    """Check, step by step, that the vault, its keys, its log and your cap are as they should be.

    Works also where there is no vault, or none that opens. With --url it is a server that is looked at, and the cap
    that you would show it; with --store s3://bucket/prefix a bucket, in which what is tried is removed again. Nothing
    else is changed. Exit code 0 if no check fails, 6 if something was tampered with, 8 if the one thing that fails is
    that no checkpoint was kept to compare the log with, 7 otherwise. The log is looked at only briefly: `audit verify`
    checks it all.
    """
    checks, patient = _examined(run, use_cap)
    found = [_checked(run, number, name, look, patient) for number, (name, look) in enumerate(checks, start=1)]
    failed = [check for check in found if check.state == "fail"]
    run.answer({"ok": not failed, "checks": found}, _lines(found))
    if failed:
        raise error_output.CommandFailure(_code({check.reason for check in failed}))


def _code(reasons: set[str]) -> int:
    """The exit code: tampering comes first, and a missing checkpoint alone has its own."""
    if Tampered.reason in reasons:
        return error_output.BY_FAMILY["tampered"]
    return error_output.UNSEEN if reasons == {UNSEEN} else error_output.BY_FAMILY["unavailable"]


def _examined(run: Run, use_cap: bool) -> tuple[Sequence[tuple[str, Callable[[Any], str]]], object]:
    """Who is looked at, and how."""
    if run.server is None:
        if use_cap:
            raise click.UsageError("--use-cap is for --url: a vault's own cap is looked at without using it")
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
        return CheckResult(number, name, "fail", f"it cannot be looked at: {error.strerror or error}")


def _lines(found: list[CheckResult]) -> Iterator[str]:
    width = max(len(check.name) for check in found)
    for check in found:
        state = click.style(f"{check.state:4}", fg=_COLOURS[check.state])
        yield f"{check.number:2}  {state}  {check.name:{width}}  {output.indent(check.message, ' ' * (width + 12))}"
        if check.hint and check.state != "ok":
            yield f"{'':{width + 12}}{output.escape_invisible(check.hint)}"
    counts = [(sum(check.state == state for check in found), state) for state in ("fail", "warn")]
    bad = ", ".join(f"{count} {state}" for count, state in counts if count)
    yield f"{bad}: fix the first one, then run doctor again" if bad else "all is well"
