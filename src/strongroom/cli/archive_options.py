"""What the verbs share that take something out of the vault or bring it back: a passphrase of its own, and progress."""

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
    """`--export-passphrase-file`. `--passphrase-file` is for the vault's own keys."""
    return click.option(
        "--export-passphrase-file",
        metavar="FILE",
        help=f"Where the passphrase of the file is ({VARIABLE}); - is stdin. By default you are asked.",
    )(command)


def passphrase(run: Run, place: str | None, *, new: bool = False) -> str:
    """The passphrase of a file that leaves or comes back: from a file, else asked for; twice if it is a new one."""
    place = place or os.environ.get(VARIABLE)
    if place:
        return run.secret(place, "passphrase")
    if not (sys.stdin.isatty() or sys.stderr.isatty()):
        raise KeyUnavailable(
            "the file needs a passphrase, and there is no terminal to ask for it",
            hint=f"name a file with --export-passphrase-file or {VARIABLE}",
        )
    label = "New passphrase for the file" if new else "Passphrase of the file"
    answer: str = click.prompt(label, hide_input=True, confirmation_prompt=new, err=True)
    return answer


def check_place(file: Path, *, force: bool = False) -> None:
    """Before any work: refuse a file that is there, unless told, or a directory that is not."""
    if not force and file.exists():
        raise InvalidRequest(f"{file} is there already", hint="name another file; none is overwritten unasked")
    if not file.absolute().parent.is_dir():
        raise InvalidRequest(f"there is no directory {file.parent}")


@contextmanager
def bar(run: Run, label: str) -> Iterator[Told]:
    """A progress bar for work that says how far it is and how much there is."""
    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        last = 0

        def told(done: int, whole: int) -> None:
            nonlocal advance, last
            if advance is None:
                advance = stack.enter_context(run.progress(label, whole))
            if done > last:  # work that starts anew does not go back
                advance(done - last)
                last = done
            if last >= whole:
                stack.close()  # its line ends here, before the next bar begins

        yield told
