"""The checks of doctor for a vault. Each returns a message if all is well, or raises `CheckProblem`."""

from __future__ import annotations

import inspect
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import apsw

import strongroom
from strongroom import engines, settings
from strongroom.caps.chain import parse
from strongroom.cli import installed_extras, output
from strongroom.cli.backup_restore_rotate import unfinished_rotation
from strongroom.cli.cap_view import WHY
from strongroom.cli.run_context import Run
from strongroom.engines.lexical import search
from strongroom.errors import Tampered, VaultMissing
from strongroom.keys import FileKeys, default_directory
from strongroom.memory.vault_records import FORMATS, VaultFormatRecord
from strongroom.model import Void, pluralize
from strongroom.settings import Settings
from strongroom.store import CLOCK_LEEWAY, backend
from strongroom.vault import owner_cap
from strongroom.vault.create_open import read_format
from strongroom.vault.owner_audit import Audit
from strongroom.vault.vault import Vault

_SQLITE = (3, 54, 0)
_SPACE_FAIL, _SPACE_WARN = 64 << 20, 1 << 30
_WITNESS_DAYS = 30
_SEARCHED = 1_000
"""The number of memories that are searched for ended lines: some seconds, if they are large."""
T = TypeVar("T")
UNSEEN = "unseen"
"""The reason of a check that fails only because there is no earlier checkpoint. Such a check has an exit code of its
own.
"""


class CheckProblem(Exception):
    """Raised if a check did not end with ok: with its state (warn, fail or skip), message, hint and reason."""

    def __init__(self, state: str, message: str, hint: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.state, self.message, self.hint, self.reason = state, message, hint, reason


@dataclass
class Patient:
    """The state that the checks of a vault share: what is checked, and the findings of earlier checks."""

    run: Run
    settings: Settings | None = None
    place: str = ""
    there: bool = False
    vault_id: str | None = None
    vault: Vault | None = None

    def opened(self) -> Vault:
        if self.vault is None:
            raise CheckProblem("skip", "the vault is not open")
        return self.vault

    def keys(self) -> Path:
        if self.vault_id is None:
            raise CheckProblem("skip", "without the vault, its keys are not known")
        return default_directory(self.vault_id)


# The checks, in the order in which they run.


def python(_: object) -> str:
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise CheckProblem("warn", f"Python {platform.python_version()} is not tested", "use Python 3.11 to 3.13")
    return f"Python {platform.python_version()}"


def _sqlite(_: Patient) -> str:
    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split(".")[:3])) < _SQLITE:
        raise CheckProblem(
            "fail",
            f"SQLite {version} has a flaw: a crafted file beside the vault makes it delete any other file",
            "install a newer apsw",
        )
    return f"SQLite {version}"


def _config(patient: Patient) -> str:
    patient.place = patient.run.place or os.environ.get("STRONGROOM_VAULT") or str(settings.default_vault())
    patient.settings = patient.run.settings
    patient.place = patient.settings.vault
    path = patient.settings.config
    return f"{path}" if path.exists() else f"none at {path}, which is fine"


def _routing(patient: Patient) -> str:
    if patient.settings is None:
        raise CheckProblem("skip", "the configuration could not be read")
    patient.settings.rules()
    return "the default rules" if patient.settings.routing is None else "your rules are valid"


def _engine(patient: Patient) -> str:
    name = patient.settings.engine if patient.settings is not None else None
    default = inspect.signature(strongroom.open).parameters["engine"].default
    engines.load(name or default)
    found = f"{name} loads" if name else "the default one loads"
    if (name or default) != engines.DEFAULT:
        return found
    return f"{found}, compiled" if search.kernel is not None else f"{found}, not compiled: {_NO_KERNEL}"


_NO_KERNEL = "recalls take longer; to compile it, reinstall with a C compiler and Python's header files"


def _extras(_: Patient) -> str:
    lacking = [name for name in installed_extras.MODULES if not installed_extras.is_installed(name)]
    if not lacking:
        return "the packages for serve, mcp, --url and s3:// are installed"
    uses = " and ".join(installed_extras.USES[name] for name in lacking)
    return f"not installed, which is fine unless you want {uses}: {installed_extras.install(','.join(lacking))}"


def _there(patient: Patient) -> str:
    used, where = backend(patient.place)
    try:
        used.open(where).close()
    except VaultMissing as error:
        hint = (
            "put it back (is its disk mounted?), name another with --vault, or make an empty one with `strongroom init`"
        )
        raise CheckProblem("fail", error.message, hint, error.reason) from None
    patient.there = True
    if Path(where).is_dir() and Path(where).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        message = f"other users can enter {where} and see the sizes and times of its files"
        raise CheckProblem("warn", message, f"chmod 700 {where}")
    return patient.place


def _format(patient: Patient) -> str:
    if not patient.there:
        raise CheckProblem("skip", "there is no readable vault")
    found = read_format(patient.place)
    patient.vault_id = found.vault
    return format_said(patient.run, found)


def format_said(run: Run, found: VaultFormatRecord) -> str:
    """Check the id and the format of a vault. An older format is no fault.

    For an older format, the message says what is missing and which command adds it.
    """
    if found.v == FORMATS[-1]:
        return f"vault {found.vault}, in a format that this version reads"
    return (
        f"vault {found.vault}, in format {found.v}: its lines cannot have tags, meta, an expiry or a turn yet. Once"
        f" every program that uses it is of this version, run {run.command('upgrade')}"
    )


def _key_files(patient: Patient) -> str:
    directory = patient.keys()
    place = Path(patient.place).resolve()
    if place in [directory.resolve(), *directory.resolve().parents] and not settings.in_environment():
        raise CheckProblem(
            "fail", f"the keys are inside the vault, in {directory}", "move them elsewhere and set STRONGROOM_KEYS"
        )
    return key_files(directory)


def key_files(directory: Path) -> str:
    """Check that a vault's key files exist and that only this user can read them."""
    if settings.in_environment():
        raise CheckProblem("warn", "the keys are in the environment, where other processes of yours can read them")
    FileKeys(directory).check()
    locked = ", encrypted with a passphrase" if settings.is_locked(directory) else ""
    return f"in {directory}{locked}"


def _opens(patient: Patient) -> str:
    if patient.vault_id is None:
        raise CheckProblem("skip", "there is no vault to open")
    found = patient.settings or Settings(patient.place, settings.config_path(), None, None)
    patient.vault = patient.run.keep(settings.open_vault(found, patient.run.passphrase))
    patient.vault.check_issuer()
    check_rotation(patient.run, patient.vault)
    return "the keys open the vault and sign its caps, and the log's head is authentic"


def check_rotation(run: Run, vault: Vault) -> None:
    """Warn if a rotation of the root key was interrupted."""
    stopped = vault.unfinished_rotation()
    if stopped is not None:
        hint = f"run {run.command('rotate root')} again; with --continue it keeps the new root key that it made"
        raise CheckProblem("warn", unfinished_rotation(stopped), hint)


def _writable(patient: Patient) -> str:
    vault = patient.opened()
    due = vault.scrub_is_due()
    if not vault.scrub():
        if due:
            message = "another process is reading the vault, so its journal may still hold deleted bytes"
            hint = "a server removes them within a minute; otherwise stop the process and run doctor again"
            raise CheckProblem("warn", message, hint)
        message = "another process is using the vault, so writing could not be checked"
        raise CheckProblem("warn", message, "run doctor again when that process has finished")
    return "the store is writable, and its journal holds no deleted bytes"


def _ended(patient: Patient) -> str:
    return ended_said(patient.run, patient.opened(), _SEARCHED)


def ended_said(run: Run, vault: Vault, most: int) -> str:
    """Check that nothing is stored whose life has ended, in the memories of the first `most` actors."""
    found = vault.ended.count(most=most)
    where = "" if found.searched == found.actors else f" (searched: {found.searched} of {found.actors} memories)"
    if found.lines or found.documents:
        what = f"{pluralize(found.lines, 'line')} and {pluralize(found.documents, 'document')}"
        message = f"{what} have ended and are still stored{where}"
        raise CheckProblem("warn", message, f"run {run.command('scrub vault')}")
    if found.damaged:
        message = f"{pluralize(found.damaged, 'namespace')} could not be searched"
        raise CheckProblem("warn", message, f"{run.command('audit verify')} names what is wrong")
    return f"nothing is stored that has ended{where}"


def _log(patient: Patient) -> str:
    audit, again = patient.opened().audit, patient.run.command
    if audit.is_extended():
        hint = f"{again('audit verify')} says what to do"
        raise CheckProblem("fail", "there are entries after the end of the log", hint, Tampered.reason)
    seen = read_witness(patient.run, patient.keys() / "checkpoint", audit.seen)
    size = audit.size()
    if not audit.continues(seen):
        what = f"has {size} entries, but {seen.size} were seen before" if size < seen.size else "was rewritten"
        raise CheckProblem(
            "fail",
            f"the log {what}",
            f"if you restored a backup, run {again('audit accept-restore')}; if not, run {again('audit verify')}",
            Tampered.reason,
        )
    return f"{size} entries; they continue the {seen.size} seen {last_seen(patient.run, audit)}"


def read_witness(run: Run, path: Path, read: Callable[[], T | None]) -> T:
    """The last seen checkpoint, which `read` takes from the file at `path`.

    Raises `CheckProblem` if the file is missing or damaged.
    """
    accept = run.command("audit checkpoint --yes")
    try:
        seen = read()
    except Tampered:
        hint = f"put back a copy of it; without a copy, move it away, then run {accept}"
        raise CheckProblem("fail", f"{path} is not a checkpoint of this vault", hint, Tampered.reason) from None
    if not seen:
        hint = f"put back a copy of it; if this is the newest state that you know of, run {accept}"
        raise CheckProblem("fail", f"a roll-back cannot be ruled out: there is no checkpoint in {path}", hint, UNSEEN)
    return seen


def last_seen(run: Run, audit: Audit) -> str:
    """When the last checkpoint was stored, in words. Raises a warning if the checkpoint is more than 30 days old."""
    days = (audit.seen_age() or 0) / 86_400
    if days > _WITNESS_DAYS:
        hint = f"run {run.command('audit verify')} on a schedule"
        raise CheckProblem("warn", f"the log was last verified {round(days)} days ago", hint)
    return output.in_words(-days * 86_400)


def _clock(patient: Patient) -> str:
    vault = patient.opened()
    latest = next((entry for _, entry in vault.audit.entries(vault.audit.size() - 1) if entry is not None), None)
    ahead = 0 if latest is None else latest.time - time.time() * 1000
    if ahead > CLOCK_LEEWAY:
        raise CheckProblem(
            "fail",
            f"this machine's clock is {round(ahead / 1000)} seconds behind the log, so every command is refused",
            "correct the clock",
            "clock_behind",
        )
    return "not behind the log"


def _space(patient: Patient) -> str:
    place = Path(patient.place)
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < _SPACE_WARN:
        state = "fail" if free < _SPACE_FAIL else "warn"
        raise CheckProblem(state, f"{free >> 20} MiB free: with a full disk nothing is answered", "free some space")
    return f"{free >> 30} GiB free"


def _cap(patient: Patient) -> str:
    run = patient.run
    token = run.given
    if token is None:
        path = patient.keys() / owner_cap.NAME
        if not path.exists():
            raise CheckProblem(
                "warn", f"you have no cap of your own in {path}", "the next command that needs one makes it"
            )
        token = owner_cap.read(path)
    said = owner_cap.read_unverified(token or "")
    left = said.exp - time.time()
    if left <= 0:
        own = run.given is None
        raise CheckProblem(
            "warn" if own else "fail",
            f"the cap ended {output.in_words(left)}",
            "the next command renews it" if own else "ask the vault's owner for a new one",
            "cap_expired",
        )
    _accepted(patient, token or "")
    names = ", ".join(sorted(said.namespaces)) or "nothing"
    return f"{said.actor or said.actor_scope}: {', '.join(sorted(said.ops))} in {names}; ends {output.in_words(left)}"


def _accepted(patient: Patient, token: str) -> None:
    """Raise if the vault would refuse the cap. Only offline checks are made: the log would record a request."""
    if patient.vault is None:
        return
    chain = parse(token)
    if chain.first.aud != patient.vault.id:
        raise CheckProblem("fail", "the cap is for another vault", "name the right cap with --cap-file", "cap_audience")
    voided = {record.link: record.void for record in patient.vault.caps_on_record([one.id for one in chain.links])}
    why = next((voided[link.id] for link in chain.links if voided.get(link.id)), None)
    if why is not None:
        own = patient.run.given is None
        raise CheckProblem(
            "warn" if own else "fail",
            f"the cap is void: {WHY[why]}",
            "the next command makes a new one" if own else "ask the vault's owner for a new one",
            "cap_signature_invalid" if why == Void.ISSUER_ROTATED else "cap_revoked",
        )


CHECKS: tuple[tuple[str, Callable[[Patient], str]], ...] = (
    ("Python", python),
    ("SQLite", _sqlite),
    ("configuration", _config),
    ("routing rules", _routing),
    ("engine", _engine),
    ("extras", _extras),
    ("vault", _there),
    ("format", _format),
    ("key files", _key_files),
    ("opening", _opens),
    ("store", _writable),
    ("log", _log),
    ("clock", _clock),
    ("disk space", _space),
    ("cap", _cap),
    ("ended lines", _ended),
)
"""The checks of a vault in their order: the name and the function of each."""
