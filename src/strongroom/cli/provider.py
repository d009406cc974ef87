"""provider: list, set up and check memory providers written for Hermes, by Strongroom or by other people."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import click
import msgspec

from strongroom.cli import output
from strongroom.cli.app import Group
from strongroom.cli.error_output import BY_FAMILY, CommandFailure
from strongroom.cli.run_context import Run, common_options, pass_run
from strongroom.errors import InvalidRequest
from strongroom.host.conformance import Report, Result, check
from strongroom.host.conformance.provider_under_test import placed, with_environment
from strongroom.host.conformance.runner import chosen
from strongroom.host.plugins import discovery, env_file, provider_setup
from strongroom.host.plugins.hermes_stubs import get_hermes_home
from strongroom.model import pluralize

_COLOURS = {"pass": "green", "FAIL": "red", "n/a": "yellow"}
_HOME = click.option(
    "--home", metavar="DIR", help="The runtime's home; by default HERMES_HOME, or .hermes in your home directory."
)


class ProviderRow(msgspec.Struct, frozen=True):
    """A provider that was found, as the JSON answer shows it."""

    name: str
    where: str
    description: str
    available: bool | None
    """None if this is not known, because --look-only runs no code of the provider."""
    reason: str
    note: str = ""
    """The fault of the provider's manifest, if it has one. A faulty manifest never keeps a provider from loading."""
    can_be_set_up: bool = False


class SkippedPlugin(msgspec.Struct, frozen=True):
    """A plugin that looks like a provider but is skipped by hosts."""

    name: str
    reason: str


@click.group(cls=Group)
def provider() -> None:
    """List, set up and check memory providers."""


@provider.command("list", examples=["strongroom provider list", "strongroom provider list --look-only --json"])
@_HOME
@click.option("--look-only", is_flag=True, help="Run no code of providers; whether they are available stays unknown.")
@common_options
@pass_run
def list_providers(run: Run, home: str | None, look_only: bool) -> None:
    """List the providers that a host would find. For a provider that is not available, the reason is shown.

    Providers bundled with an installed Hermes come first, then providers in `plugins` of the home, then installed
    packages. Each provider is loaded to find out whether it is available. This runs the provider's code.
    """
    place = _home(home)
    if not look_only:
        env_file.apply(place)  # as a host does before it loads providers
    with _unheard():
        found = [_listed(one, place, look_only) for one in discovery.find_plugins(place)]
    skipped = [SkippedPlugin(_as_text(one.found.name), one.reason) for one in discovery.find_skipped(place)]
    lines = list(_rows(found)) or ["no providers were found"]
    lines += [f"{_in_a_row(one.name)} is skipped by every host: {_in_a_row(one.reason)}" for one in skipped]
    run.answer({"home": _as_text(str(place)), "providers": found, "skipped": skipped}, lines)


@provider.command(
    "setup",
    examples=[
        "strongroom provider setup my-provider",
        "strongroom provider setup my-provider --home agent-home --json",
    ],
)
@click.argument("name")
@_HOME
@common_options
@pass_run
def set_up(run: Run, name: str, home: str | None) -> None:
    """Set up the provider NAME: ask its questions and save the answers.

    Secrets are written only to `.env` in the home, with mode 0600; the provider itself saves the rest. An empty answer
    takes the default, or keeps an existing secret.
    """
    place = _home(home)
    done = provider_setup.set_up(discovery.load(name, place).sample(), place, Terminal())
    kept = {"provider": name, "by_provider": done.by_provider, "values": sorted(done.values), "lost": done.lost}
    run.answer({**kept, "variables": done.variables}, _told(name, done))
    if done.lost:
        run.note(f"warning: not saved, because {name} has no save_config of its own: {', '.join(done.lost)}")


@provider.command(
    "check",
    examples=[
        "strongroom provider check ./my-provider",
        "strongroom provider check my-provider --only two-users --only killed",
        "strongroom provider check ./my-provider --env MY_URL=http://127.0.0.1:9000 --file settings.json:my.json",
    ],
)
@click.argument("said", metavar="NAME|PATH")
@_HOME
@click.option("--only", metavar="ID", multiple=True, help="Run only this check; may be repeated.")
@click.option(
    "--env",
    "pairs",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set an environment variable for the provider; NAME alone passes on your value.",
)
@click.option("--file", "files", metavar="FILE:PLACE", multiple=True, help="Copy FILE to PLACE in the provider's home.")
@click.option(
    "--patience", type=click.FloatRange(0.1, 600), default=5.0, help="Seconds to wait until stored text is recalled."
)
@click.option("--keep", metavar="DIR", help="Keep the homes, all output and tracebacks in this new directory.")
@click.option("--markdown", is_flag=True, help="Answer with a table in Markdown.")
@common_options
@pass_run
def check_provider(
    run: Run,
    said: str,
    home: str | None,
    only: tuple[str, ...],
    pairs: tuple[str, ...],
    files: tuple[str, ...],
    patience: float,
    keep: str | None,
    markdown: bool,
) -> None:
    """Check a provider against the conformance kit: by its NAME, or by the PATH of its directory or Python file.

    Each check runs in its own process with a private home and ends with pass, FAIL or n/a (not applicable), and the
    reason. NAME is looked up in --home; only the plugin is copied from there. Name a factory as `module:attribute`.
    From your environment, the provider gets only the variables that --env names. Give secrets by name alone, because
    other users can read a command line.

    The exit code is 0 if no check failed. It is 7 if a check failed, or if the provider does not load or is not
    available. If the provider never recalls a stored line, a note says what could not be tested. This runs the
    provider's code: the kit protects you from faults, not from malice.
    """
    if markdown and run.json:
        raise click.UsageError("--json and --markdown cannot be combined")
    given = tuple(placed(one) for one in files)
    subject = with_environment(said, pairs, home=_home(home), files=given, patience=patience)
    with watch_checks(run, len(chosen(only))) as (beginning, ended):
        report = check(subject, only=only, beginning=beginning, progress=ended, keep=_made(keep))
    run.answer(report.document(), report.markdown() if markdown else list(_coloured(report)))
    if report.failed:
        raise CommandFailure(BY_FAMILY["unavailable"])


@contextmanager
def watch_checks(run: Run, length: int) -> Iterator[tuple[Callable[[str], None], Callable[[Result], None]]]:
    """Functions to call at the start and the end of each check. They show a progress bar, or a line for each check.

    The progress bar needs a terminal.
    """
    if run.json or not sys.stderr.isatty():
        ended = itertools.count(1)
        yield lambda _: None, lambda one: run.note(f"{next(ended)}/{length} {one.check.id}: {one.outcome}")
        return
    with click.progressbar(length=length, label="checking", file=sys.stderr, item_show_func=lambda name: name) as bar:

        def begin(name: str) -> None:
            bar.current_item = name
            bar.render_progress()

        yield begin, lambda _: bar.update(1)


class Terminal:
    """Asks the questions of a provider's set-up on the terminal. The questions are shown as data, because the provider
    wrote them.
    """

    def ask(self, text: str, default: str) -> str:
        return str(click.prompt(output.escape_invisible(text), default=default, show_default=bool(default), err=True))

    def secret(self, text: str) -> str:
        return str(
            click.prompt(output.escape_invisible(text), default="", show_default=False, hide_input=True, err=True)
        )

    def choose(self, text: str, choices: Sequence[str], default: str) -> str:
        return str(
            click.prompt(output.escape_invisible(text), type=click.Choice(choices), default=default or None, err=True)
        )


def _home(given: str | None) -> Path:
    return Path(given).expanduser().resolve() if given else get_hermes_home()


def _listed(one: discovery.FoundPlugin, home: Path, look_only: bool) -> ProviderRow:
    known = (_as_text(one.name), one.where, one.description)
    if look_only:
        return ProviderRow(*known, None, "", one.manifest.problem)
    seen = discovery.examine(one, home)
    return ProviderRow(*known, seen.available, seen.reason, one.manifest.problem, seen.can_be_set_up)


def _rows(found: Sequence[ProviderRow]) -> Iterator[str]:
    if found:
        states = {True: "available", False: "not available", None: "not checked"}
        rows = ((one.name, one.where, states[one.available], _why(one)) for one in found)
        yield from output.table([_in_a_row(cell) for cell in row] for row in rows)


@contextmanager
def _unheard() -> Iterator[None]:
    """Discard the output of plugins, from Python and from other code, because it could contain terminal controls."""
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        kept = {number: os.dup(number) for number in (1, 2)}
        try:
            for number in kept:
                os.dup2(nowhere.fileno(), number)
            yield
        finally:
            for number, before in kept.items():
                os.dup2(before, number)
                os.close(before)


def _in_a_row(text: str) -> str:
    """A plugin's text, made safe for one cell of a table."""
    return output.escape_invisible(text).replace("\n", "<U+000A>").replace("\t", "<U+0009>")


def _as_text(name: str) -> str:
    """A file name as text. Bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _why(one: ProviderRow) -> str:
    set_up = f"`strongroom provider setup {one.name}` asks for what it needs" if one.can_be_set_up else ""
    return "; ".join(filter(None, (one.reason, set_up, one.note)))


def _told(name: str, done: provider_setup.SetupResult) -> Iterator[str]:
    if done.by_provider:
        yield f"{output.escape_invisible(name)} set itself up"
        return
    kept = f"it saved {pluralize(len(done.values), 'value')}" if not done.lost else "it saved nothing"
    yield f"{output.escape_invisible(name)} is set up: {kept}"
    if done.variables:
        yield f".env holds {', '.join(map(output.escape_invisible, done.variables))}"
    if done.tightened:
        yield ".env could be read by other users; now only you can read it"


def _made(keep: str | None) -> Path | None:
    if keep is None:
        return None
    place = Path(keep).resolve()
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise InvalidRequest(f"the directory {keep} is not empty", hint="name a new directory")
    return place


def _coloured(report: Report) -> Iterator[str]:
    for line in report.text().split("\n"):
        word = line.partition(" ")[0]
        yield (
            click.style(word, fg=_COLOURS[word]) + line[len(word) :]
            if word in _COLOURS
            else output.escape_invisible(line)
        )
