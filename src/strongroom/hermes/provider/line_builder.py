"""Makes the lines to store from a text: with author, namespace, masked secrets, and ids.

Every text is treated in the same way. The model's texts are as sensitive as anything that was said or shown in the
conversation, because a reply may repeat earlier lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from strongroom import model
from strongroom.errors import StrongroomError
from strongroom.hermes.namespace_choice import route_text
from strongroom.hermes.policy import Policy
from strongroom.hermes.provider import privacy_phrases, turn_ids
from strongroom.hermes.provider.chat_history import digest
from strongroom.hermes.provider.conversation import ConversationState
from strongroom.hermes.provider.memory_session import SpeakerView
from strongroom.hermes.provider.provider_home import Parts
from strongroom.hermes.provider.speaker import ASSISTANT, Speaker
from strongroom.hermes.provider.turn_ids import Begun, Heard, SaidTurn, Worded
from strongroom.memory import Memory
from strongroom.model import Millis, Namespace, NewLine


def words(speaker: Speaker, user: str) -> tuple[str, str]:
    """A person's own words, and their author. In a shared chat the runtime may have put a name before the words."""
    said = privacy_phrases.said_by(speaker.name, user) if speaker.name else user
    return said_in(said), speaker.author


def said_in(text: str) -> str:
    """A text in storable form, without recalled lines and without the runtime's notes."""
    return turn_ids.storable(privacy_phrases.bare(text))


def comparable(speaker: Speaker, user: str) -> str:
    """The digest by which a turn is found in a history. In a shared chat the speaker's name is left out."""
    said = privacy_phrases.speaker(user)[1] if speaker.is_shared else user
    return digest(said_in(said))


def hear(view: SpeakerView, message: str, session_id: str, before: Heard | None = None) -> Heard:
    """Read a person's message: its text, the namespace that the owner's rules choose, and requests about remembering.

    Returns `before` if nothing has changed since `before` was made.
    """
    grounds = view.look.grounds
    if before and (before.message, before.session, before.grounds) == (message, session_id, grounds):
        return before
    text, author = words(view.speaker, message)
    said = SaidTurn(text, author, _namespace(view, text))
    asked = privacy_phrases.asks(text, view.look.phrases)
    known_by = comparable(view.speaker, message) if view.speaker.is_shared else digest(text)
    return Heard(message, session_id, grounds, said, asked, known_by)


def _namespace(view: SpeakerView, text: str) -> Namespace:
    speaker = view.speaker
    chat = speaker.chat.partition(":")[2] or None
    return route_text(view.policy, view.look.grounds.rules, text, platform=speaker.platform, chat=chat).namespace


def reply_namespace(view: SpeakerView, state: ConversationState, text: str) -> Namespace:
    """The namespace of the model's text. It is at least as sensitive as everything that the model has seen."""
    policy = view.policy
    with state.guard:
        stood = set(state.carried)
    if stood and view.look.grounds.rules.names.issubset(policy.namespaces):
        worst = most_sensitive(policy, stood)
        if worst == policy.namespaces[0]:
            return worst  # whatever the text itself says
    return most_sensitive(policy, {*stood, _namespace(view, text)})


def most_sensitive(policy: Policy, names: set[Namespace]) -> Namespace:
    """The most sensitive of several namespaces. A namespace that the policy does not list counts as the most
    sensitive.
    """
    unknown = sorted(names - set(policy.namespaces))
    return unknown[0] if unknown else min(names, key=policy.namespaces.index)


def lines_of_turn(view: SpeakerView, state: ConversationState, begun: Begun, first: Heard, reply: str) -> list[NewLine]:
    """The lines of a turn: the person's and the model's. Lines that were made when the turn began are reused."""
    worded = None if begun.turn_id else first.worded
    every = [worded or word_said(view, begun, first.session, first.said)]
    if text := said_in(reply):
        replied = SaidTurn(text, ASSISTANT, reply_namespace(view, state, text))
        every.append(word_said(view, begun, first.session, replied, place=1))
    return [line for one in every for line in lines_to_keep(view, one)]


def word_said(view: SpeakerView, begun: Begun, session_id: str, said: SaidTurn, place: int = 0) -> Worded:
    """The lines to store for one text of a turn: the user's message or the reply."""
    return lines_of(view, begun.time, session_id, said, begun.turn_id, place=place, tag=tag_of(view, begun))


def tag_of(view: SpeakerView, begun: Begun) -> bytes:
    """The part that the ids of a turn's lines share. It stays the same if the runtime gives the turn another id
    later.
    """
    if not begun.tag:
        when = begun.turn_id or str(begun.time)
        begun.tag = turn_ids.turn_tag(view.parts.id_key, view.speaker.actor, view.session.id, when)
        begun.name = turn_ids.turn_name(begun.tag)
    return begun.tag


def lines_of(
    view: SpeakerView,
    began: Millis,
    session_id: str,
    said: SaidTurn,
    turn_id: str = "",
    *,
    place: int = 0,
    tag: bytes = b"",
) -> Worded:
    """The lines of a text. `place` is 0 for the person's text and 1 for the reply.

    There are no lines if the cap does not cover the text's namespace, because the owner set that limit.
    """
    if said.namespace not in view.look.grounds.allowed:
        return Worded((), outside=1)
    parts = view.parts
    text, secrets = _masked(view.policy, parts, said.text)
    began, key, told_in = Millis(began + place), parts.id_key, label(session_id)
    lines = [
        NewLine(
            text=piece,
            namespace=said.namespace,
            session=told_in,
            author=said.author,
            kind=said.kind,
            id=turn_ids.line_id(
                key, began, view.speaker.actor, session_id, turn_id, str(place), str(number), piece, tag=tag
            ),
            time=model.moment(began),
        )
        for number, piece in enumerate(turn_ids.pieces(text))
    ]
    return Worded(tuple(lines), secrets)


def lines_to_keep(view: SpeakerView, worded: Worded) -> tuple[NewLine, ...]:
    """The lines of a text. For the status, also count the masked secrets and the texts that the cap does not cover."""
    if worded.outside or worded.secrets:
        status = view.parts.status
        status.count("outside the cap", worded.outside)
        status.count("secrets masked", worded.secrets)
    return worded.lines


def mask_secrets(view: SpeakerView, text: str) -> str:
    """Mask and count the secrets in a text. Returns the text unchanged if the policy stores secrets."""
    safe, found = _masked(view.policy, view.parts, text)
    view.parts.status.count("secrets masked", found)
    return safe


def _masked(policy: Policy, parts: Parts, text: str) -> tuple[str, int]:
    return parts.mask.masked(text) if policy.keep.mask_secrets else (text, 0)


@lru_cache(maxsize=64)
def label(session_id: str) -> str:
    """A session's id in a form that a line can hold."""
    return turn_ids.storable(session_id).replace("\n", " ").replace("\t", " ")[: model.FIELD_LIMIT]


def absent_lines(view: SpeakerView, lines: list[NewLine], which: Mapping[str, Any]) -> list[NewLine]:
    """Select the lines that are not stored yet. Ids are compared without their times."""

    def there(memory: Memory) -> set[str]:
        found: set[str] = set()
        page = memory.list(limit=model.LIST_LIMIT, **which)
        while True:
            found |= {turn_ids.hash_of(info.id) for info in page.lines}
            if page.next is None:
                return found
            page = memory.list(limit=model.LIST_LIMIT, after=page.next, **which)

    try:
        found = view.ask(there)
    except StrongroomError:
        return lines  # twice is better than not at all
    return [line for line in lines if line.id and turn_ids.hash_of(line.id) not in found]
