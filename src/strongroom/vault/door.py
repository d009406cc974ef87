"""The door into a vault in this process: which function carries out which call."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Any, cast

from strongroom import model, wire
from strongroom.errors import Invalid, InvalidRequest, StrongroomError
from strongroom.gate import Ask, Grant, Office
from strongroom.memory import Caller, Clerk, delivering, forgetting, observing, profiles, putting, recalling
from strongroom.memory.doing import LONG, Doing, done
from strongroom.model import DataClass, Op
from strongroom.vault import issuing
from strongroom.wire import A, Call

_ENTRIES = 1000


class VaultDoor:
    """Takes the calls made with one cap. Thread-safe and cheap to make."""

    def __init__(self, clerk: Clerk, token: str, *, source: str = "python", request: str = "") -> None:
        self._clerk = clerk
        # What the gate verifies must be what is renewed: the text itself, not what a subclass makes of it.
        plain = str.__str__(token) if isinstance(token, str) else token
        self._caller = Caller(plain, model.clean_field(source, "a source"), model.clean_field(request, "a request id"))

    def __repr__(self) -> str:
        return "<door into a vault>"

    def call(self, call: Call[A]) -> A:
        return done(self.doing(call), self._clerk.state.store)

    def with_cap(self, token: str) -> VaultDoor:
        """A door into the same vault for another cap."""
        return VaultDoor(self._clerk, token, source=self._caller.source, request=self._caller.request)

    def refuse(self, kind: type[Call[Any]], error: Invalid) -> StrongroomError:
        """What to raise for a call that could not even be read; see `refusing`."""
        return done(self.refusing(kind, error), self._clerk.state.store)

    # The same in steps, for who carries out many side by side.

    def doing(self, call: Call[A]) -> Doing[A]:
        return cast("Doing[A]", _DOINGS[type(call)](self._clerk, self._caller, call))

    def checking(self) -> Doing[str]:
        """Make sure that the cap is valid, and give its first link; a refusal is on record."""
        return (yield from self._clerk.check(self._caller)).links[0]

    def refusing(self, kind: type[Call[Any]], error: Invalid) -> Doing[StrongroomError]:
        """What to raise for a call that could not even be read: the gate's refusal of the cap, or else `error`.

        Either is on record: the cap comes first, whatever came with it.
        """
        ask = Ask(kind.op, data_class=kind.data_class)
        opens_memory = kind.data_class == DataClass.MEMORY and kind.op != Op.RENEW
        admitted: Grant | Office
        try:
            if opens_memory:
                admitted = yield from self._clerk.admit(self._caller, ask)
            else:
                admitted = yield from self._clerk.appoint(self._caller, ask)
            yield from self._clerk.record_failure(error, admitted, self._caller.request)
        except StrongroomError as refused:
            return refused
        return error


def _entries(clerk: Clerk, caller: Caller, call: wire.ReadEntries) -> Doing[wire.Entries]:
    office = yield from _auditor(clerk, caller)

    def read() -> Doing[wire.Entries]:
        if not 0 <= call.start < 2**53 or not 1 <= call.limit <= _ENTRIES:
            raise InvalidRequest(f"start is a number from 0, and limit one from 1 to {_ENTRIES}")
        log = clerk.state.log
        found = tuple(wire.Logged(*one) for one in log.entries(call.start, call.start + call.limit))
        yield from clerk.commit_office(office, caller=caller, count=len(found), detail="entries read")
        return wire.Entries(found, log.size())

    return (yield from clerk.recorded(office, caller, read()))


def _checkpoint(clerk: Clerk, caller: Caller, call: wire.SignCheckpoint) -> Doing[wire.Signed]:  # noqa: ARG001
    office = yield from _auditor(clerk, caller)

    def sign() -> Doing[wire.Signed]:
        yield from clerk.commit_office(office, caller=caller, detail="checkpoint signed")
        return wire.Signed(clerk.state.log.checkpoint(), clerk.state.log.verifier_key)

    return (yield from clerk.recorded(office, caller, sign()))


def _prove(clerk: Clerk, caller: Caller, call: wire.Prove) -> Doing[wire.Proven]:
    office = yield from _auditor(clerk, caller)

    def prove() -> Doing[wire.Proven]:
        proof = clerk.state.log.prove(call.index)
        yield from clerk.commit_office(office, caller=caller, detail=f"entry {call.index} proven")
        return wire.Proven(proof, clerk.state.log.verifier_key)

    return (yield from clerk.recorded(office, caller, prove()))


def _status(clerk: Clerk, caller: Caller, call: wire.ReadStatus) -> Doing[wire.Status]:  # noqa: ARG001
    office = yield from _auditor(clerk, caller)

    def read() -> Doing[wire.Status]:
        state = clerk.state
        shelves, size = state.shelves.usage()
        yield from clerk.commit_office(office, caller=caller, detail="status read")
        names = tuple(name for name in state.namespaces if name in office.cap.namespaces)
        return wire.Status(state.vault_id, version("strongroom"), names, state.log.size(), shelves, size)

    return (yield from clerk.recorded(office, caller, read()))


def _auditor(clerk: Clerk, caller: Caller) -> Doing[Office]:
    yield LONG
    return (yield from clerk.appoint(caller, Ask(Op.AUDIT, data_class=DataClass.ADMIN)))


_DOINGS: dict[type[Call[Any]], Callable[[Clerk, Caller, Any], Doing[Any]]] = {
    wire.Put: putting.put,
    wire.ReadInbox: delivering.read_inbox,
    wire.Deliver: delivering.deliver,
    wire.Observe: observing.observe,
    wire.Get: recalling.get,
    wire.List: recalling.list_lines,
    wire.TakeSnapshot: profiles.snapshot,
    wire.ReadProfile: profiles.profile,
    wire.WriteProfile: profiles.set_profile,
    wire.Forget: forgetting.forget,
    wire.Erase: forgetting.erase,
    wire.Renew: issuing.renew,
    wire.Mint: issuing.mint,
    wire.ListCaps: issuing.list_with,
    wire.Revoke: issuing.revoke_with,
    wire.ReadEntries: _entries,
    wire.SignCheckpoint: _checkpoint,
    wire.Prove: _prove,
    wire.ReadStatus: _status,
}
