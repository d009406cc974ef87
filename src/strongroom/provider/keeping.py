"""What is kept of a conversation, and where: turns, notes of the built-in memory, what another agent brought back.

Every text goes the same way: without what was recalled, without secrets, into the namespace that the owner's rules
give it. What the model says is kept as sensitively as anything that was said or shown to it in this conversation: it
may repeat that. What is durable when a function here returns is durable in the vault, or sealed in the spool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from strongroom import inbox, model
from strongroom.errors import (
    BodyTooLarge,
    CapDataClassMismatch,
    CapLimitExceeded,
    CapNamespaceDenied,
    CapOpMismatch,
    Conflict,
    Invalid,
    InvalidRequest,
    StoreUnavailable,
    StrongroomError,
)
from strongroom.memory import Memory
from strongroom.model import Actor, Kind, LineId, LineInfo, Millis, Namespace, NewLine
from strongroom.provider import manners, spool, turns
from strongroom.provider.manners import Asked
from strongroom.provider.recalling import ASSISTANT
from strongroom.provider.serving import Session, ask, forget, millis, token_for
from strongroom.provider.sessions import History, Kept, State, digest
from strongroom.provider.speaking import Nobody, Speaker, name_of
from strongroom.provider.turns import Begun
from strongroom.wiring.placing import placed
from strongroom.wiring.policy import OWNER

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
    begun = session.turns.begin(message, millis())
    speaker = session.speaker
    if isinstance(speaker, Nobody) or not _keeps(session, speaker):
        return
    state = session.state(speaker)
    text, author = _words(speaker, message)
    first = _routed(session, speaker, text, author)
    _noted(session, lambda: state.carry({first.namespace}))
    asked = manners.asks(text, session.home.phrases())
    begun.is_off = asked in (Asked.THIS_TURN, Asked.OFF) or (state.is_off and asked is not Asked.ON)
    if text and not begun.is_off and not session.is_journalled and session.policy.inbox:
        _draft(session, speaker, begun, first)


def _draft(session: Session, speaker: Speaker, begun: Begun, first: Said) -> None:
    try:
        lines = _lines(session, speaker, begun.time, session.id, [first])
        if lines:
            sealed = inbox.seal(session.policy.inbox, inbox.Bundle(speaker.actor, tuple(lines)))
            begun.draft = session.home.parts.spool.draft(speaker.actor, sealed, begun.time)
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
    begun = session.turns.ended(user, turn_id, millis())
    if begun.is_kept:
        return  # told again
    speaker = session.speaker
    if not isinstance(speaker, Nobody) and not begun.is_taken_back:
        try:
            _keep(session, speaker, begun, _Told(user, reply, session_id, messages))
        except StrongroomError as error:
            session.failed("keeping", error)
            raise
    begun.is_kept = True
    _drop_drafts(session, begun)


def _drop_drafts(session: Session, until: Begun, *, alone: bool = False) -> None:
    for draft in session.turns.given_up(until, alone=alone):
        session.home.parts.spool.drop(draft)


@dataclass(frozen=True, slots=True)
class _Told:
    """A turn as a runtime tells it."""

    user: str
    reply: str
    session: str
    messages: Sequence[Mapping[str, Any]] | None

    def history(self) -> tuple[list[tuple[str, str]], int]:
        """Roles and texts of the messages, and where this turn begins in them."""
        found = [(role, _text_of(one)) for one in self.messages or () if (role := _role(one))]
        places = [place for place, (role, _) in enumerate(found) if role == "user"]
        own = [place for place in places if found[place][1] == self.user]
        return found, (own or places or [0])[-1]


def _keep(session: Session, speaker: Speaker, begun: Begun, told: _Told) -> None:
    state = session.state(speaker, told.session)
    messages, start = told.history()
    if messages and begun.is_known:
        _notice_undo(session, speaker, state, messages, start)
    text, author = _words(speaker, told.user)
    first = _routed(session, speaker, text, author)
    _noted(session, lambda: state.carry({first.namespace}))
    lines: list[NewLine] = []
    spooled: tuple[Path, ...] = ()
    if _is_off(session, state, text) or not _keeps(session, speaker):
        session.home.parts.status.count("off the record")
    else:
        said = [first, *_reply(session, speaker, state, told.reply)]
        lines = _lines(session, speaker, begun.time, told.session, said, begun.turn_id)
        if begun.turn_id and not begun.is_known:
            lines = _missing(session, speaker, lines, {"session": _label(told.session)})
        spooled = store(session, speaker, lines) or ()
    ids = tuple(LineId(line.id) for line in lines if line.id)
    state.keep(Kept(digest(text), ids, len(messages), spooled))
    state.see(ids)
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
        _noted(session, lambda: state.turn_off(asked is Asked.OFF))
    return state.is_off or asked is Asked.THIS_TURN


def _noted(session: Session, note_it: Callable[[], None]) -> None:
    """Note something about the conversation. What cannot be written holds in this process all the same."""
    try:
        note_it()
    except StrongroomError as error:
        session.failed("noting a conversation's state", error)


def _words(speaker: Speaker, user: str) -> tuple[str, str]:
    """What a person said, and who: in a shared chat the text itself names them."""
    said = manners.bare(user)
    name, said = manners.speaker(said) if speaker.is_shared else ("", said)
    return turns.storable(said), name_of(name) or speaker.author


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


def _lines(
    session: Session, speaker: Speaker, began: Millis, session_id: str, said: Iterable[Said], turn_id: str = ""
) -> list[NewLine]:
    """The lines of some texts. What lies outside the cap is left out and counted: the owner drew that border."""
    allowed = _allowed(session)
    lines: list[NewLine] = []
    for place, one in enumerate(said):
        if one.namespace not in allowed:
            session.home.parts.status.count("outside the cap")
            continue
        for number, piece in enumerate(turns.pieces(masked(session, one.text))):
            what = (speaker.actor, session_id, turn_id, str(place), str(number), piece)
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


def _allowed(session: Session) -> frozenset[Namespace]:
    """The namespaces that lines may go to. While the cap cannot be read, the policy's: the gate judges later."""
    known = frozenset(session.policy.namespaces)
    try:
        return known & session.home.parts.caps.namespaces
    except StrongroomError:
        return known


def masked(session: Session, text: str) -> str:
    """The text without secrets, unless the owner keeps them."""
    if not session.policy.keep.mask_secrets:
        return text
    safe, found = session.home.parts.mask.masked(text)
    session.home.parts.status.count("secrets masked", found)
    return safe


def _label(session_id: str) -> str:
    return turns.storable(session_id).replace("\n", " ").replace("\t", " ")[: model.FIELD_LIMIT]


def _missing(session: Session, speaker: Speaker, lines: list[NewLine], which: Mapping[str, Any]) -> list[NewLine]:
    """Those of some lines that are not there yet, whenever they were told before."""

    def there(memory: Memory) -> set[str]:
        found: set[str] = set()
        page = memory.list(limit=model.LIST_LIMIT, **which)
        while True:
            found |= {turns.hash_of(info.id) for info in page.lines}
            if page.next is None:
                return found
            page = memory.list(limit=model.LIST_LIMIT, after=page.next, **which)

    try:
        found = session.ask(speaker, there)
    except StrongroomError:
        return lines  # better twice than not at all
    return [line for line in lines if line.id and turns.hash_of(line.id) not in found]


def _notice_undo(
    session: Session, speaker: Speaker, state: State, messages: Sequence[tuple[str, str]], start: int
) -> None:
    """Take back turns that left the history since the last one: some runtimes tell of an undo in no other way."""
    # A gateway hands over the whole history; others may hand over the turn alone.
    is_whole = bool(session.told.key) and session.told.platform != "api_server" and not session.is_journalled
    history = History.of(messages, start, lambda said: _words(speaker, said)[0])
    if history.length or is_whole:
        state.follow(history)


def _role(message: object) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    return role if role in ("user", "assistant", "tool") else ""


def _text_of(message: Mapping[str, Any]) -> str:
    """What a message says; never what a runtime sent in its place."""
    content = message.get("content")
    return content if isinstance(content, str) else ""


# Other things that are kept.


def note(session: Session, text: str, author: str, kind: Kind = Kind.FACT) -> int:
    """Keep a text that no turn holds, once; how many lines are new."""
    speaker = session.speaker
    if isinstance(speaker, Nobody) or not is_on_record(session, speaker):
        return 0
    state = session.state(speaker)
    words = turns.storable(manners.bare(text))
    said = Said(words, author, _carried(session, speaker, state, words), kind)
    # Not of this session: the same note is the same line, whoever makes it and when.
    lines = _lines(session, speaker, millis(), f"{kind} {author}", [said])
    lines = [msgspec.structs.replace(line, session=_label(session.id)) for line in lines]
    new = _missing(session, speaker, lines, {"kind": str(kind)}) if kind == Kind.FACT else lines
    return len(new) if store(session, speaker, new) is not None else 0


def is_on_record(session: Session, speaker: Speaker) -> bool:
    """Whether what is said now is kept."""
    last = session.turns.last
    is_off = last is not None and last.is_off and not last.is_kept
    return _keeps(session, speaker) and not is_off and not session.state(speaker).is_off


def delegated(session: Session, task: str, result: str) -> None:
    """Keep what another agent was asked and brought back, as one line."""
    if session.policy.keep.delegations:
        text = f"Task: {task[:DELEGATION_LIMIT]}\nResult: {result[:DELEGATION_LIMIT]}"
        note(session, text, ASSISTANT, Kind.DELEGATION)


def rewind(session: Session) -> None:
    """The runtime took the last turn back. One that was not told yet will not be kept."""
    last = session.turns.last
    if last is not None and not last.is_kept and not last.is_taken_back:
        last.is_taken_back = True
        _drop_drafts(session, last, alone=True)
    else:
        forget_last(session)


def forget_last(session: Session) -> bool:
    """Forget the last turn that was told; False if none is known, or it cannot be reached now."""
    speaker = session.speaker
    if isinstance(speaker, Nobody):
        return False
    state = session.state(speaker)
    if not state.rewind():
        # Told by an earlier process: the vault knows which came last.
        try:
            state.take_back(session.ask(speaker, lambda memory: _newest(memory, _label(session.id))))
        except StrongroomError as error:
            session.failed("taking a turn back", error)
            return False
    return bool(state.undoing) and forget(session, speaker, state)


def _newest(memory: Memory, session_id: str) -> list[LineId]:
    """The lines of the last turn of a conversation: those of its last moment, and of the one that it answers."""
    newest: list[LineInfo] = []
    after = None
    while True:
        page = memory.list(session=session_id, kind=Kind.TURN, limit=model.LIST_LIMIT, after=after)
        newest = sorted((*newest, *page.lines), key=lambda info: info.time)[-2 * turns.PIECES - 2 :]
        after = page.next
        if after is None:
            break
    if not newest:
        return []
    began = newest[-1].time - (timedelta(milliseconds=1) if newest[-1].author == ASSISTANT else timedelta())
    return [info.id for info in newest if info.time >= began]


# Where it goes.


def store(session: Session, speaker: Speaker, lines: Sequence[NewLine]) -> tuple[Path, ...] | None:
    """Put lines, or seal them into the spool if the vault does not take them now, and where. None: the cap refuses."""
    if not lines:
        return ()
    try:
        _deliver_waiting(session)
        session.ask(speaker, lambda memory: memory.put_many(lines))
    except Conflict:
        return ()  # it was told before, in other words
    except _REFUSED as error:
        session.failed("keeping", error)
        return None
    except StrongroomError as error:
        session.failed("keeping", error)
        return _spool(session, speaker, lines)
    session.worked("keeping")
    session.home.parts.status.count("kept", len(lines))
    return ()


def _spool(session: Session, speaker: Speaker, lines: Sequence[NewLine]) -> tuple[Path, ...]:
    try:
        if not session.policy.inbox:
            raise InvalidRequest("there is no key to seal a turn with", hint="run `strongroom wire hermes` again")
        sealed = list(_sealed(session.policy.inbox, speaker.actor, tuple(lines)))
        paths = tuple(session.home.parts.spool.add(speaker.actor, one, millis()) for one in sealed)
    except StrongroomError as error:
        session.failed("the spool", error)
        raise StoreUnavailable(f"a turn was lost: {error.message}", hint=error.hint) from None
    session.worked("the spool")
    session.home.parts.status.count("spooled")
    return paths


def _sealed(recipient: str, actor: Actor, lines: tuple[NewLine, ...]) -> Iterator[bytes]:
    """Lines as one sealed bundle, or as several if one would be too large."""
    try:
        yield inbox.seal(recipient, inbox.Bundle(actor, lines))
    except BodyTooLarge:
        if len(lines) < 2:
            raise
        half = len(lines) // 2
        yield from _sealed(recipient, actor, lines[:half])
        yield from _sealed(recipient, actor, lines[half:])


def _deliver_waiting(session: Session) -> None:
    if session.home.parts.spool.waiting().turns:
        deliver(session)


def deliver(session: Session) -> int:
    """Deliver what waits in the spool, in order, as far as it goes; how many turns went."""
    home = session.home

    def one(entry: spool.Entry) -> bool:
        try:
            # What is wrong with the cap or the way is not the turn's fault, and must not set it aside.
            home.way.check(token_for(home, Actor(f"{home.policy.scope}{OWNER}")))
        except StrongroomError as error:
            session.failed("delivering", error)
            return False
        try:
            ask(home, model.actor(entry.actor), lambda memory: memory.deliver(entry.sealed))
        except (*_REFUSED, Invalid, Conflict) as error:
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
