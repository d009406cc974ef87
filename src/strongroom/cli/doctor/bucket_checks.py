"""The checks of doctor for a vault in a bucket. Each returns a message if all is well, or raises `CheckProblem`.

The checks write only below `probe/`, and remove these objects again. No credential is shown, only the place where it
was found.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from strongroom import settings
from strongroom.cli import installed_extras
from strongroom.cli.doctor import bucket_settings
from strongroom.cli.doctor.vault_checks import (
    CheckProblem,
    check_rotation,
    ended_said,
    format_said,
    key_files,
    last_seen,
    python,
    read_witness,
)
from strongroom.cli.run_context import Run
from strongroom.errors import StrongroomError, Tampered, VaultMissing
from strongroom.keys import default_directory
from strongroom.model import pluralize
from strongroom.store import CLOCK_LEEWAY
from strongroom.vault.fleet_audit import FleetAudit
from strongroom.vault.vault import Vault

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from strongroom.store.s3.bucket import S3Bucket
    from strongroom.store.s3.bucket_probe import Trial
    from strongroom.store.s3.location import Access

_WARN = 5_000
_ROLES = ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI")
_TRIALS = 9
_SEARCHED = 100
"""The number of memories that are searched for ended lines: a request for each line that is in no pack."""
_UNKNOWN = "unknown: the server does not say, or not to these credentials"


@dataclass
class BucketPatient:
    """The state that the checks of a bucket share: what is checked, and the findings of earlier checks."""

    run: Run
    place: str
    access: Access | None = None
    bucket: S3Bucket | None = None
    trials: Iterator[Trial] | None = field(default=None, repr=False)
    is_fit: bool = True
    vault_id: str | None = None
    vault: Vault | None = None

    def reached(self) -> S3Bucket:
        if self.bucket is None:
            raise CheckProblem("skip", "the bucket was not reached")
        return self.bucket


def _extra(_: BucketPatient) -> str:
    if not installed_extras.is_installed("s3"):
        raise CheckProblem(
            "fail", "a vault in a bucket needs packages that are not installed", installed_extras.install("s3")
        )
    return "the packages for a bucket are installed"


def _credentials(patient: BucketPatient) -> str:
    if not installed_extras.is_installed("s3"):
        raise CheckProblem("skip", "the packages for a bucket are not installed")
    from strongroom.store.s3.location import access

    patient.access = access(patient.place.removeprefix("s3://"))
    if patient.access.known.get("access_key_id") and patient.access.known.get("secret_access_key"):
        where = "the environment" if os.environ.get("AWS_ACCESS_KEY_ID") else "a profile of the AWS files"
        kind = "temporary credentials" if patient.access.known.get("session_token") else "an access key"
        return f"{kind} from {where}"
    if any(os.environ.get(name) for name in _ROLES):
        return "a role named in the environment"
    raise CheckProblem(
        "warn",
        "none in the environment or in a profile of the AWS files, so only a role of this machine can work",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    )


def _reached(patient: BucketPatient) -> str:
    if patient.access is None:
        raise CheckProblem("skip", "the credentials could not be read")
    from strongroom.store.s3.bucket import S3Bucket
    from strongroom.store.s3.bucket_probe import PLACE, Probe

    bucket = S3Bucket(patient.access)
    bucket.list(PLACE, limit=1)
    patient.bucket = bucket
    patient.trials = Probe(bucket, os.urandom(8).hex()).run()
    return f"bucket {patient.access.bucket} answers" + (" without TLS" if patient.access.is_plain else "")


def _tried(patient: BucketPatient) -> str:
    """Run the next trial of the probe. After a trial that fails, the other trials are skipped."""
    patient.reached()
    if patient.trials is None:
        raise CheckProblem("skip", "an earlier trial failed")
    try:
        trial = next(patient.trials)
    except StrongroomError:
        patient.trials, patient.is_fit = None, False
        raise
    if trial.wrong:
        patient.trials.close()  # type: ignore[attr-defined]  # a generator: it removes what it wrote
        patient.trials, patient.is_fit = None, False
        hint = "use a store with conditional writes, such as AWS S3, Ceph, SeaweedFS, MinIO or R2"
        raise CheckProblem("fail", f"{trial.what}: {trial.wrong}", hint, "store_unavailable")
    return trial.what


def _clock(patient: BucketPatient) -> str:
    """Compare this machine's clock with the server's, by the modified time of an object just written.

    The modified time is often in whole seconds, so a difference of up to a second is not counted.
    """
    bucket = patient.reached()
    place = f"probe/{os.urandom(8).hex()}/"
    before = time.time() * 1000
    bucket.create(f"{place}clock", b"clock")
    after = time.time() * 1000
    try:
        told = bucket.list(place)[0].modified
    except IndexError:
        raise CheckProblem("skip", "the bucket does not list the object that was just written") from None
    finally:
        bucket.delete([f"{place}clock"])
    skew = max(before - (told + 1000), told - after, 0)
    if skew < _WARN:
        return "agrees with the server's"
    state, seconds = ("fail" if skew >= CLOCK_LEEWAY else "warn"), round(skew / 1000)
    message = f"this machine's clock and the server's differ by {seconds} seconds"
    raise CheckProblem(state, message, "correct the clock that is wrong")


def _setting(patient: BucketPatient, name: str, document: str, none: str = "") -> Element | None:
    """The server's answer about a setting of the bucket. None if the setting is not set.

    `none` is the error code with which the server reports a setting that is not set.
    """
    patient.reached()
    told = None if patient.access is None else bucket_settings.ask(patient.access, name, datetime.now(UTC))
    if told is not None and told.status == 200:
        found = bucket_settings.document(told.text, document)
        if found is not None:
            return found
    elif told is not None and none:
        error = bucket_settings.document(told.text, "Error")
        if error is not None and error.findtext("{*}Code", "").strip() == none:
            return None
    raise CheckProblem("skip", _UNKNOWN)


def _versioning(patient: BucketPatient) -> str:
    found = _setting(patient, "versioning", "VersioningConfiguration")
    said = set() if found is None else {_text(one) for one in found.findall("{*}Status")} - {""}
    if not said:
        return "off: deleted objects are gone"
    if said == {"Suspended"}:
        raise CheckProblem("warn", "suspended: old versions from before may still be there", "delete the old versions")
    if "Enabled" not in said:
        raise CheckProblem("skip", _UNKNOWN)
    raise CheckProblem(
        "fail",
        "on: forgotten and erased objects stay as old versions",
        "use a bucket without versioning, and delete the old versions from this one",
    )


def _lifecycle(patient: BucketPatient) -> str:
    found = _setting(patient, "lifecycle", "LifecycleConfiguration", "NoSuchLifecycleConfiguration")
    rules = [] if found is None else found.findall("{*}Rule")
    if any(_takes_away(one) and _covers(one, patient) for one in rules):
        raise CheckProblem(
            "fail",
            "a rule deletes or moves the vault's objects after some time",
            "exclude the vault's prefix from that rule",
        )
    return "no rule touches the vault's objects"


def _takes_away(rule: Element) -> bool:
    """True if a lifecycle rule deletes or moves objects and is not disabled."""
    is_off = _text(rule.find("{*}Status")) == "Disabled"
    return not is_off and any(rule.find(f"{{*}}{what}") is not None for what in ("Expiration", "Transition"))


def _covers(rule: Element, patient: BucketPatient) -> bool:
    own = f"{patient.access.prefix}/" if patient.access and patient.access.prefix else ""
    prefixes = [one.text or "" for one in rule.iterfind(".//{*}Prefix")] or [""]
    return any(own.startswith(prefix) or prefix.startswith(own) for prefix in prefixes)


def _text(element: Element | None) -> str:
    return "" if element is None or element.text is None else element.text.strip()


def _vault(patient: BucketPatient) -> str:
    patient.reached()
    if not patient.is_fit:
        raise CheckProblem("skip", "a trial failed")
    from strongroom.vault.create_open import read_format

    try:
        found = read_format(patient.place)
    except VaultMissing as error:
        hint = f"check the prefix, or make a vault with `strongroom init {patient.place}`"
        raise CheckProblem("fail", error.message, hint, error.reason) from None
    patient.vault_id = found.vault
    return format_said(patient.run, found)


def _keys(patient: BucketPatient) -> str:
    if patient.vault_id is None:
        raise CheckProblem("skip", "without the vault, its keys are not known")
    return key_files(default_directory(patient.vault_id))


def _logs(patient: BucketPatient) -> str:
    bucket = patient.reached()
    if patient.vault_id is None:
        raise CheckProblem("skip", "there is no vault")
    from strongroom.store.s3 import worker_log

    members = dict(worker_log.roster(bucket))
    written = set(worker_log.written_logs(bucket))
    if None in members.values() or set(members) - written:
        hint = f"{patient.run.command('audit verify')} names what is wrong"
        raise CheckProblem("fail", "a log is missing, or the roster is damaged", hint, Tampered.reason)
    return f"{pluralize(len(written), 'log')}, {pluralize(len(members), 'worker')} in the roster"


def _opens(patient: BucketPatient) -> str:
    if patient.vault_id is None:
        raise CheckProblem("skip", "there is no vault to open")
    patient.vault = patient.run.keep(settings.open_vault(patient.run.settings, patient.run.passphrase))
    patient.vault.check_issuer()
    check_rotation(patient.run, patient.vault)
    return "the keys open the vault and sign its caps"


def _seen(patient: BucketPatient) -> str:
    """Check that there is a checkpoint and that every log in it still exists. `audit verify` checks their contents."""
    audit = None if patient.vault is None else patient.vault.audit
    if patient.vault_id is None or not isinstance(audit, FleetAudit):
        raise CheckProblem("skip", "the vault is not open")
    seen = read_witness(patient.run, default_directory(patient.vault_id) / "checkpoint", audit.seen_logs)
    from strongroom.store.s3 import worker_log

    lost = set(seen) - set(worker_log.written_logs(patient.reached()))
    if lost:
        what = f"{pluralize(len(lost), 'log')} disappeared since the last checkpoint"
        raise CheckProblem("fail", what, f"{patient.run.command('audit verify')} names what is wrong", Tampered.reason)
    return f"{pluralize(len(seen), 'log')} seen {last_seen(patient.run, audit)}; none is missing"


def _ended(patient: BucketPatient) -> str:
    if patient.vault is None:
        raise CheckProblem("skip", "the vault is not open")
    return ended_said(patient.run, patient.vault, _SEARCHED)


BUCKET_CHECKS: tuple[tuple[str, Callable[[BucketPatient], str]], ...] = (
    ("Python", python),
    ("extra", _extra),
    ("credentials", _credentials),
    ("bucket", _reached),
    *((f"trial {number}", _tried) for number in range(1, _TRIALS + 1)),
    ("clock", _clock),
    ("versioning", _versioning),
    ("lifecycle", _lifecycle),
    ("vault", _vault),
    ("key files", _keys),
    ("logs", _logs),
    ("opening", _opens),
    ("last seen", _seen),
    ("ended lines", _ended),
)
"""The checks of a bucket in their order: the name and the function of each."""
