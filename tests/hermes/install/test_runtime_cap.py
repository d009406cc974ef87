"""A runtime's cap: each kind that will not do, then what one that will is good for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strongroom import Token, Vault, attenuate
from strongroom.errors import CapMalformed, CapRevoked, InvalidRequest, KeyUnavailable
from strongroom.hermes import cap_file, runtime_cap
from tests.conftest import Clock

SCOPE = "hermes/default/"
NAMES = ("personal", "travel")


@pytest.fixture
def minted(vault: Vault) -> Callable[..., Token]:
    def mint(**other: Any) -> Token:
        usual = {"actor_scope": SCOPE, "ops": cap_file.OPS, "namespaces": NAMES, "ttl": 3600}
        return vault.mint(**{**usual, **other})

    return mint


@pytest.mark.requirement("wire-cap-refused")
@pytest.mark.parametrize(
    "other",
    [
        {"data_class": "admin", "ops": ["mint", "revoke"]},
        {"actor_scope": None, "actor": "hermes/default/owner"},
        {"actor_scope": "hermes/coder/"},
        {"actor_scope": "hermes/default/telegram/"},
        {"ops": ["get", "list", "snapshot", "renew"]},
        {"namespaces": ["travel"]},
        {"delegable": False},
        {"max_depth": 0},
        {"session": "one"},
    ],
    ids=str,
)
def test_cap_that_will_not_do_is_refused(minted: Callable[..., Token], clock: Clock, other: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        runtime_cap.check(minted(**other), SCOPE, NAMES, clock() / 1000)


@pytest.mark.requirement("wire-cap-refused")
def test_cap_that_has_ended_is_refused(minted: Callable[..., Token], clock: Clock) -> None:
    token = minted()
    clock.move(3600)
    with pytest.raises(InvalidRequest):
        runtime_cap.check(token, SCOPE, NAMES, clock() / 1000)


def test_cap_for_no_namespace_is_refused(minted: Callable[..., Token], clock: Clock) -> None:
    with pytest.raises(InvalidRequest):
        runtime_cap.check(minted(), SCOPE, (), clock() / 1000)


def test_file_that_others_can_read_or_that_holds_no_cap_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "given.cap"
    with pytest.raises(InvalidRequest):
        runtime_cap.read_given(path)
    path.write_text("no cap\n")
    path.chmod(0o600)
    with pytest.raises(CapMalformed):
        runtime_cap.read_given(path)
    path.chmod(0o644)
    with pytest.raises(KeyUnavailable):
        runtime_cap.read_given(path)


def test_pipe_in_the_place_of_the_cap_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "runtime.cap"
    os.mkfifo(path, 0o600)
    for read in (cap_file.read, runtime_cap.read_held):
        with pytest.raises(KeyUnavailable):
            read(path)


def test_damaged_or_missing_cap_of_the_home_counts_as_none(tmp_path: Path) -> None:
    path = tmp_path / "runtime.cap"
    assert runtime_cap.read_held(path) is None
    path.write_text("damaged\n")
    path.chmod(0o600)
    assert runtime_cap.read_held(path) is None


def test_wider_scope_will_do(minted: Callable[..., Token], clock: Clock) -> None:
    runtime_cap.check(minted(actor_scope="hermes/"), SCOPE, NAMES, clock() / 1000)
    runtime_cap.check(minted(namespaces=[*NAMES, "work"]), SCOPE, NAMES, clock() / 1000)


def test_revoking_reaches_those_that_it_was_renewed_from(vault: Vault, minted: Callable[..., Token]) -> None:
    first, other = minted(), minted(actor_scope="hermes/coder/")
    actor = "hermes/default/owner"
    second = vault.memory(first).renew()
    assert runtime_cap.revoke(vault, second)
    for token in (first, second):
        with pytest.raises(CapRevoked):
            vault.memory(attenuate(token, actor=actor)).list()
    assert not runtime_cap.is_standing(vault, second)
    assert runtime_cap.is_standing(vault, other)
    assert not runtime_cap.revoke(vault, second)


@pytest.mark.requirement("wire-cap-judged")
def test_cap_of_an_issuer_key_that_was_replaced_does_not_stand(vault: Vault, minted: Callable[..., Token]) -> None:
    token = minted()
    assert runtime_cap.is_standing(vault, token)
    vault.rotate_issuer()
    assert not runtime_cap.is_standing(vault, token)


def test_renewed_cap_is_later_than_the_one_it_came_from(
    vault: Vault, minted: Callable[..., Token], clock: Clock
) -> None:
    first = minted()
    clock.move(60)
    second = vault.memory(first).renew()
    assert runtime_cap.is_later(second, first)
    assert runtime_cap.is_later(first, first)
    assert not runtime_cap.is_later(first, second)
    assert not runtime_cap.is_later(second, minted(namespaces=["travel"]))
