"""The paths of a home's cap, spool and former settings, all in Strongroom's own directory.

The policy helps to find these files again after the home was moved. An agent's tools can write to the policy, so
nothing else in the policy is trusted. The paths are computed here and never copied from the policy.

A file in the state directory names the home that the directory belongs to. The file no longer counts if that home or
its policy is gone.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import platformdirs

from strongroom.errors import KeyUnavailable
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.policy import FILE, Policy
from strongroom.private_files import make_directory, open_file, write_file

_CAP, _STATE, _BEFORE, _WHOSE = "runtime.cap", "state", "before.json", "home"
_LIMIT = 16 * 1024


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one home's files. They lie outside the home, because backups copy the home."""

    cap: Path
    state: Path
    before: Path
    whose: Path
    """The file that holds the path of the home to which these paths belong."""


def places_of(home: HermesHome) -> Places:
    """The default paths of a home, computed from the home's own path.

    Another directory is chosen if a moved home still uses the first one.
    """
    mine = _real(home)
    return next(
        found
        for number in count()
        if _holder(found := _below(_base() / f"{home.profile}-{_short(mine, number)}")) in (None, mine)
    )


def _short(path: bytes, number: int) -> str:
    return hashlib.sha256(path + b"\0" * number).hexdigest()[:8]


def places_named_by(policy: Policy, home: HermesHome) -> Places | None:
    """The paths that a policy names, if they belong to this home or to a home that no longer exists; otherwise None."""
    found = _spelled(policy, home.profile)
    if found is None or found == places_of(home):
        return found
    return found if _said(found) and _holder(found) in (None, _real(home)) else None


def is_anothers(policy: Policy, home: HermesHome) -> bool:
    """Whether a policy was written for another home that may still exist. This happens if a profile was copied."""
    return policy.profile != home.profile or _holder(_below(policy.cap.parent)) not in (None, _real(home))


def _spelled(policy: Policy, profile: str) -> Places | None:
    """The paths that a policy names. None if they do not have the form that `places_of` gives to this profile."""
    if policy.profile != profile or not (policy.cap.is_absolute() and policy.state.is_absolute()):
        return None
    try:
        cap, state, base = (Path(os.path.realpath(one)) for one in (policy.cap, policy.state, _base()))
    except ValueError:  # it contains a NUL
        return None
    if not re.fullmatch(rf"{re.escape(profile)}-[0-9a-f]{{8}}", cap.parent.name):
        return None
    named = _below(base / cap.parent.name)
    return _below(_base() / cap.parent.name) if (cap, state) == (named.cap, named.state) else None


def is_ours(state: Path) -> bool:
    """Whether a directory lies where `places_of` puts state directories. False for a link that leads elsewhere."""
    return not state.is_symlink() and state.resolve().parent.parent == _base().resolve()


def is_claimed(places: Places, home: HermesHome) -> bool:
    """Whether the state directory exists and names this home as the home that it belongs to."""
    return places.state.is_dir() and _said(places) == _real(home)


def claim(places: Places, home: HermesHome) -> None:
    """Create the state directory, and record in it that it belongs to this home."""
    try:
        make_directory(places.state)
        if _said(places) != _real(home):
            write_file(places.whose, _real(home), new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot make the directory {places.state}: {error.strerror}") from None


def _holder(places: Places) -> bytes | None:
    """The path of the home that a state directory belongs to. None if that home or its policy no longer exists."""
    said = _said(places)
    return said if said and os.path.exists(os.path.join(said, os.fsencode(FILE))) else None


def _said(places: Places) -> bytes:
    try:
        with open_file(places.whose) as file:
            return file.read(_LIMIT)
    except OSError:
        return b""


def _real(home: HermesHome) -> bytes:
    return os.fsencode(os.path.realpath(home.path))


def _base() -> Path:
    return Path(platformdirs.user_data_dir("strongroom")) / "hermes"


def _below(directory: Path) -> Places:
    return Places(directory / _CAP, directory / _STATE, directory / _BEFORE, directory / _WHOSE)
