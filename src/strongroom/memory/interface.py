"""Memory: the API for callers, bound to one cap. It is the same for a vault in this process and on a server."""

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

    The cap names the actor, so no argument does. By default a call covers all namespaces of the cap. A namespace
    outside the cap raises CapNamespaceDenied, whether or not that namespace exists.

    Every call is logged before it answers. If the log entry cannot be written, the call raises AuditUnavailable and
    answers nothing. A write has been stored as a whole in that case, or not at all.
    """

    def with_cap(self, token: str) -> Memory:
        """The memory that another cap for the same vault gives, over the same connections.

        Closing the new memory leaves these connections open.
        """
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
        """Remember one line. The line is durable when the call returns.

        If you give an `id`, you can send the call again: the line is stored once. `tags` (at most 16) and `meta` (a
        JSON object of at most 2 KiB) are your own data, by which you can filter lines later. From `expires` on, the
        line is not recalled, and soon after it is forgotten. `turn` names the turn of a conversation to which the line
        belongs.
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
        """Remember up to 256 lines. Either all of them are stored, or none."""
        # Copied once: the gate must check the same values that are written.
        copies = tuple([_copied(line) for line in lines])
        return list(self._door.call(api.Put(lines=copies)).receipts)

    def inbox(self) -> str:
        """The vault's public key. Lines can be sealed to it while the vault is out of reach.

        `strongroom.crypto.inbox.seal` seals them, and `deliver` stores them later.
        """
        return self._door.call(api.ReadInbox()).recipient

    def deliver(self, sealed: bytes) -> list[Receipt]:
        """Remember the lines of a bundle that was sealed to the vault's inbox, as `put_many` would.

        If the bundle is for another actor than the cap's, raises CapLimitExceeded. A bundle can be delivered again: its
        lines are stored once.
        """
        return [*self._door.call(api.Deliver(sealed=sealed)).receipts]

    def observe(self, what: str, digest: str) -> None:
        """Log an action that was done outside the vault: `what` is its name, and `digest` the SHA-256 of its input.

        Only the log entry is stored. The entry holds `what` unencrypted and is never removed.
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
        min_confidence: float | None = None,
        or_newest: bool = False,
        explain: bool = False,
    ) -> list[Hit]:
        """Recall the best `k` lines for a query (by default 5, at most 20), or exactly the lines named by `ids`.

        Only lines that match the query are returned. An empty query matches every line, newest first.

        - `k=0` returns no lines. It only loads the lines into RAM, so that a later get is fast.
        - `ids`: if a line with one of these ids does not exist, the call raises LineNotFound.
        - `without` has the ids of up to 1024 lines that are not returned. The other lines keep their scores, and
          unknown ids are ignored.
        - `session` is the session in which the question is asked.
        - `now` is the moment to which words such as "tomorrow" refer, in the asker's time zone.
        - `patience` is how many seconds to wait while lines are read from disk. After that time, the lines read so far
          are ranked (the newest are read first), and the other lines are read in the background.
        - `min_confidence` is a number from 0 to 1: lines with a lower confidence are not returned.
        - `or_newest`: if no line matches, the newest lines are returned, with a score and a confidence of 0.
        - `explain` returns every candidate up to `k`, also those that `min_confidence` or `without` would leave out or
          that do not fit into an answer. Each has a `why`, and counts as read. With `ids`, it explains these lines.

        The other arguments are filters. Lines that do not meet all of them are not returned and change no score. A line
        must have all `tags`, every member of `meta` with an equal value, and a time from `since` to before `until`.
        `from_session`, `kind`, `author` and `turn` must be equal to those of the line.
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
            min_confidence=min_confidence,
            or_newest=or_newest,
            explain=explain,
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
        standing: bool = False,
    ) -> Listing:
        """List lines that meet every filter (the filters of `get`), in the order of their ids. Returns one page.

        With `standing`, it lists only standing instructions and preferences, such as "always answer in metric units".

        For the next page, pass the `next` of this page as `after`. With `texts`, the page has the texts of the lines,
        and they count as read: the cap must allow `get` too. Such a page has at most 1 MiB of text, and at most as many
        lines as the cap allows in one call (`max_k`).
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
            standing=standing,
        )
        return self._door.call(call)

    def snapshot(self, *, namespaces: Collection[str] | None = None) -> Snapshot:
        """The profiles of the cap's namespaces, for use in a system prompt: at most 8 KiB in all."""
        return self._door.call(api.TakeSnapshot(namespaces=_names(namespaces)))

    def profile(self, namespace: str | None = None) -> Profile:
        """The profile of one namespace, with the version that `set_profile` needs."""
        return self._door.call(api.ReadProfile(namespace=namespace))

    def set_profile(self, text: str, *, namespace: str | None = None, version: str = "") -> Profile:
        """Write a profile if its present version is `version`; otherwise raise VersionConflict.

        `version` is "" for a namespace that has no profile yet.
        """
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
        """Forget the lines that meet every condition given. At least one condition is required.

        The conditions are the filters of `get`, the `ids` of lines, the `session` of the line, and `link`. With `link`,
        the id of a link, only lines count that were written with that cap or with a cap narrowed from it. The next get
        of any process does not return the forgotten lines, and their ids cannot be used again.
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
        """Correct a line: put a new line in its place. The cap must allow `put` and `forget`.

        The old line is not recalled any more, but `history` shows it. With `forget`, the old line is forgotten as well.
        Arguments that you leave out are copied from the old line, except for the time. If the line was replaced
        already, raises LineReplaced. Give a `new_id` if you may have to send the call again: then the repeated call
        changes nothing.
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
        """The stored versions of a line, oldest first: the line itself, and the lines before and after its corrections.

        `id` may be the id of any version. The versions count as read. If there are more versions than the cap allows in
        one call, only the newest are returned.
        """
        return [*self._door.call(api.ReadHistory(id=id, namespace=namespace)).lines]

    def erase(self, namespaces: Collection[str] | None = None, *, everything: bool = False) -> Erased:
        """Destroy namespaces together with their keys: by default, all namespaces that the cap covers.

        `everything` also destroys the actor's own keys, and makes every cap of the actor issued so far invalid. For
        this, the cap must cover every namespace of the vault.
        """
        return self._door.call(api.Erase(namespaces=_names(namespaces), everything=everything))

    def renew(self) -> Token:
        """A new cap of the same scope and lifetime. The present cap must allow `renew`.

        A cap that was narrowed or has expired cannot be renewed.
        """
        return Token(self._door.call(api.Renew()).cap)


def _names(namespaces: Collection[str] | None) -> tuple[str, ...] | None:
    """The namespaces as a tuple. A single string is taken as one name."""
    return (namespaces,) if isinstance(namespaces, str) else None if namespaces is None else tuple(namespaces)


def _tags(tags: Collection[str]) -> tuple[str, ...]:
    """The tags as a tuple. A single string is taken as one tag."""
    return (tags,) if isinstance(tags, str) else tuple(tags)


def _ids(ids: Collection[str] | None) -> tuple[str, ...] | None:
    if isinstance(ids, str):
        raise InvalidRequest("ids is one string, but must be a list of line ids: put the id in brackets")
    return None if ids is None else tuple(ids)


def _copied(line: NewLine) -> NewLine:
    if type(line) is NewLine:
        return copy(line)
    if not isinstance(line, NewLine):
        raise InvalidRequest("put_many takes a list of strongroom.NewLine, but one item has another type")
    return NewLine(**msgspec.structs.asdict(line))
