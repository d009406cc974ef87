"""Observe: something that was done outside the vault, put on record in its log. Nothing else is kept of it."""

from __future__ import annotations

from strongroom import model, wire
from strongroom.gate import Ask
from strongroom.memory.clerk import Caller, Clerk
from strongroom.memory.doing import Doing
from strongroom.model import Op


def observe(clerk: Clerk, caller: Caller, call: wire.Observe) -> Doing[wire.Observed]:
    """Write one entry that names what was done, and the digest of what it was done with."""
    grant = yield from clerk.admit(caller, Ask(Op.PUT, unnamed=False))

    def record() -> Doing[wire.Observed]:
        detail = f"did {model.deed(call.what)} {model.digest(call.digest)}"
        yield from clerk.commit(grant, caller=caller, detail=detail)
        return wire.Observed()

    return (yield from clerk.recorded(grant, caller, record()))
