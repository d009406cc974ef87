"""Test vectors for keys, written from the specification (docs/spec/keys.md) and not with the code under test."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from scripts.vectors_inbox import bech32
from scripts.vectors_sealed import (
    ALICE,
    TRAVEL,
    VAULT,
    Case,
    Part,
    Vector,
    b64,
    b64url,
    case,
    cobblestone,
    compact,
    context,
    flipped,
    secret,
)


def root_id(key: bytes) -> str:
    return hashlib.sha256(b"strongroom root\0" + key).hexdigest()[:16]


def tag(key: bytes, *what: str) -> str:
    return b64url(hmac.digest(key, context(*what), "sha256")[:16])


def locator(name_key: bytes, *what: str) -> str:
    return hmac.digest(name_key, context(*what), "sha256")[:16].hex()


ROOT, NAME_KEY = secret("root key"), secret("name key")
RING, STRANGE_RING = {root_id(ROOT): ROOT.hex()}, {root_id(bytes(32)): bytes(32).hex()}
SHELF = locator(NAME_KEY, "namespace", ALICE, TRAVEL)


def vectors() -> Iterator[Case]:
    yield case("root-id", "root-id", "the id of a root key", key=ROOT.hex(), id=root_id(ROOT))
    for actor, namespace in ((ALICE, TRAVEL), ("local/bob", TRAVEL), (ALICE, "work")):
        yield case(
            f"locators-{actor.split('/')[1]}-{namespace}",
            "locators",
            "how an actor and a namespace are named in the store",
            name_key=NAME_KEY.hex(),
            actor=actor,
            namespace=namespace,
            actor_locator=locator(NAME_KEY, "actor", actor),
            namespace_locator=locator(NAME_KEY, "namespace", actor, namespace),
        )
    document = "notes/2026/trip.md"
    yield case(
        "locator-document",
        "document-locator",
        "how a document is named in the store",
        name_key=NAME_KEY.hex(),
        actor=ALICE,
        namespace=TRAVEL,
        key=document,
        locator=locator(NAME_KEY, "document", ALICE, TRAVEL, document),
    )
    key = secret("tag key")
    for parts in (["actor"], ["namespace", SHELF], ["object", "vault/format"]):
        yield case(f"tag-{parts[0]}", "tag", "an audit tag", key=key.hex(), parts=parts, tag=tag(key, *parts))
    yield from _secrets_vectors()
    yield from _document_vectors()
    yield from _keyring_vectors()
    yield from _passphrase_vectors()


def _secrets_vectors() -> Iterator[Case]:
    names, issuer = ("log_seed", "name_key", "tag_key", "record_key"), secret("issuer public key")
    plain = {"v": 1} | {name: b64(secret(name)) for name in names} | {"issuers": {"0123456789abcdef": b64(issuer)}}

    def document(vault: str = VAULT, content: object = plain) -> str:
        ctx = context("strongroom/vault-secrets/v1", vault, root_id(ROOT))
        sealed = cobblestone(ROOT, compact(content), ctx, secret("secrets salt", 24))
        return compact({"v": 1, "root": root_id(ROOT), "sealed": b64(sealed)}).decode()

    kind = "vault-secrets"
    where: Vector = {"vault": VAULT, "keyring": RING, "document": document()}
    opened = {name: secret(name).hex() for name in names} | {"issuers": {"0123456789abcdef": issuer.hex()}}
    yield case("secrets", kind, "the vault's own secrets", **where, secrets=opened)
    inbox = bech32("age-secret-key-", secret("inbox key")).upper()
    with_inbox = where | {"document": document(content=plain | {"generation": 1, "inbox": inbox})}
    yield case("secrets-inbox", kind, "with an inbox key", **with_inbox, secrets=opened | {"inbox": inbox})
    moved = where | {"document": document("0f0e0d0c0b0a0908")}
    yield case("secrets-moved", kind, "of another vault", "tampered", **moved)
    later = where | {"document": document(content=plain | {"v": 2})}
    yield case("secrets-version", kind, "of version 2", "tampered", **later)
    unknown = where | {"keyring": STRANGE_RING}
    yield case("secrets-unknown-root", kind, "sealed by a root that the keyring lacks", "key_unavailable", **unknown)


def _actor_document(vault: str = VAULT) -> dict[str, Any]:
    """The keys of alice after one rotation: actor epoch 2, and two epochs of her namespace travel."""
    key, epoch = secret("actor key"), 2

    def sealed(by: bytes, plain: bytes, *where: Part) -> str:
        return b64(cobblestone(by, plain, context(*where), secret(f"salt of {where}", 24)))

    def namespace_key(number: int) -> str:
        where = ("strongroom/namespace-key/v1", vault, ALICE, epoch, SHELF, number)
        return sealed(key, secret(f"travel {number}"), *where)

    root = root_id(ROOT)
    return {
        "v": 1,
        "epoch": epoch,
        "root": root,
        "actor": sealed(ROOT, ALICE.encode(), "strongroom/actor-name/v1", vault, root),
        "actor_key": sealed(ROOT, key, "strongroom/actor-key/v1", vault, ALICE, epoch, root),
        "tag_key": sealed(key, secret("tag key"), "strongroom/tag-key/v1", vault, ALICE, epoch),
        "namespaces": {SHELF: [{"epoch": number, "sealed": namespace_key(number)} for number in (1, 2)]},
    }


def _document_vectors() -> Iterator[Case]:
    document = _actor_document()
    where: Vector = {
        "vault": VAULT,
        "name_key": NAME_KEY.hex(),
        "locator": locator(NAME_KEY, "actor", ALICE),
        "keyring": RING,
        "document": compact(document).decode(),
    }
    opened = {
        "actor": ALICE,
        "epoch": 2,
        "actor_key": secret("actor key").hex(),
        "tag_key": secret("tag key").hex(),
        "namespaces": {SHELF: {"1": secret("travel 1").hex(), "2": secret("travel 2").hex()}},
    }

    def edited(name: str, description: str, body: Mapping[str, Any]) -> Case:
        changed = where | {"document": compact(body).decode()}
        return case(f"actor-{name}", "actor-document", description, "tampered", **changed)

    yield case("actor", "actor-document", "the keys of an actor, rotated once", **where, keys=opened)
    moved = where | {"locator": locator(NAME_KEY, "actor", "local/bob")}
    yield case("actor-moved", "actor-document", "moved to another actor's place", "tampered", **moved)
    unknown = where | {"keyring": STRANGE_RING}
    description = "sealed by a root that the keyring lacks"
    yield case("actor-unknown-root", "actor-document", description, "key_unavailable", **unknown)
    other = _actor_document("0f0e0d0c0b0a0908")
    yield edited("moved-vault", "copied from another vault of the same root", other)
    values = {"v": 2, "epoch": 1, "actor_key": document["tag_key"], "tag_key": document["actor_key"], "more": 1}
    for field, value in values.items():
        yield edited(f"edited-{field}", f"another {field}", document | {field: value})
    yield edited("epoch-negative", "an epoch that no context can hold", document | {"epoch": -1})
    yield edited("epoch-huge", "an epoch that no context can hold", document | {"epoch": 2**64})
    first, second = document["namespaces"][SHELF]
    crossed = [{"epoch": 1, "sealed": second["sealed"]}, {"epoch": 2, "sealed": first["sealed"]}]
    yield edited("crossed-epochs", "two epochs crossed", document | {"namespaces": {SHELF: crossed}})
    work = {locator(NAME_KEY, "namespace", ALICE, "work"): document["namespaces"][SHELF]}
    yield edited("moved-namespace", "a namespace's keys under another one", document | {"namespaces": work})


KEYRING = {"v": 1, "active": root_id(ROOT), "keys": {root_id(ROOT): b64(ROOT)}}


def _keyring_vectors() -> Iterator[Case]:
    content = compact(KEYRING).decode()
    yield case("keyring", "keyring", "a keyring file", content=content + "\n", active=root_id(ROOT), keys=RING)
    wrong = {
        "cut": content[:-9],
        "empty": "",
        "active": compact(KEYRING | {"active": "0" * 16}).decode(),
        "wrong-key": compact(KEYRING | {"keys": {root_id(ROOT): b64(bytes(32))}}).decode(),
        "version": compact(KEYRING | {"v": 2}).decode(),
    }
    for name, edited in wrong.items():
        yield case(f"keyring-{name}", "keyring", f"damaged: {name}", "key_unavailable", content=edited)


def _passphrase_vectors() -> Iterator[Case]:
    salt, passphrase = secret("passphrase salt", 16), "correct horse"
    key = Argon2id(salt=salt, length=32, iterations=3, lanes=4, memory_cost=65_536).derive(passphrase.encode())
    sealed = cobblestone(key, compact(KEYRING), context("strongroom/passphrase/v1"), secret("file salt", 24))
    cost = {"time_cost": 3, "memory_kib": 65_536, "lanes": 4}
    file = {"v": 1, "kdf": "argon2id"} | cost | {"salt": b64(salt), "sealed": b64(sealed)}

    def bad(name: str, description: str, passphrase: str = passphrase, /, **changed: Any) -> Case:
        given = {"content": compact(file | changed).decode(), "passphrase": passphrase}
        return case(f"passphrase-{name}", "passphrase", description, "key_unavailable", **given)

    given = {"content": compact(file).decode(), "passphrase": passphrase}
    description = "a keyring behind a passphrase"
    yield case("passphrase", "passphrase", description, **given, active=root_id(ROOT), keys=RING)
    yield bad("wrong", "another passphrase", "correct hors")
    yield bad("altered", "one bit of the sealed keyring turned", sealed=b64(flipped(sealed, 999)))
    for name, value in {"time_cost": 2, "memory_kib": 65_535, "lanes": 3}.items():
        yield bad(f"weak-{name}", f"{name} below the least that is accepted", **{name: value})
    for name, value in {"time_cost": 65, "memory_kib": 4_194_305, "lanes": 65}.items():
        yield bad(f"absurd-{name}", f"{name} above the most that is accepted", **{name: value})
    yield bad("kdf", "another function", kdf="argon2i")
