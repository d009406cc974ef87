"""What a run of `wire` or `unwire` was asked for, and what it knows of the home that it is at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from strongroom import model
from strongroom.caps.chain import Token
from strongroom.errors import InvalidRequest
from strongroom.hermes import policy as policies
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import config_yaml
from strongroom.hermes.install.hermes_probe import Hermes
from strongroom.hermes.install.home_files import inside, is_within, read_text
from strongroom.hermes.install.install_steps import StepResult, StepState, as_done
from strongroom.hermes.policy import Policy
from strongroom.hermes.state_paths import Places, places_named_by, places_of
from strongroom.vault.vault import Vault


@dataclass(frozen=True, slots=True)
class WireRequest:
    """What was asked for. None and empty mean: as it is, or as is usual."""

    home: str | None = None
    profile: str | None = None
    vault: str | None = None
    url: str | None = None
    cap_file: str | None = None
    ca_file: str | None = None
    me: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    tools: str | None = None
    masking: bool = True
    python: str | None = None
    look_only: bool = False


class Vaults(Protocol):
    """How vaults are opened and made: the command line can ask for a passphrase, and a plugin cannot."""

    def open(self, place: str) -> Vault:
        """Open the vault in a place. The caller closes it."""

    def create(self, place: str) -> Vault:
        """Make a vault as `strongroom init` does, and open it. The caller closes it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What is around a run: whose machine it is, and what time."""

    environ: Mapping[str, str]
    users_home: Path
    now: Callable[[], float] = time.time


@dataclass(slots=True)
class Work:
    """One home, and what the steps have found out about it so far."""

    request: WireRequest
    vaults: Vaults
    machine: Machine
    home: HermesHome
    hermes: Hermes | None = None
    places: Places = field(init=False)
    config_text: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    policy_text: str | None = None
    policy: Policy | None = None
    is_astray: bool = False
    """Whether the policy names a cap or a state that is not this home's."""
    vault: str = ""
    url: str = ""
    ca_file: str = ""
    namespaces: tuple[str, ...] = ()
    inbox: str = ""
    token: Token | None = None
    actor: str = ""
    kept: Vault | None = None
    """The open vault: opening one whose keys are behind a passphrase takes seconds."""

    def __post_init__(self) -> None:
        self.places = places_of(self.home)

    @property
    def look_only(self) -> bool:
        return self.request.look_only

    @property
    def scope(self) -> str:
        """The actors of this home, as a cap names them."""
        return f"{model.actor_path('hermes', self.home.profile)}/"

    @property
    def config_path(self) -> Path:
        return inside(self.home.path, self.home.path / config_yaml.FILE)

    @property
    def policy_path(self) -> Path:
        return inside(self.home.path, policies.path_of(self.home.path))

    def read_files(self) -> None:
        """Read what Hermes and the owner say. What cannot be read is refused before anything is changed."""
        self.config_text = read_text(self.config_path) or ""
        self.config = config_yaml.read(self.config_text)
        self.policy_text = read_text(self.policy_path)
        self.policy = None if self.policy_text is None else policies.read(self.policy_text, str(self.policy_path))
        if self.policy is not None and self.policy.is_wired:
            self._follow(self.policy)
        for place in (self.places.cap, self.places.state):
            self.refuse_within(place, "the cap and what waits to be delivered")

    def _follow(self, policy: Policy) -> None:
        """Go on with the places that the policy names, if they are of ours: a home that was moved keeps its spool."""
        named = places_named_by(policy, self.home)
        self.is_astray = named is None
        if named is not None and named.cap.parent.is_dir():
            self.places = named

    def as_read(self) -> StepResult:
        """How the files were found, once they are read."""
        if self.policy is None or not self.is_astray:
            return StepResult(StepState.OK, f"{self.home.path / config_yaml.FILE} is sound")
        return StepResult(
            StepState.WARN,
            f"{policies.FILE} names a cap or a state that is not this home's: both are left alone",
            self._astray(self.policy),
        )

    def _astray(self, policy: Policy) -> str:
        named = f"{str(policy.cap)!r} and {str(policy.state)!r}"
        own = f"`strongroom wire hermes --profile {self.home.profile}` gives this one its own"
        return f"copied from another profile? {own}; what waits in {named} is not delivered from here"

    def refuse_within(self, place: Path, what: str) -> None:
        """Refuse a place within the home or its root: Hermes' backups hold all of that."""
        if is_within(place, self.home.path) or is_within(place, self.home.root):
            raise InvalidRequest(
                f"{what} would be in Hermes' own home: {place}",
                hint=f"keep it outside of {self.home.root}, which Hermes' backups copy and its tools read",
            )

    def opened(self, place: str) -> Vault:
        """The vault of this home, opened once."""
        if self.kept is None:
            self.kept = self.vaults.open(place)
        return self.kept

    def close(self) -> None:
        """Let go of the vault."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None

    def do(self, message: str, write: Callable[[], object], *, hint: str = "") -> StepResult:
        """Do what a step has to do or, with a look only, say that it would be done."""
        if self.look_only:
            return StepResult(StepState.DRIFT, f"to do: {message}", hint)
        write()
        return as_done(message, hint)
