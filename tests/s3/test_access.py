"""Where a bucket is and who asks: refusals, the environment, and the profiles of the AWS files."""

from __future__ import annotations

from pathlib import Path

import pytest

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.store.s3.bucket import S3Bucket
from strongroom.store.s3.location import access

KEYS = {"AWS_ACCESS_KEY_ID": "marked-key", "AWS_SECRET_ACCESS_KEY": "marked-secret"}
PLACE = "some-bucket/vaults/home"
BOTH = "aws_access_key_id = one\naws_secret_access_key = two\n"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home that has no AWS files yet, and nothing else."""
    (tmp_path / ".aws").mkdir()
    return {"HOME": str(tmp_path)}


def write(home: dict[str, str], name: str, text: str) -> Path:
    path = Path(home["HOME"]) / ".aws" / name
    path.write_text(text)
    return path


@pytest.mark.requirement("s3-plain-http-refused")
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://s3.example.org",
        "http://10.0.0.7:9000",
        "HTTP://s3.example.org",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "http://[2001:db8::1]:9000",
        "http://0.0.0.0:9000",
    ],
)
def test_endpoint_without_tls_that_is_not_loopback_is_refused(home: dict[str, str], endpoint: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        access(PLACE, home | KEYS | {"AWS_ENDPOINT_URL": endpoint})
    assert caught.value.hint


@pytest.mark.requirement("s3-plain-http-refused")
def test_plain_http_from_a_profile_is_refused_like_one_from_the_environment(home: dict[str, str]) -> None:
    write(home, "config", "[default]\nendpoint_url = http://s3.example.org\n")
    with pytest.raises(InvalidRequest):
        access(PLACE, home | KEYS)


@pytest.mark.parametrize("word", ["0", "false", "no", "", "maybe"])
def test_plain_http_needs_a_clear_yes(home: dict[str, str], word: str) -> None:
    with pytest.raises(InvalidRequest):
        access(PLACE, home | {"AWS_ENDPOINT_URL": "http://s3.example.org", "AWS_ALLOW_HTTP": word})


@pytest.mark.parametrize("word", ["1", "true", "TRUE", "yes"])
def test_plain_http_is_taken_when_somebody_says_that_it_is_meant(home: dict[str, str], word: str) -> None:
    found = access(PLACE, home | {"AWS_ENDPOINT_URL": "http://s3.example.org", "AWS_ALLOW_HTTP": word})
    assert found.is_plain


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:8333", "http://localhost:1", "http://[::1]:8333"])
def test_plain_http_to_this_machine_is_taken(home: dict[str, str], endpoint: str) -> None:
    found = access(PLACE, home | {"AWS_ENDPOINT_URL": endpoint})
    assert found.is_plain
    assert found.endpoint == endpoint


@pytest.mark.parametrize(
    "endpoint",
    [
        "s3.example.org",
        "ftp://s3.example.org",
        "file:///etc/passwd",
        "https://",
        "https://marked-key:marked-secret@s3.example.org",
        "https://:marked-secret@s3.example.org",
        "https://s3.example.org/?X-Amz-Signature=marked-secret",
        "https://[::1",
        "https://[::1]x:9000",
        "https://[v1.x]:9000",
        "https://s3.example.org:marked-secret",
        "https://s3.example.org:99999",
        "https://s3.example.org:0",
        "https://256.1.1.1",
        "https://1.2.3.4.5",
        "https://s3..example.org",
        "https://xn--a",
        "https://a|b",
        "https://s3.example.org/a b",
    ],
)
def test_endpoint_that_is_no_plain_address_is_refused_without_being_repeated(
    home: dict[str, str], endpoint: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        access(PLACE, home | {"AWS_ENDPOINT_URL": endpoint})
    assert "marked-secret" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.requirement("s3-credentials")
@pytest.mark.requirement("s3-no-secrets")
@pytest.mark.parametrize("value", ["marked\nsecret", "marked\x00secret", "marked\x7fsecret", "marked-s\u00e9cret"])
@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"])
def test_value_that_cannot_be_sent_is_refused_without_being_repeated(
    home: dict[str, str], name: str, value: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        access(PLACE, home | KEYS | {name: value})
    assert "marked" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.requirement("s3-credentials")
def test_value_of_two_lines_in_a_profile_is_refused(home: dict[str, str]) -> None:
    write(home, "credentials", "[default]\n" + BOTH + " three\n")
    with pytest.raises(InvalidRequest):
        access(PLACE, home)


@pytest.mark.requirement("s3-credentials")
@pytest.mark.parametrize("name", list(KEYS))
@pytest.mark.parametrize("value", ["", "\n"])
def test_half_of_a_credential_is_refused(home: dict[str, str], name: str, value: str) -> None:
    with pytest.raises(KeyUnavailable):
        access(PLACE, home | KEYS | {name: value})


@pytest.mark.requirement("s3-credentials")
def test_line_end_of_a_file_read_whole_is_no_part_of_a_value(home: dict[str, str]) -> None:
    told = {name: f"{value}\n" for name, value in KEYS.items()} | {"AWS_ENDPOINT_URL": " https://s3.example.org:9000\n"}
    found = access(PLACE, home | told)
    assert found.config()["secret_access_key"] == "marked-secret"
    assert found.endpoint == "https://s3.example.org:9000"


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/",
        "x",
        "Some-Bucket",
        "some_bucket",
        "-bucket",
        "bucket-",
        "b" * 64,
        "bucket\n",
        "bücket",
        "key:secret@bucket",
        "some-bucket/..",
        "some-bucket/a/../b",
        "some-bucket/./a",
        "some-bucket//a",
        "some-bucket/a//b",
        "some-bucket/a b",
        "some-bucket/a\n",
        "some-bucket/ä",
        "some-bucket/a?b",
        "some-bucket/a%2f",
        "some-bucket/-a",
    ],
)
def test_odd_bucket_or_prefix_is_refused(home: dict[str, str], place: str) -> None:
    with pytest.raises(InvalidRequest):
        access(place, home | KEYS)


@pytest.mark.parametrize(
    ("place", "bucket", "prefix"),
    [
        ("some-bucket", "some-bucket", ""),
        ("some-bucket/", "some-bucket", ""),
        ("some.bucket/vaults/Home_2.x/", "some.bucket", "vaults/Home_2.x"),
    ],
)
def test_place_is_a_bucket_and_what_follows(home: dict[str, str], place: str, bucket: str, prefix: str) -> None:
    found = access(place, home)
    assert (found.bucket, found.prefix) == (bucket, prefix)


def test_environment_says_who_asks_and_where(home: dict[str, str]) -> None:
    told = KEYS | {"AWS_SESSION_TOKEN": "marked-token", "AWS_REGION": "eu-west-1"}
    assert access(PLACE, home | told).config() == {
        "access_key_id": "marked-key",
        "secret_access_key": "marked-secret",
        "session_token": "marked-token",
        "region": "eu-west-1",
    }


def test_more_specific_variable_wins(home: dict[str, str]) -> None:
    told = {
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_ENDPOINT_URL_S3": "https://one.example.org",
        "AWS_ENDPOINT_URL": "https://two.example.org",
    }
    found = access(PLACE, home | told)
    assert found.config() == {"region": "eu-west-1", "endpoint": "https://one.example.org"}
    assert not found.is_plain


def test_only_a_region_is_told_if_nothing_is_said(home: dict[str, str]) -> None:
    assert access(PLACE, home).config() == {"region": "us-east-1"}


def test_empty_variables_say_nothing(home: dict[str, str]) -> None:
    assert access(PLACE, home | {"AWS_ACCESS_KEY_ID": "", "AWS_ENDPOINT_URL": ""}).config() == {"region": "us-east-1"}


@pytest.mark.requirement("s3-credentials")
def test_default_profile_is_read_from_both_files(home: dict[str, str]) -> None:
    write(home, "config", "[default]\nregion = eu-west-1\nendpoint_url = https://s3.example.org\noutput = json\n")
    write(home, "credentials", "[default]\naws_access_key_id = one\naws_secret_access_key = two\n")
    assert access(PLACE, home).config() == {
        "access_key_id": "one",
        "secret_access_key": "two",
        "region": "eu-west-1",
        "endpoint": "https://s3.example.org",
    }


@pytest.mark.requirement("s3-credentials")
def test_named_profile_is_read_and_the_default_one_is_not(home: dict[str, str]) -> None:
    write(home, "config", "[default]\nregion = eu-west-1\n[profile work]\nregion = us-west-2\n")
    write(home, "credentials", "[default]\naws_session_token = no\n[work]\n" + BOTH)
    found = access(PLACE, home | {"AWS_PROFILE": "work"})
    assert found.config() == {"access_key_id": "one", "secret_access_key": "two", "region": "us-west-2"}


def test_files_may_be_elsewhere(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "c").write_text("[default]\nregion = eu-west-1\n")
    (tmp_path / "k").write_text("[default]\n" + BOTH)
    told = {"AWS_CONFIG_FILE": str(tmp_path / "c"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "k")}
    found = access(PLACE, home | told).config()
    assert found == {"access_key_id": "one", "secret_access_key": "two", "region": "eu-west-1"}


def test_environment_wins_over_a_profile(home: dict[str, str]) -> None:
    write(home, "credentials", "[default]\naws_access_key_id = one\naws_secret_access_key = two\nregion = eu-west-1\n")
    found = access(PLACE, home | KEYS).config()
    assert found == {"access_key_id": "marked-key", "secret_access_key": "marked-secret", "region": "eu-west-1"}


@pytest.mark.requirement("s3-credentials")
def test_token_of_a_profile_is_not_mixed_with_keys_of_the_environment(home: dict[str, str]) -> None:
    write(
        home, "credentials", "[default]\naws_access_key_id = one\naws_secret_access_key = two\naws_session_token = x\n"
    )
    assert "session_token" not in access(PLACE, home | KEYS).config()


def test_profile_that_is_not_there_is_an_error_by_name(home: dict[str, str]) -> None:
    with pytest.raises(KeyUnavailable):
        access(PLACE, home | {"AWS_PROFILE": "work"})


@pytest.mark.parametrize("text", ["aws_secret_access_key = marked-secret\n", "[default\nmarked-secret", "\udcff"])
def test_file_that_cannot_be_read_is_an_error_that_repeats_nothing_of_it(home: dict[str, str], text: str) -> None:
    path = write(home, "credentials", "")
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(KeyUnavailable) as caught:
        access(PLACE, home)
    assert "marked-secret" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__suppress_context__


@pytest.mark.requirement("s3-no-secrets")
def test_no_repr_shows_a_secret(home: dict[str, str]) -> None:
    told = KEYS | {"AWS_SESSION_TOKEN": "marked-token", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    found = access(PLACE, home | told)
    shown = f"{found!r} {found} {S3Bucket(found)!r} {vars(S3Bucket(found))!r}"
    assert "some-bucket" in shown
    assert not [word for word in ("marked-key", "marked-secret", "marked-token") if word in shown]
