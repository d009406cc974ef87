"""`strongroom wire hermes`: run the steps in order, for one or several homes.

Steps that only check come first, so that every refusal comes before anything is written. The provider in config.yaml is
written last. Running `wire` again finishes an interrupted run, repairs a home, or changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.extras import how_to_install
from strongroom.hermes import hermes_homes
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import (
    cap_request,
    config_yaml,
    hermes_probe,
    home_changes,
    isolation_advice,
    plugin_files,
    self_test,
    vault_or_server,
)
from strongroom.hermes.install.hermes_probe import Hermes
from strongroom.hermes.install.install_steps import StepResult, Steps, StepState, WireStep
from strongroom.hermes.install.isolation_advice import Beyond
from strongroom.hermes.install.wire_request import Machine, Vaults, WireRequest, Work
from strongroom.model import pluralize

Planned = list[tuple[str, Callable[[], StepResult]]]


@dataclass(slots=True)
class WireReport:
    """The finished steps of a run, and the advice for the owner."""

    steps: list[WireStep] = field(default_factory=list)
    homes: list[str] = field(default_factory=list)
    wall: str = ""
    beyond: list[Beyond] = field(default_factory=list)
    is_new: bool = False
    """Whether a home is newly wired, or now uses another vault.

    The command prints all advice for a new home. In later runs it prints only where to read the advice.
    """

    @property
    def failure(self) -> WireStep | None:
        return next((step for step in self.steps if step.state is StepState.FAIL), None)

    @property
    def changed(self) -> bool:
        return any(step.changed for step in self.steps)

    @property
    def drifted(self) -> bool:
        return any(step.state is StepState.DRIFT for step in self.steps)


@dataclass(slots=True)
class _Found:
    """The installed Hermes and the homes, which are looked up once in a run."""

    hermes: Hermes | None = None
    homes: tuple[HermesHome, ...] = ()


def wire(request: WireRequest, vaults: Vaults, machine: Machine) -> WireReport:
    """Run the steps for each home, and report on them. With `look_only`, nothing is changed."""
    steps, found = Steps(), _Found()
    begun = steps.run(
        [
            ("hermes", partial(_find_hermes, request, machine, found)),
            ("home", partial(_find_homes, request, machine, found)),
        ]
    )
    report = WireReport(steps.done)
    works = [Work(request, vaults, machine, home, found.hermes) for home in found.homes] if begun else []
    for work in works:
        with closing(work):
            steps.run(plan_home(work), work.home.profile)
        report.homes.append(str(work.home.path))
    if works and not steps.failed:
        report.wall = (
            f"{isolation_advice.SERVED if works[0].url else isolation_advice.EMBEDDED} {isolation_advice.LOOK}"
        )
        report.beyond = isolation_advice.beyond(works[0].config)
        report.is_new = any(_is_elsewhere(work) for work in works)
    return report


def _is_elsewhere(work: Work) -> bool:
    return work.policy is None or (work.policy.vault, work.policy.url) != (work.vault, work.url)


def plan_home(work: Work) -> Planned:
    """List the steps of one home."""
    return [
        ("settings", partial(_read_settings, work)),
        ("packages", partial(_check_packages, work)),
        ("memory", partial(vault_or_server.reach, work)),
        ("cap", partial(cap_request.keep_cap, work)),
        ("policy", partial(home_changes.keep_policy, work)),
        ("plugin", partial(home_changes.keep_plugin, work)),
        ("verify", partial(_verify, work)),
        ("provider", partial(home_changes.switch_on, work)),
    ]


def _find_hermes(request: WireRequest, machine: Machine, found: _Found) -> StepResult:
    hermes = found.hermes = hermes_probe.find(request.python, machine.environ.get("PATH"))
    said = f"Hermes {hermes.version}, run by {hermes.python}"
    if not hermes.is_tested:
        return StepResult(StepState.WARN, said, "older versions than 0.19 are not tested and may not load the plugin")
    return StepResult(StepState.OK, said)


def _find_homes(request: WireRequest, machine: Machine, found: _Found) -> StepResult:
    found.homes = hermes_homes.find(request.home, request.profile, machine.environ, machine.users_home)
    return StepResult(StepState.OK, ", ".join(f"{home.path} ({home.profile})" for home in found.homes))


def _read_settings(work: Work) -> StepResult:
    work.read_files()
    if config_yaml.injects(work.config):
        raise InvalidRequest(
            f"a hook in {config_yaml.FILE} injects memory; together with the provider, the model would get lines twice",
            hint="remove `strongroom hook memory-inject` from the hooks: the provider replaces it",
        )
    plugin_files.directory(work.home.path)
    return work.as_read()


def _check_packages(work: Work) -> StepResult:
    """Check that Hermes' Python can import the provider and the packages that this home needs."""
    hermes = _known(work.hermes)
    lacks = sorted(_needed(work) & hermes.lacks)
    pip = how_to_install("hermes", str(hermes.python))
    if lacks:
        instead = "; or use --no-masking, which stores secrets unmasked" if lacks == ["detect_secrets"] else ""
        raise ProviderUnavailable(f"Hermes' Python cannot import {', '.join(lacks)}", hint=pip + instead)
    if hermes.broken:
        raise ProviderUnavailable(f"Hermes' Python cannot import strongroom.provider: {hermes.broken}", hint=pip)
    mine = version("strongroom")
    if hermes.strongroom != mine:
        said = f"Hermes' Python has strongroom {hermes.strongroom}, but this is {mine}"
        return StepResult(StepState.WARN, said, f"install the same version: {pip}, with --upgrade")
    return StepResult(StepState.OK, f"Hermes' Python can import strongroom {mine}")


def _needed(work: Work) -> set[str]:
    policy = work.policy
    masks = work.request.masking and (policy is None or policy.keep.mask_secrets)
    asks = bool(work.request.url) or (policy is not None and bool(policy.url) and not work.request.vault)
    return {"strongroom"} | ({"detect_secrets"} if masks else set()) | ({"httpx"} if asks else set())


def _verify(work: Work) -> StepResult:
    if work.look_only and not _is_plugin_there(work):
        return StepResult(StepState.SKIP, "not checked, because the plugin is not in place yet")
    seen = self_test.verify_home(_known(work.hermes), work.home, look_only=work.look_only)
    if seen.pinned not in ("", plugin_files.NAME):
        raise ProviderUnavailable(
            f"the managed settings of this Hermes fix memory.provider to {seen.pinned}, so config.yaml has no effect",
            hint="ask the administrator of Hermes to change this setting",
        )
    work.actor = seen.actor
    who = f"; in a terminal you are {seen.actor}" if seen.actor else ""
    went = f"; {pluralize(seen.delivered, 'waiting turn')} stored in the vault" if seen.delivered else ""
    said = f"Hermes loads the plugin{who}{went}"
    if seen.waiting:
        left = f"{pluralize(seen.waiting, 'turn')} not stored yet: `hermes strongroom status` shows why, if they stay"
        return StepResult(StepState.WARN, said, left)
    return StepResult(StepState.OK, said)


def _is_plugin_there(work: Work) -> bool:
    return not plugin_files.differing_files(work.home.path) and work.places.cap.exists() and work.policy is not None


def _known(hermes: Hermes | None) -> Hermes:
    if hermes is None:
        raise InvalidRequest("Hermes was not found")
    return hermes
