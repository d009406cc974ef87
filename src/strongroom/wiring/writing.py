"""What `wire` writes, one thing at a time: the cap, the policy, the plugin, and last the switch in config.yaml.

Each is written whole or not at all, and only if it is not so already. Hermes changes its behaviour at the last one
only, so a run that was cut short is finished by another.
"""

from __future__ import annotations

import json
import tomllib
from contextlib import closing, suppress
from pathlib import Path

from strongroom.cap import Token
from strongroom.errors import InvalidRequest, KeyUnavailable, StrongroomError
from strongroom.files import make_directory, write_file
from strongroom.wiring import capfile, runtimecap, shim, tomledit, yamlfile
from strongroom.wiring import policy as policies
from strongroom.wiring.filing import read_text, replace_text
from strongroom.wiring.steps import Outcome, State
from strongroom.wiring.template import Wiring, policy_text
from strongroom.wiring.work import Work

BACKUP = "config.yaml.before-strongroom"
_DAY = 86_400
_UNKNOWN = "the vault does not know the old one, or it was revoked"
_TOO_MUCH = "the old one covers more than it should"


# The cap.


def keep_cap(work: Work) -> Outcome:
    """Have a cap for every actor of this home in its file, and the state directory beside it."""
    return _given(work) if work.url else _minted(work)


def _given(work: Work) -> Outcome:
    token = work.token
    if token is None:
        raise InvalidRequest("no cap was found")
    if runtimecap.held_in(work.places.cap) == token and work.places.state.is_dir():
        return Outcome(State.SKIP, f"{work.places.cap} holds it already")

    def store() -> None:
        former = runtimecap.held_in(work.places.cap)
        _store(work, token)
        _revoke_former(work, former)

    return work.do(f"the cap is in {work.places.cap}", store)


def _revoke_former(work: Work, former: Token | None) -> None:
    """A cap of a vault that this home leaves is revoked there, if that vault still opens."""
    left = work.policy.vault if work.policy is not None else ""
    if former is None or not left or left == work.vault:
        return
    with suppress(StrongroomError), closing(work.vaults.open(left)) as vault:
        runtimecap.revoke(vault, former)


def _minted(work: Work) -> Outcome:
    if work.look_only and not _is_vault_there(work):
        return Outcome(State.DRIFT, "there is no vault yet, and so no cap")
    vault = work.opened(work.vault)
    held = runtimecap.held_in(work.places.cap)
    why = _why_another(work, held) if held is None or runtimecap.is_standing(vault, held) else _UNKNOWN
    if held is not None and not why:
        work.token, work.inbox = held, _known_inbox(work)
        if not work.inbox and not work.look_only:
            work.inbox = runtimecap.inbox_of(vault.memory(held, source="wire"), held, work.scope)
        return _with_state(work, Outcome(State.SKIP, f"{work.places.cap} holds one for {_days(work, held)} more days"))

    def mint() -> None:
        token = work.token = capfile.mint(vault, work.scope, work.namespaces)
        _store(work, token)
        work.inbox = runtimecap.inbox_of(vault.memory(token, source="wire"), token, work.scope)
        _revoke_former(work, held)
        if held is not None and why == _TOO_MUCH:
            runtimecap.revoke(vault, held)

    return work.do(f"a cap for {work.scope} in {work.places.cap}, because {why}", mint)


def _is_vault_there(work: Work) -> bool:
    return "://" in work.vault or Path(work.vault).exists()


def _why_another(work: Work, held: Token | None) -> str:
    if held is None:
        return "there was none"
    now = work.machine.now()
    if found := runtimecap.fault(held, work.scope, work.namespaces, now + capfile.WARN_BEFORE):
        return found.replace("it has ended", "the old one ends")
    said = runtimecap.said_by(held)
    if said.namespaces != set(work.namespaces):
        return _TOO_MUCH
    return "" if set(capfile.OPS) <= {str(op) for op in said.ops} else "the old one allows less than it should"


def _known_inbox(work: Work) -> str:
    is_same = work.policy is not None and work.policy.vault == work.vault
    return work.policy.inbox if work.policy is not None and is_same else ""


def _days(work: Work, held: Token) -> int:
    return int((runtimecap.said_by(held).exp - work.machine.now()) // _DAY)


def _with_state(work: Work, otherwise: Outcome) -> Outcome:
    if work.places.state.is_dir():
        return otherwise
    return work.do(f"the directory {work.places.state}", lambda: _make_state(work))


def _store(work: Work, token: Token) -> None:
    _make_state(work)
    capfile.write(work.places.cap, token)


def _make_state(work: Work) -> None:
    try:
        make_directory(work.places.state)
    except OSError as error:
        raise KeyUnavailable(f"cannot make {work.places.state}: {error.strerror}") from None


# The policy.


def keep_policy(work: Work) -> Outcome:
    """Have a policy that says where things are; all else in it is the owner's."""
    wanted = wanted_policy(work)
    if wanted == work.policy_text:
        return Outcome(State.SKIP, f"{work.policy_path} is up to date")
    policies.read(wanted)
    did = "written" if work.policy_text is None else "brought up to date"
    return work.do(f"{work.policy_path} is {did}", lambda: replace_text(work.policy_path, wanted))


def wanted_policy(work: Work) -> str:
    """The text of the policy as it should be."""
    wiring = Wiring(
        profile=work.home.profile,
        vault=work.vault,
        url=work.url,
        ca_file=work.ca_file,
        cap=str(work.places.cap),
        state=str(work.places.state),
        inbox=work.inbox or (work.policy.inbox if work.look_only and work.policy is not None else ""),
        namespaces=work.namespaces,
    )
    asked = work.request
    if work.policy_text is None:
        return policy_text(wiring, me=_unique(asked.me), tools=asked.tools or "none", masking=asked.masking)
    text = work.policy_text
    for name in Wiring.__slots__:
        text = _kept_up(text, "", name, getattr(wiring, name))
    if asked.tools is not None:
        text = tomledit.changed(text, "", "tools", asked.tools)
    if not asked.masking:
        text = tomledit.changed(text, "keep", "mask_secrets", False)
    return _kept_up(text, "people", "me", _unique((*_me(text), *asked.me)))


def _kept_up(text: str, table: str, key: str, value: tomledit.Value) -> str:
    """The text with a key as it should be; one that is missing and would be empty stays missing."""
    data = tomllib.loads(text)
    held = data.get(table, {}) if table else data
    return text if not value and key not in held else tomledit.changed(text, table, key, value)


def _me(text: str) -> tuple[str, ...]:
    return tuple(
        account for account, name in policies.read(text).identity.user_peer_aliases.items() if name == policies.OWNER
    )


def _unique(accounts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(accounts))


# The plugin.


def keep_plugin(work: Work) -> Outcome:
    """Have the plugin's files in the home."""
    place = shim.directory(work.home.path)
    names = shim.differing(work.home.path)
    strange = [name for name in shim.foreign(work.home.path) if name in names]
    if strange:
        raise InvalidRequest(
            f"{place / strange[0]} is there and is not ours", hint="move it away: the plugin needs that name"
        )
    if not names:
        return Outcome(State.SKIP, f"{place} is up to date")
    return work.do(f"the plugin is in {place}", lambda: shim.write(work.home.path))


# The switch.


def switch_on(work: Work) -> Outcome:
    """Make Strongroom the provider in config.yaml, and keep what stood there before."""
    text = read_text(work.config_path) or ""
    wanted = yamlfile.with_provider(text, shim.NAME)
    if wanted == text:
        return Outcome(State.SKIP, "memory.provider is strongroom")
    before = yamlfile.provider_in(yamlfile.read(text))
    was = f", and was {before}: `strongroom unwire hermes` puts that back" if before else ""

    def write() -> None:
        _remember(work, before, had_file=work.config_path.exists())
        if read_text(work.home.path / BACKUP) != text:
            replace_text(work.home.path / BACKUP, text)
        replace_text(work.config_path, wanted)

    return work.do(f"memory.provider is strongroom{was}", write)


def _remember(work: Work, before: str | None, *, had_file: bool) -> None:
    """Keep which provider there was: config.yaml itself is rewritten by others, who drop comments."""
    said = json.dumps({"provider": before, "had_file": had_file}) + "\n"
    if read_text(work.places.before) == said:
        return
    try:
        make_directory(work.places.before.parent)
        write_file(work.places.before, said.encode(), new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot write {work.places.before}: {error.strerror}") from None
