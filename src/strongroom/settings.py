"""The paths of the vault, its keys and the configuration file, and how to open the vault with them.

The vault: the one that the caller names, else `STRONGROOM_VAULT`, else a place in the user's data directory. Its keys:
those in the environment if there are any, else the files in the vault's key directory, which a passphrase may encrypt.
The configuration file is optional and chooses the engine and the routing rules.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import msgspec
import platformdirs

from strongroom import routing
from strongroom.errors import InvalidRequest
from strongroom.keys import EnvironmentKeys, FileKeys, KeySource, PassphraseKeys, default_directory
from strongroom.routing import Rules
from strongroom.vault import create_open
from strongroom.vault.vault import Vault

Passphrase = Callable[[], str]


@dataclass(frozen=True, slots=True)
class Settings:
    """The vault's place, its engine (None: the library's default), and its routing rules."""

    vault: str
    config: Path
    engine: str | None
    routing: Mapping[str, object] | None

    def rules(self) -> Rules:
        """The routing rules of the configuration file, or the default ones."""
        return _rules(self.routing)


class _Engine(TypedDict, total=False):
    engine: str


class _File(msgspec.Struct, forbid_unknown_fields=True):
    engine: str | None = None
    routing: dict[str, object] | None = None


def _rules(table: Mapping[str, object] | None) -> Rules:
    return routing.default_rules() if table is None else routing.rules(table)


def rules_in(text: str) -> Rules:
    """The routing rules in the text of a configuration file."""
    return _rules(msgspec.convert(tomllib.loads(text), _File).routing)


def find(vault: str | None = None) -> Settings:
    """The settings of this process. `vault` takes precedence over the environment."""
    if vault == "":
        raise InvalidRequest(
            "the path of the vault is empty", hint="give a path, or leave out --vault for the default one"
        )
    place = vault or os.environ.get("STRONGROOM_VAULT") or str(default_vault())
    config = config_path()
    file = _read(config)
    return Settings(place, config, file.engine, file.routing)


def default_vault() -> Path:
    """The vault's default path."""
    return Path(platformdirs.user_data_dir("strongroom")) / "vault"


def config_path() -> Path:
    """The path of the configuration file, whether or not it exists."""
    given = os.environ.get("STRONGROOM_CONFIG")
    return Path(given) if given else Path(platformdirs.user_config_dir("strongroom")) / "config.toml"


def open_vault(settings: Settings, passphrase: Passphrase) -> Vault:
    """Open the vault with its keys. `passphrase` is called only if they are encrypted with one."""
    return create_open.open(settings.vault, keys=lambda vault: keys_of(vault, passphrase), **_engine(settings))


def create_vault(settings: Settings, namespaces: Iterable[str], passphrase: Passphrase | None) -> Vault:
    """Create a vault and open it. Its keys are encrypted if a passphrase is given."""
    if passphrase is not None and in_environment():
        raise InvalidRequest("the keys are in the environment, so a passphrase cannot protect them")

    def keys(vault: str) -> KeySource:
        if passphrase is not None:
            return PassphraseKeys(default_directory(vault), passphrase)
        return EnvironmentKeys() if in_environment() else FileKeys(default_directory(vault))

    return create_open.create(settings.vault, keys=keys, namespaces=namespaces, **_engine(settings))


def keys_of(vault: str, passphrase: Passphrase) -> KeySource:
    """The keys of a vault, by its id: those in the environment, else the files in its key directory."""
    directory = default_directory(vault)
    if in_environment():
        return EnvironmentKeys()
    return PassphraseKeys(directory, passphrase) if is_locked(directory) else FileKeys(directory)


def in_environment() -> bool:
    """Whether the environment holds keys."""
    return EnvironmentKeys.ROOT in os.environ or EnvironmentKeys.ISSUER in os.environ


def is_locked(directory: Path) -> bool:
    """Whether the key files in a directory are encrypted with a passphrase."""
    try:
        data = (directory / "root.keyring").read_bytes()
    except OSError:
        return False  # opening the vault reports what is wrong
    return b'"kdf"' in data


def _engine(settings: Settings) -> _Engine:
    return {} if settings.engine is None else {"engine": settings.engine}


def _read(path: Path) -> _File:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), _File)
    except FileNotFoundError:
        return _File()
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # raised for bad TOML, bad UTF-8 and bad fields
        fields = " and ".join(field.name for field in msgspec.structs.fields(_File))
        hint = f"its fields are {fields}; `strongroom route --write-default --out -` prints valid rules"
        raise InvalidRequest(f"{path}: {error}", hint=hint) from None
