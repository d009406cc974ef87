"""The request of a run of `wire` or `unwire`, and the run's state for one home."""

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
    """The options of a run. None or an empty value means the present value or, if there is none, the default."""

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
    """Opens and creates vaults. The command line can prompt for a passphrase; a plugin cannot."""

    def open(self, place: str) -> Vault:
        """Open the vault in a place. The caller closes the vault."""

    def create(self, place: str) -> Vault:
        """Create a vault as `strongroom init` does, and open it. The caller closes the vault."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The surroundings of a run: the environment, the user's home directory, and the clock."""

    environ: Mapping[str, str]
    users_home: Path
    now: Callable[[], float] = time.time


@dataclass(slots=True)
class Work:
    """The state of a run for one home: the request, and the findings of the steps so far."""

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
    """Whether the policy names a cap or a state directory of another home."""
    vault: str = ""
    url: str = ""
    ca_file: str = ""
    namespaces: tuple[str, ...] = ()
    inbox: str = ""
    token: Token | None = None
    actor: str = ""
    kept: Vault | None = None
    """The open vault. It is opened only once per home, because opening with a passphrase takes seconds."""

    def __post_init__(self) -> None:
        self.places = places_of(self.home)

    @property
    def look_only(self) -> bool:
        return self.request.look_only

    @property
    def scope(self) -> str:
        """The prefix of the paths of this home's actors, as the home's cap names it."""
        return f"{model.actor_path('hermes', self.home.profile)}/"

    @property
    def config_path(self) -> Path:
        return inside(self.home.path, self.home.path / config_yaml.FILE)

    @property
    def policy_path(self) -> Path:
        return inside(self.home.path, policies.path_of(self.home.path))

    def read_files(self) -> None:
        """Read config.yaml and the policy. Raises before anything is changed if one of the two files cannot be read."""
        self.config_text = read_text(self.config_path) or ""
        self.config = config_yaml.read(self.config_text)
        self.policy_text = read_text(self.policy_path)
        self.policy = None if self.policy_text is None else policies.read(self.policy_text, str(self.policy_path))
        if self.policy is not None and self.policy.is_wired:
            self._follow(self.policy)
        for place in (self.places.cap, self.places.state):
            self.refuse_within(place, "the cap and the waiting turns")

    def _follow(self, policy: Policy) -> None:
        """Use the paths in the policy if they belong to this home, so that a moved home keeps its spool."""
        named = places_named_by(policy, self.home)
        self.is_astray = named is None
        if named is not None and named.cap.parent.is_dir():
            self.places = named

    def as_read(self) -> StepResult:
        """The result of the step that read the files. It warns if the policy names files of another home."""
        if self.policy is None or not self.is_astray:
            return StepResult(StepState.OK, f"{self.home.path / config_yaml.FILE} is valid")
        return StepResult(
            StepState.WARN,
            f"{policies.FILE} names a cap or a state directory of another home, which are left alone",
            self._astray(self.policy),
        )

    def _astray(self, policy: Policy) -> str:
        named = f"{str(policy.cap)!r} and {str(policy.state)!r}"
        own = f"if the policy was copied, run `strongroom wire hermes --profile {self.home.profile}`"
        return f"{own} to give this home its own; turns that wait in {named} are not stored from here"

    def refuse_within(self, place: Path, what: str) -> None:
        """Raise if a path is within the home or within its root. Hermes' backups copy both."""
        if is_within(place, self.home.path) or is_within(place, self.home.root):
            raise InvalidRequest(
                f"{what} would be inside Hermes' home: {place}",
                hint=f"choose a place outside {self.home.root}, which Hermes' backups copy and its tools can read",
            )

    def opened(self, place: str) -> Vault:
        """Open this home's vault at the first call, and return the open vault."""
        if self.kept is None:
            self.kept = self.vaults.open(place)
        return self.kept

    def close(self) -> None:
        """Close the vault, if it is open."""
        if self.kept is not None:
            self.kept.close()
            self.kept = None

    def do(self, message: str, write: Callable[[], object], *, hint: str = "") -> StepResult:
        """Make a change. With --check-only, only report that the change is needed."""
        if self.look_only:
            return StepResult(StepState.DRIFT, f"to do: {message}", hint)
        write()
        return as_done(message, hint)
