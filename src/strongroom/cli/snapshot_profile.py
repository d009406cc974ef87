"""snapshot and profile: the short texts that the owner wrote for system prompts."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from strongroom.cli import output
from strongroom.cli.app import Group, command
from strongroom.cli.argument_types import NAMESPACE
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.errors import InvalidRequest
from strongroom.model import Profile, Snapshot


@command(
    examples=[
        "strongroom snapshot",
        "strongroom snapshot --namespace travel --json",
    ]
)
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    type=NAMESPACE,
    multiple=True,
    help="Show only the profile of this namespace; may be repeated.",
)
@memory_options
@pass_run
def snapshot(run: Run, namespaces: tuple[str, ...]) -> None:
    """Show the profiles that the cap covers, as a system prompt gets them: at most 8 KiB in all."""
    found = run.ask(lambda memory: memory.snapshot(namespaces=namespaces or None))
    run.answer(found, _snapshot_lines(found))
    if found.left_out:
        run.note(f"warning: left out, because a snapshot holds at most 8 KiB: {', '.join(found.left_out)}")
    elif not found.profiles:
        run.note("there is no profile yet; `strongroom profile set` writes one")


def _snapshot_lines(found: Snapshot) -> Iterator[str]:
    for one in found.profiles:
        yield output.bold(one.namespace)
        yield "  " + output.indent(one.text, "  ")


profile = Group("profile", help="Read and write the profile of a namespace: a short text for a system prompt.")


@profile.command(
    "show",
    examples=[
        "strongroom profile show personal",
    ],
)
@click.argument("namespace", required=False)
@memory_options
@pass_run
def show(run: Run, namespace: str | None) -> None:
    """Show the profile of NAMESPACE, and its version."""
    found = run.ask(lambda memory: memory.profile(namespace))
    run.answer(found, output.indent(found.text, "") if found.text else [])
    run.note(f"version {found.version}" if found.version else f"there is no profile for {found.namespace} yet")


@profile.command(
    "set",
    examples=[
        'strongroom profile set personal "Call me Sam. Vegetarian."',
        "echo 'Window seat, one bag.' | strongroom profile set travel",
    ],
)
@click.argument("namespace")
@click.argument("text", nargs=-1)
@click.option("--file", metavar="FILE", help="Read the text from a file; - is stdin.")
@click.option("--version", metavar="VERSION", help="Write only if the profile is still at this version.")
@memory_options
@pass_run
def set_profile(run: Run, namespace: str, text: tuple[str, ...], file: str | None, version: str | None) -> None:
    """Write the profile of NAMESPACE: TEXT, or the text on stdin."""
    if text and file is not None:
        raise click.UsageError("give either a text or a file")
    new = " ".join(text) if text else run.text_of("-" if file is None else file, "text").removesuffix("\n")
    before = run.ask(lambda memory: memory.profile(namespace)).version if version is None else version
    _write(run, namespace, new, before)


@profile.command(
    "edit",
    examples=[
        "strongroom profile edit personal",
    ],
)
@click.argument("namespace", required=False)
@memory_options
@pass_run
def edit(run: Run, namespace: str | None) -> None:
    """Edit the profile of NAMESPACE in $EDITOR. If somebody else writes the profile meanwhile, their text is not
    overwritten.

    While the editor is open, the text is in a private file. The file is in memory, if the system allows that.
    """
    found = run.ask(lambda memory: memory.profile(namespace))
    new = _edited(found)
    if new == found.text:
        run.answer(found, "the text is unchanged; nothing was written")
    else:
        _write(run, found.namespace, new, found.version)


def _write(run: Run, namespace: str, text: str, version: str) -> None:
    written = run.ask(lambda memory: memory.set_profile(text, namespace=namespace, version=version))
    run.answer(written, f"the profile of {written.namespace} is written, version {written.version}")


def _edited(found: Profile) -> str:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with _private_file(f"profile-{found.namespace}.txt") as path:
        path.write_text(found.text + "\n" if found.text else "")
        try:
            ended = subprocess.run([*shlex.split(editor), str(path)], check=False)  # noqa: S603 - the user's own editor
        except OSError as error:
            raise InvalidRequest(
                f"cannot run the editor {editor}: {error.strerror}", hint="set EDITOR to your editor"
            ) from None
        if ended.returncode != 0:
            raise InvalidRequest(
                f"the editor {editor} failed with exit code {ended.returncode}, so nothing was written"
            )
        return path.read_text().removesuffix("\n")


@contextmanager
def _private_file(name: str) -> Iterator[Path]:
    """A path in a private temporary directory. The directory is in memory, if the system allows that."""
    places = [os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"]  # noqa: S108 - a directory of mode 0700 is made in it
    memory = next((place for place in places if place and os.access(place, os.W_OK)), None)
    with tempfile.TemporaryDirectory(dir=memory, prefix="strongroom-") as directory:
        yield Path(directory) / name
