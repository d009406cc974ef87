"""Checks that stored lines stay: after the process was killed, after a removal, and without a shutdown."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from pathlib import Path
from typing import Any

from strongroom.host.conformance.check_stage import ALICE, BICYCLE, LOCKER, CheckStage, later, numbered, recalled, tell
from strongroom.host.conformance.isolated_run import Ended
from strongroom.host.conformance.scripted_agent import REPLY, wait_until
from strongroom.host.conformance.side_effects import Written
from strongroom.host.conformance.verdict import Check, Failed, NotApplicable
from strongroom.host.conformance.with_host import hosting

_HERE = "strongroom.host.conformance.durability_checks"
_FEW, _MANY = 5, 20
_DESCRIPTORS = Path("/dev/fd")


def killed(stage: CheckStage) -> str:
    """Kill a process as soon as `sync_turn` has returned, and ask for the turn in another process."""
    _need_turns(stage)
    _expect_kill(stage.play(f"{_HERE}:keep_and_die"))
    if not stage.play(f"{_HERE}:recalls").answer:
        raise Failed("a turn was lost although sync_turn had returned")
    if not stage.play(f"{_HERE}:goes_on").answer:
        raise Failed("the turn was there in the next process, which keeps no more turns")
    return "the turn was there in the next process, which kept another one"


def killed_with_host(stage: CheckStage) -> str:
    """Kill a process as soon as the host has taken a turn, recover in a second process, and ask in a third."""
    _need_turns(stage)
    _expect_kill(stage.play(f"{_HERE}:hand_over_and_die"))
    stage.play(f"{_HERE}:recover")
    if not stage.play(f"{_HERE}:recalls").answer:
        raise Failed("a turn that the host gave again from its journal was not kept")
    return "the turn was kept, by the provider or from the host's journal"


def forgotten(stage: CheckStage) -> str:
    """Write a line to the built-in memory, then remove it."""
    return _gone(stage, "remove", "")


def replaced(stage: CheckStage) -> str:
    """Write a line to the built-in memory, then replace it."""
    return _gone(stage, "replace", BICYCLE.said)


def _gone(stage: CheckStage, action: str, new: str) -> str:
    opened = Written()
    agent, other = stage.started(), numbered(0)
    agent.write("add", other.said)
    agent.write("add", LOCKER.said)
    if stage.cannot("on_memory_write") or not stage.keeps(agent, LOCKER):
        raise NotApplicable("it does not mirror what is written to the built-in memory")
    agent.write(action, new, old=LOCKER.said)

    def gone() -> bool:
        return not recalled(LOCKER, stage.fresh())

    if not wait_until(gone, stage.subject.patience):
        raise Failed(f"what the user had the built-in memory {action} is still recalled")
    if stage.play(f"{_HERE}:shows").answer is True:
        raise Failed(f"what the user had the built-in memory {action} is recalled again in the next process")
    if not stage.fresh().keeps(other):
        raise Failed(f"with what the user had the built-in memory {action}, another line is gone")
    if new and not stage.fresh().keeps(BICYCLE):
        raise Failed("what was replaced is gone, and so is what came in its place")
    agent.stop()
    files = stage.files.holding(LOCKER.answer, agent, opened.paths())
    if files:
        raise Failed(f"it is not recalled any more, and can still be read in {files} of its files")
    return "it is neither recalled nor in a file"


def no_shutdown(stage: CheckStage) -> str:
    """Drop agents without ending them, as gateways do."""
    for number in range(_FEW):
        _dropped(stage, number)
    before = _held()
    seen = [_dropped(stage, number) for number in range(_FEW, _FEW + _MANY)]
    now = _held()
    counts = {what: now[what] - before[what] for what in now}
    counts["objects"] = sum(one is not None and one() is not None for one in seen)
    grown = [f"{count} {what}" for what, count in counts.items() if count >= _MANY // 2]
    if grown:
        raise Failed(f"{_MANY} agents that were dropped without shutdown left {' and '.join(grown)} behind")
    return f"{_MANY} agents that were dropped without shutdown left nothing behind"


def _dropped(stage: CheckStage, number: int) -> weakref.ref[Any] | None:
    """Let an agent speak, and drop the agent. Returns a weak reference to its provider, or None if its class allows no
    weak references.
    """
    agent = stage.started(later(ALICE, f"dropped{number}"))
    agent.turn(numbered(number).said)
    try:
        return weakref.ref(agent.provider)
    except TypeError:  # a class with slots: it cannot be observed
        return None


def _held() -> dict[str, int]:
    gc.collect()
    found = {"threads": threading.active_count(), "open files": len(list(_DESCRIPTORS.iterdir()))}
    lists = [path.read_text() for path in Path("/proc/self/task").glob("*/children")]  # where there is /proc
    return {**found, "processes": sum(len(one.split()) for one in lists)}


# Scenes: each runs in a process of its own.


def keeps_turns(stage: CheckStage) -> bool:
    """True if the provider recalls turns. Raises NotApplicable otherwise."""
    stage.needs_turns()
    return True


def keep_and_die(stage: CheckStage) -> None:
    """Store a turn, and kill this process as soon as `sync_turn` returns."""
    agent = stage.started()
    tell(agent, LOCKER, "sync_turn")
    os.kill(os.getpid(), signal.SIGKILL)


def hand_over_and_die(stage: CheckStage) -> None:
    """Pass a turn to the host, and kill this process once the host returns, before the provider has taken the turn."""
    with hosting(stage, stuck=True) as host:
        memory = host.manager(ALICE)
        memory.sync_turn(LOCKER.said, REPLY)
        os.kill(os.getpid(), signal.SIGKILL)


def recover(stage: CheckStage) -> int:
    """Start a host as after a crash, and let it hand over the turns in its journal. Returns their number."""
    with hosting(stage) as host:
        return host.recover().handed_over


def recalls(stage: CheckStage) -> bool:
    """True if an agent in this new process recalls the line."""
    return stage.fresh().keeps(LOCKER)


def shows(stage: CheckStage) -> bool:
    """True if an agent in this new process recalls the line at once. The check does not wait, as the line should be
    gone.
    """
    return recalled(LOCKER, stage.fresh())


def goes_on(stage: CheckStage) -> bool:
    """True if an agent in this new process stores another turn."""
    stage.started(later(ALICE)).keep(BICYCLE.said)
    return stage.fresh().keeps(BICYCLE)


def _need_turns(stage: CheckStage) -> None:
    answer = stage.play(f"{_HERE}:keeps_turns").answer
    if answer is not True:
        raise (NotApplicable if answer["outcome"] == "not applicable" else Failed)(answer["reason"])


def _expect_kill(ended: Ended) -> None:
    if ended.code != -signal.SIGKILL:
        why = ended.answer["reason"] if isinstance(ended.answer, dict) else f"its process {ended.how}"
        raise Failed(f"the turn could not be told: {why}")


CHECKS = (
    Check(
        "killed",
        "A turn is durable when sync_turn returns",
        "Kills the process (SIGKILL) when sync_turn returned; a fresh process asks for the line and keeps another.",
        "Processes are killed. In a runtime without a journal, what was not on disk is lost.",
        killed,
    ),
    Check(
        "killed-with-host",
        "A turn is kept when the host's journal gives it again",
        "Kills the process when the host has taken the turn; another recovers, and a third asks for the line.",
        "The host's journal makes up for slow providers, if they keep a turn that comes without its beginning.",
        killed_with_host,
    ),
    Check(
        "forgotten",
        "What is removed from the built-in memory is gone",
        "Writes two lines to the built-in memory and removes one; looks for both in recalls, also of a fresh process, "
        "and for it in files: all below its home, elsewhere those that Python code opened for writing. What other "
        "processes and libraries write elsewhere is not seen.",
        "Who has something removed means it. A provider that mirrors additions only keeps it and shows it again.",
        forgotten,
    ),
    Check(
        "replaced",
        "What is replaced in the built-in memory is gone",
        "Writes lines to the built-in memory and replaces one; looks for old and new in recalls, for the old in files.",
        "A corrected fact that comes back beside its correction is worse than none.",
        replaced,
    ),
    Check(
        "no-shutdown",
        "Agents that are dropped without shutdown leave nothing behind",
        f"Drops {_MANY} agents after a turn each, and counts threads, open files, processes and the objects.",
        "Gateways drop agents without a word. What each leaves behind adds up until the process stops working.",
        no_shutdown,
    ),
)
