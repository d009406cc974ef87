"""`strongroom unwire hermes`: undo the work of `wire`.

1. Switch off the provider in config.yaml, so that Hermes no longer uses the parts that are removed next.
2. Remove the plugin and the cap.
3. With `purge` only: remove the policy and the spooled turns.

The memory itself is never touched. Running `unwire` again changes nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

from strongroom.caps.chain import Token
from strongroom.errors import KeyUnavailable, VaultMissing
from strongroom.hermes import hermes_homes, runtime_cap
from strongroom.hermes import policy as policies
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import config_yaml, plugin_files
from strongroom.hermes.install.home_changes import BACKUP
from strongroom.hermes.install.home_files import read_text, remove, replace_text
from strongroom.hermes.install.install_steps import StepResult, Steps, StepState, as_done
from strongroom.hermes.install.wire import WireReport
from strongroom.hermes.install.wire_request import Machine, Vaults, WireRequest, Work
from strongroom.hermes.state_paths import is_ours
from strongroom.host.memory_file_import import forget_marks
from strongroom.model import pluralize


def unwire(request: WireRequest, vaults: Vaults, machine: Machine, *, purge: bool = False) -> WireReport:
    """Undo the wiring of each home, and report on the steps."""
    steps = Steps()
    found: list[HermesHome] = []
    begun = steps.run([("home", partial(_find_homes, request, machine, found))])
    report = WireReport(steps.done)
    for home in found if begun else ():
        with closing(Work(request, vaults, machine, home)) as work:
            steps.run(_planned(work, purge), home.profile)
        report.homes.append(str(home.path))
    return report


def _planned(work: Work, purge: bool) -> list[tuple[str, Callable[[], StepResult]]]:
    return [
        ("settings", partial(_read_settings, work)),
        ("provider", partial(switch_off, work)),
        ("plugin", partial(remove_plugin, work)),
        ("cap", partial(revoke_cap, work)),
        ("policy", partial(remove_policy, work, purge)),
        ("waiting", partial(remove_state, work, purge)),
    ]


def _find_homes(request: WireRequest, machine: Machine, found: list[HermesHome]) -> StepResult:
    found.extend(hermes_homes.find(request.home, request.profile, machine.environ, machine.users_home))
    return StepResult(StepState.OK, ", ".join(f"{home.path} ({home.profile})" for home in found))


def _read_settings(work: Work) -> StepResult:
    work.read_files()
    read = work.as_read()
    if config_yaml.has_hooks(work.config):
        hint = f"remove them from {config_yaml.FILE}: in a home that is not wired, `hook check` blocks every tool call"
        return StepResult(StepState.WARN, f"{read.message}, but its hooks still call strongroom", hint)
    return read


def switch_off(work: Work) -> StepResult:
    """Restore the former memory.provider. If the former value is not known, switch the provider off."""
    if config_yaml.provider_in(work.config) != plugin_files.NAME:
        return StepResult(StepState.SKIP, "memory.provider is not strongroom")
    before = _before(work)
    was = str(before.get("provider") or "")
    backup = read_text(work.home.path / BACKUP)
    path = work.config_path
    is_untouched = backup is not None and config_yaml.with_provider(backup, plugin_files.NAME) == work.config_text
    if is_untouched and before.get("had_file") is False:
        remove(path)
    else:
        restored = backup if is_untouched and backup is not None else config_yaml.with_provider(work.config_text, was)
        replace_text(path, restored)
    if is_untouched:
        remove(work.home.path / BACKUP)
    return as_done(f"memory.provider is {was} again" if was else "memory.provider is off")


def _before(work: Work) -> dict[str, Any]:
    try:
        found = json.loads(read_text(work.places.before) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def remove_plugin(work: Work) -> StepResult:
    """Remove the plugin's files, and keep any other file beside them."""
    strange = plugin_files.foreign(work.home.path)
    removed = plugin_files.take_away(work.home.path)
    stays = f"; files of others stay: {', '.join(strange)}" if strange else ""
    if not removed:
        return StepResult(StepState.SKIP, f"there was no plugin{stays}")
    return as_done(f"the plugin is removed{stays}")


def revoke_cap(work: Work) -> StepResult:
    """Remove the cap's file. With a local vault, also revoke the cap. Raises if the file does not hold a cap."""
    path = work.places.cap
    held = runtime_cap.own_in(path)
    if not path.exists():
        return StepResult(StepState.SKIP, "there is no cap")
    if held is not None:
        path.chmod(0o600)  # hide a cap that others could read until it is revoked
    policy = work.policy
    if policy is None or not policy.vault or held is None:
        remove(path)
        revoke = "" if held is None else f"the cap is still valid; the vault's owner can revoke it with {_revoke(held)}"
        return as_done(f"{path} is removed", revoke)
    try:
        revoked = runtime_cap.revoke(work.opened(policy.vault), held)
    except VaultMissing:
        remove(path)
        said = f"{path} is removed, but the cap is not revoked, because there is no vault at {policy.vault}"
        return StepResult(StepState.WARN, said, f"if the vault was moved, run {_revoke(held)} there", changed=True)
    remove(path)
    return as_done(f"the cap is {'revoked' if revoked else 'already void'}, and {path} is removed")


def _revoke(held: Token) -> str:
    return f"`strongroom cap revoke {runtime_cap.claims_of(held).links[0]}`"


def remove_policy(work: Work, purge: bool) -> StepResult:
    """Keep the policy, because it is the owner's work. With `purge`, remove the policy and the records of imported
    files.
    """
    if purge:
        forget_marks(work.home.path)
    if work.policy_text is None:
        return StepResult(StepState.SKIP, "there is no policy")
    if not purge:
        return StepResult(StepState.SKIP, f"{work.policy_path} stays", "--purge removes it")
    remove(work.policy_path)
    remove(work.home.path / policies.GOOD)
    remove(work.home.path / BACKUP)
    return as_done(f"{work.policy_path} is removed")


def remove_state(work: Work, purge: bool) -> StepResult:
    """Keep the turns that wait to be stored, because there is no other copy of them. With `purge`, remove these
    turns.
    """
    state = work.places.state
    waiting = _waiting(state / "spool")
    if not purge:
        if waiting:
            waits = f"{pluralize(waiting, 'turn')} {'waits' if waiting == 1 else 'wait'}"
            said = f"{waits} in {state}, encrypted, and will be stored when this home is wired again"
            return StepResult(StepState.WARN, said, "--purge destroys them")
        return StepResult(StepState.SKIP, "no turns are waiting")
    if not state.exists():
        return StepResult(StepState.SKIP, "no turns are waiting")
    if not is_ours(state):
        return StepResult(
            StepState.WARN, f"{state} stays, because it is not a directory made by wire", "remove it yourself"
        )
    try:
        shutil.rmtree(state)
    except OSError as error:
        raise KeyUnavailable(f"cannot remove the directory {state}: {error.strerror}") from None
    remove(work.places.before)
    remove(work.places.whose)
    with suppress(OSError):  # not empty: there are other files beside it
        state.parent.rmdir()
    return as_done(f"{state} is removed" + (f", with {pluralize(waiting, 'waiting turn')}" if waiting else ""))


def _waiting(spool: Path) -> int:
    try:
        return sum(1 for one in spool.iterdir() if one.suffix in (".turn", ".draft"))
    except OSError:
        return 0
