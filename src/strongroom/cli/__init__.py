"""The command line: `strongroom <verb>`.

`app` is the root and finds the verbs, `run_context` is what a verb holds while it runs, `output` shows answers,
`error_output` turns errors into exit codes. Each verb's module is imported only when it is asked for. Lines are reached
through a cap and `Memory` alone, as for everybody else.
"""

from __future__ import annotations


def main() -> None:
    """The entry point of the installed command."""
    from strongroom.cli.app import app

    app.main(prog_name="strongroom")
