"""Find Hermes' homes on this machine. Hermes' layout is a root and named profiles below it.

The root is the default profile's home. If `HERMES_HOME` names a profile, the root is above it. Nothing is created here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strongroom.errors import InvalidRequest

DEFAULT = "default"
ALL = "all"
_NATIVE = ".hermes"
_PROFILES = "profiles"
_ACTIVE = "active_profile"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class HermesHome:
    """A Hermes home with its profile and its root."""

    path: Path
    profile: str
    root: Path


def find(home: str | None, profile: str | None, environ: Mapping[str, str], users_home: Path) -> tuple[HermesHome, ...]:
    """Find the homes that a command is for: by default the home that `hermes` itself would use. The profile `all` gives
    every home.
    """
    start = Path(home).expanduser() if home else _from_environment(environ, users_home)
    one = of(start, users_home)
    if profile is None:
        return (_there(one if home or _named(environ) else _active(one), named=not home and bool(_named(environ))),)
    name = profile.strip().lower()
    if name == ALL:
        return tuple(map(_there, [_profile(one.root, DEFAULT), *_profiles(one.root)]))
    return (_there(_profile(one.root, name)),)


def of(path: Path, users_home: Path) -> HermesHome:
    """The home at a path. Its profile follows from the path, as in Hermes."""
    path = Path(os.path.abspath(path))
    native = users_home / _NATIVE
    if path.parent.name == _PROFILES:
        name = path.name if _NAME.fullmatch(path.name) else "custom"
        return HermesHome(path, name, path.parent.parent)
    if path != native and path.resolve().is_relative_to(native.resolve()) and path.resolve() != native.resolve():
        return HermesHome(path, "custom", native)
    return HermesHome(path, DEFAULT, path)


def wire_command(path: Path, verb: str = "wire") -> str:
    """The command that wires the home at a path, for any profile and from any directory."""
    native = Path.home() / _NATIVE
    is_usual = path == native and not (native / _ACTIVE).exists()
    return f"strongroom {verb} hermes" if is_usual else f"strongroom {verb} hermes --home {shlex.quote(str(path))}"


def _from_environment(environ: Mapping[str, str], users_home: Path) -> Path:
    return Path(_named(environ) or users_home / _NATIVE)


def _named(environ: Mapping[str, str]) -> str:
    return environ.get("HERMES_HOME", "").strip()


def _active(root: HermesHome) -> HermesHome:
    """The home of the profile that `hermes profile use` made the default."""
    try:
        name = (root.path / _ACTIVE).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return root
    return _profile(root.path, name) if name and name != DEFAULT else root


def _profile(root: Path, name: str) -> HermesHome:
    if name == DEFAULT:
        return HermesHome(root, DEFAULT, root)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name[:80]!r} is not a profile name", hint="`hermes profile list` shows the names")
    return HermesHome(root / _PROFILES / name, name, root)


def _profiles(root: Path) -> list[HermesHome]:
    try:
        names = sorted(one.name for one in (root / _PROFILES).iterdir() if one.is_dir() and _NAME.fullmatch(one.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidRequest(f"cannot read the directory {root / _PROFILES}: {error.strerror}") from None
    return [_profile(root, name) for name in names]


def _there(home: HermesHome, *, named: bool = False) -> HermesHome:
    """Return the home if it exists and belongs to the current user; otherwise raise InvalidRequest.

    `named` means that the environment variable HERMES_HOME gave the path. The error then says so.
    """
    try:
        status = home.path.stat()
        os.listdir(home.path)
    except FileNotFoundError:
        hint = "`hermes setup` makes a home, `hermes profile create NAME` another; or name a home with --home"
        by = ", which HERMES_HOME names" if named else ""
        raise InvalidRequest(f"there is no Hermes home at {home.path}{by}", hint=hint) from None
    except OSError as error:
        raise InvalidRequest(
            f"{home.path} is not a Hermes home: {error.strerror}", hint="name the home with --home"
        ) from None
    if status.st_uid != os.geteuid():
        raise InvalidRequest(
            f"the Hermes home {home.path} belongs to another user",
            hint="run this command as the user who runs Hermes: the cap and the vault belong to that user",
        )
    if not os.access(home.path, os.W_OK | os.X_OK):
        raise InvalidRequest(
            f"you cannot write to the Hermes home {home.path}", hint="make the home writable for its user"
        )
    return home
