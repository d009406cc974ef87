"""Observing: a name and a digest in the log, and nothing anywhere else."""

from __future__ import annotations

import hashlib

import pytest

from strongroom import Token, Vault, errors
from tests.conftest import ALL_OPS, NAMESPACES

DIGEST = hashlib.sha256(b'{"command": "ls"}').hexdigest()


@pytest.mark.requirement("observe-gated")
def test_cap_that_may_not_put_or_covers_no_namespace_observes_nothing(vault: Vault) -> None:
    others = [op for op in ALL_OPS if op != "put"]
    for ops, namespaces, reason in ((others, NAMESPACES, "cap_op_mismatch"), (ALL_OPS, [], "cap_namespace_denied")):
        memory = vault.memory(vault.mint(actor="local/alice", ops=ops, namespaces=namespaces))
        size = vault.audit.size()
        with pytest.raises(errors.Denied) as refused:
            memory.observe("terminal", DIGEST)
        assert refused.value.reason == reason
        ((_, entry),) = vault.audit.entries(size)
        assert entry is not None
        assert (entry.op, entry.decision, entry.reason, entry.detail) == ("put", "deny", reason, "")


@pytest.mark.requirement("observe-gated", "audit-private")
@pytest.mark.parametrize(
    "what", ["", " ", "a b", "Allergic to peanuts", "a\nb", "a\x00", "é", "x" * 65, "-x", ".", "\u202e"]
)
def test_non_name_does_not_come_into_the_log(vault: Vault, cap: Token, what: str) -> None:
    size = vault.audit.size()
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).observe(what, DIGEST)
    ((_, entry),) = vault.audit.entries(size)
    assert entry is not None
    assert (entry.decision, entry.reason, entry.detail) == ("deny", "invalid_request", "")


@pytest.mark.requirement("observe-gated")
@pytest.mark.parametrize(
    "what", ["terminal", "x", "mcp__files__read", "browser.click", "hermes/tool:v2@1+2-3", "_x", "y" * 64]
)
def test_deed_is_on_record_by_name_and_digest_and_nothing_is_stored(vault: Vault, cap: Token, what: str) -> None:
    memory = vault.memory(cap)
    memory.put("so that there are keys", namespace="work")
    before, size = vault.store.version(), vault.audit.size()
    memory.observe(what, DIGEST)
    ((_, entry),) = vault.audit.entries(size)
    assert entry is not None
    assert (entry.op, entry.decision, entry.detail) == ("put", "allow", f"did {what} {DIGEST}")
    assert (entry.count, entry.lines, entry.objects, entry.namespaces) == (0, (), (), ())
    assert entry.actor
    assert vault.store.version() == before
    assert len(memory.list().lines) == 1
    assert vault.audit.verify().ok


@pytest.mark.requirement("observe-gated")
def test_actor_that_never_put_anything_can_be_observed(vault: Vault, cap: Token) -> None:
    size = vault.audit.size()
    vault.memory(cap).observe("terminal", DIGEST)
    ((_, entry),) = vault.audit.entries(size)
    assert entry is not None
    assert (entry.actor, bool(entry.links), entry.detail) == ("", True, f"did terminal {DIGEST}")
