"""The transport of calls to a vault in this process, and the table of the functions that carry out these calls.

The table here has the calls of a memory. The vault, which is a layer above, adds the calls for caps and for the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from strongroom import api, model
from strongroom.api import A, Call
from strongroom.errors import Invalid, StrongroomError
from strongroom.gate import AdminGrant, Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.operation import AT_ONCE, LATER, Operation, SlowStep, Step
from strongroom.memory.ops import deliver, document, forget, get, history, observe, profile, put, replace
from strongroom.model import DataClass, Op
from strongroom.store import Commit, Pending, Store

T = TypeVar("T")
Operations = Mapping[type[Call[Any]], Callable[[DecisionRecorder, Caller, Any], Operation[Any]]]

MEMORY_OPERATIONS: Operations = {
    api.Put: put.put,
    api.ReadInbox: deliver.read_inbox,
    api.Deliver: deliver.deliver,
    api.Observe: observe.observe,
    api.Get: get.get,
    api.List: get.list_lines,
    api.TakeSnapshot: profile.snapshot,
    api.ReadProfile: profile.profile,
    api.WriteProfile: profile.set_profile,
    api.ReadDocument: document.read_document,
    api.WriteDocument: document.write_document,
    api.ListDocuments: document.list_documents,
    api.DeleteDocument: document.delete_document,
    api.RenameDocument: document.rename_document,
    api.ReadDocumentHistory: document.read_history,
    api.Forget: forget.forget,
    api.Replace: replace.replace,
    api.ReadHistory: history.history,
    api.Erase: forget.erase,
}


class LocalTransport:
    """Carries out the calls that are made under one cap. Thread-safe and cheap to make."""

    def __init__(
        self,
        clerk: DecisionRecorder,
        token: str,
        operations: Operations = MEMORY_OPERATIONS,
        *,
        source: str = "python",
        request: str = "",
    ) -> None:
        self._clerk = clerk
        self._operations = operations
        # A plain `str`: a subclass could show the gate another text than the text that is renewed.
        plain = str.__str__(token) if isinstance(token, str) else token
        self._caller = Caller(plain, model.clean_field(source, "a source"), model.clean_field(request, "a request id"))

    def __repr__(self) -> str:
        return "<door into a vault>"

    def call(self, call: Call[A]) -> A:
        return run_inline(self.doing(call), self._clerk.state.store)

    def with_cap(self, token: str) -> LocalTransport:
        """A transport to the same vault under another cap."""
        return LocalTransport(
            self._clerk, token, self._operations, source=self._caller.source, request=self._caller.request
        )

    def refuse(self, kind: type[Call[Any]], error: Invalid) -> StrongroomError:
        """The error to raise for a call that could not be parsed: the gate's refusal of the cap, or else `error`."""
        return run_inline(self.refusing(kind, error), self._clerk.state.store)

    # The methods above as operations (generators), for a server that runs many of them concurrently.

    def doing(self, call: Call[A]) -> Operation[A]:
        return cast("Operation[A]", self._operations[type(call)](self._clerk, self._caller, call))

    def lineage(self) -> int | None:
        """A number that the cap shares with all caps narrowed or renewed from it. None if this vault never signed it.

        A server uses the number only to share its time fairly. The number admits nothing.
        """
        return self._clerk.state.gate.lineage(self._caller.token, self._clerk.now() // 1000)

    def checking(self) -> Operation[str]:
        """Check that the cap is valid, and return its first link. A refusal is logged."""
        return (yield from self._clerk.check(self._caller)).links[0]

    def refusing(self, kind: type[Call[Any]], error: Invalid) -> Operation[StrongroomError]:
        """The error to raise for a call that could not be parsed: the gate's refusal of the cap, or else `error`.

        Both kinds of error are logged. The cap is checked first, so that a bad cap is reported before a bad call.
        """
        ask = Ask(kind.op, data_class=kind.data_class)
        opens_memory = kind.data_class == DataClass.MEMORY and kind.op != Op.RENEW
        admitted: Grant | AdminGrant
        try:
            if opens_memory:
                admitted = yield from self._clerk.admit(self._caller, ask)
            else:
                admitted = yield from self._clerk.appoint(self._caller, ask)
            yield from self._clerk.refusals.record_failure(error, admitted, self._caller.request)
        except StrongroomError as refused:
            return refused
        return error


def run_inline(doing: Operation[T], store: Store) -> T:
    """Carry out an operation on this thread."""
    try:
        step = next(doing)
        while True:
            try:
                sent = _carry_out(step, store)
            except Exception as error:  # noqa: BLE001 - the operation itself handles its errors
                step = doing.throw(error)
            else:
                step = doing.send(sent)
    except StopIteration as stop:
        answer: T = stop.value
        return answer


def _carry_out(step: Step, store: Store) -> Commit:
    """Carry out one step of an operation on this thread. Returns the value to send to the operation."""
    if isinstance(step, Pending):
        return store.commit(step.entries, step.effects, step.time, since=step.since)
    if isinstance(step, SlowStep):
        return AT_ONCE
    step.wait()
    return LATER
