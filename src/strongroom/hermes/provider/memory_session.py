"""One agent's session with memory, and what one hook of it works with: who speaks, in which conversation, which home.

Nothing about the speaker is frozen: each hook begins with `MemorySession.view`, which reads the policy as it is now,
and passes what it found down. Not responsible for what is recalled or kept: `recall` and `turn_writer` are.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from strongroom.errors import InvalidRequest, ServerDefect, StrongroomError
from strongroom.hermes import cap_file
from strongroom.hermes.policy import Policy
from strongroom.hermes.provider.conversation import ConversationState
from strongroom.hermes.provider.problem_log import Warn
from strongroom.hermes.provider.provider_home import HomeView, ProviderHome
from strongroom.hermes.provider.speaker import Conversation, Nobody, Speaker, who
from strongroom.hermes.provider.turn_ids import Begun, Turns
from strongroom.memory import Memory
from strongroom.model import LineId, Namespace

T = TypeVar("T")
_RENEWAL_GAP = 600.0
_TENDING_GAP = 5.0
"""Seconds between two looks after a home, however many turns there are."""
_LOST = {"turn": "turns lost", "reply": "replies lost"}
"""How the status counts what could be neither kept nor spooled."""
_tried: dict[Path, float] = {}


class MemorySession:
    """One agent's session. Its methods come from any thread."""

    def __init__(
        self,
        home: ProviderHome,
        session_id: str = "",
        told: Mapping[str, Any] | None = None,
        *,
        is_journalled: bool = False,
    ) -> None:
        self.home = home
        self.id = session_id
        self.told = Conversation.told(told or {})
        warn = (told or {}).get("warning_callback")
        self.warn: Warn | None = warn if callable(warn) else None
        self.turns = Turns()
        self.is_journalled = is_journalled
        """Whether the runtime itself keeps a turn safe until `sync_turn` has returned."""
        self.last_shown = 0
        self.undone = 0
        """How many lines the last undo took along."""
        self.caught_up = threading.Event()
        """Set when what an earlier process left was delivered, or could not be."""
        self.caught_up.set()
        self._who: tuple[Policy, Speaker | Nobody] | None = None
        self._first = ("", 0)
        """The first turn that began here in this conversation: the conversation's id, and the turn's number."""
        self.prompted: set[Namespace] = set()
        """The namespaces of which the system prompt speaks."""
        self._early: set[Namespace] = set()
        """The namespaces that were shown while no turn was under way."""

    def view(self) -> SpeakerView | Nobody:
        """What a hook works with: whose memory this is, as the policy says now, and the home as it is now."""
        look = self.home.look
        policy, known = look.policy, self._who
        if known is None or known[0] is not policy:
            known = self._who = (policy, who(policy, self.told, look.parts.accounts))
        speaker = known[1]
        return speaker if isinstance(speaker, Nobody) else SpeakerView(self, look, speaker)

    def note_shown(self, names: set[Namespace]) -> None:
        """Note namespaces that were shown to the model in the turn that is under way, or else before the next."""
        begun = self.turns.last
        (self._early if begun is None or begun.is_kept else begun.shown).update(names)

    def stood(self, begun: Begun) -> set[Namespace]:
        """The namespaces that stood before the model in a turn that is told, as far as this agent showed them."""
        early, self._early = self._early, set()
        return self.prompted | early | begun.shown

    def start_anew(self) -> None:
        """What was shown before is not in sight of what is said from now on, but for the turn that is under way."""
        self._early = set()

    def had_history(self, number: int) -> bool:
        """Whether something was said in this conversation before this agent's first turn; `number` is this turn's."""
        if self._first[0] != self.id:
            self._first = (self.id, number)
        return self._first[1] > 1

    def patience(self, seconds: float) -> float:
        """What is left of these seconds, after the first recall waited in them for what an earlier process left."""
        began = time.monotonic()
        if not self.caught_up.is_set():
            self.caught_up.wait(seconds)
            self.caught_up.set()  # once is enough: delivery may take long
        return max(0.0, seconds - (time.monotonic() - began))

    def drop_drafts(self, until: Begun, *, alone: bool = False) -> None:
        """Let go of the drafts of a turn and of those before it, or of its own alone."""
        for draft in self.turns.given_up(until, alone=alone):
            with suppress(OSError):
                os.unlink(draft)

    def leave_draft(self, begun: Begun, error: Exception) -> None:
        """Have a draft delivered later: its turn could not be kept. What is lost is said and counted."""
        lost = "turn" if begun.draft is None else "reply"
        if begun.draft is not None:
            begun.left, begun.draft = self.home.parts.spool.promote(begun.draft), None
        self.drop_drafts(begun)  # those of others, and its own if it was taken back meanwhile
        self.failed("keeping", error if self.is_journalled else _lost(lost, error))
        if not self.is_journalled:  # else the runtime tells of it again
            self.home.parts.status.count(_LOST[lost])

    def failed(self, work: str, error: Exception) -> None:
        """Note what failed. A defect of ours must not pass for an empty memory, nor for one that keeps."""
        if not isinstance(error, StrongroomError):
            error = ServerDefect(f"a defect in memory: {type(error).__name__}", hint="please report it")
        with suppress(InvalidRequest):  # a home that is not wired any more has nowhere to say it
            self.home.parts.status.failed(work, error, self.warn)


class SpeakerView:
    """What one hook works with: its session, who speaks in it, and the home as it was when the hook began.

    For one thread. What is done later takes a new one.
    """

    __slots__ = ("_states", "look", "parts", "policy", "session", "speaker")

    def __init__(self, session: MemorySession, look: HomeView, speaker: Speaker) -> None:
        self.session, self.look, self.speaker = session, look, speaker
        self.policy, self.parts = look.policy, look.parts
        self._states: dict[str, ConversationState] = {}

    def state(self, session_id: str = "") -> ConversationState:
        """What is known of a conversation, this one or another; looked for once."""
        name = session_id or self.session.id
        found = self._states.get(name)
        if found is None:
            names = self.policy.namespaces
            worst = names[0] if names else Namespace("personal")
            found = self._states[name] = self.parts.sessions.of(self.speaker.actor, name, self.session.told.key, worst)
        return found

    def show(self, names: set[Namespace], ids: Iterable[LineId] = ()) -> None:
        """Note namespaces, and lines, that stand before the model from now on.

        Also with the turn itself: a runtime may say only later that its conversation has another id by then.
        """
        self.session.note_shown(names)
        self.state().carry(names, ids)

    def prompt(self, names: set[Namespace]) -> None:
        """Note namespaces of which the system prompt speaks: they stand before every turn from now on."""
        self.session.prompted = names
        self.state().carry(names)

    def ask(self, use: Callable[[Memory], T], *, hasty: bool = False) -> T:
        """Ask the gate with a cap for this speaker and a few minutes."""
        return self.look.ask(self.speaker.actor, use, hasty=hasty, keeps=self.speaker.keeps)


def _lost(what: str, error: Exception) -> Exception:
    """What failed, and what it cost."""
    if not isinstance(error, StrongroomError):
        return error
    kept = "what the person said waits" if what == "reply" else "it is nowhere"
    return type(error)(f"a {what} was lost, {kept}: {error.message}", hint=error.hint)


def tend(home: ProviderHome) -> None:
    """Have a home looked after, after a turn; not if that was a moment ago."""
    now = time.monotonic()
    if now >= home.tended + _TENDING_GAP:
        home.tended = now
        home.later(lambda: look_after(home))


def look_after(home: ProviderHome) -> None:
    """Renew the runtime's cap if it is time, and warn where that does not work. For a thread that nobody waits for."""
    parts = home.parts
    parts.status.save_counts()
    parts.settle()
    last = _tried.get(parts.directory, -_RENEWAL_GAP)
    if time.monotonic() - last < _RENEWAL_GAP:
        return
    _tried[parts.directory] = time.monotonic()
    try:
        if parts.caps.is_due():
            parts.caps.renew(home.way)
        parts.status.worked("renewing the cap")
    except StrongroomError as error:
        if parts.caps.days_left() * 86_400 < cap_file.WARN_BEFORE:
            parts.status.failed("renewing the cap", error)
    parts.sessions.tidy()
