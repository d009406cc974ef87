"""A bucket's location and credentials, from the location itself, the usual environment variables and an AWS profile.

Credentials never appear in a command line, a message or a log. If neither the variables nor the profile hold
credentials, obstore looks for others: web identity, container and instance roles.
"""

from __future__ import annotations

import configparser
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from strongroom.errors import InvalidRequest, KeyUnavailable

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_NETLOC = re.compile(r"(?:[A-Za-z0-9._-]+|\[[A-Fa-f0-9.:]+\])(?::[0-9]*)?")
_REGION = "us-east-1"
_PROFILE_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
    "endpoint_url": "endpoint",
}
_VARIABLES = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_DEFAULT_REGION": "region",
    "AWS_REGION": "region",
    "AWS_ENDPOINT": "endpoint",
    "AWS_ENDPOINT_URL": "endpoint",
    "AWS_ENDPOINT_URL_S3": "endpoint",
}
"""The environment variables for each setting. A later variable overrides an earlier one."""
_CREDENTIALS = ("access_key_id", "secret_access_key", "session_token")


@dataclass(frozen=True, slots=True)
class Access:
    """One place in one bucket, and the settings to reach it, as far as they are known."""

    bucket: str
    prefix: str
    known: Mapping[str, str] = field(repr=False)

    @property
    def endpoint(self) -> str:
        return self.known.get("endpoint", "")

    @property
    def is_plain(self) -> bool:
        """Whether requests to the bucket go without TLS."""
        return self.endpoint.startswith("http://")

    def config(self) -> dict[str, str]:
        """The settings to pass to obstore."""
        return {"region": _REGION, **self.known}


def access(place: str, environment: Mapping[str, str] | None = None) -> Access:
    """Return the place for `bucket/prefix`, with settings from the environment."""
    told = os.environ if environment is None else environment
    bucket, _, prefix = place.strip("/").partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidRequest("the location names no bucket", hint="write s3://bucket/prefix")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise InvalidRequest("the prefix after the bucket's name may hold only letters, digits, '.', '_', '-' and '/'")
    known = _profile(told)
    said = {name: value for name in _VARIABLES if (value := told.get(name, "").strip())}
    if "AWS_ACCESS_KEY_ID" in said:  # then the profile's other credentials do not belong to it
        known = {name: value for name, value in known.items() if name not in _CREDENTIALS}
    known |= {_VARIABLES[name]: value for name, value in said.items()}
    _check_values(known)
    _check_endpoint(known.get("endpoint", ""), told)
    return Access(bucket, prefix, known)


def _check_values(known: Mapping[str, str]) -> None:
    """Refuse values with characters that cannot be signed or sent. obstore fails on them without a clear error."""
    if not all(value.isascii() and value.isprintable() for value in known.values()):
        raise InvalidRequest(
            "a credential, the region or the endpoint holds a character that cannot be sent",
            hint="each must be one line of printable ASCII: check the AWS_* variables and the profile",
        )
    if ("access_key_id" in known) != ("secret_access_key" in known):
        raise KeyUnavailable(
            "the AWS credentials are incomplete: the key id or the secret is missing",
            hint="set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither",
        )


def _check_endpoint(endpoint: str, told: Mapping[str, str]) -> None:
    """Refuse to send signed requests without TLS over a network. AWS_ALLOW_HTTP allows it."""
    if not endpoint:
        return
    try:
        parts = urlsplit(endpoint)
        is_address = parts.scheme in ("http", "https") and parts.port != 0 and _is_host(parts.netloc, parts.hostname)
    except ValueError:
        is_address = False
    if not is_address or " " in endpoint or parts.query:
        raise InvalidRequest(
            "the endpoint is not a plain http or https address", hint="correct AWS_ENDPOINT_URL"
        ) from None
    allowed = told.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true", "yes")
    if parts.scheme == "http" and not allowed and not _is_loopback(parts.hostname or ""):
        raise InvalidRequest(
            "the endpoint's address begins with http://, so requests would go without TLS",
            hint="use https; on a network where nobody can eavesdrop, set AWS_ALLOW_HTTP=true",
        )


def _is_host(netloc: str, host: str | None) -> bool:
    """Whether an address is only a host's name or IP address. obstore panics at any other text.

    A ValueError means no, too.
    """
    if not host or not _NETLOC.fullmatch(netloc):
        return False
    if ":" in host or host.rpartition(".")[2].isdigit():
        return bool(ipaddress.ip_address(host))
    return bool(host.encode("idna").decode("idna"))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _profile(told: Mapping[str, str]) -> dict[str, str]:
    """The settings of the profile that AWS_PROFILE names, or of the default profile."""
    home = Path(told.get("HOME") or Path.home())
    name = told.get("AWS_PROFILE") or "default"
    config = _sections(Path(told.get("AWS_CONFIG_FILE") or home / ".aws" / "config"))
    credentials = _sections(Path(told.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials"))
    found = config.get(name if name == "default" else f"profile {name}", {}) | credentials.get(name, {})
    if not found and told.get("AWS_PROFILE"):
        raise KeyUnavailable(f"the AWS configuration files have no profile {name}")
    return {ours: found[theirs] for theirs, ours in _PROFILE_KEYS.items() if found.get(theirs)}


def _sections(path: Path) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error):
        raise KeyUnavailable(
            f"cannot read the AWS configuration file {path}", hint="correct the file, or name another"
        ) from None
    return {name: dict(parser.items(name)) for name in parser.sections()}
