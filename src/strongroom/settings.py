"""Finds the vault, its keys and the configuration file, and opens the vault with them.

- The vault is the one that the caller names. Otherwise it is at the path in `STRONGROOM_VAULT`, or at a default path in
  the user's data directory.
- The keys come from the environment, if it has any. Otherwise they come from the files in the vault's key directory,
  which may be encrypted with a passphrase.
- The configuration file is optional. It chooses the engine and the routing rules.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import msgspec
import platformdirs

from strongroom import routing
from strongroom.crypto.passphrase_file import PASSPHRASE_LEAST
from strongroom.errors import CapMissing, InvalidRequest, KeyUnavailable
from strongroom.keys import EnvironmentKeys, FileKeys, KeySource, PassphraseKeys, default_directory
from strongroom.routing import Rules
from strongroom.vault import create_open
from strongroom.vault.vault import Vault

Passphrase = Callable[[], str]
_PASSPHRASE_FILE = "STRONGROOM_PASSPHRASE_FILE"  # noqa: S105 - the name of a variable
_SECRET_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """The path of the vault, the path of the configuration file, and the engine and routing rules in that file.

    `engine` is None for the default engine, and `routing` is None for the default rules.
    """

    vault: str
    config: Path
    engine: str | None
    routing: Mapping[str, object] | None

    def rules(self) -> Rules:
        """The routing rules of the configuration file, or the default rules."""
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
    """Find the settings of this process. The path `vault` takes precedence over the environment."""
    if vault == "":
        raise InvalidRequest(
            "the path of the vault is empty", hint="give a path, or leave it out to use the default vault"
        )
    place = vault or os.environ.get("STRONGROOM_VAULT") or str(default_vault())
    config = config_path()
    file = _read(config)
    return Settings(place, config, file.engine, file.routing)


def default_vault() -> Path:
    """The default path of the vault, in the user's data directory."""
    return Path(platformdirs.user_data_dir("strongroom")) / "vault"


def config_path() -> Path:
    """The path of the configuration file, whether or not it exists."""
    given = os.environ.get("STRONGROOM_CONFIG")
    return Path(given) if given else Path(platformdirs.user_config_dir("strongroom")) / "config.toml"


def open_vault(settings: Settings, passphrase: Passphrase) -> Vault:
    """Open the vault with its keys. `passphrase` is called only if the keys are encrypted with a passphrase."""
    return create_open.open(settings.vault, keys=lambda vault: keys_of(vault, passphrase), **_engine(settings))


def open_or_create_vault(settings: Settings) -> Vault:
    """Open the vault. If there is no vault, make one with new keys. For a program without a terminal.

    A passphrase is read from the file that `STRONGROOM_PASSPHRASE_FILE` names. If that variable is set, the passphrase
    also encrypts new keys.
    """
    if in_environment() or not os.environ.get(_PASSPHRASE_FILE):
        return create_open.open(
            settings.vault, create=True, keys=lambda vault: keys_of(vault, _passphrase_in_file), **_engine(settings)
        )

    def keys(vault: str) -> KeySource:
        directory = default_directory(vault)
        if directory.exists():
            return keys_of(vault, _passphrase_in_file)
        check_new_passphrase(_passphrase_in_file())
        return PassphraseKeys(directory, _passphrase_in_file)

    return create_open.open(settings.vault, create=True, keys=keys, **_engine(settings))


def create_vault(settings: Settings, namespaces: Iterable[str], passphrase: Passphrase | None) -> Vault:
    """Create a vault, and open it. If a passphrase is given, the keys are encrypted with the passphrase."""
    if passphrase is not None and in_environment():
        raise InvalidRequest("the keys are in the environment, so a passphrase cannot protect them")

    def keys(vault: str) -> KeySource:
        if passphrase is not None:
            return PassphraseKeys(default_directory(vault), passphrase)
        return EnvironmentKeys() if in_environment() else FileKeys(default_directory(vault))

    return create_open.create(settings.vault, keys=keys, namespaces=namespaces, **_engine(settings))


def keys_of(vault: str, passphrase: Passphrase) -> KeySource:
    """The keys of a vault, by its id: from the environment, or from the files in its key directory."""
    directory = default_directory(vault)
    if in_environment():
        return EnvironmentKeys()
    return PassphraseKeys(directory, passphrase) if is_locked(directory) else FileKeys(directory)


def in_environment() -> bool:
    """Whether a variable in the environment holds a key."""
    return EnvironmentKeys.ROOT in os.environ or EnvironmentKeys.ISSUER in os.environ


def is_locked(directory: Path) -> bool:
    """Whether the key files in a directory are encrypted with a passphrase."""
    try:
        data = (directory / "root.keyring").read_bytes()
    except OSError:
        return False  # opening the vault reports the error
    return b'"kdf"' in data


def check_new_passphrase(passphrase: str) -> None:
    """Raise `InvalidRequest` if a passphrase for new keys is too short."""
    if len(passphrase) < PASSPHRASE_LEAST:
        raise InvalidRequest(
            f"the passphrase is too short: it needs at least {PASSPHRASE_LEAST} characters",
            hint="use a passphrase of several unrelated words",
        )


def read_secret(path: Path, what: str) -> str:
    """Read a cap or a passphrase from a file. A file that other users can read is refused."""
    refused = CapMissing if what == "cap" else KeyUnavailable
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(_SECRET_LIMIT)
    except OSError as error:
        hint = "check the path, or name another file"
        raise refused(f"cannot read the {what} file {path}: {error.strerror}", hint=hint) from None
    if stat.S_ISREG(status.st_mode):
        if status.st_uid not in (os.geteuid(), 0):
            raise refused(f"the {what} file {path} belongs to another user", hint="use a file that you own")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise refused(f"other users can read the {what} file {path}", hint=f"chmod 600 {path}")
    return data.decode("utf-8", "replace").rstrip("\r\n")


def _passphrase_in_file() -> str:
    place = os.environ.get(_PASSPHRASE_FILE)
    if not place:
        raise KeyUnavailable(
            "the keys are locked with a passphrase, and this program cannot ask for it",
            hint=f"put the passphrase into a file that only you can read, and set {_PASSPHRASE_FILE} to its path",
        )
    return read_secret(Path(place), "passphrase")


def _engine(settings: Settings) -> _Engine:
    return {} if settings.engine is None else {"engine": settings.engine}


def _read(path: Path) -> _File:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), _File)
    except FileNotFoundError:
        return _File()
    except OSError as error:
        raise InvalidRequest(f"cannot read the configuration file {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # raised for bad TOML, bad UTF-8 and bad fields
        fields = " and ".join(field.name for field in msgspec.structs.fields(_File))
        hint = f"the file may have {fields}; `strongroom route --write-default --out -` prints valid rules"
        raise InvalidRequest(f"the configuration file {path} is invalid: {error}", hint=hint) from None
