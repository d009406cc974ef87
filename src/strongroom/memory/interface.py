"""Memory: the API for callers, bound to one cap, the same for a vault in this process and on a server."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from typing import Any

import msgspec

from strongroom import api
from strongroom.caps.chain import Token
from strongroom.errors import InvalidRequest
from strongroom.memory.document_methods import DocumentMethods
from strongroom.model import Erased, Forgotten, Hit, Listing, NewLine, Profile, Receipt, Snapshot


class Memory(DocumentMethods):
    """One actor's memory, as far as one cap allows. Thread-safe and cheap to make.

    No argument names an actor. A namespace outside the cap is CapNamespaceDenied, whether or not it exists; by default
    all of the cap's namespaces are meant. Every call is logged before it answers. If that fails, it raises
    AuditUnavailable: nothing is answered, and a write is wholly there or wholly absent.
    """

    def with_cap(self, token: str) -> Memory:
        """The memory under another cap in the same place, over the same connections, which closing it leaves open."""
        return Memory(self._door.with_cap(token))

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
        tags: Collection[str] = (),
        meta: Mapping[str, Any] | None = None,
        expires: datetime | None = None,
        turn: str = "",
    ) -> Receipt:
        """Remember one line. Durable when it returns. Idempotent for a line with an id of its own.

        `tags` (at most 16) and `meta` (a JSON object of at most 2 KiB) are yours to filter by. From `expires` on the
        line is not recalled, and it is forgotten soon after. `turn` names the turn of a conversation that it belongs
        to.
        """
        line = NewLine(
            text=text,
            namespace=namespace,
            session=session,
            author=author,
            kind=kind,
            id=id,
            time=time,
            tags=_tags(tags),
            meta=meta,
            expires=expires,
            turn=turn,
        )
        return self._door.call(api.Put(lines=(line,))).receipts[0]

    def put_many(self, lines: Iterable[NewLine]) -> list[Receipt]:
        """Remember up to 256 lines, all or none."""
        # Copied once: the gate must check the same values that are written.
        copies = tuple([_copied(line) for line in lines])
        return list(self._door.call(api.Put(lines=copies)).receipts)

    def inbox(self) -> str:
        """The public key to seal lines to (`strongroom.crypto.inbox.seal`) while the vault is out of reach."""
        return self._door.call(api.ReadInbox()).recipient

    def deliver(self, sealed: bytes) -> list[Receipt]:
        """Remember the lines of a bundle that was sealed to the vault's inbox. The same as a put of its lines.

        A bundle for another actor than the cap's is CapLimitExceeded. Delivered again, its lines are stored once.
        """
        return [*self._door.call(api.Deliver(sealed=sealed)).receipts]

    def observe(self, what: str, digest: str) -> None:
        """Log that something was done outside the vault: its name, and the SHA-256 of its input.

        Only the log entry is stored, with `what` in clear and for ever.
        """
        self._door.call(api.Observe(what=what, digest=digest))

    def get(
        self,
        query: str = "",
        *,
        k: int | None = None,
        ids: Sequence[str] | None = None,
        without: Collection[str] = (),
        namespaces: Collection[str] | None = None,
        session: str | None = None,
        from_session: str | None = None,
        kind: str | None = None,
        author: str | None = None,
        tags: Collection[str] = (),
        meta: Mapping[str, Any] | None = None,
        turn: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> list[Hit]:
        """Recall the best `k` lines for a query (by default 5, at most 20), or exactly the lines named by `ids`.

        `session` is the session in which the question is asked, `now` the moment to which words such as "tomorrow"
        refer, in the asker's time zone. `patience` limits, in seconds, the wait for lines to be read from disk: the
        lines read by then are ranked, newest first, and the rest is read in the background. With `k=0` nothing is
        returned: the lines are read for later. `without` names up to 1024 lines not to return; the others keep their
        scores. An unknown id among `ids` is LineNotFound, among `without` it is ignored.

        The rest are filters. Only lines that meet every one count, for the scores too: `from_session`, `kind`,
        `author`, `turn`; `tags`, all of which the line must have; `meta`, members that must be equal; and the time of
        the line, from `since` until before `until`.
        """
        call = api.Get(
            query=query,
            k=k,
            ids=_ids(ids),
            without=_ids(without) or (),
            namespaces=_names(namespaces),
            session=session,
            from_session=from_session,
            kind=kind,
            author=author,
            tags=_tags(tags),
            meta=meta,
            turn=turn,
            since=since,
            until=until,
            now=now,
            patience=patience,
        )
        return list(self._door.call(call).lines)

    def list(
        self,
        *,
        namespaces: Collection[str] | None = None,
        session: str | None = None,
        kind: str | None = None,
        author: str | None = None,
        tags: Collection[str] = (),
        meta: Mapping[str, Any] | None = None,
        turn: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        after: str | None = None,
        texts: bool = False,
    ) -> Listing:
        """One page of lines that meet every filter (as in `get`), in id order.

        `after` takes the `next` of the page before. With `texts` the lines have their texts and count as read: the cap
        must allow `get` too, and a page has at most as many lines as its `max_k`, and 1 MiB of text.
        """
        call = api.List(
            namespaces=_names(namespaces),
            session=session,
            kind=kind,
            author=author,
            tags=_tags(tags),
            meta=meta,
            turn=turn,
            since=since,
            until=until,
            limit=limit,
            after=after,
            texts=texts,
        )
        return self._door.call(call)

    def snapshot(self, *, namespaces: Collection[str] | None = None) -> Snapshot:
        """The allowed profiles for a system prompt, at most 8 KiB in all."""
        return self._door.call(api.TakeSnapshot(namespaces=_names(namespaces)))

    def profile(self, namespace: str | None = None) -> Profile:
        """The profile of one namespace with its version, to be edited."""
        return self._door.call(api.ReadProfile(namespace=namespace))

    def set_profile(self, text: str, *, namespace: str | None = None, version: str = "") -> Profile:
        """Write a profile if it is still at `version` ("": none yet); otherwise raise VersionConflict."""
        return self._door.call(api.WriteProfile(text=text, namespace=namespace, version=version))

    def forget(
        self,
        *,
        ids: Collection[str] | None = None,
        session: str | None = None,
        link: str | None = None,
        namespaces: Collection[str] | None = None,
        kind: str | None = None,
        author: str | None = None,
        tags: Collection[str] = (),
        meta: Mapping[str, Any] | None = None,
        turn: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Forgotten:
        """Forget the lines that meet every condition given: the filters of `get`, and `session`, the line's own.

        `link` means written with that cap, or one narrowed from it.

        The next get of any process does not return them, and their ids cannot be used again.
        """
        call = api.Forget(
            ids=_ids(ids),
            session=session,
            link=link,
            namespaces=_names(namespaces),
            kind=kind,
            author=author,
            tags=_tags(tags),
            meta=meta,
            turn=turn,
            since=since,
            until=until,
        )
        return self._door.call(call)

    def replace(
        self,
        id: str,  # noqa: A002 - the line's word for it
        text: str,
        *,
        namespace: str | None = None,
        new_id: str | None = None,
        session: str | None = None,
        author: str | None = None,
        kind: str | None = None,
        time: datetime | None = None,
        tags: Collection[str] | None = None,
        meta: Mapping[str, Any] | None = None,
        expires: datetime | None = None,
        turn: str | None = None,
        forget: bool = False,
    ) -> Receipt:
        """Correct a line: put a new one in its place. Needs a cap for `put` and `forget`.

        The old line is not recalled any more, and `history` shows it; with `forget` its text is forgotten as well. What
        is left out is as in the old line, but for the time. Raises `LineReplaced` if somebody was first. Give a
        `new_id` if you may have to send the call again: it takes effect once.
        """
        call = api.Replace(
            id=id,
            text=text,
            namespace=namespace,
            new_id=new_id,
            session=session,
            author=author,
            kind=kind,
            time=time,
            tags=None if tags is None else _tags(tags),
            meta=meta,
            expires=expires,
            turn=turn,
            forget=forget,
        )
        return self._door.call(call)

    def history(self, id: str, *, namespace: str | None = None) -> builtins.list[Hit]:  # noqa: A002
        """The stored versions of a line, oldest first: the lines that it replaced, and those that replaced it.

        Any of their ids will do. They count as read; with more than the cap allows at once, the newest are returned.
        """
        return [*self._door.call(api.ReadHistory(id=id, namespace=namespace)).lines]

    def erase(self, namespaces: Collection[str] | None = None, *, everything: bool = False) -> Erased:
        """Destroy namespaces with their keys; by default all that the cap covers.

        `everything` destroys the actor's own keys too and voids every cap issued so far. It needs a cap that covers
        every namespace of the vault.
        """
        return self._door.call(api.Erase(namespaces=_names(namespaces), everything=everything))

    def renew(self) -> Token:
        """A new cap of the same scope and lifetime. The cap must allow `renew`, and be neither narrowed nor expired."""
        return Token(self._door.call(api.Renew()).cap)


def _names(namespaces: Collection[str] | None) -> tuple[str, ...] | None:
    """The namespaces as a tuple. A single text is one name."""
    return (namespaces,) if isinstance(namespaces, str) else None if namespaces is None else tuple(namespaces)


def _tags(tags: Collection[str]) -> tuple[str, ...]:
    """The tags as a tuple. A single text is one tag."""
    return (tags,) if isinstance(tags, str) else tuple(tags)


def _ids(ids: Collection[str] | None) -> tuple[str, ...] | None:
    if isinstance(ids, str):
        raise InvalidRequest("ids is a list of line ids, not one text")
    return None if ids is None else tuple(ids)


def _copied(line: NewLine) -> NewLine:
    if type(line) is NewLine:
        return copy(line)
    if not isinstance(line, NewLine):
        raise InvalidRequest("put_many takes a list of strongroom.NewLine")
    return NewLine(**msgspec.structs.asdict(line))
