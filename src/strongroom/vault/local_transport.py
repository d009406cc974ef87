"""The door into a vault in this process: which function carries out which call."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, cast

from strongroom import api, model
from strongroom.api import A, Call
from strongroom.errors import Invalid, InvalidRequest, StrongroomError
from strongroom.gate import AdminGrant, Ask, Grant
from strongroom.memory import Caller, DecisionRecorder
from strongroom.memory.operation import SLOW_STEP, Operation, run_inline
from strongroom.memory.ops import deliver, forget, get, observe, profile, put
from strongroom.model import DataClass, Op
from strongroom.vault import issue

_ENTRIES = 1000


class LocalTransport:
    """Takes the calls made with one cap. Thread-safe and cheap to make."""

    def __init__(self, clerk: DecisionRecorder, token: str, *, source: str = "python", request: str = "") -> None:
        self._clerk = clerk
        # What the gate verifies must be what is renewed: the text itself, not what a subclass makes of it.
        plain = str.__str__(token) if isinstance(token, str) else token
        self._caller = Caller(plain, model.clean_field(source, "a source"), model.clean_field(request, "a request id"))

    def __repr__(self) -> str:
        return "<door into a vault>"

    def call(self, call: Call[A]) -> A:
        return run_inline(self.doing(call), self._clerk.state.store)

    def with_cap(self, token: str) -> LocalTransport:
        """A door into the same vault for another cap."""
        return LocalTransport(self._clerk, token, source=self._caller.source, request=self._caller.request)

    def refuse(self, kind: type[Call[Any]], error: Invalid) -> StrongroomError:
        """What to raise for a call that could not even be read; see `refusing`."""
        return run_inline(self.refusing(kind, error), self._clerk.state.store)

    # The same in steps, for who carries out many side by side.

    def doing(self, call: Call[A]) -> Operation[A]:
        return cast("Operation[A]", _DOINGS[type(call)](self._clerk, self._caller, call))

    def checking(self) -> Operation[str]:
        """Make sure that the cap is valid, and give its first link; a refusal is on record."""
        return (yield from self._clerk.check(self._caller)).links[0]

    def refusing(self, kind: type[Call[Any]], error: Invalid) -> Operation[StrongroomError]:
        """What to raise for a call that could not even be read: the gate's refusal of the cap, or else `error`.

        Either is on record: the cap comes first, whatever came with it.
        """
        ask = Ask(kind.op, data_class=kind.data_class)
        opens_memory = kind.data_class == DataClass.MEMORY and kind.op != Op.RENEW
        admitted: Grant | AdminGrant
        try:
            if opens_memory:
                admitted = yield from self._clerk.admit(self._caller, ask)
            else:
                admitted = yield from self._clerk.appoint(self._caller, ask)
            yield from self._clerk.record_failure(error, admitted, self._caller.request)
        except StrongroomError as refused:
            return refused
        return error


def _entries(clerk: DecisionRecorder, caller: Caller, call: api.ReadEntries) -> Operation[api.Entries]:
    office = yield from _auditor(clerk, caller)

    def read() -> Operation[api.Entries]:
        if not 0 <= call.start < 2**53 or not 1 <= call.limit <= _ENTRIES:
            raise InvalidRequest(f"start is a number from 0, and limit one from 1 to {_ENTRIES}")
        log = clerk.state.log
        found = tuple(api.Logged(*one) for one in log.entries(call.start, call.start + call.limit))
        yield from clerk.commit_office(office, caller=caller, count=len(found), detail="entries read")
        return api.Entries(found, log.size())

    return (yield from clerk.recorded(office, caller, read()))


def _checkpoint(clerk: DecisionRecorder, caller: Caller, call: api.SignCheckpoint) -> Operation[api.Signed]:  # noqa: ARG001
    office = yield from _auditor(clerk, caller)

    def sign() -> Operation[api.Signed]:
        yield from clerk.commit_office(office, caller=caller, detail="checkpoint signed")
        return api.Signed(clerk.state.log.checkpoint(), clerk.state.log.verifier_key)

    return (yield from clerk.recorded(office, caller, sign()))


def _prove(clerk: DecisionRecorder, caller: Caller, call: api.Prove) -> Operation[api.Proven]:
    office = yield from _auditor(clerk, caller)

    def prove() -> Operation[api.Proven]:
        proof = clerk.state.log.prove(call.index)
        yield from clerk.commit_office(office, caller=caller, detail=f"entry {call.index} proven")
        return api.Proven(proof, clerk.state.log.verifier_key)

    return (yield from clerk.recorded(office, caller, prove()))


def _status(clerk: DecisionRecorder, caller: Caller, call: api.ReadStatus) -> Operation[api.Status]:  # noqa: ARG001
    office = yield from _auditor(clerk, caller)

    def read() -> Operation[api.Status]:
        state = clerk.state
        shelves, size = state.shelves.usage()
        yield from clerk.commit_office(office, caller=caller, detail="status read")
        names = tuple(name for name in state.namespaces if name in office.cap.namespaces)
        return api.Status(state.vault_id, version("strongroom"), names, state.log.size(), shelves, size)

    return (yield from clerk.recorded(office, caller, read()))


def _auditor(clerk: DecisionRecorder, caller: Caller) -> Operation[AdminGrant]:
    yield SLOW_STEP
    return (yield from clerk.appoint(caller, Ask(Op.AUDIT, data_class=DataClass.ADMIN)))


_DOINGS: dict[type[Call[Any]], Callable[[DecisionRecorder, Caller, Any], Operation[Any]]] = {
    api.Put: put.put,
    api.ReadInbox: deliver.read_inbox,
    api.Deliver: deliver.deliver,
    api.Observe: observe.observe,
    api.Get: get.get,
    api.List: get.list_lines,
    api.TakeSnapshot: profile.snapshot,
    api.ReadProfile: profile.profile,
    api.WriteProfile: profile.set_profile,
    api.Forget: forget.forget,
    api.Erase: forget.erase,
    api.Renew: issue.renew,
    api.Mint: issue.mint,
    api.ListCaps: issue.list_with,
    api.Revoke: issue.revoke_with,
    api.ReadEntries: _entries,
    api.SignCheckpoint: _checkpoint,
    api.Prove: _prove,
    api.ReadStatus: _status,
}
