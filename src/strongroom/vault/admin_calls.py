"""The calls that admin caps allow: minting and revoking caps, and reading the log and the status."""

from __future__ import annotations

from importlib.metadata import version

from strongroom import api
from strongroom.errors import InvalidRequest
from strongroom.gate import AdminGrant, Ask
from strongroom.memory import Caller, DecisionRecorder
from strongroom.memory.local_transport import MEMORY_OPERATIONS, Operations
from strongroom.memory.operation import SLOW_STEP, Operation
from strongroom.model import DataClass, Op
from strongroom.vault import issue

_ENTRIES = 1000


def _entries(clerk: DecisionRecorder, caller: Caller, call: api.ReadEntries) -> Operation[api.Entries]:
    office = yield from _auditor(clerk, caller)

    def read() -> Operation[api.Entries]:
        if not 0 <= call.start < 2**53 or not 1 <= call.limit <= _ENTRIES:
            raise InvalidRequest(f"start must be at least 0, and limit must be from 1 to {_ENTRIES}")
        log = clerk.state.log
        found = tuple(api.Logged(*one) for one in log.entries(call.start, call.start + call.limit))
        yield from clerk.admin.commit(office, request=caller.request, count=len(found), detail="entries read")
        return api.Entries(found, log.size())

    return (yield from clerk.recorded(office, caller, read()))


def _checkpoint(clerk: DecisionRecorder, caller: Caller, call: api.SignCheckpoint) -> Operation[api.Signed]:  # noqa: ARG001
    office = yield from _auditor(clerk, caller)

    def sign() -> Operation[api.Signed]:
        yield from clerk.admin.commit(office, request=caller.request, detail="checkpoint signed")
        return api.Signed(clerk.state.log.checkpoint(), clerk.state.log.verifier_key)

    return (yield from clerk.recorded(office, caller, sign()))


def _prove(clerk: DecisionRecorder, caller: Caller, call: api.Prove) -> Operation[api.Proven]:
    office = yield from _auditor(clerk, caller)

    def prove() -> Operation[api.Proven]:
        proof = clerk.state.log.prove(call.index)
        yield from clerk.admin.commit(office, request=caller.request, detail=f"entry {call.index} proven")
        return api.Proven(proof, clerk.state.log.verifier_key)

    return (yield from clerk.recorded(office, caller, prove()))


def _status(clerk: DecisionRecorder, caller: Caller, call: api.ReadStatus) -> Operation[api.Status]:  # noqa: ARG001
    office = yield from _auditor(clerk, caller)

    def read() -> Operation[api.Status]:
        state = clerk.state
        shelves, size = state.shelves.usage()
        yield from clerk.admin.commit(office, request=caller.request, detail="status read")
        names = tuple(name for name in state.records.namespaces if name in office.cap.namespaces)
        return api.Status(state.vault_id, version("strongroom"), names, state.log.size(), shelves, size)

    return (yield from clerk.recorded(office, caller, read()))


def _auditor(clerk: DecisionRecorder, caller: Caller) -> Operation[AdminGrant]:
    yield SLOW_STEP
    return (yield from clerk.appoint(caller, Ask(Op.AUDIT, data_class=DataClass.ADMIN)))


OPERATIONS: Operations = {
    **MEMORY_OPERATIONS,
    api.Renew: issue.renew,
    api.Mint: issue.mint,
    api.ListCaps: issue.list_with,
    api.Revoke: issue.revoke_with,
    api.ReadEntries: _entries,
    api.SignCheckpoint: _checkpoint,
    api.Prove: _prove,
    api.ReadStatus: _status,
}
