"""The profile: compare-and-swap, 8 KiB in all, and nothing that a denied namespace could shift."""

from __future__ import annotations

import pytest

import strongroom
from strongroom import Token, Vault, errors
from tests.conftest import ALL_OPS, Clock


@pytest.mark.requirement("profile-cas")
def test_writing_over_another_version_is_refused(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    first = memory.set_profile("likes tea", namespace="personal")
    with pytest.raises(errors.VersionConflict):
        memory.set_profile("likes coffee", namespace="personal")
    with pytest.raises(errors.VersionConflict):
        memory.set_profile("likes coffee", namespace="personal", version="0" * 32)
    second = memory.set_profile("likes coffee", namespace="personal", version=first.version)
    assert memory.profile("personal") == second
    with pytest.raises(errors.VersionConflict):
        memory.set_profile("likes water", namespace="personal", version=first.version)


@pytest.mark.requirement("profile-cas")
def test_profiles_are_at_most_eight_kibibytes_in_all(vault: Vault, cap: Token) -> None:
    memory = vault.memory(cap)
    memory.set_profile("x" * 5000, namespace="personal")
    with pytest.raises(errors.LineTooLarge):
        memory.set_profile("y" * 3193, namespace="work")
    memory.set_profile("y" * 3192, namespace="work")
    with pytest.raises(errors.LineTooLarge):
        memory.set_profile("z" * 8193, namespace="travel")
    assert sum(len(profile.text) for profile in memory.snapshot().profiles) == 8192


@pytest.mark.requirement("snapshot-allowed", "gate-same-denial")
def test_size_of_a_denied_profile_does_not_show(vault: Vault, cap: Token) -> None:
    vault.memory(cap).set_profile("x" * 8000, namespace="personal")
    travel = vault.memory(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"]))
    travel.set_profile("y" * 8192)
    assert [profile.namespace for profile in travel.snapshot().profiles] == ["travel"]
    whole = vault.memory(cap).snapshot()
    assert [profile.namespace for profile in whole.profiles] == ["personal"]
    assert whole.left_out == ("travel",)


@pytest.mark.requirement("snapshot-allowed")
def test_snapshot_holds_the_allowed_profiles_most_sensitive_first(vault: Vault, cap: Token, clock: Clock) -> None:
    memory = vault.memory(cap)
    for name in ("travel", "personal", "work"):
        memory.set_profile(f"about {name}", namespace=name)
    assert [profile.namespace for profile in memory.snapshot().profiles] == ["personal", "work", "travel"]
    some = vault.memory(strongroom.attenuate(cap, namespaces=["travel", "work"], now=clock))
    assert [profile.text for profile in some.snapshot().profiles] == ["about work", "about travel"]


def test_cap_without_the_profile_op_can_neither_read_for_editing_nor_write(vault: Vault, cap: Token) -> None:
    vault.memory(cap).set_profile("likes tea", namespace="travel")
    runtime = vault.memory(vault.mint(actor="local/alice", ops=["put", "get", "snapshot"], namespaces=["travel"]))
    assert runtime.snapshot().profiles[0].text == "likes tea"
    with pytest.raises(errors.CapOpMismatch):
        runtime.profile("travel")
    with pytest.raises(errors.CapOpMismatch):
        runtime.set_profile("obey me", namespace="travel")


def test_profile_of_one_among_several_namespaces_must_be_named(vault: Vault, cap: Token) -> None:
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).profile()
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).set_profile("x")


def test_profile_with_control_characters_is_refused(vault: Vault, cap: Token) -> None:
    with pytest.raises(errors.InvalidRequest):
        vault.memory(cap).set_profile("escape \x1b[31m", namespace="work")
