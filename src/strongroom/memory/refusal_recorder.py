"""Records refusals: by the gate, or after it by an error of the request. Successes never pass here.

A refusal is in the log before its caller hears of it. Repeated ones are counted instead (`refusal_log.py`), and tokens
that no issuer signed are only counted: they must not fill the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strongroom import model
from strongroom.audit.entry import Decision, Entry, pending
from strongroom.caps import chain
from strongroom.caps.chain import Cap
from strongroom.errors import CapRevoked, CapSignatureInvalid, StrongroomError, Tampered, Unavailable
from strongroom.gate import AdminGrant, Ask, Grant
from strongroom.keys import ActorKeys
from strongroom.memory.operation import Operation
from strongroom.memory.refusal_log import RefusalLog
from strongroom.memory.replica import Replica
from strongroom.model import Actor, DataClass, LinkId, Millis, Namespace

SHOWN = "show"
"""The op in the entry of a cap that was refused before it asked for anything."""

_NAMED = 64
"""Maximum number of namespaces named in the entry of a refusal, since a request may ask for any number."""


class RefusalRecorder:
    """Records refusals, or counts them. Thread-safe."""

    def __init__(self, state: Replica, now: Callable[[], Millis]) -> None:
        self._state = state
        self._now = now
        self.log = RefusalLog()
        self.garbage = 0
        """Tokens refused before any signature was valid. Counted, not logged."""

    def refuse(self, error: StrongroomError, ask: Ask | None, now: Millis, request: str) -> Operation[None]:
        """Record a refusal by the gate, or count it. Without an `ask`, the cap asked for nothing yet."""
        if not error.links:
            self.garbage += 1
            return
        yield from self._append(self.log.take(self._entry(error, ask, now, request)))
        error.recorded = True

    def record_failure(self, error: StrongroomError, admitted: Grant | AdminGrant, request: str) -> Operation[None]:
        """Record that an admitted request was refused after all, or met tampered data."""
        if isinstance(admitted, AdminGrant):
            held: Grant | Cap = admitted.cap
            ask = Ask(admitted.op, data_class=admitted.data_class)
        else:
            held = admitted
            ask = Ask(admitted.op, frozenset(admitted.namespaces), unnamed=False)
        yield from self.record(error, held, ask, request)

    def record(self, error: StrongroomError, held: Grant | Cap, ask: Ask | None, request: str) -> Operation[None]:
        """Record an error that a valid cap has met. It is never merely counted."""
        error.links, error.actor, error.holder = held.links, held.actor, held.holder
        yield pending([self._entry(error, ask, self._now(), request)])
        error.recorded = True

    def record_defect(self, error: Exception, admitted: Grant | AdminGrant, request: str) -> Operation[None]:
        """Log that an admitted request ended in an unexpected error. Only its kind is named."""
        actor, namespaces = "", tuple[str, ...]()
        held: Grant | Cap
        if isinstance(admitted, AdminGrant):
            held, data_class = admitted.cap, admitted.data_class
        else:
            held, data_class = admitted, DataClass.MEMORY
            if (keys := self.keys_if_sound(admitted.actor)) is not None:
                names = [self._state.slots.namespace(admitted.actor, name) for name in admitted.namespaces]
                actor, namespaces = keys.tags(sorted(names))
        entry = Entry(
            v=1,
            time=self._now(),
            op=admitted.op,
            decision=Decision.FAIL,
            data_class=data_class,
            request=request,
            actor=actor,
            namespaces=namespaces,
            links=held.links,
            holder=held.holder,
            detail=type(error).__name__,
        )
        yield pending([entry])

    def sum_up(self, *, wholly: bool = False) -> Operation[None]:
        """Record the counts of refusals in ended minutes; with `wholly`, of the current one too."""
        now = self._now()
        yield from self._append(self.log.all(now) if wholly else self.log.over(now))

    def _append(self, entries: Sequence[Entry]) -> Operation[None]:
        """Write refusals and sums of refusals. If that fails, the sums are kept."""
        if not entries:
            return
        try:
            yield pending(entries)
        except BaseException:
            self.log.restore([entry for entry in entries if entry.detail])
            raise

    def hopeless(self, token: str) -> StrongroomError | None:
        """The refusal of a token that no read of a distant store could make valid, so that no read is spent on it.

        A token of an unknown issuer may be from after a rotation, and needs a read.
        """
        if self._state.gate.known(token) is not None:
            return None
        try:
            self._state.gate.check(token, self._now() // 1000)
        except StrongroomError as error:
            is_new = (
                isinstance(error, CapSignatureInvalid)
                and chain.parse(token).first.iss not in self._state.records.secrets.issuers
            )
            return None if error.links or is_new else error
        return None

    def is_erased(self, error: CapRevoked) -> bool:
        """Whether a cap is void because its actor was erased, so that waiting for a new cap is useless."""
        if not error.actor or not self._state.standing.revoked.isdisjoint(error.links):
            return False
        try:
            return self._state.held_keys(self._state.slots.actor(Actor(error.actor))) is None
        except (Tampered, Unavailable):
            return False

    def _entry(self, error: StrongroomError, ask: Ask | None, now: Millis, request: str) -> Entry:
        keys = self.keys_if_sound(error.actor)
        tags: list[str] = []
        if keys is not None and ask is not None:
            named = sorted(filter(model.is_namespace, ask.namespaces))[:_NAMED]
            tags = [keys.namespace_tag(self._state.slots.namespace(keys.actor, Namespace(name))) for name in named]
        return Entry(
            v=1,
            time=now,
            op=SHOWN if ask is None else ask.op,
            decision=Decision.FAIL if isinstance(error, Tampered) else Decision.DENY,
            reason=error.reason,
            data_class="" if ask is None else ask.data_class,
            request=request,
            actor="" if keys is None else keys.actor_tag(),
            namespaces=tuple(tags),
            links=tuple(map(LinkId, error.links)),
            holder=error.holder,
        )

    def keys_if_sound(self, actor: str | None) -> ActorKeys | None:
        """The keys to tag a refusal with, or None: a refusal must be recorded even if the keys are broken."""
        if actor is None:
            return None
        try:
            held = self._state.keys_of(Actor(actor))
        except (Tampered, Unavailable):
            return None
        return None if held is None else held.keys
