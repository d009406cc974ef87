"""Records in the log all actions on the vault itself: those of its owner, and those under a cap of class `admin`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from strongroom.audit.entry import Decision, Entry, Mark, marks, pending
from strongroom.audit.object_history import VAULT
from strongroom.gate import AdminGrant
from strongroom.keys import ActorKeys
from strongroom.memory.operation import Operation
from strongroom.memory.replica import Replica
from strongroom.memory.vault_records import ACTORS
from strongroom.model import LinkId, Millis
from strongroom.store import Commit, Delete, Effect, PutNew, Swap

_WRITING = (PutNew, Swap, Delete)


class AdminRecorder:
    """Writes the log entry of an action on the vault in the same commit as the action's effects. Thread-safe."""

    def __init__(self, state: Replica, now: Callable[[], Millis]) -> None:
        self._state = state
        self._now = now

    def commit(
        self, office: AdminGrant, effects: Sequence[Effect] = (), *, request: str, count: int = 0, detail: str = ""
    ) -> Operation[None]:
        """Record an action on the vault itself under a cap, in one commit with its effects."""
        entry = Entry(
            v=1,
            time=self._now(),
            op=office.op,
            decision=Decision.ALLOW,
            data_class=office.data_class,
            request=request,
            links=office.cap.links,
            holder=office.cap.holder,
            count=count,
            objects=self._vault_marks(effects),
            detail=detail,
        )
        yield pending([entry], effects)

    def record_owner(
        self,
        op: str,
        effects: Sequence[Effect] = (),
        *,
        keys: Sequence[ActorKeys] = (),
        links: Sequence[str] = (),
        detail: str = "",
        accept_clock: bool = False,
    ) -> Commit:
        """Record an action of the owner in one commit with its effects.

        The action gets one log entry, and one more for each actor whose objects it changed. `keys` has the keys of
        these actors.
        """
        entry = Entry(
            v=1,
            time=self._now(),
            op=op,
            decision=Decision.ALLOW,
            data_class="admin",
            links=tuple(map(LinkId, links)),
            objects=self._vault_marks([effect for effect in _writing(effects) if not effect.name.startswith(ACTORS)]),
            detail=detail,
        )
        entries = [entry]
        by_name = {effect.name: effect for effect in _writing(effects)}
        for one in keys:
            own = by_name.get(self._state.slots.keys(one.actor))
            marked = () if own is None else marks([own], {own.name: one.object_tags(own.name)})
            entries.append(msgspec.structs.replace(entry, actor=one.actor_tag(), objects=marked, links=()))
        return self._state.log.append(entries, effects, accept_clock=accept_clock)

    def _vault_marks(self, effects: Sequence[Effect]) -> tuple[Mark, ...]:
        return marks(effects, {one.name: (self._state.records.vault_tag(one.name), VAULT) for one in _writing(effects)})


def _writing(effects: Sequence[Effect]) -> list[PutNew | Swap | Delete]:
    return [effect for effect in effects if isinstance(effect, _WRITING)]
