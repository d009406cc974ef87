"""scrub: remove the recalled text of forgotten lines from Hermes' own history, and what has ended from the vault.

`strongroom.hermes.scrub` finds and removes text in the database. This module runs the steps in order. For each speaker
in the history it asks the vault which lines still exist, with the runtime's own cap. The sweep of `scrub vault` is in
`strongroom.vault.ended_sweep`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import msgspec

from strongroom import model
from strongroom.cli import archive_options, output
from strongroom.cli.app import Group
from strongroom.cli.error_output import BY_FAMILY, CommandFailure
from strongroom.cli.run_context import Run, common_options, owner_options, pass_run, store_option
from strongroom.errors import InvalidRequest
from strongroom.hermes import hermes_homes
from strongroom.hermes import scrub as scrubbing
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install.install_steps import StepResult, Steps, StepState, WireStep
from strongroom.hermes.provider.provider_home import home_of
from strongroom.hermes.provider.speaker import Conversation, Nobody
from strongroom.hermes.scrub import Facts, Finished, Leftover, Scrubbed
from strongroom.hermes.scrub.state_db import FILE
from strongroom.memory import Memory
from strongroom.model import LineId, pluralize
from strongroom.vault.ended_sweep import Swept

_COLOURS = {"ok": "green", "warn": "yellow", "drift": "yellow", "fail": "red", "skip": None}

scrub = Group("scrub", help="Remove ended lines from the vault, and recalled text from a runtime.")


class Left(msgspec.Struct, frozen=True):
    """A file that may hold recalled text, and that scrub does not change."""

    what: str
    path: str


@dataclass(slots=True)
class _Work:
    """One Hermes home, and the findings of the steps. If `chosen` is None, the vault is asked which lines exist."""

    home: HermesHome
    chosen: frozenset[LineId] | None
    everything: bool
    dry: bool
    held: dict[Facts, set[LineId]] = field(default_factory=dict)
    gone: dict[Facts, set[LineId]] = field(default_factory=dict)
    done: Scrubbed = field(default_factory=lambda: Scrubbed(0, frozenset()))
    finished: Finished | None = None

    @property
    def path(self) -> Path:
        return self.home.path / FILE

    def steps(self) -> list[tuple[str, Callable[[], StepResult]]]:
        return [
            ("what was recalled", self.look),
            ("what still exists", self.ask),
            ("take it out", self.take_out),
            ("empty the log of changes", self.empty),
            ("rewrite the file", self.rewrite),
            ("look again", self.look_again),
        ]

    def look(self) -> StepResult:
        if not self.path.exists():
            return StepResult(StepState.SKIP, f"there is no {self.path}")
        self.held = scrubbing.find_recalled(self.path)
        lines = len(_all(self.held.values()))
        return StepResult(
            StepState.OK, f"{pluralize(lines, 'line')} in {pluralize(len(self.held), 'conversation')} of {self.path}"
        )

    def ask(self) -> StepResult:
        if not self.held:
            return StepResult(StepState.SKIP, "no recalled text was found")
        self.gone = {facts: self._gone(facts, ids) for facts, ids in self.held.items()}
        how = "(--all)" if self.everything else "(--id)" if self.chosen is not None else "that the vault does not have"
        return StepResult(StepState.OK, f"to remove: {pluralize(len(_all(self.gone.values())), 'line')} {how}")

    def _gone(self, facts: Facts, ids: set[LineId]) -> set[LineId]:
        if self.everything:
            return ids
        return ids & self.chosen if self.chosen is not None else ids - alive(self.home.path, facts, ids)

    def take_out(self) -> StepResult:
        if not any(self.gone.values()):
            return StepResult(StepState.SKIP, "there is nothing to remove")
        if self.dry:
            return StepResult(StepState.SKIP, "--dry-run: nothing is changed")
        # Lines recalled after the vault was asked may still exist, so only those in `gone` are removed.
        self.done = scrubbing.scrub(self.path, lambda facts, one: one in self.gone.get(facts, ()))
        lines, messages = len(self.done.gone), self.done.messages
        return StepResult(StepState.OK, f"removed {pluralize(lines, 'line')} from {pluralize(messages, 'message')}")

    def empty(self) -> StepResult:
        if self.dry or not self.path.exists():
            return StepResult(StepState.SKIP, "nothing is changed")
        self.finished = scrubbing.finish(self.path)
        if self.finished.is_emptied:
            return StepResult(StepState.OK, "done")
        return StepResult(
            StepState.WARN,
            "Hermes is reading the database, so its log of changes may still hold the text",
            "stop Hermes and run this again",
        )

    def rewrite(self) -> StepResult:
        if self.finished is None:
            return StepResult(StepState.SKIP, "nothing is changed")
        if self.finished.is_rewritten:
            return StepResult(StepState.OK, "done")
        hint = "stop Hermes and run this again; a running Hermes also keeps open conversations in memory"
        message = "Hermes has the database open, so pages that it freed may still hold the text"
        return StepResult(StepState.WARN, message, hint)

    def look_again(self) -> StepResult:
        if self.finished is None:
            return StepResult(StepState.SKIP, "nothing was changed")
        left = scrubbing.traces(self.path, frozenset(_all(self.gone.values())))
        if not left:
            return StepResult(StepState.OK, "no recalled text of these lines is left in the file")
        if self.finished.is_rewritten:
            return StepResult(
                StepState.WARN, f"text of {pluralize(len(left), 'line')} is left where a conversation quotes it"
            )
        return StepResult(
            StepState.WARN,
            f"text of {pluralize(len(left), 'line')} is left in the file",
            "stop Hermes and run this again",
        )


@scrub.command("vault", examples=["strongroom scrub vault", "strongroom scrub vault --store s3://bucket/team --json"])
@store_option
@owner_options
@pass_run
def scrub_vault(run: Run) -> None:
    """Forget every line and document whose life has ended, and remove its bytes from the store.

    Lines that expire are never recalled again, but they are deleted only when their memory is next in use, or by a
    server. This goes over all memories, with the keys of the vault. What it forgets is in the log, as `expire`. It can
    be stopped at any moment and run again; `doctor` shows how many lines and documents there are. An earlier version
    that has ended is taken out of the history of its document, and counts as one.

    A line is deleted 30 seconds after it has ended, so that no worker's clock is ahead of another's.
    """
    with archive_options.bar(run, "searching") as told:
        swept = run.vault().ended.forget(progress=told)
    run.answer(swept, _swept(run, swept))


def _swept(run: Run, swept: Swept) -> Iterator[str]:
    yield f"forgot {pluralize(swept.lines, 'line')} and {pluralize(swept.documents, 'document')}"
    if swept.damaged:
        yield f"{pluralize(swept.damaged, 'namespace')} could not be read: {run.command('audit verify')} says why"
    if swept.pending:
        yield "Pending: another process is reading the vault, or the bucket keeps old versions, so the store may still"
        yield f"hold their bytes. {run.command('doctor')} says what to do."


@scrub.command(
    "hermes",
    examples=[
        "strongroom scrub hermes --dry-run",
        "strongroom scrub hermes",
        "strongroom scrub hermes --profile all --all --json",
    ],
)
@click.option("--home", metavar="DIR", help="The home directory of Hermes (HERMES_HOME).")
@click.option("--profile", metavar="NAME", help="A profile of Hermes; `all` means every profile.")
@click.option("--all", "everything", is_flag=True, help="Remove all recalled text, without asking the vault.")
@click.option(
    "--id", "ids", multiple=True, metavar="ID", help="Remove this line, without asking the vault; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@common_options
@pass_run
def scrub_hermes(
    run: Run, home: str | None, profile: str | None, everything: bool, ids: tuple[str, ...], dry_run: bool
) -> None:
    """Remove the recalled text of forgotten lines from Hermes' state.db.

    Hermes stores what it sends to a model, including recalled lines and tool results. Only recalled text is removed,
    not the conversation itself. The agent's own cap is used to ask which lines still exist. Backups, snapshots, logs
    and exports are only listed: delete these files yourself if they may hold forgotten text.
    """
    if everything and ids:
        raise click.UsageError("--all and --id cannot be combined")
    chosen = frozenset(map(model.line_id, ids)) if ids else None
    steps, left = Steps(), list[Leftover]()
    for one in hermes_homes.find(home, profile, os.environ, Path.home()):
        work = _Work(one, chosen, everything, dry_run)
        steps.run(work.steps(), one.profile)
        left += scrubbing.leftovers(one.path, Path.home())
    found = [Left(one.what, str(one.path)) for one in dict.fromkeys(left)]
    document = {"ok": not steps.failed, "steps": [asdict(step) for step in steps.done], "out_of_reach": found}
    run.answer(document, _lines(steps.done, found))
    failed = next((step for step in steps.done if step.state is StepState.FAIL), None)
    if failed is not None:
        raise CommandFailure(BY_FAMILY[failed.family])


def alive(home: Path, facts: Facts, ids: set[LineId]) -> set[LineId]:
    """Those of the given lines that the conversation's speaker can still recall. Empty if the speaker is not known."""
    one = home_of(home)
    if not one.policy.is_wired:
        raise InvalidRequest(
            f"the home {home} is not wired, so the vault cannot be asked which lines still exist",
            hint="run `strongroom wire hermes` first, or remove all recalled text with --all",
        )
    speaker = one.whose(Conversation(**asdict(facts)))
    return set() if isinstance(speaker, Nobody) else one.look.ask(speaker.actor, lambda memory: _there(memory, ids))


def _there(memory: Memory, ids: set[LineId]) -> set[LineId]:
    found: set[LineId] = set()
    last = max(ids)
    after: str | None = None
    while True:
        page = memory.list(limit=model.LIST_LIMIT, after=after)
        found.update(LineId(info.id) for info in page.lines if info.id in ids)
        if page.next is None or page.lines[-1].id > last:
            return found
        after = page.next


def _all(sets: Iterable[set[LineId]]) -> set[LineId]:
    return set().union(*sets)


def _lines(steps: list[WireStep], left: list[Left]) -> Iterator[str]:
    width = max(len(step.name) for step in steps)
    for step in steps:
        state = click.style(f"{step.state:4}", fg=_COLOURS[step.state])
        yield f"{step.number:2}  {state}  {step.name:{width}}  {output.escape_invisible(step.message)}"
        if step.hint:
            yield f"{'':{width + 12}}{output.escape_invisible(step.hint)}"
    if left:
        yield "Not changed; delete these yourself if they may hold forgotten text:"
        yield from (f"  {one.what}: {output.one_line(one.path)}" for one in left)
