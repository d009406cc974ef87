"""One agent's session with memory, and the view that each of its hooks works with: speaker, conversation, home.

Each hook begins with `MemorySession.view`, which reads the policy as it is now, and passes the view down. So an edit of
the policy may change the speaker at the next hook. `recall` decides which lines are recalled, and `turn_writer` which
lines are stored.
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
"""Minimum number of seconds between two checks of a home."""
_LOST = {"turn": "turns lost", "reply": "replies lost"}
"""The status counters for turns and replies that could be neither stored nor spooled."""
_tried: dict[Path, float] = {}


class MemorySession:
    """One agent's session with memory. Its methods may be called from any thread."""

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
        """The number of lines that the last undo forgot."""
        self.caught_up = threading.Event()
        """An event that is set after the turns of an earlier process were delivered, or could not be delivered."""
        self.caught_up.set()
        self._who: tuple[Policy, Speaker | Nobody] | None = None
        self._first = ("", 0)
        """The conversation's id, and the number of this agent's first turn in that conversation."""
        self.prompted: set[Namespace] = set()
        """The namespaces of the profiles in the system prompt."""
        self._early: set[Namespace] = set()
        """The namespaces of lines that were shown while no turn was under way."""

    def view(self) -> SpeakerView | Nobody:
        """Make the view for a hook, from the policy and the home as they are now. `Nobody` if the conversation opens no
        memory.
        """
        look = self.home.look
        policy, known = look.policy, self._who
        if known is None or known[0] is not policy:
            known = self._who = (policy, who(policy, self.told, look.parts.accounts))
        speaker = known[1]
        return speaker if isinstance(speaker, Nobody) else SpeakerView(self, look, speaker)

    def note_shown(self, names: set[Namespace]) -> None:
        """Record namespaces that were shown to the model: for the turn under way, or for the next turn."""
        begun = self.turns.last
        (self._early if begun is None or begun.is_kept else begun.shown).update(names)

    def stood(self, begun: Begun) -> set[Namespace]:
        """The namespaces that the model saw in a reported turn, as far as this agent showed them."""
        early, self._early = self._early, set()
        return self.prompted | early | begun.shown

    def start_anew(self) -> None:
        """Forget which namespaces were shown between turns, because the model no longer sees them."""
        self._early = set()

    def had_history(self, number: int) -> bool:
        """Whether the conversation began before this agent's first turn in it. `number` is the number of the present
        turn.
        """
        if self._first[0] != self.id:
            self._first = (self.id, number)
        return self._first[1] > 1

    def patience(self, seconds: float) -> float:
        """Wait once until an earlier process's turns are delivered. Returns how many of the `seconds` are left."""
        began = time.monotonic()
        if not self.caught_up.is_set():
            self.caught_up.wait(seconds)
            self.caught_up.set()  # once is enough: delivery may take long
        return max(0.0, seconds - (time.monotonic() - began))

    def drop_drafts(self, until: Begun, *, alone: bool = False) -> None:
        """Remove the drafts of a turn and of the turns before it. With `alone`, remove only the draft of this turn."""
        for draft in self.turns.given_up(until, alone=alone):
            with suppress(OSError):
                os.unlink(draft)

    def leave_draft(self, begun: Begun, error: Exception) -> None:
        """Keep the draft of a turn that could not be stored, so that it is delivered later. Report the lost turn or
        reply.
        """
        lost = "turn" if begun.draft is None else "reply"
        if begun.draft is not None:
            begun.left, begun.draft = self.home.parts.spool.promote(begun.draft), None
        self.drop_drafts(begun)  # those of other turns, and its own if it was taken back meanwhile
        self.failed("keeping", error if self.is_journalled else _lost(lost, error))
        if not self.is_journalled:  # otherwise the runtime tells it again
            self.home.parts.status.count(_LOST[lost])

    def failed(self, work: str, error: Exception) -> None:
        """Record a failure. A defect in our code must not look like an empty memory, nor like a memory that stores."""
        if not isinstance(error, StrongroomError):
            error = ServerDefect(f"a defect in memory: {type(error).__name__}", hint="please report this defect")
        with suppress(InvalidRequest):  # a home that was unwired has nowhere to record it
            self.home.parts.status.failed(work, error, self.warn)


class SpeakerView:
    """A hook's view: its session, its speaker, and the home as it was when the hook began.

    A view is for one thread. Work that is done later makes a new view.
    """

    __slots__ = ("_states", "look", "parts", "policy", "session", "speaker")

    def __init__(self, session: MemorySession, look: HomeView, speaker: Speaker) -> None:
        self.session, self.look, self.speaker = session, look, speaker
        self.policy, self.parts = look.policy, look.parts
        self._states: dict[str, ConversationState] = {}

    def state(self, session_id: str = "") -> ConversationState:
        """The state of this session's conversation, or of another conversation with the given id. Cached for the
        hook.
        """
        name = session_id or self.session.id
        found = self._states.get(name)
        if found is None:
            names = self.policy.namespaces
            worst = names[0] if names else Namespace("personal")
            found = self._states[name] = self.parts.sessions.of(self.speaker.actor, name, self.session.told.key, worst)
        return found

    def show(self, names: set[Namespace], ids: Iterable[LineId] = ()) -> None:
        """Record namespaces and lines that the model sees from now on.

        The current turn records the namespaces too: a runtime may report later that its conversation already had
        another id.
        """
        self.session.note_shown(names)
        self.state().carry(names, ids)

    def prompt(self, names: set[Namespace]) -> None:
        """Record the namespaces in the system prompt. The model sees the prompt at every turn from now on."""
        self.session.prompted = names
        self.state().carry(names)

    def ask(self, use: Callable[[Memory], T], *, hasty: bool = False) -> T:
        """Call the gate with a cap that is limited to this speaker and expires after a few minutes."""
        return self.look.ask(self.speaker.actor, use, hasty=hasty, keeps=self.speaker.keeps)


def _lost(what: str, error: Exception) -> Exception:
    """Add to an error's message whether a turn or a reply was lost."""
    if not isinstance(error, StrongroomError):
        return error
    kept = "what the person said waits" if what == "reply" else "it is nowhere"
    return type(error)(f"a {what} was lost, {kept}: {error.message}", hint=error.hint)


def tend(home: ProviderHome) -> None:
    """Start a check of the home in the background, at most once in a few seconds."""
    now = time.monotonic()
    if now >= home.tended + _TENDING_GAP:
        home.tended = now
        home.later(lambda: look_after(home))


def look_after(home: ProviderHome) -> None:
    """Renew the home's cap if it is due, and warn if the renewal fails. Runs on a background thread."""
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
