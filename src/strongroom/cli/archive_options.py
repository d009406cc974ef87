"""Options of export, import, backup, restore and migrate: the passphrase of a file, path checks, progress bars."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from strongroom.cli.run_context import Run
from strongroom.errors import InvalidRequest, KeyUnavailable

VARIABLE = "STRONGROOM_EXPORT_PASSPHRASE_FILE"
F = TypeVar("F", bound=Callable[..., Any])
Told = Callable[[int, int], None]


def passphrase_option(command: F) -> F:
    """Add the option `--export-passphrase-file` to a command. `--passphrase-file` is for the vault's own keys."""
    return click.option(
        "--export-passphrase-file",
        metavar="FILE",
        help=f"A file with the passphrase of the exported file ({VARIABLE}); - is stdin. By default you are asked.",
    )(command)


def passphrase(run: Run, place: str | None, *, new: bool = False) -> str:
    """The passphrase of an exported file, read from a file or typed at a prompt. A new passphrase is typed twice."""
    place = place or os.environ.get(VARIABLE)
    if place:
        return run.secret(place, "passphrase")
    if not (sys.stdin.isatty() or sys.stderr.isatty()):
        raise KeyUnavailable(
            "the exported file needs a passphrase, and there is no terminal to ask for it",
            hint=f"name a file that holds the passphrase, with --export-passphrase-file or {VARIABLE}",
        )
    label = "New passphrase for the file" if new else "Passphrase of the file"
    answer: str = click.prompt(label, hide_input=True, confirmation_prompt=new, err=True)
    return answer


def check_place(file: Path, *, force: bool = False) -> None:
    """Raise before any work if the file exists (except with `force`) or its directory is missing."""
    if not force and file.exists():
        raise InvalidRequest(f"the file {file} already exists", hint="name another file")
    if not file.absolute().parent.is_dir():
        raise InvalidRequest(f"there is no directory {file.parent}")


@contextmanager
def bar(run: Run, label: str) -> Iterator[Told]:
    """A progress bar for work that reports how much is done and how much there is in total."""
    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        last = 0

        def told(done: int, whole: int) -> None:
            nonlocal advance, last
            if advance is None:
                advance = stack.enter_context(run.progress(label, whole))
            if done > last:  # if the work starts over, the bar waits instead of going back
                advance(done - last)
                last = done
            if last >= whole:
                stack.close()  # its line ends here, before the next bar begins

        yield told
