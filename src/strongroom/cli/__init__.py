"""The command line: `strongroom <verb>`, where a verb is a command such as `put`.

- `app` is the root command, which finds the verbs.
- `run_context` is the state of one run.
- `output` shows answers, and `error_output` turns errors into exit codes.

The module of a verb is imported only when that verb runs. Commands reach lines only with a cap and through `Memory`,
like any other client.
"""

from __future__ import annotations


def main() -> None:
    """Run the installed command `strongroom`."""
    from strongroom.cli.app import app

    app.main(prog_name="strongroom")
