"""The inbox's operations: telling its key, and delivering what was sealed to it as a put like any other."""

from __future__ import annotations

from strongroom import wire
from strongroom.crypto import inbox
from strongroom.errors import CapLimitExceeded, InvalidRequest
from strongroom.gate import Ask, Grant
from strongroom.memory.clerk import Caller, Clerk
from strongroom.memory.doing import Doing, Long
from strongroom.memory.putting import put
from strongroom.memory.state import State
from strongroom.model import NewLine, Op

_TO_PUT = Ask(Op.PUT, unnamed=False)
"""Whether the cap may put at all; which namespaces, a bundle says only when it is open."""


def read_inbox(clerk: Clerk, caller: Caller, call: wire.ReadInbox) -> Doing[wire.Inbox]:  # noqa: ARG001 - it has no fields
    """The recipient to which lines can be sealed."""
    grant = yield from clerk.admit(caller, _TO_PUT)

    def tell() -> Doing[wire.Inbox]:
        recipient = inbox.recipient_of(_identity(clerk.state))
        yield from clerk.commit(grant, caller=caller, detail="inbox read")
        return wire.Inbox(recipient)

    return (yield from clerk.recorded(grant, caller, tell()))


def deliver(clerk: Clerk, caller: Caller, call: wire.Deliver) -> Doing[wire.Receipts]:
    """Open a bundle for a cap that may put, and put its lines: the gate is asked again, about what is in it."""
    grant = yield from clerk.admit(caller, _TO_PUT)
    lines = yield from clerk.recorded(grant, caller, _lines(clerk.state, grant, call.sealed))
    return (yield from put(clerk, caller, wire.Put(lines=lines)))


def _lines(state: State, grant: Grant, sealed: bytes) -> Doing[tuple[NewLine, ...]]:
    yield Long(grant.actor)
    bundle = inbox.unseal(_identity(state), sealed)
    if bundle.actor != grant.actor:
        raise CapLimitExceeded("the bundle is for another actor's memory")
    return bundle.lines


def _identity(state: State) -> str:
    if not state.secrets.inbox:
        raise InvalidRequest(
            "this vault was made before there were inboxes, and has no key for one",
            hint="its owner replaces the root key, which makes one: strongroom rotate root",
        )
    return state.secrets.inbox
