"""completion: print the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from strongroom.cli.app import app, command
from strongroom.cli.run_context import Run, common_options, pass_run

_PLACES = {
    "bash": "~/.local/share/bash-completion/completions/strongroom",
    "zsh": "_strongroom in a directory of your fpath",
    "fish": "~/.config/fish/completions/strongroom.fish",
}


@command(
    examples=[
        "strongroom completion bash",
        "strongroom completion zsh --json",
    ]
)
@click.argument("shell", type=click.Choice(list(_PLACES)))
@common_options
@pass_run
def completion(run: Run, shell: str) -> None:
    """Print the completion script for SHELL; a note on stderr says where to put the script."""
    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click has these three
    script = found(app, {}, "strongroom", "_STRONGROOM_COMPLETE").source()
    run.answer({"shell": shell, "script": script, "place": _PLACES[shell]}, script.rstrip())
    run.note(f"save this script as {_PLACES[shell]}")
