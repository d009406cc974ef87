"""What a command holds while it runs: the settings, the open vault, the cap, and where its answer goes.

Commands take a `Run` (`@pass_run`) and the options that all of them share (`@common_options`, `@cap_options` for those
that need a cap, `@memory_options` for those that a server can answer as well, `@owner_options` for those that use the
keys and no cap). The vault opens at the first use and closes with the command. Stdin can be read for one thing.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from strongroom import settings
from strongroom.cap import Token
from strongroom.cap.claims import HEADER
from strongroom.cli import output, ownercap
from strongroom.errors import (
    CapMalformed,
    CapMissing,
    CapNamespaceDenied,
    Denied,
    InvalidRequest,
    KeyUnavailable,
    StrongroomError,
)
from strongroom.keys import default_directory
from strongroom.memory import Memory
from strongroom.settings import Settings
from strongroom.store import is_bucket
from strongroom.vault.locked import PASSPHRASE_LEAST
from strongroom.vault.owner import Vault

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_SECRET_LIMIT = 64 * 1024
_ABOUT_A_VAULT = re.compile(
    "`strongroom ((?:audit|cap|doctor|namespaces|profile|rotate)(?! [^`]*--(?:vault|store|url))[^`]*)`"
)
"""A command in a hint that looks after a vault, and names none."""


class Declined(click.ClickException):
    """The user was asked, and said no."""


class Run:
    """One run of the command line."""

    def __init__(self) -> None:
        self.json = False
        self.place: str | None = None
        self.cap_file: str | None = None
        self.passphrase_file: str | None = None
        self.url: str | None = None
        self.ca_file: str | None = None
        self.cleartext = False
        self._vault: Vault | None = None
        self._owners: Token | None = None
        self._far: Memory | None = None
        self._stdin_for = ""

    # Where things are.

    @cached_property
    def settings(self) -> Settings:
        found = settings.find(self.place)
        if is_bucket(found.vault):
            from strongroom.cli import extras

            extras.require("s3")
        return found

    @cached_property
    def server(self) -> str | None:
        """The address of the server to ask; None where the vault itself is meant. --vault outdoes the environment."""
        if self.url is not None and self.place is not None:
            raise click.UsageError("--url means a server and --vault the vault itself: say one of them")
        found = os.environ.get("STRONGROOM_URL") if self.url is None and self.place is None else self.url
        if found == "":
            raise InvalidRequest("the server's address is empty", hint="leave it out to use the vault itself")
        return found

    def command(self, words: str, place: str | None = None) -> str:
        """A further command in backticks, with the --vault that it takes to mean this vault, or the one in `place`."""
        meant = self.settings.vault if place is None else place
        is_usual = Path(settings.find().vault).absolute() == Path(meant).absolute()
        return f"`strongroom {words}`" if is_usual else f"`strongroom {words} --vault {shlex.quote(meant)}`"

    def placed(self, hint: str) -> str:
        """A hint whose commands about a vault or a cap mean those of this run, typed as they stand."""
        if self.place is not None:
            with suppress(StrongroomError):  # the settings themselves may be what is wrong
                hint = _ABOUT_A_VAULT.sub(lambda found: self.command(found[1]), hint)
        if self.cap_file not in (None, "-"):
            hint = re.sub("`(strongroom cap show)([ `])", rf"`\1 --cap-file {shlex.quote(self.cap_file)}\2", hint)
        return hint

    def check_local(self) -> None:
        """Refuse what a server cannot be asked for."""
        if self.server is not None:
            raise InvalidRequest(
                "this needs the vault itself and its keys, and a server was named",
                hint=f"run it where the vault is, without --url; --vault PATH outdoes STRONGROOM_URL{_by_http()}",
            )

    def vault(self) -> Vault:
        """The open vault, for the owner's work; closed when the command ends."""
        self.check_local()
        if self._vault is None:
            self._vault = settings.open_vault(self.settings, self.passphrase)
            self.keep(self._vault)
        return self._vault

    def keep(self, vault: Vault) -> Vault:
        """Use this vault from now on, and close it with the command."""
        self._vault = vault
        click.get_current_context().find_root().call_on_close(vault.close)
        return vault

    def key_directory(self) -> Path:
        """Where the vault's keys, its witness and the owner's cap lie."""
        return default_directory(self.vault().id)

    # Whose memory.

    @cached_property
    def given(self) -> Token | None:
        """The cap that was given by file, environment or stdin; None if the owner's own is meant."""
        place = self.cap_place
        if place is not None:  # also an empty one: who names a cap never gets the owner's instead
            return _token_in(self.secret(place, "cap"), "stdin" if place == "-" else place)
        token = os.environ.get("STRONGROOM_CAP")
        return None if token is None else _token(token)

    @property
    def cap_place(self) -> str | None:
        """The file that a cap is to be read from, `-` for stdin; None if no file was named."""
        return os.environ.get("STRONGROOM_CAP_FILE") if self.cap_file is None else self.cap_file

    def token(self) -> Token:
        """The cap of this run: the one that was given, else the owner's own, renewed if need be."""
        if self.given is not None:
            return self.given
        if self.server is not None:
            raise CapMissing(
                "a server is asked with a cap, and none was given",
                hint="name its file with --cap-file; its owner makes one with `strongroom cap mint ... --out FILE`",
            )
        if self._owners is None:
            self._owners = ownercap.take(self.vault(), self.key_directory(), self.note)
        return self._owners

    def memory(self, source: str = "cli") -> Memory:
        """The memory that the cap opens, in the vault or on the server."""
        # The cap comes first: a bad one must not depend on the vault.
        token = self.token()
        if self.server is None:
            return self.vault().memory(token, source=source)
        if self._far is None:
            from strongroom.cli import remote

            self._far = remote.connected(self, self.server, token)
            click.get_current_context().find_root().call_on_close(self._far.close)
        return self._far

    def ask(self, call: Callable[[Memory], T]) -> T:
        """Ask the memory; if the owner's own cap was voided, once more with a new one. A given cap stands or falls."""
        memory = self.memory()
        try:
            return call(memory)
        except Denied as denial:
            if self.given is None and isinstance(denial, CapNamespaceDenied):  # no secret from the owner
                denial.hint = f"the vault has {', '.join(self.vault().namespaces)}"
            if self.given is not None or denial.reason not in ownercap.VOIDED:
                raise
            self._owners = ownercap.renew(self.vault(), self.key_directory(), "it was voided", self.note)
        return call(self.memory())

    def note_owners_work(self) -> None:
        """Say that a cap was given for what the keys alone do."""
        if self.cap_file is not None or {"STRONGROOM_CAP_FILE", "STRONGROOM_CAP"} & set(os.environ):
            self.note("note: this is the owner's work; the cap that was given is not used")

    def passphrase(self) -> str:
        """The passphrase of the keys: from a file, else asked for on a terminal."""
        return self._passphrase

    @cached_property
    def _passphrase(self) -> str:
        place = self.passphrase_file or os.environ.get("STRONGROOM_PASSPHRASE_FILE")
        if place:
            return self.secret(place, "passphrase")
        return _prompted("Passphrase")

    def new_passphrase(self) -> str:
        """A passphrase for new keys; asked for once, and to be repeated, unless it comes from a file."""
        if not (self.passphrase_file or os.environ.get("STRONGROOM_PASSPHRASE_FILE")):
            self.__dict__["_passphrase"] = _prompted("New passphrase", twice=True)
        if len(self.passphrase()) < PASSPHRASE_LEAST:
            raise InvalidRequest(
                f"a passphrase has at least {PASSPHRASE_LEAST} characters", hint="use several words that nobody guesses"
            )
        return self.passphrase()

    # What comes in.

    def stdin(self, what: str) -> str:
        """All of stdin as text, for one thing only."""
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
        """The text of a file, or of stdin for `-`."""
        if place == "-":
            return self.stdin(what)
        try:
            return Path(place).read_bytes().decode()
        except OSError as error:
            raise InvalidRequest(f"cannot read {place}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InvalidRequest(f"{place} is not UTF-8 text") from None

    def secret(self, place: str, what: str) -> str:
        """A cap or a passphrase from a file that nobody else can read, or from stdin for `-`."""
        return (self.stdin(what) if place == "-" else _read_secret(Path(place), what)).rstrip("\r\n")

    # What goes out.

    def answer(self, document: object, lines: Iterable[str] | str) -> None:
        """Give the answer: one JSON document, or lines for people."""
        if self.json:
            click.echo(output.encoded(document))
            return
        for line in [lines] if isinstance(lines, str) else lines:
            click.echo(line)

    def note(self, message: str) -> None:
        """Tell people something beside the answer; programs find it in the document."""
        if not self.json:
            output.say(message)

    def progress(self, label: str, length: int) -> AbstractContextManager[output.Advance]:
        """A progress bar for long work, on a terminal only."""
        return output.progress(label, length, quiet=self.json)

    def confirm(self, deed: str, *, typed: str | None = None, yes: bool) -> None:
        """Say what is about to be done and go on only if the user says so: by `--yes`, by y, or by typing a word."""
        if yes:
            return
        if self._stdin_for or not sys.stdin.isatty():
            raise click.UsageError(f"{deed} Say --yes to go on without being asked")
        if typed is None:
            said = click.confirm(f"{deed} Go on?", err=True)
        else:
            said = click.prompt(f"{deed} Type {typed} to go on", err=True) == typed
        if not said:
            raise Declined("nothing was done")


pass_run = click.make_pass_decorator(Run, ensure=True)


def common_options(command: F) -> F:
    """`--vault`, `--passphrase-file` and `--json`."""
    for option in (
        _option("--json", "json", is_flag=True, help="Answer with one JSON document."),
        _option(
            "--passphrase-file", "passphrase_file", metavar="FILE", help="Where the keys' passphrase is; - is stdin."
        ),
        _option(
            "--vault", "place", metavar="PATH", help="Which vault: a path or s3://bucket/prefix (STRONGROOM_VAULT)."
        ),
    ):
        command = option(command)
    return command


def store_option(command: F) -> F:
    """`--store`, the same as `--vault`: how a server of a fleet names its bucket."""
    return _option("--store", "place", metavar="PATH", help="The same as --vault, such as s3://bucket/prefix.")(command)


def cap_options(command: F) -> F:
    """The common options, and `--cap-file`."""
    option = _option("--cap-file", "cap_file", metavar="FILE", help="Which cap (STRONGROOM_CAP_FILE); - is stdin.")
    return common_options(option(command))


def memory_options(command: F) -> F:
    """The common options, `--cap-file`, and those that name a server."""
    for option in (
        _option(
            "--allow-cleartext",
            "cleartext",
            is_flag=True,
            help="Send the cap to another machine by http:// (STRONGROOM_ALLOW_CLEARTEXT=1).",
        ),
        _option("--ca-file", "ca_file", metavar="FILE", help="The CA of an https:// server (STRONGROOM_CA_FILE)."),
        _option("--url", "url", metavar="URL", help="Ask a server instead of the vault (STRONGROOM_URL)."),
    ):
        command = option(command)
    return cap_options(command)


def refuse_server(command: F) -> F:
    """Take `--url` too, only to say that this needs the vault itself."""

    @wraps(command)
    def checked(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().ensure_object(Run).check_local()
        return command(*args, **kwargs)

    return _option("--url", "url", metavar="URL", hidden=True)(cast("F", checked))


def owner_options(command: F) -> F:
    """The common options, for what the keys do: a cap that was given is not used, and a note says so."""

    @wraps(command)
    def noted(*args: Any, **kwargs: Any) -> Any:
        click.get_current_context().ensure_object(Run).note_owners_work()
        return command(*args, **kwargs)

    return common_options(refuse_server(cast("F", noted)))


def _option(flag: str, name: str, **attributes: Any) -> Callable[[F], F]:
    """An option that every command may carry: it lands in the run and not in the command's arguments."""

    def keep(context: click.Context, _: click.Parameter, value: object) -> None:
        run = context.ensure_object(Run)
        # The root carries it too: what a verb does not say, the root may have said. An empty text was said.
        if value is not None and value is not False:
            setattr(run, name, value)

    return click.option(flag, name, expose_value=False, callback=keep, **attributes)


def _by_http() -> str:
    """What an admin cap does at a server and no verb does: the end of a hint."""
    verb = click.get_current_context().command_path.partition(" cap ")[2]
    return f"; with an admin cap, POST /v1/caps/{verb} does it by HTTP" if verb in ("mint", "revoke") else ""


def _token(text: str) -> Token:
    text = text.strip()
    if not text:
        raise CapMissing("the cap is empty", hint="`strongroom cap mint --out FILE` makes one")
    return Token(text)


def _token_in(text: str, place: str) -> Token:
    """The cap that a file holds. What does not even begin as one is refused here, where the file can be named."""
    if text.strip() and not text.strip().startswith(f"{HEADER}."):
        raise CapMalformed(f"{place} holds no cap", hint="name a file that `strongroom cap mint --out FILE` wrote")
    return _token(text)


def _read_secret(path: Path, what: str) -> str:
    """Read a cap or a passphrase from a file that nobody else can read."""
    refused = CapMissing if what == "cap" else KeyUnavailable
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(_SECRET_LIMIT)
    except OSError as error:
        raise refused(f"cannot read the {what} file {path}: {error.strerror}", hint="name another file") from None
    if stat.S_ISREG(status.st_mode):
        if status.st_uid not in (os.geteuid(), 0):
            raise refused(f"the {what} file {path} belongs to another user", hint="use one of your own")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise refused(f"the {what} file {path} can be read by others", hint=f"chmod 600 {path}")
    return data.decode("utf-8", "replace")


def _prompted(label: str, *, twice: bool = False) -> str:
    # Stdin may hold a text or a cap: the question goes to the terminal itself.
    if not (sys.stdin.isatty() or sys.stderr.isatty()):
        raise KeyUnavailable(
            "the keys are behind a passphrase, and there is no terminal to ask for it",
            hint="name a file with --passphrase-file or STRONGROOM_PASSPHRASE_FILE",
        )
    again = "Repeat the passphrase" if twice else False
    answer: str = click.prompt(label, hide_input=True, confirmation_prompt=again, err=True)
    return answer
