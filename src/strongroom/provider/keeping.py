"""What is kept of a conversation, and where: turns, notes of the built-in memory, what another agent brought back.

Every text goes the same way: without what was recalled, without secrets, into the namespace that the owner's rules
give it. What the model says is kept as sensitively as anything that was said or shown to it in this conversation: it
may repeat that. What is durable when a function here returns is durable in the vault, or sealed in the spool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strongroom import inbox, model
from strongroom.errors import (
    CapDataClassMismatch,
    CapLimitExceeded,
    CapNamespaceDenied,
    CapOpMismatch,
    Conflict,
    Denied,
    InvalidRequest,
    StoreUnavailable,
    StrongroomError,
    Tampered,
    Unavailable,
)
from strongroom.memory import Memory
from strongroom.model import Actor, Kind, LineId, Millis, Namespace, NewLine
from strongroom.provider import manners, spool, turns
from strongroom.provider.manners import Asked
from strongroom.provider.serving import Session, ask, forget, millis
from strongroom.provider.sessions import State
from strongroom.provider.speaking import Nobody, Speaker
from strongroom.wiring.placing import placed

ASSISTANT = "assistant"
DELEGATION_LIMIT = 4000
_REFUSED = (CapOpMismatch, CapDataClassMismatch, CapNamespaceDenied, CapLimitExceeded)
"""Denials that no waiting helps against."""


@dataclass(frozen=True, slots=True)
class Said:
    """One text to keep: what it says, who said it, and where it goes."""

    text: str
    author: str
    namespace: Namespace
    kind: Kind = Kind.TURN


# A turn.


def begin(session: Session, message: str) -> None:
    """A turn begins. What the person said is safe from here on, even if the process dies before the turn is told."""
    session.turns.begin(message, millis())
    speaker = session.speaker
    if isinstance(speaker, Nobody) or session.is_journalled or not _keeps(session, speaker):
        return
    _give_up_draft(session)
    state = session.state(speaker)
    text, author = _words(session, speaker, message)
    if not text or state.is_off or manners.asks(text, session.home.phrases()) in (Asked.THIS_TURN, Asked.OFF):
        return
    began, _ = session.turns.began(message, millis())
    try:
        lines = _lines(session, speaker, began, session.id, [_routed(session, speaker, text, author)])
        if lines and session.policy.inbox:
            sealed = inbox.seal(session.policy.inbox, inbox.Bundle(speaker.actor, tuple(lines)))
            session.draft = session.home.parts.spool.draft(speaker.actor, sealed, began)
    except StrongroomError as error:
        session.failed("keeping a draft", error)


def turn(
    session: Session,
    user: str,
    reply: str,
    session_id: str,
    messages: Sequence[Mapping[str, Any]] | None = None,
    turn_id: str = "",
) -> None:
    """Keep a complete turn: a line for each speaker. Durable when it returns, or raised."""
    began, is_known = session.turns.ended(user, millis())
    speaker = session.speaker
    if isinstance(speaker, Nobody) or not _keeps(session, speaker):
        _give_up_draft(session)
        return
    state = session.state(speaker, session_id)
    if messages is not None and is_known:
        _notice_undo(session, speaker, state, messages)
    text, author = _words(session, speaker, user)
    first = _routed(session, speaker, text, author)
    state.carry({first.namespace})
    if _is_off(session, state, text):
        session.home.parts.status.count("off the record")
        _give_up_draft(session)
        return
    said = [first, *_reply(session, speaker, state, reply)]
    lines = _lines(session, speaker, began, session_id, said)
    if turn_id and not is_known:
        lines = _missing(session, speaker, session_id, lines)
    store(session, speaker, lines)
    ids = tuple(LineId(line.id) for line in lines if line.id)
    state.keep(text, ids)
    state.see(ids)
    _give_up_draft(session)
    forget(session, speaker, state)


def _keeps(session: Session, speaker: Speaker) -> bool:
    """Whether this chat is kept at all."""
    off = session.policy.off_the_record
    return (
        speaker.keeps
        and session.policy.keep.turns
        and speaker.platform not in off.platforms
        and (not speaker.chat or speaker.chat not in off.chats)
    )


def _is_off(session: Session, state: State, text: str) -> bool:
    """Whether a turn is off the record, after what it says about that itself."""
    asked = manners.asks(text, session.home.phrases())
    if asked in (Asked.OFF, Asked.ON):
        state.turn_off(asked is Asked.OFF)
    return state.is_off or asked is Asked.THIS_TURN


def _words(session: Session, speaker: Speaker, user: str) -> tuple[str, str]:
    """What a person said, and who: in a shared chat the text itself names them."""
    said = manners.bare(user)
    name, said = manners.speaker(said) if speaker.is_shared else ("", said)
    return turns.storable(said), name or speaker.author


def _routed(session: Session, speaker: Speaker, text: str, author: str) -> Said:
    return Said(text, author, _namespace(session, speaker, text))


def _namespace(session: Session, speaker: Speaker, text: str) -> Namespace:
    chat = speaker.chat.partition(":")[2] or None
    return placed(session.policy, session.home.rules(), text, platform=speaker.platform, chat=chat).namespace


def _reply(session: Session, speaker: Speaker, state: State, reply: str) -> list[Said]:
    """What the model said, as sensitively as anything that stood before it."""
    text = turns.storable(manners.bare(reply))
    if not text or not session.policy.keep.replies:
        return []
    return [Said(text, ASSISTANT, _carried(session, speaker, state, text))]


def _carried(session: Session, speaker: Speaker, state: State, text: str) -> Namespace:
    with state.guard:
        names = {*state.carried, _namespace(session, speaker, text)}
    return session.policy.most_sensitive(names)


def _lines(session: Session, speaker: Speaker, began: Millis, session_id: str, said: Iterable[Said]) -> list[NewLine]:
    """The lines of some texts. What lies outside the cap is left out and counted: the owner drew that border."""
    allowed = session.home.parts.caps.namespaces
    lines: list[NewLine] = []
    for place, one in enumerate(said):
        if one.namespace not in allowed:
            session.home.parts.status.count("outside the cap")
            continue
        for number, piece in enumerate(turns.pieces(masked(session, one.text))):
            what = (speaker.actor, session_id, str(place), str(number), piece)
            moment = Millis(began + place)
            lines.append(
                NewLine(
                    text=piece,
                    namespace=one.namespace,
                    session=_label(session_id),
                    author=one.author,
                    kind=one.kind,
                    id=turns.line_id(session.home.parts.id_key, moment, *what),
                    time=model.moment(moment),
                )
            )
    return lines


def masked(session: Session, text: str) -> str:
    """The text without secrets, unless the owner keeps them."""
    if not session.policy.keep.mask_secrets:
        return text
    safe, found = session.home.parts.mask.masked(text)
    session.home.parts.status.count("secrets masked", found)
    return safe


def _label(session_id: str) -> str:
    return turns.storable(session_id).replace("\n", " ").replace("\t", " ")[: model.FIELD_LIMIT]


def _missing(session: Session, speaker: Speaker, session_id: str, lines: list[NewLine]) -> list[NewLine]:
    """Those of a turn's lines that are not there yet: it came a second time, and nobody knows when it began."""

    def there(memory: Memory) -> set[str]:
        found: set[str] = set()
        page = memory.list(session=_label(session_id), limit=model.LIST_LIMIT)
        while True:
            found |= {turns.hash_of(info.id) for info in page.lines}
            if page.next is None:
                return found
            page = memory.list(session=_label(session_id), limit=model.LIST_LIMIT, after=page.next)

    found = session.ask(speaker, there)
    return [line for line in lines if line.id and turns.hash_of(line.id) not in found]


def _give_up_draft(session: Session) -> None:
    draft, session.draft = session.draft, None
    if draft is not None:
        session.home.parts.spool.drop(draft)


def _notice_undo(session: Session, speaker: Speaker, state: State, messages: Sequence[Mapping[str, Any]]) -> None:
    """Take back turns that left the history since the last one: some runtimes tell of an undo in no other way."""
    said = [_words(session, speaker, text)[0] for text in _said_in(messages)]
    state.lengthened(len(messages))
    with state.guard:
        state.undoing += state.undone(said[:-1])


def _said_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """What people said, by the messages; never what a runtime sent in their name."""
    found = (one.get("content") for one in messages if isinstance(one, Mapping) and one.get("role") == "user")
    return [content for content in found if isinstance(content, str)]


# Other things that are kept.


def note(session: Session, text: str, author: str, kind: Kind = Kind.FACT) -> None:
    """Keep a text that no turn holds."""
    speaker = session.speaker
    if isinstance(speaker, Nobody) or not _keeps(session, speaker):
        return
    state = session.state(speaker)
    if state.is_off:
        return
    words = turns.storable(manners.bare(text))
    said = Said(words, author, _carried(session, speaker, state, words), kind)
    store(session, speaker, _lines(session, speaker, millis(), session.id, [said]))


def delegated(session: Session, task: str, result: str) -> None:
    """Keep what another agent was asked and brought back, as one line."""
    if session.policy.keep.delegations:
        text = f"Task: {task[:DELEGATION_LIMIT]}\nResult: {result[:DELEGATION_LIMIT]}"
        note(session, text, ASSISTANT, Kind.DELEGATION)


def rewind(session: Session) -> None:
    """Take back the last turn."""
    speaker = session.speaker
    if not isinstance(speaker, Nobody):
        state = session.state(speaker)
        with state.guard:
            state.undoing += state.rewind()
        forget(session, speaker, state)


# Where it goes.


def store(session: Session, speaker: Speaker, lines: Sequence[NewLine]) -> None:
    """Put lines, or seal them into the spool if the vault cannot be reached or refuses the cap."""
    if not lines:
        return
    try:
        _deliver_waiting(session)
        session.ask(speaker, lambda memory: memory.put_many(lines))
    except _REFUSED as error:
        session.failed("keeping", error)
    except Conflict:
        pass  # it was told before, in other words
    except (Unavailable, Denied, Tampered) as error:
        session.failed("keeping", error)
        _spool(session, speaker, lines)
    else:
        session.worked("keeping")
        session.home.parts.status.count("kept", len(lines))


def _spool(session: Session, speaker: Speaker, lines: Sequence[NewLine]) -> None:
    try:
        if not session.policy.inbox:
            raise InvalidRequest("there is no key to seal a turn with", hint="run `strongroom wire hermes` again")
        sealed = inbox.seal(session.policy.inbox, inbox.Bundle(speaker.actor, tuple(lines)))
        session.home.parts.spool.add(speaker.actor, sealed, millis())
    except StrongroomError as error:
        session.failed("the spool", error)
        raise StoreUnavailable(f"a turn was lost: {error.message}", hint=error.hint) from None
    session.worked("the spool")
    session.home.parts.status.count("spooled")


def _deliver_waiting(session: Session) -> None:
    if session.home.parts.spool.waiting().turns:
        deliver(session)


def deliver(session: Session) -> int:
    """Deliver what waits in the spool, in order, as far as it goes; how many turns went."""
    home = session.home

    def one(entry: spool.Entry) -> bool:
        try:
            ask(home, Actor(model.actor(entry.actor)), lambda memory: memory.deliver(entry.sealed))
        except (*_REFUSED, InvalidRequest, Conflict) as error:
            home.parts.status.failed("delivering a turn", error)
            home.parts.spool.set_aside(entry)
        except StrongroomError as error:
            session.failed("delivering", error)
            return False
        return True

    done = spool.drained(home.parts.spool, one)
    if done:
        session.worked("delivering")
        home.parts.status.count("delivered", done)
    return done


def recover(session: Session) -> None:
    """Deliver what an earlier process left: complete turns, and what was said in those that it died in."""
    session.home.parts.spool.adopt()
    _deliver_waiting(session)
