"""Reads and seals the vault's own records: its format, its secrets, its list of namespaces, and records of caps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from strongroom.crypto import line_encryption
from strongroom.crypto.hmac_state import HmacState
from strongroom.errors import KeyUnavailable, Tampered, VaultFormat
from strongroom.keys import Keyring, KeySource, VaultSecrets
from strongroom.keys.hierarchy import tag
from strongroom.model import CapRecord, Millis, Namespace
from strongroom.store import Object, Store, Version

FORMAT = "vault/format"
SECRETS = "vault/secrets"
NAMESPACES = "vault/namespaces"
REVOKED = "vault/revoked/"
STANDING = "vault/standing/"
ARCHIVED = "vault/archived"
ACTORS = "actors/"

_PAGE = 1000
_NAMES = 10_000

T = TypeVar("T")


FORMATS = (1, 2)
"""The formats of a vault that this version reads. In format 2, lines may have details (docs/spec/line.md)."""


class VaultFormatRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The vault's only unencrypted object: it has the number of the vault's format, and the vault's id."""

    v: int
    vault: str
    created: Millis

    @classmethod
    def decoded(cls, stored: Object | None) -> VaultFormatRecord:
        """Decode the stored record. Raises `Tampered` if it is damaged, and `VaultFormat` if the vault is too new."""
        try:
            record = msgspec.json.decode((stored and stored.body) or b"", type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            hint = "keep the files as they are; if this was a vault, restore a backup"
            raise Tampered("this is not a vault, or its format record is damaged", hint=hint) from None
        if record.v not in FORMATS:
            raise VaultFormat(
                f"the vault has format {record.v}, but this version of strongroom reads only up to {FORMATS[-1]}",
                hint="install a newer strongroom; nothing was changed",
            )
        # The id becomes part of the path of the keys, and anyone who can write the vault can write this record.
        if not re.fullmatch(r"[0-9a-f]{16}", record.vault):
            raise Tampered("the vault's format record is damaged")
        return record


class NamespaceRegistry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The stored list of the vault's namespaces, most sensitive first."""

    names: tuple[Namespace, ...]


class VaultRecords:
    """Opens and seals the vault's own records, and lists objects of the store by name."""

    secrets: VaultSecrets
    secrets_version: Version
    namespaces: tuple[Namespace, ...]

    def __init__(
        self,
        vault_id: str,
        store: Store,
        source: KeySource,
        random: Callable[[int], bytes],
        ring: Keyring | None = None,
    ) -> None:
        self._vault_id = vault_id
        self._store = store
        self._source = source
        self._random = random
        self._ring = ring
        self._generation = 0
        self._format = 0
        self.load_secrets()
        self.load_registry()

    def ring(self) -> Keyring:
        if self._ring is None:
            self._ring = self._source.load()
        return self._ring

    def use_ring(self, ring: Keyring) -> None:
        """Use this keyring from now on. Called when this process has just written it."""
        self._ring = ring

    def load_secrets(self) -> None:
        stored = self._store.get(SECRETS)
        if stored is None or stored.body is None:
            raise Tampered(
                "the vault has lost its secrets", hint="restore a backup, because the secrets cannot be made again"
            )
        body = stored.body
        found = self.with_ring(lambda ring: VaultSecrets.open(body, self._vault_id, ring))
        if found.generation < self._generation:  # otherwise a rotated-out issuer would be back
            raise Tampered(
                "older secrets of the vault were put back",
                hint="run vault.audit.verify(), which names the damaged objects",
            )
        self.secrets, self._generation, self._tagging = found, found.generation, HmacState(found.tag_key)
        self.secrets_version = stored.version

    def with_ring(self, use: Callable[[Keyring], T]) -> T:
        """Call `use` with the keyring. If `use` misses a key, read the keyring again and call `use` once more.

        Another process may have rotated the root key, which gives a new keyring.
        """
        try:
            return use(self.ring())
        except KeyUnavailable:
            self._ring = None
            return use(self.ring())

    def load_registry(self) -> None:
        self.namespaces = self.open(NAMESPACES, NamespaceRegistry).names

    @property
    def format(self) -> int:
        """The number of the vault's format. In this process it never falls, even if an old record is put back."""
        if not self._format:
            self.load_format()
        return self._format

    def load_format(self) -> None:
        """Read the vault's format from the store again."""
        self._format = max(VaultFormatRecord.decoded(self._store.get(FORMAT)).v, self._format)

    def open(self, name: str, kind: type[T]) -> T:
        """Read one of the vault's own sealed records. Raises Tampered if the record is missing."""
        stored = self._store.get(name)
        if stored is None or stored.body is None:
            raise Tampered(
                "one of the vault's own records is missing",
                hint="run vault.audit.verify(), which names the damaged objects",
            )
        return line_encryption.open_record(stored.body, name, self._vault_id, self.secrets.record_key, kind)

    def seal(self, name: str, record: msgspec.Struct) -> bytes:
        """Seal a record of the vault. It can be opened only under the same name."""
        return line_encryption.seal_record(record, name, self._vault_id, self.secrets.record_key, self._random(24))

    def cap_record(self, thing: Object) -> CapRecord:
        """Open the stored record of a cap."""
        return line_encryption.open_record(
            thing.body or b"", thing.name, self._vault_id, self.secrets.record_key, CapRecord
        )

    def objects(self, prefix: str, after: str = "", last: str | None = None, most: int = _PAGE) -> Iterator[Object]:
        """All objects below `prefix` with names after `after` and up to `last`, including tombstones.

        They are read in pages of `most` objects, so that a caller that stops early does not read them all.
        """
        while page := self._store.list(prefix, after, most):
            for thing in page:
                if last is not None and thing.name > last:
                    return
                yield thing
            after = page[-1].name
            if last is not None and after >= last:
                return

    def names(self, prefix: str) -> Iterator[Object]:
        """All objects below `prefix` without their bodies, including tombstones."""
        after = ""
        while page := self._store.names(prefix, after, _NAMES):
            yield from page
            after = page[-1].name

    def vault_tag(self, name: str) -> str:
        """The pseudonym (tag) with which the log names one of the vault's own objects."""
        return tag(self._tagging, "object", name)
