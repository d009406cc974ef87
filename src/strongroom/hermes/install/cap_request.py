"""The step of `wire` that gives a home its cap. A local vault mints the cap; for a server, the server's owner gives it.

An existing cap is kept if it has the requested scope and the vault accepts it; otherwise it is replaced. A file at the
cap's path that is not a cap is never overwritten.
"""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path

from strongroom.caps.chain import Token
from strongroom.errors import Denied, InvalidRequest, StrongroomError
from strongroom.hermes import cap_file, runtime_cap
from strongroom.hermes.install.install_steps import StepResult, StepState
from strongroom.hermes.install.wire_request import Work
from strongroom.hermes.state_paths import claim, is_claimed
from strongroom.model import pluralize
from strongroom.vault.vault import Vault

_DAY = 86_400
_UNKNOWN = "the old one is void, or unknown to the vault"
_REFUSED = "the vault refused the old one"


def keep_cap(work: Work) -> StepResult:
    """Write the cap for all actors of the home into its file, if needed, and claim the state directory for the home."""
    runtime_cap.own_in(work.places.cap)
    return _given(work) if work.url else _minted(work)


def _given(work: Work) -> StepResult:
    token = work.token
    if token is None:
        raise InvalidRequest("no cap was given for the server", hint="name the cap's file with --cap-file")
    if runtime_cap.read_held(work.places.cap) == token and is_claimed(work.places, work.home):
        return StepResult(StepState.SKIP, f"the cap is already in {work.places.cap}")

    def store() -> None:
        former = runtime_cap.read_held(work.places.cap)
        _store(work, token)
        _revoke_former(work, former)

    return work.do(f"the cap is in {work.places.cap}", store)


def _revoke_former(work: Work, former: Token | None) -> None:
    """Revoke a home's former cap after the home moved to another vault, if the former vault still opens."""
    left = work.policy.vault if work.policy is not None else ""
    if former is None or not left or left == work.vault:
        return
    with suppress(StrongroomError), closing(work.vaults.open(left)) as vault:
        runtime_cap.revoke(vault, former)


def _minted(work: Work) -> StepResult:
    if work.look_only and not _is_vault_there(work):
        return StepResult(StepState.DRIFT, "to do: a cap, once there is a vault")
    vault = work.opened(work.vault)
    held = runtime_cap.read_held(work.places.cap)
    why = _why_another(work, vault, held)
    if held is not None and not why:
        work.token = held
        return _with_state(
            work, StepResult(StepState.SKIP, f"the cap in {work.places.cap} is valid for {_days(work, held)} more days")
        )

    def mint() -> None:
        token = work.token = cap_file.mint(vault, work.scope, work.namespaces)
        _store(work, token)
        work.inbox = _inbox(work, vault, token)
        _revoke_former(work, held)
        if held is not None:
            runtime_cap.revoke(vault, held)

    return work.do(f"a cap for {work.scope} in {work.places.cap}, because {why}", mint)


def _is_vault_there(work: Work) -> bool:
    return "://" in work.vault or Path(work.vault).exists()


def _why_another(work: Work, vault: Vault, held: Token | None) -> str:
    if held is None:
        return "there was none"
    if not runtime_cap.is_standing(vault, held):
        return _UNKNOWN
    return _why_unfit(work, held) or _why_shut_out(vault, held) or _why_refused(work, vault, held)


def _why_unfit(work: Work, held: Token) -> str:
    now = work.machine.now()
    if found := runtime_cap.fault(held, work.scope, work.namespaces, now + cap_file.WARN_BEFORE):
        return found.replace("it has ended", "the old one ends")
    said = runtime_cap.claims_of(held)
    if said.namespaces != set(work.namespaces):
        return "the old one covers more than it should"
    return "" if set(cap_file.OPS) <= {str(op) for op in said.ops} else "the old one allows less than it should"


def _why_shut_out(vault: Vault, held: Token) -> str:
    """The reason for a new cap if an actor's caps were revoked after this cap was issued. Otherwise empty."""
    whose = vault.shut_out(runtime_cap.claims_of(held).links[0])
    others = f" and of {pluralize(len(whose) - 1, 'other actor')}" if len(whose) > 1 else ""
    return f"caps of {whose[0]}{others} were revoked after the old one was issued" if whose else ""


def _why_refused(work: Work, vault: Vault, held: Token) -> str:
    """Check a cap by asking the vault for its inbox key. Returns a reason if the vault refuses the cap, or an empty
    text.

    The inbox key in the policy is not used, because an agent's tools may have changed it.
    """
    try:
        work.inbox = _inbox(work, vault, held)
    except Denied:
        return _REFUSED
    return ""


def _inbox(work: Work, vault: Vault, token: Token) -> str:
    return runtime_cap.inbox_of(vault.memory(token, source="wire"), token, work.scope)


def _days(work: Work, held: Token) -> int:
    return round((runtime_cap.claims_of(held).exp - work.machine.now()) / _DAY)


def _with_state(work: Work, otherwise: StepResult) -> StepResult:
    if is_claimed(work.places, work.home):
        return otherwise
    return work.do(f"{work.places.state} belongs to this home", lambda: claim(work.places, work.home))


def _store(work: Work, token: Token) -> None:
    claim(work.places, work.home)
    cap_file.write(work.places.cap, token)
