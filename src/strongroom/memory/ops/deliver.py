"""The operations of the inbox: reading its public key, and delivering a sealed bundle as an ordinary put."""

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
"""Asks the gate only whether the cap may put. The namespaces are not known before the bundle is open."""


def read_inbox(clerk: DecisionRecorder, caller: Caller, call: api.ReadInbox) -> Operation[api.Inbox]:  # noqa: ARG001 - it has no fields
    """The inbox's public key, to which lines can be sealed."""
    grant = yield from clerk.admit(caller, _TO_PUT)

    def tell() -> Operation[api.Inbox]:
        recipient = inbox.recipient_of(_identity(clerk.state))
        yield from clerk.commit(grant, caller=caller, detail="inbox read")
        return api.Inbox(recipient)

    return (yield from clerk.recorded(grant, caller, tell()))


def deliver(clerk: DecisionRecorder, caller: Caller, call: api.Deliver) -> Operation[api.Receipts]:
    """Open a bundle under a cap that may put, and put its lines. The put asks the gate again about the lines."""
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
            "this vault has no inbox: it was made by a version without inboxes",
            hint="the vault's owner runs `strongroom rotate root`, which makes an inbox",
        )
    return state.records.secrets.inbox
