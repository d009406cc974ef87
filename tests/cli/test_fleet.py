"""The command line for a vault in a bucket, as far as it goes without one: what is refused, and how it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from strongroom.cli import installed_extras, serve
from strongroom.cli.doctor import bucket_checks, bucket_settings
from strongroom.cli.doctor.bucket_checks import BUCKET_CHECKS, BucketPatient
from strongroom.cli.doctor.vault_checks import CheckProblem
from strongroom.cli.run_context import Run
from strongroom.server.server_options import DEFAULT
from strongroom.store.s3.bucket import BucketListing
from strongroom.store.s3.location import access
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
    installed = installed_extras.is_installed
    monkeypatch.setattr(installed_extras, "is_installed", lambda name: name != "s3" and installed(name))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.requirement("fleet-cli-extra")
def test_every_command_without_the_extra_says_how_to_get_it(cli: Cli, bare: None, home: Path, words: list[str]) -> None:
    done = cli(*words, "--json")
    assert (done.code, done.reason) == (2, "invalid_request")
    assert installed_extras.install("s3") in done.error["hint"]
    assert not list(home.iterdir())


@pytest.mark.requirement("fleet-cli-extra")
def test_doctor_without_the_extra_fails_with_it_and_skips_the_rest(cli: Cli, bare: None) -> None:
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
def test_address_is_never_taken_for_a_path(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://not-loopback.example")
    for words in COMMANDS[:6]:
        assert cli(*words, "--json").code != 0
    assert not list(home.rglob("s3:*"))
    assert not list(home.rglob("some-bucket"))


@pytest.mark.requirement("fleet-cli")
def test_server_over_a_bucket_has_more_threads_than_one_over_a_file(home: Path) -> None:
    given = {"names": (), "origins": (), "mcp": False, "log_requests": False}
    run = Run()
    run.place = PLACE
    assert serve._options(run, **given).slow == 32  # type: ignore[arg-type]
    assert serve._options(Run(), **given).slow == DEFAULT.slow  # type: ignore[arg-type]


def _told(monkeypatch: pytest.MonkeyPatch, told: bucket_settings.BucketAnswer | None) -> BucketPatient:
    monkeypatch.setattr(bucket_settings, "ask", lambda *_: told)
    patient = BucketPatient(Run(), PLACE, access("some-bucket/vault", {}))
    monkeypatch.setattr(BucketPatient, "reached", lambda _: None)
    return patient


@pytest.mark.parametrize(
    ("told", "state"),
    [
        (
            bucket_settings.BucketAnswer(
                200, "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
            ),
            "fail",
        ),
        (
            bucket_settings.BucketAnswer(
                200, "<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
            ),
            "warn",
        ),
        (bucket_settings.BucketAnswer(403, "<Error><Code>AccessDenied</Code></Error>"), "skip"),
        (bucket_settings.BucketAnswer(501, "<Error><Code>NotImplemented</Code></Error>"), "skip"),
        (bucket_settings.BucketAnswer(404, "<Error><Code>NoSuchBucket</Code></Error>"), "skip"),
        (bucket_settings.BucketAnswer(404, "<Error><Code>NoSuchKey</Code></Error>"), "skip"),
        (bucket_settings.BucketAnswer(200, "<ListBucketResult><Name>some-bucket</Name></ListBucketResult>"), "skip"),
        (bucket_settings.BucketAnswer(200, "<html><body>sign in</body></html>"), "skip"),
        (bucket_settings.BucketAnswer(200, ""), "skip"),
        (bucket_settings.BucketAnswer(200, "<VersioningConfiguration><Status>Enab"), "skip"),
        (bucket_settings.BucketAnswer(200, "<!DOCTYPE x [<!ENTITY a 'b'>]><VersioningConfiguration/>"), "skip"),
        (
            bucket_settings.BucketAnswer(200, "<VersioningConfiguration><Status>On</Status></VersioningConfiguration>"),
            "skip",
        ),
        (
            bucket_settings.BucketAnswer(
                200,
                "<s:VersioningConfiguration xmlns:s='urn:'><s:Status> Enabled\n</s:Status></s:VersioningConfiguration>",
            ),
            "fail",
        ),
        (None, "skip"),
        (bucket_settings.BucketAnswer(200, "<VersioningConfiguration/>"), "ok"),
        (
            bucket_settings.BucketAnswer(
                200, "<VersioningConfiguration xmlns='urn:s'><Status/></VersioningConfiguration>"
            ),
            "ok",
        ),
    ],
)
@pytest.mark.requirement("fleet-doctor")
def test_versioning_that_keeps_what_is_forgotten_fails(
    monkeypatch: pytest.MonkeyPatch, told: bucket_settings.BucketAnswer | None, state: str
) -> None:
    assert _state(bucket_checks._versioning, _told(monkeypatch, told)) == state


def _rules(rules: str) -> bucket_settings.BucketAnswer:
    return bucket_settings.BucketAnswer(200, f"<LifecycleConfiguration>{rules}</LifecycleConfiguration>")


def _rule(prefix: str, *, status: str = "Enabled", what: str = "Expiration") -> bucket_settings.BucketAnswer:
    inner = f"<Prefix>{prefix}</Prefix><Status>{status}</Status><{what}><Days>1</Days></{what}>"
    return _rules(f"<Rule>{inner}</Rule>")


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
        (_rules("<Rule><Status> Enabled </Status><Prefix/><Expiration><Days>1</Days></Expiration></Rule>"), "fail"),
        (_rules("<Rule xmlns='urn:r'><Status>Enabled</Status><Prefix/><Expiration/></Rule>"), "fail"),
        (_rules("<Rule><Status>Enabled</Status><Prefix/><Expiration xmlns='urn:e'/></Rule>"), "fail"),
        (_rules("<s:Rule xmlns:s='urn:s'><s:Status>Enabled</s:Status><s:Expiration/></s:Rule>"), "fail"),
        (_rules("<Rule><Status>Enabled</Status><Filter><Prefix>vault/</Prefix></Filter><Expiration/></Rule>"), "fail"),
        (_rules("<Rule><Status>Enabled</Status><Filter><Prefix>other/</Prefix></Filter><Expiration/></Rule>"), "ok"),
        (bucket_settings.BucketAnswer(200, "<ListBucketResult/>"), "skip"),
        (bucket_settings.BucketAnswer(200, "<LifecycleConfiguration><Rule>"), "skip"),
        (bucket_settings.BucketAnswer(404, "<Error><Code>NoSuchBucket</Code></Error>"), "skip"),
        (bucket_settings.BucketAnswer(404, "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>"), "ok"),
        (bucket_settings.BucketAnswer(403, "<Error><Code>AccessDenied</Code></Error>"), "skip"),
        (None, "skip"),
    ],
)
@pytest.mark.requirement("fleet-doctor")
def test_rule_that_deletes_or_moves_the_vaults_objects_fails(
    monkeypatch: pytest.MonkeyPatch, told: bucket_settings.BucketAnswer | None, state: str
) -> None:
    assert _state(bucket_checks._lifecycle, _told(monkeypatch, told)) == state


@pytest.mark.parametrize(("rules", "state"), [(1_000, "fail"), (100_000, "skip")])
@pytest.mark.requirement("fleet-doctor")
def test_rule_behind_many_others_is_found_and_an_answer_that_was_cut_is_none(
    monkeypatch: pytest.MonkeyPatch, rules: int, state: str
) -> None:
    other = f"<Rule><Status>Enabled</Status><Prefix>other/{'x' * 300}</Prefix><Expiration/></Rule>"
    whole = f"<LifecycleConfiguration>{other * rules}{other.replace('other/', 'vault/')}</LifecycleConfiguration>"
    with _answering(whole.encode()) as port:
        told = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "marked-key",
            "AWS_SECRET_ACCESS_KEY": "marked-secret",
        }
        patient = BucketPatient(Run(), PLACE, access("some-bucket/vault", told))
        monkeypatch.setattr(BucketPatient, "reached", lambda _: None)
        assert _state(bucket_checks._lifecycle, patient) == state


@contextmanager
def _answering(body: bytes) -> Iterator[int]:
    """A server on a free port that answers everything so."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who has read enough goes away
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def _state(look: object, patient: BucketPatient) -> str:
    try:
        look(patient)  # type: ignore[operator]
    except CheckProblem as found:
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

    def list(self, _: str) -> Sequence[BucketListing]:
        return [BucketListing(self.left[0], "etag", 5, int(time.time() * 1000 + self._ahead))]

    def delete(self, names: Sequence[str]) -> None:
        self.left = [name for name in self.left if name not in names]


@pytest.mark.parametrize(
    ("ahead", "state"), [(60_000, "fail"), (-60_000, "fail"), (12_000, "warn"), (-12_000, "warn"), (0, "ok")]
)
@pytest.mark.requirement("fleet-doctor")
def test_clock_that_differs_is_told_and_nothing_is_left_in_the_bucket(ahead: float, state: str) -> None:
    bucket = _Clocked(ahead)
    patient = BucketPatient(Run(), PLACE, bucket=bucket)  # type: ignore[arg-type]
    assert _state(bucket_checks._clock, patient) == state
    assert not bucket.left


@pytest.mark.requirement("fleet-doctor")
def test_checks_have_names_of_their_own() -> None:
    names = [name for name, _ in BUCKET_CHECKS]
    assert len(names) == len(set(names))
