"""The audit log: every decision, in an RFC 6962 tree that cannot be edited unnoticed (docs/spec/audit.md).

`entry` is the format of a decision. `log` appends entries, signs checkpoints and proves entries. `verifier` finds
flaws. Entries hold tags (keyed hashes of names), link ids, operations, reasons, counts and hashes of ciphertext. They
never hold a text, a query or a token.
"""

from strongroom.audit.entry import Decision, Entry, Mark
from strongroom.audit.log import AuditLog, Witness
from strongroom.audit.verifier import Finding, Flaw, VerificationReport

__all__ = ["AuditLog", "Decision", "Entry", "Finding", "Flaw", "Mark", "VerificationReport", "Witness"]
