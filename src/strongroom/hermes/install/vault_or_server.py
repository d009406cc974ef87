"""The step of `wire` that reaches the memory: it opens or creates the vault, or asks the server.

Nothing is written into the home.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import Path

from strongroom import settings
from strongroom.caps.chain import Token
from strongroom.client import connect
from strongroom.errors import Denied, InvalidRequest, UnknownNamespace, VaultMissing
from strongroom.hermes import runtime_cap
from strongroom.hermes.hermes_homes import wire_command
from strongroom.hermes.install.install_steps import StepResult, StepState
from strongroom.hermes.install.wire_request import Work
from strongroom.hermes.policy import FILE, SENSITIVITY
from strongroom.keys import default_directory
from strongroom.memory import Memory
from strongroom.model import DEFAULT_NAMESPACES
from strongroom.vault.create_open import identify

_TIMEOUT = 10.0
_BACK_UP = "back up {}, separately from the vault: without these keys nobody can open it"


def reach(work: Work) -> StepResult:
    """Reach the requested vault or server.

    The policy names the default. Without a policy, the default is the vault in the usual place.
    """
    asked, policy = work.request, work.policy
    if asked.url and asked.vault:
        raise InvalidRequest("both a vault and a server were named", hint="give either --vault or --url")
    work.url = asked.url or ("" if asked.vault or policy is None else policy.url)
    if work.url:
        return _server(work)
    if asked.cap_file or asked.ca_file:
        raise InvalidRequest(
            "--cap-file and --ca-file are only for a server",
            hint="add --url, or leave both options out: for a local vault, wire mints the cap",
        )
    return _vault(work)


# The vault in Hermes' own process.


def _vault(work: Work) -> StepResult:
    known = work.policy.vault if work.policy is not None else ""
    place = work.vault = _absolute(work.request.vault or known or settings.find().vault)
    if "://" not in place:
        work.refuse_within(Path(place), "the vault")
    try:
        vault_id = identify(place)
    except VaultMissing:
        if known and not work.request.vault:
            raise VaultMissing(
                f"the vault of this home is missing: {place}",
                hint="put the vault back (is its disk mounted?), name another vault with --vault, or make an empty "
                f"vault with `strongroom init {shlex.quote(place)}`",
            ) from None
        return _made(work, place, is_usual=place == str(settings.default_vault()))
    work.refuse_within(default_directory(vault_id), "the vault's keys")
    work.namespaces = _chosen(work, work.opened(place).namespaces)
    return StepResult(StepState.OK, f"the vault at {place}", _locked(vault_id))


def _made(work: Work, place: str, *, is_usual: bool) -> StepResult:
    if not is_usual:
        raise VaultMissing(
            f"there is no vault at {place}", hint=f"check the path, or make a vault with `strongroom init {place}`"
        )
    work.namespaces = _chosen(work, DEFAULT_NAMESPACES)
    return work.do(f"a new vault at {place}", lambda: _make(work, place), hint=_BACK_UP.format(default_directory("")))


def _make(work: Work, place: str) -> None:
    work.refuse_within(default_directory("new"), "the vault's keys")
    work.kept = work.vaults.create(place)


def _locked(vault_id: str) -> str:
    if not settings.is_locked(default_directory(vault_id)) or os.environ.get("STRONGROOM_PASSPHRASE_FILE"):
        return ""
    return "its keys are locked with a passphrase: start Hermes with STRONGROOM_PASSPHRASE_FILE, or serve the vault"


def _known(place: str) -> str:
    return _absolute(place) if place else ""


def _absolute(place: str) -> str:
    return place if "://" in place else os.path.abspath(os.path.expanduser(place))


# The server.


def _server(work: Work) -> StepResult:
    work.ca_file = _absolute(work.request.ca_file) if work.request.ca_file else _known_ca_file(work)
    work.token = _shown(work)
    said = runtime_cap.claims_of(work.token)
    work.namespaces = _chosen(work, _by_sensitivity(said.namespaces))
    runtime_cap.check(work.token, work.scope, work.namespaces, work.machine.now())
    memory = connect(work.url, work.token, timeout=_TIMEOUT, retries=1, renew=False, ca_file=work.ca_file or None)
    with memory:
        work.inbox = _asked(work, memory, work.token)
    renews = "renew" in said.ops
    hint = "" if renews else "the cap does not allow renew: before it ends, the vault's owner has to give you a new one"
    return StepResult(StepState.OK if renews else StepState.WARN, f"the server at {work.url} accepts the cap", hint)


def _asked(work: Work, memory: Memory, token: Token) -> str:
    try:
        return runtime_cap.inbox_of(memory, token, work.scope)
    except Denied as error:
        mint = runtime_cap.how_to_mint(work.scope, work.namespaces)
        error.hint = f"{mint}; then name it with --url {work.url} --cap-file FILE"
        raise


def _known_ca_file(work: Work) -> str:
    return work.policy.ca_file if work.policy is not None and work.policy.url == work.url else ""


def _shown(work: Work) -> Token:
    """The cap to show to the server: the cap that was given with --cap-file, or the home's own.

    The home's own cap is used if it renews the given cap, or if no cap was given. Without a given cap, the policy must
    name this server, because a cap is sent only to the server that it was given for.
    """
    held = runtime_cap.read_held(work.places.cap)
    given = work.request.cap_file
    if given is not None:
        new = runtime_cap.read_given(Path(given))
        return held if held is not None and runtime_cap.is_later(held, new) else new
    if held is None or work.policy is None or work.policy.url != work.url:
        raise _no_cap(work)
    return held


def _no_cap(work: Work) -> InvalidRequest:
    names = work.request.namespaces or (work.policy.namespaces if work.policy is not None else ())
    hint = f"name the cap's file with --cap-file; {runtime_cap.how_to_mint(work.scope, names)}"
    if work.request.url:
        return InvalidRequest("a server needs a cap, and none was given", hint=hint)
    said = f"{FILE} names the server at {work.url}, but there is no cap for it"
    return InvalidRequest(said, hint=f"{hint}; or use a vault instead with --vault PATH")


def _by_sensitivity(names: Iterable[str]) -> tuple[str, ...]:
    """Order names by sensitivity, the most sensitive first. Unknown names come before all known names."""
    found = set(names)
    return (*sorted(found - set(SENSITIVITY)), *(name for name in SENSITIVITY if name in found))


def _chosen(work: Work, there: Iterable[str]) -> tuple[str, ...]:
    """Choose the namespaces for Hermes: the requested namespaces, or else the policy's, or else all."""
    names, policy = tuple(there), work.policy
    is_same = policy is not None and policy.is_wired and (_known(policy.vault), policy.url) == (work.vault, work.url)
    kept = policy.namespaces if policy is not None and is_same else names
    wanted = work.request.namespaces or kept
    if unknown := [name for name in wanted if name not in names]:
        there_are = f"the namespaces are {', '.join(names) or 'none'}"
        known = ",".join(name for name in names if name in wanted)
        hint = (
            f"{there_are}; to use those you named, run `{wire_command(work.home.path)} --namespaces {known}`"
            if known
            else there_are
        )
        raise UnknownNamespace(f"there is no namespace {unknown[0]}", hint=hint)
    return tuple(name for name in names if name in wanted) if work.request.namespaces else kept
