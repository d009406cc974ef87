"""Write docs/cli.md from the commands themselves. With `--check`, say whether the page is what it would write."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from strongroom.cli.app import VERBS, VerbCommand, app
from strongroom.cli.error_output import MEANINGS

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the scripts are no installed package

from scripts.kept_page import kept  # noqa: E402

PAGE = ROOT / "docs" / "cli.md"
SHARED = {"--vault", "--passphrase-file", "--json", "--cap-file", "--url", "--ca-file", "--allow-cleartext", "--help"}

INTRODUCTION = """\
# Command line

`strongroom <verb>`. This page is written by `scripts/make_cli_reference.py` from the commands' own help; a test
compares it, and runs every example in the order in which they stand here.

## Whose memory

A cap says whose memory a command reaches; no option can name an actor. It comes from the first of: `--cap-file FILE`
(`-` is stdin), `STRONGROOM_CAP_FILE`, `STRONGROOM_CAP`, and else the owner's own cap. That one is made by
`strongroom init`, or by `strongroom.local()` in Python, for the actor `local/owner`, lies as `owner.cap` beside the
keys, and is renewed when it is missing, has less than 7 days left, was voided, or does not cover a namespace that was
added since. A cap that was given is never
replaced by it: if it is refused, the command is. A cap never stands on the command line, where other processes could
read it, and a cap file that others can read is refused.

`init`, `namespaces`, `cap mint`, `cap list`, `cap revoke`, `audit`, `backup`, `restore`, `migrate`, `upgrade`, `rotate`
and `serve` are the owner's work: the keys do it and no cap is asked, so one that is given is not used, and a note on
stderr says so.

The owner's cap is worth as much as the keys beside it, and no more is protected from who can read that directory.

## Vault or server

With `--url URL`, or `STRONGROOM_URL`, a server is asked instead of the vault: `https://host`, `http://127.0.0.1:8765`
or `unix:///run/strongroom/socket`. `put`, `get`, `list`, `snapshot`, `profile`, `document`, `forget`, `erase`,
`export`, `import`, `cap renew`, `mcp` and `doctor` take it; the commands, their answers and their errors are the
same. A server is asked with a cap that was given: the owner's own is never used for it. The owner's work needs the
vault itself and refuses a server; `--vault PATH` outdoes `STRONGROOM_URL`. Without TLS a cap is sent to this machine
only, unless `--allow-cleartext` says that the network is protected.

A cap that allows `renew` and is in the last fifth of its time is renewed on the way, and the file that it came from
then holds the new one, with mode 0600. One from stdin or from the environment stays as it is, and a note says so.

## Options that all commands share

| option | means |
|---|---|
| `--vault PATH` | which vault; else `STRONGROOM_VAULT`, else `<user data dir>/strongroom/vault` |
| `--cap-file FILE` | which cap, for commands that reach memory |
| `--url URL` | which server, for commands that one can answer; else `STRONGROOM_URL`, else the vault itself |
| `--ca-file FILE` | the certificates that an `https://` server is checked against; else `STRONGROOM_CA_FILE` |
| `--allow-cleartext` | send a cap to another machine by `http://` |
| `--passphrase-file FILE` | the passphrase of locked keys; else `STRONGROOM_PASSPHRASE_FILE`, else you are asked |
| `--json` | answer with one JSON document; times are ISO, keys are stable |

## Environment and files

| name | means |
|---|---|
| `STRONGROOM_VAULT` | the vault |
| `STRONGROOM_KEYS` | where each vault's keys lie, by its id; else `<user data dir>/strongroom/keys` |
| `STRONGROOM_ROOT_KEY`, `STRONGROOM_ISSUER_KEY` | the keys in `root.keyring` and `issuer.key`, in base64 |
| `STRONGROOM_PASSPHRASE_FILE` | a file of mode 0600 with the passphrase of the keys |
| `STRONGROOM_CAP_FILE`, `STRONGROOM_CAP` | the cap, in a file of mode 0600 or itself |
| `STRONGROOM_URL` | the server to ask instead of the vault |
| `STRONGROOM_CA_FILE` | the certificates to trust for it, instead of the public ones |
| `STRONGROOM_ALLOW_CLEARTEXT=1` | as `--allow-cleartext` |
| `STRONGROOM_CONFIG` | the configuration file; else `<user config dir>/strongroom/config.toml` |
| `STRONGROOM_DEBUG=1` | show where a defect was raised; what it shows may hold memory |
| `NO_COLOR` | no colours; without a terminal there are none anyway |

The configuration file is optional: `engine` names the recall engine, `[routing]` holds the rules of `strongroom put`
without `--namespace` (`strongroom route --write-default` writes one to start from).

## Answers and errors

Answers go to stdout, everything else to stderr. With `mcp`, stdout belongs to the protocol; `serve` answers with
`--json` only, once it listens. What was remembered is shown as data: characters that are invisible or that steer a
terminal are written out as `<U+202E>` (in JSON they are escaped), and further lines are indented.

An error is told as `strongroom: error: ...` and often `strongroom: hint: ...`; with `--json` as one object
`{"error", "reason", "message", "hint"}` on stderr. Reasons are those of [errors.md](errors.md), and `usage`,
`interrupted` and `bug`.

## Exit codes
"""

MISSING = """\
A command that shows or changes one named line or document ends with 4 if it is missing: `get --id`, `history`,
`replace`, `document read`, `document history` and `document rename`. Searches and listings without a result end with
0. `forget` and `document delete` end with 0 too, because afterwards the line or document is gone, as it should be.
"""


def page() -> str:
    """The page as it should be."""
    parts = [INTRODUCTION, "\n".join(exit_codes())]
    parts += ["\n".join(section(path, command)) for path, command in leaves()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def exit_codes() -> Iterator[str]:
    """The table of exit codes."""
    yield "| exit code | means |"
    yield "|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    yield ""
    yield MISSING


def leaves() -> Iterator[tuple[str, VerbCommand]]:
    """Every command with its path, in the order of the help."""
    context = click.Context(app, info_name="strongroom")
    for verb in VERBS:
        found = app.get_command(context, verb)
        if isinstance(found, click.Group):
            for name, command in found.commands.items():
                assert isinstance(command, VerbCommand), f"{verb} {name} has no examples"
                yield f"{verb} {name}", command
        elif found is not None:
            assert isinstance(found, VerbCommand), f"{verb} has no examples"
            yield verb, found


def section(path: str, command: VerbCommand) -> Iterator[str]:
    """One command: what it does, its options, its examples."""
    context = click.Context(command, info_name=f"strongroom {path}")
    yield f"## strongroom {path}\n"
    yield f"`{' '.join([context.command_path, *command.collect_usage_pieces(context)])}`\n"
    for paragraph in (command.help or "").split("\n\n"):
        yield " ".join(paragraph.split()) + "\n"
    options = list(own_options(command, context))
    if options:
        yield "| option | means |"
        yield "|---|---|"
        yield from options
        yield ""
    yield "```console"
    yield from (f"$ {line}" for line in command.examples)
    yield "```"


def own_options(command: VerbCommand, context: click.Context) -> Iterator[str]:
    """The options that not every command has."""
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None and not SHARED & set(parameter.opts):
            flags, meaning = (part.replace("|", "\\|") for part in record)
            yield f"| `{flags}` | {' '.join(meaning.split())} |"


def main() -> int:
    written = page()
    return kept(PAGE, written, "make_cli_reference.py")


if __name__ == "__main__":
    sys.exit(main())
