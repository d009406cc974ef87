"""A probe before the checks: whether the provider can be checked, and through which hook it stores lines.

The probe runs in a process and a home of its own, as the checks do. A provider that does not load, is not available or
does not answer would fail every check for one reason. This reason is reported once, as `ProviderUnavailable`. The wait
for lines to come back is also done once, here, and not in every check.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from strongroom.errors import ProviderUnavailable, StrongroomError
from strongroom.host.conformance import isolated_run
from strongroom.host.conformance.check_stage import ALICE, CheckStage, later
from strongroom.host.conformance.provider_under_test import Subject
from strongroom.host.plugins.discovery import Factory
from strongroom.host.provider_limits import Limits

NAME = "probe"
_SCENE = "strongroom.host.conformance.provider_probe:look"
_LOADING, _ASKING, _STARTING, _TELLING = "loading it", "is_available", "initialize", "telling it"
_SET_UP = (
    "it cannot be checked until it is set up: --env NAME passes a variable on, --file FILE:PLACE gives it a file at "
    "PLACE below its home"
)
_LOAD_SECONDS = 30.0
_SPARE_SECONDS = 20.0


def probe_subject(subject: Subject, place: Path) -> Subject:
    """Probe the provider and return the subject with the findings. Raises ProviderUnavailable if no check can run."""
    room = isolated_run.prepare_room(subject, place / NAME)
    limits, patience = Limits(), subject.patience
    most = _LOAD_SECONDS + 2 * limits.initialize + 2 * (patience + _SPARE_SECONDS)
    ended = isolated_run.run_in_process(_SCENE, subject, room, {}, most)
    answer = ended.answer if isinstance(ended.answer, dict) else {}
    problem, hint = answer.get("problem", ""), answer.get("hint", "")
    reached = room.last.read_text().strip() if room.last.exists() else _LOADING
    if ended.answer is None and reached in (_LOADING, _ASKING):
        problem = f"its process {ended.how}, in {reached}"
    if problem:
        told = _as_at_home(_begun(problem, subject), subject, room)
        raise ProviderUnavailable(told, hint=_as_at_home(hint, subject, room))
    ways = answer.get("ways")
    return subject if ways is None else replace(subject, ways=tuple(ways))


def notes(ways: Sequence[str] | None) -> tuple[str, ...]:
    """The notes at the head of a report: which parts of the provider could not be tested."""
    if ways is None:
        return ()
    if not ways:
        return ("nothing that it was told came back, no turn and no memory write: what it remembers was not tested",)
    if "sync_turn" not in ways:
        return ("no turn came back, only what was written to the built-in memory: how it keeps turns was not tested",)
    if "on_memory_write" not in ways:
        return ("turns came back, and no memory writes: how it follows the built-in memory was not tested",)
    return ()


def look(stage: CheckStage, limit: float = Limits().initialize) -> dict[str, Any]:
    """Scene (run in its own process): load the provider, ask it, start it and tell it a line.

    Each of the four steps has a time limit.
    """
    stage.note(_LOADING)
    found: dict[str, Any] = {}
    done = {phase: threading.Event() for phase in (_LOADING, _ASKING, _STARTING, _TELLING)}
    threading.Thread(target=_looked, args=(stage, found, done), daemon=True).start()
    patience = stage.subject.patience
    times = {_LOADING: _LOAD_SECONDS, _ASKING: limit, _STARTING: limit, _TELLING: 2 * patience + _SPARE_SECONDS}
    for phase, seconds in times.items():
        if not done[phase].wait(seconds):
            late = {"problem": f"{phase} took more than {seconds:g} s"}
            return late if phase != _TELLING else {}
    return found


def _looked(stage: CheckStage, found: dict[str, Any], done: dict[str, threading.Event]) -> None:
    """Run the steps of the probe, all on one thread. A separate check tests the provider on several threads."""
    try:
        provider = stage.factory()
        done[_LOADING].set()
        stage.note(_ASKING)
        reason = _why_not(stage, provider)
        done[_ASKING].set()
        if reason:
            found.update(problem=reason, hint=_SET_UP)
            return
        agent = stage.agent(later(ALICE, NAME)).start()
        done[_STARTING].set()
        found["ways"] = stage.found_ways(agent, whole=True)
    except StrongroomError as error:
        found.update(problem=error.message, hint=error.hint)
    except BaseException:  # noqa: BLE001 - what else is wrong is for the checks to say, each in its own words
        found.clear()
    finally:
        for event in done.values():
            event.set()


def _why_not(stage: CheckStage, provider: Any) -> str:
    factory = stage.factory
    if isinstance(factory, Factory):
        return "" if factory.is_available(provider) else factory.why_not(provider)
    return "" if provider.is_available() else "it says so itself"


def _begun(problem: str, subject: Subject) -> str:
    whole = problem.startswith("the provider ")
    return problem if whole else f"the provider {subject.name} is not available: {problem}"


def _as_at_home(text: str, subject: Subject, room: isolated_run.CheckRoom) -> str:
    """Replace the path of the copied plugin by the path of the original, and remove values of the environment."""
    copied = room.home / "plugins" / subject.name
    original = subject.said.removesuffix("/")
    if original.endswith(".py"):
        text = text.replace(str(copied / "__init__.py"), original)
    for value in subject.environment.values():
        text = text.replace(value, "<redacted>") if len(value) >= 4 else text
    return text.replace(str(copied), original)
