"""What a model is shown: the lines for the question that is asked now, within a budget, each once in a conversation.

A failure shows nothing and is said: in the status, in the log, and once through the runtime. Every namespace that is
shown is noted before it is shown, because a reply may repeat it.
"""

from __future__ import annotations

from datetime import datetime

from strongroom.errors import StrongroomError
from strongroom.hermes.provider import dedupe, line_format, turn_writer
from strongroom.hermes.provider.conversation import ConversationState
from strongroom.hermes.provider.line_builder import words
from strongroom.hermes.provider.memory_session import MemorySession
from strongroom.hermes.provider.speaker import ASSISTANT, Nobody, Speaker
from strongroom.memory import Memory
from strongroom.memory.ops.get import QUERY_LIMIT
from strongroom.model import WITHOUT_LIMIT, Hit, Namespace, Snapshot

_ENOUGH = 3
"""Lines that are enough: no more are asked for."""
_ROUNDS = 3
"""How often more lines are asked for where those that came say nothing."""
PROFILE_BUDGET = 4000
"""Characters of the profiles in a system prompt."""


def warm(session: MemorySession) -> None:
    """Begin to load what this speaker may recall; nothing is read or waited for."""
    speaker = session.speaker
    if not isinstance(speaker, Nobody):
        try:
            session.ask(speaker, lambda memory: memory.get("", k=0, patience=0.0), hasty=True)
        except StrongroomError as error:
            session.failed("loading", error)
        else:
            session.worked("loading")


def recall(session: MemorySession, query: str) -> str:
    """What is remembered about a question, as text; nothing where memory does not answer, which is said."""
    session.last_shown = 0
    speaker = session.speaker
    is_asked = not isinstance(speaker, Nobody) and _is_request(session, speaker, query)
    how = (
        line_format.how_to_forget(session.policy, speaker.actor) if is_asked and not isinstance(speaker, Nobody) else ""
    )
    try:
        text, hits = search(session, query, session.policy.recall.lines, again=is_asked)
    except StrongroomError as error:
        session.failed("recall", error)
        return how
    session.worked("recall")
    session.last_shown = len(hits)
    return "\n\n".join(part for part in (text, how) if part)


def _is_request(session: MemorySession, speaker: Speaker, query: str) -> bool:
    """Whether a person asks for something to be forgotten. It was looked at when the turn began, if it has begun."""
    begun = session.turns.last
    if begun is not None and begun.heard is not None and begun.message == query and not begun.is_kept:
        return begun.is_request
    return turn_writer.is_request(session, words(speaker, query)[0])


def search(session: MemorySession, query: str, lines: int, *, again: bool = False) -> tuple[str, list[Hit]]:
    """What is remembered about a question, as text and as lines, or why it cannot be said.

    What was shown before is shown `again` only to who asks for it: an empty answer must be true.
    """
    speaker = session.speaker
    if isinstance(speaker, Nobody):
        return "", []
    state, wanted = session.state(speaker), session.policy.recall
    hits = _hits(session, speaker, state, query, lines, again=again, unrelated=wanted.unrelated)
    text, taken = line_format.format_hits(hits, wanted.characters)
    session.show(speaker, {hit.namespace for hit in taken})
    state.see(hit.id for hit in taken)
    session.home.parts.status.count("recalled", len(taken))
    return text, taken


def _hits(
    session: MemorySession,
    speaker: Speaker,
    state: ConversationState,
    query: str,
    k: int,
    *,
    again: bool,
    unrelated: bool,
) -> list[Hit]:
    text = words(speaker, query)[0][: QUERY_LIMIT // 4]
    if not k or (dedupe.is_small_talk(text) and not again):
        return []
    with state.guard:
        left_out = [] if again else list(state.seen)
    now = datetime.now().astimezone()
    patience = session.patience()
    taken: list[Hit] = []

    def get(memory: Memory) -> list[Hit]:
        return memory.get(text, k=k, now=now, patience=patience, without=tuple(left_out[-WITHOUT_LIMIT:]))

    for _ in range(_ROUNDS):
        hits = session.ask(speaker, get, hasty=True)
        if not unrelated:
            hits = [hit for hit in hits if hit.score > 0]
        taken = dedupe.without_echoes([*taken, *hits], text, ASSISTANT)[:k]
        # Fewer than were asked for are all there are, unless they only repeat: others may have been left out for them.
        if not hits or len(taken) >= min(k, _ENOUGH) or (taken and len(hits) < k):
            break
        left_out += [hit.id for hit in hits]
    return taken


def prompt(session: MemorySession) -> str:
    """The owner's profiles for the system prompt; nothing where there are none."""
    speaker = session.speaker
    if isinstance(speaker, Nobody):
        return ""
    try:
        taken = session.ask(speaker, Memory.snapshot, hasty=True)
        text = line_format.profiles(taken.profiles, PROFILE_BUDGET)
        session.prompt(speaker, _shown(taken, text))
    except StrongroomError as error:
        session.failed("the profile", error)
        return ""
    session.worked("the profile")
    return text


def _shown(taken: Snapshot, text: str) -> set[Namespace]:
    return {profile.namespace for profile in taken.profiles if f"\n[{profile.namespace}]\n" in text}
