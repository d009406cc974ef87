"""What clients asked of a fleet and what they heard, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fleet.rules import Rule

OK = "ok"
DEAD = "dead"
NEVER = 1 << 60
Key = tuple[str, str]
"""A line's namespace and id."""


@dataclass(slots=True)
class Cap:
    """A cap that was minted: whose it is, what it covers, and the call that minted it."""

    token: str
    link: str
    actor: str
    namespaces: tuple[str, ...]
    minted: Call


@dataclass(slots=True)
class Call:
    """One call of a client. `began` and `ended` are steps of the scheduler, which only grow."""

    number: int
    client: str
    worker: str
    op: str
    actor: str
    namespaces: tuple[str, ...] = ()
    cap: Cap | None = None
    began: int = 0
    ended: int = NEVER
    outcome: str = ""
    clock: int = 0
    """The worker's clock when the call began, in ms."""
    over: int = 0
    """The true time when it ended, in ms."""
    wanted: tuple[Key, ...] = ()
    """The lines that it names."""
    texts: Mapping[str, Key | None] = field(default_factory=dict)
    """What it puts, and under which key; None where the vault chooses the id and has not told."""
    forgotten: frozenset[Key] = frozenset()
    """The lines that a put was told were forgotten before."""
    shown: Mapping[Key, str | None] = field(default_factory=dict)
    """What it was shown, with the text unless it was a list."""
    twice: int = 0
    is_whole: bool = False
    """Whether it was shown all that there is."""
    profile: str = ""
    link: str = ""

    @property
    def request(self) -> str:
        return f"call-{self.number}"

    @property
    def is_ok(self) -> bool:
        return self.outcome == OK

    def __str__(self) -> str:
        named = [f"{namespace}:{line}" for namespace, line in self.wanted]
        put = [f"{text!r} as {key[1] if key else '?'}" for text, key in self.texts.items()]
        shown = [f"{namespace}:{line}" for namespace, line in self.shown]
        words = [f"#{self.number} [{self.began}-{self.ended if self.ended < NEVER else ''}]", self.client, self.worker]
        words += [self.op, self.actor, ",".join(self.namespaces), *named, *put, self.profile, self.link, self.outcome]
        return " ".join(word for word in [*words, *(["shows", *shown] if shown else [])] if word)


@dataclass(slots=True)
class History:
    """All calls, and all caps."""

    calls: list[Call] = field(default_factory=list)
    caps: list[Cap] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    """The true time, in ms, at which each text with an end ends."""
    is_late: bool = False
    """Whether what failed may still happen much later."""
    notes: list[str] = field(default_factory=list)
    """What went wrong beside the calls."""

    def note(self, rule: Rule, what: object) -> None:
        """Write down that a rule was broken."""
        self.notes.append(f"{rule}: {what}")

    def of(self, actor: str, *ops: str) -> list[Call]:
        return [call for call in self.calls if call.actor == actor and call.op in ops]
