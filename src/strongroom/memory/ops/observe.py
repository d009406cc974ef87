"""Observe: a log entry for something that was done outside the vault. Nothing else is stored."""

from __future__ import annotations

from strongroom import api, model
from strongroom.gate import Ask
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.operation import Operation
from strongroom.model import Op


def observe(clerk: DecisionRecorder, caller: Caller, call: api.Observe) -> Operation[api.Observed]:
    """Write one entry with the name of what was done, and the digest of its input."""
    grant = yield from clerk.admit(caller, Ask(Op.PUT, unnamed=False))

    def record() -> Operation[api.Observed]:
        detail = f"did {model.deed(call.what)} {model.digest(call.digest)}"
        yield from clerk.commit(grant, caller=caller, detail=detail)
        return api.Observed()

    return (yield from clerk.recorded(grant, caller, record()))
