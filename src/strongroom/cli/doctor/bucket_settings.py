"""Reads two settings of a bucket for which the store's client library has no call, with one signed GET (SigV4) each.

A GET is signed with an access key from the environment or a profile, not with a role of the machine. An answer counts
only if it is complete and is the document that was requested.
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

if TYPE_CHECKING:
    from strongroom.store.s3.location import Access

_LIMIT = 4 * 1024 * 1024
"""The largest answer in bytes. A thousand lifecycle rules, which is the limit of S3, fit into it."""
_SECONDS = 10
_EMPTY = hashlib.sha256(b"").hexdigest()


class BucketAnswer(NamedTuple):
    """The answer of the bucket's server to one request."""

    status: int
    text: str


def ask(access: Access, setting: str, now: datetime) -> BucketAnswer | None:
    """The server's answer about a setting such as `versioning`. None if the server cannot be asked."""
    known = access.config()
    if not known.get("access_key_id") or not known.get("secret_access_key"):
        return None
    base = access.endpoint.rstrip("/") or f"https://s3.{known['region']}.amazonaws.com"
    path = f"{urlsplit(base).path}/{access.bucket}"
    headers = _signed(known, urlsplit(base).netloc, path, f"{setting}=", now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ"))
    address = f"{base}/{access.bucket}?{setting}="
    try:
        opener = urllib.request.build_opener(_Staying)
        with opener.open(urllib.request.Request(address, headers=headers), timeout=_SECONDS) as answer:  # noqa: S310
            return _whole(answer.status, answer.read(_LIMIT + 1))
    except urllib.error.HTTPError as error:
        with error:
            return _whole(error.code, error.read(_LIMIT + 1))
    except (OSError, HTTPException):
        return None


def _whole(status: int, body: bytes) -> BucketAnswer | None:
    """The answer as text. None if the answer is too long, because the missing part may matter."""
    return None if len(body) > _LIMIT else BucketAnswer(status, body.decode("utf-8", "replace"))


def document(text: str, name: str) -> Element | None:
    """The root element of an XML text, if it has this name. None for another name, and for anything but plain XML."""
    if "<!" in text:  # it may declare entities, which grow without bounds
        return None
    try:
        found = ElementTree.fromstring(text)  # noqa: S314 - it declares no entity
    except ElementTree.ParseError:
        return None
    return found if found.tag.rpartition("}")[2] == name else None


class _Staying(urllib.request.HTTPRedirectHandler):
    """An opener that follows no redirect, because a signed request is meant for one server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _signed(known: dict[str, str], host: str, path: str, query: str, moment: str) -> dict[str, str]:
    headers = {"host": host, "x-amz-content-sha256": _EMPTY, "x-amz-date": moment}
    if known.get("session_token"):
        headers["x-amz-security-token"] = known["session_token"]
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    canonical = f"GET\n{path}\n{query}\n{lines}\n{names}\n{_EMPTY}"
    scope = f"{moment[:8]}/{known['region']}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{known['secret_access_key']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    credential = f"Credential={known['access_key_id']}/{scope}"
    headers["authorization"] = f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"
    return headers
