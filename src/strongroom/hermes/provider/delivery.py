"""Delivery of lines into the vault. While the vault is unavailable, lines are sealed into the spool and delivered
later.

Each function returns once the lines are durable, in the vault or in the spool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from strongroom import model
from strongroom.caps.chain import Token
from strongroom.crypto import inbox
from strongroom.errors import (
    BodyTooLarge,
    CapDataClassMismatch,
    CapLimitExceeded,
    CapNamespaceDenied,
    CapOpMismatch,
    CapRevoked,
    Conflict,
    InvalidRequest,
    LineTooLarge,
    StoreUnavailable,
    StrongroomError,
    TooMany,
)
from strongroom.hermes.policy import OWNER
from strongroom.hermes.provider import memory_files, offline_spool, turn_lines
from strongroom.hermes.provider.memory_session import MemorySession, SpeakerView
from strongroom.hermes.provider.offline_spool import DeliveryResult, SpooledTurn
from strongroom.hermes.provider.provider_home import SET_ASIDE, HomeView, Parts, ProviderHome, millis
from strongroom.model import Actor, NewLine

AT_ONCE = 20
"""Maximum number of spooled turns that are delivered before a new turn is stored."""
_REFUSED = (CapOpMismatch, CapDataClassMismatch, CapNamespaceDenied, CapLimitExceeded)
"""Errors for a request outside the cap's limits. The owner set these limits, and may change them."""
_OF_A_CAP = "cap_"
"""The prefix of error reasons that concern a cap."""
_NEVER = (InvalidRequest, LineTooLarge, TooMany, BodyTooLarge, CapLimitExceeded, Conflict)
"""Errors that concern the turn itself. All other errors concern the connection or the cap, and may go away."""


def store(view: SpeakerView, lines: Sequence[NewLine]) -> tuple[Path, ...] | None:
    """Store lines. If the vault is unavailable, put them into the spool.

    Returns the paths in the spool, or None if the vault refused the lines and they are not kept.
    """
    if not lines:
        return ()
    session, parts = view.session, view.parts
    try:
        if parts.spool.may_wait:
            _deliver_waiting(session)
        view.ask(lambda memory: memory.put_many(lines))
    except Conflict:
        return ()  # it was stored before, in other words
    except _REFUSED as error:
        session.failed("keeping", error)
        return None
    except StrongroomError as error:
        session.failed("keeping", error)
        return None if _is_erased(error) else _spool(view, lines)
    if parts.status.problems:
        parts.status.worked("keeping")
        _nothing_waits(parts)
    parts.status.count("kept", len(lines))
    return ()


def _spool(view: SpeakerView, lines: Sequence[NewLine]) -> tuple[Path, ...]:
    actor, parts = view.speaker.actor, view.parts
    try:
        sealed = _sealed_for(view, tuple(lines))
        paths = tuple(parts.spool.add(actor, one, millis()) for one in sealed)
    except StrongroomError as error:
        view.session.failed("the spool", error)
        raise StoreUnavailable(error.message, hint=error.hint) from None
    parts.status.worked("the spool")
    parts.status.count("spooled")
    return paths


def _nothing_waits(parts: Parts) -> None:
    """Clear the recorded problem of the spool once the spool is empty."""
    if "the spool" in parts.status.problems and not parts.spool.waiting().turns:
        parts.status.worked("the spool")


def _sealed_for(view: SpeakerView, lines: tuple[NewLine, ...]) -> list[bytes]:
    try:
        return list(_sealed(view.policy.inbox, view.speaker.actor, lines))
    except InvalidRequest as error:
        hint = "run `strongroom wire hermes`, which asks the vault for its inbox key"
        raise InvalidRequest(f"the turn cannot be sealed for the vault: {error.message}", hint=hint) from None


def _sealed(recipient: str, actor: Actor, lines: tuple[NewLine, ...]) -> Iterator[bytes]:
    """Seal lines as one bundle, or as several if one bundle would be too large."""
    try:
        yield inbox.seal(recipient, inbox.Bundle(actor, lines))
    except BodyTooLarge:
        if len(lines) < 2:
            raise
        half = len(lines) // 2
        yield from _sealed(recipient, actor, lines[:half])
        yield from _sealed(recipient, actor, lines[half:])


def look_for_waiting(session: MemorySession) -> None:
    """Deliver the waiting entries of every process, on a background thread."""
    if session.home.parts.spool.waiting().turns:
        session.home.later(lambda: deliver(session))


def _deliver_waiting(session: MemorySession) -> None:
    """Deliver a few waiting entries before a turn, and the others in the background."""
    if waiting := session.home.parts.spool.waiting().turns:
        deliver(session, most=AT_ONCE)
    if waiting > AT_ONCE:
        session.home.later(lambda: deliver(session))


def deliver(session: MemorySession, most: int | None = None) -> int:
    """Deliver waiting entries, for each person in order. Returns the number of delivered turns."""
    home, look = session.home, session.home.look
    try:
        # A problem with the cap or the connection is not a turn's fault, and must not set a turn aside.
        look.way.check(look.token_for(_owner(look)))
        done = offline_spool.deliver_waiting(look.parts.spool, lambda entry: _delivered(session, entry), most)
    except StrongroomError as error:
        session.failed("delivering", error)
        return 0
    if done:
        home.parts.status.worked("delivering")
        home.parts.settle()
        home.parts.status.count("delivered", done)
    return done


def _delivered(session: MemorySession, entry: SpooledTurn) -> DeliveryResult:
    look = session.home.look  # the cap may have been replaced since the first entry
    shown = _runtime(look)
    try:
        if entry.ids or entry.turns:
            _forget(look, session.home, entry)
            look.parts.status.worked("taking a turn back")
        else:
            look.ask(model.actor(entry.actor), lambda memory: memory.deliver(entry.sealed))
    except _NEVER as error:
        look.parts.status.failed(SET_ASIDE, error)
        return DeliveryResult.REFUSED
    except CapRevoked as error:
        session.failed("delivering", error)
        if _is_erased(error):
            return DeliveryResult.GONE
        return (
            DeliveryResult.LATER
            if entry.actor == _owner(look) or _is_voided(session.home.look, error, shown)
            else DeliveryResult.STOP
        )
    except _REFUSED as error:
        session.failed("delivering", error)
        return DeliveryResult.LATER
    except StrongroomError as error:
        session.failed("delivering", error)
        return DeliveryResult.STOP
    return DeliveryResult.DONE


def _forget(look: HomeView, home: ProviderHome, entry: SpooledTurn) -> None:
    ids = [*map(model.line_id, entry.ids)]
    gone = look.ask(model.actor(entry.actor), lambda memory: turn_lines.forget(memory, ids, entry.turns))
    look.parts.status.count("forgotten", len(gone.ids))
    memory_files.take_out(home, gone.notes)


def _is_erased(error: StrongroomError) -> bool:
    """Whether an actor was erased. The actor's waiting turns are then removed.

    After any other refusal the turns wait for a new cap, for example while all caps are void because one was stolen.
    """
    return isinstance(error, CapRevoked) and error.erased


def _is_voided(look: HomeView, error: StrongroomError, shown: Token | None) -> bool:
    """Whether a revocation concerns the caps of one person only. The turns of other people then need not wait.

    `shown` is the home's cap that was refused. If a newer cap has replaced it since, the answer is False.
    """
    if not isinstance(error, CapRevoked):
        return False
    try:
        look.ask(_owner(look), lambda memory: memory.get("", k=0, patience=0.0))
    except StrongroomError:
        return False
    return _runtime(look) == shown


def _runtime(look: HomeView) -> Token | None:
    """The home's cap as its file holds it now; None if it cannot be read."""
    try:
        return look.parts.caps.runtime()[0]
    except StrongroomError:
        return None


def _owner(look: HomeView) -> Actor:
    return Actor(f"{look.policy.scope}{OWNER}")


def begin_anew(home: ProviderHome) -> None:
    """After `wire` has run: retry the turns that were refused under another cap, or by another vault."""
    home.parts.spool.take_up()
    for work, problem in home.parts.status.problems.items():
        if problem.reason.startswith(_OF_A_CAP):
            home.parts.status.worked(work)


def recover(session: MemorySession) -> None:
    """Deliver the turns that an earlier process left: complete turns, and drafts of turns during which the process
    ended.
    """
    session.home.parts.spool.adopt()
    if session.home.parts.spool.waiting().turns:
        deliver(session)
