"""The command line: `strongroom <verb>`.

`app` is the root and finds the verbs, `run_context` is the state of one run, `output` shows answers, `error_output`
turns errors into exit codes. A verb's module is imported only when that verb runs. Commands reach lines only with a cap
and through `Memory`, like any other client.
"""

from __future__ import annotations


def main() -> None:
    """The entry point of the installed command."""
    from strongroom.cli.app import app

    app.main(prog_name="strongroom")
