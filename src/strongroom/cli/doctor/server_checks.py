"""The checks of doctor for a server. Each returns a message if all is well, or raises `CheckProblem`.

The checks need no cap, and send a cap only with --use-cap. They treat the other side as unknown until its answer proves
that it is a Strongroom server.
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
from strongroom.cli import installed_extras, output, remote_memory
from strongroom.cli.doctor.server_request import ServerAnswer, ServerPatient
from strongroom.cli.doctor.vault_checks import CheckProblem, python
from strongroom.errors import BY_REASON, StrongroomError, UnknownRoute
from strongroom.model import DataClass
from strongroom.vault import owner_cap

_SKEW = 60
_SOON = 7 * 86_400
_PATH = "check the URL: it must end before the server's own paths, such as /healthz"
_TAKEN = frozenset(("invalid_request",))
"""The reasons with which a server refuses a malformed call. As the server checks the cap first, the cap is accepted."""


def _client(_: ServerPatient) -> str:
    if not installed_extras.is_installed("client"):
        raise CheckProblem("fail", "--url needs packages that are not installed", installed_extras.install("client"))
    return "the packages for --url are installed"


def _address(patient: ServerPatient) -> str:
    if not installed_extras.is_installed("client"):
        raise CheckProblem("skip", "the packages for --url are not installed")
    from strongroom.client.server_address import Address

    try:
        found = Address.of(patient.url, allow_cleartext=remote_memory.allow_cleartext(patient.run))
        found.transport_maker(remote_memory.ca_file(patient.run), None)
    except StrongroomError as error:
        raise remote_memory.in_shell_words(error) from None
    patient.address = found
    if remote_memory.allow_cleartext(patient.run) and found.base.startswith("http:") and found.socket is None:
        raise CheckProblem("warn", f"{found.shown}: caps and lines cross the network unencrypted", "use https://")
    return found.shown


def _reached(patient: ServerPatient) -> str:
    patient.health = patient.ask("GET", "/healthz")
    return "it answers" + (" over TLS" if patient.url.startswith("https:") else "")


def _is_one(patient: ServerPatient) -> str:
    health = patient.answered()
    refusal = health.refusal()
    if refusal is not None and refusal.reason == UnknownRoute.reason:
        raise CheckProblem("fail", "a Strongroom server answers, but not at this path", _PATH, refusal.reason)
    if refusal is not None and refusal.reason in BY_REASON:
        patient.is_strongroom = True
        raise CheckProblem("fail", f"it refuses the request: {refusal.message}", refusal.hint, refusal.reason)
    theirs = _version_of(patient.ask("GET", "/openapi.json"))
    if health.status != 200 or theirs is None:
        where = health.headers.get("location", "")
        port = "check the port; `strongroom serve` prints its own when it starts"
        hint = f"it redirects to {output.one_line(where)}: use that URL if it is right" if where else port
        raise CheckProblem("fail", f"the other side is not a Strongroom server (HTTP {health.status})", hint)
    patient.is_strongroom = True
    own = version("strongroom")
    if theirs != own:
        message = f"the server runs Strongroom {output.one_line(theirs)}, but this is {own}"
        raise CheckProblem("warn", message, "install the same version on both sides")
    return f"Strongroom {own}, the same version as here"


def _version_of(described: ServerAnswer) -> str | None:
    """The version in a Strongroom server's OpenAPI document. None if the text is not such a document."""
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
        raise CheckProblem("skip", "the server sends no date") from None
    if abs(ahead) > _SKEW:
        which = "ahead of" if ahead > 0 else "behind"
        raise CheckProblem(
            "warn",
            f"this machine's clock is {round(abs(ahead))} seconds {which} the server's",
            "correct the clock that is wrong: caps narrowed here may be not yet valid there, or already expired",
        )
    return "within a minute of the server's"


def _ready(patient: ServerPatient) -> str:
    patient.answered()
    if not patient.is_strongroom:
        raise CheckProblem("skip", "the other side is not a Strongroom server, or not at this path")
    response = patient.ask("GET", "/readyz")
    refusal = response.refusal()
    if refusal is not None:
        raise CheckProblem(
            "fail", f"it is not ready: {refusal.message}", _MEND.get(refusal.reason, refusal.hint), refusal.reason
        )
    if response.status != 200:
        raise CheckProblem("fail", f"it is not ready (HTTP {response.status})", "its operator can see why in its log")
    return "store, keys and log are working"


_MEND = {
    "store_unavailable": "on the server's machine, run `strongroom doctor`: the disk may be full, or the vault gone",
    "key_unavailable": "on the server's machine, put back the keys; `strongroom doctor` there says which",
    "audit_unavailable": "on the server's machine, run `strongroom doctor`: the disk may be full",
    "clock_behind": "correct the clock of the server's machine",
    "tampered": "on the server's machine, stop the server, keep the files, and run `strongroom audit verify`",
    "rate_limited": "wait a moment, then run doctor again",
    "server_unavailable": "it is starting or stopping: run doctor again in a moment",
}


def _cap(patient: ServerPatient) -> str:
    token = patient.run.given
    if token is None:
        raise CheckProblem(
            "warn", "no cap was given to check", "name one with --cap-file: every call to a server needs a cap"
        )
    chain, said = parse(token), owner_cap.read_unverified(token)
    now = time.time()
    left = said.exp - now
    if left <= 0:
        message = f"the cap ended {output.in_words(left)}"
        raise CheckProblem("fail", message, "ask the vault's owner for a new one", "cap_expired")
    if said.nbf > now:
        hint = "wait, or correct this machine's clock"
        raise CheckProblem(
            "fail", f"the cap is not valid yet: it starts {output.in_words(said.nbf - now)}", hint, "cap_not_yet_valid"
        )
    if said.actor is None and said.data_class == DataClass.MEMORY:
        raise CheckProblem(
            "warn",
            f"the cap is for all actors below {said.actor_scope} and opens nothing until it is narrowed to one of them",
            "narrow it with `strongroom cap attenuate --for ACTOR`; `strongroom wire hermes --url` takes it as it is",
            "cap_malformed",
        )
    names = ", ".join(sorted(said.namespaces)) or "nothing"
    about = f"{said.actor or said.actor_scope}: {', '.join(sorted(said.ops))} in {names}; ends {output.in_words(left)}"
    if left < _SOON and "renew" not in said.ops and len(chain.links) == 1 and said.exp - said.nbf > _SOON:
        raise CheckProblem("warn", about, "the cap cannot be renewed: ask the vault's owner for a new one in time")
    return about


def _taken(patient: ServerPatient) -> str:
    """Send the cap with a malformed call, so that the server checks the cap and does nothing."""
    patient.answered()
    token = patient.run.given
    if token is None or not patient.is_strongroom:
        raise CheckProblem("skip", "there is no cap to try, or no server to try it on")
    if not patient.use_cap:
        chain = parse(token)
        raise CheckProblem(
            "skip", f"add --use-cap to check that the server has vault {chain.first.aud} and accepts the cap"
        )
    kind = _allowed(parse(token))
    response = patient.ask(kind.method, kind.path, token=token, body=b'{"doctor":true}')
    refusal = response.refusal()
    if refusal is not None and refusal.reason in _TAKEN:
        return "the server accepts the cap; its log records the attempt"
    reason = "" if refusal is None else refusal.reason
    message = f"HTTP {response.status}" if refusal is None else refusal.message
    if reason == UnknownRoute.reason:
        raise CheckProblem("fail", f"the server has no API at this path: {message}", _PATH, reason)
    raise CheckProblem("fail", f"the server refuses the cap: {message}", _ADVICE.get(reason, _ANOTHER), reason)


_ANOTHER = "ask the vault's owner for a new one"
_ADVICE = {
    "cap_audience": "the cap is for another vault: check the URL and the cap file",
    "cap_revoked": "the cap was revoked: ask the vault's owner for a new one",
    "cap_expired": "by the server's clock the cap has ended: compare the clocks, or ask the vault's owner for a new"
    " one",
    "cap_not_yet_valid": "by the server's clock the cap is not valid yet: compare the clocks",
    "cap_signature_invalid": "another vault minted the cap, the vault's issuer key was replaced, or the cap was"
    " altered: ask the vault's owner for a new one",
    "rate_limited": "wait a moment, then run doctor again",
}


def _allowed(chain: UnverifiedCap) -> type[api.Call[Any]]:
    """The type of a call that the cap claims to allow, so that the server does not refuse the cap for its operation."""
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
"""The checks of a server in their order: the name and the function of each."""
