"""The checks of doctor for a server, each on its own: it returns what is well, or raises what is not.

They need no cap and show none, unless asked to. What answers is not believed to be a strongroom until it says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import Any

import msgspec

from strongroom import api
from strongroom.caps.authority import effective
from strongroom.caps.chain import UnverifiedCap, parse
from strongroom.cli import installed_extras, output, owner_cap, remote_memory
from strongroom.cli.doctor.server_request import ServerAnswer, ServerPatient
from strongroom.cli.doctor.vault_checks import CheckProblem, python
from strongroom.errors import BY_REASON, StrongroomError, UnknownRoute
from strongroom.model import DataClass

_SKEW = 60
_SOON = 7 * 86_400
_PATH = "look at the address: it ends where the server's own paths begin, such as /healthz"
_TAKEN = frozenset(("invalid_request",))
"""What a server says to a body that is no call: it looks at the cap before."""


def _client(_: ServerPatient) -> str:
    if not installed_extras.is_installed("client"):
        raise CheckProblem(
            "fail", "asking a server needs parts that are not installed", installed_extras.install("client")
        )
    return "what it takes to ask a server is installed"


def _address(patient: ServerPatient) -> str:
    if not installed_extras.is_installed("client"):
        raise CheckProblem("skip", "it cannot be looked at")
    from strongroom.client.server_address import Address

    try:
        found = Address.of(patient.url, allow_cleartext=remote_memory.allow_cleartext(patient.run))
        found.transport_maker(remote_memory.ca_file(patient.run), None)
    except StrongroomError as error:
        raise remote_memory.in_shell_words(error) from None
    patient.address = found
    if remote_memory.allow_cleartext(patient.run) and found.base.startswith("http:") and found.socket is None:
        raise CheckProblem("warn", f"{found.shown}: caps and lines cross the network in clear", "use https://")
    return found.shown


def _reached(patient: ServerPatient) -> str:
    patient.health = patient.ask("GET", "/healthz")
    return "it answers" + (" over TLS" if patient.url.startswith("https:") else "")


def _is_one(patient: ServerPatient) -> str:
    health = patient.answered()
    refusal = health.refusal()
    if refusal is not None and refusal.reason == UnknownRoute.reason:
        raise CheckProblem("fail", "a strongroom answers, but not at this path", _PATH, refusal.reason)
    if refusal is not None and refusal.reason in BY_REASON:
        patient.is_strongroom = True
        raise CheckProblem("fail", f"it refuses to talk: {refusal.message}", refusal.hint, refusal.reason)
    theirs = _version_of(patient.ask("GET", "/openapi.json"))
    if health.status != 200 or theirs is None:
        where = health.headers.get("location", "")
        hint = (
            f"it points to {output.one_line(where)}" if where else "is the port right? `strongroom serve` says its own"
        )
        raise CheckProblem("fail", f"what answers is no strongroom (HTTP {health.status})", hint)
    patient.is_strongroom = True
    own = version("strongroom")
    if theirs != own:
        raise CheckProblem("warn", f"it is strongroom {output.one_line(theirs)}, and this is {own}", "use the same")
    return f"strongroom {own}, as this is"


def _version_of(described: ServerAnswer) -> str | None:
    """The version of the strongroom that describes itself so; None if it is none."""
    try:
        info = msgspec.json.decode(described.body)["info"]
        return str(info["version"]) if info["title"] == "Strongroom" else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
        return None


def _clock(patient: ServerPatient) -> str:
    told = patient.answered().headers.get("date", "")
    try:
        ahead = time.time() - parsedate_to_datetime(told).timestamp()
    except ValueError:
        raise CheckProblem("skip", "it does not tell its time") from None
    if abs(ahead) > _SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        raise CheckProblem(
            "warn",
            f"this machine's clock is {round(abs(ahead))} seconds {which} the server's",
            "set the clock that is wrong: caps that are narrowed here may not hold yet there, or have ended",
        )
    return "within a minute of the server's"


def _ready(patient: ServerPatient) -> str:
    patient.answered()
    if not patient.is_strongroom:
        raise CheckProblem("skip", "it is no strongroom, or not at this address")
    response = patient.ask("GET", "/readyz")
    refusal = response.refusal()
    if refusal is not None:
        raise CheckProblem(
            "fail", f"it is not ready: {refusal.message}", _MEND.get(refusal.reason, refusal.hint), refusal.reason
        )
    if response.status != 200:
        raise CheckProblem("fail", f"it is not ready (HTTP {response.status})", "its operator looks at its log")
    return "store, keys and log answer"


_MEND = {
    "store_unavailable": "where the vault is: is the disk full, or the vault moved? `strongroom doctor` looks",
    "key_unavailable": "where the vault is: put back its keys; `strongroom doctor` looks",
    "audit_unavailable": "where the vault is: `strongroom doctor`, and is the disk full?",
    "clock_behind": "set the clock of the server's machine",
    "tampered": "where the vault is: stop the server, keep the files, `strongroom audit verify`",
    "rate_limited": "wait a moment, then look again",
    "server_unavailable": "it is stopping or starting: look again in a moment",
}


def _cap(patient: ServerPatient) -> str:
    token = patient.run.given
    if token is None:
        raise CheckProblem(
            "warn", "no cap was given to look at", "name one with --cap-file; a server is asked with nothing else"
        )
    chain, said = parse(token), owner_cap.read_unverified(token)
    now = time.time()
    left = said.exp - now
    if left <= 0:
        raise CheckProblem("fail", f"the cap ended {output.in_words(left)}", "ask its owner for another", "cap_expired")
    if said.nbf > now:
        hint = "wait, or set this machine's clock"
        raise CheckProblem(
            "fail", f"the cap holds {output.in_words(said.nbf - now)} and not yet", hint, "cap_not_yet_valid"
        )
    if said.actor is None and said.data_class == DataClass.MEMORY:
        raise CheckProblem(
            "warn",
            f"the cap is for all of {said.actor_scope}, and opens nothing until it is narrowed to one actor",
            "`strongroom wire hermes --url` takes it as it is; else `strongroom cap attenuate --for ACTOR`",
            "cap_malformed",
        )
    names = ", ".join(sorted(said.namespaces)) or "nothing"
    about = f"{said.actor or said.actor_scope}: {', '.join(sorted(said.ops))} in {names}; ends {output.in_words(left)}"
    if left < _SOON and "renew" not in said.ops and len(chain.links) == 1 and said.exp - said.nbf > _SOON:
        raise CheckProblem("warn", about, "it cannot be renewed: ask its owner for another in time")
    return about


def _taken(patient: ServerPatient) -> str:
    """Show the cap to the server, with a body that is no call: it says what it thinks of the cap, and does nothing."""
    patient.answered()
    token = patient.run.given
    if token is None or not patient.is_strongroom:
        raise CheckProblem("skip", "there is no cap to show, or nobody to show it to")
    if not patient.use_cap:
        chain = parse(token)
        raise CheckProblem(
            "skip", f"whether the server is vault {chain.first.aud} and takes the cap shows with --use-cap"
        )
    kind = _allowed(parse(token))
    response = patient.ask(kind.method, kind.path, token=token, body=b'{"doctor":true}')
    refusal = response.refusal()
    if refusal is not None and refusal.reason in _TAKEN:
        return "the server takes the cap; that it was shown is on record there"
    reason = "" if refusal is None else refusal.reason
    message = f"HTTP {response.status}" if refusal is None else refusal.message
    if reason == UnknownRoute.reason:
        raise CheckProblem("fail", f"the server does not know the path of a call: {message}", _PATH, reason)
    raise CheckProblem("fail", f"the server refuses the cap: {message}", _ADVICE.get(reason, _ANOTHER), reason)


_ANOTHER = "ask its owner for another"
_ADVICE = {
    "cap_audience": "it is for another vault: is the address right, or the cap another server's?",
    "cap_revoked": "it was revoked: ask its owner for another",
    "cap_expired": "by the server's clock it has ended: ask its owner for another, or look at the clocks",
    "cap_not_yet_valid": "by the server's clock it does not hold yet: look at the clocks",
    "cap_signature_invalid": "another vault made it, its keys were replaced, or it was altered: ask for another",
    "rate_limited": "wait a moment, then look again",
}


def _allowed(chain: UnverifiedCap) -> type[api.Call[Any]]:
    """A call that the cap allows, as it says itself; its body makes sure that nothing comes of it."""
    said = effective(chain, "")
    for kind in api.CALLS:
        if kind.op in said.ops and kind.data_class == said.data_class and kind.method == "POST":
            return kind
    return api.Get


SERVER_CHECKS: tuple[tuple[str, Callable[[ServerPatient], str]], ...] = (
    ("Python", python),
    ("client", _client),
    ("address", _address),
    ("connection", _reached),
    ("server", _is_one),
    ("clock", _clock),
    ("ready", _ready),
    ("cap", _cap),
    ("cap there", _taken),
)
"""Each check of a server: its name, and how it looks. It returns what is well, or raises what is not."""
