"""Asking a server for doctor: one request and its answer, and in plain words why there is none."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from strongroom import api
from strongroom.cli import remote_memory
from strongroom.cli.doctor.vault_checks import CheckProblem
from strongroom.cli.run_context import Run
from strongroom.errors import ServerUnavailable

if TYPE_CHECKING:
    import httpx

    from strongroom.client.server_address import Address

_SECONDS = 10.0
_UNAVAILABLE = ServerUnavailable.reason
_LIMIT = 4 << 20


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """What came back, as far as it is of interest here."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def refusal(self) -> api.Refusal | None:
        """The refusal that it is; None if it is something else."""
        try:
            return msgspec.json.decode(self.body, type=api.Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


@dataclass
class ServerPatient:
    """What the checks of a server have found out so far."""

    run: Run
    url: str
    use_cap: bool = False
    address: Address | None = None
    health: ServerAnswer | None = None
    is_strongroom: bool = False

    def answered(self) -> ServerAnswer:
        if self.health is None:
            raise CheckProblem("skip", "nothing answers")
        return self.health

    def ask(self, method: str, path: str, *, token: str = "", body: bytes | None = None) -> ServerAnswer:
        """One request and its answer, with a cap only if one is given here."""
        if self.address is None:
            raise CheckProblem("skip", "there is no address to ask")
        import httpx  # only now: without it the address was not looked at

        from strongroom.client.deadline import Deadline

        headers = {"Accept-Encoding": "identity", "Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        timeout = Deadline(_SECONDS).extension()
        request = httpx.Request(method, self.address.base + path, headers=headers, content=body, extensions=timeout)
        if self.address.socket is not None:
            _probe(self.address)
        transport = self.address.transport_maker(remote_memory.ca_file(self.run), None)()
        try:
            response = transport.handle_request(request)
            return ServerAnswer(response.status_code, response.headers, _start(response))
        except httpx.TransportError as error:
            raise _unreached(self.address, error) from None
        finally:
            transport.close()


def _probe(address: Address) -> None:
    """Connect to a unix socket and let go of it: where that fails, the HTTP library leaves its own end open."""
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(_SECONDS)
            one.connect(address.socket or "")
    except OSError as error:
        known = _explained(address, str(error))
        raise known or CheckProblem(
            "fail", f"{address.shown}: {error.strerror or error}", _RUNNING, _UNAVAILABLE
        ) from None


def _start(response: httpx.Response) -> bytes:
    """The body, or the start of one that no strongroom sends."""
    found = bytearray()
    for chunk in response.iter_raw():
        found += chunk
        if len(found) > _LIMIT:
            break
    response.close()
    return bytes(found)


def _unreached(address: Address, error: httpx.TransportError) -> CheckProblem:
    """Why a server cannot be reached, and what to do about it."""
    import httpx

    if known := _explained(address, str(error)):
        return known
    if isinstance(error, httpx.TimeoutException):
        hint = "is the address right, and does a firewall stand between?"
        return CheckProblem(
            "fail", f"{address.shown} does not answer within {_SECONDS:.0f} seconds", hint, _UNAVAILABLE
        )
    if isinstance(error, httpx.ConnectError):
        return CheckProblem("fail", f"{address.shown} cannot be reached: {error}", _RUNNING, _UNAVAILABLE)
    hint = "if it uses TLS, say https:// instead of http://; else it is no strongroom: look at the port"
    return CheckProblem("fail", f"{address.shown} breaks off the connection", hint, _UNAVAILABLE)


def _explained(address: Address, said: str) -> CheckProblem | None:
    """What the system's words mean; None if nobody has met them yet."""
    for part, message, hint in _CAUSES:
        if part in said:
            return CheckProblem("fail", f"{address.shown}: {message}", hint, _UNAVAILABLE)
    return None


_RUNNING = "is `strongroom serve` running there, and is the port right? It says both when it starts"
_CAUSES = (
    ("No such file", "there is no such socket", "start `strongroom serve --socket PATH`, or name the right path"),
    ("Permission denied", "you may not use this socket", "its owner can say --socket-mode 0660, with you in its group"),
    ("Connection refused", "nothing listens there", _RUNNING),
    ("Name or service not known", "no machine has this name", "look at the spelling, and at your DNS"),
    ("No address associated", "no machine has this name", "look at the spelling, and at your DNS"),
    ("Temporary failure in name resolution", "its name cannot be looked up now", "look at your network and DNS"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS on this port", "say http:// for loopback, or look at the port"),
    ("RECORD_LAYER_FAILURE", "it does not speak TLS on this port", "say http:// for loopback, or look at the port"),
    (
        "Hostname mismatch",
        "its certificate is for another name",
        "use the name that the certificate has, or have one made for this name",
    ),
    (
        "IP address mismatch",
        "its certificate is for a name, not for this address",
        "use the name that the certificate has",
    ),
    ("certificate has expired", "its certificate has ended", "its operator renews it"),
    ("certificate is not yet valid", "its certificate does not hold yet", "is this machine's clock right?"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is signed by nobody that this machine trusts",
        "for a private CA, name its certificate with --ca-file",
    ),
)
"""What the system or OpenSSL says, what it means, and what to do."""
