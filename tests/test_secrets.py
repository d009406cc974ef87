"""Marked secrets driven through every path, then searched for in logs, errors, reprs and the audit log."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, PassphraseKeys, Token, Vault
from strongroom.errors import StrongroomError
from tests.conftest import Clock

TEXT, QUERY, PROFILE, PHRASE = "marked-text", "marked-query", "marked-profile", "marked-phrase"


def _forms(secret: bytes) -> list[bytes]:
    """A secret as it might leak: raw, hex, and both base64 alphabets."""
    plain, url = base64.b64encode(secret).rstrip(b"="), base64.urlsafe_b64encode(secret).rstrip(b"=")
    return [secret, secret.hex().encode(), plain, url]


@pytest.mark.requirement("secrets-hidden", "audit-private")
def test_no_secret_shows_in_errors_reprs_logs_or_the_audit_log(
    vault: Vault, cap: Token, clock: Clock, keys: FileKeys, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    memory = vault.memory(cap)
    child = strongroom.attenuate(cap, namespaces=["work"], session=TEXT, now=clock)
    receipt = memory.put(TEXT, namespace="work", session=TEXT, author=TEXT)
    memory.set_profile(PROFILE, namespace="work")
    hits = memory.get(QUERY)
    assert hits[0].text == TEXT
    phrase = PassphraseKeys(tmp_path / "sealed", PHRASE)
    phrase.create()

    said: list[str] = []
    calls: list[Callable[[], object]] = [
        lambda: memory.get(QUERY + "\x00"),
        lambda: memory.get(QUERY, namespaces=["nowhere"]),
        lambda: memory.put(TEXT + "\x00", namespace="work"),
        lambda: memory.put(TEXT * 4000, namespace="work"),
        lambda: memory.put("other", namespace="work", id=receipt.id),
        lambda: memory.set_profile(PROFILE, namespace="work", version="nope"),
        lambda: vault.memory(child).get(QUERY, session="other"),
        lambda: vault.memory(cap[:-1]).get(QUERY),
        lambda: vault.memory(cap + "~" + TEXT).get(QUERY),
        lambda: PassphraseKeys(tmp_path / "sealed", PHRASE + "!").load(),
        lambda: strongroom.attenuate(cap + "x", ttl=5, now=clock),
    ]
    for call in calls:
        with pytest.raises(StrongroomError) as raised:
            call()
        said += [str(raised.value), repr(raised.value), raised.value.hint]
    state = vault._state
    held = state.held_keys(state.slots.actor(strongroom.actor_path("local", "alice")))
    assert held is not None
    shown = [vault, memory, cap, child, keys, phrase, keys.load(), state.records.secrets, held, held.keys, state.slots]
    said += [repr(thing) for thing in shown]
    said += [record.getMessage() for record in caplog.records]
    entries = b"\n".join(entry.encoded() for _, entry in vault.audit.entries() if entry is not None)
    everything = "\n".join(said).encode() + entries

    for mark in (TEXT, QUERY, PROFILE, PHRASE, "local/alice"):
        assert mark.encode() not in everything, mark
    for token in (cap, child):
        assert str(token).encode() not in everything
        assert token.rsplit("~", 1)[1].encode() not in everything
    secrets = state.records.secrets
    for secret in [
        *keys.load().keys.values(),
        keys.issuer(),
        secrets.log_seed,
        secrets.name_key,
        secrets.tag_key,
        secrets.record_key,
        held.keys.actor_key,
        held.keys.tag_key,
        *(key for epochs in held.keys.namespaces.values() for key in epochs.values()),
    ]:
        for form in _forms(secret):
            assert form not in everything
    locator = state.slots.actor(strongroom.actor_path("local", "alice"))
    assert locator.encode() not in entries


@pytest.mark.requirement("secrets-hidden")
def test_token_prints_as_itself_only_when_asked(cap: Token) -> None:
    assert repr(cap) == "<cap redacted>"
    assert "redacted" in f"{[cap]}"
    assert str.__str__(cap).count("~") == 1
