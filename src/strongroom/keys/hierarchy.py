"""The keys below the root: make, open, rotate and re-wrap them. Pure functions; randomness is an argument.

All keys of an actor are in one document, so that a single compare-and-swap creates, rotates or destroys them. The
document holds only wrapped keys under locators: it reveals neither the actor nor the names of namespaces.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Annotated, TypeVar

import msgspec

from strongroom.crypto.chunked_aead import KEY_SIZE, SALT_SIZE, Key, seal, unseal
from strongroom.crypto.hmac_state import HmacState, context
from strongroom.errors import Tampered
from strongroom.keys.sources import Keyring
from strongroom.model import Actor, Namespace

Random = Callable[[int], bytes]
T = TypeVar("T")
Epoch = Annotated[int, msgspec.Meta(ge=1, lt=2**32)]
_LOCATOR_SIZE = 16
_URLSAFE = bytes.maketrans(b"+/", b"-_")
_TAG_SIZE = 16
DOCUMENTS = "documents/"
"""The part of a document's name that follows its shelf's prefix."""
_LOCATORS_HELD = 4096
_TAGS_HELD = 256


class VaultSecrets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The vault's own keys and the issuers it accepts, encrypted as a whole under the root key.

    `generation` grows with every change, so that an older copy put back is detected. `inbox` is the age identity that
    opens bundles; a vault from a version without inboxes has none until its root key is rotated.
    """

    v: int
    log_seed: bytes
    name_key: bytes
    tag_key: bytes
    record_key: bytes
    issuers: dict[str, bytes]
    generation: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] = 0
    inbox: str = ""

    def __repr__(self) -> str:
        return "<vault secrets redacted>"

    @classmethod
    def new(cls, issuers: dict[str, bytes], random: Random, inbox: str = "") -> VaultSecrets:
        log, name, tag, record = (random(KEY_SIZE) for _ in range(4))
        return cls(v=1, log_seed=log, name_key=name, tag_key=tag, record_key=record, issuers=issuers, inbox=inbox)

    def with_inbox(self, identity: str) -> VaultSecrets:
        """These secrets with an inbox key. An existing one is kept, or bundles sealed to it would not open."""
        if self.inbox:
            return self
        return msgspec.structs.replace(self, inbox=identity, generation=self.generation + 1)

    def sealed(self, vault_id: str, ring: Keyring, random: Random) -> bytes:
        ctx = context("strongroom/vault-secrets/v1", vault_id, ring.active)
        body = seal(ring.key(ring.active), msgspec.json.encode(self), ctx, random(SALT_SIZE))
        return msgspec.json.encode(_Wrapped(v=1, root=ring.active, sealed=body))

    @classmethod
    def open(cls, body: bytes, vault_id: str, ring: Keyring) -> VaultSecrets:
        wrapped = decode(body, _Wrapped)
        ctx = context("strongroom/vault-secrets/v1", vault_id, wrapped.root)
        return decode(unseal(ring.key(wrapped.root), wrapped.sealed, ctx), cls)


class _Wrapped(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    v: int
    root: str
    sealed: bytes


class _Rooted(msgspec.Struct, frozen=True):
    v: int
    root: str


def root_of(document: bytes) -> str:
    """The id of the root key that wraps a vault's secrets or an actor's keys, read without opening them."""
    return decode(document, _Rooted).root


class Slots:
    """Names of objects in the store. Locators are HMACs, so without the name key they reveal nothing."""

    def __init__(self, name_key: bytes) -> None:
        self._keyed = HmacState(name_key)
        # One request needs the same few locators many times.
        self.actor = lru_cache(_LOCATORS_HELD)(self._actor)
        self.namespace = lru_cache(_LOCATORS_HELD)(self._namespace)

    def __repr__(self) -> str:
        return "<slots redacted>"

    def keys(self, actor: Actor) -> str:
        return f"actors/{self.actor(actor)}/keys"

    def shelf(self, actor: Actor, namespace: Namespace) -> str:
        """The prefix of all objects in one namespace of one actor."""
        return f"actors/{self.actor(actor)}/memory/{self.namespace(actor, namespace)}/"

    def document(self, actor: Actor, namespace: Namespace, key: str) -> str:
        """The name of a document's object."""
        return f"{self.shelf(actor, namespace)}{DOCUMENTS}{self._locator('document', actor, namespace, key)}"

    def _actor(self, actor: Actor) -> str:
        return self._locator("actor", actor)

    def _namespace(self, actor: Actor, namespace: Namespace) -> str:
        return self._locator("namespace", actor, namespace)

    def _locator(self, *what: str) -> str:
        return self._keyed.digest_of(*what)[:_LOCATOR_SIZE].hex()


class _Epoch(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    epoch: Epoch
    sealed: bytes


class ActorDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One actor's keys as stored: each key wrapped by the one above it, the actor's name by the root key."""

    v: int
    epoch: Epoch
    root: str
    actor: bytes
    actor_key: bytes
    tag_key: bytes
    namespaces: dict[str, tuple[_Epoch, ...]]


@dataclass(frozen=True, slots=True)
class ActorKeys:
    """One actor's keys, opened."""

    vault_id: str
    actor: Actor
    epoch: int
    actor_key: bytes
    tag_key: bytes
    namespaces: Mapping[str, Mapping[int, Key]]
    root: str = field(default="", compare=False)  # which root key wrapped them where they were read
    _tags: dict[tuple[str, ...], str] = field(default_factory=dict, compare=False)
    _births: dict[str, bytes] = field(default_factory=dict, compare=False)
    _keyed: HmacState = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_keyed", HmacState(self.tag_key))

    def __repr__(self) -> str:
        return "<actor keys redacted>"

    @classmethod
    def new(cls, vault_id: str, actor: Actor, random: Random) -> ActorKeys:
        return cls(vault_id, actor, 1, random(KEY_SIZE), random(KEY_SIZE), {})

    @classmethod
    def open(cls, body: bytes, vault_id: str, slots: Slots, locator: str, ring: Keyring) -> ActorKeys:
        """Open the document stored at `locator`. Raises `Tampered`, or `KeyUnavailable` without its root key."""
        stored = decode(body, ActorDocument)
        root = ring.key(stored.root)
        actor = Actor(unseal(root, stored.actor, _actor_name(vault_id, stored.root)).decode())
        if slots.actor(actor) != locator:
            raise Tampered("the keys of one actor were put in the place of another's")
        slot = _Slot(vault_id, actor, stored.epoch)
        actor_key = unseal(root, stored.actor_key, slot.actor_key(stored.root))
        tag_key = unseal(actor_key, stored.tag_key, slot.tag_key())
        namespaces = {
            locator: {
                one.epoch: Key(unseal(actor_key, one.sealed, slot.namespace_key(locator, one.epoch))) for one in epochs
            }
            for locator, epochs in stored.namespaces.items()
        }
        return cls(vault_id, actor, stored.epoch, actor_key, tag_key, namespaces, stored.root)

    def sealed(self, ring: Keyring, random: Random) -> bytes:
        """The document to store, wrapped with the active root key."""
        slot = _Slot(self.vault_id, self.actor, self.epoch)
        root = ring.key(ring.active)
        document = ActorDocument(
            v=1,
            epoch=self.epoch,
            root=ring.active,
            actor=seal(root, self.actor.encode(), _actor_name(self.vault_id, ring.active), random(SALT_SIZE)),
            actor_key=seal(root, self.actor_key, slot.actor_key(ring.active), random(SALT_SIZE)),
            tag_key=seal(self.actor_key, self.tag_key, slot.tag_key(), random(SALT_SIZE)),
            namespaces={
                locator: tuple(
                    _Epoch(
                        epoch=epoch,
                        sealed=seal(self.actor_key, key, slot.namespace_key(locator, epoch), random(SALT_SIZE)),
                    )
                    for epoch, key in epochs.items()
                )
                for locator, epochs in self.namespaces.items()
            },
        )
        return msgspec.json.encode(document)

    def with_namespace(self, locator: str, random: Random) -> ActorKeys:
        """These keys plus a first key for another namespace."""
        return self._having({**self.namespaces, locator: {1: Key(random(KEY_SIZE))}})

    def without_namespace(self, locator: str) -> ActorKeys:
        """These keys without those of one namespace, whose lines can then never be opened again."""
        return self._having({name: epochs for name, epochs in self.namespaces.items() if name != locator})

    def rotated(self, random: Random) -> ActorKeys:
        """These keys with a new actor key and a new epoch for each namespace. Old epochs stay readable."""
        namespaces = {
            locator: {**epochs, max(epochs) + 1: Key(random(KEY_SIZE))} for locator, epochs in self.namespaces.items()
        }
        return ActorKeys(self.vault_id, self.actor, self.epoch + 1, random(KEY_SIZE), self.tag_key, namespaces)

    def newest(self, locator: str) -> tuple[int, Key]:
        """The epoch and key for new lines."""
        epoch = max(self.namespaces[locator])
        return epoch, self.namespaces[locator][epoch]

    def birth(self, locator: str) -> bytes | None:
        """A digest of a namespace's first key. It survives rotations and changes with an erasure."""
        found = self._births.get(locator)
        epochs = self.namespaces.get(locator) if found is None else None
        if epochs:
            found = self._births[locator] = sha256(epochs[min(epochs)]).digest()
        return found

    def actor_tag(self) -> str:
        """The actor's tag in the log. Once its key is destroyed, nobody can tell whose entries have it."""
        return self._kept("actor")

    def namespace_tag(self, locator: str) -> str:
        return self._kept("namespace", locator)

    def object_tag(self, name: str) -> str:
        return tag(self._keyed, "object", name)

    def tags(self, locators: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """The audit tags of the actor, and of some of its namespaces."""
        return self.actor_tag(), tuple([self.namespace_tag(locator) for locator in locators])

    def object_tags(self, name: str) -> tuple[str, str]:
        """The audit tags of one of the actor's objects and of its namespace; the keys themselves are in none."""
        parts = name.split("/")
        return self.object_tag(name), "" if parts[2] == "keys" else self.namespace_tag(parts[3])

    def _kept(self, *what: str) -> str:
        found = self._tags.get(what)
        if found is None:
            if len(self._tags) >= _TAGS_HELD:  # bounded: a cap holder may ask for any number of names
                self._tags.clear()
            found = self._tags[what] = tag(self._keyed, *what)
        return found

    def _having(self, namespaces: Mapping[str, Mapping[int, Key]]) -> ActorKeys:
        return ActorKeys(self.vault_id, self.actor, self.epoch, self.actor_key, self.tag_key, namespaces)


@dataclass(frozen=True, slots=True)
class _Slot:
    """The AEAD contexts of an actor's keys. Each names its place, so a wrapped key opens in no other."""

    vault_id: str
    actor: Actor
    epoch: int

    def actor_key(self, root: str) -> bytes:
        return context("strongroom/actor-key/v1", self.vault_id, self.actor, self.epoch, root)

    def tag_key(self) -> bytes:
        return context("strongroom/tag-key/v1", self.vault_id, self.actor, self.epoch)

    def namespace_key(self, locator: str, epoch: int) -> bytes:
        return context("strongroom/namespace-key/v1", self.vault_id, self.actor, self.epoch, locator, epoch)


def _actor_name(vault_id: str, root: str) -> bytes:
    return context("strongroom/actor-name/v1", vault_id, root)


def tag(key: HmacState, *what: str) -> str:
    """A truncated HMAC in base64url: it identifies without revealing the name."""
    digest = key.digest_of(*what)[:_TAG_SIZE]
    return binascii.b2a_base64(digest, newline=False).translate(_URLSAFE, b"=").decode()


def decode(body: bytes, kind: type[T]) -> T:
    """Decode one of the vault's own documents. Raises `Tampered` if anything else is in its place."""
    try:
        document = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a key document is damaged") from None
    if getattr(document, "v", 1) != 1:
        raise Tampered("a key document has an unknown version")
    return document
