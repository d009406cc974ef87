"""One request to a server, for doctor: the server's answer, or a plain explanation why there is no answer."""

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
    """The parts of a server's answer that doctor needs."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def refusal(self) -> api.Refusal | None:
        """The error document in the body of the answer. None if the body is not an error document."""
        try:
            return msgspec.json.decode(self.body, type=api.Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


@dataclass
class ServerPatient:
    """The state that the checks of a server share: what is checked, and the findings of earlier checks."""

    run: Run
    url: str
    use_cap: bool = False
    address: Address | None = None
    health: ServerAnswer | None = None
    is_strongroom: bool = False

    def answered(self) -> ServerAnswer:
        if self.health is None:
            raise CheckProblem("skip", "the server was not reached")
        return self.health

    def ask(self, method: str, path: str, *, token: str = "", body: bytes | None = None) -> ServerAnswer:
        """Send one request. A cap is sent only if `token` is given. Raises `CheckProblem` if there is no answer."""
        if self.address is None:
            raise CheckProblem("skip", "there is no valid URL")
        import httpx  # an extra; without it there is no address and the check was skipped above

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
    """Connect to the unix socket and close the connection again.

    The test comes first because httpx would leave its socket open if connecting fails.
    """
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
    """The body of an answer, cut after a length that no Strongroom server exceeds."""
    found = bytearray()
    for chunk in response.iter_raw():
        found += chunk
        if len(found) > _LIMIT:
            break
    response.close()
    return bytes(found)


def _unreached(address: Address, error: httpx.TransportError) -> CheckProblem:
    """Explain why a server cannot be reached, and what to do about it."""
    import httpx

    if known := _explained(address, str(error)):
        return known
    if isinstance(error, httpx.TimeoutException):
        hint = "check the address, and whether a firewall is in between"
        return CheckProblem(
            "fail", f"{address.shown} does not answer within {_SECONDS:.0f} seconds", hint, _UNAVAILABLE
        )
    if isinstance(error, httpx.ConnectError):
        return CheckProblem("fail", f"{address.shown} cannot be reached: {error}", _RUNNING, _UNAVAILABLE)
    hint = "if the server uses TLS, write https:// instead of http://; otherwise check the port"
    return CheckProblem("fail", f"{address.shown} closes the connection without an answer", hint, _UNAVAILABLE)


def _explained(address: Address, said: str) -> CheckProblem | None:
    """Explain an error text of the system or of OpenSSL. None if the text is not in the table."""
    for part, message, hint in _CAUSES:
        if part in said:
            return CheckProblem("fail", f"{address.shown}: {message}", hint, _UNAVAILABLE)
    return None


_RUNNING = "check that `strongroom serve` runs there, and the port; it prints its URL when it starts"
_CAUSES = (
    ("No such file", "there is no such socket", "start `strongroom serve --socket PATH`, or name the right path"),
    (
        "Permission denied",
        "you may not use this socket",
        "the server's owner can start it with --socket-mode 0660 and put you in the socket's group",
    ),
    ("Connection refused", "nothing listens there", _RUNNING),
    ("Name or service not known", "no machine has this name", "check the spelling, and your DNS"),
    ("No address associated", "no machine has this name", "check the spelling, and your DNS"),
    ("Temporary failure in name resolution", "its name cannot be looked up now", "check your network and DNS"),
    ("WRONG_VERSION_NUMBER", "there is no TLS on this port", "write http:// for loopback, or check the port"),
    ("RECORD_LAYER_FAILURE", "there is no TLS on this port", "write http:// for loopback, or check the port"),
    (
        "Hostname mismatch",
        "its certificate is for another name",
        "use the name in the certificate, or get a certificate for this name",
    ),
    (
        "IP address mismatch",
        "its certificate is for a name, not for this address",
        "use the name in the certificate",
    ),
    ("certificate has expired", "its certificate has expired", "its operator has to renew it"),
    ("certificate is not yet valid", "its certificate is not valid yet", "check this machine's clock"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "this machine does not trust the issuer of its certificate",
        "for a private CA, name the CA's certificate with --ca-file",
    ),
)
"""For each known part of an error text from the system or OpenSSL: its meaning and a hint. The first match counts."""
