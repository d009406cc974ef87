"""The operation `observe`: logs an action that was done outside the vault. Only the log entry is stored."""

from __future__ import annotations

from strongroom import api, model
from strongroom.gate import Ask
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.operation import Operation
from strongroom.model import Op


def observe(clerk: DecisionRecorder, caller: Caller, call: api.Observe) -> Operation[api.Observed]:
    """Write one log entry with the name of the action and the digest of its input."""
    grant = yield from clerk.admit(caller, Ask(Op.PUT, unnamed=False))

    def record() -> Operation[api.Observed]:
        detail = f"did {model.deed(call.what)} {model.digest(call.digest)}"
        yield from clerk.commit(grant, caller=caller, detail=detail)
        return api.Observed()

    return (yield from clerk.recorded(grant, caller, record()))
