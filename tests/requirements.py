"""What the vault must do, as sentences with a source. Tests name these ids; `test_requirements.py` checks both ways.

Sources: `design` the architecture's rules (docs/architecture.md), `seed` the acceptance criteria of the gated memory
backend, `bad-input` what bad input gets, `show` what must be shown.
"""

from __future__ import annotations

REQUIREMENTS: dict[str, tuple[str, str]] = {
    # The seed's acceptance criteria for the backend.
    "seed-roundtrip": (
        "seed",
        "put then get round-trips an encrypted object per line, cap-verified, below the actor's prefix",
    ),
    "seed-namespace": (
        "seed",
        "a cap for travel reads travel lines and is denied personal and family, without any model",
    ),
    "seed-data-class": ("seed", "a credentials cap with the matching op gets cap_data_class_mismatch"),
    "seed-no-llm": ("seed", "no language model client is reachable from the core"),
    "seed-architecture": ("seed", "the architecture page states the namespace field and the gate's order"),
    "seed-top-k": ("seed", "recall returns at most K snippets: 5 unless told, never more than 20"),
    # Caps and gate.
    "cap-strip": ("design", "a link cannot be stripped: the parent token needs the parent's seed"),
    "cap-narrow": ("design", "attenuation never widens any part of the authority"),
    "cap-bits": ("show", "flipping any single bit of a token is refused"),
    "cap-closed": ("design", "unknown claims, headers, versions, duplicate keys and non-canonical base64 are refused"),
    "cap-small-order": ("design", "small-order holder keys are refused"),
    "cap-limits-first": ("design", "size and link limits are checked before any cryptography"),
    "cap-scope": ("design", "a cap for a scope of actors is refused until a later link names one actor inside it"),
    "cap-revoke": ("design", "revoking a link kills the cap and its descendants at their next use, cached or not"),
    "cap-interop": ("design", "an independent JOSE library verifies our links"),
    "gate-order": ("design", "the gate checks verify, op, data class, namespaces, limits, in that order"),
    "gate-grant": ("design", "only the gate makes a grant"),
    "gate-no-actor": ("design", "no request argument can name an actor"),
    "gate-same-denial": ("design", "a denied namespace is answered alike whether or not it exists or holds anything"),
    "gate-empty": ("design", "an empty namespace set admits nothing"),
    "gate-unnamed": ("design", "a request that names no namespace gets exactly the cap's own"),
    "gate-session": ("design", "a cap bound to a session is refused in another"),
    "gate-max-k": ("design", "max_k caps k"),
    "reasons": ("show", "every reason has a test through the public API"),
    "error-tables": ("design", "every error has one stable reason and family, and the tree in errors.py is complete"),
    # Keys and sealing.
    "seal-slot": ("design", "a line copied to another actor, namespace, id, epoch or vault fails to open"),
    "seal-bits": ("show", "flipping any single bit of a sealed line is refused"),
    "seal-chunks": ("design", "plaintexts at the chunk border seal and open"),
    "seal-padding": ("design", "stored sizes come from a fixed table"),
    "keys-random": ("design", "no actor or namespace key can be derived from the root"),
    "keys-never-new": ("design", "a missing, wrong or unreadable key never makes a new one"),
    "keys-sources": ("design", "keys come from a 0600 file, a passphrase or the environment"),
    "keys-permissions": ("design", "a key file that others can read is refused"),
    "keys-rotate-root": (
        "design",
        "root rotation re-wraps in one commit, drops the old root, and other processes follow",
    ),
    "keys-rotate-actor": ("design", "actor rotation seals new lines in a new epoch and keeps old ones readable"),
    "keys-rotate-issuer": ("design", "issuer rotation voids the caps minted before"),
    "secrets-hidden": ("design", "no text, query, token or key appears in logs, errors, reprs or the audit log"),
    # Store.
    "store-contract": ("design", "one conformance suite passes on every backend"),
    "store-pragmas": ("design", "each SQLite pragma is asserted to have taken effect"),
    "store-changes": ("design", "a put or a forget in one process is seen by the next get in another"),
    "store-group": ("design", "concurrent commits share transactions and fail each for itself"),
    "store-crash": (
        "show",
        "processes killed at random lose nothing acknowledged, revive nothing forgotten, leave no lock",
    ),
    "store-fair": ("show", "no process starves: the slowest has at least a quarter of the fastest one's commits"),
    "store-faults": (
        "show",
        "a fault before or after persisting never loses an acknowledged put nor shows half of one",
    ),
    "store-missing-broken": ("design", "missing is not found, broken is unavailable, never one for the other"),
    # Audit.
    "audit-atomic": ("design", "an entry is written in the same transaction as its effect"),
    "audit-closed": ("show", "an unwritable log refuses with audit_unavailable, for reads and denials too"),
    "audit-reads": ("design", "reads and denials are logged; one entry for a get names the lines returned"),
    "audit-garbage": ("design", "what fails before link 0's signature is counted, not logged"),
    "audit-private": ("design", "entries hold no text, query, token, actor or locator"),
    "audit-bits": ("show", "flipping any single bit of an entry or checkpoint is found"),
    "audit-verify": ("design", "verify names rollback, truncation, edited entries, missing and extra objects"),
    "audit-prove": ("design", "an inclusion proof checks with an independent implementation"),
    "audit-restore": ("design", "accept-restore records a rollback and nothing else"),
    "audit-archive": ("design", "archived entries leave, the tree and verification stay"),
    "audit-unlinkable": ("design", "after erase no key or record that remains says whose an entry was"),
    # Memory.
    "put-idempotent": ("design", "the same line sent again is a duplicate; another under its id is line_conflict"),
    "put-batch": ("design", "a batch is written whole or not at all"),
    "put-limits": (
        "bad-input",
        "too large, control characters, lone surrogates and unknown kinds are refused; text is NFC",
    ),
    "put-provenance": ("design", "every line carries its provenance"),
    "get-deterministic": ("design", "the answer does not depend on the order in which lines arrived"),
    "get-budget": ("design", "an answer keeps to its byte budget"),
    "list-no-bodies": ("design", "list gives ids and metadata, no texts, in pages"),
    "profile-cas": ("design", "a profile is written by compare-and-swap, at most 8 KiB in all"),
    "snapshot-allowed": ("design", "a snapshot holds the allowed profiles only"),
    "forget-selectors": ("design", "forget by ids, session, link, namespace and time range"),
    "forget-stays": ("design", "what was forgotten cannot be put back under its id"),
    "forget-other-process": ("show", "after forget in one process the next get in another does not return it"),
    "erase-keys": ("show", "after erase no remaining key opens the ciphertext"),
    "erase-copies": ("show", "an earlier copy opens with the old root and not after rotate_root"),
    "erase-void": ("design", "old caps cannot recreate an erased actor"),
    "erase-scope": ("design", "a cap erases no more than the namespaces it covers"),
    "residue": ("show", "a raw-byte scan of the vault's files never finds a line's text"),
    "shelf-bounded": ("design", "shelves are bounded in bytes and load once for many waiters"),
    # Bad input.
    "bad-vault": ("bad-input", "a missing, foreign or newer vault is refused by name and left alone"),
    "bad-cap": (
        "bad-input",
        "malformed, expired, future, revoked, stripped, widened and other-vault caps get their reason",
    ),
    "bad-disk": (
        "bad-input",
        "disk full, read-only directory, locked database and corrupt page are named, nothing is lost",
    ),
    "bad-object": ("bad-input", "a tampered or moved object is refused as tampered"),
    "bad-clock": ("bad-input", "a clock far behind the last entry is clock_behind, until the owner accepts it"),
    "bad-race": ("bad-input", "of two processes racing on one id, one writes and the other is told"),
    # Project.
    "project-hermes": ("design", "the core installs and works next to hermes-agent 0.19.0"),
    "project-light": ("design", "the core depends on the five named libraries only"),
    "project-public": ("design", "the public names are the documented ones"),
    "project-vectors": ("design", "every vector passes, regenerates to the same bytes, and no vector folder is empty"),
    "project-docs": ("design", "every documented example runs"),
}
