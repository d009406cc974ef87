"""The context of one run of the command line: the settings, the open vault, the cap, and the output.

Commands take a `Run` (`@pass_run`) and shared options. `@common_options` is for all commands, `@cap_options` for
commands that need a cap, and `@memory_options` for commands that a server can answer too. `@owner_options` is for
commands that use the keys and no cap. The vault opens at its first use and closes with the command. Stdin can be read
only once.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from strongroom import settings
from strongroom.caps.chain import Token
from strongroom.caps.claims import HEADER
from strongroom.cli import output
from strongroom.errors import (
    CapMalformed,
    CapMissing,
    InvalidRequest,
    KeyUnavailable,
    StrongroomError,
)
from strongroom.keys import default_directory
from strongroom.memory import Memory
from strongroom.settings import Settings
from strongroom.store import is_bucket
from strongroom.vault.owner_cap import OwnerCap
from strongroom.vault.vault import Vault

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_ABOUT_A_VAULT = re.compile(
    "`strongroom ((?:audit|cap|doctor|namespaces|profile|rotate|upgrade)(?! [^`]*--(?:vault|store|url))[^`]*)`"
)
"""Finds commands in a hint that work on a vault and do not name the vault with an option."""


class Declined(click.ClickException):
    """Raised if the user was asked for a confirmation and declined."""


class Run:
    """The state of one run of the command line."""

    def __init__(self) -> None:
        self.json = False
        self.place: str | None = None
        self.cap_file: str | None = None
        self.passphrase_file: str | None = None
        self.url: str | None = None
        self.ca_file: str | None = None
        self.cleartext = False
        self._vault: Vault | None = None
        self._own: OwnerCap | None = None
        self._far: Memory | None = None
        self._stdin_for = ""

    # Where things are.

    @cached_property
    def settings(self) -> Settings:
        found = settings.find(self.place)
        if is_bucket(found.vault):
            from strongroom.cli import installed_extras

            installed_extras.require("s3")
        return found

    @cached_property
    def server(self) -> str | None:
        """The URL of the server to ask. None if this run opens the vault itself. --vault overrides STRONGROOM_URL."""
        if self.url is not None and self.place is not None:
            raise click.UsageError("--url names a server and --vault a vault: give only one of them")
        found = os.environ.get("STRONGROOM_URL") if self.url is None and self.place is None else self.url
        if found == "":
            raise InvalidRequest(
                "the server's URL is empty",
                hint="give a URL; to use the vault itself, drop --url and unset STRONGROOM_URL",
            )
        return found

    def command(self, words: str, place: str | None = None) -> str:
        """A command for a hint, in backticks. If this vault needs --vault to be found, the command has it.

        `place` stands for another vault.
        """
        meant = self.settings.vault if place is None else place
        is_usual = Path(settings.find().vault).absolute() == Path(meant).absolute()
        return f"`strongroom {words}`" if is_usual else f"`strongroom {words} --vault {shlex.quote(meant)}`"

    def placed(self, hint: str) -> str:
        """Add this run's --vault and --cap-file to the commands in a hint, so that they work as shown."""
        if self.place is not None:
            with suppress(StrongroomError):  # the error may be about the settings themselves
                hint = _ABOUT_A_VAULT.sub(lambda found: self.command(found[1]), hint)
        if self.cap_file not in (None, "-"):
            hint = re.sub("`(strongroom cap show)([ `])", rf"`\1 --cap-file {shlex.quote(self.cap_file)}\2", hint)
        return hint

    def check_local(self) -> None:
        """Raise `InvalidRequest` if a server was named. For commands that need the vault and its keys."""
        if self.server is not None:
            raise InvalidRequest(
                "this command needs the vault itself and its keys, but a server was named",
                hint="run the command on the vault's machine, without --url; --vault PATH overrides STRONGROOM_URL"
                f"{_by_http()}",
            )

    def vault(self) -> Vault:
        """The open vault, for commands that use the keys; closed when the command ends."""
        self.check_local()
        if self._vault is None:
            self._vault = settings.open_vault(self.settings, self.passphrase)
            self.keep(self._vault)
        return self._vault

    def keep(self, vault: Vault) -> Vault:
        """Use this vault for the rest of the run, and close it at the end of the run."""
        self._vault = vault
        click.get_current_context().find_root().call_on_close(vault.close)
        return vault

    def key_directory(self) -> Path:
        """The directory with the vault's keys, its checkpoint and the owner's cap."""
        return default_directory(self.vault().id)

    # Whose memory.

    @cached_property
    def given(self) -> Token | None:
        """The cap given by file, environment or stdin. None if the owner's own cap is to be used."""
        place = self.cap_place
        if place is not None:  # also if empty: an explicit cap is never replaced by the owner's
            return _token_in(self.secret(place, "cap"), "stdin" if place == "-" else place)
        token = os.environ.get("STRONGROOM_CAP")
        return None if token is None else _token(token)

    @property
    def cap_place(self) -> str | None:
        """The file to read the cap from, or `-` for stdin. None if no file was named."""
        return os.environ.get("STRONGROOM_CAP_FILE") if self.cap_file is None else self.cap_file

    def token(self) -> Token:
        """The cap of this run: the given cap, or else the owner's own, which is renewed if necessary."""
        if self.given is not None:
            return self.given
        if self.server is not None:
            raise CapMissing(
                "a server needs a cap, and none was given",
                hint="name a cap's file with --cap-file; the vault's owner makes a cap with"
                " `strongroom cap mint ... --out FILE`",
            )
        if self._own is None:
            self._own = OwnerCap(self.vault(), self.key_directory(), self.note)
        return self._own.token()

    def memory(self, source: str = "cli") -> Memory:
        """The memory that the cap opens, in the vault or through the server."""
        # The cap comes first: the error about a bad cap must not depend on the vault.
        token = self.token()
        if self.server is None:
            return self.vault().memory(token, source=source)
        if self._far is None:
            from strongroom.cli import remote_memory

            self._far = remote_memory.connect_memory(self, self.server, token)
            click.get_current_context().find_root().call_on_close(self._far.close)
        return self._far

    def ask(self, call: Callable[[Memory], T]) -> T:
        """Call the memory. If the owner's own cap was void, it is renewed and the call is made once more.

        A given cap is not replaced.
        """
        self.token()
        if self._own is None:
            return call(self.memory())
        return self._own.use(lambda token: call(self.vault().memory(token, source="cli")))

    def note_owners_work(self) -> None:
        """Print a note that the given cap is not used. For commands that use the keys."""
        if self.cap_file is not None or {"STRONGROOM_CAP_FILE", "STRONGROOM_CAP"} & set(os.environ):
            self.note("note: this command is the owner's work and uses the keys; the given cap is not used")

    def passphrase(self) -> str:
        """The passphrase of the keys, read from a file or typed at a prompt."""
        return self._passphrase

    @cached_property
    def _passphrase(self) -> str:
        place = self.passphrase_file or os.environ.get("STRONGROOM_PASSPHRASE_FILE")
        if place:
            return self.secret(place, "passphrase")
        return _prompted("Passphrase")

    def new_passphrase(self) -> str:
        """The passphrase for new keys, read from a file or typed twice at a prompt."""
        if not (self.passphrase_file or os.environ.get("STRONGROOM_PASSPHRASE_FILE")):
            self.__dict__["_passphrase"] = _prompted("New passphrase", twice=True)
        settings.check_new_passphrase(self.passphrase())
        return self.passphrase()

    # What comes in.

    def stdin(self, what: str) -> str:
        """Read all of stdin as text. Raises a usage error if stdin was already read for another purpose."""
        if self._stdin_for:
            raise click.UsageError(f"stdin cannot hold both the {self._stdin_for} and the {what}")
        self._stdin_for = what
        if sys.stdin.isatty():
            self.note(f"reading the {what} from the terminal; end it with Ctrl-D")
        try:
            return sys.stdin.buffer.read().decode()
        except UnicodeDecodeError:
            raise InvalidRequest(f"the {what} is not UTF-8 text") from None

    def text_of(self, place: str, what: str) -> str:
        """The text of a file, or of stdin if `place` is `-`."""
        if place == "-":
            return self.stdin(what)
        try:
            return Path(place).read_bytes().decode()
        except OSError as error:
            raise InvalidRequest(f"cannot read the file {place}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidRequest(f"the file {place} is not UTF-8 text") from None

    def secret(self, place: str, what: str) -> str:
        """A cap or passphrase, from a file that only this user can read, or from stdin if `place` is `-`."""
        return self.stdin(what).rstrip("\r\n") if place == "-" else settings.read_secret(Path(place), what)

    # What goes out.

    def answer(self, document: object, lines: Iterable[str] | str) -> None:
        """Print the answer: one JSON document, or lines for people."""
        if self.json:
            click.echo(output.encode_json(document))
            return
        for line in [lines] if isinstance(lines, str) else lines:
            click.echo(line)

    def note(self, message: str) -> None:
        """Print a note for people on stderr. Prints nothing with --json, because the JSON document holds the
        information.
        """
        if not self.json:
            output.say(message)

    def progress(self, label: str, length: int) -> AbstractContextManager[output.Advance]:
        """A progress bar for long work. It is shown only on a terminal and without --json."""
        return output.progress(label, length, quiet=self.json)

    def confirm(self, deed: str, *, typed: str | None = None, yes: bool) -> None:
        """Ask for a confirmation: the user must answer y, or type the word `typed`. With `--yes` nothing is asked.

        Raises `Declined` if the user answers differently.
        """
        if yes:
            return
        if self._stdin_for or not sys.stdin.isatty():
            raise click.UsageError(f"{deed} There is no terminal to confirm this: add --yes to go ahead")
        if typed is None:
            said = click.confirm(f"{deed} Go on?", err=True)
        else:
            said = click.prompt(f"{deed} Type {typed} to go on", err=True) == typed
        if not said:
            raise Declined("nothing was done")


pass_run = click.make_pass_decorator(Run, ensure=True)


def common_options(command: F) -> F:
    """Add the options `--vault`, `--passphrase-file` and `--json` to a command."""
    for option in (
        _option("--json", "json", is_flag=True, help="Answer with one JSON document."),
        _option(
            "--passphrase-file",
            "passphrase_file",
            metavar="FILE",
            help="A file with the passphrase of the keys; - is stdin.",
        ),
        _option(
            "--vault",
            "place",
            metavar="PATH",
            help="The vault to use: a path or s3://bucket/prefix (STRONGROOM_VAULT).",
        ),
    ):
        command = option(command)
    return command


def store_option(command: F) -> F:
    """Add the option `--store` to a command: another name of `--vault`, for the bucket of a fleet."""
    return _option("--store", "place", metavar="PATH", help="Another name for --vault, such as s3://bucket/prefix.")(
        command
    )


def cap_options(command: F) -> F:
    """Add the common options and `--cap-file` to a command."""
    option = _option(
        "--cap-file", "cap_file", metavar="FILE", help="A file with the cap to use (STRONGROOM_CAP_FILE); - is stdin."
    )
    return common_options(option(command))


def memory_options(command: F) -> F:
    """Add the common options, `--cap-file`, and the options that name a server to a command."""
    for option in (
        _option(
            "--allow-cleartext",
            "cleartext",
            is_flag=True,
            help="Allow http:// to another machine, unencrypted (STRONGROOM_ALLOW_CLEARTEXT=1).",
        ),
        _option(
            "--ca-file",
            "ca_file",
            metavar="FILE",
            help="A file with the certificate authority of an https:// server (STRONGROOM_CA_FILE).",
        ),
        _option(
            "--url",
            "url",
            metavar="URL",
            help="Ask the server at this URL instead of opening the vault (STRONGROOM_URL).",
        ),
    ):
        command = option(command)
    return cap_options(command)


def refuse_server(command: F) -> F:
    """Add the option `--url` only to refuse it, for a command that needs the vault itself."""

    @wraps(command)
    def checked(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().ensure_object(Run).check_local()
        return command(*args, **kwargs)

    return _option("--url", "url", metavar="URL", hidden=True)(cast("F", checked))


def owner_options(command: F) -> F:
    """Add the common options to a command that uses the keys. If a cap is given, a note says that it is not used."""

    @wraps(command)
    def noted(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().ensure_object(Run).note_owners_work()
        return command(*args, **kwargs)

    return common_options(refuse_server(cast("F", noted)))


def _option(flag: str, name: str, **attributes: Any) -> Callable[[F], F]:
    """Add an option whose value goes into the `Run` instead of the command's arguments."""

    def keep(context: click.Context, _: click.Parameter, value: object) -> None:
        run = context.ensure_object(Run)
        # The root may have set it, so a verb without the option must not reset it. An empty string is a value.
        if value is not None and value is not False:
            setattr(run, name, value)

    return click.option(flag, name, expose_value=False, callback=keep, **attributes)


def _by_http() -> str:
    """The end of a hint for verbs without --url: how the holder of an admin cap can do the work over HTTP."""
    verb = click.get_current_context().command_path.partition(" cap ")[2]
    return f"; over HTTP, an admin cap can do it with POST /v1/caps/{verb}" if verb in ("mint", "revoke") else ""


def _token(text: str) -> Token:
    text = text.strip()
    if not text:
        raise CapMissing("the cap is empty", hint="`strongroom cap mint --out FILE` makes a cap")
    return Token(text)


def _token_in(text: str, place: str) -> Token:
    """Read a cap from the text of a file. A text that does not begin like a cap is refused here, where the file is
    known.
    """
    if text.strip() and not text.strip().startswith(f"{HEADER}."):
        raise CapMalformed(
            f"{place} does not hold a cap", hint="name a file that `strongroom cap mint --out FILE` wrote"
        )
    return _token(text)


def _prompted(label: str, *, twice: bool = False) -> str:
    # Stdin may hold a text or a cap, so the prompt goes to the terminal itself.
    if not (sys.stdin.isatty() or sys.stderr.isatty()):
        raise KeyUnavailable(
            "the keys are locked with a passphrase, and there is no terminal to ask for it",
            hint="name a file that holds the passphrase, with --passphrase-file or STRONGROOM_PASSPHRASE_FILE",
        )
    again = "Repeat the passphrase" if twice else False
    answer: str = click.prompt(label, hide_input=True, confirmation_prompt=again, err=True)
    return answer
