"""Memory: the interface that callers hold, tied to one cap. The remote client offers the same one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from strongroom import model
from strongroom.errors import InvalidRequest
from strongroom.memory import forgetting, profiles, putting, recalling
from strongroom.memory.clerk import Clerk
from strongroom.model import Erased, Forgotten, Hit, Listing, NewLine, Profile, Receipt, Snapshot


class Memory:
    """One actor's memory as far as one cap reaches. Thread-safe and cheap to make.

    No argument names an actor. A namespace outside the cap is CapNamespaceDenied, whether or not it exists; where
    none is named, the cap's own are meant. Every call is recorded before it answers; if that fails, it raises
    AuditUnavailable: nothing is answered, and a write is wholly there or wholly absent.
    """

    def __init__(self, clerk: Clerk, token: str, *, source: str = "python", request: str = "") -> None:
        self._clerk = clerk
        self._token = token
        self._source = model.clean_field(source, "a source")
        self._request = model.clean_field(request, "a request id")

    def __repr__(self) -> str:
        return "<memory behind a cap>"

    def put(
        self,
        text: str,
        *,
        namespace: str | None = None,
        session: str | None = None,
        author: str = "",
        kind: str = "note",
        id: str | None = None,  # noqa: A002 - the line's word for it
        time: datetime | None = None,
    ) -> Receipt:
        """Remember one line. Durable when it returns; sent again with the same id, it is written once."""
        line = NewLine(text=text, namespace=namespace, session=session, author=author, kind=kind, id=id, time=time)
        return putting.put(self._clerk, self._token, [line], self._source, self._request)[0]

    def put_many(self, lines: Iterable[NewLine]) -> list[Receipt]:
        """Remember up to 256 lines, all or none."""
        # Copied once: what the gate looks at must be what is written.
        copies = [_copied(line) for line in lines]
        return putting.put(self._clerk, self._token, copies, self._source, self._request)

    def get(
        self,
        query: str = "",
        *,
        k: int | None = None,
        ids: Sequence[str] | None = None,
        namespaces: Collection[str] | None = None,
        session: str | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> list[Hit]:
        """Recall the best `k` lines for a query (5 unless told, at most 20), or exactly the lines named by `ids`.

        `session` is the session in which the question is asked, `now` the moment to which words such as
        "tomorrow" refer, in the asker's time zone. `patience` bounds, in seconds, how long to wait for lines to be
        read from disk: what is there by then is ranked, newest lines first, and the rest is read in the background.
        An unknown id is LineNotFound.
        """
        return recalling.get(
            self._clerk,
            self._token,
            query,
            k=k,
            ids=ids,
            namespaces=namespaces,
            session=session,
            now=now,
            patience=patience,
            request=self._request,
        )

    def list(
        self,
        *,
        namespaces: Collection[str] | None = None,
        session: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> Listing:
        """One page of lines without their texts, in id order; `after` takes the `next` of the page before."""
        return recalling.list_lines(
            self._clerk,
            self._token,
            namespaces=namespaces,
            session=session,
            kind=kind,
            since=since,
            until=until,
            limit=limit,
            after=after,
            request=self._request,
        )

    def snapshot(self, *, namespaces: Collection[str] | None = None) -> Snapshot:
        """The allowed profiles for a system prompt, at most 8 KiB in all."""
        return profiles.snapshot(self._clerk, self._token, namespaces=namespaces, request=self._request)

    def profile(self, namespace: str | None = None) -> Profile:
        """The profile of one namespace with its version, to be edited."""
        return profiles.profile(self._clerk, self._token, namespace=namespace, request=self._request)

    def set_profile(self, text: str, *, namespace: str | None = None, version: str = "") -> Profile:
        """Write a profile that is still at `version` ("": none was written yet), else VersionConflict."""
        return profiles.set_profile(
            self._clerk, self._token, text, namespace=namespace, version=version, request=self._request
        )

    def forget(
        self,
        *,
        ids: Collection[str] | None = None,
        session: str | None = None,
        link: str | None = None,
        namespaces: Collection[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Forgotten:
        """Forget the lines that meet every condition given; `link` means those written with that cap or one below it.

        The next get of any process does not return them, and their ids cannot be used again.
        """
        return forgetting.forget(
            self._clerk,
            self._token,
            ids=ids,
            session=session,
            link=link,
            namespaces=namespaces,
            since=since,
            until=until,
            request=self._request,
        )

    def erase(self, namespaces: Collection[str] | None = None, *, everything: bool = False) -> Erased:
        """Destroy namespaces with their keys; none named: all that the cap covers.

        `everything` destroys the actor's own keys too and voids every cap issued so far. It needs a cap that covers
        every namespace of the vault.
        """
        return forgetting.erase(
            self._clerk, self._token, namespaces=namespaces, everything=everything, request=self._request
        )


def _copied(line: NewLine) -> NewLine:
    if not isinstance(line, NewLine):
        raise InvalidRequest("put_many takes a list of strongroom.NewLine")
    return NewLine(**{name: getattr(line, name) for name in NewLine.__struct_fields__})
