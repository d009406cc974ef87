"""Handles turns that were taken back. The runtime reports an undo, or the turns are missing in the next history.

Such turns are forgotten with everything written in them, and nothing else. If the vault cannot be reached, they are
forgotten with a later turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from ulid import ULID

from strongroom import model
from strongroom.errors import StrongroomError
from strongroom.hermes.provider import memory_files, turn_ids, turn_lines
from strongroom.hermes.provider.chat_history import History, Messages
from strongroom.hermes.provider.conversation import ConversationState, KeptTurn
from strongroom.hermes.provider.line_builder import comparable, label
from strongroom.hermes.provider.memory_session import MemorySession, SpeakerView
from strongroom.hermes.provider.provider_home import millis
from strongroom.hermes.provider.speaker import ASSISTANT, Nobody, Speaker
from strongroom.hermes.provider.turn_ids import Begun
from strongroom.hermes.provider.turn_lines import Gone
from strongroom.hermes.provider.undo_record import undone_in
from strongroom.hermes.scrub.state_db import FILE
from strongroom.memory import Memory
from strongroom.model import Hit, Kind, LineId, LineInfo, pluralize

_NEAR = 600.0
"""Maximum difference in seconds between our time of a message and Hermes' time.

Hermes stores a message when its turn ends.
"""
_SOON = 20.0
"""Maximum seconds until Hermes' terminal stores a message. Hermes stores it before the model is asked."""
_SLACK = 1.0
_NO_TEXT = "\0"
"""The prefix of messages in Hermes' record that have more than text."""
_LOOKED_AT = 512
Row = tuple[str, float]
"""An undone turn in Hermes' record: the digest of its text, and its time. The digest is empty for more than text."""


def notice(view: SpeakerView, state: ConversationState, history: History) -> None:
    """Take back the turns that are no longer in the history. Some runtimes report an undo in no other way."""
    session = view.session
    # A gateway passes the whole history; others may pass the turn alone.
    is_whole = bool(session.told.key) and session.told.platform != "api_server" and not session.is_journalled
    if is_whole and not state.turns and history.length:
        _look_back(view, state, history.messages)
    elif history.length or is_whole:
        state.follow(history, partial(comparable, view.speaker), lambda: _taken_back(session, view.speaker))


def _taken_back(session: MemorySession, speaker: Speaker) -> set[str] | None:
    """The undone texts of this conversation in Hermes' own record, as digests. None if there is no record."""
    try:
        found = undone_in(session.home.path / FILE, session.id)
    except StrongroomError:
        return set()  # unreadable now: nothing is certain
    return None if found is None else {comparable(speaker, one.said) for one in found}


def _look_back(view: SpeakerView, state: ConversationState, messages: Messages) -> None:
    """Take back turns that were undone before this process knew the conversation, by their words and times."""
    session, speaker = view.session, view.speaker
    try:
        found = undone_in(session.home.path / FILE, session.id) or []
        gone = {(comparable(speaker, one.said), one.time) for one in found}
        still = {comparable(speaker, text) for text in messages.all_said()}
        gone = {(said, time) for said, time in gone if said not in still}
        if gone:
            state.take_back(view.ask(lambda memory: _said_then(memory, label(session.id), speaker, gone)))
    except StrongroomError as error:
        session.failed("looking for undone turns", error)


def _said_then(
    memory: Memory, session_id: str, speaker: Speaker, gone: set[Row], within: float = _NEAR
) -> list[LineId]:
    infos = _turns_of(memory, session_id)
    near = [info for info in infos if any(abs(info.time.timestamp() - time) < within for _, time in gone)]
    hits: list[Hit] = []
    for first in range(0, len(near), model.K_LIMIT):
        hits += memory.get(ids=[info.id for info in near[first : first + model.K_LIMIT]])
    began: set[datetime] = set()
    for said, time in gone:
        # The same words may have been said again, so the line nearest in time is taken.
        same = [hit.time for hit in hits if hit.author != ASSISTANT and comparable(speaker, hit.text) == said]
        began |= {min(same, key=partial(_apart, time))} if same else set()
    return [hit.id for hit in hits if hit.time in began or turn_lines.began(hit) in began]


def rewind(session: MemorySession) -> None:
    """Take back the turns that the runtime undid. The runtime makes one call for any number of turns.

    Hermes' own record names the turns. If it has no entry, the last turn is taken back. A turn that was not reported
    yet will not be stored later.
    """
    session.undone = 0
    view = session.view()
    if isinstance(view, Nobody):
        _rewind_unkept(session)
    elif not _rewind_recorded(view):
        _rewind_last(view)
    if session.undone and session.warn is not None:
        session.warn(f"memory: {pluralize(session.undone, 'line')} forgotten, because the turn was undone")


def _rewind_unkept(session: MemorySession) -> None:
    """Take back the last turn if it was not reported yet."""
    last = session.turns.last
    if last is not None and session.turns.take_back(last):
        session.drop_drafts(last, alone=True)


def _rewind_last(view: SpeakerView) -> None:
    last = view.session.turns.last
    if last is not None and view.session.turns.take_back(last):
        _let_go(view, last)
    else:
        forget_last(view)


def _rewind_recorded(view: SpeakerView) -> bool:
    """Take back the turns that Hermes' record has as undone since the last call. Returns False if this is not
    certain.
    """
    rows = _undone_since(view)
    left = _not_told(view, rows)
    state = view.state()
    with state.guard:
        known = list(state.turns)
        gone = known[_cut(known, left) :]
        for _ in gone:
            state.rewind()
    oldest = min((_began(turn) for turn in known if turn.ids), default=float("inf"))
    gone_before = _take_back_older(view, {row for row in left if row[0] and row[1] < oldest})
    forget(view, state)
    is_any = bool(gone) or gone_before or len(left) < len(rows)
    return is_any or (bool(known and rows) and all(said for said, _ in rows))


def _undone_since(view: SpeakerView) -> list[Row]:
    """The undone turns in Hermes' record that were not handled yet, the oldest first."""
    session, speaker = view.session, view.speaker
    try:
        found = undone_in(session.home.path / FILE, session.id) or []
    except StrongroomError:
        return []  # unreadable now
    rows = {("" if one.said.startswith(_NO_TEXT) else comparable(speaker, one.said), one.time) for one in found}
    new = rows - session.turns.undone
    session.turns.undone |= new
    return sorted(new, key=lambda row: row[1])


def _not_told(view: SpeakerView, rows: list[Row]) -> list[Row]:
    """Take back turns that the person undid before Hermes passed them to this provider.

    Returns the remaining undone turns in Hermes' record.
    """
    left, turns = list(rows), view.session.turns
    for begun in turns.waiting():
        row = _row_of(comparable(view.speaker, begun.message), begun.time / 1000, left)
        if row is not None and turns.take_back(begun):
            left.remove(row)
            _let_go(view, begun)
    return left


def _cut(known: Sequence[KeptTurn], rows: list[Row]) -> int:
    """The position of the first undone turn. An undo removes the newest turns, at most one for each row of the record.

    The rows are the undone turns in Hermes' own record.
    """
    start, left = len(known), list(rows)
    for place in reversed(range(max(len(known) - len(rows), 0), len(known))):
        row = _row_of(known[place].said, _began(known[place]), left)
        if row is not None:
            left.remove(row)
            start = place
    return start


def _row_of(said: str, began: float, rows: list[Row]) -> Row | None:
    """The last undone turn in Hermes' record that may be this turn: it has equal words, and was stored after this
    began.
    """
    return next((row for row in reversed(rows) if row[0] == said and row[1] >= began - _SLACK), None)


def _began(turn: KeptTurn) -> float:
    return ULID.from_str(turn.ids[0]).timestamp if turn.ids else 0.0


def _take_back_older(view: SpeakerView, gone: set[Row]) -> bool:
    """Take back turns that were reported to an earlier process. Returns whether any were found."""
    session = view.session
    try:
        found = view.ask(
            lambda memory: _said_then(memory, label(session.id), view.speaker, gone, _SOON) if gone else []
        )
    except StrongroomError as error:
        session.failed("taking a turn back", error)
        session.turns.undone -= gone
        return False
    view.state().take_back(found)
    return bool(found)


def _let_go(view: SpeakerView, begun: Begun) -> None:
    """Remove the spool entries of a turn that was not stored.

    If the whole turn waited in the spool, another process may have delivered it. Its lines are therefore forgotten too.
    """
    worded, is_left = begun.heard.worded if begun.heard else None, begun.left is not None
    view.session.drop_drafts(begun, alone=True)
    state = view.state()
    if is_left and worded:
        state.take_back(LineId(line.id) for line in worded.lines if line.id)
    if begun.is_noted:
        begun.drop_waiting()
        state.take_back((), [begun.name])
    forget(view, state)


def forget_told(view: SpeakerView, session_id: str) -> None:
    """Forget the turn that was just reported, because it was taken back while it was being stored."""
    state = view.state(session_id)
    state.rewind()
    forget(view, state)


def forget_last(view: SpeakerView) -> int:
    """Forget the last reported turn. Returns the number of forgotten lines, 0 if the vault cannot be reached now."""
    session, state = view.session, view.state()
    if not state.rewind():
        # Told by an earlier process: the vault knows which came last.
        try:
            state.take_back(view.ask(lambda memory: _newest(memory, label(session.id))))
        except StrongroomError as error:
            session.failed("taking a turn back", error)
            return 0
    return forget(view, state)


def _apart(time: float, moment: datetime) -> float:
    return abs(moment.timestamp() - time)


def _newest(memory: Memory, session_id: str) -> list[LineId]:
    """The lines of a conversation's last turn: the newest lines, and the message that they answer."""
    newest = _turns_of(memory, session_id)[-2 * turn_ids.PIECES - 2 :]
    if not newest:
        return []
    began = turn_lines.began(newest[-1])
    return [info.id for info in newest if info.time >= began]


def _turns_of(memory: Memory, session_id: str) -> list[LineInfo]:
    """The lines of a conversation's latest turns, oldest first."""
    newest: list[LineInfo] = []
    after = None
    while True:
        page = memory.list(session=session_id, kind=Kind.TURN, limit=model.LIST_LIMIT, after=after)
        newest = sorted((*newest, *page.lines), key=lambda info: info.time)[-_LOOKED_AT:]
        after = page.next
        if after is None:
            return newest


def forget(view: SpeakerView, state: ConversationState) -> int:
    """Forget the lines that were taken back, with everything written in their turns. Returns how many were forgotten.

    If the vault cannot be reached, the request waits in the spool and is carried out later.
    """
    if not (state.undoing or state.undone):
        return 0
    ids, names = state.taken_back()
    if not (ids or names):  # another thread was first
        return 0
    try:
        gone = view.ask(lambda memory: turn_lines.forget(memory, ids, names))
    except StrongroomError as error:
        view.session.failed("taking a turn back", error)
        _forget_later(view, state, ids, names)
        return 0
    view.parts.status.worked("taking a turn back")
    settle(view, gone)
    view.session.undone += len(gone.ids)
    return len(gone.ids)


def settle(view: SpeakerView, gone: Gone) -> list[str]:
    """Finish after lines were forgotten: count them, and remove their notes from the runtime's memory files.

    Returns the names of the files from which a note could not be removed.
    """
    view.parts.status.count("forgotten", len(gone.ids))
    return memory_files.take_out(view.session.home, gone.notes)


def _forget_later(view: SpeakerView, state: ConversationState, ids: list[LineId], names: list[str]) -> None:
    try:
        view.parts.spool.add_forgetting(view.speaker.actor, ids, millis(), names)
    except StrongroomError as error:
        view.session.failed("taking a turn back", error)
        state.take_back(ids, names)  # with a later turn, if there is one
