"""Opens and creates the vault of a home, with this user's settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from strongroom import settings
from strongroom.errors import KeyUnavailable
from strongroom.model import DEFAULT_NAMESPACES
from strongroom.settings import Passphrase
from strongroom.vault.vault import Vault


class OwnVaults:
    """Opens and creates this user's vaults. `made` is called with a new vault, for example to mint the owner's cap."""

    def __init__(self, passphrase: Passphrase, made: Callable[[Vault], object] | None = None) -> None:
        self._passphrase, self._made = passphrase, made

    def open(self, place: str) -> Vault:
        return settings.open_vault(settings.find(place), self._passphrase)

    def create(self, place: str) -> Vault:
        vault = settings.create_vault(settings.find(place), DEFAULT_NAMESPACES, None)
        if self._made is not None:
            self._made(vault)
        return vault


def unasked() -> str:
    """Read the passphrase without a prompt, from the file that STRONGROOM_PASSPHRASE_FILE names."""
    place = os.environ.get("STRONGROOM_PASSPHRASE_FILE", "")
    try:
        return Path(place).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise KeyUnavailable(
            "the vault's keys are locked with a passphrase, and no readable file holds the passphrase",
            hint="name the file in STRONGROOM_PASSPHRASE_FILE, or run `strongroom wire hermes` in a terminal",
        ) from None
