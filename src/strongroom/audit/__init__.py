"""The audit log: every decision, in an RFC 6962 tree that cannot be edited unnoticed (docs/spec/audit.md).

`entry` is the format of a decision, `log` appends, signs and proves, `verifier` finds flaws. Entries hold tags, link
ids, operations, reasons, counts and hashes of ciphertext; never text, query or token.
"""

from strongroom.audit.entry import Decision, Entry, Mark
from strongroom.audit.log import AuditLog, Witness
from strongroom.audit.verifier import Finding, Flaw, VerificationReport

__all__ = ["AuditLog", "Decision", "Entry", "Finding", "Flaw", "Mark", "VerificationReport", "Witness"]
