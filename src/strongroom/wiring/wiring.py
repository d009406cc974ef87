"""`strongroom wire hermes`: the steps in their order, for one home or for several.

First everything that is only looked at, so that what can be refused is refused before anything is written; then what
is written, the switch in config.yaml last. Running it again finishes, mends or finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from strongroom.client.connect import how_to_install
from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.wiring import granting, homes, probing, reaching, shim, verifying, walls, writing, yamlfile
from strongroom.wiring.homes import Home
from strongroom.wiring.probing import Hermes
from strongroom.wiring.steps import Outcome, State, Step, Steps, counted
from strongroom.wiring.walls import Beyond
from strongroom.wiring.work import Machine, Request, Vaults, Work

Planned = list[tuple[str, Callable[[], Outcome]]]


@dataclass(slots=True)
class Report:
    """What a run did, and what it has to say beside."""

    steps: list[Step] = field(default_factory=list)
    homes: list[str] = field(default_factory=list)
    wall: str = ""
    beyond: list[Beyond] = field(default_factory=list)
    is_new: bool = False
    """Whether a home was not wired before, or to another vault: then all of it is told, and later where to read it."""

    @property
    def failure(self) -> Step | None:
        return next((step for step in self.steps if step.state is State.FAIL), None)

    @property
    def changed(self) -> bool:
        return any(step.changed for step in self.steps)

    @property
    def drifted(self) -> bool:
        return any(step.state is State.DRIFT for step in self.steps)


@dataclass(slots=True)
class _Found:
    """What is found once, for all homes."""

    hermes: Hermes | None = None
    homes: tuple[Home, ...] = ()


def wire(request: Request, vaults: Vaults, machine: Machine) -> Report:
    """Set Hermes up, or look whether it is."""
    steps, found = Steps(), _Found()
    begun = steps.run(
        [
            ("hermes", partial(_find_hermes, request, machine, found)),
            ("home", partial(_find_homes, request, machine, found)),
        ]
    )
    report = Report(steps.done)
    works = [Work(request, vaults, machine, home, found.hermes) for home in found.homes] if begun else []
    for work in works:
        with closing(work):
            steps.run(planned(work), work.home.profile)
        report.homes.append(str(work.home.path))
    if works and not steps.failed:
        report.wall = f"{walls.SERVED if works[0].url else walls.EMBEDDED} {walls.LOOK}"
        report.beyond = walls.beyond(works[0].config)
        report.is_new = any(_is_elsewhere(work) for work in works)
    return report


def _is_elsewhere(work: Work) -> bool:
    return work.policy is None or (work.policy.vault, work.policy.url) != (work.vault, work.url)


def planned(work: Work) -> Planned:
    """The steps of one home."""
    return [
        ("settings", partial(_read_settings, work)),
        ("packages", partial(_check_packages, work)),
        ("memory", partial(reaching.reach, work)),
        ("cap", partial(granting.keep_cap, work)),
        ("policy", partial(writing.keep_policy, work)),
        ("plugin", partial(writing.keep_plugin, work)),
        ("verify", partial(_verify, work)),
        ("provider", partial(writing.switch_on, work)),
    ]


def _find_hermes(request: Request, machine: Machine, found: _Found) -> Outcome:
    hermes = found.hermes = probing.find(request.python, machine.environ.get("PATH"))
    said = f"Hermes {hermes.version}, run by {hermes.python}"
    if not hermes.is_tested:
        return Outcome(State.WARN, said, "this was made for 0.19 and later: older ones may not load it")
    return Outcome(State.OK, said)


def _find_homes(request: Request, machine: Machine, found: _Found) -> Outcome:
    found.homes = homes.find(request.home, request.profile, machine.environ, machine.users_home)
    return Outcome(State.OK, ", ".join(f"{home.path} ({home.profile})" for home in found.homes))


def _read_settings(work: Work) -> Outcome:
    work.read_files()
    if yamlfile.injects(work.config):
        raise InvalidRequest(
            f"a hook in {yamlfile.FILE} injects memory already, and with the provider all of it would come twice",
            hint="remove `strongroom hook memory-inject` from hooks; the provider does what it does, and more",
        )
    shim.directory(work.home.path)
    return work.as_read()


def _check_packages(work: Work) -> Outcome:
    """Hermes' Python must be able to import the provider, and what it needs for this home."""
    hermes = _known(work.hermes)
    lacks = sorted(_needed(work) & hermes.lacks)
    pip = f"{hermes.python} -m {how_to_install('hermes')}"
    if lacks:
        instead = "; or --no-masking, and secrets are kept as they are said" if lacks == ["detect_secrets"] else ""
        raise ProviderUnavailable(f"Hermes' Python cannot import {', '.join(lacks)}", hint=pip + instead)
    if hermes.broken:
        raise ProviderUnavailable(f"Hermes' Python cannot import strongroom.provider: {hermes.broken}", hint=pip)
    mine = version("strongroom")
    if hermes.strongroom != mine:
        said = f"there it is strongroom {hermes.strongroom}, and here {mine}"
        return Outcome(State.WARN, said, f"{pip}, with --upgrade")
    return Outcome(State.OK, f"strongroom {mine} can be imported there")


def _needed(work: Work) -> set[str]:
    policy = work.policy
    masks = work.request.masking and (policy is None or policy.keep.mask_secrets)
    asks = bool(work.request.url) or (policy is not None and bool(policy.url) and not work.request.vault)
    return {"strongroom"} | ({"detect_secrets"} if masks else set()) | ({"httpx"} if asks else set())


def _verify(work: Work) -> Outcome:
    if work.look_only and not _is_plugin_there(work):
        return Outcome(State.SKIP, "there is nothing to load yet")
    seen = verifying.verified(_known(work.hermes), work.home, look_only=work.look_only)
    if seen.pinned not in ("", shim.NAME):
        raise ProviderUnavailable(
            f"memory.provider is pinned to {seen.pinned} by whoever manages this Hermes",
            hint="ask them: what config.yaml says is not used",
        )
    work.actor = seen.actor
    who = f"; in a terminal you are {seen.actor}" if seen.actor else ""
    went = f"; {counted(seen.delivered, 'turn')} that waited went into the vault" if seen.delivered else ""
    said = f"Hermes loads it{who}{went}"
    if seen.waiting:
        left = (
            f"{counted(seen.waiting, 'turn')} not delivered yet: `hermes strongroom status` says what is wrong, if so"
        )
        return Outcome(State.WARN, said, left)
    return Outcome(State.OK, said)


def _is_plugin_there(work: Work) -> bool:
    return not shim.differing(work.home.path) and work.places.cap.exists() and work.policy is not None


def _known(hermes: Hermes | None) -> Hermes:
    if hermes is None:
        raise InvalidRequest("Hermes was not found")
    return hermes
