"""Recall for a model: the lines for the current question, within a budget, each once in a conversation.

If a recall fails, no line is shown, and the failure is reported: in the status, in the log, and once through the
runtime. Every namespace is recorded before its lines are shown, because a reply may repeat them.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from strongroom.errors import StrongroomError
from strongroom.hermes.provider import dedupe, fitting_lines, line_format, turn_writer
from strongroom.hermes.provider.line_builder import words
from strongroom.hermes.provider.memory_session import MemorySession, SpeakerView
from strongroom.hermes.provider.speaker import ASSISTANT, Nobody
from strongroom.memory import Memory
from strongroom.memory.ops.get import QUERY_LIMIT
from strongroom.model import WITHOUT_LIMIT, Hit, Namespace, Snapshot

_ENOUGH = 3
"""With this many useful lines, no more lines are asked for."""
_ROUNDS = 3
"""Maximum number of calls for one recall. More calls are made if the lines only repeat the question."""
PROFILE_BUDGET = 4000
"""Maximum number of characters of the profiles in a system prompt."""


def warm(session: MemorySession) -> None:
    """Start to load the speaker's lines. The call does not wait for them."""
    view = session.view()
    if not isinstance(view, Nobody):
        try:
            view.ask(lambda memory: memory.get("", k=0, patience=0.0), hasty=True)
        except StrongroomError as error:
            session.failed("loading", error)
        else:
            view.parts.status.worked("loading")


def recall(session: MemorySession, query: str) -> str:
    """The recalled lines for a question, as text. If memory does not answer, this is reported and the text is empty."""
    session.last_shown = 0
    view = session.view()
    if isinstance(view, Nobody):
        return ""
    question, is_asked = _heard(view, query)
    how = line_format.how_to_forget(view.policy, view.speaker.actor) if is_asked else ""
    try:
        text, hits = search(view, question, view.policy.recall.lines, again=is_asked)
    except StrongroomError as error:
        session.failed("recall", error)
        return how
    if view.parts.status.problems:
        view.parts.status.worked("recall")
    session.last_shown = len(hits)
    return "\n\n".join(part for part in (text, how) if part)


def _heard(view: SpeakerView, query: str) -> tuple[str, bool]:
    """A person's question, and whether it asks to forget something. If possible, values from the turn's beginning are
    reused.
    """
    begun = view.session.turns.last
    if begun is not None and not begun.is_kept:
        first = begun.heard
        if first is not None and first.message == query and first.grounds[0] is view.policy:
            return first.said.text, begun.is_request
    text = words(view.speaker, query)[0]
    return text, turn_writer.is_request(view.policy, text)


def ask(view: SpeakerView, query: str, lines: int, *, again: bool = False) -> tuple[str, list[Hit]]:
    """The recalled lines for a question that did not begin a turn, for example the question of a tool."""
    return search(view, words(view.speaker, query)[0], lines, again=again)


def search(view: SpeakerView, text: str, lines: int, *, again: bool = False) -> tuple[str, list[Hit]]:
    """The recalled lines for a question, as text and as hits.

    Lines that were shown before are left out. An explicit search passes `again` to include them, because its answer
    must not be empty if the memory has lines.
    """
    hits = _hits(view, text[: QUERY_LIMIT // 4], lines, again=again)
    shown, taken = line_format.format_hits(hits, view.policy.recall.characters)
    if taken:
        view.show({hit.namespace for hit in taken}, [hit.id for hit in taken])
        view.parts.status.count("recalled", len(taken))
    return shown, taken


def _hits(view: SpeakerView, text: str, k: int, *, again: bool) -> list[Hit]:
    if not k or (dedupe.is_small_talk(text) and not again):
        return []
    state = view.state()
    with state.guard:
        left_out = [] if again else list(state.seen)
    now = datetime.now().astimezone()
    wanted = view.policy.recall
    patience = view.session.patience(wanted.patience)
    if not again:
        wanted = msgspec.structs.replace(wanted, lines=k)
        k = fitting_lines.number_of_lines(wanted)
    taken: list[Hit] = []

    def get(memory: Memory) -> list[Hit]:
        return memory.get(
            text,
            k=k,
            now=now,
            patience=patience,
            without=tuple(left_out[-WITHOUT_LIMIT:]),
            min_confidence=None if again else fitting_lines.floor(text, now.date(), wanted),
            or_newest=wanted.unrelated,
        )

    for _ in range(_ROUNDS):
        hits = view.ask(get, hasty=True)
        if not wanted.unrelated:
            # A reply that hardly matches has a score below 0, and a standing line that matches no word one of 0.
            hits = [hit for hit in hits if hit.score > 0 or hit.standing]
        taken = dedupe.without_echoes([*taken, *hits], text, ASSISTANT)[:k]
        # Fewer than asked for means that there are no more, except if all are echoes: others may have been cut for
        # them.
        if not hits or len(taken) >= min(k, _ENOUGH) or (taken and len(hits) < k):
            break
        left_out += [hit.id for hit in hits]
    return taken if again else fitting_lines.fitting(taken, text, now.date(), wanted)


def prompt(session: MemorySession) -> str:
    """The owner's profiles for the system prompt, as text. Empty if there are none."""
    view = session.view()
    if isinstance(view, Nobody):
        return ""
    try:
        taken = view.ask(Memory.snapshot, hasty=True)
        text = line_format.profiles(taken.profiles, PROFILE_BUDGET)
        view.prompt(_shown(taken, text))
    except StrongroomError as error:
        session.failed("the profile", error)
        return ""
    view.parts.status.worked("the profile")
    return text


def _shown(taken: Snapshot, text: str) -> set[Namespace]:
    return {profile.namespace for profile in taken.profiles if f"\n[{profile.namespace}]\n" in text}
