"""From what was said to the lines that are kept of it: whose words, where they go, without secrets, under which ids.

Every text goes the same way. What the model says is kept as sensitively as anything that was said or shown to it in
this conversation: it may repeat that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strongroom import model
from strongroom.errors import StrongroomError
from strongroom.memory import Memory
from strongroom.model import Kind, Millis, Namespace, NewLine
from strongroom.provider import manners, turns
from strongroom.provider.serving import Session
from strongroom.provider.sessions import State, digest
from strongroom.provider.speaking import Speaker
from strongroom.wiring.placing import placed


@dataclass(frozen=True, slots=True)
class Said:
    """One text to keep: what it says, who said it, and where it goes."""

    text: str
    author: str
    namespace: Namespace
    kind: Kind = Kind.TURN


def words(speaker: Speaker, user: str) -> tuple[str, str]:
    """What a person said, and who. In a shared chat the runtime may have put their name before it."""
    said = manners.said_by(speaker.name, user) if speaker.name else user
    return turns.storable(manners.bare(said)), speaker.author


def compared(speaker: Speaker, user: str) -> str:
    """What a turn is known by in a history, whoever of a shared chat said it."""
    said = manners.speaker(user)[1] if speaker.is_shared else user
    return digest(turns.storable(manners.bare(said)))


def routed(session: Session, speaker: Speaker, text: str, author: str) -> Said:
    """What a person said, in the namespace that the owner's rules give it."""
    return Said(text, author, _namespace(session, speaker, text))


def _namespace(session: Session, speaker: Speaker, text: str) -> Namespace:
    chat = speaker.chat.partition(":")[2] or None
    return placed(session.policy, session.home.rules(), text, platform=speaker.platform, chat=chat).namespace


def carried(session: Session, speaker: Speaker, state: State, text: str) -> Namespace:
    """Where a text of the model goes: as sensitively as anything that stood before it."""
    with state.guard:
        names = {*state.carried, _namespace(session, speaker, text)}
    return session.policy.most_sensitive(names)


def lines_of(
    session: Session,
    speaker: Speaker,
    began: Millis,
    session_id: str,
    said: Iterable[Said],
    turn_id: str = "",
    *,
    counted: bool = True,
) -> list[NewLine]:
    """The lines of some texts. What lies outside the cap is left out and counted: the owner drew that border."""
    allowed = _allowed(session)
    lines: list[NewLine] = []
    for place, one in enumerate(said):
        if one.namespace not in allowed:
            session.home.parts.status.count("outside the cap", counted)
            continue
        for number, piece in enumerate(turns.pieces(masked(session, one.text, counted=counted))):
            what = (speaker.actor, session_id, turn_id, str(place), str(number), piece)
            moment = Millis(began + place)
            lines.append(
                NewLine(
                    text=piece,
                    namespace=one.namespace,
                    session=label(session_id),
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


def masked(session: Session, text: str, *, counted: bool = True) -> str:
    """The text without secrets, unless the owner keeps them."""
    if not session.policy.keep.mask_secrets:
        return text
    safe, found = session.home.parts.mask.masked(text)
    session.home.parts.status.count("secrets masked", found if counted else 0)
    return safe


def label(session_id: str) -> str:
    """A session's id as a line can hold it."""
    return turns.storable(session_id).replace("\n", " ").replace("\t", " ")[: model.FIELD_LIMIT]


def missing(session: Session, speaker: Speaker, lines: list[NewLine], which: Mapping[str, Any]) -> list[NewLine]:
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
