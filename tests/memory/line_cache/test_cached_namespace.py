"""The cached lines of a namespace count as the memory that they take."""

from __future__ import annotations

import pytest

from strongroom import Token, Vault


@pytest.mark.requirement("ram-bound")
def test_shelf_of_words_that_are_all_different_counts_as_what_it_takes(vault: Vault, cap: Token) -> None:
    rare = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(10_000))
    vault.memory(cap).put(rare, namespace="travel")
    vault.memory(cap).get("x", namespaces=["travel"])
    assert vault.usage().shelf_bytes > 1_000_000
