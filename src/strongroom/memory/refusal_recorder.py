"""Records refused requests: those that the gate refused, and those that failed with an error after they were admitted.

A refusal is in the log before its caller gets it. Repeated refusals are counted instead (`refusal_log.py`). Tokens that
no issuer has signed are only counted, because they must not fill the log.
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
"""The operation in the log entry of a cap that was refused before it asked for an operation."""

_NAMED = 64
"""Maximum number of namespaces that the log entry of a refusal names. A request may ask for any number of them."""


class RefusalRecorder:
    """Records refusals, or counts them. Thread-safe."""

    def __init__(self, state: Replica, now: Callable[[], Millis]) -> None:
        self._state = state
        self._now = now
        self.log = RefusalLog()
        self.garbage = 0
        """The number of refused tokens that had no valid signature. They are counted, but not logged."""

    def refuse(self, error: StrongroomError, ask: Ask | None, now: Millis, request: str) -> Operation[None]:
        """Record a refusal by the gate, or count it. `ask` is None if the cap asked for no operation yet."""
        if not error.links:
            self.garbage += 1
            return
        yield from self._append(self.log.take(self._entry(error, ask, now, request)))
        error.recorded = True

    def record_failure(self, error: StrongroomError, admitted: Grant | AdminGrant, request: str) -> Operation[None]:
        """Record that an admitted request ended in a refusal, or found tampered data."""
        if isinstance(admitted, AdminGrant):
            held: Grant | Cap = admitted.cap
            ask = Ask(admitted.op, data_class=admitted.data_class)
        else:
            held = admitted
            ask = Ask(admitted.op, frozenset(admitted.namespaces), unnamed=False)
        yield from self.record(error, held, ask, request)

    def record(self, error: StrongroomError, held: Grant | Cap, ask: Ask | None, request: str) -> Operation[None]:
        """Record an error of a request with a valid cap. Such an error always gets a log entry of its own."""
        error.links, error.actor, error.holder = held.links, held.actor, held.holder
        yield pending([self._entry(error, ask, self._now(), request)])
        error.recorded = True

    def record_defect(self, error: Exception, admitted: Grant | AdminGrant, request: str) -> Operation[None]:
        """Log that an admitted request ended in an unexpected error. The entry names only the type of the error."""
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
        """Record the numbers of refusals that were counted in past minutes; with `wholly`, also in this minute."""
        now = self._now()
        yield from self._append(self.log.all(now) if wholly else self.log.over(now))

    def _append(self, entries: Sequence[Entry]) -> Operation[None]:
        """Write the entries of refusals and of counted refusals. If that fails, the counts are kept."""
        if not entries:
            return
        try:
            yield pending(entries)
        except BaseException:
            self.log.restore([entry for entry in entries if entry.detail])
            raise

    def hopeless(self, token: str) -> StrongroomError | None:
        """The refusal of a token that is invalid whatever the store holds, so that no read of the store is needed.

        Returns None if the store must be read first. The store must be read for a token of an unknown issuer too,
        because the vault may have a new issuer key.
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
        """Whether a cap is void because its actor was erased. If so, a caller need not wait for a new cap."""
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
        """The keys that compute the actor's pseudonym in the entry of a refusal.

        Returns None if the keys are missing or damaged, because a refusal must be recorded even then.
        """
        if actor is None:
            return None
        try:
            held = self._state.keys_of(Actor(actor))
        except (Tampered, Unavailable):
            return None
        return None if held is None else held.keys
