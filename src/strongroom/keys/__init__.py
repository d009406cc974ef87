"""Keys: where the root and issuer keys are stored, and the hierarchy of keys below them (docs/spec/keys.md).

    root ──seals── vault secrets (log key, name key, tag key, record key, issuer public keys)
      └────seals── actor key (random, per epoch) ──seals── namespace keys (random, per epoch)
                                                └──seals── the actor's audit-tag key

No key is derived from the root key, because a key that can be derived again cannot be destroyed. `sources` reads and
writes the root key and the issuer key, which are outside the vault. `hierarchy` makes and opens the other keys.
"""

from strongroom.keys.hierarchy import DOCUMENTS, ActorDocument, ActorKeys, Slots, VaultSecrets
from strongroom.keys.sources import (
    EnvironmentKeys,
    FileKeys,
    Keyring,
    KeySource,
    PassphraseKeys,
    default_directory,
)

__all__ = [
    "DOCUMENTS",
    "ActorDocument",
    "ActorKeys",
    "EnvironmentKeys",
    "FileKeys",
    "KeySource",
    "Keyring",
    "PassphraseKeys",
    "Slots",
    "VaultSecrets",
    "default_directory",
]
