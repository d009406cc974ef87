"""Stores a conversation: turns, notes of the built-in memory, and other agents' results.

A text that is off the record by phrase, by chat or by platform is not stored. `line_builder` makes the lines,
`delivery` stores them, and `undo` takes them back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from strongroom.crypto import inbox
from strongroom.errors import StrongroomError
from strongroom.hermes.policy import Policy
from strongroom.hermes.provider import undo
from strongroom.hermes.provider.chat_history import History
from strongroom.hermes.provider.conversation import ConversationState, KeptTurn
from strongroom.hermes.provider.delivery import store
from strongroom.hermes.provider.forget_phrases import is_forget_request
from strongroom.hermes.provider.line_builder import (
    absent_lines,
    hear,
    label,
    lines_of,
    lines_of_turn,
    lines_to_keep,
    reply_namespace,
    said_in,
    tag_of,
    word_said,
)
from strongroom.hermes.provider.memory_session import MemorySession, SpeakerView
from strongroom.hermes.provider.privacy_phrases import Asked
from strongroom.hermes.provider.provider_home import millis
from strongroom.hermes.provider.speaker import ASSISTANT, Nobody
from strongroom.hermes.provider.turn_ids import Begun, Heard, SaidTurn
from strongroom.model import Kind, LineId, NewLine

DELEGATION_LIMIT = 4000


# A turn.


def begin(session: MemorySession, message: str, number: int = 0) -> None:
    """Begin a turn. From here on the person's text survives the end of the process, even if the turn is never reported.

    `number` counts the turns of the conversation. If an agent's first turn has a number above 1, there is a history.
    """
    begun = session.turns.begin(message, millis())
    view = session.view()
    if isinstance(view, Nobody) or not _keeps(view):
        return
    state = view.state()
    first = begun.heard = hear(view, message, session.id)
    begun.shown.add(first.said.namespace)
    if session.had_history(number):
        _noted(session, lambda: state.begun(with_history=True))
    _noted(session, lambda: state.carry({first.said.namespace}))
    begun.is_request = is_request(view.policy, first.said.text)
    is_off = first.asked in (Asked.THIS_TURN, Asked.OFF) or (state.is_off and first.asked is not Asked.ON)
    begun.is_off = is_off or begun.is_request
    if first.said.text and not begun.is_off and not session.is_journalled and view.policy.inbox:
        _draft(view, begun, first)


def _draft(view: SpeakerView, begun: Begun, first: Heard) -> None:
    try:
        worded = word_said(view, begun, first.session, first.said)
        begun.heard = msgspec.structs.replace(first, worded=worded)
        if worded.lines:
            actor = view.speaker.actor
            sealed = inbox.seal(view.policy.inbox, inbox.Bundle(actor, worded.lines))
            begun.draft = view.parts.spool.draft(actor, sealed, begun.time, begun.draft)
        view.parts.status.worked("keeping a draft")
    except StrongroomError as error:
        view.session.failed("keeping a draft", error)


def turn(
    session: MemorySession,
    user: str,
    reply: str,
    session_id: str,
    messages: Sequence[Mapping[str, Any]] | None = None,
    turn_id: str = "",
) -> None:
    """Store a complete turn: a line for each speaker. The lines are durable on return; otherwise the call raises."""
    begun = session.turns.ended(user, turn_id, millis)
    if begun.is_kept:
        return  # told again
    view = session.view()
    if isinstance(view, Nobody) or begun.is_taken_back:
        begun.is_kept = True
    else:
        state = view.state(session_id)
        known = state.turns[-1].length if state.turns else 0
        _name_alike(view, begun, session_id)
        try:
            _keep(view, begun, state, _Told(user, reply, session_id, messages, known))
        except Exception as error:  # whatever it was: the person's text is not lost
            session.leave_draft(begun, error)
            raise
        if not session.turns.kept(begun):
            undo.forget_told(view, session_id)
    session.drop_drafts(begun)


def _name_alike(view: SpeakerView, begun: Begun, session_id: str) -> None:
    """Give a draft's lines their final ids.

    With other ids the turn would be stored twice if the process died before the draft is removed.
    """
    first = begun.heard
    if begun.draft is not None and first is not None and (begun.turn_id or first.session != session_id):
        _draft(view, begun, hear(view, first.message, session_id))


class _Told(NamedTuple):
    """A turn as the runtime reports it."""

    user: str
    reply: str
    session: str
    messages: Sequence[Mapping[str, Any]] | None
    known: int = 0
    """The number of messages when the previous turn was reported."""


def _keep(view: SpeakerView, begun: Begun, state: ConversationState, told: _Told) -> None:
    session, policy = view.session, view.policy
    history = History.of(told.messages or (), told.user, told.known)
    if not state.is_known:
        _noted(session, lambda: state.begun(with_history=history.length > 0))
    if told.session != session.id:
        _noted(session, lambda: state.carry(view.state().carried))  # what was shown was shown under the old id
    length = len(history.messages.roles)
    if length and begun.is_known and not state.goes_on(history):
        undo.notice(view, state, history)
    first = hear(view, told.user, told.session, begun.heard)
    begun.is_request = begun.is_request or (first is not begun.heard and is_request(policy, first.said.text))
    _noted(session, lambda: state.carry({first.said.namespace, *session.stood(begun)}))
    lines: list[NewLine] = []
    spooled: tuple[Path, ...] = ()
    if _is_off(session, state, first.asked, begun) or not _keeps(view):
        view.parts.status.count("off the record")
    else:
        lines = lines_of_turn(view, state, begun, first, told.reply if policy.keep.replies else "")
        if begun.turn_id and not begun.is_known:
            lines = absent_lines(view, lines, {"session": label(told.session)})
        spooled = store(view, lines) or ()
    ids = tuple([LineId(line.id) for line in lines if line.id])
    name = begun.name if ids or begun.is_noted else ""
    state.keep(KeptTurn(first.digest, ids, length, (*spooled, *begun.waiting), name))
    if state.undoing or state.undone:
        undo.forget(view, state)


def _keeps(view: SpeakerView) -> bool:
    """Whether turns of this chat are stored at all."""
    policy, speaker = view.policy, view.speaker
    off = policy.off_the_record
    return (
        speaker.keeps
        and policy.keep.turns
        and speaker.platform not in off.platforms
        and (not speaker.chat or speaker.chat not in off.chats)
    )


def _is_off(session: MemorySession, state: ConversationState, asked: Asked, begun: Begun) -> bool:
    """Whether a turn is off the record, by its words now and by the words that it began with."""
    if asked in (Asked.OFF, Asked.ON):
        _noted(session, lambda: state.turn_off(asked is Asked.OFF))
    is_off = state.is_off or asked is Asked.THIS_TURN or (begun.is_off and asked is not Asked.ON)
    return is_off or begun.is_request


def is_request(policy: Policy, text: str) -> bool:
    """Whether a text asks to forget something, and the policy does not store such requests.

    A request may repeat the text that is to be forgotten.
    """
    return not policy.keep.forget_requests and is_forget_request(text)


def set_apart(session: MemorySession) -> None:
    """Mark the current turn not to be stored. Lines were forgotten in this turn, and its text may repeat them."""
    begun = session.turns.current
    if begun is not None and not begun.is_kept and not session.home.policy.keep.forget_requests:
        begun.is_request = begun.is_off = True
        session.drop_drafts(begun, alone=True)


def _noted(session: MemorySession, note_it: Callable[[], None]) -> None:
    """Record a fact about the conversation. If the fact cannot be stored, it still holds in this process."""
    try:
        note_it()
    except StrongroomError as error:
        session.failed("noting a conversation's state", error)


# Other writings.


def note(view: SpeakerView, text: str, author: str, kind: Kind = Kind.FACT, *, in_turn: bool = True) -> int:
    """Store a text beside the conversation, once, as a part of the current turn. Returns the number of new lines."""
    if not is_on_record(view):
        return 0
    session, plain = view.session, said_in(text)
    said = SaidTurn(plain, author, reply_namespace(view, view.state(), plain), kind)
    begun = session.turns.current if in_turn else None
    tag = tag_of(view, begun) if begun else b""
    # The session is not part of the id: the same note is the same line, whoever writes it and when.
    found = lines_to_keep(view, lines_of(view, millis(), f"{kind} {author}", said, tag=tag))
    lines = [msgspec.structs.replace(line, session=label(session.id)) for line in found]
    new = absent_lines(view, lines, {"kind": str(kind)}) if kind == Kind.FACT else lines
    stored = store(view, new)
    if begun and new and stored is not None:
        begun.is_noted, begun.waiting = True, (*begun.waiting, *stored)
    return 0 if stored is None else len(new)


def is_on_record(view: SpeakerView) -> bool:
    """Whether a text that is said now would be stored."""
    last = view.session.turns.last
    is_off = last is not None and (last.is_off or last.is_taken_back) and not last.is_kept
    return _keeps(view) and not is_off and not view.state().is_off


def keep_delegated(session: MemorySession, task: str, result: str, child: str = "") -> None:
    """Store another agent's task and result as one line. The result may repeat everything that the agent was shown."""
    view = session.view()
    if isinstance(view, Nobody):
        return
    if child:
        _noted(session, lambda: view.show(view.state(child).carried))
    if view.policy.keep.delegations:
        text = f"Task: {task[:DELEGATION_LIMIT]}\nResult: {result[:DELEGATION_LIMIT]}"
        note(view, text, ASSISTANT, Kind.DELEGATION)
