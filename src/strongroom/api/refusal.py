"""An error as it travels from the vault to a client, and the HTTP status of each reason."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from strongroom.errors import BY_REASON, CapRevoked, ServerDefect, StrongroomError


class Refusal(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error as it travels from the vault to a client: its family, its stable reason, a sentence, and a hint if there
    is one.
    """

    error: str
    reason: str
    message: str
    hint: str = ""
    erased: bool = False
    """Only with the reason `cap_revoked`: True if all data of the actor is gone, as after an erasure."""

    @classmethod
    def of(cls, error: StrongroomError) -> Refusal:
        erased = isinstance(error, CapRevoked) and error.erased
        return cls(error.family, error.reason, error.message, error.hint, erased)

    def raised(self) -> StrongroomError:
        """Make the exception that the vault raised on the other side."""
        error = BY_REASON.get(self.reason, ServerDefect)(self.message, hint=self.hint)
        if isinstance(error, CapRevoked):
            error.erased = self.erased
        return error


STATUS: Mapping[str, int] = {
    "invalid_request": 400,
    "line_too_large": 400,
    "too_many": 400,
    "unknown_namespace": 400,
    "format_too_old": 400,
    "cap_missing": 401,
    "cap_malformed": 401,
    "cap_signature_invalid": 401,
    "cap_holder_proof": 401,
    "cap_audience": 401,
    "cap_expired": 401,
    "cap_not_yet_valid": 401,
    "cap_revoked": 401,
    "cap_op_mismatch": 403,
    "cap_data_class_mismatch": 403,
    "cap_namespace_denied": 403,
    "cap_limit_exceeded": 403,
    "origin_refused": 403,
    "not_found": 404,
    "unknown_route": 404,
    "method_refused": 405,
    "request_too_slow": 408,
    "line_conflict": 409,
    "line_replaced": 409,
    "version_conflict": 412,
    "body_too_large": 413,
    "media_type_refused": 415,
    "host_refused": 421,
    "rate_limited": 429,
    "headers_too_large": 431,
    "tampered": 500,
    "server_defect": 500,
    "audit_unavailable": 503,
    "store_unavailable": 503,
    "key_unavailable": 503,
    "format_too_new": 503,
    "clock_behind": 503,
    "server_unavailable": 503,
}
"""The HTTP status of each reason that a server can give. Reasons of creating and opening a vault are not here, because
no server gives them.
"""
