"""The owner's view of a home's memory: every line with its text, a search, and the readers of a line.

With an embedded vault, the owner's keys mint a cap for one person and one minute. It covers every namespace of the
vault, even if the home's own cap has expired. With a server, there are no keys here: the home's cap is narrowed, so the
view shows what Hermes sees, and the log stays on the server. Every call is logged like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from strongroom import model
from strongroom.errors import InvalidRequest, LineNotFound
from strongroom.hermes.provider import dedupe, turn_lines
from strongroom.hermes.provider.provider_home import ProviderHome
from strongroom.hermes.provider.turn_lines import Gone
from strongroom.memory import Memory
from strongroom.model import Actor, Hit, LineId, LineInfo, Op

T = TypeVar("T")
LABEL = "hermes owner"
"""The label of the minted caps in the log."""
_TTL = 60
_OPS = (Op.GET, Op.LIST, Op.FORGET)
_REPEATS = 5
"""Number of forgotten lines for which similar lines are searched."""
_ALIKE = 0.6
"""A line is similar if it has at least this share of the other line's words."""


@dataclass(frozen=True, slots=True)
class LinePage:
    """A page of lines, the newest first, and the number of all lines."""

    lines: Sequence[Hit]
    number: int
    pages: int
    total: int


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """One entry of the log about a line."""

    index: int
    time: datetime
    op: str
    decision: str
    cap: str


@dataclass(frozen=True, slots=True)
class HomeForgotten:
    """The result of forgetting: the forgotten lines, the remaining lines of their turns, and lines with similar
    texts.
    """

    gone: Gone
    left: Sequence[LineInfo] = ()
    alike: Sequence[Hit] = ()


def as_owner(home: ProviderHome, actor: Actor, use: Callable[[Memory], T]) -> T:
    """Call the gate as the owner of a home, for the memory of one person."""
    if not home.policy.is_wired or not home.way.is_embedded:
        return home.look.ask(actor, use)  # raises for a home that is not wired
    vault = home.way.vault()
    token = vault.mint(actor=actor, ops=_OPS, namespaces=vault.namespaces, ttl=_TTL, label=LABEL, delegable=False)
    return home.way.ask(token, use)


def page(
    home: ProviderHome,
    actor: Actor,
    *,
    number: int,
    size: int,
    namespace: str = "",
    since: datetime | None = None,
    turn: str = "",
) -> LinePage:
    """A page of a person's memory. Only the texts of the lines on the page are read, so the log records only these
    reads.
    """

    def look(memory: Memory) -> LinePage:
        found = _in_turn(memory, model.line_id(turn)) if turn else list(turn_lines.pages(memory, since))
        chosen = [info.id for info in found if not namespace or info.namespace == namespace]
        chosen.reverse()
        shown = turn_lines.texts(memory, chosen[(number - 1) * size : number * size])
        return LinePage(shown, number, max(1, -(-len(chosen) // size)), len(chosen))

    return as_owner(home, actor, look)


def _in_turn(memory: Memory, line: LineId) -> list[LineInfo]:
    found = turn_lines.find(memory, [line])
    if not found:
        raise _no_line()
    return found


def find_lines(home: ProviderHome, actor: Actor, words: str, k: int) -> list[Hit]:
    """The lines that match some words, the best first."""

    def get(memory: Memory) -> list[Hit]:
        return memory.get(words, k=k, now=datetime.now().astimezone())

    return as_owner(home, actor, get)


def forget(home: ProviderHome, actor: Actor, ids: Sequence[LineId], *, with_turns: bool) -> HomeForgotten:
    """Forget lines alone or, with `with_turns`, everything written in their turns.

    Lines of other people count as missing.
    """

    def carry_out(memory: Memory) -> HomeForgotten:
        found = turn_lines.find(memory, ids)
        said = turn_lines.texts(memory, [info.id for info in found if with_turns or info.id in ids][:_REPEATS])
        left: list[LineInfo] = []
        if with_turns:
            gone = turn_lines.forget(memory, ids)
        else:
            gone, left = turn_lines.forget_alone(memory, ids)
        if not gone.ids:
            raise _no_line()
        return HomeForgotten(gone, left, _alike(memory, said, {info.id for info in left}))

    return as_owner(home, actor, carry_out)


def _alike(memory: Memory, said: Sequence[Hit], known: Collection[LineId]) -> list[Hit]:
    found: dict[LineId, Hit] = {}
    for one in said:
        for hit in memory.get(one.text[:1000], k=_REPEATS):
            if hit.id not in known and _is_alike(one.text, hit.text):
                found[hit.id] = hit
    return list(found.values())


def _is_alike(text: str, other: str) -> bool:
    """Whether another text has most words of a text, or both have the same number in them."""
    words, others = dedupe.words(text), dedupe.words(other)
    both = words & others
    return len(both) >= _ALIKE * len(words) or any(len(word) > 2 and not word.isalpha() for word in both)


def readers(home: ProviderHome, actor: Actor, line: LineId, most: int) -> list[AccessRecord]:
    """The log's entries about a line, the oldest first. A line of another person counts as missing."""
    if not home.way.is_embedded:
        raise InvalidRequest(
            "the log is on the server, and this home's cap does not cover it",
            hint=f"ask the server's owner to run `strongroom audit show --line {line}`",
        )
    vault = home.way.vault()
    names, labels = vault.names_in_log(), {record.link: record.label for record in vault.caps()}
    found: list[AccessRecord] = []
    for one in vault.audit.newest():
        entry = one.entry
        if entry is not None and line in entry.lines and names.get(entry.actor) == actor:
            made_by = _cap_of(entry.links, labels)
            found.append(
                AccessRecord(
                    one.number, model.moment(entry.time), entry.op, entry.reason or entry.decision.value, made_by
                )
            )
            if len(found) == most:
                break
    if not found:
        raise _no_line()
    return found[::-1]


def _cap_of(links: Sequence[model.LinkId], labels: dict[model.LinkId, str]) -> str:
    return (labels.get(links[0]) or links[0][:16]) if links else "the owner's keys"


def _no_line() -> LineNotFound:
    return LineNotFound(
        "this person's memory has no such line", hint="`hermes strongroom list` shows the lines with their ids"
    )
