"""A bucket: objects by name on any S3 server with conditional writes, through obstore.

A call has one of four outcomes: the answer, None for a missing object, `NameTaken` or `Changed` for a lost race, or
StoreUnavailable for everything else.

If the answer to a write got lost, the object is read back. Two bodies are never equal by chance, so an equal body is
our own write. The object is also read back after a conflict (409), because a server may cancel two concurrent writes,
each because of the other. If the object has not changed, the write is tried again. If a server's answers contradict
each other, the request is repeated a few times, and then StoreUnavailable is raised.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import obstore
from obstore import exceptions
from obstore.store import S3Store

from strongroom.errors import StoreUnavailable
from strongroom.store.s3.location import Access

if TYPE_CHECKING:
    from obstore import UpdateVersion

PAGE = 1000
_DELETES = 1000
_RETRIES = 6
_PATIENCE = timedelta(seconds=20)
_TIMEOUT = timedelta(seconds=10)
_CONNECT = timedelta(seconds=3)
_ASKS = 3
"""How often to repeat a request when a server's answers contradict each other."""
_PAUSES = (0.05, 0.1, 0.2, 0.4)
"""Seconds between attempts to create an object after a conflict that no writer won. obstore itself retries swaps."""
_DELETE_PAUSES = (0.05, 0.2, 0.8)
"""Seconds between attempts to delete objects when the server has deleted only some of them."""
_IN_PART = "DeleteObjects request failed for key"
_LOST = (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotModifiedError)
"""The errors of obstore for a condition that does not hold.

An AlreadyExistsError can also mean a conflict between writers, and then the write is tried again.
"""
_CONFLICT = "409 Conflict"


_FIXED = {"conditional_put": "etag", "skip_signature": "false"}
"""Settings that override those environment variables that obstore reads by itself."""
_REFUSED = {"AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken"}


_SKEWED = "RequestTimeTooSkewed"
_NO_BUCKET = "make it with your provider's tools; or is the name wrong, or AWS_ENDPOINT_URL?"


class NameTaken(Exception):
    """An object of this name exists already."""


class Changed(Exception):
    """An object has another etag than expected, or is gone."""


class BucketListing(NamedTuple):
    """An object in a list. `etag` is without quotes; `modified` is the server's time, in ms."""

    name: str
    etag: str
    size: int
    modified: int


class BucketObject(NamedTuple):
    """An object's bytes, and the etag that belongs to exactly these bytes."""

    body: bytes
    etag: str


class Bucket(Protocol):
    """The objects below one prefix of a bucket.

    Every method may be called from any thread, and sends one request, repeated if needed.
    """

    time: int
    """The server's time, in ms, at the last probe; 0 before a probe.

    A machine whose clock is far behind it is refused.
    """
    keeps_versions: bool
    """Whether the answer to a write has shown that the bucket keeps old versions of objects."""

    def get(self, name: str) -> BucketObject | None:
        """The object, or None if it is missing."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        """The objects whose names start with `prefix`, which ends with a slash, and come after `after`.

        Without `limit`, returns all of them; with `limit`, the first ones. The order is the server's: byte order only
        among names of equal length at the same level.
        """

    def folders(self, prefix: str) -> Sequence[str]:
        """The parts of names between `prefix`, which ends with a slash, and the next slash: each part once, in order.

        Sends one request for every thousand parts, no matter how many objects are below each.
        """

    def create(self, name: str, body: bytes) -> str:
        """Create an object and return its etag. NameTaken if the object exists already."""

    def swap(self, name: str, body: bytes, etag: str) -> str:
        """Replace the object that has `etag`, and return the new etag.

        Raises Changed if the object has another etag or is gone.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects. A missing object is no error."""


class S3Bucket:
    """A bucket on a server."""

    def __init__(self, access: Access, *, quoted: bool = True) -> None:
        self._prefix = f"{access.prefix}/" if access.prefix else ""
        self.quoted = quoted
        """Whether conditions send etags in quotes, as the standard says.

        Some servers only accept etags without quotes.
        """
        self.time = 0
        self.keeps_versions = False
        self._store = S3Store(
            access.bucket,
            config={**_FIXED, **access.config()},  # type: ignore[arg-type]
            client_options={"timeout": _TIMEOUT, "connect_timeout": _CONNECT, "allow_http": access.is_plain},
            retry_config={
                "max_retries": _RETRIES,
                "retry_timeout": _PATIENCE,
                "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=2), "base": 2},
            },
        )

    def get(self, name: str) -> BucketObject | None:
        try:
            for _ in range(_ASKS):
                found, size = self._get(name)
                if len(found.body) == size:
                    return found
        except _Missing:
            return None
        raise contradiction()

    def _get(self, name: str) -> tuple[BucketObject, int]:
        """An object and its size. An empty body would be a tombstone, so a second request checks it."""
        with _answered("read"):
            answer = obstore.get(self._store, self._prefix + name)
            found = BucketObject(bytes(answer.bytes()), _bare(answer.meta["e_tag"]))
            return found, len(found.body) or obstore.head(self._store, self._prefix + name)["size"]

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        with _answered("list"):
            offset = self._prefix + after if after else None
            stream = obstore.list(
                self._store, self._prefix + prefix.rstrip("/"), offset=offset, chunk_size=limit or PAGE
            )
            return [
                BucketListing(
                    one["path"][len(self._prefix) :],
                    _bare(one["e_tag"]),
                    one["size"],
                    int(one["last_modified"].timestamp() * 1000),
                )
                for page in (stream if limit is None else islice(stream, 1))
                for one in page
            ]

    def folders(self, prefix: str) -> Sequence[str]:
        with _answered("list"):
            found = obstore.list_with_delimiter(self._store, self._prefix + prefix.rstrip("/"))["common_prefixes"]
        start = len(self._prefix + prefix)
        return sorted({name for one in found if (name := one[start:].rstrip("/"))})

    def create(self, name: str, body: bytes) -> str:
        for pause in (*_PAUSES, 0.0):
            try:
                return self._put(name, body, "create")
            except _Conflict:
                if (found := self.get(name)) is not None:
                    return _own(found, body, NameTaken(name))
            except _Lost:
                return _own(self.get(name) if body else None, body, NameTaken(name))
            time.sleep(pause)
        raise _conflicting()

    def swap(self, name: str, body: bytes, etag: str) -> str:
        try:
            return self._put(name, body, {"e_tag": f'"{etag}"' if self.quoted else etag})
        except _Conflict:
            found = self.get(name)
            if found is not None and found.etag == etag:
                raise _conflicting() from None
            return _own(found, body, Changed(name))
        except (_Lost, _Missing):
            return _own(self.get(name) if body else None, body, Changed(name))

    def _put(self, name: str, body: bytes, mode: Literal["create"] | UpdateVersion) -> str:
        with _answered("write"):
            written = obstore.put(self._store, self._prefix + name, body, mode=mode)
        if written["version"] not in (None, "null"):
            self.keeps_versions = True
        return _bare(written["e_tag"])

    def delete(self, names: Sequence[str]) -> None:
        for at in range(0, len(names), _DELETES):
            self._delete([self._prefix + name for name in names[at : at + _DELETES]])

    def _delete(self, paths: Sequence[str]) -> None:
        """Delete up to 1,000 objects.

        Ceph refuses to delete objects that another client is deleting, so these are tried again.
        """
        with _answered("delete"):
            for pause in _DELETE_PAUSES:
                try:
                    return obstore.delete(self._store, paths)
                except exceptions.GenericError as error:
                    if _IN_PART not in str(error):
                        raise
                time.sleep(pause)
            return obstore.delete(self._store, paths)


def as_listed(bucket: Bucket, one: BucketListing) -> BucketObject | None:
    """Read an object that was listed.

    Returns its current bytes and etag, or None. Raises StoreUnavailable if the object still has the listed etag but
    another length.
    """
    for _ in range(_ASKS):
        found = bucket.get(one.name)
        if found is None or found.etag != one.etag or len(found.body) == one.size:
            return found
    raise contradiction()


def contradiction() -> StoreUnavailable:
    return StoreUnavailable("the object store's answers contradict each other", hint="try again; nothing was lost")


def _conflicting() -> StoreUnavailable:
    return StoreUnavailable(
        "the object store kept cancelling a write because of another write", hint="try again; nothing was lost"
    )


def _own(found: BucketObject | None, body: bytes, lost: Exception) -> str:
    """The etag of the object read back, if its bytes show that our own write succeeded. Otherwise raises `lost`."""
    if found is None or not body or found.body != body:
        raise lost from None
    return found.etag


class _Lost(Exception):
    pass


class _Conflict(_Lost):
    """The server cancelled a write because of a concurrent one. It is not known yet which write won, if any."""


class _Missing(Exception):
    pass


@contextmanager
def _answered(what: str) -> Iterator[None]:
    """Translate obstore's errors into those of the store's contract.

    Of a failed request, only the server's error code is repeated.
    """
    try:
        yield
    except _LOST as error:
        raise (_Conflict if _CONFLICT in str(error) else _Lost) from None
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise StoreUnavailable("there is no such bucket", hint=_NO_BUCKET) from None
        raise _Missing from None
    except exceptions.BaseError as error:
        raise _unavailable(what, error) from None


def _unavailable(what: str, error: exceptions.BaseError) -> StoreUnavailable:
    text = str(error)
    if _code(text) == _SKEWED:
        return StoreUnavailable(
            f"the object store refused to {what}: its clock and this machine's differ too much",
            hint="set this machine's clock; `strongroom doctor --store s3://...` prints the difference",
        )
    refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
    if refused or _code(text) in _REFUSED:
        return StoreUnavailable(
            f"the object store refused to {what}: {_code(text) or 'no permission'}",
            hint="check the credentials and the bucket's policy; `strongroom doctor --store s3://...` tests each right",
        )
    if "NoSuchBucket" in text:
        return StoreUnavailable("there is no such bucket", hint=_NO_BUCKET)
    reason = _code(text) or ("it did not answer in time" if "timed out" in text.lower() else "it is out of reach")
    hint = "try again; nothing was lost" if _code(text) else "try again; nothing was lost. Is AWS_ENDPOINT_URL right?"
    return StoreUnavailable(f"the object store could not {what}: {reason}", hint=hint)


def _code(text: str) -> str:
    """The server's own error code, such as SlowDown."""
    code = text.partition("<Code>")[2].partition("</Code>")[0]
    return code if code.isalnum() else ""


def _bare(etag: str | None) -> str:
    if not etag:
        raise StoreUnavailable(
            "the object store returned no etag for an object",
            hint="use a store with conditional writes, which need etags",
        )
    return etag.removeprefix("W/").strip('"')
