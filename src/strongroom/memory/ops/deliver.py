"""The inbox's operations: reading its key, and delivering a sealed bundle as an ordinary put."""

from __future__ import annotations

from strongroom import api
from strongroom.crypto import inbox
from strongroom.errors import CapLimitExceeded, InvalidRequest
from strongroom.gate import Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.operation import Operation, SlowStep
from strongroom.memory.ops.put import put
from strongroom.memory.replica import Replica
from strongroom.model import NewLine, Op

_TO_PUT = Ask(Op.PUT, unnamed=False)
"""Asks only whether the cap may put. The namespaces are known once the bundle is open."""


def read_inbox(clerk: DecisionRecorder, caller: Caller, call: api.ReadInbox) -> Operation[api.Inbox]:  # noqa: ARG001 - it has no fields
    """The recipient to which lines can be sealed."""
    grant = yield from clerk.admit(caller, _TO_PUT)

    def tell() -> Operation[api.Inbox]:
        recipient = inbox.recipient_of(_identity(clerk.state))
        yield from clerk.commit(grant, caller=caller, detail="inbox read")
        return api.Inbox(recipient)

    return (yield from clerk.recorded(grant, caller, tell()))


def deliver(clerk: DecisionRecorder, caller: Caller, call: api.Deliver) -> Operation[api.Receipts]:
    """Open a bundle under a cap that may put, and put its lines. The gate is then asked again about the lines."""
    grant = yield from clerk.admit(caller, _TO_PUT)
    lines = yield from clerk.recorded(grant, caller, _lines(clerk.state, grant, call.sealed))
    return (yield from put(clerk, caller, api.Put(lines=lines)))


def _lines(state: Replica, grant: Grant, sealed: bytes) -> Operation[tuple[NewLine, ...]]:
    yield SlowStep(grant.actor)
    bundle = inbox.unseal(_identity(state), sealed)
    if bundle.actor != grant.actor:
        raise CapLimitExceeded("the bundle is for another actor's memory")
    return bundle.lines


def _identity(state: Replica) -> str:
    if not state.records.secrets.inbox:
        raise InvalidRequest(
            "this vault was made before there were inboxes, and has no key for one",
            hint="its owner replaces the root key, which makes one: strongroom rotate root",
        )
    return state.records.secrets.inbox
