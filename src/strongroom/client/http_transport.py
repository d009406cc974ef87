"""The transport of calls to a server: it sends calls, repeats them after failures, and renews the cap.

A call is sent again only after a failure that may pass, and only if this does no harm:

- A put can be repeated, because every line gets its id before the first attempt. A deliver can be repeated, because its
  lines have ids already.
- A write of a profile or document can be repeated. If the second attempt fails with a conflict, the present version is
  read: it may be the result of the first attempt.
- A repeated forget or revoke finds nothing to do.
- A repeated observe is logged twice, with the same request id.
- An erase, a mint or a renewal is not repeated if the server may have carried it out. The caller decides.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, cast

import httpx
import msgspec

from strongroom import api, model
from strongroom.api import A, Call
from strongroom.caps.chain import Token
from strongroom.client.cap_holder import CapHolder, is_renewal
from strongroom.client.encode_call import encode_call
from strongroom.client.http_exchange import Exchange, ExchangeFailure
from strongroom.client.server_address import Address, Transport
from strongroom.errors import ServerDefect, ServerUnavailable, StrongroomError, VersionConflict
from strongroom.model import Document, LineIds, Millis, NewLine, Profile

_ONCE = (api.Erase, api.Mint, api.Renew)
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 2.0
_PATIENCE = 10.0
"""Maximum wait that a server may ask for (Retry-After), in seconds. If it asks for more, the call fails at once."""
_RENEWAL_TIMEOUT = 5.0
_SHORTEST = 0.01
_DAY = 24 * 3600
_PLACES_HELD = 1024


class HttpTransport:
    """Sends the calls that are made under one cap to a server. Thread-safe. A forked process opens new connections."""

    def __init__(
        self,
        address: Address,
        token: str,
        transport: Transport,
        *,
        timeout: float,
        retries: int,
        renew: bool = True,
        on_renew: Callable[[Token], object] | None,
        now: Callable[[], Millis],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._held = CapHolder(token)
        self._timeout = timeout
        self._retries = retries
        self._renew = renew
        self._on_renew = on_renew
        self._now = now
        self._clock = clock
        self._sleep = sleep
        self._exchange = Exchange(address, clock)
        self._connections = _Connections(transport)
        self._local = _Local()

    def __repr__(self) -> str:
        return f"<door to {self._exchange.address.shown}>"

    def close(self) -> None:
        """Close the connections. Later calls over them, under any cap, raise ServerUnavailable."""
        self._connections.close()

    def with_cap(self, token: str) -> HttpTransport:
        """A transport to the same server under another cap, over the same connections. That cap is not renewed."""
        door = copy(self)
        # Each cap counts its own ids: a counter shared by two actors would show one actor how much the other puts.
        door._held, door._local, door._renew, door._on_renew = CapHolder(token), _Local(), False, None
        return door

    def call(self, call: Call[A]) -> A:
        self._held.shown()  # raises an error for a bad cap, which is reported before bad arguments
        ready = encode_call(call)
        if self._renew and not isinstance(ready, api.Renew):
            self._keep_fresh()
        if isinstance(ready, api.Put):
            return cast(A, self._put(ready))
        if isinstance(ready, api.WriteProfile):
            return cast(A, self._write_profile(ready))
        if isinstance(ready, api.WriteDocument):
            return cast(A, self._write_document(ready))
        if isinstance(ready, api.Renew):
            return cast(A, self._renew_by_hand(ready))
        return _given(self._sent(ready)[0])

    def _put(self, call: api.Put) -> api.Receipts:
        lines = tuple(self._identified(line) for line in call.lines)
        answer = _given(self._sent(api.Put(lines=lines))[0])
        if [receipt.id for receipt in answer.receipts] != [line.id for line in lines]:
            raise ServerDefect("the server sent receipts for other lines than those that were put")
        made = [line.id is None for line in call.lines]
        # Ids made here are new. If such a line is a duplicate, an earlier attempt of this put has stored it.
        receipts = (
            msgspec.structs.replace(receipt, duplicate=receipt.duplicate and not own)
            for receipt, own in zip(answer.receipts, made, strict=True)
        )
        return api.Receipts(tuple(receipts))

    def _identified(self, line: NewLine) -> NewLine:
        if line.id is not None:
            return line
        return msgspec.structs.replace(line, id=self._here().new_id(line.namespace, self._now()))

    def _renew_by_hand(self, call: api.Renew) -> api.Issued:
        token = self._held.token
        answer = _given(self._sent(call)[0])
        if not is_renewal(token, answer.cap):
            raise ServerDefect(
                "the server sent a new cap that is no renewal of the present cap", hint="keep the present cap"
            )
        return answer

    def _write_profile(self, call: api.WriteProfile) -> Profile:
        sent = self._sent(call)
        outcome, unclear = sent
        if unclear and isinstance(outcome, ExchangeFailure) and isinstance(outcome.error, VersionConflict):
            # An earlier attempt may have been carried out. This attempt then conflicts with its result.
            found = _given(self._sent(api.ReadProfile(namespace=call.namespace))[0])
            if found.text == model.clean_text(call.text, limit=model.PROFILE_LIMIT, what="a profile"):
                return found
        return _given(outcome)

    def _write_document(self, call: api.WriteDocument) -> Document:
        sent = self._sent(call)
        outcome, unclear = sent
        if unclear and isinstance(outcome, ExchangeFailure) and isinstance(outcome.error, VersionConflict):
            # As with a profile: this attempt may conflict with the result of an earlier one.
            looked = self._sent(api.ReadDocument(key=call.key, namespace=call.namespace))
            if isinstance(looked[0], Document) and _is_result(looked[0], call):
                return looked[0]
        return _given(outcome)

    def _sent(self, call: Call[A]) -> tuple[A | ExchangeFailure, bool]:
        """Send a call, with repeated attempts. Returns the outcome of the last attempt, and a flag.

        The flag is True if the server may have carried out an earlier attempt.
        """
        request_id = os.urandom(12).hex()
        deadline = self._clock() + self._timeout + _patience(call)
        unclear = False
        reason: StrongroomError | None = None
        for turn in range(self._retries + 1):
            outcome = self._once(call, request_id, max(deadline - self._clock(), _SHORTEST))
            if isinstance(outcome, ExchangeFailure) and not isinstance(outcome.error, ServerUnavailable):
                reason = outcome.error
            if not isinstance(outcome, ExchangeFailure) or not outcome.passing or turn == self._retries:
                break
            if outcome.unclear and isinstance(call, _ONCE):
                break
            wait = _wait(turn, outcome.wait)
            if wait is None or self._clock() + wait >= deadline:
                break
            unclear = unclear or outcome.unclear
            self._sleep(wait)
        if isinstance(outcome, ExchangeFailure) and reason is not None:
            # The server gave a reason at an earlier attempt. This reason says more than a later time-out.
            outcome = replace(outcome, error=reason)
        return outcome, unclear

    def _once(self, call: Call[A], request_id: str, timeout: float) -> A | ExchangeFailure:
        if self._connections.closed:
            error = ServerUnavailable("this memory was closed", hint="call strongroom.connect() again")
            return ExchangeFailure(error, unclear=False)
        return self._exchange.once(self._connections.here(), call, self._held.shown(), request_id, timeout)

    def _here(self) -> _Local:
        if self._local.process != os.getpid():
            self._local = _Local()
        return self._local

    def _keep_fresh(self) -> None:
        """Renew the cap if it is time. One thread renews it; the others use the old cap, which is still valid."""
        renewing = self._here().renewing
        if not self._held.is_due(self._seconds()) or not renewing.acquire(blocking=False):
            return
        try:
            token = self._renewed() if self._held.is_due(self._seconds()) else None
        finally:
            renewing.release()
        if token is not None and self._on_renew is not None:
            self._on_renew(token)

    def _renewed(self) -> Token | None:
        """Renew the cap, and use the new one from now on. If this fails, keep the old cap and return None."""
        self._held.tried(self._seconds())
        timeout = min(self._timeout, _RENEWAL_TIMEOUT)
        outcome = self._once(api.Renew(), os.urandom(12).hex(), timeout)
        if isinstance(outcome, ExchangeFailure) or not is_renewal(self._held.token, outcome.cap):
            return None
        held = CapHolder(outcome.cap)
        if held.is_due(self._seconds()):
            held.tried(self._seconds())  # this machine's clock is ahead: do not renew at every call
        self._held = held
        return held.token

    def _seconds(self) -> float:
        return self._now() / 1000


class _Connections:
    """The connections of one process, shared by several caps. A forked process makes new connections."""

    def __init__(self, transport: Transport) -> None:
        self.closed = False
        self._make = transport
        self._made = _Made(os.getpid(), transport())

    def here(self) -> httpx.BaseTransport:
        if self._made.process != os.getpid():
            self._made = _Made(os.getpid(), self._make(), self._made)
        return self._made.transport

    def close(self) -> None:
        self.closed = True
        if self._made.process == os.getpid():
            self._made.transport.close()


class _Made(NamedTuple):
    process: int
    transport: httpx.BaseTransport
    inherited: Any = None  # kept and not closed, because the parent process still uses these connections


class _Local:
    """The state of one cap in one process.

    A forked process makes a new one, because it must not share locks or counters of ids with its parent.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.renewing = threading.Lock()
        self._ids: dict[str | None, LineIds] = {}
        self._guard = threading.Lock()

    def new_id(self, namespace: str | None, now: Millis) -> str:
        """A new line id, greater than all earlier ids of this namespace.

        Each namespace has a counter of its own: a shared counter would reveal activity in other namespaces.
        """
        with self._guard:
            while namespace not in self._ids and len(self._ids) >= _PLACES_HELD:
                del self._ids[next(iter(self._ids))]
            return self._ids.setdefault(namespace, LineIds(os.urandom)).new(now)


def _given(outcome: A | ExchangeFailure) -> A:
    if isinstance(outcome, ExchangeFailure):
        raise outcome.error
    return outcome


def _is_result(found: Document, call: api.WriteDocument) -> bool:
    """Whether a document is the result that this call would have."""
    return (found.text, found.tags, found.meta or {}, found.expires) == (
        model.clean_text(call.text, limit=model.DOCUMENT_LIMIT, what="a document"),
        model.clean_tags(call.tags),
        call.meta or {},
        None if call.expires is None else model.moment(model.millis(call.expires)),
    )


def _patience(call: Call[Any]) -> float:
    """The seconds that a vault may wait before it answers: the patience of a get, and 0 for other calls."""
    patience = call.patience if isinstance(call, api.Get) else None
    return 0.0 if patience is None else max(0.0, min(patience, _DAY))


def _wait(turn: int, asked: float | None) -> float | None:
    """The seconds to wait before the next attempt: the server's own request, plus exponential back-off with jitter.

    Returns None if the server asked for too long a wait.
    """
    if asked is not None and asked > _PATIENCE:
        return None
    backoff: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2**turn)
    chance = int.from_bytes(os.urandom(4), "big") / 2**32
    return (asked or 0.0) + backoff * (0.5 + chance / 2)
