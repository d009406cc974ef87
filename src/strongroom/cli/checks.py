"""The checks of doctor, each on its own: it returns what is well, or raises what is not."""

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
from strongroom.cap import parse
from strongroom.cli import extras, output, ownercap
from strongroom.cli.capview import WHY
from strongroom.cli.context import Run
from strongroom.cli.keeping import unfinished_rotation
from strongroom.engines.lexical import finding
from strongroom.errors import Tampered, VaultMissing
from strongroom.keys import FileKeys, default_directory
from strongroom.model import Void
from strongroom.settings import Settings
from strongroom.store import CLOCK_LEEWAY, backend
from strongroom.vault.auditing import Audit
from strongroom.vault.opening import identify
from strongroom.vault.owner import Vault

_SQLITE = (3, 54, 0)
_SPACE_FAIL, _SPACE_WARN = 64 << 20, 1 << 30
_WITNESS_DAYS = 30
T = TypeVar("T")
UNSEEN = "unseen"
"""The reason told where there is no checkpoint to compare the log with. It has an exit code of its own."""


class Found(Exception):
    """How a check ends that is not ok."""

    def __init__(self, state: str, message: str, hint: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.state, self.message, self.hint, self.reason = state, message, hint, reason


@dataclass
class Patient:
    """What the checks have found out so far."""

    run: Run
    settings: Settings | None = None
    place: str = ""
    there: bool = False
    vault_id: str | None = None
    vault: Vault | None = None

    def opened(self) -> Vault:
        if self.vault is None:
            raise Found("skip", "the vault is not open")
        return self.vault

    def keys(self) -> Path:
        if self.vault_id is None:
            raise Found("skip", "which keys it has is not known without the vault")
        return default_directory(self.vault_id)


# The checks, in the order in which they are made.


def python(_: object) -> str:
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        raise Found("warn", f"Python {platform.python_version()} is not tested", "use 3.11 to 3.13")
    return f"Python {platform.python_version()}"


def _sqlite(_: Patient) -> str:
    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split(".")[:3])) < _SQLITE:
        raise Found("fail", f"SQLite {version} lets a file beside the vault delete any other", "install a newer apsw")
    return f"SQLite {version}"


def _config(patient: Patient) -> str:
    patient.place = patient.run.place or os.environ.get("STRONGROOM_VAULT") or str(settings.default_vault())
    patient.settings = patient.run.settings
    patient.place = patient.settings.vault
    path = patient.settings.config
    return f"{path}" if path.exists() else f"none at {path}; that is fine"


def _routing(patient: Patient) -> str:
    if patient.settings is None:
        raise Found("skip", "the configuration does not read")
    patient.settings.rules()
    return "the default rules" if patient.settings.routing is None else "your rules are sound"


def _engine(patient: Patient) -> str:
    name = patient.settings.engine if patient.settings is not None else None
    default = inspect.signature(strongroom.open).parameters["engine"].default
    engines.load(name or default)
    found = f"{name} loads" if name else "the default one loads"
    if (name or default) != engines.DEFAULT:
        return found
    return f"{found}, compiled" if finding.kernel is not None else f"{found}, not compiled: {_NO_KERNEL}"


_NO_KERNEL = "recalls take longer; with a C compiler and Python's header files, install the package anew"


def _extras(_: Patient) -> str:
    lacking = [name for name in extras.MODULES if not extras.is_installed(name)]
    if not lacking:
        return "what serve, mcp, --url and s3:// need is installed"
    uses = " and ".join(extras.USES[name] for name in lacking)
    return f"not installed, which is fine unless you want {uses}: {extras.install(','.join(lacking))}"


def _there(patient: Patient) -> str:
    used, where = backend(patient.place)
    try:
        used.open(where).close()
    except VaultMissing as error:
        hint = (
            "put it back (is its disk mounted?) or name another with --vault; `strongroom init` makes a new, empty one"
        )
        raise Found("fail", error.message, hint, error.reason) from None
    patient.there = True
    if Path(where).is_dir() and Path(where).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Found("warn", f"{where} can be entered by others; they see sizes and times", f"chmod 700 {where}")
    return patient.place


def _format(patient: Patient) -> str:
    if not patient.there:
        raise Found("skip", "there is no vault that reads")
    patient.vault_id = identify(patient.place)
    return f"vault {patient.vault_id}, a format that this version knows"


def _key_files(patient: Patient) -> str:
    directory = patient.keys()
    place = Path(patient.place).resolve()
    if place in [directory.resolve(), *directory.resolve().parents] and not settings.in_environment():
        raise Found("fail", f"the keys lie inside the vault, in {directory}", "move them elsewhere (STRONGROOM_KEYS)")
    return key_files(directory)


def key_files(directory: Path) -> str:
    """Whether a vault's keys are there, for nobody else to read."""
    if settings.in_environment():
        raise Found("warn", "the keys are in the environment, where other processes of yours can read them")
    FileKeys(directory).check()
    locked = ", behind a passphrase" if settings.is_locked(directory) else ""
    return f"in {directory}{locked}"


def _opens(patient: Patient) -> str:
    if patient.vault_id is None:
        raise Found("skip", "there is no vault to open")
    found = patient.settings or Settings(patient.place, settings.config_path(), None, None)
    patient.vault = patient.run.keep(settings.open_vault(found, patient.run.passphrase))
    patient.vault.check_issuer()
    check_rotation(patient.run, patient.vault)
    return "the keys open the vault and sign its caps, and the log's head is authentic"


def check_rotation(run: Run, vault: Vault) -> None:
    """Warn of a rotation of the root that was stopped."""
    stopped = vault.unfinished_rotation()
    if stopped is not None:
        hint = f"{run.command('rotate root')} moves all to a new root; with --continue only what was left"
        raise Found("warn", unfinished_rotation(stopped), hint)


def _writable(patient: Patient) -> str:
    vault = patient.opened()
    due = vault.scrub_is_due()
    if not vault.scrub():
        if due:
            message = "a scrub was put off, so deleted bytes may still wait in the journal: another process is reading"
            hint = "a server finishes it within a minute; else close what reads the vault, and look again"
            raise Found("warn", message, hint)
        raise Found("warn", "another process is reading or writing just now", "look again when it has finished")
    return "the store can be written, and no old bytes wait in its journal"


def _log(patient: Patient) -> str:
    audit, again = patient.opened().audit, patient.run.command
    if audit.is_extended():
        hint = f"{again('audit verify')} says what to do"
        raise Found("fail", "there are entries behind the log's end", hint, Tampered.reason)
    seen = read_witness(patient.run, patient.keys() / "checkpoint", audit.seen)
    size = audit.size()
    if not audit.continues(seen):
        what = f"has {size} entries, but {seen.size} were seen before" if size < seen.size else "was rewritten"
        raise Found(
            "fail",
            f"the log {what}",
            f"if you restored a backup: {again('audit accept-restore')}; if not: {again('audit verify')}",
            Tampered.reason,
        )
    return f"{size} entries; they continue the {seen.size} seen {last_seen(patient.run, audit)}"


def read_witness(run: Run, path: Path, read: Callable[[], T | None]) -> T:
    """What was last seen, as `read` reads it from the file at `path`; Found if that is nothing, or of no use."""
    accept = run.command("audit checkpoint --yes")
    try:
        seen = read()
    except Tampered:
        hint = f"put back a copy of it; without one, move it away, then {accept}"
        raise Found("fail", f"{path} is no checkpoint of this vault", hint, Tampered.reason) from None
    if not seen:
        hint = f"put back a copy of it; if this is the newest state that you know, {accept}"
        raise Found("fail", f"a roll-back cannot be ruled out: nothing was kept as last seen in {path}", hint, UNSEEN)
    return seen


def last_seen(run: Run, audit: Audit) -> str:
    """When the log was last seen, in words; a warning if that is long ago."""
    days = (audit.seen_age() or 0) / 86_400
    if days > _WITNESS_DAYS:
        hint = f"run {run.command('audit verify')} on a schedule"
        raise Found("warn", f"the log was last seen {round(days)} days ago", hint)
    return output.in_words(-days * 86_400)


def _clock(patient: Patient) -> str:
    vault = patient.opened()
    latest = next((entry for _, entry in vault.audit.entries(vault.audit.size() - 1) if entry is not None), None)
    ahead = 0 if latest is None else latest.time - time.time() * 1000
    if ahead > CLOCK_LEEWAY:
        raise Found(
            "fail",
            f"this machine's clock is {round(ahead / 1000)} seconds behind the log: nothing is answered",
            "set the clock",
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
        raise Found(state, f"{free >> 20} MiB free: a full disk stops every answer", "make room")
    return f"{free >> 30} GiB free"


def _cap(patient: Patient) -> str:
    run = patient.run
    token = run.given
    if token is None:
        path = patient.keys() / ownercap.NAME
        if not path.exists():
            raise Found("warn", f"you have no cap of your own in {path}", "the next command that needs it makes one")
        token = ownercap._read(path)
    said = ownercap.read_unverified(token or "")
    left = said.exp - time.time()
    if left <= 0:
        own = run.given is None
        raise Found(
            "warn" if own else "fail",
            f"the cap ended {output.in_words(left)}",
            "the next command renews it" if own else "ask its owner for another",
            "cap_expired",
        )
    _accepted(patient, token or "")
    names = ", ".join(sorted(said.namespaces)) or "nothing"
    return f"{said.actor or said.actor_scope}: {', '.join(sorted(said.ops))} in {names}; ends {output.in_words(left)}"


def _accepted(patient: Patient, token: str) -> None:
    """What would be refused and can be told without asking the gate, which would be on record."""
    if patient.vault is None:
        return
    chain = parse(token)
    if chain.first.aud != patient.vault.id:
        raise Found("fail", "the cap is for another vault", "name the right one with --cap-file", "cap_audience")
    voided = {record.link: record.void for record in patient.vault.caps_on_record([one.id for one in chain.links])}
    why = next((voided[link.id] for link in chain.links if voided.get(link.id)), None)
    if why is not None:
        own = patient.run.given is None
        raise Found(
            "warn" if own else "fail",
            f"the cap is void: {WHY[why]}",
            "the next command makes a new one" if own else "ask its owner for another",
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
)
"""Each check: its name, and how it looks. It returns what is well, or raises what is not."""
