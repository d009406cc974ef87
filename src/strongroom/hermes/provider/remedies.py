"""Tells how to repair memory: the command that helps, for each reason why memory does not work.

The command differs between an embedded vault and a server. For an expired cap, for example, `wire` makes a new cap in
an embedded vault, and the owner of a server mints one. Each command is complete, with the paths of this home.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strongroom.hermes import policy as policies
from strongroom.hermes import runtime_cap
from strongroom.hermes.hermes_homes import wire_command
from strongroom.hermes.policy import Policy

_MINT = "ask the server's owner for a new cap: `{mint}`; then run `{wire} --url {url} --cap-file FILE`"
_VAULT = "`strongroom doctor --vault {vault}`"
_SERVER = (
    "`strongroom doctor --url {url}` shows what is wrong; if it is the address, correct `url` in {policy}; waiting "
    "turns are stored automatically once the server answers"
)
_RESTORE = (
    "put the vault back at {vault} (is its disk mounted?); if it is lost, start with an empty one: "
    "`strongroom init {vault}`, then `{wire}`"
)


@dataclass(frozen=True, slots=True)
class Remedy:
    """The command that helps if the vault is embedded, and the command that helps if it is on a server."""

    embedded: str
    served: str


_CHECK = "correct {policy}; `{wire} --check-only` checks it"
_INBOX = "run `{wire}` to get the vault's inbox key, without which no turn can wait"
_LEAVE = "to use only the namespaces that the cap covers, run `{wire} --namespaces {covered}`"
_AGAIN = "run `{wire}` to try the turns that were set aside once more"
_ROOM = "`df {state}` shows whether its disk is full; if not, raise `spool_bytes` below [keep] in {policy}"
_NEW_CAP = Remedy("run `{wire}` to make a new cap", _MINT)
_LOOK = Remedy(_VAULT, _SERVER)
_FORGED = Remedy(
    "run `strongroom audit verify --vault {vault}`", "ask the server's owner to run `strongroom audit verify`"
)
_KEYS = Remedy(
    "`strongroom doctor --vault {vault}` shows what is missing; if the keys are locked with a passphrase, start Hermes "
    "with STRONGROOM_PASSPHRASE_FILE",
    _SERVER,
)
_ASIDE = "`mv {cap} {cap}.broken`, then "
CAP_EXPOSED, ADDRESS, NO_INBOX = "cap exposed", "address", "no inbox key"
FAULT, NOT_COVERED, ASIDE, FULL = "a fault in the policy", "a namespace is not covered", "set aside", "full spool"
"""Names for problems that have no error reason."""
REMEDIES: Mapping[str, Remedy] = {
    "cap_audience": _NEW_CAP,
    "cap_data_class_mismatch": _NEW_CAP,
    "cap_expired": _NEW_CAP,
    "cap_holder_proof": _NEW_CAP,
    "cap_limit_exceeded": _NEW_CAP,
    "cap_malformed": Remedy(f"{_ASIDE}{_NEW_CAP.embedded}", f"{_ASIDE}{_MINT}"),
    "cap_missing": _NEW_CAP,
    "cap_namespace_denied": _NEW_CAP,
    "cap_not_yet_valid": Remedy(
        "correct this machine's clock: `timedatectl`", "correct both machines' clocks: `timedatectl`"
    ),
    "cap_op_mismatch": _NEW_CAP,
    "cap_revoked": Remedy("to allow Hermes again, run `{wire}`, which makes a new cap and stores waiting turns", _MINT),
    "cap_signature_invalid": _NEW_CAP,
    "audit_unavailable": _LOOK,
    "clock_behind": Remedy(
        "correct this machine's clock: `timedatectl`", "ask the server's owner to correct the server's clock"
    ),
    "format_too_new": Remedy(
        "a newer strongroom wrote to the vault: install that version in Hermes' environment",
        "ask the server's owner to install the newer strongroom that wrote to the vault",
    ),
    "key_unavailable": _KEYS,
    "rate_limited": Remedy(_VAULT, "wait: the server limits the requests per second of one cap"),
    "server_unavailable": _LOOK,
    "store_unavailable": _LOOK,
    "tampered": _FORGED,
    "vault_missing": Remedy(_RESTORE, _SERVER),
    CAP_EXPOSED: Remedy(
        "others may have read the cap: run `{unwire}` to revoke it, then `{wire}` to make a new one",
        "`chmod 600 {cap}`; others may have read it, so have it revoked, and " + _MINT,
    ),
    ADDRESS: Remedy(_CHECK, _CHECK),
    FAULT: Remedy(_CHECK, _CHECK),
    NO_INBOX: Remedy(_INBOX, _INBOX),
    NOT_COVERED: Remedy(f"run `{{wire}}` to make a cap for all of the vault's namespaces; {_LEAVE}", _LEAVE),
    ASIDE: Remedy(_AGAIN, _AGAIN),
    FULL: Remedy(_ROOM, _ROOM),
}
"""The commands that help, by reason or problem. The other reasons concern a single turn, or are defects."""
OF_ALL = frozenset(
    (
        *("cap_audience", "cap_data_class_mismatch", "cap_expired", "cap_holder_proof", "cap_malformed", "cap_missing"),
        *("cap_not_yet_valid", "cap_signature_invalid", "clock_behind", "server_unavailable", "vault_missing"),
    )
)
"""Error reasons that concern every actor of the home. They no longer apply once the owner gets an answer."""


def next_steps(policy: Policy, home: Path, states: Iterable[str], covered: Iterable[str] = ()) -> list[str]:
    """The commands for these reasons or problems, each once. `covered` are the namespaces that the cap covers."""
    words = {
        "wire": wire_command(home),
        "unwire": wire_command(home, "unwire"),
        "mint": runtime_cap.mint_command(policy.scope, policy.namespaces),
        "url": shlex.quote(policy.url),
        "vault": shlex.quote(policy.vault),
        "cap": shlex.quote(str(policy.cap)),
        "state": shlex.quote(str(policy.state)),
        "policy": shlex.quote(str(policies.path_of(home))),
        "covered": ",".join(covered),
    }
    found = [REMEDIES[one] for one in states if one in REMEDIES]
    said = [(one.served if policy.url else one.embedded).format(**words) for one in found]
    return list(dict.fromkeys(said))
