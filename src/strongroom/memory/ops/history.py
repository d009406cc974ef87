"""The operation `history`: returns the stored versions of a corrected line, oldest first."""

from __future__ import annotations

from collections.abc import Sequence

from strongroom import api, model
from strongroom.errors import LineNotFound
from strongroom.gate import Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.operation import Operation
from strongroom.memory.ops.get import hit_of, within_budget
from strongroom.model import Op


def history(clerk: DecisionRecorder, caller: Caller, call: api.ReadHistory) -> Operation[api.Recalled]:
    """The stored versions of a line, oldest first. They count as read, so the cap must allow `get`."""
    named = None if call.namespace is None else [call.namespace]
    grant, shelves = yield from clerk.readable(caller, Ask.of(Op.GET, named))
    return (yield from clerk.recorded(grant, caller, _history(clerk, grant, shelves, caller, call)))


def _history(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, call: api.ReadHistory
) -> Operation[api.Recalled]:
    name = model.line_id(call.id)
    with hold_still(shelves):
        versions = [
            line
            for shelf in shelves
            if (start := shelf.lines.get(name) or shelf.states.hidden.get(name)) is not None
            for line in shelf.states.versions(start, shelf.lines)
        ]
    if name not in {line.id for line in versions}:
        raise LineNotFound("there is no such line")
    newest = within_budget([hit_of(line, 1.0) for line in reversed(versions[-grant.most :])])
    yield from clerk.commit(grant, lines=[hit.id for hit in reversed(newest)], caller=caller)
    return api.Recalled(tuple(reversed(newest)))
