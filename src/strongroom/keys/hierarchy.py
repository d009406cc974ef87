"""The keys below the root key: makes, opens, rotates and re-encrypts them. The random function is an argument.

All keys of an actor are in one stored object, so that one compare-and-swap creates, rotates or destroys them. The
object holds only encrypted keys under pseudonyms (locators), so it reveals neither the actor nor the namespaces.
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
"""The part of a document's name in the store that follows the prefix of its namespace."""
_LOCATORS_HELD = 4096
_TAGS_HELD = 256


class VaultSecrets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The vault's own keys, and the issuers that it accepts. They are encrypted together under the root key.

    `generation` grows with every change. With it, an older copy that was put back is detected. `inbox` is the age
    identity that opens bundles. A vault made by a version without inboxes gets one when its root key is rotated.
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
        """The vault's secrets with an inbox key. An existing inbox key is kept, because bundles may be sealed to it."""
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
    """The id of the root key with which a vault's secrets or an actor's keys are encrypted. Nothing is decrypted."""
    return decode(document, _Rooted).root


class Slots:
    """The names of objects in the store. They consist of locators: pseudonyms, made by HMAC with the name key.

    Without the name key, the names reveal nothing.
    """

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
        """The prefix of the names of all objects in one namespace of one actor."""
        return f"actors/{self.actor(actor)}/memory/{self.namespace(actor, namespace)}/"

    def document(self, actor: Actor, namespace: Namespace, key: str) -> str:
        """The name of the object that holds a document."""
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
    """One actor's keys as they are stored.

    Each key is encrypted with the key above it, and the actor's name with the root key.
    """

    v: int
    epoch: Epoch
    root: str
    actor: bytes
    actor_key: bytes
    tag_key: bytes
    namespaces: dict[str, tuple[_Epoch, ...]]


@dataclass(frozen=True, slots=True)
class ActorKeys:
    """One actor's keys, decrypted."""

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
        """Open the keys that are stored for the actor at `locator`.

        Raises `Tampered` if they do not open, and `KeyUnavailable` if the keyring lacks their root key.
        """
        stored = decode(body, ActorDocument)
        root = ring.key(stored.root)
        actor = Actor(unseal(root, stored.actor, _actor_name(vault_id, stored.root)).decode())
        if slots.actor(actor) != locator:
            raise Tampered("the keys of one actor were put in the place of another actor's keys")
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
        """The stored form of these keys, encrypted with the active root key."""
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
        """These keys, with a first key for one more namespace."""
        return self._having({**self.namespaces, locator: {1: Key(random(KEY_SIZE))}})

    def without_namespace(self, locator: str) -> ActorKeys:
        """These keys without the keys of one namespace. Without them, the lines of that namespace never open again."""
        return self._having({name: epochs for name, epochs in self.namespaces.items() if name != locator})

    def rotated(self, random: Random) -> ActorKeys:
        """These keys with a new actor key and a new key for each namespace. Old namespace keys still open old lines."""
        namespaces = {
            locator: {**epochs, max(epochs) + 1: Key(random(KEY_SIZE))} for locator, epochs in self.namespaces.items()
        }
        return ActorKeys(self.vault_id, self.actor, self.epoch + 1, random(KEY_SIZE), self.tag_key, namespaces)

    def newest(self, locator: str) -> tuple[int, Key]:
        """The key for new lines of a namespace, with its number (epoch)."""
        epoch = max(self.namespaces[locator])
        return epoch, self.namespaces[locator][epoch]

    def birth(self, locator: str) -> bytes | None:
        """A digest of a namespace's first key. A rotation does not change it; after an erasure it is a new one."""
        found = self._births.get(locator)
        epochs = self.namespaces.get(locator) if found is None else None
        if epochs:
            found = self._births[locator] = sha256(epochs[min(epochs)]).digest()
        return found

    def actor_tag(self) -> str:
        """The actor's pseudonym (tag) in the log. Once its key is destroyed, nobody can tell which actor it meant."""
        return self._kept("actor")

    def namespace_tag(self, locator: str) -> str:
        return self._kept("namespace", locator)

    def object_tag(self, name: str) -> str:
        return tag(self._keyed, "object", name)

    def tags(self, locators: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        """The pseudonyms (tags) in the log for the actor and for some of its namespaces."""
        return self.actor_tag(), tuple([self.namespace_tag(locator) for locator in locators])

    def object_tags(self, name: str) -> tuple[str, str]:
        """The pseudonyms (tags) in the log for one of the actor's objects and for its namespace.

        The second tag is "" for the object with the keys, which belongs to no namespace.
        """
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
    """The encryption contexts of an actor's keys. Each context names a place, so an encrypted key opens only there."""

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
    """A pseudonym of a name for the log: a truncated HMAC in base64url, which does not reveal the name."""
    digest = key.digest_of(*what)[:_TAG_SIZE]
    return binascii.b2a_base64(digest, newline=False).translate(_URLSAFE, b"=").decode()


def decode(body: bytes, kind: type[T]) -> T:
    """Decode a stored object that holds keys. Raises `Tampered` if its content is no such object."""
    try:
        document = msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Tampered("a stored object with keys is damaged") from None
    if getattr(document, "v", 1) != 1:
        raise Tampered("a stored object with keys has an unknown version")
    return document
