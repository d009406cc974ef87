"""What an entry does not say, and what nobody can say of it once the actor is erased."""

from __future__ import annotations

import base64
import hmac
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.audit import Entry
from strongroom.crypto.hmac_state import context
from strongroom.model import Actor, Namespace
from tests.audit.tools import reason, stored_entries, stored_objects
from tests.conftest import ALL_OPS, NAMESPACES, Clock


def _all(vault: Vault) -> list[Entry]:
    return [entry for _, entry in vault.audit.entries() if entry is not None]


def _live(vault: Vault, token: Token, clock: Clock) -> list[str]:
    """Do everything once, with words that can be looked for. Returns what must stay out of the log."""
    memory = vault.memory(token, source="marked-source")
    kept = memory.put("marked-text one", namespace="travel", session="marked-session", author="marked-author")
    memory.put("marked-text two", namespace="work")
    memory.get("marked-query")
    memory.get(ids=[kept.id])
    memory.list(session="marked-session")
    profile = memory.set_profile("marked-profile", namespace="work")
    memory.set_profile("marked-profile again", namespace="work", version=profile.version)
    memory.snapshot()
    memory.forget(session="marked-session")
    memory.erase(["work"])
    narrowed = strongroom.attenuate(token, ops=["list"], namespaces=["travel"], label="marked-label", now=clock)
    denied = vault.memory(narrowed)
    assert reason(lambda: denied.get("marked-query")) == "cap_op_mismatch"
    assert reason(lambda: denied.list(namespaces=["marked-namespace"])) == "cap_namespace_denied"
    assert reason(lambda: memory.put("marked-text" + "x" * 40_000, namespace="work")) == "line_too_large"
    assert reason(lambda: memory.put("marked-text three", namespace="work", kind="marked-kind")) == "invalid_request"
    assert reason(lambda: vault.memory("marked-token").list()) == "cap_malformed"
    vault.mint(actor="marked-scope/other", ops=["get"], namespaces=["work"], label="marked-label")
    vault.rotate_actor("marked-actor/alice")
    vault.rotate_root()
    vault.rotate_issuer()
    return ["marked-", token, narrowed, *token.split("~"), *narrowed.split("~")]


@pytest.mark.requirement("audit-private", "secrets-hidden")
def test_no_entry_holds_a_text_query_token_name_or_locator(vault: Vault, tmp_path: Path, clock: Clock) -> None:
    token = vault.mint(actor="marked-actor/alice", ops=ALL_OPS, namespaces=NAMESPACES, label="marked-label")
    hidden = _live(vault, token, clock)
    slots, actor = vault._state.slots, Actor("marked-actor/alice")
    hidden += [slots.actor(actor), *(slots.namespace(actor, Namespace(name)) for name in NAMESPACES)]
    hidden += [f'"{name}"' for name in NAMESPACES]
    hidden += [name for name in stored_objects(tmp_path / "vault") if name.startswith("actors/")]
    entries = stored_entries(tmp_path / "vault")
    assert len(entries) > 20
    for data in entries:
        for secret in hidden:
            for form in (secret.encode(), base64.b64encode(secret.encode())[:-4], secret.encode().hex().encode()):
                assert len(form) < 4 or form not in data, (secret, data)


@pytest.mark.requirement("audit-private")
def test_entry_names_namespaces_and_objects_by_tags_that_need_the_actors_key(vault: Vault, cap: Token) -> None:
    """Two actors who do the same leave nothing in common but the operation."""
    other = vault.mint(actor="local/bob", ops=ALL_OPS, namespaces=NAMESPACES)
    for token in (cap, other):
        vault.memory(token).put("the very same text", namespace="travel", id="01JABCDEFGHJKMNPQRSTVWXYZ0")
    one, two = [entry for entry in _all(vault) if entry.op == "put"]
    assert one.actor
    assert not {one.actor, *one.namespaces} & {two.actor, *two.namespaces}
    assert not {mark.tag for mark in one.objects} & {mark.tag for mark in two.objects}
    assert not {mark.digest for mark in one.objects} & {mark.digest for mark in two.objects}
    assert {mark.shelf for mark in one.objects} & {mark.shelf for mark in two.objects} == {""}


# After an erasure.


def _keys_left(vault: Vault) -> Iterator[bytes]:
    """Every key that the vault and its key files still hold."""
    secrets = vault._state.records.secrets
    yield from (secrets.log_seed, secrets.name_key, secrets.tag_key, secrets.record_key)
    yield from vault._state.source.load().keys.values()
    yield vault._state.source.issuer()
    for actor in vault.actors():
        held = vault._state.keys_of(actor)
        assert held is not None
        yield from (held.keys.actor_key, held.keys.tag_key)
        yield from (key for epochs in held.keys.namespaces.values() for key in epochs.values())


def _tag(key: bytes, *what: str) -> str:
    digest = hmac.digest(key, context(*what), "sha256")[:16]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@pytest.mark.requirement("audit-unlinkable")
def test_keys_left_after_an_erasure_do_not_give_the_actors_tags(vault: Vault, cap: Token, clock: Clock) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    (put,) = [entry for entry in _all(vault) if entry.op == "put"]
    locator = vault._state.slots.namespace(Actor("local/alice"), Namespace("travel"))
    names = [name.name for name in vault._state.records.objects("actors/")]

    def reproduced() -> set[str]:
        made = {_tag(key, "actor") for key in _keys_left(vault)}
        made |= {_tag(key, "namespace", locator) for key in _keys_left(vault)}
        made |= {_tag(key, "object", name) for key in _keys_left(vault) for name in names}
        return made

    marked = {put.actor, *put.namespaces, *(mark.tag for mark in put.objects)}
    assert put.actor in reproduced()
    assert {mark.tag for mark in put.objects} <= reproduced()
    vault.erase("local/alice")
    clock.move(2)
    again = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(again).put("Trip to Chengdu", namespace="travel")
    assert not marked & reproduced()
    first, second = [entry for entry in _all(vault) if entry.op == "put"]
    assert first.actor != second.actor
    assert not set(first.namespaces) & set(second.namespaces)


@pytest.mark.requirement("audit-unlinkable")
def test_erased_namespace_keeps_the_actors_tag_and_nothing_else_changes(vault: Vault, cap: Token) -> None:
    vault.memory(cap).put("before", namespace="travel")
    vault.memory(cap).erase(["travel"])
    vault.memory(cap).put("after", namespace="travel")
    first, second = [entry for entry in _all(vault) if entry.op == "put"]
    assert first.actor == second.actor


@pytest.mark.requirement("audit-unlinkable")
def test_cap_records_left_after_an_erasure_do_not_say_whose_a_logged_link_was(vault: Vault, cap: Token) -> None:
    """Entries name link ids. A cap record that still names the actor would name all of its entries."""
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    vault.memory(cap).list()
    vault.erase("local/alice")
    logged = {link for entry in _all(vault) for link in entry.links}
    named = {record.link for record in vault.caps() if record.actor == "local/alice"}
    assert not logged & named


@pytest.mark.requirement("audit-unlinkable", "erase-copies")
def test_copy_made_before_still_links_with_the_old_root_and_not_after_rotation(
    vault: Vault, cap: Token, keys: FileKeys, tmp_path: Path, clock: Clock
) -> None:
    """The promise that the documents make: an earlier copy is closed by replacing the root, and by nothing less."""
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    put = next(entry for entry in _all(vault) if entry.op == "put")
    assert vault.scrub()
    shutil.copytree(tmp_path / "vault", tmp_path / "copy")
    vault.erase("local/alice")
    with strongroom.open(tmp_path / "copy", keys=keys, now=clock) as copy:
        held = copy._state.keys_of(Actor("local/alice"))
        assert held is not None
        assert held.keys.actor_tag() == put.actor
    vault.rotate_root()
    assert reason(lambda: strongroom.open(tmp_path / "copy", keys=keys, now=clock)) == "key_unavailable"
