"""`hermes strongroom status`: the state of memory, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from strongroom.errors import InvalidRequest, KeyUnavailable, StrongroomError, UnknownRoute
from strongroom.hermes import hermes_homes
from strongroom.hermes.provider import problem_log, remedies
from strongroom.hermes.provider.problem_log import Problem
from strongroom.hermes.provider.provider_home import ProviderHome
from strongroom.hermes.provider.speaker import Conversation, Nobody
from strongroom.hermes.state_paths import is_anothers
from strongroom.model import Namespace, pluralize

_POLICY = "reading the policy"
_WHOLE = (remedies.CAP_EXPOSED, remedies.ADDRESS)
"""Problems that explain all recorded failures."""
_KEEPING = ("the spool", "keeping", "keeping a draft")
"""Kinds of work that fail together with the spool."""
_WALLS = {
    True: "none against programs of your own user, which can read the keys (for one, wire with --url)",
    False: "the server: this machine has a cap and no keys",
}


def report(home: ProviderHome) -> dict[str, Any]:
    """The state of memory: its place, its cap, the number of waiting turns, and the work that fails."""
    parts, policy = home.parts, home.policy
    cap, unread = _cap(home)
    waiting = parts.spool.waiting()
    found: dict[str, Any] = {
        "home": str(home.path),
        "profile": policy.profile,
        "memory": home.way.place,
        "wall": _WALLS[home.way.is_embedded],
        "cap": cap,
        "namespaces": ", ".join(map(_reached(home), policy.namespaces)),
        "tools": str(policy.tools),
        "secrets": "masked" if policy.keep.mask_secrets else "stored unmasked (keep.mask_secrets = false)",
        "spool": f"{pluralize(waiting.turns, 'turn')}, {waiting.bytes} of {parts.spool.most} bytes",
    }
    found["answers"], reason = _answers(home)
    if counts := problem_log.read_counts(parts.directory):
        found["so far"] = ", ".join(f"{name}: {number}" for name, number in counts.items())
    if aside := parts.spool.aside():
        found["set aside"] = f"{pluralize(aside, 'turn')} refused by the vault, in {parts.spool.directory}"
    noted = problem_log.read(parts.directory)
    covered = [name for name in policy.namespaces if name in home.look.grounds.allowed]
    states = _states(home, unread or reason, noted, is_covered=len(covered) == len(policy.namespaces))
    steps = remedies.next_steps(policy, home.path, states, covered)
    return {**found, **_policy(home), **_problems(noted), **({"next": "; ".join(steps)} if steps else {})}


def _states(home: ProviderHome, reason: str, noted: Mapping[str, Problem], *, is_covered: bool) -> list[str]:
    """The reasons and problems for which the status shows a next step.

    They are the reason why memory does not answer, earlier failures, and settings that will cause a failure later.
    """
    over = () if reason else remedies.OF_ALL
    is_full = "the spool" in noted
    problems = [] if reason in _WHOLE else noted.items()
    failed = [problem.reason for work, problem in problems if not (is_full and work in _KEEPING)]
    also = {
        remedies.FULL: is_full,
        remedies.FAULT: bool(home.broken),
        remedies.NO_INBOX: not home.policy.inbox,
        remedies.NOT_COVERED: not (reason or is_covered),
        remedies.ASIDE: bool(home.parts.spool.aside()),
    }
    return [reason, *(one for one in failed if one not in over), *(state for state, is_so in also.items() if is_so)]


def _reached(home: ProviderHome) -> Callable[[Namespace], str]:
    """Make a function that returns a namespace's name, with a note if the cap does not cover it."""
    allowed = home.look.grounds.allowed
    return lambda name: name if name in allowed else f"{name} (not covered by the cap: lines for it are not stored)"


def _policy(home: ProviderHome) -> dict[str, str]:
    """The faults of the current policy, in words."""
    if home.broken:
        return {"policy": f"the file has an error, so its last valid version is in use: {home.broken}"}
    mine = hermes_homes.of(home.path, Path.home())
    if not is_anothers(home.policy, mine):
        return {}
    wire = f"run `strongroom wire hermes --profile {mine.profile}` to give this one its own"
    return {"policy": f"it belongs to another home, copied or edited: {wire}"}


def _problems(noted: Mapping[str, Problem]) -> dict[str, str]:
    """The failures of work that has not succeeded since, each sentence once. Faults of the policy are left out."""
    works: dict[tuple[str, str], list[str]] = {}
    for work, problem in noted.items():
        if work != _POLICY:
            works.setdefault((problem.message, problem.reason), []).append(work)
    found: dict[str, str] = {}
    for (message, reason), names in works.items():
        since = datetime.fromtimestamp(min(noted[name].since for name in names) / 1000).astimezone()
        also = f"; the same for {', '.join(names[1:])}" if names[1:] else ""
        found[f"problem: {names[0]}"] = f"{message} [{reason}], since {since:%Y-%m-%d %H:%M}{also}"
    return found


def _cap(home: ProviderHome) -> tuple[str, str]:
    """The cap's state in words, and the error reason if the cap cannot be read."""
    try:
        left = home.parts.caps.days_left()
    except KeyUnavailable as error:
        return f"{error.message} [{error.reason}]", remedies.CAP_EXPOSED
    except StrongroomError as error:
        return f"{error.message} [{error.reason}]", error.reason
    return (
        f"ends in {left:.0f} days; it is renewed automatically, unless it is revoked" if left > 0 else "has ended",
        "",
    )


def _answers(home: ProviderHome) -> tuple[str, str]:
    """Whether memory answers, and the error reason if it does not."""
    owner = home.whose(Conversation(platform="cli"))
    try:
        if isinstance(owner, Nobody):
            return owner.reason, ""
        home.look.ask(owner.actor, lambda memory: memory.get("", k=0, patience=0.0), hasty=True)
    except (InvalidRequest, UnknownRoute) as error:  # of the place that the policy names
        return f"no: {error.message} [{error.reason}]", remedies.ADDRESS
    except StrongroomError as error:
        return f"no: {error.message} [{error.reason}]", error.reason
    return "yes", ""
