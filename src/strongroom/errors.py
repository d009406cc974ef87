"""Every error that a caller can get, grouped by the caller's next step.

StrongroomError
├── Denied            show another cap
│   ├── CapMissing              cap_missing
│   ├── CapMalformed            cap_malformed
│   ├── CapSignatureInvalid     cap_signature_invalid
│   ├── CapHolderProof          cap_holder_proof
│   ├── CapAudience             cap_audience
│   ├── CapExpired              cap_expired
│   ├── CapNotYetValid          cap_not_yet_valid
│   ├── CapRevoked              cap_revoked
│   ├── CapOpMismatch           cap_op_mismatch
│   ├── CapDataClassMismatch    cap_data_class_mismatch
│   ├── CapNamespaceDenied      cap_namespace_denied
│   └── CapLimitExceeded        cap_limit_exceeded
├── Invalid           change the request
│   ├── InvalidRequest          invalid_request
│   ├── LineTooLarge            line_too_large
│   ├── TooMany                 too_many
│   ├── BodyTooLarge            body_too_large
│   ├── UnknownNamespace        unknown_namespace   (only to the owner)
│   ├── VaultExists             vault_exists        (only at create)
│   ├── VaultFormat             vault_format        (only at open)
│   ├── FormatTooOld            format_too_old      (the owner raises the vault's format)
│   ├── ProviderRefused         provider_refused    (only from a host of providers)
│   ├── IdentityIncomplete      identity_incomplete (only from a host of providers)
│   ├── UnknownRoute            unknown_route       (only from a server, as are the next six)
│   ├── MethodRefused           method_refused
│   ├── MediaTypeRefused        media_type_refused
│   ├── HostRefused             host_refused
│   ├── OriginRefused           origin_refused
│   ├── RequestTooSlow          request_too_slow
│   └── HeadersTooLarge         headers_too_large
├── NotFound          it is not there
│   ├── LineNotFound            not_found
│   ├── VaultMissing            vault_missing       (only at open)
│   └── ProviderMissing         provider_missing    (only from a host of providers)
├── Conflict          read again, then decide
│   ├── LineConflict            line_conflict
│   ├── LineReplaced            line_replaced
│   └── VersionConflict         version_conflict
├── Tampered          stop and alarm            tampered
├── Unavailable       nothing is answered; a write is whole or absent
│   ├── AuditUnavailable        audit_unavailable
│   ├── StoreUnavailable        store_unavailable
│   ├── KeyUnavailable          key_unavailable
│   ├── FormatTooNew            format_too_new      (a newer version of strongroom wrote it)
│   ├── ClockBehind             clock_behind
│   ├── ProviderUnavailable     provider_unavailable (only from a host of providers: it says why)
│   ├── JournalUnavailable      journal_unavailable (only from a host of providers)
│   ├── RateLimited             rate_limited        (only from a server)
│   └── ServerUnavailable       server_unavailable  (it stops, is full, or cannot be reached)
└── ServerDefect      report it                 server_defect

A reason never changes after it was released. Messages may change, so no program may depend on them. A message never
contains the text of a line, a query, a key or a cap.
"""

from __future__ import annotations

from typing import ClassVar


class StrongroomError(Exception):
    """The base class of all errors that Strongroom raises on purpose.

    `links`, `actor` and `holder` are fields of the cap, for the log entry. They are set if the signature of the cap's
    first link is valid. `recorded` is True once the log has an entry for this error.
    """

    reason: ClassVar[str] = ""
    family: ClassVar[str] = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.add_note(hint)
        self.message = message
        self.hint = hint
        self.links: tuple[str, ...] = ()
        self.actor: str | None = None
        self.holder: str = ""
        self.recorded = False


class Denied(StrongroomError):
    """The cap does not allow the request."""

    family = "denied"


class CapMissing(Denied):
    reason = "cap_missing"


class CapMalformed(Denied):
    reason = "cap_malformed"


class CapSignatureInvalid(Denied):
    reason = "cap_signature_invalid"


class CapHolderProof(Denied):
    reason = "cap_holder_proof"


class CapAudience(Denied):
    reason = "cap_audience"


class CapExpired(Denied):
    reason = "cap_expired"


class CapNotYetValid(Denied):
    reason = "cap_not_yet_valid"


class CapRevoked(Denied):
    reason = "cap_revoked"
    erased = False
    """Whether the actor was erased, which made its caps void. Waiting for a new cap is then useless."""


class CapOpMismatch(Denied):
    reason = "cap_op_mismatch"


class CapDataClassMismatch(Denied):
    reason = "cap_data_class_mismatch"


class CapNamespaceDenied(Denied):
    reason = "cap_namespace_denied"


class CapLimitExceeded(Denied):
    reason = "cap_limit_exceeded"


class Invalid(StrongroomError):
    """The request is wrong in itself, and must be changed."""

    family = "invalid"


class InvalidRequest(Invalid):
    reason = "invalid_request"


class LineTooLarge(Invalid):
    reason = "line_too_large"


class TooMany(Invalid):
    reason = "too_many"


class BodyTooLarge(Invalid):
    reason = "body_too_large"


class UnknownNamespace(Invalid):
    reason = "unknown_namespace"


class VaultExists(Invalid):
    reason = "vault_exists"


class VaultFormat(Invalid):
    reason = "vault_format"


class FormatTooOld(Invalid):
    """The request needs a newer format of the vault. Its owner can raise the format when no older program uses it."""

    reason = "format_too_old"


class ProviderRefused(Invalid):
    reason = "provider_refused"


class IdentityIncomplete(Invalid):
    reason = "identity_incomplete"


class UnknownRoute(Invalid):
    reason = "unknown_route"


class MethodRefused(Invalid):
    reason = "method_refused"


class MediaTypeRefused(Invalid):
    reason = "media_type_refused"


class HostRefused(Invalid):
    reason = "host_refused"


class OriginRefused(Invalid):
    reason = "origin_refused"


class RequestTooSlow(Invalid):
    reason = "request_too_slow"


class HeadersTooLarge(Invalid):
    reason = "headers_too_large"


class NotFound(StrongroomError):
    """The requested thing does not exist. If the store could not be read, Unavailable is raised instead."""

    family = "not_found"


class LineNotFound(NotFound):
    reason = "not_found"


class VaultMissing(NotFound):
    reason = "vault_missing"


class ProviderMissing(NotFound):
    reason = "provider_missing"


class Conflict(StrongroomError):
    """Another writer was first, so nothing was written."""

    family = "conflict"


class LineConflict(Conflict):
    reason = "line_conflict"


class LineReplaced(Conflict):
    reason = "line_replaced"


class VersionConflict(Conflict):
    reason = "version_conflict"


class Tampered(StrongroomError):
    """Stored bytes differ from the bytes that were written. Stop, keep the files, and run `vault.audit.verify()`."""

    family = "tampered"
    reason = "tampered"


class Unavailable(StrongroomError):
    """The request could not be answered. The same call may succeed later. A write was stored wholly or not at all."""

    family = "unavailable"


class AuditUnavailable(Unavailable):
    reason = "audit_unavailable"


class StoreUnavailable(Unavailable):
    reason = "store_unavailable"


class KeyUnavailable(Unavailable):
    reason = "key_unavailable"


class FormatTooNew(Unavailable):
    """A newer version of strongroom wrote a line or document with members that this version would misread."""

    reason = "format_too_new"


class ClockBehind(Unavailable):
    reason = "clock_behind"


class ProviderUnavailable(Unavailable):
    reason = "provider_unavailable"


class JournalUnavailable(Unavailable):
    reason = "journal_unavailable"


class RateLimited(Unavailable):
    reason = "rate_limited"
    wait = 1
    """The number of seconds after which to try again."""


class ServerUnavailable(Unavailable):
    reason = "server_unavailable"


class ServerDefect(StrongroomError):
    """A bug in the server: it met an unexpected error. The server's own log names the type of the error."""

    family = "defect"
    reason = "server_defect"


def _leaves(cls: type[StrongroomError]) -> list[type[StrongroomError]]:
    below = [leaf for child in cls.__subclasses__() for leaf in _leaves(child)]
    return ([cls] if cls.reason else []) + below


BY_REASON: dict[str, type[StrongroomError]] = {leaf.reason: leaf for leaf in _leaves(StrongroomError)}
"""Each reason with its class. HTTP, MCP and the command line have a table of status codes over these reasons."""
