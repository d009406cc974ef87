"""The command line for a vault in a bucket, as far as it goes without one: what is refused, and how it is told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from strongroom.cli import bucketcheck, bucketquery, extras, serve
from strongroom.cli.bucketcheck import BUCKET_CHECKS, BucketPatient
from strongroom.cli.checks import Found
from strongroom.cli.context import Run
from strongroom.store.s3.access import access
from strongroom.store.s3.bucket import Listed
from tests.cli.conftest import Cli, Done

PLACE = "s3://some-bucket/vault"
COMMANDS = (
    ["init", PLACE],
    ["put", "--vault", PLACE, "a text"],
    ["get", "--vault", PLACE, "a question"],
    ["list", "--vault", PLACE],
    ["audit", "verify", "--vault", PLACE],
    ["cap", "list", "--vault", PLACE],
    ["serve", "--store", PLACE],
    ["migrate", "./vault", PLACE],
    ["migrate", PLACE, "./vault"],
)


def states(done: Done) -> dict[str, str]:
    return {check["name"]: check["state"] for check in done.json["checks"]}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra."""
    installed = extras.is_installed
    monkeypatch.setattr(extras, "is_installed", lambda name: name != "s3" and installed(name))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.requirement("fleet-cli-extra")
def test_without_the_extra_every_command_says_how_to_get_it(cli: Cli, bare: None, home: Path, words: list[str]) -> None:
    done = cli(*words, "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert "strongroom[s3]" in done.error["hint"]
    assert not list(home.iterdir())


@pytest.mark.requirement("fleet-cli-extra")
def test_without_the_extra_doctor_fails_with_it_and_skips_the_rest(cli: Cli, bare: None) -> None:
    done = cli("doctor", "--store", PLACE, "--json")
    assert done.code == 7
    found = states(done)
    assert found.pop("extra") == "fail"
    assert found.pop("Python") == "ok"
    assert set(found.values()) == {"skip"}


@pytest.mark.requirement("fleet-cli")
def test_backup_and_restore_of_a_bucket_are_refused_and_make_no_files(cli: Cli, vault: None, home: Path) -> None:
    before = sorted(home.rglob("*"))
    assert cli("backup", "./copy", "--vault", PLACE, "--json").reason == "invalid_request"
    assert cli("restore", "./copy", "--to", PLACE, "--json").reason == "invalid_request"
    assert sorted(home.rglob("*")) == before


@pytest.mark.requirement("fleet-cli")
def test_an_address_is_never_taken_for_a_path(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://not-loopback.example")
    for words in COMMANDS[:6]:
        assert cli(*words, "--json").code != 0
    assert not list(home.rglob("s3:*"))
    assert not list(home.rglob("some-bucket"))


@pytest.mark.requirement("fleet-cli")
def test_a_server_over_a_bucket_has_more_threads_than_one_over_a_file(home: Path) -> None:
    given = {"names": (), "origins": (), "mcp": False, "log_requests": False}
    run = Run()
    run.place = PLACE
    assert serve._options(run, **given).slow == 32  # type: ignore[arg-type]
    assert serve._options(Run(), **given).slow == 8  # type: ignore[arg-type]


def _told(monkeypatch: pytest.MonkeyPatch, told: bucketquery.Told | None) -> BucketPatient:
    monkeypatch.setattr(bucketquery, "ask", lambda *_: told)
    patient = BucketPatient(Run(), PLACE, access("some-bucket/vault", {}))
    monkeypatch.setattr(BucketPatient, "reached", lambda _: None)
    return patient


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (bucketquery.Told(200, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"), "fail"),
        (
            bucketquery.Told(200, "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"),
            "warn",
        ),
        (bucketquery.Told(403, "<Error><Code>AccessDenied</Code></Error>"), "skip"),
        (bucketquery.Told(501, "<Error><Code>NotImplemented</Code></Error>"), "skip"),
        (None, "skip"),
        (bucketquery.Told(200, "<VersioningConfiguration/>"), "ok"),
    ],
)
@pytest.mark.requirement("fleet-doctor")
def test_versioning_that_keeps_what_is_forgotten_fails(
    monkeypatch: pytest.MonkeyPatch, told: bucketquery.Told | None, state: str
) -> None:
    assert _state(bucketcheck._versioning, _told(monkeypatch, told)) == state


def _rule(prefix: str, *, status: str = "Enabled", what: str = "Expiration") -> bucketquery.Told:
    inner = f"<Prefix>{prefix}</Prefix><Status>{status}</Status><{what}><Days>1</Days></{what}>"
    return bucketquery.Told(200, f"<LifecycleConfiguration><Rule>{inner}</Rule></LifecycleConfiguration>")


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (_rule(""), "fail"),
        (_rule("vault/"), "fail"),
        (_rule("vault/actors/"), "fail"),
        (_rule("", what="Transition"), "fail"),
        (_rule("other/"), "ok"),
        (_rule("", status="Disabled"), "ok"),
        (_rule("", what="AbortIncompleteMultipartUpload"), "ok"),
        (bucketquery.Told(404, "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>"), "ok"),
        (bucketquery.Told(403, "<Error><Code>AccessDenied</Code></Error>"), "skip"),
        (None, "skip"),
    ],
)
@pytest.mark.requirement("fleet-doctor")
def test_a_rule_that_deletes_or_moves_the_vaults_objects_fails(
    monkeypatch: pytest.MonkeyPatch, told: bucketquery.Told | None, state: str
) -> None:
    assert _state(bucketcheck._lifecycle, _told(monkeypatch, told)) == state


def _state(look: object, patient: BucketPatient) -> str:
    try:
        look(patient)  # type: ignore[operator]
    except Found as found:
        return found.state
    return "ok"


class _Clocked:
    """A bucket whose clock differs from this machine's."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead
        self.left: Sequence[str] = []

    def create(self, name: str, body: bytes) -> str:
        self.left = [*self.left, name]
        return "etag"

    def list(self, _: str) -> Sequence[Listed]:
        return [Listed(self.left[0], "etag", 5, int(time.time() * 1000 + self._ahead))]

    def delete(self, names: Sequence[str]) -> None:
        self.left = [name for name in self.left if name not in names]


@pytest.mark.parametrize(
    ("ahead", "state"), [(60_000, "fail"), (-60_000, "fail"), (12_000, "warn"), (-12_000, "warn"), (0, "ok")]
)
@pytest.mark.requirement("fleet-doctor")
def test_a_clock_that_differs_is_told_and_nothing_is_left_in_the_bucket(ahead: float, state: str) -> None:
    bucket = _Clocked(ahead)
    patient = BucketPatient(Run(), PLACE, bucket=bucket)  # type: ignore[arg-type]
    assert _state(bucketcheck._clock, patient) == state
    assert not bucket.left


@pytest.mark.requirement("fleet-doctor")
def test_the_checks_have_names_of_their_own() -> None:
    names = [name for name, _ in BUCKET_CHECKS]
    assert len(names) == len(set(names))
