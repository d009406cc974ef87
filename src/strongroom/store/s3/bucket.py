"""A bucket: objects by name on any S3 that keeps its conditions, through obstore.

What a caller hears is one of four things: the answer, None for what is not there, `Taken` or `Changed` for a race that
was lost, or StoreUnavailable for all else. A write whose answer got lost is looked at before it counts as lost: bodies
are never the same by chance, so one that is there and equal is our own. So is one that met a conflict (409): a server
may give up a write because of another one that it gave up, too. Where nothing has changed, the race has not been run.

An answer that contradicts another one of the same server is no answer: it is asked for again, then unavailable.
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
from strongroom.store.s3.access import Access

if TYPE_CHECKING:
    from obstore import UpdateVersion

PAGE = 1000
_DELETES = 1000
_RETRIES = 6
_PATIENCE = timedelta(seconds=20)
_TIMEOUT = timedelta(seconds=10)
_CONNECT = timedelta(seconds=3)
_ASKS = 3
"""How often to ask where answers contradict each other."""
_PAUSES = (0.05, 0.1, 0.2, 0.4)
"""Seconds between the tries to create what met a conflict, and is not there. obstore does the same for a swap."""
_DELETE_PAUSES = (0.05, 0.2, 0.8)
"""Seconds between the tries to delete what a server has deleted only in part."""
_IN_PART = "DeleteObjects request failed for key"
_LOST = (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotModifiedError)
"""A condition did not hold, or the server saw a conflict: both may be called AlreadyExistsError."""
_CONFLICT = "409 Conflict"


_FIXED = {"conditional_put": "etag", "skip_signature": "false"}
"""What is not left to the environment, into which obstore looks for itself."""
_REFUSED = {"AccessDenied", "SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken"}


_SKEWED = "RequestTimeTooSkewed"
_NO_BUCKET = "make it with your provider's tools; or is the name wrong, or AWS_ENDPOINT_URL?"


class Taken(Exception):
    """An object of this name is there already."""


class Changed(Exception):
    """An object is not the one that it was, or is gone."""


class Listed(NamedTuple):
    """An object as a list has it. `etag` has no quotes; `modified` is the server's time, in ms."""

    name: str
    etag: str
    size: int
    modified: int


class Found(NamedTuple):
    """An object's bytes, and the etag of exactly these."""

    body: bytes
    etag: str


class Bucket(Protocol):
    """Objects below one prefix. Every method may be called from any thread; each is one request, but for retries."""

    time: int
    """The server's time, in ms, when it was last tried; 0 if it never was. A clock far behind it is refused."""
    keeps_versions: bool
    """Whether an answer to a write has told that the old object is kept."""

    def get(self, name: str) -> Found | None:
        """The object, or None."""

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        """The objects whose names start with `prefix`, which ends with a slash, and come after `after`.

        All of them, or the first `limit`. In the server's order, which is that of bytes only among names of one length
        at one level.
        """

    def folders(self, prefix: str) -> Sequence[str]:
        """The parts of names between `prefix`, which ends with a slash, and the next slash: each once, in order.

        A request for every thousand of them, however much lies below each.
        """

    def create(self, name: str, body: bytes) -> str:
        """Write an object where there is none, and return its etag; else Taken."""

    def swap(self, name: str, body: bytes, etag: str) -> str:
        """Replace the object that has `etag`, and return the new one's; else Changed."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that are not there are no error."""


class S3Bucket:
    """A bucket on a server."""

    def __init__(self, access: Access, *, quoted: bool = True) -> None:
        self._prefix = f"{access.prefix}/" if access.prefix else ""
        self.quoted = quoted
        """Whether conditions name an etag in quotes, as the standard has it; some servers know it only without."""
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

    def get(self, name: str) -> Found | None:
        try:
            for _ in range(_ASKS):
                found, size = self._get(name)
                if len(found.body) == size:
                    return found
        except _Missing:
            return None
        raise contradiction()

    def _get(self, name: str) -> tuple[Found, int]:
        """An object, and its size by another answer if it came without any bytes: that would make it a tombstone."""
        with _answered("read"):
            answer = obstore.get(self._store, self._prefix + name)
            found = Found(bytes(answer.bytes()), _bare(answer.meta["e_tag"]))
            return found, len(found.body) or obstore.head(self._store, self._prefix + name)["size"]

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[Listed]:
        with _answered("list"):
            offset = self._prefix + after if after else None
            stream = obstore.list(
                self._store, self._prefix + prefix.rstrip("/"), offset=offset, chunk_size=limit or PAGE
            )
            return [
                Listed(
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
                    return _own(found, body, Taken(name))
            except _Lost:
                return _own(self.get(name) if body else None, body, Taken(name))
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
        """One request. Ceph refuses single objects of it that another client deletes at that moment: ask again."""
        with _answered("delete"):
            for pause in _DELETE_PAUSES:
                try:
                    return obstore.delete(self._store, paths)
                except exceptions.GenericError as error:
                    if _IN_PART not in str(error):
                        raise
                time.sleep(pause)
            return obstore.delete(self._store, paths)


def as_listed(bucket: Bucket, one: Listed) -> Found | None:
    """An object that a list had, as it is now. The same etag with another length contradicts the list."""
    for _ in range(_ASKS):
        found = bucket.get(one.name)
        if found is None or found.etag != one.etag or len(found.body) == one.size:
            return found
    raise contradiction()


def contradiction() -> StoreUnavailable:
    return StoreUnavailable("the object store's answers contradict each other", hint="try again; nothing was lost")


def _conflicting() -> StoreUnavailable:
    return StoreUnavailable(
        "the object store kept giving up a write for another one", hint="try again; nothing was lost"
    )


def _own(found: Found | None, body: bytes, lost: Exception) -> str:
    """The etag of what we wrote ourselves, if it is what is there: its answer was lost. Else the race was."""
    if found is None or not body or found.body != body:
        raise lost from None
    return found.etag


class _Lost(Exception):
    pass


class _Conflict(_Lost):
    """Nothing says yet that the race was run."""


class _Missing(Exception):
    pass


@contextmanager
def _answered(what: str) -> Iterator[None]:
    """Make of obstore's errors what the contract knows. Nothing of a request is repeated but the server's code."""
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
            hint="set this machine's clock; `strongroom doctor --store s3://...` tells by how much it is wrong",
        )
    refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
    if refused or _code(text) in _REFUSED:
        return StoreUnavailable(
            f"the object store refused to {what}: {_code(text) or 'no permission'}",
            hint="check the credentials and the bucket's policy; `strongroom doctor --store s3://...` tries each right",
        )
    if "NoSuchBucket" in text:
        return StoreUnavailable("there is no such bucket", hint=_NO_BUCKET)
    reason = _code(text) or ("it did not answer in time" if "timed out" in text.lower() else "it is out of reach")
    hint = "try again; nothing was lost" if _code(text) else "try again; nothing was lost. Is AWS_ENDPOINT_URL right?"
    return StoreUnavailable(f"the object store could not {what}: {reason}", hint=hint)


def _code(text: str) -> str:
    """The server's own code for an error, such as SlowDown."""
    code = text.partition("<Code>")[2].partition("</Code>")[0]
    return code if code.isalnum() else ""


def _bare(etag: str | None) -> str:
    if not etag:
        raise StoreUnavailable("the object store gave no etag", hint="strongroom needs a store with conditional writes")
    return etag.removeprefix("W/").strip('"')
