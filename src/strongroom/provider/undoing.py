"""Turns that were taken back: told by the runtime, or noticed by what is in the history no more.

What was taken back is forgotten, and nothing else. What cannot be reached now is forgotten with a later turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from strongroom import model
from strongroom.errors import StrongroomError
from strongroom.memory import Memory
from strongroom.model import Kind, LineId, LineInfo
from strongroom.provider import turns
from strongroom.provider.recalling import ASSISTANT
from strongroom.provider.serving import Session
from strongroom.provider.sessions import History, State
from strongroom.provider.speaking import Nobody, Speaker
from strongroom.provider.wording import label, words


def notice(session: Session, speaker: Speaker, state: State, messages: Sequence[tuple[str, str]], start: int) -> None:
    """Take back turns that left the history since the last one: some runtimes tell of an undo in no other way."""
    # A gateway hands over the whole history; others may hand over the turn alone.
    is_whole = bool(session.told.key) and session.told.platform != "api_server" and not session.is_journalled
    history = History.of(messages, start, lambda said: words(speaker, said)[0])
    if history.length or is_whole:
        state.follow(history)


def rewind(session: Session) -> None:
    """The runtime took the last turn back. One that was not told yet will not be kept."""
    last = session.turns.last
    if last is not None and not last.is_kept and not last.is_taken_back:
        last.is_taken_back = True
        session.drop_drafts(last, alone=True)
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
            state.take_back(session.ask(speaker, lambda memory: _newest(memory, label(session.id))))
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


def forget(session: Session, speaker: Speaker, state: State) -> bool:
    """Forget what was taken back; False if it cannot be reached now: then it is tried with a later turn."""
    with state.guard:
        waiting: list[LineId] = list(dict.fromkeys(state.undoing))
    if not waiting:
        return True
    try:
        session.ask(speaker, lambda memory: memory.forget(ids=waiting))
    except StrongroomError as error:
        session.failed("taking a turn back", error)
        return False
    session.worked("taking a turn back")
    with state.guard:
        state.undoing = [one for one in state.undoing if one not in waiting]
        for one in waiting:
            with suppress(KeyError):
                del state.seen[one]
    return True
