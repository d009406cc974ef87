"""For each state in which memory does not work: the command that helps, as it works in that state. Pure.

A reason alone does not say it: a cap that ended is made anew here by `wire`, and on a server by its owner. A command is
given whole, for this home and not for another one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from strongroom.wiring import runtimecap
from strongroom.wiring.policy import Policy

_MINT = "the server's owner makes another cap: `{mint}`; then `{wire} --url {url} --cap-file FILE`"
_VAULT = "`strongroom doctor --vault {vault}`"
_SERVER = "`strongroom doctor --url {url}`; what waits is delivered by itself once the server answers"
_RESTORE = "put the vault back at {vault} (is its disk mounted?), or `{wire} --vault PATH` for another one"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What helps where the vault is opened here, and where a server is asked."""

    embedded: str
    served: str


_NEW_CAP = Remedy("`{wire}` makes another cap", _MINT)
_LOOK = Remedy(_VAULT, _SERVER)
_FORGED = Remedy("`strongroom audit verify --vault {vault}`", "the server's owner runs `strongroom audit verify`")
_KEYS = Remedy("start Hermes with STRONGROOM_PASSPHRASE_FILE, or `strongroom doctor --vault {vault}`", _SERVER)
REMEDIES: Mapping[str, Remedy] = {
    "cap_audience": _NEW_CAP,
    "cap_data_class_mismatch": _NEW_CAP,
    "cap_expired": _NEW_CAP,
    "cap_holder_proof": _NEW_CAP,
    "cap_limit_exceeded": _NEW_CAP,
    "cap_malformed": _NEW_CAP,
    "cap_missing": _NEW_CAP,
    "cap_namespace_denied": _NEW_CAP,
    "cap_not_yet_valid": Remedy("set this machine's clock: `timedatectl`", "set both clocks: `timedatectl`"),
    "cap_op_mismatch": _NEW_CAP,
    "cap_revoked": Remedy(
        "if that was not meant to last, `{wire}` makes another cap, and what waits goes with it", _MINT
    ),
    "cap_signature_invalid": _NEW_CAP,
    "audit_unavailable": _LOOK,
    "clock_behind": Remedy("set this machine's clock: `timedatectl`", "its owner sets the server's clock"),
    "key_unavailable": _KEYS,
    "rate_limited": Remedy(_VAULT, "wait: the server takes so many requests a second from one cap"),
    "server_unavailable": _LOOK,
    "store_unavailable": _LOOK,
    "tampered": _FORGED,
    "vault_missing": Remedy(_RESTORE, _SERVER),
}
"""By reason. What is not here speaks of one turn, or is a defect."""


def next_steps(policy: Policy, home: Path, reasons: Iterable[str]) -> list[str]:
    """What to do about these reasons, each remedy once."""
    words = {
        "wire": wire_command(home),
        "mint": runtimecap.mint_command(policy.scope, policy.namespaces),
        "url": shlex.quote(policy.url),
        "vault": shlex.quote(policy.vault),
    }
    found = [REMEDIES[reason] for reason in reasons if reason in REMEDIES]
    said = [(one.served if policy.url else one.embedded).format(**words) for one in found]
    return list(dict.fromkeys(said))


def wire_command(home: Path) -> str:
    """`strongroom wire hermes` for this home, whichever profile it is."""
    is_usual = home == Path.home() / ".hermes"
    return "strongroom wire hermes" if is_usual else f"strongroom wire hermes --home {shlex.quote(str(home))}"
