"""Recovery of the turns that earlier processes left in their journals.

All turns of one agent are delivered to one new provider object, oldest first. The object is initialised like the
agent's old provider, and shut down afterwards. A turn that is refused stays in the journal until a host starts again,
and so do the turns after it in that file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from strongroom.host.isolation import FAILED, IsolatedProvider, log
from strongroom.host.provider_limits import Limits
from strongroom.host.recall_fence import writable
from strongroom.host.turn_journal.left_behind import Remains, find_left_behind
from strongroom.host.turn_journal.record_format import Turn, unpack_messages

_PATIENCE = 3
"""How many agents may hang in a provider before the other agents wait for the next start. Each hang holds a thread."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """The outcome of a recovery."""

    handed_over: int = 0
    left: int = 0
    """How many turns stay in the journal: the host has another provider, or the provider is unavailable or refused
    them.
    """
    damaged: int = 0
    """How many journals have a part that cannot be read. A copy of each is kept under the name `*.damaged`."""


def recover(journals: Path, key: bytes, provider: Callable[[], IsolatedProvider | None], limits: Limits) -> Recovered:
    """Hand over the turns that dead hosts left in `journals` to the provider.

    A provider that hangs delays the other agents only for a limited time.
    """
    done = left = damaged = late = 0
    with find_left_behind(journals, key) as found:
        for remains in found:
            if remains.damage is not None:
                log.error("the journal %s is damaged: %s", remains.path.name, remains.damage.message)
                damaged += 1
            for numbers in _agents(remains):
                if late < _PATIENCE:
                    one = provider()
                    done += _hand_over(remains, numbers, one, limits)
                    late += one is not None and one.late
            left += len(remains.turns)
    if done or left:
        log.info("%d turns of earlier processes were handed over, %d wait in the journal", done, left)
    return Recovered(done, left, damaged)


def _agents(remains: Remains) -> Iterator[list[int]]:
    """For each agent, the numbers of its turns, in order."""
    agents: dict[bytes, list[int]] = {}
    for number, turn in remains.turns.items():
        agents.setdefault(msgspec.msgpack.encode((turn.provider, turn.session, turn.told)), []).append(number)
    yield from agents.values()


def _hand_over(remains: Remains, numbers: list[int], provider: IsolatedProvider | None, limits: Limits) -> int:
    """Give one agent's turns to a provider. Returns the number of turns that the provider took."""
    first = remains.turns[numbers[0]]
    if provider is None or writable(provider.name) != first.provider:
        log.warning("%d turns for memory provider %s wait in the journal", len(numbers), first.provider)
        return 0
    done = 0
    told = {**first.told, "turn_journal": True, "hermes_home": str(provider.home)}  # the home may have moved
    if provider.ask("initialize", limits.initialize, FAILED, first.session, **told) is not FAILED:
        for number in numbers:
            if not _kept(provider, remains.turns[number], remains.name_of(number), limits.recovered_turn):
                break
            remains.taken(number)
            done += 1
    provider.let_go()(limits.shutdown)
    return done


def _kept(provider: IsolatedProvider, turn: Turn, name: str, seconds: float) -> bool:
    messages = unpack_messages(turn.messages)
    about: dict[str, Any] = {"session_id": turn.current, "turn_id": name}
    about |= {} if messages is None else {"messages": messages}
    return provider.ask("sync_turn", seconds, FAILED, turn.user, turn.assistant, **about) is not FAILED
